"""The demo: a simulated shop log as Parquet, and its metrics in SQL."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl

from rankql.core.base.errors import RankqlError
from rankql.core.base.writing import write_file

SHOP = """\
SELECT coalesce(segment, 'all')            AS segment,
       count(*)                            AS queries,
       count(*) - count("nDCG@10")         AS undefined,
       round(avg("nDCG@10"), 4)            AS "nDCG@10",
       round(avg("AP"), 4)                 AS "AP",
       round(avg("RR@10"), 4)              AS "RR@10",
       round(avg("P@5"), 4)                AS "P@5",
       round(avg("R@10"), 4)               AS "R@10"
FROM (
    SELECT segment, query,
           ndcg(rel, pos, 10)              AS "nDCG@10",
           ap(rel, pos)                    AS "AP",
           rr(rel, pos, 10)                AS "RR@10",
           precision_at(rel, pos, 5)       AS "P@5",
           recall_at(rel, pos, 10)         AS "R@10"
    FROM {shop}
    GROUP BY segment, query
)
GROUP BY GROUPING SETS ((segment), ())
ORDER BY count(*)
"""

# By segment: the share of queries, and how well the ranker predicts what users like.
SEGMENTS = {"new": (0.5, 0.6), "regular": (0.4, 1.2), "vip": (0.1, 2.0)}
PAGE = 20


def shop(queries: int = 20_000, seed: int = 7) -> pl.DataFrame:
    """Simulate a shop log: a ranked table with users and segments.

    The ranker shows 20 of 30 candidates per query. `rel` is what the user did: 3 bought the item,
    2 put it into the cart, 1 clicked, 0 saw it. It is NULL if the user did not scroll to the item.
    An item that was bought elsewhere, without being shown, has no `pos`.

    >>> shop(queries=100).columns
    ['user', 'segment', 'query', 'item', 'score', 'pos', 'rel']
    """
    columns = ["user", "segment", "query", "item", "score", "pos", "rel"]
    return pl.DataFrame(_rows(queries, random.Random(seed)), schema=columns, orient="row")


def _rows(queries: int, rng: random.Random) -> Iterator[tuple[object, ...]]:
    """Draw the rows of the log, query by query."""
    segments, shares = [*SEGMENTS], [share for share, _ in SEGMENTS.values()]
    for query in range(queries):
        (segment,) = rng.choices(segments, shares)
        user = f"{segment}{int(rng.random() * queries / 4)}"
        liking = {f"item{int(rng.random() * 5000)}": rng.gauss(0, 1) for _ in range(30)}
        skill = SEGMENTS[segment][1]
        scores = {item: skill * value + rng.gauss(0, 1) for item, value in liking.items()}
        depth = 5 + int(rng.random() * PAGE)
        for pos, item in enumerate(sorted(scores, key=lambda i: (-scores[i], i)), 1):
            rel = sum(liking[item] + rng.gauss(0, 0.5) > step for step in (1.3, 1.9, 2.5))
            if pos <= PAGE:
                grade = rel if pos <= depth else None
                yield user, segment, f"q{query}", item, round(scores[item], 4), pos, grade
            elif rel == 3:
                yield user, segment, f"q{query}", item, None, None, rel


# By segment: how much a new ranker improves on the old one.
IMPROVEMENT = {"new": 0.12, "regular": 0.03, "vip": -0.06}


def reranked(log: pl.DataFrame) -> pl.DataFrame:
    """Score the same items with another simulated ranker: query, item, score.

    >>> reranked(shop(queries=100)).columns
    ['query', 'item', 'score']
    """
    rng = random.Random(8)
    ranked = log.filter(pl.col("pos").is_not_null())
    change = pl.col("segment").replace_strict(IMPROVEMENT) * pl.col("rel").fill_null(0)
    noise = pl.Series([rng.gauss(0, 0.2) for _ in range(len(ranked))])
    return ranked.select("query", "item", score=(pl.col("score") + change + noise).round(4))


def write_shop(folder: Path, queries: int = 20_000) -> Path:
    """Write the log to `folder/shop.parquet`, and the run of the other ranker to `new.parquet`.

    Files of that name are replaced if their metadata says that this function wrote them.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RankqlError(f"Cannot write {str(folder)!r}: {error.strerror}") from error
    path, run = folder / "shop.parquet", folder / "new.parquet"
    for target in filter(Path.is_file, (path, run)):
        with suppress(pl.exceptions.PolarsError):  # it is not a Parquet file
            if _MARK.items() <= pl.read_parquet_metadata(target).items():
                continue
        raise RankqlError(f"output: {str(target)!r} exists, and is not of the demo. Pass another "
                          "folder")  # fmt: skip
    log = shop(queries)
    for frame, target in ((log, path), (reranked(log), run)):
        with write_file(target) as temporary:
            frame.write_parquet(temporary, metadata=_MARK)
    return path


# In the metadata of the files.
_MARK = {"rankql": "demo"}

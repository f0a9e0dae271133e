"""The sections of the report on ranks and differences."""

import polars as pl
import pytest

import rankql

pytestmark = pytest.mark.report

RANKS = {"a": 1, "b": 2, "c": 9}
QUERIES = [f"q{i}" for i in range(12)]


def run(pos):
    """One relevant item per query, at this position; every third time one below."""
    rows = [(q, f"x{p}", p) for q in QUERIES for p in range(1, 12)]
    frame = pl.DataFrame(rows, schema=["query", "item", "pos"], orient="row")
    place = pos + (pl.col("query").str.slice(1).cast(pl.Int64) % 3 == 0).cast(pl.Int64)
    return frame.with_columns(
        item=pl.when(pl.col("pos") == place).then(pl.lit("hit")).otherwise("item")
    )


RUNS = {name: run(pos) for name, pos in RANKS.items()}
GONE = pl.DataFrame({"query": QUERIES, "item": "gone", "rel": 2})
QRELS = pl.concat([GONE.with_columns(item=pl.lit("hit"), rel=pl.lit(1, pl.Int32)), GONE])


@pytest.fixture(scope="module")
def comparison():
    return rankql.compare(RUNS, QRELS, ["RR@10", "nDCG@10"])


def make(section, comparison):
    from rankql.output.report_source import open_source
    from rankql.output.texts import Texts

    with open_source(comparison, Texts(None)) as source:
        return section(source)


def test_leaderboard(comparison):
    from rankql.output.report_sections import make_ranks_section

    section = make(make_ranks_section, comparison)
    assert section.tables[0].rows[1:] == [["a", "▲ 1", "▲ 1"], ["b", "2", "2"], ["c", "3", "3"]]
    (rows,) = comparison.plot("ranks", "RR@10").to_dict()["datasets"].values()
    columns = ("system", "ranks", "maybe_best")
    ranks = [tuple(row[name] for name in columns) for row in rows]
    assert ranks == [("a", "1", True), ("b", "2", False), ("c", "3", False)]
    against = rankql.compare(RUNS, QRELS, "RR", baseline="a")
    assert make(make_ranks_section, against) is None
    with pytest.raises(rankql.RankqlError, match="leaderboard needs all pairs"):
        against.plot("ranks")

"""Evaluate by the reduction and by the readable query, which must give the same."""

import random
from unittest.mock import patch

import polars as pl
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation.evaluate import evaluate_in_duckdb
from rankql.sources.request import RankingRules, Request, parse_groupings


def make_request(run, qrels, metrics, by=(), **options):
    """The request of `evaluate`."""
    names = ("con", "weight", "interval", "attributes", "cluster")
    of_evaluate = {name: options.pop(name) for name in names if name in options}
    rules = RankingRules.of(options, rankql.evaluate)
    groupings = parse_groupings(by)
    return Request(run, qrels, metrics, rules, groupings=groupings, **of_evaluate)


def evaluate(*args, reduces, **options):
    """The result, or the error. reduces: may rankings be reduced? Without threads they are not."""
    with patch("rankql.evaluation.reduce.may_lack_threads", lambda: not reduces):
        try:
            return evaluate_in_duckdb(make_request(*args, interval=None, **options))
        except rankql.RankqlError as error:
            return str(error)


def require_equal(left, right):
    """The same rows in their order, numbers to 1e-12, NULL where NULL."""
    assert_frame_equal(left, right, abs_tol=1e-12, rel_tol=1e-12)


def compare(run, qrels, metrics, **options):
    """The result or the error, which must be that of the readable query."""
    reduced, readable = (evaluate(run, qrels, metrics, reduces=p, **options) for p in (True, False))
    if isinstance(reduced, str) or isinstance(readable, str):
        assert str(reduced) == str(readable)
        return reduced
    require_equal(reduced.per_query, readable.per_query)
    require_equal(reduced.summary, readable.summary)
    assert reduced.notes == readable.notes
    return reduced


def frame(rows, rel=pl.Float64, pos=pl.Int64):
    """Rows (query, rel, pos) as a ranked table."""
    table = pl.DataFrame(rows, {"query": pl.Int64, "rel": rel, "pos": pos}, orient="row")
    return table.with_columns(item=pl.int_range(pl.len()))


def ranked(end, seed=1, queries=120, most=120):
    """Rankings with gaps, unjudged items and such as were not retrieved; some have no gain."""
    rng = random.Random(f"{end} {seed}")
    rows = []
    for query in range(queries):
        grades = [*range(end + 1), None, 0] if query % 7 else [0, None] if query % 2 else [None]
        if query % 11 == 0:  # full of the highest grade, or of others
            grades = [end] if query % 2 else range(1, end + 1)
        places = rng.sample(range(1, most), rng.choice([1, 3, 20, most - 1]))
        rows += [(query, rng.choice(grades), pos) for pos in places]
        rows += [(query, rng.choice(grades), None) for _ in range(rng.choice([0, 0, 2, 9]))]
    rows.append((queries, end, 1))
    rng.shuffle(rows)
    return frame(rows)


def score(table, tied=3):
    """The table with scores, of which so many are the same."""
    return table.with_columns(score=1.0 - pl.col("pos") // tied).drop("pos")


def join(table):
    """The same as a run and judgments, with queries on one side only."""
    place = "score" if "score" in table.columns else "pos"
    run = table.filter(pl.col("query") != 3).select("query", "item", place)
    qrels = table.filter(pl.col("rel").is_not_null(), pl.col("query") != 5)
    return run, qrels.select("query", "item", "rel")


SHAPES = {
    "ranked": lambda table: (table, None),
    "ranked without items": lambda table: (table.drop("item"), None),
    "ranked by score": lambda table: (score(table), None),
    "ranked by other scores": lambda table: (score(table, 1), None),
    "joined": join,
    "joined by score": lambda table: join(score(table)),
    "joined by other scores": lambda table: join(score(table, 1)),
}

"""Positions of 0 and -1: the top, or items that were not retrieved."""

import polars as pl
import pytest

import rankql
from support.reading import asked

# The ranks from 1 of judged items, None of those that were not retrieved.
RANKS = {"a": [2, 1, None], "b": [None, 1, None], "c": [2, 1]}
GRADES = {"a": [0, 1, 2], "b": [1, 0, 0], "c": [1, 0]}
MEAN = (1 + 0 + 1 / 2) / 3


def log(write, name="rank"):
    rows = [
        (q, f"{q}{n}", g, write(p)) for q, ranks in RANKS.items()
        for n, (p, g) in enumerate(zip(ranks, GRADES[q], strict=True))
    ]  # fmt: skip
    return pl.DataFrame(rows, ["query", "item", "rel", name], orient="row")


@pytest.mark.parametrize(("name", "missing", "first", "call"), [
    ("rank", 0, 1, "nullif(rank, 0)"), ("rank", -1, 1, "nullif(rank, -1)"),
    ("rank", -1, 0, "nullif(rank, -1) + 1"), ("pos", -1, 0, "nullif(pos, -1) + 1"),
])  # fmt: skip
def test_a_number_for_not_retrieved_is_null(name, missing, first, call):
    data = log(lambda p: missing if p is None else p - 1 + first, name)
    question = asked(data)
    assert question.calls == [{"pos": call}] and "add 1" not in str(question)
    assert rankql.evaluate(data, metrics="RR", interval=None, pos=call)["RR"] == MEAN


def test_zero_in_every_query_is_the_top():
    data = log(lambda p: p).drop_nulls().with_columns(pl.col("rank") - 1)
    question = asked(data)
    assert question.calls == [{"pos": "rank + 1"}] and "counts from 0 in each query" in str(
        question
    )


def test_zero_in_some_queries_may_be_either():
    rows = [("a", "x", 0, 0), ("a", "y", 1, 2), ("b", "x", 1, 1), ("b", "w", 0, 4)]
    question = asked(pl.DataFrame(rows, ["query", "item", "rel", "pos"], orient="row"))
    assert question.calls == [{"pos": "pos + 1"}, {"pos": "nullif(pos, 0)"}]
    assert "positions count from 0" in str(question) and "0 is not retrieved" in str(question)


@pytest.mark.parametrize("value", [-2, 1.5])
def test_other_numbers_are_errors(value):
    data = log(lambda p: p).with_columns(pl.col("rank").cast(pl.Float64).fill_null(value))
    with pytest.raises(rankql.RankqlError, match=f"whole number from 1, not {value}"):
        rankql.evaluate(data, metrics="RR")

"""Notes on several runs: one line where they say the same, with the range of their numbers."""

import polars as pl
import pytest

import rankql

GOLD = pl.DataFrame({"query": [f"q{i}" for i in range(20)], "item": "a", "rel": 1})


def run_with(tied=0, unranked=0):
    """A run with ties that decide in some queries, and rows without a score."""
    rows = [(f"q{i}", x, 1.0 if i < tied else 2.0 - (x == "b")) for i in range(20) for x in "ab"]
    rows += [(f"q{i}", "c", None) for i in range(unranked)]
    return pl.DataFrame(rows, ["query", "item", "score"], orient="row")


def notes(**runs):
    return rankql.evaluate(runs, GOLD, "nDCG@5", interval=None).notes


def test_different_numbers_of_many_runs_are_their_range_and_the_worst_run():
    runs = {f"r{i}": run_with(tied=2 + i, unranked=1 + i % 3) for i in range(10)}
    found = "\n".join(notes(**runs))
    assert "in 2 to 11 of 20 queries of 10 runs (most: 'r9'), item ids order equal scores" in found
    assert "1 to 3 of 41 to 43 rows of 10 runs (most: 'r2') have no score" in found
    assert found.count("item ids order") == found.count("have no score") == 1


def test_two_numbers_stay_a_line_each():
    runs = {"a": run_with(tied=5), "b": run_with(tied=6), "c": run_with(tied=6)}
    found = [x for x in notes(**runs) if "item ids order" in x]
    one, both = found
    assert "5 of 20 queries of run 'a'" in one and "each of run 'b' and run 'c'" in both


def test_missing_queries_of_many_runs_are_one_line():
    runs = {f"r{i}": run_with().filter(pl.col("query") > f"q1{i + 2}") for i in range(3)}
    (found,) = [x for x in notes(full=run_with(), **runs) if "missing from" in x]
    assert "are missing from 3 runs (most: 'r2')" in found and "% to " in found


def test_nothing_relevant_is_said_once():
    """Of rankings that metrics leave out, and of queries for which nothing should be shown."""
    gold = GOLD.with_columns(rel=pl.when(pl.int_range(pl.len()) < 5).then(0).otherwise(1))
    runs = {"a": run_with(), "b": run_with()}
    metrics = ["Success@5", "FalseAnswer"]
    found = rankql.evaluate(runs, gold, metrics, interval=None).notes
    about = [x for x in found if "relevant" in x]
    assert about == [
        "5 of 20 queries have nothing relevant: Success@5 leaves them out; FalseAnswer counts what "
        "is shown for them"
    ]
    alone = rankql.evaluate(runs, gold, "Success@5", interval=None).notes
    assert any("leaves out 10 of 40 rankings" in x for x in alone)


def test_runs_that_share_no_query_are_asked_about():
    """A part has no value for a query of another one; 0 is none."""
    gold = {"a": ["y"], "b": ["z"], "c": ["v"]}
    parts = {"easy": {"a": ["x", "y"]}, "hard": {"b": ["z"], "c": ["x"]}}
    with pytest.raises(rankql.RankqlError, match="No two runs share a query") as error:
        rankql.evaluate(parts, gold, "RR")
    (call,) = error.value.remedies
    assert rankql.evaluate(parts, gold, "RR", **call).summary["mean"].to_list() == [0.5, 0.5]
    zero = rankql.evaluate(parts, gold, "RR", missing="zero").summary["mean"].to_list()
    assert zero == pytest.approx([1 / 6, 1 / 3])
    parts["hard"] |= {"a": ["w"]}
    assert rankql.evaluate(parts, gold, "RR").summary["mean"].to_list() == zero


@pytest.mark.parametrize(
    ("gold", "noted"),
    [
        ({"a": ["y", "x"], "b": ["z", "w"]}, True),  # another order of the same
        ({"a": ["y", "x"], "b": ["z"]}, False),  # w is not relevant
        ({"a": ["x", "y"], "b": ["w", "z", "v"]}, False),  # v is not found
        ({"a": {"x": 2, "y": 1}, "b": {"w": 1, "z": 1}}, False),  # graded
        ({"a": {"x": 1, "y": 1}, "b": {"w": 1, "z": 0}}, False),
    ],
)
def test_judgments_that_are_another_order_of_the_run_are_noted(gold, noted):
    result = rankql.evaluate({"a": ["x", "y"], "b": ["w", "z"]}, gold, "nDCG@10")
    assert any("any order has the same value" in x for x in result.notes) is noted
    shares = rankql.evaluate({"a": ["x", "y"], "b": ["w", "z"]}, gold, "R@2")
    assert not any("any order" in x for x in shares.notes)


def test_single_relevant_items_that_are_all_found_are_not_noted():
    result = rankql.evaluate({"a": ["x"], "b": ["w", "z"]}, {"a": ["x"], "b": ["w"]}, "RR")
    assert result["RR"] == 1 and not any("any order" in x for x in result.notes)

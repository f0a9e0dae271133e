"""Means and intervals of an evaluation."""

import dataclasses
import os
import random

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.special import expit, logit
from scipy.stats import t

import rankql
from rankql.core.evaluation.means.means import summarise
from rankql.core.tables import private
from support.parameters import cycled, few


def test_intervals_stay_in_the_range():
    """RR@10 of mostly 1: mean ± t reaches beyond 1; on the logit scale nothing does."""
    pos = [1] * 18 + [2, 3]
    ranked = pl.DataFrame({"query": range(20), "rel": 1, "pos": pos, "score": [-p for p in pos]})
    values = 1 / np.array(pos)
    mean, error = values.mean(), values.std(ddof=1) / 20**0.5
    reach = t.ppf(0.975, 19) * error
    assert mean + reach > 1
    row = rankql.evaluate(ranked, metrics="RR@10", interval="t").summary.row(0, named=True)
    assert (row["lo"], row["hi"]) == (pytest.approx(mean - reach, abs=1e-12), 1)
    row = rankql.evaluate(ranked, metrics="RR@10").summary.row(0, named=True)
    ends = expit(logit(mean) + np.array([-1, 1]) * reach / (mean * (1 - mean)))
    assert (row["lo"], row["hi"]) == pytest.approx(tuple(ends), abs=1e-12)
    # One bound only: cut there. All values are the same: see test_intervals.py.
    two = ranked[-2:]
    summary = rankql.evaluate(two, metrics=["MSE", "ARHR", "DCG", "Success@3"]).summary
    assert summary["lo"].to_list() == [0.0, 0.0, 0.0, pytest.approx(0.025**0.5)]
    assert summary["hi"][0] > summary["mean"][0] and summary["hi"][3] == 1
    # Kept negative gains take nDCG below 0: then there is no lower bound to stay above.
    signed = pl.DataFrame({"query": [1, 1, 2], "rel": [-1, 1, 1], "pos": [1, 2, 1]})
    row = rankql.evaluate(signed, metrics="nDCG", negative="keep").summary.row(0, named=True)
    assert row["lo"] < -1 and row["hi"] == 1


def rankings(queries, **columns):
    """Queries with the item x at position 1, which is relevant, and y at 2."""
    rows = {"item": ["x", "y"], "rel": [1, 0], "pos": [1, 2]} | columns
    return pl.DataFrame({"query": [*queries]}).join(pl.DataFrame(rows), how="cross")


NO_INTERVAL = "There is no confidence interval: it needs at least 2 queries"
NO_VALUE = "Note: {}: no query has a value"
UNDEFINED = rankings("ab", rel=0)


@few(2)(
    ("tables", "options", "line"),
    [
        ((rankings("a"),), {"metrics": "AP"}, NO_INTERVAL),
        ((rankings("a").drop("rel"), rankings("ab").drop("pos")), {"missing": "skip"}, NO_INTERVAL),
        ((rankings("a"),), {"interval": None}, None),
        ((rankings("ab"),), {"metrics": ["AP", "microP@2"]}, None),
        ((rankings("ab", rel=3),), {"metrics": "DCG@1"}, f"{NO_INTERVAL} with different values"),
        ((rankings("a", rel=0),), {"metrics": "AP"}, NO_VALUE.format("AP")),
        ((UNDEFINED,), {"metrics": ["nDCG", "P@1", "AP"]}, NO_VALUE.format("nDCG and AP")),
        # One item is relevant, and was not retrieved.
        ((rankings("a", rel=[0, 1], pos=[1, None]),), {"metrics": "AUC"}, NO_VALUE.format("AUC")),
    ],
)
def test_lines_say_which_values_and_intervals_there_are_not(tables, options, line):
    printed = repr(rankql.evaluate(*tables, **options))
    for each in (NO_INTERVAL, "no query has a value"):
        assert (each in printed) == (each in (line or ""))
    assert (line or "mean") in printed


@pytest.mark.slow
def test_summaries_are_the_same_to_the_last_bit():
    """However many threads read the values."""
    draw = random.Random(7)
    values = pl.DataFrame({"query": range(400_000), "AP": [draw.random() for _ in range(400_000)]})
    result = rankql.read_values(values)
    for _ in range(8):
        assert_frame_equal(rankql.read_values(values).summary, result.summary, check_exact=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queries", "options"),
    cycled([1, 30, 1024, 2048, 2049], [{"by": "w"}, {}, {"weight": "w"}, {"system": "system"}]),
)
def test_small_means_are_reproducible(monkeypatch, options, queries):
    """In a database with many threads, or in one with a single thread."""
    table = pl.DataFrame({"query": range(queries)}).with_columns(w=(pl.col("query") % 5 + 1) / 7)
    for columns in ({"pos": range(1, 7)}, {"system": ["A", "B"] if "system" in options else ["A"]}):
        table = table.join(pl.DataFrame(columns), how="cross")
    table = table.with_columns(rel=(pl.col("query") * 6 + pl.col("pos")) * 7919 % 11 / 3)
    result = rankql.evaluate(table, metrics=["nDCG@3", "AP(threshold=2)", "DCG", "P@5"], **options)
    many = (duckdb.connect(config={"threads": 8}), set())
    monkeypatch.setitem(private._DATABASES, (os.getpid(), None), many)
    summaries = [dataclasses.replace(result, _summary=None).summary for _ in range(6)]
    monkeypatch.setattr("rankql.core.evaluation.result.result.ONE_CHUNK", 0)
    expected = dataclasses.replace(result, _summary=None).summary
    for summary in summaries:
        assert_frame_equal(summary, expected, check_exact=True)


@few(2)(
    ("missing", "undefined", "means"),
    [
        ("zero", "skip", [1 / 4, 1 / 8]),
        ("zero", "zero", [1 / 8, 1 / 8]),
        ("zero", 0, [1 / 8, 1 / 8]),
        ("zero", "drop", [1 / 4, 1 / 4]),
        ("skip", "skip", [1 / 2, 1 / 4]),
        ("skip", "zero", [1 / 4, 1 / 4]),
        ("skip", "drop", [1 / 2, 1 / 2]),
    ],
)
def test_missing_and_undefined_queries_are_counted_apart(missing, undefined, means):
    """By hand: a has RR 1/2, b nothing relevant; c and d are missing, d has nothing relevant."""
    run = pl.DataFrame({"query": list("aabb"), "item": list("xyxy"), "score": [1.0, 2, 1, 2]})
    qrels = pl.DataFrame({"query": list("abcd"), "item": ["x"] * 4, "rel": [1, 0, 1, 0]})
    options = {"missing": missing, "undefined": undefined}
    result = rankql.evaluate(run, qrels, ["RR", "microP@2"], **options)
    assert result.summary["mean"].to_list() == means
    counts = result.summary.select("queries", "undefined", "missing").rows()
    # A query that is left out as it is missing is not undefined too.
    count = 2 if missing == "zero" else 1
    assert counts == [(4, count, 2), (4, count * (undefined == "drop"), 2)]
    gate = rankql.gate(run, qrels=qrels, minimum=["RR>=0", "microP@2>=0"], **options)
    assert gate.table["mean"].to_list() == means


def test_equal_values_have_no_variance_whatever_sums_of_squares_leave():
    """In moments that another engine has added up, which lose the last digits."""
    meta = rankql.evaluate(rankings("ab"), metrics="AP").meta
    moments = pl.DataFrame({
        "i": 0, "micro": False, "n": 1000, "mean": 0.3 + 1e-15, "variance": 1e-18, "skewness": 0.1,
        "least": 0.3, "most": 0.3, "total": 300.0, "weights": 1000.0, "query_weights": 1000.0,
        "query_squares": 1000.0, "queries": 1000, "undefined": 0, "missing": 0,
    })  # fmt: skip
    with duckdb.connect() as con:
        con.register("moments", moments)
        (row,) = summarise(con, meta, "auto", 0.95, "moments").rows(named=True)
    share = 0.025 ** (1 / 1000)
    assert row["mean"] == 0.3
    assert (row["lo"], row["hi"]) == pytest.approx((0.3 * share, 1 - 0.7 * share), abs=1e-15)


def test_means_lose_no_digits():
    """A plain average of ten 0.1 is less than 0.1."""
    ranked = pl.DataFrame({"query": range(10), "item": "x", "rel": 0.1, "pos": 1})
    assert rankql.evaluate(ranked, None, "own = sum(rel)")["own"] == 0.1


@few(2)(
    ("relevant", "options", "noted", "output"),
    [
        (15, {}, True, None),
        (19, {}, False, None),
        (15, {"undefined": "zero"}, False, "values.parquet"),
        (15, {"weight": "traffic"}, True, "values.parquet"),
        (15, {"by": "shop"}, True, None),
    ],
)
def test_a_hit_rate_of_some_queries_says_so(relevant, options, noted, output, tmp_path):
    """Every query with a relevant item has a hit, of 20 queries."""
    ranked = pl.DataFrame({"query": range(20), "item": "a", "pos": 1, "traffic": 3}).with_columns(
        rel=pl.col("query") < relevant, shop=pl.col("query") % 2
    )
    output = output and tmp_path / output
    result = rankql.evaluate(ranked, metrics=["HR@10", "R@10"], output=output, **options)
    notes = [note for note in result.notes if note.startswith("HR@10 leaves out")]
    assert len(notes) == noted
    assert all(f"out {20 - relevant} of 20 rankings" in note for note in notes)

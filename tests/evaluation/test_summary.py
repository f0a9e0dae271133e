"""Means and intervals of an evaluation."""

import dataclasses
import os
import random
import subprocess
import sys

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation.values import Request, identify
from rankql.sources import frames, private
from rankql.stats.means import logistic_interval
from support.random_runs import EXPECTED, QRELS, RUN, with_segments


def test_intervals():
    from scipy.stats import t

    values = EXPECTED["AP"].drop_nulls().to_numpy()
    row = rankql.evaluate(RUN, QRELS, "AP", interval="t", confidence=0.9).summary.row(0, named=True)
    wanted = t.interval(
        0.9, len(values) - 1, values.mean(), values.std(ddof=1) / len(values) ** 0.5
    )
    assert (row["lo"], row["hi"]) == pytest.approx(wanted, abs=1e-12)


def test_intervals_stay_in_the_range():
    """RR@10 of mostly 1: mean ± t reaches beyond 1; on the logit scale nothing does."""
    from scipy.special import expit, logit
    from scipy.stats import t

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


@pytest.mark.parametrize("unjudged", ["zero", "bounds"])
def test_every_interval_holds_its_mean(unjudged):
    names = ["nDCG@3", "AP", "RR@10", "P@2", "R@2"]
    for interval in ("auto", "t"):
        result = rankql.evaluate(
            RUN, QRELS, names, by="segment", attributes=with_segments(), interval=interval,
            unjudged=unjudged,
        )  # fmt: skip
        for row in result.summary.drop_nulls("lo").to_dicts():
            assert 0 <= row["lo"] <= row["mean"] <= row["hi"] <= 1


def test_coverage_of_intervals():
    """2,000 samples of 20 skewed values: the logit covers more often than mean ± t."""
    from scipy.stats import t

    rng = np.random.default_rng(1)
    values = rng.beta(0.3, 6, (2000, 20))
    means, widths = values.mean(1), t.ppf(0.975, 19) * values.std(1, ddof=1) / 20**0.5

    def coverage(ends):
        return np.mean([low <= 0.3 / 6.3 <= high for low, high in ends])

    logistic = [logistic_interval(*x, 0, 1) for x in zip(means, widths, strict=True)]
    student = zip(means - widths, means + widths, strict=True)
    assert coverage(logistic) > 0.91 > 0.9 > coverage(student)


def test_bounds_of_one_query_have_no_interval():
    one = pl.DataFrame({"query": ["q"], "item": ["a"], "rel": [1], "pos": [1]})
    row = rankql.evaluate(one, metrics="AP").summary.row(0, named=True)
    assert (row["mean"], row["lo"], row["hi"]) == (1.0, None, None)


def test_a_line_says_which_metrics_have_no_value():
    result = rankql.evaluate(RUN, QRELS.with_columns(rel=0), ["nDCG", "P@1", "AP"])
    note = "Note: nDCG and AP: no query has a value. Is any item relevant?"
    assert note in repr(result)
    assert "no query has a value" not in repr(rankql.evaluate(RUN, QRELS, ["nDCG", "P@1"]))


def test_a_line_says_that_equal_values_have_no_interval():
    ranked = pl.DataFrame({"query": [1, 2], "pos": 1, "rel": 3})
    result = rankql.evaluate(ranked, None, "DCG@1")
    line = "There is no confidence interval: it needs at least 2 queries with different values"
    assert line in repr(result)


def test_one_query_has_no_interval_and_a_line_that_says_so():
    """Also if others are missing and skipped. An undefined mean keeps its column."""
    one = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": [1, 0], "pos": [1, 2]})
    line = "There is no confidence interval: it needs at least 2 queries"
    assert line in repr(rankql.evaluate(one, metrics="AP"))
    two = pl.concat([one, one.with_columns(query=pl.lit("b"))])
    options = {"metrics": "AP", "missing": "skip"}
    assert line in repr(rankql.evaluate(one.drop("rel"), two.drop("pos"), **options))
    assert line not in repr(rankql.evaluate(one, metrics="AP", interval=None))
    assert line not in repr(rankql.evaluate(two, metrics=["AP", "microP@2"]))
    undefined = rankql.evaluate(one.with_columns(rel=0), metrics="AP")
    assert line not in repr(undefined) and "mean" in repr(undefined)


def test_intervals_need_no_scipy():
    """Same code, same columns and same numbers, whether or not scipy is installed."""
    script = """
import sys
from importlib import util
found = util.find_spec
util.find_spec = lambda name, *more: None if name == "scipy" else found(name, *more)
sys.modules["scipy"] = None
import polars as pl, rankql
ranked = pl.DataFrame({"query": ["q", "r", "s"], "rel": [1, 1, 1], "pos": [1, 2, 4]})
for interval in ("auto", "t"):
    print(*rankql.evaluate(ranked, metrics="DCG", interval=interval).summary.row(0))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    rows = done.stdout.splitlines()
    ranked = pl.DataFrame({"query": ["q", "r", "s"], "rel": [1, 1, 1], "pos": [1, 2, 4]})
    expected = [
        " ".join(map(str, rankql.evaluate(ranked, metrics="DCG", interval=x).summary.row(0)))
        for x in ("auto", "t")
    ]
    assert rows == expected and "None" not in "".join(rows)


def test_summaries_are_the_same_to_the_last_bit():
    """However many threads read the values."""
    draw = random.Random(7)
    values = pl.DataFrame({"query": range(400_000), "AP": [draw.random() for _ in range(400_000)]})
    result = identify(values, "values", Request()).result
    for _ in range(8):
        assert_frame_equal(
            identify(values, "values", Request()).result.summary, result.summary, check_exact=True
        )


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"weight": "w"}, {"system": "system"}, {"by": "w"}])
@pytest.mark.parametrize("queries", [1, 30, 1024, 2048, 2049])
def test_small_means_are_reproducible(monkeypatch, options, queries):
    """In a database with many threads, or in one with a single thread."""
    grades = pl.int_range(queries * 6) * 7919 % 11 / 3
    positions = pl.DataFrame({"pos": range(1, 7)})
    table = pl.DataFrame({"query": range(queries)}).join(positions, how="cross")
    table = table.with_columns(rel=grades, w=(pl.col("query") % 5 + 1) / 7)
    systems = [table.with_columns(system=pl.lit(name)) for name in "AB"]
    run = pl.concat(systems) if "system" in options else table
    result = rankql.evaluate(run, metrics=["nDCG@3", "AP(threshold=2)", "DCG", "P@5"], **options)
    many = (duckdb.connect(config={"threads": 8}), set())
    monkeypatch.setitem(private._DATABASES, (os.getpid(), None), many)
    found = [dataclasses.replace(result, _summary=None).summary for _ in range(6)]
    monkeypatch.setattr(frames, "ONE_CHUNK", 0)
    for each in found:
        assert_frame_equal(
            each, dataclasses.replace(result, _summary=None).summary, check_exact=True
        )


@pytest.mark.parametrize(
    ("missing", "undefined", "means"),
    [
        ("zero", "skip", [1 / 4, 1 / 8]),
        ("zero", "zero", [1 / 8, 1 / 8]),
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
    assert counts == [(4, 2, 2), (4, 2 if undefined == "drop" else 0, 2)]
    gate = rankql.gate(run, qrels=qrels, minimum=["RR>=0", "microP@2>=0"], **options)
    assert gate.table["mean"].to_list() == means


def test_means_lose_no_digits():
    """A plain average of ten 0.1 is less than 0.1."""
    ranked = pl.DataFrame({"query": range(10), "item": "x", "rel": 0.1, "pos": 1})
    assert rankql.evaluate(ranked, None, "own = sum(rel)")["own"] == 0.1


@pytest.mark.parametrize("output", [None, "values.parquet"])
@pytest.mark.parametrize(("relevant", "options", "noted"), [
    (15, {}, "0.750"), (19, {}, None), (15, {"undefined": "zero"}, None),
    (15, {"weight": "traffic"}, "0.750"), (15, {"by": "shop"}, "0.750"),
])  # fmt: skip
def test_a_hit_rate_that_leaves_many_queries_out_says_so(
    relevant, options, noted, output, tmp_path
):
    """Every query with a relevant item has a hit, of 20 queries."""
    rows = [(i, "a", 1, int(i < relevant), i % 2, 3) for i in range(20)]
    names = ["query", "item", "pos", "rel", "shop", "traffic"]
    ranked = pl.DataFrame(rows, schema=names, orient="row")
    output = output and tmp_path / output
    result = rankql.evaluate(ranked, metrics=["HR@10", "R@10"], output=output, **options)
    notes = [note for note in result.notes if note.startswith("HR@10 counts only")]
    assert len(notes) == (noted is not None)
    assert all(f"the {relevant} queries" in note and noted in note for note in notes)
    systems = rankql.evaluate({"x": ranked, "y": ranked}, metrics="HR@10", **options)
    assert ("0.750 for y" in " ".join(systems.notes)) == (noted is not None)

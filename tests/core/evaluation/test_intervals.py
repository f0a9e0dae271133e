"""Intervals of means in Python: Student's quantile against the macro, and the ends of ranges."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import special, stats

import rankql
from rankql import RankqlError
from rankql.core.stats.means import (
    Interval,
    logistic_interval,
    mean_interval,
    skewed_interval,
    t_quantile,
)
from rankql.core.stats.sample import Sample
from support.parameters import cycled, few


@pytest.mark.parametrize("p", [0.5, 0.505, 0.75, 0.95, 0.975, 0.995, 0.9995, 0.99995])
def test_quantile_is_that_of_scipy(p):
    """As test_t_quantile.py has it of the macro."""
    df = [1.5, 3.9, *range(1, 60), *range(60, 1100, 13), 5000, 10**6, 10**9, 10**12]
    values = [t_quantile(p, each) for each in df]
    np.testing.assert_allclose(values, special.stdtrit(df, p), rtol=1e-11)


def test_quantile_far_out_is_limited_by_the_digits_of_its_level():
    for p in (1 - 1e-10, 1 - 1e-13):
        df = [1, 2, 3, 10, 100, 1000, 1001, 10**6]
        values = [t_quantile(p, each) for each in df]
        exact = special.stdtrit(df, p)
        # The tail 1 - p has an error of about 1e-16, and t**df is proportional to 1 / tail.
        np.testing.assert_allclose(values, exact, rtol=4e-16 / (1 - p) + 1e-10)


def test_a_mean_next_to_the_end_of_the_range():
    for mean in (0.0, 1e-300, 1e-12, 1 - 1e-12, 1.0):
        for low, high in (logistic_interval(mean, 0.1, 0, 1),
                          Interval(mean - 0.1, mean + 0.1).within(0, 1)):  # fmt: skip
            assert 0 <= low <= mean <= high <= 1


@pytest.mark.parametrize("interval", ["auto", "t"])
def test_one_value_has_no_interval(interval):
    run = pl.DataFrame({"query": ["a", "b", "c"], "item": ["x", "y", "x"], "score": 1.0})
    qrels = pl.DataFrame({"query": ["a", "b", "c"], "item": ["x"] * 3, "rel": 1})
    about = pl.DataFrame({"query": ["a", "b", "c"], "part": ["most", "most", "one"]})
    options = {"by": "part", "attributes": about, "interval": interval}
    *_, one = rankql.evaluate(run, qrels, "RR", **options).summary["slice", "mean", "lo"].rows()
    assert one == ("part=one", 1, None)


@few(3)(
    ("confidence", "interval", "weight"),
    cycled([1e-9, 0.5, 0.99999, 1 - 1e-12, 1 - 2.0**-53] * 2, ["auto", "t"], [None, None, "w"]),
)
def test_any_confidence(confidence, interval, weight):
    """Also 1 - 2**-53: half of 1 + confidence is rounded to 1."""
    ranked = pl.DataFrame(
        {"query": [1, 1, 2, 2], "pos": [1, 2, 1, 2], "rel": [1, 0, 0, 1], "w": 2.0}
    )
    options = {"confidence": confidence, "interval": interval, "weight": weight}
    result = rankql.evaluate(ranked, None, "RR", **options)
    row = result.summary.row(0, named=True)
    assert 0 <= row["lo"] <= row["mean"] <= row["hi"] <= 1
    assert math.isclose(row["mean"], 0.75)


@few(2)(("n", "weight"), cycled([1, 2, 6, 50], [None, "w", "w", None]))
def test_equal_values_are_no_certainty(weight, n):
    """For 0 and 1, the exact interval of a share."""
    options = {"confidence": 0.9, "weight": weight}
    for successes, rel in ((n, 1), (0, 0)):
        ranked = pl.DataFrame({"query": range(n), "pos": 1, "rel": rel, "w": 2.0})
        result = rankql.evaluate(ranked, None, ["P@1", "CG@1"], **options)
        values = result.summary.filter(metric="P@1").select("lo", "hi").row(0)
        exact = stats.binomtest(successes, n).proportion_ci(0.9, "exact")
        assert values == (pytest.approx(tuple(exact)) if n > 1 else (None, None))
        # The sum of grades has no highest value.
        assert result.summary.filter(metric="CG@1").select("lo", "hi").row(0) == (None, None)


def ranked(values, **columns):
    """A ranked table with one item per query, whose grades are the values."""
    rows = {"query": range(len(values)), "item": "a", "rel": values, "pos": 1}
    return pl.DataFrame(rows | columns)


@few(1)(
    ("metric", "options"),
    cycled(["DCG@1", "P@1"], [{}, {"weight": "w"}, {"cluster": "user"},
                              {"weight": "w", "cluster": "user"}, {"cluster": "user"}]),
)  # fmt: skip
def test_the_interval_is_that_of_the_sample(metric, options):
    """Skewness, weights and clusters: the function that compare and gate call."""
    rng = np.random.default_rng(4)
    values = rng.lognormal(0, 1, 60)
    users, weights = rng.integers(0, 15, 60), rng.random(60) + 0.1
    table = ranked(values, user=users, w=weights)
    row = rankql.evaluate(table, metrics=metric, **options).summary.row(0, named=True)
    if metric == "P@1":
        values = 1.0 * (values >= 1)
    codes = np.unique(users, return_inverse=True)[1] if "cluster" in options else None
    highest = 1.0 if metric == "P@1" else math.inf
    sample = Sample(values, codes, weights if "weight" in options else None, 0.0, highest)
    expected = mean_interval(sample.moments, 0.95)
    assert (row["lo"], row["hi"]) == pytest.approx(expected, rel=1e-9)


def test_clusters(tmp_path):
    values = np.repeat(np.random.default_rng(2).integers(0, 2, 40), 5)
    table, path = ranked(values, user=np.repeat(range(40), 5)), tmp_path / "values.parquet"
    plain = rankql.evaluate(table, metrics="P@1", by="user")
    result = rankql.evaluate(table, metrics="P@1", cluster="user")
    assert any("40 clusters" in note for note in result.notes)
    widths = [x.summary["hi"][0] - x.summary["lo"][0] for x in (plain, result)]
    assert widths[1] > 2 * widths[0]
    result.save_values(path)
    assert rankql.combine([path]).summary.equals(result.summary)
    both = rankql.compare({"a": table, "b": table}, metrics="P@1", cluster="user").summary
    assert both["lo"].to_list() == [result.summary["lo"][0]] * 2
    for data, cluster, message in (
        (table, "usr", "cluster="),
        (table.with_columns(user=None), "user", "user is NULL"),
    ):
        with pytest.raises(RankqlError, match=message):
            rankql.evaluate(data, metrics="P@1", cluster=cluster)


@few(4)(
    ("metric", "values", "noted"),
    [
        ("DCG@1", [0] * 19 + [30], True),
        ("DCG@1", range(1, 21), False),
        # RR of 1/2 for three of 20 queries, and none for the others.
        ("RR", [0] * 17 + [1] * 3, True),
        ("RR", [0] * 10 + [1] * 10, False),
        # 0 and 1 alone, which the interval of the logit holds.
        ("P@1", [0] * 17 + [1] * 3, False),
        ("RR", [0] * 6 + [1] * 2, False),
    ],
)
@pytest.mark.parametrize("options", [{}, {"weight": "w"}, {"cluster": "w2"}])
def test_too_few_queries_for_the_skewness_are_noted(metric, values, noted, options):
    table = ranked([float(x) for x in values], w=2.0, w2=range(len(values)))
    if metric == "RR":
        table = table.with_columns(pos=2, rel=1, missed=pl.col("rel") == 0).with_columns(
            pos=pl.when(~pl.col("missed")).then("pos")
        )
    result = rankql.evaluate(table, metrics=metric, **options)
    assert ("skewed" in repr(result)) is ("skewed" in result.to_json()) is noted


def test_a_note_on_skewed_values_names_the_slices():
    values = [0.0] * 19 + [30.0] + [float(x) for x in range(1, 201)]
    table = ranked(values, part=["few"] * 20 + ["many"] * 200)
    note = "DCG@1: few queries in part=few for values this skewed"
    assert note in repr(rankql.evaluate(table, metrics="DCG@1", by="part"))
    two = pl.concat([table, table.with_columns(pl.col("query") + 500, part=pl.lit("less"))[:20]])
    note = "few queries in part=few, x=1; part=less, x=1 for values this skewed"
    two = two.with_columns(x=1)
    assert note in repr(rankql.evaluate(two, metrics="DCG@1", by=["part", "x"]))


@few(2)(
    ("columns", "noted"),
    [
        ({"user": [x // 2 for x in range(20)]}, True),
        ({"customerId": [x // 2 for x in range(20)]}, True),
        ({"user": range(20)}, False),
        ({"user": [1] * 20}, False),
        # Several users of a query are annotators.
        ({"user": [0, 1] * 10, "query": [x // 2 for x in range(20)]}, False),
        ({"segment": [0, 1] * 10}, False),
    ],
)
def test_users_with_several_queries_are_noted(columns, noted):
    table = ranked([1.0] * 20).with_columns(pos=pl.int_range(20) % 2 + 1, item=pl.int_range(20))
    table = table.with_columns(**{name: pl.Series(values) for name, values in columns.items()})
    notes = rankql.evaluate(table, metrics="P@1").notes
    assert any("cluster=" in note for note in notes) is noted


def test_intervals_of_sparse_metrics_that_miss_are_noted():
    """RR of 300 queries of which 8% find something, at 1 to 10."""
    rng, mean = np.random.default_rng(6), 0.08 * sum(1 / x for x in range(1, 11)) / 10
    draws = (rng.random((1000, 300)) < 0.08) / rng.integers(1, 11, (1000, 300))
    samples = [Sample(values, None, None, 0.0, 1.0).moments for values in draws]
    ends = [mean_interval(moments, 0.95) for moments in samples]
    missed = [
        moments.too_skewed
        for moments, (lo, hi) in zip(samples, ends, strict=True)
        if not lo <= mean <= hi
    ]
    assert np.mean(missed) > 0.8
    dense = (rng.random(300) < 0.5) / rng.integers(1, 3, 300)
    # Values at both ends of the range have the interval of a share, however skewed they are.
    ends = np.arange(300) < 5
    few = np.array([0.9, *[0.0] * 8])
    for values in (dense, ends.astype(float), few):
        assert not Sample(values, None, None, 0.0, 1.0).moments.too_skewed


def test_strong_skewness_narrows_no_interval():
    ends = [skewed_interval(0.0, 1.0, 2.0, slope) for slope in (0.0, 0.3, 1.0, 3.0)]
    assert [x.lo for x in ends] == [-2.0] * 4
    assert ends[1].hi == pytest.approx(2.725, abs=1e-3) and min(x.hi for x in ends[2:]) > 8


@few(2)(("n", "least"), [(20, 0.89), (50, 0.875), (100, 0.87)])
def test_intervals_of_0_and_1_contain_the_share(n, least):
    """Computed from the binomial distribution: the page says how often at least."""
    samples = (np.repeat([1.0, 0.0], [count, n - count]) for count in range(n + 1))
    ends = [mean_interval(Sample(x, None, None, 0.0, 1.0).moments, 0.95) for x in samples]
    assert None not in ends
    lo, hi = np.array(ends).T
    held = [
        ((lo <= share) & (share <= hi)) @ stats.binom.pmf(np.arange(n + 1), n, share)
        for share in [*np.geomspace(1e-4, 0.02, 900), *np.linspace(0.02, 0.5, 200)]
    ]
    assert least < min(held) < least + 0.01

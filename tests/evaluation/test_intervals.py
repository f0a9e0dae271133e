"""Intervals of means in Python: Student's quantile against the macro, and the ends of ranges."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import special, stats

import rankql
from rankql.stats.means import Interval, constant_interval, logistic_interval, t_quantile
from support.metric_engines import connection


@pytest.mark.parametrize("p", [0.5, 0.505, 0.75, 0.95, 0.975, 0.995, 0.9995, 0.99995])
def test_quantile_is_that_of_the_macro_and_of_scipy(p):
    df = [1.5, 3.9, *range(1, 60), *range(60, 1100, 13), 5000, 10**6, 10**9, 10**12]
    found = [t_quantile(p, each) for each in df]
    np.testing.assert_allclose(found, special.stdtrit(df, p), rtol=1e-11)
    df = [float(x) for x in df]
    frame = pl.DataFrame({"df": df})
    assert frame.height
    macro = connection().sql(f"SELECT rankql_t_quantile({p}, df) AS t FROM frame").pl()["t"]
    np.testing.assert_allclose(found, macro, rtol=1e-11)


def test_quantile_far_out_is_limited_by_the_digits_of_its_level():
    for p in (1 - 1e-10, 1 - 1e-13):
        df = [1, 2, 3, 10, 100, 1000, 1001, 10**6]
        found = [t_quantile(p, each) for each in df]
        exact = special.stdtrit(df, p)
        # The tail 1 - p has an error of about 1e-16, and t**df is proportional to 1 / tail.
        np.testing.assert_allclose(found, exact, rtol=4e-16 / (1 - p) + 1e-10)


def test_a_mean_next_to_the_end_of_the_range():
    for mean in (0.0, 1e-300, 1e-12, 1 - 1e-12, 1.0):
        for low, high in (logistic_interval(mean, 0.1, 0, 1),
                          Interval(mean - 0.1, mean + 0.1).within(0, 1)):  # fmt: skip
            assert 0 <= low <= mean <= high <= 1


@pytest.mark.parametrize("confidence", [1e-9, 0.5, 0.99999, 1 - 1e-12, 1 - 2.0**-53])
@pytest.mark.parametrize("interval", ["auto", "t"])
@pytest.mark.parametrize("weight", [None, "w"])
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


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("n", [1, 2, 6, 50])
def test_equal_values_are_no_certainty(weight, n):
    """For 0 and 1, the exact interval of a share."""
    options = {"confidence": 0.9, "weight": weight}
    for successes, rel in ((n, 1), (0, 0)):
        ranked = pl.DataFrame({"query": range(n), "pos": 1, "rel": rel, "w": 2.0})
        result = rankql.evaluate(ranked, None, ["P@1", "CG@1"], **options)
        found = result.summary.filter(metric="P@1").select("lo", "hi").row(0)
        exact = stats.binomtest(successes, n).proportion_ci(0.9, "exact")
        assert found == (pytest.approx(tuple(exact)) if n > 1 else (None, None))
        # The sum of grades has no highest value.
        assert result.summary.filter(metric="CG@1").select("lo", "hi").row(0) == (None, None)


@pytest.mark.parametrize("n", [2, 5, 100])
def test_equal_values_within_the_range(n):
    """Means beyond the interval give n equal values with a probability below alpha / 2."""
    low, high = constant_interval(0.3, n, 0, 1, 0.95)
    for end, other in ((low, 0), (high, 1)):
        share = (end - other) / (0.3 - other)
        assert share**n == pytest.approx(0.025)

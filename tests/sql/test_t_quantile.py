"""The quantile of Student's t distribution in SQL: scipy, closed forms and limits."""

import numpy as np
import polars as pl
from scipy import special, stats

from support.metric_engines import connection


def quantiles(p, df):
    con = connection()
    frame = pl.DataFrame({"p": p, "df": df}, schema={"p": pl.Float64, "df": pl.Float64})
    assert frame.height
    return con.sql("SELECT rankql_t_quantile(p, df) AS t FROM frame").pl()["t"]


def test_against_scipy():
    """Whole and fractional degrees of freedom, from the middle to the far tails."""
    rng = np.random.default_rng(7)
    df = np.concatenate([np.arange(1, 60), 10 ** rng.uniform(-0.3, 7, 300), [1e7, 1e10]])
    p = np.concatenate(
        [[1e-12, 1e-6, 0.001, 0.025, 0.1, 0.0999999, 0.25, 0.45, 0.55, 0.9], rng.uniform(0, 1, 12)]
    )
    df, p = (each.ravel() for each in np.meshgrid(df, np.concatenate([p, 1 - p])))
    result = quantiles(p, df).to_numpy()
    np.testing.assert_allclose(result, special.stdtrit(df, p), rtol=1e-10, atol=0)


def test_closed_forms():
    """Where scipy is off itself: next to the middle, and so far out that only logarithms hold."""
    near = 0.5 + np.array([1e-12, 1e-9, 1e-4])
    far = np.array([1e-250, 1e-200, 1e-30])
    for p in (near, far, 0.1 * near, 1 - near):
        x = np.sin(np.pi * (p - 0.5)) / np.sin(np.pi * p)
        np.testing.assert_allclose(quantiles(p, [1.0] * 3), x, rtol=1e-10)
        x = (2 * p - 1) / np.sqrt(2 * p * (1 - p))
        np.testing.assert_allclose(quantiles(p, [2.0] * 3), x, rtol=1e-10)
    # Many degrees of freedom: the normal distribution.
    p = np.array([1e-300, 1e-30, 0.025, 0.3, 0.5, 0.8, 0.999])
    for df in (1e13, 1e300, np.inf):
        np.testing.assert_allclose(quantiles(p, [df] * 7), stats.norm.ppf(p), rtol=1e-9)


def test_undefined():
    nan, inf = float("nan"), float("inf")
    p = [0.0, 1.0, -0.1, nan, None, 0.9, 0.9, 0.9, 0.9]
    df = [3.0, 3.0, 3.0, 3.0, 3.0, 0.0, -1.0, None, -inf]
    assert quantiles(p, df).to_list() == [None] * 9
    assert quantiles([0.5], [3.0]).to_list() == [0.0]

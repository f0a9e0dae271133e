"""In the long run: few false alarms, and fast ones.

`python tests/run_simulation.py --monitor` prints the rates.
"""

import duckdb
import numpy as np
import polars as pl
import pytest

import rankql
from research.monitor_simulation import SHAPES, dates, delays, draw, false_alarms, watch
from research.simulation import REPEATS, at_most
from support.parameters import cycled


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "weeks"), cycled([*SHAPES, "almost constant"], [3, 8]))
def test_the_rule_of_the_simulation_is_that_of_the_macro(shape, weeks):
    values = draw(shape, 20, 7 * weeks + 100, np.random.default_rng(5))
    values[::2, 7 * weeks + 50 :] -= 0.02
    alarms, outlying = watch(values, weeks, family=20)
    frame = pl.DataFrame({
        "series": np.repeat(np.arange(20), values.shape[1]), "value": values.ravel(),
        "day": dates(values.shape[1]) * 20,
    })  # fmt: skip
    con = duckdb.connect()
    rankql.register(con)
    con.register("daily", frame)
    found = con.sql(f"""FROM monitor_days('daily', DATE '{dates(7 * weeks)[-1]}',
        series := 'series') ORDER BY CAST(series AS INTEGER), day""").pl()
    for name, part, expected in (("alarm", np.s_[:, 7 * weeks :], alarms),
                                 ("outlying", np.s_[:, : 7 * weeks], outlying)):  # fmt: skip
        column = found[name].fill_null(False).to_numpy().reshape(20, -1)
        np.testing.assert_array_equal(column[part], expected)
    assert alarms.any() and not alarms.all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weeks", [4, 8])
@pytest.mark.parametrize(
    "years",
    [pytest.param(300, marks=pytest.mark.slow),
     pytest.param(REPEATS, marks=pytest.mark.simulation)],
)  # fmt: skip
def test_years_without_a_change(shape, weeks, years):
    """At most 5% have a false alarm in the metric, Judged@k or the undefined share."""
    assert at_most(false_alarms(shape, weeks, years), repeats=years)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_loss_of_two_points_is_found_within_eight_days(shape):
    assert at_most((delays(shape, 8, 1000) > 8).mean(), 0.02, repeats=1000)


@pytest.mark.simulation
@pytest.mark.parametrize("shape", SHAPES)
def test_many_series_together(shape):
    assert at_most(false_alarms(shape, 4, REPEATS // 10, 30), repeats=REPEATS // 10)

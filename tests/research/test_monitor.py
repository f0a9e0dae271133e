"""In the long run: few false alarms, and fast ones.

`python tests/run_simulation.py --monitor` prints the rates.
"""

from itertools import product

import numpy as np
import polars as pl
import pytest

from research import monitor_simulation as sim
from research.monitor_simulation import SHAPES, WEEK_SHAPES, dates, draw
from research.simulation import REPEATS, at_most
from support import metric_engines
from support.parameters import cycled, few


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "weeks", "cycle"), [
    *((*pair, 7) for pair in cycled([*SHAPES, "almost constant"], [3, 8])),
    *((shape, 4, 5) for shape in ("normal", "t5", "ar 0.4")),
    *((*pair, 1) for pair in cycled([*WEEK_SHAPES], [8, 12])),
])  # fmt: skip
def test_the_rule_of_the_simulation_is_that_of_the_macro(shape, weeks, cycle):
    old = cycle * weeks
    outages = slice(2, 4) if cycle == 1 else slice(cycle, 2 * cycle)
    values = draw(shape, 20, old + 100, np.random.default_rng(5), outages)
    values[::2, old + 50 :] -= 0.02
    alarms, outlying, means = sim.watch(values, weeks, family=20, cycle=cycle)
    days = [day for day in dates(len(values[0]) * 7 // cycle) if day.weekday() < cycle]
    frame = pl.DataFrame({
        "series": np.repeat(np.arange(20), len(days)), "value": values.ravel(), "day": days * 20,
    })  # fmt: skip
    con = metric_engines.connect()
    con.register("daily", frame)
    found = con.sql(f"""FROM monitor_days('daily', DATE '{days[old - 1]}', series := 'series',
        period := '{"week" if cycle == 1 else "day"}')
        ORDER BY CAST(series AS INTEGER), day""").pl()
    for name, part, expected in (("alarm", np.s_[:, old:], alarms),
                                 ("held", np.s_[:, old:], sim.hold(alarms, means)),
                                 ("outlying", np.s_[:, :old], outlying)):  # fmt: skip
        column = found[name].fill_null(False).to_numpy().reshape(20, -1)
        np.testing.assert_array_equal(column[part], expected)
    assert alarms.any() and not alarms.all()


@few(2)(("shape", "start", "days"), [
    ("normal", 200, 130), ("normal", 39, 105), ("laplace", 60, 130), ("laplace", 200, 40),
    ("weekends 3", 60, 105), ("weekends 3", 200, 63), ("ar 0.4", 100, 130), ("ar 0.4", 60, 62),
    ("outage", 200, 105), ("almost constant", 200, 63),
])  # fmt: skip
def test_the_baseline_grows_as_in_the_simulation(shape, start, days):
    """And the calls on the last day are those of the macros."""
    values = draw(shape, 6, days, np.random.default_rng(5))
    values[::2, start:] -= 0.02
    alarms, held, weeks = sim.call_daily(values, family=3)
    con = metric_engines.connection()
    for first in (0, 3):
        con.register("daily", pl.DataFrame({
            "series": np.repeat(np.arange(3), days), "day": dates(days) * 3,
            "value": values[first : first + 3].ravel()}))  # fmt: skip
        found = con.execute("""SELECT DISTINCT ON (series) baseline, alarm, held
            FROM monitor_days('daily', NULL, series := 'series', grow := true)
            ORDER BY CAST(series AS INTEGER), day DESC""").fetchall()
        rows = range(first, first + 3)
        expected = [(dates(days)[7 * weeks[i, -1] - 1], alarms[i, -1], held[i, -1]) for i in rows]
        assert found == expected


STEADY_WEEKS = [shape for shape in WEEK_SHAPES if shape not in sim.OTHER_WEEKS]
# Shapes, weeks of the baseline, series and days of a week.
YEARS = [
    *product(SHAPES, (None,), (3, 30), (7,)),
    *product(SHAPES, (4, 8), (3,), (7,)),
    *product(("normal", "t5", "laplace", "ar 0.4"), (3, 4), (3,), (5,)),
    *product(STEADY_WEEKS, (8,), (3,), (1,)),
    *product(STEADY_WEEKS, (12,), (3, 30), (1,)),
]


@pytest.mark.parametrize(("shape", "weeks", "series", "cycle"), YEARS)
@pytest.mark.parametrize(
    "years",
    [pytest.param(100, marks=pytest.mark.slow),
     pytest.param(REPEATS, marks=pytest.mark.simulation)],
)  # fmt: skip
def test_years_without_a_change(shape, weeks, series, cycle, years):
    """At most 5% have a false alarm in the metric, Judged@k or the undefined share."""
    years = years * 3 // series
    assert at_most(sim.false_alarms(shape, weeks, years, series, cycle=cycle), repeats=years)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_loss_of_two_points_is_found_within_eight_days(shape):
    assert at_most((sim.delays(shape, None, 400) > 8).mean(), 0.02, repeats=400)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["normal", "t5", "laplace", "ar 0.4"])
def test_a_drop_that_lasts_is_seen_on_its_last_day(shape):
    """Of 3.6 spreads, for 21 days; and 26 weeks later if the baseline could have grown over it."""
    assert sim.lasting(shape, 400) > 0.95
    assert sim.lasting(shape, 400, start=40, days=220) > 0.85


@pytest.mark.simulation
def test_a_small_loss_that_lasts_is_rarely_found_and_exponential_days_alarm_falsely():
    repeats = min(REPEATS, 200)
    one, two, three = (sim.found(size, repeats) for size in sim.LASTING)
    assert one < 0.05 < 0.4 < two < 0.75 < 0.95 < three
    assert sim.found(2, repeats, 39, 220) < 0.3
    assert sim.false_alarms("exponential", None, repeats) > 0.3
    assert 0.15 < sim.false_alarms("season", None, repeats) < 0.4

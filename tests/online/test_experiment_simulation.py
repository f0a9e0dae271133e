"""In the long run: experiments raise as many false alarms as they say, and intervals hold.

`python tests/run_simulation.py --experiment` prints the rates.
"""

import numpy as np
import polars as pl
import pytest

import rankql
from support.experiment_simulation import SHAPES, betted, compared, draw, peeked, rates
from support.simulation import ALPHA, REPEATS, at_most, by_chance

FEW = max(200, REPEATS // 4)
pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("before", ["0", "before"])
@pytest.mark.parametrize("shape", SHAPES)
def test_rates(shape, before):
    found = rates(shape, 1_000, FEW, before)
    for wrong in (found["type I"], 1 - found["coverage"], 1 - found["lift"]):
        assert at_most(wrong, repeats=FEW)


def test_a_prior_period_adds_power():
    plain, adjusted = (rates("watch time", 200, FEW, x)["power"] for x in ("0", "before"))
    assert plain < 0.4 and adjusted > 0.7


@pytest.mark.parametrize(("n", "other"), [(3, 3), (4, 4), (6, 6), (3, 60), (10, 60)])
def test_small_arms_pay_for_the_slope(n, other):
    """Stores or cities: no more false alarms than without a prior period."""
    rng, size = np.random.default_rng(n), (n + other) * 10 * FEW
    columns = {name: rng.normal(size=size) for name in ("value", "before")}
    trials = pl.DataFrame(columns).with_columns(
        trial=pl.int_range(size) // (n + other), look=0, divisor=1.0,
        arm=pl.when(pl.int_range(size) % (n + other) < n).then(pl.lit("a")).otherwise(pl.lit("b")),
    )  # fmt: skip
    rate, plain = ((compared(trials, x)["p"] <= ALPHA).mean() for x in ("before", "0"))
    assert at_most(rate, repeats=10 * FEW) if n == other else rate <= plain + 0.015


@pytest.mark.parametrize("shape", SHAPES)
def test_daily_looks(shape):
    ordinary, _ = peeked(shape, 2_000, FEW)
    valid, _ = peeked(shape, 2_000, FEW, burn_in=500)
    assert at_most(valid, repeats=FEW) and ordinary > 0.12


def test_bets_hold_at_every_look():
    wrong, power = betted(1_000, FEW // 10)
    assert at_most(wrong, repeats=FEW // 10) and power > 0.9


def test_runs_without_a_change():
    """A/A: the same skewed users, split at random again and again."""
    one = draw("revenue", 500, 0.0, 1, 9).with_columns(pl.lit(0).alias("look"))
    rng = np.random.default_rng(4)
    trials = [
        one.with_columns(arm=pl.Series(rng.permutation(one["arm"].to_numpy())), trial=pl.lit(i))
        for i in range(FEW)
    ]
    p = compared(pl.concat(trials))["p"]
    assert by_chance((p <= ALPHA).mean(), repeats=FEW)
    users = trials[0].with_row_index("user")
    assert rankql.experiment(users, metrics="value").table["p"][0] == pytest.approx(p[0])

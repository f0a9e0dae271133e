"""Anytime intervals in the long run: they leave the true mean in at most 5% of streams, ever."""

import numpy as np
import pytest

from rankql.core.stats.anytime import bet
from research import anytime_simulation as sim
from research.anytime_simulation import ALPHA, STREAMS
from support.parameters import few

STREAMS_EACH = 600


@few(2)("name", STREAMS)
def test_streams_in_random_order(name):
    """From the first query to 2,000."""
    assert sim.ever(name, STREAMS_EACH, seed=75) <= 0.05


@pytest.mark.slow
def test_a_fixed_interval_leaves_far_more_often():
    assert sim.ever("differences with a standard deviation of .2", 40, fixed=True) > 0.25


@few(2)("name", STREAMS)
def test_the_path_is_what_intervals_say(name):
    """A stream leaves at the first prefix whose interval excludes the mean."""
    draw, mean, low, high = STREAMS[name]
    rng = np.random.default_rng(76)
    for wrong in (0.0, 0.2):  # of the range away from the mean, so that some leave
        other = mean + wrong * (high - low) * (-1 if mean > 0.5 else 1)
        values = draw(rng, 80)
        ends = [bet(values[:n], low, high, ALPHA)[1] for n in range(1, 81)]
        left = [not lo < other < hi for lo, hi in ends]
        assert any(left) == sim.leaves(values, other, low, high)


@few(2)("name", STREAMS)
def test_a_random_order_is_not_refused(name):
    draw, _, low, high = STREAMS[name]
    rng = np.random.default_rng(77)
    for _ in range(60):
        values = draw(rng, 2000)
        sizes = (1, 2, 3, 5, 10, 20, 50, 200, 2000)
        assert not any(sim.is_refused(values[:n], low, high) for n in sizes)


def test_other_orders():
    """A segment after another is refused; a swing, and users with equal queries, are mostly not."""
    shares = [sim.drifting(name, 100) for name in sim.DRIFTS]
    assert shares[0] == (1, 1)
    assert 0.05 < shares[1][0] < 0.4 and shares[2][0] > 0.6


@pytest.mark.simulation
def test_widths_on_the_page():
    """Of differences: 2 to 3 times as wide as a fixed one of 20, less of more."""
    name = "differences with a standard deviation of .2"
    assert 2 < sim.widths(name, 20, 200) < 3
    assert 1.4 < sim.widths(name, 200, 200) < 1.8 > sim.widths(name, 2000, 100) > 1.4

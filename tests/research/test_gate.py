"""A gate in the long run: limits that should not pass seldom do, however skewed the losses.

The tables of docs/how-often-wrong.md are those of `python tests/run_simulation.py --gate`.
"""

import functools

import pytest

from research.simulation import GATE_SIZES, LIMIT, LOSSES, at_most, gated

gated = functools.cache(gated)
UNCHANGED = "one query in five loses half, the others do not change"


@pytest.mark.slow
def test_in_short():
    """Of 20 skewed losses at the limit at most 5% pass, where plain Student's t passes more."""
    rates = gated("lognormal", 20, LIMIT, 600)
    assert at_most(rates["passed"], repeats=600) and not at_most(rates["t"], repeats=600)
    assert gated("noise of nDCG", 300, 0, 200)["passed"] > 0.9


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("n", GATE_SIZES)
@pytest.mark.parametrize("shape", LOSSES)
def test_at_the_limit(shape, n):
    """At most 5% pass and at most 5% fail. A sample in which no query changed always passes."""
    rates = gated(shape, n, LIMIT)
    assert at_most(rates["passed"] - rates["constant"])
    assert at_most(rates["failed"])
    assert rates["constant"] == 0 or (shape == UNCHANGED and n == 20)


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("n", GATE_SIZES)
@pytest.mark.parametrize("shape", LOSSES)
def test_away_from_the_limit(shape, n):
    """No loss never fails, three times the limit never passes; 300 queries decide most."""
    same, worse = (gated(shape, n, true) for true in (0, 3 * LIMIT))
    assert same["failed"] < 0.01 and worse["passed"] < 0.01
    if n == 300:
        assert same["passed"] > 0.75 and worse["failed"] > 0.95


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("shape", ["exponential", "one query in ten falls to 0, with noise"])
def test_clusters(shape):
    """30 users who ask 1 to 12 queries each, and lose together."""
    rates = gated(shape, 30, LIMIT, 1_000, users=12)
    assert at_most(rates["passed"], repeats=1_000)

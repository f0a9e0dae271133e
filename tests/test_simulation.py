"""In the long run: tests reject as often as they say, and intervals hold as often.

The figures are those of `python tests/simulation.py`. Where a test is known to reject too often or
too seldom, that is what is asserted.
"""

import functools

import pytest
from simulation import (
    HORIZONS,
    PAIRED,
    SIZES,
    at_most,
    by_chance,
    clustered,
    family,
    often,
    peeking,
    single,
)

from rankql.significance import TESTS

# Reject as often as they say; those drawn from few queries reject too often, and sign too seldom.
LEVEL = ("t", "randomisation", "shift", "wilcoxon")
LIBERAL = ("bootstrap", "bca")
CLUSTERED = [name for name in PAIRED if TESTS[name].clusters]

single, family, clustered, peeking = map(functools.cache, (single, family, clustered, peeking))


@pytest.mark.parametrize("name", ["t", "shift"])
def test_in_short(name):
    rejected, held = single(name, 43, 300)
    assert by_chance(rejected, repeats=300)
    assert by_chance(1 - held, repeats=300)


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", PAIRED)
def test_without_a_difference(name, n):
    rejected, _ = single(name, n)
    if name in LEVEL or (name in LIBERAL and n > 20):
        assert by_chance(rejected)
    elif name in LIBERAL:
        assert 0.065 < rejected < 0.11
    elif name == "sign":
        assert rejected > 0.02 and at_most(rejected)
    else:
        assert rejected < 0.02


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", [name for name in PAIRED if TESTS[name].interval])
def test_intervals_hold_the_true_difference(name, n):
    _, held = single(name, n)
    if name in LEVEL or (name in LIBERAL and n > 20):
        assert by_chance(1 - held)
    elif name in LIBERAL:
        assert 0.89 < held < 0.935
    else:
        assert held > 0.98


@pytest.mark.slow
@pytest.mark.simulation
def test_families():
    wrong, _, held = family()
    assert wrong["none"] > 0.2
    for name in ("bonferroni", "holm", "bh", "tukey", "randomised_tukey"):
        assert wrong[name] > 0.02 and at_most(wrong[name])
    assert wrong["bonferroni"] == wrong["holm"]  # the first step of Holm is Bonferroni's
    for name in ("tukey, one metric", "randomised_tukey, one metric"):
        assert by_chance(wrong[name])
    for share in held.values():
        assert at_most(1 - share) and share < 0.98


@pytest.mark.slow
@pytest.mark.simulation
def test_false_discoveries():
    _, false, _ = family()
    assert false["none"] > 0.07
    assert false["bonferroni"] <= false["holm"] <= false["bh"] < 0.05


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("name", CLUSTERED)
def test_clusters(name):
    by_query, by_user = clustered(name)
    if name == "anytime":
        assert by_user < 0.02 < 0.05 < by_query
        return
    assert by_query > 0.2
    assert by_chance(by_user)


@pytest.mark.slow
@pytest.mark.simulation
def test_peeking():
    found = peeking(("t", "anytime"))
    ever, last = found["t"]
    assert ever > 0.2 and by_chance(last)
    ever, last = found["anytime"]
    assert last <= ever and ever < 0.05


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("horizon", HORIZONS)
def test_a_look_at_every_query(horizon):
    assert at_most(often(horizon=horizon)["anytime"][0])

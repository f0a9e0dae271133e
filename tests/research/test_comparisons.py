"""In the long run: tests reject as often as they say, and intervals hold as often.

`python tests/run_simulation.py` prints the rates.
"""

import functools

import numpy as np
import pytest

from rankql.core.stats.tests import TESTS
from research import simulation as sim
from research.simulation import ALPHA, LIMIT, REPEATS, at_most, by_chance, gated

# Tests that reject as often as they say. `auto` rejects less often.
LEVEL = ("t", "randomisation")


@pytest.mark.simulation
@pytest.mark.parametrize("n", sim.SIZES)
@pytest.mark.parametrize("name", TESTS)
def test_errors_without_and_with_a_difference(name, n):
    """How often a test rejects without a difference, and an interval misses the true one."""
    rejected, held = sim.single(name, n)
    for rate in (rejected, 1 - held):
        assert by_chance(rate) if name in LEVEL else at_most(rate)


@pytest.mark.simulation
def test_families():
    wrong, false, held = sim.family()
    assert wrong["none"] > 0.2
    for name in ("bonferroni", "holm", "bh"):
        assert wrong[name] > 0.02 and at_most(wrong[name])
    assert wrong["bonferroni"] == wrong["holm"]  # the first step of Holm is Bonferroni's
    assert at_most(1 - held["bonferroni"]) and held["bonferroni"] < 0.98
    # The false discovery rate.
    assert false["none"] > 0.07
    assert false["bonferroni"] <= false["holm"] <= false["bh"] < 0.05


@pytest.mark.simulation
@pytest.mark.parametrize("n", sim.SKEWED_SLICES)
def test_small_slices_of_skewed_differences(n):
    """Ten queries a slice are too few for lognormal differences; from 20 on, about 8% at most."""
    auto, t = (sim.skewed_slices(name, n) for name in ("auto", "t"))
    assert auto < t and (0.10 < auto < 0.17 if n == 10 else at_most(auto, 0.08))


def test_small_slices_of_skewed_differences_in_short():
    assert 0.05 < sim.skewed_slices("auto", 10, repeats=200) < 0.25


@pytest.mark.simulation
@pytest.mark.parametrize("n", [20, 40, 100])
def test_intervals_of_differences_of_zero_and_one(n):
    """By enumeration of gains and losses, as many as 10 each on average: see the page."""
    assert 0.90 <= sim.least_coverage_of_signs(n) < 0.94


@pytest.mark.parametrize("n", [9, 12, 20, 25])
def test_mcnemar_finds_few_differences_of_zero_and_one_that_do_not_exist(n):
    """By enumeration, where it decides: see the page. Student's t alone is below 4.02% there."""
    assert 0.038 <= sim.most_false_of_signs(n) < 0.0435


@pytest.mark.simulation
@pytest.mark.parametrize("name", TESTS)
def test_clusters(name):
    by_query, by_user = sim.clustered(name)
    assert by_query > 0.2
    assert by_chance(by_user)


@pytest.mark.few(2)
@pytest.mark.parametrize("sizes", sim.CLUSTER_SIZES)
def test_clusters_in_short(sizes):
    assert sim.unequal("t", sizes, 10, repeats=400) > 0.91  # 0.93, but for chance


@pytest.mark.simulation
@pytest.mark.parametrize("together", [0.1, 0.9])
@pytest.mark.parametrize("clusters", sim.CLUSTER_COUNTS)
@pytest.mark.parametrize("sizes", sim.CLUSTER_SIZES)
@pytest.mark.parametrize("name", TESTS)
def test_clusters_of_unequal_sizes(name, sizes, clusters, together):
    """At least 93%, however much the queries of a cluster have in common."""
    held = sim.unequal(name, sizes, clusters, together=together)
    assert at_most(1 - held, 0.07)


def test_stratified_sample_in_short():
    held, plain = sim.stratified(30, 300)
    assert by_chance(1 - held, repeats=300) and plain < 0.1


@pytest.mark.simulation
@pytest.mark.parametrize("n", [10, 50])
@pytest.mark.parametrize("weights", sim.WEIGHTS)
def test_weighted_means(weights, n):
    """At least 93% of normal values and of those like nDCG; less of more skewed ones."""
    for shape in ("normal", "like nDCG"):
        assert at_most(1 - sim.weighted(weights, shape, n), 0.07)
    assert sim.weighted(weights, "exponential", n) > 0.86
    assert at_most(1 - sim.weighted(weights, "normal", 120, clusters=12), 0.06)


@pytest.mark.simulation
def test_peeking():
    ever, last = sim.peeking("t", sim.noise)
    assert ever > 0.2 and by_chance(last)
    ever, last = sim.peeking("t", sim.noise, step=60, alpha=ALPHA / 5)
    assert last <= ever and at_most(ever)


@pytest.mark.simulation
@pytest.mark.parametrize("values", sim.MEANS)
def test_intervals_of_means_contain_the_true_mean_or_a_note_warns(values):
    """Where less than 93% contain it, most samples have the note."""
    for n in (20, 50, 300):
        covered, noted = sim.means_covered(values, n)
        assert at_most(1 - covered, 0.07) or noted > 0.6


def test_the_worst_means_of_30_queries():
    """The page names them: of results that are found deep, less than 88% contain the mean."""
    covered, noted = sim.means_covered(sim.FOUND_DEEP, 30, 1000)
    assert 0.8 < covered < 0.88 and noted > 0.9


@pytest.mark.simulation
@pytest.mark.parametrize("shape", ["share", "like nDCG", "like RR"])
@pytest.mark.parametrize(("count", "sizes"), [(3, (10, 200)), (8, (10, 200)), (40, (10, 200)),
                                              (3, (4, 30)), (3, (4, 100))])  # fmt: skip
def test_the_mean_of_unequal_slices(count, sizes, shape):
    """At least 93% of intervals contain it, of slices of a few queries too."""
    assert at_most(1 - sim.slices_covered(count, shape, ends=sizes), 0.07)


@pytest.mark.simulation
@pytest.mark.parametrize("mix", sim.MIXES)
def test_the_mean_of_slices_of_unlike_sizes_and_means(mix):
    """Also of a steady slice and of a few queries that vary; a little less if losses are rare."""
    held, _, wider = sim.mixes_covered(mix)
    assert at_most(1 - held, 0.09 if mix == sim.RARELY_WORSE else 0.07) and 1 <= wider < 2


@pytest.mark.simulation
@pytest.mark.parametrize("design", [*sim.SLICED, *sim.SMALL_SLICED, *sim.LIKE])
def test_a_mean_of_slices_rarely_differs_by_chance(design):
    """Of slices that hide losses, if it is tested; like slices of 10 and more are."""
    repeats = min(REPEATS, 1000)
    better, worse, tested = sim.sliced_falsely(
        (sim.SLICED | sim.SMALL_SLICED | sim.LIKE)[design], repeats, 41
    )
    assert tested == 0 or max(better, worse) <= 0.05
    assert tested == (design in sim.LIKE) or design in sim.SLICED


def test_slices_of_ten_hide_losses():
    """The exception of the page, like a plain difference: a loss that is not in the sample."""
    assert 0.2 < sim.sliced_falsely(sim.EXCEPTIONS["19 of 10 and one of 10"], 200, 41)[0] < 0.5
    (n, _), draw = [*sim.PLAIN.items()][-1]
    assert 0.15 < sim.plainly_falsely(n, draw, 200, 41) < 0.45


# A gate: limits that should not pass seldom do, however skewed the losses

gated = functools.cache(gated)
UNCHANGED = "one query in five loses half, the others do not change"


@pytest.mark.slow
def test_a_gate_in_short():
    """Of 20 skewed losses at the limit at most 5% pass, where plain Student's t passes more."""
    rates = gated("lognormal", 20, LIMIT, 600)
    assert at_most(rates["passed"], repeats=600) and not at_most(rates["t"], repeats=600)
    assert gated("noise of nDCG", 300, 0, 200)["passed"] > 0.9


@pytest.mark.simulation
def test_a_gate_that_runs_every_day():
    """It errs in every second month of 30 builds, unless they share the level."""
    repeats = min(REPEATS, 300)
    for ever, each in zip(*np.reshape(sim.daily(ALPHA, repeats=repeats), (2, 2)), strict=True):
        assert 0.4 < ever < 0.65 and 0.018 < each < 0.032
    *ever, _, _ = sim.daily(ALPHA / 30, repeats=repeats)
    assert max(ever) < 0.06


@pytest.mark.simulation
@pytest.mark.parametrize("n", sim.GATE_SIZES)
@pytest.mark.parametrize("shape", sim.LOSSES)
def test_a_gate_at_and_away_from_the_limit(shape, n):
    """At the limit at most 5% pass and 5% fail; a sample in which no query changed always passes.

    No loss never fails, three times the limit never passes; 300 queries decide most.
    """
    rates, same, worse = (gated(shape, n, true) for true in (LIMIT, 0, 3 * LIMIT))
    assert at_most(rates["passed"] - rates["constant"]) and at_most(rates["failed"])
    assert rates["constant"] == 0 or (shape == UNCHANGED and n == 20)
    assert same["failed"] < 0.01 and worse["passed"] < 0.01
    if n == 300:
        assert same["passed"] > 0.75 and worse["failed"] > 0.95


@pytest.mark.simulation
@pytest.mark.parametrize("shape", ["exponential", "one query in ten falls to 0, with noise"])
def test_a_gate_with_clusters(shape):
    """30 users who ask 1 to 12 queries each, and lose together."""
    rates = gated(shape, 30, LIMIT, 1_000, users=12)
    assert at_most(rates["passed"], repeats=1_000)

"""The statistics of compare: beside scipy, statsmodels and ranx, and beside their definitions.

How often they reject in the long run is seen in test_simulation.py.
"""

import itertools
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import rankql
from rankql import RankqlError, significance
from rankql.significance import (
    CORRECTIONS,
    NO_DIFFERENCE,
    NOT_TESTABLE,
    TESTS,
    UNBOUNDED,
    ZERO_VARIANCE,
    Sample,
    Setting,
    adjusted,
)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "dl19"
RUNS = ("BM25", "D_BERT_KD_TASB", "SPLADE_P_P_ENSEMBLE_DISTIL")

# Sakai's worked example, 20 topics: b is his X, a his Y.
B = [7, 3, 2, 6, 4, 4, 0, 7, 1, 3, 5, 4, 0, 6, 5, 3, 1, 5, 2, 1]
A = [5, 1, 0, 2, 4, 3, 0, 5, 3, 3, 4, 4, 1, 4, 2, 1, 1, 6, 3, 2]
SAKAI = np.array(B) / 10 - np.array(A) / 10

PAIRED = [name for name, test in TESTS.items() if test.pair]
JOINT = [name for name, test in TESTS.items() if test.joint]
CLUSTERED = [name for name, test in TESTS.items() if test.clusters]
RESAMPLED = [name for name, test in TESTS.items() if test.resamples]


def outcome(name, differences, clusters=None, **setting):
    """What a test says of differences, or the word for why it says nothing."""
    differences = np.asarray(differences, dtype=float)
    codes = None if clusters is None else np.unique(clusters, return_inverse=True)[1]
    sample = Sample(differences, codes)
    if word := significance.untestable(name, sample):
        return significance.Outcome(word=word)
    setting = Setting(**{"resamples": 499} | setting)
    if TESTS[name].pair:
        return TESTS[name].pair(sample, setting)
    values = np.stack([np.zeros_like(differences), differences], axis=1)
    return TESTS[name].joint(values, [(0, 1)], setting)[0]


def numbers(found):
    return found.p, found.lo, found.hi


def within(p, other, resamples, errors=4.5):
    """Does a p of so many resamples differ from the true one by chance alone?"""
    return abs(p - other) <= errors * math.sqrt(other * (1 - other) / resamples) + 1 / resamples


def normal(n, seed=1, mean=0.1):
    return np.random.default_rng(seed).normal(mean, 0.3, n)


def skewed(n, seed=1):
    """Differences as of nDCG: bounded, skewed, many of them zero."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.3, 0.0, rng.beta(2, 5, n) - rng.beta(1, 4, n)).round(2)


# Differences with ties, zeros, and the same everywhere; of all sizes.
TENTHS = st.integers(-10, 10).map(lambda i: i / 10)
THOUSANDTHS = st.integers(-1000, 1000).map(lambda i: i / 1000)
FEW = st.sampled_from([-0.5, 0.0, 0.0, 0.5])
LISTS = st.one_of(
    *(st.lists(each, max_size=9) for each in (TENTHS, THOUSANDTHS, FEW)),
    st.lists(THOUSANDTHS, min_size=21, max_size=24),
    st.builds(lambda x, n: [x] * n, TENTHS, st.integers(0, 9)),
)
SCALES = st.sampled_from([1, 1, 1, 1e-13, 1e-6, 1e9, 1e60])
DIFFERENCES = st.builds(lambda x, scale: np.array(x, dtype=float) * scale, LISTS, SCALES)
ALPHAS = (0.01, 0.05, 0.1, 0.25, 0.5)


# The worked value.


def test_sakai():
    found = outcome("t", SAKAI)
    sample = Sample(SAKAI)
    assert sample.mean / sample.error == pytest.approx(2.11576, abs=5e-6)
    assert found.p == pytest.approx(0.0477968, abs=5e-8)
    assert (found.lo, found.hi) == pytest.approx((0.000806, 0.149194), abs=5e-7)
    assert sample.signs == (10, 5, 5)
    assert sample.effect == pytest.approx(SAKAI.mean() / SAKAI.std(ddof=1), rel=1e-14)
    exact = outcome("randomisation", SAKAI)
    assert exact.p == 69120 / 2**20
    assert exact.p_error is None


def test_sakai_end_to_end():
    queries = [f"q{i}" for i in range(20)]
    frames = {
        name: pl.DataFrame({"query": queries, "AP": [x / 10 for x in values]})
        for name, values in (("y", A), ("x", B))
    }
    row = rankql.compare(frames).table.row(0, named=True)
    assert row["p"] == pytest.approx(0.0477968, abs=5e-8)
    assert (row["lo"], row["hi"]) == pytest.approx((0.000806, 0.149194), abs=5e-7)
    assert (row["wins"], row["ties"], row["losses"], row["n"]) == (10, 5, 5, 20)
    assert row["verdict"] == "better"
    assert row["mean_b"] - row["mean_a"] == pytest.approx(row["difference"], rel=1e-12)
    swapped = rankql.compare(dict(reversed(frames.items()))).table.row(0, named=True)
    assert swapped["verdict"] == "worse"


# Student's t.


@given(st.lists(THOUSANDTHS, min_size=2, max_size=60), st.sampled_from(ALPHAS))
def test_t_is_scipys(differences, alpha):
    differences = np.array(differences)
    if np.ptp(differences) < 1e-9:
        return
    a = np.random.default_rng(len(differences)).random(len(differences))
    found, theirs = outcome("t", differences, alpha=alpha), stats.ttest_rel(differences, 0 * a)
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-12)
    ends = theirs.confidence_interval(1 - alpha)
    size = np.abs(differences).max()
    assert (found.lo, found.hi) == pytest.approx((ends.low, ends.high), rel=1e-11, abs=1e-13 * size)


def test_detectable():
    d = normal(43)
    for alpha, power in ((0.05, 0.8), (0.01, 0.95)):
        quantiles = stats.t.ppf(1 - alpha / 2, 42) + stats.t.ppf(power, 42)
        expected = quantiles * d.std(ddof=1) / math.sqrt(43)
        assert Sample(d).detectable(alpha, power) == pytest.approx(expected, rel=1e-12)
    # Were the true difference as large, a t test would show it so often.
    centre = Sample(d).detectable(0.05) / Sample(d).error
    assert stats.nct.sf(stats.t.ppf(0.975, 42), 42, centre) == pytest.approx(0.8, abs=0.005)
    assert Sample(np.array([0.2])).detectable(0.05) is None
    assert Sample(np.array([0.2, 0.2])).detectable(0.05) is None


@pytest.mark.parametrize("effect", [0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, -0.3])
@pytest.mark.parametrize("alpha, power", [(0.05, 0.8), (0.01, 0.9), (0.1, 0.5)])
def test_queries_needed(effect, alpha, power):
    power_of = pytest.importorskip("statsmodels.stats.power").TTestPower().power
    n = rankql.queries_needed(effect, alpha, power)
    assert power_of(abs(effect), n, alpha) >= power - 1e-9
    assert n == 2 or power_of(abs(effect), n - 1, alpha) < power + 1e-9


def test_queries_needed_of_the_books():
    assert [rankql.queries_needed(d) for d in (0.2, 0.3, 0.5, 0.8)] == [199, 90, 34, 15]


@pytest.mark.parametrize("effect", [0, math.nan, math.inf])
def test_queries_needed_refuses_effects(effect):
    with pytest.raises(RankqlError, match="effect must be"):
        rankql.queries_needed(effect)


@pytest.mark.parametrize("wrong", [{"alpha": 0}, {"alpha": 1}, {"power": 1}, {"power": 0.05}])
def test_queries_needed_refuses(wrong):
    with pytest.raises(RankqlError, match="must lie"):
        rankql.queries_needed(0.5, **wrong)


# Randomisation.


def counted(differences):
    """p by the definition: all patterns of signs, in fractions."""
    observed, extreme = abs(sum(differences)), 0
    for signs in itertools.product((1, -1), repeat=len(differences)):
        extreme += abs(sum(map(Fraction.__mul__, map(Fraction, signs), differences))) >= observed
    return Fraction(extreme, 2 ** len(differences))


@settings(max_examples=40)
@given(
    st.lists(st.integers(-10, 10), min_size=2, max_size=9).filter(any),
    st.sampled_from([3, 7, 10]),
    st.sampled_from([1, 1e-3, 1e5, 1e10, 1e60]),
)
@example([1, 2, -3, 1], 10, 1)  # on tenths, the naive >= gives another count
@example([1, 2, -3, 1], 10, 1e10)
@example([1, -3, 0, 2, -2, 2], 3, 1e10)  # a sum of zero of large numbers
@example([0, 3, -1, 2, -2, -2], 10, 1e60)
@example([1, 2, -3, 1], 3, 1e-11)
def test_exact_randomisation_counts_as_fractions_do(tenths, parts, scale):
    exact = counted([Fraction(x, parts) for x in tenths])
    found = outcome("randomisation", [x / parts * scale for x in tenths])
    assert Fraction(found.p) == exact
    assert found.p_error is None


@pytest.mark.parametrize("n", [5, 10, 13])
@pytest.mark.parametrize("draw", [normal, skewed])
def test_exact_randomisation_is_scipys(n, draw):
    d = draw(n)
    theirs = stats.permutation_test(
        (d, 0 * d), lambda x, y, axis: (x - y).mean(axis), permutation_type="samples",
        vectorized=True, n_resamples=np.inf)  # fmt: skip
    assert outcome("randomisation", d).p == pytest.approx(theirs.pvalue, abs=1e-12)


@pytest.mark.parametrize("draw", [normal, skewed])
@pytest.mark.parametrize("seed", range(5))
def test_sampled_randomisation_is_the_exact_one(draw, seed, monkeypatch):
    d = draw(16, seed)
    exact = outcome("randomisation", d)
    monkeypatch.setattr(significance, "EXACT", 8)
    found = outcome("randomisation", d, resamples=20_000, seed=seed)
    assert within(found.p, exact.p, 20_000)
    assert found.p_error == pytest.approx(math.sqrt(found.p * (1 - found.p) / 20_001))
    assert (found.lo, found.hi) == pytest.approx((exact.lo, exact.hi), abs=0.01)
    again = outcome("randomisation", d, resamples=20_000, seed=seed)
    assert numbers(again) == numbers(found)
    other = outcome("randomisation", d, resamples=20_000, seed=seed + 1)
    assert numbers(other) != numbers(found)


def test_sampled_randomisation_is_never_zero():
    found = outcome("randomisation", np.full(40, 0.5) + normal(40) / 100, resamples=999)
    assert found.p == 1 / 1000


@pytest.mark.parametrize("n", [21, 43, 600])
def test_sampled_randomisation_is_scipys(n):
    d = skewed(n, seed=n)
    theirs = stats.permutation_test(
        (d, 0 * d), lambda x, y, axis: (x - y).mean(axis), permutation_type="samples",
        vectorized=True, n_resamples=9_999, batch=500, rng=np.random.default_rng(3))  # fmt: skip
    found = outcome("randomisation", d, resamples=9_999)
    both = math.sqrt(2)
    assert within(found.p, (found.p + theirs.pvalue) / 2, 9_999, errors=4 * both)


@pytest.mark.parametrize("n", [7, 12, 40])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("draw", [normal, skewed])
@pytest.mark.parametrize("clusters", [False, True])
def test_the_interval_of_randomisation_inverts_it(n, alpha, draw, clusters):
    """Each end is the shift at which the test begins to reject: p on either side of it."""
    d = draw(n)
    codes = np.arange(n) * 6 // 7 if clusters else None
    found = outcome("randomisation", d, codes, alpha=alpha)

    def p(shift):
        return outcome("randomisation", d - shift, codes, alpha=alpha).p

    for end, outwards in ((found.lo, -1e-7), (found.hi, 1e-7)):
        assert p(end - outwards) > alpha
        assert p(end + outwards) <= alpha
    assert found.lo < d.mean() < found.hi


def test_few_queries_have_a_p_and_no_interval():
    for n in (2, 3, 4, 5):
        found = outcome("randomisation", normal(n))
        assert found.p >= 2 / 2**n
        assert (found.lo, found.hi, found.word) == (None, None, UNBOUNDED)
    assert outcome("randomisation", normal(6)).lo is not None


# Bootstrap.


def means_of(differences, setting):
    """The means of the resamples, drawn once more."""
    rng, n = np.random.default_rng(setting.seed), len(differences)
    drawn = rng.integers(0, n, (setting.resamples, n), dtype=np.uint32)
    means = np.array([differences[row].mean() for row in drawn])
    # Noise breaks no ties with the observed mean, which scipy looks for.
    centre = differences.mean()
    return np.where(np.abs(means - centre) < 1e-12, centre, means)


@pytest.mark.parametrize("name, method", [("bootstrap", "percentile"), ("bca", "BCa")])
@pytest.mark.parametrize("n", [10, 43, 200])
@pytest.mark.parametrize("draw", [normal, skewed])
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_bootstrap_is_scipys(name, method, n, draw, alpha):
    """Of the same resamples: ends at most two places off, as scipy interpolates its quantiles."""
    d, setting = draw(n), Setting(alpha=alpha, resamples=2_999)
    found = outcome(name, d, alpha=alpha, resamples=2_999)
    means = means_of(d, setting)

    class Drawn:
        bootstrap_distribution = means

    theirs = stats.bootstrap(
        (d,), np.mean, n_resamples=0, bootstrap_result=Drawn, method=method,
        confidence_level=1 - alpha).confidence_interval  # fmt: skip
    places = np.sort(means)
    for ours, end in ((found.lo, theirs.low), (found.hi, theirs.high)):
        place = np.searchsorted(places, ours - 1e-12)
        assert places[max(0, place - 2)] - 1e-12 <= end
        last = np.searchsorted(places, ours + 1e-12, side="right") - 1
        assert end <= places[min(len(places) - 1, last + 2)] + 1e-12


@pytest.mark.parametrize("name, method", [("bootstrap", "percentile"), ("bca", "BCa")])
def test_bootstrap_is_scipys_by_resamples_of_its_own(name, method):
    d = skewed(60)
    found = outcome(name, d, resamples=20_000)
    theirs = stats.bootstrap(
        (d,), np.mean, n_resamples=20_000, method=method, vectorized=True, batch=1000,
        rng=np.random.default_rng(3)).confidence_interval  # fmt: skip
    width = theirs.high - theirs.low
    assert (found.lo, found.hi) == pytest.approx((theirs.low, theirs.high), abs=0.03 * width)


def test_p_of_the_percentile_bootstrap():
    """Twice the smaller share of the means on the other side of zero."""
    d, setting = skewed(30, 3), Setting(resamples=999)
    means = means_of(d, setting)
    means[np.abs(means) < 1e-12] = 0
    tail = min((means <= 0).sum(), (means >= 0).sum())
    assert outcome("bootstrap", d, resamples=999).p == pytest.approx(2 * (tail + 1) / 1000)


@pytest.mark.parametrize("name", ["bootstrap", "bca", "shift"])
def test_resamples_are_of_clusters(name):
    """Ratios of the sums of drawn clusters to their sizes, not of queries."""
    d, codes = skewed(60), np.repeat(np.arange(12), 5)
    found = outcome(name, d, codes, resamples=4_999)
    alone = outcome(name, np.bincount(codes, d) / 5, resamples=4_999)  # all clusters of one size
    assert numbers(found) == pytest.approx(numbers(alone), abs=1e-12)


def test_means_of_drawn_clusters_are_ratios():
    """Clusters of 1 to 12 queries: the sum of those drawn over the queries in them."""
    d, codes = skewed(78, 2), np.repeat(np.arange(12), np.arange(1, 13))
    sums, sizes = np.bincount(codes, d), np.bincount(codes)
    drawn = np.random.default_rng(7).integers(0, 12, (999, 12), dtype=np.uint32)
    means = np.sort([sums[row].sum() / sizes[row].sum() for row in drawn])
    found = outcome("bootstrap", d, codes, resamples=999, alpha=0.1)
    assert (found.lo, found.hi) == pytest.approx((means[49], means[-50]), abs=1e-12)
    tail = min((means <= 1e-12).sum(), (means >= -1e-12).sum())
    assert found.p == pytest.approx(2 * (tail + 1) / 1000)


@pytest.mark.parametrize("n", [3, 10, 43])
@pytest.mark.parametrize("draw", [normal, skewed])
def test_shift_is_sakais(n, draw):
    """His algorithm of 2006, one resample after the other."""
    d = draw(n, seed=n)
    rng, count = np.random.default_rng(7), 0

    def student(z):
        spread = z.std(ddof=1)
        if spread <= 1e-12:
            return 0.0 if abs(z.mean()) <= 1e-12 else math.inf
        return z.mean() / (spread / math.sqrt(len(z)))

    observed, w = student(d), d - d.mean()
    for row in rng.integers(0, n, (1_999, n), dtype=np.uint32):
        count += abs(student(w[row])) >= abs(observed) * (1 - 1e-9)
    found = outcome("shift", d, resamples=1_999)
    assert found.p == (1 + count) / 2_000
    assert (found.lo or -1) < d.mean() < (found.hi or 1)


# Wilcoxon, sign.


@given(st.lists(TENTHS, min_size=2, max_size=60), st.integers(0, 99))
@example([0.1, 0.2, -0.1, 0.3, -0.3, 0.1, 0.2], 0)
def test_wilcoxon_and_sign_are_scipys(differences, seed):
    d = np.array(differences)
    if not d.any():
        return
    # As tied as the numbers say, and as tied when rounding tells them apart.
    rng = np.random.default_rng(seed)
    noisy = d + rng.choice([-1e-16, 0, 1e-16], len(d)) * rng.integers(0, 4, len(d))
    ups, downs = (d > 0).sum(), (d < 0).sum()
    ranked = stats.wilcoxon(np.round(d, 10)).pvalue
    for each in (d, noisy, (d + 0.3) - 0.3):
        assert outcome("wilcoxon", each).p == ranked
        assert outcome("sign", each).p == stats.binomtest(ups, ups + downs).pvalue


@pytest.mark.parametrize("name", ["wilcoxon", "sign"])
def test_the_interval_beside_ranks_and_signs_is_that_of_t(name):
    d = skewed(30)
    assert numbers(outcome(name, d))[1:] == numbers(outcome("t", d))[1:]
    assert not TESTS[name].interval


# Tukey.


def test_tukey_of_two_is_the_paired_t():
    for n, seed in ((3, 1), (20, 2), (43, 3)):
        d = normal(n, seed)
        assert numbers(outcome("tukey", d)) == pytest.approx(numbers(outcome("t", d)), abs=1e-8)


def block(n, m, seed=1):
    rng = np.random.default_rng(seed)
    return np.clip(rng.random((n, 1)) + rng.normal(0, 0.2, (n, m)) + np.arange(m) / (5 * m), 0, 1)


def test_tukey_is_the_two_way_layout():
    """The variance left by the least squares of systems and queries, with statsmodels."""
    sm = pytest.importorskip("statsmodels.api")
    n, m = 12, 4
    values = block(n, m)
    columns = [np.kron(np.ones(n), np.eye(m)[i]) for i in range(m)]
    columns += [np.kron(np.eye(n)[i], np.ones(m)) for i in range(1, n)]
    fit = sm.OLS(values.ravel(), np.stack(columns, axis=1)).fit()
    assert fit.df_resid == (m - 1) * (n - 1)
    pairs = list(itertools.combinations(range(m), 2))
    found = TESTS["tukey"].joint(values, pairs, Setting())
    critical = stats.studentized_range.ppf(0.95, m, fit.df_resid)
    error = math.sqrt(fit.mse_resid / n)
    for (a, b), each in zip(pairs, found, strict=True):
        difference = fit.params[b] - fit.params[a]
        p = stats.studentized_range.sf(abs(difference) / error, m, fit.df_resid)
        assert each.p == pytest.approx(p, rel=1e-6)
        ends = (difference - critical * error, difference + critical * error)
        assert (each.lo, each.hi) == pytest.approx(ends, abs=1e-8)


def test_randomised_tukey_counts_permutations():
    """Beside all 6^4 permutations of three systems within four queries."""
    values = block(4, 3, seed=5).round(1)
    orders = [values[:, list(order)] for order in itertools.permutations(range(3))]
    pairs = [(0, 1), (0, 2), (1, 2)]
    ranges = np.array([
        np.ptp([sum(orders[o][q, s] for q, o in enumerate(each)) / 4 for s in range(3)])
        for each in itertools.product(range(6), repeat=4)
    ])  # fmt: skip
    found = TESTS["randomised_tukey"].joint(values, pairs, Setting(resamples=20_000))
    for (a, b), each in zip(pairs, found, strict=True):
        exact = (ranges >= abs(values[:, b].mean() - values[:, a].mean()) - 1e-9).mean()
        assert within(each.p, exact, 20_000)


def test_randomised_tukey_of_two_is_randomisation():
    d = skewed(12, 4)
    exact = outcome("randomisation", d).p
    assert within(outcome("randomised_tukey", d, resamples=20_000).p, exact, 20_000)


@pytest.mark.parametrize("name", JOINT)
def test_the_order_of_systems_changes_nothing(name):
    values = block(9, 3).round(2)
    test, setting = TESTS[name].joint, Setting(resamples=499)
    pairs = [(0, 1), (0, 2)]
    here = [numbers(x) for x in test(values, pairs, setting)]
    for order in itertools.permutations(range(3)):
        place = [order.index(i) for i in range(3)]
        moved = test(
            np.ascontiguousarray(values[:, order]),
            [(place[a], place[b]) for a, b in pairs],
            setting,
        )
        assert [numbers(x) for x in moved] == here


def test_joint_tests_in_batches(monkeypatch):
    """What does not fit in memory at once gives what it would in one piece, within its error."""
    values = block(100, 5)
    pairs = [(0, 1), (0, 4)]
    setting = Setting(resamples=2_000)
    whole = TESTS["randomised_tukey"].joint(values, pairs, setting)
    monkeypatch.setattr(significance, "BATCH", 150)
    parts = TESTS["randomised_tukey"].joint(values, pairs, setting)
    for one, other in zip(whole, parts, strict=True):
        assert within(one.p, max(0.001, other.p), 2_000, errors=6)
        assert one.hi == pytest.approx(other.hi, abs=0.01)


@pytest.mark.parametrize("name", ["randomisation", "bootstrap", "bca", "shift"])
def test_resamples_in_batches(name, monkeypatch):
    d = skewed(100)
    whole = outcome(name, d, resamples=2_000)
    monkeypatch.setattr(significance, "BATCH", 2_000)
    parts = outcome(name, d, resamples=2_000)
    assert within(whole.p, parts.p, 2_000, errors=6)
    assert (whole.lo, whole.hi) == pytest.approx((parts.lo, parts.hi), abs=0.02)


# ranx.


def test_ranx():
    ranx = pytest.importorskip("ranx.statistical_tests")
    a, b = np.array(A) / 10, np.array(B) / 10
    assert outcome("t", b - a).p == pytest.approx(ranx.paired_student_t_test(a, b)[0], rel=1e-10)
    theirs = ranx.fisher_randomization_test(a, b, n_permutations=20_000)[0]
    assert theirs < 0.9 * outcome("randomisation", b - a).p  # it takes rounding for a difference
    a, b = a * 1024, b * 1024 + normal(20, mean=0)  # no ties
    theirs = ranx.fisher_randomization_test(a, b, n_permutations=20_000)[0]
    assert within(theirs, outcome("randomisation", b - a).p, 20_000)


def test_tukey_of_ranx_throws_the_pairing_away():
    ranx = pytest.importorskip("ranx.statistical_tests")
    values = block(20, 3)
    theirs = {
        (x["control"], x["treatment"]): x["p-value"]
        for x in ranx.tukey_hsd_test(list("abc"), list(values.T), 0.05)
    }
    unpaired = stats.tukey_hsd(*values.T).pvalue
    found = TESTS["tukey"].joint(values, [(0, 2)], Setting())[0]
    assert theirs["a", "c"] == pytest.approx(unpaired[0, 2], rel=1e-9)
    assert found.p < theirs["a", "c"] / 2  # the queries differ more than the systems do


# Clusters.


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_t_by_cluster_is_that_of_statsmodels(seed, alpha):
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 15, 80)
    d = skewed(80, seed) + rng.normal(0, 0.2, 15)[codes]
    fit = sm.OLS(d, np.ones(80)).fit(
        cov_type="cluster", cov_kwds={"groups": codes, "df_correction": True}, use_t=True
    )
    assert fit.df_resid_inference == len(set(codes)) - 1
    found = outcome("t", d, codes, alpha=alpha)
    assert found.p == pytest.approx(fit.pvalues[0], rel=1e-10)
    assert (found.lo, found.hi) == pytest.approx(tuple(fit.conf_int(alpha)[0]), rel=1e-9)


@pytest.mark.parametrize("name", CLUSTERED)
@pytest.mark.parametrize("n", [8, 43])
def test_clusters_of_one_query_each_are_none(name, n):
    d = skewed(n)
    assert outcome(name, d, np.arange(n)) == outcome(name, d)


@pytest.mark.parametrize("name", CLUSTERED)
def test_clusters_matter(name):
    d, codes = normal(48, mean=0.2) + np.repeat(normal(8, 2, 0), 6), np.repeat(np.arange(8), 6)
    assert outcome(name, d, codes).p > outcome(name, d).p


def test_randomisation_flips_whole_clusters():
    d, codes = skewed(20, 5), np.array([0, 1, 2, 3, 4] * 4)
    sums = [Fraction(round(x * 100), 100) for x in np.bincount(codes, d)]
    assert Fraction(outcome("randomisation", d, codes).p) == counted(sums)


# Anytime.


@pytest.mark.parametrize("n", [2, 3, 20, 100])
def test_anytime_is_the_mixture(n):
    """p is 1 / B, B the density of t under effects d ~ N(0, rho^2) over that without an effect."""
    horizon = 100
    rho = math.sqrt((-2 * math.log(0.05) + math.log(-2 * math.log(0.05)) + 1) / horizon)
    for shift in (0, 0.1, 0.5):
        d = normal(n) + shift
        t = d.mean() / d.std(ddof=1) * math.sqrt(n)

        def density(effect, t=t):
            return stats.nct.pdf(t, n - 1, effect * math.sqrt(n)) * stats.norm.pdf(effect, 0, rho)

        mixed = integrate.quad(density, -8 * rho, 8 * rho, points=[0.0], limit=400)[0]
        found = outcome("anytime", d, horizon=horizon)
        assert found.p == pytest.approx(min(1, stats.t.pdf(t, n - 1) / mixed), rel=1e-6)
        # p is the least alpha whose interval excludes zero.
        if found.p < 0.9:
            near, far = (outcome("anytime", d, alpha=found.p * x) for x in (1 - 1e-9, 1 + 1e-9))
            assert near.lo is None or near.lo <= 0 <= near.hi
            assert far.lo > 0 or far.hi < 0


def test_anytime_is_narrowest_about_its_horizon():
    def width(n, horizon):
        half = [-0.1, 0.1] * (n // 2)
        found = outcome("anytime", half, horizon=horizon)
        return found.hi - found.lo

    for horizon in (20, 100, 1000):
        others = [width(horizon, other) for other in (horizon // 5, horizon * 5)]
        assert width(horizon, horizon) < min(others)


# Corrections.


@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.01, 0.04, 0.5, 1])), max_size=30))
def test_corrections_are_those_of_statsmodels(p):
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    found = {name: np.array(adjusted(p, name)) for name in CORRECTIONS}
    assert found["none"].tolist() == p
    for ours, theirs in (("holm", "holm"), ("bonferroni", "bonferroni"), ("bh", "fdr_bh")):
        expected = multitest.multipletests(p, method=theirs)[1] if p else []
        assert found[ours] == pytest.approx(expected, rel=1e-12)
    assert (found["none"] <= found["bh"] * (1 + 1e-12)).all()
    assert (found["bh"] <= found["holm"] * (1 + 1e-12)).all()
    assert (found["holm"] <= found["bonferroni"] * (1 + 1e-12)).all()


def test_blocks_are_corrected_as_so_many():
    for correction in ("holm", "bonferroni"):
        assert adjusted([0.1, 0.2, 0.4], correction, 3) == pytest.approx([0.3, 0.6, 1])
    assert adjusted([0.1, 0.2], "none", 3) == [0.1, 0.2]


# What holds for every test.


@pytest.mark.parametrize("name", TESTS)
@given(DIFFERENCES)
@example(np.array([0.1, 0.2, -0.3]))
@example(np.array([0.0, 0.0, 0.4]))
@example(np.array([0.1, 0.1, 0.4]) * 1e9)
@example(np.array([0.0, 1.0, 1.0]))
def test_the_interval_goes_with_p(name, differences):
    """Zero lies in it just where p is above alpha. No number is NaN or without end."""
    if name == "tukey" and len(differences) > 20:
        return  # as t, and slow
    for alpha in ALPHAS[1:2] if name == "tukey" else ALPHAS:
        found = outcome(name, differences, alpha=alpha)
        if found.word:
            assert found.word in (NO_DIFFERENCE, NOT_TESTABLE, ZERO_VARIANCE, UNBOUNDED)
            assert (found.lo, found.hi) == (None, None)
            assert (found.p is not None) == (found.word == UNBOUNDED)
            if found.p is not None and name in ("randomisation", "shift", "randomised_tukey"):
                assert found.p > alpha
            continue
        assert all(type(x) is float for x in (found.p,))
        assert 0 <= found.p <= 1
        assert found.p or not TESTS[name].resamples
        if found.lo is None:
            assert not TESTS[name].interval
            continue
        assert type(found.lo) is type(found.hi) is float
        assert math.isfinite(found.lo) and math.isfinite(found.hi)
        assert found.lo <= found.hi
        if TESTS[name].interval:
            assert (found.lo <= 0 <= found.hi) == (found.p > alpha)


@pytest.mark.parametrize("name", TESTS)
@given(DIFFERENCES)
def test_swapped_systems_mirror_everything(name, differences):
    if name == "tukey" and len(differences) > 9:
        return
    one, other = outcome(name, differences), outcome(name, -differences)
    assert (one.p, one.p_error, one.word) == (other.p, other.p_error, other.word)
    if one.lo is not None:
        assert (one.lo, one.hi) == (-other.hi, -other.lo)
    here, there = Sample(differences), Sample(-differences)
    assert here.signs == there.signs[::-1]
    assert here.effect == (None if there.effect is None else -there.effect)


@pytest.mark.parametrize("name", TESTS)
@given(LISTS)
def test_twice_the_differences_twice_the_interval(name, differences):
    differences = np.array(differences)
    if name == "tukey" and len(differences) > 9:
        return
    one, other = outcome(name, differences), outcome(name, differences * 2)
    assert (one.p, one.word) == (other.p, other.word)
    if one.lo is not None:
        assert (2 * one.lo, 2 * one.hi) == (other.lo, other.hi)


@pytest.mark.parametrize("name", TESTS)
@given(DIFFERENCES, st.randoms(use_true_random=False))
def test_the_order_of_queries_changes_what_is_drawn_at_most(name, differences, random):
    """A p that is not resampled is the same; bit for bit, compare sorts the queries."""
    if TESTS[name].resamples and not (name == "randomisation" and len(differences) <= 20):
        return
    if name == "tukey" and len(differences) > 9:
        return
    moved = list(differences)
    random.shuffle(moved)
    one, other = outcome(name, differences), outcome(name, moved)
    assert one.word == other.word
    size = np.abs(differences).max(initial=0)
    if one.p is not None:
        assert one.p == pytest.approx(other.p, rel=1e-9, abs=1e-12)
    if one.lo is not None:
        assert (one.lo, one.hi) == pytest.approx((other.lo, other.hi), abs=1e-9 * size)


@pytest.mark.parametrize("name", CLUSTERED)
@given(DIFFERENCES, st.integers(1, 5))
def test_clusters_keep_the_interval_with_p(name, differences, many):
    codes = np.arange(len(differences)) * 7 % many
    for alpha in ALPHAS:
        found = outcome(name, differences, codes, alpha=alpha)
        if found.lo is not None:
            assert found.lo <= found.hi
            assert (found.lo <= 0 <= found.hi) == (found.p > alpha)
        else:
            assert found.word


WORDS = {
    "no query": ([], NOT_TESTABLE),
    "one query": ([0.5], NOT_TESTABLE),
    "one query, no difference": ([0.0], NOT_TESTABLE),
    "all zero": ([0.0, 0.0, 0.0], NO_DIFFERENCE),
    "all zero but rounding": ([1e-17, -1e-17, 0.0], NO_DIFFERENCE),
    "constant": ([0.2, 0.2, 0.2], ZERO_VARIANCE),
    "constant but rounding": ([0.3 - 0.1, 0.2, 0.5 - 0.3], ZERO_VARIANCE),
    "constant and large": ([1e9, 1e9, 1e9], ZERO_VARIANCE),
}


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("case", WORDS)
def test_words(name, case):
    differences, word = WORDS[case]
    found = outcome(name, differences)
    if word == ZERO_VARIANCE and name in ("randomisation", "randomised_tukey", "wilcoxon", "sign"):
        expected = {"randomisation": 2 / 8, "wilcoxon": 2 / 8, "sign": 2 / 8}.get(name)
        assert found.p == expected or within(found.p, 0.25, 499)
    else:
        assert found == significance.Outcome(word=word)


@pytest.mark.parametrize("name", CLUSTERED)
def test_one_cluster_is_not_testable(name):
    assert outcome(name, [0.1, 0.2, 0.3], [5, 5, 5]).word == NOT_TESTABLE


# compare, from end to end.

QUERIES = [f"q{i:02}" for i in range(30)]


def frames(values, metrics=("AP",), queries=QUERIES, **attributes):
    """A per_query frame for every system; values by metric, query and system, or less of it."""
    values = np.asarray(values, dtype=float)
    values = values if values.ndim == 3 else values[None]
    return {
        f"s{i}": pl.DataFrame(
            {"query": queries[: values.shape[1]]}
            | attributes
            | {name: values[j, :, i] for j, name in enumerate(metrics)}
        )
        for i in range(values.shape[2])
    }


def numeric(table):
    return table.drop("sentence", "verdict")


@pytest.mark.parametrize("name", TESTS)
def test_compare_says_what_the_test_does(name):
    values = block(30, 2).round(2)
    row = rankql.compare(frames(values), test=name, resamples=499).table.row(0, named=True)
    a, b = values.T
    expected = outcome(name, b - a)
    if name in PAIRED:
        assert (row["p"], row["lo"], row["hi"]) == numbers(expected)
    assert row["p_adjusted"] == row["p"]
    assert row["difference"] == pytest.approx(b.mean() - a.mean(), rel=1e-12)
    assert (row["wins"], row["ties"], row["losses"]) == (
        (b > a).sum(), (b == a).sum(), (b < a).sum())  # fmt: skip
    assert row["effect"] == pytest.approx((b - a).mean() / (b - a).std(ddof=1), rel=1e-12)
    assert row["detectable"] == pytest.approx(Sample(b - a).detectable(0.05))


@pytest.mark.parametrize("name", TESTS)
def test_bit_for_bit(name):
    """Neither the order of rows and queries nor that of the systems changes a bit."""
    values = block(30, 2).round(2)
    users = [f"u{i * 7 % 11}" for i in range(30)]
    cluster = {"cluster": "user"} if TESTS[name].clusters else {}
    given = frames(values, user=users)
    options = {"test": name, "resamples": 499, **cluster}
    table = rankql.compare(given, **options).table
    for seed in range(3):
        moved = {k: v.sample(fraction=1, shuffle=True, seed=seed) for k, v in given.items()}
        assert rankql.compare(moved, **options).table.equals(table)
    row = table.row(0, named=True)
    swapped = rankql.compare(dict(reversed(given.items())), **options).table.row(0, named=True)
    for one, other in (("lo", "hi"), ("difference", "difference"), ("effect", "effect")):
        assert swapped[one] == -row[other]
    for one, other in (("wins", "losses"), ("mean_a", "mean_b")):
        assert (swapped[one], swapped[other]) == (row[other], row[one])
    for same in ("p", "p_adjusted", "p_error", "ties", "n", "detectable"):
        assert swapped[same] == row[same]


@pytest.mark.parametrize("name", TESTS)
@settings(max_examples=8)
@given(
    st.lists(
        st.tuples(*[st.sampled_from([0, 0.1, 0.3, 0.5, 1, None])] * 3), min_size=1, max_size=7
    ),
    st.sampled_from([0.95, 0.6]),
)
@example([(0.1, 0.2, 0.3)], 0.95)
@example([(0.1, 0.2, 0.3), (0.2, 0.3, 0.4)], 0.95)
@example([(0.1, 0.2, 0.3), (0.2, 0.2, None)], 0.95)
@example([(0.3, 0.3, 0.3), (0.1, 0.1, 0.1)], 0.95)
def test_every_table_has_numbers_or_words(name, values, confidence):
    """Neither NaN nor inf; a p or a word; intervals that go with p."""
    columns = list(zip(*values, strict=True))
    given = {
        f"s{i}": pl.DataFrame(
            {"query": QUERIES[: len(values)], "AP": column},
            schema={"query": pl.String, "AP": pl.Float64},
        )
        for i, column in enumerate(columns)
    }
    compared = rankql.compare(given, test=name, resamples=199, confidence=confidence)
    assert len(compared.table) == 3
    for row in compared.table.iter_rows(named=True):
        assert all(math.isfinite(x) for x in row.values() if isinstance(x, float))
        judged = ("better", "worse", "no evidence")
        words = (NO_DIFFERENCE, NOT_TESTABLE, ZERO_VARIANCE)
        assert row["verdict"] in (words if row["p"] is None else judged)
        assert (row["p"] is None) == (row["p_adjusted"] is None)
        assert row["p"] is None or 0 <= row["p"] <= row["p_adjusted"] <= 1
        assert row["p"] or not TESTS[name].resamples or row["p"] is None
        assert row["wins"] + row["ties"] + row["losses"] == row["n"]
        if row["lo"] is not None and TESTS[name].interval:
            assert (row["lo"] <= 0 <= row["hi"]) == (row["p"] > round(1 - confidence, 12))
    assert "nan" not in "\n".join(compared.sentences).lower()


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("test", ["t", "tukey"])
def test_nan_is_refused(wrong, test):
    given = frames([[0.1, 0.2], [0.3, wrong], [0.5, 0.6]])
    with pytest.raises(RankqlError, match=rf"AP of 's1' is {wrong}"
                       " for query 'q01'; a value must be a finite number, or NULL"):  # fmt: skip
        rankql.compare(given, test=test)


def test_less_is_better():
    values = np.array([[1.0, 0.5], [0.8, 0.6], [0.9, 0.35], [0.7, 0.7], [1.2, 0.8], [1.1, 0.6]])
    table = rankql.compare(frames([values, values], ["RMSE", "AP"])).table
    rmse, ap = table.iter_rows(named=True)
    for same in ("difference", "p", "lo", "hi", "effect", "ties"):
        assert rmse[same] == ap[same]
    assert (rmse["wins"], rmse["losses"], rmse["verdict"]) == (5, 0, "better")
    assert (ap["wins"], ap["losses"], ap["verdict"]) == (0, 5, "worse")


def test_families():
    """p_adjusted over all tests, or those of a metric; what cannot be tested in neither."""
    values = np.stack([block(30, 3, 1), block(30, 3, 2), block(30, 3, 3)]).round(2)
    values[2, :, 1] = values[2, :, 0]  # no difference
    metrics = ["AP", "RR", "P@1"]
    given = frames(values, metrics, segment=[f"g{i % 2}" for i in range(30)])
    for correction in CORRECTIONS:
        for family, sizes in (("all", [26]), ("metric", [9, 9, 6])):
            options = {"correction": correction, "family": family, "by": "segment"}
            compared = rankql.compare(given, **options)
            table = compared.table
            assert len(table) == 27
            parts = [table] if family == "all" else table.partition_by("metric")
            if family == "all":
                sizes = [24]
            for part, size in zip(parts, sizes, strict=True):
                able = part.drop_nulls("p")
                assert len(able) == size
                expected = adjusted(able["p"].to_list(), correction)
                assert able["p_adjusted"].to_list() == expected
                sentences = able["sentence"].to_list()
                if correction != "none":
                    label = f"{CORRECTIONS[correction]} over {size} tests"
                    assert all(label in sentence for sentence in sentences)
            assert table["verdict"].to_list().count(NO_DIFFERENCE) == 3
            assert "3 of 27 rows cannot be tested, in no family (no difference: 3)" in (
                compared.notes)  # fmt: skip
    p = [set(numeric(rankql.compare(given, correction=x).table)["p"]) for x in CORRECTIONS]
    assert all(each == p[0] for each in p)


@pytest.mark.parametrize("name", ["t", "randomisation", "bootstrap", "bca", "shift", "anytime"])
def test_simultaneous_intervals_go_with_bonferroni(name):
    values = np.stack([block(30, 3, seed) + 0.04 * np.arange(3) for seed in (1, 2)])
    options = {"test": name, "correction": "bonferroni", "resamples": 1999}
    given = frames(values, ["AP", "RR"])
    wide = rankql.compare(given, simultaneous=True, **options).table
    narrow = rankql.compare(given, **options).table
    assert wide["p_adjusted"].equals(narrow["p_adjusted"])
    seen = set()
    for one, other in zip(wide.iter_rows(named=True), narrow.iter_rows(named=True), strict=True):
        assert one["lo"] < other["lo"] < other["hi"] < one["hi"]
        assert (one["lo"] <= 0 <= one["hi"]) == (one["p_adjusted"] > 0.05)
        seen.add(one["p_adjusted"] > 0.05)
    assert seen == {True, False}


def test_tukey_over_blocks():
    """Tukey corrects for its pairs, Bonferroni for metrics and slices; ends go with both."""
    values = np.stack([block(30, 3, seed) + 0.03 * np.arange(3) for seed in (1, 2)])
    given = frames(values, ["AP", "RR"])
    for family, blocks in (("all", 2), ("metric", 1)):
        options = {"test": "tukey", "family": family}
        table = rankql.compare(given, simultaneous=True, **options).table
        pairs = [(0, 1), (0, 2), (1, 2)]
        found = [x for v in values for x in TESTS["tukey"].joint(v, pairs, Setting(0.05 / blocks))]
        assert table["p"].to_list() == pytest.approx([x.p for x in found], rel=1e-9)
        assert table["p_adjusted"].to_list() == [min(1, p * blocks) for p in table["p"]]
        assert table["lo"].to_list() == pytest.approx([x.lo for x in found], abs=1e-12)
        for row in table.iter_rows(named=True):
            assert (row["lo"] <= 0 <= row["hi"]) == (row["p_adjusted"] > 0.05)


def test_tukey_leaves_out_what_has_no_variance():
    """Systems that differ by the same for all queries: no test, in no family."""
    values = np.stack([block(30, 3), np.arange(3) / 10 + np.linspace(0, 0.5, 30)[:, None]])
    table = rankql.compare(frames(values, ["AP", "RR"]), test="tukey").table
    assert table["verdict"].to_list()[3:] == [ZERO_VARIANCE] * 3
    assert table["p_adjusted"].to_list()[:3] == table["p"].to_list()[:3]


@pytest.mark.parametrize("name", JOINT)
def test_joint_tests_take_the_queries_that_all_define(name):
    """A query undefined in one system is out for every pair; of the others, for its own alone."""
    given = frames(block(12, 3).round(2))
    given["s2"] = given["s2"].with_columns(
        pl.when(pl.col("query") != "q03").then(pl.col("AP")).alias("AP")
    )
    without = {key: frame.filter(pl.col("query") != "q03") for key, frame in given.items()}
    table = rankql.compare(given, test=name, resamples=199).table
    assert table["n"].to_list() == [11, 11, 11]
    assert table.equals(rankql.compare(without, test=name, resamples=199).table)
    assert rankql.compare(given).table["n"].to_list() == [12, 11, 11]


@pytest.mark.parametrize("name", ["t", "randomisation", "bca", "tukey"])
def test_slices_are_comparisons_of_their_own(name):
    values = block(30, 2).round(2)
    given = frames(values, segment=["x" if i % 3 else "y" for i in range(30)])
    table = rankql.compare(given, by="segment", test=name, resamples=499).table
    assert table["slice"].to_list() == ["all", "segment=x", "segment=y"]
    for label in "xy":
        alone = {k: f.filter(segment=label).drop("segment") for k, f in given.items()}
        expected = rankql.compare(alone, test=name, resamples=499).table
        columns = ["mean_a", "mean_b", "difference", "lo", "hi", "p", "effect", "wins", "n"]
        part = table.filter(slice=f"segment={label}")
        assert part.select(columns).equals(expected.select(columns))


@pytest.mark.parametrize("name", CLUSTERED)
def test_clusters_end_to_end(name):
    values = block(30, 2).round(2)
    users = [f"u{i * i % 13}" for i in range(30)]
    given = frames(values, user=users)
    row = rankql.compare(given, cluster="user", test=name, resamples=499).table.row(0, named=True)
    expected = outcome(name, values[:, 1] - values[:, 0], users)
    assert (row["p"], row["lo"], row["hi"]) == numbers(expected)
    assert row["n"] == 30
    lone = frames(values, user=QUERIES)
    alone = rankql.compare(lone, cluster="user", test=name, resamples=499).table
    assert alone.equals(rankql.compare(lone, test=name, resamples=499).table)
    users[4] = None
    with pytest.raises(RankqlError, match="cluster: user is NULL for query 'q04'"):
        rankql.compare(frames(values, user=users), cluster="user", test=name)


def runs(**systems):
    """Runs of one item per query; its score is of no matter."""
    return {
        name: pl.DataFrame(
            [(q, item, 1.0) for q, item in items.items()],
            schema=["query", "item", "score"], orient="row",
        )
        for name, items in systems.items()
    }  # fmt: skip


QRELS = pl.DataFrame(
    [(q, item, rel) for q in "abcde" for item, rel in (("good", 1), ("bad", 0))]
    + [("f", "good", 0)],
    schema=["query", "item", "rel"],
    orient="row",
)


def test_missing_and_undefined():
    systems = runs(
        old=dict.fromkeys("abcf", "good") | {"d": "bad"},
        new=dict.fromkeys("abdf", "good") | {"e": "bad"},
    )

    def row(**conventions):
        found = rankql.compare(systems, QRELS, "AP", **conventions)
        return found.table.row(0, named=True), "\n".join(found.notes)

    # a, b: both 1; c: 1 and missing; d: 0 and 1; e: missing and 0; f: undefined.
    found, notes = row()
    assert (found["wins"], found["ties"], found["losses"], found["n"]) == (1, 3, 1, 5)
    assert (found["mean_a"], found["mean_b"]) == (0.6, 0.6)
    assert "1 of 6 queries are missing in old: counted as 0" in notes
    assert "1 of 6 queries are undefined" in notes
    found, notes = row(missing="skip")
    assert (found["wins"], found["ties"], found["losses"], found["n"]) == (1, 2, 0, 3)
    assert "1 of 6 queries are missing in new: left out" in notes
    found, _ = row(undefined="zero")
    assert (found["ties"], found["n"], found["mean_a"]) == (4, 6, 0.5)
    for kind, said in (("missing", "judged but not in the run"), ("undefined", "an undefined")):
        with pytest.raises(RankqlError, match=said):
            row(**{kind: "error"})


def test_other_queries():
    """Frames of other queries: those that one lacks count as 0, of RMSE as nothing."""
    one, other = frames(block(6, 2), ["AP"]).values()
    given = {"one": one.head(4), "other": other.tail(4)}
    row = rankql.compare(given).table.row(0, named=True)
    filled = [*one["AP"][:4], 0, 0], [0, 0, *other["AP"][2:]]
    assert row["n"] == 6
    assert row["difference"] == pytest.approx(np.mean(filled[1]) - np.mean(filled[0]))
    given = {name: frame.rename({"AP": "RMSE"}) for name, frame in given.items()}
    assert rankql.compare(given).table["n"].to_list() == [2]


def test_micro_averages_get_a_word():
    systems = runs(old={"a": "good", "b": "bad", "c": "bad"}, new=dict.fromkeys("abcd", "good"))
    table = rankql.compare(systems, QRELS, ["microP@1", "P@1"]).table
    micro, plain = table.iter_rows(named=True)
    assert micro["p"] is micro["mean_a"] is micro["lo"] is None
    assert micro["verdict"] == "a mean over all queries at once"
    assert plain["p"] == plain["p_adjusted"]  # a family of one


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_queries(name, n):
    values = np.array([[0.1, 0.5], [0.2, 0.4]])[:n]
    row = rankql.compare(frames(values), test=name).table.row(0, named=True)
    if n == 1:
        assert (row["verdict"], row["p"], row["lo"], row["effect"]) == (NOT_TESTABLE, *[None] * 3)
        assert row["difference"] == 0.4
        assert row["sentence"] == "s1 differs from s0 by 0.4 on 1 query: too few to test"
    else:
        assert 0.05 < row["p"] <= 1 or name in ("bootstrap", "bca")
        assert row["verdict"] == "no evidence" or name in ("bootstrap", "bca")


def test_many_systems():
    """50 systems: each pair once; against a baseline, 49."""
    values = block(43, 50)
    given = frames(values, queries=[f"q{i:02}" for i in range(43)])
    table = rankql.compare(given).table
    assert len(table) == table.select("a", "b").n_unique() == 1225
    for row in table.sample(20, seed=1).iter_rows(named=True):
        a, b = (values[:, int(row[side][1:])] for side in "ab")
        assert row["p"] == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)
    expected = adjusted(table["p"].to_list(), "holm")
    assert table["p_adjusted"].to_list() == expected
    some = rankql.compare(given, baseline="s7", test="tukey").table
    assert some["a"].unique().to_list() == ["s7"] and len(some) == 49
    p = stats.studentized_range.sf
    left = values - values.mean(1, keepdims=True) - values.mean(0) + values.mean()
    error = math.sqrt((left**2).sum() / (42 * 49) / 43)
    for row in some.head(3).iter_rows(named=True):
        expected = p(abs(row["difference"]) / error, 50, 42 * 49)
        assert row["p"] == pytest.approx(expected, rel=1e-6, abs=1e-12)


# Real data.


@pytest.fixture(scope="module")
def dl19():
    if not DATA.is_dir():
        pytest.skip(f"no data: {DATA} is absent")
    spaced = {"separator": " ", "has_header": False}
    qrels = pl.read_csv(DATA / "dl19.qrels", new_columns=["query", "0", "item", "rel"], **spaced)
    names = ["query", "Q0", "item", "rank", "score", "tag"]
    given = {
        name: pl.read_csv(DATA / f"{name}.run", new_columns=names, **spaced).select(
            "query", "item", "score"
        )
        for name in RUNS
    }
    qrels = qrels.select("query", "item", "rel")
    return given, qrels, rankql.evaluate(given, qrels, ["nDCG@10", "AP", "RR", "P@5"])


@pytest.mark.parametrize("name", TESTS)
def test_dl19(dl19, name):
    """SPLADE against BM25 and TAS-B: scipy's differences, p-values and intervals."""
    *_, result = dl19
    table = rankql.compare(result, baseline=RUNS[2], test=name, correction="none").table
    assert table["n"].unique().to_list() == [43]
    for row in table.iter_rows(named=True):
        a, b = (
            result.per_query.filter(system=row[side]).sort("query")[row["metric"]].to_numpy()
            for side in "ab"
        )
        student = stats.ttest_rel(b, a)
        ends = tuple(student.confidence_interval(0.95))
        assert row["difference"] == pytest.approx((b - a).mean(), abs=1e-14)
        width = ends[1] - ends[0]
        if name in ("t", "wilcoxon", "sign"):
            assert (row["lo"], row["hi"]) == pytest.approx(ends, abs=1e-12)
        elif name == "randomisation":
            assert (row["lo"], row["hi"]) == pytest.approx(ends, abs=0.06 * width)
        elif name in ("bootstrap", "bca"):
            low, high = stats.bootstrap(
                (b - a,),
                np.mean,
                n_resamples=9_999,
                batch=1000,
                rng=np.random.default_rng(5),
                method="BCa" if name == "bca" else "percentile",
            ).confidence_interval
            step = 2 / 43 / 5 if row["metric"] == "P@5" else 0  # its means are few
            close = pytest.approx((low, high), abs=0.04 * width + 1.01 * step)
            assert (row["lo"], row["hi"]) == close
        d = np.round(b - a, 10)
        if name == "t":
            assert row["p"] == pytest.approx(student.pvalue, rel=1e-12)
        elif name == "wilcoxon":
            assert row["p"] == stats.wilcoxon(d).pvalue
        elif name == "sign":
            ups, downs = int((d > 0).sum()), int((d < 0).sum())
            assert row["p"] == stats.binomtest(ups, ups + downs).pvalue
        elif name == "randomisation":
            theirs = stats.permutation_test(
                (b, a),
                lambda x, y, axis: (x - y).mean(axis),
                permutation_type="samples",
                vectorized=True,
                n_resamples=9_999,
                batch=1000,
                rng=np.random.default_rng(5),
            )
            assert within(row["p"], (row["p"] + theirs.pvalue) / 2, 9_999, errors=5)


def test_dl19_from_runs_and_results(dl19):
    given, qrels, result = dl19
    table = rankql.compare(given, qrels, ["nDCG@10", "AP", "RR", "P@5"]).table
    assert table.equals(rankql.compare(result).table)
    one = {name: rankql.evaluate(run, qrels, result.metrics) for name, run in given.items()}
    assert table.equals(rankql.compare(one).table)


# One million queries.

MILLION = """
import resource, sys, numpy as np, polars as pl, rankql
rng = np.random.default_rng(1)
a = rng.beta(2, 2, 1_000_000).round(3)
b = np.clip(a + rng.normal(0.0005, 0.1, len(a)), 0, 1)
given = {k: pl.DataFrame({"query": np.arange(len(a)), "AP": v}) for k, v in (("a", a), ("b", b))}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for test in sys.argv[1:]:
    row = rankql.compare(given, test=test, resamples=10_000).table.row(0, named=True)
    print(test, row["p"], row["lo"], row["hi"])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20)
"""


@pytest.mark.slow
def test_a_million_queries():
    """10,000 resamples of them take less than a gigabyte, and say what t does."""
    done = subprocess.run(
        [sys.executable, "-c", MILLION, "t", "randomisation"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    student, randomisation, (rise,) = (line.split() for line in done.stdout.splitlines())
    assert within(float(randomisation[1]), float(student[1]), 10_000)
    ends = [[float(x) for x in line[2:]] for line in (randomisation, student)]
    assert ends[0] == pytest.approx(ends[1], abs=0.05 * (ends[1][1] - ends[1][0]))
    assert float(rise) < 1

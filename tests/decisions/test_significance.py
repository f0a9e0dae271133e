"""The statistics of compare: beside scipy and statsmodels, and beside their definitions.

How often they reject in the long run is seen in test_simulation.py.
"""

import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import rankql
from rankql.core.stats import tests
from rankql.core.stats.sample import Sample
from rankql.core.stats.tests import (
    CORRECTIONS,
    NO_INTERVAL,
    NOT_TESTABLE,
    TESTS,
    ZERO_VARIANCE,
    adjust_p_values,
)
from support.components import optional
from support.environments import run
from support.own_values import compare_values
from support.parameters import few

# Sakai's worked example, 20 topics: b is his X, a his Y.
B = [7, 3, 2, 6, 4, 4, 0, 7, 1, 3, 5, 4, 0, 6, 5, 3, 1, 5, 2, 1]
A = [5, 1, 0, 2, 4, 3, 0, 5, 3, 3, 4, 4, 1, 4, 2, 1, 1, 6, 3, 2]
SAKAI = np.array(B) / 10 - np.array(A) / 10


def outcome(name, differences, clusters=None, alpha=0.05, bounds=None, **setting):
    """The result of a test of these differences."""
    differences = np.asarray(differences, dtype=float)
    codes = None if clusters is None else np.unique(clusters, return_inverse=True)[1]
    widest = 2 * float(np.abs(differences).max(initial=0))
    low, high = bounds or (-widest, widest)
    return TESTS[name](**{"resamples": 499} | setting).apply(
        Sample(differences, codes, None, low, high), alpha
    )


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
    sample = Sample(SAKAI)
    assert sample.mean / sample.error == pytest.approx(2.11576, abs=5e-6)
    assert outcome("randomisation", SAKAI).p == 69120 / 2**20
    systems = frames(np.stack([A, B], axis=1) / 10)
    row = compare_values(systems, test="t").pairs.row(0, named=True)
    assert row["p"] == pytest.approx(0.0477968, abs=5e-8) and row["verdict"] == "better"
    assert (row["lo"], row["hi"]) == pytest.approx((0.000806, 0.149194), abs=5e-7)


# Student's t.


def test_detectable():
    sample, quantile = Sample(normal(43)), stats.t.ppf(0.975, 42)
    size = TESTS["t"](0, 0).detectable(sample, 0.05)
    expected = (quantile + stats.t.ppf(0.8, 42)) * sample.values.std(ddof=1) / math.sqrt(43)
    assert size == pytest.approx(expected, rel=1e-12)
    # If the true difference is as large, a t test detects it with this power.
    assert stats.nct.sf(quantile, 42, size / sample.error) == pytest.approx(0.8, abs=0.005)
    for values in ([0.2], [0.2, 0.2]):
        assert TESTS["t"](0, 0).detectable(Sample(np.array(values)), 0.05) is None


@pytest.mark.statsmodels
@pytest.mark.parametrize("effect", [0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, -0.3])
@pytest.mark.parametrize("alpha, power", [(0.05, 0.8), (0.01, 0.9), (0.1, 0.5)])
def test_queries_needed(effect, alpha, power):
    power_of = optional("statsmodels.stats.power").TTestPower().power
    n = rankql.queries_needed(effect, alpha, power)
    assert power_of(abs(effect), n, alpha) >= power - 1e-9
    assert n == 2 or power_of(abs(effect), n - 1, alpha) < power + 1e-9


@pytest.mark.parametrize("units", [3, 5, 6, 12])
def test_no_power_where_no_pattern_of_signs_is_unlikely(units):
    """With 5 queries the smallest p of the randomisation test is 2 / 2^5."""
    size = TESTS["randomisation"]().detectable(Sample(normal(units)), 0.05)
    assert (size is None) == (units < 6)


# Randomisation.


def counted(differences):
    """p by the definition: all patterns of signs, in fractions."""
    observed, extreme = abs(sum(differences)), 0
    for signs in itertools.product((1, -1), repeat=len(differences)):
        extreme += abs(sum(map(Fraction.__mul__, map(Fraction, signs), differences))) >= observed
    return Fraction(extreme, 2 ** len(differences))


@settings(max_examples=15)
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
    result = outcome("randomisation", [x / parts * scale for x in tenths])
    assert Fraction(result.p) == exact


@pytest.mark.parametrize("draw", [normal, skewed])
@pytest.mark.parametrize("seed", range(3))
def test_sampled_randomisation_is_the_exact_one(draw, seed):
    d = draw(16, seed)
    exact = outcome("randomisation", d)
    options = {"resamples": 20_000, "exact": 8}
    result = outcome("randomisation", d, seed=seed, **options)
    assert within(result.p, exact.p, 20_000)
    assert (result.lo, result.hi) == pytest.approx((exact.lo, exact.hi), abs=0.01)
    assert outcome("randomisation", d, seed=seed, **options) == result
    assert outcome("randomisation", d, seed=seed + 1, **options) != result


@few(9)("n", [7, 12, 40])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("draw", [normal, skewed])
@pytest.mark.parametrize("clusters", [False, True])
def test_the_interval_of_randomisation_inverts_it(n, alpha, draw, clusters):
    """Each end is the shift at which the test begins to reject: p on either side of it."""
    n = max(n, 12) if clusters else n
    d = draw(n)
    codes = np.arange(n) * 6 // 7 if clusters else None
    result = outcome("randomisation", d, codes, alpha=alpha)

    def p(shift):
        return outcome("randomisation", d - shift, codes, alpha=alpha).p

    for end, outwards in ((result.lo, -1e-7), (result.hi, 1e-7)):
        assert p(end - outwards) > alpha
        assert p(end + outwards) <= alpha
    assert result.lo < d.mean() < result.hi


def block(n, m, seed=1):
    rng = np.random.default_rng(seed)
    return np.clip(rng.random((n, 1)) + rng.normal(0, 0.2, (n, m)) + np.arange(m) / (5 * m), 0, 1)


# Clusters.


@pytest.mark.parametrize("seed", range(3))
def test_t_by_clusters_is_the_jackknife(seed):
    """The means without one cluster each; degrees of freedom from the matrix of Satterthwaite."""
    rng = np.random.default_rng(seed)
    codes = np.unique(rng.integers(0, 15, 80) ** 2, return_inverse=True)[1]
    d = skewed(80, seed) + rng.normal(0, 0.2, 15)[codes]
    groups, n = codes.max() + 1, len(d)
    without = np.array([d[codes != g].mean() for g in range(groups)])
    error = math.sqrt((groups - 1) / groups * np.square(without - d.mean()).sum())
    sample = Sample(d, codes)
    assert sample.error == pytest.approx(error, rel=1e-12)
    # The jackknife's variance is the sum of squares of P d, so the one of independent d has the
    # moments tr(PP') and 2 tr(PP'PP').
    rows = np.array([(codes != g) / (codes != g).sum() - 1 / n for g in range(groups)])
    product = rows @ rows.T
    freedom = np.trace(product) ** 2 / np.trace(product @ product)
    assert sample.freedom == pytest.approx(freedom, rel=1e-10)
    assert freedom < groups - 1
    result = outcome("t", d, codes)
    assert result.p == pytest.approx(2 * stats.t.sf(abs(d.mean() / error), freedom), rel=1e-9)
    half = stats.t.ppf(0.975, freedom) * error
    assert (result.lo, result.hi) == pytest.approx((d.mean() - half, d.mean() + half), rel=1e-9)


@pytest.mark.parametrize("name", TESTS)
def test_clusters_are_tested_from_ten_on(name):
    """If each has one query, as if there were none."""
    assert outcome(name, skewed(60), np.arange(60) % 9).reason == NOT_TESTABLE
    assert outcome(name, skewed(60), np.arange(60) % 10).p is not None
    for n in (10, 43):
        assert outcome(name, skewed(n), np.arange(n)) == outcome(name, skewed(n))


def test_randomisation_flips_whole_clusters():
    d, codes = skewed(30, 5), np.arange(30) % 10
    sums = [Fraction(round(x * 100), 100) for x in np.bincount(codes, d)]
    assert Fraction(outcome("randomisation", d, codes).p) == counted(sums)


# Corrections.


@pytest.mark.statsmodels
@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.01, 0.04, 0.5, 1])), max_size=30))
def test_corrections_are_those_of_statsmodels(p):
    multitest = optional("statsmodels.stats.multitest")
    result = {name: np.array(adjust_p_values(p, name)) for name in CORRECTIONS}
    assert result["none"].tolist() == p
    for ours, theirs in (("holm", "holm"), ("bonferroni", "bonferroni"), ("bh", "fdr_bh")):
        expected = multitest.multipletests(p, method=theirs)[1] if p else []
        assert result[ours] == pytest.approx(expected, rel=1e-12)
    assert (result["none"] <= result["bh"] * (1 + 1e-12)).all()
    assert (result["bh"] <= result["holm"] * (1 + 1e-12)).all()
    assert (result["holm"] <= result["bonferroni"] * (1 + 1e-12)).all()


# What holds for every test.


@pytest.mark.parametrize("name", TESTS)
@given(DIFFERENCES, st.sampled_from([None, 10, 12]))
@example(np.array([0.1, 0.2, -0.3]), None)
@example(np.array([0.0, 0.0, 0.4]), None)
@example(np.array([0.1, 0.1, 0.4]) * 1e9, None)
@example(np.array([0.0, 1.0, 1.0]), None)
def test_the_interval_goes_with_p(name, differences, clusters):
    """It contains 0 exactly if p is above alpha. No number is NaN or infinite."""
    codes = None
    if clusters:
        codes = np.arange(len(differences)) ** (1 if len(differences) >= 10 else 2) % clusters
    for alpha in ALPHAS:
        result = outcome(name, differences, codes, alpha=alpha)
        if result.reason:
            assert result.reason in (NOT_TESTABLE, ZERO_VARIANCE, NO_INTERVAL)
            assert (result.lo, result.hi) == (None, None)
            assert (result.p is not None) == (result.reason == NO_INTERVAL)
            assert name != "randomisation" or result.p is None or result.p > alpha
            continue
        assert {type(x) for x in (result.p, result.lo, result.hi)} == {float}
        assert 0 <= result.p <= 1 and (result.p or name != "randomisation")
        assert -math.inf < result.lo <= result.hi < math.inf
        assert (result.lo <= 0 <= result.hi) == (result.p > alpha)


@pytest.mark.parametrize("name", TESTS)
@given(DIFFERENCES, st.sampled_from([-1, 2]))
def test_swapped_systems_and_other_units_change_nothing_else(name, differences, factor):
    one, other = outcome(name, differences), outcome(name, factor * differences)
    assert (one.p, one.reason) == (other.p, other.reason)
    if one.lo is not None:
        ends = sorted((factor * one.lo, factor * one.hi))
        assert [other.lo, other.hi] == pytest.approx(ends, rel=1e-12, abs=1e-15)
    same, scaled = Sample(differences), Sample(factor * differences)
    if factor < 0:
        assert same.signs == scaled.signs[::-1]
        assert same.effect == (None if scaled.effect is None else -scaled.effect)


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize(
    ("differences", "reason"),
    [
        ([], NOT_TESTABLE),
        ([0.5], NOT_TESTABLE),
        ([0.0], NOT_TESTABLE),
        ([0.0] * 3, ZERO_VARIANCE),
        ([1e-17, -1e-17, 0.0], ZERO_VARIANCE),  # rounding
        ([0.3 - 0.1, 0.2, 0.5 - 0.3], ZERO_VARIANCE),
        ([1e9] * 3, ZERO_VARIANCE),
    ],
)
def test_equal_differences_have_an_interval_only_if_their_range_is_known(name, differences, reason):
    flat = reason == ZERO_VARIANCE
    for bounds in ((-10e9, 10e9), None):
        result = outcome(name, differences, bounds=bounds)
        if flat and name == "auto":
            if differences[0]:
                assert 0.05 < result.p <= 1 and result.lo < differences[0] < result.hi
        elif flat and name == "randomisation" and differences[0] > 0.1:
            assert result.p == 2 / 8 and result.reason == NO_INTERVAL
        else:
            assert (result.p, result.lo, result.reason) == (None, None, reason)
    assert TESTS["auto"]().apply(Sample(np.array(differences)), 0.05).reason == reason


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


@few(1)("name", TESTS)
def test_the_order_of_rows_changes_no_bit(name):
    systems = frames(block(30, 2).round(2), user=[f"u{i * 7 % 11}" for i in range(30)])
    moved = {k: v.sample(fraction=1, shuffle=True, seed=1) for k, v in systems.items()}
    options = {"test": name, "resamples": 499, "cluster": "user"}
    tables = [compare_values(each, **options).pairs for each in (systems, moved)]
    assert tables[0].equals(tables[1])


@few(1)("correction", [x for x in CORRECTIONS if x != "none"])
def test_sentences_and_notes_have_the_number_of_tests(correction):
    values = np.stack([block(30, 3, seed) for seed in (1, 2)]).round(2)
    values[1, :, 1] = values[1, :, 0]  # no difference
    systems = frames(values, ["AP", "RR"])
    compared = compare_values(systems, test="t", correction=correction)
    words = {"holm": "Holm", "bonferroni": "Bonferroni", "bh": "Benjamini-Hochberg"}
    label = f"{words[correction]}-adjusted for 5 tests"
    assert all(label in x for x in compared.pairs.drop_nulls("p")["sentence"])
    assert "Not tested: 1 of 6 rows (zero variance: 1)" in compared.notes


def test_a_missing_query_counts_as_the_worst_value_where_there_is_one():
    """An RMSE has no worst value, so the query is left out, and is not called undefined."""
    values = {"AP": [0.5, 0.6, 0.7], "RMSE": [1.0, 2.0, 3.0]}
    old = pl.DataFrame({"query": list("abc"), **values})
    new = old.head(2).with_columns(pl.col("AP", "RMSE") * 1.1)
    notes = compare_values({"old": old, "new": new}).notes
    assert [note for note in notes if note.startswith("Queries") or "undefined" in note] == [
        "Queries: 1 of 3 (new) missing and counted as the worst value",
        "Queries: 1 of 3 (RMSE) missing in at least one system and left out",
    ]


# 300,000 queries.

MANY = """
import numpy as np, polars as pl, rankql
rng = np.random.default_rng(1)
a = rng.beta(2, 2, 300_000).round(3)
b = np.clip(a + rng.normal(0.0005, 0.1, len(a)), 0, 1)
systems = {k: pl.DataFrame({"query": np.arange(len(a)), "AP": v}) for k, v in (("a", a), ("b", b))}
def peak():  # ru_maxrss of a child may be that of its parent
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 2**20
values = {k: rankql.read_values(x) for k, x in systems.items()}
before = peak()
for test in ("t", "randomisation"):
    print(*rankql.compare(values, test=test, resamples=10_000).pairs["p", "lo", "hi"].row(0))
print(peak() - before)
"""


@pytest.mark.slow
def test_many_queries():
    """10,000 resamples of them take less than half a gigabyte, and agree with t."""
    printed = run(sys.executable, "-c", MANY)
    student, randomisation, (rise,) = (map(float, x.split()) for x in printed.splitlines())
    p, *ends = student
    other_p, *other_ends = randomisation
    assert within(other_p, p, 10_000)
    assert other_ends == pytest.approx(ends, abs=0.05 * (ends[1] - ends[0]))
    assert rise < 0.5


# Almost equal differences.


@few(1)("n", [12, 30])
@pytest.mark.parametrize(("test", "mean"), [("auto", 0.02), ("auto", -0.02), ("mean", 0.02)])
def test_nothing_jumps_from_equal_differences_to_others(n, test, mean):
    """From a spread of 0 to 2% of the range of 2; from 1% on, it is Student's t."""
    test = {"auto": TESTS["auto"], "mean": tests.MeanTest}[test]()
    shape = np.random.default_rng(n).uniform(0, 1, n)
    shape = (shape - shape.min()) / np.ptp(shape) - 0.5
    shares = [0, 1e-8, *np.linspace(0.0001, 0.02, 200)]
    samples = [Sample(mean + 2 * share * shape, None, None, -1.0, 1.0) for share in shares]
    results = [test.apply(sample, 0.05) for sample in samples]
    widths = np.array([result.hi - result.lo for result in results])
    assert np.abs(np.diff(widths)).max() < 0.012 * widths.max()
    for sample, result in zip(samples, results, strict=True):
        assert (result.lo <= 0 <= result.hi) == (result.p > 0.05)
        at_p = test.apply(sample, max(result.p, 1e-12))
        assert result.p in (1.0, pytest.approx(0, abs=1e-12)) or (
            min(abs(at_p.lo), abs(at_p.hi)) < 1e-9
        )
    detectable = [test.detectable(sample, 0.05) for sample in samples[1:]]
    assert np.abs(np.diff(detectable)).max() < 0.012 * max(detectable)
    # t is so large that its p rounds to 0.
    result = test.apply(Sample(0.5 + 1e-11 * np.arange(60), None, None, -1.0, 1.0), 0.05)
    assert result.lo > 0 and 1e-12 < result.p < 1e-9

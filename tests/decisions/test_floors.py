"""A comparison that could not have been significant, because few queries differ."""

import itertools

import numpy as np
import polars as pl
import pytest
from scipy import stats

import rankql
from rankql.core.stats.prediction_powered import CorrectedSample
from rankql.core.stats.sample import Sample, SlicedSample
from rankql.core.stats.tests import TESTS, bound_by_share, run_family
from research.simulation import REPEATS, at_most
from support.judged_runs import corrected
from support.parameters import few

ALPHA = 0.05


def signs(m):
    """All patterns of so many signs, one a row."""
    return np.array([*itertools.product([1.0, -1.0], repeat=m)])


def of(values, zeros=0, **options):
    """A sample of differences in -1 to 1, with more queries that do not differ."""
    values = np.concatenate([values, np.zeros(zeros)])
    return Sample(values, lowest=-1.0, highest=1.0, **options)


@few(4)("m", [*range(2, 9), 12])
def test_no_exact_paired_test_has_a_smaller_p(m):
    """Enumerated: the share of all patterns of signs whose sum is as large, and that of ours."""
    patterns, sizes = signs(m), np.linspace(0.1, 0.4, m)
    sums = np.abs(patterns @ sizes)
    p = (sums[:, None] <= sums + 1e-12).mean(axis=1)
    floor = of(sizes).p_floor
    assert p.min() == floor == min(1.0, 2.0 ** (1 - m))
    step = max(1, len(patterns) // 64)
    for name, pattern, exact in zip(
        itertools.cycle(TESTS), patterns[::step], p[::step], strict=False
    ):  # each test takes turns
        for zeros in (0, 30):
            sample = of(pattern * sizes, zeros)
            result = TESTS[name](resamples=200).apply_to_zero(sample, ALPHA)
            assert result.p >= floor and sample.p_floor == floor
            assert name != "randomisation" or result.p == pytest.approx(exact)
            if result.lo is not None:
                assert (result.lo > 0 or result.hi < 0) == (result.p <= ALPHA)


def test_what_counts_as_a_query_that_differs():
    pairs = np.array([0.2, -0.2, 0.1, 0.3, 0.0, 0.1])
    assert of(pairs).differing == 5
    assert of(pairs, clusters=np.array([0, 0, 1, 1, 2, 2])).differing == 2  # 0 adds up to 0
    slices = {"a": of(pairs[:3]), "b": of(pairs[3:])}
    assert SlicedSample.of(slices).differing == 5
    assert of(np.zeros(5)).p_floor == 1 and of(np.full(2000, 0.1)).p_floor == 0
    y = np.linspace(0, 1, 30)
    judged = corrected(y, y, np.tile(y, 3))
    assert isinstance(judged, CorrectedSample) and judged.p_floor == 0


def compared(differences, queries, **options):
    """Two systems; the first queries have these differences, and the rest are equal."""
    old = np.tile([0.4, 0.5], queries)[:queries]
    new = old + np.append(differences, np.zeros(queries - len(differences)))
    keys = {"query": range(queries), "part": np.arange(queries) // 2, "w": np.arange(queries) > 1}
    frames = (pl.DataFrame({**keys, "AP": x}).cast({"w": pl.Int64}) for x in (old, new))
    results = [rankql.read_values(x, query="query", metrics=["AP"]) for x in frames]
    return rankql.compare(dict(zip(("old", "new"), results, strict=True)), **options)


@few(1)("test", TESTS)
@pytest.mark.parametrize(("m", "queries"), [(3, 10), (4, 1_000)])
def test_few_that_differ_decide_nothing(test, m, queries):
    comparison = compared([0.1] * m, queries, test=test)
    row = comparison.pairs.row(0, named=True)
    assert row["p"] == row["p_floor"] == 2.0 ** (1 - m)
    assert f"{m} of {queries:,} queries differ, 6 are needed" in row["sentence"]
    assert "Undecided" in comparison.title and "too few differ" in repr(comparison)
    assert any(note.startswith("Cannot be decided: 1 of 1 row") for note in comparison.notes)
    assert comparison.to_dict()["table"][0]["p_floor"] == 2.0 ** (1 - m)


@pytest.mark.parametrize(("m", "n", "most"), [(3, 5_000, "0.0018"), (0, 5_000, "0.00074")])
def test_few_that_differ_bound_the_difference(m, n, most):
    """By the upper end of Clopper and Pearson's interval of their share."""
    sample = of([0.5] * m, n - m)
    end = stats.binomtest(m, n).proportion_ci(method="exact").high
    assert bound_by_share(sample, ALPHA) == pytest.approx(end, rel=1e-9)
    assert f"{end:.2g}" == most
    sentence = compared([0.5] * m, n).pairs["sentence"].item()
    assert not m or sentence.endswith(f"6 are needed. It is at most {most} (95%)")
    assert bound_by_share(of([0.5] * 3, 97), ALPHA) is None
    assert bound_by_share(Sample(np.append([0.5] * 3, np.zeros(4997))), ALPHA) is None


def test_a_gate_passes_what_cannot_be_decided_at_a_limit_of_0_only():
    results = compared([0.2] * 4, 60).result.frame()
    old, new = (
        rankql.read_values(results.filter(system=name).select("query", "AP"))
        for name in ("old", "new")
    )
    message = rankql.gate(old, baseline=new).table["message"].item()
    assert "cannot be decided, 4 of 60 queries differ, 6 are needed" in message
    other = rankql.gate(old, baseline=new, max_drop="AP:0.001")
    assert "cannot be decided" not in repr(other) and other.outcome == "inconclusive"


def test_the_rows_of_pairs_show_floors_where_they_matter():
    assert "p_floor" in repr(compared([0.1] * 4, 20).long())
    assert "p_floor" not in repr(compared([0.1] * 14, 20).long())


@pytest.mark.simulation
def test_families_of_rows_with_few_that_differ_are_rarely_wrong():
    """The family is chosen by the sizes of the differences alone, so its level holds."""
    rng, wrong, repeats = np.random.default_rng(6), 0, min(REPEATS, 1000)
    test = TESTS["randomisation"]()
    for _ in range(repeats):
        drawn = (
            rng.choice([-1, 1], m) * rng.uniform(0.1, 0.3, m) for m in (3, 4, 5, 6, 7, 7, 8, 9)
        )
        samples = [of(x, 9 - len(x)) for x in drawn]
        wrong += min(x.p_adjusted for x in run_family(samples, test, "holm", ALPHA)) <= ALPHA
    assert at_most(wrong / repeats, repeats=repeats)

"""Gains and losses of 1: more gains never raise p, and it goes with the interval."""

import functools

import numpy as np
import polars as pl
import pytest
from scipy import stats

import rankql
from rankql.core.stats.prediction_powered import CorrectedSample
from rankql.core.stats.sample import Sample, SlicedSample
from rankql.core.stats.tests import TESTS, MeanTest, run_family
from rankql.decisions.judged_systems import describe_changes
from support.parameters import few

AUTO = TESTS["auto"]()


def signs(n, gains, losses=0, **options):
    """So many gains and losses of n queries."""
    values = np.repeat([1.0, -1.0, 0.0], [gains, losses, n - gains - losses])
    return Sample(values, **{"lowest": -1.0, "highest": 1.0} | options)


@functools.cache
def p_of(n, gains, losses):
    """p; without a difference, 1."""
    result = AUTO.apply_to_zero(signs(n, gains, losses), 0.05)
    return 1.0 if result.p is None else result.p


@few(3)("n", range(8, 101))
def test_more_gains_never_raise_p(n):
    """In place of a tie or a loss, or of one more query. Student's t rises, from 8 queries on."""
    for gains in range(n + 1):
        for losses in range(min(gains, n - gains) + 1):
            p = p_of(n, gains, losses) * (1 + 1e-12)
            assert p_of(n + 1, gains + 1, losses) <= p
            assert gains + losses == n or p_of(n, gains + 1, losses) <= p
            assert not losses or p_of(n, gains + 1, losses - 1) <= p


@pytest.mark.parametrize(("n", "all_gains"), [(12, (6, 8, 9, 10, 11, 12)), (20, (10, 14, 16, 18))])
def test_gains_alone_have_the_p_of_mcnemar(n, all_gains):
    """Also of a metric whose range is not known, where all queries gain too."""
    for gains in all_gains:
        exact = stats.binomtest(gains, gains).pvalue
        for range_of in ({}, {"lowest": -np.inf, "highest": np.inf}):
            for sign in (1, -1):
                sample = signs(n, gains, **range_of)
                sample = sample if sign > 0 else Sample(-sample.values, **range_of)
                result = AUTO.apply_to_zero(sample, 0.05)
                assert result.p == pytest.approx(exact, rel=1e-12)
                if result.lo is not None:
                    assert 0 < min(sign * result.lo, sign * result.hi) <= gains / n


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.2])
@pytest.mark.parametrize("n", [9, 12, 20, 25])
def test_the_interval_excludes_0_exactly_if_p_is_at_most_alpha(n, alpha):
    """It is that of Student's t but for the end at 0, which is printed as 0."""
    cut = 0
    for gains in range(n + 1):
        for losses in range(min(n - gains, 5) + 1):
            sample = signs(n, gains, losses)
            result, plain = AUTO.apply_to_zero(sample, alpha), AUTO.apply(sample, alpha)
            if gains == losses == 0:
                continue
            assert (result.lo <= 0 <= result.hi) == (result.p > alpha)
            exact = stats.binomtest(gains, gains + losses).pvalue
            assert result.p == pytest.approx(max(min(exact, plain.p), sample.p_floor), rel=1e-9)
            only_exact = exact * (1 + 1e-12) <= alpha < plain.p
            if only_exact:
                assert f"{min(abs(result.lo), abs(result.hi)):.12f}" in (
                    "0.000000000000",
                    "0.000000000001",
                )
            elif result.p <= alpha:
                assert (result.lo, result.hi) == (plain.lo, plain.hi)
            cut += only_exact
    assert cut or alpha != 0.05


def test_other_samples_keep_their_p():
    """Smaller gains, clusters, weights, slices, corrections by a judge, and limits of means."""
    sample = signs(20, 16)
    wider = {"lowest": -2.0, "highest": 2.0}
    others = [
        Sample(sample.values / 2, lowest=-1, highest=1), Sample(2 * sample.values, **wider),
        signs(20, 16, **wider), signs(20, 16, weights=np.ones(20)),
        signs(20, 16, clusters=np.arange(20)),
        SlicedSample.of({"a": sample, "b": sample}), sample.minus(0.25),
    ]  # fmt: skip
    assert sample.exact_p == 2**-15 and [x.exact_p for x in others] == [1.0] * len(others)
    for other in others:
        assert AUTO.apply_to_zero(other, 0.05) == AUTO.apply(other, 0.05)
    assert MeanTest().apply_to_zero(sample, 0.05) == MeanTest().apply(sample, 0.05)
    by_t = TESTS["t"]().apply_to_zero(signs(20, 16, 2), 0.05)
    assert by_t == TESTS["t"]().apply(signs(20, 16, 2), 0.05)
    assert CorrectedSample.exact_p is not Sample.exact_p


def test_in_a_family_each_interval_agrees_with_its_adjusted_p():
    """McNemar's p of 12 gains and a loss of 14 queries is .0034, that of t .28."""
    by_t = AUTO.apply(signs(14, 12, 1), 0.05).p
    exact = 2 * 14 / 2**13
    assert exact < by_t / 10
    for tests, significant in ((14, True), (15, False)):
        results = run_family([signs(14, 12, 1)] * tests, AUTO, "bonferroni", 0.05)
        for result in results:
            assert result.p_adjusted == pytest.approx(tests * exact)
            assert (result.lo > 0) == significant == (result.p_adjusted <= 0.05)


def hits(n, found):
    """A run that has the relevant item of so many of n queries first."""
    queries = [f"q{i}" for i in range(n)]
    first = [("r" if i < found else "x") for i in range(n)]
    run = pl.DataFrame({"query": queries, "item": first, "pos": [1] * n})
    other = pl.DataFrame({"query": queries, "item": ["z"] * n, "pos": [2] * n})
    return pl.concat([run, other])


TRUTH = pl.DataFrame({"query": [f"q{i}" for i in range(20)], "item": "r", "rel": 1})
WITH_OTHER = pl.concat([TRUTH, TRUTH.with_columns(item=pl.lit("z"), rel=pl.lit(0, pl.Int32))])


def test_compare_and_gate_decide_alike():
    """9 of 12 queries gain, or lose, which t alone does not find."""
    truth, runs = TRUTH.head(12), {"A": hits(12, 0), "B": hits(12, 9)}
    options = {"metrics": "Success@1", "none_judged": "zero"}
    comparison = rankql.compare(runs, truth, **options)
    row = comparison.pairs.row(0, named=True)
    assert row["verdict"] == "better" and row["p"] == 2**-8 and 0 < row["lo"] < 1e-12
    assert "0.75 (95% CI 0.00 to 1.00; p = 0.0039" in row["sentence"]
    assert "0.0000 to 1.0000" in repr(comparison)
    own = {"none_judged": "zero"}
    gate = rankql.gate(runs["A"], truth, baseline=runs["B"], max_drop="Success@1:0", **own)
    assert gate.table["status"].to_list() == ["failed"]
    assert "dropped by 0.75 (95% CI 0.00 to 1.00)" in gate.table["message"][0]
    gate = rankql.gate(runs["B"], truth, baseline=runs["A"], max_drop="Success@1:0", **own)
    assert gate.table["status"].to_list() == ["passed"]


def test_labels_of_people_and_of_a_model_order_systems_as_compare_does():
    changes = pl.DataFrame({"people": [1.0] * 9 + [0.0] * 3, "model": [1.0] * 10 + [0.0] * 2})
    word, sentence = describe_changes(changes, (0, 1), 0.95, ("people", "model"))
    assert word == "Yes: same order" and "+0.750 (95% CI +0.000 to +1.000) by people" in sentence


@few(1)("lost", [11, 12])
def test_gate_fails_values_without_a_range(lost):
    """If all are lost there is no interval, but a p."""
    queries = [f"q{i}" for i in range(12)]
    values = [[1.0] * 12, [0.0] * lost + [1.0] * (12 - lost)]
    runs = [rankql.read_values(pl.DataFrame({"query": queries, "works": x})) for x in values]
    gate = rankql.gate(runs[1], baseline=runs[0], max_drop="works:0")
    assert gate.table["status"].to_list() == ["failed"]
    assert (gate.table["lo"][0] is None) == (lost == 12)


@few(1)("lost", [16, 20])
def test_funnel_names_a_stage_that_loses_everything_in_most_queries(lost):
    stages = {"first": hits(20, 20 - lost), "last": hits(20, 20 - lost)}
    funnel = rankql.funnel(stages, WITH_OTHER)
    assert funnel.title.endswith(f"first loses most: {lost / 20:.3f}")

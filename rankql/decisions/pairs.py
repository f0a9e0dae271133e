"""Every pair of systems on every metric and slice: tests, table, sentences and notes."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from rankql.core.base import errors, text
from rankql.core.evaluation.checks.attributes import describe_clusters
from rankql.core.evaluation.means.means import COUNTED, describe_uncorrected
from rankql.core.evaluation.result.result import Result
from rankql.core.evaluation.result.system_values import SystemValues
from rankql.core.stats import tests as significance
from rankql.core.stats.means import ROUNDING
from rankql.core.stats.prediction_powered import CorrectedSample
from rankql.core.stats.sample import LEAST_IN_SLICE, SMALL_SLICE, Sample, SlicedSample
from rankql.decisions import alignment
from rankql.decisions import verdict as verdicts
from rankql.features.anytime import Time, describe_anytime

# Why a metric without values per query has no test.
OVERALL = "one value for all queries"


@dataclass(frozen=True)
class Settings:
    """How systems are compared."""

    test: str
    correction: str
    confidence: float
    cluster: str | None
    baseline: str | None
    resamples: int
    seed: int
    min_queries: int
    weight: str | None = None
    interval: str = "auto"
    time: Time = None

    def check(self) -> None:
        """Refuse unknown choices, and options that do not go together."""
        known = {"test": [*significance.TESTS], "correction": significance.CORRECTIONS}
        for name, choices in known.items():
            errors.require_known(name, getattr(self, name), choices)
        errors.require_probability("confidence", self.confidence, significance.LEAST_ALPHA)
        for name, smallest in (("resamples", 100), ("seed", 0), ("min_queries", 0)):
            errors.require_whole_number(name, getattr(self, name), smallest)

    @property
    def paired_test(self) -> significance.PairedTest:
        """The test."""
        if self.interval == "anytime":
            return significance.Betting()
        return significance.TESTS[self.test](self.resamples, self.seed)

    @property
    def alpha(self) -> float:
        """The significance level, 1 - confidence."""
        return round(1 - self.confidence, 12)

    @property
    def percent(self) -> str:
        """The confidence in percent."""
        return text.format_percent(self.confidence)


@dataclass
class PairComparison:
    """One pair of systems on one metric and slice, and the result of its test.

    Or one system, as `a` and `b`, whose values and mean take the place of differences.
    """

    metric: str
    a: str
    b: str
    slice: str
    sample: Sample
    # Of each system; None if no query counts.
    means: Sequence[float | None]
    # The number of queries of the slice, and of those with a weight above 0.
    total: int
    weighed: int
    # If the metric is one value for all queries, the number of those that count.
    overall: int | None = None
    lower_is_better: bool = False
    # Are the rankings of both systems known to be the same?
    identical: bool = False
    result: significance.TestResult = field(default_factory=significance.TestResult)

    @property
    def queries(self) -> int:
        """The number of queries for which both are defined."""
        return len(self.sample.values)

    @property
    def n(self) -> int:
        """The number of queries in the means."""
        return self.queries if self.overall is None else self.overall

    @property
    def change(self) -> float | None:
        """The difference of the means, or the mean of one system; None if undefined."""
        first, last = self.means[0] if len(self.means) > 1 else 0.0, self.means[-1]
        return None if first is None or last is None else last - first

    def level(self, settings: Settings) -> float:
        """The level of its own test and interval."""
        return settings.alpha if self.result.level is None else self.result.level

    def detectable(self, settings: Settings) -> float | None:
        """The difference that would be detected with 80% power, at the level of this test.

        None if that is more than the largest difference that is possible.
        """
        if self.result.reason == significance.NOT_TESTABLE:
            return None
        size = settings.paired_test.detectable(self.sample, self.level(settings))
        return size if size is not None and math.inf > size <= self.sample.highest else None

    def worth(self, settings: Settings) -> int | None:
        """The human queries that would give the interval without the judge; None without one."""
        width = functools.partial(settings.paired_test.width, alpha=self.level(settings))
        return self.sample.worth(width) if isinstance(self.sample, CorrectedSample) else None

    def verdict(self, settings: Settings) -> str:
        """'better', 'worse' or 'not significant', or the reason why this is not tested."""
        if self.result.p_adjusted is None:
            return self.result.reason
        if self.result.needed is not None:
            return f"cannot be decided: {describe_few(self.sample, self.result.needed)}"
        if self.result.p_adjusted > settings.alpha:
            return verdicts.NOT_SIGNIFICANT
        return verdicts.BETTER if (self.sample.mean > 0) != self.lower_is_better else verdicts.WORSE


def describe_few(sample: Sample, needed: int) -> str:
    """How many queries or clusters differ, and how many would have to."""
    units = text.format_count(len(sample.sums), "query" if sample.clusters is None else "cluster")
    differ = "differs" if sample.differing == 1 else "differ"
    return f"{sample.differing:,} of {units} {differ}, {needed} are needed"


def list_pairs(
    result: Result, systems: Sequence[str], pairs: Sequence[tuple[str, ...]], cluster: str | None,
    test: significance.PairedTest, alpha: float, adjusted: bool = True,
) -> tuple[list[PairComparison], list[str]]:  # fmt: skip
    """Every pair on every metric and slice, not tested yet, and notes on clusters and the judge.

    A pair may be one system alone. No judge makes the interval of this test wider, at 95% and at
    the first level of a family of all rows, or at `alpha` if it is not `adjusted`.
    """
    values = SystemValues.of(result, cluster, systems)
    whole, alone = result.overall_metrics, any(len(pair) == 1 for pair in pairs)
    rows = [*itertools.product(result.metrics, values.slices.items(), pairs)]
    levels = (0.05, alpha / len(rows) if adjusted and rows else alpha)
    widths = [functools.partial(test.width, alpha=level) for level in levels]
    columns = ("metric", "slice", "system", "mean", COUNTED)
    # The means of a pair are those of the queries of both.
    shared = result if alone else alignment.keep_shared_queries(result)
    summary, common = (
        {row[:3]: row[3:] for row in each.means.select(columns).rows()} if each else {}
        for each in (result if whole else None, shared)
    )
    comparisons, collections = [], result.meta.collections
    for metric, (label, places), pair in rows:
        if collections and any(result.meta.lacks(name, label) for name in pair):
            continue
        sample, overall = values.sample(metric, pair, label, widths=widths), None
        of_pair = [(summary if metric in whole else common)[metric, label, name] for name in pair]
        means = [mean for mean, _ in of_pair]
        if metric in whole:
            overall = of_pair[-1][1]
        elif not alone:
            if isinstance(sample, CorrectedSample):
                first = values.sample(metric, pair, label, sample.lam).mean
                means = [first, first + sample.mean]
            means = means if len(sample.values) else [None, None]
        weights = None if values.weights is None else values.weights[places]
        weighed = len(places) if weights is None else int(np.count_nonzero(weights))
        counts = (len(places), weighed, overall, result.lower_is_better(metric))
        comparisons.append(PairComparison(metric, pair[0], pair[-1], label, sample, means, *counts))
    zero = [x for x in comparisons if x.overall is None and x.queries and x.sample.is_zero]
    if zero and not alone:
        names = dict.fromkeys(itertools.chain.from_iterable((x.a, x.b) for x in zero))
        hashes = alignment.hash_rankings(result, [*names])
        for each in zero:
            each.identical = each.a in hashes and hashes[each.a] == hashes[each.b]
    codes = values.clusters
    notes = [] if codes is None else [describe_clusters(pl.Series(codes), str(cluster))]
    tested = [x for x in comparisons if not alone and not x.identical]
    sliced = [x.sample for x in tested if isinstance(x.sample, SlicedSample)]
    notes += dict.fromkeys(note for sample in sliced for note in _describe_slices(sample))
    samples = [each.sample for each in comparisons]
    lambdas = [sample.lam for sample in samples if isinstance(sample, CorrectedSample)]
    notes += describe_uncorrected(lambdas) if lambdas else []
    return comparisons, notes


def _describe_slices(sample: SlicedSample) -> Iterator[str]:
    """Why a mean of slices is not tested, or what the smallest of its slices may hide."""
    label, n = next(iter(sample.counts.items()))
    queries = text.format_queries(int(n))
    if small := sample.too_small:
        why = f"{label} has {queries} and decides almost alone"
        if n < LEAST_IN_SLICE:
            slices = f"{text.format_count(len(small), 'slice')} {text.has_or_have(len(small))}"
            why = f"{slices} fewer than {LEAST_IN_SLICE} queries ({label}: {int(n)})"
        yield (
            f"The difference of the mean of slices has no p and no interval: {why}. Small slices "
            "may hide losses: join them"
        )
    elif n < SMALL_SLICE:
        yield (
            f"The mean of slices counts {label} ({queries}) as much as each other slice. So few "
            f"contain none of the losses that hit one query in ten in {0.9**n:.0%} of samples"
        )


def run_tests(
    result: Result, comparisons: Sequence[PairComparison], settings: Settings
) -> list[Sample]:
    """Test the pairs, and return the samples of those that can be tested."""
    tested = []
    for comparison in comparisons:
        small = comparison.slice != "all" and comparison.queries < settings.min_queries
        reason = OVERALL if comparison.overall is not None else ""
        reason = reason or verdicts.NO_DIFFERENCE * comparison.identical
        reason = reason or settings.paired_test.explain_untestable(comparison.sample)
        comparison.result = significance.TestResult(reason=reason or verdicts.TOO_FEW * small)
        if result.higher_is_better(comparison.metric) is None:
            ends = significance.TestResult()
            if not comparison.result.reason:  # the interval of this test alone
                ends = settings.paired_test.apply_to_zero(comparison.sample, settings.alpha)
            comparison.result = replace(ends, p=None, reason=verdicts.NO_DIRECTION)
        elif not comparison.result.reason:
            tested.append(comparison)
    samples = [comparison.sample for comparison in tested]
    test, correction = settings.paired_test, settings.correction
    floors = settings.interval != "anytime"
    outcomes = significance.run_family(samples, test, correction, settings.alpha, floors)
    for comparison, outcome in zip(tested, outcomes, strict=True):
        comparison.result = outcome
    return [each.sample for each in tested if each.result.needed is None]


SCHEMA = {
    **dict.fromkeys(("metric", "a", "b", "slice"), pl.String),
    **dict.fromkeys(("mean_a", "mean_b", "difference", "lo", "hi"), pl.Float64),
    **dict.fromkeys(("p", "p_adjusted", "p_floor", "effect"), pl.Float64),
    **dict.fromkeys(("wins", "ties", "losses", "n"), pl.Int64),
    **{"detectable": pl.Float64, "verdict": pl.String, "sentence": pl.String},
}
# With judge=: the weight of the judge, and the human queries that would do without it.
CORRECTED = {"lambda": pl.Float64, "worth": pl.Int64}


def compare_pairs(
    result: Result, systems: Sequence[str], settings: Settings
) -> tuple[pl.DataFrame, str, list[str]]:
    """The table of all pairs, how they were tested in a line, and notes on the tests."""
    baseline = settings.baseline
    if baseline is None:
        pairs = list(itertools.combinations(systems, 2))
    else:
        errors.require_known("system in baseline=:", baseline, systems)
        pairs = [(baseline, name) for name in systems if name != baseline]
    test, adjusted = settings.paired_test, settings.correction != "none"
    comparisons, described = list_pairs(
        result, systems, pairs, settings.cluster, test, settings.alpha, adjusted
    )
    tested = run_tests(result, comparisons, settings)
    tests = len(tested)
    rows = [_row(pair, settings, tests) for pair in comparisons]
    schema = SCHEMA | (CORRECTED if result.judge is not None else {})
    table, method = pl.DataFrame(rows, schema), describe_method(comparisons, tests, settings)
    if len(systems) < 2:
        return table, method, [f"There is only one system, {systems[0]!r}, so nothing is compared"]
    notes = list[str]()
    if count := sum(pair.result.reason == significance.NO_INTERVAL for pair in comparisons):
        have = f"{text.format_count(count, 'row')} {text.has_or_have(count)}"
        notes.append(f"{have} no interval: {significance.NO_INTERVAL}")
    notes += described
    if untested := Counter(x.result.reason for x in comparisons if x.result.p is None):
        needs = f"fewer than 2 queries, or {significance.CLUSTERS} clusters"
        words = {significance.NOT_TESTABLE: needs}
        reasons = ", ".join(f"{words.get(x, x)}: {count}" for x, count in untested.items())
        of = f"{untested.total():,} of {text.format_count(len(comparisons), 'row')}"
        notes.append(f"Not tested: {of} ({reasons})")
    if few := [x for x in comparisons if x.result.needed is not None]:
        rows_of = text.format_count(len(comparisons), "row")
        why = describe_few(few[0].sample, few[0].result.needed or 0)
        notes.append(
            f"Cannot be decided: {len(few):,} of {rows_of}. However large the differences are, no "
            f"paired test could be significant: {why} ({few[0].metric}, {few[0].slice})"
        )
    lower = [*filter(result.lower_is_better, result.metrics)]
    direction = [f"Lower is better: {', '.join(lower)}"] if lower else []
    notes += [*alignment.describe_left_out(result), *direction]
    if settings.interval != "anytime":  # which knows how rare losses may be
        notes += alignment.describe_rare_losses(tested)
    notes += alignment.describe_limits(result, systems)
    return table, method, notes


def _row(pair: PairComparison, settings: Settings, tests: int) -> dict[str, Any]:
    """The row of a pair."""
    n, lower = pair.queries, pair.lower_is_better
    row: dict[str, Any] = dict.fromkeys(SCHEMA)
    row |= {"metric": pair.metric, "a": pair.a, "b": pair.b, "slice": pair.slice}
    row |= {"verdict": pair.verdict(settings), "sentence": describe_pair(pair, settings, tests)}
    row |= {"mean_a": pair.means[0], "mean_b": pair.means[1], "n": n}
    if pair.overall is not None:
        return row | {"difference": pair.change, "n": n or pair.overall}
    if isinstance(pair.sample, CorrectedSample):
        row |= {"lambda": pair.sample.lam, "worth": pair.worth(settings)}
    elif pair.result.p is not None:
        row["p_floor"] = pair.sample.p_floor
    positive, ties, negative = pair.sample.signs
    row |= {name: getattr(pair.result, name) for name in ("lo", "hi", "p", "p_adjusted")}
    has_values = n > 0
    return row | {
        "difference": pair.sample.mean if has_values else None,
        "effect": pair.sample.effect if has_values else None,
        "wins": negative if lower else positive,
        "ties": ties,
        "losses": positive if lower else negative,
        "detectable": pair.detectable(settings) if has_values else None,
    }


def describe_pair(pair: PairComparison, settings: Settings, tests: int) -> str:
    """The sentence of a pair: who wins, by how much, and the evidence."""
    a, b, verdict, result = pair.a, pair.b, pair.verdict(settings), pair.result
    if result.p_adjusted is None:
        return _describe_untested(pair)
    significant, mean, few = verdict in verdicts.SIGNIFICANT, pair.sample.mean, result.needed
    sign = -1 if significant and mean < 0 else 1
    difference, interval = text.format_number(sign * mean), ""
    if result.lo is not None and result.hi is not None:
        digits = text.count_decimals_apart(result.lo, result.hi)
        ends = sorted((sign * result.lo, sign * result.hi))
        difference, low, high = (text.format_decimal(x, digits) for x in (sign * mean, *ends))
        interval = f"{settings.percent} CI {low} to {high}; "
    p = text.format_p(result.p_adjusted, settings.alpha)
    if tests > 1 and settings.correction != "none":
        p += f", {_ADJUSTED[settings.correction]} for {tests} tests"
    queries = text.format_queries(pair.queries)
    if worth := pair.worth(settings):
        queries = f"{queries} with human labels, worth {worth:,}"
    basis = f"{difference} ({interval}{p}; {queries})"
    if significant:
        return f"{b} {'beats' if verdict == verdicts.BETTER else 'loses to'} {a} by {basis}"
    if few is not None:
        bound = significance.bound_by_share(pair.sample, settings.alpha)
        words = f"cannot be decided whether {b} and {a} differ: {basis}. "
        words += describe_few(pair.sample, few)
        most = f". It is at most {text.round_significant(bound or 1)} ({settings.percent})"
        return words + most * (bound is not None)
    words = f"no significant difference between {b} and {a}: {basis}"
    detectable = pair.detectable(settings) if result.level != 0 else None
    if detectable is None or detectable <= abs(mean):
        return words
    size = text.round_significant(detectable)
    power = f"{significance.POWER:.0%} power"
    return f"{words}. A difference of about {size} would have been detected with {power}"


def _describe_untested(pair: PairComparison) -> str:
    """The sentence of a pair that is not tested."""
    a, b, change, reason = pair.a, pair.b, pair.change, pair.result.reason
    if change is None:
        return f"{b} and {a} have no value of {pair.metric} to compare"
    size = f"{b} and {a} have the same value"
    if abs(change) > ROUNDING:
        size = f"{b} differs from {a} by {text.format_number(change)}"
    queries = text.format_queries(pair.n)
    if reason == verdicts.NO_DIFFERENCE or (pair.overall is None and pair.sample.is_zero):
        return f"{size} for every query ({queries})"
    few = f"it needs at least 2 queries, or {significance.CLUSTERS} clusters"
    neither = "neither a higher nor a lower value is better"
    why = {significance.NOT_TESTABLE: few, verdicts.NO_DIRECTION: neither}
    return f"{size} ({queries}). Not tested: {why.get(reason, reason)}"


# By correction: p-values are ...
_ADJUSTED = {
    "none": "not adjusted", "holm": "Holm-adjusted",
    "bonferroni": "Bonferroni-adjusted", "bh": "Benjamini-Hochberg-adjusted",
}  # fmt: skip


def describe_method(pairs: Sequence[PairComparison], tests: int, settings: Settings) -> str:
    """The test, the adjustment of its p-values, and the number of queries."""
    counts = sorted({x.n for x in pairs if x.slice == "all"} or {x.n for x in pairs})
    if not counts:
        return ""
    few = f"{counts[0]:,} to " if len(counts) > 1 else ""
    queries = f"{few}{text.format_queries(counts[-1])}{' by metric' if few else ''}"
    family = text.format_count(tests, "test") if tests else "nothing could be tested"
    if tests > 1:
        family = f"{_ADJUSTED[settings.correction]} for {family}"
    method = f"{settings.paired_test.label}, {family}, {queries}"
    if settings.interval != "anytime":
        return method
    return f"{method}, {describe_widths(pairs, settings.time, settings.alpha)}"


def describe_widths(pairs: Sequence[PairComparison], time: Time, alpha: float) -> str:
    """How wide anytime intervals are, by that of the first pair, and what they need."""
    one_look = significance.MeanTest() if pairs[0].a == pairs[0].b else significance.SkewedStudent()
    sample = pairs[0].sample
    widths = significance.Betting().width(sample, alpha), one_look.width(sample, alpha)
    return describe_anytime(time, *widths)

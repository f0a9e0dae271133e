"""The table of a comparison: one row per metric, slice and pair, with sentences and notes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from rankql import text
from rankql.decisions.pair_comparisons import (
    OVERALL,
    PairComparison,
    Settings,
    describe_rare_losses,
    run_tests,
    shared_values,
)
from rankql.decisions.system_values import SystemValues, describe_left_out
from rankql.decisions.verdict import BETTER, NO_DIFFERENCE, NO_DIRECTION, SIGNIFICANT, TOO_FEW
from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.means import describe_clusters
from rankql.evaluation.result import Result
from rankql.stats.means import ROUNDING
from rankql.stats.power import POWER
from rankql.stats.prediction_powered import CorrectedSample
from rankql.stats.tests import (
    DOMINATED,
    EQUAL,
    FEW_RESAMPLES,
    NOT_TESTABLE,
    UNBOUNDED,
    ZERO_VARIANCE,
    count_required_units,
)
from rankql.stats.tukey import vary_differently

SCHEMA = {
    **dict.fromkeys(("metric", "a", "b", "slice"), pl.String),
    **dict.fromkeys(("mean_a", "mean_b", "difference", "lo", "hi"), pl.Float64),
    **dict.fromkeys(("p", "p_adjusted", "effect"), pl.Float64),
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
    if baseline is not None and baseline not in systems:
        raise RankqlError(describe_unknown("system in baseline=:", baseline, systems))
    if baseline is None:
        pairs = list(itertools.combinations(systems, 2))
    else:
        pairs = [(baseline, name) for name in systems if name != baseline]
    values = SystemValues.of(result, systems, settings.cluster)
    comparisons, tests = run_tests(values, result, pairs, settings)
    rows = [_row(pair, settings, tests) for pair in comparisons]
    notes = describe_tests(values, comparisons, tests, settings, result.conventions)
    schema = SCHEMA | (CORRECTED if result.judge is not None else {})
    if settings.equivalence is not None:
        schema |= {"p_equivalence": pl.Float64}
    return pl.DataFrame(rows, schema=schema), describe_method(comparisons, tests, settings), notes


def _row(pair: PairComparison, settings: Settings, tests: int) -> dict[str, Any]:
    """The row of a pair."""
    n, lower = pair.queries, pair.lower_is_better
    row = dict.fromkeys(SCHEMA) | {
        "metric": pair.metric,
        "a": pair.a,
        "b": pair.b,
        "slice": pair.slice,
        "verdict": pair.verdict(settings),
        "sentence": describe_pair(pair, settings, tests),
    }
    row |= {"mean_a": pair.means[0], "mean_b": pair.means[1], "n": n}
    if pair.overall is not None:
        return row | {"difference": pair.change, "n": n or pair.overall}
    if isinstance(pair.sample, CorrectedSample):
        row |= {"lambda": pair.sample.lam, "worth": pair.sample.worth(settings.alpha)}
    positive, ties, negative = pair.sample.signs
    has_values = n > 0
    return row | {
        "difference": pair.sample.mean if has_values else None,
        "lo": pair.result.lo,
        "hi": pair.result.hi,
        "p": pair.result.p,
        "p_adjusted": pair.result.p_adjusted,
        "p_equivalence": pair.result.p_equivalence,
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
        return _describe_untested(pair, settings)
    significant, mean = verdict in SIGNIFICANT, pair.sample.mean
    sign = -1 if significant and mean < 0 else 1
    difference, interval = text.format_number(sign * mean), ""
    if result.lo is not None and result.hi is not None:
        digits = text.count_decimals_apart(result.lo, result.hi)
        ends = sorted((sign * result.lo, sign * result.hi))
        difference, low, high = (text.format_decimal(x, digits) for x in (sign * mean, *ends))
        percent = settings.equivalence_percent if result.equivalent else settings.percent
        interval = f"{percent} CI {low} to {high}; "
    shown = result.p_equivalence if result.equivalent else result.p_adjusted
    p = text.format_p(shown or 0.0, settings.alpha)
    adjusted = _ADJUSTED[settings.correction]
    if settings.correction == "tukey":
        p += f", {adjusted}"
    elif tests > 1 and settings.correction != "none":
        p += f", {adjusted} for {tests} tests"
    queries = text.format_queries(pair.queries)
    if isinstance(pair.sample, CorrectedSample):
        queries = f"{queries} with human labels, worth {pair.sample.worth(settings.alpha):,}"
    basis = f"{difference} ({interval}{p}; {queries})"
    if significant:
        return f"{b} {'beats' if verdict == BETTER else 'loses to'} {a} by {basis}"
    if result.equivalent:
        return f"{b} and {a} are {verdict}: {basis}"
    words, detectable = f"no significant difference between {b} and {a}: {basis}", None
    if not pair.sample.constant and result.level != 0:
        detectable = pair.detectable(settings)
        if detectable is None:
            words += f". These are too few queries to detect any difference with {POWER:.0%} power"
    if detectable is None or detectable <= abs(mean):
        return words
    size = text.round_significant(detectable)
    return f"{words}. A difference of about {size} would have been detected with {POWER:.0%} power"


def _describe_untested(pair: PairComparison, settings: Settings) -> str:
    """The sentence of a pair that is not tested."""
    a, b, reason = pair.a, pair.b, pair.result.reason
    same, queries = f"{b} and {a} have the same value", text.format_queries(pair.queries)
    if pair.overall is not None:
        mean_a, mean_b = pair.means
        if mean_a is None or mean_b is None:
            return f"{pair.metric} is undefined for {a if mean_a is None else b}"
        values = text.format_number(mean_b)
        if abs(mean_b - mean_a) > ROUNDING:
            same = f"{b} differs from {a} by {text.format_number(mean_b - mean_a)}"
            values += f" and {text.format_number(mean_a)}"
        return f"{same} ({values}). Not tested: {pair.metric} is {OVERALL}"
    if not pair.queries:
        return f"{b} and {a} have no query in common for which both are defined"
    if reason == NO_DIFFERENCE or pair.sample.is_zero:
        return f"{same} for every query ({queries})"
    label = settings.paired_test.label
    units = "queries" if pair.sample.clusters is None else f"clusters, not {pair.sample.units}"
    needed = count_required_units(bool(settings.cluster))
    why = {
        NOT_TESTABLE: f"the {label} needs at least {needed} {units}",
        DOMINATED: DOMINATED,
        NO_DIRECTION: "neither a higher nor a lower value is better",
        TOO_FEW: f"fewer than {text.format_queries(settings.min_queries)}",
        ZERO_VARIANCE: f"the difference is the same for every query, and the {label} needs some "
        "variance",
    }[reason]
    difference = text.format_number(pair.sample.mean)
    return f"{b} differs from {a} by {difference} ({queries}). Not tested: {why}"


# By correction: p-values are ...
_ADJUSTED = {
    "none": "not adjusted", "tukey": "Tukey-adjusted", "holm": "Holm-adjusted",
    "bonferroni": "Bonferroni-adjusted", "bh": "Benjamini-Hochberg-adjusted",
}  # fmt: skip


def describe_method(pairs: Sequence[PairComparison], tests: int, settings: Settings) -> str:
    """The test, the adjustment of its p-values, and the number of queries."""
    counts = sorted({pair.n for pair in pairs if pair.slice == "all"})
    if not counts:
        return ""
    few = f"{counts[0]:,} to " if len(counts) > 1 else ""
    queries = f"{few}{text.format_queries(counts[-1])}{' by metric' if few else ''}"
    family = text.format_count(tests, "test") if tests else "nothing could be tested"
    if tests > 1:
        joint = settings.correction == "tukey"
        family = "all pairs of each metric and slice" if joint else family
        family = f"{_ADJUSTED[settings.correction]} for {family}"
    return f"{settings.paired_test.label}, {family}, {queries}"


def describe_tests(
    values: SystemValues,
    pairs: Sequence[PairComparison],
    tests: int,
    settings: Settings,
    rules: Mapping[str, Any],
) -> list[str]:
    """Notes on how the tests were done, and on what was left out."""
    if len(values.systems) < 2:
        return [f"There is only one system, {values.systems[0]!r}, so nothing is compared"]
    test, notes = settings.paired_test, list[str]()
    for reason in (UNBOUNDED, FEW_RESAMPLES, EQUAL):
        if count := sum(pair.result.reason == reason for pair in pairs):
            rows = text.format_count(count, "row")
            notes.append(f"{rows} {text.has_or_have(count)} no interval: {reason}")
    if tests and settings.equivalence is not None:
        notes.append(
            f"p_equivalence: two one-sided tests that the difference is less than "
            f"{settings.equivalence:g} either way. Rows that are equivalent have the "
            f"{settings.equivalence_percent} interval, which lies within it"
        )
    if settings.correction == "tukey" and tests:
        notes += _describe_unequal(values, pairs)
    notes += describe_rare_losses([x.sample for x in pairs if x.result.p is not None])
    if tests and test.resampled:
        notes += _describe_resampling(pairs, tests, settings)
    if settings.cluster is not None:
        notes.append(describe_clusters(values.cluster_sizes, settings.cluster))
    untested = Counter(pair.result.reason for pair in pairs if pair.result.p is None)
    if untested:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in untested.items())
        notes.append(
            f"Not tested: {untested.total():,} of {text.format_count(len(pairs), 'row')} "
            f"({reasons})"
        )
    lower = [metric for metric in values.values if metric in values.lower]
    direction = [f"Lower is better: {', '.join(lower)}"] if lower else []
    return [*notes, *describe_left_out(values, rules), *direction]


def _describe_unequal(values: SystemValues, pairs: Sequence[PairComparison]) -> Iterator[str]:
    """A note on metrics where systems vary differently, which Tukey's test does not allow."""
    tested = {(x.metric, x.slice) for x in pairs if x.result.p is not None}
    if unequal := sum(vary_differently(shared_values(values, *x)) for x in tested):
        yield (
            "Tukey's test assumes that systems vary alike, but their standard deviations differ in "
            f"{unequal:,} of {len(tested):,} metrics and slices. Use correction='holm'"
        )


def _describe_resampling(
    pairs: Sequence[PairComparison], tests: int, settings: Settings
) -> Iterator[str]:
    """Notes on the precision of resampled p-values, and on too few resamples."""
    resamples = f"{settings.resamples:,}"
    if settings.correction == "tukey":
        yield (
            "All orders of the systems within queries were counted if there are at most 2^20, "
            f"otherwise {resamples} random ones (seed {settings.seed})"
        )
        return
    exact = [settings.paired_test.is_exact(x.sample) for x in pairs if x.result.p is not None]
    if all(exact):
        yield "p-values are exact: all patterns of signs were counted"
        return
    some = f"{exact.count(False):,} of {len(exact):,} " if any(exact) else ""
    others = ". The others are exact: all patterns were counted" if any(exact) else ""
    patterns = f"{resamples} random patterns of signs (seed {settings.seed})"
    yield f"{some}p-values are from {patterns}{others}"
    # The smallest adjusted p-value that this number of resamples can give.
    smallest = tests / (settings.resamples + 1)
    if settings.correction in ("holm", "bonferroni") and smallest > settings.alpha:
        enough = math.ceil(2 * settings.resamples * smallest / settings.alpha)
        yield (
            f"{resamples} resamples cannot give an adjusted p-value of {settings.alpha:g} or less "
            f"for {tests:,} tests. Pass resamples={enough}"
        )

"""Notes on how a comparison was tested, and on what was left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankql import text as show
from rankql.decisions.alignment import describe_missing_rule
from rankql.decisions.corrections import CORRECTIONS
from rankql.decisions.pair_comparisons import PairComparison
from rankql.decisions.settings import Settings
from rankql.decisions.significance import TESTS
from rankql.decisions.system_values import SystemValues


def describe_tests(
    values: SystemValues,
    pairs: Sequence[PairComparison],
    tests: int,
    settings: Settings,
    rules: Mapping[str, Any],
) -> list[str]:
    """How the tests were done, and what was left out."""
    if len(values.systems) < 2:
        return [f"Only one system, {values.systems[0]!r}: there is nothing to compare it with"]
    if not tests:
        label = TESTS[settings.test].label
        notes = [f"{label[0].upper()}{label[1:]}; nothing could be tested"]
    else:
        notes = [_describe_method(tests, settings), _describe_intervals(tests, settings)]
    if TESTS[settings.test].resamples:
        notes += _describe_resampling(pairs, tests, settings)
    if settings.test == "anytime":
        notes.append(
            "Valid at any number of looks, if each query counts once and the metric stays within "
            "its range"
        )
    if values.clusters is not None:
        sizes = np.bincount(values.clusters)[np.unique(values.clusters)]
        span = show.format_queries(int(sizes.max()))
        span = span if sizes.min() == sizes.max() else f"{sizes.min():,} to {span}"
        notes.append(
            f"Queries are clustered by {settings.cluster}: "
            f"{show.format_count(len(sizes), 'cluster')} of "
            f"{span}"
        )
    untested = Counter(pair.result.reason for pair in pairs if pair.result.p is None)
    if untested:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in untested.items())
        notes.append(
            f"Not tested: {untested.total():,} of {show.format_count(len(pairs), 'row')} "
            f"({reasons})"
        )
    return [*notes, *_describe_left_out(values, rules)]


def _describe_left_out(values: SystemValues, rules: Mapping[str, Any]) -> Iterable[str]:
    """The queries that are missing or undefined in a system, and the direction of the metrics."""
    total = len(values.queries)
    for system, count in values.missing.items():
        if count:
            rule = describe_missing_rule(rules, list(values.values), values.lower)
            lacking = f"{count:,} of {show.format_queries(total)} {show.is_or_are(count)} missing"
            yield f"{lacking} in {system}: {rule}"
    for metric, count in values.undefined.items():
        if count:
            rule = "counted as 0" if rules["undefined"] == "zero" else "left out"
            yield (
                f"{metric}: {count:,} of {show.format_queries(total)} {show.is_or_are(count)} "
                "undefined in some "
                f"system and {rule}"
            )
    if lower := [metric for metric in values.values if metric in values.lower]:
        yield f"Lower is better: {', '.join(lower)}"


def _describe_method(tests: int, settings: Settings) -> str:
    """The test and the adjustment of its p-values."""
    label = TESTS[settings.test].label
    label = label[0].upper() + label[1:]
    size = f"{tests:,} {'test' if tests == 1 else 'tests'}"
    if settings.correction == "none":
        return f"{label}; p-values are not adjusted for {size}"
    if tests == 1:
        return f"{label}; {size}, so p-values need no adjustment"
    correction = CORRECTIONS[settings.correction]
    return f"{label}; p-values are {correction}-adjusted for {size} (metrics x pairs x slices)"


def _describe_intervals(tests: int, settings: Settings) -> str:
    """What the intervals hold, and how they go with the verdicts."""
    percent = f"{settings.percent} confidence interval"
    excludes = f"0 is outside exactly where the adjusted p-value is at most {settings.alpha:g}"
    if settings.correction == "none" or tests < 2:
        return f"lo, hi: the {percent} of the difference; {excludes}"
    if settings.correction == "bonferroni":
        return f"lo, hi: simultaneous {percent}s (Bonferroni); {excludes}"
    rule = {
        "holm": "each widened to the level of its Holm step",
        "bh": "widened to the false coverage rate of the rows found significant",
    }[settings.correction]
    return (
        f"lo, hi: {percent}s, {rule}; {excludes}. For intervals that hold all at once, use "
        "correction='bonferroni'"
    )


def _describe_resampling(
    pairs: Sequence[PairComparison], tests: int, settings: Settings
) -> Iterable[str]:
    """The precision of resampled p-values, and when there are too few resamples."""
    errors = [x.result.p_error for x in pairs if x.result.p_error is not None]
    exact = sum(x.result.p is not None and x.result.p_error is None for x in pairs)
    if errors:
        yield (
            f"p-values are from {settings.resamples:,} resamples (seed {settings.seed}); their "
            f"standard error is at most {max(errors):.1g}"
        )
    if errors and (smallest := _smallest_p(tests, settings)) > settings.alpha:
        enough = math.ceil(2 * settings.resamples * smallest / settings.alpha)
        yield (
            f"{settings.resamples:,} resamples cannot give an adjusted p-value of "
            f"{settings.alpha:g} or less for {tests:,} tests. Pass "
            f"resamples={enough}"
        )
    if exact:
        yield f"{exact:,} p-values are exact, from all patterns of signs"


def _smallest_p(tests: int, settings: Settings) -> float:
    """The least adjusted p-value that so many resamples can give, or more than 1."""
    if settings.correction not in ("holm", "bonferroni"):
        return 0.0
    tails = 2 if settings.test == "bootstrap" else 1
    return tails * tests / (settings.resamples + 1)

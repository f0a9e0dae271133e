"""Each pair of systems on each metric and slice, and the significance tests of all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankql.decisions.corrections import adjust_p_values, significance_levels
from rankql.decisions.sample import (
    POWER,
    Array,
    Sample,
    SignificanceOptions,
    SignificanceResult,
)
from rankql.decisions.settings import Settings
from rankql.decisions.significance import TESTS, explain_untestable
from rankql.decisions.system_values import SystemValues, difference_ranges

MICRO = "a mean over all queries at once"
TOO_FEW = "too few queries"
NOT_SIGNIFICANT = "not significant"


@dataclass
class PairComparison:
    """One pair of systems on one metric and slice, and the result of its test."""

    metric: str
    a: str
    b: str
    slice: str
    values_a: Array
    values_b: Array
    clusters: NDArray[np.intp] | None = None
    micro: bool = False
    lower_is_better: bool = False
    result: SignificanceResult = field(default_factory=SignificanceResult)
    p_adjusted: float | None = None
    # The level of its test within the family, and of its interval.
    level: float | None = None

    def __post_init__(self) -> None:
        self.sample = Sample(self.values_b - self.values_a, self.clusters)

    def explain_untested(self, settings: Settings) -> str:
        """The reason why this pair is not tested, or an empty text."""
        if self.micro:
            return MICRO
        reason = explain_untestable(settings.test, self.sample)
        few = self.slice != "all" and len(self.values_a) < settings.min_queries
        return reason if reason or not few else TOO_FEW

    def detectable(self, settings: Settings) -> float | None:
        """The difference that would be detected with 80% power at the level of this test."""
        level = settings.alpha if self.level is None else self.level
        lo, hi, sample = self.result.lo, self.result.hi, self.sample
        if sample.units < 2 or sample.constant:
            return None
        if settings.test == "anytime" and lo is not None and hi is not None:
            # Half the interval, and room for the estimate to be lower than the true difference.
            room = special.stdtrit(sample.freedom, POWER) * sample.error
            return float((hi - lo) / 2 + room)
        return sample.detectable(level, POWER)

    def verdict(self, settings: Settings) -> str:
        """Better, worse or not significant; or the reason why this is not tested."""
        if self.p_adjusted is None:
            return self.result.reason
        if self.p_adjusted > settings.alpha:
            return NOT_SIGNIFICANT
        return "better" if (self.sample.mean > 0) != self.lower_is_better else "worse"


def run_tests(
    values: SystemValues, metrics: Sequence[str], micro: Collection[str],
    pairs: Sequence[tuple[str, str]], settings: Settings, rules: Mapping[str, Any],
) -> tuple[list[PairComparison], int]:  # fmt: skip
    """Every pair on every metric and slice, and how many of them could be tested."""
    ranges = difference_ranges(values, [x for x in metrics if x not in micro], rules, settings)
    comparisons = [
        PairComparison(metric, a, b, label, *values.pair(metric, a, b, label), metric in micro,
                       metric in values.lower)
        for metric in metrics
        for label in values.slices
        for a, b in pairs
    ]  # fmt: skip
    tested = []
    for comparison in comparisons:
        comparison.result = SignificanceResult(reason=comparison.explain_untested(settings))
        if not comparison.result.reason:
            tested.append(comparison)
    tests = 1 if settings.correction == "none" else len(tested)
    for comparison in tested:
        _test(comparison, settings, ranges, settings.alpha / tests)
    p = [x.result.p for x in tested if x.result.p is not None]
    adjusted = adjust_p_values(p, settings.correction)
    levels = significance_levels(p, adjusted, settings.correction, settings.alpha)
    for comparison, p_adjusted, level in zip(tested, adjusted, levels, strict=True):
        comparison.p_adjusted = p_adjusted
        if level != comparison.level:
            _test(comparison, settings, ranges, level)
    return comparisons, len(tested)


def _test(
    comparison: PairComparison, settings: Settings, ranges: Mapping[str, tuple[float, float]],
    level: float,
) -> None:  # fmt: skip
    """Test a comparison at this level."""
    bounds = ranges.get(comparison.metric)
    options = SignificanceOptions(level, settings.resamples, settings.seed, bounds)
    comparison.result = TESTS[settings.test].pair(comparison.sample, options)
    comparison.level = level

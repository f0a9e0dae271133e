"""Each pair of systems on each metric and slice, and the significance tests of all of them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankql.decisions.corrections import adjust_p_values, significance_levels
from rankql.decisions.joint_tests import residual_error
from rankql.decisions.sample import (
    POWER,
    ZERO_VARIANCE,
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
        wider = settings.test in ("anytime", "tukey", "randomised_tukey")
        if wider and lo is not None and hi is not None:
            # Half the interval, and room for the estimate to be lower than the true difference.
            room = special.stdtrit(sample.freedom, POWER) * sample.error
            return float((hi - lo) / 2 + room)
        return sample.detectable(level, POWER)

    @property
    def direction(self) -> float:
        """The sign of the statistic that was tested: of the mean, or of the ranks."""
        direction = self.result.direction
        return math.copysign(1, self.sample.mean) if direction is None else direction

    def verdict(self, settings: Settings) -> str:
        """Better, worse or not significant; or the reason why this is not tested."""
        if self.p_adjusted is None:
            return self.result.reason
        if self.p_adjusted > settings.alpha:
            return NOT_SIGNIFICANT
        return "better" if (self.direction > 0) != self.lower_is_better else "worse"


def run_tests(
    values: SystemValues, metrics: Sequence[str], micro: Collection[str],
    pairs: Sequence[tuple[str, str]], settings: Settings, rules: Mapping[str, Any],
) -> tuple[list[PairComparison], dict[str, int]]:  # fmt: skip
    """Every pair on every metric and slice, and the number of tests in the family of each metric.

    What cannot be tested is no part of a family.
    """
    test = TESTS[settings.test]
    ranges = difference_ranges(values, [x for x in metrics if x not in micro], rules, settings)
    comparisons = [
        PairComparison(metric, a, b, label, *values.pair(metric, a, b, label, bool(test.joint)),
                       metric in micro, metric in values.lower)
        for metric in metrics
        for label in values.slices
        for a, b in pairs
    ]  # fmt: skip
    tested = _select_testable(comparisons, values, settings)

    def family_of(comparison: PairComparison) -> str:
        return comparison.metric if settings.family == "metric" else ""

    sizes = Counter(map(family_of, tested))
    blocks = [[*block] for _, block in itertools.groupby(tested, lambda x: (x.metric, x.slice))]
    block_counts = Counter(family_of(block[0]) for block in blocks)
    for block in blocks:
        counts = block_counts if test.joint else sizes
        tests = 1 if settings.correction == "none" else counts[family_of(block[0])]
        _test_block(block, values, settings, ranges, settings.alpha / tests)
    for family in sizes:
        members = [x for x in tested if family_of(x) == family]
        p = [x.result.p for x in members if x.result.p is not None]
        count = block_counts[family] if test.joint else None
        adjusted = adjust_p_values(p, settings.correction, count)
        levels = significance_levels(p, adjusted, settings.correction, settings.alpha, count)
        for comparison, p_adjusted, level in zip(members, adjusted, levels, strict=True):
            comparison.p_adjusted = p_adjusted
            if level != comparison.level and test.pair and test.interval:
                _test_block([comparison], values, settings, ranges, level)
    return comparisons, {
        metric: sizes[metric if settings.family == "metric" else ""] for metric in metrics
    }


def _select_testable(
    comparisons: Sequence[PairComparison], values: SystemValues, settings: Settings
) -> list[PairComparison]:
    """The comparisons that can be tested; the others get the reason why not."""
    for comparison in comparisons:
        comparison.result = SignificanceResult(reason=comparison.explain_untested(settings))
    testable = [x for x in comparisons if not x.result.reason]
    if settings.test != "tukey":
        return testable
    blocks = {(x.metric, x.slice) for x in testable}
    explained = {block for block in blocks if not residual_error(values.block(*block))}
    for comparison in testable:
        if (comparison.metric, comparison.slice) in explained:
            comparison.result = SignificanceResult(reason=ZERO_VARIANCE)
    return [x for x in testable if not x.result.reason]


def _test_block(
    block: Sequence[PairComparison], values: SystemValues, settings: Settings,
    ranges: Mapping[str, tuple[float, float]], alpha: float,
) -> None:  # fmt: skip
    """Test the comparisons of one metric and slice at this level."""
    test = TESTS[settings.test]
    metric, label = block[0].metric, block[0].slice
    options = SignificanceOptions(alpha, settings.resamples, settings.seed, ranges.get(metric))
    if test.joint:
        places = [(values.systems.index(x.a), values.systems.index(x.b)) for x in block]
        results = test.joint(values.block(metric, label), places, options)
    else:
        assert test.pair
        results = [test.pair(comparison.sample, options) for comparison in block]
    for comparison, result in zip(block, results, strict=True):
        comparison.result, comparison.level = result, alpha

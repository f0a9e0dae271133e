"""Every pair of systems on every metric and slice, with their significance tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from rankql import text
from rankql.decisions.alignment import ROUNDING
from rankql.decisions.sample import (
    NOT_TESTABLE,
    POWER,
    Array,
    Sample,
    SignificanceOptions,
    SignificanceResult,
)
from rankql.decisions.significance import (
    CORRECTIONS,
    LEAST_ALPHA,
    TESTS,
    adjust_p_values,
    explain_untestable,
    significance_levels,
)
from rankql.decisions.system_values import SystemValues
from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.result import Result
from rankql.registry.argument_checks import require_probability, require_whole_number
from rankql.registry.parse import value_range
from rankql.retired import refuse_retired

# Why a metric without values per query has no test.
OVERALL = "one value for all queries"
TOO_FEW = "too few queries"
NOT_SIGNIFICANT = "not significant"


_SMALLEST = {"resamples": 100, "seed": 0, "min_queries": 0}


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
    bounds: Mapping[str, Sequence[float]] | None = None
    weight: str | None = None

    def check(self) -> None:
        """Refuse unknown choices, and options that do not go together."""
        refuse_retired(f"test={self.test!r}")
        for name, choices in (("test", [*TESTS]), ("correction", [*CORRECTIONS])):
            if (value := getattr(self, name)) not in choices:
                raise RankqlError(describe_unknown(name, value, choices))
        require_probability("confidence", self.confidence, LEAST_ALPHA)
        for name, smallest in _SMALLEST.items():
            require_whole_number(name, getattr(self, name), smallest)
        known = [name for name, test in TESTS.items() if test.weights]
        for option in ("cluster", "weight"):
            if (value := getattr(self, option)) is not None and self.test not in known:
                raise RankqlError(
                    f"test={self.test!r} does not support {option}={value!r}. Use one of: "
                    f"{', '.join(map(repr, known))}"
                )
        if self.bounds is not None and self.test != "anytime":
            raise RankqlError(f"bounds= has no effect on test={self.test!r}. Pass test='anytime'")

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
    """One pair of systems on one metric and slice, and the result of its test."""

    metric: str
    a: str
    b: str
    slice: str
    values_a: Array
    values_b: Array
    clusters: NDArray[np.intp] | None = None
    weights: Array | None = None
    # If the metric is one value for all queries: that of both systems, and the number of queries.
    overall: tuple[float | None, float | None, int] | None = None
    lower_is_better: bool = False
    # The largest difference that is possible.
    largest: float = math.inf
    result: SignificanceResult = field(default_factory=SignificanceResult)
    p_adjusted: float | None = None
    # The level of its test within the family, and of its interval.
    level: float | None = None

    def __post_init__(self) -> None:
        self.sample = Sample(self.values_b - self.values_a, self.clusters, self.weights)

    def mean(self, values: Array) -> float:
        """The mean of the values of one system."""
        return float(np.average(values, weights=self.weights))

    def explain_untested(self, settings: Settings) -> str:
        """The reason why this pair is not tested, or ''."""
        if self.overall is not None:
            return OVERALL
        reason = explain_untestable(settings.test, self.sample)
        few = self.slice != "all" and len(self.values_a) < settings.min_queries
        return reason if reason or not few else TOO_FEW

    def detectable(self, settings: Settings) -> float | None:
        """The difference that would be detected with 80% power, at the level of this test.

        None if that is more than the largest difference that is possible.
        """
        level = settings.alpha if self.level is None else self.level
        lo, hi, sample = self.result.lo, self.result.hi, self.sample
        if sample.units < 2 or sample.constant or self.result.reason == NOT_TESTABLE:
            return None
        if settings.test == "randomisation" and 2.0 ** (1 - sample.units) > level:
            return None  # no pattern of signs is as unlikely
        if settings.test == "anytime" and lo is not None and hi is not None:
            # Half the interval, plus room for an estimate below the true difference.
            room = special.stdtrit(sample.freedom, POWER) * sample.error
            size: float | None = float((hi - lo) / 2 + room)
        else:
            size = sample.detectable(level)
        return size if size is not None and size <= self.largest else None

    def verdict(self, settings: Settings) -> str:
        """'better', 'worse' or 'not significant', or the reason why this is not tested."""
        if self.p_adjusted is None:
            return self.result.reason
        if self.p_adjusted > settings.alpha:
            return NOT_SIGNIFICANT
        return "better" if (self.sample.mean > 0) != self.lower_is_better else "worse"


def run_tests(
    values: SystemValues, result: Result, pairs: Sequence[tuple[str, str]], settings: Settings
) -> tuple[list[PairComparison], int]:
    """Every pair on every metric and slice, and the number of tests."""
    metrics, whole = result.metrics, result.overall_metrics
    rows = (
        result.summary["metric", "slice", "system", "mean", "queries"] if whole else pl.DataFrame()
    )
    overall = {tuple(key): (mean, n) for *key, mean, n in rows.iter_rows() if key[0] in whole}

    def compare_overall(metric: str, label: str, a: str, b: str) -> tuple[Any, Any, int] | None:
        if metric not in whole:
            return None
        (mean_a, n), (mean_b, _) = overall[metric, label, a], overall[metric, label, b]
        return mean_a, mean_b, n

    per_query = [name for name in metrics if name not in whole]
    ranges = difference_ranges(values, per_query, result.conventions, settings)
    largest = {
        metric: min(values.largest_difference(metric), ranges.get(metric, (0, math.inf))[1])
        for metric in metrics
    }
    comparisons = [
        PairComparison(metric, a, b, label, *values.pair(metric, a, b, label),
                       compare_overall(metric, label, a, b), metric in values.lower,
                       largest[metric])
        for metric in metrics
        for label in values.slices
        for a, b in pairs
    ]  # fmt: skip
    tested = []
    for comparison in comparisons:
        comparison.result = SignificanceResult(reason=comparison.explain_untested(settings))
        if not comparison.result.reason:
            tested.append(comparison)
    if not tested:
        return comparisons, 0
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
    result = TESTS[settings.test].pair(comparison.sample, options)
    if result.lo is not None and result.hi is not None:
        largest = comparison.largest
        result = replace(result, lo=max(result.lo, -largest), hi=min(result.hi, largest))
    comparison.result = result
    comparison.level = level


def difference_ranges(
    values: SystemValues, metrics: Sequence[str], rules: Mapping[str, Any], settings: Settings
) -> dict[str, tuple[float, float]]:
    """The range of the differences by metric, which test='anytime' needs."""
    if settings.test != "anytime":
        return {}
    bounds = settings.bounds or {}
    if not isinstance(bounds, Mapping) or not all(map(_is_range, bounds.values())):
        raise RankqlError(
            f"bounds must be a dict of metric: (lowest, highest), such as {{'DCG@10': (0, 20)}}, "
            f"not {settings.bounds!r}"
        )
    for name in bounds:
        if name not in metrics:
            raise RankqlError(describe_unknown("metric in bounds=:", name, metrics))
    ranges = {}
    for name in metrics:
        low, high = bounds[name] if name in bounds else _known_range(name, rules)
        if low is None or high is None:
            raise RankqlError(
                f"test='anytime' needs the range of {name}, which has no upper or lower limit. "
                f"Pass bounds={{{name!r}: (lowest, highest)}} (CLI: --bounds {name}:LOWEST:HIGHEST)"
                ", limits that hold for every query, known in advance"
            )
        defined = values.values[name][~np.isnan(values.values[name])]
        outside = defined[(defined < low - ROUNDING) | (defined > high + ROUNDING)]
        if len(outside):
            raise RankqlError(
                f"{name} is {outside[0]:.6g} for a query, outside its range of {low:g} to "
                f"{high:g}. Pass bounds={{{name!r}: (lowest, highest)}} with the true limits"
            )
        ranges[name] = (float(low - high), float(high - low))
    return ranges


def _is_range(value: Any) -> bool:
    """Return whether this is a pair of finite numbers, the first below the second."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    numbers = all(isinstance(x, int | float) and math.isfinite(x) for x in value)
    return numbers and value[0] < value[1]


def _known_range(name: str, rules: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The lowest and highest value of a metric; None if unknown."""
    negative = rules["negative"] == "keep" or "negative=keep" in name
    return (None, None) if negative else value_range(name)

"""Significance tests of a mean difference, one class each, and families of tests.

The interval of a test at level alpha contains every shift that it does not reject, so it excludes
0 exactly if p is at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import optimize, special

from rankql.stats.means import (
    ROUNDING,
    Interval,
    constant_interval,
    logistic_interval,
    skewed_interval,
    unskewed_quantile,
)
from rankql.stats.power import detectable_difference, difference_by_interval
from rankql.stats.sample import Array, Sample

# Why there is no p-value, or no interval.
ZERO_VARIANCE = "zero variance"
NOT_TESTABLE = "not testable"
DOMINATED = "one query has almost all the weight"
UNBOUNDED = "too few queries for an interval"
FEW_RESAMPLES = "too few resamples for an interval"
EQUAL = "all differences are equal"

# Standard errors of fewer clusters are too small: tests/run_simulation.py measures it.
CLUSTERS = 10


@dataclass(frozen=True)
class TestResult:
    """A p-value and an interval, or why not.

    In a family: p adjusted for all tests, and the level of its own test and interval.
    """

    __test__: ClassVar[bool] = False  # not a test of pytest

    p: float | None = None
    lo: float | None = None
    hi: float | None = None
    reason: str = ""
    p_adjusted: float | None = None
    level: float | None = None


@dataclass(frozen=True)
class PairedTest:
    """A test of the hypothesis that the mean of a sample is 0."""

    resamples: int = 9_999
    seed: int = 7
    # All patterns of so many signs are counted (2^20). For more signs, patterns are sampled.
    exact: int = 20

    label: ClassVar[str]
    # Does it count patterns of signs, or sample them? Then it works if all values are the same.
    resampled: ClassVar[bool] = False

    def explain_untestable(self, sample: Sample) -> str:
        """The reason why it cannot be applied, or ''."""
        if sample.units < count_required_units(sample.clusters is not None):
            return NOT_TESTABLE
        if sample.is_dominated:
            return DOMINATED
        flat = sample.constant and (sample.is_zero or not self.resampled)
        return ZERO_VARIANCE if flat else ""

    def apply(self, sample: Sample, alpha: float) -> TestResult:
        """p, and the interval at this level, cut at the range of the values."""
        if reason := self.explain_untestable(sample):
            return TestResult(reason=reason)
        p, ends = self.test(sample, alpha)
        if not (math.isfinite(ends.lo) and math.isfinite(ends.hi)):
            return TestResult(p, reason=UNBOUNDED if self.is_exact(sample) else FEW_RESAMPLES)
        if sample.constant and ends.lo == ends.hi:  # a width of 0 would claim certainty
            return TestResult(p, reason=EQUAL)
        return TestResult(p, *ends.within(sample.lowest, sample.highest))

    def test(self, sample: Sample, alpha: float) -> tuple[float, Interval]:
        """p, and the interval at this level."""
        raise NotImplementedError

    def is_exact(self, sample: Sample) -> bool:
        """Whether p does not depend on random numbers."""
        return not self.resampled

    def detectable(self, sample: Sample, alpha: float) -> float | None:
        """About the difference that would be detected with 80% power; None if none would be."""
        return detectable_difference(sample, alpha)


class Student(PairedTest):
    """Student's paired t test: mean / (s / sqrt(n)) with n - 1 degrees of freedom.

    With clusters or weights, the standard error and degrees of freedom are those of `Sample`.
    """

    label = "paired t test"

    def test(self, sample: Sample, alpha: float) -> tuple[float, Interval]:
        """p and the interval of Student's t distribution."""
        mean, error = sample.mean, sample.error
        p = 2 * special.stdtr(sample.freedom, -abs(mean / error))
        width = float(special.stdtrit(sample.freedom, 1 - alpha / 2)) * error
        return float(p), Interval(mean - width, mean + width)


class Randomisation(PairedTest):
    """Fisher's randomisation test: how often random signs give a mean as large (Smucker 2007).

    It assumes that differences are symmetric around 0 if the systems do not differ. p does not
    depend on the sign of a difference of 0, so it is exact if few units differ. Under a shift d,
    the sum B of the signed differences becomes B - d C, where C is the sum of the signs.
    |B - d C| >= |A - d N|, the observed one, holds between two shifts in closed form.
    """

    label = "randomisation test"
    resampled = True

    def test(self, sample: Sample, alpha: float) -> tuple[float, Interval]:
        """The share of patterns with a mean as large, and the shifts that are not rejected."""
        columns, zero = np.stack([sample.sums, sample.sizes]), sample.zeros
        exact = self.is_exact(sample)
        if sample.units <= self.exact:
            signed, count = sum_all_signs(columns)
        elif exact:
            # Every pattern of the others, with random signs of those that are 0 for the interval.
            copies = -(-self.resamples // 2 ** (sample.units - int(zero.sum())))
            signed, count = np.tile(sum_all_signs(columns[:, ~zero]), copies)
            up = np.random.default_rng(self.seed).binomial(zero.sum(), 0.5, len(count))
            count = count + sample.sizes[zero][0] * (2 * up - zero.sum())
        else:
            signed, count = sum_random_signs(columns, self.resamples, self.seed)
        total, size = sample.sums.sum(), sample.sizes.sum()
        dust = ROUNDING * max(size, np.abs(sample.sums).sum())

        def root(difference: Array, among: Array) -> Array:
            return np.where(np.abs(difference) <= dust, 0.0, difference) / among

        # All signs the same: holds at every shift.
        mixed = np.abs(count) < size - sample.sizes.min() / 2
        shift_minus = root(total - signed[mixed], size - count[mixed])
        shift_plus = root(total + signed[mixed], size + count[mixed])
        free = np.full(len(signed) - len(shift_minus), np.inf)
        low = np.concatenate([-free, np.minimum(shift_minus, shift_plus)])
        high = np.concatenate([free, np.maximum(shift_minus, shift_plus)])
        extra = 0 if exact else 1  # count the observed pattern too
        patterns = len(signed) + extra
        p = float((extra + np.count_nonzero((low <= 0) & (high >= 0))) / patterns)
        # The lowest shift at which more than alpha of the patterns hold.
        first = math.floor(alpha * patterns - extra + 1e-9)
        if first < 0:
            return p, Interval(-math.inf, math.inf)
        lo, hi = np.partition(low, first)[first], -np.partition(-high, first)[first]
        return p, Interval(float(lo), float(hi))

    def is_exact(self, sample: Sample) -> bool:
        """Whether all patterns of the signs that matter are counted."""
        few = sample.units - int(sample.zeros.sum()) <= self.exact
        return sample.units <= self.exact or bool(few and np.ptp(sample.sizes[sample.zeros]) == 0)

    def detectable(self, sample: Sample, alpha: float) -> float | None:
        """None if no pattern of signs is as unlikely as the level."""
        possible = 2.0 ** (1 - sample.units) <= alpha
        return detectable_difference(sample, alpha) if possible else None


class SkewedStudent(PairedTest):
    """Student's t, widened for skewed differences: p is the level at which its interval ends at 0.

    Equal differences have an interval if their range is known: see `constant_interval`.
    """

    label = "paired t test widened for skewness"

    def explain_untestable(self, sample: Sample) -> str:
        """Equal values, even 0, have an interval only if their range is known."""
        reason = super().explain_untestable(sample)
        if reason in ("", ZERO_VARIANCE) and sample.constant:
            return "" if math.isfinite(sample.highest - sample.lowest) else ZERO_VARIANCE
        return reason

    def test(self, sample: Sample, alpha: float) -> tuple[float, Interval]:
        """p and the interval of the skewed t statistic."""
        mean, moments = sample.mean, sample.moments
        if sample.constant:
            ends = constant_interval(mean, moments.n, sample.lowest, sample.highest, alpha)
            return _constant_p(sample), ends or Interval(-math.inf, math.inf)
        p = self.varied_p(sample)
        if moments.sameness and p < (largest := _constant_p(sample)):
            p = max(p, 1e-300)  # of nearly equal values it may be 0 by rounding

            def nearest(logarithm: float) -> float:
                level = math.exp(logarithm)
                ends = moments.widened(self.varied_interval(sample, level), level)
                return ends.lo if mean > 0 else -ends.hi

            if nearest(math.log(largest)) <= 0:
                p = largest
            elif nearest(math.log(p)) < 0:
                p = math.exp(optimize.brentq(nearest, math.log(p), math.log(largest)))
        return p, moments.widened(self.varied_interval(sample, alpha), alpha)

    def varied_p(self, sample: Sample) -> float:
        """p of values that differ."""
        quantile = unskewed_quantile(sample.mean / sample.error, sample.slope)
        return min(1.0, 2 * float(special.stdtr(sample.freedom, -max(0.0, quantile))))

    def varied_interval(self, sample: Sample, alpha: float) -> Interval:
        """The interval of values that differ."""
        width = -float(special.stdtrit(sample.freedom, alpha / 2))
        return skewed_interval(sample.mean, sample.error, width, sample.slope)

    def detectable(self, sample: Sample, alpha: float) -> float | None:
        """By the interval, if values are almost the same."""
        if sample.constant or sample.is_dominated or not sample.moments.sameness:
            return super().detectable(sample, alpha)
        return difference_by_interval(sample, self.test(sample, alpha)[1], alpha)


class MeanTest(SkewedStudent):
    """Whether a mean is 0, by the interval of `mean_interval`."""

    label = "interval of a mean"

    def varied_p(self, sample: Sample) -> float:
        """The level at which the interval of the logit of the mean ends at 0."""
        low, high = sample.lowest, sample.highest
        if not (math.isfinite(low) and math.isfinite(high)):
            return super().varied_p(sample)
        share, zero = (sample.mean - low) / (high - low), -low / (high - low)
        if not 0 < zero < 1:
            return 0.0
        distance = float(special.logit(share) - special.logit(zero))
        width = sample.error / (high - low) / (share * (1 - share))
        return 2 * float(special.stdtr(sample.freedom, -abs(distance / width)))

    def varied_interval(self, sample: Sample, alpha: float) -> Interval:
        """The interval of the logit of the mean."""
        low, high = sample.lowest, sample.highest
        if not (math.isfinite(low) and math.isfinite(high)):
            return super().varied_interval(sample, alpha)
        width = -float(special.stdtrit(sample.freedom, alpha / 2)) * sample.error
        return logistic_interval(sample.mean, width, low, high)


def _constant_p(sample: Sample) -> float:
    """The level at which the interval of equal values, by `constant_interval`, ends at 0."""
    mean = sample.mean
    end = sample.lowest if mean > 0 else sample.highest
    share = end / (end - mean) if mean else 1.0
    return float(min(1.0, 2 * max(0.0, share) ** sample.moments.n))


TESTS: dict[str, type[PairedTest]] = {
    "auto": SkewedStudent,
    "t": Student,
    "randomisation": Randomisation,
}


def count_required_units(clusters: bool) -> int:
    """The number of queries or clusters that a test needs."""
    return CLUSTERS if clusters else 2


# The number of values in memory while resampling.
BATCH = 2**21


def sum_all_signs(columns: Array) -> Array:
    """The sums of each row under every pattern of signs."""
    sums = np.zeros((len(columns), 1))
    for column in columns.T[:, :, None]:
        sums = np.concatenate([sums + column, sums - column], axis=1)
    return sums


# The signs for the eight bits of a byte.
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)


def sum_random_signs(columns: Array, resamples: int, seed: int) -> Array:
    """The sums of each row under random patterns of signs.

    Eight units at a time: a random byte picks one of their 256 signed sums.
    """
    rng = np.random.default_rng(seed)
    height = len(columns)
    padded = np.pad(columns, ((0, 0), (0, -columns.shape[1] % 8))).reshape(height, -1, 8)
    sums = np.zeros((height, resamples))
    picked = np.empty(resamples)
    step = max(1, BATCH // max(resamples, 256))
    for start in range(0, padded.shape[1], step):
        tables = padded[:, start : start + step] @ _SIGNS.T
        bits = rng.integers(0, 256, (tables.shape[1], resamples), dtype=np.uint8)
        for i, byte in enumerate(bits):
            for j in range(height):
                np.take(tables[j, i], byte, out=picked, mode="clip")
                sums[j] += picked
    return sums


# Levels are rounded to 12 digits: smaller ones would be 0.
LEAST_ALPHA = 5e-13
CORRECTIONS = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "bh": "Benjamini-Hochberg",
    "none": "none",
}


def adjust_p_values(p: Sequence[float], correction: str) -> list[float]:
    """Adjust p-values for multiple tests: Holm, Bonferroni or Benjamini-Hochberg."""
    values = np.asarray(p, dtype=float)
    if correction == "bonferroni":
        return [float(x) for x in np.minimum(1, values * len(values))]
    if correction == "bh" and len(values):
        from scipy import stats  # takes a second to import

        return [float(x) for x in stats.false_discovery_control(values, method="bh")]
    if correction == "holm":
        order = np.argsort(values, kind="stable")
        steps = values[order] * np.arange(len(values), 0, -1)
        values[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(values) else steps
    return [float(x) for x in values]


def significance_levels(
    p: Sequence[float],
    p_adjusted: Sequence[float],
    correction: str,
    alpha: float,
) -> list[float]:
    """The level of each test: p is at most this level exactly if p_adjusted <= alpha.

    So an interval at this level excludes 0 exactly if the adjusted p-value is significant. Holm:
    alpha / (m - i) at step i; all steps after the first failure have the level of that step.
    Benjamini-Hochberg: R alpha / m with R rejections, the false coverage rate of Benjamini and
    Yekutieli (2005).
    """
    values, rejected = np.asarray(p, dtype=float), np.asarray(p_adjusted, dtype=float) <= alpha
    tests, rejections = len(values), int(rejected.sum())
    divisors = {"none": 1, "bonferroni": tests, "bh": tests / max(1, rejections)}
    steps = np.full(tests, alpha / divisors.get(correction, 1))
    if correction == "holm":
        step = np.where(rejected, np.searchsorted(np.sort(values), values), rejections)
        steps = alpha / (tests - step)
    # The two sides of p * m <= alpha and p <= alpha / m may differ in the last bit.
    kept = np.minimum(steps, np.nextafter(values, 0))
    return [float(x) for x in np.where(rejected, np.maximum(steps, values), kept)]


@dataclass(frozen=True)
class Family:
    """Samples that are tested together. A sample that cannot be tested does not count."""

    samples: Sequence[Sample]
    test: PairedTest
    correction: str = "holm"
    alpha: float = 0.05

    def results(self) -> list[TestResult]:
        """The result of each sample. Its interval excludes 0 exactly if p_adjusted <= alpha."""
        testable = [not self.test.explain_untestable(sample) for sample in self.samples]
        first = self.alpha if self.correction == "none" else self.alpha / max(1, sum(testable))
        results = [
            replace(self.test.apply(sample, first if tested else self.alpha), level=first)
            for sample, tested in zip(self.samples, testable, strict=True)
        ]
        tested = [i for i, result in enumerate(results) if result.p is not None]
        p = [p for result in results if (p := result.p) is not None]
        adjusted = adjust_p_values(p, self.correction)
        levels = significance_levels(p, adjusted, self.correction, self.alpha)
        for i, p_adjusted, level in zip(tested, adjusted, levels, strict=True):
            result = results[i]
            if level != first:
                result = self.test.apply(self.samples[i], level)
            results[i] = replace(result, p_adjusted=p_adjusted, level=level)
        return results

"""Significance tests of a mean difference, one class each; several at once, and their power.

The interval of a test at level alpha contains every shift that it does not reject, so it excludes
0 exactly if p is at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import special  # scipy.stats takes .6 s, and is imported where it is needed

from rankql.core.stats import means
from rankql.core.stats.anytime import bet
from rankql.core.stats.means import Interval
from rankql.core.stats.sample import Array, Sample, SlicedSample

# Why there is no p-value, or no interval.
ZERO_VARIANCE = "zero variance"
NOT_TESTABLE = "not testable"
DOMINATED = "one query has almost all the weight"
FEW_IN_SLICE = "too few queries in a slice"
NO_INTERVAL = "too few queries, different values or resamples= for an interval"

# Standard errors of fewer clusters are too small: tests/run_simulation.py measures it.
CLUSTERS = 10


@dataclass(frozen=True)
class TestResult:
    """A p-value and an interval, or why not.

    In a family: p adjusted for all tests, and the level of its own test and interval. If it could
    not have been significant at this level, the number of queries that would have to differ.
    """

    __test__: ClassVar[bool] = False  # not a test of pytest

    p: float | None = None
    lo: float | None = None
    hi: float | None = None
    reason: str = ""
    p_adjusted: float | None = None
    level: float | None = None
    needed: int | None = None


@dataclass(frozen=True)
class PairedTest:
    """Student's paired t test: mean / (s / sqrt(n)) with n - 1 degrees of freedom.

    With clusters or weights, the standard error and degrees of freedom are those of `Sample`.
    """

    resamples: int = 9_999
    seed: int = 7
    # All patterns of so many signs are counted (2^20). For more signs, patterns are sampled.
    exact: int = 20

    label: ClassVar[str] = "paired t test"
    # Does it count patterns of signs, or sample them? Then it works if all values are the same.
    resampled: ClassVar[bool] = False
    # Is it of a mean, and not of a difference?
    of_mean: ClassVar[bool] = False

    def explain_untestable(self, sample: Sample) -> str:
        """The reason why it cannot be applied, or ''."""
        if isinstance(sample, SlicedSample) and sample.too_small and not self.of_mean:
            return FEW_IN_SLICE
        if sample.units < (2 if sample.clusters is None else CLUSTERS):
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
        # A width of 0 would claim certainty.
        if not -math.inf < ends.lo < ends.hi < math.inf:
            return TestResult(p, reason=NO_INTERVAL)
        return TestResult(p, *ends.within(sample.lowest, sample.highest))

    def apply_to_zero(self, sample: Sample, alpha: float) -> TestResult:
        """The same of a difference from 0: p is at least its floor, and the interval agrees."""
        result = self.apply(sample, alpha)
        if result.p is None or self.of_mean:
            return result
        lo, hi = result.lo, result.hi
        if sample.p_floor > alpha and lo is not None and hi is not None:
            lo, hi = min(lo, 0.0), max(hi, 0.0)
        return replace(result, p=max(result.p, sample.p_floor), lo=lo, hi=hi)

    def width(self, sample: Sample, alpha: float) -> float:
        """The width of the interval at this level, infinite if there is none."""
        lo, hi = (result := self.apply(sample, alpha)).lo, result.hi
        return math.inf if lo is None or hi is None else hi - lo

    def test(self, sample: Sample, alpha: float) -> tuple[float, Interval]:
        """p and the interval of Student's t distribution."""
        mean, error = sample.mean, sample.error
        p = 2 * special.stdtr(sample.freedom, -abs(mean / error))
        width = float(special.stdtrit(sample.freedom, 1 - alpha / 2)) * error
        return float(p), Interval(mean - width, mean + width)

    def detectable(self, sample: Sample, alpha: float) -> float | None:
        """About the difference that would be detected with 80% power; None if none would be."""
        if sample.units < 2 or sample.constant or sample.is_dominated:
            return None
        quantiles = special.stdtrit(sample.freedom, [1 - alpha / 2, POWER]).sum()
        return float(quantiles * sample.error)


class Randomisation(PairedTest):
    """Fisher's randomisation test: how often random signs give a mean as large (Smucker 2007).

    It assumes that differences are symmetric around 0 if the systems do not differ. Under a shift
    d, the sum B of the signed differences becomes B - d C, where C is the sum of the signs.
    |B - d C| >= |A - d N|, the observed one, holds between two shifts in closed form.
    """

    label = "randomisation test"
    resampled = True

    def test(self, sample: Sample, alpha: float) -> tuple[float, Interval]:
        """The share of patterns with a mean as large, and the shifts that are not rejected.

        Differences of 0 count for other shifts only: if few others are left, all patterns of these
        are counted, each with random signs of the zeros.
        """
        columns, exact = np.stack([sample.sums, sample.sizes]), sample.differing <= self.exact
        if sample.units <= self.exact:
            signed, count = sum_all_signs(columns)
        elif exact:
            differ = np.abs(sample.sums) > sample.rounding
            _, zeros = sum_random_signs(columns[:, ~differ], self.resamples, self.seed)
            signed, count = sum_all_signs(columns[:, differ])
            times = -(-self.resamples // len(signed))
            signed, count = np.tile(signed, times), np.tile(count, times)
            count = count + np.resize(zeros, len(count))
        else:
            signed, count = sum_random_signs(columns, self.resamples, self.seed)
        total, size = sample.sums.sum(), sample.sizes.sum()
        dust = means.ROUNDING * max(size, np.abs(sample.sums).sum())

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

    def detectable(self, sample: Sample, alpha: float) -> float | None:
        """None if no pattern of signs is as unlikely as the level."""
        return super().detectable(sample, alpha) if sample.p_floor <= alpha else None


class SkewedStudent(PairedTest):
    """Student's t, widened for skewed differences: p is the level at which its interval ends at 0.

    Equal differences have an interval if their range is known: see `constant_interval`. Of gains
    and losses of 1, p is McNemar's exact one if that is smaller: p of t rises again if most
    queries gain, as the few others make the differences skewed.
    """

    label = "paired t test widened for skewness"

    def explain_untestable(self, sample: Sample) -> str:
        """Equal values, even 0, have an interval only if their range is known; 1 has an exact p."""
        reason = super().explain_untestable(sample)
        if reason in ("", ZERO_VARIANCE) and sample.constant:
            known = math.isfinite(sample.highest - sample.lowest)
            return "" if known or (not self.of_mean and sample.exact_p < 1) else ZERO_VARIANCE
        return reason

    def test(self, sample: Sample, alpha: float) -> tuple[float, Interval]:
        """p and the interval of the skewed t statistic."""
        mean, moments = sample.mean, sample.moments
        if sample.constant:
            ends = means.constant_interval(mean, moments.n, sample.lowest, sample.highest, alpha)
            return _constant_p(sample), ends or Interval(-math.inf, math.inf)
        p = self.varied_p(sample)
        if moments.sameness and p < (largest := _constant_p(sample)):
            from scipy.optimize import brentq

            p = max(p, 1e-300)  # of nearly equal values it may be 0 by rounding

            def nearest(logarithm: float) -> float:
                level = math.exp(logarithm)
                ends = moments.widened(self.varied_interval(sample, level), level)
                return ends.lo if mean > 0 else -ends.hi

            if nearest(math.log(largest)) <= 0:
                p = largest
            elif nearest(math.log(p)) < 0:
                p = math.exp(brentq(nearest, math.log(p), math.log(largest)))
        return p, moments.widened(self.varied_interval(sample, alpha), alpha)

    def apply_to_zero(self, sample: Sample, alpha: float) -> TestResult:
        """The same; where only McNemar's exact test rejects 0, the interval ends just beyond it."""
        result, exact = super().apply_to_zero(sample, alpha), sample.exact_p
        if self.of_mean or result.p is None or result.p <= exact:
            return result
        lo, hi = result.lo, result.hi
        if exact <= alpha and lo is not None and hi is not None:
            least = means.ROUNDING / 2  # printed as 0
            lo, hi = (max(lo, least), hi) if sample.mean > 0 else (lo, min(hi, -least))
        return replace(result, p=exact, lo=lo, hi=hi)

    def varied_p(self, sample: Sample) -> float:
        """p of values that differ."""
        quantile = means.unskewed_quantile(sample.mean / sample.error, sample.slope)
        return min(1.0, 2 * float(special.stdtr(sample.freedom, -max(0.0, quantile))))

    def varied_interval(self, sample: Sample, alpha: float) -> Interval:
        """The interval of values that differ."""
        width = -float(special.stdtrit(sample.freedom, alpha / 2))
        return means.skewed_interval(sample.mean, sample.error, width, sample.slope)

    def detectable(self, sample: Sample, alpha: float) -> float | None:
        """By the interval, if values are almost the same."""
        flat = sample.constant or sample.is_dominated
        if sample.units < 2 or flat or not sample.moments.sameness:
            return super().detectable(sample, alpha)
        ends = self.test(sample, alpha)[1]
        return _with_power(sample, max(ends.hi - sample.mean, sample.mean - ends.lo), alpha)


class MeanTest(SkewedStudent):
    """Whether a mean is 0, by the interval of `mean_interval`."""

    label = "interval of a mean"
    of_mean = True

    def test(self, sample: Sample, alpha: float) -> tuple[float, Interval]:
        """p, and the interval that `evaluate` has too."""
        p, ends = super().test(sample, alpha)
        sliced = sample.interval(1 - alpha) if isinstance(sample, SlicedSample) else None
        return p, sliced or ends

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
        return means.logistic_interval(sample.mean, width, low, high)


class Betting(PairedTest):
    """Bets on values in the order in which queries came: it holds at every number of them."""

    label = "betting test"

    def explain_untestable(self, sample: Sample) -> str:
        """One value is enough."""
        return "" if len(sample.values) else NOT_TESTABLE

    def test(self, sample: Sample, alpha: float) -> tuple[float, Interval]:
        """p, which is 1 / capital, and the interval of all means that leave less than 1 / alpha."""
        return bet(sample.values, sample.lowest, sample.highest, alpha)

    def detectable(self, sample: Sample, alpha: float) -> float | None:
        """None: it has no fixed number of queries."""
        return None


def _constant_p(sample: Sample) -> float:
    """The level at which the interval of equal values, by `constant_interval`, ends at 0."""
    mean = sample.mean
    end = sample.lowest if mean > 0 else sample.highest
    share = end / (end - mean) if mean and math.isfinite(end) else 1.0
    return float(min(1.0, 2 * max(0.0, share) ** sample.moments.n))


TESTS = {"auto": SkewedStudent, "t": PairedTest, "randomisation": Randomisation}


# Levels are rounded to 12 digits: smaller ones would be 0.
LEAST_ALPHA = 5e-13
CORRECTIONS = ("holm", "bonferroni", "bh", "none")


def adjust_p_values(p: Sequence[float], correction: str) -> list[float]:
    """Adjust p-values for multiple tests: Holm, Bonferroni or Benjamini-Hochberg."""
    values = np.asarray(p, dtype=float)
    if correction == "bonferroni":
        return [float(x) for x in np.minimum(1, values * len(values))]
    if correction == "bh" and len(values):
        from scipy import stats

        return [float(x) for x in stats.false_discovery_control(values, method="bh")]
    if correction == "holm":
        order = np.argsort(values, kind="stable")
        steps = values[order] * np.arange(len(values), 0, -1)
        values[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(values) else steps
    return [float(x) for x in values]


def significance_levels(
    p: Sequence[float], p_adjusted: Sequence[float], correction: str, alpha: float
) -> list[float]:
    """The level of each test: p is at most this level exactly if p_adjusted <= alpha.

    So an interval at this level excludes 0 exactly if the adjusted p-value is significant. Holm:
    alpha / (m - i) at step i; all steps after the first failure have the level of that step.
    Benjamini-Hochberg: R alpha / m with R rejections, the false coverage rate of Benjamini and
    Yekutieli (2005).
    """
    values, rejected = np.asarray(p, dtype=float), np.asarray(p_adjusted, dtype=float) <= alpha
    tests, rejections = max(1, len(values)), int(rejected.sum())
    divisors = {"none": 1, "bonferroni": tests, "bh": tests / max(1, rejections)}
    steps = np.full(tests, alpha / divisors.get(correction, 1))
    if correction == "holm":
        step = np.where(rejected, np.searchsorted(np.sort(values), values), rejections)
        steps = alpha / (tests - step)
    # The two sides of p * m <= alpha and p <= alpha / m may differ in the last bit.
    kept = np.minimum(steps, np.nextafter(values, 0))
    return [float(x) for x in np.where(rejected, np.maximum(steps, values), kept)]


# A difference that is bounded by more than this share of its range is not worth a word.
MOST_BOUNDED = 0.05


def bound_by_share(sample: Sample, alpha: float) -> float | None:
    """The largest difference if few queries differ; None if this says little, or is not known.

    The upper end of Clopper and Pearson's interval of the share of all queries that differ, times
    the largest difference of a query.
    """
    n, m, largest = len(sample.values), sample.differing, max(-sample.lowest, sample.highest)
    plain = sample.clusters is None and sample.weights is None and math.isfinite(largest)
    share = float(special.betaincinv(m + 1, n - m, 1 - alpha / 2)) if plain and m < n else 1.0
    return share * largest if share <= MOST_BOUNDED else None


def find_decidable(
    floors: Sequence[float], correction: str, alpha: float
) -> tuple[list[bool], int]:
    """Which tests could be significant, given the floors of their p, and the divisor of the level.

    Tarone (1990): with the smallest k for which at most k floors are below alpha / k, those tests
    are the family, and the others do not make its level smaller.
    """
    counts = range(1, len(floors) + 1) if correction in ("holm", "bonferroni") else ()
    k = next((k for k in counts if sum(x <= alpha / k for x in floors) <= k), 1)
    return [x <= alpha / k for x in floors], k


def run_family(
    samples: Sequence[Sample], test: PairedTest, correction: str, alpha: float, floors: bool = True
) -> list[TestResult]:
    """The results of samples that are tested together: each interval has the level of its own test.

    It excludes 0 exactly if p_adjusted <= alpha. A sample that cannot be tested does not count, nor
    does, with `floors`, one that could not be significant. If all others are, Holm goes on with it.
    """
    apply = test.apply_to_zero if floors else test.apply
    results = [TestResult(reason=test.explain_untestable(sample)) for sample in samples]
    rest = [i for i, result in enumerate(results) if not result.reason]
    worst, divisor = 0.0, 1
    while rest:
        least = [samples[i].p_floor if floors else 0.0 for i in rest]
        decidable, divisor = find_decidable(least, correction, alpha)
        family = [i for i, x in zip(rest, decidable, strict=True) if x]
        rest = [i for i, x in zip(rest, decidable, strict=True) if not x]
        first = alpha if correction == "none" else alpha / max(1, len(family))
        tested = [apply(samples[i], first) for i in family]
        p = [x.p or 0.0 for x in tested]
        adjusted = adjust_p_values(p, correction)
        levels = significance_levels(p, adjusted, correction, alpha)
        for i, result, p_adjusted, level in zip(family, tested, adjusted, levels, strict=True):
            result = result if level == first else apply(samples[i], level)
            results[i] = replace(result, p_adjusted=max(p_adjusted, worst), level=level)
        worst = max([worst, *adjusted])
        if correction != "holm" or not family or worst > alpha:
            break
    for i in rest:
        level = alpha / divisor
        result, needed = apply(samples[i], level), math.ceil(1 - math.log2(level))
        p_adjusted = min(1.0, (result.p or 0.0) * divisor)
        results[i] = replace(result, p_adjusted=p_adjusted, level=level, needed=needed)
    return results


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


# The statistical power of detectable differences, margins and numbers of queries.
POWER = 0.8
# More queries follow from the normal distribution, as scipy's noncentral t is less exact.
LARGE = 10_000


def required_queries(effect: float, alpha: float, power: float) -> int:
    """The smallest n for which a paired t test detects the effect size d_z with this power."""
    from scipy import optimize, stats

    def reached(n: int) -> bool:
        critical = special.stdtrit(n - 1, 1 - alpha / 2)
        centre = abs(effect) * math.sqrt(n)
        tails = stats.nct.sf(critical, n - 1, centre) + stats.nct.cdf(-critical, n - 1, centre)
        return bool(tails >= power)

    z = -float(special.ndtri(alpha / 2))

    def excess(centre: float) -> float:
        return float(special.ndtr(centre - z) + special.ndtr(-centre - z)) - power

    # For a normal distribution, and a little more for Student's t (Guenther 1981).
    centre = float(optimize.brentq(excess, 0, z + float(special.ndtri(power))))
    n = max(2, math.ceil((centre / effect) ** 2 + z**2 / 2))
    if n > LARGE:
        return n
    while n > 2 and reached(n - 1):
        n -= 1
    while not reached(n):
        n += 1
    return n


def queries_to_decide(
    sample: Sample, interval: Interval, level: float, anytime: bool = False
) -> int | None:
    """About how many queries would give an interval without 0, if mean and spread stay the same.

    With a power of 80%, rounded up to two digits. None for more than a billion. Equal values: by
    `constant_interval`. Whoever looks at any time needs no power at a number fixed before.
    """
    mean = sample.mean
    if sample.constant and not anytime:
        end = sample.highest if mean < 0 else sample.lowest
        share = end / (end - mean) if end != mean else 1.0
        count = math.log(level / 2) / math.log(share) if 0 < share < 1 else math.inf
    else:
        width = interval.hi - mean if mean < 0 else mean - interval.lo
        width = width if anytime else _with_power(sample, width, level)
        ratio = width / abs(mean) if mean else math.inf
        count = len(sample.values) * ratio**2 if ratio < 1e5 else math.inf
    if count > 1e9:
        return None
    unit = 10.0 ** (math.floor(math.log10(count)) - 1)
    return int(float(f"{math.ceil(round(count / unit, 9)) * unit:.6g}"))


def _with_power(sample: Sample, width: float, level: float) -> float:
    """How far the true mean must be from 0, given the interval's width on that side."""
    quantile = float(special.stdtrit(sample.freedom, 1 - level / 2))
    return width * (1 + float(special.ndtri(POWER)) / quantile)

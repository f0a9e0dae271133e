"""The confidence interval of a mean, from its moments: the rule of all commands.

It needs neither numpy nor scipy, because `evaluate` works without them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

# Otherwise (1 + confidence) / 2 is rounded to 1.
HIGHEST_CONFIDENCE = 1 - 2**-52
# A smaller difference, relative to the largest value, is only rounding.
ROUNDING = 1e-12
# A sample's skewness is too small on average. The factor 1 + 6 / n keeps the error below 5% on
# lognormal losses of 20 queries (run_simulation.py). It does not grow for fewer queries, where
# intervals would become useless.
SKEWNESS_INFLATION = 6.0
INFLATED_FROM = 20
# If the mean is more skewed than this, an interval may hold it in less than 93% of samples
# (run_simulation.py --means): of a metric whose range is known, and of one without both ends.
SKEWED_IN_RANGE = 0.25
SKEWED_WITHOUT_RANGE = 0.65
# Values whose spread is a smaller share of a known range are almost the same: their interval is
# between that of equal values, which knows nothing of the others, and Student's t.
SMALL_SPREAD = 0.01
# Values at both ends of the range, such as 0 and 1, have this share of the largest variance. Their
# intervals hold however skewed they are. With fewer values, the skewness of a sample says little.
AT_BOTH_ENDS = 0.95
LEAST_SKEWED = 10


class Interval(NamedTuple):
    """Both ends of an interval."""

    lo: float
    hi: float

    def within(self, lowest: float, highest: float) -> Interval:
        """The interval cut at these ends."""
        return Interval(max(self.lo, lowest), min(self.hi, highest))


@dataclass(frozen=True)
class Moments:
    """A mean of n queries or clusters, and what its interval needs.

    `freedom` is the degrees of freedom of the standard `error`, `slope` the skewness of the mean.
    `least` and `most` are the extreme values, `lowest` and `highest` the range of the metric. `n`
    is the effective number if queries have weights.
    """

    n: float
    mean: float
    error: float
    freedom: float
    slope: float = 0.0
    least: float = -math.inf
    most: float = math.inf
    lowest: float = -math.inf
    highest: float = math.inf

    @property
    def range(self) -> Interval:
        """The range of the values. Options may give values outside, where it does not apply."""
        size = 1e-9 * max(1.0, abs(self.least), abs(self.most))
        return Interval(
            self.lowest if self.least >= self.lowest - size else -math.inf,
            self.highest if self.most <= self.highest + size else math.inf,
        )

    @property
    def sameness(self) -> float:
        """1 if all values are the same, 0 if their spread is at least 1% of a known range."""
        low, high = self.range
        known = math.isfinite(low) and math.isfinite(high)
        spread = (self.most - self.least) / (high - low) if known else math.inf
        return max(0.0, 1 - spread / SMALL_SPREAD)

    def widened(self, ends: Interval, alpha: float) -> Interval:
        """The interval, nearer to `constant_interval` the more the values are the same."""
        low, high = self.range
        same = constant_interval(self.mean, self.n, low, high, alpha) or ends
        below, above = max(0.0, ends.lo - same.lo), max(0.0, same.hi - ends.hi)
        return Interval(ends.lo - self.sameness * below, ends.hi + self.sameness * above)

    @property
    def too_skewed(self) -> bool:
        """Whether n is too small for the skewness, so that the interval may be too narrow."""
        low, high = self.range
        if not (math.isfinite(low) and math.isfinite(high)):
            return abs(self.slope) > SKEWED_WITHOUT_RANGE
        if self.freedom + 1 < LEAST_SKEWED or abs(self.slope) <= SKEWED_IN_RANGE:
            return False
        largest = (self.mean - low) * (high - self.mean) / self.freedom
        return self.error**2 < AT_BOTH_ENDS * largest


def mean_interval(
    moments: Moments, confidence: float, interval: str | None = "auto"
) -> Interval | None:
    """The confidence interval of a mean; None if there is none, as of one value.

    Equal values: see `constant_interval`. If both ends of the range are known, the t interval of
    the logit of the mean, wider for almost equal values; otherwise Student's t, widened for
    skewness and cut at a known end.
    interval="t" is Student's t alone, cut at known ends.
    """
    low, high = moments.range
    if interval == "auto" and moments.least == moments.most:
        return constant_interval(moments.mean, moments.n, low, high, 1 - confidence)
    if moments.freedom <= 0:
        return None
    quantile = t_quantile((1 + min(confidence, HIGHEST_CONFIDENCE)) / 2, moments.freedom)
    if interval == "auto" and math.isfinite(low) and math.isfinite(high):
        ends = logistic_interval(moments.mean, quantile * moments.error, low, high)
        return moments.widened(ends, 1 - confidence)
    slope = moments.slope if interval == "auto" else 0.0
    return skewed_interval(moments.mean, moments.error, quantile, slope).within(low, high)


def logistic_interval(mean: float, width: float, lowest: float, highest: float) -> Interval:
    """The t interval of the logit of a mean in a range, by the delta method.

    It stays between both ends, and is shorter towards the nearer one.
    """
    size = highest - lowest
    share = (mean - lowest) / size
    if not 0 < share < 1:  # at an end of the range, all values are the same
        return Interval(mean - width, mean + width).within(lowest, highest)
    factor = math.exp(min(width / size / (share * (1 - share)), 700))
    low = lowest + size * share / (share + (1 - share) * factor)
    return Interval(low, lowest + size * share / (share + (1 - share) / factor))


def constant_interval(
    value: float, n: float, lowest: float, highest: float, alpha: float
) -> Interval | None:
    """The interval of a mean if all n values are the same, none without both ends of the range.

    If less than a share of (alpha / 2)^(1 / n) of all queries had this value, that would happen
    with a probability below alpha / 2. The other queries may have any value in the range. If the
    value is 0 or 1, these are the bounds of Clopper and Pearson for a share.
    """
    if n < 2 or not math.isfinite(lowest) or not math.isfinite(highest):
        return None
    share = (alpha / 2) ** (1 / n)
    return Interval(lowest + share * (value - lowest), highest - share * (highest - value))


def skewed_interval(mean: float, error: float, quantile: float, slope: float) -> Interval:
    """The interval of a mean by this quantile of Student's t, widened for skewness / sqrt(n).

    Hall (1992): with s = skewness / sqrt(n), T + s T^2 / 3 + s^2 T^3 / 27 + s / 6 is closer to
    Student's t than T is. It increases with T, so its bounds can be transformed back to T. Strong
    skewness would make them narrower again, so the widest for any skewness up to s is used.
    """
    if abs(slope) < 1e-7:
        return Interval(mean - quantile * error, mean + quantile * error)

    def back(x: float, s: float) -> float:
        return 3 / s * (math.cbrt(1 + s * (x - s / 6)) - 1)

    slopes = _slopes(slope)
    below = max(quantile, *(back(quantile, s) for s in slopes))
    above = max(quantile, *(-back(-quantile, s) for s in slopes))
    return Interval(mean - below * error, mean + above * error)


def unskewed_quantile(t: float, slope: float) -> float:
    """The quantile whose interval, by `skewed_interval`, ends `t` standard errors from the mean.

    t > 0 is the end below the mean, t < 0 the one above.
    """
    sign = math.copysign(1.0, t)
    ends = (sign * (t + s * t**2 / 3 + s**2 * t**3 / 27 + s / 6) for s in _slopes(slope))
    return abs(t) if abs(slope) < 1e-7 else min(abs(t), *ends)


def _slopes(slope: float) -> list[float]:
    return [slope * i / 20 for i in range(1, 21)]


def adjusted_skewness(skewness: float, n: int) -> float:
    """The skewness of a distribution, from that of a sample, inflated for small samples."""
    if n < 3:
        return 0.0
    unbiased = skewness * math.sqrt(n * (n - 1)) / (n - 2)
    return unbiased * (1 + SKEWNESS_INFLATION / max(n, INFLATED_FROM))


@lru_cache(10_000)
def t_quantile(p: float, df: float) -> float:
    """The p-quantile of Student's t distribution, for p from 0.5 to below 1.

    The method of the macro rankql_t_quantile, whose planning takes longer than a small evaluation:
    with t = sqrt(df) sinh(u), u has the density cosh(u)^-df / B(1/2, df/2). Newton's method starts
    at the normal quantile. It uses the integral from 0 to u up to p = 0.9, and above that the
    logarithm of the integral of the tail, up to where the density has fallen by exp(-30).
    """
    if p <= 0.5:
        return 0.0
    df = min(df, 1e13)
    central = p <= 0.9
    goal = _log_beta_half(df / 2) + math.log(p - 0.5 if central else 1 - p)
    u = math.sqrt(-2 * math.log(2 * (1 - p)) / df)
    for _ in range(9):
        drop = _log_cosh(u)
        end = 0.0 if central else math.acosh(math.exp(min(700.0, drop + 30 / df)))
        middle, half = (u + end) / 2, abs(u - end) / 2
        area = half * math.fsum(
            weight * math.exp(df * (drop - _log_cosh(middle + half * node)))
            for node, weight in _legendre_nodes()
        )
        if central:
            step = math.exp(goal + df * drop) - area
        else:
            step = area * (math.log(area) - goal - df * drop)
        u += step
        if abs(step) <= 1e-15 * u:
            break
    return math.sqrt(df) * math.sinh(u)


def _log_cosh(u: float) -> float:
    return math.asinh(math.sinh(u) * math.tanh(u) / 2)


def _log_beta_half(a: float) -> float:
    """ln(B(1/2, a)). From 15 a series, because the difference of two lgamma() loses digits."""
    if a < 15:
        return math.log(math.pi) / 2 + math.lgamma(a) - math.lgamma(a + 0.5)
    x = 1 / a**2
    series = 1 / 8 + x * (-1 / 192 + x * (1 / 640 - x * 17 / 14336))
    return (math.log(math.pi) - math.log(a)) / 2 + series / a


@lru_cache(1)
def _legendre_nodes(n: int = 32) -> list[tuple[float, float]]:
    """The nodes and weights of Gauss-Legendre quadrature."""
    nodes = []
    for i in range(n):
        x = math.cos(math.pi * (i + 0.75) / (n + 0.5))
        for _ in range(5):
            last, value = 1.0, x
            for k in range(2, n + 1):
                last, value = value, ((2 * k - 1) * x * value - (k - 1) * last) / k
            slope = n * (x * value - last) / (x * x - 1)
            x -= value / slope
        nodes.append((x, 2 / ((1 - x * x) * slope**2)))
    return nodes

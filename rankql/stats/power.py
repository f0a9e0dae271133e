"""The differences and the numbers of queries that a test can detect."""

from __future__ import annotations

import math

from scipy import optimize, special, stats

from rankql.stats.means import Interval
from rankql.stats.sample import Sample

# The statistical power of detectable differences, margins and numbers of queries.
POWER = 0.8
# More queries follow from the normal distribution, as scipy's noncentral t is less exact.
LARGE = 10_000


def detectable_difference(sample: Sample, alpha: float) -> float | None:
    """About the mean that a t test at this level detects with a power of 80%."""
    if sample.units < 2 or sample.constant or sample.is_dominated:
        return None
    quantiles = special.stdtrit(sample.freedom, [1 - alpha / 2, POWER]).sum()
    return float(quantiles * sample.error)


def required_queries(effect: float, alpha: float, power: float) -> int:
    """The smallest n for which a paired t test detects the effect size d_z with this power."""

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


def queries_to_decide(sample: Sample, interval: Interval, level: float) -> int | None:
    """About how many queries would give an interval without 0, if mean and spread stay the same.

    With a power of 80%, rounded up to two digits. None for more than a billion. Equal values: by
    `constant_interval`.
    """
    mean = sample.mean
    if sample.constant:
        end = sample.highest if mean < 0 else sample.lowest
        share = end / (end - mean) if end != mean else 1.0
        count = math.log(level / 2) / math.log(share) if 0 < share < 1 else math.inf
    else:
        width = interval.hi - mean if mean < 0 else mean - interval.lo
        ratio = _with_power(sample, width, level) / abs(mean) if mean else math.inf
        count = len(sample.values) * ratio**2 if ratio < 1e5 else math.inf
    return None if count > 1e9 else int(round_up(count))


def difference_by_interval(sample: Sample, interval: Interval, level: float) -> float:
    """About the mean that an interval at this level excludes from 0 with a power of 80%."""
    width = max(interval.hi - sample.mean, sample.mean - interval.lo)
    return _with_power(sample, width, level)


def _with_power(sample: Sample, width: float, level: float) -> float:
    """How far the true mean must be from 0, given the interval's width on that side."""
    quantile = float(special.stdtrit(sample.freedom, 1 - level / 2))
    return width * (1 + float(special.ndtri(POWER)) / quantile)


def round_up(value: float) -> float:
    """The value, rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(round(value / unit, 9)) * unit:.6g}")

"""The differences and the numbers of queries that a test can detect."""

from __future__ import annotations

import math

from scipy import optimize, special, stats

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

"""How many queries a comparison needs."""

from __future__ import annotations

import math

from rankql.errors import require_package
from rankql.registry.argument_checks import require


def queries_needed(effect: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """How many queries a paired t test needs to show an effect d_z with this power.

    The least n at which `P(|T| > t(1 - alpha/2, n - 1))` reaches the power, T noncentral t with
    n - 1 degrees of freedom and noncentrality d_z sqrt(n).

    >>> [queries_needed(effect) for effect in (0.2, 0.3, 0.5, 0.8)]
    [199, 90, 34, 15]
    """
    require_package("scipy", "stats", "queries_needed")
    from scipy import special, stats

    for name, value in (("effect", effect), ("alpha", alpha), ("power", power)):
        require(isinstance(value, int | float), f"{name} must be a number, not {value!r}")
    require(effect != 0 and math.isfinite(effect), f"effect must be a number but 0, not {effect}")
    require(0 < alpha < 1, f"alpha must lie between 0 and 1, not {alpha}")
    require(alpha < power < 1, f"power must lie between alpha and 1, not {power}")

    def reached(n: int) -> bool:
        critical = special.stdtrit(n - 1, 1 - alpha / 2)
        centre = abs(effect) * math.sqrt(n)
        return bool(
            stats.nct.sf(critical, n - 1, centre) + stats.nct.cdf(-critical, n - 1, centre) >= power
        )

    high = 2
    while not reached(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high

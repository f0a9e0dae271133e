"""Tukey's HSD for several systems on the same queries: the range of their means decides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from rankql.stats.means import ROUNDING
from rankql.stats.sample import Array

# More patterns are sampled, and the number of values in memory.
PATTERNS, BATCH = 2**20, 2**21


# If the standard deviations of systems differ by a larger factor, up to 10% of families of 5 equal
# systems, and 38% of those of 20, have a significant pair.
UNEQUAL = 1.5


def vary_differently(values: Array) -> bool:
    """Whether the standard deviations of systems, apart from the queries, differ too much.

    By chance, the logarithm of each is off by about 1 / sqrt(2 n), and the range of that of several
    systems is about 2 sqrt(2 log(systems)) times as large.
    """
    n, systems = values.shape
    spreads = (values - values.mean(axis=1, keepdims=True)).std(axis=0)
    chance = math.exp(2 * math.sqrt(math.log(systems) / (n - 1)))
    return bool(spreads.max() > max(UNEQUAL, chance) * spreads.min())


def studentised_range(values: Array, alpha: float) -> tuple[Callable[[float], float], float]:
    """p of a difference of two means, and the difference with p = alpha, in a two-way layout.

    `values` has a row per query and a column per system. The error is that of systems x queries,
    with (systems - 1) (queries - 1) degrees of freedom.
    """
    n, systems = values.shape
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    freedom = (systems - 1) * (n - 1)
    error = math.sqrt(float(np.square(rest).sum()) / freedom / n)
    width = error * float(stats.studentized_range.ppf(1 - alpha, systems, freedom))

    def p(difference: float) -> float:
        return float(stats.studentized_range.sf(abs(difference) / error, systems, freedom))

    return p, width


def randomised_range(
    values: Array, alpha: float, resamples: int, seed: int
) -> tuple[Callable[[float], float], float]:
    """The same by permuting the values of each query (Carterette 2012); exact for few queries."""
    n, systems = values.shape
    # The order of the systems in the first query does not change the range.
    exact = math.factorial(systems) ** (n - 1) <= PATTERNS
    if exact:
        sums = values[:1]
        for row in values[1:]:
            orders = np.array([*itertools.permutations(row)])
            sums = (sums[:, None, :] + orders).reshape(-1, systems)
    else:
        rng = np.random.default_rng(seed)
        step = max(1, BATCH // values.size)
        sizes = [min(step, resamples - start) for start in range(0, resamples, step)]
        shapes = (np.broadcast_to(values, (size, n, systems)) for size in sizes)
        sums = np.concatenate([rng.permuted(x, axis=2).sum(axis=1) for x in shapes])
    ranges = np.sort(np.ptp(sums, axis=1) / n)[::-1]
    extra = 0 if exact else 1  # count the observed pattern too
    patterns = len(ranges) + extra
    first = max(0, math.floor(alpha * patterns - extra + 1e-9))
    dust = ROUNDING * max(1.0, float(np.abs(values).max()))

    def p(difference: float) -> float:
        as_large = np.count_nonzero(ranges >= abs(difference) - dust)
        return float((as_large + extra) / patterns)

    return p, float(ranges[min(first, len(ranges) - 1)])

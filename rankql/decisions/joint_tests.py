"""Significance tests of all pairs of several systems at once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy import integrate, stats

from rankql.decisions.resampling import BATCH, symmetric_result
from rankql.decisions.rounding import ROUNDING
from rankql.decisions.sample import (
    ZERO_VARIANCE,
    Array,
    SignificanceOptions,
    SignificanceResult,
)


def tukey(
    values: Array, pairs: Sequence[tuple[int, int]], options: SignificanceOptions
) -> list[SignificanceResult]:
    """Tukey's HSD of the two-way layout, systems by queries: it keeps the pairing.

    q = |difference| / sqrt(V / n), V the variance left by systems and queries.
    """
    n, m = values.shape
    free = (m - 1) * (n - 1)
    error = residual_error(values)
    if not error:
        return [SignificanceResult(reason=ZERO_VARIANCE) for _ in pairs]
    means = values.mean(0)
    differences = np.array([means[b] - means[a] for a, b in pairs])
    with warnings.catch_warnings():  # in the far tail, integration misses its own tolerance
        warnings.simplefilter("ignore", integrate.IntegrationWarning)
        p = stats.studentized_range.sf(np.abs(differences) / error, m, free)
    width = _critical(options.alpha, m, free) * error
    return [
        SignificanceResult(float(p), float(d - width), float(d + width))
        for p, d in zip(np.atleast_1d(p), differences, strict=True)
    ]


@cache
def _critical(alpha: float, systems: int, free: int) -> float:
    return float(stats.studentized_range.isf(alpha, systems, free))


def residual_error(values: Array) -> float:
    """The standard error of a mean after systems and queries; 0 where they explain everything."""
    n, m = values.shape
    rows = np.sort(values, axis=1)  # the order of the systems changes no bit
    left = values - rows.mean(1, keepdims=True) - values.mean(0) + rows.mean()
    error = math.sqrt(np.sort(np.square(left).sum(0)).sum() / ((m - 1) * (n - 1)) / n)
    return error if error > ROUNDING * max(1.0, float(np.abs(values).max())) else 0.0


def randomised_tukey(
    values: Array, pairs: Sequence[tuple[int, int]], options: SignificanceOptions
) -> list[SignificanceResult]:
    """Randomised Tukey (Carterette 2012): the scores of each query permuted among the systems.

    A difference is compared with the largest one of all pairs.
    """
    rng = np.random.default_rng(options.seed)
    n, m = values.shape
    centre, dust = values.mean(0), ROUNDING * max(1.0, float(np.abs(values).max()))
    values = np.sort(values, axis=1)  # the order of the systems changes no bit
    ranges = np.empty(options.resamples)
    rows = max(1, BATCH // m)
    batch = max(1, rows // n)
    for start in range(0, len(ranges), batch):
        means = np.zeros((min(batch, len(ranges) - start), m))
        for row in range(0, n, rows):
            part = values[row : row + rows]
            repeated = np.broadcast_to(part, (len(means), *part.shape))
            means += rng.permuted(repeated, axis=2).sum(1) / n
        ranges[start : start + batch] = np.ptp(means, axis=1)
    return [symmetric_result(float(centre[b] - centre[a]), ranges, dust, options) for a, b in pairs]

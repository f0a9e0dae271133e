"""Pearson's and Spearman's correlation, with intervals that hold for days which resemble others.

Of independent values with f = n - 2 degrees of freedom, the variance of atanh(r) is 1 / (f - 1),
for the interval (Fisher's z) and for p. That of atanh(rho) is (1 + rho^2 / 2) / (f - 1): Bonett
and Wright 2000. Of days, weekday and trend are taken out, and `_independent_share` of them counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from rankql.core.stats.means import ROUNDING
from rankql.core.stats.sample import Array

CONSTANT = "one column is constant, or has only weekday and trend: no correlation"
TOO_FEW = "too few values for an interval"
PERFECT = "a perfect correlation: no interval"
REPEATED_DAYS = "several rows of a day are not independent: no interval"
# With fewer degrees of freedom (10 values) up to 1 in 10 of unrelated tied columns seem related.
FREEDOM = 8
# Ranks tie values that agree to this many significant digits.
DIGITS = 12


@dataclass(frozen=True)
class Correlation:
    """A coefficient with its interval and p-value, or the reason why it has none."""

    r: float | None = None
    lo: float | None = None
    hi: float | None = None
    p: float | None = None
    reason: str | None = None


def correlate_values(
    x: Array, y: Array, confidence: float, days: NDArray[np.intp] | None = None, ranks: bool = False
) -> Correlation:
    """Pearson's r, or Spearman's rho of ranks; of days without weekday and linear trend."""
    repeated = days is not None and len(np.unique(days)) < len(days)
    days = None if repeated else days
    shared = np.ones((len(x), 1)) / math.sqrt(max(len(x), 1))
    if days is not None and len(x) > 2:
        shared = _calendar(days)
    if ranks:  # mean ranks, whose ties rounding does not break
        x, y = (pl.Series(z).round_sig_figs(DIGITS).rank("average").to_numpy() for z in (x, y))
    x, y = (_deviations(z, shared) for z in (x, y))
    if not (x.any() and y.any()):
        return Correlation(reason=CONSTANT if len(x) > 2 else TOO_FEW)
    r = float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1, 1))
    free = len(x) - 1.0 - shared.shape[1]
    if days is not None:
        free *= _independent_share(x, y, days)
    if free < FREEDOM:
        return Correlation(r if free >= 1 else None, reason=TOO_FEW)
    if repeated or 1 - abs(r) <= ROUNDING:
        return Correlation(r, reason=REPEATED_DAYS if repeated else PERFECT)
    error = math.sqrt((1 + ranks * r * r / 2) / (free - 1))
    z, width = math.atanh(r), float(special.ndtri((1 + confidence) / 2)) * error
    p = float(2 * special.ndtr(-abs(z) / error))
    return Correlation(r, math.tanh(z - width), math.tanh(z + width), p)


def _calendar(days: NDArray[np.intp]) -> Array:
    """Weekdays (if the days are not weeks or months apart) and trend, orthonormal."""
    week = days % 7 if np.ptp(days) < 2 * len(days) else np.zeros_like(days)
    columns = np.hstack([week[:, None] == np.unique(week), days[:, None] - days.mean()])
    left, sizes, _ = np.linalg.svd(columns.astype(float), full_matrices=False)
    return np.asarray(left[:, sizes > ROUNDING * sizes[0]])


def _independent_share(x: Array, y: Array, days: NDArray[np.intp]) -> float:
    """The share of days that are independent: 1 / (1 + 2 sum of p_k a_k b_k), at most 1.

    a_k and b_k are the autocorrelations of both series at a lag of k days, and p_k is the number of
    pairs of days with this lag over the number of days (Bartlett 1935). Lags above a quarter of the
    period are too noisy. About 5% of unrelated series then seem related (test_associate.py).
    """
    place = days - days.min()
    span = int(place.max()) + 1
    sums = []
    for z in (x, y, np.ones(len(x))):  # the sums of products at each lag, by Fourier transform
        grid = np.zeros(span)
        grid[place] = z
        sums.append(np.fft.irfft(np.square(np.abs(np.fft.rfft(grid, 2 * span))), 2 * span))
    of_x, of_y, pairs = (z[1 : 1 + span // 4] for z in sums)
    known = pairs > 0.5
    products = of_x[known] * of_y[known] / (pairs[known] * (x @ x) * (y @ y))
    return 1 / max(1.0, 1 + 2 * len(x) * float(products.sum()))


def _deviations(values: Array, shared: Array) -> Array:
    """What orthonormal columns leave of values; 0 if that is only rounding.

    Values are divided by the largest one first, so that their squares do not overflow.
    """
    values = values / (np.abs(values).max(initial=0) or 1.0)
    deviations = values - shared @ (shared.T @ values)
    return np.asarray(deviations * (np.abs(deviations).max(initial=0) > ROUNDING))

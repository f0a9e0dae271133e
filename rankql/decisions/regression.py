"""Correlation and regression of two columns: coefficients, slope, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special, stats

from rankql import text as show
from rankql.decisions.rounding import ROUNDING
from rankql.decisions.sample import Array

Codes: TypeAlias = NDArray[np.intp]

TOO_FEW = "too few to correlate"
NO_INTERVAL = "too few for an interval"
PERFECT = "a perfect correlation: no interval"
# Fewer launches have a slope without an interval.
LAUNCHES = 6
# A correlation is significant from 10 values on: so many degrees of freedom, which slices reduce.
# With fewer, up to 1 in 10 of unrelated columns seem related if values are tied.
FREEDOM = 8
# Ranks tie values that agree to so many significant digits.
DIGITS = 12


@dataclass(frozen=True)
class Coefficient:
    """A correlation with its interval and p, or the reason why it has none."""

    r: float | None = None
    lo: float | None = None
    hi: float | None = None
    p: float | None = None
    reason: str | None = None
    # Are there enough values to call it significant?
    enough: bool = False

    @property
    def sign(self) -> int:
        """Its sign, 0 if it is not significant."""
        if self.r is None or not self.enough:
            return 0
        significant = self.reason == PERFECT or (
            self.lo is not None and self.hi is not None and not self.lo <= 0 <= self.hi
        )
        return int(math.copysign(1, self.r)) if significant else 0

    @property
    def text(self) -> str:
        """The coefficient with its interval."""
        if self.r is None:
            return "undefined"
        if self.lo is None or self.hi is None:
            return show.format_decimal(self.r, 2)
        return show.format_estimate(self.r, self.lo, self.hi, 2)


def pearson(x: Array, y: Array, confidence: float, codes: Codes | None = None) -> Coefficient:
    """Pearson's r, with slices the one within them, by Fisher's z.

    Within: r of the deviations from the means of the slices, which is the partial correlation given
    the slice. With n values in G slices (1 if none are given) and f = n - 1 - G degrees of freedom,
    the standard error of atanh(r) is 1 / sqrt(f - 1), for the interval and for p alike.
    """
    return _correlation(x, y, codes, confidence, lambda r: 1.0)


def spearman(x: Array, y: Array, confidence: float, codes: Codes | None = None) -> Coefficient:
    """Spearman's rho of ranks, with slices the one within them.

    The same of the mean ranks, each within its slice and divided by its size plus 1, so that no
    slice counts for more because its ranks reach higher. The variance of atanh(rho) is
    (1 + rho^2 / 2) / (f - 1): Bonett and Wright 2000.
    """
    return _correlation(x, y, codes, confidence, lambda r: 1 + r * r / 2)


def _correlation(
    x: Array, y: Array, codes: Codes | None, confidence: float, spread: Callable[[float], float]
) -> Coefficient:
    free = len(x) - 1 - (1 if codes is None else int(codes.max(initial=-1)) + 1)
    if free < 1:
        return Coefficient(reason=TOO_FEW)
    x, y = _deviations(x, codes), _deviations(y, codes)
    if _is_constant(x) or _is_constant(y):
        return Coefficient()
    r = float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1, 1))
    enough = free >= FREEDOM
    if 1 - abs(r) <= ROUNDING:
        return Coefficient(math.copysign(1.0, r), reason=PERFECT, enough=enough)
    if free < 2:
        return Coefficient(r, reason=NO_INTERVAL)
    error = math.sqrt(spread(r) / (free - 1))
    width = float(special.ndtri((1 + confidence) / 2)) * error
    z = math.atanh(r)
    p = float(2 * special.ndtr(-abs(z) / error))
    return Coefficient(r, math.tanh(z - width), math.tanh(z + width), p, enough=enough)


def _deviations(values: Array, codes: Codes | None) -> Array:
    """From the mean, or from that of the slice; in units of the greatest, so that squares exist."""
    values = values / (np.abs(values).max() or 1.0)
    if codes is None:
        return np.asarray(values - values.mean())
    sizes = np.bincount(codes)
    means = np.bincount(codes, values) / np.maximum(sizes, 1)
    return np.asarray(values - means[codes])


def _is_constant(deviations: Array) -> bool:
    """Is there nothing but rounding in deviations of values up to 1?"""
    return bool(np.abs(deviations).max(initial=0) <= ROUNDING)


def varies(values: Array, codes: Codes | None = None) -> bool:
    """Are there different values, or different ones within a slice?"""
    return len(values) > 0 and not _is_constant(_deviations(values, codes))


def ranks(values: Array, codes: Codes | None = None) -> Array:
    """Mean ranks; within slices divided by their size plus 1. What differs by rounding is tied."""
    value = pl.col("value").round_sig_figs(DIGITS).rank("average")
    if codes is None:
        return pl.DataFrame({"value": values}).select(value).to_series().to_numpy()
    frame = pl.DataFrame({"value": values, "slice": codes})
    return frame.select((value / (pl.len() + 1)).over("slice")).to_series().to_numpy()


def slope(x: Array, y: Array, confidence: float) -> tuple[float | None, float | None, float | None]:
    """The least-squares slope of y on x with Student's interval; None where there is none."""
    if len(x) < 2 or not varies(x):
        return None, None, None
    line = stats.linregress(x, y)
    if not varies(y) or abs(line.slope) * np.ptp(x) <= ROUNDING * np.ptp(y):
        return 0.0, None, None
    if len(x) < LAUNCHES or 1 - abs(line.rvalue) <= ROUNDING:
        return float(line.slope), None, None
    width = float(special.stdtrit(len(x) - 2, (1 + confidence) / 2) * line.stderr)
    return float(line.slope), float(line.slope) - width, float(line.slope) + width

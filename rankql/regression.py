"""How one column goes with another: correlation, bins, prediction and slope, or why not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import optimize, special

from rankql import show

Array: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.intp]
Fit: TypeAlias = Callable[[Array, Array, Array], Array]

TOO_FEW = "too few to correlate"
NO_INTERVAL = "too few for an interval"
PERFECT = "a perfect correlation: no interval"
# Below this, relative to the greatest of the values, a difference is one of rounding.
DUST, DIGITS = 1e-12, 12


@dataclass(frozen=True)
class Coefficient:
    """A correlation with its interval and p, or the word for why there is none."""

    r: float | None = None
    lo: float | None = None
    hi: float | None = None
    p: float | None = None
    word: str | None = None

    @property
    def sign(self) -> int:
        """Which way they go together; 0 where the interval does not tell."""
        if self.r is None or (self.word != PERFECT and (self.lo is None or self.hi is None)):
            return 0
        within_noise = self.lo is not None and self.hi is not None and self.lo <= 0 <= self.hi
        return 0 if within_noise else int(math.copysign(1, self.r))

    @property
    def said(self) -> str:
        """The coefficient with its interval, as text."""
        if self.r is None or self.lo is None or self.hi is None:
            return "undefined" if self.r is None else f"{self.r:.2f}"
        digits = show.digits(self.lo, self.hi, 2)
        r, lo, hi = (f"{value:z.{digits}f}" for value in (self.r, self.lo, self.hi))
        return f"{r} ({lo} to {hi})"


def pearson(x: Array, y: Array, confidence: float, codes: Codes | None = None) -> Coefficient:
    """Pearson's r, with slices the one within them, by Fisher's z.

    Within: r of the deviations from the means of the slices, which is the partial correlation given
    the slice. With n values in G slices (1 where none are given) p is that of
    t = r sqrt(f / (1 - r^2)) with f = n - 1 - G degrees of freedom, and the interval
    tanh(atanh(r) -+ z / sqrt(f - 1)).
    """
    return _correlation(x, y, codes, confidence, lambda r: 1.0)


def spearman(x: Array, y: Array, confidence: float, codes: Codes | None = None) -> Coefficient:
    """Spearman's rho of ranks, with slices the one within them.

    The same of the mean ranks, each within its slice and divided by its size plus 1, so that no
    slice counts for more because its ranks reach higher. The variance of z is
    (1 + rho^2 / 2) / (f - 1): Bonett and Wright 2000.
    """
    return _correlation(x, y, codes, confidence, lambda r: 1 + r * r / 2)


def _correlation(
    x: Array, y: Array, codes: Codes | None, confidence: float, spread: Callable[[float], float]
) -> Coefficient:
    free = len(x) - 1 - (1 if codes is None else int(codes.max(initial=-1)) + 1)
    if free < 1:
        return Coefficient(word=TOO_FEW)
    x, y = _deviations(x, codes), _deviations(y, codes)
    if constant(x) or constant(y):
        return Coefficient()
    r = float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1, 1))
    if 1 - abs(r) <= DUST:
        return Coefficient(math.copysign(1.0, r), word=PERFECT)
    p = float(2 * special.stdtr(free, -abs(r) * math.sqrt(free / (1 - r * r))))
    if free < 2:
        return Coefficient(r, p=p, word=NO_INTERVAL)
    width = float(special.ndtri((1 + confidence) / 2)) * math.sqrt(spread(r) / (free - 1))
    z = math.atanh(r)
    return Coefficient(r, math.tanh(z - width), math.tanh(z + width), p)


def _deviations(values: Array, codes: Codes | None) -> Array:
    """From the mean, or from that of the slice; in units of the greatest, so that squares exist."""
    values = values / (np.abs(values).max() or 1.0)
    if codes is None:
        return np.asarray(values - values.mean())
    sizes = np.bincount(codes)
    means = np.bincount(codes, values) / np.maximum(sizes, 1)
    return np.asarray(values - means[codes])


def constant(deviations: Array) -> bool:
    """Is there nothing but rounding in deviations of values up to 1?"""
    return bool(np.abs(deviations).max(initial=0) <= DUST)


def varies(values: Array, codes: Codes | None = None) -> bool:
    """Are there different values, or different ones within a slice?"""
    return len(values) > 0 and not constant(_deviations(values, codes))


def ranks(values: Array, codes: Codes | None = None) -> Array:
    """Mean ranks; within slices divided by their size plus 1. What differs by rounding is tied."""
    value = pl.col("value").round_sig_figs(DIGITS).rank("average")
    if codes is None:
        return pl.DataFrame({"value": values}).select(value).to_series().to_numpy()
    frame = pl.DataFrame({"value": values, "slice": codes})
    return frame.select((value / (pl.len() + 1)).over("slice")).to_series().to_numpy()


def binned(values: Array, bins: int) -> Codes:
    """The bin of every value, from 0: of about as many each, equal values in the same one.

    A value of the mean rank r among n is in bin floor((r - 1/2) bins / n); empty bins are left out.
    """
    place = np.floor((ranks(values) - 0.5) * bins / len(values))
    return np.unique(place, return_inverse=True)[1].astype(np.intp)


def half_width(errors: Array, counts: NDArray[np.int64], confidence: float) -> Array:
    """Of the t intervals of means with these standard errors; NaN of fewer than two values."""
    free = np.where(counts > 1, counts - 1, np.nan)
    return np.asarray(special.stdtrit(free, (1 + confidence) / 2) * errors)


def _line(x: Array, y: Array, new: Array) -> Array:
    """Predictions of the least-squares line; of the mean, where x does not vary."""
    if not varies(x):
        return np.full(len(new), y.mean())
    centred = x - x.mean()
    slope = centred @ (y - y.mean()) / (centred @ centred)
    return np.asarray(y.mean() + slope * (new - x.mean()))


def _monotone(x: Array, y: Array, new: Array) -> Array:
    """Predictions of the best monotone curve, in the direction of Spearman's rho."""
    if not varies(x) or not varies(y):
        return np.full(len(new), y.mean())
    sign = 1.0 if (spearman(ranks(x), ranks(y), 0.95).r or 0) >= 0 else -1.0
    places, codes, sizes = np.unique(x, return_inverse=True, return_counts=True)
    means = np.bincount(codes, y) / sizes
    fitted = optimize.isotonic_regression(means, weights=sizes, increasing=sign > 0).x
    return np.asarray(np.interp(new, places, fitted))


SHAPES: dict[str, Fit] = {"linear": _line, "monotone": _monotone}


@dataclass(frozen=True)
class Predicted:
    """Squared errors out of sample: of each predictor, of the mean, and the fold of every value."""

    errors: dict[str, Array]
    mean: Array
    folds: Codes

    def r2(self, name: str) -> float:
        """1 - (sum of the squared errors) / (that of the mean of the other folds)."""
        return float(1 - self.errors[name].sum() / self.mean.sum())

    def r2_by_fold(self, name: str) -> Array:
        """The same in every fold."""
        errors, mean = (np.bincount(self.folds, e) for e in (self.errors[name], self.mean))
        return np.asarray(1 - errors[mean > 0] / mean[mean > 0])

    def lost(self, name: str, best: str) -> Array:
        """What every value adds to how far a predictor stays behind: their mean is that of R^2."""
        return np.asarray((self.errors[name] - self.errors[best]) / self.mean.mean())


def predicted(
    columns: Mapping[str, Array], y: Array, units: Codes, folds: int, seed: int, shape: str
) -> Predicted:
    """Each value predicted from one column by the folds that it is not in; units stay together."""
    order = np.random.default_rng(seed).permutation(int(units.max()) + 1)
    fold = (order % folds)[units]
    errors = {name: np.empty(len(y)) for name in columns}
    mean = np.empty(len(y))
    for i in range(folds):
        out = fold == i
        known, hidden = y[~out], y[out]
        mean[out] = (hidden - known.mean()) ** 2
        for name, x in columns.items():
            errors[name][out] = (hidden - SHAPES[shape](x[~out], known, x[out])) ** 2
    return Predicted(errors, mean, fold.astype(np.intp))


@dataclass(frozen=True)
class Slope:
    """The least-squares slope with its interval, where there is one."""

    slope: float | None = None
    lo: float | None = None
    hi: float | None = None


def slope(x: Array, y: Array, units: Codes, confidence: float) -> Slope:
    """The slope of y on x: Student's interval; or, where units have several values, by jackknife.

    Its variance is then (G - 1) / G times the sum of (slope without unit - slope)^2, with G - 1
    degrees of freedom: CV3, which holds with few units, where CR1 is too narrow (MacKinnon, Nielsen
    and Webb 2023).
    """
    n, many = len(x), len(np.unique(units))
    if n < 2 or not varies(x):
        return Slope()
    centred = x - x.mean()
    square = centred @ centred
    above = y - y.mean()
    found = float(centred @ above / square)
    residuals = above - found * centred
    free = (n if many == n else many + 1) - 2
    if n < 3 or free < 1 or np.abs(residuals).max() <= DUST * np.abs(y).max():
        return Slope(found)
    if many == n:
        error = math.sqrt(residuals @ residuals / free / square)
    else:
        terms = (np.ones(n), centred, above, centred * centred, centred * above)
        own = np.array([np.bincount(units, each) for each in terms])
        count, sx, sy, sxx, sxy = own.sum(axis=1, keepdims=True) - own
        left = sxx - sx * sx / count
        if left.min() <= DUST * square:  # without one unit there is no slope
            return Slope(found)
        apart = (sxy - sx * sy / count) / left - found
        error = math.sqrt((many - 1) / many * (apart @ apart))
    width = float(special.stdtrit(free, (1 + confidence) / 2)) * error
    return Slope(found, found - width, found + width)


def wilson(successes: int, n: int, confidence: float) -> tuple[float, float]:
    """Wilson's interval of a share (1927)."""
    z = float(special.ndtri((1 + confidence) / 2))
    share, weight = successes / n, z * z / n
    centre = (share + weight / 2) / (1 + weight)
    width = z * math.sqrt(share * (1 - share) / n + weight / (4 * n)) / (1 + weight)
    return max(0.0, centre - width), min(1.0, centre + width)

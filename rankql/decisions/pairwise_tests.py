"""Significance tests of two systems, by their differences per query."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from rankql.decisions.resampling import sum_all_signs, sum_random_signs, sum_resamples
from rankql.decisions.rounding import ROUNDING
from rankql.decisions.sample import Array, Sample, SignificanceOptions, SignificanceResult

# Up to so many signs, all their patterns (2^20) are counted; beyond, they are sampled.
EXACT = 20


def t(sample: Sample, options: SignificanceOptions) -> SignificanceResult:
    """Student's paired t test: mean / (s / sqrt(n)) with n - 1 degrees of freedom."""
    p = 2 * special.stdtr(sample.freedom, -abs(sample.mean / sample.error))
    width = special.stdtrit(sample.freedom, 1 - options.alpha / 2) * sample.error
    return SignificanceResult(float(p), float(sample.mean - width), float(sample.mean + width))


def randomisation(sample: Sample, options: SignificanceOptions) -> SignificanceResult:
    """Fisher's randomisation test: how often random signs give so large a mean (Smucker 2007).

    Under a shift d the sums B of the signed differences become B - d C, where C sums the signs
    alone. |B - d C| >= |A - d N|, the observed one, holds between two shifts, known in closed form.
    """
    columns = np.stack([sample.sums, sample.sizes])
    exact = sample.units <= EXACT
    signed, count = sum_all_signs(columns) if exact else sum_random_signs(columns, options)
    total, size = sample.sums.sum(), sample.sizes.sum()
    dust = ROUNDING * max(size, np.abs(sample.sums).sum())

    def root(difference: Array, among: Array) -> Array:
        return np.where(np.abs(difference) <= dust, 0.0, difference) / among

    mixed = np.abs(count) < size - 0.5  # all of one sign: holds at every shift
    shift_minus = root(total - signed[mixed], size - count[mixed])
    shift_plus = root(total + signed[mixed], size + count[mixed])
    free = np.full(len(signed) - len(shift_minus), np.inf)
    low = np.concatenate([-free, np.minimum(shift_minus, shift_plus)])
    high = np.concatenate([free, np.maximum(shift_minus, shift_plus)])
    extra = 0 if exact else 1  # the observed one is one of the patterns
    patterns = len(signed) + extra
    p = (extra + np.count_nonzero((low <= 0) & (high >= 0))) / patterns
    # The first shift from below at which more than alpha of the patterns hold.
    first = math.floor(options.alpha * patterns - extra + 1e-9)
    lo = -np.inf if first < 0 else float(np.partition(low, first)[first])
    hi = np.inf if first < 0 else float(-np.partition(-high, first)[first])
    return SignificanceResult.of(p, lo, hi, None if exact else options.resamples)


def bootstrap(sample: Sample, options: SignificanceOptions) -> SignificanceResult:
    """The studentised bootstrap (bootstrap-t): queries drawn with replacement.

    Each resample gives a t of its own, (its mean - mean) / its standard error. Their quantiles take
    the place of Student's in both tails, which allows for skewed differences.
    """
    n, centred = sample.units, sample.residuals
    sums, squares = sum_resamples(np.stack([centred, np.square(centred)]), options)
    spread = squares - np.square(sums) / n
    spread[spread <= ROUNDING * squares] = 0.0
    sums[np.abs(sums) <= n * sample.rounding] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = sums / n / np.sqrt(spread / (n - 1) / n)
    drawn = np.nan_to_num(drawn, nan=0.0, posinf=np.inf, neginf=-np.inf) * sample.error
    mean = sample.mean
    drawn = np.where(np.abs(drawn - mean) <= ROUNDING * abs(mean), mean, drawn)
    tail = min(np.count_nonzero(drawn >= mean), np.count_nonzero(drawn <= mean))
    p = min(1.0, 2 * (1 + tail) / (len(drawn) + 1))
    beyond = math.floor(options.alpha * (len(drawn) + 1) / 2 + 1e-9)
    if not beyond:
        return SignificanceResult.of(p, -math.inf, math.inf, options.resamples)
    low = float(np.partition(drawn, beyond - 1)[beyond - 1])
    high = float(-np.partition(-drawn, beyond - 1)[beyond - 1])
    return SignificanceResult.of(p, mean - high, mean - low, options.resamples)

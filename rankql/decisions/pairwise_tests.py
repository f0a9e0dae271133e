"""Significance tests of two systems by their differences per query."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from rankql.decisions.alignment import ROUNDING
from rankql.decisions.sample import Array, Sample, SignificanceOptions, SignificanceResult

# All patterns of up to 20 signs are counted (2^20). For more signs, patterns are sampled.
EXACT = 20


def t(sample: Sample, options: SignificanceOptions) -> SignificanceResult:
    """Student's paired t test: mean / (s / sqrt(n)) with n - 1 degrees of freedom.

    With clusters or weights, the standard error and degrees of freedom are those of `Sample`.
    """
    p = 2 * special.stdtr(sample.freedom, -abs(sample.mean / sample.error))
    width = special.stdtrit(sample.freedom, 1 - options.alpha / 2) * sample.error
    return SignificanceResult(float(p), float(sample.mean - width), float(sample.mean + width))


def randomisation(sample: Sample, options: SignificanceOptions) -> SignificanceResult:
    """Fisher's randomisation test: how often random signs give a mean as large (Smucker 2007).

    Under a shift d, the sum B of the signed differences becomes B - d C, where C is the sum of the
    signs. |B - d C| >= |A - d N|, the observed one, holds between two shifts in closed form.
    """
    columns = np.stack([sample.sums, sample.sizes])
    exact = sample.units <= EXACT
    signed, count = sum_all_signs(columns) if exact else sum_random_signs(columns, options)
    total, size = sample.sums.sum(), sample.sizes.sum()
    dust = ROUNDING * max(size, np.abs(sample.sums).sum())

    def root(difference: Array, among: Array) -> Array:
        return np.where(np.abs(difference) <= dust, 0.0, difference) / among

    # All signs the same: holds at every shift.
    mixed = np.abs(count) < size - sample.sizes.min() / 2
    shift_minus = root(total - signed[mixed], size - count[mixed])
    shift_plus = root(total + signed[mixed], size + count[mixed])
    free = np.full(len(signed) - len(shift_minus), np.inf)
    low = np.concatenate([-free, np.minimum(shift_minus, shift_plus)])
    high = np.concatenate([free, np.maximum(shift_minus, shift_plus)])
    extra = 0 if exact else 1  # count the observed pattern too
    patterns = len(signed) + extra
    p = (extra + np.count_nonzero((low <= 0) & (high >= 0))) / patterns
    # The lowest shift at which more than alpha of the patterns hold.
    first = math.floor(options.alpha * patterns - extra + 1e-9)
    lo = -np.inf if first < 0 else float(np.partition(low, first)[first])
    hi = np.inf if first < 0 else float(-np.partition(-high, first)[first])
    return SignificanceResult.of(p, lo, hi, None if exact else options.resamples)


# The number of values in memory while resampling.
BATCH = 2**21


def sum_all_signs(columns: Array) -> Array:
    """The sums of each row under every pattern of signs."""
    sums = np.zeros((len(columns), 1))
    for column in columns.T[:, :, None]:
        sums = np.concatenate([sums + column, sums - column], axis=1)
    return sums


# The signs for the eight bits of a byte.
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)


def sum_random_signs(columns: Array, options: SignificanceOptions) -> Array:
    """The sums of each row under random patterns of signs.

    Eight units at a time: a random byte picks one of their 256 signed sums.
    """
    rng = np.random.default_rng(options.seed)
    height = len(columns)
    padded = np.pad(columns, ((0, 0), (0, -columns.shape[1] % 8))).reshape(height, -1, 8)
    sums = np.zeros((height, options.resamples))
    picked = np.empty(options.resamples)
    step = max(1, BATCH // max(options.resamples, 256))
    for start in range(0, padded.shape[1], step):
        tables = padded[:, start : start + step] @ _SIGNS.T
        bits = rng.integers(0, 256, (tables.shape[1], options.resamples), dtype=np.uint8)
        for i, byte in enumerate(bits):
            for j in range(height):
                np.take(tables[j, i], byte, out=picked, mode="clip")
                sums[j] += picked
    return sums

"""Sums under random signs and over bootstrap resamples, in batches."""

from __future__ import annotations

import numpy as np

from rankql.decisions.sample import Array, SignificanceOptions

# How many numbers are held at once while resampling.
BATCH = 2**21


def sum_all_signs(columns: Array) -> Array:
    """The sums of each row of columns under every pattern of signs."""
    sums = np.zeros((len(columns), 1))
    for column in columns.T[:, :, None]:
        sums = np.concatenate([sums + column, sums - column], axis=1)
    return sums


# The signs that the eight bits of a byte stand for.
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)


def sum_random_signs(columns: Array, options: SignificanceOptions) -> Array:
    """The sums of each row of columns under random patterns of signs.

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


def sum_resamples(columns: Array, options: SignificanceOptions) -> Array:
    """The sums of each row of columns over as many of them drawn with replacement."""
    rng = np.random.default_rng(options.seed)
    n = columns.shape[1]
    sums = np.empty((len(columns), options.resamples))
    step = max(1, BATCH // n)
    for start in range(0, options.resamples, step):
        drawn = rng.integers(0, n, (min(step, options.resamples - start), n), dtype=np.uint32)
        for row, column in zip(sums, columns, strict=True):
            row[start : start + step] = column[drawn].sum(1)
    return sums

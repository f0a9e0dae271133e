"""TODO."""

from __future__ import annotations

import math

import numpy as np

from rankql.decisions.sample import Array, Outcome, Setting

# The patterns of as many signs, 2^20, are all counted; those of more are sampled.
EXACT = 20


# As many numbers are held at once while resampling.
BATCH = 2**21


def _symmetric(mean: float, drawn: Array, dust: float, setting: Setting) -> Outcome:
    """How many of those drawn under the null are as large; an interval as wide as all but alpha."""
    drawn = np.where(np.abs(drawn - abs(mean)) <= dust, abs(mean), drawn)
    p = (1 + np.count_nonzero(drawn >= abs(mean))) / (len(drawn) + 1)
    beyond = math.floor(setting.alpha * (len(drawn) + 1) + 1e-9)
    width = float(-np.partition(-drawn, beyond - 1)[beyond - 1]) if beyond else math.inf
    return Outcome.of(p, mean - width, mean + width, setting.resamples)


def _all_signs(columns: Array) -> Array:
    """The sums of each row of columns under every pattern of signs."""
    sums = np.zeros((len(columns), 1))
    for column in columns.T[:, :, None]:
        sums = np.concatenate([sums + column, sums - column], axis=1)
    return sums


# What the eight bits of a byte say of eight signs.
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)


def _random_signs(columns: Array, setting: Setting) -> Array:
    """The sums of each row of columns under random patterns of signs.

    Eight units at a time: a random byte picks one of their 256 signed sums.
    """
    rng = np.random.default_rng(setting.seed)
    height = len(columns)
    padded = np.pad(columns, ((0, 0), (0, -columns.shape[1] % 8))).reshape(height, -1, 8)
    sums = np.zeros((height, setting.resamples))
    picked = np.empty(setting.resamples)
    step = max(1, BATCH // max(setting.resamples, 256))
    for start in range(0, padded.shape[1], step):
        tables = padded[:, start : start + step] @ _SIGNS.T
        bits = rng.integers(0, 256, (tables.shape[1], setting.resamples), dtype=np.uint8)
        for i, byte in enumerate(bits):
            for j in range(height):
                np.take(tables[j, i], byte, out=picked, mode="clip")
                sums[j] += picked
    return sums


def _drawn(columns: Array, setting: Setting) -> Array:
    """The sums of each row of columns over as many of them drawn with replacement."""
    rng = np.random.default_rng(setting.seed)
    n = columns.shape[1]
    sums = np.empty((len(columns), setting.resamples))
    step = max(1, BATCH // n)
    for start in range(0, setting.resamples, step):
        drawn = rng.integers(0, n, (min(step, setting.resamples - start), n), dtype=np.uint32)
        for row, column in zip(sums, columns, strict=True):
            row[start : start + step] = column[drawn].sum(1)
    return sums

"""Corrections for multiple tests: adjusted p-values, and the level of each test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

CORRECTIONS = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "bh": "Benjamini-Hochberg",
    "none": "none",
}


def adjust_p_values(p: Sequence[float], correction: str) -> list[float]:
    """p-values corrected for their number: Holm, Bonferroni, Benjamini-Hochberg."""
    values = np.asarray(p, dtype=float)
    if correction == "bonferroni":
        return [float(x) for x in np.minimum(1, values * len(values))]
    if correction == "bh" and len(values):
        return [float(x) for x in stats.false_discovery_control(values, method="bh")]
    if correction == "holm":
        order = np.argsort(values, kind="stable")
        steps = values[order] * np.arange(len(values), 0, -1)
        values[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(values) else steps
    return [float(x) for x in values]


def significance_levels(
    p: Sequence[float],
    p_adjusted: Sequence[float],
    correction: str,
    alpha: float,
) -> list[float]:
    """The level of each test within its family: p is at most that where p_adjusted <= alpha.

    An interval at this level excludes 0 exactly where the adjusted p-value is significant. Holm:
    alpha / (m - i) at step i, and that of the first step that fails for all after it.
    Benjamini-Hochberg: R alpha / m of R rejected ones, the false coverage rate of Benjamini and
    Yekutieli (2005).
    """
    values, rejected = np.asarray(p, dtype=float), np.asarray(p_adjusted, dtype=float) <= alpha
    tests, rejections = len(values), int(rejected.sum())
    if correction == "none":
        steps = np.full(tests, alpha)
    elif correction == "bonferroni":
        steps = np.full(tests, alpha / tests)
    elif correction == "bh":
        steps = np.full(tests, alpha * max(1, rejections) / tests)
    else:
        step = np.where(rejected, np.searchsorted(np.sort(values), values), rejections)
        steps = alpha / (tests - step)
    # The two sides of p * m <= alpha and p <= alpha / m may differ in the last bit.
    kept = np.minimum(steps, np.nextafter(values, 0))
    return [float(x) for x in np.where(rejected, np.maximum(steps, values), kept)]

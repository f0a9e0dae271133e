"""Agreement of two annotators from counts of their labels, with intervals by query."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


def jackknife(cells: Array, grades: Array, threshold: float) -> dict[str, tuple[float, float]]:
    """Every measure of `measure_agreement` with its standard error, NaN if undefined.

    `cells[q, i, j]` is the number of items of query q with grade i of one annotator and grade j of
    the other. The error is that of leaving out one query at a time.
    """
    total = cells.sum(axis=0)
    values = measure_agreement(total[None], grades, threshold)
    left_out = measure_agreement(total - cells, grades, threshold)
    n, result = len(cells), {}
    for name, value in values.items():
        squares = np.square(left_out[name] - left_out[name].mean()).sum()
        error = math.sqrt((n - 1) / n * squares) if n > 1 else math.nan
        result[name] = float(value[0]), error
    return result


def measure_agreement(cells: Array, grades: Array, threshold: float) -> dict[str, Array]:
    """Measures of agreement of tables of counts, first axis: tables.

    Those of `cohen_kappa` and `krippendorff_alpha` for two annotators, from counts, and shares.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        n = cells.sum(axis=(1, 2))
        shares = cells / n[:, None, None]
        first, second = shares.sum(axis=2), shares.sum(axis=1)
        expected = first[:, :, None] * second[:, None, :]
        gaps = np.square(grades[:, None] - grades[None])
        pooled = n[:, None] * (first + second)
        ranks = np.cumsum(pooled, axis=1) - pooled / 2
        distances = np.square(ranks[:, :, None] - ranks[:, None, :])
        pairs = pooled[:, :, None] * pooled[:, None, :] / (2 * n * (2 * n - 1))[:, None, None]
        relevant = grades >= threshold
        measures = {
            "exact_agreement": np.trace(cells, axis1=1, axis2=2) / n,
            "cohen_kappa": _beyond_chance(shares, expected, np.sign(gaps)),
            "weighted_kappa": _beyond_chance(shares, expected, gaps),
            "krippendorff_alpha": _beyond_chance(shares, pairs, distances),
            "false_positives": shares[:, ~relevant][:, :, relevant].sum(axis=(1, 2))
            / first[:, ~relevant].sum(axis=1),
            "false_negatives": shares[:, relevant][:, :, ~relevant].sum(axis=(1, 2))
            / first[:, relevant].sum(axis=1),
            "mean_difference": (second - first) @ grades,
        }
        for i, grade in enumerate(grades):
            measures[f"human {grade:g}"] = first[:, i]
            measures[f"llm {grade:g}"] = second[:, i]
            for j, other in enumerate(grades):
                measures[f"{grade:g} as {other:g}"] = cells[:, i, j] / cells[:, i].sum(axis=1)
    return measures


def _beyond_chance(shares: Array, expected: Array, distances: Array) -> Array:
    """1 - the mean distance of labels of the same item, divided by that expected by chance."""
    distances = distances * np.ones_like(shares)
    result: Array = 1 - (shares * distances).sum(axis=(1, 2)) / (expected * distances).sum(
        axis=(1, 2)
    )
    return result

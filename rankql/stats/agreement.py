"""Agreement of two annotators from counts of their labels, with intervals by query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankql.stats.sample import Array


@dataclass(frozen=True)
class Agreement:
    """Counts of items by query and the grades of two annotators."""

    # cells[q, i, j]: the items of query q with grade i of the first, grade j of the second.
    cells: Array
    grades: Array

    @classmethod
    def of(cls, queries: Array, first: Array, second: Array, counts: Array) -> Agreement:
        """From rows of a query, two grades and the number of such items."""
        grades = np.unique(np.concatenate([first, second]))
        codes = np.unique(queries, return_inverse=True)[1]
        cells = np.zeros((codes.max() + 1, len(grades), len(grades)))
        places = (np.searchsorted(grades, first), np.searchsorted(grades, second))
        np.add.at(cells, (codes, *places), counts)
        return cls(cells, grades)

    def measure(self, threshold: float) -> dict[str, tuple[float, float]]:
        """Every measure of `measure_agreement` with its standard error, NaN if undefined.

        The error is the jackknife's, which leaves out one query at a time.
        """
        total, n = self.cells.sum(axis=0), len(self.cells)
        values = measure_agreement(total[None], self.grades, threshold)
        left_out = measure_agreement(total - self.cells, self.grades, threshold)
        result = {}
        for name, value in values.items():
            squares = np.square(left_out[name] - left_out[name].mean()).sum()
            result[name] = float(value[0]), float(np.sqrt((n - 1) / n * squares))
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

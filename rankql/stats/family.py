"""Several tests at once: adjusted p-values, and each interval at the level of its own test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankql.stats.sample import Sample
from rankql.stats.tests import PairedTest, TestResult

# Levels are rounded to 12 digits: smaller ones would be 0.
LEAST_ALPHA = 5e-13
CORRECTIONS = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "bh": "Benjamini-Hochberg",
    "none": "none",
}


def adjust_p_values(p: Sequence[float], correction: str) -> list[float]:
    """Adjust p-values for multiple tests: Holm, Bonferroni or Benjamini-Hochberg."""
    values = np.asarray(p, dtype=float)
    if correction == "bonferroni":
        return [float(x) for x in np.minimum(1, values * len(values))]
    if correction == "bh" and len(values):
        from scipy import stats  # takes a second to import

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
    """The level of each test: p is at most this level exactly if p_adjusted <= alpha.

    So an interval at this level excludes 0 exactly if the adjusted p-value is significant. Holm:
    alpha / (m - i) at step i; all steps after the first failure have the level of that step.
    Benjamini-Hochberg: R alpha / m with R rejections, the false coverage rate of Benjamini and
    Yekutieli (2005).
    """
    values, rejected = np.asarray(p, dtype=float), np.asarray(p_adjusted, dtype=float) <= alpha
    tests, rejections = len(values), int(rejected.sum())
    divisors = {"none": 1, "bonferroni": tests, "bh": tests / max(1, rejections)}
    steps = np.full(tests, alpha / divisors.get(correction, 1))
    if correction == "holm":
        step = np.where(rejected, np.searchsorted(np.sort(values), values), rejections)
        steps = alpha / (tests - step)
    # The two sides of p * m <= alpha and p <= alpha / m may differ in the last bit.
    kept = np.minimum(steps, np.nextafter(values, 0))
    return [float(x) for x in np.where(rejected, np.maximum(steps, values), kept)]


@dataclass(frozen=True)
class Family:
    """Samples that are tested together. A sample that cannot be tested does not count."""

    samples: Sequence[Sample]
    test: PairedTest
    correction: str = "holm"
    alpha: float = 0.05

    def results(self) -> list[TestResult]:
        """The result of each sample. Its interval excludes 0 exactly if p_adjusted <= alpha."""
        testable = [not self.test.explain_untestable(sample) for sample in self.samples]
        first = self.alpha if self.correction == "none" else self.alpha / max(1, sum(testable))
        results = [
            replace(self.test.apply(sample, first if tested else self.alpha), level=first)
            for sample, tested in zip(self.samples, testable, strict=True)
        ]
        tested = [i for i, result in enumerate(results) if result.p is not None]
        p = [p for result in results if (p := result.p) is not None]
        adjusted = adjust_p_values(p, self.correction)
        levels = significance_levels(p, adjusted, self.correction, self.alpha)
        for i, p_adjusted, level in zip(tested, adjusted, levels, strict=True):
            result = results[i]
            if level != first:
                result = self.test.apply(self.samples[i], level)
            results[i] = replace(result, p_adjusted=p_adjusted, level=level)
        return results

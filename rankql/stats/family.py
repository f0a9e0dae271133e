"""Several tests at once: adjusted p-values, and each interval at the level of its own test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy import special

from rankql.stats.corrections import adjust_p_values, significance_levels
from rankql.stats.means import Interval
from rankql.stats.sample import Array, Sample
from rankql.stats.tests import EQUAL, PairedTest, TestResult


@dataclass(frozen=True)
class Family:
    """Samples that are tested together. A sample that cannot be tested does not count."""

    samples: Sequence[Sample]
    test: PairedTest
    correction: str = "holm"
    alpha: float = 0.05
    # The largest mean that counts as no difference: an equivalent sample has the interval at twice
    # its level, which lies within this margin.
    equivalence: float | None = None

    def joint_results(self, values: Array, pairs: Sequence[tuple[int, int]]) -> list[TestResult]:
        """Tukey's HSD of pairs of columns of `values`, a row per query; one sample per pair.

        If systems vary differently, the test of a pair alone may be the stricter one: it counts.
        """
        joint = self.test.joint(values, self.alpha)
        results = [self.test.apply(sample, self.alpha) for sample in self.samples]
        assert joint
        p, width = joint
        for i, (result, sample) in enumerate(zip(results, self.samples, strict=True)):
            if result.p is None:
                continue
            a, b = pairs[i]
            mean = float((values[:, b] - values[:, a]).mean())
            width_t = width / sample.error if sample.error else math.inf
            level = min(self.alpha, 2 * float(special.stdtr(sample.freedom, -width_t)))
            result = replace(result, level=level, p_adjusted=max(p(mean), result.p))
            ends = Interval(mean - width, mean + width).within(sample.lowest, sample.highest)
            if result.lo is not None and result.hi is not None:
                ends = Interval(min(ends.lo, result.lo), max(ends.hi, result.hi))
            if result.reason in ("", EQUAL):
                result = replace(result, lo=ends.lo, hi=ends.hi, reason="")
            results[i] = result
        return results

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
        if self.equivalence is not None and tested:
            self._test_equivalence(results, tested, self.equivalence)
        return results

    def _test_equivalence(
        self, results: list[TestResult], tested: Sequence[int], margin: float
    ) -> None:
        p = [self.test.equivalence(self.samples[i], margin) for i in tested]
        adjusted = adjust_p_values(p, self.correction)
        levels = significance_levels(p, adjusted, self.correction, self.alpha)
        for i, p_adjusted, level in zip(tested, adjusted, levels, strict=True):
            results[i] = replace(results[i], p_equivalence=p_adjusted)
            if p_adjusted <= self.alpha:
                ends = self.test.apply(self.samples[i], min(2 * level, 1.0))
                results[i] = replace(results[i], lo=ends.lo, hi=ends.hi, equivalent=True)

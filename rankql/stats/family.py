"""Several tests at once: adjusted p-values, and each interval at the level of its own test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankql.stats.corrections import adjust_p_values, significance_levels
from rankql.stats.sample import Sample
from rankql.stats.tests import PairedTest, TestResult


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

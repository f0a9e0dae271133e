"""The significance tests by name: what each supports, and when it cannot be applied.

A pairwise test gets the differences of two systems per query. Its interval at level alpha contains
every shift that it does not reject, so it excludes 0 exactly if p is at most alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rankql import text
from rankql.decisions.anytime import anytime
from rankql.decisions.pairwise_tests import randomisation, t
from rankql.decisions.sample import (
    DOMINATED,
    NO_DIFFERENCE,
    NOT_TESTABLE,
    POWER,
    ZERO_VARIANCE,
    Sample,
    SignificanceOptions,
    SignificanceResult,
)

# Standard errors of fewer clusters are too small: tests/run_simulation.py measures it.
CLUSTERS = 10
# Levels are rounded to 12 digits: smaller ones would be 0.
LEAST_ALPHA = 5e-13

PairwiseTest: TypeAlias = Callable[[Sample, SignificanceOptions], SignificanceResult]


@dataclass(frozen=True)
class SignificanceTest:
    """A test, and what it supports."""

    label: str
    pair: PairwiseTest
    weights: bool = False  # supports weights and clusters of queries
    constant: bool = False  # works if all queries have the same difference


TESTS = {
    "t": SignificanceTest("paired t test", t, weights=True),
    "randomisation": SignificanceTest(
        "randomisation test", randomisation, weights=True, constant=True
    ),
    "anytime": SignificanceTest("anytime-valid confidence sequence", anytime, constant=True),
}


def explain_untestable(name: str, sample: Sample) -> str:
    """The reason why a test cannot be applied, or ''."""
    if sample.units < count_required_units(sample.clusters is not None):
        return NOT_TESTABLE
    if sample.is_dominated:
        return DOMINATED
    if np.abs(sample.differences).max() <= sample.rounding:
        return NO_DIFFERENCE
    return ZERO_VARIANCE if sample.constant and not TESTS[name].constant else ""


def count_required_units(clusters: bool) -> int:
    """The number of queries or clusters that a test needs."""
    return CLUSTERS if clusters else 2


def describe_adjustment(correction: str, tests: int) -> str:
    """What p-values are adjusted for, or '' if they are not."""
    if tests < 2 or correction == "none":
        return ""
    return f"{CORRECTIONS[correction]}-adjusted for {tests} tests"


def describe_detectable(difference: float | None) -> str:
    """The sentence on the difference that these data would have detected."""
    size = "No difference within the bounds"
    if difference is not None:
        size = f"A difference of about {text.round_significant(difference)}"
    return f"{size} would have been detected with {POWER:.0%} power"


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

"""The significance tests by name: what each can do, and when it cannot be applied.

A pairwise test sees two systems as their differences per query. Its interval at level alpha holds
every shift that it would not reject, so it excludes 0 exactly where p is at most alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rankql.decisions.anytime import anytime
from rankql.decisions.pairwise_tests import bootstrap, randomisation, t
from rankql.decisions.sample import (
    NO_DIFFERENCE,
    NOT_TESTABLE,
    ZERO_VARIANCE,
    Sample,
    SignificanceOptions,
    SignificanceResult,
)

# The bootstrap rejects too often on fewer queries, and standard errors of fewer clusters are too
# small: tests/simulation.py measures both.
BOOTSTRAP_QUERIES = 15
CLUSTERS = 10

PairwiseTest: TypeAlias = Callable[[Sample, SignificanceOptions], SignificanceResult]


@dataclass(frozen=True)
class SignificanceTest:
    """A test, and what it can do."""

    label: str
    pair: PairwiseTest
    clusters: bool = False
    constant: bool = False  # works where every query has the same difference
    resamples: bool = False
    least_units: int = 2  # how many queries it needs


TESTS = {
    "t": SignificanceTest("paired t test", t, clusters=True),
    "randomisation": SignificanceTest(
        "randomisation test", randomisation, clusters=True, constant=True, resamples=True
    ),
    "bootstrap": SignificanceTest(
        "studentised bootstrap", bootstrap, resamples=True, least_units=BOOTSTRAP_QUERIES
    ),
    "anytime": SignificanceTest("anytime-valid confidence sequence", anytime, constant=True),
}


def explain_untestable(name: str, sample: Sample) -> str:
    """The reason why a test cannot be applied, or an empty text."""
    if sample.units < count_required_units(name, sample.clusters is not None):
        return NOT_TESTABLE
    if np.abs(sample.differences).max() <= sample.rounding:
        return NO_DIFFERENCE
    return ZERO_VARIANCE if sample.constant and not TESTS[name].constant else ""


def count_required_units(name: str, clusters: bool) -> int:
    """The number of queries, or of clusters, that a test needs."""
    return CLUSTERS if clusters else TESTS[name].least_units

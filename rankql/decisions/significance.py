"""Paired tests of two or more systems: a p-value, and the confidence interval that goes with it.

A pairwise test sees two systems as their differences per query. Its interval at level alpha holds
every shift that it would not reject, so it excludes 0 exactly where p is at most alpha. `wilcoxon`,
which compares ranks and not means, has no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rankql.decisions.anytime import anytime
from rankql.decisions.joint_tests import randomised_tukey, tukey
from rankql.decisions.pairwise_tests import bootstrap, randomisation, t, wilcoxon
from rankql.decisions.sample import (
    NO_DIFFERENCE,
    NOT_TESTABLE,
    ZERO_VARIANCE,
    Array,
    Outcome,
    Sample,
    Setting,
)

# The bootstrap rejects too often on fewer queries, and standard errors of fewer clusters are too
# small: tests/simulation.py measures both.
BOOTSTRAP_QUERIES = 15
CLUSTERS = 10


Test: TypeAlias = Callable[[Sample, Setting], Outcome]
# Of all systems at once: their values by query and system, and the pairs asked for.
Joint: TypeAlias = Callable[[Array, Sequence[tuple[int, int]], Setting], list[Outcome]]


@dataclass(frozen=True)
class Named:
    """A test by its name, and what it can do."""

    label: str
    pair: Test | None = None
    joint: Joint | None = None
    clusters: bool = False
    constant: bool = False  # can say something where the difference is the same everywhere
    resamples: bool = False
    interval: bool = True  # of its own p
    least: int = 2  # as many queries it needs


TESTS = {
    "t": Named("paired t test", t, clusters=True),
    "randomisation": Named(
        "randomisation test", randomisation, clusters=True, constant=True, resamples=True
    ),
    "bootstrap": Named("studentised bootstrap", bootstrap, resamples=True, least=BOOTSTRAP_QUERIES),
    "wilcoxon": Named("Wilcoxon signed-rank test", wilcoxon, constant=True, interval=False),
    "anytime": Named("anytime-valid confidence sequence", anytime, constant=True),
    "tukey": Named("Tukey's HSD", joint=tukey, constant=True),
    "randomised_tukey": Named(
        "randomised Tukey test", joint=randomised_tukey, constant=True, resamples=True
    ),
}


def untestable(name: str, sample: Sample) -> str:
    """Reason why a test cannot be applied, or an empty text."""
    if sample.units < least(name, sample.clusters is not None):
        return NOT_TESTABLE
    if np.abs(sample.differences).max() <= sample.rounding:
        return NO_DIFFERENCE
    return ZERO_VARIANCE if sample.constant and not TESTS[name].constant else ""


def least(name: str, clusters: bool) -> int:
    """The number of queries, or of clusters, that a test needs."""
    return CLUSTERS if clusters else TESTS[name].least

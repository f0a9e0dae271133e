"""Every pair of systems on every metric and slice, with their significance tests."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankql import text
from rankql.decisions.alignment import hash_rankings
from rankql.decisions.system_values import SystemValues
from rankql.decisions.verdict import (
    BETTER,
    NO_DIFFERENCE,
    NO_DIRECTION,
    NOT_SIGNIFICANT,
    TOO_FEW,
    WORSE,
)
from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.result import Result
from rankql.registry.argument_checks import require, require_probability, require_whole_number
from rankql.stats.corrections import CORRECTIONS, LEAST_ALPHA
from rankql.stats.family import Family
from rankql.stats.sample import Array, Sample
from rankql.stats.tests import NOT_TESTABLE, TESTS, PairedTest, TestResult

# Why a metric without values per query has no test.
OVERALL = "one value for all queries"
# Fewer queries contain no loss of one query in twenty in more than 5% of samples: 0.95^59.
RARE = 59


@dataclass(frozen=True)
class Settings:
    """How systems are compared."""

    test: str
    correction: str
    confidence: float
    cluster: str | None
    baseline: str | None
    resamples: int
    seed: int
    min_queries: int
    weight: str | None = None
    equivalence: float | None = None

    def check(self) -> None:
        """Refuse unknown choices, and options that do not go together."""
        for name, choices in (("test", [*TESTS]), ("correction", [*CORRECTIONS, "tukey"])):
            if (value := getattr(self, name)) not in choices:
                raise RankqlError(describe_unknown(name, value, choices))
        require_probability("confidence", self.confidence, LEAST_ALPHA)
        for name, smallest in (("resamples", 100), ("seed", 0), ("min_queries", 0)):
            require_whole_number(name, getattr(self, name), smallest)
        if self.equivalence is not None:
            margin = self.equivalence
            valid = isinstance(margin, int | float) and 0 < margin < math.inf
            require(valid, f"equivalence must be a number above 0, not {margin!r}")
            enough = self.alpha < 0.5
            require(enough, f"equivalence= needs confidence above 0.5, not {self.confidence}")
        if self.correction == "tukey":
            # Student's t and the randomisation test have one for all systems together.
            joint = [name for name, test in TESTS.items() if test.joint is not PairedTest.joint]
            names = " or ".join(f"test={name!r}" for name in joint)
            known = self.test in joint
            require(known, f"correction='tukey' needs {names}, not test={self.test!r}")
            for option in ("baseline", "cluster", "weight", "equivalence"):
                if (value := getattr(self, option)) is not None:
                    raise RankqlError(
                        f"correction='tukey' does not support {option}={value!r}. Use 'holm'"
                    )

    @property
    def paired_test(self) -> PairedTest:
        """The test."""
        return TESTS[self.test](self.resamples, self.seed)

    @property
    def alpha(self) -> float:
        """The significance level, 1 - confidence."""
        return round(1 - self.confidence, 12)

    @property
    def percent(self) -> str:
        """The confidence in percent."""
        return text.format_percent(self.confidence)

    @property
    def equivalence_percent(self) -> str:
        """The confidence of the interval of two one-sided tests, in percent."""
        return text.format_percent(round(1 - 2 * self.alpha, 12))


@dataclass
class PairComparison:
    """One pair of systems on one metric and slice, and the result of its test.

    Or one system, as `a` and `b`, whose values and mean take the place of differences.
    """

    metric: str
    a: str
    b: str
    slice: str
    sample: Sample
    # Of each system; None if no query counts.
    means: Sequence[float | None]
    # The number of queries of the slice, and of those with a weight above 0.
    total: int
    weighed: int
    # If the metric is one value for all queries, the number of those that count.
    overall: int | None = None
    lower_is_better: bool = False
    # Are the rankings of both systems known to be the same?
    identical: bool = False
    result: TestResult = field(default_factory=TestResult)

    @property
    def queries(self) -> int:
        """The number of queries for which both are defined."""
        return len(self.sample.values)

    @property
    def n(self) -> int:
        """The number of queries in the means."""
        return self.queries if self.overall is None else self.overall

    @property
    def change(self) -> float | None:
        """The difference of the means, or the mean of one system; None if undefined."""
        first, last = self.means[0] if len(self.means) > 1 else 0.0, self.means[-1]
        return None if first is None or last is None else last - first

    def detectable(self, settings: Settings) -> float | None:
        """The difference that would be detected with 80% power, at the level of this test.

        None if that is more than the largest difference that is possible.
        """
        if self.result.reason == NOT_TESTABLE:
            return None
        level = settings.alpha if self.result.level is None else self.result.level
        size = settings.paired_test.detectable(self.sample, level)
        return size if size is not None and math.inf > size <= self.sample.highest else None

    def verdict(self, settings: Settings) -> str:
        """'better', 'worse' or 'not significant', or the reason why this is not tested."""
        if self.result.p_adjusted is None:
            return self.result.reason
        if self.result.equivalent:
            return f"equivalent within {settings.equivalence:g}"
        if self.result.p_adjusted > settings.alpha:
            return NOT_SIGNIFICANT
        return BETTER if (self.sample.mean > 0) != self.lower_is_better else WORSE


def list_pairs(
    values: SystemValues, result: Result, pairs: Sequence[tuple[str, ...]]
) -> list[PairComparison]:
    """Every pair on every metric and slice, not tested yet. A pair may be one system alone."""
    whole, alone = result.overall_metrics, any(len(pair) == 1 for pair in pairs)
    summary = {}
    if whole or alone:
        columns = ("metric", "slice", "system", "mean", "queries", "undefined")
        summary = {row[:3]: row[3:] for row in result.summary.select(columns).rows()}
    comparisons = []
    for metric, (label, places), pair in itertools.product(
        result.metrics, values.slices.items(), pairs
    ):
        overall = None
        if metric in whole or alone:
            rows = [summary[metric, label, name] for name in pair]
            means = [mean for mean, *_ in rows]
            overall = rows[-1][1] - rows[-1][2] if metric in whole else None
        else:
            means = values.means(metric, pair, label)
        weights = None if values.weights is None else values.weights[places]
        comparisons.append(
            PairComparison(
                metric, pair[0], pair[-1], label, values.sample(metric, pair, label), means,
                len(places), len(places) if weights is None else int(np.count_nonzero(weights)),
                overall, metric in values.lower,
            )
        )  # fmt: skip
    return comparisons


def run_tests(
    values: SystemValues, result: Result, pairs: Sequence[tuple[str, str]], settings: Settings
) -> tuple[list[PairComparison], int]:
    """Every pair on every metric and slice, and the number of tests."""
    comparisons = list_pairs(values, result, pairs)
    hashes = functools.cache(lambda name: hash_rankings(result, name))
    tested = []
    for comparison in comparisons:
        if comparison.overall is None and comparison.queries and comparison.sample.is_zero:
            known = hashes(comparison.a)
            comparison.identical = known is not None and known == hashes(comparison.b)
        small = comparison.slice != "all" and comparison.queries < settings.min_queries
        reason = OVERALL if comparison.overall is not None else ""
        reason = reason or NO_DIFFERENCE * comparison.identical
        reason = reason or settings.paired_test.explain_untestable(comparison.sample)
        comparison.result = TestResult(reason=reason or TOO_FEW * small)
        if result.higher_is_better(comparison.metric) is None:
            ends = TestResult()
            if not comparison.result.reason:  # the interval of this test alone
                ends = settings.paired_test.apply(comparison.sample, settings.alpha)
            comparison.result = TestResult(lo=ends.lo, hi=ends.hi, reason=NO_DIRECTION)
        elif not comparison.result.reason:
            tested.append(comparison)
    families: dict[Any, list[PairComparison]] = {}
    for comparison in tested:
        joint = settings.correction == "tukey"
        key = (comparison.metric, comparison.slice) if joint else None
        families.setdefault(key, []).append(comparison)
    for key, members in families.items():
        samples = [comparison.sample for comparison in members]
        family = Family(samples, settings.paired_test, settings.correction, settings.alpha,
                        settings.equivalence)  # fmt: skip
        results = family.results() if key is None else _test_jointly(family, values, members)
        for comparison, outcome in zip(members, results, strict=True):
            comparison.result = outcome
    return comparisons, len(tested)


def describe_rare_losses(samples: Sequence[Sample]) -> list[str]:
    """A note if a sample is so small that it may contain no rare loss."""
    smallest = min(samples, key=lambda sample: sample.effective, default=None)
    if smallest is None or (number := round(smallest.effective, 9)) >= RARE:
        return []
    unit = "query" if smallest.clusters is None else "cluster"
    count = text.format_count(int(number), unit)
    effectively = "" if number == smallest.units else "effectively "
    fewest = ", the fewest of a row," if len(samples) > 1 else ""
    return [
        f"Rare losses may not be seen: {effectively}{count}{fewest} contain none of the losses "
        f"that hit one {unit} in twenty in {0.95**number:.0%} of samples"
    ]


def _test_jointly(
    family: Family, values: SystemValues, members: Sequence[PairComparison]
) -> list[TestResult]:
    """Tukey's test of all systems on a metric and slice."""
    metric, part = members[0].metric, members[0].slice
    rows = shared_values(values, metric, part)
    if any(member.queries != len(rows) for member in members):
        raise RankqlError(
            f"correction='tukey' needs queries that all systems share: {metric} is undefined in "
            "some systems only. Use correction='holm'"
        )
    places = [(values.systems.index(x.a), values.systems.index(x.b)) for x in members]
    return family.joint_results(rows, places)


def shared_values(values: SystemValues, metric: str, part: str) -> Array:
    """The values of the queries of a slice for which all systems are defined, by system."""
    rows = values.values[metric][values.slices[part]]
    return rows[~np.isnan(rows).any(axis=1)]

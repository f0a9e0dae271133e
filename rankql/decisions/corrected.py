"""Values of systems under human labels of some queries, corrected by a judge of all queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import polars as pl

from rankql.decisions.alignment import align_systems
from rankql.decisions.system_values import SystemValues
from rankql.evaluation.combining import combine_systems
from rankql.evaluation.judge import CorrectedResult, correct_values
from rankql.evaluation.result import Result
from rankql.stats.means import adjusted_skewness
from rankql.stats.prediction_powered import Codes, CorrectedMean
from rankql.stats.sample import Array, Sample


@dataclass(frozen=True)
class CorrectedSample(Sample):
    """The values under human labels, with the mean and the error of the corrected mean."""

    corrected: CorrectedMean = field(kw_only=True)

    def worth(self, alpha: float) -> int:
        """The number of human queries that would give the same interval without the judge."""
        return self.corrected.worth(alpha)

    def minus(self, value: float) -> Sample:
        """The sample with this number subtracted from all values, and from the mean."""
        return replace(
            self, values=self.values - value,
            lowest=self.lowest - value, highest=self.highest - value,
            corrected=replace(self.corrected, mean=self.corrected.mean - value),
        )  # fmt: skip

    @property
    def mean(self) -> float:
        """The corrected mean."""
        return self.corrected.mean

    @property
    def error(self) -> float:
        """Its standard error."""
        return self.corrected.error

    @property
    def freedom(self) -> float:
        """The degrees of freedom of its standard error."""
        return self.corrected.freedom

    @property
    def skewness(self) -> float:
        """That of as many values with a mean as skewed."""
        return adjusted_skewness(self.corrected.slope * math.sqrt(self.units), self.units)

    @property
    def constant(self) -> bool:
        """Whether the corrected mean has no error."""
        return self.error <= self.rounding

    @property
    def effect(self) -> float | None:
        """Cohen's d_z: the corrected mean over the standard deviation of the values."""
        spread = float(np.sqrt(np.cov(self.values, aweights=self.weights)))
        return self.mean / spread if spread > self.rounding else None


@dataclass(frozen=True)
class CorrectedValues(SystemValues):
    """The values under human labels, whose means the judge corrects."""

    judge: SystemValues | None = None
    # The place of each query among those of the judge.
    places: Codes | None = None

    def sample(self, metric: str, systems: Sequence[str], label: str) -> Sample:
        """The values of one system on a slice, or the differences of the second from the first."""
        plain = super().sample(metric, systems, label)
        found = self.correct(metric, systems, label)
        if found is None:
            return plain
        values = {each.name: getattr(plain, each.name) for each in fields(plain)}
        return CorrectedSample(**values, corrected=found)

    def means(self, metric: str, systems: Sequence[str], label: str) -> list[float | None]:
        """The corrected means of two systems, whose difference is the corrected difference."""
        found = self.correct(metric, systems, label)
        if found is None:
            return super().means(metric, systems, label)
        one, other = (self.correct(metric, systems, label, i, found.lam) for i in (0, 1))
        assert one and other
        return [one.mean, other.mean]

    def correct(
        self, metric: str, systems: Sequence[str], label: str,
        only: int | None = None, lam: float | None = None,
    ) -> CorrectedMean | None:  # fmt: skip
        """The corrected mean of a system or of a difference; None for too few human queries.

        `only`: of this one of two systems, over the queries for which both are defined.
        """
        assert self.judge is not None and self.places is not None
        judge, columns = self.judge, [self.systems.index(name) for name in systems]
        f = judge.values[metric][:, columns]
        y = np.full_like(f, np.nan)
        y[self.places] = self.values[metric][:, columns]
        known = np.zeros(len(f), dtype=bool)
        known[self.places] = True
        rows = judge.slices[label]
        y, f = (_reduce(values[rows], only) for values in (y, f))
        weights = None if judge.weights is None else judge.weights[rows]
        clusters = None if judge.clusters is None else judge.clusters[rows]
        return correct_values(y, f, known[rows], weights, clusters, lam)


def _reduce(values: Array, only: int | None) -> Array:
    """The values of the last system, minus those of the first of two; or of one of them."""
    difference: Array = values[:, -1] - values[:, 0] if values.shape[1] > 1 else values[:, 0]
    return difference if only is None else np.where(np.isnan(difference), np.nan, values[:, only])


def system_values(result: Result, systems: Sequence[str], cluster: str | None) -> SystemValues:
    """The values of an aligned result, which a judge corrects if it has one."""
    values = SystemValues.of(result, systems, cluster)
    if not isinstance(result, CorrectedResult):
        return values
    assert result.judge
    judge, key = align_systems(result.judge, systems), result.meta.query
    judge = replace(judge, meta=replace(judge.meta, groupings=result.meta.groupings))
    judged = SystemValues.of(judge, systems, cluster)
    names = judged.queries[judge.meta.query].cast(pl.String)
    order = pl.DataFrame({"query": names}).with_row_index("place")
    human = values.queries.select(query=pl.col(key).cast(pl.String))
    places = human.join(order, on="query", how="left", maintain_order="left")["place"].to_numpy()
    parts = {each.name: getattr(values, each.name) for each in fields(values)}
    return CorrectedValues(**parts, judge=judged, places=places.astype(np.intp))


def correct_pair(pair: Result, results: Mapping[str, Result]) -> Result:
    """Two systems as one result, with the judge of their own results if these have one."""
    judges = {}
    for name, result in results.items():
        if not isinstance(result, CorrectedResult) or result.judge is None:
            return pair
        meta, rows = result.judge.meta, result.judge.frame().drop("system", strict=False)
        judges[name] = replace(result.judge, meta=replace(meta, system=False), values=rows)
    judge = align_systems(combine_systems(judges), [*judges])
    values = {each.name: getattr(pair, each.name) for each in fields(Result)}
    return CorrectedResult(**values, judge=judge)

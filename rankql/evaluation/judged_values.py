"""Values per query under human labels and under those of a judge, and the means they give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rankql.evaluation.means import (
    NO_INTERVAL,
    SKEWED,
    Meta,
    cluster_codes,
    compared_value,
    describe_interval,
    metric_range,
    slice_queries,
    system_columns,
)
from rankql.evaluation.means_result import MeansResult
from rankql.macros import INTERNAL_PREFIX
from rankql.stats.prediction_powered import CorrectedSample, correct_sample
from rankql.stats.sample import Array, Sample

# The value under human labels, of a metric whose own column is the value under the judge's.
HUMAN = f"{INTERNAL_PREFIX}human_"
# Is the query labelled by people?
LABELLED = f"{INTERNAL_PREFIX}labelled"


def pair_values(human: MeansResult, judge: MeansResult) -> pl.DataFrame:
    """The queries of the judge with the values under both labels, NULL if undefined.

    The columns of human values start with `HUMAN`. They are NULL for queries without human labels,
    where `LABELLED` is false. There is a column `system` even of one run.
    """
    key, other = human.meta.query, judge.meta.query
    frames = [human.frame(), judge.frame().rename({other: key} if other != key else {})]
    if frames[0].schema[key] != frames[1].schema[key]:
        frames = [frame.with_columns(pl.col(key).cast(pl.String)) for frame in frames]
    values = {name: compared_value(name, human.conventions) for name in human.metrics}
    labelled = frames[0].select(
        *human.keys,
        pl.lit(True).alias(LABELLED),
        *(value.alias(HUMAN + name) for name, value in values.items()),
    )
    system = [] if human.meta.system else [pl.lit("run").alias("system")]
    return (
        frames[1]
        .select(*human.keys, *human.meta.by, *values.values(), *system)
        .join(labelled, on=human.keys, how="left", maintain_order="left")
        .with_columns(pl.col(LABELLED).fill_null(False))
    )


@dataclass(frozen=True)
class PairedValues:
    """The rows of `pair_values`, and the queries of each slice."""

    frame: pl.DataFrame
    query: str
    weight: str | None
    cluster: str | None
    slices: dict[str, pl.Series]

    @classmethod
    def of(cls, human: MeansResult, judge: MeansResult, cluster: str | None = None) -> PairedValues:
        """The values of both results."""
        frame, meta = pair_values(human, judge), human.meta
        return cls(frame, meta.query, meta.weight, cluster, _slice_queries(frame, meta))

    def sample(
        self, metric: str, systems: Sequence[str], label: str,
        lowest: float, highest: float, lam: float | None = None,
    ) -> Sample:  # fmt: skip
        """The values of one system on a slice, or the differences of the second from the first.

        With `lam`, the values of the first system where both are defined.
        """
        rows = self.frame.filter(pl.col(self.query).is_in(self.slices[label].implode()))
        of_systems = [rows.filter(system=name) for name in systems]

        def read(column: str) -> Array:
            values = [x[column].cast(pl.Float64).fill_null(math.nan).to_numpy() for x in of_systems]
            difference = values[-1] - values[0] if len(values) > 1 else values[0]
            chosen = difference if lam is None else values[0]
            return np.where(np.isnan(difference), math.nan, chosen)

        queries, clusters, weights = of_systems[0], None, None
        if self.cluster is not None:
            clusters = cluster_codes(queries, self.query, self.cluster).to_numpy()
        if self.weight is not None:
            weights = queries[self.weight].cast(pl.Float64).to_numpy()
        values, labelled = (read(HUMAN + metric), read(metric)), queries[LABELLED].to_numpy()
        return correct_sample(*values, labelled, clusters, weights, lowest, highest, lam)


def _slice_queries(rows: pl.DataFrame, meta: Meta) -> dict[str, pl.Series]:
    """The queries of every slice, from rows of several systems."""
    queries = rows.select(meta.query, *meta.by).unique(meta.query, maintain_order=True)
    return slice_queries(queries, meta.groupings)


def cluster_intervals(result: MeansResult, summary: pl.DataFrame) -> pl.DataFrame:
    """The summary with intervals that take the clusters of queries into account."""
    meta, rows = result.meta, result.frame()
    assert meta.cluster
    slices = _slice_queries(rows, meta)
    rows = rows.with_columns(compared_value(name, result.conventions) for name in result.metrics)
    if meta.weight is not None:
        rows = rows.filter(pl.col(meta.weight) > 0)
    ends = []
    for row in summary.iter_rows(named=True):
        part = rows.filter(pl.col(meta.query).is_in(slices[row["slice"]].implode()))
        part = part.filter(**{name: row[name] for name in system_columns(meta)})
        part = part.drop_nulls(row["metric"])
        interval: tuple[float | None, float | None, bool] = NO_INTERVAL
        if part.height and result.interval and row["metric"] not in result.overall_metrics:
            values = part[row["metric"]].cast(pl.Float64).to_numpy()
            codes = cluster_codes(part, meta.query, meta.cluster).to_numpy()
            weights = None if meta.weight is None else part[meta.weight].cast(float).to_numpy()
            sample = Sample(values, codes, weights, *metric_range(row["metric"]))
            if sample.units > 1:
                interval = describe_interval(sample.moments, result.confidence, result.interval)
        ends.append(interval)
    columns = (pl.Series(name, [row[i] for row in ends], summary.schema[name])
               for i, name in enumerate(("lo", "hi", SKEWED)))  # fmt: skip
    return summary.with_columns(columns)


def correct_summary(human: MeansResult, judge: MeansResult, summary: pl.DataFrame) -> pl.DataFrame:
    """The summary with corrected means and intervals.

    Further columns are the number of `judged` queries, `lambda` (from 0 to 1, how much the judge
    counts), and `worth`, the number of human queries that would give the same interval without it.
    """
    values, rows = PairedValues.of(human, judge, human.meta.cluster), []
    for row in summary.iter_rows(named=True):
        name, system = row["metric"], row.get("system", "run")
        sample = values.sample(name, [system], row["slice"], *metric_range(name))
        row |= {"judged": len(values.slices[row["slice"]]), "lambda": None, "worth": None}
        if isinstance(sample, CorrectedSample):
            row |= {"lambda": sample.lam, "worth": sample.worth(1 - human.confidence)}
            if sample.lam:
                moments = sample.moments
                row["mean"] = min(max(sample.mean, moments.range.lo), moments.range.hi)
                if human.interval is not None:
                    ends = describe_interval(moments, human.confidence, human.interval)
                    row["lo"], row["hi"], row[SKEWED] = ends
        rows.append(row)
    place = summary.columns.index("queries") + 1
    names = [*summary.columns[:place], "judged", "lambda", "worth", *summary.columns[place:]]
    added = {"judged": pl.Int64, "lambda": pl.Float64, "worth": pl.Int64}
    return pl.DataFrame(rows, schema={n: summary.schema.get(n) or added[n] for n in names})

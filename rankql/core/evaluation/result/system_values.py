"""`SystemValues`: the values of systems by query, from which intervals and differences are made.

Intervals of clusters, and means that a judge corrects, need the values themselves; the means of
`means` do not. It needs numpy, which `evaluate` does not need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankql.core.base.doors import call_extra
from rankql.core.evaluation.checks.attributes import cluster_codes
from rankql.core.evaluation.means import means
from rankql.core.evaluation.plan.meta import MEAN_OF_SLICES, compared_value
from rankql.core.evaluation.result.means_result import MeansResult
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING
from rankql.core.stats.anytime import bet
from rankql.core.stats.means import ROUNDING
from rankql.core.stats.prediction_powered import CorrectedSample, Width, correct_sample, mean_width
from rankql.core.stats.sample import Array, Sample, SlicedSample

# The value under human labels, of a metric whose own column is the value under the judge's.
HUMAN = f"{INTERNAL_PREFIX}human_"
# Is the query labelled by people?
LABELLED = f"{INTERNAL_PREFIX}labelled"


@dataclass(frozen=True)
class SystemValues:
    """The values of every metric by query (row) and system (column); NaN if left out.

    With a judge they are those under its labels, and `human` has those under human labels. With
    times, queries and samples are in their order.
    """

    systems: list[str]
    # The queries with their attributes.
    queries: pl.DataFrame
    values: dict[str, Array]
    # The rows of the queries of each slice.
    slices: dict[str, NDArray[np.intp]]
    clusters: NDArray[np.intp] | None = None
    weights: Array | None = None
    human: dict[str, Array] | None = None
    # Has a query human labels?
    labelled: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls, result: MeansResult, cluster: str | None, systems: Sequence[str] = ()
    ) -> SystemValues:
        """The values of a result, of one system or of several."""
        meta, judge = result.meta, result.judge
        names = [*(systems or result.systems or ["run"])]
        if judge is None:
            values = (compared_value(name, meta) for name in result.metrics)
            rows = result.frame().with_columns(values)
        else:
            rows = pair_values(result, judge)
        queries = rows.select(meta.query, *meta.by).unique(meta.query, maintain_order=True)
        if meta.time is not None:
            absent = rows.filter(pl.col(MISSING).all().over(meta.query))
            counted = pl.any_horizontal(pl.col(*result.metrics).is_not_null())
            skipped = absent.filter(~counted.any().over(meta.query))[meta.query]
            queries = queries.filter(~pl.col(meta.query).is_in(skipped.implode()))
            args = (meta.query, meta.time, absent[meta.query])
            queries = call_extra("sort by arrival", queries, *args)
        key, of_systems = queries.select(meta.query), list[pl.DataFrame]()
        for name in names:
            of_system = rows.filter(system=name) if "system" in rows.columns else rows
            if not of_system[meta.query].equals(key.to_series()):
                of_system = key.join(
                    of_system, on=meta.query, how="left", maintain_order="left", nulls_equal=True
                )
            of_systems.append(of_system)

        def stack(column: str) -> Array:
            columns = (frame[column].cast(pl.Float64).fill_null(math.nan) for frame in of_systems)
            return np.stack([column.to_numpy() for column in columns], axis=1)

        slices, ids = means.slice_queries(queries, meta.groupings), key.to_series()
        places = {label: ids.is_in(part.implode()).arg_true() for label, part in slices.items()}
        if meta.mean:
            places[MEAN_OF_SLICES] = places["all"]
        human = labelled = codes = None
        if cluster is not None:
            codes = cluster_codes(queries, meta.query, cluster).to_numpy()
        if judge is not None:
            human = {name: stack(HUMAN + name) for name in result.metrics}
            labelled = (of_systems[0][LABELLED] == True).to_numpy()  # noqa: E712
        return cls(
            names,
            queries,
            {name: stack(name) for name in result.metrics},
            {label: rows.to_numpy().astype(np.intp) for label, rows in places.items()},
            codes,
            None if meta.weight is None else queries[meta.weight].to_numpy().astype(float),
            human,
            labelled,
        )

    def range(self, metric: str) -> tuple[float, float]:
        """The range of a metric, infinite where it is unknown.

        Options such as negative="keep" give values outside the range, which then does not apply.
        """
        lowest, highest = means.metric_range(metric)
        values = (self.human or self.values)[metric]
        defined = values[~np.isnan(values)]
        inside = lowest - ROUNDING <= defined.min(initial=math.inf)
        inside = inside and defined.max(initial=-math.inf) <= highest + ROUNDING
        return (lowest, highest) if inside and len(defined) else (-math.inf, math.inf)

    def sample(
        self, metric: str, systems: Sequence[str], label: str, lam: float | None = None,
        widths: Sequence[Width] = (mean_width(0.95),),
    ) -> Sample:  # fmt: skip
        """The values of one system on a slice, or the differences of the second from the first.

        Only of queries where they are defined, and whose weight is above 0. With `lam`, the values
        of the first system where both are defined, corrected with this weight of the judge. By
        none of `widths` a judge makes the interval wider.
        """
        if label == MEAN_OF_SLICES:
            labels = (x for x in self.slices if x not in ("all", label))
            each = {x: self.sample(metric, systems, x) for x in labels}
            if slices := {x: part for x, part in each.items() if len(part.values)}:
                return SlicedSample.of(slices)
        rows, columns = self.slices[label], [self.systems.index(name) for name in systems]
        low, high = self.range(metric)
        if len(systems) > 1 and lam is None:
            low, high = low - high, high - low

        def read(values: dict[str, Array]) -> Array:
            first, last = values[metric][rows][:, columns[0]], values[metric][rows][:, columns[-1]]
            difference = last - first if len(systems) > 1 else last
            return difference if lam is None else np.where(np.isnan(difference), math.nan, first)

        values = read(self.values)
        counted = np.full(len(rows), True) if self.human else ~np.isnan(values)
        weights = codes = None
        if self.weights is not None:
            counted &= (self.weights[rows] > 0) | (self.human is not None)
            weights = self.weights[rows][counted]
        if self.clusters is not None:
            codes = np.unique(self.clusters[rows][counted], return_inverse=True)[1]
        if self.human is None:
            return Sample(values[counted], codes, weights, low, high)
        assert self.labelled is not None
        labelled = self.labelled[rows]
        return correct_sample(
            read(self.human), values, labelled, codes, weights, low, high, lam, widths
        )


def pair_values(human: MeansResult, judge: MeansResult) -> pl.DataFrame:
    """The queries of the judge with the values under both labels, NULL if undefined.

    The columns of human values start with `HUMAN`. They are NULL for queries without human labels,
    where `LABELLED` is false. There is a column `system` even of one run.
    """
    key, other = human.meta.query, judge.meta.query
    frames = [human.frame(), judge.frame().rename({other: key} if other != key else {})]
    if frames[0].schema[key] != frames[1].schema[key]:
        frames = [frame.with_columns(pl.col(key).cast(pl.String)) for frame in frames]
    values = {name: compared_value(name, human.meta) for name in human.metrics}
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


def correct_summary(result: MeansResult, summary: pl.DataFrame) -> pl.DataFrame:
    """The summary with intervals that respect clusters, means that a judge corrects, and those of
    slices.

    With a judge, further columns are the number of `judged` queries, `lambda` (from 0 to 1, how
    much the judge counts), and `worth`, the number of human queries that would give the same
    interval without it.
    """
    meta, judge = result.meta, result.judge
    values, rows = SystemValues.of(result, meta.cluster), []
    anytime, alpha = result.interval == "anytime", (1 - result.confidence) / len(values.slices)
    people = values if judge is None else SystemValues.of(result.without_judge(), meta.cluster)

    def interval_of(sample: Sample | None) -> dict[str, Any]:
        """The interval of a mean, if it has one, and whether its values are too skewed."""
        ends = means.NO_INTERVAL
        if anytime and sample is not None and len(sample.values):
            ends = (*bet(sample.values, sample.lowest, sample.highest, alpha)[1], False)
        elif sample is not None and sample.units > 1 and result.interval is not None:
            ends = means.describe_interval(sample.moments, result.confidence, result.interval)
            if isinstance(sample, SlicedSample):
                wider = sample.interval(result.confidence, result.interval)
                ends = (*(wider or ends[:2]), ends[2])
        return dict(zip(("lo", "hi", means.SKEWED), ends, strict=True))

    for row in summary.iter_rows(named=True):
        name, label = row["metric"], row["slice"]
        systems = [row.get("system", values.systems[0])]
        if anytime or (meta.cluster is not None and result.interval is not None):
            of_queries = name not in result.overall_metrics
            row |= interval_of(people.sample(name, systems, label) if of_queries else None)
        if judge is not None:
            sample = values.sample(name, systems, label)
            row |= {"judged": len(values.slices[label]), "lambda": None, "worth": None}
            if isinstance(sample, CorrectedSample):
                width = mean_width(result.confidence, result.interval or "auto")
                row |= {"lambda": sample.lam, "worth": sample.worth(width)}
                if sample.lam:
                    limits = sample.moments.range
                    row |= {"mean": min(max(sample.mean, limits.lo), limits.hi)}
                    row |= interval_of(sample)
        rows.append(row)
    for row in [x for x in rows if x["slice"] == "all"] if meta.mean else ():
        systems = [row.get("system", values.systems[0])]
        sample = values.sample(row["metric"], systems, MEAN_OF_SLICES)
        mean = {"slice": MEAN_OF_SLICES, "mean": sample.mean if sample.units else None}
        rows.append(row | mean | interval_of(sample) | {"n_eff": None, means.ERROR: None})
    place = summary.columns.index("queries") + 1
    added = {"judged": pl.Int64, "lambda": pl.Float64, "worth": pl.Int64} if judge else {}
    names = [*summary.columns[:place], *added, *summary.columns[place:]]
    return pl.DataFrame(rows, schema={n: summary.schema.get(n) or added[n] for n in names})

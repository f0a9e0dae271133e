"""The values of every system and query as arrays, and notes on what is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankql import text
from rankql.evaluation.corrected_means import PairedValues
from rankql.evaluation.means import (
    cluster_codes,
    compared_value,
    metric_range,
    slice_queries,
)
from rankql.evaluation.result import Result
from rankql.macros import MISSING
from rankql.registry.conventions import UNDEFINED_VALUES
from rankql.stats.means import ROUNDING
from rankql.stats.prediction_powered import CorrectedSample
from rankql.stats.sample import Array, Sample


@dataclass(frozen=True)
class SystemValues:
    """The values of every metric by query and system; NaN if left out."""

    systems: list[str]
    queries: pl.DataFrame
    values: dict[str, Array]
    slices: dict[str, NDArray[np.intp]]
    clusters: NDArray[np.intp] | None
    weights: Array | None
    # The number of queries that each system lacks, and by metric, that are undefined in a system.
    missing: dict[str, int]
    undefined: dict[str, int]
    # The metrics for which lower is better.
    lower: frozenset[str] = frozenset()
    # The values under the labels of a judge beside human ones.
    paired: PairedValues | None = None

    @classmethod
    def of(cls, result: Result, systems: Sequence[str], cluster: str | None) -> SystemValues:
        """The values of a result with one row per system and query."""
        key, by, rules = result.meta.query, result.meta.by, result.conventions
        rows = result.frame()
        queries = rows.filter(pl.col("system") == systems[0]).select(key, *by)
        columns = [compared_value(name, rules).fill_null(math.nan) for name in result.metrics]
        frames = {name: rows.filter(pl.col("system") == name) for name in systems}
        compared = [frame.select(columns) for frame in frames.values()]
        values = {
            name: np.stack([frame[name].to_numpy() for frame in compared], axis=1)
            for name in result.metrics
        }
        places = {
            label: queries[key].is_in(members.implode()).arg_true().to_numpy().astype(np.intp)
            for label, members in slice_queries(queries, result.meta.groupings).items()
        }
        codes = None if cluster is None else cluster_codes(queries, key, cluster).to_numpy()
        weight = result.meta.weight
        weights = None if weight is None else queries[weight].to_numpy().astype(float)
        missing = {name: int(frame[MISSING].sum()) for name, frame in frames.items()}
        lower = frozenset(filter(result.lower_is_better, result.metrics))
        # A missing query that is left out is not undefined too.
        missed = pl.col(MISSING).any().over(key)
        left_out = missed & (rules["missing"] == "skip")
        undefined = {
            name: rows.filter(pl.col(name).is_null() & ~(missed if name in lower else left_out))[
                key
            ].n_unique()
            for name in result.metrics
            if name not in result.catalogue_metrics
        }
        judge = result.judge
        paired = None if judge is None else PairedValues.of(result, judge, cluster)
        return cls(
            list(systems), queries, values, places, codes, weights, missing, undefined, lower,
            paired,
        )  # fmt: skip

    @property
    def cluster_sizes(self) -> list[int]:
        """The number of queries of each cluster."""
        assert self.clusters is not None
        sizes: list[int] = np.bincount(self.clusters).tolist()
        return sizes

    def pair(
        self, metric: str, a: str, b: str, label: str
    ) -> tuple[Array, Array, NDArray[np.intp] | None, Array | None]:
        """The values of two systems on a slice, with the clusters and weights of the queries.

        Only queries where both are defined, and whose weight is above 0.
        """
        rows = self.slices[label]
        of_a, of_b = (self.values[metric][rows, self.systems.index(name)] for name in (a, b))
        kept = ~np.isnan(of_a) & ~np.isnan(of_b)
        clusters = weights = None
        if self.weights is not None:
            kept &= self.weights[rows] > 0
            weights = self.weights[rows][kept]
        if self.clusters is not None:
            codes = self.clusters[rows][kept]
            clusters = np.unique(codes, return_inverse=True)[1]
        return of_a[kept], of_b[kept], clusters, weights

    def range(self, metric: str) -> tuple[float, float]:
        """The range of a metric, infinite where it is unknown.

        Options such as negative="keep" give values outside the range, which then does not apply.
        """
        lowest, highest = metric_range(metric)
        defined = self.values[metric][~np.isnan(self.values[metric])]
        inside = lowest - ROUNDING <= defined.min(initial=math.inf)
        inside = inside and defined.max(initial=-math.inf) <= highest + ROUNDING
        return (lowest, highest) if inside and len(defined) else (-math.inf, math.inf)

    def sample(self, metric: str, systems: Sequence[str], label: str) -> Sample:
        """The values of one system on a slice, or the differences of the second from the first."""
        ends = self.range(metric)
        if len(systems) > 1:
            ends = (ends[0] - ends[1], ends[1] - ends[0])
        if self.paired is not None:
            return self.paired.sample(metric, systems, label, *ends)
        of_a, of_b, clusters, weights = self.pair(metric, systems[0], systems[-1], label)
        return Sample(of_b if len(systems) == 1 else of_b - of_a, clusters, weights, *ends)

    def means(self, metric: str, systems: Sequence[str], label: str) -> list[float | None]:
        """The mean of each of two systems on a slice; None if no query counts."""
        if self.paired is not None:
            sample = self.sample(metric, systems, label)
            if isinstance(sample, CorrectedSample):  # whose difference is the corrected one
                ends = self.range(metric)
                first = self.paired.sample(metric, systems, label, *ends, sample.lam).mean
                return [first, first + sample.mean]
        *pair, _, weights = self.pair(metric, systems[0], systems[-1], label)
        return [float(np.average(x, weights=weights)) if len(x) else None for x in pair]


def describe_left_out(values: SystemValues, rules: Mapping[str, Any]) -> Iterator[str]:
    """Notes on queries that are missing or undefined in a system."""
    if values.paired is not None:
        yield (
            "The means of a pair are corrected with the weight of the judge for its difference, so "
            "they differ from those of each system alone"
        )
    total = text.format_queries(len(values.queries))
    # 0 would be the best value of a metric if lower is better.
    lower = [name for name in values.values if name in values.lower]
    missing = "left out"
    if rules["missing"] != "skip" and len(lower) < len(values.values):
        missing = (
            f"counted as 0 (left out for {text.join_words(lower)})" if lower else "counted as 0"
        )
    for system, count in values.missing.items():
        if count:
            yield f"{count:,} of {total} {text.is_or_are(count)} missing in {system}: {missing}"
    metrics: dict[int, list[str]] = {}
    for metric, count in values.undefined.items():
        metrics.setdefault(count, []).append(metric)
    for count, names in metrics.items():
        if count:
            other = UNDEFINED_VALUES.get(rules["undefined"])
            rule = "left out" if other is None else f"counted as {other}"
            queries = f"{count:,} of {total} {text.is_or_are(count)}"
            listed = text.join_words(names)
            yield f"{listed}: {queries} undefined in at least one system and {rule}"

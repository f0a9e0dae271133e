"""The values of every system and query as arrays, and the ranges of their differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankql.decisions.alignment import compared_value
from rankql.decisions.rounding import ROUNDING
from rankql.decisions.sample import Array
from rankql.decisions.settings import Settings
from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.result import Result
from rankql.evaluation.summary import slice_queries
from rankql.macros import MISSING
from rankql.registry.parse import parse


@dataclass(frozen=True)
class SystemValues:
    """The values of every metric by query and system, NaN where there is none to compare."""

    systems: list[str]
    queries: pl.DataFrame
    values: dict[str, Array]
    slices: dict[str, NDArray[np.intp]]
    clusters: NDArray[np.intp] | None
    # How many queries each system lacks, and by metric how many are undefined in some system.
    missing: dict[str, int]
    undefined: dict[str, int]
    # The metrics of which less is better.
    lower: frozenset[str] = frozenset()

    @classmethod
    def of(cls, result: Result, systems: Sequence[str], cluster: str | None) -> SystemValues:
        """The values of a result that has a row for every system and query."""
        key, by, rules = result.meta["query"], result.meta["by"], result.conventions
        rows = result.frame()
        queries = rows.filter(pl.col("system") == systems[0]).select(key, *by)
        columns = {
            name: compared_value(name, rules).fill_null(float("nan")) for name in result.metrics
        }
        frames = {name: rows.filter(pl.col("system") == name) for name in systems}
        values = {
            name: np.stack(
                [f.select(value).to_series().to_numpy() for f in frames.values()], axis=1
            )
            for name, value in columns.items()
        }
        places = {
            label: queries[key].is_in(members.implode()).arg_true().to_numpy().astype(np.intp)
            for label, members in slice_queries(queries, result.meta["groupings"]).items()
        }
        codes = None
        if cluster is not None:
            if queries[cluster].null_count():
                query = queries.filter(pl.col(cluster).is_null())[key][0]
                raise RankqlError(f"cluster: {cluster} is NULL for query {query!r}")
            codes = queries[cluster].rank("dense").to_numpy().astype(np.intp) - 1
        missing = {name: int(frame[MISSING].sum()) for name, frame in frames.items()}
        kept = ~pl.col(MISSING) | pl.lit(rules["missing"] != "skip")
        undefined = {
            name: rows.filter(pl.col(name).is_null() & kept)[key].n_unique()
            for name in result.metrics
        }
        lower = frozenset(filter(result.lower_is_better, result.metrics))
        return cls(list(systems), queries, values, places, codes, missing, undefined, lower)

    def pair(
        self, metric: str, a: str, b: str, label: str
    ) -> tuple[Array, Array, NDArray[np.intp] | None]:
        """The values of two systems on a slice where both are defined."""
        rows = self.slices[label]
        of_a, of_b = (self.values[metric][rows, self.systems.index(name)] for name in (a, b))
        kept = ~np.isnan(of_a) & ~np.isnan(of_b)
        clusters = None
        if self.clusters is not None:
            codes = self.clusters[rows][kept]
            clusters = np.unique(codes, return_inverse=True)[1]
        return of_a[kept], of_b[kept], clusters


def difference_ranges(
    values: SystemValues, metrics: Sequence[str], rules: Mapping[str, Any], settings: Settings
) -> dict[str, tuple[float, float]]:
    """The range of the difference of two values, by metric, for the test that needs it."""
    if settings.test != "anytime":
        return {}
    bounds = settings.bounds or {}
    if not isinstance(bounds, Mapping) or not all(map(_is_range, bounds.values())):
        raise RankqlError(
            f"bounds must be a dict of metric: (lowest, highest), such as {{'DCG@10': (0, 20)}}, "
            f"not {settings.bounds!r}"
        )
    for name in bounds:
        if name not in metrics:
            raise RankqlError(f"bounds: {name!r} is not compared{did_you_mean(name, metrics)}")
    ranges = {}
    for name in metrics:
        low, high = bounds[name] if name in bounds else _known_range(name, rules)
        if low is None or high is None:
            raise RankqlError(
                f"test='anytime' needs the range of {name}, which has no upper or lower limit. "
                f"Pass bounds={{{name!r}: (lowest, highest)}} (CLI: --bounds {name}:LOWEST:HIGHEST)"
                ", limits that hold for every query, known in advance"
            )
        defined = values.values[name][~np.isnan(values.values[name])]
        outside = defined[(defined < low - ROUNDING) | (defined > high + ROUNDING)]
        if len(outside):
            raise RankqlError(
                f"{name} is {outside[0]:.6g} for a query, outside its range of {low:g} to "
                f"{high:g}. Pass bounds={{{name!r}: (lowest, highest)}} with the true limits"
            )
        ranges[name] = (float(low - high), float(high - low))
    return ranges


def _is_range(value: Any) -> bool:
    """Is this a pair of finite numbers, the first below the second?"""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    numbers = all(isinstance(x, int | float) and math.isfinite(x) for x in value)
    return numbers and value[0] < value[1]


def _known_range(name: str, rules: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The lowest and highest value of a metric, as far as they are known."""
    try:
        (metric,) = parse(name)
    except (RankqlError, ValueError):  # the user's own
        return None, None
    if metric.record is None or {**rules, **metric.options}.get("negative") == "keep":
        return None, None
    return metric.record.lowest, metric.record.highest

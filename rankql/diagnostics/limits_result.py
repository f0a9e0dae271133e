"""The result of `limits`, and the frames in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rankql.evaluation.result import EvaluatedTable, Result
from rankql.macros import MISSING

# The frames, with their columns.
FRAMES: dict[str, dict[str, Any]] = {
    "sensitivity": {
        "metric": pl.String,
        "position": pl.Int64,
        "loss": pl.Float64,
        "queries": pl.Int64,
    },
    "judged": {
        "k": pl.Int64,
        "judged": pl.Float64,
        "items": pl.Int64,
        "unjudged": pl.Int64,
        "queries": pl.Int64,
    },
    "bounds": {
        "metric": pl.String,
        "lo": pl.Float64,
        "mean": pl.Float64,
        "hi": pl.Float64,
        "undefined": pl.Int64,
    },
    "undefined": {
        "metric": pl.String,
        "queries": pl.Int64,
        "undefined": pl.Int64,
        "share": pl.Float64,
    },
}


@dataclass(repr=False, eq=False)
class Limits(EvaluatedTable):
    """How far metrics can be trusted: notes, and the frames that they are taken from.

    All frames have the column `system` first where there are several.
    """

    result: Result
    notes: list[str] = field(default_factory=list)
    # metric, position, loss, and the number of queries in which the swap changes anything.
    sensitivity: pl.DataFrame = field(default_factory=pl.DataFrame)
    # k (NULL: the whole ranking), judged (the metric Judged@k), the number of items there and of
    # those that are unjudged, and the queries that have such.
    judged: pl.DataFrame = field(default_factory=pl.DataFrame)
    # metric, lo, mean, hi, and the undefined queries that a judgment could define.
    bounds: pl.DataFrame = field(default_factory=pl.DataFrame)
    # metric, queries, undefined, share.
    undefined: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def table(self) -> pl.DataFrame:
        """One row per metric: its mean, bounds and undefined queries, and the swap of neighbours
        that changes it most."""
        keys = [*self.result.keys[:-1], "metric"]
        bounds = self.bounds.select(*keys, "lo", "hi")
        rows = self.result.summary.select(*keys, "mean").join(
            bounds, on=keys, how="left", maintain_order="left"
        )
        rows = rows.with_columns(self.undefined["undefined"])
        swap = pl.format("{}, {}", "position", pl.col("position") + 1)
        worst = largest_losses(self).select(*keys, swap=swap, loss="loss")
        return rows.join(worst, on=keys, how="left", maintain_order="left")

    def _details(self) -> dict[str, Any]:
        frames = {name: getattr(self, name).to_dicts() for name in FRAMES}
        return {**frames, **super()._details()}


def largest_losses(limits: Limits) -> pl.DataFrame:
    """The swap that changes each metric most."""
    keys = [*limits.result.keys[:-1], "metric"]
    largest = pl.col("loss").max().over(keys)
    losses = limits.sensitivity.filter(pl.col("loss") > 0, pl.col("loss") == largest)
    return losses.unique(keys, keep="first", maintain_order=True)


def list_systems(result: Result) -> list[str | None]:
    """The systems of a result; None alone where they have no names."""
    if not result.meta["system"]:
        return [None]
    return result.summary["system"].unique(maintain_order=True).to_list()


def filter_system(frame: pl.DataFrame, system: str | None) -> pl.DataFrame:
    """The rows of one system; all rows where systems have no names."""
    return frame if system is None else frame.filter(pl.col("system") == system)


def make_frame(result: Result, name: str, rows: Iterable[Mapping[str, Any]] = ()) -> pl.DataFrame:
    """One of the frames, with the column `system` where there are several."""
    systems = {"system": pl.String} if result.meta["system"] else {}
    return pl.DataFrame(list(rows), schema={**systems, **FRAMES[name]})


def count_scored_queries(result: Result, system: str | None) -> dict[str, int]:
    """The number of queries that the mean of each metric is over."""
    frame = filter_system(result.frame(), system)
    if result.conventions["missing"] == "skip":
        frame = frame.filter(~pl.col(MISSING))
    if result.conventions["undefined"] == "zero":
        return dict.fromkeys(result.metrics, len(frame))
    return {name: frame[name].count() for name in result.metrics}

"""The result of `limits`, and its frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rankql.evaluation.result import EvaluatedTable, Result
from rankql.macros import MISSING
from rankql.registry.conventions import UNDEFINED_VALUES

# The columns of each frame that is measured. Columns without a type here are counts.
_COLUMNS = {
    "sensitivity": ("metric", "position", "loss", "queries"),
    "judged": ("k", "judged", "items", "unjudged", "queries"),
    "bounds": ("metric", "lo", "mean", "hi", "undefined"),
}
_TYPES: dict[str, Any] = {"system": pl.String, "metric": pl.String}
_TYPES |= dict.fromkeys(("loss", "judged", "lo", "mean", "hi"), pl.Float64)


@dataclass(repr=False, eq=False)
class Limits(EvaluatedTable):
    """The result of `limits`: notes, and the frames behind them.

    If there are several systems, `system` is the first column of each frame.
    """

    result: Result
    # metric, position, loss, and the number of queries that the swap changes.
    sensitivity: pl.DataFrame
    # k (NULL: the complete ranking), judged (the metric Judged@k), the number of items, of unjudged
    # items, and of queries with unjudged items.
    judged: pl.DataFrame
    # Over all judgments of the retrieved items: metric, lo, mean, hi, and the number of undefined
    # queries that a judgment could define.
    bounds: pl.DataFrame
    notes: list[str] = field(default_factory=list)

    @property
    def undefined(self) -> pl.DataFrame:
        """The number and the share of undefined queries, by metric."""
        columns = [*self.result.keys[:-1], "metric", "queries", "undefined"]
        share = pl.col("undefined") / pl.col("queries")
        return self.result.summary.select(*columns, share=share)

    @property
    def table(self) -> pl.DataFrame:
        """One row per metric: mean, bounds, undefined queries, and the most effective swap."""
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
        names = (*_COLUMNS, "undefined")
        frames = {name: getattr(self, name).to_dicts() for name in names}
        return {**frames, **super()._details()}


def largest_losses(limits: Limits) -> pl.DataFrame:
    """The swap that changes each metric most."""
    keys = [*limits.result.keys[:-1], "metric"]
    largest = pl.col("loss").max().over(keys)
    losses = limits.sensitivity.filter(pl.col("loss") > 0, pl.col("loss") == largest)
    return losses.unique(keys, keep="first", maintain_order=True)


def list_systems(result: Result) -> list[str | None]:
    """The systems of a result, [None] if there is only one."""
    if not result.meta.system:
        return [None]
    return result.summary["system"].unique(maintain_order=True).to_list()


def filter_system(frame: pl.DataFrame, system: str | None) -> pl.DataFrame:
    """The rows of one system; all rows for None."""
    return frame if system is None else frame.filter(pl.col("system") == system)


def make_frame(result: Result, name: str, rows: Iterable[Mapping[str, Any]] = ()) -> pl.DataFrame:
    """Make a frame, with the column `system` if there are several."""
    names = (*result.keys[:-1], *_COLUMNS[name])
    return pl.DataFrame(list(rows), schema={name: _TYPES.get(name, pl.Int64) for name in names})


def count_scored_queries(result: Result, system: str | None) -> dict[str, int]:
    """The number of queries in the mean of each metric."""
    frame = filter_system(result.frame(), system)
    if result.conventions["missing"] == "skip":
        frame = frame.filter(~pl.col(MISSING))
    if result.conventions["undefined"] in UNDEFINED_VALUES:
        return dict.fromkeys(result.metrics, len(frame))
    return {name: frame[name].count() for name in result.metrics}

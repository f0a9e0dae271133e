"""Means as the table of a paper: systems or slices as rows, metrics as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rankql.errors import RankqlError
from rankql.results import Rendered, TableResult
from rankql.stats.means import ROUNDING
from rankql.text import Strong, format_decimal

MARKS = {"better": "†", "worse": "‡"}
# Means with larger values have two decimals: DCG, revenue.
DECIMALS, FEW_DECIMALS, LARGE = 4, 2, 10


@dataclass(eq=False, repr=False)
class WideTable(TableResult):
    """Means with systems or slices as rows and metrics as columns.

    `table` has the means. The best system of each slice is bold in Markdown, HTML and LaTeX; a mark
    says which systems differ significantly from the baseline.
    """

    table: pl.DataFrame
    metrics: list[str]
    higher_is_better: Mapping[str, bool]
    verdicts: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    input_paths: Sequence[str] = ()
    caption: str = "Means"

    def _rendered(self) -> list[Rendered]:
        """The header and the rows as text, numbers aligned right."""
        best = {metric: self._find_best(metric) for metric in self.metrics}
        decimals = {
            metric: FEW_DECIMALS
            if any(abs(mean) >= LARGE for mean in self.table[metric].drop_nulls())
            else DECIMALS
            for metric in self.metrics
        }
        keys = [name for name in self.table.columns if name not in self.metrics]
        body = []
        for i, row in enumerate(self.table.to_dicts()):
            place = (row.get("system") or "", row.get("slice", "all"))
            cells = []
            for metric in self.metrics:
                mark = MARKS.get(self.verdicts.get((metric, *place), ""), "")
                value = row[metric]
                cell = "" if value is None else f"{format_decimal(value, decimals[metric])}{mark}"
                cells.append(Strong(cell) if i in best[metric] else cell)
            named = [f"{row[key]:,}" if key == "queries" else str(row[key]) for key in keys]
            body.append([*named, *cells])
        first = sum(name != "queries" for name in keys)
        right = range(first, len(self.table.columns))
        return [Rendered([[*keys, *self.metrics], *body], right)]

    def _find_best(self, metric: str) -> set[int]:
        """The rows with the best mean of their slice, if it has several systems."""
        if "system" not in self.table.columns:
            return set()
        part = "slice" if "slice" in self.table.columns else pl.lit("all")
        value = pl.col(metric) if self.higher_is_better[metric] else -pl.col(metric)
        is_best = (value.count() > 1) & (value >= value.max() - ROUNDING)
        return {*self.table.select(is_best.over(part)).to_series().arg_true()}


def make_wide_table(
    summary: pl.DataFrame, higher_is_better: Mapping[str, bool], **fields: Any
) -> WideTable:
    """Turn a summary around: one row per slice and system, one column per metric."""
    for name in ("slice", "system", "queries"):
        if name in higher_is_better:
            raise RankqlError(f"wide has a column {name!r}, as the metric. Rename the metric")
    keys = [name for name in ("slice", "system") if name in summary.columns]
    means = summary.select(*keys, "metric", "mean").pivot(
        "metric", index=keys, values="mean", maintain_order=True
    )
    slices = summary["slice"].unique(maintain_order=True)
    if len(slices) == 1:
        means = means.drop("slice")
    else:
        counts = summary.group_by(keys).agg(pl.col("queries").max())
        order = pl.col("slice").cast(pl.Enum(slices))
        means = means.join(counts, on=keys, maintain_order="left").sort(order, maintain_order=True)
    first = [name for name in (*keys, "queries") if name in means.columns]
    return WideTable(
        means.select(*first, *higher_is_better), [*higher_is_better], higher_is_better, **fields
    )

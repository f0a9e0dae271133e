"""Means with systems or slices as rows and metrics as columns, as papers have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rankql.results import TableResult
from rankql.stats.means import ROUNDING
from rankql.text import Block, Cell, Name, format_decimal, format_queries, unique_names

# Means have four decimals. Metrics with values from 100 on, such as revenue, have two.
DECIMALS, FEW_DECIMALS, LARGE = 4, 2, 100
_KEYS = {
    **dict.fromkeys(("slice", "letter", "system", "metric"), pl.String), "queries": pl.Int64,
}  # fmt: skip


@dataclass(eq=False, repr=False)
class WideTable(TableResult):
    """Means with systems or slices as rows and metrics as columns.

    `table` has the means. The best system of each slice is bold in Markdown, HTML and LaTeX. If
    systems were compared, marks behind the means say which differ significantly.
    """

    table: pl.DataFrame
    # The columns of means: is higher better?
    higher_is_better: Mapping[str, bool | None]
    # The columns of marks, by column of means.
    marks: Mapping[str, str] = field(default_factory=dict)
    # The columns whose values have a block of rows each.
    parts: Sequence[str] = ()
    method: str = ""
    notes: list[str] = field(default_factory=list)
    input_paths: Sequence[str] = ()
    caption: str = "Means"

    def _rendered(self) -> list[Block]:
        """A block for each slice of several systems."""
        means, parts = [*self.higher_is_better], [*self.parts]
        cells = {name: self._cells(name) for name in means}
        others = [*means, *self.marks.values(), *parts, *["queries"] * bool(parts)]
        keys = [name for name in self.table.columns if name not in others]
        header = [*("" if name == "letter" else name for name in keys), *map(Name, means)]
        first = sum(name != "queries" for name in keys)
        rows = self.table.to_dicts()
        blocks, members_of = list[Block](), dict[tuple[Any, ...], list[int]]()
        for i, row in enumerate(rows):
            members_of.setdefault(tuple(row[name] for name in parts), []).append(i)
        for part, members in members_of.items():
            body = [
                [
                    *(_format_key(name, rows[i][name]) for name in keys),
                    *(cells[x][i] for x in means),
                ]
                for i in members
            ]
            counts = [rows[i].get("queries", 0) for i in members]
            count = f" ({format_queries(max(counts))})" if part and any(counts) else ""
            right = range(first, len(header))
            title = f"{', '.join(part)}{count}"
            blocks.append(Block([header, *body], right, title, wraps=True))
        return blocks

    def _cells(self, column: str) -> list[Cell]:
        """The means of a column with their marks, the best of each slice in bold."""
        means, best = self.table[column], self._find_best(column)
        marks = self.table[self.marks[column]] if column in self.marks else [""] * len(means)
        decimals = FEW_DECIMALS if (means.abs() >= LARGE).any() else DECIMALS
        texts = ("" if mean is None else format_decimal(mean, decimals) for mean in means)
        return [
            Cell(x, mark, i in best) for i, (x, mark) in enumerate(zip(texts, marks, strict=True))
        ]

    def _find_best(self, column: str) -> set[int]:
        """The rows with the best mean of their slice, if it has several systems."""
        higher = self.higher_is_better[column]
        if "system" not in self.table.columns or "system" in self.parts or higher is None:
            return set()
        part = "slice" if "slice" in self.table.columns else pl.lit("all")
        value = pl.col(column) if higher else -pl.col(column)
        is_best = (value.count() > 1) & (value >= value.max() - ROUNDING)
        is_best &= is_best.sum() == 1  # equal values have no best one
        return {*self.table.select(is_best.over(part)).to_series().arg_true()}


def _format_key(name: str, value: Any) -> str:
    return f"{value:,}" if name == "queries" else Name(value)


def make_wide_table(
    summary: pl.DataFrame,
    higher_is_better: Mapping[str, bool | None],
    systems: Sequence[str] = (),
    marks: Mapping[tuple[str, str, str], str] | None = None,
    letters: Mapping[str, str] | None = None,
    **fields: Any,
) -> WideTable:
    """Turn a summary around: one row per slice and system, one column per metric.

    Marks are by metric, slice and system.
    """
    means = {(x["slice"], x.get("system"), x["metric"]): x for x in summary.to_dicts()}
    slices = [*dict.fromkeys(part for part, *_ in means)]
    several = "system" in summary.columns
    rows = [(part, name) for part in slices for name in (systems if several else [None])]
    keys: dict[str, list[Any]] = {}
    if len(slices) > 1:
        keys["slice"] = [part for part, _ in rows]
    if several:
        keys |= {"letter": [letters[str(name)] for _, name in rows]} if letters else {}
        keys["system"] = [name for _, name in rows]
    if len(slices) > 1:
        keys["queries"] = [
            max(means[part, name, metric]["queries"] for metric in higher_is_better)
            for part, name in rows
        ]
    schema = {name: _KEYS[name] for name in keys}
    columns = dict(
        zip(higher_is_better, unique_names([*higher_is_better], schema, "metric"), strict=True)
    )
    data, named = dict(keys), {}
    for metric, column in columns.items():
        data[column] = [means[part, name, metric]["mean"] for part, name in rows]
        schema[column] = pl.Float64
        if marks:
            (named[column],) = unique_names([f"{column} marks"], [*schema, *columns.values()])
            data[named[column]] = [marks.get((metric, part, str(name)), "") for part, name in rows]
            schema[named[column]] = pl.String
    higher = {columns[metric]: higher for metric, higher in higher_is_better.items()}
    parts = ["slice"] if several and len(slices) > 1 else []
    return WideTable(pl.DataFrame(data, schema), higher, named, parts, **fields)

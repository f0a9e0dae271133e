"""The state of every arm, metric and slice: units, means and squares, in one SQL query."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import polars as pl

from rankql import text
from rankql.decisions.key_join import read_number
from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.summary import slice_columns
from rankql.macros import quote
from rankql.registry.argument_checks import require
from rankql.registry.parse import is_metric
from rankql.sources.macro_sql import fetch, fetch_frame
from rankql.sources.session import Session
from rankql.sources.tables import Data, Table, require_column

# More arms than this are the wrong column.
ARMS = 50
# Squares of larger numbers may overflow.
LARGEST = 1e100
_AGGREGATES = {"sum": "fsum", "mean": "favg", "max": "max"}
_CALL = re.compile(r"(sum|mean|max)\((.+)\)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class UnitMetric:
    """A metric: a column and how the rows of a unit are aggregated, or two summed and divided."""

    name: str
    column: str
    aggregate: str = "sum"
    divisor: str | None = None
    # The pre-period column that explains a part of the variance.
    before: str | None = None

    @property
    def columns(self) -> list[str]:
        """The columns of the values."""
        return [self.column, *([] if self.divisor is None else [self.divisor])]


def parse_unit_metric(name: str, table: Table, before: str | None) -> UnitMetric:
    """A column, sum(column), mean(column), max(column), or column/column."""
    if name in table.columns:
        return UnitMetric(name, name, "mean" if is_metric(name) else "sum", None, before)
    if (call := _CALL.fullmatch(name)) and call[2] in table.columns:
        return UnitMetric(name, call[2], call[1].lower(), None, before)
    for slash in re.finditer("/", name):
        left, right = name[: slash.start()].strip(), name[slash.end() :].strip()
        if left in table.columns and right in table.columns:
            return UnitMetric(name, left, "sum", right, before)
    parts = [part.strip() for part in name.split("/")] if "/" in name else [name]
    unknown = next((part for part in parts if part not in table.columns), name)
    if not unknown or "(" in name:
        raise RankqlError(
            f"metrics=: {name!r} must be a column, sum(column), mean(column), max(column) or "
            "column/column"
        )
    raise RankqlError(describe_unknown("column in metrics=:", unknown, [*table.columns]))


@dataclass(frozen=True)
class UnitTable:
    """A table of rows by unit; `arm` is None if there are no arms yet."""

    session: Session
    table: Table
    unit: str
    arm: str | None
    metrics: list[UnitMetric]
    groups: list[list[str]] = field(default_factory=list)
    # The lowest and highest value of metrics, whose values are returned as lists.
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def read(self) -> tuple[pl.DataFrame, list[str]]:
        """One row per slice, metric and arm: its units, state and values; and notes."""
        attributes = dict.fromkeys(itertools.chain(*self.groups))
        for argument, names in (
            ("unit", [self.unit]), ("arm", [self.arm] if self.arm else []), ("by", attributes),
            ("before", [metric.before for metric in self.metrics if metric.before]),
        ):  # fmt: skip
            for name in names:
                require_column(self.table, name, argument)
        notes = self._check_rows()
        try:
            rows = fetch_frame(self.session, self._sql([*attributes]))
        except duckdb.OutOfRangeException as error:  # a variance, in DuckDB 1.4
            metrics = text.join_words([metric.name for metric in self.metrics])
            raise RankqlError(
                f"A value of {metrics} is too large for some {self.noun}. Scale it down"
            ) from error
        self._check_units(rows.filter(slice="all"), [*attributes])
        frames = [
            rows.select("slice", "arm", "units", metric=pl.lit(metric.name), state=f"state_{i}",
                        known=f"known_{i}", values=f"values_{i}",
                        before=pl.lit(metric.before, pl.String))
            for i, metric in enumerate(self.metrics)
        ]  # fmt: skip
        if (rows["rows"] > rows["units"]).any():
            notes.append(self._describe_aggregates())
        return pl.concat(frames), notes

    @property
    def noun(self) -> str:
        """The noun for a unit."""
        return text.row_noun(self.unit)

    @property
    def _arm(self) -> str:
        """The column of the arm."""
        return quote(self.arm) if self.arm else "'all'"

    def _check_rows(self) -> list[str]:
        """Notes on rows that are left out and on negative counts; errors for negative divisors."""
        values = dict.fromkeys(itertools.chain(*(metric.columns for metric in self.metrics)))
        least = [f"min({read_number(self.table, name)})" for name in values]
        counts = [f"count(*) FILTER ({self._arm} IS NULL)"]
        counts.append(f"count(*) FILTER ({self._arm} IS NOT NULL AND {quote(self.unit)} IS NULL)")
        sql = f"SELECT count(*), {', '.join([*counts, *least])} FROM {self.table.sql}"
        ((total, no_arm, no_unit, *ends),) = fetch(self.session, sql)
        what = "an arm and a unit" if self.arm else "a unit"
        require(total > no_arm + no_unit, f"{self.table.label} has no row with {what}")
        notes = [
            f"Dropped {count:,} of {text.format_count(total, 'row')} without {what} ({name} is "
            "NULL)"
            for count, what, name in ((no_arm, "an arm", self.arm), (no_unit, "a unit", self.unit))
            if count
        ]
        divisors = {metric.divisor for metric in self.metrics}
        for name, end in zip(values, ends, strict=True):
            if end is None or end >= 0:
                continue
            if name in divisors:
                raise RankqlError(
                    f"{name} must not be negative, because it divides another column, not {end:g}. "
                    "Correct the table"
                )
            if "INT" in self.table.columns[name]:
                notes.append(
                    f"{name} has negative values, down to {end:g}. A count cannot have any"
                )
        return notes

    def _sql(self, attributes: Sequence[str]) -> str:
        """The query: rows added up by unit, then units by arm and slice."""
        slice_, order = slice_columns({name: f"by_{i}" for i, name in enumerate(attributes)})
        units, filled, columns = [], [], []
        for i, name in enumerate(attributes):
            units.append(f"min({quote(name)}) AS by_{i}, max({quote(name)}) AS other_by_{i}")
            columns.append(
                f"min(CAST(unit AS VARCHAR)) FILTER (by_{i} <> other_by_{i}) AS varies_{i}"
            )
        for i, metric in enumerate(self.metrics):
            units.append(self._unit_values(i, metric))
            if metric.before:
                filled.append(f"coalesce(before_{i}, avg(before_{i}) OVER (), 0) AS before_{i}")
            state = f"experiment_moments(value_{i}, divisor_{i}, before_{i})"
            listed = f"list(value_{i}) FILTER (value_{i} IS NOT NULL)"
            columns.append(
                f"{state} AS state_{i}, min(value_{i}) AS least_{i}, max(value_{i}) AS most_{i}, "
                f"count(known_{i}) AS known_{i}, bool_or(varies_before_{i}) AS varies_before_{i}, "
                f"max(abs(before_{i})) AS most_before_{i}, "
                f"{listed if metric.name in self.bounds else 'NULL::DOUBLE[]'} AS values_{i}"
            )
        sets = [["arm", *(f"by_{attributes.index(name)}" for name in group)]
                for group in ([], *self.groups)]  # fmt: skip
        return f"""
            WITH units AS (
                SELECT {quote(self.unit)} AS unit, min({self._arm}) AS arm,
                       max({self._arm}) AS other_arm, count(*) AS rows, {", ".join(units)}
                FROM {self.table.sql}
                WHERE {self._arm} IS NOT NULL AND {quote(self.unit)} IS NOT NULL
                GROUP BY {quote(self.unit)}
            ), filled AS (SELECT * {f"REPLACE ({', '.join(filled)})" if filled else ""} FROM units)
            SELECT CAST(arm AS VARCHAR) AS arm, {slice_} AS slice, count(*) AS units,
                   CAST(sum(rows) AS BIGINT) AS rows, count(*) FILTER (arm <> other_arm) AS crossed,
                   min(CAST(unit AS VARCHAR)) FILTER (arm <> other_arm) AS example,
                   {", ".join(columns)}
            FROM filled GROUP BY GROUPING SETS ({", ".join(f"({', '.join(s)})" for s in sets)})
            ORDER BY {", ".join([*order, "filled.arm"])}
        """

    def _unit_values(self, i: int, metric: UnitMetric) -> str:
        """The value, divisor and pre-period value of a unit."""
        before = f"CAST({read_number(self.table, metric.before)} AS DOUBLE)" if metric.before else 0
        pre = f"max({before}) AS before_{i}, max({before}) AS known_{i}, "
        pre += f"min({before}) <> max({before}) AS varies_before_{i}"
        value = read_number(self.table, metric.column)
        if metric.divisor is None:
            aggregate = _AGGREGATES[metric.aggregate]
            return f"{aggregate}({value}) AS value_{i}, 1 AS divisor_{i}, {pre}"
        divisor = read_number(self.table, metric.divisor)
        both = f"FILTER ({value} IS NOT NULL AND {divisor} IS NOT NULL)"
        return f"fsum({value}) {both} AS value_{i}, fsum({divisor}) {both} AS divisor_{i}, {pre}"

    def _check_units(self, arms: pl.DataFrame, attributes: Sequence[str]) -> None:
        """Refuse units in two arms or slices, too many arms, and metrics without variation."""
        if crossed := int(arms["crossed"].sum()):
            raise RankqlError(
                f"{text.format_count(crossed, self.noun)} of {int(arms['units'].sum()):,} "
                f"{text.is_or_are(crossed)} in more than one arm, such as "
                f"{arms['example'].min()!r}. Remove them, or find out why they were assigned twice"
            )
        if len(arms) > ARMS:
            raise RankqlError(
                f"arm={self.arm!r} has {len(arms):,} values. Name the column of the arms, which "
                f"has at most {ARMS}"
            )
        for i, name in enumerate(attributes):
            for unit in arms[f"varies_{i}"].drop_nulls().head(1):
                raise RankqlError(
                    f"by: {name} must have one value per {self.noun}, but {unit!r} has several. "
                    "Use an attribute from before the experiment"
                )
        for i, metric in enumerate(self.metrics):
            ends: Any = arms[f"least_{i}"].min(), arms[f"most_{i}"].max()
            if ends[0] is None:
                raise RankqlError(f"{metric.name} is NULL for every {self.noun}. Remove it")
            if max(map(abs, ends)) > LARGEST:
                raise RankqlError(f"{metric.name} is too large for some {self.noun}. Scale it down")
            if (arms[f"most_before_{i}"] > LARGEST).any():
                raise RankqlError(
                    f"before: {metric.before} is too large for some {self.noun}. Scale it down"
                )
            several = int(arms["units"].sum()) > len(arms)
            if several and metric.divisor is None and ends[0] == ends[1]:
                raise RankqlError(
                    f"{metric.name} is {ends[0]:g} for every {self.noun}, so there is nothing to "
                    "compare. Remove it from metrics="
                )
            low, high = self.bounds.get(metric.name, ends)
            if ends[0] < low or ends[1] > high:
                outside = ends[0] if ends[0] < low else ends[1]
                raise RankqlError(
                    f"bounds= of {metric.name} are {low:g} to {high:g}, but a {self.noun} has "
                    f"{outside:g}. Pass bounds that no value can leave"
                )
            if arms[f"varies_before_{i}"].any():
                raise RankqlError(
                    f"before: {metric.before} must have one value per {self.noun}, because the "
                    "number of rows may depend on the arm. Add it up before the experiment"
                )
            if not arms[f"known_{i}"].sum():
                raise RankqlError(f"before: {metric.before} is NULL for every {self.noun}")

    def _describe_aggregates(self) -> str:
        """A note on what was done with several rows of a unit."""
        words = {"sum": "added up", "mean": "averaged", "max": "taken at their maximum"}
        done: Mapping[str, list[str]] = {
            words[kind]: [m.name for m in self.metrics if m.aggregate == kind] for kind in words
        }
        parts = [f"{how} for {text.join_words(names)}" for how, names in done.items() if names]
        return f"The rows of a {self.noun} are {', '.join(parts)}"


def open_units(
    session: Session,
    data: Data,
    metrics: str | Sequence[str],
    unit: str,
    arm: str | None,
    before: str | Mapping[str, str] | None,
    groups: list[list[str]],
    bounds: Mapping[str, tuple[float, float]],
) -> UnitTable:
    """The table of the caller, with its metrics."""
    table = session.table(data, "table")
    listed = [metrics] if isinstance(metrics, str) else metrics
    valid = isinstance(listed, list | tuple) and all(isinstance(name, str) for name in listed)
    require(valid and bool(listed), f"metrics= must name columns of numbers, not {metrics!r}")
    names = list(dict.fromkeys(listed))
    sliced = {*itertools.chain(*groups)} & {arm, unit}
    require(not sliced, f"by= cannot contain {', '.join(map(str, sliced))}: name an attribute")
    if isinstance(before, str):
        require(len(names) == 1, "before= must be a dict of metric: column for several metrics")
        before = {names[0]: before}
    for argument, keys in (("before", before or {}), ("bounds", bounds)):
        for key in keys:
            require(key in names, describe_unknown(f"metric in {argument}=:", key, names))
    columns = [parse_unit_metric(name, table, (before or {}).get(name)) for name in names]
    for metric in columns:
        if metric.before in metric.columns:
            raise RankqlError(
                f"before= of {metric.name} is the metric itself. Pass a column from before the "
                "experiment"
            )
        if metric.name in bounds and (metric.divisor or metric.before):
            raise RankqlError(
                f"bounds= of {metric.name}: ratios and metrics with before= have no bounds. Leave "
                "them out, for an asymptotic sequence"
            )
    return UnitTable(session, table, unit, arm, columns, groups, bounds)

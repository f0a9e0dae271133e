"""The CTEs of the sources: runs, judgments and attributes, with standard names; SQL on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from rankql.evaluation.column_checks import count_values
from rankql.evaluation.steps import select_from, with_ctes
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.conventions import Conventions
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import fetch, fetch_frame
from rankql.sources.session import Session
from rankql.sources.tables import Table


def source_ctes(inputs: Inputs, conventions: Conventions, integers: bool = False) -> dict[str, str]:
    """The runs, judgments and attributes, with standard names of columns.

    integers: include grades and positions of a run as integers.
    """
    text = {role: inputs.as_text(role) for role in ("query", "item")}

    def keys(table: Table) -> list[str]:
        return [f"{table.key(r, text[r])} AS {r}" for r in text if r in table.roles]

    def attributes(table: Table) -> list[str]:
        return [
            f"{inputs.read_attribute(table, name)} AS {inputs.attribute(name)}"
            for name in inputs.attributes_in(inputs.home(table))
        ]

    def rows(table: Table, fields: Sequence[str], *conditions: str) -> str:
        # DuckDB does not read other columns of rows that a filter in the same SELECT leaves out.
        part = [inputs.part.format(query=table.key("query", text["query"]))] if inputs.part else []
        where = " AND ".join([*conditions, *part])
        return select_from(table.sql, fields, f"WHERE {where}" if where else "")

    runs = []
    for name, table in inputs.runs.items():
        fields = keys(table)
        if inputs.system is not None:
            fields.insert(0, f"CAST({quote(inputs.system)} AS VARCHAR) AS system")
        elif name is not None:
            fields.insert(0, f"{literal(name)}{table.exact} AS system")
        places = [role for role in ("pos", "score") if role in table.roles]
        fields += [f"{_number(table, role, conventions)} AS {role}" for role in places]
        if conventions.ties == "order":
            fields.append("row_number() OVER () AS line")
        if "rel" in table.roles:
            fields.append(f"{_number(table, 'rel', conventions)} AS rel")
        if integers:
            grade, place = (table.integer(role) or table.number(role) for role in ("rel", "pos"))
            fields += [
                f"CAST({grade} AS INTEGER) AS {INTERNAL_PREFIX}rel",
                f"{place} AS {INTERNAL_PREFIX}pos",
            ]
        own = [f"{value} AS {quote(name)}" for name, value in inputs.own.items()]
        runs.append(rows(table, fields + attributes(table) + own))
    ctes = {"run": "\n    UNION ALL\n".join(runs)}
    if inputs.qrels is not None:
        table = inputs.qrels
        grade = _number(table, "rel", conventions)
        fields = [*keys(table), f"{grade} AS rel", *attributes(table)]
        # A grade that counts as unjudged is NULL. Its query is judged, as in trec_eval.
        ctes["qrels"] = rows(table, fields, f"{table.number('rel')} IS NOT NULL")
    if inputs.reference is not None:
        table = inputs.reference
        role = "pos" if "pos" in table.roles else "score"
        fields = [*keys(table), f"{_number(table, role, conventions)} AS {role}"]
        ctes["reference"] = rows(table, fields + attributes(table))
    if inputs.attributes is not None:
        fields = keys(inputs.attributes) + attributes(inputs.attributes)
        ctes["attributes"] = rows(inputs.attributes, fields)
    return ctes


def _number(table: Table, role: str, conventions: Conventions) -> str:
    """The number in a column, under the conventions."""
    value = table.number(role)
    if role == "score" and conventions.float32:
        return f"rankql_float32({value})"
    if role == "rel" and conventions.negative == "unjudged":
        return f"CASE WHEN {value} >= 0 THEN {value} END"
    if role == "rel" and conventions.negative == "error":
        must = literal(f"{table.label}: {table.roles[role]} must not be negative, but there is ")
        return f"CASE WHEN {value} < 0 THEN rankql_fail({must} || {value}) ELSE {value} END"
    return value


def with_source_ctes(inputs: Inputs, conventions: Conventions) -> str:
    """The WITH clause of the sources, for other queries on them."""
    return with_ctes(source_ctes(inputs, conventions))


@dataclass(frozen=True)
class SqlRunner:
    """Runs SQL on the CTEs of the sources in DuckDB."""

    session: Session
    inputs: Inputs
    conventions: Conventions

    def __call__(self, sql: str, part: str = "") -> Sequence[tuple[Any, ...]]:
        """The rows. part: a condition on {query}, for some queries only."""
        inputs = replace(self.inputs, part=part) if part else self.inputs
        return fetch(self.session, with_source_ctes(inputs, self.conventions) + sql)

    def frame(self, sql: str) -> pl.DataFrame:
        """Many rows as a frame."""
        ctes = with_source_ctes(self.inputs, self.conventions)
        return fetch_frame(self.session, ctes + sql, few=False)

    def count_rows(self, source: str) -> int:
        """The number of rows of the tables of a source, such as "run"."""
        tables = (table for table in self.inputs.tables if self.inputs.home(table) == source)
        return sum(count_values(self.session, table, [])[0] for table in tables)

    @property
    def unrounded(self) -> SqlRunner:
        """The same with scores as they are: DuckDB knows count, min and max from statistics."""
        return replace(self, conventions=replace(self.conventions, float32=False))

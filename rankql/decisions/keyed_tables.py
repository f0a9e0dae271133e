"""One of the two inputs of associate: its tables, the SQL of their columns, and the key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rankql.decisions.alignment import compared_value
from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.combining import read_metadata
from rankql.evaluation.result import Result
from rankql.macros import literal, quote
from rankql.registry.argument_checks import require
from rankql.sources.session import Session
from rankql.sources.tables import Table, same_kind


def parse_key(on: Any) -> dict[str, str]:
    """The columns of the key: their names in per_query, and those in outcomes."""
    names: Any = {on: on} if isinstance(on, str) else on
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        names = dict(zip(names, names, strict=True))
    valid = isinstance(names, Mapping) and all(isinstance(x, str) for x in names.items() for x in x)
    require(bool(names) and valid, f"on must name the columns of the key, not {on!r}")
    require("system" not in names, "on: system is told apart anyway; name the key beside it")
    return dict(names)


@dataclass(frozen=True)
class KeyedTables:
    """One of the two inputs: its tables, by system where a dict names them."""

    label: str
    tables: dict[str | None, Table]
    # The metrics, where it is a result.
    result_metrics: list[str] | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that all its tables have."""
        first, *rest = self.tables.values()
        return [name for name in first.columns if all(name in table.columns for table in rest)]

    @property
    def names_systems(self) -> bool:
        """Does it say which system a row is of?"""
        return None not in self.tables or "system" in self.columns

    def require_column(self, name: str, argument: str) -> None:
        """Refuse a column that is not there."""
        if name not in self.columns:
            raise RankqlError(
                f"{argument}: {self.label} has no column {name!r}{did_you_mean(name, self.columns)}"
            )

    def is_number(self, name: str) -> bool:
        """Is it a column of numbers, or text of a file that may be?"""
        return all(t.text or same_kind([t.columns[name], "DOUBLE"]) for t in self.tables.values())

    def types(self, name: str) -> list[str]:
        """The types of a column in its tables."""
        return [table.columns[name] for table in self.tables.values()]

    def key_sql(self, name: str, text: bool) -> list[str]:
        """A column that names something, in every table; text as bytes."""
        column = quote(name)
        return [f"encode(CAST({column} AS VARCHAR))" if text else column] * len(self.tables)

    def system_sql(self) -> list[str]:
        """The system of the rows of every table, as bytes."""
        if None in self.tables:
            return self.key_sql("system", True)
        return [f"encode({literal(name)})" for name in self.tables if name is not None]

    def number_sql(self, name: str) -> list[str]:
        """A column of finite numbers, in every table."""
        return [replace(t, roles={"rel": name}).read("rel") for t in self.tables.values()]

    def has_several_systems(self, session: Session) -> bool:
        """Does it hold several systems?"""
        if not self.names_systems or None not in self.tables:
            return len(self.tables) > 1
        sql = f"SELECT count(DISTINCT system) FROM {self.tables[None].sql}"
        return bool(session.con.sql(sql).fetchall()[0][0] > 1)


def open_tables(session: Session, data: Any, label: str) -> KeyedTables:
    """The tables that were given, as one of the two inputs."""
    several = isinstance(data, Mapping)
    by_system: dict[str | None, Any] = dict(data) if several else {None: data}
    names = by_system if several else ()
    valid = bool(by_system) and all(isinstance(name, str) and name for name in names)
    require(valid, f"{label} as a dict must hold two systems, each by its name")
    metrics: list[str] | None = None
    tables = {}
    for name, part in by_system.items():
        result = _read_result(part)
        if result is not None:
            metrics = [m for m in metrics or result.metrics if m in result.metrics]
            require(not several or not result.meta["system"],
                  f"{label}: {name!r} holds several systems; give it alone")  # fmt: skip
            part = _compared_values(result)
        tables[name] = session.table(part, label if name is None else f"{label} {name!r}")
    return KeyedTables(label, tables, metrics)


def _read_result(data: Any) -> Result | None:
    """The result that was given, itself or as a file that was written of one."""
    if isinstance(data, str | os.PathLike) and (meta := read_metadata(data)) is not None:
        return Result(meta, values=Path(data))
    return data if isinstance(data, Result) else None


def _compared_values(result: Result) -> pl.DataFrame:
    """The values of a result as its conventions count them."""
    values = [compared_value(name, result.conventions) for name in result.metrics]
    return result.frame().select(*result.keys, *result.meta["by"], *values)

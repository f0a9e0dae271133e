"""The join of both inputs of associate by key: one SQL query, a row per key and system.

Both inputs are put below one another and grouped once, so that the keys of only one of them are
there, to be counted. Columns are read under aliases: k0 (key), b0 and c0 (greatest and least value
of an attribute), m0 (metric), o0 (outcome), d0 (its divisor), s (system).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from rankql import text as show
from rankql.decisions.keyed_tables import KeyedTables
from rankql.errors import RankqlError, did_you_mean
from rankql.expressions.columns import require_plain_name
from rankql.registry.argument_checks import require
from rankql.sources.macro_sql import execute
from rankql.sources.session import Session, duckdb_errors
from rankql.sources.tables import same_kind


@dataclass(frozen=True)
class KeyJoin:
    """What is joined: both inputs, the key, slices, metrics and outcomes."""

    per_query: KeyedTables
    outcomes: KeyedTables
    keys: dict[str, str]
    groups: list[list[str]]
    metrics: list[str]
    # The columns of each outcome: one, or two whose sums are divided.
    outcome_columns: dict[str, tuple[str, ...]]

    @property
    def inputs(self) -> tuple[KeyedTables, KeyedTables]:
        """Both inputs."""
        return self.per_query, self.outcomes

    @property
    def unit(self) -> str:
        """What a row stands for."""
        return name_unit([*self.keys])

    @property
    def by(self) -> list[str]:
        """The attributes that are no part of the key."""
        names = dict.fromkeys(name for group in self.groups for name in group)
        return [name for name in names if name not in self.keys]

    @property
    def by_system(self) -> bool:
        """Do both inputs say which system a row is of?"""
        return self.per_query.names_systems and self.outcomes.names_systems

    @property
    def aliases(self) -> dict[str, str]:
        """The names of the columns by the aliases under which they are read."""
        kinds = {"k": self.keys, "b": self.by, "m": self.metrics, "o": self.outcome_columns}
        return {f"{kind}{i}": name for kind, names in kinds.items() for i, name in enumerate(names)}

    def find_input(self, name: str) -> KeyedTables:
        """The input that has an attribute."""
        for tables in self.inputs:
            if name in tables.columns:
                return tables
        columns = list(dict.fromkeys([*self.per_query.columns, *self.outcomes.columns]))
        raise RankqlError(f"by: there is no column {name!r}{did_you_mean(name, columns)}")

    def validate(self, session: Session) -> None:
        """Refuse columns that are not there, or have one name, and systems in one input only."""
        for left, right in self.keys.items():
            self.per_query.require_column(left, "on")
            self.outcomes.require_column(right, "on")
        for name in self.by:
            self.find_input(name)
        require("system" not in self.by, "by: system is told apart anyway; leave it out")
        names = ["system", *self.keys, *self.by, *self.metrics, *self.outcome_columns]
        for name in names:
            require_plain_name(name)
            if names.count(name) > 1:
                raise RankqlError(
                    f"{name!r} would be the name of two columns; name the metrics, or call the "
                    f"outcome otherwise: outcome={{'another name': {name!r}}}"
                )
        if self.outcomes.names_systems and not self.per_query.names_systems:
            raise RankqlError(
                "outcomes tells systems apart, per_query does not: give the outcomes of its "
                "system, without the column system"
            )
        if not self.by_system and self.per_query.has_several_systems(session):
            raise RankqlError(
                "per_query holds several systems, outcomes does not tell them apart: give it the "
                "column system, or a dict alike"
            )

    def columns(self) -> Iterator[_Column]:
        """The columns that are read."""
        per_query, outcomes = self.inputs
        for i, (left, right) in enumerate(self.keys.items()):
            types = [*per_query.types(left), *outcomes.types(right)]
            # Of different types, they are compared as text.
            text = not same_kind(types) or same_kind([*types, "VARCHAR"])
            sql = {
                per_query.label: per_query.key_sql(left, text),
                outcomes.label: outcomes.key_sql(right, text),
            }
            yield _Column(f"k{i}", sql, f"k{i}", text)
        if self.by_system:
            yield _Column("s", {x.label: x.system_sql() for x in self.inputs}, "s", True)
        for i, name in enumerate(self.metrics):
            yield _Column(f"m{i}", {per_query.label: per_query.number_sql(name)}, f"favg(m{i})")
        for i, (name, *divisor) in enumerate(self.outcome_columns.values()):
            value = f"favg(o{i})"
            if divisor:
                known = f"FILTER (WHERE o{i} IS NOT NULL AND d{i} IS NOT NULL)"
                value = f"fsum(o{i}) {known} / nullif(fsum(d{i}) {known}, 0)"
                sql = {outcomes.label: outcomes.number_sql(*divisor)}
                yield _Column(f"d{i}", sql, f"min(d{i})")
            yield _Column(f"o{i}", {outcomes.label: outcomes.number_sql(name)}, value)
        for i, name in enumerate(self.by):
            tables = self.find_input(name)
            text = same_kind([*tables.types(name), "VARCHAR"])
            sql = {tables.label: tables.key_sql(name, text)}
            yield _Column(f"b{i}", sql, f"max(b{i})", text)
            yield _Column(f"c{i}", {}, f"min(b{i})", text)


class _Column(NamedTuple):
    """A column that is read: its SQL in every table of an input, and its value for a key."""

    alias: str
    sql: dict[str, list[str]]
    value: str
    # Read as bytes, which no collation takes for others.
    text: bool = False


def name_unit(keys: Sequence[str]) -> str:
    """What a row stands for: the name of the key; 'key' if there are several columns."""
    return show.row_noun(keys[0]) if len(keys) == 1 else "key"


def join_by_key(session: Session, join: KeyJoin) -> pl.DataFrame:
    """One row per key and system, with how many rows it has in either input."""
    columns, parts = list(join.columns()), []
    for tables in join.inputs:
        for i, table in enumerate(tables.tables.values()):
            own = [
                f"{c.sql[tables.label][i]} AS {c.alias}" for c in columns if tables.label in c.sql
            ]
            parts.append(f"    SELECT {', '.join(own)}, 1 AS {tables.label} FROM {table.sql}")
    values = [f"{column.value} AS {column.alias}" for column in columns]
    values += [f"count({tables.label}) AS {tables.label}" for tables in join.inputs]
    keys = [column.alias for column in columns if column.alias[0] in "ks"]
    union = "\n    UNION ALL BY NAME\n".join(parts)
    sql = f"SELECT {', '.join(values)}\nFROM (\n{union}\n)\nGROUP BY {', '.join(keys)}"
    with duckdb_errors():
        rows: pl.DataFrame = execute(session, sql).pl()
    texts = [column.alias for column in columns if column.text]
    return rows.with_columns(pl.col(texts).cast(pl.String)).sort(keys, nulls_last=True)

"""The tables that `check` looks at, with columns of one name and numbers as DOUBLE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankql import text
from rankql.diagnostics.findings import Finding, json_value
from rankql.macros import literal, quote
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import execute
from rankql.sources.session import Session
from rankql.sources.tables import ROLES, Table, same_kind


@dataclass(frozen=True)
class CheckedTable:
    """A run or the judgments as a table for the checks."""

    table: Table
    rows: int
    # The columns by role, those that evaluate ignores (a rank next to scores) included.
    roles: dict[str, str]
    # SQL of all rows, with raw_<role> as the table has it; and of rows with ids, NaN as NULL.
    raw: str
    clean: str
    keys: str = "query"
    # The role that evaluate ignores.
    unused: str | None = None

    @property
    def label(self) -> str:
        """The name of the table in reports."""
        return self.table.label

    @property
    def scored(self) -> bool:
        """Do scores make the ranking?"""
        return "score" in self.roles and self.unused != "score"

    @property
    def ranking_role(self) -> str:
        """The column that makes the ranking; where it is NULL, nothing was retrieved."""
        return "score" if self.scored else "pos"

    @property
    def system_column(self) -> str:
        """The column of systems, NULL where the run has only one."""
        return "system" if self.keys != "query" else "NULL AS system"

    @property
    def columns(self) -> dict[str, str]:
        """The columns, and the order of the scores where it is not the usual one."""
        return self.roles | ({"order": "ascending"} if self.table.ascending else {})

    def system_label(self, system: str | None) -> str:
        """The label of the table, or of one of the systems in it."""
        return self.label if system is None or self.label != "run" else f"run, system {system!r}"

    def level(self, role: str, level: str) -> str:
        """The level of a finding about a column; a column that evaluate ignores does no harm."""
        return "note" if role == self.unused else level

    def original_scores(self, rows: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        """Examples with the scores of the table, where they are negated because low is best."""
        if not self.table.ascending:
            return tuple(rows)
        scores = ("score", "score_above")
        return tuple(
            {n: -v if n in scores and isinstance(v, float) else v for n, v in row.items()}
            for row in rows
        )


@dataclass(frozen=True)
class CheckData:
    """Everything that the checks read."""

    session: Session
    inputs: Inputs
    k: int

    @cached_property
    def runs(self) -> list[CheckedTable]:
        """The runs."""
        return [self._read_run(table, name) for name, table in self.inputs.runs.items()]

    @cached_property
    def qrels(self) -> CheckedTable | None:
        """The judgments, where they are a table of their own."""
        if not self.inputs.qrels:
            return None
        roles = {role: self.inputs.qrels.roles[role] for role in ("query", "item", "rel")}
        return self._read(self.inputs.qrels, roles)

    @property
    def tables(self) -> list[CheckedTable]:
        """The runs and the judgments."""
        return [*self.runs, *([self.qrels] if self.qrels else [])]

    @property
    def graded(self) -> list[CheckedTable]:
        """The tables with grades."""
        return [table for table in self.tables if "rel" in table.roles]

    @property
    def judged_runs(self) -> list[tuple[CheckedTable, CheckedTable]]:
        """Each run with the judgments, where neither is empty."""
        return [(r, self.qrels) for r in self.runs if self.qrels and self.qrels.rows and r.rows]

    def fetch(self, sql: str) -> list[Any]:
        """The rows of a query."""
        return execute(self.session, sql).fetchall()

    def examples(self, sql: str, order: str = "ALL") -> tuple[dict[str, Any], ...]:
        """The first three rows of a query."""
        rows = execute(self.session, f"SELECT * FROM {sql} ORDER BY {order} LIMIT 3")
        names = rows.columns
        return tuple(
            {name: json_value(value) for name, value in zip(names, row, strict=True)}
            for row in rows.fetchall()
        )

    def find_rows(
        self, kind: str, level: str, table: CheckedTable, problem: str, noun: str, sql: str,
        why: str,
    ) -> Iterator[Finding]:  # fmt: skip
        """A finding that counts the rows of a query, if it has any; noun says what a row is."""
        ((count,),) = self.fetch(f"SELECT count(*) FROM {sql}")
        if count:
            message = f"{problem}: {text.format_count(count, noun)}"
            examples = table.original_scores(self.examples(sql))
            yield Finding(kind, level, table.label, count, message, why, examples)

    def _read_run(self, table: Table, name: str | None) -> CheckedTable:
        roles, unused = dict(table.roles), None
        if "pos" in roles:
            unused = "score" if "score" in roles else None
        elif ranks := next((c for c in table.columns if c.lower() in ROLES["pos"]), None):
            roles["pos"], unused = ranks, "pos"
        system = ""
        if self.inputs.many:
            column = f"CAST({quote(str(self.inputs.system))} AS VARCHAR)"
            system = f"{literal(name) if name else column} AS system"
        return self._read(table, roles, unused, system)

    def _read(
        self, table: Table, roles: dict[str, str], unused: str | None = None, system: str = ""
    ) -> CheckedTable:
        ids = [role for role in ("query", "item") if role in roles]
        numbers = [role for role in ("score", "pos", "rel") if role in roles]
        fields = [
            *([system] if system else []),
            *(f"{table.key(role, self.inputs.as_text(role))} AS {role}" for role in ids),
            *(f"{quote(roles[role])} AS raw_{role}" for role in numbers),
            *(f"{table.signed(role, _double(table, roles[role]))} AS {role}" for role in numbers),
        ]
        raw = f"(SELECT {', '.join(fields)} FROM {table.sql})"
        keys = ["system", *ids] if system else ids
        values = [f"CASE WHEN NOT {is_nan(role)} THEN {role} END AS {role}" for role in numbers]
        has_ids = " AND ".join(f"{key} IS NOT NULL" for key in keys)
        clean = f"(SELECT {', '.join([*keys, *values])} FROM {raw} WHERE {has_ids})"
        ((rows,),) = self.fetch(f"SELECT count(*) FROM {table.sql}")
        ranking = "system, query" if system else "query"
        return CheckedTable(table, rows, roles, raw, clean, ranking, unused)


def _double(table: Table, column: str) -> str:
    """A column as DOUBLE, NULL where it is not a number."""
    name = quote(column)
    if is_numeric(table, column):
        return f"CAST({name} AS DOUBLE)"
    return f"TRY_CAST(CAST({name} AS VARCHAR) AS DOUBLE)"


def is_nan(column: str) -> str:
    """The condition that a number is NaN. DuckDB 2.0 answers isnan() from the bounds in a Parquet
    file, which leave NaN out (duckdb issue 25521)."""
    return f"(NOT isfinite({column}) AND NOT isinf({column}))"


def is_numeric(table: Table, column: str) -> bool:
    """Does the column have a numeric type?"""
    return same_kind([table.columns[column], "DOUBLE"])

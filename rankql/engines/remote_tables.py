"""The tables of another database as DuckDB is told of them: their types and extreme values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from rankql.engines.databases import ATTRIBUTES, IDS, NUMERIC, Database, RemoteTable
from rankql.errors import RankqlError
from rankql.evaluation.column_checks import require_ids
from rankql.macros import quote
from rankql.registry.conventions import Conventions
from rankql.sources.inputs import Inputs
from rankql.sources.tables import Table, same_kind


def arrow_schema(table: RemoteTable) -> pa.Schema:
    """The columns as DuckDB is told of them."""
    fields = ((n, pa.float64() if k == NUMERIC else k) for n, k in table.columns.items())
    return pa.schema(fields)


def require_known_types(
    inputs: Inputs, tables: Mapping[str, RemoteTable], database: Database
) -> None:
    """Refuse ids and attributes of which it is not known how they compare or look."""
    for table in inputs.tables:
        columns = tables[table.label].columns
        attributes = [table.actual_name(name) for name in inputs.attributes_in(inputs.home(table))]
        for names, known, wrong in (
            (inputs.ids(table), IDS, "is neither text nor of whole numbers"),
            (attributes, ATTRIBUTES, "is of a type that no slices are made of"),
        ):
            for name in names:
                if columns[name] not in known:
                    raise RankqlError(
                        f"{table.label}: {name} {wrong} in {database.name}; cast it in a view"
                    )
    for name in inputs.by:
        kinds = dict.fromkeys(inputs.kinds(name))
        if not (
            same_kind([*kinds]) or kinds.keys() <= {"VARCHAR", "BIGINT", "INTEGER", "SMALLINT"}
        ):
            raise RankqlError(f"by: {name} is {', '.join(kinds)} in the runs; cast it in a view")


def read_extremes(
    database: Database, inputs: Inputs, table: Table, sql: str, conventions: Conventions
) -> list[tuple[str, float]]:
    """Values of columns, one of them bad if any is; refused is a table in which ids are NULL."""
    expressions: list[tuple[str, str]] = []
    for role in ("rel", "pos", "score"):
        if role in table.roles:
            value = number_column(table, role)
            expressions += [(role, f"min({value})"), (role, f"max({value})")]  # the highest is NaN
            if role == "pos":
                expressions += [
                    (role, f"max(CASE WHEN {value} <> floor({value}) THEN {value} END)")
                ]
            if role == "rel" and isinstance(conventions.gain, Mapping):
                known = ", ".join(map(str, conventions.gain))
                expressions += [(role, f"max(CASE WHEN {value} NOT IN ({known}) THEN {value} END)")]
    ids = inputs.ids(table)
    counts = [f"count({quote(name)})" for name in ids]
    columns = ", ".join(["count(*)", *counts, *(sql for _, sql in expressions)])
    ((total, *values),) = database.ask(f"SELECT {columns} FROM {sql}")
    require_ids(table.label, total, dict(zip(ids, values, strict=False)))
    pairs = zip(expressions, values[len(ids) :], strict=True)
    return [(table.roles[role], value) for (role, _), value in pairs if value is not None]


def sample_table(
    inputs: Inputs, table: Table, schema: pa.Schema, values: Sequence[tuple[str, float]]
) -> pa.Table:
    """A table of these columns, each value in a row with an id of its own."""
    ids = inputs.ids(table)
    columns = []
    for field in schema:
        if field.name in ids:
            cells = pa.array(range(len(values)), pa.int64())
        else:
            cells = pa.array([v if name == field.name else None for name, v in values])
        columns.append(cells.cast(field.type, safe=False))
    return pa.Table.from_arrays(columns, schema=schema)


def number_column(table: Table, role: str) -> str:
    """The column of a role as DOUBLE."""
    table.number(role)  # or it says what it is instead
    column = quote(table.roles[role])
    if table.columns[table.roles[role]] == "BOOLEAN":
        column = f"CAST({column} AS INTEGER)"
    return table.signed(role, f"CAST({column} AS DOUBLE PRECISION)")

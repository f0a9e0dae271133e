"""Check the columns of the tables: ids must not be NULL, and numbers must be numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankql.errors import RankqlError
from rankql.macros import quote
from rankql.sources.inputs import Inputs
from rankql.sources.list_checks import refuse_rounded
from rankql.sources.macro_sql import fetch
from rankql.sources.session import Session, duckdb_errors
from rankql.sources.tables import Table

# Errors about NaN in pandas, in the words of the macros for other sources.
PANDAS_NAN = {
    "rel": "must be a finite number, not nan",
    "pos": "must be a whole number from 1, not nan",
    "score": "must be a number, not nan",
}


def validate_columns(
    session: Session, inputs: Inputs, roles: Sequence[str] = ("rel", "pos", "score")
) -> int:
    """Refuse invalid values in the columns of these roles. With `rel`: the number of all rows."""
    rows = 0
    with duckdb_errors(session):
        for table in inputs.tables:
            if "rel" in roles:
                counts = count_values(session, table, inputs.ids(table))
                require_ids(table.label, *counts, table.unit)
                for name in inputs.ids(table):
                    refuse_rounded(session, table, name, "x_", table.columns[name])
                _refuse_pandas_nan(table)
                rows += counts[0]
            validate_numbers(session, table, roles)
    return rows


def _refuse_pandas_nan(table: Table) -> None:
    """Refuse NaN of pandas, which DuckDB reads as NULL, as NaN of other frames is refused."""
    for role, problem in PANDAS_NAN.items():
        if role == "score" and "pos" in table.roles:
            continue
        if table.nans(role):
            name = table.roles[role]
            remedy = f". If NaN means NULL, pass .astype({{{name!r}: 'Float64'}})"
            raise RankqlError(f"{table.label}: {name} {problem}{'' if role == 'score' else remedy}")


def count_values(
    session: Session, table: Table, names: Sequence[str]
) -> tuple[int, dict[str, int]]:
    """How many rows a table has, and in how many there is a value, by the name of its column."""
    total, values = session.counts.get(table.sql) or (None, {})
    if total is None or not values.keys() >= {*names}:
        columns = ["count(*)", *(f"count({quote(name)})" for name in names)]
        ((total, *counts),) = fetch(session, f"SELECT {', '.join(columns)} FROM {table.sql}")
        values = values | dict(zip(names, counts, strict=True))
        session.counts[table.sql] = total, values
    return total, {name: values[name] for name in names}


def require_ids(label: str, total: int, counts: Mapping[str, int], unit: str = "rows") -> None:
    """Refuse a table that is empty, or in which ids are NULL."""
    if not total:
        raise RankqlError(f"{label} is empty: it has no {unit}")
    for name, count in counts.items():
        if count < total:
            raise RankqlError(
                f"{label}: {name} is NULL in {total - count} of {total} {unit}. Leave them out"
            )


def validate_numbers(session: Session, table: Table, roles: Sequence[str]) -> None:
    """Refuse values that are not numbers."""
    bad = {}
    for role in roles:
        if role in table.roles and table.integer(role) is None:
            name, value = quote(table.roles[role]), table.number(role)
            bad[role] = f"{name} IS NOT NULL AND NOT coalesce(rankql_is_{role}({value}), false)"
    if bad:
        # No WHERE: DuckDB 2.0 would use the statistics of a file, which ignore NaN.
        columns = ", ".join(f"count(*) FILTER (WHERE {wrong})" for wrong in bad.values())
        (counts,) = fetch(session, f"SELECT {columns} FROM {table.sql}")
        bad = {role: wrong for (role, wrong), n in zip(bad.items(), counts, strict=True) if n}
    for role, wrong in bad.items():
        sql = f"SELECT any_value({table.read(role)}) FILTER (WHERE {wrong}) FROM {table.sql}"
        fetch(session, sql)
    if "pos" in roles and (pos := table.integer("pos")):
        wrong = f"WHERE {pos} < 1 OR {pos} > 9007199254740992 LIMIT 1"
        if session.con.execute(f"SELECT 1 FROM {table.sql} {wrong}").fetchall():
            fetch(session, f"SELECT {table.read('pos')} FROM {table.sql} {wrong}")

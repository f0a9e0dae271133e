"""Rows whose order is a role: positions or items by the number of the row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankql.errors import require
from rankql.macros import INTERNAL_PREFIX, quote
from rankql.sources.open.session import Session
from rankql.sources.tables import Table


def number_rows(
    session: Session, table: Table, names: Mapping[str, Any], system: str | None
) -> Table:
    """The run with positions from the order of its rows; lists have an order."""
    if "pos" in table.roles:
        return table
    query, named = table.find("query", names.get("query")), (names.get("pos"), names.get("score"))
    if query is None:
        return table  # an error of the roles
    keys = ", ".join(map(quote, [*([system] if system else []), query]))
    require(
        table.ordered and named == (None, None),
        "order='rows' needs a file or a frame, because rows of a table have no order, and no pos= "
        f"or score=. In SQL, write row_number() OVER (PARTITION BY {keys} ORDER BY ...)",
    )
    return add_row_number(session, table, "pos", f"{INTERNAL_PREFIX}row", "order of the rows", keys)


def add_row_number(
    session: Session, table: Table, role: str, name: str, origin: str, keys: str = ""
) -> Table:
    """The table with a column that numbers its rows: all, or those of each key."""
    sql = f"SELECT *, row_number() OVER () AS {name} FROM {table.sql}"
    if keys:
        number = f"row_number() OVER (PARTITION BY {keys} ORDER BY {name})"
        sql = f"SELECT * REPLACE ({number} AS {name}) FROM ({sql})"
    return add_place(session, table, role, name, origin, sql)


def add_place(session: Session, table: Table, role: str, name: str, origin: str, sql: str) -> Table:
    """The table with a column of numbers, which a query adds, as a role."""
    return replace(
        table,
        sql=session.load(table.label, f"({sql})", text=table.text).sql,
        columns={**table.columns, name: "BIGINT"},
        roles={**table.roles, role: name},
        origins={**table.origins, name: origin},
    )

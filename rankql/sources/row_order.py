"""Positions from the order of the rows: order='rows'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankql.errors import RankqlError
from rankql.macros import INTERNAL_PREFIX, quote
from rankql.registry.argument_checks import require
from rankql.sources.session import Session
from rankql.sources.tables import Table

# The column of the positions.
ROW = f"{INTERNAL_PREFIX}row"


def number_rows(
    session: Session,
    table: Table,
    order: Any,
    names: Mapping[str, Any],
    preferred: Mapping[str, Sequence[str]],
    system: str | None,
) -> Table:
    """The run with positions from the order of its rows, if order is 'rows'."""
    if order is None or "pos" in table.roles:  # lists have an order
        return table
    require(order == "rows", f"order must be 'rows' or None, not {order!r}")
    for role in ("pos", "score"):
        if names.get(role) is not None:
            raise RankqlError(f"order='rows' and {role}={names[role]!r} exclude each other")
    query = table.find("query", names.get("query"), preferred["query"])
    if query is None:
        return table  # an error of the roles
    keys = ", ".join(map(quote, [*([system] if system else []), query]))
    if not table.ordered:
        raise RankqlError(
            f"order='rows' needs a file or a frame, because rows of a table have no order. Number "
            f"those of {table.label} in SQL: row_number() OVER (PARTITION BY {keys} ORDER BY ...) "
            "AS pos"
        )
    position = f"row_number() OVER (PARTITION BY {keys} ORDER BY {ROW}_) AS {ROW}"
    rows = f"SELECT *, row_number() OVER () AS {ROW}_ FROM {table.sql}"
    numbered = session.load(table.label, f"(SELECT *, {position} FROM ({rows}))", text=table.text)
    columns = {**table.columns, ROW: "BIGINT"}
    return replace(
        table, sql=numbered.sql, columns=columns, lasting=False, roles={"pos": ROW},
        assumed={**table.assumed, "pos": "order of the rows"},
    )  # fmt: skip

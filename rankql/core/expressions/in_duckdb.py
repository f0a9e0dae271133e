"""Metrics that DuckDB computes by the SQL macro of the same name, over columns of polars.

They have one definition, the SQL. polars packs the rows of each group into a list of structs.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from numbers import Integral, Real
from typing import Any

import duckdb
import polars as pl

from rankql.core.base.errors import RankqlError, python_message, require
from rankql.core.expressions.checked_columns import column
from rankql.core.metrics import macros
from rankql.core.tables.frames import read_frame, register_frame
from rankql.core.tables.private import create_macros, private_connection

ROWS_TABLE = "__rankql_rows"
# The column with the number of a group, or of a row.
_GROUP = "__rankql_group"


def aggregate(call: str, result: Any = pl.Float64, checked: bool = True, **columns: Any) -> pl.Expr:
    """What the call of a macro gives for each group of rows with these columns.

    A column `k` has the cutoff of each group. checked: the macro checks positions, grades and
    options too, which takes several times as long to plan as the metric.
    """
    pack = _pack(columns).implode()
    several = partial(aggregate_lists, call, by_k="k" in columns, checked=checked)
    return pack.map_batches(several, result, is_elementwise=True)


def aggregate_lists(
    call: str, groups: pl.Series, by_k: bool = False, checked: bool = True
) -> pl.Series:
    """What the call of a macro gives for each list of rows; by_k: with the cutoff in `k`."""
    keys = f"{_GROUP}, k" if by_k else _GROUP
    every = pl.DataFrame({_GROUP: pl.int_range(len(groups), eager=True), "r": groups})
    rows = every.filter(pl.col("r").list.len() > 0).explode("r").unnest("r")
    if by_k:
        _require_one_k(rows)
    sql = f"SELECT {_GROUP}, {call} AS value FROM {ROWS_TABLE} GROUP BY {keys}"
    found = run_query(sql, rows, checked)
    if len(found) < len(every):  # groups without rows
        end = "WHERE false GROUP BY k" if by_k else "WHERE false"
        none = run_query(f"SELECT {call} AS value FROM {ROWS_TABLE} {end}", rows, checked)
        none = none if len(none) else pl.DataFrame({"value": [None]}, schema=none.schema)
        empty = every.select(_GROUP).join(found, on=_GROUP, how="anti")
        found = pl.concat([found, empty.join(none, how="cross")])
    return found.sort(_GROUP)["value"]


def _require_one_k(rows: pl.DataFrame) -> None:
    """Refuse groups with several cutoffs, and cutoffs that are not whole numbers from 1."""
    k, wrong = rows["k"], "k must be one whole number from 1 in a group"
    require(k.dtype.is_numeric() or k.dtype == pl.Null, f"{wrong}, not {k.dtype}")
    number = k.cast(pl.Float64)
    for bad in k.filter(~((number >= 1) & (number % 1 == 0))).head(1):
        raise RankqlError(f"{wrong}, not {bad}")
    of_group = rows.group_by(_GROUP).agg(pl.col("k").unique().sort())["k"]
    for several in of_group.filter(of_group.list.len() > 1).head(1):
        raise RankqlError(f"{wrong}, not {' and '.join(map(str, several.head(2)))}")


def compute(call: str, result: Any, **columns: Any) -> pl.Expr:
    """What the call of a macro gives for each row with these columns."""

    def values(rows: pl.Series) -> pl.Series:
        table = rows.struct.unnest().with_columns(pl.int_range(pl.len()).alias(_GROUP))
        sql = f"SELECT {call} AS value FROM {ROWS_TABLE} ORDER BY {_GROUP}"
        return run_query(sql, table)["value"]

    return _pack(columns).map_batches(values, result, is_elementwise=True)


def _pack(columns: Mapping[str, Any]) -> pl.Expr:
    scalar = (int, float, Decimal, list, tuple, datetime.date, datetime.timedelta, type(None))
    named = {x: pl.lit(y) if isinstance(y, scalar) else column(y) for x, y in columns.items()}
    return pl.struct([value.alias(name) for name, value in named.items()])


def run_query(query: str, table: pl.DataFrame, checked: bool = True) -> pl.DataFrame:
    """The result of a query over the rows, in a database of its own."""
    with private_connection() as con:
        try:
            # In one chunk: errors must not depend on the frame's chunks.
            register_frame(con, ROWS_TABLE, table.rechunk())
            return read_frame(con, create_macros(con, query, checked))
        except duckdb.Error as error:
            raise RankqlError(python_message(error)) from error


def value_sql(value: object) -> str:
    """An option as SQL of the same type, which the macro checks."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | Integral | Decimal):
        return str(value)
    if isinstance(value, Real):
        return f"'{float(value)!r}'::DOUBLE"
    if isinstance(value, datetime.datetime):
        zone = "" if value.tzinfo is None else "TZ"
        return f"TIMESTAMP{zone} '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, datetime.timedelta):
        return f"to_microseconds({value // datetime.timedelta(microseconds=1)})"
    return macros.literal(value if isinstance(value, str | list | tuple) else str(value))

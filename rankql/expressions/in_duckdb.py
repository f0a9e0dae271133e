"""Metrics that DuckDB computes by the SQL macro of the same name, over columns of polars.

They have one definition, the SQL. polars packs the rows of each group into a list of structs.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import wraps
from numbers import Integral, Real
from types import EllipsisType
from typing import Any, cast

import duckdb
import polars as pl

from rankql import macros
from rankql.errors import RankqlError, database_message, require_cutoff
from rankql.expressions.checked_columns import Column, column
from rankql.expressions.variants import Args, MetricFunction, metric
from rankql.sources.frames import read_frame, register_frame
from rankql.sources.private import create_macros, private_connection

ROWS_TABLE = "__rankql_rows"


def macro(
    by: tuple[str, ...] | EllipsisType | None = ...,
) -> Callable[[Callable[Args, None]], MetricFunction[Args]]:
    """A metric with the macro of its name, given its signature and docstring. by: see `metric`."""

    def decorate(function: Callable[Args, None]) -> MetricFunction[Args]:
        parameters = inspect.signature(function).parameters.values()
        read = {x.name for x in parameters if "Column" in x.annotation}

        @wraps(function)
        def of_group(**arguments: Any) -> pl.Expr:
            require_cutoff(arguments.get("k"))
            values = (f"r['{x}']" if x in read else value_sql(y) for x, y in arguments.items())
            call = f"{function.__name__}({', '.join(values)})"
            return aggregate(call, **{x: y for x, y in arguments.items() if x in read})

        return metric(by, checks_positions=False)(cast("Callable[Args, pl.Expr]", of_group))

    return decorate


def aggregate(call: str, result: Any = pl.Float64, **columns: Any) -> pl.Expr:
    """What the call of a macro gives for each group, whose columns are fields of r."""
    rows = f"(SELECT g, unnest(r) AS r FROM {ROWS_TABLE})"

    def values(groups: pl.Series) -> pl.Series:
        table = pl.DataFrame({"g": pl.int_range(len(groups), eager=True), "r": groups})
        found = run_query(f"SELECT g, {call} AS value FROM {rows} GROUP BY g", table)
        if len(found) < len(table):  # groups without rows
            none = run_query(f"SELECT {call} AS value FROM {rows} WHERE false", table)
            empty = table.select("g").join(found, on="g", how="anti")
            found = pl.concat([found, empty.join(none, how="cross")])
        return found.sort("g")["value"]

    return _pack(columns).implode().map_batches(values, result, is_elementwise=True)


def compute(call: str, result: Any, **columns: Any) -> pl.Expr:
    """What the call of a macro gives for each row, whose columns are fields of r."""
    sql = f"SELECT {call} AS value FROM {ROWS_TABLE} ORDER BY g"

    def values(rows: pl.Series) -> pl.Series:
        table = pl.DataFrame({"g": pl.int_range(len(rows), eager=True), "r": rows})
        return run_query(sql, table)["value"]

    return _pack(columns).map_batches(values, result, is_elementwise=True)


def _pack(columns: Mapping[str, Any]) -> pl.Expr:
    named = {x: column(y) if isinstance(y, Column) else pl.lit(y) for x, y in columns.items()}
    return pl.struct([value.alias(name) for name, value in named.items()])


def run_query(query: str, table: pl.DataFrame) -> pl.DataFrame:
    """The result of a query over the rows, in a database of its own."""
    with private_connection() as con:
        try:
            # In one chunk: errors must not depend on the frame's chunks.
            register_frame(con, ROWS_TABLE, table.rechunk())
            return read_frame(con, create_macros(con, query, True))
        except duckdb.Error as error:
            raise RankqlError(database_message(error)) from error


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

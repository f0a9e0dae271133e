"""Functions of a whole table: the SQL macro of the same name, run in DuckDB over a polars frame.

The SQL is the only definition. A column given as an expression is computed by polars first; the
macro gets it under the name of the expression, which its errors then show.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from numbers import Integral, Real

import duckdb
import polars as pl

from rankql import macros
from rankql.errors import RankqlError, database_message
from rankql.expressions.columns import Column, column
from rankql.expressions.variants import Frame, require_columns

Columns = Mapping[str, "Column | None"]


def run_table_macro(
    frame: Frame, macro: str, columns: Columns, options: Mapping[str, object], schema: pl.Schema
) -> Frame:
    """The rows of a table macro over a frame, one row per group or position.

    columns: the parameters of the macro that name a column; None is passed on as NULL.
    schema: the columns of the result. A slice keeps the type that it has in the frame.
    """
    exprs, names = _name_columns(frame, columns)
    selected = frame.lazy().select(exprs)
    if columns.get("slice") is not None:
        kind = selected.collect_schema()[names["slice"] or ""]
        schema = pl.Schema({"slice": kind, **schema})
    query = _macro_call(macro, {**names, **options})

    def rows(table: pl.DataFrame) -> pl.DataFrame:
        return _run_query(query, table).select(
            pl.col(name).cast(kind) for name, kind in schema.items()
        )

    return _collect_like(frame, _map_rows(selected, rows, schema))


def add_column_by_table_macro(
    frame: Frame, macro: str, columns: Columns, options: Mapping[str, object], name: str
) -> Frame:
    """The frame with the text column that a table macro adds; its rows keep their order."""
    exprs, names = _name_columns(frame, columns)
    query = f"SELECT {name} FROM {_macro_call(macro, {**names, **options})} ORDER BY {_INDEX}"

    def values(rows: pl.Series) -> pl.Series:
        table = rows.struct.unnest().with_row_index(_INDEX)
        return _run_query(query, table)[name]

    added = pl.struct(exprs).map_batches(values, pl.String, is_elementwise=False)
    return frame.with_columns(added.alias(name))


_INDEX = "__rankql_index"


def _name_columns(
    frame: pl.DataFrame | pl.LazyFrame, columns: Columns
) -> tuple[list[pl.Expr], dict[str, str | None]]:
    """The columns to hand over, each once, and by parameter the name of its column."""
    exprs = {role: column(given) for role, given in columns.items() if given is not None}
    require_columns(frame, *exprs.values())
    names: dict[str, str | None] = dict.fromkeys(columns)
    selected: dict[str, pl.Expr] = {}
    for role, expr in exprs.items():
        name = expr.meta.output_name()
        while name in selected and not selected[name].meta.eq(expr.alias(name)):
            name += "_"  # another expression has the name
        selected[name] = expr.alias(name)
        names[role] = name
    return list(selected.values()), names


def _macro_call(macro: str, arguments: Mapping[str, object]) -> str:
    options = (f", {name} := {_literal(value)}" for name, value in arguments.items())
    return f"{macro}('{_TABLE}'{''.join(options)})"


_TABLE = "__rankql_rows"


def _literal(value: object) -> str:
    """An option as SQL of the same type, so that the macro judges what the caller wrote."""
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
    return macros.literal(value if isinstance(value, str) else str(value))


def _run_query(query: str, table: pl.DataFrame) -> pl.DataFrame:
    """The result of a query over the rows, in a database of its own."""
    create, renamed = macros.isolate_macros(
        f"FROM {query}" if query[:7] != "SELECT " else query, True
    )
    with duckdb.connect() as con:
        con.register(_TABLE, table)
        try:
            con.execute(create).fetchall()
            result: pl.DataFrame = con.sql(renamed).pl()
            return result
        except duckdb.Error as error:
            raise RankqlError(database_message(error)) from error


def _map_rows(
    frame: pl.LazyFrame, rows: Callable[[pl.DataFrame], pl.DataFrame], schema: pl.Schema
) -> pl.LazyFrame:
    return frame.map_batches(
        rows,
        predicate_pushdown=False,
        projection_pushdown=False,
        slice_pushdown=False,
        schema=schema,
    )


def _collect_like(frame: Frame, found: pl.LazyFrame) -> Frame:
    """Lazy where the frame is."""
    return found if isinstance(frame, pl.LazyFrame) else found.collect()

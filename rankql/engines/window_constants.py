"""What no row decides, such as an option: worked out by DuckDB when the query is written."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache
from threading import Lock
from typing import Any

import duckdb
from sqlglot import exp

from rankql import macros
from rankql.engines.sql_trees import parse_sql
from rankql.engines.window_macros import AGGREGATES
from rankql.engines.window_steps import INTERNAL
from rankql.errors import RankqlError, database_message


def compute_constant(node: exp.Expr) -> exp.Expr:
    """The literal that DuckDB finds for an expression without rows."""
    return _to_literal(_compute_in_duckdb(node.sql(dialect="duckdb", normalize_functions=False)))


@cache
def _compute_in_duckdb(text: str) -> Any:
    try:
        with _LOCK:
            ((value,),) = _connection().execute(f"SELECT {text}").fetchall()
    except duckdb.Error as error:
        raise RankqlError(database_message(error)) from error
    return value


_LOCK = Lock()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    macros.register(con)
    return con


def _to_literal(value: Any) -> exp.Expr:
    if isinstance(value, list):
        return exp.Array(expressions=[_to_literal(part) for part in value])
    if value is None or isinstance(value, str | bool | int):
        return exp.convert(value)
    if isinstance(value, float | Decimal):
        finite = math.isfinite(value)
        text = exp.Literal.string(str(value))
        return exp.convert(float(value)) if finite else exp.cast(text, "DOUBLE")
    raise RankqlError(f"an option must be a number, a text or a list of them, not {value}")


def is_constant(node: exp.Expr) -> bool:
    """Does no row decide it?"""
    return not any(
        isinstance(part, exp.Column | exp.Star | exp.Window | exp.Query | exp.Lambda)
        or (
            isinstance(part, exp.Anonymous)
            and part.name.lower() in {*AGGREGATES, "error", "row_number"}
        )
        for part in node.walk()
    )


def refuse_option(result: exp.Expr | None) -> None:
    """Refuse what is an error whatever the rows are."""
    if isinstance(result, exp.Anonymous) and result.name == "error":
        (message,) = result.expressions
        if message.is_string:
            raise RankqlError(message.name)


def is_one(node: exp.Expr) -> bool:
    """Is it the number 1?"""
    return isinstance(node, exp.Literal) and node.this in ("1", "1.0") and not node.is_string


def is_double(node: exp.Expr) -> bool:
    """Is it surely a DOUBLE, also where numbers with a point are none?"""
    match node:
        case exp.Column():
            return INTERNAL in node.meta
        case exp.Cast():
            return bool(node.to.this == exp.DType.DOUBLE)
        case exp.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            return any(map(is_double, filter(None, [*values, node.args.get("default")])))
        case exp.Anonymous() if node.name.lower() == "count":
            return False
        case exp.Anonymous() | exp.Paren() | exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return any(map(is_double, node.iter_expressions()))
    return False


def fill_template(template: str, value: exp.Expr) -> exp.Expr:
    """The template with the value in its place."""
    made = parse_sql(template.format("value"))
    return made.transform(lambda part: value.copy() if isinstance(part, exp.Column) else part)


def as_float_literal(node: exp.Expr) -> exp.Expr:
    """A whole number with a point, for an engine that would keep it whole."""
    whole = isinstance(node, exp.Literal) and node.is_int
    return exp.Literal.number(f"{node.this}.0") if whole else node


def as_text(value: exp.Expr) -> exp.Expr:
    """The value cast to text, unless it is text already."""
    cast_to_it = isinstance(value, exp.Cast) and value.to.is_type(*exp.DataType.TEXT_TYPES)
    kept = cast_to_it or isinstance(value, exp.DPipe) or value.is_string
    return value if kept else exp.cast(value, "VARCHAR")

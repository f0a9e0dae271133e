"""Constant folding: options are constants, and complete branches of the macros depend on them.

What depends on no row is computed by DuckDB while the query is written. So a wrong option is an
error at once, and all engines get the same constants.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache
from threading import Lock
from typing import Any, cast

import duckdb
from sqlglot import exp

from rankql import macros
from rankql.errors import RankqlError, database_message

AGGREGATES = {"any_value", "avg", "count", "list", "max", "min", "sum"}

# Syntax that DuckDB computes where no row decides it.
_COMPUTED = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.DPipe, exp.Paren, exp.Not, exp.Is),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Like),
    *(exp.SimilarTo, exp.Cast, exp.TryCast, exp.Bracket, exp.Anonymous),
)


def is_computable(node: exp.Expr) -> bool:
    """Can DuckDB compute it while the query is written?

    An integer with its type stays: without it, it is an INT in Spark.
    """
    typed = (
        isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.is_type("BIGINT")
    )
    return isinstance(node, _COMPUTED) and not typed and is_constant(node)


def is_constant(node: exp.Expr) -> bool:
    """Does it depend on no row?"""
    return not any(
        isinstance(part, exp.Column | exp.Star | exp.Window | exp.Query | exp.Lambda)
        or (isinstance(part, exp.Anonymous) and part.name.lower() not in _scalar_functions())
        for part in node.walk()
    )


@cache
def _scalar_functions() -> frozenset[str]:
    """The scalar functions and macros of DuckDB. Targets have others."""
    query = (
        "SELECT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro')"
    )
    with _LOCK:
        names = {name for (name,) in _connection().execute(query).fetchall()}
    return frozenset(names - {"error", "max", "min", "list"})


def compute_constant(node: exp.Expr, typed: bool = True) -> exp.Expr:
    """The literal that DuckDB computes; numbers with a point are cast to DOUBLE if `typed`."""
    text = node.sql(dialect="duckdb", normalize_functions=False)
    return _to_literal(_compute_in_duckdb(text), typed)


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


def _to_literal(value: Any, typed: bool) -> exp.Expr:
    if isinstance(value, list):
        return exp.Array(expressions=[_to_literal(part, typed) for part in value])
    if isinstance(value, dict):
        fields = (
            (exp.to_identifier(n, quoted=True), _to_literal(v, typed)) for n, v in value.items()
        )
        return exp.Struct(expressions=[exp.PropertyEQ(this=n, expression=v) for n, v in fields])
    if value is None or isinstance(value, str | bool | int):
        return exp.convert(value)
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
        literal = exp.convert(float(value))
        return exp.cast(literal, "DOUBLE") if typed else literal
    raise RankqlError(f"An option must be a number, a text or a list of them, not {value}.")


def constant_condition(node: exp.Expr) -> bool | exp.Expr | None:
    """True, False or None (for NULL) if the condition is constant, else the condition."""
    match node.unnest():
        case exp.Null():
            return None
        case exp.Boolean() as value:
            return bool(value.this)
    return node


def fold(node: exp.Expr) -> exp.Expr:
    """The expression without the parts that constants decide."""
    match node:
        case exp.Paren() if isinstance(node.this, _ATOMS):
            return cast(exp.Expr, node.this)
        case exp.And() | exp.Or():
            neutral = isinstance(node, exp.And)
            one, other = constant_condition(node.this), constant_condition(node.expression)
            if one is neutral or other is (not neutral):
                return cast(exp.Expr, node.expression)
            if other is neutral or one is (not neutral):
                return cast(exp.Expr, node.this)
        case exp.Anonymous() if node.name.lower() == "coalesce":
            first, *rest = node.expressions
            if isinstance(first, exp.Null) and rest:
                return fold(function_call("coalesce", *rest)) if len(rest) > 1 else rest[0]
            return first if is_constant(first) and not isinstance(first, exp.Null) else node
    return node


def parenthesise(node: exp.Expr) -> exp.Expr:
    """The expression in parentheses, where it may become part of another expression."""
    return node if isinstance(node, _ATOMS) else exp.Paren(this=node)


_ATOMS = (
    *(exp.Column, exp.Literal, exp.Null, exp.Boolean, exp.Anonymous, exp.Paren, exp.Case, exp.Dot),
    *(exp.Array, exp.Struct, exp.Cast, exp.TryCast, exp.Lambda, exp.Filter, exp.Star),
    exp.Identifier,
)


def function_call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call of a function of the target."""
    return exp.Anonymous(this=name, expressions=[*arguments])

"""Constant folding: options are constants, and whole branches of the macros depend on them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from sqlglot import exp

NOT_CONSTANT = object()


def fold(node: exp.Expr) -> exp.Expr:
    """What is known from constants alone, decided here: the rest need not even have a type."""
    match node:
        case exp.Case():
            return _fold_case(node)
        case exp.Paren() if isinstance(node.this, _ATOMS):
            return cast(exp.Expr, node.this)
        case exp.Is() if isinstance(node.expression, exp.Null):
            value = constant_value(node.this)
            known = isinstance(node.this, exp.Array | exp.Struct) or value is not NOT_CONSTANT
            return exp.convert(value is None) if known else node
        case exp.And() | exp.Or():
            neutral = isinstance(node, exp.And)
            value = constant_value(node.this)
            if value is neutral:
                return cast(exp.Expr, node.expression)
            if constant_value(node.expression) is neutral:
                return cast(exp.Expr, node.this)
            if isinstance(value, bool):
                return exp.convert(not neutral)
        case exp.Anonymous() if node.name.lower() == "coalesce":
            first, *rest = node.expressions
            if rest and constant_value(first) is None:
                made = exp.Anonymous(this="coalesce", expressions=rest)
                return fold(made) if len(rest) > 1 else rest[0]
            return first if constant_value(first) is not NOT_CONSTANT else node
        case _ if isinstance(node, exp.Anonymous) or type(node) in _OPERATORS:
            value = evaluate_call(node)
            return node if value is NOT_CONSTANT else exp.convert(value)
    return node


def _fold_case(node: exp.Case) -> exp.Expr:
    kept: list[exp.If] = []
    for branch in node.args["ifs"]:
        condition = branch.this
        if node.this is not None:
            condition = fold(
                exp.EQ(this=parenthesise(node.this.copy()), expression=condition.copy())
            )
        value = constant_value(condition)
        if value is False or value is None:
            continue
        if value is True:
            if not kept:
                return cast(exp.Expr, branch.args["true"])
            return exp.Case(this=node.this, ifs=kept, default=branch.args["true"])
        kept.append(branch)
    default = node.args.get("default")
    if not kept:
        return default or exp.Null()
    return exp.Case(this=node.this, ifs=kept, default=default)


def constant_value(node: exp.Expr) -> Any:
    """The value of what is known without any row: whole numbers, texts, what is true or false."""
    match node:
        case exp.Paren():
            return constant_value(node.this)
        case exp.Null():
            return None
        case exp.Boolean():
            return node.this
        case exp.Literal():
            whole = node.this.isdecimal()
            return node.this if node.is_string else int(node.this) if whole else NOT_CONSTANT
        case exp.Cast() if isinstance(node.this, exp.Condition):
            value = constant_value(node.this)
            if isinstance(value, str | bool) and node.to.is_type(*exp.DataType.TEXT_TYPES):
                return str(value).lower() if isinstance(value, bool) else value
            number = node.to.this in (exp.DType.DOUBLE, exp.DType.BIGINT)
            known = value is None or (number and type(value) is int and value <= 2**53)
            return value if known else NOT_CONSTANT
    return NOT_CONSTANT


def evaluate_call(node: exp.Expr) -> Any:
    """The value of an operator or a function whose operands are constants."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    known = CONSTANT_FUNCTIONS.get(name) or _OPERATORS.get(type(node))
    values = []
    for part in node.iter_expressions() if known else ():
        values.append(constant_value(part))
        if type(values[-1]) not in (int, str, bool) or type(values[-1]) is not type(values[0]):
            return NOT_CONSTANT
    return known(*values) if known and values else NOT_CONSTANT


_OPERATORS: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.DPipe: operator.add,
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.RegexpLike: lambda text, pattern: bool(re.search(pattern, text)),
    exp.Not: operator.not_,
    exp.Between: lambda value, low, high: low <= value <= high,
    exp.In: lambda value, *among: value in among,
}


# Those that helpers of ours apply to options.
CONSTANT_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "floor": math.floor,
    "greatest": max,
    "least": min,
    "isfinite": math.isfinite,
    "typeof": lambda value: "VARCHAR" if isinstance(value, str) else "INTEGER",
}


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

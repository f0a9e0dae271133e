"""Rules that several engines share: what is written in place of a piece of DuckDB's syntax."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from rankql.engines.folding import NOT_CONSTANT, constant_value, function_call
from rankql.engines.translation import Rule, Translator


def is_plain_condition(node: exp.Expr) -> bool:
    """Is it part of a WHERE, HAVING or ON that NULL passes no more than false?"""
    while isinstance(node.parent, exp.And | exp.Paren):
        node = node.parent
    return isinstance(node.parent, exp.Where | exp.Having)


def sort_rule(up: Callable[[exp.Expr], exp.Expr], down: Callable[[exp.Expr], exp.Expr]) -> Rule:
    """list_sort() with NULL last, as all our sorts have it."""

    def rule(translator: Translator, node: exp.Anonymous) -> exp.Expr:
        values, *how = node.expressions
        match [part.this for part in how if isinstance(part, exp.Literal)]:
            case ["ASC", "NULLS LAST"]:
                return up(values)
            case ["DESC", "NULLS LAST"]:
                return down(values)
        translator.refuse("list_sort() in another order than 'ASC' or 'DESC' with 'NULLS LAST'")

    return rule


def split_index(translator: Translator, node: exp.Bracket) -> tuple[exp.Expr, bool]:
    """The index of an entry, from 1; or the end of a slice from 1, and that it is one."""
    (index,) = node.expressions
    if isinstance(index, exp.Slice):
        begins = index.this is None or index.this.sql() == "1"
        if index.expression is None or not begins or index.args.get("step"):
            translator.refuse("a slice that does not begin with 1 and have an end")
        return index.expression, True
    if isinstance(index, exp.Neg):
        translator.refuse("an index from the end")
    return index, False


def similar_to_pattern(translator: Translator, node: exp.SimilarTo) -> exp.Literal:
    """The pattern of SIMILAR TO, which all of the text must match."""
    if not isinstance(node.expression, exp.Literal):
        translator.refuse("SIMILAR TO with a pattern that is no constant")
    return exp.Literal.string(f"^({node.expression.this})$")


def cast_rule(error: str) -> Rule:
    """A cast that fails where it cannot be, as DuckDB's does, and is not NULL."""

    def rule(translator: Translator, node: exp.Cast) -> exp.Expr:
        known = constant_value(node.this) is not NOT_CONSTANT
        if known or not translator.in_user_sql or node.to.args.get("nested"):
            return node
        failed = exp.Is(this=node.copy(), expression=exp.Null())
        given = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null()))
        message = f"{node.this.sql()} holds what cannot be cast to {node.to.sql()}"
        raised = exp.cast(function_call(error, exp.Literal.string(message)), node.to)
        branch = exp.If(this=exp.And(this=failed, expression=given), true=raised)
        return exp.Case(ifs=[branch], default=node)

    return rule


def divide_as_double(translator: Translator, node: exp.Div) -> exp.Expr:
    """A quotient: that of DECIMALs has few places elsewhere."""
    if translator.in_user_sql:
        node.set("this", exp.cast(node.this, "DOUBLE"))
    return node


def average_as_double(node: exp.Anonymous) -> exp.Anonymous:
    """avg() of values as DOUBLE."""
    (value,) = node.expressions
    if isinstance(value, exp.Distinct):
        made = exp.Distinct(expressions=[exp.cast(part, "DOUBLE") for part in value.expressions])
        return function_call("avg", made)
    return function_call("avg", exp.cast(value, "DOUBLE"))

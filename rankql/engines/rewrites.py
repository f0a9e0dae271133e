"""Rewrite rules that several engines share."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from rankql.engines.constants import function_call
from rankql.engines.translation import Rule, Translator


def sort_rule(up: Callable[[exp.Expr], exp.Expr], down: Callable[[exp.Expr], exp.Expr]) -> Rule:
    """A rule for list_sort() with NULL last, the only order that macros use."""

    def rule(translator: Translator, node: exp.Anonymous) -> exp.Expr:
        values, *how = node.expressions
        match [part.this for part in how if isinstance(part, exp.Literal)]:
            case ["ASC", "NULLS LAST"]:
                return up(values)
            case ["DESC", "NULLS LAST"]:
                return down(values)
        translator.refuse("list_sort() in another order than 'ASC' or 'DESC' with 'NULLS LAST'")

    return rule


def split_index(node: exp.Bracket) -> tuple[exp.Expr, bool]:
    """The index of an entry, or the end of a slice `[:end]`, and whether it is a slice."""
    (index,) = node.expressions
    if isinstance(index, exp.Slice):
        return index.expression, True
    return index, False


def similar_to_pattern(node: exp.SimilarTo) -> exp.Literal:
    """The regular expression of SIMILAR TO, which must match the complete text."""
    return exp.Literal.string(f"^({node.expression.this})$")


def average_as_double(node: exp.Anonymous) -> exp.Anonymous:
    """avg() of values cast to DOUBLE, because that of DECIMAL has few decimal places."""
    (value,) = node.expressions
    return function_call("avg", exp.cast(value, "DOUBLE"))

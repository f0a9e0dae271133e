"""Errors in ClickHouse: casts of a message to a number."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from rankql.engines.constants import function_call
from rankql.engines.sql_trees import replace_node


def cast_errors(tree: exp.Expr) -> exp.Expr:
    """Errors, by a cast of what is to be said to a number: a function that raises says constants.

    What CASE does not come to is worked out all the same at times, and always in a lambda whose
    variable is no part of it: so the text is a number unless the CASE comes to it.
    """
    for call in [*tree.find_all(exp.Anonymous)]:
        if call.name == "error":
            # Of text that may be NULL, what is no number is NULL.
            message = function_call("assumeNotNull", _reached_message(call))
            message = function_call("materialize", message)
            tree = replace_node(tree, call, function_call("toUInt8", message))
    return tree


# The aggregates that the macros call, as they are called there.
_AGGREGATES = frozenset(
    {"any", "avgOrNull", "count", "groupArray", "maxOrNull", "minOrNull", "sumOrNull", "uniqExact"}
)


def _reached_message(call: exp.Anonymous) -> exp.Expr:
    """The message of an error where its CASE comes to it, else 0."""
    message = _without_errors(call.expressions[0])
    branch: Any = call
    while branch.parent and not isinstance(branch.parent, exp.If | exp.Case):
        branch = branch.parent
        if isinstance(branch, exp.Anonymous) and branch.name in _AGGREGATES:
            return message  # a CASE around the aggregate decides nothing for its rows
    if not branch.parent or branch.arg_key == "this":
        return message
    ifs = []
    for part in branch.find_ancestor(exp.Case).args["ifs"]:
        last = part is branch.parent
        result = message if last else exp.Literal.string("0")
        ifs.append(exp.If(this=_without_errors(part.this), true=result))
        if last:
            return exp.Case(ifs=ifs, default=exp.Literal.string("0"))
    return exp.Case(ifs=ifs, default=message)


def _without_errors(node: exp.Expr) -> exp.Expr:
    """The same without its errors, which are raised elsewhere."""
    return node.copy().transform(
        lambda part: (
            exp.Null() if isinstance(part, exp.Anonymous) and part.name == "error" else part
        )
    )

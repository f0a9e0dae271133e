"""Errors in ClickHouse, written as casts of a message to a number."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from rankql.engines.constants import function_call
from rankql.engines.sql_trees import replace_node


def cast_errors(tree: exp.Expr) -> exp.Expr:
    """Replace error() by a cast of the message to a number: throwIf() accepts constants only.

    ClickHouse sometimes computes branches of CASE that are not taken, and always in lambdas whose
    variable they do not use. So the text is a number unless the branch is taken.
    """
    for call in [*tree.find_all(exp.Anonymous)]:
        if call.name == "error":
            # A cast of Nullable text would return NULL.
            message = function_call("assumeNotNull", _reached_message(call))
            message = function_call("materialize", message)
            tree = replace_node(tree, call, function_call("toUInt8", message))
    return tree


# Aggregates of the macros, by their names in ClickHouse.
_AGGREGATES = frozenset(
    {"any", "avgOrNull", "count", "groupArray", "maxOrNull", "minOrNull", "sumOrNull", "uniqExact"}
)


def _reached_message(call: exp.Anonymous) -> exp.Expr:
    """The message if the branch of its CASE is taken, else 0."""
    message = _without_errors(call.expressions[0])
    branch: Any = call
    while branch.parent and not isinstance(branch.parent, exp.If | exp.Case):
        branch = branch.parent
        if isinstance(branch, exp.Anonymous) and branch.name in _AGGREGATES:
            return message  # a CASE around an aggregate does not skip rows
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
    """The expression without its errors, which are raised elsewhere."""
    return node.copy().transform(
        lambda part: (
            exp.Null() if isinstance(part, exp.Anonymous) and part.name == "error" else part
        )
    )

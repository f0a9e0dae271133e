"""The macros of window queries, and the places where a query calls them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from sqlglot import exp

from rankql import macros
from rankql.engines.constants import AGGREGATES
from rankql.engines.sql_trees import Macro, macro_trees, read_macros


@cache
def window_macros() -> dict[str, Macro]:
    """The macros of sql/; those of sql/windows.sql replace others of the same name."""
    return {**macro_trees("duckdb"), **read_macros(macros.read_statements("windows"))}


@cache
def window_metrics() -> frozenset[str]:
    """The metrics with a window form: metrics of rows that need only sums and windows."""
    listed = {name for family in _FAMILIES for name in macros.read_statements(family)}
    return frozenset(
        name for name in listed & set(macros.read_comments()) if not alternative_form(name)
    )


# Files of metrics that need only sums and windows; windows.sql has that of `auc`.
_FAMILIES = ("gain", "precision", "cascade", "rating", "windows")


def alternative_form(name: str) -> str:
    """What to use instead of a list or score form, or an empty text."""
    if name.startswith("list_"):
        return f"{name.removeprefix('list_')} takes the entries as rows"
    if name.endswith("_by_score"):
        ranked = "row_number() OVER (PARTITION BY ... ORDER BY score DESC, item DESC)"
        return f"{name.removesuffix('_by_score')} takes pos, from a subquery: {ranked}"
    return ""


@cache
def is_scalar(name: str) -> bool:
    """Whether a macro or a DuckDB function is an expression over one row."""
    if name not in window_macros():
        return name not in AGGREGATES
    body = window_macros()[name].body
    called = {call.name.lower() for call in body.find_all(exp.Anonymous)}
    if called & AGGREGATES or body.find(exp.Window):
        return False
    return all(is_scalar(other) for other in called & set(window_macros()) - {name})


def calls_metric(node: exp.Expr) -> bool:
    """Whether the node calls a metric, ignoring subqueries."""
    if isinstance(node, exp.Anonymous) and node.name.lower() in window_macros():
        return not is_scalar(node.name.lower())
    return not isinstance(node, exp.Query) and any(map(calls_metric, node.iter_expressions()))


def metric_places(select: exp.Select) -> Iterable[exp.Expr]:
    """The clauses that can call metrics."""
    yield from select.expressions
    yield from filter(None, (select.args.get("having"), select.args.get("order")))


def is_in_aggregate(column: exp.Column) -> bool:
    """Whether the column is an argument of an aggregate that is not a window function."""
    call = column.find_ancestor(exp.Anonymous)
    while call and call.name.lower() not in AGGREGATES:
        call = call.find_ancestor(exp.Anonymous)
    return call is not None and not isinstance(call.parent, exp.Window)

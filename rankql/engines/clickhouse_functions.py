"""Metrics in ClickHouse, as functions and in queries.

ClickHouse functions have no defaults. `ndcg(rel, pos, 10)` is called as in DuckDB;
`translate_to_clickhouse` writes out calls with more options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sqlglot import exp

from rankql import macros
from rankql.engines.constants import function_call
from rankql.engines.rewrites import (
    similar_to_pattern,
    sort_rule,
    split_index,
)
from rankql.engines.sql_trees import replace_node
from rankql.engines.translation import (
    Rule,
    Target,
    Translator,
    macro_parameters,
    translate_call,
    translate_query,
)
from rankql.errors import RankqlError
from rankql.registry.all_metrics import FUNCTIONS


def translate_to_clickhouse(query: str) -> str:
    """Translate a query that calls metrics into ClickHouse's SQL."""
    text = translate_query(query, CLICKHOUSE)
    return f"{text} SETTINGS {', '.join(f'{name} = {value}' for name, value in SETTINGS.items())}"


# As in DuckDB: outer joins return NULL, columns come before aliases, and NULL IN (1) is NULL.
SETTINGS = {"join_use_nulls": 1, "prefer_column_name_to_alias": 1, "transform_null_in": 0}


@cache
def create_clickhouse_functions() -> str:
    """CREATE FUNCTION statements for all metrics of rankings."""
    head = "-- The metrics of rankql as functions of ClickHouse; k NULL is the whole ranking."
    helpers = (
        _create_function(name, macro_parameters(name, CLICKHOUSE)) for name in _HELPER_FUNCTIONS
    )
    metrics = (
        f"-- {comment}\n{_create_function(name, function_parameters(name))}"
        for name, comment in macros.read_comments().items()
        if name in (CLICKHOUSE.metrics or ())
    )
    return "\n\n".join([head, *helpers, *metrics]) + "\n"


# Helpers that become functions, because written out they are most of the text.
_HELPER_FUNCTIONS = (
    "rankql_type",
    "rankql_is_text",
    "rankql_option",
    "rankql_grade",
    "rankql_cutoff",
    "rankql_pos",
    "rankql_hit",
)


def _create_function(name: str, parameters: Sequence[str]) -> str:
    columns = {name: name for name in parameters}
    target = replace(CLICKHOUSE, function_macros=frozenset(_HELPER_FUNCTIONS) - {name})
    body = translate_call(name, columns, {}, target)
    return f"CREATE OR REPLACE FUNCTION {name} AS ({', '.join(parameters)}) -> {body};"


def function_parameters(name: str) -> list[str]:
    """The parameters of the function: those without default, and k."""
    parameters = macros.read_parameters()[name]
    listed = [*parameters]
    needed = [parameter for parameter, default in parameters.items() if default is None]
    record = FUNCTIONS.get(name.removeprefix("list_").removesuffix("_by_score"))
    last = record.last_required if record else "k"
    return listed[: max(len(needed), listed.index(last) + 1 if last in listed else 0)]


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


def _rewrite_list_function(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    """arrayMap() and arrayFilter(): the function is first, and the index is a second list."""
    values, step = node.expressions
    name = "arrayMap" if node.name == "list_transform" else "arrayFilter"
    index = [function_call("arrayEnumerate", values.copy())] if len(step.expressions) == 2 else []
    return function_call(name, step, values, *index)


def _rewrite_bracket(translator: Translator, node: exp.Bracket) -> exp.Expr:
    """An entry, from 1, or a slice."""
    index, is_slice = split_index(node)
    if is_slice:
        return function_call("arraySlice", node.this, exp.Literal.number(1), index)
    return function_call("arrayElement", node.this, index)


def _rewrite_try_cast(translator: Translator, node: exp.TryCast) -> exp.Expr:
    kind = exp.Literal.string(node.to.sql("clickhouse"))
    return function_call("accurateCastOrNull", node.this, kind)


def _rewrite_similar_to(translator: Translator, node: exp.SimilarTo) -> exp.Expr:
    return function_call("match", node.this, similar_to_pattern(node))


def _rename_rule(name: str) -> Rule:
    return lambda _, node: function_call(name, *node.expressions)


def _operator_rule(name: str) -> Rule:
    return lambda _, node: function_call(name, node.this, node.expression)


def _rewrite_count(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    """uniqExact for count(DISTINCT x), whose meaning is a setting."""
    (counted,) = node.expressions
    if isinstance(counted, exp.Distinct):
        return function_call("uniqExact", *counted.expressions)
    return node


def _rewrite_table(translator: Translator, node: exp.Table) -> exp.Expr:
    """Rewrite FROM 'a.parquet'."""
    name = node.this
    if not isinstance(name, exp.Identifier):
        translator.refuse(f"the table function {name.sql()}")
    if name.name.endswith((".parquet", ".pq")) and not node.db:
        node.set("this", function_call("file", exp.Literal.string(name.name)))
    return node


def _replace_structs(tree: exp.Expr) -> exp.Expr:
    """Write structs as tuples. A field name has the same place in all structs."""
    structs = [*tree.find_all(exp.Struct)]
    places: dict[str, int] = {}
    for struct in structs:
        for place, field in enumerate(struct.expressions, 1):
            if places.setdefault(field.name, place) != place:
                raise RankqlError(f"the field {field.name} has no translation for ClickHouse")
    for node in reversed([*tree.find_all(exp.Dot)]):
        if node.expression.name in places:
            number = exp.Literal.number(places[node.expression.name])
            tree = replace_node(tree, node, function_call("tupleElement", node.this, number))
    for struct in reversed(structs):
        values = (field.expression for field in struct.expressions)
        tree = replace_node(tree, struct, function_call("tuple", *values))
    return tree


CLICKHOUSE = Target(
    "ClickHouse",
    "clickhouse",
    metrics=macros.list_metric_macros("gain", "precision", "cascade", "order", "rating"),
    functions=frozenset({"ceil", "error", "greatest", "least", "log2", "pow", "power"}),
    helpers=frozenset({"typeof", "encode", "len"}),
    aggregates=frozenset(
        {"any", "avgOrNull", "groupArray", "maxOrNull", "minOrNull", "sumOrNull", "uniqExact"}
    ),
    # CASE x WHEN computes all values, including errors.
    searched_case=True,
    rules={
        "list_transform": _rewrite_list_function,
        "list_filter": _rewrite_list_function,
        "list_sort": sort_rule(
            lambda values: function_call("arraySort", values),
            lambda values: function_call("arrayReverseSort", values),
        ),
        "count": _rewrite_count,
        # NULL for an empty group.
        **{name: _rename_rule(f"{name}OrNull") for name in ("sum", "avg", "min", "max")},
        exp.Bracket: _rewrite_bracket,
        exp.Slice: lambda _, node: node,
        exp.TryCast: _rewrite_try_cast,
        exp.SimilarTo: _rewrite_similar_to,
        exp.BitwiseRightShift: _operator_rule("bitShiftRight"),
        exp.BitwiseLeftShift: _operator_rule("bitShiftLeft"),
        exp.IntDiv: _operator_rule("intDiv"),
        exp.Table: _rewrite_table,
    },
    finish=lambda tree: _replace_structs(cast_errors(tree)),
)

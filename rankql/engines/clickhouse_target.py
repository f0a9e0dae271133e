"""The translation target ClickHouse."""

from __future__ import annotations

from sqlglot import exp

from rankql import macros
from rankql.engines.clickhouse_errors import cast_errors
from rankql.engines.constants import function_call
from rankql.engines.rewrites import (
    similar_to_pattern,
    sort_rule,
    split_index,
)
from rankql.engines.sql_trees import replace_node
from rankql.engines.translation import Rule, Target, Translator
from rankql.errors import RankqlError


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

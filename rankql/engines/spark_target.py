"""The translation target Spark SQL."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from rankql.engines.constants import function_call, parenthesise
from rankql.engines.sql_trees import Macro, parse_sql
from rankql.engines.translation import Rule, Target, Translator, average_as_double
from rankql.errors import RankqlError


def _rewrite_list_function(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    """transform() and filter(), whose index starts at 0."""
    values, step = node.expressions
    if len(step.expressions) == 2:
        index = step.expressions[1].name
        one = exp.cast(exp.Literal.number(1), "BIGINT")
        for name in list(step.this.find_all(exp.Column)):
            if name.name == index:
                place = exp.Paren(this=exp.Add(this=name.copy(), expression=one.copy()))
                name.replace(place) if name is not step.this else step.set("this", place)
    return function_call(node.name.removeprefix("list_"), values, step)


def _rewrite_bracket(translator: Translator, node: exp.Bracket) -> exp.Expr:
    """An entry, from 1, or a slice; NULL beyond the end."""
    (index,) = node.expressions
    if isinstance(index, exp.Slice):
        end = function_call("least", index.expression, exp.Literal.number(2**31 - 1))
        return function_call("slice", node.this, exp.Literal.number(1), exp.cast(end, "INT"))
    if isinstance(index, exp.Literal) and not index.is_string:
        return function_call("get", node.this, exp.Literal.number(int(index.this) - 1))
    return function_call(
        "get",
        node.this,
        exp.cast(
            exp.Paren(this=exp.Sub(this=parenthesise(index), expression=exp.Literal.number(1))),
            "INT",
        ),
    )


def _rewrite_sort(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    """list_sort() with NULL last, the only order that macros use."""
    values, *how = node.expressions
    match [part.this for part in how if isinstance(part, exp.Literal)]:
        case ["ASC", "NULLS LAST"]:
            return function_call("array_sort", values)
        case ["DESC", "NULLS LAST"]:
            return function_call("sort_array", values, exp.false())
    translator.refuse("list_sort() in another order than 'ASC' or 'DESC' with 'NULLS LAST'")


def _rewrite_similar_to(translator: Translator, node: exp.SimilarTo) -> exp.Expr:
    """The regular expression of SIMILAR TO, which must match the complete text."""
    pattern = exp.Literal.string(f"^({node.expression.this})$")
    return exp.RegexpLike(this=node.this, expression=pattern)


def _shift_rule(name: str) -> Rule:
    return lambda _, node: function_call(name, node.this, exp.cast(node.expression, "INT"))


def _rewrite_table(translator: Translator, node: exp.Table) -> exp.Expr:
    """Rewrite FROM 'a.parquet'."""
    name = node.this
    if isinstance(name, exp.Identifier) and name.name.endswith((".parquet", ".pq")) and not node.db:
        node.set("db", exp.to_identifier("parquet"))
    elif not isinstance(name, exp.Identifier):
        translator.refuse(f"the table function {name.sql()}")
    return node


def _rewrite_avg(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    """Cast the values of avg(), because that of DECIMAL has few decimal places."""
    return average_as_double(node) if translator.in_user_sql else node


SPARK = Target(
    "Spark",
    "spark",
    functions=frozenset(
        {
            *("ceil", "flatten", "greatest", "least", "left", "log2", "pow", "power", "round"),
            *("stddev_samp", "var_samp"),
        }
    ),
    aggregates=frozenset({"any_value", "collect_list", "count_if"}),
    helpers=frozenset({"typeof", "encode", "left"}),
    rules={
        "list_transform": _rewrite_list_function,
        "list_filter": _rewrite_list_function,
        "list_sort": _rewrite_sort,
        exp.Bracket: _rewrite_bracket,
        exp.Slice: lambda _, node: node,
        exp.SimilarTo: _rewrite_similar_to,
        "avg": _rewrite_avg,
        exp.BitwiseRightShift: _shift_rule("shiftright"),
        exp.BitwiseLeftShift: _shift_rule("shiftleft"),
        exp.IntDiv: lambda _, node: function_call("`div`", node.this, node.expression),
        exp.Table: _rewrite_table,
    },
)


def spark_with_grades(grades: Iterable[float]) -> Target:
    """Spark with a known set of grades: the largest values are counted instead of collected.

    Only sums remain, which Spark adds up before the shuffle.
    """
    values = sorted({*map(float, grades)}, reverse=True)
    if not values or not all(0 < value < math.inf for value in values):
        raise RankqlError("grades must be finite numbers above 0.")
    among = ", ".join(f"{value!r}D" for value in values)
    listed = ", ".join(f"{value:g}" for value in reversed(values))
    other = f"'rel must be one of grades={listed}, not ' || CAST(value AS STRING)"
    # The first count checks all finite values; the metric refuses others.
    first = (
        f"CASE WHEN value IN ({among}) THEN value = {values[0]!r}D "
        "WHEN value > 0 AND value < CAST('Infinity' AS DOUBLE) "
        f"THEN CAST(raise_error({other}) AS BOOLEAN) END"
    )
    conditions = [first, *(f"value = {value!r}D" for value in values[1:])]
    lists = (
        f"array_repeat({value!r}D, CAST(least(k, count_if({condition})) AS INT))"
        for value, condition in zip(values, conditions, strict=True)
    )
    largest = f"slice(rankql_keep(concat({', '.join(lists)})), 1, CAST(k AS INT))"
    body = parse_sql(largest, "spark")
    return replace(SPARK, macros={"max": Macro("max", {"value": None, "k": None}, body, True)})

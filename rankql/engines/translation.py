"""Translate macros into the SQL of Spark, which has lists: expand calls, rewrite DuckDB's syntax.

Known are functions with the same meaning, rewrite rules, and sql/spark.sql with DuckDB's functions
as macros. Everything else is refused by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import sqlglot
from sqlglot import exp

from rankql.core.base.errors import RankqlError
from rankql.engines import sql_trees as trees

# Syntax with the same meaning in Spark, or a rule.
_COMMON: tuple[type[exp.Expr], ...] = (
    *trees.COMPUTED,
    *(exp.Mod, exp.And, exp.Or, exp.Case, exp.If, exp.DataType),
    *(exp.Literal, exp.Null, exp.Boolean, exp.Star, exp.Distinct, exp.Identifier),
    *(exp.Column, exp.Dot, exp.Array, exp.Struct, exp.PropertyEQ, exp.Where, exp.Alias),
    *(exp.Select, exp.From, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Join),
    *(exp.Table, exp.TableAlias, exp.Subquery, exp.With, exp.CTE, exp.Union),
    *(exp.Values, exp.Tuple, exp.Window, exp.WindowSpec, exp.Offset),
)

# Functions with the same meaning in Spark, including NULL and empty groups.
FUNCTIONS = {
    *("abs", "avg", "ceil", "coalesce", "count", "exp", "flatten", "floor", "greatest", "least"),
    *("left", "ln", "log2", "max", "min", "nullif", "pow", "power", "round", "row_number"),
    *("sqrt", "stddev_samp", "sum", "var_samp"),
}

Rule = Callable[["Translator", Any], exp.Expr]
# Trees by the names that they replace.
Scope: TypeAlias = Mapping[str, exp.Expr]


# Aggregates that sql/spark.sql calls: FILTER is written after them.
AGGREGATES = {"any_value", "collect_list", "count_if"}
# Functions that only macros may call.
HELPERS = {"typeof", "encode", "left"}


def translate_query(text: str) -> str:
    """Translate a query that calls metrics."""
    tree = trees.parse_sql(text)
    for select in tree.find_all(exp.Select):
        # Keep the column names of DuckDB.
        select.set("expressions", [trees.name_projection(part) for part in select.expressions])
    return _translate(tree)


def translate_call(metric: str, columns: Mapping[str, str], options: Mapping[str, Any]) -> str:
    """Translate a call of a metric with columns by name."""
    values: dict[str, exp.Expr] = {x: exp.column(y, quoted=True) for x, y in columns.items()}
    values |= {name: trees.to_literal(value, typed=False) for name, value in options.items()}
    named = [exp.PropertyEQ(this=exp.to_identifier(n), expression=v) for n, v in values.items()]
    return _translate(trees.function_call(metric, *named))


def translate_expression(text: str) -> str:
    """Translate an expression that calls metrics."""
    return _translate(trees.parse_sql(text))


def _translate(tree: exp.Expr) -> str:
    made: exp.Expr = Translator().translate(tree)
    try:
        return made.sql(
            dialect="spark",
            identify=True,
            normalize_functions=False,
            unsupported_level=sqlglot.ErrorLevel.RAISE,
            comments=False,
        )
    except sqlglot.errors.UnsupportedError as error:
        raise RankqlError(f"Spark does not support the query: {error}") from error


class Translator:
    """Translates one tree: expands macros and refuses what the target does not support."""

    def __init__(self) -> None:
        # Names of lambda variables, which cannot be columns of the user.
        self._names = map("rankql_{}".format, itertools.count(1))
        # The macros that are being expanded, innermost last.
        self._expanding: list[trees.Macro] = []

    def translate(self, node: Any, scope: Scope | None = None) -> Any:
        """Translate a tree. Names in `scope` are replaced by their trees."""
        scope = scope or {}
        if isinstance(node, list):
            return [self.translate(part, scope) for part in node]
        if not isinstance(node, exp.Expr):
            return node
        if method := _METHODS.get(type(node)):
            return method(self, node, scope)
        if isinstance(node, exp.Window) and node.this.name.lower() in trees.macro_trees("duckdb"):
            self.refuse(f"{node.this.name}(...) OVER", "group by the ranking and join it back")
        kind = type(node)
        rule = None if self.in_native_macro else RULES.get(kind)
        if not self.in_native_macro and rule is None and kind not in _COMMON:
            self.refuse(kind.__name__)
        if self.in_user_sql and _is_ambiguous(node):
            self.refuse(node.sql(trees.AS_WRITTEN["duckdb"]), "put it into a view")
        made = kind(**{name: self.translate(part, scope) for name, part in node.args.items()})
        if self.in_user_sql:
            return rule(self, made) if rule else made
        # DuckDB cannot compute functions of the target.
        plain = isinstance(made, exp.Predicate) and not made.find(exp.Anonymous)
        if trees.is_computable(made) and (plain or not self.in_native_macro):
            return trees.compute_constant(made)
        return trees.fold(rule(self, made) if rule else made)

    @property
    def in_user_sql(self) -> bool:
        """Whether the node comes from the user's query, not from a macro."""
        return not self._expanding

    @property
    def in_native_macro(self) -> bool:
        """Whether the node comes from a macro in the SQL of the target."""
        return bool(self._expanding) and self._expanding[-1].native

    def refuse(self, construct: str, remedy: str = "") -> NoReturn:
        """Raise an error that names the construct and the metric that contains it."""
        ours = [macro.name for macro in self._expanding if not macro.name.startswith("rankql_")]
        place = f"{ours[0]}: " if ours else ""
        hint = f"; {remedy}" if remedy else ""
        raise RankqlError(f"{place}{construct} has no translation for Spark{hint}")

    def _translate_column(self, node: exp.Column, scope: Scope) -> exp.Expr:
        first, *fields = node.parts
        if first.name.lower() not in scope:
            return node.copy()
        made = scope[first.name.lower()].copy()
        for name in fields:
            made = exp.Dot(this=made, expression=exp.to_identifier(name.name, quoted=True))
        return made

    def _translate_case(self, node: exp.Case, scope: Scope) -> exp.Expr:
        """A CASE without the branches that constants rule out, whose errors are not raised."""
        operand = self.translate(node.this, scope) if node.this else None
        kept, default = [], node.args.get("default")
        for branch in node.args["ifs"]:
            condition = self.translate(branch.this, scope)
            decided = condition
            if operand is not None and self._expanding:
                equal = exp.EQ(this=operand.copy(), expression=condition.copy())
                decided = trees.compute_constant(equal) if trees.is_computable(equal) else equal
            value = trees.constant_condition(decided) if self._expanding else decided
            if value is None or value is False:
                continue
            if value is True:
                default = branch.args["true"]
                break
            result = self.translate(branch.args["true"], scope)
            kept.append(exp.If(this=condition, true=result))
        result = self.translate(default, scope) if default is not None else exp.Null()
        if not kept:
            return result
        return exp.Case(this=operand, ifs=kept, default=result)

    def _translate_lambda(self, node: exp.Lambda, scope: Scope) -> exp.Expr:
        names = {x.name.lower(): exp.to_identifier(next(self._names)) for x in node.expressions}
        inner = {**scope, **{name: exp.column(made) for name, made in names.items()}}
        return exp.Lambda(this=self.translate(node.this, inner), expressions=list(names.values()))

    def _translate_call(self, node: exp.Anonymous, scope: Scope) -> exp.Expr:
        name = node.name.lower()
        if any(isinstance(argument, exp.Order) for argument in node.expressions):
            self.refuse(f"ORDER BY within {name}()")
        if self.in_native_macro and not name.startswith("rankql_"):
            return trees.function_call(node.name, *self.translate(node.expressions, scope))
        if self.in_user_sql and name in HELPERS:
            self.refuse(f"{name}()")
        macro = trees.macro_trees("spark").get(name)
        if macro is None or len(macro.parameters) != len(node.expressions):
            macro = trees.macro_trees("duckdb").get(name)
        if macro:
            return self._expand(macro, node.expressions, scope)
        made = trees.function_call(name, *self.translate(node.expressions, scope))
        if self._expanding and name not in _FAILING and trees.is_constant(made):
            return trees.compute_constant(made)
        if rule := RULES.get(name):
            return rule(self, made)
        if name not in FUNCTIONS:
            self.refuse(f"{name}()")
        return trees.fold(made)

    def _expand(self, macro: trees.Macro, arguments: Sequence[exp.Expr], scope: Scope) -> exp.Expr:
        given, bound = trees.bind_arguments(macro, arguments), {}
        for parameter, default in macro.parameters.items():
            value = self.translate(given[parameter], scope) if parameter in given else default
            if value is None:
                raise RankqlError(f"{macro.name} needs the argument {parameter}")
            bound[parameter] = trees.parenthesise(value)
        values = [*bound.values()]
        in_duckdb = macro.native or macro is trees.macro_trees("duckdb").get(macro.name)
        in_duckdb &= macro.name not in _FAILING and trees.is_scalar(macro.name)
        if in_duckdb and all(map(trees.is_constant, values)):
            return trees.compute_constant(trees.function_call(macro.name, *values))
        self._expanding.append(macro)
        made = self.translate(macro.body, bound)
        self._expanding.pop()
        return trees.parenthesise(made)

    def _translate_filter(self, node: exp.Filter, scope: Scope) -> exp.Expr:
        name = node.this.name.lower()
        if name in trees.macro_trees("duckdb"):
            self.refuse(f"FILTER on {name}", "filter the rows")
        condition = self.translate(node.expression, scope)
        made = self.translate(node.this, scope)

        def filtered(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Anonymous) and part.name in (AGGREGATES | {name}):
                return exp.Filter(this=part.copy(), expression=condition.copy())
            return part

        # transform() would visit its own output
        return _replace_outermost(made, filtered)


# How nodes are translated whose parts are not translated first.
_METHODS: Mapping[type[exp.Expr], Callable[[Translator, Any, Scope], exp.Expr]] = {
    exp.Column: Translator._translate_column,
    exp.Case: Translator._translate_case,
    exp.Lambda: Translator._translate_lambda,
    exp.Anonymous: Translator._translate_call,
    exp.Filter: Translator._translate_filter,
}
# Not computed: errors, and what differs for speed.
_FAILING = {"error", "rankql_fail", "rankql_refuse", "rankql_few", "rankql_in_bits"}


def _is_ambiguous(node: exp.Expr) -> bool:
    """May it mean something else in the target? Macros know what they call."""
    match node:
        case exp.Cast() | exp.TryCast():
            return not trees.is_constant(node.this)
        case exp.Div() | exp.IntDiv() | exp.Mod() | exp.Like() | exp.Struct() | exp.Bracket():
            return True
        case exp.In():
            nulls = any(isinstance(part, exp.Null) for part in node.expressions)
            return nulls or bool(node.args.get("query"))
        case exp.Subquery():
            return not isinstance(node.parent, exp.From | exp.Join | exp.SetOperation)
        case exp.Join():
            # Other engines may take the word for an alias of the table before it.
            return bool({node.method, node.kind} & {"ASOF", "POSITIONAL", "SEMI", "ANTI"})
        case exp.SetOperation():
            return bool(node.args.get("by_name"))
    return isinstance(node, exp.SimilarTo)


def _rewrite_average(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    """avg() of values cast to DOUBLE, because that of DECIMAL has few decimal places."""
    (value,) = node.expressions
    return trees.function_call("avg", exp.cast(value, "DOUBLE")) if translator.in_user_sql else node


def _replace_outermost(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Replace the outermost parts of a tree."""
    changed = change(node)
    if changed is not node:
        return changed
    for part in list(node.iter_expressions()):
        made = _replace_outermost(part, change)
        if made is not part:
            part.replace(made)
    return node


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
    return trees.function_call(node.name.removeprefix("list_"), values, step)


def _rewrite_bracket(translator: Translator, node: exp.Bracket) -> exp.Expr:
    """An entry, from 1, or a slice; NULL beyond the end."""
    (index,) = node.expressions
    if isinstance(index, exp.Slice):
        end = trees.function_call("least", index.expression, exp.Literal.number(2**31 - 1))
        return trees.function_call("slice", node.this, exp.Literal.number(1), exp.cast(end, "INT"))
    if isinstance(index, exp.Literal) and not index.is_string:
        return trees.function_call("get", node.this, exp.Literal.number(int(index.this) - 1))
    before = exp.Sub(this=trees.parenthesise(index), expression=exp.Literal.number(1))
    return trees.function_call("get", node.this, exp.cast(exp.Paren(this=before), "INT"))


def _rewrite_sort(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    """list_sort() with NULL last, the only order that macros use."""
    values, *how = node.expressions
    match [part.this for part in how if isinstance(part, exp.Literal)]:
        case ["ASC", "NULLS LAST"]:
            return trees.function_call("array_sort", values)
        case ["DESC", "NULLS LAST"]:
            return trees.function_call("sort_array", values, exp.false())
    translator.refuse("list_sort() in another order than 'ASC' or 'DESC' with 'NULLS LAST'")


def _shift_rule(name: str) -> Rule:
    return lambda _, node: trees.function_call(name, node.this, exp.cast(node.expression, "INT"))


def _rewrite_table(translator: Translator, node: exp.Table) -> exp.Expr:
    """Rewrite FROM 'a.parquet'."""
    name = node.this
    if isinstance(name, exp.Identifier) and name.name.endswith((".parquet", ".pq")) and not node.db:
        node.set("db", exp.to_identifier("parquet"))
    elif not isinstance(name, exp.Identifier):
        translator.refuse(f"the table function {name.sql()}")
    return node


RULES: Mapping[type[exp.Expr] | str, Rule] = {
    "list_transform": _rewrite_list_function,
    "list_filter": _rewrite_list_function,
    "list_sort": _rewrite_sort,
    exp.Bracket: _rewrite_bracket,
    exp.Slice: lambda _, node: node,
    # It must match the complete text.
    exp.SimilarTo: lambda _, node: exp.RegexpLike(
        this=node.this, expression=exp.Literal.string(f"^({node.expression.this})$")
    ),
    "avg": _rewrite_average,
    exp.BitwiseRightShift: _shift_rule("shiftright"),
    exp.BitwiseLeftShift: _shift_rule("shiftleft"),
    exp.IntDiv: lambda _, node: trees.function_call("`div`", node.this, node.expression),
    exp.Table: _rewrite_table,
}

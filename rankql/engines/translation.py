"""The macros in the SQL of other engines: calls expanded, and what DuckDB alone knows rewritten.

A `Target` is an engine: the functions that mean the same there, rules for what is written
otherwise, and `sql/<dialect>.sql`, in which functions of DuckDB, and helpers of ours that depend on
its types, are macros in the SQL of that engine. Only what one of these three knows is let through:
anything else is refused by name, and never passed on in the hope that it means the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp

from rankql import macros
from rankql.engines.folding import (
    CONSTANT_FUNCTIONS,
    NOT_CONSTANT,
    constant_value,
    evaluate_call,
    fold,
    function_call,
    parenthesise,
)
from rankql.engines.sql_trees import Macro, bind_arguments, macro_trees, name_projection, parse_sql
from rankql.errors import RankqlError

# Syntax that means the same everywhere.
_COMMON: tuple[type[exp.Expr], ...] = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.DPipe, exp.Paren),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is, exp.Like),
    *(exp.And, exp.Or, exp.Not, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType),
    *(exp.Literal, exp.Null, exp.Boolean, exp.Star, exp.Distinct, exp.Identifier),
    *(exp.Column, exp.Dot, exp.Array, exp.Struct, exp.PropertyEQ, exp.Where, exp.Alias),
    *(exp.Select, exp.From, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Join),
    *(exp.Table, exp.TableAlias, exp.Subquery, exp.With, exp.CTE, exp.Union),
    *(exp.Values, exp.Tuple, exp.Window, exp.WindowSpec, exp.Offset),
)

# Functions that mean the same everywhere, NULL and empty groups included.
FUNCTIONS = {
    *("abs", "avg", "coalesce", "count", "dense_rank", "exp", "floor", "ln", "lower", "max", "min"),
    *("nullif", "rank", "row_number", "sqrt", "sum", "trim", "upper"),
}

Rule = Callable[["Translator", Any], exp.Expr]


@dataclass(frozen=True)
class Target:
    """An engine that the macros are translated for."""

    name: str
    # As sqlglot calls it, and as the file of its macros is called.
    dialect: str
    # Beyond those that mean the same everywhere.
    functions: frozenset[str] = frozenset()
    # What `sql/<dialect>.sql` calls that takes many rows: a FILTER belongs there.
    aggregates: frozenset[str] = frozenset()
    # What typeof() says of constants, and what is NULL where an argument is.
    types: Mapping[type, str] = field(default_factory=dict)
    null_for_null: frozenset[str] = frozenset()
    # By the kind of syntax, or by the name of a function: what is written in its place. They are
    # given the node with its parts already translated.
    rules: Mapping[type[exp.Expr] | str, Rule] = field(default_factory=dict)
    # The metrics that are shown to be the same there; None: all that have a translation.
    metrics: frozenset[str] | None = None
    # Macros in place of those of the file.
    macros: Mapping[str, Macro] = field(default_factory=dict)
    # Macros that are functions there: calls of them stay calls.
    function_macros: frozenset[str] = frozenset()
    # What stands for functions in the macros, but not for all that a user may give them.
    helpers: frozenset[str] = frozenset()
    # Is what is divided by 0 NULL there, or may it be?
    zero_is_null: bool = False
    # Refuses what else the user wrote and means something else there.
    check: Callable[[Translator, exp.Expr], None] = lambda translator, node: None
    # What is done to the whole, in the end.
    finish: Callable[[exp.Expr], exp.Expr] = lambda tree: tree


def translate_query(text: str, target: Target) -> str:
    """A query that may call our macros, in the SQL of the target."""
    tree = parse_sql(text)
    for select in tree.find_all(exp.Select):
        # What DuckDB would call it.
        select.set("expressions", [name_projection(part) for part in select.expressions])
    return _render(Translator(target).translate(tree), target)


def translate_call(
    metric: str, columns: Mapping[str, str], options: Mapping[str, Any], target: Target
) -> str:
    """A call of a macro, its columns by their names, in the SQL of the target."""
    given: dict[str, exp.Expr] = {
        name: exp.column(exp.to_identifier(column, quoted=True)) for name, column in columns.items()
    }
    given |= {name: _literal(name, value) for name, value in options.items()}
    named = [exp.PropertyEQ(this=exp.to_identifier(n), expression=g) for n, g in given.items()]
    return _render(
        Translator(target).translate(exp.Anonymous(this=metric, expressions=named)), target
    )


def translate_expression(text: str, target: Target) -> str:
    """An expression that may call our macros, in the SQL of the target."""
    return _render(Translator(target).translate(parse_sql(text)), target)


def macro_parameters(name: str, target: Target) -> list[str]:
    """The parameters of a macro, of ours or of those that are written for the target."""
    macro = macro_trees(target.dialect).get(name) or macro_trees("duckdb")[name]
    return [*macro.parameters]


def _render(tree: exp.Expr, target: Target) -> str:
    return target.finish(tree).sql(
        dialect=target.dialect,
        identify=True,
        normalize_functions=False,
        unsupported_level=sqlglot.ErrorLevel.RAISE,
        comments=False,
    )


def _literal(name: str, value: Any) -> exp.Expr:
    """A value of an option as a literal."""
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[_literal(name, part) for part in value])
    if isinstance(value, float) and not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
    if value is None or isinstance(value, bool | int | float | str):
        return exp.convert(value)
    raise RankqlError(
        f"{name} must be a number, a text, a list of them or the name of a column, not "
        f"{type(value).__name__}; make it a column first"
    )


class Translator:
    """One tree, translated: macros expanded, and everything in it known to the target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._numbers = itertools.count(1)
        # The macros that are being expanded, the innermost last.
        self._expanding: list[Macro] = []

    def translate(self, node: Any, scope: Mapping[str, exp.Expr] | None = None) -> Any:
        """The translation of a tree, in which the names of `scope` stand for trees."""
        scope = scope or {}
        if isinstance(node, list):
            return [self.translate(part, scope) for part in node]
        if not isinstance(node, exp.Expr):
            return node
        if isinstance(node, exp.Column):
            if self.in_user_sql:
                self.target.check(self, node)
            return self._translate_column(node, scope)
        if isinstance(node, exp.Lambda):
            return self._translate_lambda(node, scope)
        if isinstance(node, exp.Anonymous):
            return self._translate_call(node, scope)
        if isinstance(node, exp.Filter):
            return self._translate_filter(node, scope)
        if isinstance(node, exp.Window) and node.this.name.lower() in macro_trees("duckdb"):
            self.refuse(f"{node.this.name}(...) OVER", "group by the ranking and join it back")
        kind = type(node)
        rule = None if self.in_native_macro else self.target.rules.get(kind)
        if not self.in_native_macro and rule is None and kind not in _COMMON:
            self.refuse(kind.__name__)
        if self.in_user_sql:
            _refuse_differences(self, node)
            self.target.check(self, node)
        made = kind(**{name: self.translate(part, scope) for name, part in node.args.items()})
        made = rule(self, made) if rule else made
        return fold(made)

    @property
    def in_user_sql(self) -> bool:
        """Is this the text of the user, not of a macro?"""
        return not self._expanding

    @property
    def in_native_macro(self) -> bool:
        """Is this the text of the target, which is as it should be?"""
        return bool(self._expanding) and self._expanding[-1].native

    def refuse(self, construct: str, remedy: str = "") -> NoReturn:
        """Refuse what has no translation, naming the macro that it is in."""
        ours = [macro.name for macro in self._expanding if not macro.name.startswith("rankql_")]
        place = f"{ours[0]}: " if ours else ""
        hint = f"; {remedy}" if remedy else ""
        raise RankqlError(f"{place}{construct} has no translation for {self.target.name}{hint}")

    def new_variable(self) -> exp.Identifier:
        """A variable that nobody else has."""
        return exp.to_identifier(f"rankql_{next(self._numbers)}")

    def _translate_column(self, node: exp.Column, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        first, *fields = node.parts
        if first.name.lower() not in scope:
            return node.copy()
        made = scope[first.name.lower()].copy()
        for name in fields:
            made = exp.Dot(this=made, expression=exp.to_identifier(name.name, quoted=True))
        return made

    def _translate_lambda(self, node: exp.Lambda, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        # With names of their own, so that no column of the user's is taken for one of them.
        names = {name.name.lower(): self.new_variable() for name in node.expressions}
        inner = {**scope, **{name: exp.column(made) for name, made in names.items()}}
        return exp.Lambda(this=self.translate(node.this, inner), expressions=list(names.values()))

    def _translate_call(self, node: exp.Anonymous, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        name, target = node.name.lower(), self.target
        if any(isinstance(argument, exp.Order) for argument in node.expressions):
            self.refuse(f"ORDER BY within {name}()")
        if self.in_native_macro and not name.startswith("rankql_"):
            return self.call_function(node.name, *self.translate(node.expressions, scope))
        offered = target.metrics is None or name in target.metrics
        unknown = name in target.helpers or (name in macros.read_comments() and not offered)
        if self.in_user_sql and unknown:
            self.refuse(f"{name}()")
        macro = target.macros.get(name) or macro_trees(target.dialect).get(name)
        if macro is None or len(macro.parameters) != len(node.expressions):
            macro = macro_trees("duckdb").get(name)
        if macro and name in target.function_macros:
            given = [*self._bind_translated(macro, node.expressions, scope).values()]
            if any(constant_value(argument) is NOT_CONSTANT for argument in given):
                return exp.Anonymous(this=name, expressions=given)
        if macro and name not in CONSTANT_FUNCTIONS:
            return self._expand(macro, node.expressions, scope)
        made = exp.Anonymous(this=name, expressions=self.translate(node.expressions, scope))
        if macro and evaluate_call(made) is NOT_CONSTANT:
            return self._expand(macro, node.expressions, scope)
        if rule := target.rules.get(name):
            return rule(self, made)
        if not macro and name not in FUNCTIONS and name not in target.functions:
            self.refuse(f"{name}()")
        return fold(made)

    def call_function(self, name: str, *arguments: exp.Expr) -> exp.Expr:
        """A call of a function of the target, worked out where its argument is a constant."""
        values = [constant_value(argument) for argument in arguments]
        if name in ("typeof", "toTypeName") and type(values[0]) in self.target.types:
            return exp.Literal.string(self.target.types[type(values[0])])
        if None in values and name in self.target.null_for_null:
            return exp.Null()
        return fold(function_call(name, *arguments))

    def _expand(
        self, macro: Macro, arguments: Sequence[exp.Expr], scope: Mapping[str, exp.Expr]
    ) -> exp.Expr:
        bound = self._bind_translated(macro, arguments, scope)
        self._expanding.append(macro)
        made = self.translate(macro.body, bound)
        self._expanding.pop()
        return parenthesise(made)

    def _bind_translated(
        self, macro: Macro, arguments: Sequence[exp.Expr], scope: Mapping[str, exp.Expr]
    ) -> dict[str, exp.Expr]:
        """What each parameter of a macro stands for in a call."""
        given = bind_arguments(macro, arguments)
        bound = {}
        for parameter, default in macro.parameters.items():
            argument = self.translate(given[parameter], scope) if parameter in given else default
            if argument is None:
                raise RankqlError(f"{macro.name} needs the argument {parameter}")
            bound[parameter] = parenthesise(argument)
        return bound

    def _translate_filter(self, node: exp.Filter, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        name = node.this.name.lower()
        if name in macro_trees("duckdb"):
            self.refuse(f"FILTER on {name}", "filter the rows")
        condition = self.translate(node.expression, scope)
        made = self.translate(node.this, scope)

        def filtered(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Anonymous) and part.name in (self.target.aggregates | {name}):
                return exp.Filter(this=part.copy(), expression=condition.copy())
            return part

        # transform() would go on into what it has made
        return _replace_outermost(made, filtered)


_INTEGER_TYPES = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)


def _refuse_differences(translator: Translator, node: exp.Expr) -> None:
    """Refuse what the user wrote if it may mean something else for some values."""
    match node:
        case exp.Cast() if node.to.this in _INTEGER_TYPES and not isinstance(
            node.this, exp.Predicate
        ):
            remedy = "DuckDB rounds, others cut off: round() or floor() will do"
            translator.refuse("a cast of a number to a whole one", remedy)
        case exp.TryCast():
            translator.refuse("TRY_CAST", "cast in a view")
        case exp.Like() if "\\" in node.expression.name:
            translator.refuse("LIKE with a backslash")
        # Elsewhere the word may be taken for an alias of the table before it.
        case exp.Join() if {node.method, node.kind} & {"ASOF", "POSITIONAL", "SEMI", "ANTI"}:
            word = node.kind if node.kind in ("SEMI", "ANTI") else node.method
            translator.refuse(f"{word} JOIN", "join on a condition, or EXISTS")
        case exp.SetOperation() if node.args.get("by_name"):
            translator.refuse("BY NAME", "write the columns in one order")
        case exp.Div() | exp.IntDiv() | exp.Mod() if translator.target.zero_is_null:
            if _can_be_zero(node.expression):
                divisor = node.expression.sql()
                remedy = f"nullif({divisor}, 0) says that it is NULL"
                translator.refuse(f"a division by {divisor}, which may be 0,", remedy)


def _can_be_zero(node: exp.Expr) -> bool:
    """Is it neither a constant nor NULL where it is 0?"""
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return not node.is_string and float(node.this) == 0
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    known = name == "nullif" or (name == "count" and node.find(exp.Star) is not None)
    return not known and node.find(exp.Column, exp.Star) is not None


def _replace_outermost(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The tree with its outermost parts changed."""
    changed = change(node)
    if changed is not node:
        return changed
    for part in list(node.iter_expressions()):
        made = _replace_outermost(part, change)
        if made is not part:
            part.replace(made)
    return node

"""The expressions of a window query: macros expanded into columns of steps and sums of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from rankql import macros
from rankql.engines.folding import NOT_CONSTANT, constant_value, fold, function_call, parenthesise
from rankql.engines.rewrites import average_as_double
from rankql.engines.sql_trees import Macro, bind_arguments
from rankql.engines.translation import FUNCTIONS, Target, Translator
from rankql.engines.window_constants import (
    as_float_literal,
    as_text,
    compute_constant,
    is_constant,
    is_double,
    is_one,
    refuse_option,
)
from rankql.engines.window_engines import Engine
from rankql.engines.window_macros import (
    AGGREGATES,
    alternative_form,
    is_scalar,
    window_macros,
    window_metrics,
)
from rankql.engines.window_steps import Steps
from rankql.errors import RankqlError

# Macros that are a column of the rows, by what it is called.
_COLUMNS = {
    "rankql_grade": "rel",
    "rankql_position": "pos",
    "rankql_scaled": "gain",
    "rankql_place": "place",
    "rankql_nth": "nth",
    "rankql_above": "above",
    "rankql_arrival": "arrival",
    "rankql_all_relevant": "relevant",
    "rankql_all_nonrelevant": "nonrelevant",
}

# Functions of the macros that are let through to the engine, which every engine here has.
_FUNCTIONS = {"any_value", "error", "greatest", "least", "pow"}
# What is worked out by DuckDB where no row decides it.
COMPUTED = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.DPipe, exp.Paren, exp.Not, exp.Is),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Like),
    *(exp.SimilarTo, exp.Cast, exp.TryCast, exp.Bracket, exp.Slice, exp.Anonymous),
)
_UNCHANGED: Mapping[type[exp.Expr] | str, Any] = {
    kind: lambda _, node: node for kind in (exp.Bracket, exp.Slice, exp.SimilarTo, exp.Lambda)
}


class WindowTranslator(Translator):
    """The expressions of a query for an engine, metrics as columns of steps and sums of them."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(Target(engine.name, engine.dialect, rules=_UNCHANGED))
        self.engine = engine
        # Of the SELECT that is being made; None where a value is to stand where it is.
        self._steps: Steps | None = None

    def translate(self, node: Any, scope: Mapping[str, exp.Expr] | None = None) -> Any:
        """The translation of a tree; what no row decides is decided here."""
        scope = scope or {}
        if isinstance(node, exp.Case):
            return self._translate_case(node, scope)
        if self.in_user_sql and type(node) in _UNCHANGED:
            self.refuse(type(node).__name__)
        made = super().translate(node, scope)
        if isinstance(made, exp.Window) and self._expanding and self._steps:
            made.set("partition_by", [key.copy() for key in self._steps.partition])
            for by in made.find_all(exp.Ordered):  # no NULL is among them
                by.set("nulls_first", self._nulls_first(by))
        return self._simplify(made) if self._expanding and isinstance(made, exp.Expr) else made

    def _nulls_first(self, by: exp.Ordered) -> bool:
        """Where the engine has NULL if nothing is said of it."""
        order = Dialect.get_or_raise(self.engine.dialect).NULL_ORDERING
        return order != "nulls_are_last" and (order == "nulls_are_large") is bool(by.args["desc"])

    def _simplify(self, node: exp.Expr) -> exp.Expr:
        """A part of a macro, decided if no row decides it."""
        if isinstance(node, COMPUTED) and not isinstance(node, exp.Slice) and is_constant(node):
            return compute_constant(node)
        match node:
            case exp.Mul() | exp.Div() if is_one(node.expression) and is_double(node.this):
                return cast(exp.Expr, node.this)
            case exp.Mul() if is_one(node.this) and is_double(node.expression):
                return cast(exp.Expr, node.expression)
            case exp.Or() | exp.And():
                return fold(node)
            case exp.Bracket() if isinstance(node.this, exp.Array) and len(node.expressions) == 1:
                entries = enumerate(node.this.expressions, 1)
                ifs = [exp.If(this=exp.convert(i), true=value.copy()) for i, value in entries]
                return exp.Case(this=node.expressions[0], ifs=ifs)
            case exp.Bracket() | exp.SimilarTo():
                self.refuse(type(node).__name__)
            case exp.Cast() if isinstance(node.this.unnest(), exp.Predicate):
                one, zero = (exp.cast(exp.convert(n), node.to) for n in (1, 0))
                return exp.Case(ifs=[exp.If(this=node.this.unnest(), true=one)], default=zero)
            case exp.DPipe():
                sides = (node.this, node.expression)
                node = exp.DPipe(this=as_text(sides[0]), expression=as_text(sides[1]), safe=True)
            case exp.Div():  # so that nothing is cast that need not be
                node.set("typed", is_double(node))
        return node

    def _translate_case(self, node: exp.Case, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        """From the top, so that what is not reached is not worked out."""
        operand = self.translate(node.this, scope) if node.this else None
        kept, default = [], node.args.get("default")
        for branch in node.args["ifs"]:
            condition = self.translate(branch.this, scope)
            decided = condition
            if operand is not None and self._expanding:
                same = exp.EQ(this=operand.copy(), expression=condition.copy())
                decided = self._simplify(same)
            value = constant_value(decided) if self._expanding else NOT_CONSTANT
            if value is None or value is False:
                continue
            if value is True:
                default = branch.args["true"]
                break
            result = self.translate(branch.args["true"], scope)
            if not condition.find(exp.Column):  # there are rows: no more is asked
                refuse_option(result)
            kept.append(exp.If(this=condition, true=result))
        made = self.translate(default, scope) if default is not None else None
        if kept:
            return exp.Case(this=operand, ifs=kept, default=made)
        refuse_option(made)
        return made or exp.Null()

    def _translate_call(self, node: exp.Anonymous, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        name = node.name.lower()
        if any(isinstance(argument, exp.Order) for argument in node.expressions):
            self.refuse(f"ORDER BY within {name}()")
        if name in window_macros():
            return self._expand(window_macros()[name], node.expressions, scope)
        made = function_call(name, *self.translate(node.expressions, scope))
        if not self._expanding:
            # Of several values they are something else.
            largest = name in ("max", "min") and len(made.expressions) > 1
            if name not in FUNCTIONS or largest:
                self.refuse(f"{name}()")
            return average_as_double(made) if name == "avg" else made
        if name == "error":
            return made
        if is_constant(made):
            return compute_constant(made)
        first = made.expressions[0] if made.expressions else exp.Null()
        match name:
            case "typeof":
                # Everything that counts is cast to it.
                return (
                    compute_constant(made) if not first.find(exp.Column) else exp.convert("DOUBLE")
                )
            case "isfinite":
                most = exp.Literal.number("1.7976931348623157e308")
                return exp.LTE(this=function_call("abs", first), expression=most)
            case "log2":
                two = compute_constant(function_call("ln", exp.Literal.number("2.0")))
                return exp.Paren(
                    this=self._simplify(exp.Div(this=function_call("ln", first), expression=two))
                )
            case "coalesce":  # of what is a DOUBLE
                floats = (as_float_literal(part) for part in made.expressions)
                return fold(function_call(name, *floats))
        if name not in _FUNCTIONS | FUNCTIONS:
            self.refuse(f"{name}()")
        return function_call(name, *made.expressions)

    def _expand(
        self, macro: Macro, arguments: Sequence[exp.Expr], scope: Mapping[str, exp.Expr]
    ) -> exp.Expr:
        outermost = not self._expanding
        if outermost and macro.name not in window_metrics():
            self.refuse(
                f"{macro.name}()", alternative_form(macro.name) or "DuckDB and Spark have it"
            )
        given, bound = bind_arguments(macro, arguments), {}
        for parameter, default in macro.parameters.items():
            argument = given.get(parameter, default)
            if argument is None:
                raise RankqlError(f"{macro.name} needs the argument {parameter}")
            if outermost:
                option = default is not None and parameter != "query"
                argument = self._translate_argument(macro.name, parameter, argument, option)
            elif parameter in given:
                argument = cast(exp.Expr, self.translate(argument, scope))
            bound[parameter] = parenthesise(argument)
        values = [*bound.values()]
        if self._steps is None and not is_scalar(macro.name):
            place = "ask for it in a SELECT list, HAVING or ORDER BY"
            self.refuse(f"{macro.name}() where rows are not grouped", place)
        same = macro.name not in macros.read_statements("windows")  # as it is known to DuckDB
        if same and is_scalar(macro.name) and all(map(is_constant, values)):
            return compute_constant(function_call(macro.name, *values))
        self._expanding.append(macro)
        made = parenthesise(self.translate(macro.body, bound))
        self._expanding.pop()
        if macro.name in _COLUMNS and self._steps and not is_constant(made):
            return self._steps.column(_COLUMNS[macro.name], made.unnest())
        return made

    def _translate_argument(
        self, metric: str, name: str, given: exp.Expr, option: bool
    ) -> exp.Expr:
        """A column or an option of a metric as it is called."""
        if option:
            if not is_constant(given):
                self.refuse(f"{metric} with {name} from a column", "give a constant")
            return compute_constant(given)
        made = self._translate_row_value(given, f"{metric}()")
        steps = self._steps
        if steps is None or isinstance(made, exp.Column) or is_constant(made):
            return made
        return steps.column(name, made)

    def _translate_row_value(self, given: exp.Expr, place: str) -> exp.Expr:
        """What a row alone has to say."""
        steps, self._steps = self._steps, None
        made = cast(exp.Expr, self.translate(given))
        self._steps = steps
        calls = (call.name.lower() for call in made.find_all(exp.Anonymous))
        if made.find(exp.Window) or any(name in AGGREGATES for name in calls):
            self.refuse(
                f"an aggregate or a window within {place}", "make it a column in a subquery"
            )
        return made

    def _translate_filter(self, node: exp.Filter, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        """As a CASE, which every engine has."""
        name = node.this.name.lower()
        if name in window_macros():
            self.refuse(f"FILTER on {name}", "filter the rows")
        condition = self.translate(node.expression.this, scope)
        (counted,) = self.translate(node.this, scope).expressions
        distinct = isinstance(counted, exp.Distinct)
        value = counted.expressions[0] if distinct else counted
        value = exp.Literal.number(1) if isinstance(value, exp.Star) else value
        case = exp.Case(ifs=[exp.If(this=condition, true=value)])
        return function_call(name, exp.Distinct(expressions=[case]) if distinct else case)

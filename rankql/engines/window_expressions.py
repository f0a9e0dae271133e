"""Expressions of window queries: macros become columns of steps and sums of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from rankql import macros
from rankql.engines.constants import (
    AGGREGATES,
    compute_constant,
    fold,
    function_call,
    is_constant,
    parenthesise,
)
from rankql.engines.sql_trees import Macro, bind_arguments
from rankql.engines.translation import FUNCTIONS, Target, Translator, average_as_double
from rankql.engines.window_engines import Engine
from rankql.engines.window_macros import (
    alternative_form,
    is_scalar,
    window_macros,
    window_metrics,
)
from rankql.engines.window_steps import WindowSteps
from rankql.errors import RankqlError

# Macros that become a column, with its name.
_COLUMNS = {
    "rankql_grade": "rel",
    "rankql_position": "pos",
    "rankql_scaled": "gain",
    "rankql_place": "place",
    "rankql_nth": "nth",
    "rankql_above": "above",
    "rankql_number_above": "number",
    "rankql_arrival": "arrival",
    "rankql_ideal_gain": "ideal",
    "rankql_ideal_arrival": "ideal_arrival",
    "rankql_all_relevant": "relevant",
    "rankql_all_nonrelevant": "nonrelevant",
}

# Functions in macros that every engine here has.
_FUNCTIONS = {"any_value", "error", "greatest", "least", "pow"}
_UNCHANGED: Mapping[type[exp.Expr] | str, Any] = {
    kind: lambda _, node: node for kind in (exp.Bracket, exp.Slice, exp.SimilarTo, exp.Lambda)
}


class WindowTranslator(Translator):
    """Translates the expressions of a query."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(Target(engine.name, engine.dialect, rules=_UNCHANGED))
        self.engine = engine
        # The steps of the current SELECT; None inside expressions over one row.
        self._steps: WindowSteps | None = None

    def translate(self, node: Any, scope: Mapping[str, exp.Expr] | None = None) -> Any:
        """Translate a tree and compute its constants."""
        if self.in_user_sql and type(node) in _UNCHANGED:
            self.refuse(type(node).__name__)
        made = super().translate(node, scope)
        if isinstance(made, exp.Window) and self._expanding and self._steps:
            made.set("partition_by", [key.copy() for key in self._steps.partition])
            for by in made.find_all(exp.Ordered):  # no value is NULL
                by.set("nulls_first", self._nulls_first(by))
        return self._simplify(made) if self._expanding and isinstance(made, exp.Expr) else made

    def _nulls_first(self, by: exp.Ordered) -> bool:
        """Whether the engine puts NULL first by default."""
        order = Dialect.get_or_raise(self.engine.dialect).NULL_ORDERING
        return order != "nulls_are_last" and (order == "nulls_are_large") is bool(by.args["desc"])

    def _simplify(self, node: exp.Expr) -> exp.Expr:
        """Rewrite a part of a macro for engines without lists."""
        match node:
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
        return node

    def compute(self, node: exp.Expr) -> exp.Expr:
        """The literal of a constant expression, numbers as they are written."""
        return compute_constant(node, typed=False)

    def _translate_case(self, node: exp.Case, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        """A CASE without the branches that constants rule out, and no certain error."""
        made = super()._translate_case(node, scope)
        if not isinstance(made, exp.Case):
            refuse_option(made)
        elif not made.args["ifs"][0].this.find(exp.Column):  # it holds where there are rows
            refuse_option(made.args["ifs"][0].args["true"])
        return made

    def _translate_call(self, node: exp.Anonymous, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        name = node.name.lower()
        if any(isinstance(argument, exp.Order) for argument in node.expressions):
            self.refuse(f"ORDER BY within {name}()")
        if name in window_macros():
            return self._expand(window_macros()[name], node.expressions, scope)
        made = function_call(name, *self.translate(node.expressions, scope))
        if not self._expanding:
            # With two arguments they are other functions.
            largest = name in ("max", "min") and len(made.expressions) > 1
            if name not in FUNCTIONS or largest:
                self.refuse(f"{name}()")
            return average_as_double(made) if name == "avg" else made
        if name == "error":
            return made
        if is_constant(made):
            return self.compute(made)
        first = made.expressions[0] if made.expressions else exp.Null()
        match name:
            case "typeof":
                # Macros cast all columns to DOUBLE.
                return self.compute(made) if not first.find(exp.Column) else exp.convert("DOUBLE")
            case "isfinite":
                most = exp.Literal.number("1.7976931348623157e308")
                return exp.LTE(this=function_call("abs", first), expression=most)
            case "log2":
                two = self.compute(function_call("ln", exp.Literal.number("2.0")))
                return exp.Paren(
                    this=self._simplify(exp.Div(this=function_call("ln", first), expression=two))
                )
            case "coalesce":
                return fold(made)
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
        by_name, bound = bind_arguments(macro, arguments), {}
        for parameter, default in macro.parameters.items():
            argument = by_name.get(parameter, default)
            if argument is None:
                raise RankqlError(f"{macro.name} needs the argument {parameter}")
            if outermost:
                option = default is not None and parameter != "query"
                argument = self._translate_argument(macro.name, parameter, argument, option)
            elif parameter in by_name:
                argument = cast(exp.Expr, self.translate(argument, scope))
            bound[parameter] = parenthesise(argument)
        values = [*bound.values()]
        if self._steps is None and not is_scalar(macro.name):
            place = "ask for it in a SELECT list, HAVING or ORDER BY"
            self.refuse(f"{macro.name}() where rows are not grouped", place)
        same = macro.name not in macros.read_statements("windows")  # DuckDB has that macro
        if same and is_scalar(macro.name) and all(map(is_constant, values)):
            return self.compute(function_call(macro.name, *values))
        self._expanding.append(macro)
        made = parenthesise(self.translate(macro.body, bound))
        self._expanding.pop()
        if macro.name in _COLUMNS and self._steps and not is_constant(made):
            return self._steps.column(_COLUMNS[macro.name], made.unnest())
        return made

    def _translate_argument(
        self, metric: str, name: str, value: exp.Expr, option: bool
    ) -> exp.Expr:
        """Translate an argument of a metric in the user's query."""
        if option:
            if not is_constant(value):
                self.refuse(f"{metric} with {name} from a column", "give a constant")
            return self.compute(value)
        made = self._translate_row_value(value, f"{metric}()")
        steps = self._steps
        if steps is None or isinstance(made, exp.Column) or is_constant(made):
            return made
        return steps.column(name, made)

    def _translate_row_value(self, value: exp.Expr, place: str) -> exp.Expr:
        """Translate an expression over one row."""
        steps, self._steps = self._steps, None
        made = cast(exp.Expr, self.translate(value))
        self._steps = steps
        calls = (call.name.lower() for call in made.find_all(exp.Anonymous))
        if made.find(exp.Window) or any(name in AGGREGATES for name in calls):
            self.refuse(
                f"an aggregate or a window within {place}", "make it a column in a subquery"
            )
        return made

    def _translate_filter(self, node: exp.Filter, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        self.refuse(f"FILTER on {node.this.name.lower()}", "filter the rows")


def refuse_option(result: exp.Expr | None) -> None:
    """Raise an error that holds for all rows while the query is written."""
    if isinstance(result, exp.Anonymous) and result.name == "error":
        (message,) = result.expressions
        if message.is_string:
            raise RankqlError(message.name)


def as_text(value: exp.Expr) -> exp.Expr:
    """The value cast to text, unless it is text already."""
    is_text = isinstance(value, exp.Cast) and value.to.is_type(*exp.DataType.TEXT_TYPES)
    is_text = is_text or isinstance(value, exp.DPipe) or value.is_string
    return value if is_text else exp.cast(value, "VARCHAR")

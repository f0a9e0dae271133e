"""Write metrics as one window query, for engines without lists and lambdas.

A query becomes a sequence of steps: rows with checked grades and positions, window columns, and
sums by group. The metrics are the macros of sql/, or of sql/windows.sql where sql/ uses lists.
Constants, such as a cutoff, are computed while the query is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from rankql.engines.sql_trees import (
    AGGREGATES,
    Macro,
    compute_constant,
    function_call,
    is_constant,
    is_scalar,
    name_projection,
    parse_sql,
    window_macros,
    window_metrics,
)
from rankql.engines.translation import Rule, Scope, Target, Translator, render, rewrite_average
from rankql.errors import RankqlError


@dataclass(frozen=True)
class Engine:
    """An engine that runs window queries."""

    name: str
    # The name in sqlglot.
    dialect: str
    # Whether tests run its queries.
    executed: bool = False
    # An expression that raises an error. Every engine fails on a text cast to a number.
    error: str = "CAST({} AS DOUBLE)"


ENGINES = {
    "duckdb": Engine("DuckDB", "duckdb", executed=True, error="error({})"),
    "postgres": Engine("Postgres", "postgres", executed=True),
    "datafusion": Engine("DataFusion", "postgres", executed=True),
    "snowflake": Engine("Snowflake", "snowflake"),
    "bigquery": Engine("BigQuery", "bigquery", error="error({})"),
    "databricks": Engine("Databricks", "databricks", error="raise_error({})"),
    "trino": Engine("Trino", "trino", error="fail({})"),
    "redshift": Engine("Redshift", "redshift"),
}
_SELECT_PARTS = {
    *("kind", "hint", "expressions", "from_", "joins", "where", "group", "order"),
    *("limit", "offset", "with_", "operation_modifiers", "exclude"),
}


def translate_to_windows(query: str, dialect: str) -> str:
    """Translate a query in DuckDB's SQL that calls metrics into a window query.

    Every SELECT that calls a metric is rewritten, including subqueries: `SELECT keys, metrics,
    other aggregates FROM ... [WHERE] [GROUP BY keys] [ORDER BY] [LIMIT]`. Values and NULL equal
    those of DuckDB. Wrong options and constructs without a translation raise a RankqlError; wrong
    grades and positions are errors of the translated query. The text says at its top if no test
    runs the engine.

    >>> query = "SELECT user, recall_at(rel, pos, 5) FROM t GROUP BY user"
    >>> print(translate_to_windows(query, "postgres"))  # doctest: +ELLIPSIS
    WITH "rankql_rows" AS (
    ...
    """
    engine = ENGINES[dialect]
    tree = parse_sql(query)
    for name in tree.find_all(exp.Identifier):
        if name.name.lower().startswith("rankql_"):
            raise RankqlError(
                f"{name.name}: names with rankql_ at the start are reserved. Rename it."
            )
    made = transform_parts(
        _WindowTranslator(engine).translate(tree),
        exp.Anonymous,
        lambda call: (
            fill_template(engine.error, call.expressions[0].unnest())
            if call.name == "error"
            else call
        ),
    )
    for name in made.find_all(exp.Identifier):
        if not name.quoted:  # all names are quoted in the end
            Dialect.get_or_raise(engine.dialect).normalize_identifier(name)
    note = "" if engine.executed else f"-- not executed: no test of rankql runs {engine.name}\n"
    return note + render(made, engine.name, engine.dialect, pretty=True)


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


def _rewrite_aggregate(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    """With two arguments, max() and min() are other functions."""
    if translator.in_user_sql and len(node.expressions) > 1:
        translator.refuse(f"{node.name}()")
    return node


def _rewrite_finite(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    most = exp.Literal.number("1.7976931348623157e308")
    return exp.LTE(this=function_call("abs", *node.expressions), expression=most)


def _rewrite_log(translator: Translator, node: exp.Anonymous) -> exp.Expr:
    two = translator.compute(function_call("ln", exp.Literal.number("2.0")))
    return exp.Paren(this=exp.Div(this=function_call("ln", *node.expressions), expression=two))


_UNCHANGED = (exp.Bracket, exp.Slice, exp.SimilarTo, exp.Lambda)
_RULES: Mapping[type[exp.Expr] | str, Rule] = {
    **{kind: lambda _, node: node for kind in _UNCHANGED},
    **dict.fromkeys(("max", "min"), _rewrite_aggregate),
    "avg": rewrite_average,
    "isfinite": _rewrite_finite,
    "log2": _rewrite_log,
    # Macros cast all columns to DOUBLE.
    "typeof": lambda self, x: exp.convert("DOUBLE") if x.find(exp.Column) else self.compute(x),
}
# Functions in macros that every engine here has.
_FUNCTIONS = frozenset({"any_value", "error", "greatest", "least", "pow"})


class _WindowTranslator(Translator):
    """Translates a query. Each SELECT that calls a metric becomes a sequence of steps."""

    def __init__(self, engine: Engine) -> None:
        helpers = _FUNCTIONS | {"isfinite", "log2", "typeof"}
        target = Target(engine.name, engine.dialect, _FUNCTIONS, rules=_RULES, helpers=helpers)
        super().__init__(target)
        self.engine = engine
        # The steps of the current SELECT; None inside expressions over one row.
        self._steps: WindowSteps | None = None

    def translate(self, node: Any, scope: Scope | None = None) -> Any:
        """Translate a tree and compute its constants."""
        select = node if isinstance(node, exp.Select) else None
        # The clauses that can call metrics.
        parts = [*select.expressions, *map(select.args.get, ("having", "order"))] if select else []
        if select and any(calls_metric(part) for part in parts if part):
            query = self._translate_select(node)
            in_set = isinstance(node.parent, exp.SetOperation)  # WITH is not possible there
            return exp.select("*").from_(query.subquery("rankql_part")) if in_set else query
        if self.in_user_sql and type(node) in _UNCHANGED:
            self.refuse(type(node).__name__)
        made = super().translate(node, scope)
        if isinstance(made, exp.Window) and self._expanding and self._steps:
            made.set("partition_by", [key.copy() for key in self._steps.partition])
            order = Dialect.get_or_raise(self.engine.dialect).NULL_ORDERING
            for by in made.find_all(exp.Ordered):  # no value is NULL: as the engine by default
                large = order == "nulls_are_large"
                first = order != "nulls_are_last" and large is bool(by.args["desc"])
                by.set("nulls_first", first)
        return self._simplify(made) if self._expanding and isinstance(made, exp.Expr) else made

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

    def find_macro(self, name: str, count: int) -> Macro | None:
        """The macro of a name."""
        return window_macros().get(name)

    def compute(self, node: exp.Expr) -> exp.Expr:
        """The literal of a constant expression, numbers as they are written."""
        return compute_constant(node, typed=False)

    def _translate_case(self, node: exp.Case, scope: Scope) -> exp.Expr:
        """A CASE without the branches that constants rule out, and no certain error."""
        made = super()._translate_case(node, scope)
        result: exp.Expr | None = made
        if isinstance(made, exp.Case):
            first = made.args["ifs"][0]
            # Without a column it holds where there are rows.
            result = None if first.this.find(exp.Column) else first.args["true"]
        if isinstance(result, exp.Anonymous) and result.name == "error":
            (message,) = result.expressions
            if message.is_string:
                raise RankqlError(message.name)
        return made

    def _expand(self, macro: Macro, arguments: Sequence[exp.Expr], scope: Scope) -> exp.Expr:
        if self.in_user_sql and macro.name not in window_metrics():
            self.refuse(f"{macro.name}()", "DuckDB and Spark have it")
        if self._steps is None and not is_scalar(macro.name):
            place = "ask for it in a SELECT list, HAVING or ORDER BY"
            self.refuse(f"{macro.name}() where rows are not grouped", place)
        made = super()._expand(macro, arguments, scope)
        if macro.name in _COLUMNS and self._steps and not is_constant(made):
            return self._steps.column(_COLUMNS[macro.name], made.unnest())
        return made

    def bind(self, macro: Macro, parameter: str, given: Scope, scope: Scope) -> exp.Expr:
        """The translated argument; of a metric in the user's query, a column or a constant."""
        if not self.in_user_sql:
            return super().bind(macro, parameter, given, scope)
        default = macro.parameters[parameter]
        value = given.get(parameter, default)
        assert value
        if default is not None and parameter != "query":
            if not is_constant(value):
                self.refuse(f"{macro.name} with {parameter} from a column", "give a constant")
            return self.compute(value)
        steps, self._steps = self._steps, None  # an expression over one row
        made = cast(exp.Expr, self.translate(value))
        self._steps = steps
        calls = {call.name.lower() for call in made.find_all(exp.Anonymous)}
        if made.find(exp.Window) or calls & AGGREGATES:
            place = f"an aggregate or a window within {macro.name}()"
            self.refuse(place, "make it a column in a subquery")
        if steps is None or isinstance(made, exp.Column) or is_constant(made):
            return made
        return steps.column(parameter, made)

    def _translate_filter(self, node: exp.Filter, scope: Scope) -> exp.Expr:
        self.refuse(f"FILTER on {node.this.name.lower()}", "filter the rows")

    def _translate_select(self, node: exp.Select) -> exp.Select:
        """Translate a SELECT that calls metrics."""
        for part, value in node.args.items():
            if value and part not in _SELECT_PARTS:
                self.refuse(f"{part.upper()} next to a metric", "put it around the query")
        outer, self._steps = self._steps, (steps := WindowSteps())
        projections = [name_projection(part) for part in node.expressions]
        keys = self._group_keys(node.args.get("group"), projections)
        steps.partition = [steps.source(cast(exp.Column, key)) for key in keys]
        of = dict(zip(map(normalise_names, keys), steps.partition, strict=True))
        outputs = [_name_output(part, self._translate_aggregate(part, of)) for part in projections]
        made = exp.Select(expressions=outputs)
        names = {part.alias_or_name.lower() for part in outputs}
        if order := node.args.get("order"):
            for by in (part.this for part in order.expressions):
                named = isinstance(by, exp.Column) and not by.table and by.name.lower() in names
                if not (named or isinstance(by, exp.Literal)):
                    remedy = "order by selected columns, by their names"
                    self.refuse(f"ORDER BY {by.sql()}", remedy)
            made.set("order", order.copy())
        for part in ("limit", "offset"):
            made.set(part, self.translate(node.args.get(part)))
        if keys:
            made.set("group", exp.Group(expressions=[key.copy() for key in steps.partition]))
        self._steps = None
        source = {name: self.translate(node.args.get(name)) for name in ("from_", "joins", "where")}
        with_ = self.translate(node.args.get("with_"))
        self._steps = outer
        ctes, last = list(with_.expressions) if with_ else [], ""
        for n, columns in enumerate(steps.steps, 1):
            listed = [*columns.values()] or [exp.alias_(exp.Literal.number(1), "rankql_row")]
            if last:
                body = exp.Select(expressions=[exp.Star(), *listed]).from_(exp.to_table(last))
            else:
                body = exp.Select(expressions=listed, **source)
            last = "rankql_rows" if n == 1 else f"rankql_rows_{n}"
            ctes.append(exp.CTE(this=body, alias=exp.TableAlias(this=exp.to_identifier(last))))
        recursive = bool(with_ and with_.args.get("recursive"))
        made = made.from_(exp.to_table(last))
        made.set("with_", exp.With(expressions=ctes, recursive=recursive))
        return made

    def _group_keys(
        self, group: exp.Group | None, projections: Sequence[exp.Expr]
    ) -> list[exp.Expr]:
        """The columns of GROUP BY."""
        if group is None:
            return []
        if any(value for part, value in group.args.items() if part != "expressions"):
            self.refuse("GROUP BY with grouping sets", "ask for one after the other")
        for key in group.expressions:
            if not isinstance(key, exp.Column):
                self.refuse(f"GROUP BY {key.sql()}", "make it a column in a subquery")
            named = [p for p in projections if p.alias and p.alias.lower() == key.name.lower()]
            if named and not key.table and named[0].this != key:
                self.refuse(f"GROUP BY {key.name}, an alias,", "group by its expression")
        return [*group.expressions]

    def _translate_aggregate(self, node: exp.Expr, keys: Mapping[str, exp.Expr]) -> exp.Expr:
        """Translate an expression over groups: keys, metrics and other aggregates."""
        if node.is_star:
            self.refuse("* next to a metric", "name the columns")
        if node.find(exp.Query):
            self.refuse("a query in the list of a SELECT of metrics", "join it, or put it around")
        node = transform_parts(
            node, exp.Condition, lambda part: keys.get(normalise_names(part), part).copy()
        )
        made = self.translate(node)
        steps = cast(WindowSteps, self._steps)
        for column in made.find_all(exp.Column):
            if INTERNAL not in column.meta and not is_in_aggregate(column):
                hint = "put it into GROUP BY or into an aggregate"
                raise RankqlError(f"{column.sql()} is neither a key nor in an aggregate; {hint}")
        return steps.carry_columns(made)


def _name_output(original: exp.Expr, made: exp.Expr) -> exp.Expr:
    """Keep the name of a selected column."""
    if isinstance(original, exp.Column) and made.name == original.name:
        return made
    if isinstance(made, exp.Alias) or not isinstance(made, exp.Column):
        return made
    quoted = not isinstance(original, exp.Column)
    return exp.alias_(made, exp.to_identifier(original.name or original.sql(), quoted=quoted))


def fill_template(template: str, value: exp.Expr) -> exp.Expr:
    """Put a value into a template."""
    made = parse_sql(template.format("value"))
    return made.transform(lambda part: value.copy() if isinstance(part, exp.Column) else part)


def calls_metric(node: exp.Expr) -> bool:
    """Whether the node calls a metric, ignoring subqueries."""
    if isinstance(node, exp.Anonymous) and node.name.lower() in window_macros():
        return not is_scalar(node.name.lower())
    return not isinstance(node, exp.Query) and any(map(calls_metric, node.iter_expressions()))


def is_in_aggregate(column: exp.Column) -> bool:
    """Whether the column is an argument of an aggregate that is not a window function."""
    call = column.find_ancestor(exp.Anonymous)
    while call and call.name.lower() not in AGGREGATES:
        call = call.find_ancestor(exp.Anonymous)
    return call is not None and not isinstance(call.parent, exp.Window)


def as_text(value: exp.Expr) -> exp.Expr:
    """The value cast to text, unless it is text already."""
    is_text = isinstance(value, exp.Cast) and value.to.is_type(*exp.DataType.TEXT_TYPES)
    is_text = is_text or isinstance(value, exp.DPipe) or value.is_string
    return value if is_text else exp.cast(value, "VARCHAR")


INTERNAL = "rankql"


def transform_parts(tree: exp.Expr, kind: type[exp.Expr], change: Callable[[Any], exp.Expr]) -> Any:
    """Replace the parts of one type in a tree."""
    return tree.transform(lambda part: change(part) if isinstance(part, kind) else part)


def normalise_names(node: exp.Expr) -> str:
    """The text of an expression with names in lower case."""
    return str(
        transform_parts(node, exp.Identifier, lambda n: exp.to_identifier(n.name.lower())).sql()
    )


class WindowSteps:
    """Columns by step. A column can use those of earlier steps."""

    def __init__(self) -> None:
        self.partition: list[exp.Expr] = []
        self.steps: list[dict[str, exp.Expr]] = [{}]
        self._known: dict[str, exp.Column] = {}
        self._step: dict[str, int] = {}

    def column(self, name: str, value: exp.Expr) -> exp.Column:
        """The column for a value, added if it is new."""
        used = [self._step[c.name] for c in value.find_all(exp.Column) if INTERNAL in c.meta]
        if used:
            value = self.carry_columns(value)
        key = value.sql()
        if key not in self._known:
            step = 1 + max(used, default=-1)
            self.steps += [{} for _ in range(step + 1 - len(self.steps))]
            self._known[key] = self._add(step, f"rankql_{name}", value)
        return self._known[key].copy()

    def carry_columns(self, value: exp.Expr) -> exp.Expr:
        """Replace columns of the source by columns of the steps."""
        return cast(
            exp.Expr,
            transform_parts(
                value, exp.Column, lambda c: c if INTERNAL in c.meta else self.source(c)
            ),
        )

    def source(self, column: exp.Column) -> exp.Column:
        """A column of the source, under its own name if that is free."""
        key = normalise_names(column)
        if key not in self._known:
            self._known[key] = self._add(0, column.name, column, column.this.quoted)
        return self._known[key].copy()

    def _add(self, step: int, name: str, value: exp.Expr, quoted: bool = False) -> exp.Column:
        taken = {other.lower() for other in self._step}
        names = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
        free = next(other for other in names if other.lower() not in taken)
        self._step[free] = step
        self.steps[step][free] = exp.alias_(value.copy(), exp.to_identifier(free, quoted=quoted))
        made = exp.column(exp.to_identifier(free, quoted=quoted))
        made.meta[INTERNAL] = True
        return made

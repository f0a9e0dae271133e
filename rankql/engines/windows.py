"""Write metrics as one window query, for engines without lists and lambdas.

A query becomes a sequence of steps: rows with checked grades and positions, window columns, and
sums by group. The metrics are the macros of sql/, or of sql/windows.sql where sql/ uses lists.
Constants, such as a cutoff, are computed while the query is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from rankql.engines.sql_trees import name_projection, parse_sql
from rankql.engines.window_engines import ENGINES, Engine
from rankql.engines.window_expressions import WindowTranslator
from rankql.engines.window_macros import (
    calls_metric,
    is_in_aggregate,
    metric_places,
)
from rankql.engines.window_steps import (
    INTERNAL,
    WindowSteps,
    chain_steps,
    normalise_names,
    transform_parts,
)
from rankql.errors import RankqlError

_SELECT_PARTS = {
    "kind",
    "hint",
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "order",
}
_SELECT_PARTS |= {"limit", "offset", "with_", "operation_modifiers", "exclude"}


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
    made = _QueryTranslator(engine).translate(tree)
    note = "" if engine.executed else f"-- not executed: no test of rankql runs {engine.name}\n"
    return note + _render_for(made, engine)


def _render_for(tree: exp.Expr, engine: Engine) -> str:
    kind = Dialect.get_or_raise(engine.dialect)
    tree = transform_parts(
        tree,
        exp.Anonymous,
        lambda call: (
            fill_template(engine.error, call.expressions[0].unnest())
            if call.name == "error"
            else call
        ),
    )
    for name in tree.find_all(exp.Identifier):
        if not name.quoted:  # all names are quoted in the end
            kind.normalize_identifier(name)
    try:
        return tree.sql(
            dialect=kind,
            identify=True,
            normalize_functions=False,
            unsupported_level=sqlglot.ErrorLevel.RAISE,
            comments=False,
            pretty=True,
        )
    except sqlglot.errors.UnsupportedError as error:
        raise RankqlError(f"{engine.name} does not support the query: {error}") from error


class _QueryTranslator(WindowTranslator):
    """Translates a query. Each SELECT that calls a metric becomes a sequence of steps."""

    def translate(self, node: Any, scope: Mapping[str, exp.Expr] | None = None) -> Any:
        """Translate a tree; a SELECT that calls a metric becomes a sequence of steps."""
        if not isinstance(node, exp.Select) or not any(map(calls_metric, metric_places(node))):
            return super().translate(node, scope)
        query = self._translate_select(node)
        if isinstance(node.parent, exp.SetOperation):  # WITH is not possible there
            query = exp.select("*").from_(query.subquery("rankql_part"))
        return query

    def _translate_select(self, node: exp.Select) -> exp.Select:
        """Translate a SELECT that calls metrics."""
        for part, value in node.args.items():
            if value and part not in _SELECT_PARTS:
                self.refuse(f"{part.upper()} beside a metric", "put it around the query")
        outer, self._steps = self._steps, (steps := WindowSteps())
        projections = [name_projection(part) for part in node.expressions]
        keys = self._group_keys(node.args.get("group"), projections)
        steps.partition = [steps.source(cast(exp.Column, key)) for key in keys]
        of = dict(zip(map(normalise_names, keys), steps.partition, strict=True))
        outputs = [_name_output(part, self._translate_aggregate(part, of)) for part in projections]
        made = exp.Select(expressions=outputs)
        if order := node.args.get("order"):
            names = {part.alias_or_name.lower() for part in outputs}
            made.set("order", self._translate_order(order, names))
        for part in ("limit", "offset"):
            made.set(part, self.translate(node.args.get(part)))
        if keys:
            made.set("group", exp.Group(expressions=[key.copy() for key in steps.partition]))
        self._steps = None
        source = {name: self.translate(node.args.get(name)) for name in ("from_", "joins", "where")}
        with_ = self.translate(node.args.get("with_"))
        self._steps = outer
        return chain_steps(made, steps, source, with_)

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
            self.refuse("* beside a metric", "name the columns")
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

    def _translate_order(self, order: exp.Order, outputs: set[str]) -> exp.Order:
        """ORDER BY of selected columns, by name or number."""
        for part in order.expressions:
            by = part.this
            named = isinstance(by, exp.Column) and not by.table and by.name.lower() in outputs
            if not (named or isinstance(by, exp.Literal)):
                self.refuse(f"ORDER BY {by.sql()}", "order by selected columns, by their names")
        return order.copy()


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

"""The metrics as one window query, for engines that have neither lists nor lambdas.

A query for DuckDB becomes one of steps: the rows with their grades and positions checked, window
columns, and sums by group. Its metrics are the macros of sql/, and where those use lists the macros
of sql/windows.sql. DuckDB works out beforehand what no row decides, such as a cutoff, wrong options
included; what has no translation is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from rankql.engines.sql_trees import name_projection, parse_sql
from rankql.engines.window_constants import fill_template, is_constant
from rankql.engines.window_engines import ENGINES, Engine
from rankql.engines.window_expressions import WindowTranslator
from rankql.engines.window_macros import (
    calls_aggregate,
    calls_metric,
    is_in_aggregate,
    metric_places,
)
from rankql.engines.window_steps import (
    INTERNAL,
    Steps,
    chain_steps,
    normalise_names,
    transform_parts,
)
from rankql.errors import RankqlError, did_you_mean

_SELECT_PARTS = {
    "kind",
    "hint",
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
}
_SELECT_PARTS |= {"limit", "offset", "with_", "operation_modifiers", "exclude"}


def translate_to_windows(query: str, dialect: str) -> str:
    """A query in DuckDB's SQL that calls the metrics, as a window query of another engine.

    Every SELECT that calls a metric becomes one with steps, also within another query, so that
    means over rankings can be taken: `SELECT keys, metrics, other aggregates FROM ... [WHERE]
    [GROUP BY keys] [HAVING] [ORDER BY] [LIMIT]`. Values and NULL are those of DuckDB; bad grades
    and positions are an error of the query that is run, with the message that DuckDB gives. Where
    no test runs an engine, the text says so at its top. A dialect that is not known, a wrong option
    and what has no translation are a RankqlError that names it.

    >>> query = "SELECT user, recall_at(rel, pos, 5) FROM t GROUP BY user"
    >>> print(translate_to_windows(query, "postgres"))  # doctest: +ELLIPSIS
    WITH "rankql_rows" AS (
    ...
    """
    if dialect not in ENGINES:
        hint = did_you_mean(dialect, list(ENGINES))
        raise RankqlError(f"there is no window form for the dialect {dialect!r}{hint}")
    engine = ENGINES[dialect]
    tree = parse_sql(query)
    for name in tree.find_all(exp.Identifier):
        if name.name.lower().startswith("rankql_"):
            raise RankqlError(f"{name.name}: names that begin with rankql_ are ours; rename it")
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
        if not name.quoted:  # quoted it is what it would be unquoted, and no reserved word
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
        raise RankqlError(f"{engine.name} cannot have it: {error}") from error


class _QueryTranslator(WindowTranslator):
    """A query, and within it each SELECT that calls a metric as one of steps."""

    def translate(self, node: Any, scope: Mapping[str, exp.Expr] | None = None) -> Any:
        """The translation of a tree; a SELECT that calls metrics becomes one of steps."""
        if not isinstance(node, exp.Select) or not any(map(calls_metric, metric_places(node))):
            return super().translate(node, scope)
        query = self._translate_select(node)
        if isinstance(node.parent, exp.SetOperation):  # which has no place for WITH
            query = exp.select("*").from_(query.subquery("rankql_part"))
        return query

    def _translate_select(self, node: exp.Select) -> exp.Select:
        """A SELECT that calls metrics, in steps."""
        for part, value in node.args.items():
            if value and part not in _SELECT_PARTS:
                self.refuse(f"{part.upper()} beside a metric", "put it around the query")
        outer, self._steps = self._steps, (steps := Steps())
        projections = [name_projection(part) for part in node.expressions]
        keys = self._group_keys(node.args.get("group"), projections)
        steps.partition = [self._group_key(key) for key in keys]
        of = dict(zip(map(normalise_names, keys), steps.partition, strict=True))
        aliases = {part.alias.lower(): part.this for part in projections if part.alias}
        asked = [_name_output(part, self._translate_aggregate(part, of)) for part in projections]
        made = exp.Select(expressions=asked)
        if having := node.args.get("having"):
            meant = transform_parts(
                having.this,
                exp.Column,
                lambda part: (
                    part
                    if part.find_ancestor(exp.Anonymous)
                    else aliases.get(part.name.lower(), part).copy()
                ),
            )
            made.set("having", exp.Having(this=self._translate_aggregate(meant, of)))
        if order := node.args.get("order"):
            made.set(
                "order",
                self._translate_order(order, of, {part.alias_or_name.lower() for part in asked}),
            )
        for part in ("limit", "offset"):
            made.set(part, self.translate(node.args.get(part)))
        if keys:
            made.set("group", exp.Group(expressions=[key.copy() for key in steps.partition]))
        self._steps = None
        source = {name: self.translate(node.args.get(name)) for name in ("from_", "joins", "where")}
        given = self.translate(node.args.get("with_"))
        self._steps = outer
        return chain_steps(made, steps, source, given)

    def _group_keys(
        self, group: exp.Group | None, projections: Sequence[exp.Expr]
    ) -> list[exp.Expr]:
        """What the rows are grouped by."""
        if group is None:
            return []
        if any(value for part, value in group.args.items() if part not in ("expressions", "all")):
            self.refuse("GROUP BY with grouping sets", "ask for one after the other")
        if group.args.get("all"):
            parts = [part.unalias() for part in projections if not calls_aggregate(part)]
            return [part for part in parts if not is_constant(part)]
        keys = []
        for key in group.expressions:
            if isinstance(key, exp.Literal) and key.this.isdecimal():
                if not 1 <= int(key.this) <= len(projections):
                    raise RankqlError(f"GROUP BY {key.this}: there is no such column")
                key = projections[int(key.this) - 1].unalias()
            named = [p for p in projections if p.alias and p.alias.lower() == key.name.lower()]
            if named and isinstance(key, exp.Column) and not key.table and named[0].this != key:
                self.refuse(f"GROUP BY {key.name}, an alias,", "group by what it stands for")
            keys.append(key)
        return keys

    def _group_key(self, key: exp.Expr) -> exp.Column:
        steps = cast(Steps, self._steps)
        if isinstance(key, exp.Column):
            return steps.source(key)
        if is_constant(key):
            self.refuse("GROUP BY a constant", "leave it out")
        return steps.column("key", self._translate_row_value(key, "GROUP BY"))

    def _translate_aggregate(self, node: exp.Expr, keys: Mapping[str, exp.Expr]) -> exp.Expr:
        """An expression over the groups: of keys, metrics and other aggregates."""
        if node.is_star:
            self.refuse("* beside a metric", "name the columns")
        if node.find(exp.Query):
            self.refuse("a query in the list of a SELECT of metrics", "join it, or put it around")
        node = transform_parts(
            node, exp.Condition, lambda part: keys.get(normalise_names(part), part).copy()
        )
        made = self.translate(node)
        steps = cast(Steps, self._steps)
        for column in made.find_all(exp.Column):
            if INTERNAL not in column.meta and not is_in_aggregate(column):
                hint = "put it into GROUP BY as it is written here, or into an aggregate"
                raise RankqlError(f"{column.sql()} is neither a key nor in an aggregate; {hint}")
        return steps.carry_columns(made)

    def _translate_order(
        self, order: exp.Order, keys: Mapping[str, exp.Expr], outputs: Iterable[str]
    ) -> exp.Order:
        parts = []
        for part in order.expressions:
            by = part.this
            known = isinstance(by, exp.Column) and not by.table and by.name.lower() in outputs
            if isinstance(by, exp.Var):
                self.refuse(f"ORDER BY {by.name}", "name the columns")
            made = (
                by.copy()
                if known or isinstance(by, exp.Literal)
                else self._translate_aggregate(by, keys)
            )
            part = part.copy()
            part.set("this", made)
            parts.append(part)
        return exp.Order(expressions=parts)


def _name_output(asked: exp.Expr, made: exp.Expr) -> exp.Expr:
    """What is selected, by the name that it would have."""
    if isinstance(asked, exp.Column) and made.name == asked.name:
        return made
    if isinstance(made, exp.Alias) or not isinstance(made, exp.Column):
        return made
    quoted = not isinstance(asked, exp.Column)
    return exp.alias_(made, exp.to_identifier(asked.name or asked.sql(), quoted=quoted))

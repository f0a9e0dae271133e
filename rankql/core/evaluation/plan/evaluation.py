"""`Evaluation`: what is evaluated, and the rules of it, on the tables of a session.

Its questions about the grades, which resolve rules, are each asked at most once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

import rankql
from rankql.core.base.column_names import SUBTOPIC_NAMES, SUBTOPICS
from rankql.core.evaluation.plan.meta import Meta, average_slices
from rankql.core.evaluation.query import readable
from rankql.core.evaluation.query.ctes import with_source_ctes
from rankql.core.evaluation.query.script import Script
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.metric_record import IS_RELEVANT, Metric
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.reader import count_values, fetch, fetch_frame, numbers_in_memory
from rankql.core.tables.request import Request
from rankql.core.tables.session import Session

# The ends of the scales of whole grades.
SCALES = (1, 3, 5)
# The tests of `has_grade` by name: in SQL, and in polars.
_TESTS: Mapping[str, tuple[str, Callable[[pl.Series, float], Any]]] = {
    "<": ("{} < {}", operator.lt),
    ">": ("{} > {}", operator.gt),
    ">=": ("{} >= {}", operator.ge),
    "=": ("{} = {}", operator.eq),
    "between 0 and": ("({0} > 0 AND {0} < {1})", lambda x, y: (x > 0) & (x < y)),
    "not whole": ("{0} <> floor({0})", lambda x, _: x % 1 != 0),
}


@dataclass(frozen=True)
class Evaluation:
    """An evaluation after all rules are resolved: no query runs under other ones.

    `make_plan` makes it from the `Request` of `evaluate`.
    """

    session: Session
    inputs: Inputs
    conventions: Conventions
    metrics: Sequence[Metric] = ()
    # They count the items in train for notes and errors.
    hidden: Sequence[Metric] = ()
    groupings: Sequence[Sequence[str]] = ()
    # The call of `evaluate`; None of another function.
    request: Request | None = None

    @property
    def computed(self) -> list[Metric]:
        """The metrics of the readable query, with hidden ones."""
        return [*self.metrics, *self.hidden]

    @cached_property
    def script(self) -> Script:
        """The SQL."""
        loaded = [*self.session.loaded.values()]
        return Script(self.inputs, self.conventions, self.computed, self.groupings, loaded)

    @property
    def apart(self) -> Evaluation | None:
        """The evaluation of metrics of forbidden items, if other grades are read for them."""
        apart = readable.read_apart(self.inputs, self.metrics, self.conventions)
        if apart is None:
            return None
        inputs, metrics, conventions = apart
        return replace(self, inputs=inputs, conventions=conventions, metrics=metrics, hidden=())

    @cached_property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(count_values(table, [])[0] for table in self.inputs.tables)

    def run_sql(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query on the CTEs of the sources."""
        return fetch(self.session, with_source_ctes(self.inputs, self.conventions) + sql)

    def run_frame(self, sql: str) -> pl.DataFrame:
        """Many rows of a query on the CTEs of the sources, as a frame."""
        return fetch_frame(self.session, with_source_ctes(self.inputs, self.conventions) + sql)

    def of_queries(self, condition: str) -> Evaluation:
        """The evaluation of some queries. The condition has the query as {query}."""
        both = " AND ".join(filter(None, [self.inputs.where, condition]))
        return replace(self, inputs=replace(self.inputs, where=both))

    @property
    def columns(self) -> dict[str, dict[str, str]]:
        """The columns of each table, by role."""
        tables = (*self.inputs.tables, *self.inputs.beyond.tables)
        rules = self.request and self.request.rules
        read = {*self.inputs.extra, rules and rules.collapse}
        read |= {*SUBTOPIC_NAMES, SUBTOPICS} if self.inputs.subtopics else set()
        columns = {}
        for table in (x for x in tables if not x.of_runs):
            unread = [name for name in table.unread if name not in read]
            columns[table.label] = replace(table, unread=unread).role_columns
        if size := self.inputs.beyond.size:
            columns["catalogue"] = columns.get("catalogue", {}) | {"items": size}
        return columns

    @property
    def names(self) -> list[str]:
        """The metrics with a value per query."""
        return [metric.name for metric in self.metrics if not readable.is_catalogue(metric)]

    @property
    def cluster(self) -> str | None:
        """The attribute of queries that belong together."""
        return None if self.request is None else self.request.cluster

    def make_meta(self, **known: Any) -> Meta:
        """What a result must know, with what is known after the queries."""
        inputs, metrics = self.inputs, self.metrics
        fields = readable.catalogue_meta(metrics) | known
        meta = Meta(
            query=inputs.query,
            metrics=[metric.name for metric in metrics],
            conventions=self.conventions.as_dict(),
            system=inputs.many,
            systems=[*filter(None, inputs.runs)] or [*inputs.first_to_last],
            by=list(inputs.by),
            groupings=[list(group) for group in self.groupings],
            weight=inputs.weight,
            cluster=self.cluster,
            time=None if self.request is None else self.request.time,
            metric_weights=readable.weight_columns(self.computed),
            judgments=inputs.qrels is not None,
            pool=None if self.request is None else self.request.rules.pool,
            unjudged_queries="count" if inputs.unjudged_queries == "count" else None,
            version=rankql.__version__,
            canonical={m.name: m.canonical for m in metrics if m.name != m.canonical},
            **fields,
        )
        return average_slices(meta) if self.request and self.request.mean else meta

    def is_relevant(self, metric: Metric | None = None) -> str:
        """The SQL that says whether an item is relevant, to a metric or by the conventions."""
        rules = vars(self.conventions)
        threshold = metric.threshold(rules) if metric else self.conventions.threshold
        return IS_RELEVANT.format(threshold=threshold)

    def has_grade(self, *tests: tuple[str, float], role: str = "rel") -> bool:
        """Whether one of the tests of `_TESTS` holds for any grade, or position."""
        for table in self.inputs.judging:
            numbers = numbers_in_memory(table, table.roles[role])
            if numbers is not None:
                if any(_TESTS[name][1](numbers, number).any() for name, number in tests):
                    return True
                continue
            # Compare the column itself: DuckDB then skips what its statistics rule out.
            column = table.integer(role) or table.number(role)
            any_of = " OR ".join(_TESTS[name][0].format(column, number) for name, number in tests)
            if table.has_row(any_of):
                return True
        return False

    def has_fractions(self) -> bool:
        """Whether a grade is between 0 and 1."""
        if all(table.integer("rel") for table in self.inputs.judging) or self.grade_scale:
            return False
        return self.has_grade(("between 0 and", 1))

    @cached_property
    def grade_scale(self) -> int:
        """The end of the smallest scale with all grades, if they are whole numbers from 0; or 0."""
        are_whole = all(table.integer("rel") for table in self.inputs.judging)
        fraction = () if are_whole else (("not whole", 1),)
        for end in SCALES:
            if not self.has_grade(("<", 0), (">", end), *fraction):
                return end
        return 0

    def highest_grade(self) -> float:
        """The highest grade, or 0."""
        # The end of a scale is found without reading all rows.
        end = self.grade_scale
        if end and self.has_grade(("=", end)):
            return float(end)
        grades = " UNION ALL ".join(
            f"SELECT {table.number('rel')} AS rel FROM {table.sql}" for table in self.inputs.judging
        )
        sql = f"SELECT coalesce(max(rel), 0) FROM ({grades}) WHERE rel > 0"
        return float(self.session.value(sql))

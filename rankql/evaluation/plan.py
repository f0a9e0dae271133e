"""The plan of an evaluation: inputs, conventions, metrics and queries, before anything is computed.

What this needs to know about the data are `Facts`. What comes out is final: no later step has
options of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

import rankql
from rankql.errors import RankqlError
from rankql.evaluation.collapse import collapse_chunks
from rankql.evaluation.columns import SCALES
from rankql.evaluation.means import Meta
from rankql.evaluation.overlap import leave_out_unjudged, require_judged_queries
from rankql.evaluation.readable import (
    Query,
    catalogue_meta,
    reads_judged,
    require_compatible,
    write_catalogue_queries,
    write_query,
)
from rankql.evaluation.refusals import evaluation_errors, validate_columns
from rankql.evaluation.request import EvaluateArguments, Reading
from rankql.evaluation.shown import add_training, drop_seen, reads_grades, require_sources
from rankql.evaluation.steps import FINGERPRINT, SqlRunner
from rankql.macros import quote
from rankql.registry.column_names import RELEVANT, RETRIEVED, ROLES, SUBTOPICS, find_name
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Metric
from rankql.registry.parse import parse
from rankql.sources.computed import number_type, require_scalar
from rankql.sources.frames import may_lack_threads
from rankql.sources.inputs import Inputs, list_subtopics, open_runs, read_inputs
from rankql.sources.reader import count_values
from rankql.sources.session import Session, flatten_inputs
from rankql.sources.tables import Data, Table, mentioned, require_column


@dataclass(frozen=True)
class Plan:
    """An evaluation before it runs."""

    session: Session
    inputs: Inputs
    facts: Facts
    conventions: Conventions
    metrics: Sequence[Metric]
    # These, and hidden ones that count items in train.
    computed: Sequence[Metric]
    groupings: Sequence[Sequence[str]]
    # The readable query of the values per query, and those of metrics of the catalogue.
    query: Query
    catalogue_queries: Sequence[tuple[Sequence[str], str]]

    @property
    def sql(self) -> str:
        """The queries as a script, after the statements that read the text files."""
        queries = [*(sql for _, sql in self.catalogue_queries), self.query.sql]
        return ";\n".join([*self.session.loaded.values(), *queries])

    @property
    def columns(self) -> dict[str, dict[str, str]]:
        """The columns of each table, by role."""
        tables = (*self.inputs.tables, *self.inputs.beyond)
        columns = {table.label: table.role_columns for table in tables}
        if size := self.inputs.catalogue_size:
            columns["catalogue"] = columns.get("catalogue", {}) | {"items": size}
        return columns

    def make_meta(self, **known: Any) -> Meta:
        """What a result must know, with what is known after the plan."""
        inputs, metrics = self.inputs, self.metrics
        fields = catalogue_meta(metrics) | known
        return Meta(
            query=inputs.query,
            metrics=[metric.name for metric in metrics],
            conventions=self.conventions.as_dict(),
            system=inputs.many,
            systems=[*filter(None, inputs.runs)] or [*inputs.first_to_last],
            by=list(inputs.by),
            groupings=[list(group) for group in self.groupings],
            weight=inputs.weight,
            metric_weights=self.query.weights,
            judgments=inputs.qrels is not None,
            version=rankql.__version__,
            canonical={m.name: m.canonical for m in metrics if m.name != m.canonical},
            **fields,
        )


def make_plan(session: Session, arguments: EvaluateArguments) -> Plan:
    """Read the inputs, resolve conventions and metrics, and write the queries."""
    conventions, groupings = arguments.reading.conventions, arguments.groupings
    attached = groupings if arguments.cluster is None else [*groupings, [arguments.cluster]]
    metrics = parse(arguments.metrics)
    inputs = read_rankings(
        session, arguments.run, arguments.qrels, arguments.reading, reads_grades(metrics),
        attributes=arguments.attributes, groups=attached, weight=arguments.weight,
        train=arguments.train, catalogue=arguments.catalogue,
    )  # fmt: skip
    validate_columns(session, inputs, counted=True)
    require_sources(inputs, metrics, arguments.seen)
    if arguments.seen:
        inputs = drop_seen(session, inputs, conventions)
    reads = any(f"({SUBTOPICS}, " in metric.expression for metric in metrics)
    if reads and inputs.qrels and not any(run.has(SUBTOPICS) for run in inputs.runs.values()):
        qrels, notes = list_subtopics(session, inputs.qrels, conventions.threshold)
        inputs = replace(inputs, qrels=qrels, subtopics=True, notes=[*inputs.notes, *notes])
    inputs = replace(inputs, own=own_columns(session, inputs.runs.values(), metrics))
    packs = False if may_lack_threads() else arguments.packs
    return plan_metrics(session, inputs, metrics, conventions, groupings, packs)


def read_rankings(
    session: Session,
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    reading: Reading,
    graded: bool = True,
    keeps_unjudged: bool = False,
    **others: Any,
) -> Inputs:
    """The inputs without unjudged queries, with documents instead of chunks if the caller says so.

    graded: a run without judgments needs grades. keeps_unjudged: unjudged queries stay, for
    `check`. others: of `read_inputs`.
    """
    columns, alone = reading.columns, False
    if qrels is None and not graded:
        run = open_runs(session, run)
        tables = [*flatten_inputs(run)]
        found = {t.find("rel") for t in tables} - {None, *map(str, columns.values())}
        lists = all(find_name(t.columns, x) for t in tables for x in (RETRIEVED, RELEVANT))
        alone = columns["rel"] is None and not found and not lists
        if alone:
            qrels = pl.DataFrame(schema=dict.fromkeys(("query", "item", "rel"), pl.String))
    attributes = others.pop("attributes", None)
    inputs = read_inputs(
        session, run, qrels, attributes, columns, reading.system,
        descending=reading.descending, order=reading.order, **others,
    )  # fmt: skip
    inputs = replace(inputs, qrels=None) if alone else inputs
    if not keeps_unjudged:
        inputs, left_out = leave_out_unjudged(session, replace(inputs, collapsible=True))
        require_judged_queries(left_out)
        inputs = replace(inputs, left_out=left_out)
    return inputs if reading.collapse is None else collapse_chunks(session, inputs, reading)


def plan_metrics(
    session: Session,
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    groupings: Sequence[Sequence[str]] = (),
    packs: bool | None = None,
) -> Plan:
    """The plan for inputs that are read."""
    facts = Facts(session, inputs, conventions, packs)
    conventions, metrics = resolve_conventions(facts, metrics)
    require_compatible(inputs, metrics, conventions)
    hidden: list[Metric] = []
    if inputs.train or any(metric.shown for metric in metrics):
        inputs, metrics, hidden = add_training(session, inputs, metrics, conventions)
        facts = Facts(session, inputs, conventions, packs)
    return Plan(
        session,
        inputs,
        facts,
        conventions,
        metrics,
        [*metrics, *hidden],
        groupings,
        write_query(inputs, [*metrics, *hidden], conventions),
        write_catalogue_queries(inputs, metrics, conventions, groupings),
    )


def own_columns(
    session: Session, runs: Iterable[Table], metrics: Sequence[Metric]
) -> dict[str, str]:
    """The columns of the runs that metrics of the user read: their names, and their SQL.

    In text files, columns of numbers are numbers. `query`, `item`, `rel`, `pos` and `score` are
    those of the evaluation.
    """
    first, *others = runs
    text = " ".join(metric.expression for metric in metrics)
    own = {}
    for name in mentioned(first.columns, text):
        if name.lower() in (*ROLES, "system", "line"):
            continue
        for table in others:
            require_column(table, name, "metrics")
        numbers = first.text and all(number_type(session, t, name) for t in (first, *others))
        own[name] = f"CAST({quote(name)} AS DOUBLE)" if numbers else quote(name)
    return own


def resolve_conventions(
    facts: Facts, metrics: Sequence[Metric]
) -> tuple[Conventions, list[Metric]]:
    """The conventions, with max_rel from the grades if a metric needs it, and the metrics without
    options that repeat a convention.
    """
    conventions = facts.conventions
    for metric in metrics:
        if metric.known is None:
            what = f"The metric {metric.label!r} = {metric.expression!r}"
            require_scalar(metric.expression, what)
    if not facts.inputs.scored:
        conventions = replace(conventions, ties="item")  # positions are never tied
    elif facts.inputs.numbered and conventions.ties == "item":
        conventions = replace(conventions, ties="expected")
    judged = [metric.name for metric in metrics if reads_judged(metric)]
    two_orders = conventions.ties in ("best", "worst") and 0 < len(judged) < len(metrics)
    if two_orders and conventions.negative != "unjudged" and facts.has_grade("{rel} < 0"):
        names = ", ".join(judged)
        raise RankqlError(
            f"ties={conventions.ties!r}: with grades below 0, tied items have no order that is the "
            f"{conventions.ties} for {names} and for the other metrics. Evaluate {names} alone, "
            "or pass negative='unjudged'"
        )
    sampled = next((m.name for m in metrics if m.record and m.record.reads_sample), None)
    if sampled and conventions.negative == "unjudged":
        # For other metrics of the gain, unjudged and not relevant are the same.
        for metric in metrics:
            by_gain = metric.record and metric.record.rows == "gain"
            alike = by_gain and metric.threshold(vars(conventions)) >= 0
            if metric.name != sampled and not alike:
                raise RankqlError(
                    f"{sampled} reads the grades below 0, which are unjudged for {metric.name}. "
                    f"Evaluate {sampled} alone"
                )
        conventions = replace(conventions, negative="zero")
    scales = [m.options.get("max_rel", conventions.max_rel) for m in metrics if m.scaled]
    exponential = any(m.record and m.gain(vars(conventions)) == "exp2" for m in metrics)
    limits = [scale for scale in scales if scale is not None] + ([1000] if exponential else [])
    if None in scales or (limits and facts.has_grade(f"{{rel}} > {min(limits)}")):
        highest = facts.highest_grade
        if exponential and highest > 1000:
            raise RankqlError(f"2^rel overflows for grade {highest:g}. Rescale the grades")
        for scale in scales:
            if scale is not None and scale < highest:
                raise RankqlError(f"max_rel={scale:g} is below the highest grade, {highest:g}")
        if None in scales:
            conventions = replace(conventions, max_rel=highest or 1.0)
    _require_reached(facts, metrics, conventions)
    unique: dict[str, Metric] = {}
    for metric in metrics:
        metric = metric.under(vars(conventions))
        unique.setdefault(metric.canonical, metric)
    return conventions, list(unique.values())


def _require_reached(facts: Facts, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics that are 0 because all grades are below 1 and the threshold."""
    for metric in metrics:
        record, least = metric.record, min(1.0, metric.threshold(vars(conventions)))
        if (
            record
            and {"threshold"} <= record.options.keys()
            and record.undefined == "never"
            and "max_rel" not in metric.options
            and not facts.grade_scale
            and not facts.has_grade(f"{{rel}} >= {least}")
            and (highest := facts.highest_grade) > 0
        ):
            graded = ", or max_rel=1 in the metric, so that grades count"
            raise RankqlError(
                f"{metric.name} would be 0: the highest grade is {highest:g}, below the threshold "
                f"{metric.threshold(vars(conventions)):g}. Pass a lower threshold="
                f"{graded if 'max_rel' in record.options else ''}"
            )


class Facts:
    """Facts about the data of an evaluation, each asked at most once and if it is needed.

    packs: whether rankings may be reduced to columns of polars; None: if it is faster.
    """

    def __init__(
        self, session: Session, inputs: Inputs, conventions: Conventions, packs: bool | None = None
    ) -> None:
        self.session, self.inputs, self.conventions = session, inputs, conventions
        self.run_sql = SqlRunner(session, inputs, conventions)
        self.packs = packs

    @cached_property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(count_values(self.session, table, [])[0] for table in self.inputs.tables)

    @cached_property
    def grade_scale(self) -> int:
        """The end of the smallest scale with all grades, if they are whole numbers from 0; or 0."""
        whole = all(table.integer("rel") for table in self.inputs.judging)
        fraction = "" if whole else " OR {rel} <> floor({rel})"
        for end in SCALES:
            if not self.has_grade(f"{{rel}} < 0 OR {{rel}} > {end}{fraction}"):
                return end
        return 0

    @cached_property
    def highest_grade(self) -> float:
        """The highest grade, or 0."""
        # The end of a scale is found without reading all rows.
        if (
            self.packs is not False
            and (end := self.grade_scale)
            and self.has_grade(f"{{rel}} = {end}")
        ):
            return float(end)
        ((highest,),) = self._rows(
            f"SELECT coalesce(max(rel), 0) FROM {self.inputs.graded} WHERE rel > 0"
        )
        return float(highest)

    def has_grade(self, condition: str) -> bool:
        """Whether the condition on {rel} holds for any grade."""
        # Compare the column itself: DuckDB then skips what its statistics rule out.
        return any(
            self.session.con.execute(
                f"SELECT 1 FROM {table.sql} "
                f"WHERE {condition.format(rel=table.integer('rel') or table.number('rel'))} LIMIT 1"
            ).fetchall()
            for table in self.inputs.judging
        )

    @cached_property
    def fingerprint(self) -> str:
        """The sum of the hashes of the judgments, in any order."""
        return str(self._rows(f"SELECT {FINGERPRINT} FROM qrels")[0][0])

    def _rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with evaluation_errors(self.session, self.inputs, self.conventions):
            return self.run_sql(sql)

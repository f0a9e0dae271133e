"""The plan of an evaluation: inputs, conventions, metrics and queries, before anything is computed.

What comes out is final: no later step has options of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from rankql.evaluation.checks import validate_columns
from rankql.evaluation.collapse import collapse_chunks
from rankql.evaluation.means import Meta
from rankql.evaluation.overlap import leave_out_unjudged, require_judged_queries
from rankql.evaluation.readable import (
    Query,
    catalogue_meta,
    require_compatible,
    write_catalogue_queries,
    write_query,
)
from rankql.evaluation.request import EvaluateArguments, Reading, cluster_errors
from rankql.evaluation.resolve import Facts, resolve_conventions
from rankql.evaluation.shown import add_training, drop_seen, require_sources
from rankql.macros import quote
from rankql.processes import may_lack_threads
from rankql.registry.column_names import RELEVANT, RETRIEVED, ROLES, SUBTOPICS, find_name
from rankql.registry.conventions import Conventions
from rankql.registry.parse import parse
from rankql.registry.requested_metric import Metric
from rankql.sources.computed import holds_numbers
from rankql.sources.inputs import Inputs, list_subtopics, open_runs, read_inputs
from rankql.sources.reader import render_script
from rankql.sources.session import Session, flatten_inputs
from rankql.sources.tables import Data, Table, mentioned, require_column
from rankql.versions import own_version


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
        """The queries as a script."""
        queries = [*(sql for _, sql in self.catalogue_queries), self.query.sql]
        return render_script(self.session, ";\n".join(queries))

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
            systems=[*filter(None, inputs.runs)],
            by=list(inputs.by),
            groupings=[list(group) for group in self.groupings],
            weight=inputs.weight,
            metric_weights=self.query.weights,
            judgments=inputs.qrels is not None,
            version=own_version(),
            canonical={m.name: m.canonical for m in metrics if m.name != m.canonical},
            **fields,
        )


def make_plan(session: Session, arguments: EvaluateArguments) -> Plan:
    """Read the inputs, resolve conventions and metrics, and write the queries."""
    conventions, groupings = arguments.reading.conventions, arguments.groupings
    attached = groupings if arguments.cluster is None else [*groupings, [arguments.cluster]]
    metrics = parse(arguments.metrics)
    graded = not all(m.shown and "rel" not in m.shown.of_shown for m in metrics)
    with cluster_errors(arguments.cluster, [*itertools.chain(*groupings)]):
        inputs = read_rankings(
            session,
            arguments.run,
            arguments.qrels,
            arguments.reading,
            arguments.attributes,
            attached,
            arguments.weight,
            arguments.train,
            arguments.catalogue,
            graded,
        )
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
    attributes: Data | None = None,
    groups: Sequence[Sequence[str]] = (),
    weight: str | None = None,
    train: Data | None = None,
    catalogue: Data | int | None = None,
    graded: bool = True,
) -> Inputs:
    """The inputs, with the chunks of a document collapsed if the caller says so.

    graded: a run without judgments needs grades.
    """
    inputs = open_inputs(
        session, run, qrels, reading, attributes, groups, weight, train, catalogue, graded
    )
    inputs, left_out = leave_out_unjudged(session, replace(inputs, collapsible=True))
    require_judged_queries(left_out)
    inputs = replace(inputs, left_out=left_out)
    return inputs if reading.collapse is None else collapse_chunks(session, inputs, reading)


def open_inputs(
    session: Session,
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    reading: Reading,
    attributes: Data | None = None,
    groups: Sequence[Sequence[str]] = (),
    weight: str | None = None,
    train: Data | None = None,
    catalogue: Data | int | None = None,
    graded: bool = True,
) -> Inputs:
    """The tables with their roles; without `graded`, a run alone may lack grades."""
    columns, alone = reading.columns, False
    if qrels is None and not graded:
        run = open_runs(session, run)
        tables = [*flatten_inputs(run)]
        found = {t.find("rel") for t in tables} - {None, *map(str, columns.values())}
        lists = all(find_name(t.columns, x) for t in tables for x in (RETRIEVED, RELEVANT))
        alone = columns["rel"] is None and not found and not lists
        if alone:
            qrels = pl.DataFrame(schema=dict.fromkeys(("query", "item", "rel"), pl.String))
    inputs = read_inputs(
        session,
        run,
        qrels,
        attributes,
        columns,
        reading.system,
        groups,
        descending=reading.descending,
        order=reading.order,
        weight=weight,
        train=train,
        catalogue=catalogue,
    )
    return replace(inputs, qrels=None) if alone else inputs


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
    conventions, metrics = resolve_conventions(facts, metrics, conventions)
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
        numbers = first.text and all(holds_numbers(session, t, name) for t in (first, *others))
        own[name] = f"CAST({quote(name)} AS DOUBLE)" if numbers else quote(name)
    return own

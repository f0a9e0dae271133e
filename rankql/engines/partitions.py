"""Evaluation by partition. All rows of a query are in one partition.

`Task` holds what all partitions share. `evaluate_partition` returns the values per query of one
partition. `count_partition` returns them by metric, as they count in means, and rows of counters: a
name, a system or none, and a number, a text or ids. Spark adds up the numbers, keeps the least and
the highest, the first text and the first ids. `combine_counters` raises errors about all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import duckdb
import polars as pl
import pyarrow as pa

from rankql.core.base.errors import EqualRows, RankqlError
from rankql.core.evaluation.checks import counters as counting
from rankql.core.evaluation.checks.duplicates import require_unique_rows
from rankql.core.evaluation.checks.rankings import RANKINGS
from rankql.core.evaluation.checks.record import Evidence, inspect
from rankql.core.evaluation.finish.compute import evaluation_errors, finish
from rankql.core.evaluation.means.means import counted_values_sql
from rankql.core.evaluation.plan import columns as column_checks
from rankql.core.evaluation.plan import plan
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.meta import Meta
from rankql.core.evaluation.reduce.fetch import reduce_tables
from rankql.core.evaluation.reduce.protocol import spark_total
from rankql.core.evaluation.result.result import (
    WEIGHT_SUMS,
    Result,
    check_counts,
    connect,
    count_queries,
)
from rankql.core.metrics.macros import INTERNAL_PREFIX
from rankql.core.metrics.metric_record import Metric
from rankql.core.tables.frames import read_frame
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.reader import count_values
from rankql.core.tables.request import RankingRules, Request
from rankql.core.tables.session import Session, duckdb_errors
from rankql.features.filters import count_unjudged

# The columns of rows of counters: the name, and what else than a number is counted.
COUNTER, TEXT, IDS = (f"{INTERNAL_PREFIX}{name}" for name in ("counter", "text", "ids"))
# The number of ids in an error or a note.
EXAMPLES = 3
# The errors about queries, which a partition has all rows of.
ONE_BY_ONE = [check for check in RANKINGS if check.name == "several-values"]


# The tables of a partition by label: `run`, `run 'name'`, `qrels` and `attributes`.
Tables: TypeAlias = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Task:
    """The evaluation, the same for every partition."""

    runs: Sequence[str | None]
    rules: RankingRules
    # The attributes, and the weight.
    groups: Sequence[Sequence[str]]
    metrics: Sequence[Metric]
    # DuckDB's memory per partition, before it writes to disk.
    memory: str = "1GB"
    systems: Sequence[str] = ()
    # The metadata of the result.
    meta: Meta = field(default_factory=lambda: Meta("", [], {}))

    def read_inputs(self, session: Session, tables: Tables) -> Inputs:
        """Read the tables of a partition."""
        runs = {name: tables[table_label(name)] for name in self.runs}
        session.reads_values = False  # of a partition
        request = Request(
            runs.get(None, runs), tables.get("qrels"), (), self.rules,
            attributes=tables.get("attributes"), groupings=[[*x] for x in self.groups],
        )  # fmt: skip
        inputs = plan.read_rankings(session, request, keeps_unjudged=True)
        extra = plan.extra_columns(inputs.runs.values(), self.metrics)
        return replace(inputs, systems=tuple(self.systems), extra=extra)

    def count_unjudged(self, session: Session, inputs: Inputs) -> Inputs:
        """The inputs, with a row for each query without judgments if these count."""
        counts = inputs.unjudged_queries == "count"
        return count_unjudged(session, inputs) if counts else inputs


def table_label(name: str | None) -> str:
    """The label of a run."""
    return "run" if name is None else f"run {name!r}"


class Count(NamedTuple):
    """A row of counters."""

    name: str
    system: str | None = None
    number: float | None = None
    text: str | None = None
    ids: Sequence[object] | None = None


def evaluate_partition(task: Task, tables: Tables) -> pl.DataFrame | None:
    """The values of a partition, one row per query; None if an id is NULL."""
    return _evaluate(task, tables, [])


def count_partition(task: Task, tables: Tables) -> pl.DataFrame:
    """The values of a partition by metric, and rows of counters."""
    counts: list[Count] = []
    rows: list[pl.DataFrame] = []
    key: pl.DataType = pl.String()
    try:
        values = _evaluate(task, tables, counts)
        if values is not None:
            key = values[task.meta.query].dtype
            with connect(task.meta, values) as con:
                known = count_queries(con, task.meta)
                rows = [read_frame(con, counted_values_sql(task.meta))]
            for name, number in known.pop("weights", {}).items():
                counts.append(Count(f"weight {name}", None, number))
            for kind, refused in known.items():
                counts += [Count(kind, x, number, ids=ids) for x, (number, ids) in refused.items()]
    except RankqlError as error:
        counts.append(Count("error", text=error.text))
        if isinstance(error, EqualRows):
            counts.append(Count("equal rows", text=error.source))
    kinds = {COUNTER: pl.String, "system": pl.String, "value": pl.Float64, TEXT: pl.String}
    counted = pl.DataFrame(counts, kinds | {IDS: pl.List(key)}, orient="row")
    counted = counted.with_columns(weighted="value")
    return pl.concat([*rows, counted], how="diagonal_relaxed")


def _evaluate(task: Task, tables: Tables, counts: list[Count]) -> pl.DataFrame | None:
    """The values of a partition."""
    with (
        duckdb.connect(config={"threads": 1, "memory_limit": task.memory}) as con,
        closing(Session(con, own=True)) as session,
    ):
        values = _evaluate_rows(task, session, tables, counts)
    if values is None or not task.meta.weight:
        return values
    return Result(task.meta, values=values).with_numeric_weights().frame()


def _evaluate_rows(
    task: Task, session: Session, tables: Tables, counts: list[Count]
) -> pl.DataFrame | None:
    inputs = task.read_inputs(session, tables)
    incomplete = False
    for table in inputs.tables:
        total, known = count_values(table, inputs.ids(table))
        counts.append(Count(f"rows of {table.label}", None, total))
        for name, number in known.items():
            counts.append(Count(f"ids of {table.label}: {name}", None, number))
            incomplete |= number < total
    if incomplete:
        return None
    inputs, unjudged = plan.leave_out_unjudged(session, inputs)
    with duckdb_errors():
        for table in inputs.tables:
            column_checks.validate_numbers(table)
    inputs = task.count_unjudged(session, inputs)
    evaluation = Evaluation(
        session, inputs, task.rules.conventions, task.metrics, groupings=task.meta.groupings,
        request=Request(None, None, (), task.rules),
    )  # fmt: skip
    with evaluation_errors(evaluation):
        reduction = reduce_tables(evaluation)
        counters = counting.read_counters(reduction)
        # What holds of all rows is checked by the driver.
        inspect(ONE_BY_ONE, Evidence(evaluation, counters))
        if inputs.qrels is not None:
            judged = counting.find_judged_queries(evaluation)
            counts.append(Count("examples of judged", ids=judged))
            _count_matches(evaluation, counts)
        require_unique_rows(evaluation, reduction.unique_columns())
        values = finish(reduction).per_query
    number = values[inputs.query].n_unique()
    queries = counters.queries or unjudged or [plan.QueryOverlap(None, number, number, [])]
    for system, *numbers, examples in queries:
        counts.append(Count("unjudged", system, ids=examples))
        counts += map(Count, ("queries", "judged"), repeat(system), numbers)
    for ranked in counters.ranked:
        counts += map(Count, ranked._fields[1:], repeat(ranked.system), ranked[1:])
    return values


def _count_matches(evaluation: Evaluation, counts: list[Count]) -> None:
    """Count the judged items of each system, and say what is wrong if there are none."""
    for system, _, _, common, *_ in counting.item_overlap(evaluation):
        counts.append(Count("common", system, common))
        if not common:
            is_error, doubt = counting.no_common_items(evaluation, system, 0)
            _, message = counting.no_common_items(evaluation, system, counting.SEVERAL_QUERIES)
            counts.append(Count("doubt", system, int(is_error), doubt))
            counts.append(Count("refusal", system, text=message))


class Totals:
    """The counters of all partitions, from their rows by name and system."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.rows = {(row[COUNTER], row["system"]): row for row in rows}

    def number(self, name: str, system: str | None = None) -> int:
        """A count of all partitions, 0 if there is none."""
        return int(self.total(name, system) or 0)

    def total(self, name: str, system: str | None = None) -> Any:
        """A counter of all partitions."""
        column = IDS if name == "unjudged" else spark_total(name)
        value = self.read(name, column, system)
        return int(value) if column == "total" and value is not None else value

    def records(self, kind: Any) -> list[Any]:
        """The counters of this kind, of the systems of which the first counts something."""
        names = kind._fields[1:]
        systems = sorted((system for name, system in self.rows if name == names[0]), key=str)
        rows = [[system, *(self.total(name, system) for name in names)] for system in systems]
        return [kind(*row) for row in rows if row[1]]

    def read(self, name: str, column: str, system: str | None = None) -> Any:
        """A column of a counter, None if there is no row."""
        return self.rows.get((name, system), {}).get(column)

    def values(self) -> dict[str, Any]:
        """The counts of `count_queries`."""
        weights = {
            name: self.read(f"weight {name}", name if name in ("most", "least") else "total")
            for name in WEIGHT_SUMS
            if (f"weight {name}", None) in self.rows
        }
        counts: dict[str, Any] = {
            kind: {
                x: (self.number(kind, x), self.read(kind, IDS, x))
                for name, x in sorted(self.rows, key=str) if name == kind
            }
            for kind in ("undefined", "missing")
        }  # fmt: skip
        return counts | ({"weights": weights} if weights else {})


def combine_counters(inputs: Inputs, totals: Totals) -> counting.Counters:
    """The counters of all partitions; raise their errors."""
    number = totals.number
    for table in inputs.tables:
        names = [f"ids of {table.label}: {name}" for name in inputs.ids(table)]
        ids = dict(zip(inputs.ids(table), map(number, names), strict=True))
        column_checks.require_ids(table.label, number(f"rows of {table.label}"), ids)
    if error := totals.read("error", TEXT):
        source = totals.read("equal rows", TEXT)
        raise EqualRows(error, source) if source else RankqlError(error)
    queries = totals.records(plan.QueryOverlap)
    matches = []
    for system, _, judged, _ in queries:
        if ("common", system) in totals.rows and not number("common", system):
            is_error = judged >= counting.SEVERAL_QUERIES or number("doubt", system) > 0
            problem = totals.read("refusal" if is_error else "doubt", TEXT, system)
            matches.append(counting.ItemMatch(system, 0, 0, 0, is_error, problem))
    return counting.Counters(
        queries, totals.records(counting.RankedRows), [],
        judged_queries=totals.read("examples of judged", IDS) or (), matches=matches,
    )  # fmt: skip


def describe_totals(evaluation: Evaluation, meta: Meta, totals: Totals) -> list[str]:
    """The notes on all rows; raise errors about them."""
    counters = combine_counters(evaluation.inputs, totals)
    checks = (check for check in RANKINGS if check.reads == "counters")
    notes = inspect(checks, Evidence(evaluation, counters))
    check_counts(meta, totals.values())
    return notes

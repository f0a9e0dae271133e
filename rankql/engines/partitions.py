"""Evaluation by partition. All rows of a query are in one partition.

`Task` holds what all partitions share. `evaluate_partition` returns the values per query of one
partition, `summarise_partition` their moments and a report. `merge_reports` combines the reports
into notes and errors about all rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from rankql.errors import RankqlError
from rankql.evaluation.checks import (
    evaluation_errors,
    require_ids,
    require_one_value_per_query,
    require_unique_rows,
    validate_numbers,
)
from rankql.evaluation.compute import finish, reduce_tables
from rankql.evaluation.evaluate import own_columns
from rankql.evaluation.means import Meta
from rankql.evaluation.overlap import (
    QueryOverlap,
    few_common_items_note,
    find_judged_queries,
    is_small_overlap,
    item_overlap,
    leave_out_unjudged,
    note_unjudged,
    unranked_rows_note,
)
from rankql.evaluation.resolve import Facts
from rankql.evaluation.result import Result
from rankql.evaluation.result_checks import merge_counts
from rankql.evaluation.spelling import SEVERAL_QUERIES, no_common_items
from rankql.evaluation.steps import SqlRunner
from rankql.macros import INTERNAL_PREFIX
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs, read_inputs
from rankql.sources.reader import count_values
from rankql.sources.session import Session, duckdb_errors

# The column with the report of a partition.
REPORT = f"{INTERNAL_PREFIX}report"

# The number of ids in an error or a note.
_EXAMPLES = 3


@dataclass(frozen=True)
class Task:
    """The evaluation, the same for every partition."""

    runs: Sequence[str | None]
    columns: Mapping[str, Any]
    system: str | None
    systems: Sequence[str]
    groups: Sequence[Sequence[str]]
    metrics: Sequence[Metric]
    conventions: Conventions
    # DuckDB's memory per partition, before it writes to disk.
    memory: str = "1GB"
    # Whether the highest score is best. None: decided by the column name.
    descending: bool | None = None
    # The metadata of the result.
    meta: Meta = field(default_factory=lambda: Meta("", [], {}))

    def read_inputs(self, session: Session, tables: Mapping[str, pa.Table]) -> Inputs:
        """Read the tables of a partition: `run`, `run 'name'`, `qrels` and `attributes`."""
        runs = {name: tables[table_label(name)] for name in self.runs}
        run = runs.get(None, runs)
        others = (tables.get("qrels"), tables.get("attributes"))
        session.reads_values = False  # of a partition
        inputs = read_inputs(
            session, run, *others, self.columns, self.system, self.groups, None, self.descending
        )
        own = own_columns(session, inputs.runs.values(), self.metrics)
        return replace(inputs, systems=tuple(self.systems), own=own)


def label_tables(runs: Mapping[Any, Any], qrels: Any, attributes: Any) -> dict[str, Any]:
    """The tables by label."""
    tables = {table_label(name): data for name, data in runs.items()}
    others = {"qrels": qrels, "attributes": attributes}
    return tables | {label: data for label, data in others.items() if data is not None}


def table_label(name: str | None) -> str:
    """The label of a run."""
    return "run" if name is None else f"run {name!r}"


def evaluate_partition(
    task: Task, tables: Mapping[str, pa.Table], report: dict[str, Any] | None = None
) -> pl.DataFrame | None:
    """The values of a partition, one row per query; None if an id is NULL."""
    with duckdb.connect(config={"threads": 1, "memory_limit": task.memory}) as con:
        session = Session(con, own=True)
        try:
            values = _evaluate_rows(task, session, tables, {} if report is None else report)
        finally:
            session.close()
    if values is None or not task.meta.weight:
        return values
    return Result(task.meta, values=values).with_numeric_weights().frame()


def summarise_partition(task: Task, tables: Mapping[str, pa.Table]) -> pl.DataFrame:
    """The moments of a partition, and a last row with the report."""
    report: dict[str, Any] = {}
    moments = None
    try:
        values = evaluate_partition(task, tables, report)
        if values is not None:
            moments, report["counts"] = Result(task.meta, values=values).partial()
    except RankqlError as error:
        report["error"] = str(error)
    end = pl.DataFrame({REPORT: [json.dumps(report, default=str)]})
    return end if moments is None else pl.concat([moments, end], how="diagonal")


def frame_schema(frame: pl.DataFrame | None) -> pa.Schema:
    """The columns that partitions return, from what one without rows returns."""
    if frame is None:
        return pa.schema([])
    return pa.schema([(field.name, _plain_type(field.type)) for field in frame.to_arrow().schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return pa.string() if text else kind


def _evaluate_rows(
    task: Task, session: Session, tables: Mapping[str, pa.Table], report: dict[str, Any]
) -> pl.DataFrame | None:
    inputs, conventions = task.read_inputs(session, tables), task.conventions
    report["rows"] = {
        table.label: count_values(session, table, inputs.ids(table)) for table in inputs.tables
    }
    if any(n < total for total, counts in report["rows"].values() for n in counts.values()):
        return None
    inputs, unjudged = leave_out_unjudged(session, inputs)
    with duckdb_errors():
        for table in inputs.tables:
            validate_numbers(session, table)
    facts = Facts(session, inputs, conventions)
    with evaluation_errors(session, inputs, conventions):
        ask = SqlRunner(session, inputs, conventions)
        require_one_value_per_query(ask, inputs)
        report["scored"] = inputs.scored
        reduced = reduce_tables(facts, task.metrics, conventions)
        if inputs.qrels is not None or inputs.scored:
            report["placed"] = [counts[:3] for counts in reduced.counters.ranked]
        if inputs.qrels is not None:
            report["sides"] = reduced.counters.queries
            report["judged"] = find_judged_queries(ask)
            report["overlap"] = [
                (
                    *count,
                    count[-1]
                    or [no_common_items(ask, inputs, count[0], n) for n in (0, SEVERAL_QUERIES)],
                )
                for count in item_overlap(ask, inputs)
            ]
        require_unique_rows(
            ask, inputs, reduced.unique_columns(task.metrics), reduced.counters.unique
        )
        values, _ = finish(reduced, task.metrics)
    number = values[inputs.query].n_unique()
    report.setdefault("sides", unjudged or [QueryOverlap(None, number, number, [])])
    return values


def merge_reports(reports: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
    """The notes and counts of all partitions, from their reports. Raises the error of one."""
    parts = [json.loads(report) for report in reports]
    rows: dict[str, list[Any]] = {}
    seen: dict[str | None, list[Any]] = {}
    items: dict[str | None, list[Any]] = {}
    retrieved: dict[str | None, list[int]] = {}
    for part in parts:
        for label, (total, counts) in part.get("rows", {}).items():
            before, ids = rows.setdefault(label, [0, dict.fromkeys(counts, 0)])
            rows[label] = [before + total, {name: ids[name] + n for name, n in counts.items()}]
        for system, total, matched, unjudged in part.get("sides", []):
            queries = seen.setdefault(system, [0, 0, []])
            queries[0] += total
            queries[1] += matched
            queries[2] = sorted([*queries[2], *(unjudged or [])])[:_EXAMPLES]
        for system, total, count in part.get("placed", []):
            all_, there = retrieved.get(system, [0, 0])
            retrieved[system] = [all_ + total, there + count]
        for system, total, judged, matched, message in part.get("overlap", []):
            before = items.setdefault(system, [0, 0, 0, []])
            items[system] = [before[0] + total, before[1] + judged, before[2] + matched,
                             [*before[3], message]]  # fmt: skip
    for label, (total, counts) in rows.items():
        require_ids(label, total, counts)
    for error in sorted(part["error"] for part in parts if "error" in part):
        raise RankqlError(error)
    scored = any(part.get("scored") for part in parts)
    notes = [
        note
        for system, (total, count) in retrieved.items()
        if total and (note := unranked_rows_note(scored, system, total, count))
    ]
    theirs = sorted({key for part in parts for key in part.get("judged") or []})[:_EXAMPLES]
    notes += note_unjudged([QueryOverlap(name, *counts) for name, counts in seen.items()], theirs)
    for system, (total, judged, matched, messages) in items.items():
        if not matched:
            several = seen[system][1] >= SEVERAL_QUERIES
            fine, message = min((not is_error, words) for is_error, words in
                                (pair[several] for pair in messages))  # fmt: skip
            if not fine:
                raise RankqlError(message)
            notes.append(message)
        elif is_small_overlap(system, total, judged, matched):
            notes.append(few_common_items_note(system, total, judged, matched))
    return notes, merge_counts([part["counts"] for part in parts])

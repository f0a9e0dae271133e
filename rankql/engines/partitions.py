"""Evaluation by partition. All rows of a query are in one partition.

`Task` holds what all partitions share. `evaluate_partition` returns the values per query of one
partition. `count_partition` returns them by metric, as they count in means, and rows of counters,
of each system and a last one, whose columns say how Spark combines them: "sum rows" is added up.
`combine_counters` raises errors about all rows.
"""

from __future__ import annotations

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
from rankql.evaluation.means import Meta, counted_values_sql
from rankql.evaluation.overlap import (
    SEVERAL_QUERIES,
    Counters,
    QueryOverlap,
    RankedRows,
    count_ids,
    find_judged_queries,
    is_small_overlap,
    item_overlap,
    leave_out_unjudged,
    no_common_items,
    require_judged_queries,
    require_ranked_rows,
)
from rankql.evaluation.plan import Facts, own_columns
from rankql.evaluation.readable import write_query
from rankql.evaluation.result import Result, connect
from rankql.evaluation.result_checks import WEIGHT_SUMS, check_counts, count_queries
from rankql.evaluation.steps import SqlRunner
from rankql.macros import INTERNAL_PREFIX
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Metric
from rankql.sources.frames import read_frame
from rankql.sources.inputs import Inputs, read_inputs
from rankql.sources.reader import count_values
from rankql.sources.session import Session, duckdb_errors

# The column that marks rows of counters.
COUNTER = f"{INTERNAL_PREFIX}counter"

# The number of ids in an error or a note.
EXAMPLES = 3
REFUSED_KINDS = ("undefined", "missing")
# The columns of counters, of a system and in all, whatever the tables.
_SUMS = (
    *("queries", "judged", "rows", "ranked", "items", "judged items", "common"),
    *("run ids", "judged ids", "common ids", *REFUSED_KINDS),
)
COUNTERS = {
    COUNTER: pl.Boolean, "system": pl.String, **{f"sum {name}": pl.Int64 for name in _SUMS},
    "max refused": pl.Int64, "min doubt": pl.String, "min refusal": pl.String,
    "min error": pl.String,
}  # fmt: skip


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
            session, run, *others, self.columns, self.system, self.groups, self.descending
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


def evaluate_partition(task: Task, tables: Mapping[str, pa.Table]) -> pl.DataFrame | None:
    """The values of a partition, one row per query; None if an id is NULL."""
    return _evaluate(task, tables, [], {})


def count_partition(task: Task, tables: Mapping[str, pa.Table]) -> pl.DataFrame:
    """The values of a partition by metric, and rows of counters: of each system, and a last one."""
    systems: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    rows: list[pl.DataFrame] = []
    key: pl.DataType = pl.String()
    try:
        values = _evaluate(task, tables, systems, last)
        if values is not None:
            key = values[task.meta.query].dtype
            with connect(task.meta, values) as con:
                last |= _name_counts(count_queries(con, task.meta))
                rows = [read_frame(con, counted_values_sql(task.meta))]
    except RankqlError as error:
        last["min error"] = str(error)
    counts = [name for name in last if name not in COUNTERS and name.startswith("sum ")]
    kinds = (
        COUNTERS
        | dict.fromkeys(counts, pl.Int64)
        | _weight_types(WEIGHT_SUMS if task.meta.weight else ())
    )
    kinds |= {f"first {name}": pl.List(key) for name in ("unjudged", "judged", *REFUSED_KINDS)}
    counters = pl.DataFrame([x | {COUNTER: True} for x in (*systems, last)], kinds, orient="row")
    return pl.concat([*rows, counters], how="diagonal_relaxed")


def _weight_types(names: Iterable[str]) -> dict[str, Any]:
    """The columns of the sums of weights."""
    combined = {"most": "max", "least": "min"}
    return {f"{combined.get(name, 'sum')} weight {name}": pl.Float64 for name in names}


def _name_counts(counts: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of values as columns of counters."""
    weights = counts.get("weights", {})
    named = dict(zip(_weight_types(WEIGHT_SUMS), weights.values(), strict=False))
    for kind in REFUSED_KINDS:
        if kind in counts:
            named[f"sum {kind}"], named[f"first {kind}"] = counts[kind]
    return named


def frame_schema(frame: pl.DataFrame | None) -> pa.Schema:
    """The columns that partitions return, from what one without rows returns."""
    if frame is None:
        return pa.schema([])
    return pa.schema([(field.name, _plain_type(field.type)) for field in frame.to_arrow().schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return pa.string() if text else kind


def _evaluate(
    task: Task,
    tables: Mapping[str, pa.Table],
    systems: list[dict[str, Any]],
    last: dict[str, Any],
) -> pl.DataFrame | None:
    """The values of a partition, which count in `systems` and `last`."""
    with duckdb.connect(config={"threads": 1, "memory_limit": task.memory}) as con:
        session = Session(con, own=True)
        try:
            values = _evaluate_rows(task, session, tables, systems, last)
        finally:
            session.close()
    if values is None or not task.meta.weight:
        return values
    return Result(task.meta, values=values).with_numeric_weights().frame()


def _evaluate_rows(
    task: Task,
    session: Session,
    tables: Mapping[str, pa.Table],
    systems: list[dict[str, Any]],
    last: dict[str, Any],
) -> pl.DataFrame | None:
    inputs, conventions, metrics = task.read_inputs(session, tables), task.conventions, task.metrics
    incomplete = False
    for table in inputs.tables:
        total, counts = count_values(session, table, inputs.ids(table))
        last[f"sum rows of {table.label}"] = total
        last |= {f"sum ids of {table.label}: {name}": n for name, n in counts.items()}
        incomplete |= any(n < total for n in counts.values())
    if incomplete:
        return None
    inputs, unjudged = leave_out_unjudged(session, inputs)
    with duckdb_errors():
        for table in inputs.tables:
            validate_numbers(session, table)
    facts = Facts(session, inputs, conventions)
    with evaluation_errors(session, inputs, conventions):
        ask = SqlRunner(session, inputs, conventions)
        require_one_value_per_query(ask, inputs)
        reduced = reduce_tables(facts, metrics, conventions)
        counters = reduced.counters
        judged = None if inputs.qrels is None else find_judged_queries(ask)
        if judged:
            last["first judged"] = judged
        unique = reduced.unique_columns(metrics)
        matches = [] if inputs.qrels is None else [_count_matches(ask, inputs)]
        require_unique_rows(ask, inputs, unique, counters.unique)
        values, _ = finish(reduced, metrics, write_query(inputs, metrics, conventions))
    number = values[inputs.query].n_unique()
    queries = counters.queries or unjudged or [QueryOverlap(None, number, number, [])]
    ranked = {x.system: x for x in counters.ranked}
    for system, total, known, examples in queries:
        row: dict[str, Any] = {"system": system, "sum queries": total, "sum judged": known}
        row["first unjudged"] = list(examples or [])
        if system in ranked:
            row |= {"sum rows": ranked[system].total, "sum ranked": ranked[system].ranked}
        systems.append(row | next((x[system] for x in matches if system in x), {}))
    return values


_MATCHES = tuple(f"sum {name}" for name in _SUMS[4:10])


def _count_matches(ask: SqlRunner, inputs: Inputs) -> dict[str | None, dict[str, Any]]:
    """The items of each system that match, and what is wrong if none does."""
    rows: dict[str | None, dict[str, Any]] = {}
    for counts in item_overlap(ask, inputs):
        system, *numbers = counts
        ids = count_ids(ask, inputs, system) if is_small_overlap(*counts) else counts
        rows[system] = dict(zip(_MATCHES, [*numbers, *ids[1:]], strict=True))
        if not numbers[-1]:
            is_error, doubt = no_common_items(ask, inputs, system, 0)
            _, message = no_common_items(ask, inputs, system, SEVERAL_QUERIES)
            rows[system] |= {"max refused": int(is_error), "min doubt": doubt,
                             "min refusal": message}  # fmt: skip
    return rows


def combine_counters(inputs: Inputs, meta: Meta, rows: Sequence[Mapping[str, Any]]) -> Counters:
    """The counters of all partitions, from the rows of each system; raise errors about all rows."""
    last: Mapping[str, Any] = next((row for row in rows if row["system"] is None), {})
    for table in inputs.tables:
        prefix = f"sum ids of {table.label}: "
        ids = {name.removeprefix(prefix): n for name, n in last.items() if name.startswith(prefix)}
        require_ids(table.label, last.get(f"sum rows of {table.label}") or 0, ids)
    if last.get("min error"):
        raise RankqlError(last["min error"])
    each = [row for row in rows if row.get("sum queries")]
    queries = [
        QueryOverlap(x["system"], x["sum queries"], x["sum judged"], x["first unjudged"])
        for x in each
    ]
    ranked = [
        RankedRows(x["system"], x["sum rows"], x["sum ranked"], False)
        for x in each
        if x.get("sum rows")
    ]
    place = "score" if inputs.scored else "position"
    counters = Counters(queries, ranked, [], place)
    require_ranked_rows(counters)
    require_judged_queries(queries, last.get("first judged"))
    doubts, few = [], []
    for row in each:
        if row.get("sum items") is None:
            continue
        system, matches = row["system"], [row[name] for name in _MATCHES]
        items, judged, common = matches[:3]
        if not common:
            if row["sum judged"] >= SEVERAL_QUERIES or row["max refused"]:
                raise RankqlError(row["min refusal"])
            doubts.append(row["min doubt"])
        elif is_small_overlap(system, items, judged, common) and is_small_overlap(
            system, *matches[3:]
        ):
            few.append((system, items, judged, common))
    check_counts(meta, combined_counts(last))
    return replace(counters, few=few, doubts=doubts)


def combined_counts(last: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of values of all partitions."""
    weights = {name.partition(" weight ")[2]: x for name, x in last.items() if " weight " in name}
    counts = {
        kind: (last[f"sum {kind}"], last[f"first {kind}"])
        for kind in REFUSED_KINDS
        if last.get(f"sum {kind}") is not None
    }
    return counts | ({"weights": weights} if weights else {})

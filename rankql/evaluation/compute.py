"""Compute the values per query, from one reduction of the tables or by the readable query.

DuckDB spills joins and sorts to disk, but not the states of aggregates such as max(score, 10). If
they do not fit into memory, the queries are evaluated in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import duckdb
import polars as pl

from rankql.evaluation.counters import Counters, read_counters
from rankql.evaluation.facts import Facts
from rankql.evaluation.query import unique_columns, write_query
from rankql.evaluation.reduce import FLAGGED, SHARED, Reduction, choose_reduction
from rankql.macros import INTERNAL_PREFIX, MISSING
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import fetch_frame

# Planning the query twice takes longer than copying the values of so many rows.
FEW_ROWS = 20_000_000
# Without hashing of integer keys, nDCG@10 of 10M rows in 100,000 rankings takes 75% of the
# time, or half in random order. For fewer rows the settings take longer.
UNHASHED_FROM_ROWS = 100_000
# The numbers of parts to try if all queries at once do not fit into memory.
PARTS = (4, 16, 64)


def compute(
    facts: Facts, metrics: Sequence[Metric], conventions: Conventions
) -> tuple[pl.DataFrame, list[str]]:
    """The values per query and notes, after all checks of the data."""
    inputs = facts.inputs
    reduction = choose_reduction(inputs, metrics, conventions, facts)
    frame, reduction, failure = _reduce(facts, reduction)
    counters = read_counters(frame, inputs) or Counters([], [], [])
    reduced = _finish(reduction, frame)
    checks_positions = reduced is not None and not reduced[SHARED].any()
    columns = unique_columns(inputs, metrics, conventions, checks_positions)
    if counters.repeats is False and len(reduction.metrics) == len(metrics):
        columns = [column for column in columns if column[0] != "run"]
    names = [metric.name for metric in metrics]
    notes = facts.require_valid(counters, names, columns)
    if isinstance(failure, duckdb.OutOfMemoryException):
        values, parts = _compute_in_parts(facts, metrics, conventions, failure)
        return values, [
            *notes,
            f"The queries did not fit into memory_limit, so they were evaluated in {parts} "
            "parts. A higher memory_limit is faster",
        ]
    if failure is not None:
        raise failure
    if reduced is None:
        return _read(facts, inputs, metrics, conventions), notes
    flagged = reduced.filter(FLAGGED)
    values = reduced.drop(FLAGGED, SHARED)
    if flagged.height:
        named = [metric for metric, _ in reduction.metrics.values()]
        values = _replace_flagged(facts, flagged, values, named, conventions)
    others = [metric for metric in metrics if metric.name not in reduction.metrics]
    if others:
        rest = _read(facts, inputs, others, conventions)
        rest = rest.drop(key for key in values.columns if key in rest.columns)
        values = values.hstack(rest)
    weights = [name for name in values.columns if name.startswith(f"{INTERNAL_PREFIX}weight of ")]
    keys = values.columns[: values.columns.index(MISSING) + 1]
    return values.select(*keys, *names, *weights), notes


def _reduce(
    facts: Facts, reduction: Reduction
) -> tuple[pl.DataFrame, Reduction, duckdb.Error | None]:
    """The rows of a reduction; only counters if DuckDB raises an error, with that error."""
    inputs = facts.inputs
    if reduction.form == "counters" and inputs.qrels is None and not inputs.scored:
        return pl.DataFrame(), reduction, None
    try:
        return _run(facts, reduction), reduction, None
    except duckdb.Error as error:
        counters = Reduction(inputs, reduction.conventions)
        try:
            return _run(facts, counters), counters, error
        except duckdb.Error:
            raise error from None


def _run(facts: Facts, reduction: Reduction) -> pl.DataFrame:
    """The rows of a reduction."""
    session, inputs = facts.session, facts.inputs
    few = facts.rows <= FEW_ROWS
    keys = not inputs.many and all(table.integer("query") for table in inputs.tables)
    indexed = reduction.form == "sums" and keys and facts.rows >= UNHASHED_FROM_ROWS
    hashing = session.perfect_hashing(inputs.tables, inputs.by) if indexed else nullcontext()
    with hashing:
        return fetch_frame(session, reduction.sql, few=few)


def _finish(reduction: Reduction, frame: pl.DataFrame) -> pl.DataFrame | None:
    """The values of the metrics that were reduced; None if there are none."""
    if not reduction.metrics:
        return None
    if reduction.inputs.qrels is not None:
        frame = frame.filter(pl.col("judged").is_not_null())
    return pl.concat(reduction.read(frame))


def _read(
    facts: Facts, inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions
) -> pl.DataFrame:
    """The values by the readable query."""
    query = write_query(inputs, metrics, conventions)
    return fetch_frame(facts.session, query.sql, query.checked, facts.rows <= FEW_ROWS)


def _replace_flagged(
    facts: Facts,
    flagged: pl.DataFrame,
    values: pl.DataFrame,
    metrics: Sequence[Metric],
    conventions: Conventions,
) -> pl.DataFrame:
    """The values, those of flagged rankings by the readable query."""
    session, inputs = facts.session, facts.inputs
    queries = flagged.select(pl.col(inputs.query).alias("query").unique())
    if flagged.height < values.height:
        table = session.register("flagged", queries)
        inputs = replace(inputs, part=f"{{query}} IN (SELECT query FROM {table.sql})")
    window = _read(facts, inputs, metrics, conventions).select(values.columns)
    keys = values.columns[: 1 + inputs.many]
    return values.update(window, on=keys) if False else _merge(values, window, flagged, keys)


def _merge(
    values: pl.DataFrame, window: pl.DataFrame, flagged: pl.DataFrame, keys: Sequence[str]
) -> pl.DataFrame:
    on = [*keys]
    kept = values.join(flagged.select(on), on=on, how="anti", nulls_equal=True)
    replaced = window.join(flagged.select(on), on=on, how="semi", nulls_equal=True)
    return pl.concat([kept, replaced]).sort(on, nulls_last=True)


def _compute_in_parts(
    facts: Facts,
    metrics: Sequence[Metric],
    conventions: Conventions,
    error: duckdb.OutOfMemoryException,
) -> tuple[pl.DataFrame, int]:
    """The values per query, evaluated in parts, and the number of parts; or raise the error."""
    part = facts.inputs.query_hash()
    for parts in PARTS:
        pieces = (
            replace(facts.inputs, part=f"{part} % {parts} = {i}") for i in range(parts)
        )
        try:
            rows = pl.concat(_read(facts, piece, metrics, conventions) for piece in pieces)
        except duckdb.OutOfMemoryException:
            continue
        keys = rows.columns[: 1 + facts.inputs.many]
        return rows.sort(keys, nulls_last=True), parts
    raise error

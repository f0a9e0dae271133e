"""Compute the values per query, from one reduction of the tables or by the readable query.

DuckDB spills joins and sorts to disk, but not the states of aggregates such as max(score, 10). If
they do not fit into memory, the queries are evaluated in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import duckdb
import polars as pl

from rankql.evaluation.checks import require_sound, require_unique
from rankql.evaluation.overlap import Counters, read_counters
from rankql.evaluation.readable import unique_columns, write_query
from rankql.evaluation.reduce import FLAGGED, SHARED, Reduction, choose_reduction
from rankql.evaluation.resolve import Facts
from rankql.evaluation.steps import TOP, with_ctes
from rankql.macros import INTERNAL_PREFIX, MISSING
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.reader import fetch_frame
from rankql.sources.session import Session

# Planning the query twice takes longer than copying the values of so many rows.
FEW_ROWS = 20_000_000
# Without hashing of integer keys, nDCG@10 of 10M rows in 100,000 rankings takes 75% of the
# time, or half in random order. For fewer rows the settings take longer.
UNHASHED_FROM_ROWS = 100_000
# The numbers of parts to try if all queries at once do not fit into memory.
PARTS = (4, 16, 64)


@dataclass(frozen=True)
class Reduced:
    """The rows of a reduction, its counters, and the error of DuckDB if it failed."""

    facts: Facts
    reduction: Reduction
    counters: Counters
    # The values of the metrics that were reduced.
    values: pl.DataFrame | None
    failure: duckdb.Error | None = None

    def unique_columns(self, metrics: Sequence[Metric]) -> list[tuple[str, str, str]]:
        """What must be unique in the tables, and was not looked at by the reduction."""
        read, conventions = self.reduction, self.reduction.conventions
        every = self.values is not None and len(read.metrics) == len(metrics)
        distinct = every and not self.values[SHARED].any()  # type: ignore[index]
        columns = unique_columns(read.inputs, metrics, conventions, distinct)
        if every and self.counters.repeats is False:
            columns = [column for column in columns if column[0] != "run"]
        return columns


def compute(
    facts: Facts, metrics: Sequence[Metric], conventions: Conventions
) -> tuple[pl.DataFrame, list[str], Counters]:
    """The values per query, notes and counters, after all checks of the data."""
    reduced = reduce_tables(facts, metrics, conventions)
    names = [metric.name for metric in metrics]
    notes = require_sound(facts.run_sql, reduced.counters, names, reduced.unique_columns(metrics))
    values, more = finish(reduced, metrics)
    return values, notes + more, reduced.counters


def reduce_tables(facts: Facts, metrics: Sequence[Metric], conventions: Conventions) -> Reduced:
    """One row per ranking: the values of the metrics that can be reduced, and the counters."""
    reduction = choose_reduction(facts.inputs, metrics, conventions, facts)
    frame, reduction, failure = _reduce(facts, reduction)
    counters = read_counters(frame, facts.inputs, reduction.find_repeats(frame))
    return Reduced(facts, reduction, counters, _finish(reduction, frame), failure)


def finish(reduced: Reduced, metrics: Sequence[Metric]) -> tuple[pl.DataFrame, list[str]]:
    """The values per query: those of flagged rankings and of other metrics by the readable query.

    Also a note if they did not fit into memory.
    """
    facts, conventions = reduced.facts, reduced.reduction.conventions
    if isinstance(reduced.failure, duckdb.OutOfMemoryException):
        return _compute_in_parts(facts, metrics, conventions, reduced.failure)
    if reduced.failure is not None:
        raise reduced.failure
    try:
        if reduced.values is None:
            return _read(facts, facts.inputs, metrics, conventions), []
        named = [metric for metric, _ in reduced.reduction.metrics.values()]
        values = _replace_flagged(reduced, named)
        others = [metric for metric in metrics if metric not in named]
        rest = _read(facts, facts.inputs, others, conventions) if others else values[[]]
    except duckdb.OutOfMemoryException as error:
        return _compute_in_parts(facts, metrics, conventions, error)
    values = values.hstack([x for x in rest.get_columns() if x.name not in values.columns])
    weights = [name for name in values.columns if name.startswith(f"{INTERNAL_PREFIX}weight of ")]
    keys = values.columns[: values.columns.index(MISSING) + 1]
    return values[[*keys, *(metric.name for metric in metrics), *weights]], []


def count_rankings(session: Session, inputs: Inputs, conventions: Conventions) -> Counters:
    """The counters of runs and judgments."""
    frame = fetch_frame(session, Reduction(inputs, conventions).sql)
    return read_counters(frame, inputs)


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
        # Without the error about a negative grade, other errors come first.
        lenient = replace(reduction.conventions, negative="zero")
        try:
            return _run(facts, replace(counters, conventions=lenient)), counters, error
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


def _replace_flagged(reduced: Reduced, metrics: Sequence[Metric]) -> pl.DataFrame:
    """The values, those of flagged rankings by the readable query."""
    facts, values = reduced.facts, reduced.values
    assert values is not None
    flags, names = values[FLAGGED], [x for x in values.columns if x not in (FLAGGED, SHARED)]
    values = values[names]  # drop() copies
    if not flags.any():
        return values
    flagged = values.filter(flags)
    inputs = facts.inputs
    queries = flagged[inputs.query].unique().to_frame("query")
    # A BIT comes back as bytes that are not those of its text.
    if flagged.height < values.height and queries["query"].dtype != pl.Binary:
        table = facts.session.register("flagged", queries)
        # A UUID comes back as text.
        key = "{key}" if queries["query"].dtype.is_numeric() else "CAST({key} AS VARCHAR)"
        listed = f"SELECT {key.format(key='query')} FROM {table.sql}"
        inputs = replace(inputs, part=f"{key.format(key='{query}')} IN ({listed})")
    keys = [str(i) for i in range(1 + inputs.many)]
    window = _read_flagged(facts, inputs, metrics, reduced)[names]
    # Names of users may be patterns of polars.
    flagged, values, window = (
        pl.DataFrame({str(i): column for i, column in enumerate(frame[names].get_columns())})
        for frame in (flagged, values, window)
    )
    kept, replaced = (
        frame.join(flagged, on=keys, how=how, nulls_equal=True)  # type: ignore[arg-type]
        for frame, how in ((values, "anti"), (window, "semi"))
    )
    rows = pl.concat([kept, replaced.cast(kept.schema)])
    # In the order of DuckDB, which may be that of a collation.
    order = values.select(keys)
    rows = order.join(rows, on=keys, how="left", nulls_equal=True, maintain_order="left")
    rows.columns = names
    return rows


def _read_flagged(
    facts: Facts, inputs: Inputs, metrics: Sequence[Metric], reduced: Reduced
) -> pl.DataFrame:
    """The values of flagged rankings. Refuses an item that occurs twice in the first positions."""
    conventions = reduced.reduction.conventions
    query = write_query(inputs, metrics, conventions)
    if reduced.counters.repeats is not False:  # all rows were compared
        return fetch_frame(facts.session, query.sql)
    source = TOP if TOP in query.steps else "run WHERE score IS NOT NULL"
    repeats = f"SELECT count(*) > count(DISTINCT hash({inputs.keys}, item)) FROM {source}"
    steps = with_ctes(query.steps, kept="run" if inputs.part else "")
    name = f"{INTERNAL_PREFIX}repeats"
    rows = fetch_frame(
        facts.session, f"{steps}SELECT *, ({repeats}) AS {name} FROM ({query.select})"
    )
    if rows[name].any():
        columns = unique_columns(facts.inputs, metrics, conventions, True)
        require_unique(facts.run_sql, facts.inputs, [c for c in columns if c[0] == "run"])
    return rows


def _compute_in_parts(
    facts: Facts,
    metrics: Sequence[Metric],
    conventions: Conventions,
    error: duckdb.OutOfMemoryException,
) -> tuple[pl.DataFrame, list[str]]:
    """The values per query, evaluated in parts, and a note that says so; or raise the error."""
    part = facts.inputs.query_hash()
    for parts in PARTS:
        pieces = (replace(facts.inputs, part=f"{part} % {parts} = {i}") for i in range(parts))
        try:
            rows = pl.concat(_read(facts, piece, metrics, conventions) for piece in pieces)
        except duckdb.OutOfMemoryException:
            continue
        return rows.sort(pl.nth(range(1 + facts.inputs.many)), nulls_last=True), [
            f"The queries did not fit into memory_limit, so they were evaluated in {parts} "
            "parts. A higher memory_limit is faster"
        ]
    raise error

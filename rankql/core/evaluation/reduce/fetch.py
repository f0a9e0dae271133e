"""The rows of a reduction: written by polars in memory, or fetched from DuckDB.

DuckDB spills joins and sorts to disk, but not the states of aggregates such as max(score, 10). If
they do not fit into memory, the same query is run in parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import duckdb
import polars as pl

from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.plan import leave_out_padding
from rankql.core.evaluation.reduce.in_memory import reduce_frames
from rankql.core.evaluation.reduce.reduce import Reduction, choose_reduction
from rankql.core.tables.reader import fetch_frame
from rankql.core.tables.tables import hash_column

# From so many rows on, it pays to set that integer keys are not hashed.
UNHASHED_FROM_ROWS = 100_000
# The numbers of parts to try if all queries at once do not fit into memory.
PARTS = (4, 16, 64)


def reduce_tables(evaluation: Evaluation) -> Reduction:
    """One row per ranking: what the metrics that can be reduced need, and counters."""
    reduction = choose_reduction(evaluation)
    try:
        reduction = run_reduction(reduction)
        looked = reduction.form != "words" or reduction.of_hits  # at each ranking
        if not looked and reduction.frame["shared"].any():
            return run_reduction(replace(reduction, looks_at_each=True))
        if evaluation.inputs.scored and reduction.frame["highest"].max() == math.inf:
            inputs = leave_out_padding(evaluation.session, evaluation.inputs)
            if inputs.runs != evaluation.inputs.runs:
                return reduce_tables(replace(evaluation, inputs=inputs))
        return reduction
    except duckdb.Error as error:
        failure = error
    # Without the error about a negative grade, other errors come first.
    lenient = replace(evaluation, conventions=replace(evaluation.conventions, negative="zero"))
    try:
        counted = run_reduction(Reduction(lenient))
    except duckdb.Error:
        raise failure from None
    return replace(counted, evaluation=evaluation, failure=failure)


def run_reduction(reduction: Reduction) -> Reduction:
    """The reduction with its rows, and a note if they were computed in parts."""
    evaluation = reduction.evaluation
    session, inputs = evaluation.session, evaluation.inputs
    alone = inputs.qrels is None and not inputs.scored
    if reduction.form == "counters" and not reduction.counts:
        return reduction
    if (small := reduce_frames(reduction)) is not None:
        return small
    keys = not inputs.many and all(table.integer("query") for table in inputs.tables)
    indexed = alone and keys and evaluation.rows >= UNHASHED_FROM_ROWS
    hashing = session.perfect_hashing(inputs.tables, inputs.by) if indexed else nullcontext()
    with hashing:
        frame, notes = fetch_in_parts(evaluation, lambda x: replace(reduction, evaluation=x).sql)
    return replace(reduction, frame=frame, notes=notes)


def fetch_in_parts(
    evaluation: Evaluation, write: Callable[[Evaluation], str], checked: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """The rows of a query; if it does not fit into memory, in parts, with a note that says so."""
    session, inputs = evaluation.session, evaluation.inputs
    try:
        return fetch_frame(session, write(evaluation), checked), []
    except duckdb.OutOfMemoryException as error:
        failure = error
    if inputs.system is not None and not inputs.systems:  # a part may lack one
        names = evaluation.run_sql("SELECT DISTINCT system FROM run ORDER BY system")
        inputs = replace(inputs, systems=tuple(name for (name,) in names))
        evaluation = replace(evaluation, inputs=inputs)
    # The same for equal queries of all tables.
    kinds = [table.columns[table.roles["query"]] for table in inputs.tables]
    query_hash = hash_column("{query}", kinds)
    for parts in PARTS:
        pieces = (evaluation.of_queries(f"{query_hash} % {parts} = {i}") for i in range(parts))
        try:
            rows = pl.concat(fetch_frame(session, write(piece), checked) for piece in pieces)
        except duckdb.OutOfMemoryException:
            continue
        return rows.sort(pl.nth(range(1 + inputs.many)), nulls_last=True), [
            f"The queries did not fit into memory_limit, so they were evaluated in {parts} "
            "parts. A higher memory_limit is faster"
        ]
    raise failure

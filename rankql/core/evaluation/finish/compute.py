"""Compute the values per query, from one reduction of the tables or by the readable query.

DuckDB spills joins and sorts to disk, but not the states of aggregates such as max(score, 10). If
they do not fit into memory, the same query is run in parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import duckdb
import polars as pl

from rankql.core.base.doors import call_extra
from rankql.core.base.errors import RankqlError
from rankql.core.evaluation.checks.counters import Counters, read_counters
from rankql.core.evaluation.checks.duplicates import SHARED, find_duplicates, require_unique_rows
from rankql.core.evaluation.finish.ctes import TOP, with_ctes
from rankql.core.evaluation.finish.readable import is_catalogue, unique_columns, write_query
from rankql.core.evaluation.means.means import worst_value
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.plan import leave_out_padding
from rankql.core.evaluation.reduce.in_memory import reduce_frames
from rankql.core.evaluation.reduce.reduce import FLAGGED, Reduction, choose_reduction
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING
from rankql.core.metrics.metric_record import Metric
from rankql.core.metrics.parse import rule
from rankql.core.tables.reader import fetch_frame, reword_error
from rankql.core.tables.session import duckdb_errors
from rankql.core.tables.tables import hash_column, unknown_column

# From so many rows on, it pays to set that integer keys are not hashed.
UNHASHED_FROM_ROWS = 100_000
# The numbers of parts to try if all queries at once do not fit into memory.
PARTS = (4, 16, 64)


Catalogue: TypeAlias = dict[str, list[dict[str, Any]]]
# Two numbers of each system.
Counts: TypeAlias = dict[str | None, tuple[int, int]]


def reduce_tables(evaluation: Evaluation) -> Reduction:
    """One row per ranking: what the metrics that can be reduced need, and counters."""
    reduction = choose_reduction(evaluation)
    try:
        reduction = _run(reduction)
        looked = reduction.form != "words" or reduction.of_hits  # at each ranking
        if not looked and reduction.frame["shared"].any():
            return _run(replace(reduction, looks_at_each=True))
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
        counted = _run(Reduction(lenient))
    except duckdb.Error:
        raise failure from None
    return replace(counted, evaluation=evaluation, failure=failure)


@dataclass(frozen=True)
class Values:
    """The values of an evaluation, notes, and what is known of the items shown."""

    per_query: pl.DataFrame
    notes: list[str] = field(default_factory=list)
    # Of metrics of the catalogue, by system and slice.
    catalogue: Catalogue = field(default_factory=dict)
    # Of each system: the items shown, and those that the user has in train.
    seen: Counts = field(default_factory=dict)
    # Of each system: the different items shown, and those that are in the catalogue.
    outside: Counts = field(default_factory=dict)


def finish(reduction: Reduction) -> Values:
    """The values. A missing query has the worst value, or none."""
    evaluation = reduction.evaluation
    values = Values(*_compute(reduction))
    if evaluation.inputs.forbidden or evaluation.conventions.negative == "unjudged":
        values = _add_forbidden(evaluation, values)
    if evaluation.inputs.qrels is not None:
        values = _fill_missing(evaluation, values)
    if evaluation.hidden:
        values = call_extra("count seen", evaluation, values)
    if any(map(is_catalogue, evaluation.metrics)):
        values = call_extra("catalogue values", evaluation, values)
    return values


def _add_forbidden(evaluation: Evaluation, values: Values) -> Values:
    """The values with metrics of forbidden items, for which other grades are read."""
    if (apart := evaluation.apart) is None:
        return values
    others, notes = _fetch(apart, lambda part: part.script.query.sql)
    columns = [others[metric.name] for metric in apart.metrics]
    per_query = values.per_query.with_columns(columns)
    return replace(values, per_query=per_query, notes=[*values.notes, *notes])


def _fill_missing(evaluation: Evaluation, values: Values) -> Values:
    """The values; where a query is missing, the worst one."""
    rules, filled = vars(evaluation.conventions), []
    signed: pl.Expr | None = None
    for metric in evaluation.metrics if values.per_query[MISSING].any() else ():
        if metric.record is None or rule(rules, "missing", metric.name) != "zero":
            continue
        never, value = pl.lit(False), pl.col(metric.name)
        if metric.keeps_sign(rules):
            if signed is None:  # a negative grade has a value below 0
                frame = evaluation.run_frame("SELECT DISTINCT query FROM qrels WHERE rel < 0")
                signed = pl.col(evaluation.inputs.query).is_in(frame["query"].implode())
            never = signed
        missing = pl.col(MISSING) & value.is_not_null()
        worst = worst_value(metric.name, unless=never)
        filled.append(pl.when(missing).then(worst).otherwise(value).alias(metric.name))
    return replace(values, per_query=values.per_query.with_columns(filled)) if filled else values


def _compute(reduction: Reduction) -> tuple[pl.DataFrame, list[str]]:
    """The values per query as the metrics define them, and notes.

    Those of flagged rankings and of metrics without a formula are of the readable query.
    """
    evaluation, notes = reduction.evaluation, [*reduction.notes]
    if reduction.failure is not None:
        raise reduction.failure
    named = [metric for metric, _ in reduction.metrics.values()]
    together = [metric for metric in evaluation.computed if named and is_catalogue(metric)]
    others = [metric for metric in evaluation.computed if metric not in (*named, *together)]
    # Macros check their arguments, because an expression of the user may pass anything.
    checked = any(metric.record is None for metric in evaluation.computed)
    if not named:
        return _fetch(evaluation, lambda part: part.script.query.sql, checked)
    values = _replace_flagged(reduction, named)
    if others:
        rest, more = _fetch(
            evaluation, lambda x: write_query(x.inputs, others, x.conventions).sql, checked
        )
        new = [x for x in rest.get_columns() if x.name not in values.columns]
        values, notes = values.hstack(new), notes + more
    if together:  # a query has no value of its own
        none = pl.repeat(None, len(values), dtype=pl.Float64, eager=True)
        values = values.hstack([none.alias(metric.name) for metric in together])
    weights = [name for name in values.columns if name.startswith(f"{INTERNAL_PREFIX}weight of ")]
    keys = values.columns[: values.columns.index(MISSING) + 1]
    return values[[*keys, *(metric.name for metric in evaluation.computed), *weights]], notes


def count_rankings(evaluation: Evaluation) -> Counters:
    """The counters of runs and judgments."""
    return read_counters(_run(Reduction(evaluation)))


def _run(reduction: Reduction) -> Reduction:
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
        frame, notes = _fetch(evaluation, lambda part: replace(reduction, evaluation=part).sql)
    return replace(reduction, frame=frame, notes=notes)


def _fetch(
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


def _replace_flagged(reduction: Reduction, metrics: Sequence[Metric]) -> pl.DataFrame:
    """The values, those of flagged rankings by the readable query."""
    evaluation, values = reduction.evaluation, reduction.values
    assert values is not None
    flags, names = values[FLAGGED], [name for name in values.columns if name != FLAGGED]
    values = values[names]  # drop() copies
    if not flags.any():
        return values
    flagged = values.filter(flags)
    inputs = evaluation.inputs
    queries = flagged[inputs.query].unique().to_frame("query")
    # A BIT comes back as bytes that are not those of its text.
    part = evaluation
    if flagged.height < values.height and queries["query"].dtype != pl.Binary:
        table = evaluation.session.register("flagged", queries)
        # A UUID comes back as text.
        key = "{key}" if queries["query"].dtype.is_numeric() else "CAST({key} AS VARCHAR)"
        listed = f"SELECT {key.format(key='query')} FROM {table.sql}"
        part = evaluation.of_queries(f"{key.format(key='{query}')} IN ({listed})")
    keys = [str(i) for i in range(1 + inputs.many)]
    try:
        window = _read_flagged(reduction, part, metrics)[names]
    except duckdb.OutOfMemoryException:  # the list of queries takes memory too
        window = _read_flagged(reduction, evaluation, metrics)[names]
    # Names of users may be patterns of polars.
    flagged, values, window = (
        pl.DataFrame({str(i): column for i, column in enumerate(frame[names].get_columns())})
        for frame in (flagged, values, window)
    )
    unflagged, replaced = (
        frame.join(flagged, on=keys, how=how, nulls_equal=True)  # type: ignore[arg-type]
        for frame, how in ((values, "anti"), (window, "semi"))
    )
    rows = pl.concat([unflagged, replaced.cast(unflagged.schema)])
    # In the order of DuckDB, which may be that of a collation.
    order = values.select(keys)
    rows = order.join(rows, on=keys, how="left", nulls_equal=True, maintain_order="left")
    rows.columns = names
    return rows


def _read_flagged(
    reduction: Reduction, part: Evaluation, metrics: Sequence[Metric]
) -> pl.DataFrame:
    """The values of flagged rankings. Refuses an item that occurs twice in the first positions."""
    compares = reduction.repeats is False  # only the items of other rankings
    name = f"{INTERNAL_PREFIX}repeats"

    def write(part: Evaluation) -> str:
        inputs = part.inputs
        query = write_query(inputs, metrics, part.conventions)
        if not compares:
            return query.sql
        source = TOP if TOP in query.steps else "run WHERE score IS NOT NULL"
        repeats = f"SELECT count(*) > count(DISTINCT hash({inputs.keys}, item)) FROM {source}"
        steps = with_ctes(query.steps, read_twice="run" if inputs.where else "")
        return f"{steps}SELECT *, ({repeats}) AS {name} FROM ({query.select})"

    rows, _ = _fetch(part, write)
    if compares and rows[name].any():
        evaluation = reduction.evaluation
        columns = unique_columns(evaluation.inputs, metrics, evaluation.conventions, True)
        require_unique_rows(evaluation, [c for c in columns if c[0] == "run"])
    return rows


# The errors about an expression that DuckDB does not understand or cannot convert to a number.
_REFUSED = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.NotImplementedException,
)


@contextmanager
def evaluation_errors(evaluation: Evaluation) -> Iterator[None]:
    """Raise errors of DuckDB as RankqlError, with the duplicates, the table or the own metric."""
    with duckdb_errors():
        try:
            yield
        except duckdb.Error as error:
            line = reword_error(error)
            if match := re.match('Referenced column "(.+?)" not found', line):
                runs = [*evaluation.inputs.runs.values()]
                raise unknown_column("metrics", match[1], runs) from error
            if SHARED in line:
                raise RankqlError(duplicates_message(evaluation)) from error
            own = [f"{m.label!r} = {m.expression!r}" for m in evaluation.metrics if m.known is None]
            if own and isinstance(error, _REFUSED) and "rankql: " not in str(error):
                line = re.sub(r'! Did you mean "(__|rankql ).*', "", line).rstrip(".!")
                raise RankqlError(
                    f"The metric {' or '.join(own)} does not give one number per query ({line}). "
                    "Write an aggregate of DuckDB, such as avg(price) or count(*)"
                ) from error
            raise


def duplicates_message(evaluation: Evaluation) -> str:
    """The error about duplicates among the items, with three examples."""
    inputs = evaluation.inputs
    message = find_duplicates(evaluation, "run", "item") if inputs.every("item") else None
    if not message and not inputs.scored:
        message = find_duplicates(evaluation, "run", "pos", "WHERE pos IS NOT NULL")
    return message or SHARED

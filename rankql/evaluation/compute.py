"""Compute the values per query, from one reduction of the tables or by the readable query.

DuckDB spills joins and sorts to disk, but not the states of aggregates such as max(score, 10). If
they do not fit into memory, the same query is run in parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import duckdb
import polars as pl

from rankql.errors import RankqlError
from rankql.evaluation.overlap import Counters, read_counters, run_label
from rankql.evaluation.plan import Facts, Plan
from rankql.evaluation.readable import Query, is_catalogue, unique_columns, write_query
from rankql.evaluation.reduce import FLAGGED, Reduction, choose_reduction
from rankql.evaluation.refusals import require_sound, require_unique_rows
from rankql.evaluation.shown import COUNTED, HIDDEN, count_seen, no_shared_items, reads_grades
from rankql.evaluation.steps import TOP, Unique, with_ctes
from rankql.macros import INTERNAL_PREFIX, MISSING
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.reader import fetch, fetch_frame
from rankql.sources.session import Session
from rankql.sources.tables import hash_column

# From so many rows on, it pays to set that integer keys are not hashed.
UNHASHED_FROM_ROWS = 100_000
# The numbers of parts to try if all queries at once do not fit into memory.
PARTS = (4, 16, 64)


@dataclass(frozen=True)
class Reduced:
    """The values of a reduction, its counters and notes, and the error of DuckDB if it failed."""

    facts: Facts
    reduction: Reduction
    counters: Counters
    notes: list[str]
    # None if the readable query computes all of them.
    values: pl.DataFrame | None
    failure: duckdb.Error | None = None

    def unique_columns(self, metrics: Sequence[Metric]) -> list[Unique]:
        """What must be unique in the tables, and was not looked at by the reduction."""
        inputs, conventions = self.reduction.inputs, self.reduction.conventions
        every = self.values is not None and len(self.reduction.metrics) == len(metrics)
        distinct = every and not self.values[FLAGGED].any()  # type: ignore[index]
        columns = unique_columns(inputs, metrics, conventions, distinct)
        if every and self.counters.repeats is False:
            columns = [column for column in columns if column[0] != "run"]
        return columns


Catalogue: TypeAlias = dict[str, list[dict[str, Any]]]
# Two numbers of each system.
Counts: TypeAlias = dict[str | None, tuple[int, int]]


def compute(plan: Plan) -> tuple[pl.DataFrame, Catalogue, Counters, list[str]]:
    """The values per query and of the catalogue, and the counters, after all checks; and notes."""
    metrics = plan.computed
    reduced = reduce_tables(plan.facts, metrics, plan.conventions)
    unique = reduced.unique_columns(metrics)
    graded = reads_grades(plan.metrics)
    counters = require_sound(plan.facts.run_sql, reduced.counters, unique, graded=graded)
    values, notes = finish(reduced, metrics, plan.query)
    if plan.inputs.train:
        shown, popular, _ = HIDDEN
        if any(m.shown for m in metrics) and values[shown].sum() and not values[popular].sum():
            raise no_shared_items(plan.facts.run_sql, "train", plan.inputs.popular)
        counters = replace(counters, seen=count_seen(plan.inputs, values))
        values = values[[name for name in values.columns if name not in HIDDEN]]
    catalogue, outside = compute_catalogue(plan)
    return values, catalogue, replace(counters, outside=outside), notes


def reduce_tables(facts: Facts, metrics: Sequence[Metric], conventions: Conventions) -> Reduced:
    """One row per ranking: the values of the metrics, if they can be reduced, and the counters."""
    reduction, failure = choose_reduction(facts, metrics, conventions), None
    try:
        frame, notes = _run(facts, reduction)
    except duckdb.Error as error:
        # Without the error about a negative grade, other errors come first.
        lenient = replace(conventions, negative="zero")
        failure, reduction = error, Reduction(facts.inputs, conventions)
        try:
            frame, notes = _run(facts, replace(reduction, conventions=lenient))
        except duckdb.Error:
            raise error from None
    values = None
    if reduction.metrics:
        judged = frame
        if facts.inputs.qrels is not None:
            judged = frame.filter(pl.col("judged").is_not_null())
        values = pl.concat(reduction.read(judged))
    repeats = reduction.find_repeats(frame)
    counters = read_counters(frame, facts.inputs, conventions, repeats)
    return Reduced(facts, reduction, counters, notes, values, failure)


def finish(
    reduced: Reduced, metrics: Sequence[Metric], query: Query
) -> tuple[pl.DataFrame, list[str]]:
    """The values per query, and notes.

    Those of flagged rankings and of metrics without a formula are of the readable query.
    """
    facts, conventions = reduced.facts, reduced.reduction.conventions
    if reduced.failure is not None:
        raise reduced.failure
    named = [metric for metric, _ in reduced.reduction.metrics.values()]
    together = [metric for metric in metrics if named and is_catalogue(metric)]
    others = [metric for metric in metrics if metric not in (*named, *together)]

    def write(inputs: Inputs) -> str:
        is_own = inputs is facts.inputs and not named
        return (query if is_own else write_query(inputs, others, conventions)).sql

    if not named:
        return _fetch(facts, facts.inputs, write, query.checked)
    values, notes = _replace_flagged(reduced, named), reduced.notes
    if others:
        rest, more = _fetch(facts, facts.inputs, write, query.checked)
        new = [x for x in rest.get_columns() if x.name not in values.columns]
        values, notes = values.hstack(new), notes + more
    if together:  # a query has no value of its own
        none = pl.repeat(None, len(values), dtype=pl.Float64, eager=True)
        values = values.hstack([none.alias(metric.name) for metric in together])
    weights = [name for name in values.columns if name.startswith(f"{INTERNAL_PREFIX}weight of ")]
    keys = values.columns[: values.columns.index(MISSING) + 1]
    return values[[*keys, *(metric.name for metric in metrics), *weights]], notes


def compute_catalogue(plan: Plan) -> tuple[Catalogue, Counts]:
    """The values of metrics of the catalogue by system and slice.

    Also the different items that each system shows, and those that are in the catalogue.
    """
    values: Catalogue = {}
    items: Counts = {}
    for names, sql in plan.catalogue_queries:
        for row in fetch(plan.session, sql, True):
            *system, part = row[: 1 + plan.inputs.many]
            place = {"system": system[0] if system else None, "slice": part}
            numbers = dict(zip(names, row[1 + plan.inputs.many :], strict=True))
            if COUNTED.keys() <= numbers.keys():
                total, known = (int(numbers.pop(name)) for name in COUNTED)
                if part == "all":
                    before = items.get(place["system"], (0, 0))
                    items[place["system"]] = max(before, (total, known))
            for name, value in numbers.items():
                if value is not None and not math.isfinite(value):
                    raise RankqlError(f"metrics: {name} is {value:g}, but must be a finite number")
                values.setdefault(name, []).append(place | {"value": value})
    if items and not any(known for _, known in items.values()):
        raise no_shared_items(plan.facts.run_sql, "catalogue", plan.inputs.known)
    size = plan.inputs.catalogue
    for which, (total, _) in items.items():
        if isinstance(size, int) and total > size:
            raise RankqlError(
                f"catalogue={size} is less than the {total:,} items that {run_label(which)} "
                "shows. Pass the number of items that could be shown, or a table of them"
            )
    return values, items


def count_rankings(session: Session, inputs: Inputs, conventions: Conventions) -> Counters:
    """The counters of runs and judgments."""
    frame = fetch_frame(session, Reduction(inputs, conventions).sql)
    return read_counters(frame, inputs, conventions)


def _run(facts: Facts, reduction: Reduction) -> tuple[pl.DataFrame, list[str]]:
    """The rows of a reduction, and a note if they were computed in parts."""
    session, inputs = facts.session, facts.inputs
    alone = inputs.qrels is None and not inputs.scored
    if reduction.form == "counters" and alone:
        return pl.DataFrame(), []
    keys = not inputs.many and all(table.integer("query") for table in inputs.tables)
    indexed = alone and keys and facts.rows >= UNHASHED_FROM_ROWS
    hashing = session.perfect_hashing(inputs.tables, inputs.by) if indexed else nullcontext()
    with hashing:
        return _fetch(facts, inputs, lambda part: replace(reduction, inputs=part).sql)


def _fetch(
    facts: Facts, inputs: Inputs, write: Callable[[Inputs], str], checked: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """The rows of a query; if it does not fit into memory, in parts, with a note that says so."""
    try:
        return fetch_frame(facts.session, write(inputs), checked), []
    except duckdb.OutOfMemoryException as error:
        failure = error
    if inputs.system is not None and not inputs.systems:  # a part may lack one
        names = facts.run_sql("SELECT DISTINCT system FROM run ORDER BY system")
        inputs = replace(inputs, systems=tuple(name for (name,) in names))
    # The same for equal queries of all tables.
    kinds = [table.columns[table.roles["query"]] for table in inputs.tables]
    query_hash = hash_column("{query}", kinds)
    for parts in PARTS:
        conditions = (f"{query_hash} % {parts} = {i}" for i in range(parts))
        pieces = (
            replace(inputs, part=" AND ".join(filter(None, [inputs.part, condition])))
            for condition in conditions
        )
        try:
            rows = pl.concat(fetch_frame(facts.session, write(x), checked) for x in pieces)
        except duckdb.OutOfMemoryException:
            continue
        return rows.sort(pl.nth(range(1 + inputs.many)), nulls_last=True), [
            f"The queries did not fit into memory_limit, so they were evaluated in {parts} "
            "parts. A higher memory_limit is faster"
        ]
    raise failure


def _replace_flagged(reduced: Reduced, metrics: Sequence[Metric]) -> pl.DataFrame:
    """The values, those of flagged rankings by the readable query."""
    facts, values = reduced.facts, reduced.values
    assert values is not None
    flags, names = values[FLAGGED], [name for name in values.columns if name != FLAGGED]
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
    try:
        window = _read_flagged(reduced, inputs, metrics)[names]
    except duckdb.OutOfMemoryException:  # the list of queries takes memory too
        window = _read_flagged(reduced, facts.inputs, metrics)[names]
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


def _read_flagged(reduced: Reduced, inputs: Inputs, metrics: Sequence[Metric]) -> pl.DataFrame:
    """The values of flagged rankings. Refuses an item that occurs twice in the first positions."""
    facts, conventions = reduced.facts, reduced.reduction.conventions
    compares = reduced.counters.repeats is False  # only the items of other rankings
    name = f"{INTERNAL_PREFIX}repeats"

    def write(inputs: Inputs) -> str:
        query = write_query(inputs, metrics, conventions)
        if not compares:
            return query.sql
        source = TOP if TOP in query.steps else "run WHERE score IS NOT NULL"
        repeats = f"SELECT count(*) > count(DISTINCT hash({inputs.keys}, item)) FROM {source}"
        steps = with_ctes(query.steps, kept="run" if inputs.part else "")
        return f"{steps}SELECT *, ({repeats}) AS {name} FROM ({query.select})"

    rows, _ = _fetch(facts, inputs, write)
    if compares and rows[name].any():
        columns = unique_columns(facts.inputs, metrics, conventions, True)
        require_unique_rows(facts.run_sql, [c for c in columns if c[0] == "run"])
    return rows

"""The rows of a reduction, which DuckDB writes or, of small evaluations, polars.

DuckDB spills joins and sorts to disk, but not the states of aggregates such as max(score, 10). If
they do not fit into memory, the same query is run in parts.

DuckDB plans the query of a reduction in several milliseconds, whatever the tables hold. Up to
MOST_ROWS rows of runs and their judgments, which are frames or kept in memory when read, are
reduced by polars: the same columns of `protocol`, in all layouts. Whatever follows reads them as it
reads those of DuckDB, and `.sql` shows the query. A test holds both equal.

Each call of polars takes as long as the work on a few hundred rows, so there are two queries: the
ranked rows, and what is counted of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Literal

import duckdb
import polars as pl

from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.plan import leave_out_padding
from rankql.core.evaluation.query.ctes import last_position
from rankql.core.evaluation.reduce.reduce import Reduction, choose_reduction
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.reader import HELD, fetch_frame, numbers_in_memory
from rankql.core.tables.tables import Table, hash_column

# The types of attributes that polars and DuckDB order alike.
_ATTRIBUTES = (pl.String, pl.Int64, pl.Int32, pl.Float64, pl.Boolean, pl.Date)
# DuckDB pays from more rows on: of 20,000, 50,000 and 80,000 rows it takes 2.6, 1.6 and 1.4 times
# the CPU of polars, with whole numbers as ids about the same from 80,000 on.
MOST_ROWS = 5 * HELD
_KEY = ("query", "item")
# The streaming engine, which polars takes by default, uses twice the CPU for so few rows.
_ENGINE: Literal["in-memory"] = "in-memory"
# The highest id that polars compares with those of all other types of whole numbers.
_HIGHEST = 2**63 - 1
# From so many rows on, it pays to set that integer keys are not hashed.
UNHASHED_FROM_ROWS = 100_000
# The numbers of parts to try if all queries at once do not fit into memory.
PARTS = (4, 16, 64)


def reduce_tables(evaluation: Evaluation) -> Reduction:
    """One row per ranking: what the metrics that can be reduced need, and counters."""
    reduction = choose_reduction(evaluation)
    try:
        reduction = run_reduction(reduction)
        looked = reduction.layout != "words" or reduction.of_hits  # at each ranking
        if not looked and reduction.frame["shared"].any():
            return run_reduction(replace(reduction, looks_at_each=True))
        if evaluation.inputs.scored and reduction.frame["highest"].max() == math.inf:
            inputs = leave_out_padding(evaluation.inputs)
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
    if reduction.layout == "counters" and not reduction.counts:
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


def reduce_frames(reduction: Reduction) -> Reduction | None:
    """The reduction with its rows; None if DuckDB must write them."""
    inputs, evaluation = reduction.inputs, reduction.evaluation
    if reduction.ideal_retrieved or reduction.of_hits or reduction.conventions.ties == "order":
        return None
    run = source_frame(evaluation, "run")
    qrels = source_frame(evaluation, "qrels") if inputs.qrels else run
    about = source_frame(evaluation, "attributes") if inputs.attributes else run
    if run is None or qrels is None or about is None:
        return None
    if about.schema["query"] != run.schema["query"]:
        return None
    ranking = "score" if inputs.scored else "pos"
    place = pl.col(ranking)
    ids = [x for x in _KEY if x in run.columns]
    same = all(run.schema[x] == qrels.schema.get(x) for x in ids)
    if not same or (inputs.scored and "item" not in ids):
        return None
    if "rel" in run.columns and ((run["rel"] > 0) & run[ranking].is_null()).any():
        return None  # such an item may stand in another row
    ranked = _rank(run, inputs)
    if inputs.qrels:
        ranked = ranked.join(qrels.lazy(), on=_KEY, how="left", maintain_order="left")
    rows, unplaced = ranked.collect(engine=_ENGINE), run[ranking].null_count()
    if inputs.qrels and rows.height > run.height - unplaced:
        return None  # an item has two grades
    keys = inputs.keys.split(", ")
    counters = {
        "rows": pl.len(), "placed": place.count(), "lowest": place.min(), "highest": place.max()
    }  # fmt: skip
    shared = inputs.many and inputs.qrels  # the attributes of a run are those of its queries
    counters |= {} if shared else _attributes(reduction, "run")
    fields: dict[str, pl.Expr] = {}
    if reduction.layout != "counters":
        fields = _lists(reduction) if reduction.layout == "lists" else _words(reduction)
    if inputs.qrels:  # in all positions: another look, with few in the first ones, takes DuckDB
        fields["common"] = pl.col("rel").count()
    rankings = rows.lazy().group_by(keys).agg(**fields, **({} if unplaced else counters))
    if unplaced:
        rankings = run.lazy().group_by(keys).agg(**counters).join(rankings, on=keys, how="left")
    grades = range(1, reduction.end + 1)
    ideal = {f"ideal {x}": (pl.col("rel") == x).sum().cast(pl.Int64) for x in grades}
    graded = keys if qrels is run else ["query"]
    own = _attributes(reduction, "qrels")
    judged = qrels.lazy().group_by(graded).agg(judged=pl.col("rel").count(), **ideal, **own)
    if graded != keys:
        every = inputs.systems or inputs.runs
        names = run["system"].unique() if inputs.system and not inputs.systems else [*every]
        judged = judged.join(pl.LazyFrame({"system": names}), how="cross")
    frame = judged.join(rankings, on=keys, how="full", coalesce=True)
    others = {"run": run} if shared else {}
    others |= {} if inputs.attributes is None else {"attributes": about}
    for cte, table in others.items():
        if columns := [*map(inputs.attribute, inputs.attributes_in(cte))]:
            values = [pl.col(x).drop_nulls().first() for x in columns]
            frame = frame.join(table.lazy().group_by("query").agg(values), on="query", how="left")
    frame = frame.sort(keys)
    frame = frame.select(*keys, pl.exclude(keys)) if inputs.many else frame
    kinds = {evaluation.session.frames[x.sql][x.roles["query"]].dtype for x in inputs.tables}
    if len(kinds) == 1 and not kinds <= {pl.Int64(), pl.String()}:
        frame = frame.cast({"query": kinds.pop()})  # as DuckDB has it, to be joined with the tables
    return replace(reduction, frame=frame.collect(engine=_ENGINE), ranked=rows)


def source_frame(evaluation: Evaluation, cte: str) -> pl.DataFrame | None:
    """The rows of the CTE run or qrels with standard columns; None if they are not few rows of
    simple frames.
    """
    inputs, rules = evaluation.inputs, evaluation.conventions
    others = inputs.where or inputs.extra or inputs.subtopics
    if others or rules.float32 or inputs.unjudged_queries == "count":
        return None
    session = evaluation.session
    if not {table.sql for table in inputs.tables} <= {*session.frames}:
        return None
    if sum(session.frames[table.sql].height for table in inputs.tables) > MOST_ROWS:
        return None
    if cte == "attributes":
        return _read(evaluation, inputs.attributes, ("query",))
    if cte == "qrels":
        rows = _read(evaluation, inputs.qrels, (*_KEY, "rel"))
        nulls = rows is not None and rows["rel"].null_count()
        return rows.filter(rows["rel"].is_not_null()) if rows is not None and nulls else rows
    roles = (*_KEY, *(() if inputs.qrels else ("rel",)), "pos", "score")
    runs = {name: _read(evaluation, table, roles) for name, table in inputs.runs.items()}
    frames = [x for x in runs.values() if x is not None]
    if len(frames) < len(runs) or len({tuple(x.schema.items()) for x in frames}) > 1:
        return None
    if inputs.system or not inputs.many:
        return frames[0]
    names = (pl.Series("system", [name]).new_from_index(0, x.height)
             for name, x in zip(runs, frames, strict=True))  # fmt: skip
    return pl.concat(pl.DataFrame([y, *x]) for x, y in zip(frames, names, strict=True))


def _read(evaluation: Evaluation, table: Table | None, roles: Sequence[str]) -> pl.DataFrame | None:
    """The columns of these roles of a frame, and its attributes; None if DuckDB must read them."""
    assert table
    inputs = evaluation.inputs
    frame, fields = evaluation.session.frames[table.sql], list[pl.Series]()
    cte = inputs.cte_of(table)
    if inputs.system and cte == "run":
        system = frame[inputs.system] if inputs.system in frame.columns else None
        if system is None or system.dtype not in (pl.String, pl.Int64) or system.null_count():
            return None
        fields.append(system.cast(pl.String).alias("system"))
    for name in inputs.attributes_in(cte):
        actual = table.actual_name(name)
        if actual not in frame.columns or frame[actual].dtype not in _ATTRIBUTES:
            return None
        value: pl.Series | None = frame[actual]
        if name == inputs.weight:
            value = numbers_in_memory(table, actual)
        if value is None or (value.dtype.is_float() and value.is_nan().any()):
            return None
        fields.append(value.alias(inputs.attribute(name)))
    for role in [x for x in roles if x in table.roles]:
        if (name := table.roles[role]) not in frame.columns:
            return None
        column = frame[name]
        if role not in _KEY:
            number = numbers_in_memory(table, name)
            if number is None or (role == "pos" and column.dtype.is_float()):
                return None
            total = number.sum()
            if total != total and number.is_nan().any():  # DuckDB has the error
                return None
            is_lowest = role == "score" and table.ascending
            fields.append((0 - number if is_lowest else number).alias(role))
        elif column.dtype == pl.String:
            fields.append(column.alias(role))
        elif column.dtype.is_integer() and int(column.max() or 0) <= _HIGHEST:  # type: ignore[arg-type]
            fields.append(column.cast(pl.Int64).alias(role))
        else:
            return None
    return pl.DataFrame(fields)


def _rank(run: pl.DataFrame, inputs: Inputs) -> pl.LazyFrame:
    """The rows with a place in the order of their positions.

    Those with scores have their positions, and whether the one above has the same score. Equal
    scores are in the order of ties='item': items descending by the bytes of their text.
    """
    keys, place = inputs.keys.split(", "), "score" if inputs.scored else "pos"
    rows = run.lazy()
    if run[place].null_count():
        rows = rows.filter(pl.col(place).is_not_null())
    if not inputs.scored:
        return rows.sort([*keys, "pos"], maintain_order=True)
    # Queries whose rows stand together are sorted by their numbers: text takes twice as long.
    numbers = run["query"].rle_id() if len(keys) == 1 and run.height else None
    apart = numbers is None or numbers[-1] + 1 > run["query"].n_unique()
    groups = [*map(pl.col, keys)] if apart else [pl.col("query").rle_id()]
    order = [*groups, pl.col("score"), pl.col("item").cast(pl.String)]
    descending = [False] * len(groups) + [True, True]
    ranked = rows.sort(order, descending=descending, multithreaded=False)
    same = pl.col(*keys, "score")
    first, row = pl.col("row").first().over(keys), pl.int_range(pl.len())
    ranked = ranked.with_columns(row=row, equal=pl.all_horizontal(same.eq_missing(same.shift(1))))
    return ranked.with_columns(pos=pl.col("row") - first + 1.0)


def _attributes(reduction: Reduction, cte: str) -> dict[str, pl.Expr]:
    """The attributes in a table, and whether they have one value."""
    inputs = reduction.inputs
    values = {x: pl.col(x).min() for x in map(inputs.attribute, inputs.attributes_in(cte))}
    for name, ((table, column), _) in reduction.unique_checks.items():
        if table == cte:
            value = pl.col(column)
            one = (value.min() == value.max()).fill_null(True)
            if inputs.weight and column == inputs.attribute(inputs.weight):
                one &= value.count().is_in([0]) | (value.count() == pl.len())
            values[name] = one
    return values


def _lists(reduction: Reduction) -> dict[str, pl.Expr]:
    """The positions and grades of the items that metrics read."""
    read = pl.col("rel") > 0 if reduction.reads == "gain" else pl.col("rel").is_not_null()
    lists = {"places": pl.col("pos").filter(read), "rels": pl.col("rel").filter(read)}
    if reduction.inputs.scored:
        below = pl.col("equal").shift(-1, fill_value=False)
        flag = {"tied": ((pl.col("equal") | below) & read).any()}
    else:
        k = last_position(reduction.evaluation.computed, reduction.conventions)
        shown = pl.col("pos") <= (math.inf if k is None else k)
        flag = {"shared": pl.col("pos").filter(shown).is_duplicated().any()}
    return {**flag, **lists}


def _words(reduction: Reduction) -> dict[str, pl.Expr]:
    """The words of the items in the first k positions.

    Where an item may occur twice in the top, those tied with the last one count.
    """
    k, words, fields = reduction.k, reduction.words, dict[str, pl.Expr]()
    within = pl.col("pos") <= k
    if reduction.inputs.scored:
        fields["tied"] = (pl.col("equal") & (pl.col("pos") <= k + 1)).any()
    else:
        fields["shared"] = pl.col("pos").filter(within).is_duplicated().any()
    if reduction.has("repeats"):
        listed = pl.col("item").filter(within | pl.col("equal"))
        fields["repeats"] = listed.n_unique() < listed.len()
        within &= pl.col("rel").is_not_null()
    digit = (2 * pl.col("rel").fill_null(0) + 1).cast(pl.Int64)
    for name, first, last in words.spans():
        place = pl.col("pos").clip(first, last) - first
        shift = pl.lit(2, pl.Int64).pow(place.cast(pl.Int64) * words.bits)
        inside = within & pl.col("pos").is_between(first, last)
        fields[name] = (digit * shift).filter(inside).bitwise_or()
    return fields

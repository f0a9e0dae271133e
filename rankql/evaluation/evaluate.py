"""Whole runs, judged where they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import duckdb
import polars as pl

from rankql.evaluation.execution import (
    resolve_conventions,
    execute,
    validate_inputs,
    pending_result,
    prepare,
    duckdb_errors,
    find_grade_scale,
    render_script,
    validate_columns,
)
from rankql.evaluation.query import Query, build_query
from rankql.evaluation.result import Result, parse_groupings, parquet_path, require_interval
from rankql.macros import elsewhere
from rankql.registry.conventions import Conventions, choose
from rankql.registry.parse import parse
from rankql.sources.inputs import Inputs, read_inputs
from rankql.sources.tables import ROLES, Data, Session, flatten_inputs, open_session

DEFAULT = ("nDCG@10", "AP", "RR@10", "P@5", "R@100")


def evaluate(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    metrics: str | Sequence[str] = DEFAULT,
    *,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    con: duckdb.DuckDBPyConnection | Any = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | None = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
    output: str | os.PathLike[str] | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Result:
    """Every metric of every query of one or many runs, computed where the data lives.

    `run` has the columns query, item and score or pos, `qrels` query, item and rel; both are a
    path or glob (Parquet, CSV, JSON, TREC), a table, view or relation of `con`, or a frame of
    polars, pandas or Arrow. Without `qrels` the run is a ranked table that has rel itself. Several
    runs: a dict of name: run, or the column `system`. The columns are recognised by their usual
    names, or named by keyword (a pair, where run and qrels differ). The highest score is best,
    or the lowest with descending=False and where its column is called distance.

    `by` slices the means by attributes of the queries, found in `attributes` (a table with the
    query column), the qrels or the run; a list within the list is a grouping of its own:
    by=[["segment"], ["segment", "device"]]. `interval` is 'auto', 't', 'bootstrap' or None:
    't' is mean ± Student's t times the standard error, cut at the metric's range; 'auto' applies t
    to the logit of the mean where the metric has both bounds, which stays inside and covers skewed
    values better, and is 't' elsewhere. `output` writes the values per query to a Parquet file.

    `con` may be that of another database, Postgres or SQLite: a SQLAlchemy engine or connection, or
    one of psycopg, sqlite3 or ADBC. The tables and views that are named are evaluated there, by one
    query in its SQL, `.sql`, and only the values per query are fetched. Nothing is written, and a
    transaction of yours stays open (but ADBC gives it up at an error of the database). What its SQL
    cannot say is refused by name.

    `conventions` is a profile: 'rankql', 'trec_eval' (version 9, which pytrec_eval runs),
    'trec_eval_10', 'sklearn', 'ranx', 'recbole' or 'spark'. Each further option changes one of its
    conventions, such as ties='expected'; see `rankql.Conventions`.

    >>> import polars as pl
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> evaluate(run, qrels, "RR@10")["RR@10"]
    0.5
    """
    require_interval(interval, confidence)
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    groups = parse_groupings(by)
    target = None if output is None else parquet_path(output, flatten_inputs(run, qrels, attributes))
    if elsewhere(con):
        from rankql.engines import remote

        result = remote.evaluated(
            con, run, qrels, attributes, columns, system, groups, metrics, conventions, options,
            descending,
        )  # fmt: skip
        result.interval, result.confidence = interval, confidence
        result.check()
        if target:
            result.write(target)
        return result
    with open_session(con, run, qrels, attributes) as here:
        given = read_inputs(here, run, qrels, attributes, columns, system, groups, descending=descending)
        validate_columns(here, given, ("rel", "pos"))
        build, chosen = plan(here, given, metrics, conventions, options)
        built = build(given)
        if not built.cut:
            validate_columns(here, given, ("score",))
        result = pending_result(here, given, built, chosen, groups, interval, confidence)
        with duckdb_errors(here, given, chosen):
            result.notes = validate_inputs(here, given, chosen, built)
            quick = here.indexed(given.tables, given.by) if built.sums else nullcontext()
            try:
                with quick:
                    if target is None:
                        result.rows = execute(here, built.sql, built.checked).pl()
                        result.check()
                    else:
                        result.copy(here.con, prepare(here, built.sql, built.checked), target)
            except duckdb.OutOfMemoryException as error:
                result.rows, parts = evaluate_in_parts(here, given, build, error)
                result.notes.append(
                    f"the queries do not fit into memory_limit at once: evaluated in {parts} "
                    "parts, one after another. A higher memory_limit is faster"
                )
                result.check()
                if target:
                    result.write(target)
    return result


# How many parts are tried, one after another, where the memory is too small for all queries.
PARTS = (4, 16, 64)


def evaluate_in_parts(
    here: Session,
    given: Inputs,
    build: Callable[[Inputs], Query],
    error: duckdb.OutOfMemoryException,
) -> tuple[pl.DataFrame, int]:
    """The values per query, some queries at a time, and the number of parts; else the error.

    DuckDB spills joins and sorts to disk, but not the states of aggregates such as max(score, 10),
    of which a query of all rankings holds several at once.
    """
    part = given.query_hash()
    for parts in PARTS:
        try:
            queries = [build(replace(given, part=f"{part} % {parts} = {i}")) for i in range(parts)]
            rows = pl.concat([execute(here, q.sql, q.checked).pl() for q in queries])
        except duckdb.OutOfMemoryException:
            continue
        except duckdb.TransactionException:  # the failed query ended the transaction of the user
            break
        keys = rows.columns[: 2 if given.many else 1]
        return rows.sort(keys, nulls_last=True), parts
    raise error


def plan(
    here: Session,
    given: Inputs,
    metrics: str | Sequence[str],
    conventions: str | None,
    options: Mapping[str, Any],
) -> tuple[Callable[[Inputs], Query], Conventions]:
    """What builds the query that evaluates the metrics, and the conventions in force."""
    chosen, wanted = resolve_conventions(here, given, parse(metrics), choose(conventions, options))
    end = find_grade_scale(here, given)
    return lambda inputs: build_query(inputs, wanted, chosen, end), chosen


def query_of(
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    metrics: str | Sequence[str],
    system: str | None = None,
    descending: bool | None = None,
    conventions: str | None = None,
    **options: Any,
) -> str:
    """The SQL that `evaluate` would run."""
    columns = {role: options.pop(role, None) for role in ROLES}
    with open_session(None) as here:
        given = read_inputs(here, run, qrels, None, columns, system, descending=descending)
        build, _ = plan(here, given, metrics, conventions, options)
        return render_script(here, build(given).sql)

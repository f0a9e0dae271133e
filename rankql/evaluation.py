"""Whole runs, judged where they lie."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from rankql import macros
from rankql.conventions import Conventions, choose
from rankql.errors import RankqlError
from rankql.inputs import Inputs, read
from rankql.macros import quoted
from rankql.names import Metric, parse
from rankql.query import DUPLICATES, Query, per_query, with_sources
from rankql.result import Result, groupings, validate
from rankql.tables import ROLES, Data, Session, Table, session

DEFAULT = ("nDCG@10", "AP", "RR@10", "P@5", "R@100")


def evaluate(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    metrics: str | Sequence[str] = DEFAULT,
    *,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | None = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
    output: str | os.PathLike[str] | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Result:
    """Every metric of every query of one or many runs, computed where the data lies.

    `run` has the columns query, item and score or pos, `qrels` query, item and rel; both are a
    path or glob (Parquet, CSV, JSON, TREC), a table, view or relation of `con`, or a frame of
    polars, pandas or Arrow. Without `qrels` the run is a ranked table that has rel itself. Several
    runs: a dict of name: run, or the column `system`. The columns are recognised by their usual
    names, or named by keyword (a pair, where run and qrels differ).

    `by` slices the means by attributes of the queries, found in `attributes` (a table with the
    query column), the qrels or the run; a list within the list is a grouping of its own:
    by=[["segment"], ["segment", "device"]]. `interval` is 't', 'bootstrap' or None; 'auto' is 't'
    where scipy is installed. `output` writes the values per query to a Parquet file.

    `conventions` is a profile: 'rankql', 'trec_eval', 'sklearn', 'ranx', 'recbole' or 'spark'; each
    further option changes one of its conventions, such as ties='expected': `rankql.Conventions`
    says which there are.

    >>> import polars as pl
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> evaluate(run, qrels, "RR@10")["RR@10"]
    0.5
    """
    validate(interval, confidence)
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    inputs: list[Data] = [qrels, attributes, *(run.values() if isinstance(run, Mapping) else [run])]
    groups = groupings(by)
    with session(con, inputs) as here:
        given = read(here, run, qrels, attributes, columns, system, groups)
        built, chosen = plan(here, given, metrics, conventions, options)
        result = outcome(here, given, built, chosen)
        result.interval, result.confidence = interval, confidence
        result.meta["groupings"] = groups
        with reporting(here, given, chosen):
            result.notes = inspect(here, given, chosen, built.rows)
            if output is None:
                result.rows = execute(here, built.sql).pl()
            else:
                result.copy(here.con, prepared(here, built.sql), Path(output))
    if output is None:
        result.check()
    return result


def outcome(here: Session, given: Inputs, built: Query, chosen: Conventions) -> Result:
    """The result of a query that is yet to run."""
    return Result(
        meta={
            "query": (given.qrels or next(iter(given.runs.values()))).roles["query"],
            "system": given.many,
            "by": list(given.by),
            "groupings": [],
            "metrics": built.metrics,
            "weights": built.weights,
            "conventions": chosen.as_dict(),
        },
        sql=script(here, built.sql),
        columns={table.label: table.roles for table in given.tables},
        interval=None,
    )


def plan(
    here: Session,
    given: Inputs,
    metrics: str | Sequence[str],
    conventions: str | None,
    options: Mapping[str, Any],
) -> tuple[Query, Conventions]:
    """The query that evaluates the metrics, and the conventions in force."""
    chosen, wanted = complete(here, given, parse(metrics), choose(conventions, options))
    return per_query(given, wanted, chosen), chosen


def query_of(
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    metrics: str | Sequence[str],
    system: str | None = None,
    conventions: str | None = None,
    **options: Any,
) -> str:
    """The SQL that `evaluate` would run."""
    columns = {role: options.pop(role, None) for role in ROLES}
    with session(None, []) as here:
        given = read(here, run, qrels, None, columns, system)
        return script(here, plan(here, given, metrics, conventions, options)[0].sql)


def script(here: Session, sql: str) -> str:
    """A query, after the statements that read the text files."""
    return ";\n".join([*here.loaded.values(), sql])


def prepared(here: Session, sql: str) -> str:
    """The SQL with its macros made known to the connection."""
    create, called = macros.trusting(sql)
    here.con.execute(create).fetchall()
    return called


def execute(here: Session, sql: str) -> duckdb.DuckDBPyRelation:
    """The rows of a query that may call our macros."""
    return here.con.sql(prepared(here, sql))


def complete(
    here: Session, given: Inputs, wanted: Sequence[Metric], chosen: Conventions
) -> tuple[Conventions, list[Metric]]:
    """The conventions with the scale of the grades, where a metric needs its end; the metrics
    under their names within the conventions."""
    if not given.scored:
        chosen = replace(chosen, ties="item")  # positions are never tied
    scales = [m.options.get("max_rel", chosen.max_rel) for m in wanted if m.scaled]
    if scales or chosen.unjudged == "bounds":
        grades = _grades(here, given, chosen)
        highest = max(grades)
        for scale in scales:
            if scale is not None and scale < highest:
                raise RankqlError(f"max_rel={scale:g} is below the highest grade, {highest:g}")
        if None in scales:
            chosen = replace(chosen, max_rel=highest or 1.0)
        if chosen.unjudged == "bounds" and chosen.levels is None:
            chosen = replace(chosen, levels=grades)
    return chosen, list({m.name: m for m in (m.under(vars(chosen)) for m in wanted)}.values())


def _grades(here: Session, given: Inputs, chosen: Conventions) -> tuple[float, ...]:
    """The grades that occur, from 0."""
    source = "run" if given.qrels is None else "qrels"
    sql = f"{with_sources(given, chosen)}SELECT DISTINCT rel FROM {source} WHERE rel > 0"
    with reporting(here, given, chosen):
        return (0.0, *sorted(rel for (rel,) in execute(here, sql).fetchall()))


def inspect(here: Session, given: Inputs, chosen: Conventions, rows: str) -> list[str]:
    """Refuse what cannot be evaluated; return what is worth knowing of queries on one side only."""
    for table in given.tables:
        _no_nulls(here, given, table)
    for home in ("attributes", "qrels", "run"):
        for name in given.homed(home):
            _one_value(here, given, chosen, home, name)
    if given.qrels is None:
        return []
    sql = f"""{with_sources(given, chosen)}
        SELECT count(*) FILTER (WHERE judged), count(*) FILTER (WHERE shown),
               count(*) FILTER (WHERE judged AND shown),
               min(query, 3) FILTER (WHERE judged), min(query, 3) FILTER (WHERE shown),
               min(query, 3) FILTER (WHERE shown AND judged IS NULL)
        FROM (SELECT DISTINCT query, true AS judged FROM qrels)
        FULL JOIN (SELECT DISTINCT query, true AS shown FROM run) USING (query)
    """
    ((judged, shown, both, ours, theirs, unjudged),) = execute(here, sql).fetchall()
    if not judged:
        raise RankqlError("qrels has no grades: there is nothing to judge the run by")
    if not both:
        raise RankqlError(
            f"no query of the run is judged: the run has {examples(theirs)}, "
            f"qrels has {examples(ours)}"
        )
    if twice := duplicates(here, given, chosen, "qrels", "WHERE rel > 0" if rows == "gain" else ""):
        raise RankqlError(twice)
    if shown > both:
        return [
            f"{shown - both} of {shown} queries of the run are not judged and left out "
            f"({examples(unjudged)}{', ...' if shown - both > 3 else ''})"
        ]
    return []


def _no_nulls(here: Session, given: Inputs, table: Table) -> None:
    names = [table.roles[role] for role in ("query", "item") if role in table.roles]
    if given.system and table.label == "run":
        names.append(given.system)
    counts = ", ".join(f"count({quoted(name)})" for name in names)
    total, *found = here.con.sql(f"SELECT count(*), {counts} FROM {table.sql}").fetchall()[0]
    if not total:
        raise RankqlError(f"{table.label} is empty: it has no rows")
    for name, count in zip(names, found, strict=True):
        if count < total:
            raise RankqlError(
                f"{table.label}: {name} is NULL in {total - count} of {total} rows; leave them out"
            )


def _one_value(here: Session, given: Inputs, chosen: Conventions, home: str, name: str) -> None:
    """Refuse an attribute that is not one of the query."""
    keys = given.keys if home == "run" else "query"
    sql = f"""{with_sources(given, chosen)}
        SELECT query, min({quoted(name)}), max({quoted(name)}) FROM {home} GROUP BY {keys}
        HAVING min({quoted(name)}) <> max({quoted(name)}) ORDER BY ALL LIMIT 1"""
    for key, low, high in execute(here, sql).fetchall():
        raise RankqlError(
            f"by: {name} must have one value per query, but {home} has "
            f"{low!r} and {high!r} for query {key!r}"
        )


def examples(values: Sequence[object] | None) -> str:
    """A few values, as an error shows them."""
    return ", ".join(map(repr, values or []))


@contextmanager
def reporting(here: Session, given: Inputs, chosen: Conventions) -> Iterator[None]:
    """Errors of DuckDB in the words of rankql."""
    try:
        yield
    except duckdb.Error as error:
        line = re.sub(r"^[\w ]+ Error: ", "", str(error).splitlines()[0])
        if DUPLICATES in line:
            line = _duplicates(here, given, chosen)
        raise RankqlError(line) from error
    except RuntimeError as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


def _duplicates(here: Session, given: Inputs, chosen: Conventions) -> str:
    """The line that names three of the duplicates."""
    judged = (
        "WHERE rel IS NOT NULL" if given.qrels is None else "SEMI JOIN qrels USING (query, item)"
    )
    found = None
    if all("item" in table.roles for table in given.runs.values()):
        found = duplicates(here, given, chosen, "run", judged)
    if not found and not given.scored:
        found = duplicates(here, given, chosen, "run", "WHERE pos IS NOT NULL", "pos")
    return found or DUPLICATES


def duplicates(
    here: Session, given: Inputs, chosen: Conventions, source: str, where: str, column: str = "item"
) -> str | None:
    """Three rows that are there more than once, as an error says it."""
    columns = f"{given.keys if source == 'run' else 'query'}, {column}"
    sql = f"""{with_sources(given, chosen)}
        SELECT {columns} FROM {source} {where}
        GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 3"""
    found = execute(here, sql).fetchall()
    if not found:
        return None
    shown = "; ".join(
        ", ".join(
            f"{name} {value:g}" if name == "pos" else f"{name} {value!r}"
            for name, value in zip(columns.split(", "), row, strict=True)
        )
        for row in found
    )
    alone = source == "run" and not given.many
    hint = ", or name the column that tells systems apart: system=" if alone else ""
    return f"{source} has duplicates: {shown}; keep one row of each{hint}"

"""The public `evaluate`, for everything that DuckDB reads and for tables in Postgres."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from rankql.evaluation.arguments import (
    DEFAULT_METRICS,
    EvaluateArguments,
    RankingOptions,
    parse_groupings,
)
from rankql.evaluation.execution import evaluate_in_duckdb
from rankql.evaluation.intervals import require_interval
from rankql.evaluation.result import Result
from rankql.macros import is_other_database
from rankql.sources.session import flatten_inputs
from rankql.sources.tables import Data
from rankql.writing import output_path


def evaluate(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    weight: str | None = None,
    con: duckdb.DuckDBPyConnection | Any = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | Mapping[str, float] | None = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
    order: str | None = None,
    collapse: str | None = None,
    positions: str | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
    output: str | os.PathLike[str] | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Result:
    """Compute metrics per query for one or several runs, where your data lives.

    `run` has the columns query, item and score or pos; `qrels` has query, item and rel. Each is a
    path or glob (Parquet, CSV, JSON, TREC), a table, view or relation of `con`, a polars, pandas or
    Arrow frame, or a dict: {query: {item: score}}, {query: {item: grade}} or {query: [items]}.
    Without `qrels`, the run is a ranked table with its own rel. For several runs, pass a dict of
    name: run, or name the column `system`. Columns are recognised by their usual names or named by
    keyword, with a pair if run and qrels differ. A keyword may also be an SQL expression of the
    columns of a row, such as pos="position + 1", and `query` may be several columns. Judgments
    without grades mean grade 1, and a dict such as rel={"buy": 3, "click": 1} maps a text column
    `event` to grades. The highest score is best, or the lowest with descending=False or if the
    column is called distance.

    A table with one row per query has lists of ids instead: `retrieved` in order, and `relevant`
    (ids, a MAP of id: grade, or structs with an id and a grade), so `qrels` is not needed.
    order='rows' takes positions from the order of the rows of files and frames. `collapse` keeps
    the best chunk of each document: a column, or the text before the number of a chunk, such as
    '#' in 'doc12#3'. The rows below a dropped chunk move up (positions='renumber', the default), or
    its position stays empty (positions='keep'), which counts a duplicate once.

    `by` slices the means by attributes of the queries from `attributes` (a table with the query
    column), the qrels or the run. A nested list is a grouping of its own: by=[["segment"],
    ["segment", "device"]]. `interval` is 'auto', 't', 'bootstrap' or None: 't' is the mean ±
    Student's t times the standard error, cut at the metric's range; 'auto' applies t to the logit
    of the mean if the metric has two bounds, which covers skewed values better, and otherwise 't'.
    `weight` names a column with one weight per query, found like those of `by`: its traffic, its
    revenue, or 1 / the probability that it was sampled. Means and intervals then respect it.
    `output` writes the values per query to a Parquet file.

    `con` can be a connection to Postgres: a SQLAlchemy engine or connection, or a psycopg or ADBC
    connection. The needed columns are fetched into memory and evaluated in DuckDB. Nothing is
    written, and your open transaction stays open (ADBC ends it if the database raises an error).

    `conventions` is a profile: 'rankql', 'trec_eval' (version 9, as in pytrec_eval),
    'trec_eval_10', 'sklearn', 'ranx', 'recbole', 'spark', 'mlflow', 'opensearch' or
    'elasticsearch'. Each further option changes one of its conventions, such as ties='expected';
    see `rankql.Conventions`.

    `check`, `limits`, `explain`, `correlate` and `associate` need DuckDB.

    >>> import polars as pl
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> evaluate(run, qrels, "RR@10")["RR@10"]
    0.5
    """
    require_interval(interval, confidence)
    arguments = EvaluateArguments(
        run=run,
        qrels=qrels,
        metrics=metrics,
        attributes=attributes,
        con=con,
        columns={"query": query, "item": item, "rel": rel, "score": score, "pos": pos},
        system=system,
        descending=descending,
        ranking=RankingOptions(order, collapse, positions),
        groupings=parse_groupings(by),
        weight=weight,
        interval=interval,
        confidence=confidence,
        output=None
        if output is None
        else output_path(output, inputs=flatten_inputs(run, qrels, attributes)),
        profile=conventions,
        options=options,
    )
    if is_other_database(con):
        from rankql.engines.postgres import fetch_tables

        arguments = fetch_tables(arguments)
    return evaluate_in_duckdb(arguments)

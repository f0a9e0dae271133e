"""`evaluate`: plan, validate and run an evaluation in DuckDB.

DuckDB spills joins and sorts to disk, but not the states of aggregates such as max(score, 10). If
they do not fit into memory, the queries are evaluated in parts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import polars as pl

from rankql.errors import RankqlError, database_message
from rankql.evaluation.arguments import (
    DEFAULT_METRICS,
    EvaluateArguments,
    RankingOptions,
    parse_groupings,
)
from rankql.evaluation.chunks import read_rankings
from rankql.evaluation.column_checks import validate_columns
from rankql.evaluation.intervals import require_interval
from rankql.evaluation.overlap import complete_overlap
from rankql.evaluation.planning import pending_result, plan
from rankql.evaluation.query import INSTEAD, Query
from rankql.evaluation.result import Result
from rankql.evaluation.source_ctes import SqlRunner
from rankql.evaluation.validation import (
    evaluation_errors,
    repeats_judgments,
    validate_inputs,
)
from rankql.macros import FOUND, JUDGED_ROWS, RANKINGS
from rankql.processes import may_lack_threads
from rankql.registry.conventions import Conventions, choose
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import fetch, fetch_frame, render_script
from rankql.sources.private import create_macros, in_transaction
from rankql.sources.session import Session, open_session
from rankql.sources.tables import ROLES, Data, Rel
from rankql.writing import PARQUET, output_path, remember_inputs

# The errors about an expression that DuckDB does not understand or cannot convert to a number.
_REFUSED = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.NotImplementedException,
)
# With fewer rows, hashing takes less time than the settings that avoid it.
HASHING_ROWS = 100_000
# Planning the query twice takes longer than copying the values of so many rows.
FEW_ROWS = 20_000_000
# If the inputs have more rows, errors about ids that do not match should not wait for the query.
LATE_ROWS = 100_000_000
T = TypeVar("T")
# The numbers of parts to try if all queries at once do not fit into memory.
PARTS = (4, 16, 64)


@remember_inputs
def evaluate(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    weight: str | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: Rel = None,
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
    `event` to grades, rel=("outcome", {"bought": 2}) one of another name. The highest score is
    best, or the lowest with descending=False or if the column is called distance.

    A table with one row per query has lists of ids instead: `retrieved` in order, and `relevant`
    (ids, a MAP of id: grade, or structs with an id and a grade), so `qrels` is not needed.
    order='rows' takes positions from the order of the rows of files and frames. `collapse` keeps
    the best chunk of each document: a column, or the text before the number of a chunk, such as
    '#' in 'doc12#3'. The rows below a dropped chunk move up (positions='renumber', the default), or
    its position stays empty (positions='keep'), which counts a duplicate once.

    `by` slices the means by attributes of the queries from `attributes` (a table with the query
    column), the qrels or the run. A nested list is a grouping of its own: by=[["segment"],
    ["segment", "device"]]. `interval` is 'auto', 't' or None: 't' is the mean ±
    Student's t times the standard error, cut at the metric's range; 'auto' applies t to the logit
    of the mean if the metric has two bounds, which covers skewed values better, and otherwise 't'.
    `weight` names a column with one weight per query, found like those of `by`: its traffic, its
    revenue, or 1 / the probability that it was sampled. Means and intervals then respect it.
    `output` writes the values per query to a Parquet file.

    `conventions` is a profile: 'rankql', 'trec_eval' (version 9, as in pytrec_eval),
    'trec_eval_10', 'sklearn', 'ranx', 'recbole', 'spark', 'mlflow', 'opensearch' or
    'elasticsearch'. Each further option changes one of its conventions, such as ties='expected';
    see `rankql.Conventions`.

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
        output=None if output is None else output_path(output, PARQUET, (run, qrels, attributes)),
        profile=conventions,
        options=options,
    )
    return evaluate_in_duckdb(arguments)


def evaluate_in_duckdb(arguments: EvaluateArguments) -> Result:
    """The result of `evaluate` for checked arguments."""
    sources = (arguments.run, arguments.qrels, arguments.attributes)
    with open_session(arguments.con, *sources) as session:
        inputs = read_rankings(
            session,
            *sources,
            arguments.columns,
            arguments.system,
            arguments.groupings,
            arguments.descending,
            arguments.ranking,
            choose(arguments.profile, arguments.options),
            arguments.weight,
            arguments.remedies,
        )
        rows = validate_columns(session, inputs, ("rel", "pos"))
        build, conventions = plan(
            session,
            inputs,
            arguments.metrics,
            arguments.profile,
            arguments.options,
            arguments.packs,
        )
        with evaluation_errors(session, inputs, conventions):
            counts = arguments.output is None and _may_run_first(session, inputs, conventions, rows)
        query = build(inputs, counts_overlap=counts)
        plain = partial(_with_valid_scores, session, inputs, query)
        if query.by_lists:
            with evaluation_errors(session, inputs, conventions):
                build_lists = query.by_lists(SqlRunner(session, inputs, conventions), rows)
            if build_lists:
                # A query that refuses the data would end a transaction.
                may_fail = counts or not in_transaction(session.con)
                lists = build_lists(counts_overlap=counts)
                if may_fail or not lists.untied:
                    validates_scores = may_fail and lists.validates_scores
                    query = replace(lists, plain=plain, validates_scores=validates_scores)
        _with_valid_scores(session, inputs, query)
        result = pending_result(
            session,
            inputs,
            query,
            conventions,
            arguments.groupings,
            arguments.interval,
            arguments.confidence,
        )
        with (
            evaluation_errors(session, inputs, conventions),
            _own_metric_errors(session, query),
        ):
            validate = partial(
                validate_inputs, session, inputs, conventions, query, unique_judgments=counts
            )
            fill = partial(_fill, result, session, inputs, query, build, arguments.output, rows)
            if query.uncounted:
                _fill_then_validate(result, session, inputs, fill, validate)
            else:
                result.notes = validate()
                fill()
    return result


def _may_run_first(session: Session, inputs: Inputs, conventions: Conventions, rows: int) -> bool:
    """May the query run before its inputs are validated?"""
    # A query that refuses the data would end a transaction.
    if inputs.qrels is None or rows > LATE_ROWS or in_transaction(session.con):
        return False
    # If items repeat in both tables, their join has very many rows.
    return not repeats_judgments(SqlRunner(session, inputs, conventions))


def _with_valid_scores(session: Session, inputs: Inputs, query: Query) -> Query:
    """The query, after a check of the scores if it does not check them itself."""
    if not query.validates_scores:
        validate_columns(session, inputs, ("score",))
    return query


def _fill_then_validate(
    result: Result,
    session: Session,
    inputs: Inputs,
    fill: Callable[[], None],
    validate: Callable[..., list[str]],
) -> None:
    """Run the query first, if its values say what runs and judgments have in common."""
    try:
        fill()
    except duckdb.InterruptException:
        raise
    except (duckdb.Error, RankqlError):  # what is wrong with the inputs comes first
        validate_columns(session, inputs, ("score",))
        validate()
        raise
    values = result.frame()
    result.notes[:0] = validate(overlap=complete_overlap(values, inputs))
    result.values = values.drop(RANKINGS, JUDGED_ROWS, FOUND, strict=False)


@contextmanager
def _own_metric_errors(session: Session, query: Query) -> Iterator[None]:
    """Name the metric of the user that DuckDB refuses."""
    try:
        yield
    except _REFUSED as error:
        for name, build in query.alone.items():
            try:
                fetch(session, build().sql, True)
            except _REFUSED as own:
                line = re.sub(r'! Did you mean "(__|rankql ).*', "", database_message(own))
                if "rankql: " in str(own) or line.startswith("Referenced column"):
                    continue
                raise RankqlError(
                    f"The metric {name} does not give one number per query ({line.rstrip('.!')}). "
                    "Write an aggregate of DuckDB, such as avg(price) or count(*)"
                ) from error
        raise


def _fill(
    result: Result,
    session: Session,
    inputs: Inputs,
    query: Query,
    build: Callable[[Inputs], Query],
    output: Path | None,
    rows: int,
) -> None:
    """Run the query, in parts if necessary, and keep its rows in the result or the output file."""
    try:
        _fill_at_once(result, session, inputs, query, output, rows)
    except duckdb.OutOfMemoryException as error:
        try:
            _with_valid_scores(session, inputs, build(inputs))  # the parts have no lists
        except RankqlError as failed:
            if isinstance(failed.__cause__, duckdb.TransactionException):
                raise error from None  # the failed query ended the user's transaction
            raise
        result.values, parts = evaluate_in_parts(session, inputs, build, error)
        result.notes.append(
            f"The queries did not fit into memory_limit, so they were evaluated in {parts} "
            "parts. A higher memory_limit is faster"
        )
        result.check()
        if output:
            result.save_values(output)


def _fill_at_once(
    result: Result,
    session: Session,
    inputs: Inputs,
    query: Query,
    output: Path | None,
    rows: int,
) -> None:
    """Run the query and keep its rows."""
    integers = not inputs.many and all(table.integer("query") for table in inputs.tables)
    hashing = (
        session.perfect_hashing(inputs.tables, inputs.by)
        if query.only_sums and integers and rows >= HASHING_ROWS
        else nullcontext()
    )
    with hashing:
        if output is None:
            result.values, query = fetch_values(session, query, rows <= FEW_ROWS)
            result.check()
        else:
            _, query = run_or_unpack(
                query,
                lambda query: result.copy(
                    session.con, create_macros(session.con, query.sql, query.checked), output
                ),
            )
    result.sql = render_script(session, query.shown)


def fetch_values(session: Session, query: Query, few: bool = True) -> tuple[pl.DataFrame, Query]:
    """The values per query, and the query that ran: a plainer form if the data needs one."""

    def fetch(query: Query) -> pl.DataFrame:
        if few and query.parts and not may_lack_threads():
            integers = fetch_frame(session, query.parts.integers, query.checked)
            return query.parts.compute(integers)
        return fetch_frame(session, query.sql, query.checked, few)

    return run_or_unpack(query, fetch)


def run_or_unpack(query: Query, run: Callable[[Query], T]) -> tuple[T, Query]:
    """What a query gives and the query, or its plain form if it refuses the data."""
    try:
        return run(query), query
    except duckdb.Error as error:
        if query.plain is None or INSTEAD not in str(error):
            raise
    try:
        return run_or_unpack(query.plain(), run)
    except duckdb.TransactionException as error:
        raise RankqlError(
            "A query has too many items for the fast form, and finding this out ended your "
            "transaction. Roll it back, and evaluate outside of a transaction"
        ) from error


def evaluate_in_parts(
    session: Session,
    inputs: Inputs,
    build: Callable[[Inputs], Query],
    error: duckdb.OutOfMemoryException,
) -> tuple[pl.DataFrame, int]:
    """The values per query, evaluated in parts, and the number of parts; or raise the error."""
    part = inputs.query_hash()
    for parts in PARTS:
        try:
            queries = [build(replace(inputs, part=f"{part} % {parts} = {i}")) for i in range(parts)]
            rows = pl.concat([fetch_values(session, q, few=False)[0] for q in queries])
        except duckdb.OutOfMemoryException:
            continue
        except duckdb.TransactionException:  # the failed query ended the user's transaction
            break
        keys = rows.columns[: 2 if inputs.many else 1]
        return rows.sort(keys, nulls_last=True), parts
    raise error


def render_query(
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    metrics: str | Sequence[str],
    system: str | None = None,
    descending: bool | None = None,
    conventions: str | None = None,
    readable: bool = False,
    **options: Any,
) -> str:
    """The SQL that `evaluate` would run, or with `readable` the same with a macro per metric."""
    columns = {role: options.pop(role, None) for role in ROLES}
    ranking = RankingOptions.take(options)
    with open_session(None) as session:
        inputs = read_rankings(
            session,
            run,
            qrels,
            None,
            columns,
            system,
            descending=descending,
            ranking=ranking,
            conventions=choose(conventions, options),
        )
        build, _ = plan(session, inputs, metrics, conventions, options, packs=not readable)
        return render_script(session, build(inputs).sql)

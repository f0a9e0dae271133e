"""Plan, validate and run an evaluation in DuckDB.

DuckDB spills joins and sorts to disk, but not the states of aggregates such as max(score, 10). If
they do not fit into memory, the queries are evaluated in parts.
"""

from __future__ import annotations

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
from rankql.evaluation.arguments import EvaluateArguments, RankingOptions
from rankql.evaluation.chunks import read_rankings
from rankql.evaluation.column_checks import validate_columns
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
from rankql.sources.tables import ROLES, Data

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


def evaluate_in_duckdb(arguments: EvaluateArguments) -> Result:
    """The result of `evaluate` for tables, files and frames that DuckDB reads."""
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

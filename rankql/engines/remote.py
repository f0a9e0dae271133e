"""`evaluate` in another database, of which the tables never leave it.

DuckDB recognises the columns, checks the options and words the errors, from the types of the
columns and a few extreme values of each; the values per query are one query in window form of the
database's own SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import polars as pl

from rankql.engines import partitions
from rankql.engines.databases import (
    Database,
    RemoteTable,
    open_database,
)
from rankql.engines.remote_queries import RemoteQueries
from rankql.engines.remote_tables import (
    arrow_schema,
    read_extremes,
    require_known_types,
    sample_table,
)
from rankql.errors import RankqlError
from rankql.evaluation.arguments import EvaluateArguments
from rankql.evaluation.column_checks import validate_numbers
from rankql.evaluation.overlap import (
    no_judged_query_message,
    require_common_items,
    require_ranked_rows,
    run_label,
    unjudged_queries_note,
)
from rankql.evaluation.planning import pending_result, resolve_conventions
from rankql.evaluation.query import build_query
from rankql.evaluation.result import Result
from rankql.evaluation.validation import (
    duplicates_message,
    evaluation_errors,
    find_duplicates,
    require_consistent_grades,
    require_one_value_per_query,
)
from rankql.registry.conventions import Conventions, choose
from rankql.registry.parse import parse
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import execute
from rankql.sources.session import Session, duckdb_errors, open_session


def evaluate_remotely(arguments: EvaluateArguments) -> Result:
    """The result of `evaluate`, worked out in the database of the connection.

    >>> import sqlite3
    >>> con = sqlite3.connect(":memory:")
    >>> _ = con.execute("CREATE TABLE t AS SELECT 'a' AS query, 'x' AS item, 2 AS pos, 1 AS rel")
    >>> evaluate_remotely(EvaluateArguments("t", None, "RR", con=con)).per_query.row(0)
    ('a', 0.5)
    """
    run, groups = arguments.run, arguments.groupings
    runs = dict(run) if isinstance(run, Mapping) else {None: run}
    task = partitions.Task(
        [*runs], arguments.columns, arguments.system, (), groups,
        conventions=choose(arguments.profile, arguments.options),
        metrics=parse(arguments.metrics), descending=arguments.descending,
    )  # fmt: skip
    labels = partitions.label_tables(runs, arguments.qrels, arguments.attributes)
    with open_database(arguments.con) as database, open_session(None) as duckdb_session:
        tables = {label: database.table(data, label) for label, data in labels.items()}
        inputs = _read_inputs(task, duckdb_session, database, tables)
        resolved, parsed = resolve_conventions(
            duckdb_session, inputs, task.metrics, task.conventions
        )
        _require_supported_conventions(database, resolved)
        query = build_query(inputs, parsed, resolved)
        with evaluation_errors(duckdb_session, inputs, resolved):
            shape = execute(duckdb_session, query.sql, query.checked).pl().schema
        queries = RemoteQueries(database, tables, inputs, resolved, parsed, query)
        query = replace(query, sql=queries.sql())
        result = pending_result(
            duckdb_session,
            inputs,
            query,
            resolved,
            groups,
            arguments.interval,
            arguments.confidence,
        )
        result.notes = _inspect_sources(queries)
        result.values = _fetch_values(queries, query.sql, shape)
    result.check()
    if arguments.output:
        result.save_values(arguments.output)
    return result


def _read_inputs(
    task: partitions.Task,
    session: Session,
    database: Database,
    tables: Mapping[str, RemoteTable],
) -> Inputs:
    """The tables as inputs of DuckDB: their types, and a few extreme values of each."""
    schemas = {label: arrow_schema(table) for label, table in tables.items()}
    inputs = task.read_inputs(session, {label: s.empty_table() for label, s in schemas.items()})
    require_known_types(inputs, tables, database)
    samples = {}
    for table in inputs.tables:
        sql = tables[table.label].sql
        values = read_extremes(database, inputs, table, sql, task.conventions)
        samples[table.label] = sample_table(inputs, table, schemas[table.label], values)
    inputs = task.read_inputs(session, samples)
    with duckdb_errors():
        for table in inputs.tables:
            validate_numbers(session, table, ("rel", "pos", "score"))
    return inputs


def _require_supported_conventions(database: Database, conventions: Conventions) -> None:
    """Refuse what one query in window form does not say."""
    if conventions.ties == "order":
        where = f"{database.name}, where rows have no order"
        raise RankqlError(f"ties='order' has no meaning in {where}")
    for name, value in (("ties", "expected"), ("unjudged", "bounds")):
        if getattr(conventions, name) == value:
            raise RankqlError(f"{name}={value!r} is not available in {database.name}")
    if conventions.float32 and database.dialect == "sqlite":
        raise RankqlError("SQLite has no numbers of 32 bits: give float32=False")


def _fetch_values(
    queries: RemoteQueries, sql: str, shape: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """What the query finds, in the columns that DuckDB would return."""
    rows = queries.database.ask(sql)
    if any(row[-1] for row in rows):
        raise RankqlError(duplicates_message(queries.ask_sources, queries.inputs))
    columns = [*zip(*rows, strict=True)] or [()] * (len(shape) + 1)
    named_cells = zip(shape.items(), columns[:-1], strict=True)
    return pl.DataFrame([pl.Series(name, cells).cast(kind) for (name, kind), cells in named_cells])


def _inspect_sources(queries: RemoteQueries) -> list[str]:
    """What is worth knowing of queries on one side only; refuse what cannot be evaluated."""
    require_one_value_per_query(queries.ask_sources, queries.inputs)
    notes = require_ranked_rows(queries.ask_sources, queries.inputs)
    if queries.inputs.qrels is not None:
        notes += [
            *_check_queries(queries),
            *require_common_items(queries.ask_sources, queries.inputs),
        ]
        require_consistent_grades(queries.ask_sources)
    for source, column, where in queries.query.unique_columns:
        if message := find_duplicates(queries.ask_sources, queries.inputs, source, column, where):
            raise RankqlError(message)
    return notes


def _check_queries(queries: RemoteQueries) -> Iterator[str]:
    """Which queries of the run are not judged; refuse a run of which none is."""
    keys, system = queries.inputs.keys, "system" if queries.inputs.many else "NULL"
    sql = f"""SELECT {system}, count(*), count(judged)
        FROM (SELECT DISTINCT {keys} FROM run) AS shown
        LEFT JOIN (SELECT DISTINCT query, 1 AS judged FROM qrels) AS theirs USING (query)
        {f"GROUP BY {system} ORDER BY {system}" if queries.inputs.many else ""}"""
    examples = "SELECT DISTINCT query FROM {} {} ORDER BY query LIMIT 3"
    for name, n_shown, n_judged in queries.ask_sources(sql):
        if n_shown == n_judged:
            continue
        where = f"AND system = {queries.database.literal(name)}" if queries.inputs.many else ""
        unjudged = f"WHERE query NOT IN (SELECT query FROM qrels) {where}"
        run_only = [key for (key,) in queries.ask_sources(examples.format("run", unjudged))]
        if not n_judged:
            judged_only = [key for (key,) in queries.ask_sources(examples.format("qrels", ""))]
            raise RankqlError(no_judged_query_message(run_label(name), run_only, judged_only))
        yield unjudged_queries_note(name, n_shown, n_judged, run_only)

"""Rows that occur twice, which no metric may count.

Hashes of the rows are compared. If two are the same, a query names three of the duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import duckdb
import polars as pl

from rankql.core.base import column_names
from rankql.core.base.arrow import stream_to_polars
from rankql.core.base.column_names import number_kind, says
from rankql.core.base.errors import BY_HAND, Call, EqualRows, RankqlError, advise
from rankql.core.base.libraries import library
from rankql.core.base.writing import expand_glob
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.query.ctes import Unique, with_source_ctes
from rankql.core.evaluation.reduce.fetch import source_frame
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.frames import may_lack_threads
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.numbers.values import MOST_EQUAL, share_of_equal_rows
from rankql.core.tables.private import create_macros
from rankql.core.tables.reader import count_values
from rankql.core.tables.request import Request
from rankql.core.tables.session import Session
from rankql.core.tables.sql_expressions import split_aggregate
from rankql.core.tables.tables import Table, is_id, is_number, quote_name

T = TypeVar("T")


def count_equal_once(session: Session, request: Request, task: Callable[[Request], T]) -> T:
    """What a task gives; where it refuses rows that are equal in all columns, with one of each."""
    while True:
        try:
            return task(request)
        except EqualRows as error:
            if error.source in request.once:
                raise
            request = replace(request, once=request.once | {error.source})
            session.notes = []  # the tables are read again


def require_unique_rows(evaluation: Evaluation, columns: Sequence[Unique]) -> None:
    """Refuse duplicates within a query: see `find_repeated`."""
    for message in find_repeated(evaluation, columns):
        raise RankqlError(message)


def require_unique_positions(session: Session, inputs: Inputs) -> None:
    """Refuse several items at one position of a ranking, if positions order it."""
    if not inputs.scored:
        unique = [("run", "pos", "WHERE pos IS NOT NULL")]
        require_unique_rows(Evaluation(session, inputs, Conventions()), unique)


def find_repeated(evaluation: Evaluation, columns: Sequence[Unique]) -> Iterator[str]:
    """The errors about duplicates within a query, by table, column and a condition.

    The condition is on rows of the run, or on all judgments of an item.
    """
    for source, column, where in columns:
        key = evaluation.inputs.keys if source == "run" else "query"
        some = where if source == "run" else ""
        if _repeats(evaluation, source, f"{key}, {column}", some) and (
            message := find_duplicates(evaluation, source, column, where)
        ):
            yield message


SHARED = "several items share a position"
# So many calls tell duplicates apart in one message.
_OFFERED = 3
_ROLES = {
    "system": "column of the systems",
    "query": "key of the queries",
    "item": "key of the items",
}
# polars counts the hashes of so many rows faster than DuckDB, in memory to which memory_limit does
# not apply.
IN_POLARS = range(50_000, 20_000_000)
# The number of parts if the hashes of all rows do not fit into memory.
PARTS = 32


# The conditions that polars reads as DuckDB does.
_SIMPLE = r"(WHERE (rel > 0 OR )?(pos <= \d+|(pos|score) IS NOT NULL))?"


def _repeats(evaluation: Evaluation, source: str, columns: str, where: str = "") -> bool:
    """Do two rows have the same hash? Hashes are faster to compare than ids."""
    inputs, rows = evaluation.inputs, source_frame(evaluation, source)
    where = where.partition("QUALIFY")[0].strip()  # of all rows
    if rows is not None and re.fullmatch(_SIMPLE, where):
        some = rows.filter(pl.sql_expr(where.removeprefix("WHERE "))) if where else rows
        return bool(some[columns.split(", ")].is_duplicated().any())
    tables = (table for table in inputs.tables if inputs.cte_of(table) == source)
    count = sum(count_values(table, [])[0] for table in tables)
    # Hashes of all rows take less time than the ranks of scores.
    sql = f"SELECT hash({columns}) AS h FROM {source} {where}"
    if count in IN_POLARS and not may_lack_threads():
        query = with_source_ctes(inputs, evaluation.conventions) + sql
        con = evaluation.session.con  # a stream needs no pyarrow
        hashes = stream_to_polars(con.sql(create_macros(con, query)))["h"]
        return hashes.n_unique() < len(hashes)
    repeats = f"SELECT count(DISTINCT h) < count(*) FROM ({sql})"  # faster than GROUP BY h
    try:
        return bool(evaluation.run_sql(repeats)[0][0])
    except duckdb.OutOfMemoryException:  # compare the hashes in parts
        conditions = (f"WHERE h % {PARTS} = {part}" for part in range(PARTS))
        return any(evaluation.run_sql(f"{repeats} {where}")[0][0] for where in conditions)


def find_duplicates(
    evaluation: Evaluation, source: str, column: str, where: str = ""
) -> str | None:
    """The error about duplicates, with three examples; None if there are none."""
    inputs = evaluation.inputs
    key = inputs.keys if source == "run" else "query"
    columns, several = f"{key}, {column}", "count(*) > 1"
    if source == "qrels" and where:
        where, several = "", f"count(rel) > 1 AND {where}"
        if evaluation.conventions.negative == "unjudged":  # compare what the table says
            rules = replace(evaluation.conventions, negative="keep")
            evaluation = replace(evaluation, conventions=rules)
            several = several.replace("count(rel)", "count(*) FILTER (rel >= 0)")
            several += " OR (min(rel) < 0 AND min(rel) < max(rel))"
    rows = evaluation.run_sql(
        f"""SELECT {columns} FROM (FROM {source} {where}) AS {source}
        GROUP BY {columns} HAVING {several} ORDER BY {columns} LIMIT 3"""
    )
    if not rows:
        return None
    session, request = evaluation.session, evaluation.request
    share = find_equal_rows(session, inputs, request.once, source) if request else 0.0
    listed = [[*zip(columns.split(", "), row, strict=True)] for row in rows]
    examples = "; ".join(
        ", ".join(f"{name} {x:g}" if name == "pos" else f"{name} {x!r}" for name, x in each)
        for each in listed
    )
    hint, label = "", source
    if inputs.collapsible and column == "item" and source == "run":
        table = next(iter(inputs.runs.values()))
        keeps = " (gaps stay with positions='keep')"
        best = {"collapse": table.roles["item"]}
        hint = advise(describe_finer(table), ", or the best with ", best, keeps)
    if source == "run" and not inputs.many:
        (table,) = inputs.runs.values()
        label = table.label
        more = describe_separator(table, column, inputs.qrels)
        see = f". See {BY_HAND('key')}" * more.endswith("=")  # no column was found
        hint = advise(hint, more, see)
    if source == "qrels" and inputs.qrels:
        hint = describe_key(inputs.qrels, [*inputs.runs.values()])
        highest = {"rel": f"max({quote_name(inputs.qrels.roles['rel'])})"}
        if who := column_names.find_name(inputs.qrels.own_columns, column_names.ANNOTATORS):
            hint = advise(hint, ", or pass ", highest, f", the highest of every {who}")
        elif not hint and _has_amounts(inputs.qrels):
            asked = f"{label} has duplicates: {examples}. How do the rows of an item count?\n"
            return advise(asked, *_count_amounts(inputs.qrels.roles["rel"]))
        elif not hint and _differ(evaluation):
            hint = advise(", or pass ", highest, " for the highest grade of each")
    if share > MOST_EQUAL and session.reads_values:
        hint = f". {share:.0%} of its rows repeat another one in all columns"
        hint += _describe_drop(session, getattr(request, source), source)
    runs, keep = request.run if source == "run" and request else None, "Keep"
    for path in runs.values() if isinstance(runs, Mapping) else [runs]:
        files = expand_glob(path) if isinstance(path, str) else []
        names = {re.sub(r"\d+", "", file) for file in files if "=" not in file}
        each = f"If each file of {path!r} is a run, pass one file for each system"
        if 1 < len(names) == len(files):  # parts of one run differ in numbers
            keep = f"{each}. Else keep"
        elif len(files) > 1:
            hint = advise(hint, f". {each}")
    message = advise(f"{label} has duplicates: {examples}. {keep} one row of each", hint)
    if 0 < share <= MOST_EQUAL or (share and not session.reads_values):
        raise EqualRows(message, source)
    return message


def find_equal_rows(session: Session, inputs: Inputs, once: Iterable[str], source: str) -> float:
    """The share of rows of the run or of the judgments that repeat another one in all columns, if
    they may count once: each names an item, and has no amount to add up.
    """
    tables = [*inputs.runs.values()] if source == "run" else inputs.judging
    amounts = any(split_aggregate(x.roles.get("rel", ""))[0] for x in tables)
    amounts = amounts or (source == "qrels" and _has_amounts(inputs.qrels))
    if source in once or not session.opened or inputs.numbered or amounts:
        return 0.0
    runs, others = session.opened
    opened = [*runs.values()] if source == "run" else [others["qrels"]]
    named = all("item" in x.roles for x in tables)
    return max(share_of_equal_rows(x, inputs.system) for x in opened if x) if named else 0.0


def _has_amounts(qrels: Table | None) -> bool:
    """Are the grades clicks or purchases by their name, of which two equal rows are two? In a log,
    which has an order or times, they are one.
    """
    name = "" if qrels is None else qrels.roles.get("rel", "")
    if qrels is None or number_kind(name) == "amount":
        return qrels is not None
    return says(name, "event count") and not any(says(x, "order", "time") for x in qrels.columns)


def _count_amounts(name: str) -> Iterator[str | Call]:
    """What the grade of an item with several rows may be, each call with its meaning."""
    column = quote_name(name)
    for rel, meaning in (
        ("1", "each item is relevant, however often"),
        (f"max({column})", "its highest row counts"),
        (f"sum({column})", "its rows add up"),
    ):
        yield {"rel": rel}
        yield f"  # {meaning}\n"


def _describe_drop(session: Session, data: object, name: str) -> str:
    """How to drop rows that are equal to another one, by what the caller passes."""
    if call := {"polars": "unique", "pandas": "drop_duplicates"}.get(library(data)):
        return f": pass {name}.{call}()"
    if not isinstance(data, str):
        return ""
    table = quote_name(data) if session.find_table(data) else literal(data)
    return f": in DuckDB, COPY (SELECT DISTINCT * FROM {table}) TO 'distinct.parquet' drops them"


def describe_finer(table: Table) -> str:
    """The column of the items, if one has longer ids that begin with the ids that repeat."""
    key, item = table.roles["query"], table.roles["item"]
    for name in table.own_columns if table.unit == "rows" else ():
        if name not in table.roles.values() and is_id(table.columns[name]):
            own, other = (f"CAST({quote(x)} AS VARCHAR)" for x in (name, item))
            finer = f"bool_and(starts_with({own}, {other}) AND {own} <> {other}) AND "
            finer += f"count(DISTINCT ({quote(key)}, {quote(name)})) = count(*)"
            if table.value(finer):
                return advise(", or pass the column of the items: ", {"item": name})
    return ""


def _differ(evaluation: Evaluation) -> bool:
    """Has an item two grades, in a column that the caller may name?"""
    qrels = evaluation.inputs.qrels
    if qrels is None or qrels.roles["rel"] not in qrels.own_columns:
        return False
    grades = "SELECT 1 FROM qrels GROUP BY query, item HAVING min(rel) < max(rel) LIMIT 1"
    return bool(evaluation.run_sql(grades))


def describe_key(qrels: Table, runs: Sequence[Table]) -> str:
    """The key of the queries, if a column that the runs have too tells the judgments apart."""
    key, item = qrels.roles["query"], qrels.roles["item"]
    for name in qrels.own_columns:
        if name not in qrels.roles.values() and all(run.has(name) for run in runs):
            unique = f"count(DISTINCT ({', '.join(map(quote, (key, name, item)))})) = count(*)"
            if not qrels.value(unique):
                continue
            if column_names.squash(name) in column_names.KEY_PLACES:
                return advise(", or pass the key of the items: ", {"item": f"{item}, {name}"})
            if column_names.names_part_of_key(name, qrels.columns[name]):
                return advise(", or pass the key of the queries: ", {"query": [key, name]})
    return ""


def describe_separator(table: Table, column: str, qrels: Table | None) -> str:
    """The columns that tell the items or positions of a run apart: of systems, or of the key."""
    systems = ", or pass the column of the systems: "
    if table.trec:
        return advise(systems, {"system": "tag"})
    if joined := _joined_column(table, qrels):
        return f". The rows differ in {joined} alone, as after a join: keep one of each"
    from rankql.core.tables.key_columns import tell_apart  # for errors alone

    calls = tell_apart(table, [table.roles[column]], [qrels] if qrels else [])
    if table.label != "run":  # a stage or a baseline is one system
        calls = [x for x in calls if "query" in x]
    named = {y: x for x in calls for y in (x.get("query") or [])}
    if page := next((x for x in named if says(x, "page") and x in table.own_columns), None):
        return _number_pages(table, page)
    texts: list[str | Call] = []
    for call in calls[:_OFFERED]:
        (role,) = (y for x, y in _ROLES.items() if x in call)
        texts += [f", or {'pass ' * (not texts)}the {role}: ", call]
    return advise(*texts) if texts else f"{systems}system=" * (table.label == "run")


def _joined_column(table: Table, qrels: Table | None) -> str:
    """The property of which each row has all values, as after a join; "" if there is none."""
    same = ", ".join(map(quote, {*table.roles.values()}))
    sql = (
        f"count(DISTINCT {{0}}) > 1 AND count(DISTINCT ({same})) * count(DISTINCT {{0}}) = count(*)"
    )
    taken = {*table.roles.values(), *(qrels.columns if qrels else ())}
    free = [x for x in table.own_columns if x not in taken]
    free = [x for x in free if column_names.is_called(x, column_names.LOCATORS)]
    return next((x for x in free if table.value(sql.format(quote(x)))), "")


def _number_pages(table: Table, page: str) -> str:
    """How to read positions that begin again on each page: over all pages, if they allow it.

    Where an item is on several pages, each page is a ranking of its own.
    """
    query, item, pos = (table.roles.get(role, "") for role in ("query", "item", "pos"))
    key = advise(", or pass the key of the queries: ", {"query": [query, page]})
    if not (pos and is_number(table.columns[page])):
        return key
    unique = f"count(DISTINCT ({quote(query)}, {quote(item)}))" if item else "count(*)"
    counts = f"count(*) > {unique}, min({quote(page)}), max({quote(pos)})"
    repeats, first, size = table.row(counts)
    if repeats:
        return key
    number = f"({quote_name(page)} - {first:g}) * {size:g} + {quote_name(pos)}"
    return advise(f". {pos} begins again on each {page} of results: pass ", {"pos": number})

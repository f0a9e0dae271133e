"""Tables with one row per query: the retrieved ids in order, and the relevant ids.

Evaluations of RAG write them (Ragas, MLflow, LlamaIndex, Haystack). DuckDB unnests the lists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import duckdb

from rankql.errors import RankqlError
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.sources.computed import Spec, add_column, column_name, parse_pair
from rankql.sources.fetching import fetch_rows
from rankql.sources.files import is_path
from rankql.sources.list_checks import (
    list_fields,
    refuse_rounded,
    require_order,
    require_queries,
)
from rankql.sources.private import private_connection
from rankql.sources.session import Session, open_session
from rankql.sources.tables import (
    QUESTIONS,
    RELEVANT,
    RETRIEVED,
    ROLES,
    Data,
    Table,
    assign_roles,
    find_name,
    is_number,
    is_text,
)

# Lists of fractions are not ids.
_VECTOR = re.compile(r"(FLOAT|DOUBLE|DECIMAL\(.*\))\[\d*\]")
# Names of lists, as Kaggle has them, that are scores if they are numbers.
PREDICTED = ("prediction", "predictions")
# The column with the places in a list.
PLACE = f"{INTERNAL_PREFIX}place"


class _Lists(NamedTuple):
    """A column of lists: its SQL, and that of an element's id and grade."""

    column: str
    values: str
    item: str
    grade: str
    # What the Columns line says of the grades.
    assumed: str
    # An object or MAP: its numbers rank the ids of a run, because it has no order.
    scored: bool = False

    @property
    def graded(self) -> str:
        """The name of the column with the grades, as errors say it."""
        return f"grade in {self.column}"


def find_list(table: Table, known: Sequence[str], name: Any = None) -> str | None:
    """The column of lists with this name or a known one; None if the table has a row per item."""
    if table.unit == "ids":  # unnested already
        return None
    if isinstance(name, str):
        named = find_name(table.columns, [name])
        return named if named and _is_nested(table.columns[named]) else None
    ranks = known is RELEVANT or any(map(table.known, ("pos", "score")))
    if table.known("item") and ranks and (known is RETRIEVED or table.known("rel")):
        return None
    nested = [column for column, kind in table.columns.items() if _is_nested(kind)]
    if column := find_name(nested, [*known, *(PREDICTED if known is RETRIEVED else ())]):
        return column
    column = find_name(table.columns, known)
    if column and not table.known("item") and find_name(table.columns, RETRIEVED):
        raise _wrong_type(table, column)
    return None


def has_retrieved_lists(data: Data, con: duckdb.DuckDBPyConnection | None = None) -> bool:
    """Is it a run with lists of ids? Of a file, only the header is read."""
    if isinstance(data, Mapping):
        return False
    try:
        if isinstance(data, str | os.PathLike) and is_path(os.fspath(data)):
            with private_connection() as own:
                file = own.sql(f"FROM {literal(os.fspath(data))} LIMIT 0")
                columns = dict(zip(file.columns, map(str, file.types), strict=True))
                return find_list(Table("run", "", columns), RETRIEVED) is not None
        with open_session(con, data) as session:
            return find_list(session.table(data, "run"), RETRIEVED) is not None
    except (RankqlError, duckdb.Error):
        return False  # `evaluate` says why it cannot be read


def _is_nested(kind: str) -> bool:
    """Is it a type of lists, maps or structs?"""
    return kind.endswith("]") or kind.startswith(("MAP(", "STRUCT("))


def _as_lists(session: Session, table: Table, item: Any, known: Sequence[str]) -> Table:
    """The table with lists from an expression, or from text with ids and blanks or commas."""
    if table.unit == "ids":  # unnested already
        return table
    if isinstance(item, str) and not table.has(item) and not item.isidentifier():
        computed = add_column(session, table, "item", item)
        return computed if _is_list(computed.columns[item]) else table
    column = find_name(table.columns, [item] if isinstance(item, str) else [*known, *PREDICTED])
    names = [name for role in ("item", "pos", "score", "rel") for name in table.known(role)]
    if (
        not (column and is_text(table.columns[column]))
        or not find_name([column], [*known, *PREDICTED])
        or {*names} - {column}
    ):
        return table
    text = f"CAST({quote(column)} AS VARCHAR)"
    sql = rf"""SELECT bool_or(regexp_matches(trim({text}), '[\s,]')),
        bool_or(regexp_matches({text}, '^\s*[\[{{]')) FROM {table.sql}"""
    ((separated, encoded),) = session.con.execute(sql).fetchall()
    if encoded or (not separated and find_name([column], PREDICTED)):
        return table
    ids = rf"list_filter(string_split_regex({text}, '[\s,]+'), lambda x_: x_ <> '')"
    return replace(
        table,
        sql=f"(SELECT * REPLACE ({ids} AS {quote(column)}) FROM {table.sql})",
        columns={**table.columns, column: "VARCHAR[]"},
        lasting=False,
    )


def _is_list(kind: str) -> bool:
    return kind.endswith("]")


def _wrong_type(table: Table, column: str) -> RankqlError:
    kind = "text" if is_text(table.columns[column]) else table.columns[column]
    return RankqlError(
        f"{table.label}: {column} must be a list of ids, not {kind}. Write lists, as in "
        f'{{"query": "q1", "{column}": ["d1", "d2"]}}, or one row per item'
    )


def _refuse_unknown_lists(table: Table, item: Any) -> None:
    """Refuse a run of lists that no name says what they are."""
    nested = [
        column
        for column, kind in table.columns.items()
        if _is_nested(kind) and not _VECTOR.fullmatch(kind)
    ]
    if nested and not item and not table.known("item"):
        if nested == [*table.columns] and not any(map(_is_list, table.columns.values())):
            raise RankqlError(
                f"{table.label} has only objects ({', '.join(nested)}), which are not scores by "
                "item. Write a file of {query: {item: score}} for each system, or a row per item"
            )
        pair = [*nested, "..."][:2]
        raise RankqlError(
            f"{table.label} has lists ({', '.join(nested)}), but none with a known name, such as "
            f"{RETRIEVED[0]} and {RELEVANT[0]}. Name the retrieved and the relevant ids: "
            f"item={pair!r} (CLI: --item {','.join(pair)})"
        )


def unnest_lists(
    session: Session,
    runs: Mapping[str | None, Table],
    qrels: Table | None,
    columns: Mapping[str, Any],
    kept: Sequence[str] = (),
    system: str | None = None,
) -> tuple[dict[str | None, Table], Table | None, Mapping[str, Any]]:
    """The runs and judgments with one row per item, if they are tables of lists, and the columns.

    kept: the attributes of queries that are read.
    """
    tables = [*runs.values(), *([qrels] if qrels else [])]
    query = parse_pair("query", columns.get("query"), tables, qrels is not None)
    item = columns.get("item")
    item = item if isinstance(item, list | tuple) and len(item) == 2 else (item, item)
    own = item[1] if item[1] != item[0] else None  # the relevant ids of a run
    runs = {
        name: _as_lists(session, _as_lists(session, table, item[0], RETRIEVED), own, RELEVANT)
        for name, table in runs.items()
    }
    qrels = qrels and _as_lists(session, qrels, item[1], RELEVANT)
    unnested, relevant = dict(runs), []
    for name, table in runs.items():
        column = find_list(table, RETRIEVED, item[0])
        if column is None:
            _refuse_unknown_lists(table, item[0])
            continue
        numbered = _add_query(session, table, query[0])
        keys = [numbered.roles["query"], *([numbered.actual_name(system)] if system else [])]
        _require_one_row(session, numbered, keys, column)
        unnested[name] = _unnest_run(session, numbered, column, kept)
        if qrels is None and (ids := find_list(table, RELEVANT, own)):
            relevant.append((numbered, _read_lists(session, numbered, ids)))
        elif qrels is None:
            raise RankqlError(
                f"{table.label} has lists of retrieved ids ({column}), but none of relevant ids: "
                f"expected {', '.join(RELEVANT[:3])} or relevant. Found: "
                f"{', '.join(table.own_columns)}. Pass qrels=, or item=[{column!r}, '...']"
            )
    if relevant:
        if len(runs) > 1 or system:
            _require_equal_lists(session, relevant)
        columns = {**columns, "query": column_name(query[0])}
        return unnested, _collect_judgments(session, relevant), columns
    if qrels is not None and (column := find_list(qrels, RELEVANT, item[1])):
        if find_list(qrels, RETRIEVED):
            raise RankqlError(
                "qrels has lists of retrieved ids, as a run. Pass several runs as a dict, such as "
                "{'a': a, 'b': b}, without qrels, because their relevant ids are in the same table"
            )
        qrels = _unnest_qrels(session, _add_query(session, qrels, query[1]), column, kept)
    return unnested, qrels, columns


def _add_query(session: Session, table: Table, spec: Spec | None) -> Table:
    """The table with its query column; without one, each row is a query with the row's number."""
    if spec is not None and not (isinstance(spec, str) and spec.isidentifier()):
        table = add_column(session, table, "query", spec)
    if column := table.find("query", column_name(spec), QUESTIONS):
        require_queries(session, table, column)
        return replace(table, roles={"query": column})
    if not table.ordered:
        return assign_roles(table, {}, ["query"])  # an error
    return replace(
        table,
        sql=f"(SELECT row_number() OVER () AS query, * FROM {table.sql})",
        columns={"query": "BIGINT", **table.columns},
        roles={"query": "query"},
        assumed={"query": "row number"},
    )


def _read_lists(session: Session, table: Table, column: str) -> _Lists:
    """How to read the ids and grades of a column of lists."""
    kind, name = table.columns[column], quote(column)
    graded = f"grades in {column}"
    if kind.startswith("STRUCT(") and not kind.endswith("]"):  # a JSON object {"id": grade}
        fields = session.describe(table.label, f"(SELECT {name}.* FROM {table.sql})").columns
        if not all(map(is_number, fields.values())):
            raise _wrong_type(table, column)
        pairs = f"map_entries(CAST(to_json({name}) AS MAP(VARCHAR, DOUBLE)))"
        pairs = f"list_filter({pairs}, lambda x_: x_['value'] IS NOT NULL)"
        return _Lists(column, pairs, "x_['key']", "x_['value']", graded, True)
    if kind.startswith("MAP(") and not kind.endswith("]"):
        return _Lists(column, f"map_entries({name})", "x_['key']", "x_['value']", graded, True)
    every = "1 for every row"
    if kind.startswith("STRUCT("):
        fields = list_fields(session, table, column)
        item, grade = (find_name(fields, names) for names in ((*ROLES["item"], "id"), ROLES["rel"]))
        if item is None:
            raise RankqlError(
                f"{table.label}: {column} has no id: expected a field called id, or one of "
                f"{', '.join(ROLES['item'])}. Found: {', '.join(fields)}. Rename the field"
            )
        refuse_rounded(session, table, column, f"unnest(x_)[{literal(item)}]", fields[item])
        rel = f"x_[{literal(grade)}]" if grade else "1"
        return _Lists(column, name, f"x_[{literal(item)}]", rel, graded if grade else every)
    if kind.startswith("JSON"):  # a JSON file with numbers and text, or with nothing in the lists
        nested = f"SELECT 1 FROM (SELECT unnest({name}) AS x_ FROM {table.sql})"
        nested += " WHERE json_type(x_) IN ('OBJECT', 'ARRAY') LIMIT 1"
        if session.con.execute(nested).fetchall():
            raise _wrong_type(table, column)
        return _Lists(column, name, "x_ ->> '$'", "1", every)
    refuse_rounded(session, table, column, "unnest(x_)", kind)
    return _Lists(column, name, "x_", "1", every)


def _kept(table: Table, kept: Sequence[str]) -> str:
    """The columns next to the ids: numbers, keys and attributes, but no texts."""
    names = {*map(str.lower, kept), *(role.lower() for role in table.roles.values())}
    return ", ".join(
        quote(name)
        for name, kind in table.columns.items()
        if name.lower() in names or not (_is_nested(kind) or is_text(kind))
    )


def _unnest_run(session: Session, table: Table, column: str, kept: Sequence[str]) -> Table:
    """The run with a row per retrieved id and its place in the list."""
    lists = _read_lists(session, table, column)
    if lists.scored:
        return _unnest_scores(session, table, lists, kept)
    require_order(session, table, column)
    others = _kept(table, kept)
    sql = (
        f"(SELECT {others}, {lists.item} AS {quote(column)}, {PLACE} FROM (SELECT {others}, "
        f"unnest({lists.values}) AS x_, generate_subscripts({lists.values}, 1) AS {PLACE} "
        f"FROM {table.sql}))"
    )
    roles = {**table.roles, "item": column, "pos": PLACE}
    return _load(session, table, sql, roles, {"pos": f"order in {column}"})


def _unnest_scores(session: Session, table: Table, lists: _Lists, kept: Sequence[str]) -> Table:
    """The run with a row per retrieved id and its score."""
    positions = table.known("pos")  # of the row, not of its ids
    rows = replace(table, columns={n: k for n, k in table.columns.items() if n not in positions})
    others, score = _kept(rows, kept), f"score in {lists.column}"
    sql = (
        f"(SELECT {others}, {lists.item} AS {quote(lists.column)}, {lists.grade} AS {quote(score)} "
        f"FROM (SELECT {others}, unnest({lists.values}) AS x_ FROM {table.sql}))"
    )
    roles = {**table.roles, "item": lists.column, "score": score}
    return _load(session, table, sql, roles, {"score": f"scores in {lists.column}"})


def _unnest_qrels(session: Session, table: Table, column: str, kept: Sequence[str]) -> Table:
    """The judgments with a row per relevant id."""
    lists, others = _read_lists(session, table, column), _kept(table, kept)
    sql = (
        f"(SELECT DISTINCT {others}, {lists.item} AS {quote(column)}, {lists.grade} AS "
        f"{quote(lists.graded)} FROM (SELECT {others}, unnest({lists.values}) AS x_ "
        f"FROM {table.sql}))"
    )
    roles = {**table.roles, "item": column, "rel": lists.graded}
    return _load(session, table, sql, roles, {"rel": lists.assumed})


def _collect_judgments(session: Session, relevant: Sequence[tuple[Table, _Lists]]) -> Table:
    """The judgments in the tables of the runs."""
    first, lists = relevant[0]
    query, item = first.roles["query"], lists.column
    parts = [
        f"SELECT q_ AS {quote(query)}, {ids.item} AS {quote(item)}, {ids.grade} AS "
        f"{quote(lists.graded)} FROM (SELECT {quote(run.roles['query'])} AS q_, "
        f"unnest({ids.values}) AS x_ FROM {run.sql})"
        for run, ids in relevant
    ]
    sql = f"(SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)}))"
    roles = {"query": query, "item": item, "rel": lists.graded}
    return _load(session, replace(first, label="qrels"), sql, roles, {"rel": lists.assumed})


def _load(
    session: Session, table: Table, sql: str, roles: dict[str, str], assumed: dict[str, str]
) -> Table:
    """The rows of a table with lists, unnested once: several queries read them."""
    loaded = session.load(table.label, sql, text=False)
    return replace(loaded, roles=roles, assumed={**table.assumed, **assumed}, unit="ids")


def _require_one_row(session: Session, table: Table, keys: Sequence[str], column: str) -> None:
    """Refuse two lists for one query."""
    names = ", ".join(map(quote, keys))
    repeated = f"SELECT {names} FROM {table.sql} GROUP BY {names} HAVING count(*) > 1"
    for row in fetch_rows(session.con, f"{repeated} ORDER BY {names} LIMIT 1"):
        raise RankqlError(
            f"{table.label} has several rows for query {row[0]!r}, but {column} is a list, so one "
            f"row is expected ({keys[0]} is read as the query). Keep one, or pass query= or system="
        )


def _require_equal_lists(session: Session, relevant: Sequence[tuple[Table, _Lists]]) -> None:
    """Refuse runs whose relevant ids differ."""
    parts = [
        f"SELECT CAST({quote(table.roles['query'])} AS VARCHAR) AS q_, coalesce(CAST(list_sort("
        f"list_distinct(list_transform({lists.values}, lambda x_: [CAST({lists.item} AS VARCHAR), "
        f"CAST(CAST({lists.grade} AS DOUBLE) AS VARCHAR)]))) AS VARCHAR), '[]') AS lists_ "
        f"FROM {table.sql}"
        for table, lists in relevant
    ]
    rows = f"SELECT q_ FROM ({' UNION ALL '.join(parts)}) GROUP BY q_"
    different = f"{rows} HAVING count(DISTINCT lists_) > 1 ORDER BY q_ LIMIT 1"
    for (query,) in session.con.execute(different).fetchall():
        raise RankqlError(
            f"The runs have different relevant ids for query {query!r}. Write the same into all "
            "runs, or pass the judgments once: qrels="
        )

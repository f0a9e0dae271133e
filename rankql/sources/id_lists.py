"""Tables with one row per query: the retrieved ids in order, and the relevant ids.

Evaluations of RAG write them (Ragas, MLflow, LlamaIndex, Haystack). DuckDB unnests the lists.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rankql.errors import RankqlError
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.column_names import (
    EVENTS,
    PREDICTED,
    QUESTIONS,
    RELEVANT,
    RETRIEVED,
    ROLES,
    TIMES,
    find_name,
    is_distance,
    known_names,
    squash,
)
from rankql.sources.computed import Spec, add_column, column_name, parse_pair
from rankql.sources.frames import fetch_rows
from rankql.sources.session import Session
from rankql.sources.tables import (
    Table,
    assign_roles,
    describe_mapping,
    is_number,
    is_text,
    text_number,
)

# Lists of fractions are not ids.
_VECTOR = re.compile(r"(FLOAT|DOUBLE|DECIMAL\(.*\))\[\d*\]")
# What separates several ids in one cell, and what does if none of them matches an id.
_SEPARATORS, _SEPARATOR = (r"\s*[,;|]\s*", r"[\s,;|]+"), r"[\s,]+"
# So many cells decide which.
_SAMPLE = 1000
# The column with the places in a list.
PLACE = f"{INTERNAL_PREFIX}place"


class _Lists(NamedTuple):
    """A column of lists: its SQL, and that of an element's id and grade."""

    column: str
    values: str
    item: str
    grade: str
    # What the Columns line says of the grades; "" if rel= names their field.
    assumed: str
    # The field of the grades that rel= names.
    field: str = ""
    # The fields that are columns of the judgments, because rel= maps them or is an expression.
    fields: Sequence[str] = ()
    # An object or MAP: its numbers rank the ids of a run, because it has no order.
    scored: bool = False

    @property
    def graded(self) -> str:
        """The name of the column with the grades, as errors say it."""
        return self.field or f"grade in {self.column}"


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
    if isinstance(item, str):  # the other table may have a recognised name
        named = [any(t.has(item) for t in side) for side in ([*runs.values()], tables[len(runs) :])]
        item = tuple(item if has or not any(named) else None for has in named)
    item = item if isinstance(item, list | tuple) and len(item) == 2 else (item, item)
    own = item[1] if item[1] != item[0] else None  # the relevant ids of a run
    ranked = _Side([*runs.values()], RETRIEVED, query[0], item[0])
    judged = ranked._replace(known=RELEVANT, item=own)
    if qrels:
        judged = _Side([qrels], RELEVANT, query[1], item[1])
    cells = _as_lists(session, ranked, judged)
    columns_of = {name: each.column for name, each in zip(runs, cells, strict=True)}
    ranked = ranked._replace(tables=[each.table for each in cells])
    judged = judged if qrels else judged._replace(tables=ranked.tables)
    judged_cells = _as_lists(session, judged, ranked)
    if qrels:
        ((qrels, judged_column, *_),) = judged_cells
    else:
        cells = judged_cells
    runs = dict(zip(runs, (each.table for each in cells), strict=True))
    unnested, relevant = dict(runs), []
    for name, table in runs.items():
        column = find_list(table, RETRIEVED, item[0]) or columns_of[name]
        if column is None:
            _refuse_unknown_lists(table, item[0])
            continue
        numbered = _add_query(session, table, query[0])
        keys = [numbered.roles["query"], *([numbered.actual_name(system)] if system else [])]
        _require_one_row(session, numbered, keys, column)
        unnested[name] = _unnest_run(session, numbered, column, kept)
        if qrels is None and (ids := find_list(table, RELEVANT, own)):
            relevant.append((numbered, _read_lists(session, numbered, ids, columns.get("rel", 1))))
        elif qrels is None:
            others = [x for x, kind in table.columns.items() if _is_nested(kind) and x != column]
            raise RankqlError(
                f"{table.label} has lists of retrieved ids ({column}), but none of relevant ids: "
                f"expected {', '.join(RELEVANT[:3])} or relevant. Found: "
                f"{', '.join(table.own_columns)}. Pass qrels= (CLI: the judgments as the last file)"
                + "".join(f", or {_name_lists(column, x)}" for x in others[:1])
            )
    if relevant:
        if len(runs) > 1 or system:
            _require_equal_lists(session, relevant)
        columns = {**columns, "query": column_name(query[0])}
        keys = [quote(table.roles["query"]) for table, _ in relevant]
        relevant[0] = (replace(relevant[0][0], label="qrels"), relevant[0][1])
        return unnested, _load_judgments(session, relevant, keys), columns
    if qrels is not None and (column := find_list(qrels, RELEVANT, item[1]) or judged_column):
        if find_list(qrels, RETRIEVED):
            raise RankqlError(
                "qrels has lists of retrieved ids, as a run. Pass several runs as a dict, such as "
                "{'a': a, 'b': b}, without qrels, because their relevant ids are in the same table"
            )
        qrels = _add_query(session, qrels, query[1])
        lists = [(qrels, _read_lists(session, qrels, column, columns.get("rel", 1)))]
        qrels = _load_judgments(session, lists, [_kept(qrels, kept)])
    return unnested, qrels, columns


def find_list(table: Table, known: Sequence[str], name: Any = None) -> str | None:
    """The column of lists with this name or a known one; None if the table has a row per item."""
    if table.unnested or table.unit == "ids":
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


def _is_nested(kind: str) -> bool:
    """Is it a type of lists, maps or structs?"""
    return kind.endswith("]") or kind.startswith(("MAP(", "STRUCT("))


class _Side(NamedTuple):
    """The runs or the judgments: names of their lists, and the arguments query= and item=."""

    tables: Sequence[Table]
    known: Sequence[str]
    query: Any
    item: Any


class _Cells(NamedTuple):
    """A table, and its column of cells with several ids."""

    table: Table
    column: str | None = None
    # Does a cell have a separator?
    separated: bool = False
    # Is it a list, if no id matches?
    listed: bool = False
    # Has a query one cell?
    unique: bool = True

    @property
    def text(self) -> str:
        """The cell as text."""
        return f"trim(CAST({quote(self.column or '')} AS VARCHAR))"

    def pieces(self, separator: str) -> str:
        """The ids in a cell; without a separator, it is one id."""
        ids = f"string_split_regex({self.text}, '{separator}')" if separator else f"[{self.text}]"
        return f"list_filter({ids}, lambda x_: x_ <> '')"


def _as_lists(session: Session, side: _Side, other: _Side) -> list[_Cells]:
    """The tables with lists from an expression, or from cells with several ids.

    A cell is several ids if more cells of all tables match the other side then; of a query with
    several cells, only if no cell matches as one id.
    """
    cells = [_find_cells(session, table, side) for table in side.tables]
    counts = [_count_matches(session, each, side, other) for each in cells if each.separated]
    whole, *parts = map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0)
    found = []
    for each in cells:
        table, column = each.table, each.column
        matched = max(parts) > whole and (each.unique or not whole)
        if column is None or not (each.listed or (matched and each.separated)):
            found.append(_Cells(table))
            continue
        separator = "" if whole else _SEPARATOR
        if matched:
            separator = _SEPARATORS[parts.index(max(parts))]
        said = "one id" if not separator else "several ids" if each.separated else ""
        split = table.with_values(column, each.pieces(separator), "VARCHAR[]")
        notes = {column: f"{column} ({said} per cell)"} if said else {}
        found.append(_Cells(replace(split, cells={**table.cells, **notes}), column))
    return found


def _find_cells(session: Session, table: Table, side: _Side) -> _Cells:
    """The column of a table that may have several ids in a cell."""
    item, known = side.item, side.known
    if table.unnested or table.unit == "ids":
        return _Cells(table)
    if isinstance(item, str) and item.strip() and not (table.has(item) or item.isidentifier()):
        computed = add_column(session, table, "item", item)
        return _Cells(computed if computed.columns[item].endswith("]") else table)
    column = find_name(table.columns, [item] if isinstance(item, str) else [*known, *PREDICTED])
    names = [name for role in ("item", "pos", "score", "rel") for name in table.known(role)]
    column = column or (table.find("item") if item is None else None)
    if not (column and is_text(table.columns[column])) or {*names} - {column}:
        return _Cells(table)
    listed = find_name([column], known) is not None
    key = table.find("query", column_name(side.query), QUESTIONS)
    once = f"count(*) = count(DISTINCT {quote(key)})" if key else "true"
    cells = _Cells(table, column)
    sample = table.sql if listed or isinstance(item, str) else f"(FROM {table.sql} LIMIT {_SAMPLE})"
    sql = rf"""SELECT bool_or(regexp_matches({cells.text}, '{_SEPARATORS[1]}')),
        bool_or(regexp_matches({cells.text}, '{_SEPARATOR}')),
        bool_or(regexp_matches({cells.text}, '^[\[{{]')), {once} FROM {sample}"""
    ((separated, spaced, encoded, unique),) = session.con.execute(sql).fetchall()
    if encoded:
        return _Cells(table)
    # A run with several rows per query has one id in each, which may have blanks.
    named = known is RETRIEVED and unique and not find_name([column], ROLES["item"])
    listed = listed or bool(spaced and (named or find_name([column], PREDICTED)))
    separated = separated and (unique or listed or known is RELEVANT)
    return _Cells(table, column, separated, listed, unique)


def _count_matches(session: Session, cells: _Cells, side: _Side, other: _Side) -> list[int]:
    """The cells that match the other side as one id, and by each separator."""
    same = other.tables is side.tables

    def query(table: Table, side: _Side) -> str:
        key = table.find("query", column_name(side.query), QUESTIONS)
        return "row_" if same else f"CAST({quote(key)} AS VARCHAR)" if key else ""

    pairs = " UNION ALL ".join(
        f"SELECT {key} AS q_, unnest({ids}) AS id_ FROM {'cells_' if same else table.sql}"
        for table in ([cells.table] if same else other.tables)
        if (key := query(table, other)) and (ids := _ids(session, table, other))
    )
    key = query(cells.table, side)
    if not (pairs and key):
        return [0, 0, 0]
    rows = (
        f"SELECT row_number() OVER () AS row_, * FROM {cells.table.sql} "
        f"WHERE regexp_matches({cells.text}, '{_SEPARATORS[1]}') LIMIT {_SAMPLE}"
    )
    kinds = " UNION ALL ".join(
        f"SELECT row_, {key} AS q_, {i} AS n_, unnest({cells.pieces(separator)}) AS id_ FROM cells_"
        for i, separator in enumerate(("", *_SEPARATORS))
    )
    counts = ", ".join(f"count(DISTINCT row_) FILTER (n_ = {i})" for i in range(3))
    sql = f"WITH cells_ AS MATERIALIZED ({rows}) SELECT {counts} FROM ({kinds}) "
    return [*session.con.execute(f"{sql} SEMI JOIN ({pairs}) USING (q_, id_)").fetchall()[0]]


def _ids(session: Session, table: Table, side: _Side) -> str:
    """SQL of the list of ids in a row: as they are, and the pieces of cells."""
    nested = [name for name, kind in table.columns.items() if _is_nested(kind)]
    column = side.item if isinstance(side.item, str) and table.has(side.item) else None
    column = column or find_name(nested, [*side.known, *PREDICTED])
    column = column or find_name(table.columns, side.known) or table.find("item")
    if column is None:
        return ""
    if column in nested:
        lists = _read_lists(session, table, column)
        return f"list_transform({lists.values}, lambda x_: CAST({lists.item} AS VARCHAR))"
    if is_text(table.columns[column]) and not any(map(table.known, ("pos", "score", "rel"))):
        parts = [_Cells(table, column).pieces(separator) for separator in ("", *_SEPARATORS)]
        return f"flatten([{', '.join(parts)}])"
    return f"[CAST({quote(column)} AS VARCHAR)]"


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
        lists = [column for column in nested if table.columns[column].endswith("]")]
        if nested == [*table.columns] and not lists:
            raise RankqlError(
                f"{table.label} has only objects ({', '.join(nested)}), which are not scores by "
                "item. Write a file of {query: {item: score}} for each system, or a row per item"
            )
        remedy = f"If these are the retrieved ids, pass item={nested[0]!r}"
        if len(nested) > 1:
            remedy = f"Name the retrieved and the relevant ids: {_name_lists(*nested[:2])}"
        raise RankqlError(
            f"{table.label} has lists ({', '.join(nested)}), but none with a known name, such as "
            f"{RETRIEVED[0]} and {RELEVANT[0]}. {remedy}"
        )


def _name_lists(retrieved: str, relevant: str) -> str:
    """How to name both lists."""
    return f"item={[retrieved, relevant]!r} (CLI: --item {shlex.quote(f'{retrieved},{relevant}')})"


def _add_query(session: Session, table: Table, spec: Spec | None) -> Table:
    """The table with its query column; without one, each row is a query with the row's number."""
    if spec is not None and not (isinstance(spec, str) and spec.isidentifier()):
        table = add_column(session, table, "query", spec)
    if column := table.find("query", column_name(spec), QUESTIONS):
        counts = f"SELECT count(*) - count({quote(column)}), count(*) FROM {table.sql}"
        ((missing, total),) = session.con.execute(counts).fetchall()
        if missing:  # before the lists are unnested
            raise RankqlError(
                f"{table.label}: {column} is NULL in {missing} of {total} rows. Leave them out"
            )
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


def _read_lists(session: Session, table: Table, column: str, rel: Any = 1) -> _Lists:
    """How to read the ids and grades of a column of lists.

    rel: the argument of the caller; 1 if the ids need no grades.
    """
    kind, name = table.columns[column], quote(column)
    graded = f"grades in {column}"
    if kind.startswith(("STRUCT(", "MAP(")) and not kind.endswith("]"):  # {"id": grade}
        pairs = f"map_entries({name})"
        if kind.startswith("STRUCT("):
            fields = session.describe(table.label, f"(SELECT {name}.* FROM {table.sql})").columns
            texts = [quote(x) for x, kind in fields.items() if is_text(kind)]
            finite = " AND ".join(
                f"count({x}) = count(*) FILTER (isfinite({text_number(x[1:-1])}))" for x in texts
            )
            rows = f"SELECT {finite or 'true'} FROM (SELECT {name}.* FROM {table.sql})"
            numbers = all(is_number(kind) or is_text(kind) for kind in fields.values())
            if not numbers or not session.con.execute(rows).fetchall()[0][0]:
                raise _wrong_type(table, column)
            pairs = f"map_entries(CAST(to_json({name}) AS MAP(VARCHAR, DOUBLE)))"
            pairs = f"list_filter({pairs}, lambda x_: x_['value'] IS NOT NULL)"
        return _Lists(column, pairs, "x_['key']", "x_['value']", graded, scored=True)
    every = "1 for every row"
    if kind.startswith("STRUCT("):
        objects = _list_objects(session, table, column)
        fields = objects.columns
        item = find_name(fields, (*ROLES["item"], "id"))
        if item is None:
            raise RankqlError(
                f"{table.label}: {column} has no id: expected a field called id, or one of "
                f"{', '.join(ROLES['item'])}. Found: {', '.join(fields)}. Rename the field"
            )
        refuse_rounded(session, table, column, f"unnest(x_)[{literal(item)}]", fields[item])
        names = [rel] if isinstance(rel, str) else rel if isinstance(rel, list | tuple) else []
        named = names[0] if names and names[0] in fields else ""
        if isinstance(rel, Mapping | list | tuple) or (names and not named):
            free = [x for x in fields if x != item and not table.has(x)]
            return _Lists(column, name, f"x_[{literal(item)}]", "hash(x_)", "", fields=free)
        grade, field = named, named
        if rel is None:
            grade = _find_grade(session, objects, column)
            field = grade if grade and is_text(fields[grade]) else ""
        value, every = (f"x_[{literal(grade)}]", graded) if grade else ("1", every)
        assumed = "" if field else every
        return _Lists(column, name, f"x_[{literal(item)}]", value, assumed, field)
    if kind.startswith("JSON"):  # a JSON file with numbers and text, or with nothing in the lists
        nested = f"SELECT 1 FROM (SELECT unnest({name}) AS x_ FROM {table.sql})"
        nested += " WHERE json_type(x_) IN ('OBJECT', 'ARRAY') LIMIT 1"
        if session.con.execute(nested).fetchall():
            raise _wrong_type(table, column)
        return _Lists(column, name, "x_ ->> '$'", "1", every)
    refuse_rounded(session, table, column, "unnest(x_)", kind)
    return _Lists(column, name, "x_", "1", every)


def _find_grade(session: Session, objects: Table, column: str) -> str:
    """The field with the grades or ""; an error if numbers or labels may be it."""
    fields = objects.columns
    texts = [field for field, kind in fields.items() if is_text(kind)]
    if grade := find_name(fields, ROLES["rel"]) or find_name(texts, EVENTS):
        return grade
    known = {squash(name) for name in (*ROLES["query"], *ROLES["item"], *TIMES, "id")}
    for field in [x for x in fields if squash(x) not in known]:
        remedy = describe_mapping(session.con, objects, field) if field in texts else ""
        if is_number(fields[field]):
            sql = f"SELECT count(DISTINCT {quote(field)}) > 1 FROM {objects.sql}"
            remedy = f"rel={field!r}" if session.con.execute(sql).fetchall()[0][0] else ""
        if remedy:
            raise RankqlError(
                f"{objects.label}: is {field} the grade of the ids in {column}? Pass {remedy}, "
                "or rel='1' if every one of them is relevant"
            )
    return ""


def _kept(table: Table, kept: Sequence[str]) -> str:
    """The columns next to the ids: numbers, keys and attributes, but no texts."""
    names = {*map(str.lower, kept), *(role.lower() for role in table.roles.values())}
    return ", ".join(
        quote(name)
        for name, kind in table.columns.items()
        if name.lower() in names or not (_is_nested(kind) or is_text(kind))
    )


def _unnest(table: Table, lists: _Lists, others: str, number: str) -> str:
    """SQL with a row per id; others: the columns next to the lists; number: that of each id."""
    places = f", generate_subscripts({lists.values}, 1) AS {PLACE}" if number == PLACE else ""
    return (
        f"(SELECT {others}, {lists.item} AS {quote(lists.column)}, {number} FROM (SELECT {others}, "
        f"unnest({lists.values}) AS x_{places} FROM {table.sql}))"
    )


def _unnest_run(session: Session, table: Table, column: str, kept: Sequence[str]) -> Table:
    """The run with a row per retrieved id, and its place in the list or its score."""
    lists = _read_lists(session, table, column)
    if not lists.scored:
        _require_order(session, table, column)
        sql = _unnest(table, lists, _kept(table, kept), PLACE)
        roles = {**table.roles, "item": column, "pos": PLACE}
        return _load(session, table, sql, roles, {"pos": f"order in {column}"})
    positions = table.known("pos")  # of the row, not of its ids
    rows = replace(table, columns={n: k for n, k in table.columns.items() if n not in positions})
    score = f"score in {column}"
    sql = _unnest(table, lists, _kept(rows, kept), f"{lists.grade} AS {quote(score)}")
    roles = {**table.roles, "item": column, "score": score}
    return _load(session, table, sql, roles, {"score": f"scores in {column}"})


def _load_judgments(
    session: Session, lists: Sequence[tuple[Table, _Lists]], others: Sequence[str]
) -> Table:
    """The judgments with a row per relevant id, from one table or from those of the runs."""
    table, first = lists[0]
    graded = [] if first.fields else [f"{{0}} AS {quote(first.graded)}"]
    graded += [f"x_[{literal(name)}] AS {quote(name)}" for name in first.fields]
    sql = " UNION ALL ".join(
        f"FROM {_unnest(each, ids, columns, ', '.join(graded).replace('{0}', ids.grade))}"
        for (each, ids), columns in zip(lists, others, strict=True)
    )
    roles = {"query": table.roles["query"], "item": first.column}
    roles |= {} if first.fields else {"rel": first.graded}
    assumed = {"rel": first.assumed} if first.assumed else {}
    return _load(session, table, f"(SELECT DISTINCT * FROM ({sql}))", roles, assumed)


def _load(
    session: Session, table: Table, sql: str, roles: dict[str, str], assumed: dict[str, str]
) -> Table:
    """The rows of a table with lists, unnested once: several queries read them."""
    fields = {"roles": roles, "assumed": {**table.assumed, **assumed}, "cells": table.cells}
    system = "" if "rel" in roles else table.system
    return session.load(table.label, sql, text=False, unit="ids", system=system, **fields)


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


def _require_order(session: Session, table: Table, column: str) -> None:
    """Refuse lists of objects in another order than that of their scores or positions."""
    if not table.columns[column].startswith("STRUCT("):
        return
    query = quote(table.roles["query"])
    for role in ("pos", "score"):
        for name, kind in _list_objects(session, table, column).columns.items():
            if name not in known_names(role, [name]) or not (is_number(kind) or is_text(kind)):
                continue
            order = "DESC" if role == "score" and not is_distance(name) else "ASC"
            value = f"x_[{literal(name)}]"
            value = f"TRY_CAST({value} AS DOUBLE)" if is_text(kind) else value
            values = f"list_transform({quote(column)}, lambda x_: {value})"
            values = f"list_filter({values}, lambda x_: x_ IS NOT NULL)"
            sql = (
                f"SELECT {query} FROM {table.sql} WHERE {values} <> list_sort({values}, '{order}') "
                "LIMIT 1"
            )
            for (found,) in session.con.execute(sql).fetchall():
                raise RankqlError(
                    f"{table.label}: {column} of query {found!r} is not in the order of its "
                    f"field {name}, and the list's order is the ranking. Sort the list, best "
                    f"first, or drop the field {name} if its order is right"
                )


def refuse_rounded(session: Session, table: Table, column: str, ids: str, kind: str) -> None:
    """Refuse ids of floating point that are fractions, or so long that different ids are equal.

    ids: what selects them from the column.
    """
    if not kind.startswith(FLOATS):
        return
    rounded = f"SELECT id FROM (SELECT {ids} AS id FROM (SELECT {quote(column)} AS x_ FROM "
    rounded += f"{table.sql})) WHERE {is_rounded('id', kind)} LIMIT 1"
    for (found,) in session.con.execute(rounded).fetchall():
        raise RankqlError(
            f"{table.label}: {column} has the id {found}, a floating-point number that may stand "
            "for different ids. Write ids as text or as integers"
        )


# The types of floating point, as DuckDB calls them and their lists.
FLOATS = ("DOUBLE", "FLOAT")


def is_rounded(column: str, kind: str) -> str:
    """The condition that a floating-point number may stand for several ids."""
    return f"{column} <> floor({column}) OR abs({column}) >= {2**24 if kind[0] == 'F' else 2**53}"


def _list_objects(session: Session, table: Table, column: str) -> Table:
    """The objects in a column of lists, with a column for each field."""
    rows = f"(SELECT unnest(x_) FROM (SELECT unnest({quote(column)}) AS x_ FROM {table.sql}))"
    return session.describe(table.label, rows)

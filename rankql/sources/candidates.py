"""The columns that may hold the queries and the items of each table, for `choice` to choose from.

They are columns of rows, fields of the objects in lists, and readings of cells with several ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from rankql.errors import RankqlError
from rankql.macros import literal, quote
from rankql.registry.column_names import (
    KNOWN,
    LIKE_ID,
    OTHER,
    PREDICTED,
    RELEVANT,
    RETRIEVED,
    ROLES,
    find_name,
    list_side,
    tier_of,
)
from rankql.sources.choice import Choice, Ids, Side, choose_columns, find_ids, is_id
from rankql.sources.computed import add_column, column_name, parse_pair
from rankql.sources.session import Session
from rankql.sources.tables import Table, assign_roles, is_number, is_text, require_column

# Lists of fractions are not ids.
VECTOR = re.compile(r"(FLOAT|DOUBLE|DECIMAL\(.*\))\[\d*\]")
# What separates several ids in one cell, by the reading of the cell: see `Ids`.
_SEPARATORS = ("", r"\s*[,;|]\s*", r"[\s,;|]+")
# So many cells decide whether there is one.
_SAMPLE = 1000


def choose_all(
    session: Session,
    runs: Mapping[str | None, Table],
    qrels: Table | None,
    ours: Mapping[str | None, list[Ids]],
    theirs: Mapping[str | None, list[Ids]],
    specs: Sequence[Sequence[Any]],
    taken: set[str],
) -> list[Choice | None]:
    """The columns of each run and its judgments, one decision for runs with the same columns."""
    if qrels and not runs:
        others = _find_queries(qrels, specs[1][0], taken, OTHER)
        return [choose_columns(session.con, None, Side([qrels], others, theirs[None], "qrels"))]
    choices: dict[str | None, Choice | None] = {}
    listed = {x: any(i.column for i in (*ours[x], *theirs[x])) for x in runs}
    least = {x: OTHER if listed[x] else LIKE_ID for x in runs}
    keys = {x: _find_queries(runs[x], specs[0][0], taken, least[x]) if qrels else [] for x in runs}
    names = {x: [i.name for i in (*ours[x], *keys[x])] for x in runs}
    for name, table in runs.items():
        if name in choices:
            continue
        same = [x for x in runs if names[x] == names[name]]
        left = Side([runs[x] for x in same], keys[name], ours[name], table.label)
        right = left._replace(items=theirs[name])
        if qrels:
            others = _find_queries(qrels, specs[1][0], taken, least[name])
            right = Side([qrels], others, theirs[name], "qrels")
        choice = choose_columns(session.con, left, right, not listed[name], session.reads_values)
        choices |= dict.fromkeys(same, choice)
        if choice is None and listed[name]:
            for each in filter(None, (table, qrels)):
                assign_roles(each, {}, ["query"])  # an error
        if choice and qrels:  # the first runs decide for the others
            specs = specs[0], (choice.queries[1].name, choice.items[1].name)
            theirs = {x: [choice.items[1]] for x in runs}
    return [choices[name] for name in runs]


def named_columns(
    runs: Mapping[str | None, Table], qrels: Table | None, columns: Mapping[str, Any]
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The columns of query and item that the caller names, in the runs and in the judgments."""
    tables = [*runs.values(), *([qrels] if qrels else [])]
    query = parse_pair("query", columns.get("query"), tables, qrels is not None)
    item = columns.get("item")
    if isinstance(item, str) and qrels:  # the other table may have a recognised name
        named = [any(_has(t, item) for t in side) for side in (runs.values(), [qrels])]
        item = tuple(item if has or not any(named) else None for has in named)
    item = item if isinstance(item, list | tuple) and len(item) == 2 else (item, item)
    return (query[0], item[0]), (query[1], item[1])


def _has(table: Table, name: str) -> bool:
    """Has a table this column, or a list of objects with this field?"""
    fields = (x for kind in table.columns.values() for x in _fields(kind))
    return table.has(name) or table.has(name.rpartition(".")[0]) or name in fields


def compute_columns(session: Session, table: Table, specs: Sequence[Any]) -> Table:
    """The table with the expressions and keys that the caller names."""
    for role, spec in zip(("query", "item", "item"), specs, strict=False):
        expression = isinstance(spec, str) and spec.strip() and not spec.isidentifier()
        if isinstance(spec, tuple) or (expression and not _has(table, spec)):
            table = add_column(session, table, role, spec)
    return table


def flatten_objects(table: Table) -> Table:
    """The table with a column for each field of its objects, but not for {id: number}."""
    for name, kind in [*table.columns.items()]:
        if not kind.startswith("STRUCT(") or kind.endswith("]") or table.unit == "ids":
            continue
        fields = _fields(kind)
        if find_name([name], (*RETRIEVED, *RELEVANT, *PREDICTED)) or (
            list_side(name) and all(map(is_number, fields.values()))
        ):
            continue
        columns = {f"{name}.{field}": x for field, x in fields.items()}
        values = ", ".join(f"{quote(name)}[{literal(x)}] AS {quote(f'{name}.{x}')}" for x in fields)
        sql = f"(SELECT *, {values} FROM {table.sql})"
        table = replace(table, sql=sql, columns={**table.columns, **columns})
    return table


def _fields(kind: str) -> dict[str, str]:
    """The fields of an object or of the objects in a list, by the type of the column."""
    if not kind.startswith("STRUCT("):
        return {}
    found: Any = duckdb.sqltype(kind)
    found = found.children[0][1] if kind.endswith("]") else found
    return {name: str(each) for name, each in found.children}


def find_list(table: Table, known: Sequence[str], name: Any = None) -> str | None:
    """The column of lists with this name or a known one; None if the table has a row per item."""
    if table.unnested or table.unit == "ids":
        return None
    nested = [column for column, kind in table.columns.items() if is_nested(kind)]
    if isinstance(name, str) and (table.has(name) or table.has(name.rpartition(".")[0])):
        return find_name(nested, [name]) or find_name(nested, [name.rpartition(".")[0]])
    ranks = known is RELEVANT or any(map(table.known, ("pos", "score")))
    if table.known("item") and ranks and (known is RETRIEVED or table.known("rel")):
        return None
    if column := find_name(nested, [*known, *(PREDICTED if known is RETRIEVED else ())]):
        return column
    column = find_name(table.columns, known)
    both = not table.known("item") and find_name(table.columns, RETRIEVED)
    if column and both and not is_text(table.columns[column]):  # text may be ids in cells
        raise wrong_type(table, column)
    side = "run" if known is RETRIEVED else "qrels"
    mine = [x for x in nested if list_side(x) == side and not VECTOR.fullmatch(table.columns[x])]
    return mine[0] if len(mine) == 1 else None


def is_nested(kind: str) -> bool:
    """Is it a type of lists, maps or structs?"""
    return kind.endswith("]") or kind.startswith(("MAP(", "STRUCT("))


def _find_queries(table: Table, name: Any, taken: set[str], least: int) -> list[Ids]:
    """The columns that may be the query."""
    name = table.roles.get("query", name)
    if name is not None:
        name = require_column(table, column_name(name) or "", "query")
        return [Ids(name, quote(name))]
    return [x for x in find_ids(table, "query", least) if x.name not in taken or x.tier == KNOWN]


def find_items(
    session: Session, table: Table, known: Sequence[str], name: Any, taken: set[str]
) -> list[Ids]:
    """The columns, fields of objects in lists and readings of cells that may be the item."""
    name = table.roles.get("item", name)
    column = find_list(table, known, name)
    if column is None:
        found = find_ids(table, "item") if name is None else []
        if isinstance(name, str) and table.has(name):
            found = [Ids(table.actual_name(name), quote(table.actual_name(name)))]
        cells = _find_cells(session, table, known, name)
        names = {x.name for x in cells}
        return [*cells, *(x for x in found if x.name not in {*taken, *names})]
    kind = table.columns[column]
    if not (kind.startswith("STRUCT(") and kind.endswith("]")):
        forms = {"STRUCT(": "map_entries(TRY_CAST(to_json({}) AS MAP(VARCHAR, DOUBLE)))"}
        forms |= {"MAP(": "map_entries({})", "": "{}"}
        start = next(x for x in forms if kind.startswith(x) and not (x and kind.endswith("]")))
        each = "x_[1]" if kind.endswith("[][]") else "x_"  # pairs of id and number
        item = "x_['key']" if start else f"{each} ->> '$'" if kind.startswith("JSON") else each
        return [Ids(column, item, KNOWN, 0, column, forms[start].format(quote(column)))]
    fields = _fields(kind)
    found = [
        Ids(full, f"x_[{literal(field)}]", *tier, column, quote(column))
        for field, kind in fields.items()
        if (tier := tier_of("item", full := f"{column}.{field}", in_objects=True))[0] >= LIKE_ID
        and (tier[0] == KNOWN or is_id(kind)) and not is_nested(kind)
    ]  # fmt: skip
    if isinstance(name, str) and (field := find_name(fields, [name.rpartition(".")[2]])):
        full = f"{column}.{field}"
        found = [Ids(full, f"x_[{literal(field)}]", KNOWN, 0, column, quote(column))]
    if not found:
        raise RankqlError(
            f"{table.label}: {column} has no id: expected a field called id, or one of "
            f"{', '.join(ROLES['item'])}. Found: {', '.join(fields)}. Rename the field"
        )
    return found


def _find_cells(session: Session, table: Table, known: Sequence[str], name: Any) -> list[Ids]:
    """The readings of a column whose cells may have several ids, or one per row of lists."""
    if table.unnested or table.unit == "ids" or table.roles.get("item"):
        return []
    column = find_name(table.columns, [name] if isinstance(name, str) else [*known, *PREDICTED])
    names = [each for role in ("item", "pos", "score", "rel") for each in table.known(role)]
    column = column or (table.find("item") if name is None else None)
    if not (column and is_text(table.columns[column])) or {*names} - {column}:
        return []
    listed = find_name([column], [*known, *PREDICTED]) is not None
    text = _cell(column)
    sql = rf"""SELECT bool_or(regexp_matches({text}, '{_SEPARATORS[2]}')),
        bool_or(regexp_matches({text}, '^[\[{{]')) FROM (FROM {table.sql} LIMIT {_SAMPLE})"""
    ((separated, encoded),) = session.con.execute(sql).fetchall()
    if encoded and listed:
        raise wrong_type(table, column)
    if encoded or not (listed or separated):
        return []
    order = (1, 0, 2) if listed else (0, 1, 2)
    readings = [
        Ids(column, "x_", KNOWN, order[i], column, split_cell(column, i), i)
        for i in (order if separated else (0,))
    ]
    one = Ids(column, _cell(column), KNOWN, 0)  # of a table with a row per item
    return readings if listed else [one, *readings[1:]]


def _cell(column: str) -> str:
    return f"trim(CAST({quote(column)} AS VARCHAR))"


def split_cell(column: str, reading: int) -> str:
    """The list of ids in a cell."""
    text, separator = _cell(column), _SEPARATORS[reading]
    ids = f"string_split_regex({text}, '{separator}')" if separator else f"[{text}]"
    return f"list_filter({ids}, lambda x_: x_ <> '')"


def wrong_type(table: Table, column: str) -> RankqlError:
    """The error about a column that should have lists."""
    kind = table.columns[column]
    kind = "text" if is_text(kind) and not kind.endswith("]") else kind
    return RankqlError(
        f"{table.label}: {column} must be a list of ids, not {kind}. Write lists, as in "
        f'{{"query": "q1", "{column}": ["d1", "d2"]}}, or one row per item'
    )

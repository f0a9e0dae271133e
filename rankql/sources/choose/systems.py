"""The column of the systems: the one that the caller names, or a known one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankql.errors import RankqlError
from rankql.macros import quote
from rankql.registry.column_names import (
    RANKED_SYSTEMS,
    RANKERS,
    RETRIEVED,
    find_name,
    is_called,
    names_system,
)
from rankql.sources.names.candidates import find_list
from rankql.sources.open.session import Session
from rankql.sources.tables import FIRST_ROWS, Table

# Queries that decide whether a column is that of the systems; they are sought in the first rows.
_FEW_QUERIES = 20


def find_system(
    session: Session,
    table: Table,
    columns: Mapping[str, Any],
    by: Sequence[str],
    known: Sequence[str] = RANKED_SYSTEMS,
) -> str | None:
    """The column of a known name without which items or positions of a query repeat, and with
    which none does. Without positions, that of a ranker is one if a query has several.
    """
    query, item = columns.get("query"), columns.get("item")
    item = item[0] if isinstance(item, list | tuple) and item else item
    taken = {*by, *map(str, columns.values())}
    systems = [find_name(table.columns, [name]) for name in known]
    systems += [x for x in table.columns if known is RANKED_SYSTEMS and names_system(x)]
    if not (names := [x for x in dict.fromkeys(systems) if x is not None and x not in taken]):
        return None
    try:
        keys: Any = query if isinstance(query, list | tuple) else [table.find("query", query)]
    except RankqlError:  # which is raised later, if at all
        return None
    if not keys or not all(isinstance(name, str) and table.has(name) for name in keys):
        return None
    placed, ids = table.find("pos", columns.get("pos")), [list[str]()]
    if not find_list(table, RETRIEVED, item):
        ids = [[x] for x in (table.find("item", item), placed) if x] or ids  # or values
    key = ", ".join(map(quote, keys))
    sample = f"SELECT DISTINCT {key} FROM (FROM {table.sql} LIMIT {FIRST_ROWS})"
    rows = f"(FROM {table.sql} SEMI JOIN ({sample} LIMIT {_FEW_QUERIES}) USING ({key}))"
    for name in names:
        counts = ", ".join(
            f"count(DISTINCT ({', '.join(map(quote, [*keys, *own, *each]))}))"
            for own in [[], *ids]
            for each in ([], [name])
        )
        sql = f"SELECT count(*), {counts} FROM {rows}"
        total, queries, rankings, *each = session.row(sql)
        several = not placed and queries < rankings and is_called(name, RANKERS)
        repeats = several or any(count < total for count in each[::2])
        if repeats and all(count == total for count in each[1::2]):
            return name
    return None

"""The query of a table of lists: a column with one row per value, a key of several, or its row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rankql.core.base.column_names import QUESTIONS, says
from rankql.core.base.errors import BY_HAND, EqualRows, Question, RankqlError
from rankql.core.metrics.macros import quote
from rankql.core.tables.candidates import assign_roles, find_ids
from rankql.core.tables.key_columns import tell_apart
from rankql.core.tables.numbers.values import MOST_EQUAL, share_of_equal_rows
from rankql.core.tables.tables import Runs, Table, is_text, unknown_column
from rankql.shapes.choose.computed import column_name


def find_row_keys(runs: Runs, name: Any, system: str | None) -> Runs:
    """The tables with both lists and the query of their rows.

    Without a known name, it is a column with one row per value, or the row number of one table.
    """
    keyed, named = {}, column_name(name)
    if named is not None and not any(table.has(named) for table in runs.values()):
        raise unknown_column("query", named, [*runs.values()])
    for label, table in runs.items():
        key = table.find("query", named, QUESTIONS)
        others = [t for t in runs.values() if t is not table]
        keyed_table = replace(table, roles={"query": key}) if key else table
        ids = find_ids(keyed_table, "query", named=False)
        ids = [x for x in ids if says(x.name, "id") or (others and is_text(table.columns[x.name]))]
        # Several rows may ask the same question, if they have ids.
        repeats = key and name is None and _repeats_text(runs.values(), key, system)
        for each in ids if repeats or not key else ():
            keys = ", ".join(quote(x) for x in (each.name, system) if x)
            unique = f"count(*) = count(DISTINCT ({keys})) AND bool_and({each.sql} NOT NULL)"
            if all(t.has(each.name) and t.value(unique) for t in (*others, table)):
                if key:
                    table.note(
                        f"{key} repeats in rows with different {each.name}, so each row is a query",
                    )
                key = each.name
                break
        if key is None and (others or system or not table.ordered):
            assign_roles(table, {}, ["query"])  # an error
        keyed[label] = _number_rows(table) if key is None else replace(table, roles={"query": key})
    return keyed


def _repeats_text(tables: Iterable[Table], key: str, system: str | None) -> bool:
    """Is it the text of questions, and does a table have one of them twice?"""
    names = ", ".join(quote(x) for x in (key, system) if x)
    counts = f"count({quote(key)}) > count(DISTINCT ({names})) FILTER ({quote(key)} IS NOT NULL)"
    return not key.lower().endswith("id") and any(
        is_text(table.columns.get(key, "")) and table.value(counts) for table in tables
    )


def _number_rows(table: Table) -> Table:
    """The table whose rows are queries with their number."""
    name = "query" if not table.has("query") else "row number"
    return replace(
        table,
        sql=f"(SELECT row_number() OVER () AS {quote(name)}, * FROM {table.sql})",
        columns={name: "BIGINT", **table.columns},
        roles={"query": name},
        origins={name: "row number"},
    )


def require_one_row(table: Table, column: str, system: str | None) -> None:
    """Refuse two lists for one query."""
    keys = [table.roles["query"], *([table.actual_name(system)] if system else [])]
    names = ", ".join(map(quote, keys))
    repeated = f"SELECT {names} FROM {table.sql} GROUP BY {names} HAVING count(*) > 1"
    for row in table.session.rows(f"{repeated} ORDER BY {names} LIMIT 1"):
        text = f"{table.label} has several rows for query {row[0]!r}, but {column} is a list, so "
        text += f"one row is expected ({keys[0]} is read as the query). Keep one of them"
        if 0 < share_of_equal_rows(table, system) <= MOST_EQUAL:
            raise EqualRows(text, "run")
        calls = tell_apart(table, (), system=system)
        if not calls:
            text += ", or number the rows of each query in a column, the second part of its key. "
            raise RankqlError(f"{text}See {BY_HAND('trials')}")
        parts = calls[0].get("query") if calls else None
        each = f"Each row is then a query. Rows of one {keys[0]} are not independent: pass "
        hints = [f"{each}cluster={keys[0]!r} too"] if isinstance(parts, list) else []
        raise Question(text, calls, hints=hints)

"""The end of a question: each column with its type and two values, and a call to fill in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankql.core.base.errors import Question
from rankql.core.metrics.macros import quote
from rankql.core.tables.session import Session
from rankql.core.tables.tables import OF_OBJECTS, Table, is_nested

# Columns that are listed of each table, the rows in which their values are sought, and the
# characters of a value or a type.
_COLUMNS, _ROWS, _LENGTH = 12, 20, 30


def with_columns(
    session: Session, question: Question, tables: Sequence[Table], ranked: bool
) -> Question:
    """The question about which columns are meant, with those that there are and their values."""
    asks_ids = not question.calls or any({"query", "item"} & {*call} for call in question.calls)
    if not (asks_ids and session.asks and session.reads_values) or any(t.lazy for t in tables):
        return question
    run, *others = tables
    if run.own_columns == OF_OBJECTS:  # which no option names
        return question
    blanks: dict[str, Any] = {"query": "...", "item": "..."}
    if any(map(is_nested, run.columns.values())):  # lists are in order
        blanks["item"] = "..." if others else ["...", "..."]
    else:
        blanks |= {"score": "..."} if ranked else {}
        graded = len(tables[-1].own_columns) > 2 and not tables[-1].known("rel")
        blanks |= {"rel": "..."} if graded or not others else {}
    columns = "; ".join(_list_columns(session, table) for table in tables)
    return question.with_columns(columns, blanks)


def _list_columns(session: Session, table: Table) -> str:
    names = table.own_columns
    texts = ", ".join(f"CAST({quote(name)} AS VARCHAR)" for name in names[:_COLUMNS])
    rows = zip(*session.rows(f"SELECT {texts} FROM {table.sql} LIMIT {_ROWS}"), strict=True)
    listed = []
    for name, values in zip(names, [*rows] or [()] * len(names), strict=False):
        some = [x for x in dict.fromkeys(values) if x is not None][:2]
        examples = ", ".join(map(_cut, some))
        listed.append(f"{name} {_cut(table.columns[name])} ({examples or 'no value'})")
    more = f", and {len(names) - _COLUMNS} more" if len(names) > _COLUMNS else ""
    return f"{table.label} has {', '.join(listed)}{more}"


def _cut(text: str) -> str:
    """A text of at most 30 characters on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _LENGTH else f"{line[: _LENGTH - 3]}..."

"""What the tables of a question have: columns and paths, their types and two values of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rankql.core.base.column_names import says
from rankql.core.base.errors import Question
from rankql.core.base.layout import ListedColumn
from rankql.core.metrics.macros import quote
from rankql.core.tables.session import Session
from rankql.core.tables.tables import FRACTIONS, OF_OBJECTS, Table, is_nested, is_number
from rankql.shapes.choose.paths import find_paths, write_ids

# Lines of all tables, and the rows of each in which values are sought.
_LINES, _ROWS = 8, 20


def list_columns(
    session: Session, question: Question, tables: Sequence[Table], ranked: bool
) -> Question:
    """The question about which columns are meant, with those that there are and their values."""
    asks_ids = not question.calls or any({"query", "item"} & {*call} for call in question.calls)
    if not asks_ids:
        return question
    run, *others = tables
    question.row = _row_of(question, tables)
    if not (session.asks and session.reads_values) or any(t.lazy for t in tables):
        return question
    if run.own_columns == OF_OBJECTS:  # which no option names
        return question
    blanks: dict[str, Any] = {"query": "...", "item": "..."}
    if any(map(is_nested, run.columns.values())):  # lists are in order
        blanks["item"] = "..." if others else ["...", "..."]
    else:
        blanks |= {"score": "..."} if ranked else {}
        graded = len(tables[-1].own_columns) > 2 and not tables[-1].known("rel")
        blanks |= {"rel": "..."} if graded or not others else {}
    own, sides = question.blanks, {"score": tables[:1], "rel": tables[-1:]}
    known = {x for x in blanks if all(table.known(x) for table in sides.get(x, tables))}
    known |= {"score"} if run.known("pos") else set()
    question.blanks = {x: own.get(x, y) for x, y in blanks.items() if x in own or x not in known}
    listed, left = [[*_expressions(table)] for table in tables], _LINES
    for n, (table, columns) in enumerate(zip(tables, listed, strict=True)):
        later = len(tables) - n - 1  # which get half of the lines if they need them
        fits = left if not later else max(left // 2, left - sum(map(len, listed[n + 1 :])))
        first = {x for *_, x in sorted(x[:3] for x in columns)[:fits]}
        shown = [(name, kind, sql) for *_, name, kind, sql in columns if name in first]
        left -= len(shown)
        question.columns += _with_values(table, shown)
        question.more[table.label] = [x[2] for x in columns if x[2] not in first]
    return question


def _row_of(question: Question, tables: Sequence[Table]) -> str:
    """The row of the page on shapes by hand for tables of these types."""
    kinds = [kind for table in tables for kind in table.columns.values()]
    if any(x.startswith("STRUCT(") for x in kinds):
        return "objects"
    if any(x.startswith(FRACTIONS) and x.endswith("]") for x in kinds):
        return "map"  # grades beside ids
    if any(map(is_nested, kinds)):
        return "sql-list"
    numbers = [{x for x, kind in t.columns.items() if is_number(kind)} for t in tables]
    if len(tables) == 2 and len(numbers[0]) > 1 and numbers[0] == numbers[1]:
        return "wide-frame"
    if question.open:
        return "words"
    return {"rel": "condition", "score": "row-order"}.get("".join(question.blanks), "columns")


def _expressions(table: Table) -> Iterator[tuple[int, int, str, str, str]]:
    """The columns and the paths in objects, by their place: the ids of an object come first.

    Each is a place in its column, that of the column, a name, a type, and the SQL of its values.
    """
    paths = find_paths(table)
    for n, name in enumerate(table.own_columns):
        inner = [x for x in paths if x == name or (x.startswith(f"{name}.") and x[-1] != "]")]
        for place, path in enumerate(sorted(inner, key=lambda x: not says(x, "id"))):
            ids = paths[path]
            kind = f"{ids.kind}[]" if ids.column else ids.kind
            kind = table.columns[name] if path == name else kind
            yield place, n, path, kind, write_ids([ids])
        if not inner:
            yield 0, n, name, table.columns[name], f"[{quote(name)}]"


def _with_values(table: Table, columns: Sequence[tuple[str, str, str]]) -> Iterator[ListedColumn]:
    """The columns with two different values of each."""
    texts = ", ".join(f"CAST({sql} AS VARCHAR[])" for *_, sql in columns)
    rows = zip(*table.rows(texts, f" LIMIT {_ROWS}"), strict=True) if columns else ()
    for (name, kind, _), cells in zip(columns, [*rows] or [()] * len(columns), strict=True):
        values = dict.fromkeys(x for cell in cells for x in cell or () if x is not None)
        yield ListedColumn(table.label, name, kind, [*values][:2])

"""Grades of events: rel= maps the values of a column, or columns of yes and no, to numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rankql.core.base import column_names
from rankql.core.base.errors import Question, RankqlError, as_number, require
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.session import Session
from rankql.core.tables.tables import (
    Table,
    format_mapping,
    is_number,
    is_text,
    require_column,
    text_number,
)
from rankql.shapes.choose.computed import add_column

# The column of mapped grades, as errors say it.
GRADE_OF_EVENT = "grade of the event"


def map_events(
    session: Session, columns: Mapping[str, Any], tables: Sequence[Table]
) -> tuple[Mapping[str, Any], list[Table]]:
    """The columns and the tables, with grades of events if rel= maps them, in a column or not."""
    event, grades = None, columns.get("rel")
    if isinstance(grades, list | tuple) and len(grades) == 2 and isinstance(grades[1], Mapping):
        event, grades = grades
    if not isinstance(grades, Mapping):
        return columns, [*tables]
    mapped = [_map_events(table, event, grades) for table in tables]
    return {**columns, "rel": GRADE_OF_EVENT}, mapped


def require_event_grades(grades: Mapping[Any, Any]) -> None:
    """Refuse grades that are no finite numbers by text; None means not judged."""
    ok = all(isinstance(event, str) for event in grades)
    known = [grade for grade in grades.values() if grade is not None]
    ok = ok and bool(known) and all(math.isfinite(as_number(grade)) for grade in known)
    require(ok, f"rel must map events (text) to grades, as {{'buy': 3, 'click': 1}}, not {grades}")


def _map_events(table: Table, column: str | None, grades: Mapping[Any, Any]) -> Table:
    """The table with the grades of its events, in a column of this or a known name."""
    require_event_grades(grades)
    known, rel = (*column_names.EVENTS, *column_names.ROLES["rel"]), format_mapping(grades)
    if column is not None and not (table.has(column) or column.isidentifier()):
        table = add_column(table, "rel", column)
    graded = ", ".join(map(literal, grades))
    texts = [name for name, kind in table.columns.items() if is_text(kind)]
    event = column_names.find_name(texts, known)
    flags = [table.actual_name(name) for name in grades if table.has(name)]
    flags = [x for x in flags if is_number(table.columns[x]) or is_text(table.columns[x])]
    if column is not None:
        event = require_column(table, column, "rel")
    elif len(flags) == len(grades) and None not in grades.values():
        if event is not None:
            raise RankqlError(
                f"{table.label}: {rel} may map the values of {event}, or the columns "
                f"{', '.join(flags)}. Pass {format_mapping(grades, event)}, or drop {event}"
            )
        columns = dict(zip(flags, grades.values(), strict=True))
        return _with_grades(table, columns, _read_flags(table, columns, rel), flags)
    if event not in texts:
        cells = (f"SELECT bool_and({quote(x)} IN ({graded})) FROM {table.sql}" for x in texts)
        names = [x for x, sql in zip(texts, cells, strict=True) if table.session.value(sql)]
        raise Question(
            f"{rel} needs a text column in {table.label}, or a column of yes and no for each grade",
            [{"rel": (name, dict(grades))} for name in names],
            blanks={"rel": ("...", dict(grades))},
            known=known,
            found=table.own_columns,
        )
    value = f"CAST({quote(event)} AS VARCHAR)"
    others = f"SELECT DISTINCT {value} FROM {table.sql} WHERE {value} NOT IN ({graded})"
    if rows := table.session.rows(f"{others} ORDER BY ALL LIMIT 3"):
        raise RankqlError(
            f"{table.label}: {rel} has no grade for {event} "
            f"{', '.join(repr(name) for (name,) in rows)}. Add one, such as 0"
        )
    cases = " ".join(f"WHEN {literal(x)} THEN {literal(grade)}" for x, grade in grades.items())
    return _with_grades(table, grades, f"CASE {value} {cases} END", table.sources([event]))


def _with_grades(
    table: Table, grades: Mapping[str, float], value: str, reads: Sequence[str]
) -> Table:
    """The table with the column of mapped grades, and what the Columns line says of it."""
    whole = all(isinstance(grade, int | None) for grade in grades.values())
    kind = "INTEGER" if whole else "DOUBLE"
    pairs = ", ".join(f"{name}: {grade}" for name, grade in grades.items())
    origin = pairs if [*grades] == [*reads] else f"{reads[0]} ({pairs})"
    sql = f"CAST({value} AS {kind})"
    return table.with_column(
        GRADE_OF_EVENT, sql, kind, reads, origins={**table.origins, GRADE_OF_EVENT: origin}
    )


def _read_flags(table: Table, grades: Mapping[str, float], rel: str) -> str:
    """The highest grade of the columns that are true, else 0."""
    values, sum_of_grades = [], " + ".join(f"{x:g} * {name}" for name, x in grades.items())
    for name, grade in grades.items():
        value = f"CAST({quote(name)} AS VARCHAR)"
        true = f"(TRY_CAST({value} AS BOOLEAN) OR {text_number(name)} = 1)"
        no = f"(NOT TRY_CAST({value} AS BOOLEAN) OR {text_number(name)} = 0)"
        sql = f"SELECT {value} FROM {table.sql} WHERE {value} IS NOT NULL"
        for (other,) in table.session.rows(
            f"{sql} AND NOT coalesce({true} OR {no}, false) LIMIT 1"
        ):
            raise RankqlError(
                f"{table.label}: {name} has {other!r}, but {rel} reads it as yes or no: true, "
                f"false, 1, 0 or NULL. For numbers write an expression: rel='{sum_of_grades}'"
            )
        values.append(f"CASE WHEN {true} THEN {grade!r} END")
    return f"coalesce(greatest({', '.join(values)}), 0)"

"""Columns of an evaluation in the SQL of a database: names, keys of several, expressions, grades.

The database is not asked: what a caller writes is read as names and expressions of its tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rankql.core.base.column_names import EVENTS
from rankql.core.base.errors import RankqlError, require
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.sql_expressions import require_scalar
from rankql.core.tables.tables import Table, join_key
from rankql.shapes.choose import computed
from rankql.shapes.unpack.events import GRADE_OF_EVENT, require_event_grades


def sides(role: str, value: Any) -> tuple[Any, Any]:
    """The columns of a role in the run and in the judgments.

    Several names are one key of both tables. 'a=b' names the column of each, as do two lists.
    """
    if role not in ("query", "item"):
        return value, value
    if isinstance(value, str):
        left, _, right = (part.strip() for part in value.partition("="))
        return (left, right) if left.isidentifier() and right.isidentifier() else (value, value)
    if len(value) == 2 and not any(isinstance(part, str) for part in value):
        return value[0], value[1]
    pairs = [sides(role, part) for part in value]
    return [first for first, _ in pairs], [second for _, second in pairs]


def of_file(table: Table, role: str, value: Any) -> Any:
    """What the caller wrote for a role of a file: a column that it has, or what computes it."""
    name = table.roles[role]
    if name == GRADE_OF_EVENT:
        grades, (event, *others) = value, table.computed[name]
        if isinstance(value, Mapping) and [event, *others] == [*value]:
            example = " + ".join(f"{grade} * {flag}" for flag, grade in value.items())
            raise RankqlError(f"rel={value} maps columns. Write an expression: rel='{example}'")
        return event, grades if isinstance(grades, Mapping) else grades[1]
    for spec in (value, *(value if isinstance(value, list | tuple) else ())):
        if name in table.computed and name == (spec if isinstance(spec, str) else ", ".join(spec)):
            return spec
    return quote(name)


def write_column(role: str, spec: Any, text: str, mark: str) -> str:
    """The SQL of a column. text: the cast to text; mark: the quotes of names."""
    if role == "rel" and isinstance(spec, Mapping):
        spec = (EVENTS[0], spec)
    if role == "rel" and isinstance(spec, list | tuple) and isinstance(spec[-1], Mapping):
        return _write_grades(spec[0], spec[-1], text, mark)
    spec = computed.split_key(spec, str.isidentifier)
    if isinstance(spec, list | tuple) and role in ("query", "item"):
        parts = [write_column(role, part, text, mark) for part in spec]
        return f"({join_key(map(text.format, parts))})"
    require(isinstance(spec, str), f"{role} must be a column or an SQL expression, not {spec!r}")
    if spec.isidentifier():
        return quote(spec, mark=mark)
    if quoted := _unquote(spec):
        return quote(quoted, mark=mark)
    try:
        require_scalar(spec, f"{role}={spec!r}")
    except RankqlError as error:
        named = f"A column of this name is {role}={quote(spec)!r}"
        raise RankqlError(f"{error.text}. {named}") from None
    return f"({spec})"


def column_label(spec: Any) -> str:
    """The name of a column in the result: that of its column, or the expression."""
    if isinstance(spec, list | tuple):
        return ", ".join(map(column_label, spec))
    return _unquote(spec) or str(spec)


def _unquote(spec: str) -> str:
    """The name in quotes that a text is, or ""."""
    quoted = re.fullmatch(r'"((?:[^"]|"")+)"', spec.strip())
    return quoted[1].replace('""', '"') if quoted else ""


def _write_grades(column: str, grades: Mapping[Any, Any], text: str, mark: str) -> str:
    """Grades of events. An event without one is an error of the engine, which quotes the text."""
    require_event_grades(grades)
    event = text.format(write_column("rel", column, text, mark))
    pairs = ((literal(x), literal(grade)) for x, grade in grades.items())
    cases = " ".join(f"WHEN {event} = {x} THEN {grade}" for x, grade in pairs)
    missing = f"CAST('rankql: rel has no grade for ' || {event} AS INT)"
    return f"(CASE {cases} WHEN {event} IS NOT NULL THEN {missing} END)"

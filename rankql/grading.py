"""From a log of events to judgments, in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation import execute, reporting
from rankql.macros import literal, quoted
from rankql.tables import Data, assigned, session

if TYPE_CHECKING:
    import duckdb


def grade_events(
    log: Data,
    grades: Mapping[str, float | None],
    how: str = "max",
    *,
    cap: float | None = None,
    until: date | datetime | float | None = None,
    within: timedelta | float | None = None,
    half_life: timedelta | float | None = None,
    unknown: str | float | None = "error",
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | None = None,
    item: str | None = None,
    event: str = "event",
    time: str = "time",
) -> pl.DataFrame:
    """The judgments that a log of events makes: one grade for every user, or query, and item.

    The log is a file, a table or a frame, as for `evaluate`, with the columns user or query, item,
    `event`, and `time` where `until` is given; `graded` says what the options are. What comes back
    is what `evaluate` takes as qrels; items of no grade are left out.

    >>> log = pl.DataFrame({"user": [1, 1], "item": ["a", "a"], "event": ["view", "buy"]})
    >>> grade_events(log, {"view": 1, "buy": 3}).rows()
    [(1, 'a', 3.0)]
    """
    with session(con, log) as here:
        given = {"query": query, "item": item}
        table = assigned(here.table(log, "log"), given, ("query", "item"))
        needed = {"event": event} | ({} if until is None else {"time": time})
        for role, name in needed.items():
            if name not in table.columns:
                hint = did_you_mean(name, list(table.columns))
                raise RankqlError(f"log has no column {name!r}; name it: {role}='...'{hint}")
        options = {"cap": cap, "until": until, "within": within, "half_life": half_life}
        named = [f"{name} := {_sql(value)}" for name, value in options.items() if value is not None]
        if until is not None:
            named.append(f"moment := {quoted(time)}")
        arguments = [quoted(event), _mapping(grades), f"how := {_sql(how)}", *named]
        call = f"graded({', '.join(arguments)}, unknown := {_sql(unknown)})"
        keys = [quoted(table.roles[role]) for role in ("query", "item")]
        by = ", ".join(keys)
        order = ", ".join(f"{key} ASC NULLS LAST" for key in keys)
        sql = (
            f"FROM (\n    SELECT {by}, {call} AS rel\n    FROM {table.sql} GROUP BY {by}\n)\n"
            f"WHERE rel IS NOT NULL ORDER BY {order}"
        )
        with reporting():
            found = execute(here, sql, checked=True).pl()
        assert isinstance(found, pl.DataFrame)
        return found


def _mapping(grades: Mapping[str, float | None]) -> str:
    if not isinstance(grades, Mapping):
        kind = type(grades).__name__
        raise RankqlError(f"grades must be a dict of events and grades, not a {kind}")
    pairs = (f"{literal(str(name))}: {_sql(grade)}" for name, grade in grades.items())
    return f"MAP {{{', '.join(pairs)}}}"


def _sql(value: object) -> str:
    """An option as SQL."""
    if isinstance(value, datetime):
        return f"TIMESTAMP{'TZ' if value.tzinfo else ''} '{value}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    if isinstance(value, timedelta):
        return f"to_microseconds({value // timedelta(microseconds=1)})"
    return f"'{value}'::DOUBLE" if isinstance(value, float) else literal(value)

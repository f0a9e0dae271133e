"""From a log of events to judgments, in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rankql.errors import RankqlError, did_you_mean
from rankql.expressions.columns import is_pandas
from rankql.logs.grades import event_name, require_cap, require_grades
from rankql.logs.moments import decimal_as_float, is_finite
from rankql.logs.table_macros import value_sql
from rankql.macros import literal, quote
from rankql.registry.argument_checks import require, require_choice
from rankql.sources.macro_sql import fetch_frame
from rankql.sources.session import duckdb_errors, open_session
from rankql.sources.tables import Data, assign_roles
from rankql.text import join_words

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
) -> Any:
    """Turn a log of events into judgments: one grade per user (or query) and item.

    The log is a file, a table or a frame, as for `evaluate`, with the columns user or query, item,
    `event`, and `time` if `until` is given. If several columns could be the query, such as user and
    session_id, choose one: query='user'. The result is what `evaluate` takes as qrels, in
    polars, or in pandas for a pandas log.

    `grades` maps each event to its grade. An item gets the highest grade of its events, or with
    how="sum" their sum, at most `cap`. With `until`, events from that time on are left out, and
    with `within` also older events. With `half_life`, the grade of an event of age t
    is multiplied by 2^(-t / half_life). An event without a grade is an error, or has the grade
    `unknown`; None leaves it out. A NULL event, an impression without any action, has no grade.
    Items without any grade are unjudged and left out, as are events without a query (user) or an
    item. Events are text, whole numbers or booleans.

    >>> import polars as pl
    >>> log = pl.DataFrame({"user": [1, 1], "item": ["a", "a"], "event": ["view", "buy"]})
    >>> grade_events(log, {"view": 1, "buy": 3}).rows()
    [(1, 'a', 3.0)]
    """
    require_grades(grades, unknown)
    require_choice("how", how, "max", "sum")
    require_cap(cap)
    with open_session(con, log) as duckdb_session:
        names = {"query": query, "item": item}
        table = assign_roles(duckdb_session.table(log, "log"), names, ("query", "item"))
        for role, name in names.items():
            known = table.known(role)
            if name is None and len(known) > 1:
                listed = join_words(known)
                raise RankqlError(f"log has {listed}. Choose one: {role}={known[0]!r}")
        needed = {"event": event} | ({} if until is None else {"time": time})
        for role, name in needed.items():
            if name not in table.columns:
                hint = did_you_mean(name, list(table.columns))
                raise RankqlError(f"log has no column {name!r}. Pass {role}='...'{hint}")
        options = {"cap": cap, "until": until, "within": within, "half_life": half_life}
        options = {name: value for name, value in options.items() if value is not None}
        arguments_by_name = [
            f"{name} := {_value_sql(name, value)}" for name, value in options.items()
        ]
        if until is not None:
            arguments_by_name.append(f"moment := {quote(time)}")
        other = literal(unknown) if isinstance(unknown, str) else _value_sql("unknown", unknown)
        arguments = [
            quote(event),
            _grades_sql(grades),
            f"how := {literal(how)}",
            *arguments_by_name,
        ]
        call = f"graded({', '.join(arguments)}, unknown := {other})"
        keys = [quote(table.roles[role]) for role in ("query", "item")]
        by = ", ".join(f"rankql_key({key}) AS key{i}" for i, key in enumerate(keys))
        back = ", ".join(f"key{i}.value AS {key}" for i, key in enumerate(keys))
        sql = (
            f"SELECT {back}, rel FROM (\n"
            f"    SELECT {by}, {call} AS rel\n    FROM {table.sql}\n"
            f"    WHERE {' AND '.join(f'{key} IS NOT NULL' for key in keys)} GROUP BY ALL\n)\n"
            "WHERE rel IS NOT NULL ORDER BY key0 ASC NULLS LAST, key1 ASC NULLS LAST"
        )
        with duckdb_errors():
            judgments = fetch_frame(duckdb_session, sql, checked=True)
        return judgments.to_pandas() if is_pandas(log) else judgments


def _grades_sql(grades: Mapping[str, float | None]) -> str:
    pairs = (
        f"{literal(event_name(x))}: {_value_sql('grades', grade)}" for x, grade in grades.items()
    )
    return f"MAP {{{', '.join(pairs)}}}"


def _value_sql(name: str, value: object) -> str:
    """A time, a length of time or a number as SQL."""
    if isinstance(value, date | timedelta):
        return value_sql(value)
    finite, kind = value is None or is_finite(value), "datetime" if name == "until" else "timedelta"
    require(finite, f"{name} must be a finite number or a {kind}, not {value!r}")
    return "NULL" if value is None else f"'{decimal_as_float(value)}'::DOUBLE"

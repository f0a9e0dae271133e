"""From a log of events to judgments, in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rankql.errors import RankqlError, did_you_mean
from rankql.expressions.columns import is_pandas
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
import polars as pl

from rankql.expressions.columns import Column, as_float, column, refuse_values
from rankql.expressions.variants import metric
from rankql.logs.moments import Duration, Moment, weigh_by_moment
from rankql.logs.table_macros import table_function
from rankql.text import TEXT_TYPES


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


@metric(by=("user", "item"))
def graded(
    event: Column,
    grades: Mapping[str, float | None],
    how: str = "max",
    cap: float | None = None,
    moment: Column | None = None,
    until: Moment | None = None,
    within: Duration | None = None,
    half_life: Duration | None = None,
    unknown: str | float | None = "error",
) -> pl.Expr:
    """The grade of events by a mapping: the highest or the sum, optionally decaying with time.

    `grades` maps each event to its grade. The sum is at most `cap`. With `until`, events from that
    time on are left out, and with `within` also older events. With `half_life`, the
    grade of an event of age t is multiplied by 2^(-t / half_life). An event without a grade is an
    error, or has the grade `unknown`; None leaves it out. NULL if no event counts. Events are text,
    whole numbers or booleans. A month of an SQL INTERVAL is 30 days.

    >>> log = pl.DataFrame({"user": [1] * 3, "item": ["a", "a", "b"], "event": ["view", "buy", ""]})
    >>> log.pipe(graded, "event", {"view": 1, "buy": 3, "": 0}).sort("item").rows()
    [(1, 'a', 3.0), (1, 'b', 0.0)]
    """
    require_choice("how", how, "max", "sum")
    require(how == "sum" or cap is None, "cap is for how 'sum', not for 'max'")
    weight = weigh_by_moment(moment, until, within, half_life)
    value = weight * _event_grades(event, grades, unknown)
    if how == "max":
        return value.max()
    require_cap(cap)
    total = value.sum() if cap is None else value.sum().clip(upper_bound=float(cap))
    return pl.when(value.count() > 0).then(total)


def _event_grades(event: Column, grades: Mapping[str, float | None], unknown: object) -> pl.Expr:
    """The grade of each event."""
    require_grades(grades, unknown)
    strict = isinstance(unknown, str)
    names = [event_name(name) for name in grades]
    listed = ", ".join(names)

    def read_events(events: pl.Series) -> pl.Series:
        dtype = events.dtype
        fit = dtype.is_integer() or dtype in (*TEXT_TYPES, pl.Boolean, pl.Null)
        require(
            fit, f"event must be text, a whole number or a boolean, not {dtype}. Cast it to text"
        )
        events = events.cast(pl.String)
        if strict:
            for name in events.filter(~events.is_in(names) & events.is_not_null()).head(1):
                raise RankqlError(
                    f"event {name} has no grade. Add it to grades, or set unknown to a grade. "
                    f"Events with a grade: {listed}"
                )
        return events

    events = column(event).map_batches(read_events, pl.String, is_elementwise=True)
    other = None if strict or unknown is None else decimal_as_float(unknown)
    result = pl.lit(other, pl.Float64)
    if names:
        values = [None if grade is None else decimal_as_float(grade) for grade in grades.values()]
        result = events.replace_strict(names, values, default=other, return_dtype=pl.Float64)
    return pl.when(events.is_not_null()).then(result)


def require_grades(grades: Mapping[str, float | None], unknown: object) -> None:
    """The mapping of events to grades, and the grade of all others."""
    kind = type(grades).__name__
    require(isinstance(grades, Mapping), f"grades must be a dict of event: grade, not a {kind}")
    finite = all(grade is None or is_finite(grade) for grade in grades.values())
    require(finite, f"grades must be finite numbers, not {grades}")
    distinct = len({event_name(name) for name in grades}) == len(grades)
    require(distinct, f"grades must name an event once, as text, not {grades}")
    finite = unknown is None or (isinstance(unknown, str) and unknown == "error")
    require(
        finite or is_finite(unknown),
        f"unknown must be a grade or 'error', not {unknown}",
    )


def require_cap(cap: float | None) -> None:
    """The most that events add up to."""
    require(cap is None or is_finite(cap), f"cap must be a finite number, not {cap}")


def event_name(name: object) -> str:
    """An event as text, as a column of them is cast."""
    return str(name).lower() if isinstance(name, bool) else str(name)


@metric(by=("user", "item"))
def consensus(
    rel: Column = "rel", weight: Column | float = 1, how: str = "mean", ties: str = "low"
) -> pl.Expr:
    """One grade from several annotators: their weighted mean, median or majority.

    The median has half of the weight on either side; if two grades have, it is their mean. The
    majority is the grade with the largest weight; `ties` chooses the lowest ("low"), the highest
    ("high") or NULL ("null"). Weights that differ by less than 1e-9 of the total are equal. A NULL
    grade means that the annotator did not judge the item.

    >>> df = pl.DataFrame({"rel": [1, 2, 2, 5], "weight": [1, 1, 1, 4]})
    >>> df.select(consensus(), median=consensus(how="median"), w=consensus(weight="weight")).row(0)
    (2.5, 2.0, 3.5714285714285716)
    """
    require_choice("how", how, "mean", "median", "majority")
    require_choice("ties", ties, "low", "high", "null")
    grades, weights = as_float(rel), _label_weights(rel, weight)
    total = pl.when(weights.count() > 0).then(weights.sum())
    total_weight = total.map_batches(_require_positive, pl.Float64, is_elementwise=True)
    if how == "mean":
        return (grades * weights).sum() / total_weight
    votes = grades.filter(weights > 0)
    cumulative_weight = weights.filter(weights > 0).sort_by(votes).cum_sum()
    votes = votes.sort()
    if how == "median":
        low = votes.filter(cumulative_weight >= total_weight * (0.5 - _TOLERANCE)).min()
        return (low + votes.filter(cumulative_weight > total_weight * (0.5 + _TOLERANCE)).min()) / 2
    last = votes.ne_missing(votes.shift(-1))
    cumulative_weight = cumulative_weight.filter(last)
    weight_of_vote = cumulative_weight - cumulative_weight.shift(1, fill_value=0)
    winners = votes.filter(last).filter(
        weight_of_vote >= weight_of_vote.max() - total_weight * _TOLERANCE
    )
    single = pl.when(winners.len() == 1).then(winners.first())
    return {"low": winners.min(), "high": winners.max(), "null": single}[ties]


_TOLERANCE = 1e-9


def _label_weights(rel: Column, weight: Column | float) -> pl.Expr:
    """The weight of each label, NULL without a label."""

    def read_weights(rows: pl.Series) -> pl.Series:
        labels, raw = rows.struct.field("rel"), rows.struct.field("weight")
        fit = raw.dtype.is_numeric() or raw.dtype in (pl.Boolean, pl.Null)
        none = pl.repeat(None, len(raw), dtype=pl.Float64, eager=True)
        values = raw.cast(pl.Float64) if fit else none
        good = (values >= 0) & values.is_finite()
        missing = labels.is_null() & raw.is_null()
        bad = ~(good.fill_null(False) | missing)
        refuse_values("weight must be a finite number from 0", raw, bad)
        return values.set(labels.is_null(), None)

    raw = column(weight) if isinstance(weight, Column) else pl.lit(weight)
    rows = pl.struct(rel=column(rel), weight=raw)
    return rows.map_batches(read_weights, pl.Float64, is_elementwise=True)


def _require_positive(sums: pl.Series) -> pl.Series:
    require(not sums.eq(0).any(), "weight must not be 0 for all labels of a group")
    return sums


@table_function({"grade": "label", "n": pl.Int64, "share": pl.Float64})
def tally(frame: Data, label: Column = "rel", slice: Column | None = None) -> None:
    """Which grades there are, and how often; NULL is an item that nobody judged.

    >>> pl.DataFrame({"rel": [0, 2, 0, None]}).pipe(tally).rows()
    [(0, 2, 0.5), (2, 1, 0.25), (None, 1, 0.25)]
    """

"""Labels from logs: grades, consensus and agreement, weights, splits, documents of chunks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import polars as pl

from rankql.core.base.arrow import polars_to_pandas
from rankql.core.base.column_names import recognise
from rankql.core.base.errors import as_number, require
from rankql.core.expressions.checked_columns import Column, is_pandas
from rankql.core.expressions.in_duckdb import aggregate, compute, value_sql
from rankql.core.expressions.variants import macro, metric
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.candidates import assign_roles
from rankql.core.tables.reader import fetch_frame
from rankql.core.tables.session import duckdb_errors, open_session
from rankql.core.tables.tables import Data, Table
from rankql.logs.table_macros import Schema, only_time, table_function


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
    `event`, and `time` if `until` is given. If a log has sessions and users, a session is a query
    unless query='user'. The result is what `evaluate` takes as qrels, in polars, or in pandas for a
    pandas log.

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
    with open_session(con, log) as duckdb_session:
        names = {"query": query, "item": item}
        table = assign_roles(duckdb_session.table(log, "log"), names, ("query", "item"))
        if until is not None and time == "time" and time not in table.columns:
            time = _find_time(table) or time
        needed = {"event": event} | ({} if until is None else {"time": time})
        for role, name in needed.items():
            message = f"log has no column {name!r}. Pass {role}='...'"
            require(name in [*table.columns], message)
        moment = "NULL" if until is None else quote(time)
        options = {"cap": cap, "until": until, "within": within, "half_life": half_life}
        call = _graded(quote(event), moment, grades, how=how, unknown=unknown, **options)
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
        return polars_to_pandas(judgments) if is_pandas(log) else judgments


def _find_time(table: Table) -> str | None:
    """The column of the time by its name, or the only one of dates."""
    dates = [x for x, kind in table.columns.items() if kind.startswith(("DATE", "TIMESTAMP"))]
    dates = [x for x in dates if not table.columns[x].endswith("]")]
    keys = {role: table.roles[role] for role in ("query", "item")}
    return recognise("moment", [*table.columns]) or only_time(
        dates, keys, table.sql, table.session.value, "grade_events", "time"
    )


@metric(by=("user", "item"))
def graded(
    event: Column,
    grades: Mapping[str, float | None],
    how: str = "max",
    cap: float | None = None,
    moment: Column | None = None,
    until: date | datetime | float | None = None,
    within: timedelta | float | None = None,
    half_life: timedelta | float | None = None,
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
    options = {"cap": cap, "until": until, "within": within, "half_life": half_life}
    call = _graded("event", "moment", grades, how=how, unknown=unknown, **options)
    return aggregate(call, event=event, moment=moment)


def _graded(event: str, moment: str, grades: Mapping[str, float | None], **options: Any) -> str:
    """The call of the macro."""
    require_grades(grades, options["unknown"])
    pairs = (f"{literal(event_name(x))}: {value_sql(y)}" for x, y in grades.items())
    given = {n: str(x) if isinstance(x, bool) else x for n, x in options.items()}
    named = "".join(f", {name} := {value_sql(value)}" for name, value in given.items())
    return f"graded({event}, MAP {{{', '.join(pairs)}}}, moment := {moment}{named})"


def require_grades(grades: Mapping[str, float | None], unknown: object) -> None:
    """The mapping of events to grades, and the grade of all others."""
    kind = type(grades).__name__
    require(isinstance(grades, Mapping), f"grades must be a dict of event: grade, not a {kind}")
    finite = all(grade is None or math.isfinite(as_number(grade)) for grade in grades.values())
    require(finite, f"grades must be finite numbers, not {grades}")
    distinct = len({event_name(name) for name in grades}) == len(grades)
    require(distinct, f"grades must name an event once, as text, not {grades}")
    fit = unknown is None or unknown == "error" or math.isfinite(as_number(unknown))
    require(fit, f"unknown must be a grade or 'error', not {unknown}")


def event_name(name: object) -> str:
    """An event as text, as a column of them is cast."""
    return str(name).lower() if isinstance(name, bool) else str(name)


def grades_of(retrieved: Column = "retrieved", relevant: Column = "relevant") -> pl.Expr:
    """Grades of retrieved ids, in order: those of the relevant ids, and NULL for the others.

    `relevant` is a list of ids, which have grade 1, a struct {id: grade} (in SQL also a MAP), or a
    list of structs with an id (`id`, `item`) and a grade (`grade`, `rel`). The metrics of lists
    take the result: `list_ndcg(grades_of("retrieved", "relevant"), ideal=grades_of("relevant",
    "relevant"))`. NULL if one of both is NULL. An id that is retrieved twice is an error; if both
    arguments are equal, as for the ideal, it counts once. A relevant id may be there twice with one
    grade. A struct or MAP of retrieved ids is ordered by its values, the highest first.

    >>> rows = {"retrieved": [["a", "b", "c"]], "relevant": [["b", "z"]]}
    >>> pl.DataFrame(rows).select(grades_of())["grades_of"].to_list()
    [[None, 1.0, None]]
    """
    call, grades = "grades_of(retrieved, relevant)", pl.List(pl.Float64)
    return compute(call, grades, retrieved=retrieved, relevant=relevant).alias("grades_of")


@macro(by=("user", "item"))
def consensus(
    rel: Column = "rel", weight: Column | float = 1, how: str = "mean", ties: str = "low"
) -> None:
    """One grade from several annotators: their weighted mean, median or majority.

    The median has half of the weight on either side; if two grades have, it is their mean. The
    majority is the grade with the largest weight; `ties` chooses the lowest ("low"), the highest
    ("high") or NULL ("null"). Weights that differ by less than 1e-9 of the total are equal. A NULL
    grade means that the annotator did not judge the item.

    >>> df = pl.DataFrame({"rel": [1, 2, 2, 5], "weight": [1, 1, 1, 4]})
    >>> df.select(consensus(), median=consensus(how="median"), w=consensus(weight="weight")).row(0)
    (2.5, 2.0, 3.5714285714285716)
    """


@table_function({"grade": "label", "n": pl.Int64, "share": pl.Float64})
def tally(frame: Data, label: Column = "rel", slice: Column | None = None) -> None:
    """Which grades there are, and how often; NULL is an item that nobody judged.

    >>> pl.DataFrame({"rel": [0, 2, 0, None]}).pipe(tally).rows()
    [(0, 2, 0.5), (2, 1, 0.25), (None, 1, 0.25)]
    """


@table_function("split")
def leave_one_out(
    frame: Data,
    n: int = 1,
    query: Column = "user",
    item: Column = "item",
    moment: Column = "time",
    seen: str | None = None,
    basket: bool = False,
) -> None:
    """The log with `split`: test for the last event of each user, train for those before.

    With `n`, the last n events. Of events at the same time, those with the highest md5 of user and
    item as text come last, so that no item is always held out; with `basket`, test has all events
    of the last n times. Rows with the same time and item stay together. Users with nothing left to
    train on have no test events. With seen="drop", an event goes if its user had the item earlier:
    test then has the last new item. Times are timestamps, numbers or text of ISO 8601.

    >>> import polars as pl
    >>> log = pl.DataFrame({"user": [1, 1, 1, 2], "item": [*"abca"], "time": [1, 2, 3, 1]})
    >>> log.pipe(leave_one_out)["split"].to_list()
    ['train', 'train', 'test', 'train']
    """


@table_function("split")
def time_split(
    frame: Data,
    since: date | datetime | float | str | None = None,
    share: float | None = None,
    query: Column | None = None,
    item: Column | None = None,
    moment: Column = "time",
    seen: str | None = None,
) -> None:
    """The log with `split`: test from a time on, or for the last share of the rows, train before.

    Rows with the same time stay together. With `share`, test has as many of the latest times as
    make up at most this share of the rows, or with `query` of the rows of each user. The latest
    time is always in test, even if it has more than `share` of the rows, unless it is the only one.
    With seen="drop", an event goes if its user had the `item` earlier, before the rows are counted.
    Without it `item` changes nothing. Times are timestamps, numbers or text of ISO 8601.

    >>> import polars as pl
    >>> log = pl.DataFrame({"user": [1, 1, 1, 2], "time": [1, 2, 2, 3]})
    >>> log.pipe(time_split, since=2)["split"].to_list()
    ['train', 'test', 'test', 'test']
    >>> log.pipe(time_split, share=0.5)["split"].to_list()
    ['train', 'train', 'train', 'test']
    """


@table_function(None)
def collapsed(
    frame: Data,
    document: Column = "document",
    positions: str = "renumber",
    query: Column | None = "query",
) -> None:
    """The rankings with the best chunk of each document; the others are dropped.

    A row has a chunk, its `document` and its position `pos`. With positions='renumber', rows below
    a dropped one move up; with 'keep', its position stays empty. With query=None the table is one
    ranking. In `evaluate`, collapse= does the same.

    >>> import polars as pl
    >>> chunks = pl.DataFrame({"query": [1, 1, 1], "document": [*"aab"], "pos": [1, 2, 3]})
    >>> chunks.pipe(collapsed).rows()
    [(1, 'a', 1), (1, 'b', 2)]
    >>> chunks.pipe(collapsed, positions="keep").rows()
    [(1, 'a', 1), (1, 'b', 3)]
    """


_RESULT = pl.Struct(dict.fromkeys(("mean", "lo", "hi", "n_eff"), pl.Float64))


@metric(by=None)
def weighted_mean(
    value: Column = "value", weight: Column = "weight", confidence: float = 0.95
) -> pl.Expr:
    """Weighted mean with its confidence interval and the effective number of rows.

    A struct of mean = sum(weight * value) / sum(weight), the ends lo and hi of Student's t interval
    with the jackknife's standard error, and n_eff = sum(weight)^2 / sum(weight^2). Weights are
    traffic, revenue, or 1 / the probability that the row was sampled; a row of weight 0 does not
    count. Rows without a value are left out. With equal weights, the interval is that of Student's
    t. lo and hi are NULL with fewer than 2 rows. Kish 1965; Bell and McCaffrey 2002.

    >>> values = pl.DataFrame({"value": [0.2, 0.5, 0.9], "weight": [3, 2, 1]})
    >>> values.select(weighted_mean().struct.unnest().round(4)).row(0)
    (0.4167, -0.7357, 1.569, 2.5714)
    """
    call = f"weighted_mean(value, weight, {value_sql(confidence)})"
    return aggregate(call, _RESULT, value=value, weight=weight)


_COUNTS = dict.fromkeys(("units", "labels", "single"), pl.Int64)
_PAIR: Schema = dict.fromkeys(("annotator", "other"), "annotator")


@table_function({"krippendorff_alpha": pl.Float64, **_COUNTS})
def krippendorff_alpha(
    frame: Data,
    level: str = "ordinal",
    unit: Column | Sequence[Column] = "unit",
    annotator: Column | None = "annotator",
    label: Column | Sequence[Column] = "label",
    slice: Column | None = None,
) -> None:
    """Krippendorff's alpha: how far annotators agree beyond chance; labels may be missing.

    Alpha is 1 - (mean disagreement of two labels of the same unit) / (mean disagreement of any two
    labels). A unit may be several columns, such as ["query", "item"] (a struct in SQL).
    label=["ann", "bo"] names columns with the labels of one annotator each. Units with one label do
    not count; `single` is their number. `level` defines the disagreement of two
    labels:

    - "nominal": 1 if they differ.
    - "ordinal": the squared difference of their mean ranks. Use it for grades.
    - "interval": their squared difference.
    - "ratio": their squared difference divided by their sum, for labels from 0. The time grows
      with the square of the number of distinct labels.

    NULL if all labels are equal. Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.

    >>> df = pl.DataFrame({"unit": [1, 1, 2, 2], "annotator": [*"abab"], "label": [1, 1, 2, 3]})
    >>> df.pipe(krippendorff_alpha, "nominal").rows()
    [(0.4, 2, 4, 0)]
    """


@table_function({**_PAIR, "cohen_kappa": pl.Float64, "units": pl.Int64})
def cohen_kappa(
    frame: Data,
    weights: str = "none",
    unit: Column | Sequence[Column] = "unit",
    annotator: Column = "annotator",
    label: Column | Sequence[Column] = "label",
    slice: Column | None = None,
) -> None:
    """Cohen's kappa of every two annotators: how far they agree beyond chance.

    Kappa is 1 - (mean distance of their labels of the same unit) / (mean distance of any label of
    one to any label of the other), over the units that both have labelled. The distance of two
    labels is 1 if they differ (weights="none"), their difference ("linear") or its square
    ("quadratic"). A unit may be several columns, such as ["query", "item"] (a struct in SQL).
    label=["ann", "bo"] names columns with the labels of one annotator each; rows are then units.
    NULL if both always give the same label. Cohen 1960, 1968.

    >>> df = pl.DataFrame({"unit": [1, 1, 2, 2], "annotator": [*"abab"], "label": [1, 1, 2, 3]})
    >>> df.pipe(cohen_kappa).rows()
    [('a', 'b', 0.33333333333333337, 2)]
    """

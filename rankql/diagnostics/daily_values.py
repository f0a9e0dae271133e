"""Values by day for `monitor`: means of metrics, and numbers of your own, by query or day."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import polars as pl

from rankql.core.base import text
from rankql.core.base.errors import Question, RankqlError, normal_z, require
from rankql.core.evaluation.evaluate import evaluate
from rankql.core.evaluation.means.means import COUNTED, ERROR
from rankql.core.evaluation.result.result import Result
from rankql.core.metrics import parse
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING, quote
from rankql.core.tables.tables import Table, is_nested, require_column
from rankql.features.values import VALUES, describe_commas, is_number_column, read_values

KEYS = ["slice", "metric", "kind"]
WEEK = f"{INTERNAL_PREFIX}week"
# The kinds of series that are watched, and two that explain alarms.
METRIC, SHARE, UNDEFINED = WATCHED = ("metric", "judged share", "undefined share")
JUDGED, QUERIES = "judged items only", "queries"
_ROW = f"{INTERNAL_PREFIX}row"
# How a day may be written beside 2026-11-03 and 2026/11/03.
WRITTEN = ("%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m-%d-%Y", "%d-%m-%Y")
# A last day with a smaller share of the usual queries has not ended, if the day before has more.
INCOMPLETE = 0.1
# A day or week of a slice with fewer queries is not compared: its mean is too far from normal.
LEAST_QUERIES = 10


def find_daily_values(table: Table, used: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """The metrics of a table of values; none if it has items, grades, positions or scores.

    used: the columns of the day, the query and the slices, as the caller names them.
    """
    known = [*itertools.chain(*map(table.known, ("item", "rel", "score", "pos")))]
    others = [x for x in table.columns if x not in metrics and x != MISSING]
    others = [x for x in others if x.lower() not in {*map(str.lower, used)}]
    if not {*known}.isdisjoint(others) or any(is_nested(table.columns[x]) for x in others):
        return []
    if metrics and all(parse.is_metric(x) and not table.has(x) for x in metrics):
        return []  # of rankings, whose columns are asked about
    numbers = [x for x in others if is_number_column(table, x)]
    texts = [x for x in metrics or others if table.columns.get(x) == "VARCHAR"]
    if wrong := texts if metrics else others * (not numbers):
        listed = text.join_words([f"{name} is {table.columns[name]}" for name in wrong])
        cast = ". Cast the metric to DOUBLE, or name the item of rankings: item="
        call = describe_commas(table, wrong) or cast
        percent = "coalesce(bool_and(regexp_full_match(trim({}), '-?[0-9.]+ ?%')), false)".format
        tests = ", ".join(["1", *map(percent, map(quote, texts))])
        are = table.row(tests)[1:]
        if names := [repr(x) for x, y in zip(texts, are, strict=True) if y]:
            call = f". Read percents: days.with_columns(pl.col({', '.join(names)})"
            call += ".str.strip_chars(' %').cast(pl.Float64))"
        raise RankqlError(f"days has no column of numbers: {listed}{call}")
    return [*metrics] if metrics and (numbers or table.has(metrics[0])) else numbers


def ask_about_days(
    run: Table, day: str, qrels: Any, metrics: Any, options: Mapping[str, Any]
) -> None:
    """Raise the question that evaluate has about the columns of all days, or of the last."""
    columns = {x: kind for x, kind in run.columns.items() if x != run.actual_name(day)}
    sql = f"SELECT {', '.join(map(quote, columns))} FROM {run.sql}"
    last = f"{sql} WHERE {quote(day)} = (SELECT max({quote(day)}) FROM {run.sql})"
    for rows in (sql, last):
        table = replace(run, label="run", sql=f"({rows})", columns=columns)
        try:
            evaluate(table, qrels, metrics or "nDCG@10", con=run.session.con, **options)
        except Question as question:
            if question.calls or rows is last:
                raise


def read_daily_values(
    table: Table, metrics: Sequence[str], day: str, query: str, by: Sequence[Sequence[str]],
    weekly: bool,
) -> tuple[Result, bool]:  # fmt: skip
    """The means of values by day and slice, and whether a row is a query. Otherwise it is a day."""
    by = [[require_column(table, name, "by") for name in group] for group in by]
    attributes = dict.fromkeys(itertools.chain(*by))
    metrics = [require_column(table, name, "metrics") for name in metrics]
    is_query = table.has(query) and table.actual_name(query) not in (day, *metrics)
    require(is_query or len(by) < 2, "days has no query, so by= must be one slicing. Cross the "
            "attributes, by=[['a', 'b']], or name the query: query=")  # fmt: skip
    keys = [day, table.actual_name(query)] if is_query else [day, *attributes]
    names = ", ".join(map(quote, keys))
    twice = f" GROUP BY {names} HAVING count(*) > 1 ORDER BY ALL LIMIT 1"
    for row in table.rows(names, twice):
        place = ", ".join(f"{name} {value}" for name, value in zip(keys, row, strict=True))
        free = [x for x in table.columns if x not in (*keys, *metrics)]
        counts = [f"count(DISTINCT ({names}, {quote(x)})) = count(*)" for x in free]
        found = table.row(", ".join(counts)) if free else ()
        ids = [name for name, is_id in zip(free, found, strict=True) if is_id]
        ((most,),) = table.rows("count(*)", f" GROUP BY {names} ORDER BY 1 DESC LIMIT 1")
        roles = ("query", "by") if most >= LEAST_QUERIES else ("by",)
        raise Question(
            f"days has several rows for {place}. Each is a query or a slice, or some are too "
            "many", [{role: name} for name in ids for role in roles],
            otherwise="Pass the column of the query or of the slices, by query= or by=",
        )  # fmt: skip
    columns = {name: quote(name) for name in (day, *attributes, *metrics)} | {
        _ROW: f"concat({quote(day)}, ', ', row_number() OVER ())"
    }
    if weekly:
        columns[day] = f"CAST(date_trunc('week', CAST({quote(day)} AS DATE)) AS DATE)"
    sql = f"(SELECT {', '.join(f'{x} AS {quote(name)}' for name, x in columns.items())}"
    kinds = {**table.columns, _ROW: "VARCHAR", **({day: "DATE"} if weekly else {})}
    rows = replace(table, sql=f"{sql} FROM {table.sql})", columns={x: kinds[x] for x in columns})
    result = read_values(rows, query=_ROW, metrics=metrics, con=table.session.con)
    slices = [[day], *([day, *group] for group in by)]
    meta = replace(result.meta, groupings=slices if is_query else slices[-1:])
    return result.derive(meta=meta), is_query


def read_means(result: Result, prefix: int) -> pl.DataFrame:
    """One row per day, slice and series: its mean with its interval, error and queries."""
    n, u, part = pl.col("queries"), pl.col("undefined"), pl.col("slice").str.slice(prefix + 13)
    share = pl.col("metric").str.contains("^Judged(@[0-9]+)?$")
    # Few values may be equal by chance, and clusters have an error of their own.
    half = pl.max_horizontal(pl.col("hi") - pl.col("mean"), pl.col("mean") - pl.col("lo"))
    error = half / normal_z(0.95)
    if result.meta.cluster is None:
        error = pl.coalesce(ERROR, error)
    day = pl.col("slice").str.extract(f"^.{{{prefix}}}=(.{{10}})(,|$)")
    frame = result.means.filter(pl.col("slice") != "all").select(
        "metric", "mean", "lo", "hi", n, u, error=error, counted=COUNTED,
        day=pl.coalesce(day.str.to_date(form, strict=False) for form in ("%Y-%m-%d", "%Y/%m/%d")),
        slice=pl.when(part == "").then(pl.lit("all")).otherwise(part),
        kind=pl.when(share).then(pl.lit(SHARE)).otherwise(pl.lit(METRIC)),
    )  # fmt: skip
    sizes = frame.group_by("day", "slice", maintain_order=True).agg(n.max(), u.max())
    shares = [sizes.with_columns(metric=pl.lit(kind), kind=pl.lit(kind), mean=mean, error=error)
              for kind, mean, error in (
                  (UNDEFINED, u / n, ((u + 1) * (n - u + 1) / (n + 2) ** 3).sqrt()),
                  (QUERIES, n.log(), n**-0.5))]  # fmt: skip
    # Own values that all lie in 0 to 1 are shares, so their means do too.
    own = [x for x in result.metrics if not parse.is_metric(x)] if VALUES in result.columns else []
    rows = result.frame().select(pl.col(x).is_between(0, 1).all() for x in own) if own else None
    units = [x for x in own if rows is not None and rows[x][0]]
    ends = (pl.when(pl.col("metric").is_in(units)).then(pl.col(x).clip(0, 1)).otherwise(x).alias(x)
            for x in ("lo", "hi"))  # fmt: skip
    frame = pl.concat([frame.with_columns(ends), *shares], how="diagonal")
    return frame.with_columns(queries=pl.coalesce("counted", n))


def find_complete_weeks(daily: pl.DataFrame, result: Result) -> pl.DataFrame:
    """The weeks, and whether they have as many days as is usual."""
    if "days" not in daily.columns:  # a row is a query, of which the key begins with the day
        day = pl.col(result.meta.query).str.head(10)
        days = (day.filter(pl.col(x).is_not_null()).n_unique().alias(x) for x in result.metrics)
        counts = result.frame().group_by(pl.col(result.meta.by[0]).alias(WEEK)).agg(days)
        counts = counts.unpivot(index=WEEK, variable_name="metric", value_name="days")
        daily = daily.join(counts, how="left", left_on=["day", "metric"],
                           right_on=[WEEK, "metric"], maintain_order="left")  # fmt: skip
        most = pl.col("days").max().over("day")
        daily = daily.with_columns(pl.col("days").fill_null(most))
    usual = pl.col("days").mode().min().over(KEYS)
    return daily.with_columns(complete=pl.col("days") >= usual)


def drop_incomplete_day(daily: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The days without a last one that has hardly begun, and a note on it."""
    sizes = (
        daily.filter(slice="all", kind=METRIC).group_by("day").agg(pl.max("queries")).sort("day")
    )
    if len(sizes) < 8 or sizes["queries"].null_count():
        return daily, []
    day: date = sizes["day"][-1]
    count, before = sizes["queries"][-1], sizes["queries"][:-1].tail(28)
    usual: Any = before.median()
    if count >= INCOMPLETE * usual or before[-1] < INCOMPLETE * usual:
        return daily, []
    few = text.format_queries(count)
    note = f"{day} is incomplete and left out: it has {few}, a usual day has {usual:,.0f}"
    return daily.filter(pl.col("day") < day), [note]


def share_name(metric: str) -> str:
    """The share of judged items in the top k of a metric."""
    return "Judged" + "".join(re.findall(r"@\d+$", metric))


def find_times(table: Table) -> list[str]:
    """The columns of dates and times; of a text file, those whose values can be read as dates."""
    texts = [name for name, kind in table.columns.items() if table.text and kind == "VARCHAR"]
    checks = (
        f"count({x}) > 0 AND count(try_cast({x} AS DATE)) = count({x})" for x in map(quote, texts)
    )
    are_dates = table.row(", ".join(checks)) if texts else ()
    dates = [name for name, is_date in zip(texts, are_dates, strict=True) if is_date]
    return [x for x, kind in table.columns.items() if kind.startswith(("DATE", "TIMEST"))] + dates


def find_written_day(table: Table, day: str) -> str | None:
    """The expression of a column of texts such as 03/28/2026, of which a value above 12 is the day.

    It is asked which is the day if there is none. Looked at are `day` or date, or all texts if
    there is no such column, and none of times.
    """
    own = next((table.actual_name(x) for x in (day, "date") if table.has(x)), None)
    if own is None and find_times(table):
        return None
    names = [own] if own else [*table.columns]
    for name in [x for x in names if table.columns[x] == "VARCHAR"]:
        reads = (f"count(try_strptime({quote(name)}, '{x}'))" for x in WRITTEN)
        total, *counts = table.row(f"count({quote(name)}), {', '.join(reads)}")
        fit = [form for form, count in zip(WRITTEN, counts, strict=True) if count == total > 0]
        calls = [f"CAST(strptime({quote(name)}, '{form}') AS DATE)" for form in fit]
        if len(calls) > 1:
            asked = f"days: is the month or the day first in {name}?"
            raise Question(asked, [{"day": call} for call in calls])
        if calls:
            return calls[0]
    return None


def cut_to_day(table: Table, day: str) -> tuple[Table, str]:
    """The table with timestamps cut to their dates, and what the day is then."""
    kind, name = table.columns[day], quote(day)
    is_time, has_zone, time = kind.startswith("TIMESTAMP"), kind.endswith("ZONE"), day
    if kind == "VARCHAR":
        dates = f"bool_and(try_cast({name} AS DATE) IS NOT NULL) FILTER ({name} IS NOT NULL)"
        zone = f"bool_or(regexp_matches({name}, ':[0-9.]+ ?(Z|[+-][0-9:]+)$'))"
        is_time, has_zone = table.row(f"{dates} AND max(length({name})) > 10, {zone}")
        time = f"CAST({day} AS TIMESTAMPTZ)"
    if not is_time:
        return table, day
    cast = f"CAST({time} AT TIME ZONE 'Europe/Berlin' AS DATE)"
    require(not has_zone, f"days: {day} has times with a zone, of which the day is not known. Pass "
            f'day="{cast}", with the zone of your users')  # fmt: skip
    return table.with_values(day, f"CAST({name} AS DATE)", "DATE"), f"CAST({day} AS DATE)"


def add_day(table: Table, run: Table, day: str, query: str) -> Table:
    """A table with the day: its rows of the queries that each day has."""
    if table.has(day):
        return cut_to_day(table, table.actual_name(day))[0]
    own = table.find("query", query) or query
    named = "" if own == query else f", {quote(own)} AS {quote(query)}"
    sql = (f"(SELECT t_.*, d_ AS {quote(day)}{named} FROM {table.sql} AS t_ JOIN (SELECT DISTINCT "
           f"{quote(day)} AS d_, CAST({quote(query)} AS VARCHAR) AS q_ FROM {run.sql}) ON q_ = "
           f"CAST({quote(own)} AS VARCHAR))")  # fmt: skip
    columns = {**table.columns, day: run.columns[day], query: table.columns.get(own, "VARCHAR")}
    return replace(table, sql=sql, columns=columns)

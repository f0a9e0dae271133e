"""`interval="anytime"`: what it supports, the order in which queries came, and its line.

It needs numpy, so import it inside functions.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import duckdb
import polars as pl

from rankql.core.base import text
from rankql.core.base.errors import RankqlError, require, require_package
from rankql.core.evaluation.means.means import metric_range
from rankql.core.evaluation.plan.meta import Meta
from rankql.core.evaluation.result.result import Result
from rankql.core.metrics.macros import literal
from rankql.core.tables.frames import fetch_rows, read_frame, register_frame
from rankql.core.tables.private import private_connection
from rankql.core.tables.reader import OFFSET
from rankql.core.tables.request import Request
from rankql.core.tables.tables import quote_name

# A column of times, or False: the queries are shuffled once.
Time: TypeAlias = str | bool | None
_WHY = {
    "cluster": "queries of one cluster do not come at random. Keep one query of each",
    "weight": "each query is one bet. Leave out one of them",
    "mean": "a mean of slices has no order of queries. Leave out one of them",
    "judge": "a correction changes with every query. Leave out one of them",
    "test": "it is a test of its own. Leave out one of them",
    "correction": "slices share the level by Bonferroni. Leave out one of them",
    "min_queries": "its level would depend on the data. Leave out one of them",
}


def require_order(request: Request) -> None:
    """Refuse what `require_anytime` refuses of an evaluation."""
    names = ("cluster", "weight", "mean", "judge")
    others = {name: getattr(request, name) for name in names}
    require_anytime(request.interval, request.time, **others)


def require_random(_: Request, result: Result) -> Result:
    """The result. Refuses values that did not come at random, which its means show."""
    _means = result.means
    return result


def require_anytime(interval: str | None, time: Time, **others: Any) -> None:
    """Refuse anytime intervals without an order, an order without them, and other options.

    Without intervals, times are kept with the values per query.
    """
    wrong = f"time must be the name of a column or False, not {time!r}"
    require(time is None or time is False or isinstance(time, str), wrong)
    if interval != "anytime":
        alone = "time= is the order of queries for interval='anytime'. Pass both or none of them"
        require(time is None or interval is None, alone)
        return
    require_package("numpy", "stats", "interval='anytime'")
    require(
        time is not None,
        "interval='anytime' needs the order in which queries came. Pass time= with a column of "
        "their times, or time=False for a set of queries that does not grow",
    )
    for name, value in others.items():
        if value is not None:
            raise RankqlError(f"interval='anytime' does not support {name}=: {_WHY[name]}")


def require_one_mean(meta: Meta, systems: int, most: int = 1) -> None:
    """Refuse several metrics, too many systems, and metrics without values between known ends.

    And the weights and clusters of results.
    """
    require_anytime("anytime", False, cluster=meta.cluster, weight=meta.weight)
    few = "one system" if most == 1 else "one system and its baseline"
    remedy = "Compare two with compare" if most == 1 else "Compare two at a time"
    require(systems <= most, f"interval='anytime' is for {few}, not {systems} systems. {remedy}")
    listed = text.list_names(meta.metrics)
    one = f"interval='anytime' does not support several metrics ({listed}). Choose one"
    require(len(meta.metrics) < 2, one)
    for name in meta.metrics:
        why = "" if all(map(math.isfinite, metric_range(name))) else "no lowest or no highest value"
        if name in (*meta.catalogue, *meta.metric_weights):
            why = "one value for all queries"
        other = "Choose another metric, such as nDCG@10"
        require(not why, f"interval='anytime' does not support {name}, which has {why}. {other}")


def sort_by_arrival(
    queries: pl.DataFrame, key: str, time: Time, missing: pl.Series
) -> pl.DataFrame:
    """The queries in the order in which they came; those of one time by a hash that never changes.

    Text is read as times, or else as numbers. Without times, the hash alone decides. `missing` are
    the queries that no run has.
    """
    moment = pl.col(time) if isinstance(time, str) else pl.lit(0)
    rows = queries.select(pl.row_index("place"), pl.col(key).alias("id"), moment.alias("time"))
    is_text, word = rows.schema["time"] in text.TEXT_TYPES, "CAST(time AS VARCHAR)"
    orders = ["try_cast(time AS TIMESTAMP)", "try_cast(time AS DOUBLE)"] if is_text else ["time"]
    with private_connection(threads=1) as con:
        register_frame(con, "rows", rows)
        unknown = rows.filter(pl.col("time").is_null() & pl.col("id").is_in(missing.implode()))
        for query in unknown["id"].sort().head(1):
            raise RankqlError(
                f"time: {time} is NULL for query {query!r}, which is judged, but no run has it. "
                "missing='skip' leaves such queries out, or pass their times in attributes="
            )
        if is_text and _has_offsets(con, str(time)):
            orders = ["try_cast(time AS TIMESTAMPTZ)"]
        for order in orders:
            lacking = f"{order} IS NULL OR lower({word}) = 'nan'"
            wrong = fetch_rows(
                con, f"SELECT id, {word} FROM rows WHERE {lacking} ORDER BY 1 LIMIT 1"
            )
            if not wrong:
                break
        for query, value in wrong:
            raise RankqlError(
                f"time: {time} is {'NULL' if value is None else repr(value)} for query {query!r}, "
                "but must be a time or a number. Fill it, for example in attributes=, or pass an "
                f"SQL expression, such as time=\"strptime({time}, '%d.%m.%Y')\""
            )
        counts = f"SELECT count(DISTINCT {order}), min({word}) FROM rows"
        ((several, one),) = fetch_rows(con, counts)
        require(
            several > 1 or not time or len(rows) < 2,
            f"time: {time} is {one} for all queries, so their order is not known. Pass another "
            "column, or time=False for a set of queries that does not grow",
        )
        by = f"{order} ASC, md5(CAST(id AS VARCHAR)) ASC"
        return queries[read_frame(con, f"SELECT place FROM rows ORDER BY {by}")["place"]]


def _has_offsets(con: duckdb.DuckDBPyConnection, time: str) -> bool:
    """Are texts moments, with an offset or Z after the time of day? Refuse both kinds at once."""
    own = f"regexp_matches(time, {literal(OFFSET)})"
    other = f"NOT {own} AND try_cast(time AS TIMESTAMP) IS NOT NULL"
    first = (f"min(id) FILTER ({x}), min_by(time, id) FILTER ({x})" for x in (own, other))
    ((query, moment, other_query, local),) = fetch_rows(con, f"SELECT {', '.join(first)} FROM rows")
    if moment is not None and local is not None:
        name = quote_name(time)
        is_moment = f"regexp_matches({name}, '(Z|[+-]\\d\\d:?\\d\\d)$')"
        utc = f"CAST(CASE WHEN {is_moment} THEN {name} ELSE {name} || 'Z' END AS TIMESTAMPTZ)"
        raise RankqlError(
            f"time: {time} is {moment!r} for query {query!r}, and {local!r} for query "
            f'{other_query!r}, whose time zone is not known. If it is UTC, pass time="{utc}"'
        )
    return moment is not None


def describe_anytime(time: Time, width: float, fixed: float, means: int = 1) -> str:
    """How wide an interval is against that of one look, if both are known, and what it needs."""
    ratio = width / fixed if fixed else math.nan
    wide = f"; {ratio:.1f} times as wide as for one look" if 0 < ratio < math.inf else ""
    by_hash = "shuffled once by a hash of their ids, if none are added"
    order = f"in the order of {time}, if they come at random" if time else by_hash
    shared = f"; {text.format_count(means, 'mean')} share the level" if means > 1 else ""
    return f"valid at every number of queries, {order}{wide}{shared}"

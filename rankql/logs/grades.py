"""From events and annotators to grades, which are the `rel` of every metric."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from rankql.errors import RankqlError, did_you_mean
from rankql.expressions.columns import Column, as_float, column, refuse_values
from rankql.expressions.variants import metric
from rankql.logs.table_macros import table_function, value_sql
from rankql.macros import quote
from rankql.registry.argument_checks import require, require_choice
from rankql.sources.macro_sql import execute
from rankql.sources.session import duckdb_errors, open_session
from rankql.sources.tables import Data, assign_roles

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
    """Turn a log of events into judgments: one grade per user (or query) and item.

    The log is a file, a table or a frame, as for `evaluate`, with the columns user or query, item,
    `event`, and `time` if `until` is given. If several columns could be the query, such as user and
    session_id, choose one: query='user'. The result is what `evaluate` takes as qrels.

    `grades` maps each event to its grade. An item gets the highest grade of its events, or with
    how="sum" their sum, at most `cap`. With `until`, events from that time on are left out, and
    with `within` those that are older than that. With `half_life`, the grade of an event of age t
    is multiplied by 2^(-t / half_life). An event without a grade is an error, or has the grade
    `unknown`; None leaves it out. A NULL event, an impression without any action, has no grade.
    Items without any grade are unjudged and left out. Events are text, whole numbers or booleans.

    >>> log = pl.DataFrame({"user": [1, 1], "item": ["a", "a"], "event": ["view", "buy"]})
    >>> grade_events(log, {"view": 1, "buy": 3}).rows()
    [(1, 'a', 3.0)]
    """
    kind = type(grades).__name__
    require(isinstance(grades, Mapping), f"grades must be a dict of event: grade, not a {kind}")
    with open_session(con, log) as session:
        names = {"query": query, "item": item}
        table = assign_roles(session.table(log, "log"), names, ("query", "item"))
        for role, name in names.items():
            known = table.known(role)
            if name is None and len(known) > 1:
                listed = " and ".join(known)
                raise RankqlError(f"log has {listed}. Choose one: {role}={known[0]!r}")
        for role, name in {"event": event, **({} if until is None else {"time": time})}.items():
            if name not in table.columns:
                hint = did_you_mean(name, list(table.columns))
                raise RankqlError(f"log has no column {name!r}; pass {role}='...'{hint}")
        pairs = (f"{value_sql(_event_text(x))}: {value_sql(grades[x])}" for x in grades)
        options = {"how": how, "cap": cap, "until": until, "within": within}
        options |= {"half_life": half_life, "unknown": unknown}
        arguments = [quote(event), f"MAP {{{', '.join(pairs)}}}"]
        arguments += [f"{name} := {value_sql(value)}" for name, value in options.items()]
        arguments += [] if until is None else [f"moment := {quote(time)}"]
        keys = [quote(table.roles[role]) for role in ("query", "item")]
        by = ", ".join(f"rankql_key({key}) AS key{i}" for i, key in enumerate(keys))
        back = ", ".join(f"key{i}.value AS {key}" for i, key in enumerate(keys))
        sql = (
            f"SELECT {back}, rel FROM (\n"
            f"    SELECT {by}, graded({', '.join(arguments)}) AS rel\n"
            f"    FROM {table.sql} GROUP BY ALL\n)\n"
            "WHERE rel IS NOT NULL ORDER BY key0 ASC NULLS LAST, key1 ASC NULLS LAST"
        )
        with duckdb_errors():
            judgments: pl.DataFrame = execute(session, sql, checked=True).pl()
        return judgments


def _event_text(event: object) -> str:
    """An event as text, as DuckDB casts a column of them."""
    return str(event).lower() if isinstance(event, bool) else str(event)


@metric(by=("user", "item"))
def consensus(
    rel: Column = "rel", weight: Column | float = 1, how: str = "mean", ties: str = "low"
) -> pl.Expr:
    """One grade from those of several annotators: their weighted mean, median or majority.

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
    """The weight of each label, NULL if there is no label."""

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

"""The weights of queries: their checks and their line in the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from rankql.errors import RankqlError
from rankql.macros import MISSING, quote
from rankql.text import format_queries

# A weight that is more than this times the sum of all others leaves nothing of them in a sum. It is
# a number of sql/weights.sql too.
MOST_ODDS = 1e10


def check_weights(con: duckdb.DuckDBPyConnection, meta: Mapping[str, Any]) -> None:
    """Refuse weights that are NULL, negative or infinite, and weights that are all 0."""
    name, rows = meta["weight"], _rows(meta)
    wrong = "weight IS NULL OR NOT isfinite(weight) OR weight < 0"
    sql = f"SELECT key, weight FROM ({rows}) WHERE {wrong} ORDER BY key LIMIT 1"
    for query, value in con.sql(sql).fetchall():
        if value is None:
            raise RankqlError(
                f"weight: {name} is NULL for query {query!r}. Give every query a weight, for "
                "example in attributes=, or 0 if it does not count"
            )
        raise RankqlError(
            f"weight: {name} must be a finite number from 0, not {value:g}, the weight of query "
            f"{query!r}"
        )
    above = "FILTER (WHERE weight > 0)"
    ends = f"max(weight), min(weight) {above}, fsum(weight) - max(weight), count(*) {above}"
    ((most, least, others, count),) = con.sql(f"SELECT {ends} FROM ({rows})").fetchall()
    if most == 0:
        raise RankqlError(
            f"weight: {name} is 0 for every query, so nothing counts. Name a column with weights "
            "above 0"
        )
    if most is not None and (most > 1e100 or least < 1e-100):
        raise RankqlError(
            f"weight: {name} must be 0 or from 1e-100 to 1e100, not "
            f"{most if most > 1e100 else least:g}. Only ratios matter: divide all by the same "
            "number"
        )
    if count > 1 and most > MOST_ODDS * others:
        raise RankqlError(
            f"weight: {name} is {most:g} for one query, over {MOST_ODDS:.0e} times as much as for "
            "all others together, so only this query counts. Correct its weight"
        )


def describe_weights(con: duckdb.DuckDBPyConnection, meta: Mapping[str, Any]) -> str:
    """The effective number of queries, and the number of those that do not count."""
    columns = "count(*), count(*) FILTER (WHERE weight = 0)"
    columns += ", count(*) FILTER (WHERE weight > 0 AND NOT defined)"
    effective = "pow(fsum(weight), 2) / fsum(weight * weight)"
    sql = f"SELECT {columns}, (SELECT {effective} FROM ({_rows(meta)}) WHERE defined)"
    ((queries, idle, undefined, number),) = con.sql(f"{sql} FROM ({_rows(meta)})").fetchall()
    text = (
        f"Weights: {meta['weight']}. {format_queries(queries)} "
        f"{'weighs' if queries == 1 else 'weigh'} as much as about {number or 0:,.0f} with equal "
        "weights (n_eff)"
    )
    for count, what in ((idle, "of weight 0"), (undefined, "without a value")):
        if count:
            does = "does" if count == 1 else "do"
            text += f"; {format_queries(count)} {what} {does} not count"
    return text


def _rows(meta: Mapping[str, Any]) -> str:
    """One row per query that is not missing: its key, weight and whether it has a value."""
    kept = f"WHERE NOT {MISSING}" if meta["conventions"]["missing"] == "skip" else ""
    key, weight = quote(meta["query"]), f"CAST({quote(meta['weight'])} AS DOUBLE)"
    # An undefined value weighs in a mean over all queries at once.
    counted = meta["conventions"]["undefined"] == "zero" or meta["weights"]
    values = ", ".join(map(quote, meta["metrics"]))
    defined = "true" if counted else f"bool_or(coalesce({values}) IS NOT NULL)"
    columns = f"{key} AS key, {weight} AS weight, {defined} AS defined"
    return f"SELECT {columns} FROM rows {kept} GROUP BY ALL"

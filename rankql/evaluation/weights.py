"""The weights of queries: their checks and their line in the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from rankql.errors import RankqlError
from rankql.macros import MISSING, quote
from rankql.text import format_queries


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
    if con.sql(f"SELECT max(weight) FROM ({rows})").fetchall()[0][0] == 0:
        raise RankqlError(
            f"weight: {name} is 0 for every query, so nothing counts. Name a column with weights "
            "above 0"
        )


def describe_weights(con: duckdb.DuckDBPyConnection, meta: Mapping[str, Any]) -> str:
    """The effective number of queries, and the number of those with weight 0."""
    columns = "count(*), count(*) FILTER (WHERE weight = 0), pow(fsum(weight), 2)"
    sql = f"SELECT {columns} / fsum(weight * weight) FROM ({_rows(meta)})"
    ((queries, idle, effective),) = con.sql(sql).fetchall()
    text = (
        f"Weights: {meta['weight']}. {format_queries(queries)} weigh as much as about "
        f"{effective:,.0f} with equal weights (n_eff)"
    )
    rest = f"; {format_queries(idle)} of weight 0 {'does' if idle == 1 else 'do'} not count"
    return text + rest if idle else text


def _rows(meta: Mapping[str, Any]) -> str:
    """One row per query that counts: its key and weight."""
    kept = f"WHERE NOT {MISSING}" if meta["conventions"]["missing"] == "skip" else ""
    key, weight = quote(meta["query"]), f"CAST({quote(meta['weight'])} AS DOUBLE)"
    return f"SELECT DISTINCT {key} AS key, {weight} AS weight FROM rows {kept}"

"""The weights of queries: their checks and their line in the output."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from rankql.errors import RankqlError
from rankql.evaluation.meta import Meta
from rankql.macros import MISSING, quote
from rankql.registry.conventions import UNDEFINED_VALUES
from rankql.sources.fetching import fetch_rows
from rankql.text import format_queries

# A weight that is more than this times the sum of all others leaves nothing of them in a sum. It is
# a number of sql/weights.sql too.
MOST_ODDS = 1e10


def sum_weights(con: duckdb.DuckDBPyConnection, meta: Meta) -> dict[str, Any]:
    """Sums of the weights of the queries. Refuses weights that are NULL, negative or infinite."""
    name, rows = meta.weight, _rows(meta)
    wrong = "weight IS NULL OR NOT isfinite(weight) OR weight < 0"
    sql = f"SELECT key, weight FROM ({rows}) WHERE {wrong} ORDER BY key LIMIT 1"
    for query, value in fetch_rows(con, sql):
        if value is None:
            raise RankqlError(
                f"weight: {name} is NULL for query {query!r}. Give every query a weight, for "
                "example in attributes=, or 0 if it does not count"
            )
        raise RankqlError(
            f"weight: {name} must be a finite number from 0, not {value:g}, the weight of query "
            f"{query!r}"
        )
    columns = {
        "most": "max(weight)",
        "least": "min(weight) FILTER (WHERE weight > 0)",
        "total": "fsum(weight)",
        "queries": "count(*)",
        "idle": "count(*) FILTER (WHERE weight = 0)",
        "undefined": "count(*) FILTER (WHERE weight > 0 AND NOT defined)",
        "defined": "fsum(weight) FILTER (WHERE defined)",
        "squares": "fsum(weight * weight) FILTER (WHERE defined)",
    }
    (sums,) = con.execute(f"SELECT {', '.join(columns.values())} FROM ({rows})").fetchall()
    return dict(zip(columns, sums, strict=True))


def merge_weights(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of all queries, from those of partitions."""
    known = {name: [p[name] for p in parts if p[name] is not None] for name in parts[0]}
    ends = {"most": max(known["most"], default=None), "least": min(known["least"], default=None)}
    counts = {name: sum(known[name]) for name in ("queries", "idle", "undefined")}
    return {name: math.fsum(values) for name, values in known.items()} | ends | counts


def check_weights(meta: Meta, sums: Mapping[str, Any]) -> None:
    """Refuse weights that are all 0, out of range, or 0 next to one of them."""
    name, most, least = meta.weight, sums["most"], sums["least"]
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
    if sums["queries"] - sums["idle"] > 1 and most > MOST_ODDS * (sums["total"] - most):
        raise RankqlError(
            f"weight: {name} is {most:g} for one query, over {MOST_ODDS:.0e} times as much as for "
            "all others together, so only this query counts. Correct its weight"
        )


def describe_weights(meta: Meta, sums: Mapping[str, Any]) -> str:
    """The effective number of queries, and the number of those that do not count."""
    queries, squares = sums["queries"], sums["squares"]
    number = sums["defined"] ** 2 / squares if squares else 0
    text = (
        f"Weights: {meta.weight}. {format_queries(queries)} "
        f"{'weighs' if queries == 1 else 'weigh'} as much as about {number:,.0f} with equal "
        "weights (n_eff)"
    )
    for count, what in ((sums["idle"], "of weight 0"), (sums["undefined"], "without a value")):
        if count:
            does = "does" if count == 1 else "do"
            text += f"; {format_queries(count)} {what} {does} not count"
    return text


def _rows(meta: Meta) -> str:
    """One row per query that is not missing: its key, weight and whether it has a value."""
    kept = f"WHERE NOT {MISSING}" if meta.conventions["missing"] == "skip" else ""
    key, weight = quote(meta.query), f"CAST({quote(str(meta.weight))} AS DOUBLE)"
    # An undefined value weighs in a mean over all queries at once.
    counted = meta.conventions["undefined"] in UNDEFINED_VALUES or meta.metric_weights
    values = ", ".join(map(quote, meta.metrics))
    defined = "true" if counted else f"bool_or(coalesce({values}) IS NOT NULL)"
    columns = f"{key} AS key, {weight} AS weight, {defined} AS defined"
    return f"SELECT {columns} FROM rows {kept} GROUP BY ALL"

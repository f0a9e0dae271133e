"""Checks of values per query: those of one query, and those that need the counts of all queries.

Partitions count their queries separately, and `merge_counts` adds them up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from rankql.errors import RankqlError
from rankql.evaluation.weights import check_weights, merge_weights, sum_weights
from rankql.macros import MISSING, quote
from rankql.registry.parse import is_metric
from rankql.text import format_queries

_EXAMPLES = 3


def count_queries(con: duckdb.DuckDBPyConnection, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of the values in `rows`. Refuses NaN and a weight that cannot be one."""
    _require_finite(con, meta)
    weights = {"weights": sum_weights(con, meta)} if meta.get("weight") else {}
    refused = [kind for kind in ("undefined", "missing") if meta["conventions"][kind] == "error"]
    return weights | {kind: _count_refused(con, meta, kind) for kind in refused}


def merge_counts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The counts of all queries, from those of partitions."""
    merged: dict[str, Any] = {}
    for kind in parts[0] if parts else ():
        each = [part[kind] for part in parts]
        if kind == "weights":
            merged[kind] = merge_weights(each)
        else:
            examples = sorted(example for _, some in each for example in some)
            merged[kind] = sum(count for count, _ in each), examples[:_EXAMPLES]
    return merged


def check_counts(meta: Mapping[str, Any], counts: Mapping[str, Any]) -> None:
    """Refuse weights that leave no mean, and what the conventions refuse: undefined or missing."""
    if "weights" in counts:
        check_weights(meta, counts["weights"])
    for kind, what in (
        ("undefined", "with an undefined metric"),
        ("missing", "with judgments but not in the run"),
    ):
        count, examples = counts.get(kind, (0, ()))
        if count:
            some = ", ".join(map(repr, examples))
            raise RankqlError(f"{format_queries(count)} {what}, such as {some} ({kind}='error')")


def _require_finite(con: duckdb.DuckDBPyConnection, meta: Mapping[str, Any]) -> None:
    """Refuse NaN and infinity, which only an expression of the user gives."""
    for name in meta["metrics"]:
        if is_metric(name):
            continue
        value = f"CAST({quote(name)} AS DOUBLE)"
        sql = f"SELECT {value}, {quote(meta['query'])} FROM rows WHERE NOT isfinite({value})"
        for number, query in con.sql(f"{sql} ORDER BY 2 LIMIT 1").fetchall():
            raise RankqlError(
                f"metrics: {name} is {number} for query {query!r}, but must be a finite "
                "number, or NULL if undefined. If it divides by 0, divide by nullif(..., 0)"
            )


def _count_refused(
    con: duckdb.DuckDBPyConnection, meta: Mapping[str, Any], kind: str
) -> tuple[int, list[Any]]:
    """The number of queries that are undefined or missing, and the first of them."""
    empty = " OR ".join(f"{quote(name)} IS NULL" for name in meta["metrics"])
    where = empty if kind == "undefined" else MISSING
    key = quote(meta["query"])
    queries = f"SELECT DISTINCT {key} AS key FROM rows WHERE {where}"
    sql = f"SELECT key, count(*) OVER () FROM ({queries}) ORDER BY key LIMIT {_EXAMPLES}"
    rows = con.sql(sql).fetchall()
    return (rows[0][1] if rows else 0), [key for key, _ in rows]

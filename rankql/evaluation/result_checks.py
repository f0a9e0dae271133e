"""Checks of values per query: those of one query, and those that need the counts of all queries.

Partitions count their queries separately, and `merge_counts` adds them up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from rankql.errors import RankqlError
from rankql.evaluation.meta import Meta
from rankql.evaluation.weights import check_weights, merge_weights, sum_weights
from rankql.macros import MISSING, quote
from rankql.registry.parse import is_metric, value_range
from rankql.sources.fetching import fetch_rows
from rankql.text import format_queries

# The number of queries in an error.
_EXAMPLES = 3
# The squares of larger values overflow.
_LARGEST = 1e150


def needs_counts(meta: Meta) -> bool:
    """Does `count_queries` read any value?"""
    return bool(meta.weight or _unlimited(meta) or _refused(meta))


def count_queries(con: duckdb.DuckDBPyConnection, meta: Meta) -> dict[str, Any]:
    """The counts of the values in `rows`. Refuses NaN and a weight that cannot be one."""
    _require_finite(con, meta)
    weights = {"weights": sum_weights(con, meta)} if meta.weight else {}
    return weights | {kind: _count_refused(con, meta, kind) for kind in _refused(meta)}


def _refused(meta: Meta) -> list[str]:
    """What the conventions refuse."""
    return [kind for kind in ("undefined", "missing") if meta.conventions[kind] == "error"]


def _unlimited(meta: Meta) -> list[str]:
    """The metrics without an upper limit."""
    return [name for name in meta.metrics if value_range(name)[1] is None]


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


def check_counts(meta: Meta, counts: Mapping[str, Any]) -> None:
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


def _require_finite(con: duckdb.DuckDBPyConnection, meta: Meta) -> None:
    """Refuse NaN, infinity and numbers whose squares overflow, of metrics without a limit."""
    for name in _unlimited(meta):
        value = f"CAST({quote(name)} AS DOUBLE)"
        wrong = f"NOT isfinite({value}) OR abs({value}) > {_LARGEST}"
        sql = f"SELECT {value}, {quote(meta.query)} FROM rows WHERE {wrong} ORDER BY 2 LIMIT 1"
        for number, query in fetch_rows(con, sql):
            what = f"metrics: {name} is {number:g} for query {query!r}"
            if is_metric(name) or math.isfinite(number):
                raise RankqlError(f"{what}, so sums overflow. Rescale the numbers that it reads")
            raise RankqlError(
                f"{what}, but must be a finite number, or NULL if undefined. If it divides by 0, "
                "divide by nullif(..., 0)"
            )


def _count_refused(con: duckdb.DuckDBPyConnection, meta: Meta, kind: str) -> tuple[int, list[Any]]:
    """The number of queries that are undefined or missing, and the first of them."""
    names = [name for name in meta.metrics if name not in meta.catalogue]
    empty = " OR ".join(["false", *(f"{quote(name)} IS NULL" for name in names)])
    where = empty if kind == "undefined" else MISSING
    key = quote(meta.query)
    queries = f"SELECT DISTINCT {key} AS key FROM rows WHERE {where}"
    sql = f"SELECT key, count(*) OVER () FROM ({queries}) ORDER BY key LIMIT {_EXAMPLES}"
    rows = fetch_rows(con, sql)
    return (rows[0][1] if rows else 0), [key for key, _ in rows]

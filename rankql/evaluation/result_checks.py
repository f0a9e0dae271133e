"""Checks of values per query: those of one query, and those that need the counts of all queries.

Partitions count their queries separately, and `merge_counts` adds them up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import duckdb

from rankql.errors import RankqlError
from rankql.evaluation.means import Meta
from rankql.macros import MISSING, quote
from rankql.registry.conventions import UNDEFINED_VALUES
from rankql.registry.parse import is_metric, value_range
from rankql.sources.frames import fetch_rows
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


# A weight that is more than this times the sum of all others leaves nothing of them in a sum. It is
# a number of sql/weights.sql too.
MOST_ODDS = 1e10


WEIGHT_SUMS = {
    "most": "max(weight)",
    "least": "min(weight) FILTER (WHERE weight > 0)",
    "total": "fsum(weight)",
    "queries": "count(*)",
    "idle": "count(*) FILTER (WHERE weight = 0)",
    "undefined": "count(*) FILTER (WHERE weight > 0 AND NOT defined)",
    "defined": "fsum(weight) FILTER (WHERE defined)",
    "squares": "fsum(weight * weight) FILTER (WHERE defined)",
}


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
    (sums,) = con.execute(f"SELECT {', '.join(WEIGHT_SUMS.values())} FROM ({rows})").fetchall()
    return dict(zip(WEIGHT_SUMS, sums, strict=True))


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

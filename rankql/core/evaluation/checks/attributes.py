"""The checks of attributes and weights: one value for each query, the same in all tables."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from rankql.core.base.errors import RankqlError, advise
from rankql.core.base.text import format_count, format_queries
from rankql.core.evaluation.checks.record import Evidence, Facts
from rankql.core.evaluation.query.ctes import has_one_value
from rankql.core.evaluation.reduce.fetch import source_frame
from rankql.core.metrics.macros import quote
from rankql.core.tables.reader import fetch
from rankql.core.tables.tables import Table


def several_values(evidence: Evidence) -> Iterable[Facts]:
    """Attributes with several values for a query, unless they are known to have one."""
    inputs = evidence.evaluation.inputs
    for cte in ("attributes", "qrels", "run"):
        for name in inputs.attributes_in(cte):
            column = inputs.attribute(name)
            if (cte, column) in evidence.counters.unique:
                continue
            frame = source_frame(evidence.evaluation, cte)
            if frame is not None and frame.height == frame["query"].n_unique():
                continue
            sql = f"""SELECT query, min({column}), nullif(max({column}), min({column})) FROM {cte}
                GROUP BY query HAVING NOT ({has_one_value(inputs, name)}) ORDER BY query LIMIT 1"""
            for query, low, high in evidence.evaluation.run_sql(sql):
                key = next(iter(inputs.runs.values())).roles["query"]
                parts = [key, getattr(name, "sql", name)]
                several = ". If these are different queries, pass their key: "
                shown = "run" if cte == "attributes" and inputs.about_runs else cte
                known = shown == "attributes" or ", " in key
                hint = "" if known else advise(several, {"query": parts})
                yield {"argument": inputs.arguments[name], "name": name, "cte": shown, "low": low,
                       "high": high, "query": query, "hint": hint}  # fmt: skip


def two_weights(evidence: Evidence) -> Iterable[Facts]:
    """A column of weights that two tables have with different values."""
    inputs = evidence.evaluation.inputs
    name = str(inputs.weight)
    first, *others = [table for table in inputs.tables if table.has(name)]

    def weights(table: Table) -> str:
        key, weight = quote(table.roles["query"]), quote(table.actual_name(name))
        columns = f"CAST({key} AS VARCHAR) AS query, TRY_CAST({weight} AS DOUBLE) AS weight"
        return f"(SELECT DISTINCT {columns} FROM {table.sql})"

    for other in others:
        sql = f"""SELECT query, a.weight, b.weight FROM {weights(first)} AS a
            JOIN {weights(other)} AS b USING (query) WHERE a.weight <> b.weight
            ORDER BY query LIMIT 1"""
        for query, one, another in fetch(evidence.evaluation.session, sql):
            yield {"name": name, "one": one, "first": first.label, "another": another,
                   "other": other.label, "query": query}  # fmt: skip


def cluster_codes(queries: pl.DataFrame, key: str, cluster: str) -> pl.Series:
    """The cluster of each query, numbered from 0."""
    if queries[cluster].null_count():
        query = queries.filter(queries[cluster].is_null())[key][0]
        raise RankqlError(
            f"cluster: {cluster} is NULL for query {query!r}. Fill it, or remove the query"
        )
    return queries[cluster].alias("cluster").rank("dense").cast(pl.Int64) - 1


def describe_clusters(codes: pl.Series, cluster: str) -> str:
    """A note on the number of clusters and their size, from the cluster of each query."""
    sizes = codes.value_counts()["count"].sort().to_list()
    span = format_queries(sizes[-1])
    span = span if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {span}"
    clusters = format_count(len(sizes), "cluster")
    return f"Queries are clustered by {cluster}: {clusters} of {span}"

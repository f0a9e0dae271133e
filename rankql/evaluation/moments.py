"""Moments of the values per query, from which the means of several partitions are computed.

A partition has one row per system, slice and metric. Weights of queries leave no interval: its
standard error leaves out one query at a time, which no sum of a partition can give.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import polars as pl

from rankql.evaluation.meta import Meta
from rankql.evaluation.summary import (
    counted_rows,
    grouping_sets,
    name_means,
    pooled_mean,
    skewness_sql,
    slice_columns,
    sliced_attributes,
    system_columns,
    values_sql,
)
from rankql.sources.frames import read_frame
from rankql.sources.private import private_connection


def compute_moments(con: duckdb.DuckDBPyConnection, meta: Meta) -> pl.DataFrame:
    """The moments of the values per query in `rows`, a table of the connection."""
    attributes = sliced_attributes(meta)
    slice_, _ = slice_columns(attributes)
    kept, defined = counted_rows(meta)
    sql = f"""
        SELECT {", ".join(_keys(meta, attributes, slice_))}, any_value(micro) AS micro,
               count(value) {kept} AS n, var_pop(value) {kept} * count(value) {kept} AS squares,
               {skewness_sql(kept)} * pow(var_pop(value) {kept}, 1.5) * count(value) {kept}
                   AS cubes,
               fsum(value * weight) {kept} AS total, fsum(weight) {defined} AS weights,
               fsum(query_weight) {defined} AS query_weights,
               fsum(query_weight * query_weight) {defined} AS query_squares,
               min(value) {kept} AS least, max(value) {kept} AS most,
               count(*) AS queries,
               count(*) FILTER (WHERE undefined) AS undefined,
               count(*) FILTER (WHERE missing) AS missing
        FROM ({values_sql(meta)}) GROUP BY GROUPING SETS ({grouping_sets(meta, attributes)})
    """
    return read_frame(con, sql)


def summarise_moments(
    moments: pl.DataFrame, meta: Meta, interval: str | None, confidence: float
) -> pl.DataFrame:
    """The summary of all partitions, whose moments are the rows."""
    attributes = sliced_attributes(meta)
    keys = ", ".join(_keys(meta, attributes))
    error = """
        CASE WHEN NOT any_value(micro)
             -- The variance within partitions, and that of their means.
             THEN sqrt(fsum(squares + n * gap * gap) / nullif(sum(n) - 1, 0))
                  / sqrt(sum(n)) END"""
    total, weights, highest = "fsum(total)", "fsum(weights)", "max(most)"
    mean = pooled_mean(meta, *(f"{x} OVER slices" for x in (total, weights, highest)))
    order = [f"{_absent(x)} DESC, {x} NULLS LAST" for x in attributes.values()]
    sql = f"""
        SELECT {keys}, any_value(mean) AS mean,
               {"NULL::DOUBLE" if interval is None or meta.weight else error} AS error,
               CAST(sum(n) AS DOUBLE) - 1 AS df, CAST(sum(n) AS DOUBLE) AS units,
               fsum(coalesce(cubes, 0) + 3 * squares * gap + n * pow(gap, 3)) / sum(n)
                   / nullif(pow(fsum(squares + n * gap * gap) / sum(n), 1.5), 0) AS skewness,
               min(least) AS least, max(most) AS most,
               pow(fsum(query_weights), 2) / fsum(query_squares) AS n_eff,
               sum(queries) AS queries, sum(undefined) AS undefined, sum(missing) AS missing
        FROM (SELECT *, {mean} AS mean, total / weights - mean AS gap FROM moments
              WINDOW slices AS (PARTITION BY {keys}))
        GROUP BY {keys} ORDER BY {", ".join([*system_columns(meta), *order, "i"])}
    """
    with private_connection(threads=1) as con:
        con.register("moments", moments)
        means = read_frame(con, sql)
    return name_means(means, meta, interval, confidence)


def _keys(meta: Meta, attributes: Mapping[str, str], slice_: str | None = None) -> list[str]:
    """The columns of the slices and the metric; with `slice_`, as SQL over the values."""
    columns = attributes.values()
    flags = [_absent(x) if slice_ is None else f"grouping({x}) AS {_absent(x)}" for x in columns]
    label = "slice" if slice_ is None else f"{slice_} AS slice"
    return [*system_columns(meta), label, *columns, *flags, "i"]


def _absent(column: str) -> str:
    """The column that says that slices are not by this attribute."""
    return f"{column}_absent"

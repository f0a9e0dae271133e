"""Add up the rows of partitions as Spark does, in polars and DuckDB."""

import duckdb
import polars as pl

from rankql.engines.partitions import COUNTER, EXAMPLES, IDS, TEXT, Totals
from rankql.evaluation.means import (
    absent_column,
    counted_values_sql,
    grouping_sets,
    sliced_attributes,
    system_columns,
)
from rankql.evaluation.result import connect


def add_counters(partitions):
    """The counters of all partitions, from what `count_partition` returns."""
    rows = pl.concat(partitions, how="diagonal_relaxed").filter(pl.col(COUNTER).is_not_null())
    ids = pl.col(IDS).explode().drop_nulls().sort().head(EXAMPLES)
    value = pl.col("value")
    numbers = {"total": value.sum(), "least": value.min(), "most": value.max()}
    sums = rows.group_by(COUNTER, "system").agg(pl.col(TEXT).min(), ids, **numbers)
    return Totals(sums.to_dicts())


def add_values(results):
    """The moments of results of different queries, by system, slice and metric."""
    meta, frames = results[0].meta, []
    for result in results:
        with connect(meta, result.values) as con:
            frames.append(con.sql(counted_values_sql(meta)).pl())
    con = duckdb.connect()
    con.register("counted", pl.concat(frames, how="vertical_relaxed").to_arrow())
    attributes = sliced_attributes(meta)
    columns = [*system_columns(meta), *attributes.values()]
    columns += [f"grouping({x}) AS {absent_column(x)}" for x in attributes.values()]
    return con.sql(f"""
        SELECT {", ".join([*columns, "i"])}, bool_or(micro) AS micro, count(value) AS n,
            avg(value) AS mean, var_pop(value) AS variance, min(value) AS least,
            (avg(value ** 3) - 3 * avg(value) * avg(value ** 2) + 2 * avg(value) ** 3)
                / nullif(var_pop(value) ** 1.5, 0) AS skewness,
            max(value) AS most, sum(weighted) AS total, sum(weight) AS weights,
            sum(query_weight) AS query_weights, sum(query_weight ** 2) AS query_squares,
            count(i) AS queries, count_if(undefined) AS undefined, count_if(missing) AS missing
        FROM counted GROUP BY GROUPING SETS ({grouping_sets(meta, attributes)})""").pl()

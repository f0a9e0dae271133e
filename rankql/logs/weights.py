"""Means of weighted rows, such as queries that were sampled with unequal probabilities."""

from __future__ import annotations

import polars as pl

from rankql.expressions.columns import Column, column
from rankql.expressions.variants import metric
from rankql.logs.table_macros import ROWS_TABLE, run_query, value_sql

_RESULT = pl.Struct(dict.fromkeys(("mean", "lo", "hi", "n_eff"), pl.Float64))


@metric(by=None)
def weighted_mean(
    value: Column = "value", weight: Column = "weight", confidence: float = 0.95
) -> pl.Expr:
    """Weighted mean with its confidence interval and the effective number of rows.

    A struct of mean = sum(weight * value) / sum(weight), the ends lo and hi of Student's t interval
    with the jackknife's standard error, and n_eff = sum(weight)^2 / sum(weight^2). Weights are
    traffic, revenue, or 1 / the probability that the row was sampled; a row of weight 0 does not
    count. Rows without a value are left out. With equal weights, the interval is that of Student's
    t. lo and hi are NULL with fewer than 2 rows. Kish 1965; Bell and McCaffrey 2002.

    >>> values = pl.DataFrame({"value": [0.2, 0.5, 0.9], "weight": [3, 2, 1]})
    >>> values.select(weighted_mean().struct.unnest().round(4)).row(0)
    (0.4167, -0.7357, 1.569, 2.5714)
    """
    rows = pl.struct(value=column(value), weight=column(weight)).implode()
    query = (
        "SELECT g, weighted_mean(r['value'], r['weight'], "
        f"confidence := {value_sql(confidence)}) AS mean "
        f"FROM (SELECT g, unnest(rows) AS r FROM {ROWS_TABLE}) GROUP BY g"
    )

    def compute(groups: pl.Series) -> pl.Series:
        table = groups.alias("rows").to_frame().with_row_index("g")
        return table.select("g").join(run_query(query, table), on="g", how="left")["mean"]

    return rows.map_batches(compute, _RESULT, is_elementwise=True)

"""Propensity-scored precision and nDCG, for labels that are missing at random."""

from __future__ import annotations

import math

import polars as pl

from rankql.expressions.columns import Column, check_popularity, column
from rankql.logs.table_macros import table_function
from rankql.registry.argument_checks import as_number, is_whole_number, require
from rankql.sources.tables import Data


def item_propensity(popularity: Column, users: float, a: float = 0.55, b: float = 1.5) -> pl.Expr:
    """The probability that a relevant item is labelled, by the number of users who have it.

    1 / (1 + (ln(users) - 1) * ((b + 1) / (popularity + b))^a), where `popularity` of the `users` in
    the training data have the item. Fitted values: a = 0.5 and b = 0.4 for Wikipedia, 0.6 and 2.6
    for Amazon. Jain, Prabhu and Varma 2016.

    >>> items = pl.DataFrame({"popularity": [0, 10, 1000]})
    >>> items.select(item_propensity("popularity", users=10000).round(3)).to_series().to_list()
    [0.084, 0.22, 0.767]
    """
    require(is_whole_number(users, 3), f"users must be a whole number from 3, not {users}")
    for name, value in {"a": a, "b": b}.items():
        ok = 0 < as_number(value) < float("inf")
        require(ok, f"{name} must be a finite number above 0, not {value}")

    def read_popularity(values: pl.Series) -> pl.Series:
        check_popularity(values, users)
        return values.cast(pl.Float64)

    n = column(popularity).map_batches(read_popularity, pl.Float64, is_elementwise=True)
    missing = (math.log(users) - 1) * ((b + 1) / (n + b)) ** a
    return (1 / (1 + missing)).alias("item_propensity")


_SCHEMA = {
    "metric": pl.String,
    "value": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "queries": pl.Int64,
}


@table_function(_SCHEMA)
def propensity_scored(
    frame: Data,
    k: int | None = None,
    threshold: float = 1,
    query: Column = "query",
    rel: Column = "rel",
    pos: Column = "pos",
    propensity: Column = "propensity",
    slice: Column | None = None,
    confidence: float = 0.95,
) -> None:
    """Precision and nDCG for labels that are missing at random by item, over all rankings at once.

    A relevant item (rel >= threshold) has the weight 1 / propensity. Its propensity is the
    probability that it is labelled if it is relevant (`item_propensity`). "PSP" is the sum of the
    weights in the first k divided by the largest possible sum. "PSnDCG" is the same for the weights
    / log2(pos + 1), each query divided by the ideal DCG of its labels. Both are a sum over all
    rankings divided by a sum, not a mean of ratios; the interval is for such a ratio and many
    queries like these. `queries` have a relevant item; NULL if none has. Jain, Prabhu and Varma
    2016.

    >>> df = pl.DataFrame({"query": 1, "rel": [1, 0, 1], "propensity": [1.0, 1.0, 0.5]})
    >>> df = df.with_columns(pos=pl.Series([1, 2, 3]))
    >>> df.pipe(propensity_scored, 2).select("metric", pl.col("value").round(4), "queries").rows()
    [('PSP@2', 0.3333, 1), ('PSnDCG@2', 0.3801, 1)]
    """

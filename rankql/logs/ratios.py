"""Ratios of sums over queries, with intervals by the delta method."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from rankql.expressions.ranking import ratio


def estimate_ratios(
    rows: pl.LazyFrame, keys: list[str], reach: float, *extras: pl.Expr
) -> pl.LazyFrame:
    """The sum of the values over that of their parts, with its interval, and other sums.

    The interval is that of the sum of what each row adds to the ratio: the delta method.
    """
    value = pl.col("value")
    part = pl.when(value.is_not_null()).then(pl.col("part"))
    rows = rows.with_columns(estimate=ratio(value.sum(), part.sum()).over(keys))
    estimate, n = pl.col("estimate"), value.count().cast(pl.Float64)
    residuals = (value - estimate * part).pow(2).sum()
    margin = reach * ratio(residuals * n, n - 1).sqrt() / part.sum()
    sums = rows.group_by(keys).agg(
        *extras,
        value=estimate.first(),
        lo=estimate.first() - margin,
        hi=estimate.first() + margin,
        queries=value.count().cast(pl.Int64),
    )
    return sums.select(
        *keys, "value", "lo", "hi", "queries", pl.exclude(*keys, "value", "lo", "hi", "queries")
    )


def stack_columns(
    rows: pl.LazyFrame, column_lists: Iterable[list[pl.Expr]], *keys: str
) -> pl.LazyFrame:
    """The rows once for each of the ways, with its columns beside the keys."""
    return pl.concat([rows.select(*keys, *columns) for columns in column_lists])


def cutoff_suffix(k: int | None) -> str:
    """What the name of a metric ends with."""
    return "" if k is None else f"@{int(k)}"

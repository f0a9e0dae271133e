"""Distances over the pairs of items of a ranking."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from rankql.errors import RankqlError
from rankql.expressions.columns import Column, column
from rankql.expressions.ranking import Ranking, ratio

# Numbers at a time, because the vectors of all pairs must fit in memory.
_AT_ONCE = 4_000_000


def value_by_group(lists: pl.Expr, value: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.Expr:
    """Apply `value` to rows (g, x), which returns rows (g, value); 0 for empty lists."""

    def run(groups: pl.Series) -> pl.Series:
        every = pl.DataFrame({"g": pl.int_range(len(groups), eager=True), "x": groups})
        values = value(every.explode("x").drop_nulls("x"))
        joined = every.select("g").join(values, on="g", how="left", maintain_order="left")
        return joined["value"].cast(pl.Float64).fill_null(0)

    return lists.map_batches(run, pl.Float64, is_elementwise=True)


def aggregate_pairs(lists: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Aggregate the pairs (a, b) of each list; b, the j-th, is below a."""

    def pairs(rows: pl.DataFrame) -> pl.DataFrame:
        size = (pl.len().over("g") * pl.col("x").list.len()).cum_sum()
        rows = rows.with_columns(i=pl.int_range(pl.len()).over("g"), size=size)
        part = pl.col("size").max().over("g") // _AT_ONCE
        parts = []
        for some in rows.with_columns(part=part).partition_by("part", include_key=False):
            joined = some.select("g", "i", a="x").join(some.select("g", j="i", b="x"), on="g")
            below = joined.filter(pl.col("i") < pl.col("j"))
            parts.append(below.group_by("g").agg(value=value))
        return pl.concat(parts) if parts else rows.select("g", value=pl.lit(0.0))

    return value_by_group(lists, pairs)


def unit_vectors(embedding: Column, r: Ranking) -> pl.Expr:
    """The vectors shown, in order, scaled to length 1."""

    def units(groups: pl.Series) -> pl.Series:
        sizes = groups.list.eval(pl.element().list.len())
        for unlike in sizes.filter(sizes.list.n_unique() > 1).head(1):
            lengths = f"{unlike.min()} and {unlike.max()}"
            raise RankqlError(f"embedding must have one length in a ranking, not {lengths}")
        return groups.list.eval(pl.element() / (pl.element() * pl.element()).list.sum().sqrt())

    vectors = column(embedding).cast(pl.List(pl.Float64))
    known = r.in_top & vectors.is_not_null()
    kind = pl.List(pl.List(pl.Float64))
    lists = vectors.filter(known).sort_by(r.pos.filter(known)).implode()
    return lists.map_batches(units, kind, is_elementwise=True)


def cosine_distances(rows: pl.DataFrame) -> pl.DataFrame:
    """The sum of the cosine distance over all pairs of unit vectors.

    The square of the sum of n of them is n and twice the cosines.
    """
    size = rows.select(pl.col("x").list.len().max()).item() or 0
    each = [pl.col("x").list.get(i, null_on_oob=True).sum().alias(f"{i}") for i in range(size)]
    sums = rows.group_by("g").agg(pl.len().cast(pl.Float64).alias("n"), *each)
    squared = pl.sum_horizontal(pl.lit(0.0), pl.exclude("g", "n").pow(2))
    return sums.select("g", value=((pl.col("n").pow(2) - squared) / 2).clip(0))


def mean_distance(total: pl.Expr, known: pl.Expr, r: Ranking, missing: str) -> pl.Expr:
    """The mean over pairs, from the sum over pairs with two known values."""
    every = _two(r.in_top.sum().cast(pl.Float64))
    if missing == "drop":
        return ratio(total, _two(known))
    return ratio(total + (every - _two(known) if missing == "different" else 0), every)


def _two(n: pl.Expr) -> pl.Expr:
    """The number of pairs of n items."""
    return n * (n - 1) / 2

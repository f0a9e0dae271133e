"""The rows of a ranking, as polars expressions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl

from rankql.errors import require, require_cutoff
from rankql.expressions.checked_columns import Column, as_float, column, guard
from rankql.macros import NEAR_ONE


@dataclass(frozen=True, eq=False)
class Ranking:
    """One ranking, cut at k.

    `judged` has the grades of all judged items in their own type, because integers sort faster. If
    `score` is given, rows are sorted by it and ties are resolved by expectation: `mean` and
    `first_hit` are averages over all orders of the tied items.
    """

    rel: pl.Expr
    pos: pl.Expr
    judged: pl.Expr
    k: int | None = None
    score: pl.Expr | None = None

    @property
    def in_top(self) -> pl.Expr:
        """Whether the row is in the first k positions."""
        return self.pos.is_not_null() if self.k is None else self.pos <= self.k

    def top(self, values: pl.Expr) -> pl.Expr:
        """The values in the first k positions, NULL elsewhere."""
        return pl.when(self.in_top).then(values)

    def depth(self) -> pl.Expr:
        """k, or the number of retrieved items without k."""
        return self.in_top.sum() if self.k is None else pl.lit(self.k)

    def hits(self, threshold: float) -> pl.Expr:
        """1 if the row is relevant, else 0."""
        return self.rel.ge(threshold).fill_null(False).cast(pl.Float64)

    def count_hits(self, threshold: float) -> pl.Expr:
        """The expected number of relevant items in the first k positions."""
        return self.top(self.mean(self.hits(threshold))).sum()

    def relevant(self, threshold: float) -> pl.Expr:
        """R, the number of relevant items, retrieved or not."""
        return (as_float(self.judged) >= threshold).sum().cast(pl.Float64)

    def mean(self, values: pl.Expr) -> pl.Expr:
        """The expected value at each position, NULL if no tied item has one."""
        if self.score is None:
            return values
        known = self.tied(values.is_not_null().cast(pl.Float64))
        return pl.when(known > 0).then(self.tied(values.fill_null(0)) / self.size)

    def first_hit(self, hits: pl.Expr) -> pl.Expr:
        """The probability that each position has the first hit. Rows must be in order."""
        return stops(self.tied(hits) / (self.size - self.place + 1))

    # Sums over tied items, which are the row itself without a score. Rows must be in order.

    @property
    def size(self) -> pl.Expr:
        """The number of tied items."""
        return self.last(self.pos) - self.first(self.pos) + 1

    @property
    def place(self) -> pl.Expr:
        """The place among the tied items, from 1."""
        return self.pos - self.first(self.pos) + 1

    def tied(self, values: pl.Expr) -> pl.Expr:
        """The sum over the tied items."""
        if self.score is None:
            return values
        return self.last(values.cum_sum()) - self.above(values)

    def above(self, values: pl.Expr) -> pl.Expr:
        """The sum over all items above the tied items."""
        return self.first(values.cum_sum() - values)

    def first(self, values: pl.Expr) -> pl.Expr:
        """The value at the first of the tied items."""
        if self.score is None:
            return values
        return pl.when(self.score.ne_missing(self.score.shift(1))).then(values).forward_fill()

    def last(self, values: pl.Expr) -> pl.Expr:
        """The value at the last of the tied items."""
        if self.score is None:
            return values
        return pl.when(self.score.ne_missing(self.score.shift(-1))).then(values).backward_fill()


# Metrics accept a column, or a Ranking from another form.
Rel: TypeAlias = Column | Ranking


def ranking(rel: Rel, pos: Column, k: int | None = None) -> Ranking:
    """The ranking of a metric. Checks k."""
    require_cutoff(k)
    k = k and int(k)
    if isinstance(rel, Ranking):
        return replace(rel, k=k)
    return Ranking(as_float(rel), as_float(pos), judged=column(rel), k=k)


SHARED = "several items share a position: GROUP BY the query, or number positions with row_number()"


def refuse_shared_positions(value: pl.Expr, pos: Column, k: int | None, bounded: bool) -> pl.Expr:
    """The value, or an error if several items share a position.

    bounded: a value above 1 is an error too.
    """
    counted = as_float(pos)
    if k is not None:
        counted = pl.when(counted <= k).then(counted)
    excess = counted.count().cast(pl.Float64) - (counted.max() - counted.min() + 1)

    def refuse(values: pl.Series, excess: pl.Series) -> None:
        require_at_most(0, excess)
        if bounded:
            require_at_most(1, values)

    return guard(value, refuse, excess)


def refuse_equal_items(value: pl.Expr, item: Column, score: pl.Expr) -> pl.Expr:
    """The value, or an error if the item is the same in all rows of a ranking."""
    items = column(item)
    equal = (score.count() > 1) & items.eq_missing(items.first()).all()

    def refuse(_: pl.Series, equal: pl.Series) -> None:
        message = "item must distinguish the items of a group, but is the same in all rows"
        require(not equal.any(), message)

    return guard(value, refuse, equal)


def require_at_most(most: float, values: pl.Series) -> None:
    """Raise the error about shared positions if a value is above `most`."""
    require(not (values > most).any(), SHARED)


def near_one(value: pl.Expr) -> pl.Expr:
    """The value, exactly 1 if it differs from 1 only by rounding."""

    def rounded(values: pl.Series) -> pl.Series:
        return values.set((values - 1).abs() <= NEAR_ONE, 1.0)

    return value.map_batches(rounded, pl.Float64, is_elementwise=True)


def ratio(numerator: pl.Expr, denominator: pl.Expr) -> pl.Expr:
    """Numerator / denominator, NULL if the denominator is 0."""
    return numerator / denominator.replace(0, None)


def stops(chance: pl.Expr) -> pl.Expr:
    """The probability of reaching and stopping at each row, from that of stopping once there."""
    return chance * (1 - chance).cum_prod().shift(1, fill_value=1)

"""The rows of a ranking, as the polars metrics see them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl

from rankql.expressions.columns import Column, as_float, column
from rankql.registry.argument_checks import require, require_cutoff


@dataclass(frozen=True, eq=False)
class Ranking:
    """The rows of one ranking, of which the first k positions count.

    `judged` holds the grades of all judged items, in a type of their own (integers sort faster):
    the ideal ranking and the number of relevant items come from it. With a `score`, the rows are
    sorted by it and items of equal score stand in no known order: `mean` and its kin then give what
    is expected over all orders of the tied items.
    """

    rel: pl.Expr
    pos: pl.Expr
    judged: pl.Expr
    k: int | None = None
    score: pl.Expr | None = None

    @property
    def shown(self) -> pl.Expr:
        """Whether the row stands in the first k positions."""
        return self.pos.is_not_null() if self.k is None else self.pos <= self.k

    def top(self, values: pl.Expr) -> pl.Expr:
        """The values in the first k positions, NULL elsewhere."""
        return pl.when(self.shown).then(values)

    def depth(self) -> pl.Expr:
        """k, or the number of retrieved items where k is left out."""
        return self.shown.sum() if self.k is None else pl.lit(self.k)

    def hits(self, threshold: float) -> pl.Expr:
        """1 where the row is relevant, else 0."""
        return self.rel.ge(threshold).fill_null(False).cast(pl.Float64)

    def relevant(self, threshold: float) -> pl.Expr:
        """R, the number of relevant items, retrieved or not."""
        return (as_float(self.judged) >= threshold).sum().cast(pl.Float64)

    def mean(self, values: pl.Expr) -> pl.Expr:
        """The value to be expected in each row's position; NULL where no item there has one."""
        if self.score is None:
            return values
        known = self.tied(values.is_not_null().cast(pl.Float64))
        return pl.when(known > 0).then(self.tied(values.fill_null(0)) / self.size)

    def first_hit(self, hits: pl.Expr) -> pl.Expr:
        """The chance that each position holds the first of the hits; rows in order."""
        return stops(self.tied(hits) / (self.size - self.place + 1))

    # Each row and the items tied with it, which are just itself where there is no score. Sums over
    # what stands above need the rows in order.

    @property
    def size(self) -> pl.Expr:
        """The number of items tied with each."""
        return self.last(self.pos) - self.first(self.pos) + 1

    @property
    def place(self) -> pl.Expr:
        """The place of each among the items tied with it, from 1."""
        return self.pos - self.first(self.pos) + 1

    def tied(self, values: pl.Expr) -> pl.Expr:
        """The sum of the values over the items tied with each."""
        if self.score is None:
            return values
        return self.last(values.cum_sum()) - self.above(values)

    def above(self, values: pl.Expr) -> pl.Expr:
        """The sum of the values over what stands above each and the items tied with it."""
        return self.first(values.cum_sum() - values)

    def first(self, values: pl.Expr) -> pl.Expr:
        """The value at the first of the items tied with each."""
        if self.score is None:
            return values
        return pl.when(self.score.ne_missing(self.score.shift(1))).then(values).forward_fill()

    def last(self, values: pl.Expr) -> pl.Expr:
        """The value at the last of the items tied with each."""
        if self.score is None:
            return values
        return pl.when(self.score.ne_missing(self.score.shift(-1))).then(values).backward_fill()


# Where a metric is asked for its rel and pos: the forms hand in a whole Ranking instead.
Rel: TypeAlias = Column | Ranking


def ranking(rel: Rel, pos: Column, k: int | None = None) -> Ranking:
    """The ranking that a metric reads, its k checked."""
    require_cutoff(k)
    k = k and int(k)
    if isinstance(rel, Ranking):
        return replace(rel, k=k)
    judged = column(rel)
    if not judged.meta.root_names():  # a literal has one row, however many positions there are
        rows = pl.struct(judged.alias("rel"), column(pos).alias("pos"))
        judged = rows.struct.field("rel")
    return Ranking(as_float(judged), as_float(pos), judged=judged, k=k)


SHARED = "several items share a position: GROUP BY the query, or number positions with row_number()"
# The rule of sql/common.sql: what is so near to 1 is 1.
ROUNDING = 2.0**-40


def shared_positions(
    value: pl.Expr, pos: Column, k: int | None, bounded: bool, valid: pl.Expr
) -> pl.Expr:
    """False; an error where more items are counted than there are positions.

    bounded: the value is at most 1, so that it is an error too if it is more. valid: whether the
    rows have passed the checks of their values, without which there is nothing to look at.
    """
    counted = as_float(pos)
    if k is not None:
        counted = pl.when(counted <= k).then(counted)
    excess = counted.count().cast(pl.Float64) - counted.max()
    wrong = refuse_above(pl.when(valid).then(excess), 0)
    return wrong | refuse_above(pl.when(valid).then(value), 1) if bounded else wrong


def near_one(value: pl.Expr) -> pl.Expr:
    """The value, exactly 1 where it is 1 but for rounding."""
    return pl.when((value - 1).abs() <= ROUNDING).then(1.0).otherwise(value)


def refuse_above(values: pl.Expr, most: float) -> pl.Expr:
    """False for every value; an error if one is above `most`."""

    def refuse(values: pl.Series) -> pl.Series:
        require(not (values > most).any(), SHARED)
        return _FALSE.new_from_index(0, len(values))

    return values.map_batches(refuse, pl.Boolean, is_elementwise=True)


_FALSE = pl.Series([False])


def ratio(numerator: pl.Expr, denominator: pl.Expr) -> pl.Expr:
    """Numerator / denominator, NULL where that is 0."""
    return numerator / denominator.replace(0, None)


def stops(chance: pl.Expr) -> pl.Expr:
    """The chance to stop at each row, having passed those above; chance: to stop once there."""
    return chance * (1 - chance).cum_prod().shift(1, fill_value=1)

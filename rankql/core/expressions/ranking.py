"""The rows of a ranking, as polars expressions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import polars as pl

from rankql.core.base.errors import require, require_cutoff
from rankql.core.expressions.checked_columns import Column, Cutoff, as_float, column, guard
from rankql.core.metrics.macros import NEAR_ONE


@dataclass(frozen=True, eq=False)
class Ranking:
    """One ranking, cut at k.

    `judged` has the grades of all judged items in their own type, because integers sort faster.
    flat: the rows are columns, not elements of a list.
    """

    rel: pl.Expr
    pos: pl.Expr
    judged: pl.Expr
    k: int | None = None
    flat: bool = False

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
        """The number of relevant items in the first k positions."""
        return self.top(self.hits(threshold)).sum()

    def relevant(self, threshold: float) -> pl.Expr:
        """R, the number of relevant items, retrieved or not."""
        return (as_float(self.judged) >= threshold).sum().cast(pl.Float64)

    def above(self, values: pl.Expr) -> pl.Expr:
        """The sum over all items above. Rows must be in order."""
        return values.cum_sum() - values


# Metrics accept a column, or a Ranking from another form.
Rel: TypeAlias = Column | Ranking


def ranking(rel: Rel, pos: Column, k: Cutoff = None) -> Ranking:
    """The ranking of a metric. Checks k."""
    require_cutoff(k)
    k = None if k is None else int(cast("int", k))
    if isinstance(rel, Ranking):
        return replace(rel, k=k)
    return Ranking(as_float(rel), as_float(pos), judged=column(rel), k=k)


SHARED = (
    "several items share a position: if a join repeats an item, keep one row per query and item. "
    "If the group holds several queries, group by the query too. If items are tied, number "
    "positions with rank('ordinal'), or rank by score: "
    "ndcg_by_score('rel', 'score', 'item', ties='expected')"
)


def refuse_shared_positions(value: pl.Expr, pos: Column, k: int | None, bounded: bool) -> pl.Expr:
    """The value, or an error if several items share a position.

    bounded: a value above 1 is an error too.
    """
    counted = as_float(pos)
    if k is not None:
        counted = pl.when(counted <= k).then(counted)
    different = counted.n_unique() - (counted.null_count() > 0).cast(pl.UInt32)
    excess = counted.count().cast(pl.Float64) - different

    def refuse(values: pl.Series, excess: pl.Series) -> None:
        require_at_most(0, excess)
        if bounded:
            require_at_most(1, values)

    return guard(value, refuse, excess)


def require_at_most(most: float | pl.Series, values: pl.Series) -> None:
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

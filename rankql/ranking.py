"""What the polars metrics are written in: checked arguments and columns, made a Ranking."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import TypeAlias

import polars as pl

from rankql.errors import RankqlError

Column: TypeAlias = str | pl.Expr


def check(ok: bool, message: str) -> None:
    """Raise the message unless ok."""
    if not ok:
        raise RankqlError(message)


def number(value: object) -> float:
    """An argument as a float; NaN, which fails every comparison, where it is no number."""
    return float(value) if isinstance(value, Real) else math.nan


def finite(name: str, value: object) -> None:
    """Refuse an argument that is not a finite number."""
    check(math.isfinite(number(value)), f"{name} must be a finite number, not {value}")


def option(name: str, value: object, *choices: str) -> None:
    """Refuse an option that is none of the choices."""
    *most, last = map(repr, choices)
    check(value in choices, f"{name} must be {', '.join(most)} or {last}, not {value}")


def column(column: Column) -> pl.Expr:
    """A column, given by its name or as an expression."""
    if isinstance(column, str):
        return pl.col(column)
    check(isinstance(column, pl.Expr), f"a column is a name or an expression, not {column!r}")
    return column


# The checks see whole columns, not groups: is_elementwise makes polars call them once per batch.


def grades(rel: Column) -> pl.Expr:
    """The grades as Float64: finite or NULL."""
    return column(rel).map_batches(_grades, return_dtype=pl.Float64, is_elementwise=True)


def positions(pos: Column) -> pl.Expr:
    """The positions as Float64: whole and from 1, or NULL."""
    return column(pos).map_batches(_positions, return_dtype=pl.Float64, is_elementwise=True)


def scores(score: Column) -> pl.Expr:
    """The scores, NaN refused, in their own type: a large integer would lose digits in Float64."""
    return column(score).map_batches(_scores, is_elementwise=True)


def grade_lists(name: str, rels: Column) -> pl.Expr:
    """The lists or arrays of grades as List(Float64): each grade finite or NULL."""
    dtype = pl.List(pl.Float64)
    return column(rels).map_batches(partial(_lists, name), return_dtype=dtype, is_elementwise=True)


def up_to(rel: pl.Expr, max_rel: float) -> pl.Expr:
    """The grades, those above max_rel refused."""

    def checked(rel: pl.Series) -> pl.Series:
        for bad in rel.filter(rel > max_rel).head(1):
            raise RankqlError(f"rel must not exceed max_rel: {bad} is above {max_rel}")
        return rel

    return rel.map_batches(checked, return_dtype=pl.Float64, is_elementwise=True)


def _floats(name: str, values: pl.Series) -> pl.Series:
    dtype = values.dtype
    text = dtype in (pl.String, pl.Categorical, pl.Enum)
    check(
        dtype.is_numeric() or dtype in (pl.Boolean, pl.Null),
        f"{name} must be a number, not {'text' if text else dtype}; cast it first",
    )
    return values.cast(pl.Float64)


def _refuse(values: pl.Series, bad: pl.Series, message: str) -> None:
    for value in values.filter(bad).head(1):
        raise RankqlError(f"{message}, not {value}")


def _grades(values: pl.Series) -> pl.Series:
    floats = _floats("rel", values)
    if values.dtype.is_float():
        _refuse(values, ~floats.is_finite(), "rel must be a finite number")
    return floats


def _positions(values: pl.Series) -> pl.Series:
    floats = _floats("pos", values)
    bad = floats < 1
    if not values.dtype.is_integer():
        bad |= ~floats.is_finite() | (floats != floats.floor())
    _refuse(values, bad, "pos must be a whole number from 1")
    return floats


def _scores(values: pl.Series) -> pl.Series:
    floats = _floats("score", values)
    _refuse(values, floats.is_nan(), "score must be a number")
    return values


def _lists(name: str, lists: pl.Series) -> pl.Series:
    check(
        isinstance(lists.dtype, pl.List | pl.Array),
        f"{name} must be a list of grades, not {lists.dtype}",
    )
    _grades(lists.explode())
    return lists.cast(pl.List(pl.Float64))


@dataclass(frozen=True, eq=False)
class Ranking:
    """The rows of one ranking, of which the first k positions count.

    `judged` holds the grades of all judged items: the ideal ranking and the number of relevant
    items come from it. With a `score`, the rows are sorted by it and items of equal score stand in
    no known order: `mean` and its kin then give what is expected over all orders of tied items.
    """

    rel: pl.Expr
    pos: pl.Expr
    judged: pl.Expr
    k: int | None = None
    in_order: bool = False
    score: pl.Expr | None = None

    @property
    def shown(self) -> pl.Expr:
        """Whether the row stands in the first k positions."""
        return self.pos.is_not_null() if self.k is None else self.pos.le(self.k).fill_null(False)

    def top(self, values: pl.Expr) -> pl.Expr:
        """The values in the first k positions, NULL elsewhere."""
        return pl.when(self.shown).then(values)

    def depth(self) -> pl.Expr:
        """k, or the number of retrieved items where k is left out."""
        return self.shown.sum() if self.k is None else pl.lit(self.k)

    def hits(self, threshold: float) -> pl.Expr:
        """1 where the row is relevant, else 0."""
        finite("threshold", threshold)
        return self.rel.ge(threshold).fill_null(False).cast(pl.Float64)

    def relevant(self, threshold: float) -> pl.Expr:
        """R, the number of relevant items, retrieved or not."""
        finite("threshold", threshold)
        return self.judged.ge(threshold).sum().cast(pl.Float64)

    def ordered(self) -> Ranking:
        """The same with its rows in the order of their positions."""
        if self.in_order:
            return self
        rel = self.rel.sort_by(self.pos, nulls_last=True)
        return replace(self, rel=rel, pos=self.pos.sort(nulls_last=True), in_order=True)

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
    """The ranking that a metric reads, its columns and its k checked."""
    ok = k is None or (number(k) >= 1 and number(k) % 1 == 0)
    check(ok, f"k must be a whole number from 1, or left out for the whole ranking; not {k}")
    k = k and int(k)
    if isinstance(rel, Ranking):
        return replace(rel, k=k)
    checked = grades(rel)
    return Ranking(checked, positions(pos), judged=checked, k=k)


def ratio(numerator: pl.Expr, denominator: pl.Expr) -> pl.Expr:
    """Numerator / denominator, NULL where that is 0 / 0 or without meaning."""
    return pl.when(denominator > 0).then(numerator / denominator)


def stops(chance: pl.Expr) -> pl.Expr:
    """The chance to stop at each row, having passed those above; chance: to stop once there."""
    return chance * (1 - chance).cum_prod().shift(1, fill_value=1)

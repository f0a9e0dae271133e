"""Gain metrics: sums of grades, discounted by position.

Every metric takes `rel`, the grade (NULL: not judged), and `pos`, the position from 1 (NULL: judged
but not retrieved), each a column name or an expression, and `k`, the positions that count (all when
left out). A grade that is no finite number and a position that is no whole number from 1 are
refused wherever they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from rankql.errors import RankqlError
from rankql.expressions.columns import (
    Column,
    as_floats,
    check_rel,
    column,
    refuse_values,
)
from rankql.expressions.ideal import (
    discounted_sum,
    ideal_by_counts,
    ideal_by_sort,
    require_discounts,
)
from rankql.expressions.ndcg_groups import ndcg_of_groups
from rankql.expressions.ranking import Ranking, Rel, near_one, ranking
from rankql.expressions.variants import list_form, metric, score_form


def exp2_gain(rel: Column = "rel") -> pl.Expr:
    """Exponential gain of a grade: 2^rel - 1. NULL if the grade is NULL.

    For the place of a grade, as in `ndcg(exp2_gain("rel"), "pos")`. Burges et al. 2005.

    >>> pl.DataFrame({"rel": [0, 1, 2, 3]}).select(exp2_gain("rel"))["exp2_gain"].to_list()
    [0.0, 1.0, 3.0, 7.0]
    """

    def finite(values: pl.Series) -> pl.Series:
        check_rel(values)
        return values.cast(pl.Float64)

    grade = column(rel).map_batches(finite, return_dtype=pl.Float64, is_elementwise=True)
    return (2**grade - 1).alias("exp2_gain")


def discounted_gain(rel: Column = "rel", factor: Column = "factor") -> pl.Expr:
    """Gain of an item that counts less, such as a promoted one: rel * factor.

    `factor` is above 0 and at most 1; NULL counts 1. Use it in the numerator only, so that the
    ideal does not change and the value is at most 1. It is NULL without a relevant item::

        dcg(discounted_gain("rel", "factor"), "pos", 10) / idcg("rel", "pos", 10).replace(0, None)

    >>> df = pl.DataFrame({"rel": [3, 2], "factor": [0.5, None]})
    >>> df.select(discounted_gain())["discounted_gain"].to_list()
    [1.5, 2.0]
    """

    def check(rows: pl.Series) -> pl.Series:
        grades, factors = rows.struct.unnest()
        check_rel(grades)
        numbers = as_floats("factor", factors)
        rule = "factor must be above 0 and at most 1"
        for above in factors.filter(numbers.is_finite() & (numbers > 1)).head(1):
            raise RankqlError(
                f"{rule}, not {above}. For an item that counts more, pass rel * factor as the "
                "grade: the ideal then has it too"
            )
        refuse_values(rule, factors, ~(numbers.is_finite() & (numbers > 0)))
        return grades.cast(pl.Float64) * numbers.fill_null(1.0)

    rows = pl.struct(rel=column(rel), factor=column(factor))
    gains = rows.map_batches(check, return_dtype=pl.Float64, is_elementwise=True)
    return gains.alias("discounted_gain")


@metric()
def cg(rel: Rel = "rel", pos: Column = "pos", k: int | None = None) -> pl.Expr:
    """Cumulative gain: the sum of the grades in the first k positions.

    Negative grades are subtracted. 0 if nothing is judged. Järvelin & Kekäläinen 2002.

    >>> pl.DataFrame({"rel": [3, 2, 3, 0], "pos": [1, 2, 3, 4]}).select(cg("rel", "pos", 3)).item()
    8.0
    """
    r = ranking(rel, pos, k)
    return r.top(r.mean(r.rel)).sum()


@metric()
def dcg(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: int | None = None,
    discounts: Sequence[float] | None = None,
    base: float = 2,
) -> pl.Expr:
    """Discounted cumulative gain: the sum of grade / log2(position + 1) over the first k.

    `base` changes the base of the logarithm. `discounts` is a list of divisors, one per position:
    grade / discounts[position]. Negative grades are subtracted. 0 if nothing is judged. Järvelin &
    Kekäläinen 2002, with the discount of Burges et al. 2005.

    >>> df = pl.DataFrame({"rel": [5, 2, 3], "pos": [1, 2, 3]})
    >>> round(df.select(dcg("rel", "pos")).item(), 3)
    7.762
    >>> df.select(dcg("rel", "pos", discounts=[0.8, 2, 3])).item()
    8.25
    """
    r = ranking(rel, pos, k)
    require_discounts(discounts)
    return discounted_sum(r.top(r.mean(r.rel)), r.pos, discounts, base)


@metric()
def idcg(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: int | None = None,
    discounts: Sequence[float] | None = None,
    base: float = 2,
    ideal: str = "judged",
) -> pl.Expr:
    """Ideal DCG: the highest DCG that any order of the judged items can reach.

    The k highest positive grades, best first; with `discounts`, the best grade gets the smallest
    divisor. ideal="retrieved" uses only items with a position, instead of all judged items. 0 if no
    grade is positive. Järvelin & Kekäläinen 2002.

    >>> df = pl.DataFrame({"rel": [2, 3, 1], "pos": [1, 2, None]})
    >>> round(df.select(idcg("rel", "pos", k=2)).item(), 4)
    4.2619
    """
    return _ideal(rel, pos, k, discounts, base, ideal).fill_null(0)


def _ideal(
    rel: Rel,
    pos: Column,
    k: int | None,
    discounts: Sequence[float] | None,
    base: float,
    ideal: str,
) -> pl.Expr:
    """idcg, but NULL if no grade is positive."""
    r = ranking(rel, pos, k)
    require_discounts(discounts)
    judged = r.judged if ideal == "judged" else pl.when(r.pos.is_not_null()).then(r.rel)
    if discounts is None and not isinstance(rel, Ranking):
        return ideal_by_counts(judged, r.k, base)
    return ideal_by_sort(judged, r.k, discounts, base)


@metric(by_group=ndcg_of_groups, bounded=True)
def ndcg(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: int | None = None,
    discounts: Sequence[float] | None = None,
    base: float = 2,
    ideal: str = "judged",
    negative: str = "zero",
) -> pl.Expr:
    """Normalised DCG: dcg / idcg. 1 for the best order, NULL if no grade is positive.

    Takes the options of `dcg` and `idcg`. Negative grades count 0, so the result is between 0 and
    1; negative="keep" subtracts them in the dcg. Järvelin & Kekäläinen 2002.

    >>> df = pl.DataFrame({"user": [7, 7, 7], "rel": [2, 3, 1], "pos": [1, 2, None]})
    >>> df.group_by("user").agg(ndcg("rel", "pos", k=2).round(4)).rows()
    [(7, 0.9134)]
    >>> df.pipe(ndcg, by="user", ideal="retrieved", discounts=[1, 2]).rows()
    [(7, 0.875)]
    """
    r = ranking(rel, pos, k)
    positive = pl.when(r.rel < 0).then(0.0).otherwise(r.rel)  # clip takes 4 times as long
    gains = replace(r, rel=positive) if negative == "zero" else r
    best = _ideal(rel, pos, k, discounts, base, ideal)
    return near_one(dcg(gains, pos, k, discounts, base) / best)


list_cg = list_form(cg)
list_dcg = list_form(dcg)
list_idcg = list_form(idcg, ideal=True)
list_ndcg = list_form(ndcg, ideal=True)

cg_by_score = score_form(cg)
dcg_by_score = score_form(dcg)
idcg_by_score = score_form(idcg)
ndcg_by_score = score_form(ndcg)

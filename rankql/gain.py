"""Gain: what the items shown are worth, discounted by position, against the best order.

Every metric takes `rel`, the grade (NULL: not judged), and `pos`, the position from 1 (NULL: judged
but not retrieved), each a column name or an expression, and `k`, the positions that count (all when
left out). A grade that is no finite number and a position that is no whole number from 1 are
refused wherever they stand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from rankql.arguments import Column, check, check_rel, column, number, numbers, option
from rankql.errors import RankqlError
from rankql.forms import list_form, metric, score_form
from rankql.ranking import Rel, ranking, ratio


def exp2_gain(rel: Column = "rel") -> pl.Expr:
    """Exponential gain of a grade, 2^rel - 1; NULL where the grade is NULL.

    For the place of a grade, as in `ndcg(exp2_gain("rel"), "pos")`. Burges et al. 2005.

    >>> pl.DataFrame({"rel": [0, 1, 2, 3]}).select(exp2_gain("rel"))["exp2_gain"].to_list()
    [0.0, 1.0, 3.0, 7.0]
    """

    def finite(values: pl.Series) -> pl.Series:
        check_rel(values)
        return values.cast(pl.Float64)

    grade = column(rel).map_batches(finite, return_dtype=pl.Float64, is_elementwise=True)
    return (2**grade - 1).alias("exp2_gain")


@metric()
def cg(rel: Rel = "rel", pos: Column = "pos", k: int | None = None) -> pl.Expr:
    """Cumulative gain: the sum of the grades in the first k positions.

    A negative grade keeps its sign; 0 where nothing is judged. Järvelin & Kekäläinen 2002.

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

    With `base`, the logarithm to another base. With `discounts`, grade / discounts[position]: one
    divisor per position, from 1. A negative grade keeps its sign; 0 where nothing is judged.
    Järvelin & Kekäläinen 2002, with the discount of Burges et al. 2005.

    >>> df = pl.DataFrame({"rel": [5, 2, 3], "pos": [1, 2, 3]})
    >>> round(df.select(dcg("rel", "pos")).item(), 3)
    7.762
    >>> df.select(dcg("rel", "pos", discounts=[0.8, 2, 3])).item()
    8.25
    """
    r = ranking(rel, pos, k)
    _check_discount(discounts, base)
    return _discounted(r.top(r.mean(r.rel)), r.pos, discounts, base)


@metric()
def idcg(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: int | None = None,
    discounts: Sequence[float] | None = None,
    base: float = 2,
    ideal: str = "judged",
) -> pl.Expr:
    """Ideal dcg: the highest that any order of the judged items could reach.

    The positive grades, best first, cut at k; with `discounts`, the best at the smallest divisor.
    Of all judged items, or with ideal="retrieved" of those that have a position. 0 where no grade
    is positive. Järvelin & Kekäläinen 2002.

    >>> df = pl.DataFrame({"rel": [2, 3, 1], "pos": [1, 2, None]})
    >>> round(df.select(idcg("rel", "pos", k=2)).item(), 4)
    4.2619
    """
    r = ranking(rel, pos, k)
    _check_discount(discounts, base)
    option("ideal", ideal, "judged", "retrieved")
    judged = r.judged if ideal == "judged" else pl.when(r.pos.is_not_null()).then(r.rel)
    best = judged.sort(descending=True, nulls_last=True)
    if r.k is not None:
        best = best.head(r.k)
    gain = numbers(pl.element()).clip(0)
    if discounts is not None:
        gain, discounts = gain.replace(0, None), sorted(discounts[: r.k])
    pos = pl.int_range(1, pl.len() + 1)
    return best.implode().list.agg(_discounted(gain, pos, discounts, base))


BITS, LEVELS = 15, 4  # of one counter; counters in an integer


def _ndcg_by_counts(
    frame: pl.LazyFrame,
    keys: list[pl.Expr],
    rel: Column,
    pos: Column,
    k: int | None,
    base: float,
    **options: Any,
) -> pl.LazyFrame | None:
    """ndcg of groups for the price of a few sums, with plain options and integer positions.

    Rows without gain are dropped, but for one in each run of a group. Where all grades are 1 to 4,
    the ideal needs no sort: if n grades are at least 1, 2, 3 or 4, it gains 1 more in each of its
    first n positions. The four counters share an integer. Where there are other grades, groups too
    large for a counter or wrong values, `ndcg` itself is asked.
    """
    names = frame.select(keys).collect_schema().names()
    if {"_rel", "_pos", "_dcg", "_counters", "_other"} & set(names):
        return None
    rows = frame.select(*keys, _rel=column(rel), _pos=column(pos))
    schema = rows.collect_schema()
    numeric = schema["_rel"].is_integer() or schema["_rel"].is_float()
    plain = options == {"discounts": None, "ideal": "judged", "negative": "zero"}
    if not (plain and numeric and schema["_pos"].is_integer()):
        return None

    grade, place, by = pl.col("_rel"), pl.col("_pos"), pl.col(names)
    first = pl.any_horizontal(by.is_null() | by.ne_missing(by.shift()))
    gaining = rows.filter((grade > 0) | grade.is_infinite() | (place < 1) | first)
    exact = gaining.group_by(names).agg(ndcg("_rel", "_pos", k, base=base))

    counters = pl.lit(0, pl.Int64)
    for level in range(LEVELS):
        ones = sum(1 << BITS * below for below in range(level + 1))
        counters = pl.when(grade == level + 1).then(pl.lit(ones, pl.Int64)).otherwise(counters)
    r = ranking(grade, place, k)
    other = ~grade.is_between(0, LEVELS) | (grade != grade.floor()) | (place < 1)
    sums = gaining.group_by(names).agg(
        _dcg=dcg(r, k=k, base=base),
        _counters=counters.sum(),
        _other=other.any() | (pl.len() >= 1 << BITS),
    )

    size = min(r.k or 1 << BITS, 1 << BITS)
    discount = 1 / (pl.int_range(1, size + 1, eager=True) + 1).log(base)
    summed = pl.lit(pl.Series([0.0]).append(discount.cum_sum()))
    counts = [pl.col("_counters") // (1 << BITS * level) % (1 << BITS) for level in range(LEVELS)]
    best = pl.sum_horizontal(summed.gather(count.clip(upper_bound=size)) for count in counts)

    def finish(groups: pl.DataFrame) -> pl.DataFrame:
        if groups["_other"].any():
            return exact.collect()
        return groups.select(*names, ndcg=ratio(pl.col("_dcg"), best))

    return sums.map_batches(
        finish,
        schema=exact.collect_schema(),
        predicate_pushdown=False,
        projection_pushdown=False,
        slice_pushdown=False,
    )


@metric(by_group=_ndcg_by_counts)
def ndcg(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: int | None = None,
    discounts: Sequence[float] | None = None,
    base: float = 2,
    ideal: str = "judged",
    negative: str = "zero",
) -> pl.Expr:
    """Normalised dcg: dcg / idcg, 1 for the best order, NULL where no grade is positive.

    The options are those of `dcg` and `idcg`. A negative grade counts as 0, so that the result
    stays in [0, 1]; negative="keep" keeps its sign in the dcg. Järvelin & Kekäläinen 2002.

    >>> df = pl.DataFrame({"user": [7, 7, 7], "rel": [2, 3, 1], "pos": [1, 2, None]})
    >>> df.group_by("user").agg(ndcg("rel", "pos", k=2).round(4)).rows()
    [(7, 0.9134)]
    >>> df.pipe(ndcg, by="user", ideal="retrieved", discounts=[1, 2]).rows()
    [(7, 0.875)]
    """
    r = ranking(rel, pos, k)
    option("negative", negative, "zero", "keep")
    shown = replace(r, rel=r.rel.clip(0)) if negative == "zero" else r
    best = idcg(r, pos, k, discounts, base, ideal)
    return ratio(dcg(shown, pos, k, discounts, base), best)


def _check_discount(discounts: Sequence[float] | None, base: float) -> None:
    ok = 1 < number(base) < math.inf
    check(ok, f"base must be a finite number above 1, not {base}")
    listed = discounts is None or isinstance(discounts, list | tuple)
    check(listed, f"discounts must be a list of numbers, not {type(discounts).__name__}")
    for value in discounts or ():
        ok = 0 < number(value) < math.inf
        check(ok, f"discounts must be finite numbers above 0, not {value}")


def _discounted(
    gain: pl.Expr, pos: pl.Expr, discounts: Sequence[float] | None, base: float
) -> pl.Expr:
    if discounts is None:
        return (gain / (pos + 1).log(base)).sum()
    divisors = pl.Series(discounts, dtype=pl.Float64, strict=False)

    def look_up(pos: pl.Series) -> pl.Series:
        for beyond in pos.filter(pos.is_finite() & (pos > len(divisors))).head(1):
            raise RankqlError(
                f"discounts has {len(divisors)} entries, but position {beyond:.0f} is counted: "
                "give more, or a lower k"
            )
        return divisors.gather(pos.clip(1).cast(pl.Int64, strict=False) - 1)

    counted = pl.when(gain.is_not_null()).then(pos)
    return (gain / counted.map_batches(look_up, pl.Float64, is_elementwise=True)).sum()


list_cg = list_form(cg)
list_dcg = list_form(dcg)
list_idcg = list_form(idcg, ideal=True)
list_ndcg = list_form(ndcg, ideal=True)

cg_by_score = score_form(cg)
dcg_by_score = score_form(dcg)
idcg_by_score = score_form(idcg)
ndcg_by_score = score_form(ndcg)

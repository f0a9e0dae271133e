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

import polars as pl

from rankql.errors import RankqlError
from rankql.forms import list_form, metric, score_form
from rankql.ranking import Column, Rel, check, grades, number, option, ranking, ratio


def exp2_gain(rel: Column = "rel") -> pl.Expr:
    """Exponential gain of a grade, 2^rel - 1; NULL where the grade is NULL.

    For the place of a grade, as in `ndcg(exp2_gain("rel"), "pos")`. Burges et al. 2005.

    >>> pl.DataFrame({"rel": [0, 1, 2, 3]}).select(gain=exp2_gain("rel"))["gain"].to_list()
    [0.0, 1.0, 3.0, 7.0]
    """
    return 2 ** grades(rel) - 1


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
    gain = r.top(r.mean(r.rel))
    counted = pl.when(gain.is_not_null()).then(r.pos)
    return (gain / _divisor(counted, discounts, base)).sum()


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
    option("ideal", ideal, "judged", "retrieved")
    judged = r.judged if ideal == "judged" else r.rel.filter(r.pos.is_not_null())
    best = judged.filter(judged > 0).sort(descending=True)
    if r.k is not None:
        best = best.head(r.k)
    if discounts is not None:
        discounts = sorted(discounts[: r.k])
    return (best / _divisor(pl.int_range(1, best.len() + 1), discounts, base)).sum()


@metric()
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


def _divisor(pos: pl.Expr, discounts: Sequence[float] | None, base: float) -> pl.Expr:
    if discounts is None:
        ok = 1 < number(base) < math.inf
        check(ok, f"base must be a finite number above 1, not {base}")
        return (pos + 1).log(base)
    for value in discounts:
        ok = 0 < number(value) < math.inf
        check(ok, f"discounts must be finite numbers above 0, not {value}")
    divisors = pl.Series(discounts, dtype=pl.Float64, strict=False)

    def look_up(pos: pl.Series) -> pl.Series:
        for beyond in pos.filter(pos > len(divisors)).head(1):
            raise RankqlError(
                f"discounts has {len(divisors)} entries, but position {beyond:.0f} is counted: "
                "give more, or a lower k"
            )
        return divisors.gather(pos.cast(pl.Int64) - 1)

    return pos.map_batches(look_up, return_dtype=pl.Float64, is_elementwise=True)


list_cg = list_form(cg)
list_dcg = list_form(dcg)
list_idcg = list_form(idcg, ideal=True)
list_ndcg = list_form(ndcg, ideal=True)

cg_by_score = score_form(cg)
dcg_by_score = score_form(dcg)
idcg_by_score = score_form(idcg)
ndcg_by_score = score_form(ndcg)

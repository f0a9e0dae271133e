"""Order metrics: the distance from the order of the grades or of another ranking.

With grades, only items that have a grade and are in the first k positions count. Items of equal
grade may be in any order. With another ranking, `reference`, both columns are positions, of which
the first k count, NULL if a ranking lacks the item. Two items at one position are refused. For
Kendall's distance and tau-b between two rankings, pass -reference as the grade.
"""

from __future__ import annotations

import math
from typing import cast

import polars as pl

from rankql.core.base.errors import require
from rankql.core.expressions.checked_columns import Column, Cutoff
from rankql.core.expressions.ranking import Ranking, Rel, ranking, ratio
from rankql.core.expressions.variants import metric


@metric(in_order=True)
def kendall_tau_distance(
    rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None, normalized: bool = False
) -> pl.Expr:
    """Kendall's distance: the number of pairs in which the lower grade is above the higher.

    normalized=True divides by the number of pairs with different grades: between 0 and 1, NULL if
    there is no such pair. Kendall 1938.

    >>> df = pl.DataFrame({"rel": [1, 3, 2], "pos": [1, 2, 3]})
    >>> df.select(kendall_tau_distance("rel", "pos")).item()
    2.0
    """
    discordant, different, _ = _pairs(ranking(rel, pos, k))
    return ratio(discordant, different) if normalized else discordant


@metric(in_order=True)
def kendall_tau_b(rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None) -> pl.Expr:
    """Kendall's tau-b between grades and positions: 1 for the best order, if no grades are equal.

    (C - D) / sqrt((n0 - n1) * n0): C pairs with the higher grade above, D with the lower above, n0
    pairs in all, n1 with equal grades. The best order has sqrt((n0 - n1) / n0), the reverse order
    the negative of it. NULL if all grades are equal. Kendall 1945.

    >>> df = pl.DataFrame({"rel": [1, 3, 2], "pos": [1, 2, 3]})
    >>> round(df.select(kendall_tau_b("rel", "pos")).item(), 4)
    -0.3333
    """
    discordant, different, pairs = _pairs(ranking(rel, pos, k))
    return ratio(different - 2 * discordant, (different * pairs).sqrt())


@metric()
def auc(rel: Rel = "rel", pos: Column = "pos", k: None = None, threshold: float = 1) -> pl.Expr:
    """Area under the ROC curve: the share of pairs with the relevant item above the other one.

    Of all pairs of a relevant and another judged item that are both retrieved; unjudged items are
    left out. A pair with equal scores counts half in `auc_by_score`. NULL if one of the two kinds
    is missing. Hanley & McNeil 1982.

    >>> df = pl.DataFrame({"rel": [1, 0, 1, 0], "pos": [1, 2, 3, 4]})
    >>> df.select(auc("rel", "pos")).item()
    0.75
    """
    r = ranking(rel, pos)
    hits = r.top(r.hits(threshold))
    other = r.top(r.rel.lt(threshold).fill_null(False).cast(pl.Float64)).fill_null(0)
    # The ranks of the hits among all, but for those among the hits, count the others above them.
    ranks = pl.when(hits + other > 0).then(r.pos).rank("average")
    n = hits.sum()
    return 1 - ratio((hits * ranks).sum() - n * (n + 1) / 2, n * other.sum())


@metric(checks_positions=False)
def tau_ap(reference: Column = "reference", pos: Column = "pos", k: Cutoff = None) -> pl.Expr:
    """AP correlation with a reference order: Kendall's tau with more weight at the top.

    2 / (N - 1) * the sum of C(i) / (i - 1) over the places i from 2 to N, minus 1. Of the N items
    of both rankings, C(i) are above place i in this ranking and also in the reference. It is not
    symmetric. NULL if N < 2. Yilmaz, Aslam and Robertson 2008.

    >>> df = pl.DataFrame({"reference": [2, 1, 3], "pos": [1, 2, 3]})
    >>> df.select(tau_ap("reference", "pos")).item()
    0.0
    """
    expected, actual = ranking(reference, reference, k), ranking(reference, pos, k)
    known = _distinct(expected, "reference") & _distinct(actual, "pos")
    common = expected.in_top & actual.in_top
    ranks = _ranks_so_far(expected.pos.filter(common).sort_by(actual.pos.filter(common)))
    shares = ranks.list.eval((pl.element() - 1) / pl.int_range(pl.len())).list.slice(1).list.sum()
    n = common.sum().cast(pl.Float64)
    return pl.when(known, n > 1).then(2 / (n - 1) * shares - 1)


@metric(checks_positions=False)
def rbo(
    reference: Column = "reference",
    pos: Column = "pos",
    k: Cutoff = None,
    p: float | None = None,
    bound: str = "ext",
) -> pl.Expr:
    """Rank-biased overlap: what two rankings have in common, with more weight at the top.

    The sum over all depths d of (1 - p) * p^(d - 1) * X(d) / d, where X(d) items are in the first d
    of both rankings and `p` is the probability of looking at the next item. Beyond the end of a
    ranking, bound="ext" extrapolates, "min" assumes no further overlap and "max" the most possible;
    "residual" is max - min. A gap in the positions is an item that the other ranking does not have.
    NULL if a ranking is empty. Webber, Moffat and Zobel 2010, equations 32, 11 and 30.

    >>> df = pl.DataFrame({"reference": [1, 2, 3, None], "pos": [1, 3, None, 2]})
    >>> round(df.select(rbo("reference", "pos", p=0.9)).item(), 4)
    0.685
    """
    assert p is not None
    expected, actual = ranking(reference, reference, k), ranking(reference, pos, k)
    known = _distinct(expected, "reference") & _distinct(actual, "pos")
    deepest = pl.max_horizontal(expected.pos, actual.pos)
    depth = pl.when(expected.in_top & actual.in_top).then(deepest)
    ends = expected.top(expected.pos).max(), actual.top(actual.pos).max()
    short, long, shared = pl.min_horizontal(ends), pl.max_horizontal(ends), depth.count()
    least = _beyond(depth - 1, p).sum()
    if bound == "ext":
        near = (depth <= short).sum()
        value = least + near * _unseen(short, p) / short + (shared - near) * _unseen(long, p) / long
        # The sum of the weights is 1, to the last bit, where it is the same ranking.
        same = (shared == long) & (depth.sum() == long * (long + 1) / 2)
        value = pl.when(same).then(1.0).otherwise(pl.min_horizontal(value, 1.0))
    else:
        together = _unseen(short + long - shared, p)
        residual = _unseen(short, p) + _unseen(long, p) - together
        value = {"min": least, "max": least + residual, "residual": residual}[bound]
    return pl.when(known).then(value)


def _pairs(r: Ranking) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """The numbers of discordant pairs, of pairs of different grades, and of all pairs."""
    grades = r.top(r.rel).drop_nulls()
    n = grades.len().cast(pl.Float64)
    pairs = n * (n - 1) / 2
    tied = (grades.rank("max").cast(pl.Float64) - grades.rank("min")).sum() / 2
    # In the rank of a grade among those down to it, the average one, each lower grade counts 1, and
    # each equal one, itself included, 1/2, over which it stands another 1/2.
    ranks = _ranks_so_far(grades).list.sum()
    discordant = ranks - n - tied / 2
    return discordant, pairs - tied, pairs


def _ranks_so_far(values: pl.Expr) -> pl.Expr:
    """The list of the rank of each value among those down to it."""

    def ranks(lists: pl.Series) -> pl.Series:
        # rolling_rank sets aside memory for the whole window: it must not be wider than the lists.
        longest = cast(int | None, lists.list.len().max()) or 1
        return lists.list.eval(pl.element().rolling_rank(longest, "average", min_samples=1))

    return values.implode().map_batches(ranks, pl.List(pl.Float64), is_elementwise=True)


def _distinct(r: Ranking, name: str) -> pl.Expr:
    """Whether the ranking has any item; an error where two have one position."""

    def refuse(twice: pl.Series) -> pl.Series:
        message = f"{name} must not be the same for two items of a group: ties have no order"
        require(not twice.any(), message)
        return ~twice

    positions = r.top(r.pos).drop_nulls()
    twice = positions.n_unique() < positions.len()
    return twice.map_batches(refuse, pl.Boolean, is_elementwise=True) & (positions.len() > 0)


def _beyond(n: pl.Expr, p: float) -> pl.Expr:
    """The sum of (1 - p) * p^(d - 1) / d over the depths d beyond n."""

    def sums(depths: pl.Series) -> pl.Series:
        # What is beyond the weight 1e-18 is left out.
        last = min(int(cast(float | None, depths.max()) or 0), math.ceil(-41.5 / math.log(p)))
        d = pl.int_range(1, last + 1, eager=True).cast(pl.Float64)
        within = pl.Series([0.0]).append(p**d / d).cum_sum()
        left = (1 - p) / p * (-math.log(1 - p) - within)
        return left.gather(depths.clip(0, last).cast(pl.Int64))

    most = p**n / (n + 1)
    left = n.map_batches(sums, pl.Float64, is_elementwise=True)
    return pl.min_horizontal(pl.max_horizontal(left, 0.0), most)


def _unseen(n: pl.Expr, p: float) -> pl.Expr:
    """The weight of the unknown overlap beyond depth n."""
    return p**n - n * _beyond(n, p)

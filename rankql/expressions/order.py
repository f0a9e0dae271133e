"""Order metrics: the distance from the order of the grades or of another ranking.

With grades, only items that have a grade and are in the first k positions count. Items of equal
grade may be in any order. With another ranking, `reference`, both columns are positions, of which
the first k count, NULL if a ranking lacks the item. Two items at one position are refused. For
Kendall's distance and tau-b between two rankings, pass -reference as the grade.
"""

from __future__ import annotations

from typing import cast

import polars as pl

from rankql.expressions.checked_columns import Column
from rankql.expressions.ranking import Ranking, Rel, ranking, ratio
from rankql.expressions.variants import macro, metric


@metric(in_order=True)
def kendall_tau_distance(
    rel: Rel = "rel", pos: Column = "pos", k: int | None = None, normalized: bool = False
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
def kendall_tau_b(rel: Rel = "rel", pos: Column = "pos", k: int | None = None) -> pl.Expr:
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
def auc(rel: Rel = "rel", pos: Column = "pos", threshold: float = 1) -> pl.Expr:
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


@macro()
def tau_ap(reference: Column = "reference", pos: Column = "pos", k: int | None = None) -> None:
    """AP correlation with a reference order: Kendall's tau with more weight at the top.

    2 / (N - 1) * the sum of C(i) / (i - 1) over the places i from 2 to N, minus 1. Of the N items
    of both rankings, C(i) are above place i in this ranking and also in the reference. It is not
    symmetric. NULL if N < 2. Yilmaz, Aslam and Robertson 2008.

    >>> df = pl.DataFrame({"reference": [2, 1, 3], "pos": [1, 2, 3]})
    >>> df.select(tau_ap("reference", "pos")).item()
    0.0
    """


@macro()
def rbo(
    reference: Column = "reference",
    pos: Column = "pos",
    k: int | None = None,
    p: float | None = None,
    bound: str = "ext",
) -> None:
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

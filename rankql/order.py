"""Order: how far the order shown is from the order of the grades.

Only items with a grade and one of the first k positions take part. Items of equal grade may stand
in any order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import polars as pl

from rankql.arguments import Column, check
from rankql.forms import list_form, metric, score_form
from rankql.ranking import Ranking, Rel, ranking, ratio


@metric(in_order=True)
def kendall_tau_distance(
    rel: Rel = "rel", pos: Column = "pos", k: int | None = None, normalized: bool = False
) -> pl.Expr:
    """Kendall's distance: the number of pairs in which the lower grade stands above the higher.

    With normalized=True, divided by the number of pairs of different grades: between 0 and 1, NULL
    where there is no such pair. Kendall 1938.

    >>> df = pl.DataFrame({"rel": [1, 3, 2], "pos": [1, 2, 3]})
    >>> df.select(kendall_tau_distance("rel", "pos")).item()
    2.0
    """
    check(isinstance(normalized, bool), f"normalized must be true or false, not {normalized}")
    discordant, different, _ = _pairs(ranking(rel, pos, k), "kendall_tau_distance")
    return ratio(discordant, different) if normalized else discordant


@metric(in_order=True)
def kendall_tau_b(rel: Rel = "rel", pos: Column = "pos", k: int | None = None) -> pl.Expr:
    """Kendall's tau-b between grades and positions: 1 for the best order, -1 for its reverse.

    (C - D) / sqrt((n0 - n1) * n0): C pairs with the higher grade above, D with the lower, n0 in
    all, n1 of equal grade. NULL where no two grades differ. Kendall 1945.

    >>> df = pl.DataFrame({"rel": [1, 3, 2], "pos": [1, 2, 3]})
    >>> round(df.select(kendall_tau_b("rel", "pos")).item(), 4)
    -0.3333
    """
    discordant, different, pairs = _pairs(ranking(rel, pos, k), "kendall_tau_b")
    return ratio(different - 2 * discordant, (different * pairs).sqrt())


def _pairs(r: Ranking, name: str) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """The numbers of discordant pairs, of pairs of different grades, and of all pairs."""
    check(
        r.score is None or r.k is None,
        f"ties 'expected' is not available for {name} with k; leave k out",
    )
    grades = r.top(r.rel).drop_nulls()
    n = grades.len().cast(pl.Float64)
    pairs = n * (n - 1) / 2
    alike = (grades.rank("max").cast(pl.Float64) - grades.rank("min")).sum() / 2
    # In the rank of a grade among those down to it, the average one, each lower grade counts 1, and
    # each equal one, itself included, 1/2, over which it stands another 1/2.
    ranks = grades.implode().map_batches(_ranks_so_far, pl.Float64, is_elementwise=True)
    discordant = ranks - n - alike / 2
    if r.score is not None:
        # Tied items stand with the best first; half of their pairs are expected to be reversed.
        one = r.top(r.rel).is_not_null().cast(pl.Float64)
        same = replace(r, score=pl.struct(r.score, r.rel))
        discordant += (one * (r.tied(one) - same.tied(one))).sum() / 4
    return discordant, pairs - alike, pairs


def _ranks_so_far(lists: pl.Series) -> pl.Series:
    # rolling_rank sets aside memory for the whole window, so it must not be wider than the lists.
    longest = cast(int | None, lists.list.len().max()) or 1
    ranks = pl.element().rolling_rank(longest, "average", min_samples=1)
    return lists.list.eval(ranks).list.sum()


list_kendall_tau_distance = list_form(kendall_tau_distance)
list_kendall_tau_b = list_form(kendall_tau_b)

kendall_tau_distance_by_score = score_form(kendall_tau_distance)
kendall_tau_b_by_score = score_form(kendall_tau_b)

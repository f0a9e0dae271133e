"""Precision and recall, and metrics made from them.

An item is relevant when `rel >= threshold`; R is the number of relevant items, retrieved or not.
The arguments `rel`, `pos`, `k` are those of `rankql.core.expressions.gain`.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from rankql.core.base.errors import RankqlError
from rankql.core.expressions.checked_columns import Column, Cutoff, as_float, column, guard
from rankql.core.expressions.ranking import Ranking, Rel, near_one, ranking, ratio
from rankql.core.expressions.variants import metric


@metric()
def precision_at(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: Cutoff = None,
    threshold: float = 1,
    denominator: str = "k",
) -> pl.Expr:
    """Precision: the relevant items in the first k positions, divided by k.

    denominator="retrieved" divides by the number of items in the first k positions, which is also
    the default without k; "min" divides by min(k, R), without k by min(retrieved, R). 0 if the
    denominator is 0.

    >>> df = pl.DataFrame({"rel": [1, 0, 1, 1], "pos": [1, 2, 3, None]})
    >>> df.select(precision_at("rel", "pos", k=5)).item()
    0.4
    """
    r = ranking(rel, pos, k)
    return ratio(r.count_hits(threshold), _size(r, threshold, denominator)).fill_null(0)


def _size(r: Ranking, threshold: float, denominator: str) -> pl.Expr:
    """What the hits are divided by."""
    if denominator in ("min", "R"):
        relevant = r.relevant(threshold)
        return relevant if denominator == "R" else pl.min_horizontal(relevant, r.depth())
    if denominator == "found":
        return r.count_hits(threshold)
    return r.depth() if denominator == "k" else r.in_top.sum()


@metric()
def recall_at(
    rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None, threshold: float = 1
) -> pl.Expr:
    """Recall: the share of the relevant items that are in the first k positions.

    NULL if R = 0.

    >>> df = pl.DataFrame({"rel": [1, 0, 1, 1], "pos": [1, 2, 3, None]})
    >>> round(df.select(recall_at("rel", "pos", k=5)).item(), 4)
    0.6667
    """
    r = ranking(rel, pos, k)
    return ratio(r.count_hits(threshold), r.relevant(threshold))


@metric()
def f1_at(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: Cutoff = None,
    threshold: float = 1,
    denominator: str = "k",
) -> pl.Expr:
    """F1: the harmonic mean of precision and recall in the first k positions.

    2 * hits / (k + R), where the denominator of precision replaces k: see `precision_at`. NULL if R
    = 0. van Rijsbergen 1979.

    >>> df = pl.DataFrame({"rel": [1, 0, 1, 1], "pos": [1, 2, 3, None]})
    >>> df.select(f1_at("rel", "pos", k=5)).item()
    0.5
    """
    r = ranking(rel, pos, k)
    return _f1(r, threshold, _size(r, threshold, denominator))


def _f1(r: Ranking, threshold: float, size: pl.Expr) -> pl.Expr:
    """The harmonic mean of recall and precision, which is the hits divided by `size`."""
    relevant = r.relevant(threshold)
    return pl.when(relevant > 0).then(2 * r.count_hits(threshold) / (size + relevant))


@metric()
def hit_at(
    rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None, threshold: float = 1
) -> pl.Expr:
    """Hit rate of one ranking: 1 if a relevant item is in the first k positions, else 0.

    NULL if R = 0.

    >>> df = pl.DataFrame({"rel": [0, 0, 1], "pos": [1, 2, 3]})
    >>> df.select(hit_at("rel", "pos", k=2)).item()
    0.0
    """
    r = ranking(rel, pos, k)
    hit = r.top(r.hits(threshold)).max().fill_null(0)
    return pl.when(r.relevant(threshold) > 0).then(hit)


@metric()
def all_rel_at(
    rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None, threshold: float = 1
) -> pl.Expr:
    """All relevant: 1 if every relevant item is in the first k positions, else 0.

    A relevant item that is not retrieved makes it 0, and so does R > k. NULL if R = 0.

    >>> df = pl.DataFrame({"rel": [1, 0, 1], "pos": [1, 2, 3]})
    >>> df.select(all_rel_at("rel", "pos", k=2)).item()
    0.0
    """
    r = ranking(rel, pos, k)
    relevant = r.relevant(threshold)
    return pl.when(relevant > 0).then((r.count_hits(threshold) == relevant).cast(pl.Float64))


@metric()
def r_precision(
    rel: Rel = "rel", pos: Column = "pos", k: None = None, threshold: float = 1
) -> pl.Expr:
    """R-precision: precision in the first R positions, where R is the number of relevant items.

    NULL if R = 0. Buckley & Voorhees 2005.

    >>> df = pl.DataFrame({"rel": [1, 0, 1, 1], "pos": [1, 2, 3, None]})
    >>> round(df.select(r_precision("rel", "pos")).item(), 4)
    0.6667
    """
    r = ranking(rel, pos)
    relevant = r.relevant(threshold)
    hits = pl.when(r.pos <= relevant).then(r.hits(threshold))
    return ratio(hits.sum(), relevant)


@metric(in_order=True, bounded=True)
def ap(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: Cutoff = None,
    threshold: float = 1,
    denominator: str = "min",
) -> pl.Expr:
    """Average precision: the sum of the precision at each hit in the first k, over min(k, R).

    The precision at a hit is the number of hits up to it, divided by its position. Other
    denominators: "R" (trec_eval), "found" (the hits in the first k), "k". NULL if R = 0. Buckley &
    Voorhees 2000.

    >>> df = pl.DataFrame({"rel": [1, 0, 1, 1, 0], "pos": [1, 2, 3, 4, 5]})
    >>> round(df.select(ap("rel", "pos", k=5)).item(), 4)
    0.8056
    """
    r = ranking(rel, pos, k)
    hits, relevant = r.hits(threshold), r.relevant(threshold)
    precision = (r.above(hits) + 1) / r.pos
    total = r.top(hits * precision).sum()
    divisor = _size(r, threshold, "R" if (k, denominator) == (None, "min") else denominator)
    value = near_one(ratio(total, divisor).fill_null(0))
    return pl.when(relevant > 0).then(value)


@metric(in_order=True)
def interpolated_precision(
    rel: Rel = "rel",
    pos: Column = "pos",
    recall: float | None = None,
    threshold: float = 1,
    rounding: str = "up",
) -> pl.Expr:
    """Interpolated precision: the highest precision at any position with at least this recall.

    0 if the recall is not reached. Without `recall`, the mean over the recalls 0, 0.1, ..., 1. NULL
    if R = 0. recall * R is rounded 'up', but a fraction below 0.1 down, as in trec_eval 9, or to
    the 'nearest' whole number, as in trec_eval 10. Manning, Raghavan & Schütze 2008.

    >>> df = pl.DataFrame({"rel": [1, 0, 1, 1], "pos": [1, 2, 3, 4]})
    >>> df.select(interpolated_precision("rel", "pos", recall=0.5)).item()
    0.75
    """
    r = ranking(rel, pos)
    hits, relevant = r.hits(threshold), r.relevant(threshold)
    nth = r.above(hits) + 1
    precision = pl.when(hits == 1).then(nth / r.pos)
    recalls = [i / 10 for i in range(11)] if recall is None else [recall]
    shift = {"up": 0.9, "nearest": 0.5}[rounding]
    highest = [
        pl.when(nth >= (x * relevant + shift).floor()).then(precision).max().fill_null(0)
        for x in recalls
    ]
    return pl.when(relevant > 0).then(pl.sum_horizontal(highest) / len(recalls))


@metric()
def set_ap(rel: Rel = "rel", pos: Column = "pos", k: None = None, threshold: float = 1) -> pl.Expr:
    """Set AP: precision times recall over all retrieved items.

    The AP of a set without an order. NULL if R = 0.

    >>> df = pl.DataFrame({"rel": [1, 0, 1, 1], "pos": [1, 2, 3, None]})
    >>> round(df.select(set_ap("rel", "pos")).item(), 4)
    0.4444
    """
    r = ranking(rel, pos)
    return precision_at(r, pos, threshold=threshold) * recall_at(r, pos, threshold=threshold)


# As in trec_eval.
_EPSILON = 0.00001


@metric(in_order=True)
def infap(rel: Rel = "rel", pos: Column = "pos", k: None = None, threshold: float = 1) -> pl.Expr:
    """Inferred AP: average precision, estimated if only a sample of the pool is judged.

    A negative grade: the item is in the pool, but not in the sample that was judged. NULL: it is
    not in the pool. Above a relevant item, items of the pool are assumed to be relevant as often as
    the judged ones. NULL if R = 0. Yilmaz & Aslam 2006, as in trec_eval.

    >>> df = pl.DataFrame({"rel": [1, 0, -1, 1, -1, 0, 1], "pos": [1, 2, 3, 4, 5, 6, 7]})
    >>> round(df.select(infap("rel", "pos")).item(), 6)
    0.732143
    """
    r = ranking(rel, pos)
    hits = r.hits(threshold)
    judged = ((r.rel >= 0) | (r.rel >= threshold)).fill_null(False).cast(pl.Float64)
    share = (r.above(hits) + _EPSILON) / (r.above(judged) + 2 * _EPSILON)
    pool = r.above(r.rel.is_not_null().cast(pl.Float64))
    return ratio(r.top(hits * (1 + pool * share) / r.pos).sum(), r.relevant(threshold))


@metric(in_order=True)
def bpref(rel: Rel = "rel", pos: Column = "pos", k: None = None, threshold: float = 1) -> pl.Expr:
    """Binary preference: how few judged non-relevant items are above the relevant ones.

    The mean over the R relevant items of 1 - min(n, R) / min(R, N): n judged non-relevant items are
    retrieved above it, out of N in all. Relevant items that are not retrieved count 0. Unjudged
    items are ignored. NULL if R = 0. Buckley & Voorhees 2004, as in trec_eval.

    >>> df = pl.DataFrame({"rel": [0, 1, None, 1, 0], "pos": [1, 2, 3, 4, 5]})
    >>> df.select(bpref("rel", "pos")).item()
    0.5
    """
    r = ranking(rel, pos)
    relevant = r.relevant(threshold)
    other = r.rel.lt(threshold).fill_null(False).cast(pl.Float64)
    others = (as_float(r.judged) < threshold).sum().cast(pl.Float64)
    worst = pl.min_horizontal(relevant, others).clip(1)
    preferred = 1 - pl.min_horizontal(r.above(other), relevant) / worst
    score = r.top(r.hits(threshold) * preferred)
    return ratio(score.sum(), relevant)


@metric()
def judged_at(rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None) -> pl.Expr:
    """Judged share: the judged items in the first k positions, divided by k.

    Without k, divided by the number of retrieved items; 0 if there is none.

    >>> df = pl.DataFrame({"rel": [0, None, 2], "pos": [1, 2, 3]})
    >>> df.select(judged_at("rel", "pos", k=2)).item()
    0.5
    """
    r = ranking(rel, pos, k)
    judged = r.rel.is_not_null().cast(pl.Float64)
    return ratio(r.top(judged).sum(), r.depth()).fill_null(0)


@metric()
def num_ret(rel: Rel = "rel", pos: Column = "pos") -> pl.Expr:
    """The number of retrieved items.

    >>> df = pl.DataFrame({"rel": [0, None, 2], "pos": [1, 2, None]})
    >>> df.select(num_ret("rel", "pos")).item()
    2.0
    """
    return ranking(rel, pos).in_top.sum().cast(pl.Float64)


@metric()
def num_rel(rel: Rel = "rel", pos: Column = "pos", k: None = None, threshold: float = 1) -> pl.Expr:
    """The number of relevant items, retrieved or not.

    >>> df = pl.DataFrame({"rel": [1, None, 2], "pos": [1, 2, None]})
    >>> df.select(num_rel("rel", "pos")).item()
    2.0
    """
    return ranking(rel, pos).relevant(threshold)


@metric()
def num_rel_ret(
    rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None, threshold: float = 1
) -> pl.Expr:
    """The number of relevant items in the first k positions.

    >>> df = pl.DataFrame({"rel": [1, None, 2], "pos": [1, 2, None]})
    >>> df.select(num_rel_ret("rel", "pos")).item()
    1.0
    """
    return ranking(rel, pos, k).count_hits(threshold)


@metric()
def false_answer(
    rel: Rel = "rel", pos: Column = "pos", k: None = None, threshold: float = 1
) -> pl.Expr:
    """False answer: 1 if something is shown although nothing is relevant, else 0.

    NULL if something is relevant, or nothing is judged. The mean over the queries that have no
    relevant item is the share of them that got an answer.

    >>> df = pl.DataFrame({"rel": [0, None], "pos": [1, 2]})
    >>> df.select(false_answer("rel", "pos")).item()
    1.0
    """
    r = ranking(rel, pos)
    unanswerable = (r.relevant(threshold) == 0) & (r.judged.count() > 0)
    return pl.when(unanswerable).then(r.in_top.any().cast(pl.Float64))


@metric()
def false_abstention(
    rel: Rel = "rel", pos: Column = "pos", k: None = None, threshold: float = 1
) -> pl.Expr:
    """False abstention: 1 if nothing is shown although something is relevant, else 0.

    NULL if nothing is relevant.

    >>> df = pl.DataFrame({"rel": [1, 0], "pos": [None, None]}, schema={"rel": int, "pos": int})
    >>> df.select(false_abstention("rel", "pos")).item()
    1.0
    """
    r = ranking(rel, pos)
    return pl.when(r.relevant(threshold) > 0).then((~r.in_top.any()).cast(pl.Float64))


@metric()
def forbidden_at(rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None) -> pl.Expr:
    """Forbidden: 1 if an item with a grade below 0 is in the first k positions, else 0.

    NULL if no grade is below 0.

    >>> df = pl.DataFrame({"rel": [1, 0, -1], "pos": [1, 2, 3]})
    >>> df.select(forbidden_at("rel", "pos", k=2)).item()
    0.0
    """
    r = ranking(rel, pos)
    grades, judged = ((as_float(x) < 0).cast(pl.Float64) for x in (r.rel, r.judged))
    return hit_at(replace(r, rel=grades, judged=judged), pos, k)


@metric(by=None)
def micro_precision_at(
    rel: Column = "rel",
    pos: Column = "pos",
    k: int | None = None,
    threshold: float = 1,
    query: Column | None = None,
    denominator: str = "k",
) -> pl.Expr:
    """Micro precision: the hits of all rankings, divided by k times the number of rankings.

    `query` identifies the ranking. Without k, the denominator is the number of retrieved items and
    query is not needed. denominator="retrieved" divides by the number of items in the first k
    positions (query is not needed), "min" by the sum of min(k, R) over the rankings, without k of
    min(retrieved, R). 0 if the denominator is 0.

    >>> df = pl.DataFrame({"query": [1, 1, 2], "rel": [1, 0, 1], "pos": [1, 2, 1]})
    >>> df.pipe(micro_precision_at, k=2, query="query").item()
    0.5
    """
    r = ranking(rel, pos, k)
    return ratio(r.count_hits(threshold), _sizes(r, threshold, query, denominator)).fill_null(0)


def _sizes(r: Ranking, threshold: float, query: Column | None, denominator: str) -> pl.Expr:
    """The sum over all rankings of the denominator of precision."""
    if denominator == "retrieved":
        return r.in_top.sum()
    if denominator == "k":
        return _depths(r, query)
    if r.k is None:
        from rankql.core.expressions.in_duckdb import aggregate  # imports duckdb

        call = f"rankql_hits_wanted(rel, pos, NULL, {threshold}, query)"
        return aggregate(call, rel=r.judged, pos=r.pos, query=query)
    hits = _ranking_key(query).filter(r.hits(threshold) == 1)
    counts = pl.element().unique_counts().cast(pl.Int64).clip(upper_bound=r.k)
    return hits.implode().list.agg(counts.sum()) + 0 * _depths(r, query)


@metric(by=None)
def micro_recall_at(
    rel: Column = "rel",
    pos: Column = "pos",
    k: int | None = None,
    threshold: float = 1,
    query: Column | None = None,
) -> pl.Expr:
    """Micro recall: the share of the relevant items of all rankings in their first k positions.

    NULL if there is no relevant item. `query` changes nothing: it is as in `micro_precision_at`.

    >>> df = pl.DataFrame({"query": [1, 1, 2], "rel": [1, 1, 1], "pos": [1, None, 1]})
    >>> round(df.pipe(micro_recall_at, k=2).item(), 4)
    0.6667
    """
    r = ranking(rel, pos, k)
    return ratio(r.count_hits(threshold), r.relevant(threshold))


@metric(by=None)
def micro_f1_at(
    rel: Column = "rel",
    pos: Column = "pos",
    k: int | None = None,
    threshold: float = 1,
    query: Column | None = None,
    denominator: str = "k",
) -> pl.Expr:
    """Micro F1: the harmonic mean of micro precision and micro recall.

    2 * hits / (k times the number of rankings + R), over all rows. query, k and denominator: see
    `micro_precision_at`. NULL if R = 0.

    >>> df = pl.DataFrame({"query": [1, 1, 2], "rel": [1, 0, 1], "pos": [1, 2, 1]})
    >>> round(df.pipe(micro_f1_at, k=2, query="query").item(), 4)
    0.6667
    """
    r = ranking(rel, pos, k)
    return _f1(r, threshold, _sizes(r, threshold, query, denominator))


def _depths(r: Ranking, query: Column | None) -> pl.Expr:
    """The number of positions over all rankings: k for each, or of the items retrieved."""
    if r.k is None:
        return r.depth()
    rankings = _ranking_key(query).n_unique()

    def refuse(rankings: pl.Series, counted: pl.Series) -> None:
        for n in rankings.filter(counted > rankings.cast(pl.Float64) * r.k).head(1):
            wrong = "has too few values for so many items"
            raise RankqlError(f"query must identify one ranking, but {wrong}: {n}")

    return float(r.k) * guard(rankings, refuse, r.in_top.sum())


def _ranking_key(query: Column | None) -> pl.Expr:
    if query is None:
        raise RankqlError("query must be given with k: the column that distinguishes the rankings")
    return column(query)

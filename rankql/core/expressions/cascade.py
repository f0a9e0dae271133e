"""Cascade metrics: a user reads from the top and stops.

The arguments `rel`, `pos`, `k` are those of `rankql.core.expressions.gain`, `threshold` that of
`rankql.core.expressions.precision`.
"""

from __future__ import annotations

import polars as pl

from rankql.core.expressions.checked_columns import Column, Cutoff, as_float
from rankql.core.expressions.ranking import Ranking, Rel, near_one, ranking, ratio, stops
from rankql.core.expressions.variants import metric


@metric()
def rr(rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None, threshold: float = 1) -> pl.Expr:
    """Reciprocal rank: 1 / the position of the first relevant item in the first k positions.

    0 if no relevant item is in the first k positions, NULL if no judged item is relevant. The mean
    over rankings is the MRR. Voorhees 1999.

    >>> df = pl.DataFrame({"rel": [0, 1, 1], "pos": [1, 2, 3]})
    >>> df.select(rr("rel", "pos")).item()
    0.5
    """
    r = ranking(rel, pos, k)
    hits = r.hits(threshold)
    first = r.top(hits / r.pos).max().fill_null(0)
    return pl.when(r.relevant(threshold) > 0).then(first)


@metric()
def arhr(rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None, threshold: float = 1) -> pl.Expr:
    """Reciprocal hit rank: the sum of 1 / position over the hits in the first k positions.

    NULL if no judged item is relevant. The mean over rankings is the ARHR. Deshpande & Karypis
    2004.

    >>> df = pl.DataFrame({"rel": [0, 1, 0, 1], "pos": [1, 2, 3, 4]})
    >>> df.select(arhr("rel", "pos")).item()
    0.75
    """
    r = ranking(rel, pos, k)
    hits = r.hits(threshold)
    return pl.when(r.relevant(threshold) > 0).then(r.top(hits / r.pos).sum())


@metric(in_order=True)
def err(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: Cutoff = None,
    max_rel: float | None = None,
    p: float = 1,
    stop: str = "exp2",
) -> pl.Expr:
    """Expected reciprocal rank of the item where a user stops.

    The user stops at an item with probability (2^rel - 1) / 2^max_rel, where `max_rel` is the
    highest grade of the scale, and otherwise reads on with probability `p`. Unjudged items and
    negative grades never stop the user. Grades above max_rel raise an error. With stop="rel",
    grades from 0 to 1 are the probabilities themselves, without max_rel. NULL if no grade is
    positive. Chapelle et al. 2009.

    >>> df = pl.DataFrame({"rel": [0, 2, 1], "pos": [1, 2, 3]})
    >>> df.select(err("rel", "pos", max_rel=2)).item()
    0.3958333333333333
    """
    r = ranking(rel, pos, k)
    chance = _chance(r.rel, max_rel, stop)
    value = r.top(stops(chance.fill_null(0)) * p ** (r.pos - 1) / r.pos).sum()
    return pl.when((as_float(r.judged) > 0).any()).then(value)


@metric(in_order=True, bounded=True)
def nerr(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: Cutoff = None,
    max_rel: float | None = None,
    p: float = 1,
    stop: str = "exp2",
    ideal: str = "judged",
) -> pl.Expr:
    """Normalised ERR: err, divided by that of the best order.

    Takes the options of `err`. The best order is that of all judged items, or of the retrieved ones
    with ideal="retrieved". NULL if no grade is positive. Chapelle et al. 2009.

    >>> df = pl.DataFrame({"rel": [0, 2, 1], "pos": [1, 2, 3]})
    >>> round(df.select(nerr("rel", "pos", max_rel=2)).item(), 4)
    0.5067
    """
    r = ranking(rel, pos, k)
    value = err(r, pos, k, max_rel, p, stop)
    grades = as_float(r.judged) if ideal == "judged" else pl.when(r.pos.is_not_null()).then(r.rel)
    best = grades.sort(descending=True, nulls_last=True)
    chance = _chance(best if r.k is None else best.head(r.k), max_rel, stop).fill_null(0)
    place = chance.cum_count().cast(pl.Float64)
    return near_one(ratio(value, (stops(chance) * p ** (place - 1) / place).sum()))


def _chance(rel: pl.Expr, max_rel: float | None, stop: str) -> pl.Expr:
    """The probability that a user stops at an item."""
    if stop == "rel":
        return rel
    assert max_rel is not None
    chance: pl.Expr = 2.0 ** (rel.clip(0) - max_rel) - 2.0**-max_rel  # 2^max_rel may overflow
    return chance


@metric(bounded=True)
def rbp(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: Cutoff = None,
    p: float | None = None,
    threshold: float = 1,
    max_rel: float | None = None,
) -> pl.Expr:
    """Rank-biased precision: the hits, weighted by the probability that a user sees them.

    (1 - p) * the sum of p^(pos - 1) over the hits in the first k positions. `p` is the probability
    that the user looks at the next item. With `max_rel`, an item counts rel / max_rel instead of 1;
    negative grades count 0 and grades above max_rel raise an error. 0 without hits. Moffat & Zobel
    2008.

    >>> df = pl.DataFrame({"rel": [1, 0, 1], "pos": [1, 2, 3]})
    >>> df.select(rbp("rel", "pos", p=0.5)).item()
    0.625
    """
    r = ranking(rel, pos, k)
    return _rank_biased(r, r.hits(threshold) if max_rel is None else r.rel.clip(0) / max_rel, p)


@metric()
def rbp_residual(
    rel: Rel = "rel", pos: Column = "pos", k: Cutoff = None, p: float | None = None
) -> pl.Expr:
    """Residual of RBP: how much it would rise if every unjudged item were relevant.

    1 - (1 - p) * the sum of p^(pos - 1) over the judged items in the first k positions. Moffat &
    Zobel 2008.

    >>> df = pl.DataFrame({"rel": [1, None, 0], "pos": [1, 2, 3]})
    >>> df.select(rbp_residual("rel", "pos", p=0.5)).item()
    0.375
    """
    r = ranking(rel, pos, k)
    return 1 - _rank_biased(r, r.rel.is_not_null().cast(pl.Float64), p)


def _rank_biased(r: Ranking, gain: pl.Expr, p: float | None) -> pl.Expr:
    assert p is not None
    return near_one((1 - p) * r.top(gain * p ** (r.pos - 1)).sum())

"""Debias: what clicks tell of items, once it counts where they were shown.

An item is clicked if it is looked at and relevant. How likely the slot where it stood is looked at,
its propensity, is that of the position-based model: 1 at position 1. What users click because it
stands high, though they saw that it is not relevant (trust bias), is no part of it. Estimates of
propensities may exceed 1: take the smaller of them and 1.
"""

from __future__ import annotations

import polars as pl

from rankql.expressions.columns import (
    Column,
)
from rankql.expressions.ranking import ratio
from rankql.expressions.variants import metric
from rankql.logs.click_columns import NULL_FLOAT, corrected_grade, read_predictions, weigh_clicks


@metric(by=("query", "item"))
def debiased(
    click: Column = "click",
    propensity: Column = "propensity",
    clip: float | None = None,
    predicted: Column | None = None,
) -> pl.Expr:
    """The grade of an item that its clicks tell, freed of the bias of the positions it stood at.

    The mean of click / propensity over the times that it was shown, inverse propensity scoring: its
    expectation is the chance that the item is relevant. With `clip` lower propensities count as
    clip: less noise, but biased downwards. `predicted`, a guess of that chance (0 to 1), takes over
    where clicks do not tell: the mean of predicted + (click - propensity * predicted) /
    max(propensity, clip), or that of predicted where the item was never shown. (Without clip, it
    cancels out wherever the item was shown.) A NULL click is an item that was not shown; NULL where
    it never was. The grades are judgments: `rel` for every metric. Joachims et al. 2017;
    doubly robust: Dudík et al. 2011.

    >>> log = pl.DataFrame({"item": [*"aab"], "click": [1, 0, 1], "propensity": [0.5, 0.5, 1.0]})
    >>> log.pipe(debiased, by="item").sort("item").rows()
    [('a', 1.0), ('b', 1.0)]
    """
    c, t, d = weigh_clicks(click, propensity, clip)
    return corrected_grade(
        c, t, d, NULL_FLOAT if predicted is None else read_predictions(predicted)
    )


@metric(by=None)
def effective_sample_size(
    click: Column = "click", propensity: Column = "propensity", clip: float | None = None
) -> pl.Expr:
    """Effective sample size: as many clicks of equal weight would be as good as these.

    The square of the sum of the weights over the sum of their squares; the weight of a click is
    1 / max(propensity, clip). NULL where there is no click. Kish 1965.

    >>> log = pl.DataFrame({"click": [1, 1, 0], "propensity": [1.0, 0.5, 0.1]})
    >>> log.select(effective_sample_size()).item()
    1.8
    """
    c, _, d = weigh_clicks(click, propensity, clip)
    return ratio((c / d).sum().pow(2), (c / d / d).sum())


@metric(by=None)
def largest_weight(
    click: Column = "click", propensity: Column = "propensity", clip: float | None = None
) -> pl.Expr:
    """The largest weight that a click has: 1 / the propensity of its slot.

    Or 1 / clip where that is less. NULL where there is no click.

    >>> log = pl.DataFrame({"click": [1, 1, 0], "propensity": [1.0, 0.5, 0.1]})
    >>> log.select(largest_weight()).item()
    2.0
    """
    c, _, d = weigh_clicks(click, propensity, clip)
    return (c / d).replace(0, None).max()


@metric(by=None)
def clipped_share(
    click: Column = "click", propensity: Column = "propensity", clip: float | None = None
) -> pl.Expr:
    """The share of the clicks whose weight is cut off by clip.

    NULL where there is no click.

    >>> log = pl.DataFrame({"click": [1, 1, 0], "propensity": [1.0, 0.5, 0.1]})
    >>> log.select(clipped_share(clip=0.6)).item()
    0.5
    """
    c, t, d = weigh_clicks(click, propensity, clip)
    return ratio((c * (d > t)).sum(), c.sum())

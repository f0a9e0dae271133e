"""Correct clicks for position bias (IPS, doubly robust).

In the position-based model users click an item if they look at its position and it is relevant. The
propensity of a position is the probability that users look at it, 1 at position 1. The model has no
trust bias: clicks on irrelevant items because of their high position. Estimated propensities may
exceed 1: replace these by 1.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from rankql.expressions.columns import Column, as_floats, column, refuse_values
from rankql.expressions.ranking import ratio
from rankql.expressions.variants import metric
from rankql.registry.argument_checks import as_number, require


@metric(by=("query", "item"))
def debiased(
    click: Column = "click",
    propensity: Column = "propensity",
    clip: float | None = None,
    predicted: Column | None = None,
) -> pl.Expr:
    """The grade of an item, estimated from its clicks and corrected for position bias.

    The grade is the mean of click / propensity over the times the item was shown (inverse
    propensity scoring). Its expectation is the probability that the item is relevant. With `clip`,
    lower propensities count as clip: less noise, but biased downwards. `predicted` is a prediction
    of that probability (0 to 1) for what clicks do not show: the grade is then the mean of
    predicted + (click - propensity * predicted) / max(propensity, clip), or of predicted if the
    item was never shown. Without clip, the prediction cancels out for items that were shown. A NULL
    click means that the item was not shown. NULL if it never was. Use the grades as `rel` of every
    metric. Joachims et al. 2017; doubly robust: Dudík et al. 2011.

    >>> log = pl.DataFrame({"item": [*"aab"], "click": [1, 0, 1], "propensity": [0.5, 0.5, 1.0]})
    >>> log.pipe(debiased, by="item").sort("item").rows()
    [('a', 1.0), ('b', 1.0)]
    """
    c, t, d = _weigh_clicks(click, propensity, clip)
    r = pl.lit(None, pl.Float64) if predicted is None else _read_predictions(predicted)
    guess = r.fill_null(0)
    return pl.coalesce((guess + (c - t * guess) / d).mean(), r.mean())


@metric(by=None)
def effective_sample_size(
    click: Column = "click", propensity: Column = "propensity", clip: float | None = None
) -> pl.Expr:
    """Effective sample size: the number of equally weighted clicks that are as informative.

    The squared sum of the weights divided by the sum of their squares. The weight of a click is
    1 / max(propensity, clip). NULL without clicks. Kish 1965.

    >>> log = pl.DataFrame({"click": [1, 1, 0], "propensity": [1.0, 0.5, 0.1]})
    >>> log.select(effective_sample_size()).item()
    1.8
    """
    c, _, d = _weigh_clicks(click, propensity, clip)
    return ratio((c / d).sum().pow(2), (c / d / d).sum())


def _weigh_clicks(
    click: Column, propensity: Column, clip: float | None
) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """The clicks as 1 and 0, the propensities, and the divisors of the clicks."""
    if clip is not None:
        require(0 < as_number(clip) <= 1, f"clip must be above 0 and at most 1, not {clip}")
    c = _map_values(_read_clicks, column(click))
    t = _map_values(_read_propensities, pl.struct(c=column(click), t=column(propensity)))
    return c, t, t if clip is None else t.clip(lower_bound=float(clip))


def _read_clicks(values: pl.Series) -> pl.Series:
    """Clicks as 1, 0 or NULL."""
    clicks = as_floats("click", values, "0 or 1")
    refuse_values("click must be 0 or 1", values, ~clicks.is_in([0.0, 1.0]))
    return clicks


def _read_propensities(rows: pl.Series) -> pl.Series:
    """Propensities above 0, which every item that was shown must have."""
    was_shown, values = rows.struct.field("c").is_not_null(), rows.struct.field("t")
    require(
        not (was_shown & values.is_null()).any(),
        "propensity must be given where an item was shown. Estimate it, or leave out such rows",
    )
    chances = as_floats("propensity", values)
    fit = chances.is_finite() & (chances > 0) & (chances <= 1)
    refuse_values("propensity must be above 0 and at most 1", values, ~fit)
    return chances


def _read_predictions(predicted: Column) -> pl.Expr:
    """Predicted probabilities, which may be 0."""

    def read(values: pl.Series) -> pl.Series:
        guesses = as_floats("predicted", values)
        refuse_values("predicted must lie between 0 and 1", values, ~guesses.is_between(0, 1))
        return guesses

    return _map_values(read, column(predicted))


def _map_values(function: Callable[[pl.Series], pl.Series], rows: pl.Expr) -> pl.Expr:
    """A function of each row, with its checks."""
    return rows.map_batches(function, pl.Float64, is_elementwise=True)

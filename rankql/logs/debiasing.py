"""Position bias of clicks: propensities, and clicks corrected by them (IPS, doubly robust).

The log has a row for each item shown: query, item, position, and whether it was clicked. In the
position-based model, the probability of a click is propensity(position) * attraction(query, item).
Clicks identify only ratios of propensities, so that of position 1 is 1. The model has no trust
bias: clicks on high positions whatever is shown there.

An estimate above 1 is returned as it is: use 1 to weight clicks. One that cannot be estimated is
NULL, and `note` says why. `component` is the lowest position that a position is connected with,
step by step, by the comparisons of the method. Intervals are computed for logarithms, with a
sandwich estimator of scores summed by query, so the clicks of a query need not be independent. They
are too short for few queries; `note` warns if there are fewer than 30. Rows without a position were
not shown and do not count. Their click may be NULL, but their query and item must not be.
"""

from __future__ import annotations

import polars as pl

from rankql.core.expressions.checked_columns import Column
from rankql.core.expressions.variants import macro
from rankql.core.tables.tables import Data
from rankql.logs.table_macros import Schema, table_function

_SCHEMA: Schema = {
    "pos": pl.Int64,
    **dict.fromkeys(("propensity", "lo", "hi"), pl.Float64),
    **dict.fromkeys(("impressions", "clicks", "component"), pl.Int64),
    "note": pl.String,
}


@table_function(_SCHEMA)
def randomised_propensity(
    frame: Data,
    query: Column = "query",
    pos: Column = "pos",
    click: Column = "click",
    slice: Column | None = None,
    confidence: float = 0.95,
) -> None:
    """Propensities of positions from a log in which what stands where was drawn at random.

    The click rate of a position divided by that of position 1. Not every query needs randomised
    positions, but the items at a position must not depend on it; otherwise use
    `harvested_propensity`. A log without position 1, or with clicks only, is an error. Joachims,
    Swaminathan and Schnabel 2017.

    >>> log = pl.DataFrame({"query": [1, 1, 2, 2], "pos": [1, 2, 1, 2], "click": [1, 1, 1, 0]})
    >>> log.pipe(randomised_propensity).select("pos", "propensity", "impressions", "clicks").rows()
    [(1, 1.0, 2, 2), (2, 0.5, 2, 1)]
    """


@table_function(_SCHEMA)
def harvested_propensity(
    frame: Data,
    pairs: str = "all",
    query: Column = "query",
    item: Column = "item",
    pos: Column = "pos",
    click: Column = "click",
    slice: Column | None = None,
    confidence: float = 0.95,
) -> None:
    """Propensities of positions from items that one query has shown at several of them.

    If a query showed an item n_k times at position k and n_l times at l, its clicks at both are
    weighted to n_k n_l / (n_k + n_l) impressions each (Mantel and Haenszel). Summed over queries
    and items, they are in the ratio of the propensities. pairs="all" fits a Bradley-Terry model to
    all pairs of positions, "adjacent" is a chain of neighbouring positions from 1, and "first"
    compares each position with position 1. Items shown at only one position do not contribute.
    AllPairs, AdjacentChain and PivotOne of Agarwal et al. 2019, with weights.

    >>> rows = [("a", 1, 1), ("a", 1, 1), ("a", 2, 1), ("a", 2, 0), ("b", 2, 1), ("c", 1, 0)]
    >>> log = pl.DataFrame(rows, ["item", "pos", "click"], orient="row").with_columns(query=1)
    >>> log.pipe(harvested_propensity).select("pos", pl.col("propensity").round(9), "note").rows()
    [(1, 1.0, None), (2, 0.5, 'no interval: it rests on one query')]
    """


@macro(by=("query", "item"))
def debiased(
    click: Column = "click",
    propensity: Column = "propensity",
    clip: float | None = None,
    predicted: Column | None = None,
) -> None:
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


_WEIGHTS = ("effective_sample_size", "largest_weight", "clipped", "unsupported")
_ESTIMATES: Schema = {
    **dict.fromkeys(("metric", "estimator"), pl.String),
    **dict.fromkeys(("value", "lo", "hi"), pl.Float64),
    **dict.fromkeys(("queries", "left_out", "clicks"), pl.Int64),
    **dict.fromkeys(_WEIGHTS, pl.Float64),
    "warning": pl.String,
}


@table_function(_ESTIMATES)
def counterfactual(
    frame: Data,
    k: int | None = None,
    clip: float | None = None,
    predicted: Column | None = None,
    examination: Column | None = None,
    query: Column = "query",
    item: Column = "item",
    click: Column = "click",
    propensity: Column = "propensity",
    pos: Column = "pos",
    slice: Column | None = None,
    confidence: float = 0.95,
) -> None:
    """What DCG, nDCG, RR and CTR of a new ranking would be, from the clicks on those shown so far.

    The log has one row for each time that an item was shown for a query: `click`, the `propensity`
    of the position where it was shown, and `pos`, its position in the new ranking, or NULL if it
    has none there. An item that only the new ranking has is a row with a NULL click. Metrics are
    computed per query from the grades of `debiased` and averaged. All estimators use the same
    queries: those for which an item was shown; for nDCG also clicked, for CTR also in the new
    ranking's first k.

    - "naive": clicks are grades, whatever the position. Biased.
    - "IPS": click / propensity. Unbiased for DCG, CTR and RR if the propensities are right and all
      items were shown. "clipped IPS", with `clip`, is biased, and so is nDCG, which is not linear
      in the grades, while items were shown only a few times.
    - "SNIPS": the sum of the discounts of clicked items, weighted as in IPS, divided by the sum of
      the weights: the mean discount of a relevant item (for RR 1 / pos, for CTR its examination).
      For nDCG the sum of DCG divided by that of the ideal. More clicks give a smaller error.
    - "DR", with `predicted`: predictions corrected by the clicks, as in `debiased`. Unbiased where
      IPS is, if weights are not clipped. For clipped or unshown items it is also unbiased if the
      predictions are right. Right predictions do not compensate for wrong propensities.

    RR is the expected one of the first relevant item: the sum over positions of r / pos * the
    product of 1 - r above. Do not use it if items were shown only once or twice: it multiplies
    grades, which are then 0 or far above 1. CTR needs `examination`, the propensity of the new
    position. It is the expected share of the first k items that are clicked.

    `lo` and `hi` are a confidence interval for many queries like these, if the propensities are
    known. With propensities of five positions, harvested from the same log, intervals of 95%
    contain the true value in 38% to 55% of samples. `queries` were averaged, `left_out` were not.
    For the items of these queries in the first k: `clicks`, the effective sample size, the largest
    weight, and the share of clipped weights. `unsupported` is the share of items never shown, for
    which all estimators but DR take 0. `warning` says what is doubtful. Joachims et al. 2017;
    Swaminathan and Joachims 2015; Dudík et al. 2011.

    >>> log = pl.DataFrame({"query": 1, "item": [*"ab"], "click": [0, 1]})
    >>> new = log.with_columns(propensity=pl.Series([1.0, 0.5]), pos=pl.Series([2, 1]))
    >>> new.pipe(counterfactual, 1).filter(metric="DCG@1").select("estimator", "value").rows()
    [('naive', 1.0), ('IPS', 2.0), ('SNIPS', 1.0)]
    """

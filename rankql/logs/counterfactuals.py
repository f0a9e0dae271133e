"""Metrics of a new ranking, estimated from the clicks on the rankings shown so far."""

from __future__ import annotations

import polars as pl

from rankql.expressions.columns import Column
from rankql.logs.table_macros import table_function
from rankql.sources.tables import Data

_SCHEMA = {
    "metric": pl.String,
    "estimator": pl.String,
    "value": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "queries": pl.Int64,
    "left_out": pl.Int64,
    "clicks": pl.Int64,
    "effective_sample_size": pl.Float64,
    "largest_weight": pl.Float64,
    "clipped": pl.Float64,
    "unsupported": pl.Float64,
    "warning": pl.String,
}


@table_function(_SCHEMA)
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

    `lo` and `hi` are a confidence interval for many queries like these; they ignore that
    propensities may be estimates. `queries` were averaged, `left_out` were not. For the items of
    these queries in the first k: `clicks`, the effective sample size, the largest weight, and the
    share of clipped weights. `unsupported` is the share of items never shown, for which all
    estimators but DR take 0. `warning` says what is doubtful. Joachims et al. 2017; Swaminathan
    and Joachims 2015; Dudík et al. 2011.

    >>> log = pl.DataFrame({"query": 1, "item": [*"ab"], "click": [0, 1]})
    >>> new = log.with_columns(propensity=pl.Series([1.0, 0.5]), pos=pl.Series([2, 1]))
    >>> new.pipe(counterfactual, 1).filter(metric="DCG@1").select("estimator", "value").rows()
    [('naive', 1.0), ('IPS', 2.0), ('SNIPS', 1.0)]
    """

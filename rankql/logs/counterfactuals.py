"""What the metrics of a new ranking would be, from the clicks on those shown so far."""

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

    One row for each time that an item was shown for a query: `click`, `propensity`, that of the
    slot where it stood, and `pos`, where it stands in the new ranking (NULL: nowhere). What the new
    ranking has and the log has not is a row with click NULL. Metrics are taken by query from the
    grades of `debiased` and averaged, over the same queries for every estimator: those of which the
    log shows an item; for nDCG also clicked, for CTR also with an item in the first k.

    - "naive": the clicks as grades, whatever the slot. Biased.
    - "IPS": click / propensity. Unbiased for DCG, CTR and RR if the propensities are right and all
      items were shown; "clipped IPS", with `clip`, is not. nDCG is not linear in the grades: biased
      as long as an item was shown a few times only.
    - "SNIPS": the sum of the discounts of what was clicked, weighted as in IPS, over the sum of the
      weights. Not a DCG but the mean discount of a relevant item (of RR: 1 / pos; of CTR: its
      examination); of nDCG the sum of DCG over that of the ideal. The error falls with the number
      of clicks.
    - "DR", with `predicted`: corrected by the clicks as in `debiased`. Unbiased where IPS is if
      there is no clip, and, clipped or never shown, if the predictions are right too. Right
      predictions do not make up for wrong propensities.

    RR is that of the first relevant item to be expected: the sum over positions of r / pos * the
    product of 1 - r above. Where items were shown once or twice it has no use: the grades, then 0
    or far above 1, are multiplied. CTR, where there is `examination` (the propensity of the new
    position), is the expected share of the items in the first k that are clicked.

    `lo` and `hi` hold the value with this confidence if many queries are as these are; that
    propensities may be estimates does not count in them. `queries` were averaged, `left_out` were
    not. Of the items of the former in the first k: `clicks` on them, their effective sample size,
    the largest weight, the share whose weight was cut; and `unsupported`, the share of the items
    that were never shown, for which all but DR take 0. `warning` says what is dubious. Joachims et
    al. 2017; Swaminathan and Joachims 2015; Dudík et al. 2011.

    >>> log = pl.DataFrame({"query": 1, "item": [*"ab"], "click": [0, 1]})
    >>> new = log.with_columns(propensity=pl.Series([1.0, 0.5]), pos=pl.Series([2, 1]))
    >>> new.pipe(counterfactual, 1).filter(metric="DCG@1").select("estimator", "value").rows()
    [('naive', 1.0), ('IPS', 2.0), ('SNIPS', 1.0)]
    """

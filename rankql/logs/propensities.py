"""Propensities: how likely users look at each position, relative to position 1, from a log.

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

from rankql.expressions.columns import Column
from rankql.logs.table_macros import table_function
from rankql.sources.tables import Data

_SCHEMA = {
    "pos": pl.Int64,
    "propensity": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "impressions": pl.Int64,
    "clicks": pl.Int64,
    "component": pl.Int64,
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

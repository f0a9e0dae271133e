"""Propensities: how likely each position is looked at, relative to the first, from a log.

The log has a row for each item shown: query, item, position, and whether it was clicked. Under the
position-based model a click has the chance propensity(position) * attraction(query, item); of the
propensities only the ratios can be told, so that of position 1 is 1. The model has no trust bias:
that higher positions are clicked for being there, whatever is seen.

A propensity that comes out above 1 is left as it is: weight clicks by the lesser of it and 1. One
that cannot be told is NULL, and `note` says why; `component` is the lowest position with which a
position is connected, step by step, by what the method compares. Intervals are those of logarithms,
by the sandwich of scores summed by query, whose clicks need not be independent; they are too short
where they rest on few queries, which `note` says of fewer than 30. A row without a position was not
shown and does not count; its click may be NULL, but its query and item may not.
"""

from __future__ import annotations

import polars as pl

from rankql.expressions.columns import Column
from rankql.logs.table_macros import table_function
from rankql.sources.tables import Data

_BY_POSITION = {
    "pos": pl.Int64,
    "propensity": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "impressions": pl.Int64,
    "clicks": pl.Int64,
    "component": pl.Int64,
}
_SCHEMA = {**_BY_POSITION, "note": pl.String}
_ITERATED = {**_BY_POSITION, "iterations": pl.Int64, "converged": pl.Boolean, "note": pl.String}


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

    The click rate of a position over that of position 1. A slot need not have been drawn in every
    query, but what stands there must not depend on the position: else use harvesting. A log without
    position 1, or of clicks alone, is an error. Joachims, Swaminathan and Schnabel 2017.

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

    The clicks at positions k and l of a query and item shown n_k and n_l times there are compared
    as if both were n_k n_l / (n_k + n_l) times (Mantel and Haenszel); sums of these, over queries
    and items, are in the ratio of the propensities. Of "all" pairs it is the Bradley-Terry model
    that fits them best; of "adjacent" ones a chain from position 1; of those with the "first" their
    ratio. What a query shows at one position alone tells nothing. AllPairs, AdjacentChain and
    PivotOne of Agarwal et al. 2019, with weights.

    >>> rows = [("a", 1, 1), ("a", 1, 1), ("a", 2, 1), ("a", 2, 0), ("b", 2, 1), ("c", 1, 0)]
    >>> log = pl.DataFrame(rows, ["item", "pos", "click"], orient="row").with_columns(query=1)
    >>> log.pipe(harvested_propensity).select("pos", pl.col("propensity").round(9), "note").rows()
    [(1, 1.0, None), (2, 0.5, 'no interval: it rests on one query')]
    """


@table_function(_ITERATED)
def click_model(
    frame: Data,
    query: Column = "query",
    item: Column = "item",
    pos: Column = "pos",
    click: Column = "click",
    slice: Column | None = None,
    confidence: float = 0.95,
    max_iterations: int = 10000,
) -> None:
    """The position-based click model: the propensities under which the clicks are most likely.

    A look has a chance of at most 1, and so has a click on what is looked at, each query and item
    having that which is best: where EM ends (Wang et al. 2018), but by Newton's method, as EM
    creeps where clicks are rare. `iterations` counts its steps; `converged` says that the next
    would move no propensity by more than 1e-9 of itself.

    With few impressions of each query and item it is biased towards equal propensities, as each has
    an attraction of its own to fit, of at most 1; harvesting is not: use that.

    >>> shown = [(1, 1, 6, 10), (1, 2, 3, 10), (2, 1, 4, 10), (2, 2, 2, 10)]
    >>> rows = [(q, "a", pos, int(j < c)) for q, pos, c, n in shown for j in range(n)]
    >>> log = pl.DataFrame(rows, ["query", "item", "pos", "click"], orient="row")
    >>> log.pipe(click_model).select(pl.col("propensity").round(9), "converged").rows()
    [(1.0, True), (0.5, True)]
    """


_ITERATED["note"] = pl.String

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

import math

import polars as pl

from rankql.expressions.columns import Column, check_popularity, column
from rankql.logs.table_macros import table_function
from rankql.registry.argument_checks import as_number, is_whole_number, require
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

    Propensities and attractions are at most 1, and each query and item has the attraction that fits
    best. The result is that of EM (Wang et al. 2018), but computed by Newton's method, because EM
    is slow if clicks are rare. `iterations` counts its steps. `converged` means that the next step
    would change no propensity by more than 1e-9 of itself.

    With few impressions per query and item, the estimates are biased towards equal propensities,
    because every query and item has its own attraction. Use `harvested_propensity` then. `note`
    warns below 12, on average over those shown at several positions.

    >>> shown = [(1, 1, 6, 10), (1, 2, 3, 10), (2, 1, 4, 10), (2, 2, 2, 10)]
    >>> rows = [(q, "a", pos, int(j < c)) for q, pos, c, n in shown for j in range(n)]
    >>> log = pl.DataFrame(rows, ["query", "item", "pos", "click"], orient="row")
    >>> log.pipe(click_model).select(pl.col("propensity").round(9), "converged").rows()
    [(1.0, True), (0.5, True)]
    """


def item_propensity(popularity: Column, users: float, a: float = 0.55, b: float = 1.5) -> pl.Expr:
    """The probability that a relevant item is labelled, by the number of users who have it.

    1 / (1 + (ln(users) - 1) * ((b + 1) / (popularity + b))^a), where `popularity` of the `users` in
    the training data have the item. Fitted values: a = 0.5 and b = 0.4 for Wikipedia, 0.6 and 2.6
    for Amazon. Jain, Prabhu and Varma 2016.

    >>> items = pl.DataFrame({"popularity": [0, 10, 1000]})
    >>> items.select(item_propensity("popularity", users=10000).round(3)).to_series().to_list()
    [0.084, 0.22, 0.767]
    """
    require(is_whole_number(users, 3), f"users must be a whole number from 3, not {users}")
    for name, value in {"a": a, "b": b}.items():
        ok = 0 < as_number(value) < float("inf")
        require(ok, f"{name} must be a finite number above 0, not {value}")

    def read_popularity(values: pl.Series) -> pl.Series:
        check_popularity(values, users)
        return values.cast(pl.Float64)

    n = column(popularity).map_batches(read_popularity, pl.Float64, is_elementwise=True)
    missing = (math.log(users) - 1) * ((b + 1) / (n + b)) ** a
    return (1 / (1 + missing)).alias("item_propensity")


_SCORED = {
    "metric": pl.String,
    "value": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "queries": pl.Int64,
}


@table_function(_SCORED)
def propensity_scored(
    frame: Data,
    k: int | None = None,
    threshold: float = 1,
    query: Column = "query",
    rel: Column = "rel",
    pos: Column = "pos",
    propensity: Column = "propensity",
    slice: Column | None = None,
    confidence: float = 0.95,
) -> None:
    """Precision and nDCG for labels that are missing at random by item, over all rankings at once.

    A relevant item (rel >= threshold) has the weight 1 / propensity. Its propensity is the
    probability that it is labelled if it is relevant (`item_propensity`). "PSP" is the sum of the
    weights in the first k divided by the largest possible sum. "PSnDCG" is the same for the weights
    / log2(pos + 1), each query divided by the ideal DCG of its labels. Both are a sum over all
    rankings divided by a sum, not a mean of ratios; the interval is for such a ratio and many
    queries like these. `queries` have a relevant item; NULL if none has. Jain, Prabhu and Varma
    2016.

    >>> df = pl.DataFrame({"query": 1, "rel": [1, 0, 1], "propensity": [1.0, 1.0, 0.5]})
    >>> df = df.with_columns(pos=pl.Series([1, 2, 3]))
    >>> df.pipe(propensity_scored, 2).select("metric", pl.col("value").round(4), "queries").rows()
    [('PSP@2', 0.3333, 1), ('PSnDCG@2', 0.3801, 1)]
    """

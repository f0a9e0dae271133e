"""Catalogue metrics: what all rankings together show, to whom, and from which providers.

A row is an item shown to a user: filter the rows to the top of each ranking first. A value belongs
to all rows. Compute the value of a slice from its rows with `by`, not as a mean of users.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rankql.core.base.errors import as_number, is_whole_number, require
from rankql.core.expressions.checked_columns import Column, Cutoff, as_float
from rankql.core.expressions.ranking import ratio
from rankql.core.expressions.variants import macro, metric


@macro(by=None)
def catalogue_coverage(item: Column = "item", catalogue: float | None = None) -> None:
    """Catalogue coverage: the share of the catalogue that is shown at least once.

    `catalogue` is the number of items that could be shown. Herlocker et al. 2004; Ge et al. 2010.

    >>> df = pl.DataFrame({"item": ["a", "b", "a"]})
    >>> df.select(catalogue_coverage("item", catalogue=5)).item()
    0.4
    """


@macro(by=None)
def gini(item: Column = "item", catalogue: float | str | None = None, norm: str = "n") -> None:
    """Gini index of how often items are shown: 0 if all equally often, near 1 if only a few.

    The sum of (2i - n - 1) * x_i / (norm * the sum of x), where x_i is how often the i-th of n
    items is shown, in ascending order. `catalogue` is n, which includes items that are never shown,
    or "shown" for the number of items shown. The maximum is 1 - 1/n with norm="n" and 1 with
    norm="n-1". NULL if nothing is shown. Fleder and Hosanagar 2009.

    >>> df = pl.DataFrame({"item": list("abbccddd")})
    >>> df.select(gini("item", catalogue=5)).item()
    0.35
    """


@macro(by=None)
def shannon_entropy(
    item: Column = "item", catalogue: float | str | None = None, normalized: bool = False
) -> None:
    """Shannon entropy of how often items are shown, in bits: high if attention is spread.

    The sum of -p * log2(p), where p is an item's share of everything shown. normalized=True divides
    by the log2 of `catalogue`, the number of items that could be shown, or "shown" for the number
    of items shown. The result is then between 0 and 1. NULL if nothing is shown. Shannon 1948.

    >>> df = pl.DataFrame({"item": ["a", "b", "a", "b"]})
    >>> df.select(shannon_entropy("item", catalogue=4, normalized=True)).item()
    0.5
    """


@macro(by=None)
def average_popularity(popularity: Column = "popularity", unseen: str = "zero") -> None:
    """Average popularity: the mean popularity of the items shown.

    A popularity of NULL or 0 means that the item was not in the training data. It counts 0, or is
    left out with unseen="drop". If lists differ in length, compute the value per user and take the
    mean. Yin et al. 2012.

    >>> pl.DataFrame({"popularity": [8, None, 1]}).select(average_popularity("popularity")).item()
    3.0
    """


@metric(by=None)
def novelty(
    popularity: Column = "popularity",
    users: float | None = None,
    unseen: str = "one_user",
    normalized: bool = False,
) -> pl.Expr:
    """Novelty: the mean self-information of the items shown, in bits: high if few users know them.

    The mean of log2(users / popularity): `users` is the number of users in the training data,
    popularity how many of them had the item. A popularity of NULL or 0 counts as one user;
    unseen="drop" leaves such items out, and unseen="max" gives them the value of the rarest item
    shown. normalized=True divides by log2(users). Zhou et al. 2010; Vargas and Castells 2011.

    >>> df = pl.DataFrame({"popularity": [8, 2, None]})
    >>> df.select(novelty("popularity", users=8)).item()
    1.6666666666666667
    """
    # 1.5 ms for 200,000 rows; the macro takes 46.
    require(is_whole_number(users), f"users must be a whole number from 1, not {users}")
    most = pl.lit(as_number(users)).log(2)
    bits = (as_number(users) / as_float(popularity).replace(0, None)).log(2)
    if unseen != "drop":
        bits = bits.fill_null(most if unseen == "one_user" else bits.max())
    return ratio(bits.mean(), most) if normalized else bits.mean()


@macro(by=None)
def freshness(created_at: Column = "created_at", shown_at: Column = "shown_at") -> None:
    """Freshness: the mean age of the items when they were shown, in days: low if they are new.

    The mean of shown_at - created_at: two timestamps or dates, or two numbers, whose unit the
    result has. Group by query for one ranking. A row with a NULL is left out. An item that was
    shown before it was created is an error. NULL if nothing is shown.

    >>> from datetime import date
    >>> df = pl.DataFrame({"created_at": [date(2024, 5, 1), date(2024, 5, 4)]})
    >>> df.select(freshness("created_at", pl.lit(date(2024, 5, 5)))).item()
    2.5
    """


@macro(by=None)
def personalisation(user: Column = "user", item: Column = "item") -> None:
    """Personalisation: the share of their lists that two users do not have in common.

    Over all pairs of users: the number of items shown to only one of them, divided by the length of
    both lists. 0 if all users see the same items, 1 if no two users share an item. For lists of one
    length L it is the mean of 1 - common / L, the inter-user distance of Zhou et al. 2010. NULL
    with fewer than two users.

    >>> df = pl.DataFrame({"user": [1, 1, 2, 2], "item": ["a", "b", "b", "c"]})
    >>> df.select(personalisation("user", "item")).item()
    0.5
    """


@macro(by=None)
def exposure(
    pos: Column = "pos", k: Cutoff = None, attention: Sequence[float] | None = None
) -> None:
    """Exposure: the attention that the positions of a group of items get.

    The sum of 1 / log2(pos + 1), or of `attention`, a list with one value per position, such as the
    propensities of a click log. Group by provider for the exposure of each. Singh and Joachims
    2018.

    >>> df = pl.DataFrame({"provider": ["x", "y", "x"], "pos": [1, 2, 3]})
    >>> df.pipe(exposure, by="provider").sort("provider")["exposure"].round(4).to_list()
    [1.5, 0.6309]
    """


@macro(by=None)
def exposure_disparity(exposure: Column = "exposure", merit: Column = "merit") -> None:
    """Exposure disparity: the share of the exposure that must move to be proportional to merit.

    One row per group of items, such as a provider: half the sum of absolute differences between its
    share of exposure and its share of merit. 0 if exposure follows merit. NULL exposure counts 0
    (never shown); rows with NULL merit are left out. NULL if there is no exposure or no merit.
    Singh and Joachims 2018, as one distance over any number of groups.

    >>> groups = pl.DataFrame({"exposure": [3, 1], "merit": [1, 1]})
    >>> groups.select(exposure_disparity("exposure", "merit")).item()
    0.25
    """

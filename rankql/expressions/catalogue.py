"""Catalogue metrics: what all rankings together show, to whom, and from which providers.

A row is an item shown to a user: filter the rows to the top of each ranking first. A value belongs
to all rows. Compute the value of a slice from its rows with `by`, not as a mean of users.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rankql.errors import RankqlError, as_number, is_whole_number, require
from rankql.expressions.checked_columns import Column, Cutoff, as_float, as_time, column
from rankql.expressions.gain import require_list, value_at
from rankql.expressions.ranking import ranking, ratio
from rankql.expressions.variants import metric

# Microseconds.
_DAY = 86_400_000_000


@metric(by=None)
def catalogue_coverage(item: Column = "item", catalogue: float | None = None) -> pl.Expr:
    """Catalogue coverage: the share of the catalogue that is shown at least once.

    `catalogue` is the number of items that could be shown. Herlocker et al. 2004; Ge et al. 2010.

    >>> df = pl.DataFrame({"item": ["a", "b", "a"]})
    >>> df.select(catalogue_coverage("item", catalogue=5)).item()
    0.4
    """
    items = column(item).drop_nulls().n_unique()
    return items / _total(catalogue, items, "items that could be shown")


@metric(by=None)
def gini(item: Column = "item", catalogue: float | str | None = None, norm: str = "n") -> pl.Expr:
    """Gini index of how often items are shown: 0 if all equally often, near 1 if only a few.

    The sum of (2i - n - 1) * x_i / (norm * the sum of x), where x_i is how often the i-th of n
    items is shown, in ascending order. `catalogue` is n, which includes items that are never shown,
    or "shown" for the number of items shown. The maximum is 1 - 1/n with norm="n" and 1 with
    norm="n-1". NULL if nothing is shown. Fleder and Hosanagar 2009.

    >>> df = pl.DataFrame({"item": list("abbccddd")})
    >>> df.select(gini("item", catalogue=5)).item()
    0.35
    """
    counts = _counts(item)
    n = _catalogue(catalogue, counts)
    ranked = ratio((counts * pl.int_range(1, counts.len() + 1)).sum(), counts.sum())
    return ratio(2 * ranked + n - 2 * counts.len() - 1, n if norm == "n" else n - 1)


@metric(by=None)
def shannon_entropy(
    item: Column = "item", catalogue: float | str | None = None, normalized: bool = False
) -> pl.Expr:
    """Shannon entropy of how often items are shown, in bits: high if attention is spread.

    The sum of -p * log2(p), where p is an item's share of everything shown. normalized=True divides
    by the log2 of `catalogue`, the number of items that could be shown, or "shown" for the number
    of items shown. The result is then between 0 and 1. NULL if nothing is shown. Shannon 1948.

    >>> df = pl.DataFrame({"item": ["a", "b", "a", "b"]})
    >>> df.select(shannon_entropy("item", catalogue=4, normalized=True)).item()
    0.5
    """
    counts = _counts(item)
    total = counts.sum().replace(0, None)
    bits = total.log(2) - (counts * counts.log(2)).sum() / total
    if normalized:
        return ratio(bits, _catalogue(catalogue, counts).log(2))
    return bits if catalogue is None else bits + 0 * _catalogue(catalogue, counts)


@metric(by=None)
def average_popularity(popularity: Column = "popularity", unseen: str = "zero") -> pl.Expr:
    """Average popularity: the mean popularity of the items shown.

    A popularity of NULL or 0 means that the item was not in the training data. It counts 0, or is
    left out with unseen="drop". If lists differ in length, compute the value per user and take the
    mean. Yin et al. 2012.

    >>> pl.DataFrame({"popularity": [8, None, 1]}).select(average_popularity("popularity")).item()
    3.0
    """
    known = as_float(popularity)
    return (known.fill_null(0) if unseen == "zero" else known.replace(0, None)).mean()


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
    _check_total(users, "users", "users in the training data")
    most = pl.lit(as_number(users)).log(2)
    bits = (as_number(users) / as_float(popularity).replace(0, None)).log(2)
    if unseen != "drop":
        bits = bits.fill_null(most if unseen == "one_user" else bits.max())
    return ratio(bits.mean(), most) if normalized else bits.mean()


@metric(by=None)
def freshness(created_at: Column = "created_at", shown_at: Column = "shown_at") -> pl.Expr:
    """Freshness: the mean age of the items when they were shown, in days: low if they are new.

    The mean of shown_at - created_at: two timestamps or dates, or two numbers, whose unit the
    result has. Group by query for one ranking. A row with a NULL is left out. An item that was
    shown before it was created is an error. NULL if nothing is shown.

    >>> from datetime import date
    >>> df = pl.DataFrame({"created_at": [date(2024, 5, 1), date(2024, 5, 4)]})
    >>> df.select(freshness("created_at", pl.lit(date(2024, 5, 5)))).item()
    2.5
    """
    times = pl.struct(created_at=column(created_at), shown_at=column(shown_at))
    return times.map_batches(_ages, pl.Float64, is_elementwise=True).mean()


def _ages(times: pl.Series) -> pl.Series:
    """The ages of items when they were shown: in days, or in the unit of numbers."""
    rows = times.struct.unnest()
    created, shown = (as_time(name, rows[name]) for name in rows.columns)
    kinds = [kind for kind in rows.dtypes if kind != pl.Null]
    rule = "created_at and shown_at must be of one kind, timestamps or numbers"
    same = len({kind.is_temporal() for kind in kinds}) < 2
    require(same, f"{rule}, not {' and '.join(map(str, kinds))}")
    for early, late in rows.filter(created > shown).head(1).iter_rows():
        raise RankqlError(f"created_at must not be after shown_at: {early} is after {late}")
    return (shown - created) / (_DAY if any(kind.is_temporal() for kind in kinds) else 1)


@metric(by=None)
def personalisation(user: Column = "user", item: Column = "item") -> pl.Expr:
    """Personalisation: the share of their lists that two users do not have in common.

    Over all pairs of users: the number of items shown to only one of them, divided by the length of
    both lists. 0 if all users see the same items, 1 if no two users share an item. For lists of one
    length L it is the mean of 1 - common / L, the inter-user distance of Zhou et al. 2010. NULL
    with fewer than two users.

    >>> df = pl.DataFrame({"user": [1, 1, 2, 2], "item": ["a", "b", "b", "c"]})
    >>> df.select(personalisation("user", "item")).item()
    0.5
    """
    pairs = pl.struct(user=column(user), item=column(item))
    pairs = pairs.filter(column(user).is_not_null() & column(item).is_not_null()).unique()
    # Used once: lazy frames work counts out for every use, and in another order each time.
    counts = pairs.struct.field("item").value_counts().struct.field("count").cast(pl.Float64)
    users = pairs.struct.field("user").n_unique()
    n = pairs.len().cast(pl.Float64)
    return 1 - ratio(counts.pow(2).sum() - n, n * (users - 1))


@metric(by=None)
def exposure(
    pos: Column = "pos", k: Cutoff = None, attention: Sequence[float] | None = None
) -> pl.Expr:
    """Exposure: the attention that the positions of a group of items get.

    The sum of 1 / log2(pos + 1), or of `attention`, a list with one value per position, such as the
    propensities of a click log. Group by provider for the exposure of each. Singh and Joachims
    2018.

    >>> df = pl.DataFrame({"provider": ["x", "y", "x"], "pos": [1, 2, 3]})
    >>> df.pipe(exposure, by="provider").sort("provider")["exposure"].round(4).to_list()
    [1.5, 0.6309]
    """
    require_list("attention", attention)
    for value in attention or ():
        ok = 0 <= as_number(value) < float("inf")
        require(ok, f"attention must be a finite number from 0, not {value}")
    r = ranking(pos, pos, k)
    places = r.top(r.pos)
    if attention is None:
        return (1 / (places + 1).log(2)).sum()
    beyond = "attention must have a value for every position shown: there is none for {:.0f}"
    return value_at(places, attention, beyond).sum()


@metric(by=None)
def exposure_disparity(exposure: Column = "exposure", merit: Column = "merit") -> pl.Expr:
    """Exposure disparity: the share of the exposure that must move to be proportional to merit.

    One row per group of items, such as a provider: half the sum of absolute differences between its
    share of exposure and its share of merit. 0 if exposure follows merit. NULL exposure counts 0
    (never shown); rows with NULL merit are left out. NULL if there is no exposure or no merit.
    Singh and Joachims 2018, as one distance over any number of groups.

    >>> groups = pl.DataFrame({"exposure": [3, 1], "merit": [1, 1]})
    >>> groups.select(exposure_disparity("exposure", "merit")).item()
    0.25
    """
    m = as_float(merit)
    e = pl.when(m.is_not_null()).then(as_float(exposure).fill_null(0))
    moved = (ratio(e, e.sum()) - ratio(m, m.sum())).abs()
    return pl.when(e.sum() > 0, m.sum() > 0).then(moved.sum() / 2)


def _counts(item: Column) -> pl.Expr:
    """How often each item was shown, the least often first."""
    return column(item).drop_nulls().unique_counts().cast(pl.Float64).sort()


def _catalogue(catalogue: float | str | None, counts: pl.Expr) -> pl.Expr:
    if isinstance(catalogue, str) and catalogue == "shown":
        return counts.len().cast(pl.Float64)
    of = "items that could be shown (or 'shown', to count the items that were)"
    return _total(catalogue, counts.len(), of)


def _total(total: object, count: pl.Expr, of: str) -> pl.Expr:
    """The number of items in the catalogue, at least as many as are counted."""
    _check_total(total, "catalogue", of)

    def enough(counts: pl.Series) -> pl.Series:
        for more in counts.filter(counts.cast(pl.Float64) > as_number(total)).head(1):
            less = f"{total} is less than the {more} that were shown"
            raise RankqlError(f"catalogue must be the number of {of}: {less}")
        return pl.Series([as_number(total)]).new_from_index(0, len(counts))

    return count.map_batches(enough, pl.Float64, is_elementwise=True)


def _check_total(total: object, name: str, of: str) -> None:
    require(total is not None, f"{name} must be given: the number of {of}")
    require(is_whole_number(total), f"{name} must be a whole number from 1, not {total}")

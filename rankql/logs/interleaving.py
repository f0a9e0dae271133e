"""Interleaving: show two rankings as one, and see which of them the clicks prefer.

Use one `seed` per showing, such as the id of a search. The same seed gives the same list, in SQL
too, so a log needs only the seed to restore the teams. The two rankings are lists of items. The
shown list ends where one of them has no new item, because the rest would be the other's alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence, Set
from hashlib import md5
from numbers import Integral
from typing import Any, TypeAlias
from uuid import UUID

import polars as pl  # noqa: F401  of the examples

from rankql.core.base.errors import require, require_cutoff, require_flag
from rankql.core.expressions.checked_columns import Column
from rankql.core.expressions.variants import macro

Items: TypeAlias = Sequence[Hashable]


def team_draft(
    a: Items, b: Items, k: int | None = None, seed: object = None, prefix: bool = False
) -> list[dict[str, Any]]:
    """Interleave two rankings: teams pick items in turn, and a coin toss decides who is first.

    In every round each team picks the best item of its ranking that is not shown yet. With
    `prefix`, the items that both rankings start with come first and belong to no team. The last
    round has one pick if there cannot be two, whoever picks first, so clicks that depend on the
    position alone prefer neither team. Radlinski, Kurup and Joachims 2008.

    >>> [pick["item"] + str(pick["team"]) for pick in team_draft([*"abc"], [*"bca"], seed=1)]
    ['bB', 'aA', 'cB']
    """
    for name, items in (("a", a), ("b", b)):
        # A text is the name of a column, and not a list of letters.
        listed = isinstance(items, Collection) and not isinstance(items, Set | str)
        require(listed, f"{name} must be a list of items, not {items}")
        ids = all(isinstance(x, Hashable) for x in items)
        require(ids, f"{name} must be a list of ids, not of tables or lists")
        require(None not in set(items), f"{name} must not hold NULL")
        require(len(set(items)) == len(items), f"{name} must not hold an item twice")
    require_cutoff(k)
    require_flag("prefix", prefix)
    most, top = math.inf if k is None else k, []
    if prefix:
        same = [x == y for x, y in zip(a, b, strict=False)]
        top = list(a[: [*same, False].index(False)])[: None if k is None else int(k)]
    picks = [{"item": item, "team": None} for item in top]
    seen, turn = set(top), 0
    while len(picks) < most:
        # Toss a coin by the first bit of an MD5 sum: the same for the same seed and toss.
        toss = turn // 2
        message = "seed must be given: a value that differs between impressions, such as their id"
        require(seed is not None, message)
        fit = isinstance(seed, str | Integral | UUID) and not isinstance(seed, bool)
        require(fit, f"seed must be text, a whole number or a UUID, not {seed}")
        heads = md5(f"{seed}:{toss}".encode()).hexdigest() < "8"
        first, second = (a, b) if heads else (b, a)
        one, two = (next((x for x in side if x not in seen), None) for side in (first, second))
        late = turn % 2 == 1
        if two is None or (one is None and (not late or _is_above(second, picks[-1]["item"], two))):
            break
        item = two if late else one
        picks.append({"item": item, "team": "AB"[heads == late]})
        seen.add(item)
        turn += 1
    return picks


def team_draft_credit(picks: Sequence[Mapping[str, Any]], clicks: Collection[Hashable]) -> float:
    """Which ranking the clicks on a team draft prefer: 1 for A, -1 for B, 0 for neither.

    >>> team_draft_credit(team_draft([*"abc"], [*"bca"], seed=1), ["b"])
    -1.0
    """
    fit = isinstance(picks, Collection) and all(
        isinstance(pick, Mapping) and {"item", "team"} <= pick.keys() for pick in picks
    )
    require(fit, f"picks must be a list of items and their teams, as of team_draft, not {picks}")
    # A text is one item, not a list of letters.
    listed = isinstance(clicks, Collection) and not isinstance(clicks, str)
    require(listed, f"clicks must be a list of items, not {clicks}")
    teams = [pick["team"] for pick in picks if pick["item"] in clicks]
    a, b = teams.count("A"), teams.count("B")
    return float((a > b) - (a < b))


@macro(by=None)
def sign_test(preference: Column = "preference") -> None:
    """Two-sided p-value of the sign test: wins against losses, without ties.

    The exact binomial test of equal chances; NULL without wins and losses. Use one preference per
    independent trial, such as a user: showings to the same user are not independent.

    >>> pl.DataFrame({"preference": [1, 1, 1, 1, 1, 1, 0, -1]}).select(sign_test().round(9)).item()
    0.125
    """


def _is_above(items: Items, one: Hashable, other: Hashable) -> bool:
    """Is the one in the ranking, above the other?"""
    return one in items and list(items).index(one) < list(items).index(other)

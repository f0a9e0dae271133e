"""Checks of arguments of Python functions."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real
from statistics import NormalDist

from rankql.errors import RankqlError


def require(ok: bool, message: str) -> None:
    """Raise the message unless ok."""
    if not ok:
        raise RankqlError(message)


def as_number(value: object) -> float:
    """An argument as a float; NaN, which fails every comparison, if it is not a number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def parse_number(text: str) -> float | None:
    """The number that a text is; None if it is none. Python alone reads 1_0 as 10."""
    try:
        return float(text.replace("_", "?"))
    except ValueError:
        return None


def describe(value: object) -> str:
    """An argument in an error about numbers, which tells text and decimals from them."""
    if isinstance(value, str):
        return f"the text {value!r}"
    return repr(value) if isinstance(value, Decimal) else str(value)


def is_whole_number(value: object, least: float = 1) -> bool:
    """Is it a whole number of at least `least`, such as 3 or 3.0, that a float can represent?"""
    return least <= as_number(value) <= 2**53 and as_number(value) % 1 == 0


def require_cutoff(k: object) -> None:
    """Refuse an invalid cutoff."""
    ok = k is None or is_whole_number(k)
    require(
        ok,
        f"k must be a whole number from 1, not {describe(k)}. Leave k out for the complete ranking",
    )


def require_whole_number(name: str, value: object, least: int) -> None:
    """Refuse an argument that is not an int of at least `least`."""
    ok = isinstance(value, int) and is_whole_number(value, least)
    require(ok, f"{name} must be a whole number from {least}, not {describe(value)}")


def require_choice(name: str, value: object, *choices: str) -> None:
    """Refuse an option that is not one of the choices."""
    *most, last = map(repr, choices)
    require(value in choices, f"{name} must be {', '.join(most)} or {last}, not {value}")


def require_flag(name: str, value: object) -> None:
    """Refuse an option that is not true or false."""
    require(isinstance(value, bool), f"{name} must be true or false, not {value}")


def require_probability(name: str, value: object, margin: float = 0.0) -> None:
    """Refuse an argument that is not between 0 and 1, at least `margin` from both."""
    ok = margin < as_number(value) < 1 - margin
    require(ok, f"{name} must lie between 0 and 1, not {describe(value)}")


def require_plain_name(name: object) -> None:
    """Refuse a name that polars takes for a pattern of names."""
    pattern = isinstance(name, str) and (name == "*" or name[:1] + name[-1:] == "^$")
    require(not pattern, f"{name!r} stands for several columns in polars. Rename the column")


def normal_z(confidence: float) -> float:
    """The half width of a normal interval of this confidence, in standard errors."""
    require_probability("confidence", confidence)
    return -NormalDist().inv_cdf((1 - as_number(confidence)) / 2)

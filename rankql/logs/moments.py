"""Times of a log: timestamps or numbers, and what an event counts at a moment."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

import polars as pl

from rankql.expressions.columns import Column, column, refuse_values
from rankql.registry.argument_checks import as_number, require
from rankql.text import TEXT_TYPES

Moment: TypeAlias = date | datetime | float


Duration: TypeAlias = timedelta | float


def weigh_by_moment(
    moment: Column | None, until: Moment | None, within: Duration | None, half_life: Duration | None
) -> pl.Expr:
    """What is left of each event at `until`: NULL from there on and before the window."""
    if until is None:
        message = "until must be given: the time that within and half_life count back from"
        require(within is None and half_life is None, message)
        return pl.lit(1.0)
    require(moment is not None, "moment must be a timestamp or a finite number, not None")

    def weigh(times: pl.Series) -> pl.Series:
        times = _require_moments(times)
        clock = _is_clock(times)
        ages = _moment_as_number("until", until, clock) - _as_numbers(times)
        counts = ages > 0
        if within is not None:
            counts &= ages <= _duration_as_number("within", within, clock)
        faded = pl.repeat(1.0, len(ages), eager=True)
        if half_life is not None:
            faded = 2 ** (-ages / _duration_as_number("half_life", half_life, clock))
        return pl.select(pl.when(counts).then(faded)).to_series()

    return column("" if moment is None else moment).map_batches(
        weigh, pl.Float64, is_elementwise=True
    )


def _require_moments(times: pl.Series) -> pl.Series:
    """The times, an error where they are none."""
    dtype = times.dtype
    if dtype == pl.Null and times.is_empty():
        return times.cast(pl.Float64)
    kind = "text" if dtype in TEXT_TYPES else str(dtype)
    fit = dtype.is_numeric() or dtype == pl.Date or dtype == pl.Datetime or dtype == pl.Null
    require(fit, f"moment must be a timestamp or a number, not {kind}. Cast it first")
    bad = times.is_null()
    if dtype.is_float():
        bad |= ~times.is_finite().fill_null(True)
    if dtype.is_temporal():
        # DuckDB's infinite dates and timestamps, for which polars and Python have no text.
        ends = times.to_physical().cast(pl.Int64)
        for end in ends.filter(ends.abs() >= (_MAX_DAYS if dtype == pl.Date else 2**63 - 1)).head(
            1
        ):
            infinity = "infinity" if end > 0 else "-infinity"
            require(False, f"moment must be a timestamp or a finite number, not {infinity}")
    refuse_values("moment must be a timestamp or a finite number", times, bad)
    return times


_MAX_DAYS = 2**63 // (24 * 60 * 60 * 10**6)  # as many as there are microseconds for


def _is_clock(times: pl.Series) -> bool:
    return times.dtype.is_temporal()


def _as_numbers(times: pl.Series) -> pl.Series:
    """Times as microseconds, or as the numbers that they are."""
    if _is_clock(times):
        times = times.cast(pl.Datetime("us")).cast(pl.Int64)
    return times.cast(pl.Float64)


def _moment_as_number(name: str, value: Moment, clock: bool) -> float:
    """A moment as a number on the clock of a column."""
    kind = "a timestamp" if clock else "a finite number"
    fit = isinstance(value, date) if clock else is_finite(value)
    require(fit, f"{name} must be {kind}, as moment is, not {value}")
    if not isinstance(value, date):
        return float(value)
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    value = value if value.tzinfo else value.replace(tzinfo=UTC)
    return float((value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))


def _duration_as_number(name: str, value: Duration, clock: bool) -> float:
    """A length of time on the clock of a column."""
    microseconds = value / timedelta(microseconds=1) if isinstance(value, timedelta) else value
    fit = isinstance(value, timedelta) == clock and is_finite(microseconds) and microseconds > 0
    kinds = ("an interval", "a timestamp") if clock else ("a number", "a number")
    require(fit, f"{name} must be {kinds[0]} above 0, as moment is {kinds[1]}, not {value}")
    return float(microseconds)


def decimal_as_float(value: object) -> float:
    """A number as a float, one of a column of DECIMAL too; NaN where it cannot be one."""
    return as_number(float(value) if isinstance(value, Decimal) else value)


def is_finite(value: object) -> bool:
    """Is it a number that a float can be?"""
    return math.isfinite(decimal_as_float(value))

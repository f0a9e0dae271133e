"""Columns of a log of clicks, checked: clicks, propensities, predictions, positions."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from rankql.expressions.columns import Column, as_floats, column, refuse_values
from rankql.registry.argument_checks import as_number, require


def weigh_clicks(
    click: Column, propensity: Column, clip: float | None, *names: str
) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """The clicks as 1 and 0, the propensities, and what clicks are divided by."""
    if clip is not None:
        require(0 < as_number(clip) <= 1, f"clip must be above 0 and at most 1, not {clip}")
    click_name, propensity_name = names or ("click", "propensity")

    def read_clicks(values: pl.Series) -> pl.Series:
        return require_clicks(values, click_name)

    def read_propensities(rows: pl.Series) -> pl.Series:
        shown, chance = rows.struct.field("c").is_not_null(), rows.struct.field("t")
        require(
            not (shown & chance.is_null()).any(),
            f"{propensity_name} must be given where an item was shown; "
            "estimate it, or leave such rows out",
        )
        return require_chances(propensity_name, chance)

    c = map_values(read_clicks, column(click))
    t = map_values(read_propensities, pl.struct(c=column(click), t=column(propensity)))
    return c, t, t if clip is None else t.clip(lower_bound=float(clip))


def require_clicks(values: pl.Series, name: str = "click") -> pl.Series:
    """Clicks as 1 and 0, NULL where there is none."""
    clicks = as_floats(name, values, "0 or 1")
    refuse_values(f"{name} must be 0 or 1", values, ~clicks.is_in([0.0, 1.0]))
    return clicks


def require_chances(name: str, values: pl.Series) -> pl.Series:
    """Chances that can be divided by."""
    chances = as_floats(name, values)
    fit = chances.is_finite() & (chances > 0) & (chances <= 1)
    refuse_values(f"{name} must be above 0 and at most 1", values, ~fit)
    return chances


def read_predictions(predicted: Column, name: str = "predicted") -> pl.Expr:
    """Predicted chances, which may be 0."""

    def read(values: pl.Series) -> pl.Series:
        guesses = as_floats(name, values)
        refuse_values(f"{name} must lie between 0 and 1", values, ~guesses.is_between(0, 1))
        return guesses

    return map_values(read, column(predicted))


def corrected_grade(c: pl.Expr, t: pl.Expr, d: pl.Expr, r: pl.Expr) -> pl.Expr:
    """The grade of an item: the prediction, corrected by what the clicks say otherwise."""
    guess = r.fill_null(0)
    return pl.coalesce((guess + (c - t * guess) / d).mean(), r.mean())


NULL_FLOAT = pl.lit(None, pl.Float64)


def map_values(function: Callable[[pl.Series], pl.Series], rows: pl.Expr) -> pl.Expr:
    """A function of each row, checks included."""
    return rows.map_batches(function, pl.Float64, is_elementwise=True)

"""What charts are made of: panels, axes, colours and tooltips."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import polars as pl

from rankql.layout import shorten_lines
from rankql.output.chart_selection import Evaluation, assign_colours
from rankql.output.specs import (
    CONFIG,
    GREY,
    HEIGHT,
    ROW_HEIGHT,
    WIDTH,
    Spec,
    calculate,
    inline_data,
    make_layer,
    nominal,
    quantitative,
)
from rankql.text import format_interval

# A description names so many rows.
DESCRIBED = 6
# Longer names are shortened.
LABEL = 20
# The mark of the second system of a pair.
MINUS = "− "


def make_panel(
    layers: Sequence[Spec],
    frame: pl.DataFrame,
    title: str,
    words: Sequence[str],
    height: float = HEIGHT,
) -> Spec:
    """Draw layers over the rows of a frame. A screen reader reads the words, the first of many."""
    more = [f"and {len(words) - DESCRIBED} more"] if len(words) > DESCRIBED else []
    return {
        "title": title,
        "description": f"{title}: {'; '.join([*words[:DESCRIBED], *more])}.",
        "width": WIDTH,
        "height": max(height, ROW_HEIGHT),
        "data": inline_data(frame),
        "layer": [*layers],
        "config": CONFIG,
    }


def make_dot_panel(
    frame: pl.DataFrame, title: str, colour: Spec, domain: list[float] | None = None
) -> Spec:
    """Draw a row for each row of the frame: a dot on its interval, with the number above.

    The first four columns are the name of the row, its value, lo and hi. With a `domain`, values
    are differences, with a sign.
    """
    name, value = frame.columns[:2]
    sign = "" if domain is None else "+"
    words = [f"{row[0]} {format_interval(row[1:4], sign)}" for row in frame.rows()]
    base = {"y": row_axis(name, frame[name]), "tooltip": make_tooltips(frame)}
    dots = {**base, "color": colour}
    scale = {"zero": False, "padding": 24, **({} if domain is None else {"domain": domain})}
    no_intervals = len(frame) in (frame[value].null_count(), frame["lo"].null_count())
    x, lo = (
        quantitative(field, title=None, scale=scale, axis={"tickCount": 6})
        for field in (value, "lo")
    )
    interval = {**dots, "x": lo, "x2": {"field": "hi"}}
    # Vega writes a difference that rounds to 0 as -0.000.
    label = f"format(abs(datum.{value}) < 5e-4 ? 0 : datum.{value}, '{sign}.3f')"
    number = {**base, "x": x, "text": nominal("label"), "color": {"value": GREY}}
    layers = [
        *([] if domain is None else [make_zero_line("x")]),
        *([] if no_intervals else [make_layer("rule", interval, strokeWidth=3, opacity=0.85)]),
        make_layer("point", {**dots, "x": x}, filled=True, size=70, opacity=1),
        make_layer("text", number, dy=-11) | calculate(label=label),
    ]
    two_lines = frame[name].str.contains("\n", literal=True).any()
    height = ROW_HEIGHT * len(frame) * (1.4 if two_lines else 1)
    return make_panel(layers, frame, title, words, height)


def make_zero_line(axis: str) -> Spec:
    """Draw the line of no difference."""
    line = make_layer("rule", {axis: quantitative("zero")}, color=GREY, strokeWidth=1)
    return line | {"data": {"values": [{"zero": 0}]}}


def row_axis(field: str, names: pl.Series) -> Spec:
    """Name the rows, in their order."""
    lines = {"labelExpr": f"split({label_expression(names)}, '\\n')"}
    # Not sort=: it puts the names into an expression, which some characters break.
    return nominal(field, scale={"domain": names.to_list()}, title=None, axis=lines)


def shorten_names(names: Iterable[str]) -> dict[str, str]:
    """Shorten the long lines of names, no two to the same: in the middle, or to what differs."""
    names = {*names}
    lines = {line.removeprefix(MINUS) for name in names for line in name.split("\n")}
    short = shorten_lines(sorted(lines), LABEL)
    return {
        name: "\n".join(
            MINUS * line.startswith(MINUS) + short[line.removeprefix(MINUS)]
            for line in name.split("\n")
        )
        for name in names
    }


def label_expression(names: Iterable[str]) -> str:
    """Write the expression of Vega for the label of each name, in which names are literals."""
    short = {name: label for name, label in sorted(shorten_names(names).items()) if label != name}
    return f"{json.dumps(short)}[datum.label] || datum.label" if short else "datum.label"


def grid_axis() -> Spec:
    """Make an axis with grid lines."""
    return {"grid": True, "titleLimit": HEIGHT, "tickCount": 6}


def colour_by_system(evaluation: Evaluation, field: str = "system", legend: bool = False) -> Spec:
    """Colour by the system that a column names."""
    colours = assign_colours(evaluation)
    named = [name for name, colour in colours.items() if colour != GREY]
    key = None
    if legend and named[1:]:
        key = {"values": named, "symbolType": "stroke", "labelExpr": label_expression(named)}
    scale = {"domain": [*colours], "range": [*colours.values()]}
    return nominal(field, scale=scale, legend=key)


def make_tooltips(frame: pl.DataFrame) -> list[Spec]:
    """Show every column of a frame when the mouse is over its row."""
    return [
        quantitative(name, format=".4f" if kind.is_float() else ",d")
        if kind.is_numeric()
        else nominal(name)
        for name, kind in frame.schema.items()
    ]

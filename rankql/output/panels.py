"""What charts show, of which systems, and what they are made of: panels, axes and colours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

import polars as pl

from rankql.layout import cut_in_middle
from rankql.output import specs
from rankql.text import format_interval

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison
    from rankql.evaluation.result import Result


# A description names so many rows.
DESCRIBED = 6
# Longer names are shortened.
LABEL = 26


def make_panel(
    layers: Sequence[specs.Spec],
    frame: pl.DataFrame,
    title: str,
    words: Sequence[str],
    height: float = specs.HEIGHT,
) -> specs.Spec:
    """Draw layers over the rows of a frame. A screen reader reads the words, the first of many."""
    more = [f"and {len(words) - DESCRIBED} more"] if len(words) > DESCRIBED else []
    return {
        "title": title,
        "description": f"{title}: {'; '.join([*words[:DESCRIBED], *more])}.",
        "width": specs.WIDTH,
        "height": max(height, specs.ROW_HEIGHT),
        "data": specs.inline_data(frame),
        "layer": [*layers],
        "config": specs.CONFIG,
    }


def make_dot_panel(
    frame: pl.DataFrame, title: str, colour: specs.Spec, domain: list[float] | None = None
) -> specs.Spec:
    """Draw a row for each row of the frame: a dot on its interval, with the number on the right.

    The first four columns are the name of the row, its value, lo and hi. With a `domain`, values
    are differences, with a sign.
    """
    name, value = frame.columns[:2]
    sign = "" if domain is None else "+"
    numbers = {row[0]: format_interval(row[1:4], sign) for row in frame.rows()}
    words = [f"{x} {number}" for x, number in numbers.items()]
    labels = {x: number.partition(" (")[0].replace("-", "−") for x, number in numbers.items()}
    rows, tooltip = row_axis(name, frame[name]), make_tooltips(frame)
    base = {"y": rows, "color": colour, "tooltip": tooltip}
    right = {"orient": "right", "labelExpr": f"{json.dumps(labels)}[datum.label]"}
    scale = {"zero": False, "padding": 12, **({} if domain is None else {"domain": domain})}
    x, lo = (
        specs.quantitative(field, title=None, scale=scale, axis={"tickCount": 5})
        for field in (value, "lo")
    )
    interval = {**base, "x": lo, "x2": {"field": "hi"}}
    dots = {**base, "x": x, "y": rows | {"axis": right}}
    layers = [
        *([] if domain is None else [make_zero_line("x")]),
        specs.make_layer("rule", interval, strokeWidth=3, opacity=0.85),
        specs.make_layer("point", dots, filled=True, size=70, opacity=1),
    ]
    lines = 1 + int(frame[name].str.count_matches("\n", literal=True).max() or 0)  # type: ignore[arg-type]
    height = specs.ROW_HEIGHT * len(frame) * (1 + lines) / 2
    panel = make_panel(layers, frame, title, words, height)
    return panel | {"resolve": {"axis": {"y": "independent"}}}


def make_zero_line(axis: str) -> specs.Spec:
    """Draw the line of no difference."""
    line = specs.make_layer(
        "rule", {axis: specs.quantitative("zero")}, color=specs.GREY, strokeWidth=1
    )
    return line | {"data": {"values": [{"zero": 0}]}}


def row_axis(field: str, names: pl.Series) -> specs.Spec:
    """Name the rows, in their order."""
    # Vega cuts names at the end. Those of pairs are short, and have two lines.
    short = "datum.label" if field == "pair" else label_expression(names)
    lines = {"labelExpr": f"split({short}, '\\n')"}
    # Not sort=: it puts the names into an expression, which some characters break.
    return specs.nominal(field, scale={"domain": names.to_list()}, title=None, axis=lines)


def shorten_names(names: Iterable[str]) -> dict[str, str]:
    """Shorten long names, no two to the same, and each line of a name by itself."""
    names = {*names}
    short = cut_in_middle(sorted({line for name in names for line in name.split("\n")}), LABEL)
    return {name: "\n".join(short[line] for line in name.split("\n")) for name in names}


def split_slices(evaluation: Evaluation) -> pl.Expr:
    """The names of slices by several attributes, a line for each attribute."""
    names = "|".join(map(re.escape, result_of(evaluation).meta.by))
    return pl.col("slice").str.replace_all(f", ({names})=", "\n${1}=")


def label_expression(names: Iterable[str]) -> str:
    """Write the expression of Vega for the label of each name, in which names are literals."""
    short = {name: label for name, label in sorted(shorten_names(names).items()) if label != name}
    return f"{json.dumps(short)}[datum.label] || datum.label" if short else "datum.label"


def grid_axis() -> specs.Spec:
    """Make an axis with grid lines."""
    return {"grid": True, "titleLimit": specs.HEIGHT, "tickCount": 6}


def colour_by_system(
    evaluation: Evaluation, field: str = "system", legend: bool = False
) -> specs.Spec:
    """Colour by the system that a column names."""
    colours = assign_colours(evaluation)
    named = [name for name, colour in colours.items() if colour != specs.GREY]
    key = None
    if legend and named[1:]:
        key = {"values": named, "symbolType": "stroke", "labelExpr": label_expression(named)}
    scale = {"domain": [*colours], "range": [*colours.values()]}
    return specs.nominal(field, scale=scale, legend=key)


def make_tooltips(frame: pl.DataFrame) -> list[specs.Spec]:
    """Show every column of a frame when the mouse is over its row."""
    return [
        specs.quantitative(name, format=".4f" if kind.is_float() else ",d")
        if kind.is_numeric()
        else specs.nominal(name)
        for name, kind in frame.schema.items()
    ]


Evaluation: TypeAlias = "Comparison | Result"

# The largest number of each that is drawn.
SLICES, PAIRS, METRICS = 40, 6, 6


def select_pairs(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the pairs to draw: with the baseline or, of many, with the best system."""
    pairs = list(dict.fromkeys(comparison.pairs.select("a", "b").rows()))
    if len(pairs) <= PAIRS and comparison.settings.baseline is None:
        return pairs
    order = order_systems(comparison)
    first = comparison.settings.baseline or order[0]
    either_way = [pair for name in order for pair in ((first, name), (name, first))]
    return [pair for pair in either_way if pair in {*pairs}][:PAIRS]


def list_chart_systems(evaluation: Evaluation) -> list[str]:
    """Return the systems in the order of the caller."""
    return evaluation.systems or ["run"]


def order_systems(evaluation: Evaluation) -> list[str]:
    """Return the systems by their means of the first metric, best first."""
    return result_of(evaluation).best_first or list_chart_systems(evaluation)


def assign_colours(evaluation: Evaluation) -> dict[str, str]:
    """Give every system a colour: of many, the baseline and the best; the rest are grey."""
    names = coloured = list_chart_systems(evaluation)
    if len(names) > len(specs.PALETTE):
        base = evaluation.settings.baseline if _is_comparison(evaluation) else None
        best = [name for name in order_systems(evaluation) if name != base]
        coloured = [*([] if base is None else [base]), *best][: len(specs.PALETTE)]
    colours = dict(zip((name for name in names if name in coloured), specs.PALETTE, strict=False))
    return {name: colours.get(name, specs.GREY) for name in names}


def result_of(evaluation: Evaluation) -> Result:
    """Return the result that a comparison was made from, or the result itself."""
    return evaluation.result if _is_comparison(evaluation) else cast("Result", evaluation)


def _is_comparison(evaluation: Evaluation) -> TypeGuard[Comparison]:
    return hasattr(evaluation, "settings")

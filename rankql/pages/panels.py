"""Panels of charts: definitions of Vega-Lite with rows, axes and colours.

The definitions are JSON files in `vega`, in which a text such as "$title" stands for a value. The
report writes them and altair reads them: making altair's objects took a third of the time of a
report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import polars as pl
from polars import selectors

from rankql.core.base.results import cut_in_middle
from rankql.core.base.text import format_interval
from rankql.pages.page import read_file

Spec: TypeAlias = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

# Contrast of about 4:1 on white and on near black, and distinct for colour-blind readers.
PALETTE = ("#2b7fc4", "#d1601f", "#12936b", "#b266ad",
           "#97790b", "#2397ab", "#c9506a", "#6f74d6")  # fmt: skip
# Systems beyond the palette; text and lines, which must be legible on white and on black.
GREY = "#7d8590"
WIDTH, HEIGHT, ROW_HEIGHT = 480, 260, 26
# A description names so many rows.
DESCRIBED = 6
# Longer names are shortened.
LABEL = 26
# An axis of dates names so many.
DATES = 6
# An axis with grid lines.
GRID = {"grid": True, "titleLimit": HEIGHT, "tickCount": 6}
CONFIG: Spec = json.loads(read_file("vega/config.json"))


def draw_panel(
    kind: str, frame: pl.DataFrame, title: str, words: Sequence[str], **values: Any
) -> Spec:
    """Draw the rows of a frame by the definition of a kind of chart, in which values are put.

    A screen reader reads the words, the first of many.
    """
    more = [f"and {len(words) - DESCRIBED} more"] if len(words) > DESCRIBED else []
    definition = re.sub(
        r'"\$(\w+)"', lambda name: json.dumps(values[name[1]]), read_file(f"vega/{kind}.json")
    )
    return {
        "title": title,
        "description": f"{title}: {'; '.join([*words[:DESCRIBED], *more])}.",
        "width": WIDTH,
        "height": max(values.get("height", HEIGHT), ROW_HEIGHT),
        "data": inline_data(frame),
        **json.loads(definition),
        "config": CONFIG,
    }


def make_dot_panel(
    frame: pl.DataFrame, title: str, colour: Spec, domain: list[float] | None = None
) -> Spec:
    """Draw a row for each row of the frame: a dot on its interval, with the number on the right.

    The first four columns are the name of the row, its value, lo and hi. With a `domain`, values
    are differences, with a sign.
    """
    name, value = frame.columns[:2]
    sign = "" if domain is None else "+"
    numbers = {row[0]: format_interval(row[1:4], sign) for row in frame.rows()}
    labels = {x: number.partition(" (")[0].replace("-", "−") for x, number in numbers.items()}
    rows, bounds = row_axis(name, frame[name]), {} if domain is None else {"domain": domain}
    scale = {"zero": False, "padding": 12, **bounds}
    number = {"title": None, "scale": scale, "axis": {"tickCount": 5}}
    right = {"orient": "right", "labelExpr": f"{json.dumps(labels)}[datum.label]"}
    lines = 1 + int(frame[name].str.count_matches("\n", literal=True).max() or 0)  # type: ignore[arg-type]
    panel = draw_panel(
        "dots", frame, title, [f"{x} {number}" for x, number in numbers.items()],
        height=ROW_HEIGHT * len(frame) * (1 + lines) / 2, rows=rows, numbers=rows | {"axis": right},
        value=quantitative(value, **number), lo=quantitative("lo", **number), colour=colour,
        tooltip=make_tooltips(frame),
    )  # fmt: skip
    return panel | {"layer": panel["layer"][domain is None :]}  # without the line of no difference


def draw_curves(
    frame: pl.DataFrame, title: str, has_band: bool, x: Spec, y: Spec, colour: Spec
) -> Spec:
    """Draw a line through points for each name, with a band from lo to hi.

    The first three columns are the name, the place on the axis and the value.
    """
    name, place, value = frame.columns[:3]
    show = "{:g}".format if frame[place].dtype.is_numeric() else str
    words = [
        f"{each} {part[value][0]:.3f} at {show(part[place][0])}, {part[value][-1]:.3f} at "
        f"{show(part[place][-1])}"
        for (each,), part in frame.group_by(name, maintain_order=True)
    ]
    panel = draw_panel(
        "curves", frame, title, words, height=HEIGHT + 40,
        x=x, y=y, colour=colour, name=nominal(name), tooltip=make_tooltips(frame),
    )  # fmt: skip
    return panel | {"layer": panel["layer"][not has_band :]}


def row_axis(field: str, names: pl.Series) -> Spec:
    """Name the rows, in their order."""
    # Vega cuts names at the end. Those of pairs are short, and have two lines.
    short = "datum.label" if field == "pair" else label_expression(names)
    lines = {"labelExpr": f"split({short}, '\\n')"}
    # Not sort=: it puts the names into an expression, which some characters break.
    return nominal(field, scale={"domain": names.to_list()}, title=None, axis=lines)


def shorten_names(names: Iterable[str]) -> dict[str, str]:
    """Shorten long names, no two to the same, and each line of a name by itself."""
    names = {*names}
    short = cut_in_middle(sorted({line for name in names for line in name.split("\n")}), LABEL)
    return {name: "\n".join(short[line] for line in name.split("\n")) for name in names}


def label_expression(names: Iterable[str]) -> str:
    """Write the expression of Vega for the label of each name, in which names are literals."""
    short = {name: label for name, label in sorted(shorten_names(names).items()) if label != name}
    return f"{json.dumps(short)}[datum.label] || datum.label" if short else "datum.label"


def make_tooltips(frame: pl.DataFrame) -> list[Spec]:
    """Show every column of a frame when the mouse is over its row."""
    numbers = {name: kind for name, kind in frame.schema.items() if kind.is_numeric()}
    formats = {name: ".4f" if kind.is_float() else ",d" for name, kind in numbers.items()}
    return [
        quantitative(x, format=formats[x]) if x in formats else nominal(x) for x in frame.columns
    ]


def quantitative(field: str, **options: Any) -> Spec:
    """Encode a column of numbers."""
    return {"field": field, "type": "quantitative", **options}


def encode_date(field: str, title: str | None = None, dates: Sequence[str] = ()) -> Spec:
    """Encode a column of dates, as texts, in UTC, with ticks at some of the dates."""
    axis: Spec = {"format": "%-d %b", "tickCount": DATES, "grid": False}
    if dates:
        shown = dates[:: -(-len(dates) // DATES)]
        times = (datetime.fromisoformat(x).replace(tzinfo=UTC).timestamp() for x in shown)
        # As an expression: a list of numbers has no labels in a browser.
        axis["values"] = {"expr": json.dumps([1000 * time for time in times])}
        axis["format"] += " %Y" * (dates[0][:4] != dates[-1][:4])
    return {"field": field, "type": "temporal", "title": title, "scale": {"type": "utc"},
            "axis": axis}  # fmt: skip


def colour_by_name(field: str, names: Sequence[str]) -> Spec:
    """Colour by the names of a column, which several of them have in a legend."""
    legend = {"symbolType": "stroke", "labelLimit": WIDTH, "columns": 1} if names[1:] else None
    return nominal(field, scale={"domain": names, "range": PALETTE[: len(names)]}, legend=legend)


def nominal(field: str, **options: Any) -> Spec:
    """Encode a column of names."""
    return {"field": field, "type": "nominal", **options}


def inline_data(frame: pl.DataFrame) -> Spec:
    """Put the rows into the chart: numbers with nine digits, NULL for NaN and infinity."""
    number = selectors.float()
    rounded = pl.when(number.is_finite()).then(number.round_sig_figs(9))
    return {"values": frame.with_columns(rounded.name.keep()).to_dicts()}


def join_panels(panels: Sequence[Spec], columns: int = 1) -> Spec:
    """Put panels together, with one configuration for all."""
    plain = [{name: panel[name] for name in panel if name != "config"} for panel in panels]
    layout = {"vconcat": plain} if columns == 1 else {"concat": plain, "columns": columns}
    return layout | {"config": CONFIG}

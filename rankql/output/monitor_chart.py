"""The chart of metrics by day: the limit, the mean, and the days with an alarm."""

from __future__ import annotations

import polars as pl

from rankql import text
from rankql.output import panels
from rankql.output.specs import Spec, inline_data, join_panels, make_layer, quantitative
from rankql.output.style import GREY, PALETTE

HEIGHT, WIDTH = 140, 640


def draw_days(frame: pl.DataFrame) -> Spec:
    """Draw a panel per series, one below the other."""
    series = frame.partition_by("slice", "metric", "kind", maintain_order=True)
    return join_panels([_draw_series(part) for part in series])


def _draw_series(frame: pl.DataFrame) -> Spec:
    title = f"{text.add_slice(frame['metric'][0], frame['slice'][0])} by day"
    columns = ("day", "mean", "lo", "hi", "expected", "limit", "queries", "alarm")
    frame = frame.select(*columns).with_columns(pl.col("day").cast(pl.String))
    alarms = frame["alarm"].sum()
    scale = {"zero": False}
    axis = {"format": "%-d %b", "tickCount": 8, "grid": False}
    day = {"field": "day", "type": "temporal", "title": None, "axis": axis}
    base = {"x": day, "tooltip": panels.make_tooltips(frame)}
    usual = quantitative("expected", title=None, scale=scale, axis=panels.grid_axis())
    means = {**base, "y": quantitative("mean", scale=scale)}
    interval = {**base, "y": quantitative("lo", scale=scale), "y2": {"field": "hi"}}
    layers = [
        make_layer("area", {**base, "y": usual, "y2": {"field": "limit"}}, opacity=0.18, color=GREY,
                   interpolate="step"),
        make_layer("rule", interval, opacity=0.45, color=PALETTE[0]),
        make_layer("line", means, color=PALETTE[0], strokeWidth=1.5),
        make_layer("point", means, color=PALETTE[1], filled=True, size=45)
        | {"transform": [{"filter": "datum.alarm"}]},
    ]  # fmt: skip
    words = f"{title}: {len(frame)} days, {alarms} with an alarm."
    return {"title": f"{title}; grey: what chance explains", "description": words, "width": WIDTH,
            "height": HEIGHT, "data": inline_data(frame), "layer": layers}  # fmt: skip

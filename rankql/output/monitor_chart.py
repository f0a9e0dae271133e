"""The chart of metrics by day: the band of chance, the mean, and the days with an alarm."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rankql.output import panels
from rankql.output.specs import Spec, inline_data, join_panels, make_layer, nominal, quantitative
from rankql.output.style import GREY, PALETTE

HEIGHT, WIDTH = 180, 640
_CAUSES = {"drop": PALETTE[1], "drift": PALETTE[3], "labels": PALETTE[4], "unjudged": PALETTE[2]}


def draw_days(frame: pl.DataFrame, metrics: Sequence[str]) -> Spec:
    """Draw a panel per metric, one below the other."""
    charts = [_draw_metric(frame.filter(metric=metric), metric) for metric in metrics]
    return join_panels(charts)


def _draw_metric(frame: pl.DataFrame, metric: str) -> Spec:
    columns = ("day", "mean", "lo", "hi", "expected", "band_lo", "band_hi", "queries", "alarm")
    frame = frame.select(*columns).with_columns(pl.col("day").cast(pl.String))
    alarms = frame.drop_nulls("alarm")
    scale = {"zero": False}
    axis = {"format": "%-d %b", "tickCount": 8, "grid": False}
    base = {
        "x": {"field": "day", "type": "temporal", "title": None, "axis": axis},
        "tooltip": panels.make_tooltips(frame),
    }
    low = quantitative("band_lo", title=None, scale=scale, axis=panels.grid_axis())
    band = {**base, "y": low, "y2": {"field": "band_hi"}}
    interval = {**base, "y": quantitative("lo", scale=scale), "y2": {"field": "hi"}}
    means = {**base, "y": quantitative("mean", scale=scale)}
    causes = nominal(
        "alarm",
        title=None,
        scale={"domain": [*_CAUSES], "range": [*_CAUSES.values()]},
        legend={"values": alarms["alarm"].unique(maintain_order=True).to_list()},
    )
    points = make_layer("point", {**means, "color": causes, "opacity": {"value": 1}},
                        filled=True, size=45)  # fmt: skip
    only_alarms = {"transform": [{"filter": "datum.alarm !== null"}]}
    layers = [
        make_layer("area", band, opacity=0.18, color=GREY, interpolate="step"),
        make_layer("rule", interval, opacity=0.45, color=PALETTE[0]),
        make_layer("line", means, color=PALETTE[0], strokeWidth=1.5),
        *([] if alarms.is_empty() else [points | only_alarms]),
    ]
    words = f"{metric} by day: {len(frame)} days, {len(alarms)} with an alarm."
    return {
        "title": f"{metric} by day; grey: what chance explains",
        "description": words,
        "width": WIDTH,
        "height": HEIGHT,
        "data": inline_data(frame),
        "layer": layers,
    }

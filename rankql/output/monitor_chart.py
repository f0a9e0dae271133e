"""The chart of metrics by day: the band of chance, the mean, and the days with an alarm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from rankql.output import panels
from rankql.output.style import CONFIG, GREY, PALETTE

HEIGHT, WIDTH = 180, 640
_CAUSES = {"drop": PALETTE[1], "drift": PALETTE[3], "labels": PALETTE[4], "unjudged": PALETTE[2]}


def draw_days(frame: pl.DataFrame, metrics: Sequence[str]) -> alt.TopLevelMixin:
    """Draw a panel per metric, one below the other."""
    charts = [_draw_metric(frame.filter(metric=metric), metric) for metric in metrics]
    chart: alt.TopLevelMixin = alt.vconcat(*charts).configure(**CONFIG)
    return chart


def _draw_metric(frame: pl.DataFrame, metric: str) -> Any:
    columns = ("day", "mean", "lo", "hi", "expected", "band_lo", "band_hi", "queries", "alarm")
    frame = frame.select(*columns).with_columns(pl.col("day").cast(pl.String))
    alarms = frame.drop_nulls("alarm")
    base = alt.Chart().encode(
        alt.X("day:T", title=None, axis=alt.Axis(format="%-d %b", tickCount=8, grid=False)),
        tooltip=panels.make_tooltips(frame),
    )
    scale = alt.Scale(zero=False)
    causes = alt.Color(
        "alarm:N", title=None,
        scale=alt.Scale(domain=[*_CAUSES], range=[*_CAUSES.values()]),
        legend=alt.Legend(values=alarms["alarm"].unique(maintain_order=True).to_list()),
    )  # fmt: skip
    mean = alt.Y("mean:Q", scale=scale)
    points = base.transform_filter("datum.alarm !== null").mark_point(filled=True, size=45)
    layers = [
        base.mark_area(opacity=0.18, color=GREY, interpolate="step").encode(
            alt.Y("band_lo:Q", title=None, scale=scale, axis=panels.grid_axis()), y2="band_hi"
        ),
        base.mark_rule(opacity=0.45, color=PALETTE[0]).encode(alt.Y("lo:Q", scale=scale), y2="hi"),
        base.mark_line(color=PALETTE[0], strokeWidth=1.5).encode(mean),
        *([] if alarms.is_empty() else [points.encode(mean, causes, opacity=alt.value(1))]),
    ]
    words = f"{metric} by day: {len(frame)} days, {len(alarms)} with an alarm."
    data = panels.inline_data(frame)
    title = f"{metric} by day; grey: what chance explains"
    return alt.layer(*layers, data=data).properties(
        width=WIDTH, height=HEIGHT, title=title, description=words
    )

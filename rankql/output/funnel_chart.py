"""The waterfall chart of a funnel: from the ideal to the final ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from rankql.output import panels
from rankql.output.style import GREY, PALETTE, ROW_HEIGHT

if TYPE_CHECKING:
    from rankql.diagnostics.funnel_result import Funnel


def draw_funnel(funnel: Funnel, name: str = "") -> alt.LayerChart:
    """Draw a bar for the loss of every stage, where the bar before ends, and one for the value."""
    frame = funnel.table.filter(pl.col("slice") == "all").drop_nulls("loss")
    before = pl.col("after").shift(1, fill_value=1.0)
    frame = frame.select("stage", "loss", "lo", "hi", "after", before=before)
    words = [f"{row['stage']} loses {row['loss']:.3f}" for row in frame.iter_rows(named=True)]
    value = frame.tail(1).select(
        stage=pl.lit(funnel.metric), loss=None, lo=None, hi=None, after="after", before=0.0
    )
    frame = pl.concat([frame, value], how="vertical_relaxed")
    base = alt.Chart().encode(
        y=panels.row_axis("stage", frame["stage"]), tooltip=panels.make_tooltips(frame)
    )
    colour = (
        alt.when(alt.datum.loss == None)  # noqa: E711
        .then(alt.value(PALETTE[0]))
        .when(alt.datum.loss >= 0)
        .then(alt.value(PALETTE[1]))
        .otherwise(alt.value(PALETTE[2]))
    )
    scale = alt.Scale(domain=[0, 1], clamp=True)
    label = (
        "datum.loss === null ? format(datum.after, '.3f') "
        ": abs(datum.loss) < 5e-4 ? '0' : format(-datum.loss, '+.3f')"
    )
    layers = [
        base.mark_bar(height=16).encode(
            alt.X("before:Q", title=None, scale=scale, axis=alt.Axis(tickCount=6)),
            x2="after",
            color=colour,
        ),
        base.transform_calculate(label=label, end="max(datum.before, datum.after)")
        .mark_text(align="left", dx=5)
        .encode(x=alt.X("end:Q", scale=scale), text="label:N", color=alt.value(GREY)),
    ]
    title = f"{name}: {funnel.metric}" if name else f"{funnel.metric}: where it is lost"
    return panels.make_panel(layers, frame, title, words, ROW_HEIGHT * len(frame))

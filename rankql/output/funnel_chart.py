"""The waterfall chart of a funnel: from the ideal to the final ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rankql.output import panels
from rankql.output.specs import Spec, calculate, make_layer, nominal, quantitative
from rankql.output.style import GREY, PALETTE, ROW_HEIGHT

if TYPE_CHECKING:
    from rankql.diagnostics.funnel_result import Funnel


def draw_funnel(funnel: Funnel) -> Spec:
    """Draw a bar for the loss of every stage, where the bar before ends, and one for the value."""
    frame = funnel.table.filter(pl.col("slice") == "all").drop_nulls("loss")
    start = pl.col("after").shift(1, fill_value=1.0)
    frame = frame.select("stage", "loss", "lo", "hi", "after", before=start)
    words = [f"{row['stage']} loses {row['loss']:.3f}" for row in frame.iter_rows(named=True)]
    value = frame.tail(1).select(
        stage=pl.lit(funnel.metric), loss=None, lo=None, hi=None, after="after", before=0.0
    )
    frame = pl.concat([frame, value], how="vertical_relaxed")
    base = {
        "y": panels.row_axis("stage", frame["stage"]), "tooltip": panels.make_tooltips(frame)
    }  # fmt: skip
    conditions = {"datum.loss === null": PALETTE[0], "datum.loss >= 0": PALETTE[1]}
    colours = [{"test": test, "value": colour} for test, colour in conditions.items()]
    scale = {"domain": [0, 1], "clamp": True}
    before = quantitative("before", title=None, scale=scale, axis={"tickCount": 6})
    bars = {
        **base, "x": before, "x2": {"field": "after"},
        "color": {"condition": colours, "value": PALETTE[2]},
    }  # fmt: skip
    numbers = {
        **base, "x": quantitative("end", scale=scale), "text": nominal("label"),
        "color": {"value": GREY},
    }  # fmt: skip
    label = (
        "datum.loss === null ? format(datum.after, '.3f') "
        ": abs(datum.loss) < 5e-4 ? '0' : format(-datum.loss, '+.3f')"
    )
    layers = [
        make_layer("bar", bars, height=16),
        make_layer("text", numbers, align="left", dx=5)
        | calculate(label=label, end="max(datum.before, datum.after)"),
    ]
    title = f"{funnel.metric}: where it is lost"
    return panels.make_panel(layers, frame, title, words, ROW_HEIGHT * len(frame))

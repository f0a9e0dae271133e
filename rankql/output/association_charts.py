"""Charts of an association: scatter plot, correlations and quadrants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rankql.output import panels
from rankql.output.chart_selection import SLICES
from rankql.output.specs import Spec, make_layer, nominal, quantitative
from rankql.output.style import GREY, PALETTE

if TYPE_CHECKING:
    from rankql.decisions.association import Association

# Of more keys a random sample is drawn.
POINTS = 2000


def draw_scatter(association: Association, metric: str, outcome: str) -> Spec:
    """Draw the outcome of every key by its metric, coloured by slice; of many keys a sample."""
    frame = association.pairs.drop_nulls([metric, outcome])
    by = [
        pl.concat_str(pl.lit(f"{name}="), pl.col(name).cast(pl.String).fill_null("NULL"))
        for name in next(iter(association.groupings), [])
    ]
    label = pl.concat_str(by, separator=", ") if by else pl.lit("all")
    rows = frame.select(x=metric, y=outcome, slice=label)
    if len(rows) > POINTS:
        rows = rows.sample(POINTS, seed=7)
    slices = rows["slice"].unique().sort().to_list()
    colours = dict(zip(slices, PALETTE, strict=False))
    scale = {"domain": slices, "range": [colours.get(name, GREY) for name in slices]}
    key = {"values": list(colours), "columns": 4} if len(slices) > 1 else None
    x, y = (
        quantitative(name, title=title, scale={"zero": False}, axis=panels.grid_axis())
        for name, title in (("x", association.called(metric)), ("y", association.called(outcome)))
    )
    encoding = {
        "x": x,
        "y": y,
        "color": nominal("slice", scale=scale, legend=key),
        "tooltip": panels.make_tooltips(rows),
    }
    points = make_layer("point", encoding, filled=True, size=35, opacity=0.6)
    overall = association.table.filter(metric=metric, outcome=outcome, slice="all")
    return panels.make_panel([points], rows, f"{outcome} by {metric}", [*overall["sentence"]])


def draw_correlations(association: Association, metric: str, outcome: str) -> Spec:
    """Draw Pearson's coefficient over all, within slices, and in every slice."""
    table = association.table.filter(metric=metric, outcome=outcome).drop_nulls("pearson")
    frame = table.head(SLICES).select(
        "slice", pl.col("pearson").alias("r"), lo="pearson_lo", hi="pearson_hi", n="n"
    )
    title, colour = f"{metric} and {outcome}: Pearson's r", {"value": PALETTE[0]}
    return panels.make_dot_panel(frame, title, colour, [-1.0, 1.0])


def draw_quadrants(association: Association, metric: str, outcome: str) -> Spec:
    """Draw the share of the keys by the directions in which metric and outcome moved."""
    quadrants = association.quadrants(metric, outcome)
    ways = ["down", "same", "up"]
    base = {
        "x": nominal("metric", title=metric, scale={"domain": ways}, axis={"labelAngle": 0}),
        "y": nominal("outcome", title=outcome, scale={"domain": ways[::-1]}),
        "tooltip": panels.make_tooltips(quadrants.table),
    }
    opacity = quantitative("share", scale={"domainMin": 0, "range": [0.05, 0.4]}, legend=None)
    layers = [
        make_layer("rect", {**base, "opacity": opacity, "color": {"value": PALETTE[0]}}),
        make_layer("text", {**base, "text": quantitative("share", format=".0%")}, fontSize=13),
    ]
    title = f"Change of {metric} and {outcome}"
    return panels.make_panel(layers, quadrants.table, title, quadrants.sentences)

"""Charts of means: by system, slice, cutoff and position, and their distribution."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from rankql.output.chart_selection import (
    SLICES,
    Evaluation,
    add_system,
    assign_colours,
    list_chart_systems,
    per_query_by_system,
    result_of,
    summary_by_system,
)
from rankql.output.panels import (
    colour_by_system,
    grid_axis,
    inline_data,
    join_descriptions,
    make_dot_panel,
    make_panel,
    make_tooltips,
    row_axis,
    shorten_names,
    spread_labels,
)
from rankql.output.style import GREY, HEIGHT, PALETTE, ROW_HEIGHT
from rankql.registry.parse import parse
from rankql.text import format_interval

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

BINS = 20


def draw_means(evaluation: Evaluation, metric: str) -> alt.LayerChart:
    """Draw the mean of every system, best first, or of every slice of a single one."""
    name = "system"
    frame = summary_by_system(evaluation).filter(pl.col("metric") == metric).drop_nulls("mean")
    if len(list_chart_systems(evaluation)) == 1 and frame["slice"].n_unique() > 1:
        name, frame = "slice", frame.head(SLICES)
    else:
        lower = result_of(evaluation).lower_is_better(metric)
        frame = frame.filter(pl.col("slice") == "all")
        frame = frame.sort("mean", descending=not lower, maintain_order=True)
    frame = frame.select(name, "mean", "lo", "hi", "queries")
    colour = colour_by_system(evaluation) if name == "system" else alt.value(PALETTE[0])
    words = join_descriptions([f"{row[0]} {format_interval(row[1:4])}" for row in frame.rows()])
    return make_dot_panel(frame, "mean", f"{metric}: means", colour, f"Means of {metric}: {words}")


def draw_distribution(evaluation: Evaluation, metric: str) -> alt.LayerChart:
    """Draw how the values of the queries are spread: a band, thick where many values are."""
    value = pl.col("value")
    rows = per_query_by_system(evaluation).select("system", value=pl.col(metric))
    rows = rows.filter(value.is_finite())
    ends = rows.select(least=value.min(), most=value.max())
    least, most = ends.row(0) if len(rows) else (0.0, 1.0)
    lo, hi = (0.0, 1.0) if least >= 0 and most <= 1 else (least, max(most, least + 1e-6))
    bins = _count_by_bin(rows, lo, hi)
    frame = _summarise_spread(rows, result_of(evaluation).lower_is_better(metric))
    words = join_descriptions(
        [
            f"{row['system']} {row['median']:.3f} "
            f"({row['lower quarter']:.3f} to {row['upper quarter']:.3f})"
            for row in frame.to_dicts()
        ]
    )
    y, colour = row_axis("system", frame["system"]), colour_by_system(evaluation)
    scale = alt.Scale(domain=[lo, hi], nice=False)
    share = alt.Scale(domainMin=0, range=[0, ROW_HEIGHT - 4])
    layers = [
        alt.Chart(inline_data(bins)).mark_bar(opacity=0.4).encode(
            alt.X("from:Q", title=None, scale=scale), alt.X2("to"), y=y, color=colour,
            size=alt.Size("share:Q", scale=share, legend=None), tooltip=make_tooltips(bins),
        ),
        alt.Chart().mark_tick(thickness=3, size=ROW_HEIGHT - 6, opacity=1).encode(
            alt.X("median:Q"), y=y, color=colour, tooltip=make_tooltips(frame)
        ),
    ]  # fmt: skip
    description = f"{metric}, median and middle half of the queries: {words}"
    height = ROW_HEIGHT * len(frame)
    return make_panel(layers, frame, f"{metric}: distribution", description, height)


def _count_by_bin(rows: pl.DataFrame, lo: float, hi: float) -> pl.DataFrame:
    """Count the queries of each system by bins of their values."""
    place = ((pl.col("value") - lo) * BINS / (hi - lo)).floor().clip(0, BINS - 1)
    edge = lo + pl.col("bin") * (hi - lo) / BINS
    return (
        rows.group_by("system", bin=place)
        .agg(queries=pl.len())
        .sort("system", "bin")
        .with_columns(share=pl.col("queries") / pl.col("queries").sum().over("system"))
        .select("system", edge.alias("from"), (edge + (hi - lo) / BINS).alias("to"),
                "queries", "share")
    )  # fmt: skip


def _summarise_spread(rows: pl.DataFrame, lower_is_better: bool) -> pl.DataFrame:
    """Return mean, range and quartiles of each system, best mean first."""
    value = pl.col("value")
    return (
        rows.group_by("system")
        .agg(
            value.mean().alias("mean"),
            value.min().alias("lowest"),
            value.quantile(0.25, "linear").alias("lower quarter"),
            value.median().alias("median"),
            value.quantile(0.75, "linear").alias("upper quarter"),
            value.max().alias("highest"),
            pl.len().alias("queries"),
        )
        .sort("mean", "system", descending=[not lower_is_better, False])
    )


def compute_cutoffs(comparison: Comparison, metric: str) -> pl.DataFrame:
    """Return the means of every system by cutoff, with their intervals."""
    curves = comparison.cutoffs(metric)
    cutoffs = {name: parse(name)[0].k for name in curves.metrics}
    k = pl.col("metric").replace_strict(cutoffs, return_dtype=pl.Int64).alias("k")
    frame = summary_by_system(curves).filter(pl.col("slice") == "all").drop_nulls("mean")
    frame = frame.select("system", k, "mean", "lo", "hi", "queries")
    return frame.sort("k", maintain_order=True)


def draw_cutoffs(comparison: Comparison, metric: str, frame: pl.DataFrame) -> alt.LayerChart:
    """Draw the means by cutoff: a line with its band for each system, its name at the end."""
    ks = frame["k"].unique().sort().to_list() or [1]
    words = [
        f"{name} {part['mean'][0]:.3f} at {part['k'][0]}, {part['mean'][-1]:.3f} at {part['k'][-1]}"
        for (name,), part in frame.group_by("system", maintain_order=True)
    ]
    title = metric.rpartition("@")[0] or metric
    systems = list_chart_systems(comparison)
    share = 0.06 + 0.014 * max(map(len, shorten_names(systems).values()))
    far = ks[-1] * (ks[-1] / ks[0]) ** (share / (1 - share))  # room for the names
    x = alt.X("k:Q", title="cutoff k", axis=alt.Axis(values=ks, format=",d"),
              scale=alt.Scale(type="log", domain=[ks[0], far], nice=False))  # fmt: skip
    y = alt.Y("mean:Q", title=f"{title}@k", scale=alt.Scale(zero=False), axis=grid_axis())
    colour = colour_by_system(comparison)
    base = alt.Chart().encode(x, y, color=colour, detail="system:N")
    has_bands = len(systems) <= len(PALETTE) and not frame["lo"].null_count()
    ends = alt.Chart(inline_data(_place_names(comparison, frame, ks[-1])))
    layers = [
        *([base.mark_area(opacity=0.12).encode(y="lo:Q", y2="hi")] if has_bands else []),
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=45, opacity=1).encode(tooltip=make_tooltips(frame)),
        ends.mark_text(align="left", dx=9).encode(x, y="place:Q", text="label:N", color=colour),
    ]
    description = f"{title} by cutoff: {join_descriptions(words)}"
    return make_panel(layers, frame, f"{title}@k", description, HEIGHT + 40)


def describe_order(frame: pl.DataFrame) -> str:
    """Say whether the choice of k decides: whether bands part in favour of both of two systems."""
    ahead, apart = set(), set()
    for _, part in frame.group_by("k"):
        rows = part.select("system", "mean", "lo", "hi").rows()
        for (a, mean, lo, _), (b, other, _, hi) in itertools.permutations(rows, 2):
            if mean > other:
                ahead.add((a, b))
            if None not in (lo, hi) and lo > hi:
                apart.add((a, b))
    decided = sorted(f"{a} and {b}" for a, b in apart if a < b and (b, a) in apart)
    if decided:
        more = f", and {len(decided) - 3} more pairs" if len(decided) > 3 else ""
        return f"the choice of k decides between {'; '.join(decided[:3])}{more}"
    if any((b, a) in ahead for a, b in ahead):
        return "lines cross, but their bands overlap: no evidence that the choice of k decides"
    return "the order of the systems is the same at every k"


def _place_names(comparison: Comparison, frame: pl.DataFrame, last: int) -> pl.DataFrame:
    """Place the names of the systems that have a colour beside the ends of their lines."""
    named = [name for name, colour in assign_colours(comparison).items() if colour != GREY]
    ends = frame.filter(pl.col("k") == last, pl.col("system").is_in(named)).sort("mean")
    means = frame["mean"].to_list()
    span = max(means, default=0.0) - min(means, default=0.0)
    places = spread_labels(ends["mean"].to_list(), span * 0.06)
    label = pl.col("system").replace(shorten_names(assign_colours(comparison))).alias("label")
    return ends.select("system", "k", label, pl.Series("place", places, pl.Float64))


def draw_sensitivity(comparison: Comparison, frame: pl.DataFrame, metric: str) -> alt.LayerChart:
    """Draw what a swap of neighbours changes, by position; the frame is that of `limits`."""
    frame = add_system(frame, comparison).filter(pl.col("metric") == metric)
    frame = frame.select("system", "position", "loss", "queries").drop_nulls("loss")
    worst = frame.sort("loss", descending=True).group_by("system", maintain_order=True).first()
    words = join_descriptions(
        [
            f"{system} most by a swap of {place} and {place + 1}, {loss:.3f} on average"
            for system, place, loss, _ in worst.rows()
        ]
    )
    last = max([1, *frame["position"]])
    base = alt.Chart().encode(
        alt.X("position:Q", title="position swapped with the next", scale=alt.Scale(nice=False),
              axis=alt.Axis(format=",d", tickMinStep=1, tickCount=min(last, 10))),
        alt.Y("loss:Q", title=f"change of {metric}", axis=grid_axis()),
        color=colour_by_system(comparison, legend=True), detail="system:N",
        tooltip=make_tooltips(frame),
    )  # fmt: skip
    layers = [base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=45, opacity=1)]
    return make_panel(layers, frame, f"{metric}: swaps", f"{metric} is moved: {words}", HEIGHT)

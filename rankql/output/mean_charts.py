"""Charts of means by system, slice, cutoff, position, stage and day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from rankql.decisions.comparison import CUTOFFS
from rankql.diagnostics.min_scores import SHARES
from rankql.evaluation.evaluate import evaluate
from rankql.evaluation.means import compared_value, slice_queries
from rankql.output import panels
from rankql.output.panels import Evaluation
from rankql.output.specs import (
    GREY,
    HEIGHT,
    PALETTE,
    ROW_HEIGHT,
    WIDTH,
    Spec,
    inline_data,
    join_panels,
    make_layer,
    nominal,
    quantitative,
)
from rankql.registry.parse import parse_any, value_range
from rankql.text import add_slice, format_count, format_queries

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison
    from rankql.diagnostics.funnel import Funnel
    from rankql.diagnostics.min_scores import MinScores

# The width of the name of a stage.
STAGE_WIDTH = 200
# Values per query are counted in so many classes.
BINS = 20


def draw_means(evaluation: Evaluation, metric: str) -> Spec:
    """Draw the mean of every system, best first, or of every slice of one."""
    columns = ("mean", "lo", "hi", "queries", "undefined", "missing")
    systems = panels.list_chart_systems(evaluation)
    frame = panels.result_of(evaluation).summary.filter(metric=metric).drop_nulls("mean")
    if "system" not in frame.columns:
        frame = frame.with_columns(system=pl.lit(systems[0]))
    if len(systems) == 1 and frame["slice"].n_unique() > 1:
        colour = {"value": PALETTE[0]}
        frame = frame.select(panels.split_slices(evaluation), *columns).head(panels.SLICES)
        return panels.make_dot_panel(frame, f"{metric}: means", colour)
    lower = panels.result_of(evaluation).lower_is_better(metric)
    frame = frame.filter(pl.col("slice") == "all").select("system", *columns)
    frame = frame.sort("mean", descending=not lower, maintain_order=True)
    colour = panels.colour_by_system(evaluation)
    return panels.make_dot_panel(frame, f"{metric}: means", colour)


def draw_distribution(evaluation: Evaluation, metric: str) -> Spec:
    """Draw the share of queries by value: a line for each system, or for each slice of one."""
    result, colours = panels.result_of(evaluation), panels.assign_colours(evaluation)
    rows = result.frame().with_columns(compared_value(metric, result.meta))
    key, group = result.meta.query, result.meta.groupings[:1]
    if len(colours) > 1:  # those with a colour of their own
        parts = {x: rows.filter(system=x) for x in colours if colours[x] != GREY}
    else:
        queries = slice_queries(rows.select(key, *result.meta.by), group)
        parts = {x: rows.filter(pl.col(key).is_in(y)) for x, y in [*queries.items()][len(group) :]}
    values = pl.concat(
        part.select(name=pl.lit(name), value=pl.col(metric).cast(pl.Float64)).drop_nulls("value")
        for name, part in [*parts.items()][: len(PALETTE)]
    )
    names = [*values["name"].unique(maintain_order=True)]
    # The range of the metric, or of the values.
    ends = (*value_range(metric), values["value"].min(), values["value"].max())
    known = [float(x) for x in ends if x is not None] or [0.0]  # type: ignore[arg-type]
    low, width = min(known), (max(known) - min(known)) / BINS or 1.0
    high = low + BINS * width
    place = ((pl.col("value") - low) / width).floor().clip(0, BINS - 1).cast(pl.Int64)
    counts = values.group_by("name", place.alias("bin")).len("queries")
    # A class without queries on either side, so that lines end on the axis.
    bins = pl.DataFrame({"bin": range(-1, BINS + 1)})
    outline = pl.DataFrame({"name": names}, {"name": pl.String}).join(bins, how="cross").join(
        counts, on=["name", "bin"], how="left", maintain_order="left"
    ).select(
        "name", value=low + (pl.col("bin") + 0.5) * width,
        share=pl.col("queries").fill_null(0) / pl.col("queries").sum().over("name"),
    )  # fmt: skip
    frame = outline.filter(pl.col("value").is_between(low, high))
    medians = values.group_by("name", maintain_order=True).agg(pl.col("value").median(), pl.len())
    words = [f"{x}: median {value:.3f} of {format_queries(n)}" for x, value, n in medians.rows()]
    colour = panels.colour_by_system(evaluation, "name", legend=True)
    if len(colours) == 1:
        legend = {"symbolType": "stroke", "labelLimit": WIDTH, "columns": 1} if group else None
        scale = {"domain": names, "range": [*PALETTE[: len(names)]]}
        colour = nominal("name", scale=scale, legend=legend)
    share = panels.grid_axis() | {"format": "%", "tickCount": 5}
    channels = {
        "x": quantitative("value", title=metric, scale={"domain": [low, high], "nice": False}),
        "y": quantitative("share", title="share of queries", axis=share),
        "color": colour,
        "tooltip": panels.make_tooltips(frame),
    }
    line = make_layer("line", channels, interpolate="step", strokeWidth=2, clip=True)
    layers = [line | {"data": inline_data(outline)}]
    return panels.make_panel(layers, frame, f"{metric}: values per query", words)


def compute_cutoffs(comparison: Comparison, metrics: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Return the means of every system by cutoff, with their intervals, for each metric."""
    # Only the means are shown, so the differences have the test that takes least time.
    settings, places = replace(comparison.settings, test="t"), [*CUTOFFS]
    if source := comparison.source:  # longer cutoffs than the longest list say nothing new
        shown = evaluate(source.runs, source.qrels, "NumRet", **source.keywords, interval=None)
        longest = int(shown.per_query["NumRet"].max() or 1)  # type: ignore[arg-type]
        places = sorted({min(k, longest) for k in CUTOFFS})
    curves = replace(comparison, settings=settings).cutoffs(metrics, places)
    cutoffs = {name: parse_any(name)[0] for name in curves.metrics}
    summary = curves.summary.filter(slice="all").drop_nulls("mean")
    frames = {}
    for metric in metrics:
        own = parse_any(metric)[0].at(None).canonical
        ks = {name: each.k for name, each in cutoffs.items() if each.at(None).canonical == own}
        frame = summary.filter(pl.col("metric").is_in([*ks]))
        k = pl.col("metric").replace_strict(ks, return_dtype=pl.Int64).alias("k")
        frame = frame.select("system", k, "mean", "lo", "hi", "queries")
        frames[metric] = frame.sort("k", maintain_order=True)
    return frames


def draw_cutoffs(comparison: Comparison, metric: str, frame: pl.DataFrame) -> Spec:
    """Draw the means by cutoff: a line with its band for each system."""
    title = f"{parse_any(metric)[0].at(None).name.rstrip('_')}@k"
    axis = {"values": frame["k"].unique().sort().to_list(), "format": ",d"}
    scale = {"type": "log", "nice": False}
    few = len(comparison.systems) <= len(PALETTE)
    return _draw_curves(
        frame, title, few and not frame["lo"].null_count(),
        x=quantitative("k", title="cutoff k", axis=axis, scale=scale),
        y=quantitative("mean", title=title, scale={"zero": False}, axis=panels.grid_axis()),
        color=panels.colour_by_system(comparison, legend=True),
    )  # fmt: skip


def draw_min_scores(result: MinScores) -> Spec:
    """Draw the shares and the means by lowest score: a line with its band for each."""
    names, ends = [*SHARES, *result.metrics][: len(PALETTE)], ("lo", "hi")
    parts = [
        result.table.select(
            pl.lit(name).alias("name"), "min_score", pl.col(name).alias("mean"),
            *(pl.col(f"{name}_{end}").fill_null(pl.col(name)).alias(end) for end in ends),
        )
        for name in names
    ]  # fmt: skip
    scale = {"domain": names, "range": [*PALETTE[: len(names)]]}
    between = {"zero": False, "nice": False}
    return _draw_curves(
        pl.concat(parts).drop_nulls("mean"), "By lowest score shown", True,
        x=quantitative("min_score", title="lowest score shown", scale=between),
        y=quantitative("mean", title="mean", scale={"domain": [0, 1]}, axis=panels.grid_axis()),
        color=nominal("name", scale=scale, legend={"symbolType": "stroke"}),
    )  # fmt: skip


def _draw_curves(
    frame: pl.DataFrame, title: str, has_band: bool, *, x: Spec, y: Spec, color: Spec
) -> Spec:
    """Draw a line through points for each name, the first column, with a band from lo to hi."""
    name, place = frame.columns[:2]
    words = [
        f"{each} {part['mean'][0]:.3f} at {part[place][0]:g}, {part['mean'][-1]:.3f} at "
        f"{part[place][-1]:g}"
        for (each,), part in frame.group_by(name, maintain_order=True)
    ]
    base = {"x": x, "color": color, "detail": nominal(name)}
    band = {**base, "y": quantitative("lo"), "y2": {"field": "hi"}}
    points = {**base, "y": y, "tooltip": panels.make_tooltips(frame)}
    layers = [
        *([make_layer("area", band, opacity=0.2)] if has_band else []),
        make_layer("line", {**base, "y": y}, strokeWidth=2),
        make_layer("point", points, filled=True, size=45, opacity=1),
    ]
    return panels.make_panel(layers, frame, title, words, HEIGHT + 40)


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
    stages = panels.row_axis("stage", frame["stage"])
    stages["axis"]["labelLimit"] = STAGE_WIDTH
    base = {"y": stages, "tooltip": panels.make_tooltips(frame)}
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
    columns = {"label": label, "end": "max(datum.before, datum.after)"}
    transform = [{"calculate": value, "as": name} for name, value in columns.items()]
    text = make_layer("text", numbers, align="left", dx=5) | {"transform": transform}
    layers = [make_layer("bar", bars, height=16), text]
    title = f"{funnel.metric}: where it is lost"
    return panels.make_panel(layers, frame, title, words, ROW_HEIGHT * len(frame))


# The height of a panel by day.
DAY_HEIGHT = 140


def draw_days(frame: pl.DataFrame, period: str = "day") -> Spec:
    """Draw a panel per series, one below the other."""
    series = frame.partition_by("slice", "metric", "kind", maintain_order=True)
    return join_panels([_draw_series(part, period) for part in series])


def _draw_series(frame: pl.DataFrame, period: str) -> Spec:
    title = f"{add_slice(frame['metric'][0], frame['slice'][0])} by {period}"
    columns = ("day", "mean", "lo", "hi", "expected", "limit", "queries", "alarm")
    frame = frame.select(*columns).with_columns(pl.col("day").cast(pl.String))
    data = frame.with_columns(better=2 * pl.col("expected") - pl.col("limit"))
    alarms = frame["alarm"].sum()
    scale = {"zero": False}
    axis = {"format": "%-d %b", "tickCount": 8, "grid": False}
    day = {"field": "day", "type": "temporal", "title": None, "axis": axis}
    base = {"x": day, "tooltip": panels.make_tooltips(frame)}
    usual = quantitative("better", title=None, scale=scale, axis=panels.grid_axis())
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
    words = f"{format_count(len(frame), period)}, {alarms} with an alarm"
    title += "; grey: what chance explains"
    return panels.make_panel(layers, data, title, [words], DAY_HEIGHT)

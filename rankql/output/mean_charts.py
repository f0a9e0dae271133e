"""Charts of means by system, slice, cutoff and position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import polars as pl

from rankql.decisions.comparison import CUTOFFS, compare_at_cutoffs
from rankql.errors import RankqlError
from rankql.output import panels
from rankql.output.chart_selection import (
    SLICES,
    Evaluation,
    add_system,
    list_chart_systems,
    result_of,
    summary_by_system,
)
from rankql.output.specs import Spec, calculate, make_layer, nominal, quantitative
from rankql.output.style import GREY, HEIGHT, PALETTE
from rankql.registry.parameters import RECALL
from rankql.registry.parse import is_metric, parse

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# The height of a row of the leaderboard.
RANK_HEIGHT = 22


def draw_means(evaluation: Evaluation, metric: str) -> Spec:
    """Draw the mean of every system, best first, or of every slice of a single one."""
    name = "system"
    frame = summary_by_system(evaluation).filter(pl.col("metric") == metric).drop_nulls("mean")
    if len(list_chart_systems(evaluation)) == 1 and frame["slice"].n_unique() > 1:
        name, frame = "slice", frame.head(SLICES)
    else:
        lower = result_of(evaluation).lower_is_better(metric)
        frame = frame.filter(pl.col("slice") == "all")
        frame = frame.sort("mean", descending=not lower, maintain_order=True)
    frame = frame.select(name, "mean", "lo", "hi", "queries", "undefined", "missing")
    colour = panels.colour_by_system(evaluation) if name == "system" else {"value": PALETTE[0]}
    return panels.make_dot_panel(frame, f"{metric}: means", colour)


def draw_ranks(comparison: Comparison, metric: str) -> Spec:
    """Draw the ranks of every system that the tests support, those that may be best in colour."""
    ranks = comparison.leaderboard().filter(pl.col("metric") == metric, pl.col("slice") == "all")
    label = pl.format("{} to {}", "rank_lo", "rank_hi")
    frame = ranks.drop_nulls("mean").select(
        "system", "rank_lo", "rank_hi", "mean", "maybe_best",
        ranks=pl.when(pl.col("rank_lo") == pl.col("rank_hi"))
        .then(pl.col("rank_lo").cast(pl.String)).otherwise(label),
    )  # fmt: skip
    words = [f"{row['system']} {row['ranks']}" for row in frame.iter_rows(named=True)]
    scale = {"domain": [0.5, max(1, len(frame)) + 0.5], "nice": False}
    best = {"test": "datum.maybe_best", "value": PALETTE[0]}
    encoding = {
        "x": quantitative(
            "start", title="rank", scale=scale, axis={"format": "d", "tickMinStep": 1}
        ),
        "x2": {"field": "end"},
        "y": panels.row_axis("system", frame["system"]),
        "color": {"condition": [best], "value": GREY},
        "tooltip": panels.make_tooltips(frame),
    }
    bars = make_layer("bar", encoding, height=12, cornerRadius=5)
    layers = [bars | calculate(start="datum.rank_lo - 0.4", end="datum.rank_hi + 0.4")]
    return panels.make_panel(layers, frame, f"{metric}: ranks", words, RANK_HEIGHT * len(frame))


def compute_cutoffs(comparison: Comparison, metrics: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Return the means of every system by cutoff, with their intervals, for each metric."""
    # Only the means are shown, so the differences have the test that takes least time.
    settings = {**asdict(comparison.settings), "test": "t", "bounds": None}
    curves = compare_at_cutoffs(comparison, metrics, CUTOFFS, **settings)
    cutoffs = {name: parse(name)[0] for name in curves.metrics}
    summary = summary_by_system(curves).filter(pl.col("slice") == "all").drop_nulls("mean")
    frames = {}
    for metric in metrics:
        own = parse(metric)[0].at(None).canonical
        ks = {name: each.k for name, each in cutoffs.items() if each.at(None).canonical == own}
        frame = summary.filter(pl.col("metric").is_in([*ks]))
        k = pl.col("metric").replace_strict(ks, return_dtype=pl.Int64).alias("k")
        frame = frame.select("system", k, "mean", "lo", "hi", "queries")
        frames[metric] = frame.sort("k", maintain_order=True)
    return frames


def draw_cutoffs(comparison: Comparison, metric: str, frame: pl.DataFrame) -> Spec:
    """Draw the means by cutoff: a line with its band for each system."""
    words = [
        f"{name} {part['mean'][0]:.3f} at {part['k'][0]}, {part['mean'][-1]:.3f} at {part['k'][-1]}"
        for (name,), part in frame.group_by("system", maintain_order=True)
    ]
    title = f"{metric.rpartition('@')[0] or metric}@k"
    axis = {"values": frame["k"].unique().sort().to_list(), "format": ",d"}
    x = quantitative("k", title="cutoff k", axis=axis, scale={"type": "log", "nice": False})
    return _draw_lines(comparison, frame, x, title, {"zero": False}, words)


def draw_precision_recall(evaluation: Evaluation) -> list[Spec]:
    """Draw the means of interpolated precision by recall, a panel for each threshold."""
    curves: dict[str, dict[str, float]] = {}
    for name in filter(is_metric, result_of(evaluation).metrics):
        (metric,) = parse(name)
        options = {**metric.options}
        recall = options.pop(RECALL.name, None)
        if recall is not None:
            curves.setdefault(replace(metric, options=options).canonical, {})[name] = float(recall)
    if not any(len(recalls) > 1 for recalls in curves.values()):
        raise RankqlError(
            "A precision-recall chart needs several recalls. Evaluate the metric "
            "'IPrec@0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1'"
        )
    panels_ = []
    x = quantitative("recall", title="recall", scale={"domain": [0, 1]}, axis={"format": ".1f"})
    summary = summary_by_system(evaluation).filter(pl.col("slice") == "all").drop_nulls("mean")
    for title, recalls in curves.items():
        recall = pl.col("metric").replace_strict(recalls, default=None, return_dtype=pl.Float64)
        frame = summary.select("system", recall.alias("recall"), "mean", "lo", "hi", "queries")
        frame = frame.drop_nulls("recall").sort("recall", maintain_order=True)
        panels_.append(_draw_lines(evaluation, frame, x, title, {"domain": [0, 1]}, []))
    return panels_


def _draw_lines(
    evaluation: Evaluation, frame: pl.DataFrame, x: Spec, title: str, scale: Spec, words: list[str]
) -> Spec:
    """Draw a line of means with its band for each system."""
    base = {
        "x": x,
        "color": panels.colour_by_system(evaluation, legend=True),
        "detail": nominal("system"),
    }
    y = quantitative("mean", title=title, scale=scale, axis=panels.grid_axis())
    few = len(list_chart_systems(evaluation)) <= len(PALETTE)
    band = {**base, "y": quantitative("lo"), "y2": {"field": "hi"}}
    points = {**base, "y": y, "tooltip": panels.make_tooltips(frame)}
    layers = [
        *([make_layer("area", band, opacity=0.12)] if few and not frame["lo"].null_count() else []),
        make_layer("line", {**base, "y": y}, strokeWidth=2),
        make_layer("point", points, filled=True, size=45, opacity=1),
    ]
    return panels.make_panel(layers, frame, title, words, HEIGHT + 40)


def describe_order(frame: pl.DataFrame) -> str:
    """Say whether the choice of k decides: whether bands part in favour of both of two systems."""
    if frame.is_empty():
        return "undefined at every k"
    columns = ["system", "system_right"]
    pairs = frame.join(frame, on="k").filter(pl.col("system") != pl.col("system_right"))
    ahead = {*pairs.filter(pl.col("mean") > pl.col("mean_right"))[columns].rows()}
    apart = {*pairs.filter(pl.col("lo") > pl.col("hi_right"))[columns].rows()}
    decided = sorted(f"{a} and {b}" for a, b in apart if a < b and (b, a) in apart)
    if decided:
        return f"the choice of k decides between {'; '.join(decided[:3])}"
    if any((b, a) in ahead for a, b in ahead):
        return "lines cross, but their bands overlap: no evidence that the choice of k decides"
    return "the order of the systems is the same at every k"


def draw_sensitivity(comparison: Comparison, frame: pl.DataFrame, metric: str) -> Spec:
    """Draw what a swap of neighbours changes, by position; the frame is that of `limits`."""
    frame = add_system(frame, comparison).filter(pl.col("metric") == metric)
    frame = frame.select("system", "position", "loss", "queries").drop_nulls("loss")
    worst = frame.sort("loss", descending=True).group_by("system", maintain_order=True).first()
    words = [
        f"{system} changes most by a swap of {pos} and {pos + 1}, by {loss:.3f} on average"
        for system, pos, loss, _ in worst.rows()
    ]
    last = max([1, *frame["position"]])
    axis = {"format": ",d", "tickMinStep": 1, "tickCount": min(last, 10)}
    encoding = {
        "x": quantitative(
            "position", title="position swapped with the next", scale={"nice": False}, axis=axis
        ),
        "y": quantitative("loss", title=f"change of {metric}", axis=panels.grid_axis()),
        "color": panels.colour_by_system(comparison, legend=True),
        "detail": nominal("system"),
        "tooltip": panels.make_tooltips(frame),
    }
    layers = [
        make_layer("line", encoding, strokeWidth=2),
        make_layer("point", encoding, filled=True, size=45, opacity=1),
    ]
    return panels.make_panel(layers, frame, f"{metric}: swaps", words)

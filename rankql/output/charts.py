"""The plots of a comparison, a result or an association: all panels of a kind together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from rankql.errors import RankqlError, describe_unknown
from rankql.output import panels
from rankql.output.chart_selection import METRICS, SLICES, Evaluation, result_of, select_pairs
from rankql.output.difference_charts import draw_differences, draw_slices
from rankql.output.mean_charts import (
    compute_cutoffs,
    draw_cutoffs,
    draw_means,
    draw_precision_recall,
)
from rankql.output.specs import GREY, PALETTE, Spec, join_panels, make_layer, nominal, quantitative
from rankql.registry.parse import resolve_names

if TYPE_CHECKING:
    from rankql.decisions.association import Association
    from rankql.decisions.comparison import Comparison


PRECISION_RECALL = "precision-recall"
KINDS = ("differences", "means", "slices", "cutoffs", PRECISION_RECALL)


def plot_means(evaluation: Evaluation, metric: str | None) -> Spec:
    """Draw the means, a panel for each metric, or as "precision-recall" by recall."""
    if metric == PRECISION_RECALL:
        return _join(draw_precision_recall(evaluation))
    names = _select_metrics(evaluation, metric)
    return _join([panel for name in names for panel in draw_means(evaluation, name)])


def plot_comparison(
    comparison: Comparison, kind: str, metric: str | None, a: str | None, b: str | None
) -> Spec:
    """Draw a comparison, a panel for each metric and, by query, for each pair."""
    _require_kind(kind, KINDS)
    if kind == PRECISION_RECALL:
        return plot_means(comparison, kind)
    metrics = _select_metrics(comparison, metric)
    if kind == "cutoffs":
        ((name, frame),) = compute_cutoffs(comparison, metrics[:1]).items()
        return draw_cutoffs(comparison, name, frame)
    if kind == "means":
        return plot_means(comparison, metric)
    pairs = select_pairs(comparison)
    if a is not None or b is not None:
        a = comparison.settings.baseline if a is None else a
        if a is None or b is None:
            raise RankqlError("The pair is incomplete. Pass both systems: a= and b=.")
        pairs = [(a, b)]
    if kind == "slices":
        return _join([x for name in metrics if pairs for x in draw_slices(comparison, name, pairs)])
    overall = comparison.result.overall_metrics
    by_query = [name for name in metrics if name not in overall]
    if not by_query:
        raise RankqlError(f"No query has a difference on {metrics[0]}. Pass kind='means'.")
    return _join([draw_differences(comparison, name, *pair) for name in by_query for pair in pairs])


def plot_association(association: Association, kind: str, metric: str, outcome: str) -> Spec:
    """Draw an association of a metric and an outcome."""
    draw = {"scatter": draw_scatter, "slices": draw_correlations, "quadrants": draw_quadrants}
    _require_kind(kind, list(draw))
    return draw[kind](association, metric, outcome)


def _require_kind(kind: str, kinds: Sequence[str]) -> None:
    if kind not in kinds:
        raise RankqlError(describe_unknown("kind of plot", kind, kinds))


def _join(panels: Sequence[Spec]) -> Spec:
    """Put panels side by side."""
    if not panels:
        raise RankqlError("Nothing to plot: no pair was compared. Compare at least two systems.")
    return panels[0] if len(panels) == 1 else join_panels(panels, columns=2)


def _select_metrics(evaluation: Evaluation, metric: str | None) -> list[str]:
    """Return the metrics that a name stands for; without a name the first ones."""
    if metric is None:
        return evaluation.metrics[:METRICS]
    result = result_of(evaluation)
    names = resolve_names(metric, result.metrics, result.conventions)
    for name in names:
        if name not in result.metrics:
            evaluated = ", ".join(result.metrics)
            hint = f". Kinds of plot are those of compare: plot({name!r})" * (name in KINDS)
            raise RankqlError(f"Metric {name!r} was not evaluated. Evaluated: {evaluated}{hint}.")
    return names


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
    change = "change of " if association.systems else ""
    x, y = (
        quantitative(name, title=change + title, scale={"zero": False}, axis=panels.grid_axis())
        for name, title in (("x", metric), ("y", outcome))
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

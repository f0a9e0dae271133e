"""The plots of a comparison or a result: all panels of a kind together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rankql.errors import RankqlError, describe_unknown
from rankql.output.difference_charts import draw_differences, draw_slices
from rankql.output.mean_charts import (
    compute_cutoffs,
    draw_cutoffs,
    draw_means,
)
from rankql.output.panels import METRICS, Evaluation, result_of, select_pairs
from rankql.output.specs import Spec, join_panels
from rankql.registry.parse import resolve_names

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison


KINDS = ("differences", "means", "slices", "cutoffs")


def plot_means(evaluation: Evaluation, metric: str | None) -> Spec:
    """Draw the means, a panel for each metric."""
    names = _select_metrics(evaluation, metric)
    return _join([panel for name in names for panel in draw_means(evaluation, name)])


def plot_comparison(
    comparison: Comparison, kind: str, metric: str | None, a: str | None, b: str | None
) -> Spec:
    """Draw a comparison, a panel for each metric and, by query, for each pair."""
    if kind not in KINDS:
        raise RankqlError(describe_unknown("kind of plot", kind, KINDS))
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

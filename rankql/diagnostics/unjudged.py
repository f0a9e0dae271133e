"""Unjudged items, and the bounds of metrics over all possible judgments of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from rankql.diagnostics.limits_result import filter_system, list_systems, make_frame
from rankql.errors import RankqlError
from rankql.evaluation.plan import Plan
from rankql.evaluation.query import write_query
from rankql.evaluation.result import Result
from rankql.registry.conventions import Conventions
from rankql.registry.relevance import RELEVANT
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs


def count_expressions(metrics: Sequence[Metric], conventions: Conventions) -> list[str]:
    """Counts and judged shares per query, as expressions for evaluate.

    DuckDB plans these shares in a fifth of the time of `judged_at`, which is left for the complete
    ranking and checks all positions.
    """
    counts = {}
    for k in _cutoffs(metrics):
        within = "pos IS NOT NULL" if k is None else f"pos <= {k}"
        if k is not None:
            counts[_judged_name(k)] = f"CAST(count(rel) FILTER (WHERE {within}) AS DOUBLE) / {k}"
        counts[f"items in {k}"] = f"count(*) FILTER (WHERE {within})"
        counts[f"unjudged in {k}"] = f"count(*) FILTER (WHERE {within} AND rel IS NULL)"
    for metric in metrics:
        threshold = metric.threshold(vars(conventions))
        counts[relevant_label(metric, conventions)] = RELEVANT.format(threshold=threshold)
    return ["Judged", *(f"{name} = {sql}" for name, sql in counts.items())]


def summarise_judged(counts: Result, metrics: Sequence[Metric]) -> pl.DataFrame:
    """The share of judged items and the number of unjudged items at each cutoff."""
    rows = []
    for system in list_systems(counts):
        means = dict(filter_system(counts.summary, system).select("metric", "mean").rows())
        frame = filter_system(counts.frame(), system)
        for k in _cutoffs(metrics):
            unjudged = frame[f"unjudged in {k}"]
            rows.append(
                {
                    "system": system,
                    "k": k,
                    "judged": means[_judged_name(k)],
                    "items": int(frame[f"items in {k}"].sum()),
                    "unjudged": int(unjudged.sum()),
                    "queries": int((unjudged > 0).sum()),
                }
            )
    return make_frame(counts, "judged", rows)


def measure_bounds(
    result: Result,
    metrics: Sequence[Metric],
    levels: Sequence[float] | None,
    evaluate_with: Callable[..., Result] | None,
) -> pl.DataFrame:
    """The bounds of the metrics for these grades; equal to the value without `evaluate_with`."""
    names, bounded = [metric.name for metric in metrics], None
    if names and evaluate_with:
        bounded = evaluate_with(names, unjudged="bounds", levels=levels)
    rows = []
    for system in list_systems(result):
        summary = filter_system((bounded or result).summary, system)
        means = dict(summary.select("metric", "mean").rows())
        for name in names:
            low, high = (f"{name} {side}" if bounded else name for side in ("low", "high"))
            rows.append(
                {
                    "system": system,
                    "metric": name,
                    "lo": means[low],
                    "mean": means[name],
                    "hi": means[high],
                    "undefined": _count_openable(bounded, system, name) if bounded else 0,
                }
            )
    return make_frame(result, "bounds", rows)


def _count_openable(bounded: Result, system: str | None, name: str) -> int:
    """The number of undefined queries that further judgments could define."""
    frame = filter_system(bounded.frame(), system)
    return frame.filter(pl.col(name).is_null() & pl.col(f"{name} low").is_not_null()).height


def explain_unbounded(inputs: Inputs, metric: Metric, conventions: Conventions) -> str:
    """The reason why a metric has no bounds, or ''."""
    if conventions.unjudged == "remove":
        return "with unjudged='remove', rankings have no unjudged items"
    try:
        write_query(inputs, Plan([metric], replace(conventions, unjudged="bounds")))
    except RankqlError as error:
        return str(error).replace(f" for {metric.name}", "")
    return ""


def relevant_label(metric: Metric, conventions: Conventions) -> str:
    """The name of the column that counts relevant items."""
    return f"relevant from {metric.threshold(vars(conventions))}"


def _cutoffs(metrics: Sequence[Metric]) -> list[int | None]:
    """The cutoffs of the metrics; last None, the complete ranking."""
    return [*sorted({m.k for m in metrics if m.k is not None}), None]


def _judged_name(k: int | None) -> str:
    return "Judged" if k is None else f"judged in {k}"

"""Resolve the conventions and the options of each metric, once, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankql.errors import RankqlError
from rankql.evaluation.facts import Facts
from rankql.evaluation.metric_columns import reads_judged
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.computed import require_scalar


def resolve_conventions(
    facts: Facts, metrics: Sequence[Metric], conventions: Conventions
) -> tuple[Conventions, list[Metric]]:
    """The conventions, with max_rel from the grades if a metric needs it, and the metrics without
    options that repeat a convention.
    """
    for metric in metrics:
        if metric.record is None:
            what = f"The metric {metric.label!r} = {metric.expression!r}"
            require_scalar(metric.expression, what)
    if not facts.inputs.scored:
        conventions = replace(conventions, ties="item")  # positions are never tied
    elif facts.inputs.numbered and conventions.ties == "item":
        conventions = replace(conventions, ties="expected")
    judged = [metric.name for metric in metrics if reads_judged(metric)]
    two_orders = conventions.ties in ("best", "worst") and 0 < len(judged) < len(metrics)
    if two_orders and conventions.negative != "unjudged" and facts.has_grade("{rel} < 0"):
        names = ", ".join(judged)
        raise RankqlError(
            f"ties={conventions.ties!r}: with grades below 0, tied items have no order that is the "
            f"{conventions.ties} for {names} and for the other metrics. Evaluate {names} alone, "
            "or pass negative='unjudged'"
        )
    sampled = next((m.name for m in metrics if m.record and m.record.reads_sample), None)
    if sampled and conventions.negative == "unjudged":
        # For other metrics of the gain, unjudged and not relevant are the same.
        for metric in metrics:
            by_gain = metric.record and metric.record.rows == "gain"
            alike = by_gain and metric.threshold(vars(conventions)) >= 0
            if metric.name != sampled and not alike:
                raise RankqlError(
                    f"{sampled} reads the grades below 0, which are unjudged for {metric.name}. "
                    f"Evaluate {sampled} alone"
                )
        conventions = replace(conventions, negative="zero")
    scales = [m.options.get("max_rel", conventions.max_rel) for m in metrics if m.scaled]
    exponential = any(m.record and m.gain(vars(conventions)) == "exp2" for m in metrics)
    limits = [scale for scale in scales if scale is not None] + ([1000] if exponential else [])
    if None in scales or (limits and facts.has_grade(f"{{rel}} > {min(limits)}")):
        highest = facts.highest_grade
        if exponential and highest > 1000:
            raise RankqlError(f"2^rel overflows for grade {highest:g}. Rescale the grades")
        for scale in scales:
            if scale is not None and scale < highest:
                raise RankqlError(f"max_rel={scale:g} is below the highest grade, {highest:g}")
        if None in scales:
            conventions = replace(conventions, max_rel=highest or 1.0)
    _require_reached(facts, metrics, conventions)
    unique: dict[str, Metric] = {}
    for metric in metrics:
        metric = metric.under(vars(conventions))
        unique.setdefault(metric.canonical, metric)
    return conventions, list(unique.values())


def _require_reached(facts: Facts, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics that are 0 because all grades are below 1 and the threshold."""
    for metric in metrics:
        record, least = metric.record, min(1.0, metric.threshold(vars(conventions)))
        if (
            record
            and {"threshold"} <= record.options.keys()
            and record.undefined == "never"
            and "max_rel" not in metric.options
            and not facts.grade_scale
            and not facts.has_grade(f"{{rel}} >= {least}")
            and (highest := facts.highest_grade) > 0
        ):
            graded = ", or max_rel=1 in the metric, so that grades count"
            raise RankqlError(
                f"{metric.name} would be 0: the highest grade is {highest:g}, below the threshold "
                f"{metric.threshold(vars(conventions)):g}. Pass a lower threshold="
                f"{graded if 'max_rel' in record.options else ''}"
            )

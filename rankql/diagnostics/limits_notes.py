"""The notes of `limits`, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rankql import text
from rankql.diagnostics.contributions import ROUNDING_ERROR
from rankql.diagnostics.limits_result import (
    Limits,
    count_scored_queries,
    filter_system,
    largest_losses,
    list_systems,
)
from rankql.diagnostics.sensitivity import DEEP
from rankql.diagnostics.unjudged import relevant_label
from rankql.evaluation.result import Result
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric


def describe_limits(
    limits: Limits, counts: Result, metrics: Sequence[Metric], conventions: Conventions
) -> Iterator[str]:
    """The notes on all limits; notes that hold for all systems come once."""
    systems = list_systems(limits.result)
    systems_by_note: dict[str, list[str | None]] = {}
    for system in systems:
        for notes in (
            _describe_undefined(limits, counts, metrics, conventions, system),
            _describe_unjudged(limits, metrics, conventions.levels or (), system),
            _describe_swaps(limits, metrics, system),
        ):
            for note in notes:
                systems_by_note.setdefault(note, []).append(system)
    for note, names in systems_by_note.items():
        label = ", ".join(text.escape_controls(str(name)) for name in names)
        yield note if names == systems else f"{label}: {note}"


def _describe_undefined(
    limits: Limits,
    counts: Result,
    metrics: Sequence[Metric],
    conventions: Conventions,
    system: str | None,
) -> Iterator[str]:
    values, key = filter_system(limits.result.frame(), system), limits.result.meta.query
    rows = filter_system(limits.undefined, system).to_dicts()
    metrics_by_row: dict[tuple[int, int, str], list[str]] = {}
    for metric, row in zip(metrics, rows, strict=True):
        why = ""
        if row["undefined"]:
            keys = values.filter(values[metric.name].is_null())[key].to_list()
            frame = filter_system(counts.frame(), system)
            relevant = frame.filter(frame[key].is_in(keys))[relevant_label(metric, conventions)]
            why = "" if relevant.sum() else ": no relevant item"
        metrics_by_row.setdefault((row["undefined"], row["queries"], why), []).append(metric.name)
    for (undefined, queries, why), names in metrics_by_row.items():
        if undefined:
            share = (
                f"{undefined:,} of {text.format_queries(queries)} ({_percent(undefined, queries)})"
            )
            yield f"{text.join_words(names)}: undefined for {share}{why}."


def _describe_unjudged(
    limits: Limits, metrics: Sequence[Metric], levels: Sequence[float], system: str | None
) -> Iterator[str]:
    queries = text.format_queries(filter_system(limits.undefined, system)["queries"][0])
    rows = [row for row in filter_system(limits.judged, system).to_dicts() if row["unjudged"]]
    cutoffs = {metric.k for metric in metrics}
    shares = [
        f"{_percent(row['unjudged'], row['items'])} of the items in "
        f"{'the rankings' if row['k'] is None else 'the top ' + str(row['k'])} "
        f"({row['queries']:,} of {queries})"
        # Unjudged items below the cutoffs may belong to the ideal ranking.
        for row in [row for row in rows if row["k"] in cutoffs] or rows
    ]
    bounds = [
        row
        for row in filter_system(limits.bounds, system).to_dicts()
        if row["lo"] is not None and row["hi"] - row["lo"] > ROUNDING_ERROR
    ]
    ranges = [
        f"{row['metric']} is between {text.format_cell(row['lo'])} and "
        f"{text.format_cell(row['hi'])}"
        for row in bounds
    ]
    if ranges:
        openable = max(row["undefined"] for row in bounds)
        further = f" {text.format_queries(openable)} could become defined." if openable else ""
        scale = f"{levels[0]:g} to {levels[-1]:g}"
        ranges = [f"With grades from {scale}, {text.join_words(ranges)}.{further}"]
    if shares:
        yield " ".join([f"{text.join_words(shares)} are unjudged.", *ranges])


def _describe_swaps(limits: Limits, metrics: Sequence[Metric], system: str | None) -> Iterator[str]:
    counts = count_scored_queries(limits.result, system)
    parts = [
        f"{row['metric']} by up to {text.format_cell(row['loss'])} (positions "
        f"{row['position']} and {row['position'] + 1}, {row['queries']:,} of "
        f"{text.format_queries(counts[row['metric']])})"
        for row in filter_system(largest_losses(limits), system).to_dicts()
    ]
    if parts:
        yield (
            f"On average over queries, a swap of two neighbours changes {text.join_words(parts)}."
        )
    deep = [metric.name for metric in metrics if metric.k and metric.k > DEEP]
    if deep:
        yield f"{text.join_words(deep)}: swaps beyond position {DEEP} were not measured."


def _percent(part: int, total: int) -> str:
    """A share, where 0% and 100% are exact."""
    if part == total:
        return "100%"
    share = part / total
    return "<1%" if share < 0.01 else ">99%" if share > 0.99 else f"{share:.0%}"

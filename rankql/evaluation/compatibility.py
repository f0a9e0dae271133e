"""Refuse metrics and conventions that cannot be computed together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankql.errors import RankqlError
from rankql.evaluation.catalogue import describe_together, is_catalogue
from rankql.evaluation.metric_columns import is_cut, needs_scores
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs


def require_compatible(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics and conventions that cannot be computed together."""
    scores = all("score" in table.roles for table in inputs.runs.values())
    for metric in metrics:
        if metric.record and metric.record.compares_scores and not scores:
            raise RankqlError(
                f"{metric.name} compares grades with scores, but the run has none: score='...'"
            )
    cut = next((m.name for m in metrics if is_cut(m)), None)
    if cut and conventions.ties == "expected":
        raise RankqlError(f"{cut} needs positions, but ties='expected' has none. Use ties='item'")
    if conventions.ties == "expected":
        _refuse_expected_ties(metrics, conventions)
    _refuse_orders(inputs, metrics, conventions)
    _refuse_parts(inputs, metrics)
    gains = conventions.gain.items() if isinstance(conventions.gain, Mapping) else ()
    if conventions.ties in ("best", "worst"):
        discounts = list(conventions.discounts or ())
        rising = [gain for _, gain in sorted(gains)]
        if discounts != sorted(discounts) or rising != sorted(rising):
            raise RankqlError(
                f"ties={conventions.ties!r} orders tied items by grade, so gains must rise with "
                "the grade, and discounts with the position"
            )
    if conventions.unjudged == "bounds" and any(grade == 0 != gain for grade, gain in gains):
        raise RankqlError("unjudged='bounds' requires a gain of 0 for grade 0")


def _refuse_expected_ties(metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics whose macros cannot average over the orders of tied items, in their words."""
    for metric in metrics:
        refused = metric.record.no_expected_ties if metric.record else None
        if refused is None or not refused.items() <= metric.arguments(vars(conventions)).items():
            continue
        assert metric.record
        options = "".join(f" with {name} {value!r}" for name, value in refused.items())
        raise RankqlError(
            f"ties 'expected' is not available for {metric.record.macro}{options}. Use 'item'"
        )


def _refuse_orders(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics that read scores if it is unclear whether these are -score."""
    if not inputs.ascending or not needs_scores(metrics):
        return
    name = next(metric.name for metric in metrics if needs_scores([metric]))
    if not all(table.ascending for table in inputs.runs.values()):
        raise RankqlError(
            f"{name} reads scores, but the lowest is best in some runs and the highest in others. "
            "Evaluate these runs one by one"
        )
    if conventions.ties == "expected":
        raise RankqlError(
            f"{name} reads scores, and ties='expected' requires that the highest is best. Use "
            "ties='item', or pass -score"
        )


def _refuse_parts(inputs: Inputs, metrics: Sequence[Metric]) -> None:
    """Refuse metrics of the catalogue that are not of all queries, or weighted."""
    for metric in filter(is_catalogue, metrics):
        if inputs.part:
            raise RankqlError(f"{metric.name} needs all queries at once. Raise memory_limit")
        for name in inputs.by:
            argument = inputs.argument(name)
            raise RankqlError(
                f"{describe_together([metric.name])}, so it is not a mean and has no "
                f"{argument}= ({name!r}). Leave out {argument}=, or pass the rows of one slice"
            )


def require_different_names(names: Sequence[str]) -> None:
    """Refuse two columns of the same name."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise RankqlError(
                f"Two columns of the result would be called {name!r}. Rename one of them"
            )
        seen.add(name.lower())

"""The order of items with equal scores: which one an evaluation may have, and its SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from rankql.core.base.column_names import SUBTOPICS
from rankql.core.base.errors import RankqlError, require
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.metric_record import Metric
from rankql.core.tables.inputs import Inputs

# Items descending by the bytes of their text, as in trec_eval.
BY_ITEM = "encode(CAST(item AS VARCHAR)) DESC"
_ORDERS = {
    "item": BY_ITEM,
    "order": "line ASC",
    "best": f"coalesce(rel, 0) DESC, rel IS NULL ASC, {BY_ITEM}",
    "worst": f"coalesce(rel, 0) ASC, rel IS NULL DESC, {BY_ITEM}",
    # For metrics that read only whether items are judged, whatever the grade.
    "best judged": f"rel IS NULL ASC, {BY_ITEM}",
    "worst judged": f"rel IS NULL DESC, {BY_ITEM}",
}
# Chunks are ordered by their places, where they are read as spans of documents.
PLACE = "place"
_ORDERS[PLACE] = "encode(CAST(document AS VARCHAR)), s, e"
# Those that give each item one position, and read no grade.
WITHOUT_GRADES = ("item", "order")


def score_order(ties: str) -> str:
    """Best score first, then the order of tied items."""
    return f"score DESC, {_ORDERS[ties]}"


def resolve_ties(
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    has_grade: Callable[[tuple[str, float]], bool],
) -> Conventions:
    """The conventions with the order that the rankings can have."""
    if not inputs.scored:
        require(
            not inputs.unscored or conventions.ties == "item",
            f"ties={conventions.ties!r} needs scores, and run {inputs.unscored!r} has none. Pass "
            "ties='item'",
        )
        return replace(conventions, ties="item")  # positions are never tied
    if inputs.numbered and conventions.ties == "item":
        return replace(conventions, ties="expected")
    judged = [metric.name for metric in metrics if _reads_judged(metric)]
    two_orders = conventions.ties in ("best", "worst") and 0 < len(judged) < len(metrics)
    two_orders = two_orders and conventions.negative != "unjudged"
    if two_orders and has_grade(("<", 0)):
        names = ", ".join(judged)
        raise RankqlError(
            f"ties={conventions.ties!r}: with grades below 0, tied items have no order that is the "
            f"{conventions.ties} for {names} and for the other metrics. Evaluate {names} alone, "
            "or pass negative='unjudged'"
        )
    return conventions


def tie_order(metrics: Sequence[Metric], conventions: Conventions) -> Conventions:
    """The conventions with the order in which tied items are best, or worst, for the metrics."""
    if conventions.ties in ("best", "worst") and all(map(_reads_judged, metrics)):
        return replace(conventions, ties=f"{conventions.ties} judged")
    return conventions


def require_positions(
    metrics: Sequence[Metric], conventions: Conventions, placed: Collection[str]
) -> None:
    """Refuse the mean over all orders for metrics that have none. placed: those of positions."""
    if conventions.ties != "expected":
        return
    for name in [m.name for m in metrics if m.name in placed]:
        raise RankqlError(f"{name} needs positions, but ties='expected' has none. Use ties='item'")
    for metric in metrics:
        refused = metric.record.no_expected_ties if metric.record else None
        known = metric.arguments(vars(conventions)) if metric.record else {}
        if metric.record and refused is not None and refused.items() <= known.items():
            listed = "".join(f" with {name} {value!r}" for name, value in refused.items())
            raise RankqlError(  # in the words of the macro
                f"ties 'expected' is not available for {metric.record.macro}{listed}. Use 'item'"
            )


def require_extreme(metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse the best and the worst order where an order by grade does not give them."""
    if conventions.ties not in ("best", "worst"):
        return
    gains = conventions.gain.items() if isinstance(conventions.gain, Mapping) else ()
    options = [m.options.get("discounts", ()) for m in metrics]
    falling = any([*d] != sorted(d) for d in (conventions.discounts or (), *options))
    rising = [gain for _, gain in sorted(gains)]
    require(
        not falling and rising == sorted(rising),
        f"ties={conventions.ties!r} orders tied items by grade, so gains must rise with the "
        "grade, and discounts with the position",
    )
    for metric in metrics:
        known = metric.arguments(vars(conventions)) if metric.record else {}
        # More relevant items above the cut divide it by more, and make other pairs.
        divides = "k" in known and known.get("denominator") == "found"
        divides |= "k" in known and metric.record is not None and metric.record.compares_pairs
        by_item = metric.shown is not None or SUBTOPICS in metric.expression
        if divides or by_item or (metric.record and metric.record.reads_sample):
            raise RankqlError(
                f"ties={conventions.ties!r} orders tied items by grade, which does not give "
                f"the {conventions.ties} {metric.name}. Use ties='item'"
            )


def _reads_judged(metric: Metric) -> bool:
    """Does a grade of 0 count otherwise than no grade?"""
    return metric.record is not None and metric.record.reads_judged

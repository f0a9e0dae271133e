"""A metric as a sum over the items of a ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.query.readable import gain_sql
from rankql.core.metrics.macros import literal
from rankql.core.metrics.metric_record import ExplanationSql


@dataclass(frozen=True)
class MetricTerms:
    """A metric as a sum over items: gain * weight of the position."""

    gain: str
    weight: str
    # Its formula is printed below the table.
    explanation: ExplanationSql
    # The last position that counts, and the largest size of the ideal ranking.
    cutoff: str
    ideal_cutoff: str
    # The divisor of the gain, if the metric has discounts instead of weights.
    discount: str = ""
    # The discounts, if the user lists them.
    discounts: tuple[float, ...] = ()
    # The condition for items of the ideal ranking.
    ideal_pool: str = "true"


def metric_terms(evaluation: Evaluation) -> MetricTerms:
    """A metric with its options and conventions as a sum."""
    (metric,), conventions = evaluation.metrics, evaluation.conventions
    assert metric.record and metric.record.explanation
    explanation = metric.record.explanation
    options: dict[str, Any] = {n: o.default for n, o in metric.record.options.items()}
    options |= metric.arguments(vars(conventions))
    cutoff = explanation.cut or literal(metric.k)
    over = ideal_cutoff = discount = ""
    discounts = ()
    if "{over}" in explanation.weight:
        denominator = options.get("denominator", "k")
        size = f"rankql_size({cutoff}, retrieved)"
        counts_retrieved = metric.record.counts_retrieved
        over = {
            "k": size,
            "retrieved": "retrieved",
            "min": f"least({size if counts_retrieved else cutoff}, relevant)",
            "R": "relevant",
            "found": "{found}",
        }[denominator]
        by_size = counts_retrieved or denominator == "k"
        if denominator == "retrieved" or (by_size and cutoff == "NULL"):
            ideal_cutoff = "retrieved"
    if "{discount}" in explanation.weight:
        discount = f"(log2({{place}} + 1) / log2({options['base']}::DOUBLE))"
        if isinstance(options["discounts"], tuple):
            discounts = options["discounts"]
            discount = f"({literal(discounts)}::DOUBLE[])[CAST({{place}} AS BIGINT)]"
    weight = explanation.weight.replace("{discount}", discount).replace("{over}", over)
    threshold = metric.threshold(vars(conventions))
    gain = gain_sql(metric.gain(vars(conventions)), threshold)
    names = {name: literal(options.get(name)) for name in ("negative", "max_rel", "stop")}
    return MetricTerms(
        gain=explanation.gain.format(gain=gain, threshold=threshold, **names),
        weight=weight.replace("{p}", str(options.get("p"))),
        explanation=explanation,
        cutoff=cutoff,
        ideal_cutoff=ideal_cutoff or cutoff,
        discount=discount,
        discounts=discounts,
        ideal_pool="pos IS NOT NULL" if options.get("ideal") == "retrieved" else "true",
    )

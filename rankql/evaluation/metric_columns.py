"""The metrics as SQL columns: calls of their macros, and the rows that they need.

Metrics of the complete catalogue have one value for all rankings of a slice, none per query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rankql.errors import RankqlError
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.beyond import CATALOGUE_METRICS
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.relevance import RELEVANT
from rankql.registry.requested_metric import Metric
from rankql.text import join_words

# Above this k, rows are sorted: max(score, k) reserves 16 * k bytes per ranking.
SMALL_K = 100
_RECORDS = {record.function: record for record in CATALOGUE_METRICS}
_CALL = re.compile(rf"\b({'|'.join(_RECORDS)})\s*\(", re.I)


def gain_sql(gain: str | Mapping[float, float], threshold: float) -> str:
    """The gain of a row, as SQL."""
    if isinstance(gain, Mapping):
        cases = " ".join(f"WHEN {grade} THEN {value}" for grade, value in gain.items())
        error = "rankql_fail('gain has no entry for grade ' || rel)"
        other = f"CASE WHEN rel IS NOT NULL THEN {error} END"
        return f"CAST(CASE rel {cases} ELSE {other} END AS DOUBLE)"
    return {
        "linear": "rel",
        "exp2": "exp2_gain(rel)",
        "binary": f"CAST(rel >= {threshold} AS DOUBLE)",
    }[gain]


def metric_calls(
    metrics: Sequence[Metric], conventions: Conventions
) -> tuple[dict[str, str], dict[str, str]]:
    """The calls of metrics and of their weights, by name; and the weight of each metric."""
    weighed = [m.name for m in metrics if m.record and m.record.weight]
    weights = {name: f"{INTERNAL_PREFIX}weight of {name}" for name in weighed}
    calls = {metric.name: metric_call(metric, conventions) for metric in metrics}
    calls |= {weights[m.name]: m.weight(vars(conventions)) for m in metrics if m.name in weights}
    return calls, weights


def metric_call(metric: Metric, conventions: Conventions) -> str:
    """A metric as a call of its macro."""
    if is_catalogue(metric):
        return "CAST(NULL AS DOUBLE)"  # a query has no value of its own
    if metric.record is None:
        return f"any_value({cut_column(metric)})" if is_cut(metric) else own_metric(metric)
    macro = metric.record.macro
    options = metric.arguments(vars(conventions))
    rel = gain_sql(metric.gain(vars(conventions)), metric.threshold(vars(conventions)))
    if metric.record.compares_scores:
        return f"{macro}(rel, score)"
    columns = [rel, "pos"]
    if conventions.ties == "expected":
        macro, columns = f"{macro}_by_score", [rel, "score", "item"]
        options["ties"] = "expected"
    return macro_call(macro, columns, options)


def own_metric(metric: Metric) -> str:
    """A metric of the user, as SQL."""
    return f"CAST((\n{metric.expression}\n) AS DOUBLE)"


def is_cut(metric: Metric) -> bool:
    """Is it a metric of the user that a CTE of its own computes?"""
    return metric.record is None and metric.k is not None and not is_catalogue(metric)


def reads_judged(metric: Metric) -> bool:
    """Does it read only whether items are judged?"""
    return metric.record is not None and metric.record.reads_judged


def cut_column(metric: Metric) -> str:
    """The column with the value of a metric of the user over the first k positions."""
    return quote(f"{INTERNAL_PREFIX}{metric.name}")


def macro_call(macro: str, columns: Sequence[str], options: Mapping[str, Any]) -> str:
    """A call of a macro: k by position, the other options by name."""
    arguments = [*columns, *([str(options["k"])] if "k" in options else [])]
    for name, value in options.items():
        if name != "k":
            text = str(value).lower() if isinstance(value, bool) else literal(value)
            arguments.append(f"{name} := {text}")
    return f"{macro}({', '.join(arguments)})"


def mask_undefined(
    columns: Mapping[str, str], conventions: Conventions, relevant: str | None = None
) -> dict[str, str]:
    """The columns; NULL without relevant items if undefined='drop'."""
    if conventions.undefined != "drop":
        return dict(columns)
    relevant = relevant or RELEVANT.format(threshold=conventions.threshold)
    return {name: f"CASE WHEN {relevant} > 0 THEN {v} END" for name, v in columns.items()}


def rows_needed(metrics: Sequence[Metric], conventions: Conventions) -> Rows:
    """The rows that the values depend on."""
    need = {metric.rows(vars(conventions)) for metric in metrics}
    if isinstance(conventions.gain, Mapping) or conventions.threshold <= 0:
        need.add("judged")
    order: tuple[Rows, ...] = ("all", "judged", "gain")
    return next(kind for kind in order if kind in need)


def judged_rows(rows: Rows) -> str:
    """What selects the judgments that count."""
    return "WHERE rel > 0" if rows == "gain" else ""


def last_position(metrics: Sequence[Metric], conventions: Conventions) -> int | None:
    """The last position that a metric reads, None for all."""
    further = needs_scores(metrics) or any(
        m.k is None or is_ideal_retrieved(m, conventions) for m in metrics
    )
    k = max(metric.k or 0 for metric in metrics)
    return None if further or k > SMALL_K else k


def is_ideal_retrieved(metric: Metric, conventions: Conventions) -> bool:
    """Is the ideal ranking of the retrieved items, so that all of them are read?"""
    arguments = metric.arguments(vars(conventions)) if metric.record else {}
    return arguments.get("ideal") == "retrieved"


def needs_scores(metrics: Sequence[Metric]) -> bool:
    """Does a metric read scores?"""
    return any(m.record is None or m.record.compares_scores for m in metrics)


def is_catalogue(metric: Metric) -> bool:
    """Is it an expression of the user that calls a metric of the catalogue?"""
    return metric.record is None and bool(_CALL.search(metric.expression))


def describe_together(names: Sequence[str]) -> str:
    """Say that metrics have no value for one ranking, for notes and errors."""
    verb = "describes" if len(names) == 1 else "describe"
    return f"{join_words(names)} {verb} all rankings together"


def catalogue_meta(metrics: Sequence[Metric]) -> dict[str, Any]:
    """What a result must know of these metrics: their values, still to compute, and directions."""
    better = {}
    for metric in filter(is_catalogue, metrics):
        # One call, not an expression of several.
        call = re.fullmatch(
            rf"\s*{_CALL.pattern}(?:[^()]|\([^()]*\))*\)\s*", metric.expression, re.I
        )
        record = call and _RECORDS[call[1].lower()]
        if record and record.better != "neither":
            better[metric.name] = record.better == "higher"
    values: dict[str, list[Any]] = {metric.name: [] for metric in filter(is_catalogue, metrics)}
    return {"catalogue": values, "higher_is_better": better} if values else {}


def refuse_weights(names: Sequence[str], weight: str | None) -> None:
    """Refuse weights of queries, which these metrics cannot respect."""
    if names and weight is not None:
        raise RankqlError(
            f"{describe_together(names)}, so it is not a mean and has no weight= ({weight!r}). "
            "Leave it out"
        )

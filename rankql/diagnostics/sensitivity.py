"""How much a swap of two neighbours in a ranking changes a metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from rankql.diagnostics.contributions import ROUNDING_ERROR
from rankql.diagnostics.limits_result import (
    count_scored_queries,
    list_systems,
    make_frame,
)
from rankql.evaluation.ctes import ranking_ctes
from rankql.evaluation.metric_columns import mask_undefined, metric_call, rows_needed
from rankql.evaluation.result import Result
from rankql.evaluation.steps import source_ctes, with_ctes
from rankql.macros import quote
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import fetch
from rankql.sources.session import Session

# The last swap that is measured without a cutoff, and with any cutoff.
SHALLOW, DEEP = 10, 100


def measure_swaps(
    session: Session,
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    result: Result,
) -> pl.DataFrame:
    """Measure the mean change of each metric by each swap, in one pass over the data."""
    changes: dict[tuple[str | None, int], Sequence[Any]] = {}
    if metrics:
        rows = fetch(session, _swaps_sql(inputs, metrics, conventions))
        changes = {(system, swap): sums for system, swap, *sums in rows}
    return make_frame(result, "sensitivity", _losses(result, metrics, changes))


def explain_insensitive(metric: Metric, conventions: Conventions) -> str:
    """The reason why a metric has no sensitivity to position, or ''."""
    if conventions.ties == "expected":
        return "with ties='expected', tied items have no single position"
    if metric.record and metric.record.compares_scores:
        return "the value depends on scores, not on positions"
    if metric.record and metric.record.weight:
        return "the value is one for all queries together"
    return ""


def _last(metric: Metric) -> int:
    """The last swap to measure."""
    return min(metric.k or SHALLOW, DEEP)


def _swaps_sql(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> str:
    """The SQL of the sum and the number of changes of each metric, by system and swap."""
    keys = inputs.keys
    rows = rows_needed(metrics, conventions)
    # The item after the cutoff can move into the top k.
    deeper = [replace(metric, k=metric.k and metric.k + 1) for metric in metrics]
    judged = "" if inputs.qrels is None else f"SEMI JOIN queries USING ({keys})"
    # A swap of equal grades changes nothing, except for expressions of the user.
    equal = "count(*) = 2 AND count(rel) <> 1 AND min(rel) IS NOT DISTINCT FROM max(rel)"
    equal = "false" if any(metric.record is None for metric in metrics) else equal
    calls = {f"value {i}": metric_call(metric, conventions) for i, metric in enumerate(metrics)}
    values = [f"{v} AS {quote(name)}" for name, v in mask_undefined(calls, conventions).items()]
    before = [f"any_value({quote(name)}) FILTER (WHERE swap IS NULL) OVER (PARTITION BY {keys})"
              for name in calls]  # fmt: skip
    changes = [f"abs({quote(name)} - {b}) AS {quote(name)}"
               for name, b in zip(calls, before, strict=True)]  # fmt: skip
    ctes = source_ctes(inputs, conventions) | ranking_ctes(inputs, deeper, conventions, rows)
    only = {"gain": "WHERE rel > 0", "judged": "WHERE rel IS NOT NULL", "all": ""}[rows]
    ctes["rows"] = f"SELECT * FROM ranked {judged} {only}"
    # Each ranking without a swap (NULL), and with each swap of unequal grades.
    ctes["swaps"] = f"""
    SELECT DISTINCT {keys}, NULL::BIGINT AS swap FROM rows
    UNION ALL
    SELECT {keys}, swap
    FROM (SELECT {keys}, rel, unnest([pos - 1, pos])::BIGINT AS swap FROM rows
          WHERE pos <= {max(map(_last, metrics)) + 1})
    WHERE swap BETWEEN 1 AND {max(map(_last, metrics))}
    GROUP BY {keys}, swap HAVING NOT ({equal})"""
    ctes["moved"] = f"""
    SELECT * REPLACE (
        CASE pos WHEN swap THEN swap + 1 WHEN swap + 1 THEN swap ELSE pos END AS pos)
    FROM rows JOIN swaps USING ({keys})"""
    ctes["measured"] = f"""
    SELECT {keys}, swap, {", ".join(values)} FROM moved GROUP BY {keys}, swap"""
    ctes["changes"] = f"""
    SELECT {keys}, swap, {", ".join(changes)} FROM measured"""
    system = "system" if inputs.many else "NULL"
    sums = ", ".join(map(_sum_and_count, calls))
    return f"""{with_ctes(ctes, kept="rows")}
    SELECT {system}, swap, {sums} FROM changes WHERE swap IS NOT NULL GROUP BY ALL"""


def _sum_and_count(name: str) -> str:
    """The sum and the number of changes of a metric."""
    column = quote(name)
    changed = f"FILTER (WHERE {column} > {ROUNDING_ERROR})"
    # Sorted, because the sum depends on the order of rows and threads otherwise.
    values = f"list_sort(list({column}) {changed}, 'ASC', 'NULLS LAST')"
    return f"list_aggregate({values}, 'fsum'), count(*) {changed}"


def _losses(
    result: Result,
    metrics: Sequence[Metric],
    changes: Mapping[tuple[str | None, int], Sequence[Any]],
) -> Iterator[dict[str, Any]]:
    """The rows of the frame `sensitivity`."""
    for system in list_systems(result):
        counts = count_scored_queries(result, system)
        for i, metric in enumerate(metrics):
            n = counts[metric.name]
            for swap in range(1, _last(metric) + 1):
                sum_, queries = changes.get((system, swap), [0.0] * 2 * len(metrics))[2 * i :][:2]
                loss = (sum_ or 0.0) / n if n else None
                row = {"position": swap, "loss": loss, "queries": int(queries)}
                yield {"system": system, "metric": metric.name, **row}

"""The lowest and highest value of each metric over all grades of the unjudged items."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankql.errors import RankqlError
from rankql.evaluation.metric_columns import gain_of_grade, gain_sql, option_sql
from rankql.macros import INTERNAL_PREFIX, literal, quote, read_parameters
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric


def bound_calls(
    metrics: Sequence[Metric], conventions: Conventions
) -> tuple[dict[str, str], list[str]]:
    """The lists from which bounds are computed, and the calls that compute them."""
    lists: dict[str, str] = {}
    calls = []
    for metric in metrics:
        macro = f"rankql_bounds_{metric.record.macro}" if metric.record else ""
        knows = read_parameters().get(macro, {})
        if not knows or (metric.record and metric.record.weight) or conventions.ties == "expected":
            under = " with ties='expected'" if conventions.ties == "expected" else ""
            raise RankqlError(f"unjudged='bounds' is not available for {metric.name}{under}")
        options = metric.arguments(vars(conventions))
        gain, threshold = metric.gain(vars(conventions)), metric.threshold(vars(conventions))
        rel = gain_sql(gain, threshold)
        ideal = " AND pos IS NOT NULL" if options.pop("ideal", "judged") == "retrieved" else ""
        items = f"list({{'pos': CAST(pos AS DOUBLE), 'rel': {rel}}} ORDER BY pos ASC)"
        arguments = []
        for part in (
            f"{items} FILTER (WHERE pos IS NOT NULL)",
            f"list({rel}) FILTER (WHERE rel IS NOT NULL{ideal})",
        ):
            lists.setdefault(part, f"{INTERNAL_PREFIX}list_{len(lists)}")
            arguments.append(quote(lists[part]))
        k = literal(options.pop("k", None))
        highest = metric.options.get("max_rel", conventions.max_rel) if metric.scaled else math.inf
        grades = [grade for grade in conventions.levels or () if grade <= (highest or math.inf)]
        levels = {gain_of_grade(gain, threshold, grade) for grade in grades}
        arguments += [*([k] if "k" in knows else []), literal(sorted(levels))]
        arguments += [f"{name} := {option_sql(value)}" for name, value in options.items()]
        calls.append(f"{macro}({', '.join(arguments)})")
    return {name: part for part, name in lists.items()}, calls


def select_bounds(names: Sequence[str], lists: Sequence[str], bounds: Sequence[str]) -> str:
    """The SELECT of the values in the CTE `lists`, with their lowest and highest value."""
    pairs = [f"{INTERNAL_PREFIX}bounds_{i}" for i in range(len(names))]
    columns = ",\n    ".join(f"{b} AS {quote(p)}" for b, p in zip(bounds, pairs, strict=True))
    ends = [
        f"{quote(pair)}.{side} AS {quote(f'{name} {side}')}"
        for name, pair in zip(names, pairs, strict=True)
        for side in ("low", "high")
    ]
    return (
        f"SELECT * EXCLUDE ({', '.join(map(quote, [*lists, *pairs]))}), {', '.join(ends)}\n"
        f"FROM (SELECT *,\n    {columns}\nFROM lists)"
    )

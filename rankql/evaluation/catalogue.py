"""Metrics of the complete catalogue, with a value per query: its jackknife pseudo-value.

The mean of the pseudo-values is the metric of all rankings together, and their standard error is
that of the jackknife, so intervals and paired tests need nothing else. To leave out one ranking,
each metric is written as a function of two sums over all shown items, {a} and {b}, and of the
number of rankings {n}.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rankql.errors import RankqlError
from rankql.macros import literal
from rankql.registry.beyond import CATALOGUE_METRICS
from rankql.registry.metric_record import MetricRecord
from rankql.registry.requested_metric import Metric
from rankql.text import join_words

# By function. `evaluate` computes those with row_sums.
_RECORDS = {record.function: record for record in CATALOGUE_METRICS}
_COMPUTED = [name for name, record in _RECORDS.items() if record.row_sums]


def is_catalogue(metric: Metric) -> bool:
    """Is it an expression of the user that calls a metric of the catalogue?"""
    return metric.record is None and bool(
        re.search(rf"\b({'|'.join(_RECORDS)})\s*\(", metric.expression, re.I)
    )


def catalogue_notes(metrics: Sequence[Metric]) -> list[str]:
    """What the values per query of these metrics are."""
    names = [metric.name for metric in metrics if is_catalogue(metric)]
    if not names:
        return []
    return [
        f"{describe_together(names)}: values per query are jackknife pseudo-values, of which only "
        "the mean and its interval have a meaning"
    ]


def describe_together(names: Sequence[str]) -> str:
    """Say that metrics have no value for one ranking, for notes and errors."""
    verb = "describes" if len(names) == 1 else "describe"
    return f"{join_words(names)} {verb} all rankings together"


def catalogue_meta(metrics: Sequence[Metric]) -> dict[str, Any]:
    """What a result must know of these metrics: their directions and ranges."""
    records = {metric.name: _parse(metric)[0] for metric in filter(is_catalogue, metrics)}
    better = {name: r.better == "higher" for name, r in records.items() if r.better != "neither"}
    ranges = {name: [record.lowest, record.highest] for name, record in records.items()}
    return {"higher_is_better": better, "ranges": ranges} if records else {}


def pseudo_values(
    metric: Metric, rows: str, queries: str, keys: str, column: str, *, skips: bool
) -> str:
    """SQL of the pseudo-value of each ranking.

    queries: the CTE of those that count, if not all in rows; skips: only those that show something.
    """
    record, arguments = _parse(metric)
    sums = record.row_sums
    assert sums
    size = next((a for a in arguments[1:] if re.fullmatch(r"[\d.]+", a)), "NULL")
    norm = 1 if "'n-1'" in metric.expression else 0
    system = keys.partition("query")[0]
    of_all = f"PARTITION BY {system.rstrip(', ')}" if system else ""
    x = sums.x.format(column=arguments[0], last=arguments[-1], size=size)
    item = "item" if sums.columns else "NULL"
    shown = f"pos <= {metric.k}" if metric.k else "pos IS NOT NULL"
    counted = f"SEMI JOIN {queries} USING ({keys})" if queries else ""
    value = sums.value.replace("{size}", f"CAST({size} AS DOUBLE)").replace("{norm}", str(norm))
    everything = value.format(a="a_", b="b_", n="n_")
    without = value.format(a="(a_ - loss_)", b="(b_ - rows_)", n="(n_ - 1)")
    label = literal(metric.name)
    return f"""
    WITH kept AS (SELECT * FROM {rows} {counted}), shown AS (FROM kept WHERE {shown}),
    counted AS (SELECT {keys}, {item} AS item, {x} AS x,
        CAST(count(*) OVER (PARTITION BY {system}{item}) AS DOUBLE) AS c FROM shown),
    levels AS (SELECT {system}c, CAST(count(DISTINCT item) AS DOUBLE) AS m FROM counted
        GROUP BY {system}c),
    placed AS (SELECT *, {size} - sum(m) OVER ({of_all} ORDER BY c DESC) AS less FROM levels),
    parts AS (SELECT {keys}, item, {sums.part} AS part, {sums.loss.format(keys=keys)} AS loss
        FROM counted JOIN placed USING ({system}c)),
    sums AS (SELECT {keys}, sum(part) AS part_, coalesce(sum(loss), 0) AS loss_,
        count(part) AS rows_, count(item) > count(DISTINCT item) AS repeats_
        FROM (SELECT DISTINCT {keys} FROM {"shown" if skips else "kept"})
        LEFT JOIN parts USING ({keys}) GROUP BY {keys}),
    totals AS (SELECT *, sum(part_) OVER ({of_all}) AS a_, sum(rows_) OVER ({of_all}) AS b_,
        count(*) OVER ({of_all}) AS n_ FROM sums),
    left_out AS (SELECT *, {everything} AS all_, {without} AS without_ FROM totals),
    known AS (SELECT {system}CAST(({metric.expression}) AS DOUBLE) AS known_ FROM shown
        {f"GROUP BY {system.rstrip(', ')}" if system else ""})
    SELECT {keys}, CASE
        WHEN (all_ IS NULL) <> (known_ IS NULL) OR abs(all_ - known_) > 1e-9 * (1 + abs(known_))
        THEN rankql_fail({label} || ': these options are not supported in evaluate')
        WHEN bool_or(repeats_) OVER ({of_all})
        THEN rankql_fail({label} || ': a ranking repeats an item. Keep one row of each')
        WHEN known_ IS NULL AND n_ > 1 THEN rankql_fail({label} || ' is NULL for all queries:'
            || ' nothing is shown, or its columns are NULL in all shown rows. Leave it out')
        WHEN n_ > 1 AND bool_or(without_ IS NULL) OVER ({of_all}) THEN rankql_fail({label} ||
            ' needs more queries: it is undefined without one of them')
        WHEN n_ = 1 THEN known_
        ELSE known_ + (n_ - 1) * (avg(without_) OVER ({of_all}) - without_) END AS {column}
    FROM left_out {f"JOIN known USING ({system.rstrip(', ')})" if system else "CROSS JOIN known"}"""


def _parse(metric: Metric) -> tuple[MetricRecord, list[str]]:
    """The record and the arguments of the call, without the names of options."""
    call = rf"\s*({'|'.join(_COMPUTED)})\s*\(([^()]*)\)\s*"
    match = re.fullmatch(call, metric.expression, re.I)
    function, inner = match.groups() if match else ("", "")
    parts = [argument.partition(":=") for argument in inner.split(",")]
    arguments = [(value or name).strip() for name, _, value in parts]
    record = _RECORDS.get(function.lower())
    sums = record and record.row_sums
    if not record or not sums or (*arguments[: len(sums.columns)],) != sums.columns:
        raise RankqlError(
            f"metrics: {metric.name} = {metric.expression} describes the complete catalogue. In "
            f"evaluate, it must be one call of {', '.join(_COMPUTED)}, such as "
            "gini(item, catalogue := 500) or personalisation(query, item), where item and query "
            "are those of the evaluation, whatever their columns are called"
        )
    options = {name.strip().lower() for name, named, _ in parts if named}
    plain = all(re.fullmatch(r"\d+\.?\d*|'n(-1)?'", x) for x in arguments[len(record.columns) :])
    if not plain or len(parts) > sums.arguments or options - {"catalogue", "users", "norm"}:
        digits = ", with the number in digits" if ":=" in record.example else ""
        norm = ", and norm := 'n-1'" if "norm" in record.options else ""
        raise RankqlError(
            f"metrics: {metric.name} = {metric.expression} has an option that evaluate does not "
            f"support. It supports {record.example}{digits}{norm}"
        )
    return record, arguments

"""The rows of a gate's table that hold a mean, or its confidence interval, to a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text as show
from rankql.decisions.alignment import compared_value
from rankql.decisions.gate_limits import GateLimit
from rankql.decisions.gate_text import (
    describe_inconclusive,
    describe_mean,
    format_drop_interval,
    format_limit,
)
from rankql.decisions.margin_decisions import Margin
from rankql.decisions.paired_runs import CLUSTER, VALUE, number_clusters
from rankql.decisions.rounding import ROUNDING
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED, TOO_FEW
from rankql.evaluation.result import Result
from rankql.evaluation.summary import slice_queries
from rankql.macros import MISSING

if TYPE_CHECKING:
    from rankql.decisions.noninferiority import NoninferiorityTest

_OPERATORS: dict[str, Callable[[float, float], bool]] = {">=": ge, "<=": le, ">": gt, "<": lt}


def mean_rows(limit: GateLimit, run: Result, min_queries: int) -> Iterator[dict[str, Any]]:
    """The rows of a limit that the mean itself is held to."""
    counts = _count_queries(run)
    name = limit.name(run)
    for row in run.summary.filter(pl.col("metric") == name).iter_rows(named=True):
        mean, n, overall = row["mean"], counts.get((row["slice"], name), 0), row["slice"] == "all"
        if mean is None:
            yield undefined_row(limit, run, row, min_queries)
            continue
        status, message = PASSED, describe_mean(mean, n, row["queries"])
        toward = -ROUNDING if limit.operator in ("<=", ">") else ROUNDING
        if n < min_queries and not overall:
            status, message = TOO_FEW, f"{message}, fewer than {min_queries}: not checked"
        elif not _OPERATORS[limit.operator](mean + toward, limit.bound):
            status, message = FAILED, f"{message}, not {limit.operator} {format_limit(limit.bound)}"
        yield limit.row(run, slice=row["slice"], mean=mean, n=n, status=status, message=message)


def bound_rows(limit: GateLimit, run: Result, test: NoninferiorityTest) -> Iterator[dict[str, Any]]:
    """The rows of a limit that the confidence interval of the mean is held to."""
    from rankql.decisions.sample import Sample

    name = limit.name(run)
    sign = -1 if limit.operator in (">=", ">") else 1
    values = _values_by_slice(run, name, test.cluster)
    losses = {
        part: Sample(sign * (frame[VALUE].to_numpy() - limit.bound), number_clusters(frame))
        for part, frame in values.items()
        if len(frame)
    }
    strict = limit.operator in (">", "<")
    judgements = test.judge_slices(losses, Margin(0.0, strict=strict))
    for row in run.summary.filter(pl.col("metric") == name).iter_rows(named=True):
        part = row["slice"]
        if part not in judgements:
            yield undefined_row(limit, run, row, test.min_queries)
            continue
        judgement, n = judgements[part], len(values[part])
        lo, hi = judgement.interval(limit.bound, sign)
        interval = format_drop_interval(lo, hi, judgement, limit.bound)
        message = describe_mean(row["mean"], n, row["queries"], interval)
        if judgement.decision == FAILED:
            message += f", not {limit.operator} {format_limit(limit.bound)}"
        elif judgement.decision == TOO_FEW:
            message += f", fewer than {test.min_queries}: not checked"
        elif judgement.decision == INCONCLUSIVE:
            unclear = f"the mean may be on either side of {format_limit(limit.bound)}"
            message += f". {describe_inconclusive(judgement, n, unclear)}"
        yield limit.row(
            run, slice=part, mean=row["mean"], n=n, lo=lo, hi=hi,
            status=judgement.decision, message=message, **judgement.columns(),
        )  # fmt: skip


def undefined_row(
    limit: GateLimit, run: Result, row: Mapping[str, Any], min_queries: int, where: str = ""
) -> dict[str, Any]:
    """The row of a mean that no query has a value for."""
    message = f"undefined: none of {show.format_queries(row['queries'])} has a value{where}"
    status = FAILED
    if row["slice"] != "all" and row["queries"] < min_queries:
        status, message = TOO_FEW, f"{message}, fewer than {min_queries}: not checked"
    return limit.row(run, slice=row["slice"], n=0, status=status, message=message)


def _count_queries(run: Result) -> dict[tuple[str, str], int]:
    """How many queries each mean is of, by slice and metric."""
    rules, rows = run.conventions, run.frame()
    if rules["missing"] == "skip":
        rows = rows.filter(~pl.col(MISSING))
    zero = set(run.metrics) - set(run.meta["weights"]) if rules["undefined"] == "zero" else set()
    summary = replace(run, values=rows, _summary=None).summary
    columns = ("slice", "metric", "queries", "undefined")
    return {
        (part, name): queries - (0 if name in zero else undefined)
        for part, name, queries, undefined in summary.select(columns).iter_rows()
    }


def _values_by_slice(run: Result, name: str, cluster: str | None) -> dict[str, pl.DataFrame]:
    """The values of a metric that count, by slice, with their cluster."""
    key, by = run.meta["query"], run.meta["by"]
    codes = [] if cluster is None else [pl.col(cluster).rank("dense").alias(CLUSTER)]
    rows = run.frame().select(key, *by, compared_value(name, run.conventions).alias(VALUE), *codes)
    return {
        part: rows.filter(pl.col(key).is_in(queries.implode())).drop_nulls(VALUE)
        for part, queries in slice_queries(rows.select(key, *by), run.meta["groupings"]).items()
    }

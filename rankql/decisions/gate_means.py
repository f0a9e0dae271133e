"""The rows of a gate's table that hold a mean to a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import ge, gt, le, lt
from typing import Any

import polars as pl

from rankql import text as show
from rankql.decisions.alignment import ROUNDING
from rankql.decisions.gate_limits import GateLimit, format_limit
from rankql.decisions.verdict import FAILED, PASSED, TOO_FEW
from rankql.evaluation.result import Result
from rankql.macros import MISSING

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
        of = "" if n == row["queries"] else f"{n:,} of "
        message = f"{show.format_number(mean, 6)} on {of}{show.format_queries(row['queries'])}"
        status = PASSED
        toward = -ROUNDING if limit.operator in ("<=", ">") else ROUNDING
        if n < min_queries and not overall:
            status, message = TOO_FEW, f"{message}, fewer than {min_queries}: not checked"
        elif not _OPERATORS[limit.operator](mean + toward, limit.bound):
            status, message = FAILED, f"{message}, not {limit.operator} {format_limit(limit.bound)}"
        yield limit.row(run, slice=row["slice"], mean=mean, n=n, status=status, message=message)


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
    summary = replace(run, rows=rows, _summary=None).summary
    columns = ("slice", "metric", "queries", "undefined")
    return {
        (part, name): queries - (0 if name in zero else undefined)
        for part, name, queries, undefined in summary.select(columns).iter_rows()
    }

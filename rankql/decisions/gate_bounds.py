"""The rows of a gate's table that hold the confidence interval of a mean to a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from rankql.decisions.gate_drops import describe_inconclusive, format_gate_interval
from rankql.decisions.gate_limits import GateLimit, describe_mean, format_limit, undefined_row
from rankql.decisions.noninferiority import Margin, judge_slices
from rankql.decisions.sample import Sample
from rankql.decisions.system_values import SystemValues
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, TOO_FEW
from rankql.evaluation.result import Result

# The name of the one system.
_RUN = "run"


def bound_rows(
    limit: GateLimit, run: Result, values: SystemValues, alpha: float, min_queries: int
) -> Iterator[dict[str, Any]]:
    """The rows of a limit on a mean: it passes if the interval lies within the limit."""
    name = limit.name(run)
    sign = -1 if limit.operator in (">=", ">") else 1
    samples = {}
    for part in values.slices:
        defined, _, clusters = values.pair(name, _RUN, _RUN, part)
        if len(defined):
            samples[part] = Sample(sign * (defined - limit.bound), clusters)
    margin = Margin(0.0, strict=limit.operator in (">", "<"))
    judgements = judge_slices(samples, margin, alpha, min_queries)
    for row in run.summary.filter(pl.col("metric") == name).iter_rows(named=True):
        part = row["slice"]
        if part not in judgements:
            yield undefined_row(limit, run, row, min_queries)
            continue
        judgement, n = judgements[part], len(samples[part].differences)
        lo, hi = judgement.interval(sign, limit.bound)
        interval = format_gate_interval(lo, hi, judgement, limit.bound)
        message = describe_mean(row["mean"], n, row["queries"], interval)
        if judgement.decision == FAILED:
            message += f", not {limit.operator} {format_limit(limit.bound)}"
        elif judgement.decision == TOO_FEW:
            message += f", fewer than {min_queries}: not checked"
        elif judgement.decision == INCONCLUSIVE:
            unclear = f"the mean may be on either side of {format_limit(limit.bound)}"
            message += f". {describe_inconclusive(judgement, n, unclear)}"
        yield limit.row(
            run, slice=part, mean=row["mean"], n=n, lo=lo, hi=hi, status=judgement.decision,
            message=message, confidence=None if lo is None else judgement.confidence,
            queries_needed=judgement.queries_needed,
        )  # fmt: skip


def values_of_run(run: Result, cluster: str | None) -> SystemValues:
    """The values of a run that has no column of systems."""
    rows = run.frame().with_columns(pl.lit(_RUN).alias("system"))
    return SystemValues.of(replace(run, values=rows), [_RUN], cluster)

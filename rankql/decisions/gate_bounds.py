"""The rows of a gate's table that hold the confidence interval of a mean to a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from rankql import text as show
from rankql.decisions.gate_drops import describe_inconclusive, format_gate_interval
from rankql.decisions.gate_limits import GateLimit, format_limit, undefined_row
from rankql.decisions.noninferiority import Margin, judge_slices
from rankql.decisions.sample import Sample
from rankql.decisions.system_values import SystemValues
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, TOO_FEW
from rankql.evaluation.result import Result


def bound_rows(
    limit: GateLimit, run: Result, alpha: float, min_queries: int, cluster: str | None
) -> Iterator[dict[str, Any]]:
    """The rows of a limit on a mean: it passes if the interval lies within the limit."""
    name = limit.name(run)
    sign = -1 if limit.operator in (">=", ">") else 1
    samples = {
        part: Sample(sign * (sample.differences - limit.bound), sample.clusters)
        for part, sample in _values_by_slice(run, name, cluster).items()
    }
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
        of = "" if n == row["queries"] else f"{n:,} of "
        mean = f"{show.format_number(row['mean'], 6)}{interval}"
        message = f"{mean} on {of}{show.format_queries(row['queries'])}"
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


def _values_by_slice(run: Result, name: str, cluster: str | None) -> dict[str, Sample]:
    """The values of a metric that count, by slice; empty slices are left out."""
    rows = run.frame().with_columns(pl.lit("run").alias("system"))
    values = SystemValues.of(replace(run, values=rows), ["run"], cluster)
    samples = {}
    for part in values.slices:
        of_part, _, clusters = values.pair(name, "run", "run", part)
        if len(of_part):
            samples[part] = Sample(of_part, clusters)
    return samples

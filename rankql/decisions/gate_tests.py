"""The tests of a gate: each limit as a test of non-inferiority, by slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from rankql import text
from rankql.decisions.gate_limits import GateLimit
from rankql.decisions.gate_rows import format_level
from rankql.decisions.margin import Judgement
from rankql.decisions.noninferiority import judge_slices, mean_interval, testable_margin
from rankql.decisions.sample import Sample
from rankql.decisions.system_values import PairedRuns, SystemValues
from rankql.errors import RankqlError
from rankql.evaluation.result import Result


def judge_means(
    limits: Sequence[GateLimit], run: Result, cluster: str | None, alpha: float, min_queries: int
) -> list[dict[str, Judgement]]:
    """Hold the interval of each mean to its limit."""
    require_intervals(limits, run)
    rows = run.frame().with_columns(pl.lit("run").alias("system"))
    values = SystemValues.of(replace(run, values=rows), ["run"], cluster)
    judgements = []
    for limit in limits:
        samples = {}
        for part in values.slices:
            defined, _, clusters, weights = values.pair(limit.name(run), "run", "run", part)
            if len(defined):
                samples[part] = Sample(limit.sign * (defined - limit.bound), clusters, weights)
        low, high = sorted(limit.sign * (x - limit.bound) for x in values.range(limit.name(run)))
        decided = judge_slices(samples, limit.margin, alpha, min_queries, (low, high))
        judgements.append({part: x.within(low, high) for part, x in decided.items()})
    return judgements


def judge_drops(
    limit: GateLimit, pairs: PairedRuns, alpha: float, min_queries: int
) -> dict[str, Judgement]:
    """Hold the interval of each drop to its limit; slices without any difference are left out."""
    losses = pairs.losses(limit.name(pairs.result))
    changed = {
        part: sample for part, sample in losses.items()
        if np.abs(sample.differences).max() > sample.rounding
    }  # fmt: skip
    largest = pairs.values.largest_difference(limit.name(pairs.result))
    decided = judge_slices(changed, limit.margin, alpha, min_queries)
    return {part: judgement.within(-largest, largest) for part, judgement in decided.items()}


def require_intervals(limits: Sequence[GateLimit], run: Result) -> None:
    """Refuse to test a metric that is one value for all queries."""
    for limit in limits:
        if (name := limit.name(run)) in run.overall_metrics:
            raise RankqlError(
                f"{name} is one value for all queries, so it has no confidence interval. Set a "
                "limit on its value with minimum= (CLI: --min) alone, or on its drop with "
                "max_drop= (CLI: --max-drop)"
            )


def recommend_limit(limit: GateLimit, pairs: PairedRuns, alpha: float) -> list[str]:
    """A note on the smallest limit that this number of queries can test."""
    name = limit.name(pairs.result)
    sample = pairs.losses(name).get("all")
    if sample is None or sample.units < 2 or sample.constant:
        return []
    interval = mean_interval(sample, alpha)
    margin = interval and testable_margin(sample, interval, alpha)
    if not margin:
        return []
    queries = text.format_queries(len(sample.differences))
    if margin >= pairs.values.largest_difference(name):
        advice = "are too few to test any other limit"
    else:
        option = f"'{name}:{margin:g}'"
        advice = (
            f"can test a limit of about {margin:g}: max_drop={option} (CLI: --max-drop {option})"
        )
    return [f"{name} has no limit, so only a significant drop fails. These {queries} {advice}"]


def describe_rule(limits: str, alpha: float, sliced: bool, no_limit: bool) -> list[str]:
    """Notes on how these limits are tested."""
    notes = [
        f"{limits} passes if the {format_level(1 - alpha)} confidence interval (CI) is within it, "
        "fails if the CI is beyond it, and is inconclusive otherwise. CIs are Student's t, widened "
        "for skewed values"
    ]
    if no_limit:
        notes.append("A limit of 0 on a drop fails only if the CI is beyond it")
    if sliced:
        notes.append("CIs of slices are adjusted for the number of slices (Holm)")
    return notes

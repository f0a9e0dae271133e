"""The headline of a comparison: one line for readers who read nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from rankql.text import format_interval, has_or_have, is_or_are, join_words

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# More names are counted.
NAMES = 3


def write_headline(comparison: Comparison) -> str:
    """Say which system is best on which metrics, and what it beats significantly."""
    means = comparison.summary.filter(pl.col("slice") == "all").drop_nulls("mean")
    if "system" not in means.columns:
        means = means.with_columns(system=pl.lit(comparison.systems[0]))
    if means.is_empty():
        return "No metric is defined on these queries."
    if len(comparison.systems) == 1:
        rows = means["metric", "mean", "lo", "hi"].rows()
        values = [f"{name} {format_interval(ends)}" for name, *ends in rows]
        return f"{comparison.systems[0]}: {', '.join(values[:NAMES])}."
    leaders: dict[tuple[str, ...], list[str]] = {}
    others, zero = [], []
    for metric in means["metric"].unique(maintain_order=True):
        above = means.filter(pl.col("metric") == metric, pl.col("mean") != 0)
        if comparison.higher_is_better[metric] and above.is_empty():
            zero.append(metric)
            continue
        best = _find_best(comparison, means, metric)
        if better := _find_better(comparison, best, metric):
            others.append(
                f"{_join_names(best)} {has_or_have(len(best))} the best mean on {metric}, but not "
                f"over the same queries: {_join_names(better)} {is_or_are(len(better))} better on "
                "those of both."
            )
        else:
            leaders.setdefault(best, []).append(metric)
    sentences = [_describe_lead(comparison, *lead) for lead in leaders.items()]
    if zero:
        sentences.append(f"No system has a mean above 0 on {_join_metrics(comparison, zero)}.")
    return " ".join([*sentences, *others, *_describe_reversals(comparison)])


def _find_best(comparison: Comparison, means: pl.DataFrame, metric: str) -> tuple[str, ...]:
    """Return the system with the best mean, or several with the same."""
    rows = means.filter(pl.col("metric") == metric).select("system", "mean").rows()
    best = (max if comparison.higher_is_better[metric] else min)(mean for _, mean in rows)
    return tuple(sorted(name for name, mean in rows if abs(mean - best) <= 1e-12))


def _find_better(comparison: Comparison, best: Sequence[str], metric: str) -> list[str]:
    """Return the systems that are better than the best mean on the queries of both."""
    rows = comparison.table.filter(slice="all", metric=metric).drop_nulls("difference")
    sign = 1 if comparison.higher_is_better[metric] else -1
    found = []
    for a, b, difference in rows["a", "b", "difference"].rows():
        winner, loser = (b, a) if sign * difference > 0 else (a, b)
        if loser in best and winner not in best and abs(difference) > 1e-12:
            found.append(winner)
    return list(dict.fromkeys(found))


def _describe_lead(comparison: Comparison, best: Sequence[str], metrics: Sequence[str]) -> str:
    """Say on which metrics a system is best, and what it beats significantly."""
    where = _join_metrics(comparison, metrics)
    if len(best) > 1:
        return f"{_join_names(best)} are tied for best on {where}."
    (name,) = best
    rows = comparison.table.filter(pl.col("slice") == "all", pl.col("metric").is_in(metrics))
    verdicts = set()
    won: dict[str, list[str]] = {}
    for metric, a, b, verdict in rows["metric", "a", "b", "verdict"].rows():
        if name in (a, b):
            verdicts.add(verdict)
            if verdict == ("better" if name == b else "worse"):
                won.setdefault(a if name == b else b, []).append(metric)
    lead = f"{name} is best on {where}"
    if won and all(beaten == [*metrics] for beaten in won.values()):
        each = " on each" if len(metrics) > 1 else ""
        return f"{lead}, and significantly better than {_join_names([*won])}{each}."
    if won:
        return f"{lead}; significantly better than {_list_wins(comparison, won)}."
    if any(verdict.startswith("equivalent") for verdict in verdicts):
        return f"{lead}, but the lead is too small to matter."
    if verdicts & {"better", "worse", "not significant"}:
        return f"{lead}, but the lead is not significant."
    return f"{lead}; the lead was not tested."


def _list_wins(comparison: Comparison, won: dict[str, list[str]]) -> str:
    """List the systems that were beaten, those on the same metrics together."""
    by_metrics: dict[tuple[str, ...], list[str]] = {}
    for loser, metrics in won.items():
        by_metrics.setdefault(tuple(metrics), []).append(loser)
    if len(by_metrics) > NAMES:
        return f"{len(won)} of {len(comparison.systems) - 1} systems on at least one metric"
    return " and ".join(
        f"{_join_names(losers)} on {_join_metrics(comparison, metrics)}"
        for metrics, losers in by_metrics.items()
    )


def _describe_reversals(comparison: Comparison) -> list[str]:
    """Name the slices in which the significant finding is the opposite of the overall one."""
    key = ["metric", "a", "b"]
    rows = comparison.table.filter(pl.col("verdict").is_in(["better", "worse"]))
    overall = rows.filter(pl.col("slice") == "all").select(*key, overall="verdict")
    reversed_ = rows.join(overall, on=key).filter(pl.col("verdict") != pl.col("overall"))
    slices = reversed_["slice"].unique(maintain_order=True).to_list()
    return [f"The reverse is true for {_join_names(slices, 'slices')}."] if slices else []


def _join_metrics(comparison: Comparison, metrics: Sequence[str]) -> str:
    if len(metrics) == len(comparison.metrics) > 1:
        return "both metrics" if len(metrics) == 2 else f"all {len(metrics)} metrics"
    if len(metrics) > NAMES:
        return f"{len(metrics)} of {len(comparison.metrics)} metrics"
    return join_words(metrics)


def _join_names(names: Sequence[str], noun: str = "systems") -> str:
    return join_words(names) if len(names) <= NAMES else f"{len(names)} {noun}"

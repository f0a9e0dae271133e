"""The table of a comparison: a row per metric, slice and pair of systems."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import polars as pl

from rankql.decisions.method_notes import describe_tests
from rankql.decisions.pair_comparisons import PairComparison, run_tests
from rankql.decisions.pair_sentences import describe_pair
from rankql.decisions.settings import Settings
from rankql.decisions.system_values import SystemValues
from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.result import Result

SCHEMA = {
    **dict.fromkeys(("metric", "a", "b", "slice"), pl.String),
    **dict.fromkeys(("mean_a", "mean_b", "difference", "lo", "hi"), pl.Float64),
    **dict.fromkeys(("p", "p_adjusted", "p_error", "effect"), pl.Float64),
    **dict.fromkeys(("wins", "ties", "losses", "n"), pl.Int64),
    **{"detectable": pl.Float64, "verdict": pl.String, "sentence": pl.String},
}


def compare_pairs(
    result: Result, systems: Sequence[str], settings: Settings
) -> tuple[pl.DataFrame, list[str]]:
    """The table of all pairs, and how it came about."""
    baseline = settings.baseline
    if baseline is not None and baseline not in systems:
        hint = did_you_mean(baseline, systems)
        raise RankqlError(f"baseline: there is no system {baseline!r}{hint}")
    if baseline is None:
        pairs = list(itertools.combinations(systems, 2))
    else:
        pairs = [(baseline, name) for name in systems if name != baseline]
    values = SystemValues.of(result, systems, settings.cluster)
    comparisons, tests = run_tests(
        values, result.metrics, result.meta["weights"], pairs, settings, result.conventions
    )
    rows = [_row(pair, settings, tests) for pair in comparisons]
    notes = describe_tests(values, comparisons, tests, settings, result.conventions)
    return pl.DataFrame(rows, schema=SCHEMA), notes


def _row(pair: PairComparison, settings: Settings, tests: int) -> dict[str, Any]:
    """The row of a pair."""
    n, lower = len(pair.values_a), pair.lower_is_better
    positive, ties, negative = pair.sample.signs
    has_values = n > 0 and not pair.micro
    return {
        "metric": pair.metric,
        "a": pair.a,
        "b": pair.b,
        "slice": pair.slice,
        "mean_a": float(pair.values_a.mean()) if has_values else None,
        "mean_b": float(pair.values_b.mean()) if has_values else None,
        "difference": pair.sample.mean if has_values else None,
        "lo": pair.result.lo,
        "hi": pair.result.hi,
        "p": pair.result.p,
        "p_adjusted": pair.p_adjusted,
        "p_error": pair.result.p_error,
        "effect": pair.sample.effect if has_values else None,
        "wins": negative if lower else positive,
        "ties": ties,
        "losses": positive if lower else negative,
        "n": n,
        "detectable": pair.detectable(settings) if has_values else None,
        "verdict": pair.verdict(settings),
        "sentence": describe_pair(pair, settings, tests),
    }

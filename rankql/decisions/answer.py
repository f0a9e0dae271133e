"""Whether a new system is better than an old one, or may replace it: the report's first line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text
from rankql.decisions.arguments import require_metrics
from rankql.decisions.comparison_table import label_slices
from rankql.decisions.gate_limits import parse_limits
from rankql.decisions.gate_rows import limit_rows
from rankql.decisions.pair_comparisons import list_pairs
from rankql.decisions.system_values import SystemValues
from rankql.decisions.verdict import (
    BETTER,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    SCHEMA,
    SIGNIFICANT,
    WORSE,
    Verdict,
)
from rankql.errors import RankqlError

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

Drops = str | Sequence[str] | Mapping[str, float]

# Of more places, the others are counted.
PLACES = 2


def answer(comparison: Comparison, max_drop: Drops | None = None) -> str:
    """Say whether the second of two systems is better, and by how much; of more, which one leads.

    With limits, say whether it may replace the first or, of more, the best one the baseline.
    """
    headline, base = f"{comparison.title}.", comparison.settings.baseline
    old = base or comparison.systems[0]
    others = [name for name in comparison.result.best_first if name != old]
    several = len(others) > 1
    if max_drop and several and base is None:
        raise RankqlError("max_drop= needs two systems or a baseline. Pass baseline=")
    directed = [name for name, higher in comparison.higher_is_better.items() if higher is not None]
    known = comparison.pairs.filter(pl.col("metric").is_in(directed))
    if known["difference"].count() == 0 or (several and not max_drop):
        return headline
    short, finding = _judge(comparison, known.filter(a=old, b=others[0]), directed[0])
    if not max_drop:
        return f"Is {others[0]} better than {old}? {short}: {finding}."
    verdict = _check_drops(comparison, old, others[0], max_drop)
    short = "Yes" if verdict.passed else "No" if len(verdict.failures) else "Undecided"
    decisive = verdict.failures if len(verdict.failures) else verdict.inconclusive
    rows = verdict.table.filter(slice="all") if verdict.passed else decisive
    checks = [text.add_slice(*row, brackets=True) for row in rows["check", "slice"].rows()]
    outcome = verdict.outcome.replace(INCONCLUSIVE, f"is {INCONCLUSIVE}")
    also = f" {headline}" if several else ""
    return (
        f"May {others[0]} replace {old}? {short}: {finding}. "
        f"The gate {outcome}: {_join_places(checks)}.{also}"
    )


def _judge(comparison: Comparison, pairs: pl.DataFrame, first: str) -> tuple[str, str]:
    """Yes, no or undecided: the size of the difference overall, and where the system is worse."""
    percent = comparison.settings.percent
    labels = label_slices(pairs["slice"].unique(), comparison.result.meta.groupings)
    (overall,) = pairs.filter(metric=first, slice="all").to_dicts()
    verdict, everywhere = overall["verdict"], " overall" * (len(labels) > 1)
    if overall["difference"] is None:
        size = f"{first}: {verdict}"
    elif verdict in SIGNIFICANT:
        size = f"{_format_size(overall)} {first}{everywhere}"
    else:
        value = [overall[name] for name in ("difference", "lo", "hi")]
        number, _, ends = text.format_interval(value, "+").partition(" (")
        interval = f"{percent} CI {ends[:-1]}, " if ends else ""
        size = f"{number} {first}{everywhere} ({interval}{verdict})"
    size += " (lower is better)" * comparison.result.lower_is_better(first)
    places = pairs.filter(verdict=WORSE)
    # A metric that is worse overall needs no slices, and each slice only its first metric.
    overall_worse = pl.col("metric").is_in(places.filter(slice="all")["metric"].implode())
    places = places.filter((pl.col("slice") == "all") | ~overall_worse)
    worse = places.unique("slice", keep="first", maintain_order=True).to_dicts()
    if verdict == WORSE:
        return "No", size
    if worse:
        worse.sort(key=lambda x: (x["metric"] != first, x["slice"] != "all", -abs(x["difference"])))
        named = []
        for row in worse:
            metric = f" {row['metric']}" * (row["metric"] != first)
            queries = f"for {labels[row['slice']]} ({text.format_queries(row['n'])})"
            where = "overall" if row["slice"] == "all" else queries
            named.append(f"{_format_size(row)}{metric} {where}")
        return "No", f"{size}, but {_join_places(named)}"
    if verdict != BETTER:
        return "Undecided", size
    rest = pairs.filter(pl.col("slice") != "all", metric=first)["verdict"]
    unclear = sum(x not in (BETTER, NO_DIFFERENCE) and "equivalent" not in x for x in rest)
    also = " and nowhere significantly worse" * (len(pairs) > 1)
    shown = f" (not shown to be no worse: {text.format_count(unclear, 'slice')})"
    return "Yes", f"{size}{also}{shown * (unclear > 0)}"


def _format_size(row: Mapping[str, Any]) -> str:
    size = row["difference"]
    return f"{'-' if size < 0 else '+'}{text.round_significant(abs(size))}"


def _join_places(places: Sequence[str]) -> str:
    """Join places; of many, the others are counted."""
    more = len(places) - PLACES
    return text.join_words([*places[:PLACES], *[f"{more:,} more"] * (more > 0)])


def _check_drops(comparison: Comparison, old: str, new: str, max_drop: Drops) -> Verdict:
    """Hold the differences of two systems to the limits, as `gate` does."""
    settings, result = comparison.settings, comparison.result
    groups = [group for group in result.meta.groupings if group != [settings.cluster]]
    result = replace(result, meta=replace(result.meta, groupings=groups))
    limits = parse_limits("max_drop", max_drop, [result.metrics])
    require_metrics(result, names := [limit.name(result) for limit in limits])
    values = SystemValues.of(result, [old, new], settings.cluster)
    pairs = list_pairs(values, result, [(old, new)])
    rows = [
        row
        for limit, name in zip(limits, names, strict=True)
        for row in limit_rows(limit, pairs, name, settings.alpha)
    ]
    return Verdict(pl.DataFrame(rows, schema=SCHEMA), result)

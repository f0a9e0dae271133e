"""Whether a new system may replace an old one: the first line of the report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.decisions.arguments import require_metrics
from rankql.decisions.gate_limits import default_drops, parse_limits
from rankql.decisions.gate_rows import limit_rows, recommend_limit
from rankql.decisions.pair_comparisons import list_pairs
from rankql.decisions.system_values import SystemValues
from rankql.decisions.verdict import BETTER, INCONCLUSIVE, SCHEMA, SIGNIFICANT, Verdict
from rankql.errors import RankqlError
from rankql.text import join_words

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

Drops = str | Sequence[str] | Mapping[str, float] | None

# Of more metrics or slices, the others are counted.
PLACES = 4


def answer(comparison: Comparison, max_drop: Drops = None) -> str:
    """Say whether the best other system may replace the baseline, and where it is worse.

    Without a baseline, the first of two systems is the old one. Of more there is only a headline.
    """
    headline, settings = f"{comparison.title}.", comparison.settings
    old = settings.baseline or comparison.systems[0]
    others = [name for name in comparison.systems if name != old]
    undecidable = not others or (len(others) > 1 and settings.baseline is None)
    if undecidable or comparison.pairs["difference"].drop_nulls().is_empty():
        return headline
    # The best mean of the first metric.
    metric = comparison.metrics[0]
    rows = comparison.summary.filter(pl.col("system").is_in(others), slice="all", metric=metric)
    best = rows.sort("mean", descending=comparison.higher_is_better[metric], nulls_last=True)
    new = str([*best["system"], others[0]][0])
    pairs = comparison.pairs.filter(pl.col("a").is_in([old, new]), pl.col("b").is_in([old, new]))
    verdicts = pairs.filter(pl.col("verdict").is_in(SIGNIFICANT))
    better, worse = (
        _name_places(
            (metric, part)
            for metric, part, b, word in verdicts["metric", "slice", "b", "verdict"].rows()
            if (word == BETTER) == (b == name)
        )
        for name in (new, old)
    )
    finding = " but ".join(
        f"{word} on {places}"
        for word, places in zip(SIGNIFICANT, (better, worse), strict=True)
        if places
    )
    alike = pairs.filter(pl.col("verdict").str.starts_with("equivalent"))
    if finding:
        finding = f"is significantly {finding}"
    elif alike.height:
        finding = f"is {alike['verdict'][0]} on {_name_places(alike['metric', 'slice'].rows())}"
    else:
        finding = "is not significantly better or worse"
    also = f" {headline}" if len(others) > 1 else ""
    try:
        verdict = _check_drops(comparison, old, new, max_drop)
    except RankqlError as error:
        if max_drop is not None:
            raise
        reason = str(error).splitlines()[0]
        short = "No" if worse else "Yes" if better else "Undecided"
        return f"May {new} replace {old}? {short}. {new} {finding}. Not gated: {reason}.{also}"
    if verdict.passed:
        short = "Yes" if better or max_drop is not None else "Undecided"
    else:
        short = "No" if len(verdict.failures) else "Undecided"
    if verdict.passed and max_drop is None:
        testable = re.search("max_drop=('[^']+')", " ".join(verdict.notes))
        hint = f"; these queries can test max_drop={testable[1]}" if testable else ""
        gated = f"The gate passed: nothing drops significantly{hint}"
    else:
        decisive = verdict.failures if len(verdict.failures) else verdict.inconclusive
        limits = verdict.table.filter(slice="all") if verdict.passed else decisive
        outcome = verdict.outcome.replace(INCONCLUSIVE, f"is {INCONCLUSIVE}")
        gated = f"The gate {outcome}: {_name_places(limits['check', 'slice'].rows())}"
    return f"May {new} replace {old}? {short}. {new} {finding}. {gated}.{also}"


def _name_places(rows: Iterable[tuple[str, str]]) -> str:
    """Name metrics, those that differ by slice with the slices; the first of many."""
    pairs, by_slice = [*rows], dict[str, list[str]]()
    for name, part in pairs:
        if part == "all" or (name, "all") not in pairs:
            by_slice.setdefault(part, []).append(name)
    places = []
    for part, names in sorted(by_slice.items(), key=lambda item: item[0] != "all")[:PLACES]:
        more = len(names) - PLACES
        listed = join_words([*names[:PLACES], *([f"{more:,} more"] if more > 0 else [])])
        places.append(listed + ("" if part == "all" else f" for {part}"))
    if len(by_slice) > PLACES:
        places.append(f"{len(by_slice) - PLACES:,} more slices")
    return "; ".join(places)


def _check_drops(comparison: Comparison, old: str, new: str, max_drop: Drops) -> Verdict:
    """Hold the differences of two systems to the limits, as `gate` does."""
    settings, result = comparison.settings, comparison.result
    groups = [group for group in result.meta.groupings if group != [settings.cluster]]
    result = replace(result, meta=replace(result.meta, groupings=groups))
    limits = parse_limits("max_drop", max_drop or (), [result.metrics])
    limits = limits or default_drops([], [result.metrics])
    require_metrics(result, names := [limit.name(result) for limit in limits])
    values = SystemValues.of(result, [old, new], settings.cluster)
    pairs = list_pairs(values, result, [(old, new)])
    rows, notes = list[dict[str, Any]](), list[str]()
    for limit, name in zip(limits, names, strict=True):
        rows += limit_rows(limit, pairs, name, settings.alpha)
        notes += [] if max_drop else recommend_limit(name, pairs, settings.alpha)
    return Verdict(pl.DataFrame(rows, schema=SCHEMA), replace(result, notes=notes))

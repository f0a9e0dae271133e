"""The outcome of a comparison in one line: Yes, No or Undecided, or which of several leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from rankql import text
from rankql.decisions.verdict import BETTER, NO_DIFFERENCE, SIGNIFICANT, WORSE
from rankql.evaluation.result import Result
from rankql.stats.means import ROUNDING

# Of more places where a system is worse, and of more systems, the others are counted.
PLACES, NAMES = 2, 5


def comparison_title(
    result: Result, pairs: pl.DataFrame, systems: Sequence[str], percent: str
) -> str:
    """Say whether the second of two systems is better, and by how much; of more, which one leads.

    Yes: better overall on the first metric, and nowhere significantly worse. No: significantly
    worse somewhere, on any metric, overall or in a slice. Undecided: anything else.
    """
    means = result.summary.filter(slice="all").drop_nulls("mean")
    if means.is_empty():
        return "No metric is defined on these queries"
    if pairs.is_empty():
        rows = means["metric", "mean", "lo", "hi"].rows()
        values = (f"{name} {text.format_interval(ends)}" for name, *ends in rows[:NAMES])
        return f"{systems[0]}: {', '.join(values)}"
    if len(systems) > 2:
        metric = means["metric"][0]
        of_metric = pairs.filter(metric=metric, slice="all")
        lower = result.lower_is_better(metric)
        return _describe_leader(metric, means.filter(metric=metric), of_metric, lower)
    a, b = pairs.select("a", "b").row(0)
    return f"Is {b} better than {a}? {_judge(result, pairs, percent)}"


def _judge(result: Result, pairs: pl.DataFrame, percent: str) -> str:
    """Yes, no or undecided: the size of the difference overall, and where the system is worse."""
    first = result.metrics[0]
    (overall,) = pairs.filter(metric=first, slice="all").to_dicts()
    verdict, everywhere = overall["verdict"], " overall" * (pairs["slice"].n_unique() > 1)
    if overall["difference"] is None:
        size = f"{first}: {verdict}"
    elif verdict in SIGNIFICANT:
        size = f"{_format_size(overall)} {first}{everywhere}"
    else:
        value = [overall[name] for name in ("difference", "lo", "hi")]
        number, _, ends = text.format_interval(value, "+").partition(" (")
        interval = f"{percent} CI {ends[:-1]}, " if ends else ""
        size = f"{number} {first}{everywhere} ({interval}{verdict})"
    size += " (lower is better)" * result.lower_is_better(first)
    if verdict == WORSE:
        return f"No: {size}"
    worse = pairs.filter(verdict=WORSE)
    # A metric that is worse overall needs no slices, and each slice only its first metric.
    overall_worse = pl.col("metric").is_in(worse.filter(slice="all")["metric"].implode())
    worse = worse.filter((pl.col("slice") == "all") | ~overall_worse)
    places = worse.unique("slice", keep="first", maintain_order=True).to_dicts()
    places.sort(key=lambda x: (x["metric"] != first, x["slice"] != "all", -abs(x["difference"])))
    if places:
        named = [_format_place(row, first) for row in places[:PLACES]]
        more = len(places) - PLACES
        named += [f"{more:,} more"] * (more > 0)
        return f"No: {size}, but {text.join_words(named)}"
    if verdict != BETTER:
        return f"Undecided: {size}"
    rest = pairs.filter(pl.col("slice") != "all", metric=first)["verdict"]
    unclear = sum(x not in (BETTER, NO_DIFFERENCE) for x in rest)
    also = " and nowhere significantly worse" * (len(pairs) > 1)
    shown = f" (not shown to be no worse: {text.format_count(unclear, 'slice')})"
    return f"Yes: {size}{also}{shown * (unclear > 0)}"


def _format_place(row: Mapping[str, Any], first: str) -> str:
    metric = f" {row['metric']}" * (row["metric"] != first)
    queries = f"for {row['slice']} ({text.format_queries(row['n'])})"
    return f"{_format_size(row)}{metric} {'overall' if row['slice'] == 'all' else queries}"


def _format_size(row: Mapping[str, Any]) -> str:
    size = row["difference"]
    return f"{'-' if size < 0 else '+'}{text.round_significant(abs(size))}"


def _describe_leader(metric: str, means: pl.DataFrame, pairs: pl.DataFrame, lower: bool) -> str:
    """Which system has the best mean of a metric, and what it is better than."""
    means = means.sort("mean", descending=not lower, maintain_order=True)
    best, value = means["system", "mean"].row(0)
    tied = means.filter((pl.col("mean") - value).abs() <= ROUNDING)["system"].to_list()
    if len(tied) > 1:
        return f"{_join_names(tied)} are tied on {metric} ({value:,.3f})"
    title, tested = f"{best} leads on {metric} ({value:,.3f})", pairs["p"].count() > 0
    verdicts = {(a, b): word for a, b, word in pairs["a", "b", "verdict"].rows()}
    won = [a for (a, b), word in verdicts.items() if b == best and word == BETTER]
    won += [b for (a, b), word in verdicts.items() if a == best and word == WORSE]
    rest = [x for pair in verdicts if best in pair for x in pair if x not in (best, *won)]
    for word, names in (("", won), ("not ", rest)) if tested else ():
        title += f", {word}significantly better than {_join_names(names)}" if names else ""
    return title if tested else f"{title}, not tested"


def _join_names(names: Sequence[str]) -> str:
    """Join names, or count them if there are many."""
    return text.join_words(names) if len(names) <= NAMES else f"{len(names)} systems"

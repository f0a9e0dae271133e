"""The findings of a comparison in at most four sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from rankql import text
from rankql.decisions.verdict import BETTER, NO_DIRECTION, NOT_SIGNIFICANT, SIGNIFICANT
from rankql.stats.means import ROUNDING
from rankql.stats.power import POWER
from rankql.text import join_words

# The largest number of sentences, and of names in one; more are counted.
SENTENCES, NAMES = 4, 5


def join_names(names: Sequence[str], noun: str) -> str:
    """Join names, or count them if there are many."""
    return join_words(names) if len(names) <= NAMES else text.format_count(len(names), noun)


def describe_pair_findings(pairs: pl.DataFrame) -> list[str]:
    """Where the second of two systems is better or worse: a sentence for each pattern of slices."""
    rows = pairs.filter(pl.col("verdict") != NO_DIRECTION)["metric", "slice", "verdict"].rows()
    slices: dict[tuple[str, str], list[str]] = {}
    for metric, part, verdict in rows:
        slices.setdefault((metric, verdict), []).append(part)
    patterns: dict[tuple[str, ...], list[str]] = {}
    for metric, part, word in rows:
        if part != "all":
            continue
        others = {x: slices.get((metric, x), []) for x in SIGNIFICANT if x != word}
        places = [f"{x} for {join_names(parts, 'slice')}" for x, parts in others.items() if parts]
        patterns.setdefault((word, *places), []).append(metric)
    everywhere, b = " overall" * (pairs["slice"].n_unique() > 1), pairs["b"][0]
    sentences = [
        f"{b} is {', '.join([_describe_verdict(word) + everywhere, *places])} on "
        f"{join_names(metrics, 'metric')}"
        for (word, *places), metrics in patterns.items()
    ]
    return _cut(sentences)


def _cut(sentences: list[str]) -> list[str]:
    """The first sentences, with room for one more; others are counted."""
    if len(sentences) < SENTENCES:
        return sentences
    first = sentences[: SENTENCES - 2]
    return [*first, f"{len(sentences) - len(first)} other findings on other metrics"]


def _describe_verdict(word: str) -> str:
    if word == NOT_SIGNIFICANT:
        return "not significantly better or worse"
    if word in SIGNIFICANT or word.startswith("equivalent"):
        return word
    return f"not tested ({word})"


def describe_detectable(pairs: pl.DataFrame) -> list[str]:
    """The differences that would have been detected, of metrics without a significant one."""
    size = pl.col("detectable")
    rows = pairs.filter(size > pl.col("difference").abs(), slice="all", verdict=NOT_SIGNIFICANT)[
        "metric", "detectable"
    ].rows()
    listed = [f"{text.round_significant(size)} on {metric}" for metric, size in rows[:NAMES]]
    if not listed:
        return []
    several = "differences" if len(listed) > 1 else "a difference"
    return [f"These queries would detect {several} of about {join_words(listed)} with {POWER:.0%} "
            "power"]  # fmt: skip


def describe_leaders(
    pairs: pl.DataFrame, means: pl.DataFrame, higher_is_better: Mapping[str, bool | None],
    baseline: str | None,
) -> list[str]:  # fmt: skip
    """Which of three or more systems leads on which metrics, and what it beats."""
    groups: dict[tuple[str, str], list[str]] = {}
    pairs, means = pairs.filter(slice="all"), means.filter(slice="all")
    for metric, higher in higher_is_better.items():
        rows = means.filter(metric=metric)["system", "mean"].drop_nulls()
        if len(rows) and higher is not None:
            of_metric = pairs.filter(metric=metric)
            start, value, end = _describe_leader(of_metric, rows.rows(), higher, baseline)
            groups.setdefault((start, end), []).append(metric + value)
    sentences = [
        f"{start} on {join_words(metrics[:NAMES])}"
        + (f" and {len(metrics) - NAMES} more metrics" if len(metrics) > NAMES else "") + end
        for (start, end), metrics in groups.items()
    ]  # fmt: skip
    return _cut(sentences)


def _describe_leader(
    pairs: pl.DataFrame, values: Sequence[tuple[str, float]], higher: bool, base: str | None
) -> tuple[str, str, str]:
    """The words before a metric, its value, and the words after it."""
    means = sorted(values, key=lambda row: row[1], reverse=higher)
    value = f" ({means[0][1]:,.3f})"
    best = [name for name, mean in values if abs(mean - means[0][1]) <= ROUNDING]
    start = f"{best[0]} leads" if len(best) == 1 else f"{join_names(best, 'system')} are tied"
    if len(means) == 1:
        return f"Only {best[0]} has a value", value, ""
    beaten = {
        (b, a) if verdict == BETTER else (a, b)
        for a, b, verdict in pairs["a", "b", "verdict"].rows() if verdict in SIGNIFICANT
    }  # fmt: skip
    names = [name for name, _ in means]
    if not pairs["p"].count():
        return start, value, ", not tested"
    if base is not None:
        groups = {
            "better": [name for name in names if (name, base) in beaten],
            "worse": [name for name in names if (base, name) in beaten],
        }
        words = [
            f"{join_names(x, 'system')} {text.is_or_are(len(x))} significantly {word}"
            for word, x in groups.items() if x
        ]  # fmt: skip
        found = join_words(words or ["no system is significantly better or worse"])
        return start, value, f"; {found} than {base}"
    top = [name for name in names if not any((x, name) in beaten for x in best)]
    rest, others = [x for x in names if x not in top], [x for x in top if x not in best]
    are = text.is_or_are(len(others))
    alike = f"; {join_names(others, 'system')} {are} not significantly worse" if others else ""
    if not rest:
        return start, value, alike
    if len(top) == 1:
        return start, value, f" and beats {_join_rest(rest)}"
    if all((x, y) in beaten for x in top for y in rest):
        who = "both" if len(top) == 2 else "all of them"
        return start, value, f"{alike}; {who} beat {_join_rest(rest)}"
    return start, value, f"{alike}; {best[0]} beats {_join_rest(rest)}"


def _join_rest(names: Sequence[str]) -> str:
    return join_words(names) if len(names) <= NAMES else f"the other {len(names)}"


def describe_reverse(pairs: pl.DataFrame) -> list[str]:
    """Slices in which the significant finding on a pair is the opposite of the overall one."""
    pair = ["metric", "a", "b"]
    significant = pairs.filter(pl.col("verdict").is_in(SIGNIFICANT))
    overall = significant.filter(slice="all").select(*pair, overall="verdict")
    reverse = significant.join(overall, on=pair, maintain_order="left")
    reverse = reverse.filter(pl.col("verdict") != pl.col("overall"))
    places: dict[tuple[str, str, str], list[str]] = {}
    for metric, a, b, part, verdict in reverse.select(*pair, "slice", "verdict").rows():
        winner, loser = (b, a) if verdict == BETTER else (a, b)
        places.setdefault((winner, loser, part), []).append(metric)
    findings = [
        f"{winner} beats {loser} for {part} on {join_names(metrics, 'metric')}"
        for (winner, loser, part), metrics in places.items()
    ]
    more = f"; and {len(findings) - 2} more" if len(findings) > 2 else ""
    found = f"The reverse of the overall finding: {'; '.join(findings[:2])}{more}"
    return [found] if findings else []

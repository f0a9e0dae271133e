"""The tables of a comparison: of one pair, as text and for LaTeX, and marks for those of means."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

import polars as pl

from rankql import text
from rankql.decisions.verdict import BETTER, NO_DIFFERENCE, NOT_SIGNIFICANT, SIGNIFICANT, WORSE
from rankql.evaluation.means_result import LARGE
from rankql.layout import NAME, Block
from rankql.text import Name, Status

# The marks of systems that differ significantly from the baseline.
MARKS = {BETTER: "†", WORSE: "‡"}


def tabulate_pair(pairs: pl.DataFrame) -> pl.DataFrame:
    """The table of one pair: both means, the difference, its interval, p and the verdict."""
    a, b = pairs.select("a", "b").row(0)
    keys = ["metric", *["slice"] * (pairs["slice"] != "all").any()]
    taken = [*keys, "lo", "hi", "p", "verdict"]
    names = text.unique_names([a, b, f"{b} - {a}"], taken, "system")
    means = (pl.col(x).alias(name) for x, name in zip(_MEANS, names, strict=True))
    return pairs.select(*keys, *means, "lo", "hi", p="p_adjusted").with_columns(pairs["verdict"])


_MEANS = ("mean_a", "mean_b", "difference")
# For other verdicts, a note has the reason.
_TESTED = (*SIGNIFICANT, NO_DIFFERENCE, NOT_SIGNIFICANT)


def lay_out_pair(pairs: pl.DataFrame, percent: str, alpha: float) -> Block:
    """The table of one pair as text."""
    keys, names, difference, by_metric = _read_pair(pairs)
    header = [*keys, *map(Name, names[:2]), difference, f"{percent} CI", "p"]
    decimals, body = _count_decimals(by_metric, names), list[list[str]]()
    for metric, rows in by_metric.items():
        for i, row in enumerate(rows):
            lo, hi, places, verdict = row["lo"], row["hi"], decimals[metric], row["verdict"]
            body.append([
                *(Name("" if i and key == "metric" else row[key]) for key in keys),
                *(_format(row[name], places) for name in names),
                "" if lo is None else f"{_format(lo, places)} to {_format(hi, places)}",
                text.format_p_cell(row["p"], alpha),
                Status(verdict if verdict in _TESTED else "not tested"),
            ])  # fmt: skip
    return Block([[*header, "verdict"], *body], range(len(keys), len(header)))


def typeset_pair(pairs: pl.DataFrame) -> Block:
    """The table of one pair for LaTeX: slices below their metric, intervals in brackets."""
    _, names, difference, by_metric = _read_pair(pairs)
    decimals, body = _count_decimals(by_metric, names), list[list[str]]()

    def number(value: float | None, metric: str) -> str:
        return _format(value, decimals[metric]).replace(",", "{,}")

    for metric, rows in by_metric.items():
        for row in rows:
            part = row.get("slice", "all")
            ends = [number(row[x], metric) for x in ("lo", "hi")]
            interval = f"\\;[{ends[0]}, {ends[1]}]" if ends[0] else ""
            mark = MARKS.get(row["verdict"], "")
            values = [number(row[x], metric) for x in names]
            body.append([
                metric if part == "all" else f"  {part}",
                *(text.Math(x) if x else "" for x in values[:2]),
                text.Math(values[2] + interval, mark) if values[2] else "",
            ])  # fmt: skip
    return Block([["metric", *names[:2], difference], *body], range(1, 4))


def _read_pair(
    pairs: pl.DataFrame,
) -> tuple[list[str], list[str], str, dict[str, list[dict[str, Any]]]]:
    """The keys and the three means of the table of one pair, a short third name, and its rows."""
    table = tabulate_pair(pairs)
    first = table.columns.index("lo") - 3
    keys, names = table.columns[:first], table.columns[first : first + 3]
    difference = names[2] if text.display_width(names[2]) <= NAME else "difference"
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_dicts():
        by_metric.setdefault(row["metric"], []).append(row)
    return keys, names, difference, by_metric


def _format(value: float | None, decimals: int) -> str:
    return "" if value is None else text.format_decimal(value, decimals)


def _count_decimals(
    by_metric: Mapping[str, Sequence[Mapping[str, Any]]], names: Sequence[str]
) -> dict[str, int]:
    """The decimals of each metric, the same for all but those with large values.

    They show on which side of 0 a bound lies, and the sign of the difference of the means.
    """
    counts, small = dict[str, int](), list[str]()
    for metric, rows in by_metric.items():
        values = (abs(row[x] or 0) for row in rows for x in (*names, "lo", "hi"))
        small += [metric] * (max(values) < LARGE)
        counts[metric] = max(_decimals(row, names) for row in rows)
    return counts | dict.fromkeys(small, max((counts[name] for name in small), default=0))


def _decimals(row: Mapping[str, Any], names: Sequence[str]) -> int:
    a, b, difference, lo, hi = (row[name] for name in (*names, "lo", "hi"))
    if a is None or b is None or difference is None:
        return 0
    ends = [x for x in (lo, hi) if x is not None]
    unit = max(map(abs, (a, b, *ends))) <= 1
    count = 4 if unit or len(ends) < 2 else max(0, text.count_decimals(lo, hi))

    def agrees(n: int) -> bool:
        sign = (b > a) - (b < a) if round(difference, n) else 0
        means = round(round(b, n) - round(a, n), n)
        same = (means > 0) - (means < 0) == sign
        return same and all(round(x, n) or abs(x) < 1e-12 for x in ends)

    return next((n for n in range(count, 12) if agrees(n)), 12)


def mark_pairs(
    pairs: pl.DataFrame, letters: Mapping[str, str], baseline: str | None
) -> dict[tuple[str, str, str], str]:
    """The marks by metric, slice and system: letters of those that are worse, or † and ‡."""
    rows = pairs.filter(pl.col("verdict").is_in(SIGNIFICANT))
    columns = rows["metric", "slice", "a", "b", "verdict"].rows()
    if baseline is not None:
        return {(metric, part, b): MARKS[word] for metric, part, _, b, word in columns}
    beaten: dict[tuple[str, str, str], list[str]] = {}
    for metric, part, a, b, word in columns:
        winner, loser = (b, a) if word == BETTER else (a, b)
        beaten.setdefault((metric, part, winner), []).append(loser)
    apart = ", " if len(letters) > 26 else ""
    return {
        key: apart.join(letter for name, letter in letters.items() if name in losers)
        for key, losers in beaten.items()
    }


def name_letters(systems: Sequence[str]) -> dict[str, str]:
    """A letter for each system: a to z, aa, ab, ..."""
    words = (
        "".join(x) for n in itertools.count(1) for x in itertools.product(ascii_lowercase, repeat=n)
    )
    return dict(zip(systems, words, strict=False))

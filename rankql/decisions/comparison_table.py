"""The displayed table of a comparison: of a pair its differences, of more systems their means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from rankql import text
from rankql.decisions.verdict import BETTER, NO_DIFFERENCE, NOT_SIGNIFICANT, SIGNIFICANT, WORSE
from rankql.evaluation.wide_table import LARGE
from rankql.layout import NAME, Block, join_letters
from rankql.text import Name, Status

# The marks of systems that differ significantly from the baseline.
MARKS = {BETTER: "†", WORSE: "‡"}
# The levels of the intervals, by correction.
INTERVAL_LEVELS = {
    "none": "",
    "holm": " at the level of their Holm step",
    "bonferroni": ", simultaneous (Bonferroni),",
    "bh": " at the false coverage rate of the significant rows",
}
# A longer name of a difference becomes 'difference' in plain text.
DIFFERENCE = 16


def tabulate_pair(pairs: pl.DataFrame) -> pl.DataFrame:
    """The table of one pair: both means, the difference, its interval, p and the verdict."""
    a, b = pairs.select("a", "b").row(0)
    keys = ["metric", *["slice"] * (pairs["slice"] != "all").any()]
    last = ["lo", "hi", "p", "verdict"]
    names = text.unique_names([a, b, f"{b} - {a}"], [*keys, *last], "system")
    means = (pl.col(x).alias(name) for x, name in zip(_MEANS, names, strict=True))
    return pairs.select(*keys, *means, "lo", "hi", p="p_adjusted").with_columns(
        pairs.select(last[3:])
    )


_MEANS = ("mean_a", "mean_b", "difference")


def lay_out_pair(
    pairs: pl.DataFrame, groupings: Sequence[Sequence[str]], percent: str, alpha: float
) -> Iterator[list[Block]]:
    """The layouts of a pair, the widest first: a table, or at last one for each metric."""
    table = tabulate_pair(pairs)
    columns = table.columns
    first = columns.index("lo") - 3
    names, last = columns[first : first + 3], columns[columns.index("p") :]
    long = text.display_width(names[2]) > DIFFERENCE
    header = [*map(Name, names[:2]), Name(names[2], "difference" if long else names[2]),
              f"{percent} CI", "p", "verdict"]  # fmt: skip
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_dicts():
        by_metric.setdefault(row["metric"], []).append(row)
    decimals, sliced = _count_decimals(by_metric, names), "slice" in columns
    # The attribute of all slices, whose name then heads the column.
    attribute = groupings[0][0] if [len(group) for group in groupings] == [1] else ""
    stripped = strip_attribute(table["slice"].unique() if sliced else [], attribute)
    can_strip = bool(stripped)

    def lay_out(strip: bool, short: bool, apart: bool, top: Sequence[str] = header) -> list[Block]:
        blocks: dict[str, list[list[str]]] = {}
        for metric, members in by_metric.items():
            block = blocks.setdefault(metric if apart else "", [])
            for i, row in enumerate(members):
                lo, hi, places, verdict = row["lo"], row["hi"], decimals[metric], row["verdict"]
                part = [
                    Name((stripped if strip else {}).get(x, x)) for x in [row.get("slice")] if x
                ]
                block.append([
                    *[Name("" if i else metric)] * (not apart),
                    *part,
                    *(_format(row[name], places) for name in names),
                    "" if lo is None else f"{_format(lo, places)} to {_format(hi, places)}",
                    *(text.format_p_cell(row[name], alpha) for name in last[:-1]),
                    Status(verdict, _shorten(verdict, row["p"], NAME * (not short))),
                ])  # fmt: skip
        kind = [attribute if strip else "slice"] * sliced
        tops = {metric: [Name(metric)] if apart else ["metric", *kind] for metric in blocks}
        keys = (not apart) + max(apart, sliced)
        right = range(keys, keys + len(header) - 1)
        return [
            Block([[*tops[metric], *top], *body], right, "", keys)
            for metric, body in blocks.items()
        ]

    alone = sliced and len(by_metric) == 1
    yield lay_out(False, False, alone)
    if can_strip:
        yield lay_out(True, False, alone)
    yield lay_out(can_strip, True, alone)
    yield lay_out(False, False, sliced)
    yield lay_out(False, True, sliced)
    letters = [Name(names[0], "a"), Name(names[1], "b"), "b - a", *header[3:]]
    yield lay_out(can_strip, True, False, letters)
    yield lay_out(can_strip, True, sliced, letters)


def strip_attribute(slices: Iterable[str], attribute: str) -> dict[str, str]:
    """The slices without the name of their only attribute; none if two are then the same."""
    stripped = {part: part.removeprefix(f"{attribute}=") for part in slices}
    return stripped if attribute and len({*stripped.values()}) == len(stripped) else {}


def label_slices(slices: Iterable[str], groupings: Sequence[Sequence[str]]) -> dict[str, str]:
    """Name slices in a sentence: 'vip' for segment=vip if the values are words."""
    names = [*slices]
    attribute = groupings[0][0] if [len(group) for group in groupings] == [1] else ""
    short = strip_attribute(names, attribute)
    not_words = ("true", "false", "null")
    if short and all(x[:1].isalpha() and x.lower() not in not_words for x in short.values()):
        return short
    return {name: name for name in names}


def _shorten(verdict: str, p: float | None, room: int) -> str:
    """A shorter verdict; '' if it fits."""
    if len(verdict) <= room:
        return ""
    if verdict == NOT_SIGNIFICANT:
        return "n.s."
    return verdict if p is not None or verdict == NO_DIFFERENCE else "not tested"


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
    order = [*letters]
    return {key: join_letters(sorted(map(order.index, x)), [*letters]) for key, x in beaten.items()}

"""The table of one pair of systems, as a frame, as text and for LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from rankql.core.base import text
from rankql.core.base.results import NAME, Block
from rankql.core.evaluation.result.means_result import LARGE, OWN_HEADS
from rankql.core.metrics.macros import INTERNAL_PREFIX
from rankql.decisions.verdict import BETTER, NO_DIFFERENCE, NOT_SIGNIFICANT, SIGNIFICANT, WORSE

_PAIR = f"{INTERNAL_PREFIX}pair"

# The marks of systems that differ significantly from the baseline.
MARKS = {BETTER: "†", WORSE: "‡"}
# The columns of pairs with what a system alone has, if it has queries that another one lacks.
OWN = ("own_mean", "own_queries")
OWN_OF_PAIR = [f"{name}_{x}" for x in "ab" for name in OWN]
OWN_MEANS = text.Note(
    "means, differences and verdicts are of the queries that all systems have; own mean is of the "
    "own queries of a system, as evaluate and trec_eval print it",
    heading=text.QUERIES,
    share=0,
)


def tabulate_pair(pairs: pl.DataFrame) -> pl.DataFrame:
    """The table of one pair: both means, the difference, its interval, p and the verdict."""
    a, b = pairs.select("a", "b").row(0)
    keys = ["metric", *["slice"] * (pairs["slice"] != "all").any()]
    taken = [*keys, "lo", "hi", "p", "verdict"]
    own = [name for name in OWN_OF_PAIR if name in pairs.columns]
    heads = [f"{x} {name}" for x in (a, b) for name in OWN_HEADS] if own else []
    names = text.unique_names([a, b, f"{b} - {a}", *heads], taken, "system")
    columns = [pl.col(x).alias(name) for x, name in zip([*_MEANS, *own], names, strict=True)]
    tested = pl.col("lo"), pl.col("hi"), pl.col("p_adjusted").alias("p"), pl.col("verdict")
    return pairs.select(*keys, *columns[:3], *tested, *columns[3:])


_MEANS = ("mean_a", "mean_b", "difference")
# For other verdicts, a note has the reason.
_TESTED = (*SIGNIFICANT, NO_DIFFERENCE, NOT_SIGNIFICANT, "too few differ")


def lay_out_pair(pairs: pl.DataFrame, percent: str, alpha: float) -> Block:
    """The table of one pair as text."""
    header, rows = _format_pair(pairs)
    keys, body, above = header[:-3], list[list[str]](), ""
    own = [name for name in OWN_OF_PAIR if name in pairs.columns]
    for row in rows:
        word = "too few differ" if ": " in row["verdict"] else row["verdict"]
        body.append([
            *(text.Name("" if row[key] == above and key == "metric" else row[key]) for key in keys),
            *(row[name] for name in _MEANS),
            f"{row['lo']} to {row['hi']}" if row["lo"] else "",
            text.format_p_cell(row["p_adjusted"], alpha),
            text.Status(word if word in _TESTED else "not tested"),
            *(row[name] for name in own),
        ])  # fmt: skip
        above = row["metric"]
    header = [*keys, *map(text.Name, header[-3:-1]), header[-1], f"{percent} CI", "p"]
    right = [i for i in range(len(keys), len(header) + 1 + len(own)) if i != len(header)]
    heads = map(text.Name, tabulate_pair(pairs).columns[-len(own) :] if own else [])
    return Block([[*header, "verdict", *heads], *body], right)


def typeset_pair(pairs: pl.DataFrame) -> Block:
    """The table of one pair for LaTeX: slices below their metric, intervals in brackets."""
    header, rows = _format_pair(pairs)
    body = list[list[str]]()
    for row in rows:
        *means, change, lo, hi = (row[x].replace(",", "{,}") for x in (*_MEANS, "lo", "hi"))
        interval = f"\\;[{lo}, {hi}]" if lo else ""
        body.append([
            row["metric"] if row["slice"] == "all" else f"  {row['slice']}",
            *(text.Math(x) if x else "" for x in means),
            text.Math(change + interval, MARKS.get(row["verdict"], "")) if change else "",
        ])  # fmt: skip
    return Block([["metric", *header[-3:]], *body], range(1, 4))


def _format_pair(pairs: pl.DataFrame) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of the keys and of the three means, the last one short; and rows with text."""
    rows, header = pairs.to_dicts(), tabulate_pair(pairs).columns
    header = header[: header.index("lo")]
    header[-1] = header[-1] if text.display_width(header[-1]) <= NAME else "difference"
    decimals, own = _count_decimals(rows), [x for x in OWN_OF_PAIR if x in pairs.columns]
    for row in rows:
        for name in (*_MEANS, "lo", "hi", *own):
            number, places = row[name], decimals[row["metric"]] * (not name.startswith(OWN[1]))
            row[name] = "" if number is None else text.format_decimal(number, places)
    return header, rows


def _count_decimals(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The decimals of each metric, the same for all but those with large values.

    They show on which side of 0 a bound lies, and the sign of the difference of the means.
    """
    counts, large = dict[str, int](), set[str]()
    for row in rows:
        metric, values = row["metric"], (abs(row[x] or 0) for x in (*_MEANS, "lo", "hi"))
        large |= {metric} if max(values) >= LARGE else set()
        counts[metric] = max(_decimals(row), counts.get(metric, 0))
    small = {name: count for name, count in counts.items() if name not in large}
    return counts | dict.fromkeys(small, max(small.values(), default=0))


def _decimals(row: Mapping[str, Any]) -> int:
    a, b, difference, lo, hi = (row[name] for name in (*_MEANS, "lo", "hi"))
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


def orient_pairs(rows: pl.DataFrame, pairs: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """The rows of pairs, b - a, by metric and slice."""
    opposite = {BETTER: WORSE, WORSE: BETTER}
    turned = rows.with_columns(
        a="b", b="a", difference=-pl.col("difference"), lo=-pl.col("hi"), hi=-pl.col("lo"),
        verdict=pl.col("verdict").replace(opposite),
    )  # fmt: skip
    order = pl.DataFrame(pairs, ["a", "b"], orient="row").with_row_index(_PAIR)
    both = pl.concat([rows, turned]).join(order, on=["a", "b"])
    names = (rows[x].unique(maintain_order=True) for x in ("metric", "slice"))
    places = [pl.col(x.name).replace_strict(x, pl.int_range(len(x), eager=True)) for x in names]
    return both.sort(*places, _PAIR).drop(_PAIR)

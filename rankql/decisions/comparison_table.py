"""What a comparison displays: its title, of a pair the differences, of more systems their means."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from rankql import text
from rankql.decisions.verdict import BETTER, NO_DIFFERENCE, NOT_SIGNIFICANT, SIGNIFICANT, WORSE
from rankql.evaluation.means_result import LARGE
from rankql.evaluation.result import Result
from rankql.layout import NAME, Block
from rankql.stats.means import ROUNDING
from rankql.text import Name, Status

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
    directed = [name for name in result.metrics if result.higher_is_better(name) is not None]
    if not directed:
        return "No metric says whether higher or lower is better"
    means, pairs = (rows.filter(pl.col("metric").is_in(directed)) for rows in (means, pairs))
    if len(systems) > 2:
        metric = means["metric"][0]
        of_metric = pairs.filter(metric=metric, slice="all")
        lower = result.lower_is_better(metric)
        return _describe_leader(metric, means.filter(metric=metric), of_metric, lower)
    a, b = pairs.select("a", "b").row(0)
    return f"Is {b} better than {a}? {_judge(result, pairs, directed[0], percent)}"


def _judge(result: Result, pairs: pl.DataFrame, first: str, percent: str) -> str:
    """Yes, no or undecided: the size of the difference overall, and where the system is worse."""
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


# The marks of systems that differ significantly from the baseline.
MARKS = {BETTER: "†", WORSE: "‡"}
# The levels of the intervals, by correction.
INTERVAL_LEVELS = {
    "none": "",
    "holm": " at the level of their Holm step",
    "bonferroni": ", simultaneous (Bonferroni),",
    "bh": " at the false coverage rate of the significant rows",
}
# More letters in a row are a range.
RUN = 4


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


def lay_out_pair(pairs: pl.DataFrame, percent: str, alpha: float, short: bool = False) -> Block:
    """The table of one pair as text; a short one has no column p, and n.s. for not significant."""
    table = tabulate_pair(pairs)
    first = table.columns.index("lo") - 3
    keys, names = table.columns[:first], table.columns[first : first + 3]
    difference = names[2] if text.display_width(names[2]) <= NAME else "difference"
    header = [*keys, *map(Name, names[:2]), difference, f"{percent} CI", *["p"] * (not short)]
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_dicts():
        by_metric.setdefault(row["metric"], []).append(row)
    decimals, body = _count_decimals(by_metric, names), list[list[str]]()
    for metric, rows in by_metric.items():
        for i, row in enumerate(rows):
            lo, hi, places, verdict = row["lo"], row["hi"], decimals[metric], row["verdict"]
            if short and verdict not in (*SIGNIFICANT, NO_DIFFERENCE):
                verdict = "n.s." if verdict == NOT_SIGNIFICANT else "not tested"
            body.append([
                *(Name("" if i and key == "metric" else row[key]) for key in keys),
                *(_format(row[name], places) for name in names),
                "" if lo is None else f"{_format(lo, places)} to {_format(hi, places)}",
                *[text.format_p_cell(row["p"], alpha)] * (not short),
                Status(verdict),
            ])  # fmt: skip
    return Block([[*header, "verdict"], *body], range(first, len(header)))


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


def name_letters(systems: Sequence[str]) -> dict[str, str]:
    """A letter for each system: a to z, aa, ab, ..."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    words = itertools.chain.from_iterable(
        map("".join, itertools.product(alphabet, repeat=n)) for n in itertools.count(1)
    )
    return dict(zip(systems, words, strict=False))


def join_letters(places: Sequence[int], systems: Sequence[str]) -> str:
    """The letters of systems at these places, more than four in a row as a range: 'bc', 'b-g'."""
    names, parts = [*name_letters(systems).values()], list[str]()
    for _, run in itertools.groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        members = [names[place] for _, place in run]
        parts += [f"{members[0]}-{members[-1]}"] if len(members) > RUN else members
    return (", " if any(len(part) > 1 for part in parts) else "").join(parts)

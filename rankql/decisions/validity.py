"""Whether a comparison says what it seems to: runs of other queries, seen items, rare losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from rankql import text
from rankql.evaluation.means import compared_value, metric_range
from rankql.evaluation.result import Result
from rankql.macros import MISSING
from rankql.stats.sample import Sample

# So many queries miss a loss that hits one in twenty in 5% of samples.
RARE = 59
# From this share of queries at the best value on, a metric hardly shows a difference.
CEILING = 0.95
# Of more systems, the best is partly the luckiest.
MANY_SYSTEMS = 10
# A share of seen items that is worth a word in the title, if the other system has a tenth of it.
MUCH_SEEN = 0.05


def find_few_ranked(result: Result) -> tuple[str, int, int] | None:
    """A system that ranks less than half of the queries that another one ranks, with both numbers.

    The systems are aligned.
    """
    ranked = result.frame().group_by("system").agg((~pl.col(MISSING)).sum().alias("n"))
    most = int(ranked["n"].max() or 0)  # type: ignore[arg-type]
    few = ranked.filter(pl.col("n") * 2 < most).sort("n", "system").rows()
    return None if not few else (few[0][0], few[0][1], most)


def describe_seen(result: Result, a: str, b: str) -> str:
    """The end of a title if one of two systems shows items of train and the other does not."""
    shares = {name: result.meta.seen.get(name, 0.0) for name in (a, b)}
    low, high = sorted(shares, key=lambda name: shares[name])
    if shares[high] < MUCH_SEEN or shares[low] > shares[high] / 10:
        return ""
    none = "none" if shares[low] == 0 else f"{shares[low]:.1%}"
    return (
        f", but {shares[high]:.0%} of the items of {high} were seen in train and {none} of those "
        f"of {low}: pass seen='drop'"
    )


def describe_ceilings(result: Result, systems: Sequence[str]) -> Iterator[str]:
    """Notes on metrics that have their best value for nearly all queries in all systems."""
    rows, key = result.frame(), result.meta.query
    for name in result.metrics if len(systems) > 1 else ():
        highest = metric_range(name)[1]
        if result.higher_is_better(name) and highest == 1:
            values = rows.select(key, compared_value(name, result.meta))
            best = values.group_by(key).agg(
                (pl.col(name) == 1).all(), pl.col(name).count().alias("n")
            )
            best = best.filter(pl.col("n") == len(systems))
            share = best[name].sum() / len(best) if len(best) else 0.0
            if share >= CEILING:
                both = "both" if len(systems) == 2 else f"all {len(systems)} systems"
                yield (
                    f"{name} is 1 for {share:.0%} of queries in {both}: it can hardly show a "
                    "difference. Choose a stricter one, such as a smaller k"
                )


def describe_many(systems: Sequence[str]) -> list[str]:
    """A note on the best of many systems."""
    if len(systems) <= MANY_SYSTEMS:
        return []
    return [
        f"The best of {len(systems)} systems is partly the luckiest: its mean is too high on "
        "average. Confirm it on queries that did not choose it"
    ]


def describe_rare_losses(samples: Sequence[Sample]) -> list[str]:
    """A note if a sample is so small that it may contain no rare loss."""
    smallest = min(samples, key=lambda sample: sample.effective, default=None)
    if smallest is None or (number := round(smallest.effective, 9)) >= RARE:
        return []
    unit = "query" if smallest.clusters is None else "cluster"
    count = text.format_count(int(number), unit)
    effectively = "" if number == smallest.units else "effectively "
    smallest_of = " (of the smallest row)" if len(samples) > 1 else ""
    return [
        f"Rare losses may not be seen: {effectively}{count}{smallest_of} contain none of the "
        f"losses that hit one {unit} in twenty in {0.95**number:.0%} of samples"
    ]

"""The ranks of many systems that their pairwise tests support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from rankql.text import join_words

# More names are counted.
NAMES = 5
_SCHEMA = {
    **dict.fromkeys(("metric", "slice", "system"), pl.String),
    **{"mean": pl.Float64, "rank_lo": pl.Int64, "rank_hi": pl.Int64, "maybe_best": pl.Boolean},
}


def rank_systems(
    means: pl.DataFrame, pairs: pl.DataFrame, higher_is_better: Mapping[str, bool]
) -> pl.DataFrame:
    """The range of ranks of each system, best first: one row per metric, slice and system.

    A system's rank is at least 1 + the number of systems that are significantly better, and at most
    the number of systems minus those that are significantly worse.
    """
    verdicts = pl.DataFrame(
        [
            (metric, part, *((a, b) if verdict == "worse" else (b, a)))
            for metric, part, a, b, verdict in pairs.select(
                "metric", "slice", "a", "b", "verdict"
            ).rows()
            if verdict in ("better", "worse")
        ],
        schema=dict.fromkeys(("metric", "slice", "winner", "loser"), pl.String),
        orient="row",
    )
    rows = []
    for (metric, part), table in means.group_by("metric", "slice", maintain_order=True):
        here = verdicts.filter(pl.col("metric") == metric, pl.col("slice") == part)
        beaten = dict(here["winner"].value_counts().rows())
        beaten_by = dict(here["loser"].value_counts().rows())
        ordered = table.select("system", "mean").sort(
            "mean", descending=higher_is_better[str(metric)], nulls_last=True, maintain_order=True
        )
        known = ordered.drop_nulls("mean")
        ranked = [
            (1 + beaten_by.get(system, 0), len(known) - beaten.get(system, 0), system, mean)
            for system, mean in known.rows()
        ]
        rows += [
            (metric, part, system, mean, first, last, first == 1)
            for first, last, system, mean in sorted(ranked, key=lambda row: row[:2])
        ]
        without = ordered.filter(pl.col("mean").is_null())["system"]
        rows += [(metric, part, system, None, None, None, False) for system in without]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def describe_best(ranks: pl.DataFrame) -> str:
    """Which systems may be the best, by metric over all queries."""
    sets: dict[str, list[str]] = {}
    for metric, system in (
        ranks.filter(pl.col("slice") == "all", "maybe_best", pl.col("mean").is_not_null())
        .select("metric", "system")
        .rows()
    ):
        sets.setdefault(metric, []).append(system)
    metrics: dict[tuple[str, ...], list[str]] = {}
    for metric, systems in sets.items():
        metrics.setdefault(tuple(systems), []).append(metric)
    total = ranks["system"].n_unique()
    without = {*ranks.filter(pl.col("slice") == "all", pl.col("mean").is_null())["metric"]}
    parts = [
        f"{join_words(names)}: {_describe(best, total, not without.isdisjoint(names))}"
        for best, names in metrics.items()
    ]
    return "; ".join(parts)


def _describe(best: Sequence[str], total: int, some_without: bool) -> str:
    if len(best) == 1:
        others = "every other system" + (" with a value" if some_without else "")
        return f"{best[0]} is significantly better than {others}"
    named = join_words(best) if len(best) <= NAMES else f"{len(best)} of {total} systems"
    return f"{named} cannot be distinguished from the best"

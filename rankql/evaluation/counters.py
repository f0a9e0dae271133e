"""What is counted of the runs and judgments while they are reduced, by system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import polars as pl

from rankql.sources.inputs import Inputs

# Of a system: the items of the run and of the judgments, in the queries of both, and those in both.
ItemOverlap: TypeAlias = tuple[str | None, int, int, int]


class QueryOverlap(NamedTuple):
    """The numbers of queries and judged queries of a system, with examples of unjudged ones."""

    system: str | None
    queries: int
    judged: int
    unjudged: Sequence[object] | None


class RankedRows(NamedTuple):
    """The rows of a system, how many have a position or score, and whether all are equal."""

    system: str | None
    total: int
    ranked: int
    # Of rankings with several items.
    is_constant: bool


@dataclass(frozen=True)
class Counters:
    """The counters of all systems, and whether something is wrong."""

    queries: Sequence[QueryOverlap]
    ranked: Sequence[RankedRows]
    # Judged items within the positions that are read; all of them without a cutoff.
    items: Sequence[ItemOverlap]
    has_nan: bool = False
    # Does an item occur twice in the first positions? None if it was not looked at.
    repeats: bool | None = None


def read_counters(frame: pl.DataFrame, inputs: Inputs, repeats: bool | None = None) -> Counters:
    """The counters in the rows of a reduction. Packed sums have none: nothing can be wrong."""
    if "rows" not in frame.columns:
        return Counters([], [], [])
    present, alone = pl.col("rows").is_not_null(), inputs.qrels is None
    judged = pl.col("judged").is_not_null() if not alone else pl.lit(True)
    both = present & judged
    # The items of a flagged ranking are not known.
    known = both & pl.col("common").is_not_null() if "repeats" in frame.columns else both
    highest, lowest = pl.col("highest").max(), pl.col("lowest").min()
    columns = {
        "queries": present.sum(),
        "judged_queries": both.sum(),
        "unjudged": pl.col("query").filter(present & ~judged).unique().sort().head(3),
        "rows": pl.col("rows").sum(),
        "placed": pl.col("placed").sum(),
        "constant": (highest == lowest) & (pl.col("placed").max() > 1),
        "items": pl.col("rows").filter(known).sum(),
        "judged_items": pl.col("judged").filter(known).sum() if not alone else pl.lit(0),
        "common": pl.col("common").filter(known).sum() if "common" in frame.columns else pl.lit(0),
        "present": present.any(),
    }
    selected = [value.alias(name) for name, value in columns.items()]
    if inputs.many:
        systems = frame.group_by("system").agg(selected).sort("system")
    else:
        selected[2] = selected[2].implode()
        systems = frame.select(pl.lit(None, pl.String).alias("system"), *selected)
    rows: list[dict[str, Any]] = systems.filter("present").to_dicts()
    nan = frame["highest"].dtype.is_float() and inputs.scored and frame["highest"].is_nan().any()
    return Counters(
        [QueryOverlap(x["system"], x["queries"], x["judged_queries"], x["unjudged"]) for x in rows],
        [RankedRows(x["system"], x["rows"], x["placed"], bool(x["constant"])) for x in rows],
        [
            # Of a system without known items, all must be compared.
            (x["system"], x["items"] or 1, x["judged_items"] or 1, x["common"])
            for x in rows
            if x["judged_queries"]
        ],
        bool(nan),
        repeats,
    )

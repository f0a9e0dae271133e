"""dcg and the ideal dcg, by sorting or from counts of grades.

Sorting costs polars 4 to 6 times what a sum does, counting the usual grades about as much as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from inspect import signature
from typing import Any

import polars as pl

from rankql.errors import RankqlError
from rankql.expressions.checked_columns import as_float
from rankql.registry.argument_checks import as_number, require

LEVELS = 4  # grades 1 to 4 are counted
HALF = 1 << 32  # two counters per integer; no polars group has more rows
ANY_ORDER: dict[str, Any] = (  # such lists the streaming engine can build; polars < 1.39 cannot
    {"maintain_order": False} if "maintain_order" in signature(pl.Expr.implode).parameters else {}
)


def ideal_by_sort(
    judged: pl.Expr, k: int | None, discounts: Sequence[float] | None, base: float
) -> pl.Expr:
    """The dcg of the positive grades, best first, NULL without any."""
    best = judged.sort(descending=True, nulls_last=True)
    if k is not None:
        best = best.head(k)
    gain = as_float(pl.element()).clip(0)
    if discounts is not None:
        gain, discounts = gain.replace(0, None), sorted(discounts[:k])
    pos = pl.int_range(1, pl.len() + 1)
    return best.implode().list.agg(discounted_sum(gain, pos, discounts, base)).replace(0, None)


def ideal_by_counts(judged: pl.Expr, k: int | None, base: float) -> pl.Expr:
    """The ideal dcg from counts of grades, without sorting.

    Other grades, which are rare, are collected. If there are any, the counted grades are added and
    all are sorted.
    """
    grade = as_float(judged)
    counted = [float(level) for level in range(LEVELS + 1)]
    other = grade.filter(~grade.is_in(counted)).implode(**ANY_ORDER)
    none, one, half = (pl.lit(n, pl.UInt64) for n in (0, 1, HALF))
    pairs = {
        str(low): pl.when(grade == low).then(one).when(grade == low + 1).then(half).otherwise(none)
        for low in range(1, LEVELS, 2)
    }

    def ideal(columns: Sequence[pl.Series]) -> pl.Series:
        other, pairs = columns
        unpacked = [n for pair in pairs.struct.unnest() for n in (pair % HALF, pair // HALF)]
        counts = {f"{level}": count for level, count in enumerate(unpacked, 1)}
        groups = pl.DataFrame(counts | {"other": other})
        reached = [pl.sum_horizontal(list(counts)[level:]) for level in range(LEVELS)]
        most = groups.select(reached[0].max()).item() or 0
        size = min(most, k or most)
        best = ideal_of_counts(reached, size, base)
        if other.explode().is_not_null().any():
            times = pl.col(*counts).clip(upper_bound=size)
            repeated = [pl.lit(float(level)).repeat_by(level) for level in counts]
            grades = pl.concat_list(*repeated, "other")
            sorted_ = grades.list.agg(ideal_by_sort(pl.element(), k, None, base))
            groups = groups.with_columns(times)
            best = pl.when(pl.col("other").list.len() > 0).then(sorted_).otherwise(best)
        return groups.select(best.replace(0, None).alias("ideal")).to_series()

    # Beside a list, polars calls a function group by group unless the sums have the list's shape.
    sums = pl.struct([pair.sum().alias(name) for name, pair in pairs.items()])
    shaped = pl.when(other.is_not_null()).then(sums)
    return pl.map_batches([other, shaped], ideal, pl.Float64, is_elementwise=True)


def ideal_of_counts(reached: Iterable[pl.Expr], size: int, base: float) -> pl.Expr:
    """The ideal dcg from the number of grades that are at least 1, 2, ...

    size: the number of positions that count.
    """
    discount = 1 / (pl.int_range(1, size + 1, eager=True) + 1).log(base)
    summed = pl.lit(pl.Series([0.0]).append(discount.cum_sum()))
    return pl.sum_horizontal(summed.gather(count.clip(upper_bound=size)) for count in reached)


def require_discounts(discounts: Sequence[float] | None) -> None:
    """Raise an error unless discounts are a list of numbers above 0."""
    require_list("discounts", discounts)
    for value in discounts or ():
        ok = 0 < as_number(value) < math.inf
        require(ok, f"discounts must be finite numbers above 0, not {value}")


def require_list(name: str, values: Sequence[float] | None) -> None:
    """Raise an error unless values are None or a list without texts."""
    listed = values is None or (
        isinstance(values, list | tuple) and not any(isinstance(x, str) for x in values)
    )
    require(listed, f"{name} must be a list of numbers, not {type(values).__name__}")


def discounted_sum(
    gain: pl.Expr, pos: pl.Expr, discounts: Sequence[float] | None, base: float
) -> pl.Expr:
    """The sum of the gains, each divided by the discount of its position."""
    if discounts is None:
        return (gain / (pos + 1).log(base)).sum()
    beyond = (
        f"discounts has {len(discounts)} entries, but position {{:.0f}} is counted: "
        "give more, or a lower k"
    )
    counted = pl.when(gain.is_not_null()).then(pos)
    return (gain / value_at(counted, discounts, beyond)).sum()


def value_at(pos: pl.Expr, values: Sequence[float], beyond: str) -> pl.Expr:
    """The value of each position. `beyond` is the error for a position after the last value."""
    by_position = pl.Series(values, dtype=pl.Float64, strict=False)

    def look_up(pos: pl.Series) -> pl.Series:
        for place in pos.filter(pos.is_finite() & (pos > len(by_position))).head(1):
            raise RankqlError(beyond.format(place))
        return by_position.gather(pos.clip(1).cast(pl.Int64, strict=False) - 1)

    return pos.map_batches(look_up, pl.Float64, is_elementwise=True)

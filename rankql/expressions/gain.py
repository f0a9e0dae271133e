"""Gain: what the items shown are worth, discounted by position, against the best order.

Every metric takes `rel`, the grade (NULL: not judged), and `pos`, the position from 1 (NULL: judged
but not retrieved), each a column name or an expression, and `k`, the positions that count (all when
left out). A grade that is no finite number and a position that is no whole number from 1 are
refused wherever they stand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import polars as pl

from rankql.errors import RankqlError
from rankql.expressions.columns import Column, as_float, check_rel, column, with_checks
from rankql.expressions.ranking import SHARED, Ranking, Rel, near_one, ranking, ratio, refuse_above
from rankql.expressions.variants import list_form, metric, score_form
from rankql.registry.options import as_number, require, require_choice


def exp2_gain(rel: Column = "rel") -> pl.Expr:
    """Exponential gain of a grade, 2^rel - 1; NULL where the grade is NULL.

    For the place of a grade, as in `ndcg(exp2_gain("rel"), "pos")`. Burges et al. 2005.

    >>> pl.DataFrame({"rel": [0, 1, 2, 3]}).select(exp2_gain("rel"))["exp2_gain"].to_list()
    [0.0, 1.0, 3.0, 7.0]
    """

    def finite(values: pl.Series) -> pl.Series:
        check_rel(values)
        return values.cast(pl.Float64)

    grade = column(rel).map_batches(finite, return_dtype=pl.Float64, is_elementwise=True)
    return (2**grade - 1).alias("exp2_gain")


@metric()
def cg(rel: Rel = "rel", pos: Column = "pos", k: int | None = None) -> pl.Expr:
    """Cumulative gain: the sum of the grades in the first k positions.

    A negative grade keeps its sign; 0 where nothing is judged. Järvelin & Kekäläinen 2002.

    >>> pl.DataFrame({"rel": [3, 2, 3, 0], "pos": [1, 2, 3, 4]}).select(cg("rel", "pos", 3)).item()
    8.0
    """
    r = ranking(rel, pos, k)
    return r.top(r.mean(r.rel)).sum()


@metric()
def dcg(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: int | None = None,
    discounts: Sequence[float] | None = None,
    base: float = 2,
) -> pl.Expr:
    """Discounted cumulative gain: the sum of grade / log2(position + 1) over the first k.

    With `base`, the logarithm to another base. With `discounts`, grade / discounts[position]: one
    divisor per position, from 1. A negative grade keeps its sign; 0 where nothing is judged.
    Järvelin & Kekäläinen 2002, with the discount of Burges et al. 2005.

    >>> df = pl.DataFrame({"rel": [5, 2, 3], "pos": [1, 2, 3]})
    >>> round(df.select(dcg("rel", "pos")).item(), 3)
    7.762
    >>> df.select(dcg("rel", "pos", discounts=[0.8, 2, 3])).item()
    8.25
    """
    r = ranking(rel, pos, k)
    _check_discount(discounts, base)
    return _discounted(r.top(r.mean(r.rel)), r.pos, discounts, base)


@metric()
def idcg(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: int | None = None,
    discounts: Sequence[float] | None = None,
    base: float = 2,
    ideal: str = "judged",
) -> pl.Expr:
    """Ideal dcg: the highest that any order of the judged items could reach.

    The positive grades, best first, cut at k; with `discounts`, the best at the smallest divisor.
    Of all judged items, or with ideal="retrieved" of those that have a position. 0 where no grade
    is positive. Järvelin & Kekäläinen 2002.

    >>> df = pl.DataFrame({"rel": [2, 3, 1], "pos": [1, 2, None]})
    >>> round(df.select(idcg("rel", "pos", k=2)).item(), 4)
    4.2619
    """
    return _ideal(rel, pos, k, discounts, base, ideal).fill_null(0)


def _ideal(
    rel: Rel,
    pos: Column,
    k: int | None,
    discounts: Sequence[float] | None,
    base: float,
    ideal: str,
) -> pl.Expr:
    """idcg, but NULL where no grade is positive."""
    r = ranking(rel, pos, k)
    _check_discount(discounts, base)
    require_choice("ideal", ideal, "judged", "retrieved")
    judged = r.judged if ideal == "judged" else pl.when(r.pos.is_not_null()).then(r.rel)
    if discounts is None and not isinstance(rel, Ranking):
        return _ideal_by_counts(judged, r.k, base)
    return _ideal_by_sort(judged, r.k, discounts, base)


def _ideal_by_sort(
    judged: pl.Expr, k: int | None, discounts: Sequence[float] | None, base: float
) -> pl.Expr:
    best = judged.sort(descending=True, nulls_last=True)
    if k is not None:
        best = best.head(k)
    gain = as_float(pl.element()).clip(0)
    if discounts is not None:
        gain, discounts = gain.replace(0, None), sorted(discounts[:k])
    pos = pl.int_range(1, pl.len() + 1)
    return best.implode().list.agg(_discounted(gain, pos, discounts, base)).replace(0, None)


LEVELS = 4  # the grades 1 to 4 are counted
HALF = 1 << 32  # two counters in an integer: no group of polars has more rows
_ANY_ORDER: dict[str, Any] = (  # such lists the streaming engine can build; polars < 1.39 cannot
    {"maintain_order": False} if "maintain_order" in signature(pl.Expr.implode).parameters else {}
)


def _ideal_by_counts(judged: pl.Expr, k: int | None, base: float) -> pl.Expr:
    """The ideal for the price of a few sums, which no engine has to sort for.

    Grades that are not counted, rare as a rule, are listed; only where there are any, the list is
    filled up with those counted and sorted.
    """
    grade = as_float(judged)
    counted = [float(level) for level in range(LEVELS + 1)]
    other = grade.filter(~grade.is_in(counted)).implode(**_ANY_ORDER)
    none, one, half = (pl.lit(n, pl.UInt64) for n in (0, 1, HALF))
    pairs = {
        str(low): pl.when(grade == low).then(one).when(grade == low + 1).then(half).otherwise(none)
        for low in range(1, LEVELS, 2)
    }

    def ideal(columns: Sequence[pl.Series]) -> pl.Series:
        other, pairs = columns
        both = [count for pair in pairs.struct.unnest() for count in (pair % HALF, pair // HALF)]
        counts = {f"{level}": count for level, count in enumerate(both, 1)}
        groups = pl.DataFrame(counts | {"other": other})
        reached = [pl.sum_horizontal(list(counts)[level:]) for level in range(LEVELS)]
        most = groups.select(reached[0].max()).item() or 0
        size = min(most, k or most)
        best = _ideal_of_counts(reached, size, base)
        if other.explode().is_not_null().any():
            times = pl.col(*counts).clip(upper_bound=size)
            alike = [pl.lit(float(level)).repeat_by(level) for level in counts]
            grades = pl.concat_list(*alike, "other")
            sorted_ = grades.list.agg(_ideal_by_sort(pl.element(), k, None, base))
            groups = groups.with_columns(times)
            best = pl.when(pl.col("other").list.len() > 0).then(sorted_).otherwise(best)
        return groups.select(best.replace(0, None).alias("ideal")).to_series()

    # Beside a list, polars calls a function group by group unless the sums have the list's shape.
    sums = pl.struct([pair.sum().alias(name) for name, pair in pairs.items()])
    shaped = pl.when(other.is_not_null()).then(sums)
    return pl.map_batches([other, shaped], ideal, pl.Float64, is_elementwise=True)


def _ideal_of_counts(reached: Iterable[pl.Expr], size: int, base: float) -> pl.Expr:
    """The ideal where so many grades reach 1, 2, ...: 1 more in each of the first positions.

    size: the most positions that count.
    """
    discount = 1 / (pl.int_range(1, size + 1, eager=True) + 1).log(base)
    summed = pl.lit(pl.Series([0.0]).append(discount.cum_sum()))
    return pl.sum_horizontal(summed.gather(count.clip(upper_bound=size)) for count in reached)


BITS = 15  # of one counter, where all share an integer


def _ndcg_by_counts(
    frame: pl.LazyFrame,
    keys: list[pl.Expr],
    rel: Column,
    pos: Column,
    k: int | None,
    base: float,
    **options: Any,
) -> pl.LazyFrame | None:
    """ndcg of groups for the price of a few sums, with plain options and integer positions.

    The gain is summed over the rows shown, few as a rule, and the ideal comes from counters of the
    rows that gain, and of one row in each run of a group, so that no group is lost. Where there are
    grades that are not counted, groups too large for a counter or wrong values, all are sorted.
    """
    names = frame.select(keys).collect_schema().names()
    if {"_rel", "_pos", "_run", "_dcg", "_counters", "_rows", "_count", "_most"} & set(names):
        return None
    rows = frame.select(*keys, _rel=column(rel), _pos=column(pos))
    schema = rows.collect_schema()
    numeric = schema["_rel"].is_integer() or schema["_rel"].is_float()
    plain = options == {"discounts": None, "ideal": "judged", "negative": "zero"}
    if not (plain and numeric and schema["_pos"].is_integer()):
        return None

    grade, place = pl.col("_rel"), pl.col("_pos")
    r = ranking(grade, place, k)
    # Batch by batch: for a shift of the whole, as for a second pass, streaming would keep the rows.
    counted = pl.when(r.shown).then(place).cast(pl.Int64).alias("_counted")
    run = pl.map_batches([*names, counted], _runs, _RUN, is_elementwise=True)
    rows = rows.with_columns(_run=run)

    counters = pl.lit(0, pl.Int64)
    for level in range(LEVELS):
        ones = sum(1 << BITS * below for below in range(level + 1))
        counters = pl.when(grade == level + 1).then(pl.lit(ones, pl.Int64)).otherwise(counters)
    other = (grade > LEVELS) | (place < 1)
    if schema["_rel"].is_float():
        other |= (grade != grade.floor()) | grade.is_infinite()
    value = dcg(replace(r, rel=r.rel.clip(0)), k=k, base=base)
    value = near_one(value / _ideal_by_sort(grade, r.k, None, base))
    value = pl.when(refuse_above(value, 1)).then(None).otherwise(value)
    first = pl.col("_run").struct.field("first")
    kept = rows.filter((grade > 0) | other | first).group_by(names)
    exact = kept.agg(with_checks(value, {"rel": grade, "pos": place}).alias("ndcg"))
    shown = pl.when((grade > 0) & r.shown).then(r.rel / (r.pos + 1).log(base))
    gain = pl.when(other).then(math.nan).otherwise(shown)
    sums = kept.agg(
        _counters=counters.sum(),
        _rows=pl.len(),
        _dcg=gain.sum(),
        _count=pl.col("_run").struct.field("count").sum(),
        _most=pl.col("_run").struct.field("most").max(),
    )

    size = min(r.k or 1 << BITS, 1 << BITS)
    reached = [pl.col("_counters") // (1 << BITS * level) % (1 << BITS) for level in range(LEVELS)]
    best = _ideal_of_counts(reached, size, base)

    def finish(groups: pl.DataFrame) -> pl.DataFrame:
        if groups["_dcg"].is_nan().any() or (groups["_rows"] >= 1 << BITS).any():
            return exact.collect()
        require(not (groups["_count"] > groups["_most"]).any(), SHARED)
        value = near_one(ratio(pl.col("_dcg"), best))
        return groups.select(
            *names, ndcg=pl.when(refuse_above(value, 1)).then(None).otherwise(value)
        )

    return sums.map_batches(
        finish,
        schema=exact.collect_schema(),
        predicate_pushdown=False,
        projection_pushdown=False,
        slice_pushdown=False,
    )


_RUN = pl.Struct({"first": pl.Boolean, "count": pl.Int64, "most": pl.Int64})


def _runs(columns: Sequence[pl.Series]) -> pl.Series:
    """Where a run of rows of one group begins: how many positions it counts, and the last one.

    Rows in random order are all runs of their own.
    """
    *keys, counted = columns
    by = pl.all()
    first = (
        pl.select(*keys)
        .select(pl.any_horizontal(by.is_null() | by.ne_missing(by.shift())))
        .to_series()
    )
    count, most = counted.is_not_null().cast(pl.Int64), counted
    if 2 * first.sum() > len(first):
        first = _TRUE.new_from_index(0, len(first))
    else:
        rows = pl.DataFrame({"run": first.cum_sum().set_sorted(), "pos": counted})
        runs = rows.group_by("run", maintain_order=True).agg(
            count=pl.col("pos").count().cast(pl.Int64), most=pl.col("pos").max()
        )
        none, starts = counted.clear(len(first)), first.arg_true()
        count, most = (none.clone().scatter(starts, runs[name]) for name in ("count", "most"))
    return pl.DataFrame({"first": first, "count": count, "most": most}).to_struct()


_TRUE = pl.Series([True])


@metric(by_group=_ndcg_by_counts, bounded=True)
def ndcg(
    rel: Rel = "rel",
    pos: Column = "pos",
    k: int | None = None,
    discounts: Sequence[float] | None = None,
    base: float = 2,
    ideal: str = "judged",
    negative: str = "zero",
) -> pl.Expr:
    """Normalised dcg: dcg / idcg, 1 for the best order, NULL where no grade is positive.

    The options are those of `dcg` and `idcg`. A negative grade counts as 0, so that the result
    stays in [0, 1]; negative="keep" keeps its sign in the dcg. Järvelin & Kekäläinen 2002.

    >>> df = pl.DataFrame({"user": [7, 7, 7], "rel": [2, 3, 1], "pos": [1, 2, None]})
    >>> df.group_by("user").agg(ndcg("rel", "pos", k=2).round(4)).rows()
    [(7, 0.9134)]
    >>> df.pipe(ndcg, by="user", ideal="retrieved", discounts=[1, 2]).rows()
    [(7, 0.875)]
    """
    r = ranking(rel, pos, k)
    require_choice("negative", negative, "zero", "keep")
    shown = replace(r, rel=r.rel.clip(0)) if negative == "zero" else r
    best = _ideal(rel, pos, k, discounts, base, ideal)
    return near_one(dcg(shown, pos, k, discounts, base) / best)


def _check_discount(discounts: Sequence[float] | None, base: float) -> None:
    ok = 1 < as_number(base) < math.inf
    require(ok, f"base must be a finite number above 1, not {base}")
    listed = discounts is None or (
        isinstance(discounts, list | tuple) and not any(isinstance(x, str) for x in discounts)
    )
    require(listed, f"discounts must be a list of numbers, not {type(discounts).__name__}")
    for value in discounts or ():
        ok = 0 < as_number(value) < math.inf
        require(ok, f"discounts must be finite numbers above 0, not {value}")


def _discounted(
    gain: pl.Expr, pos: pl.Expr, discounts: Sequence[float] | None, base: float
) -> pl.Expr:
    if discounts is None:
        return (gain / (pos + 1).log(base)).sum()
    divisors = pl.Series(discounts, dtype=pl.Float64, strict=False)

    def look_up(pos: pl.Series) -> pl.Series:
        for beyond in pos.filter(pos.is_finite() & (pos > len(divisors))).head(1):
            raise RankqlError(
                f"discounts has {len(divisors)} entries, but position {beyond:.0f} is counted: "
                "give more, or a lower k"
            )
        return divisors.gather(pos.clip(1).cast(pl.Int64, strict=False) - 1)

    counted = pl.when(gain.is_not_null()).then(pos)
    return (gain / counted.map_batches(look_up, pl.Float64, is_elementwise=True)).sum()


list_cg = list_form(cg)
list_dcg = list_form(dcg)
list_idcg = list_form(idcg, ideal=True)
list_ndcg = list_form(ndcg, ideal=True)

cg_by_score = score_form(cg)
dcg_by_score = score_form(dcg)
idcg_by_score = score_form(idcg)
ndcg_by_score = score_form(ndcg)

"""Rankings by score, of all groups at once: one sort by score, and another of the tied items alone.

Sorting every group by score and item takes 2 to 7 times as long, most of it for the text of the
items. The groups come as a column with a list of rows for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import polars as pl
import polars.selectors as cs

from rankql.core.base.errors import require
from rankql.core.expressions.checked_columns import require_texts
from rankql.core.expressions.ranking import Ranking

MAX_ROWS = 1_000_000  # ranked at a time, which bounds the memory
SAMPLE_ROWS = 10_000  # tell whether many items are tied
NO_ITEM = "No column 'item', which orders equal scores: pass its name as item='...'"
MANY_TIES = 0.2  # the share of tied items above which sorting all by item is faster

# Ties are ordered by item as text, descending, as in trec_eval. NULL is not retrieved.
BEST_FIRST: dict[str, Any] = {"descending": True, "nulls_last": True}
# The columns of the table that a metric of ranked groups gets, with `group`.
ROWS = Ranking(pl.col("rel"), pl.col("pos").cast(pl.Float64), judged=pl.col("rel"), flat=True)


@dataclass(frozen=True)
class ScoredGroups:
    """The rows of some groups, group by group, the highest score first. Ties are in no order.

    rows: the columns of the rows, before they were ordered.
    order: the number of the row at each place, with its group, and its position there.
    tied: whether the row has the score of the one before.
    """

    rows: pl.DataFrame
    order: pl.Series
    group: pl.Series
    pos: pl.Series
    tied: pl.Series

    @classmethod
    def of_lists(cls, lists: pl.Series) -> ScoredGroups:
        """From lists of rows, structs with a score, none of them empty."""
        rows, sizes = lists.explode().struct.unnest(), lists.list.len()
        by_score = pl.element().struct.field("score").arg_sort(**BEST_FIRST)
        per_list = {"order": lists.list.eval(by_score), "first": sizes.cum_sum() - sizes}
        places = pl.DataFrame(per_list).with_row_index("group").explode("order")
        group, first = places["group"].set_sorted(), places["first"]
        order = first + places["order"]
        pos = pl.int_range(1, len(order) + 1, dtype=pl.UInt32, eager=True) - first
        score = rows["score"].gather(order)
        tied = ((score == score.shift(1)) & (pos > 1)).fill_null(False)
        return cls(rows, order, group, pos, tied)

    def in_order(self, name: str) -> pl.Series:
        """A column of the rows in rank order."""
        return self.rows[name].gather(self.order)

    def undecided(self, k: int | None) -> pl.Series:
        """Whether a row and the one before are tied, begin within k, and have other grades."""
        rel = self.in_order("rel")
        other = self.tied & rel.ne_missing(rel.shift(1))
        return other & (self.first_of_ties() <= k) if k and other.any() else other

    def first_of_ties(self) -> pl.Series:
        """The position of the first item with the same score."""
        return self.pos.set(self.tied, None).forward_fill()

    def order_by_item(self, undecided: pl.Series) -> pl.Series:
        """The order, where undecided the higher item as text first, and then the higher grade."""
        if not undecided.any():
            return self.order
        places = {"order": self.order, "run": (~self.tied).cum_sum(), "undecided": undecided}
        rows = pl.DataFrame(places).with_row_index("place")
        rows = rows.filter(self.tied | self.tied.shift(-1, fill_value=False))
        runs = rows["run"].filter(rows["undecided"]).unique(maintain_order=True)
        rows = rows.filter(rows["run"].is_in(runs.implode()))
        keys = {"run": False, "item": True, "rel": True, "order": False}
        tied = self.rows.select("item", cs.by_name("rel", require_all=False))[rows["order"]]
        rows = rows.hstack(tied.with_columns(pl.col("item").cast(pl.String)))
        by = [key for key in keys if key in rows.columns]
        ordered = rows.sort(by, descending=[keys[key] for key in by], nulls_last=True)
        return self.order.clone().scatter(rows["place"], ordered["order"])


@dataclass(frozen=True)
class ScoreMetric:
    """A metric of rankings by score.

    value: of columns as in ROWS. by_group: the faster function over a table with them, if any.
    Ties are ordered by the item of the rows if it `needs_item`. Else all have the position of the
    first, or `expected` computes those lists in which their order matters.
    """

    value: pl.Expr
    by_group: Callable[[pl.LazyFrame], pl.LazyFrame] | None
    k: int | None
    expected: Callable[[pl.Series], pl.Series] | None
    needs_item: bool

    def evaluate(self, lists: pl.Series) -> pl.Series:
        """The values for lists of rows, structs with rel, score and perhaps item."""
        filled = lists.list.len() > 0
        some = lists.filter(filled)
        if self.expected is not None and (not len(some) or _has_many_ties(some)):
            return self.expected(lists)
        if self.needs_item:
            require("item" in cast("Any", lists.dtype).inner.to_schema(), NO_ITEM)
            refuse_equal_items(some)
        none = pl.DataFrame(schema={"rel": pl.Float64, "pos": pl.Int64}).select(self.value)
        values = none.to_series().new_from_index(0, len(lists))
        return values.scatter(filled.arg_true(), self._evaluate(some)) if len(some) else values

    def _evaluate(self, lists: pl.Series) -> pl.Series:
        values, again, first = [], [], 0
        for part in _in_parts(lists, MAX_ROWS):
            rankings = ScoredGroups.of_lists(part)
            values.append(self._value(rankings))
            if self.expected is not None:
                groups = rankings.group.filter(rankings.undecided(self.k))
                again.append(groups.unique(maintain_order=True) + first)
            first += len(part)
        if self.expected is None:
            return pl.concat(values)
        # At least one, because DuckDB refuses metrics that have no expected value.
        some = pl.concat(again) if sum(map(len, again)) else pl.Series([0])
        return pl.concat(values).scatter(some, self.expected(lists.gather(some)))

    def _value(self, rankings: ScoredGroups) -> pl.Series:
        rel, pos = rankings.in_order("rel"), rankings.pos
        if self.needs_item:
            require_texts(rankings.rows["item"])
            order = rankings.order_by_item(rankings.undecided(self.k))
            rel = rankings.rows["rel"].gather(order)
        elif self.expected is None:
            pos = rankings.first_of_ties()
        score = rankings.in_order("score")
        pos = pos.set(score.is_null(), None) if score.null_count() else pos
        table = pl.DataFrame({"group": rankings.group, "rel": rel, "pos": pos})
        if self.by_group is not None:
            return self.by_group(table.lazy()).collect().sort("group").to_series(1)
        grouped = table.group_by("group", maintain_order=True)
        return grouped.agg(self.value.alias("value"))["value"]


def refuse_equal_items(lists: pl.Series) -> None:
    """Raise an error if the item is the same in all rows of a list with several scores."""
    first, second = (lists.list.get(i, null_on_oob=True).struct.field("item") for i in (0, 1))
    item, score = (pl.element().struct.field(name) for name in ("item", "score"))
    equal = (score.count() > 1) & item.eq_missing(item.first()).all()
    doubtful = lists.filter((lists.list.len() > 1) & first.eq_missing(second))
    message = "item must distinguish the items of a group, but is the same in all rows"
    require(not doubtful.list.agg(equal).any(), message)


def positions(rows: pl.DataFrame) -> pl.Series:
    """The position of each row by score and item; the other columns are those of the query."""
    require_texts(rows["item"])
    keys = rows.drop("score", "item").columns
    sample = rows.head(SAMPLE_ROWS)
    if sample.n_unique([*keys, "score"]) < len(sample) * (1 - MANY_TIES):
        by_item = {"order_by": ["score", pl.col("item").cast(pl.String)], **BEST_FIRST}
        return rows.select(pl.int_range(1, pl.len() + 1).over(keys or None, **by_item)).to_series()
    numbered, packed = rows.with_row_index("row"), pl.struct("row", "score").implode()
    if keys:
        grouped = numbered.group_by(keys, maintain_order=True).agg(packed)
    else:
        grouped = numbered.select(packed)
    placed = pl.Series([0]).new_from_index(0, len(rows))
    for lists in _in_parts(grouped["row"], MAX_ROWS):
        rankings = ScoredGroups.of_lists(lists)
        rankings = replace(rankings, rows=rows, order=rankings.in_order("row"))
        placed.scatter(rankings.order_by_item(rankings.tied), rankings.pos)
    return placed


def _in_parts(lists: pl.Series, most: int) -> Iterator[pl.Series]:
    """Some lists at a time, which have at most so many rows, or one."""
    ends = lists.list.len().cast(pl.Int64).cum_sum()
    first = 0
    while first < len(lists):
        before = ends[first - 1] if first else 0
        after = max(first + 1, int(ends.search_sorted(before + most, side="right")))
        yield lists.slice(first, after - first)
        first = after


def _has_many_ties(lists: pl.Series) -> bool:
    """Whether ties are frequent in the first lists."""
    sample = next(_in_parts(lists, SAMPLE_ROWS), lists)
    different = sample.list.eval(pl.element().struct.field("score").n_unique()).explode()
    return float(different.sum()) < float(sample.list.len().sum()) * (1 - MANY_TIES)

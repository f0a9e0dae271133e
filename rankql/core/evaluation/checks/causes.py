"""Which closer looks have a cause: what a reduction and the first rows show without another pass.

Each look is a query of several milliseconds over a sample. `check` takes all of them; `evaluate`
takes those whose fault may be there:

- ties that decide: two of the best scores are equal in enough queries;
- a query that finds itself: an item on top, or of the first rows, is its query;
- a query that is judged for itself: an item of the first judgments is its query;
- reversed scores: relevant items rank below chance among the first k, or hardly any is there;
- ids that are spelled differently: those of run and judgments, if in memory, are not written alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl

from rankql.core.evaluation.checks.looks import SMALL_ID, rank_gap
from rankql.core.evaluation.reduce import protocol
from rankql.core.evaluation.reduce.reduce import Reduction
from rankql.core.tables.reader import first_rows
from rankql.core.tables.tables import FIRST_ROWS, is_text

# Ties are looked at in more queries than this share: a note is made from 0.05 on.
_TIED = 0.04
# Standard errors below chance from which on all ranks are looked at: from -2.3 on it is reported.
_BELOW_CHANCE = -1.0
# The order among the first k says enough from so many queries on that have a hit there.
_FEW = 30
# RR in reverse order is at most 1, and is reported if it is 1.5 times RR.
_GOOD_RR = 2 / 3
# The first rows say enough if they would be those of so many queries.
_MANY = 10
# About so many items of rankings are read, and so many ids of each table.
_CELLS, _IDS = 5000, 2000


class FirstRows(NamedTuple):
    """What the first rows show: is an item its query, does one end with a mark and a number, as
    doc12#3, and is one judged for itself?
    """

    finds_itself: bool
    chunked: bool
    judges_itself: bool


@dataclass(frozen=True)
class Causes:
    """The faults that the rows of a reduction do not rule out."""

    reduction: Reduction

    @cached_property
    def _systems(self) -> Sequence[pl.DataFrame]:
        """The judged rankings of each system."""
        judged, counts = self.reduction.frame, self.reduction.frame["judged"]
        if judged["rows"].null_count() or counts.null_count() or not (counts > 0).all():
            judged = judged.filter(pl.col("rows").is_not_null() & (pl.col("judged") > 0))
        return judged.partition_by("system") if self.reduction.inputs.many else [judged]

    @cached_property
    def tied(self) -> bool:
        """May equal scores decide?"""
        reduction = self.reduction
        others = len(reduction.metrics) < len(reduction.evaluation.computed)  # may read further
        if others or not reduction.has("tied"):
            return True
        return any(x["tied"].sum() > _TIED * x.height for x in self._systems)

    @cached_property
    def first(self) -> FirstRows:
        """What the first rows show.

        Of all rows in memory, where the query has to be on top, else of the first ones.
        """
        ranked, evaluation = self.reduction.ranked, self.reduction.evaluation
        runs = self.reduction.inputs.runs.values()
        text = any(is_text(x.columns[x.roles["item"]]) for x in runs if "item" in x.roles)
        if ranked is not None and "item" in ranked.columns:
            item, top = pl.col("item").cast(pl.String), pl.col("pos") == 1
            same = ((pl.col("query").cast(pl.String) == item) & top).any().alias("same")
            chunk = (item.str.contains(_CHUNK) if text else pl.lit(False)).any().alias("chunk")
            return FirstRows._make((*ranked.select(same, chunk).row(0), self._judges_itself()))
        frame = self.reduction.frame
        if text or _MANY * frame["rows"].sum() > FIRST_ROWS * frame.height:
            judged = _JUDGED if self.reduction.inputs.qrels else "false"
            (row,) = evaluation.run_sql(_FIRST.format(judged=judged))
            return FirstRows(*row)
        rows = (row for table in runs for row in first_rows(table).rows)
        return FirstRows(any(x[0] == x[1] for x in rows), False, self._judges_itself())

    def _judges_itself(self) -> bool:
        """Is a query in judgments in memory one of its items?"""
        qrels, frames = self.reduction.inputs.qrels, self.reduction.evaluation.session.frames
        if qrels is None or (frame := frames.get(qrels.sql)) is None:
            return False
        both = [frame[x] for x in (qrels.roles["query"], qrels.roles["item"]) if x in frame]
        if len({x.dtype for x in both}) > 1 or len(both) < 2:
            return False
        same = both[0] == both[1]
        # Small numbers count rows.
        numbered = both[0].dtype.is_integer()
        return bool((same & (both[0] >= SMALL_ID) if numbered else same).any())

    @cached_property
    def reversed(self) -> bool:
        """May relevant items rank below chance?"""
        if not self.reduction.metrics:
            return True
        ranked = self.reduction.ranked
        known = ranked is not None and not self._all_ranks_low(ranked)
        return not known and any(map(self._ranks_low, self._systems))

    def _all_ranks_low(self, ranked: pl.DataFrame) -> bool:
        """May they rank below chance among all rows, which are in memory?"""
        hit = pl.col("rel") >= self.reduction.conventions.threshold
        n, h = pl.len().cast(pl.Float64), hit.sum().cast(pl.Float64)
        places = pl.col("pos").filter(hit).sum().cast(pl.Float64)
        gap, variance = rank_gap(n, h, places)
        if "equal" in ranked.columns and ranked["equal"].any():
            return True
        systems, keys = ["system"] * self.reduction.inputs.many, self.reduction.inputs.keys
        gaps = ranked.lazy().group_by(keys.split(", "))
        sums = gaps.agg(gap=gap, variance=variance).group_by(systems or 1)
        rows = sums.agg(pl.col("gap", "variance").sum()).collect(engine="in-memory").rows()
        return any(x < 2 * _BELOW_CHANCE * math.sqrt(y) for *_, x, y in rows)

    def _ranks_low(self, frame: pl.DataFrame) -> bool:
        reduction, listed = self.reduction, self.reduction.layout == "lists"
        if not reduction.ranks_ties and reduction.has("tied"):  # their items have no order
            frame = frame.filter(~pl.col("tied"))
        cells = int(frame["placed"].sum()) if listed else frame.height * reduction.k
        some = frame.gather_every(cells // _CELLS + 1)
        counts = protocol.read_counts("ideal", reduction.end, some)
        judged = counts[min(math.ceil(reduction.conventions.threshold), len(counts)) - 1]
        within = among = variance = spread = reciprocal = known = 0.0
        for places, length, total in zip(self._places(some), some["placed"], judged, strict=True):
            n, h = (length if listed else min(length, reduction.k)), len(places)
            if n < length:  # hits that chance brings into the first n
                share = n / length
                among += h - total * share
                spread += total * share * (1 - share)
            if 0 < h < n:
                known, reciprocal = known + 1, reciprocal + 1 / min(places)
                gap = rank_gap(n, h, sum(places))
                within, variance = within + gap[0], variance + gap[1]
        if reciprocal > _GOOD_RR * known:
            return False
        few = known < _FEW and among < _BELOW_CHANCE * math.sqrt(spread)
        return few or within < _BELOW_CHANCE * math.sqrt(variance)

    def _places(self, frame: pl.DataFrame) -> Iterable[Sequence[int]]:
        """The positions of the relevant items of each ranking that are read."""
        threshold = self.reduction.conventions.threshold
        if self.reduction.layout == "lists":
            for places, rels in zip(*(frame[x].to_list() for x in ("places", "rels")), strict=True):
                pairs = zip(places, rels, strict=True) if places is not None else ()
                yield [place for place, rel in pairs if rel >= threshold]
            return
        grades = [grade.to_list() for grade in self.reduction.words.read(frame)]
        for row in zip(*grades, strict=True):
            yield [i for i, grade in enumerate(row, 1) if grade >= threshold]

    @cached_property
    def spelled(self) -> bool:
        """May ids be spelled differently in run and judgments?"""
        session, inputs = self.reduction.evaluation.session, self.reduction.inputs
        if inputs.qrels is None or not inputs.has_text_items:
            return False
        tables = [table for table in inputs.tables if "item" in table.roles]
        frames = [(session.frames.get(x.sql), x.roles["item"]) for x in tables]
        columns = [frame[name] for frame, name in frames if frame is not None and name in frame]
        if len(columns) < len(tables):
            return True
        first, *others = _read_writing(columns)
        return not all(_are_alike(first, other) for other in others)


_CHUNK = r"([^\w\s]|_)[0-9]+$"
_SAME = "coalesce(bool_or(CAST(query AS VARCHAR) = CAST(item AS VARCHAR)), false)"
_JUDGED = f"(SELECT {_SAME} FROM (SELECT query, item FROM qrels LIMIT 20_000))"
_FIRST = f"""
    SELECT {_SAME}, coalesce(bool_or(regexp_matches(CAST(item AS VARCHAR), '{_CHUNK}')), false),
        {{judged}} FROM (SELECT query, item FROM run LIMIT 20_000)"""
_LEADING_ZERO = "(^|[^0-9])0[0-9]"


class _Writing(NamedTuple):
    """How some ids are written: their shapes, as a9 of doc12, their characters and lengths."""

    shapes: set[str]
    characters: set[str]
    lengths: set[int]
    # Does a number begin with 0?
    zeros: bool


def _read_writing(columns: Sequence[pl.Series]) -> list[_Writing]:
    """How the ids of each column are written, of one query for all."""
    shape = ids = pl.col("id")
    for letters, letter in (("[a-z]+", "a"), ("[A-Z]+", "A"), ("[0-9]+", "9")):
        shape = shape.str.replace_all(letters, letter)
    zeros = ids.str.contains(_LEADING_ZERO).any().alias("zeros")
    fields = [
        x.unique().implode().alias(name) for x, name in ((shape, "x"), (ids.str.len_chars(), "n"))
    ]
    some = (x if len(x) <= _IDS else x.sample(_IDS, seed=0) for x in columns)
    texts = (pl.LazyFrame([x.cast(pl.String).alias("id")]).drop_nulls() for x in some)
    rows = pl.concat(x.select(*fields, zeros) for x in texts).collect(engine="in-memory")
    return [_Writing({*x}, {*"".join(x)}, {*lengths}, zeros) for x, lengths, zeros in rows.rows()]


def _are_alike(one: _Writing, other: _Writing) -> bool:
    """Have all ids one shape, or the same length and kinds of characters?"""
    same_shape = len(one.shapes | other.shapes) == 1 and not (one.zeros or other.zeros)
    return same_shape or (
        len(one.lengths | other.lengths) == 1 and one.characters == other.characters
    )

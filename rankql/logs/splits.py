"""Splits of a log into train and test."""

from __future__ import annotations

import polars as pl

from rankql.expressions.columns import Column, column
from rankql.expressions.variants import Frame, require_columns
from rankql.logs.moments import Moment, require_moments
from rankql.logs.table_macros import add_column_by_table_macro
from rankql.registry.argument_checks import is_whole_number, require


def leave_one_out(
    frame: Frame,
    n: int = 1,
    query: Column = "user",
    item: Column = "item",
    moment: Column = "time",
) -> Frame:
    """The log with `split`: test for the last event of each user, train for those before.

    The last n. Of events at one time the item that is higher as text is the later one, as of equal
    scores it stands first; rows of one time and item go together. A user of whom nothing would be
    left to train on is left whole.

    >>> log = pl.DataFrame({"user": [1, 1, 1, 2], "item": [*"abca"], "time": [1, 2, 2, 1]})
    >>> log.pipe(leave_one_out)["split"].to_list()
    ['train', 'train', 'test', 'train']
    """
    require(is_whole_number(n), f"n must be a whole number from 1, not {n}")
    times, text = _select_moments(frame, moment), column(item).cast(pl.String)
    require_columns(frame, text, column(query))
    _require_no_split(frame)
    place = pl.struct(times, text.fill_null("")).rank("min", descending=True).over(query)
    last = place <= n
    split = pl.when(last & ~last.all().over(query)).then(pl.lit("test"))
    return frame.with_columns(split=split.otherwise(pl.lit("train")))


def time_split(
    frame: Frame,
    since: Moment | None = None,
    share: float | None = None,
    query: Column | None = None,
    moment: Column = "time",
) -> Frame:
    """The log with `split`: test from a time on, or for the last share of the rows, train before.

    Rows of one time go together: test has the latest times, as many as make up no more than `share`
    of the rows, or with `query` of the rows of each user. The latest time is always in it, also
    where it holds more than `share`, unless it is the only one.

    >>> log = pl.DataFrame({"user": [1, 1, 1, 2], "time": [1, 2, 2, 3]})
    >>> log.pipe(time_split, since=2)["split"].to_list()
    ['train', 'test', 'test', 'test']
    >>> log.pipe(time_split, share=0.5)["split"].to_list()
    ['train', 'train', 'train', 'test']
    """
    _require_no_split(frame)
    columns = {"query": query, "moment": moment}
    options = {"since": since, "share": share}
    return add_column_by_table_macro(frame, "time_split", columns, options, "split")


def _select_moments(frame: pl.DataFrame | pl.LazyFrame, moment: Column) -> pl.Expr:
    """The times of a log, as they are."""
    times = column(moment)
    require_columns(frame, times)
    ((name, dtype),) = frame.lazy().select(times).collect_schema().items()

    def check(values: pl.Series) -> pl.Series:
        return require_moments(name, values)

    return times.map_batches(check, dtype, is_elementwise=True)


def _require_no_split(frame: pl.DataFrame | pl.LazyFrame) -> None:
    names = frame.collect_schema().names()
    message = "the log has a column 'split' already: drop or rename it"
    require("split" not in map(str.lower, names), message)

"""Split a log into train and test."""

from __future__ import annotations

from datetime import date, datetime

from rankql.expressions.columns import Column
from rankql.logs.table_macros import table_function
from rankql.sources.tables import Data


@table_function("split")
def leave_one_out(
    frame: Data,
    n: int = 1,
    query: Column = "user",
    item: Column = "item",
    moment: Column = "time",
) -> None:
    """The log with `split`: test for the last event of each user, train for those before.

    With `n`, the last n events. Of events at the same time, the item that is higher as text comes
    last. Rows with the same time and item stay together. Users with nothing left to train on have
    no test events.

    >>> import polars as pl
    >>> log = pl.DataFrame({"user": [1, 1, 1, 2], "item": [*"abca"], "time": [1, 2, 2, 1]})
    >>> log.pipe(leave_one_out)["split"].to_list()
    ['train', 'train', 'test', 'train']
    """


@table_function("split")
def time_split(
    frame: Data,
    since: date | datetime | float | None = None,
    share: float | None = None,
    query: Column | None = None,
    moment: Column = "time",
) -> None:
    """The log with `split`: test from a time on, or for the last share of the rows, train before.

    Rows with the same time stay together. With `share`, test has as many of the latest times as
    make up at most this share of the rows, or with `query` of the rows of each user. The latest
    time is always in test, even if it has more than `share` of the rows, unless it is the only one.

    >>> import polars as pl
    >>> log = pl.DataFrame({"user": [1, 1, 1, 2], "time": [1, 2, 2, 3]})
    >>> log.pipe(time_split, since=2)["split"].to_list()
    ['train', 'test', 'test', 'test']
    >>> log.pipe(time_split, share=0.5)["split"].to_list()
    ['train', 'train', 'train', 'test']
    """

"""Splits of a log into train and test."""

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

    The last n. Of events at one time the item that is higher as text is the later one, as of equal
    scores it stands first; rows of one time and item go together. A user of whom nothing would be
    left to train on is left whole.

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

    Rows of one time go together: test has the latest times, as many as make up no more than `share`
    of the rows, or with `query` of the rows of each user. The latest time is always in it, also
    where it holds more than `share`, unless it is the only one.

    >>> import polars as pl
    >>> log = pl.DataFrame({"user": [1, 1, 1, 2], "time": [1, 2, 2, 3]})
    >>> log.pipe(time_split, since=2)["split"].to_list()
    ['train', 'test', 'test', 'test']
    >>> log.pipe(time_split, share=0.5)["split"].to_list()
    ['train', 'train', 'train', 'test']
    """

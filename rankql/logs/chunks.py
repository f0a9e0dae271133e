"""Rankings of documents from rankings of chunks."""

from __future__ import annotations

from rankql.expressions.columns import Column
from rankql.logs.table_macros import table_function
from rankql.sources.tables import Data


@table_function(None)
def collapsed(
    frame: Data,
    document: Column = "document",
    positions: str = "renumber",
    query: Column | None = "query",
) -> None:
    """The rankings with the best chunk of each document; the others are dropped.

    A row has a chunk, its `document` and its position `pos`. With positions='renumber', rows below
    a dropped one move up; with 'keep', its position stays empty. With query=None the table is one
    ranking. In `evaluate`, collapse= does the same.

    >>> import polars as pl
    >>> chunks = pl.DataFrame({"query": [1, 1, 1], "document": [*"aab"], "pos": [1, 2, 3]})
    >>> chunks.pipe(collapsed).rows()
    [(1, 'a', 1), (1, 'b', 2)]
    >>> chunks.pipe(collapsed, positions="keep").rows()
    [(1, 'a', 1), (1, 'b', 3)]
    """

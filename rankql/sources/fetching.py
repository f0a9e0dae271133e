"""The rows of a query, as tuples or as a polars frame."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import duckdb
import polars as pl

from rankql.sources.private import LOCK

# DuckDB reads up to this many rows with one thread.
ONE_CHUNK = 2048
# Up to so many rows are read and registered without pyarrow, whose import takes half as long as
# those of duckdb and polars together.
FEW = 10_000
# With pyarrow, up to so many values are read faster without it.
FEW_VALUES = 3000
# The types of columns that need no pyarrow.
TYPES = {
    "BIGINT": pl.Int64,
    "BOOLEAN": pl.Boolean,
    "DOUBLE": pl.Float64,
    "INTEGER": pl.Int32,
    "VARCHAR": pl.String,
}


def has_pyarrow() -> bool:
    """Is pyarrow imported already?"""
    return "pyarrow" in sys.modules


def fetch_rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query as tuples. DuckDB needs pytz for times with a zone, polars does not."""
    rows = con.execute(query)
    if any("WITH TIME ZONE" in str(kind) for _, kind, *_ in rows.description or ()):
        return _to_frame(rows).rows()
    return rows.fetchall()


def read_frame(con: duckdb.DuckDBPyConnection, query: str) -> pl.DataFrame:
    """The rows of a query, which is planned once; a relation plans its query twice.

    For few rows this takes most of the time. The rows are copied once more, and keep their order
    unless preserve_insertion_order is off.
    """
    return _to_frame(con.execute(query))


def _to_frame(rows: Any) -> pl.DataFrame:
    if hasattr(rows, "pl"):  # DuckDB 1
        frame: pl.DataFrame = rows.pl()
        return frame
    few = FEW_VALUES // len(rows.description) if has_pyarrow() else FEW
    return _read_rows(rows, few)


def _read_rows(rows: Any, few: int) -> pl.DataFrame:
    """The rows without pyarrow, if they are few and of simple types."""
    known = TYPES | {'"NULL"': pl.Null}
    schema = {name: known.get(str(kind)) for name, kind, *_ in rows.description}
    if None in schema.values() or not few:
        return _read_arrow(rows)
    first = pl.DataFrame(rows.fetchmany(few), schema, orient="row")
    if first.height == few:
        return first.vstack(_read_arrow(rows)).rechunk()  # see `fits_one_thread`
    rows.fetchall()  # to complete the result
    return first


def _read_arrow(rows: Any) -> pl.DataFrame:
    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the copy
        return pl.DataFrame(rows.to_arrow_table())


def fits_one_thread(frame: pl.DataFrame) -> bool:
    """Does one thread read the frame, as with `threads=1`?"""
    return frame.height <= ONE_CHUNK and frame.n_chunks() <= 1

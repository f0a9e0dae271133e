"""Rows between DuckDB and Python: frames that DuckDB reads in place, and the rows of a query."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from uuid import UUID

import duckdb
import polars as pl

import rankql
from rankql.core.base.arrow import Stream, failed_import, pandas_to_polars, require_pyarrow
from rankql.core.base.doors import call_extra
from rankql.core.base.errors import BY_HAND, RankqlError, require
from rankql.core.base.libraries import is_spark_connect, library
from rankql.core.tables.private import LOCK, lock_of_process

# Up to so many rows are read and registered without pyarrow as long as nothing has imported it: the
# import takes half as long as those of duckdb and polars together.
FEW = 10_000
# With pyarrow up to so many are read without it: its reader takes 0.3 ms, as long as a small query.
FEW_BESIDE_PYARROW = 100
# The types of columns that need no pyarrow.
TYPES = {
    "BIGINT": pl.Int64,
    "BOOLEAN": pl.Boolean,
    "DOUBLE": pl.Float64,
    "INTEGER": pl.Int32,
    "VARCHAR": pl.String,
    '"NULL"': pl.Null,
}
# Other types of numbers that DuckDB reads as they are.
_NUMBERS = {
    "TINYINT": pl.Int8, "SMALLINT": pl.Int16, "UTINYINT": pl.UInt8, "USMALLINT": pl.UInt16,
    "UINTEGER": pl.UInt32, "UBIGINT": pl.UInt64, "FLOAT": pl.Float32,
}  # fmt: skip
# Rows with lists of these need none up to a tenth of that number, as each element is an object.
_LISTS = {f"{name}[]": pl.List(kind) for name, kind in TYPES.items()}
# polars hangs if a thread reads or converts a frame while another one converts it to Arrow.
_CONVERTING = lock_of_process()
# Types that DuckDB does not read. Decimals of 38 digits hold nearly all of the integers.
_CASTS: dict[str, Any] = {
    **dict.fromkeys(("Int128", "UInt128"), pl.Decimal(38, 0)),
    "Float16": pl.Float32,
}


# What has its rows elsewhere, and the call that reads them. A dataset's .data.table has all rows,
# whatever its filters.
_CALLS = {
    "datasets": "with_format('arrow')[:]",
    "dask": "compute()",
    "datasets.IterableDataset": "pl.DataFrame(list(data))",
    "deltalake": "to_pyarrow_table()",
    "pyiceberg": "scan().to_arrow()",
    "pyiceberg.DataScan": "data.to_arrow()",
    "pyspark": "toArrow()",
    "vortex": "to_arrow()",
    "sqlalchemy": "mappings().all()",
    "sqlframe": "toArrow()",
}
# The type of the columns in which daft has objects of Python, as it reads dictionaries.
_PICKLED = "daft.super_extension"


def native(data: Any, label: str) -> Any:
    """A frame or Series of another library as one that is read, a Series as a dict."""
    kind = library(data)
    if kind == "narwhals":
        return native(data.to_native(), label)
    if is_spark_connect(data):
        raise RankqlError(
            f"{label} is a frame of Spark Connect. Evaluate it in Spark by rankql.spark.evaluate, "
            f"or pass data.{_CALLS['pyspark']}"
        )
    if kind == "sqlframe":  # where any attribute may be a column
        raise RankqlError(f"{label} is a DataFrame of sqlframe. Pass data.{_CALLS[kind]}")
    if kind == "fireducks" and hasattr(data, "to_frame"):  # a Series
        call = "data.to_frame().reset_index()"
        raise RankqlError(f"{label} is a Series of fireducks. Pass {call}, with names for both")
    if kind == "modin":
        return data.modin.to_pandas()
    if kind == "pandas" and hasattr(data, "index") and not hasattr(data, "columns"):
        if data.index.nlevels == 1:
            return data.to_dict()
        name = "rel" if label == "qrels" else "score"
        return data.to_frame(name if data.name is None else data.name).reset_index()
    batches = isinstance(data, list) and all(hasattr(x, "__arrow_c_array__") for x in data)
    if batches and data and all(hasattr(x, "columns") for x in data):
        return pl.concat([read_stream(x, label) for x in data], how="diagonal_relaxed")
    if getattr(getattr(data, "dtype", None), "names", None):  # an array with named fields
        return pl.DataFrame(data)
    if kind == "pyarrow" and hasattr(data, "combine_chunks") and "halffloat" in str(data.schema):
        return pl.DataFrame(data)
    if isinstance(data, duckdb.DuckDBPyConnection):
        raise RankqlError(f"{label} is a connection. Pass a relation: con.sql('SELECT ...')")
    scans = hasattr(data, "to_table") and not hasattr(data, "scanner")
    return data.to_table() if scans and kind in ("pyarrow", "lance") else data


def export_call(data: Any) -> str:
    """The call by which an object of another tool gives its rows, '' if it has none."""
    names = ("to_polars", "collect", "to_arrow", "to_df", "to_dataframe", "to_pandas", "to_dict")
    return next((f"data.{name}()" for name in names if callable(getattr(data, name, None))), "")


def read_stream(data: Any, label: str) -> pl.DataFrame:
    """The frame of an object that can be read as Arrow, with floats that DuckDB reads."""
    arrow = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    if not arrow:
        if isinstance(data, list) and not data:
            raise RankqlError(f"{label} is empty: it has no rows")
        name = "an empty text" if isinstance(data, str) else type(data).__name__
        kind = library(data)
        call = _CALLS.get(f"{kind}.{name}", f"data.{_CALLS[kind]}" if kind in _CALLS else "")
        if getattr(data, "ndim", 0) == 1:
            call = "pl.DataFrame({'query': np.repeat(range(len(sizes)), sizes), 'rel': labels, "
            call += "'score': scores}), or of ranks alone pl.DataFrame({'query': range(len(data)), "
            call += "'rank': data}) and rel='1'"
        if kind == "scipy":
            call = "pl.DataFrame({'query': m.row, 'item': m.col, 'score': m.data}) of m = x.tocoo()"
        call = call or export_call(data)
        call = f". Pass {call}" if call else ""
        array = f". See {BY_HAND('arrays')}" * hasattr(data, "shape")
        raise RankqlError(
            f"{label} must be a path, a table, a relation or a frame, not {name}{array}{call}"
        )
    try:
        frame = pl.DataFrame(data)
        pickled = [name for name, own in frame.schema.items() if _PICKLED in str(own)]
        call = f".cast(daft.DataType.string()) on daft.col({pickled[0]!r})" if pickled else ""
        lacks = f"{label}: {pickled} have objects of Python ({_PICKLED}). Use {call} first"
        require(not pickled, lacks)
        return frame
    except RankqlError:
        raise
    except Exception as error:  # of any library
        what = f"{label}: {type(data).__name__} cannot be read as Arrow"
        raise RankqlError(f"{what}: {str(error).partition(chr(10))[0]}") from error


def _readable(kind: pl.DataType) -> Any:
    """The type in which DuckDB reads a column of polars."""
    if isinstance(kind, pl.List):
        return pl.List(_readable(kind.inner))  # type: ignore[arg-type]
    return _CASTS.get(str(kind), kind)


def register_frame(con: duckdb.DuckDBPyConnection, name: str, data: Any) -> None:
    """Register a frame or a relation."""
    with _CONVERTING:
        if hasattr(con, "pl"):
            require_pyarrow("DuckDB 1")
        if isinstance(data, pl.DataFrame | pl.LazyFrame):
            data = _cast(data)
            if isinstance(data, pl.LazyFrame) and failed_import():
                data = data.collect()
        if isinstance(data, pl.DataFrame):
            data = data if hasattr(con, "pl") else _as_arrow(data)  # DuckDB 1.4, or 2
        con.register(name, data)


def _cast(data: Any) -> Any:
    """The frame with types that DuckDB reads."""
    casts = {
        name: kind for name, own in data.collect_schema().items() if (kind := _readable(own)) != own
    }
    for name, kind in casts.items():
        try:
            data = data.with_columns(pl.col(name).cast(kind))
        except pl.exceptions.InvalidOperationError as error:
            raise RankqlError(
                f"{name} has integers of more than 38 digits, which DuckDB does not read from "
                f"polars. Pass them as text: pl.col({name!r}).cast(pl.String)"
            ) from error
    return data


def simple_types(frame: Any) -> dict[str, str] | None:
    """The types of the columns of a polars frame in DuckDB; None if DuckDB must say them."""
    if not isinstance(frame, pl.DataFrame):
        return None
    names = {polars_type: name for name, polars_type in (TYPES | _NUMBERS).items()}
    types = {name: names.get(kind, "") for name, kind in frame.schema.items()}  # type: ignore[call-overload]
    distinct = len({name.lower() for name in types}) == len(types)
    return types if distinct and all(types.values()) else None


def polars_counts(frame: Any, names: Iterable[str]) -> tuple[int, dict[str, int]] | None:
    """The rows of a polars frame, and in how many there is a value, by the name of its column.

    polars knows them, where DuckDB converts all text to count it. None for other data.
    """
    if not isinstance(frame, pl.DataFrame):
        return None
    with _CONVERTING:
        rows, counts = frame.height, [column.null_count() for column in frame.iter_columns()]
    return rows, {name: rows - count for name, count in zip(names, counts, strict=True)}


def read_pandas(frame: Any, label: str) -> pl.DataFrame:
    """A frame of pandas as one of polars. NaN stays NaN, missing texts are NULL, mixed cells text.

    Refuses sets, which have no order.
    """
    columns: list[pl.Series] = []
    for name in frame.columns:
        values: Any = frame[name]
        order = f"a set has no order. Write lists, such as frame[{name!r}].map(list)"
        is_list = not any(isinstance(x, set | frozenset) for x in values.head(100))
        require(is_list, f"{label}: the cells of {name} cannot be read: {order}")
        column: Any = None
        for nan_to_null in (False, True):  # NaN among texts
            with suppress(TypeError, ValueError):
                column = pandas_to_polars(values, nan_to_null)
                break
        if column is None or any(isinstance(x, UUID) for x in values.head(100)):
            cells = [
                None if x is None else x if type(x) in (list, dict) else str(x) for x in values
            ]
            column = call_extra("column of objects", str(name), cells, label)
        columns.append(column.alias(str(name)))
    return pl.DataFrame(columns)


def _as_arrow(frame: pl.DataFrame) -> Any:
    """A frame of simple types as DuckDB 2 reads it without a copy of its text."""
    kinds = {*frame.dtypes}
    few = frame.height <= FEW and kinds <= {*TYPES.values()} and "pyarrow" not in sys.modules
    if few or failed_import():
        return Stream(frame)
    plain = (pl.String, pl.Boolean)
    if all(kind in plain or kind.is_numeric() or kind.is_temporal() for kind in kinds):
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(frame).read_all()
    return frame


def fetch_rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query as tuples. DuckDB needs pytz for times with a zone, polars does not."""
    rows = con.execute(query)
    if any("WITH TIME ZONE" in str(kind) for _, kind, *_ in rows.description or ()):
        return _to_frame(rows, query).rows()
    return rows.fetchall()


def read_frame(con: duckdb.DuckDBPyConnection, query: str) -> pl.DataFrame:
    """The rows of a query, which is planned once; a relation plans its query twice.

    For few rows this takes most of the time. The rows are copied once more, and keep their order
    unless preserve_insertion_order is off.
    """
    return _to_frame(con.execute(query), query)


def _to_frame(rows: Any, query: str) -> pl.DataFrame:
    """The rows of a connection that has executed a query."""
    if hasattr(rows, "pl"):  # DuckDB 1
        require_pyarrow("DuckDB 1")
        kinds = {name: str(kind).lower() for name, kind, *_ in rows.description}
        frame = plain_booleans(rows.pl())
        # polars 1.36 reads those of arrow_lossless_conversion as Int8.
        numbers = [
            x for x in frame.columns if frame[x].dtype == pl.Int8 and "bool" in kinds.get(x, "")
        ]
        return frame.with_columns(pl.col(numbers).cast(pl.Boolean)) if numbers else frame
    schema = {name: (TYPES | _LISTS).get(str(kind)) for name, kind, *_ in rows.description}
    if None in schema.values():
        return _read_arrow(rows, query)
    few = FEW if {*schema.values()} <= {*TYPES.values()} else FEW // 10
    few = FEW_BESIDE_PYARROW if "pyarrow" in sys.modules else few
    first = pl.DataFrame(rows.fetchmany(few), schema, orient="row")
    if first.height == few:
        return first.vstack(_read_arrow(rows, query, few))
    rows.fetchall()  # to complete the result
    return first


def _read_arrow(rows: Any, query: str, fetched: int = 0) -> pl.DataFrame:
    """The rows that are not fetched yet. Without pyarrow the query runs again, as a relation."""
    with LOCK, warnings.catch_warnings():
        if failed_import():
            rows.abort()
            return plain_booleans(pl.DataFrame(rows.sql(query))[fetched:])
        warnings.simplefilter("ignore", UserWarning)  # about the copy
        return plain_booleans(pl.DataFrame(rows.to_arrow_reader()))


def plain_booleans(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with booleans of polars. With arrow_lossless_conversion, DuckDB has its own."""
    own = [name for name, kind in frame.schema.items() if "arrow.bool8" in str(kind)]
    return frame.with_columns(frame[name].ext.storage().cast(pl.Boolean) for name in own)


def may_lack_threads() -> bool:
    """Was this process forked, or started by multiprocessing, which may fork?

    The threads of polars do not survive a fork: polars would wait for them for ever.
    """
    processes = sys.modules.get("multiprocessing.process")
    is_child = processes is not None and processes.parent_process() is not None
    return is_child or os.getpid() != rankql.__process__

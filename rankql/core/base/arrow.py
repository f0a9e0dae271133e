"""What pyarrow does, and what is done without it: beside NumPy 1 its latest version does not run.

pip takes that version although it needs NumPy 2. The first call that needs pyarrow imports it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.core.base.errors import RankqlError

if TYPE_CHECKING:
    import pandas as pd


@cache
def failed_import() -> str:
    """The first line of the error that the import of pyarrow raises, '' if it runs."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        return str(error).partition("\n")[0]
    return ""


def require_pyarrow(what: str) -> None:
    """Refuse what needs pyarrow if its import fails."""
    if failed_import():
        raise RankqlError(
            f"{what} needs pyarrow, whose import fails: {failed_import()}. pip install 'numpy>=2', "
            "or where NumPy is pinned, pip install 'pyarrow<22'"
        )


class Stream:
    """A polars frame as DuckDB reads it without pyarrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)


def relation_to_polars(relation: Any) -> pl.DataFrame:
    """The rows of a relation of DuckDB."""
    return pl.DataFrame(relation) if failed_import() else relation.pl()


def stream_to_polars(relation: Any) -> pl.DataFrame:
    """The rows of a relation of DuckDB 2 as a stream, which needs no import of pyarrow."""
    has_stream = hasattr(relation, "__arrow_c_stream__")
    return pl.DataFrame(relation) if has_stream else relation_to_polars(relation)


def polars_to_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """The frame in pandas."""
    if not failed_import():
        return frame.to_pandas()
    import pandas as pd

    return pd.DataFrame({column.name: column.to_numpy() for column in frame.iter_columns()})


def pandas_to_polars(data: Any, nan_to_null: bool = True) -> Any:
    """A frame or a Series of pandas in polars.

    Raises TypeError or ValueError if values of a column have several types.
    """
    if not failed_import():
        return pl.from_pandas(data, nan_to_null=nan_to_null)
    if hasattr(data, "columns"):
        return pl.DataFrame([pandas_to_polars(data[x], nan_to_null).alias(x) for x in data])
    kind = str(data.dtype)
    if kind.startswith(("int", "uint", "float", "bool", "datetime64", "timedelta64")):
        zone = getattr(data.dtype, "tz", None)
        naive = data if zone is None else data.dt.tz_convert("UTC").dt.tz_localize(None)
        column = pl.Series(data.name, naive.to_numpy(), nan_to_null=nan_to_null)
        if zone is not None:
            column = column.dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
        return column
    values = data.astype(object)
    if nan_to_null or kind != "object":  # other types have no NaN of their own
        values = values.where(data.notna(), None)
    return pl.Series(data.name, values.tolist())

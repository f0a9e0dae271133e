"""The library that an object is of, known without an import of it."""

from __future__ import annotations

from typing import Any


def library(value: Any) -> str:
    """The library of an object, as of a frame."""
    return type(value).__module__.partition(".")[0]


def is_spark_connect(value: Any) -> bool:
    """Is it of Spark Connect, where any attribute of a frame is a column?"""
    return type(value).__module__.startswith("pyspark.sql.connect")

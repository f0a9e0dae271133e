"""The metrics in Spark: as columns, and in queries. The code is in rankql/engines/spark.py."""

from collections.abc import Callable

from rankql.engines import spark as _engine
from rankql.engines.spark import evaluate, expr, sql

__all__ = ["evaluate", "expr", "sql"]


def __getattr__(name: str) -> Callable[..., object]:
    function: Callable[..., object] = getattr(_engine, name)
    return function


def __dir__() -> list[str]:
    return dir(_engine)

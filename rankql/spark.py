"""The metrics in Spark: as columns, in queries, and over complete runs with `evaluate`."""

from collections.abc import Callable

from rankql.engines import spark as _engine
from rankql.engines.spark import expr, sql
from rankql.engines.spark_evaluation import SparkResult
from rankql.engines.spark_evaluation import evaluate_in_spark as evaluate

__all__ = ["SparkResult", "evaluate", "expr", "sql"]


def __getattr__(name: str) -> Callable[..., object]:
    function: Callable[..., object] = getattr(_engine, name)
    return function


def __dir__() -> list[str]:
    return dir(_engine)

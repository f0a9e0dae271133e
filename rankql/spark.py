"""Metrics in Spark: as columns, in queries, and over complete runs with `evaluate`.

>>> from rankql import spark as metrics  # doctest: +SKIP
>>> df.groupBy("user").agg(metrics.ndcg("rel", "pos", k=10), metrics.ap())   # doctest: +SKIP

Metrics have the same names, arguments and values as in DuckDB. They are translated into Spark's own
functions, so nothing runs in Python. Wrong data is an error of the query.
"""

# ruff: noqa: E402  the packages are required before what imports them
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from rankql.core.base.errors import did_you_mean, require, require_package
from rankql.core.metrics import macros

require_package("pyspark", "spark", "rankql.spark")
require_package("sqlglot", "dialects", "translation")

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rankql.engines.spark_evaluation import SparkResult
from rankql.engines.spark_evaluation import evaluate_in_spark as evaluate
from rankql.engines.sql_trees import argument_error
from rankql.engines.translation import translate_call, translate_expression, translate_query

__all__ = ["SparkResult", "evaluate", "expr", "sql"]


def sql(spark: SparkSession, query: str) -> DataFrame:
    """Run a query in DuckDB's SQL that calls metrics.

    The query is translated as `rankql.translate(query, "spark")` does. Tables are those of the
    session, or paths of Parquet files.

    >>> rankql.spark.sql(session, "SELECT user, ndcg(rel, pos, 10) FROM shown GROUP BY user")
    ... # doctest: +SKIP
    """
    return spark.sql(translate_query(query))


def expr(text: str) -> Column:
    """A Column from an expression in DuckDB's SQL that calls metrics.

    >>> df.groupBy("user").agg(expr("ndcg(exp2_gain(rel), pos, 10)"))     # doctest: +SKIP
    """
    return _column(translate_expression(text), text)


def __getattr__(name: str) -> Callable[..., Column]:
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in macros.read_comments() or name not in macros.read_parameters():
        hint = did_you_mean(name, __dir__())
        raise AttributeError(f"rankql.spark has no {name!r}{hint}")
    return _metric(name)


def __dir__() -> list[str]:
    listed = [name for name in macros.read_comments() if name in macros.read_parameters()]
    return sorted([*listed, "evaluate", "expr", "sql"])


@cache
def _metric(name: str) -> Callable[..., Column]:
    parameters = macros.read_parameters()[name]

    def metric(*arguments: Any, **options: Any) -> Column:
        positional = dict(zip(parameters, arguments, strict=False))
        unknown = [option for option in options if option not in parameters or option in positional]
        if unknown or len(arguments) > len(parameters):
            raise argument_error(name, unknown[0] if unknown else "", parameters)
        needed = {p: p for p, default in parameters.items() if default is None}
        columns, values = dict[str, Any](), dict[str, Any]()
        for parameter, value in {**needed, **positional, **options}.items():
            if isinstance(value, Column):
                value = _name_of(value, f"{name}: {parameter}")
            # Some options name columns.
            named = parameter == "query" or (parameter == "ideal" and name.startswith("list_"))
            is_name = isinstance(value, str) and (named or parameter in needed)
            (columns if is_name else values)[parameter] = value
        return _column(translate_call(name, columns, values), name)

    metric.__name__ = metric.__qualname__ = name
    metric.__doc__ = f"{macros.read_comments()[name]} As in DuckDB, with columns by name."
    return metric


def _name_of(value: Column, argument: str) -> str:
    """The name of a column such as F.col("rel") or df.rel, which translations name."""
    text = str(value)[len("Column<'") : -len("'>")]
    found = text.strip("`")
    message = f"{argument} must be a column, not {text}. Make it one first: df.withColumn(...)"
    require(found.isidentifier(), message)
    return found


def _column(text: str, name: str) -> Column:
    require(SparkSession.getActiveSession() is not None, f"{name}: start a Spark session first")
    return F.expr(text).alias(name)

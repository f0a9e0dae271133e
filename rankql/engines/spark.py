"""The metrics in Spark: as columns, and in queries.

>>> from rankql import spark as metrics                                      # doctest: +SKIP
>>> df.groupBy("user").agg(metrics.ndcg("rel", "pos", k=10), metrics.ap())   # doctest: +SKIP

Every metric has the name, the arguments and the value that it has in DuckDB: it is the text of the
same macro, in Spark's own functions; nothing runs in Python. What has no translation is refused by
name. A group without rows has no value, and bad input is an error of the query that is run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from rankql import macros
from rankql.engines.spark_target import SPARK, spark_with_grades
from rankql.engines.translation import Target, translate_call, translate_expression, translate_query
from rankql.errors import RankqlError, did_you_mean, require_package

require_package("pyspark", "spark", "rankql.spark")
require_package("sqlglot", "dialects", "translation")

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def sql(spark: SparkSession, query: str) -> DataFrame:
    """A query in DuckDB's SQL that calls the metrics, run by Spark.

    The macros are expanded and translated; so is the query around them, as far as it means the
    same in Spark: a function or a piece of syntax of which that is not known is a RankqlError that
    names it. Tables are those of the session, and Parquet files by their path.

    >>> rankql.spark.sql(session, "SELECT user, ndcg(rel, pos, 10) FROM shown GROUP BY user")
    ... # doctest: +SKIP
    """
    return spark.sql(translate_query(query, SPARK))


def expr(text: str, grades: Iterable[float] | None = None) -> Column:
    """An expression in DuckDB's SQL that calls the metrics, as a Column.

    `grades` is for `ndcg` and `idcg` with k, and the functions of their names have it too: the
    numbers above 0 that rel (or the gain in its place) may be. The ideal is then found by counting
    each, in place of lists of all there are. Another number is an error of the query that is run.

    >>> df.groupBy("user").agg(expr("ndcg(exp2_gain(rel), pos, 10)", grades=[1, 3, 7]))
    ... # doctest: +SKIP
    """
    return _column(translate_expression(text, _target(grades)), text, grades)


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

    def metric(*arguments: Any, grades: Iterable[float] | None = None, **options: Any) -> Column:
        given = dict(zip(parameters, arguments, strict=False))
        unknown = [option for option in options if option not in parameters or option in given]
        if unknown or len(arguments) > len(parameters):
            listed = ", ".join(parameters)
            what = f"{unknown[0]!r}, unknown or twice" if unknown else "too many arguments"
            raise RankqlError(f"{name} is given {what}; it has: {listed}")
        needed = {p: p for p, default in parameters.items() if default is None}
        columns: dict[str, Any] = {}
        values: dict[str, Any] = {}
        for parameter, value in {**needed, **given, **options}.items():
            is_name = isinstance(value, str) and (
                parameter in needed or _is_column(name, parameter)
            )
            (columns if is_name else values)[parameter] = value
        return _column(translate_call(name, columns, values, _target(grades)), name, grades)

    metric.__name__ = metric.__qualname__ = name
    metric.__doc__ = f"{macros.read_comments()[name]} As in DuckDB; columns by their names."
    return metric


def _is_column(name: str, parameter: str) -> bool:
    """Does an option name a column?"""
    return parameter == "query" or (parameter == "ideal" and name.startswith("list_"))


def _target(grades: Iterable[float] | None) -> Target:
    return SPARK if grades is None else spark_with_grades(grades)


def _column(text: str, name: str, grades: Iterable[float] | None) -> Column:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    if grades is not None and "count_if" not in text:
        raise RankqlError(f"{name}: grades are of use to ndcg and idcg with k alone")
    if SparkSession.getActiveSession() is None:
        raise RankqlError(f"{name}: start a Spark session first{_java()}")
    return F.expr(text).alias(name)


def _java() -> str:
    """What is missing to start one."""
    home = os.environ.get("JAVA_HOME")
    there = shutil.which("java", path=f"{home}/bin" if home else None)
    return "" if there else "; it needs Java 17 or newer, which is not there"

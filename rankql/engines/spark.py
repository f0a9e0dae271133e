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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rankql import macros
from rankql.engines import partitions
from rankql.engines.spark_target import SPARK, spark_with_grades
from rankql.engines.translation import Target, translate_call, translate_expression, translate_query
from rankql.errors import RankqlError, did_you_mean, require_package
from rankql.evaluation.arguments import DEFAULT_METRICS, parse_groupings
from rankql.evaluation.intervals import require_interval
from rankql.evaluation.planning import pending_result, resolve_conventions
from rankql.evaluation.query import build_query
from rankql.evaluation.result import Result
from rankql.registry.conventions import choose
from rankql.registry.parse import parse
from rankql.sources.inputs import Inputs
from rankql.sources.session import open_session
from rankql.writing import output_path

require_package("pyspark", "spark", "rankql.spark")
require_package("sqlglot", "dialects", "translation")

from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema  # noqa: E402

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


def evaluate(
    run: DataFrame | Mapping[str, DataFrame],
    qrels: DataFrame | None = None,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: DataFrame | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | None = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
    output: str | os.PathLike[str] | None = None,
    memory: str = "1GB",
    conventions: str | None = None,
    **options: Any,
) -> Result:
    """`rankql.evaluate` of Spark's frames: the same arguments, conventions, errors and result.

    Runs, judgments and attributes are shuffled by query, once, and each partition is evaluated by
    DuckDB where it lies; only the values per query come back. The executors need rankql installed.
    A query is never split: its rows, and those of its partition, are held in the memory of a Python
    worker, and DuckDB has `memory` beside them before it uses the disk. Partitions are as many as
    spark.sql.shuffle.partitions says, small ones put together by Spark.

    ties='order' is refused: a shuffle keeps no order of rows.

    >>> rankql.spark.evaluate(run, qrels, ["nDCG@10", "AP"], by="segment")  # doctest: +SKIP
    """
    require_interval(interval, confidence)
    groups, resolved = parse_groupings(by), choose(conventions, options)
    if resolved.ties == "order":
        raise RankqlError("ties='order' has no meaning in Spark, where rows have no order")
    target = None if output is None else output_path(output)
    runs = dict(run) if isinstance(run, Mapping) else {None: run}
    frames = partitions.label_tables(runs, qrels, attributes)
    for label, frame in frames.items():
        if not hasattr(frame, "asTable"):
            raise RankqlError(f"{label} must be a DataFrame of Spark, not {type(frame).__name__}")
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    task = partitions.Task(
        [*runs], columns, system, (), groups, parse(metrics), resolved, memory, descending
    )
    with open_session(None) as duckdb_session:
        empty = {
            label: to_arrow_schema(frame.schema).empty_table() for label, frame in frames.items()
        }
        inputs = task.read_inputs(duckdb_session, empty)
        graded = {t.label: _grades(frames[t.label], inputs, task) for t in inputs.judging}
        sample = {label: graded.get(label, none) for label, none in empty.items()}
        inputs = task.read_inputs(duckdb_session, sample)
        resolved, parsed = resolve_conventions(duckdb_session, inputs, task.metrics, resolved)
        metrics_query = build_query(inputs, parsed, resolved)
        result = pending_result(
            duckdb_session, inputs, metrics_query, resolved, groups, interval, confidence
        )
    task = replace(task, metrics=parsed, conventions=resolved, systems=_systems(frames, inputs))
    shape = partitions.partition_schema(task, empty)
    values = pl.DataFrame(_distributed(task, frames, inputs, shape).toArrow())
    result.notes = partitions.merge_reports(values[partitions.REPORT].drop_nulls())
    rows = values.filter(pl.col(partitions.REPORT).is_null()).drop(partitions.REPORT)
    result.values = rows.sort(result.keys, nulls_last=True)
    result.check()
    if target:
        result.save_values(target)
    return result


def _grades(frame: DataFrame, inputs: Inputs, task: partitions.Task) -> pa.Table:
    """Rows of a table that has the grades: the highest, or all where all are needed; or none."""
    from pyspark.sql import functions as F

    (name,) = {
        table.roles["rel"] for table in inputs.judging if table.roles["rel"] in frame.columns
    }
    conventions = vars(task.conventions)
    exponential = any(m.record and m.gain(conventions) == "exp2" for m in task.metrics)
    grade = F.col(quoted_name(name))
    schema = to_arrow_schema(frame.schema)
    if task.conventions.unjudged == "bounds":
        selected = frame.select(grade).distinct()
    elif exponential or any(metric.scaled for metric in task.metrics):
        selected = frame.agg(F.max(grade).alias(name))
    else:
        return schema.empty_table()
    grades = selected.toArrow()
    return pa.Table.from_arrays(
        [
            grades[0].cast(field.type) if field.name == name else pa.nulls(len(grades), field.type)
            for field in schema
        ],
        names=schema.names,
    )


def _systems(frames: Mapping[str, DataFrame], inputs: Inputs) -> tuple[str, ...]:
    """The systems of a run that has several."""
    from pyspark.sql import functions as F

    if inputs.system is None:
        return ()
    name = F.col(quoted_name(inputs.system)).cast("string")
    rows = frames["run"].select(name).distinct().collect()
    return tuple(sorted(row[0] for row in rows if row[0] is not None))


def _distributed(
    task: partitions.Task, frames: Mapping[str, DataFrame], inputs: Inputs, shape: pa.Schema
) -> DataFrame:
    """All rows of a query in one partition, each partition evaluated."""
    from pyspark.sql import functions as F
    from pyspark.sql.functions import arrow_udtf
    from pyspark.sql.types import IntegralType, NumericType, StringType

    selected, keys = {}, {}
    for table in inputs.tables:
        names = [
            *table.roles.values(),
            *inputs.ids(table),
            *inputs.attributes_in(inputs.home(table)),
        ]
        frame = frames[table.label]
        selected[table.label] = frame.select(*(F.col(quoted_name(n)) for n in dict.fromkeys(names)))
        keys[table.label] = selected[table.label].schema[table.roles["query"]].dataType
    kinds = [*keys.values()]
    plain = all(isinstance(kind, IntegralType | StringType) for kind in kinds)
    numbers = all(isinstance(kind, NumericType) for kind in kinds)
    if not (plain or numbers or len(set(kinds)) == 1):
        listed = ", ".join(f"{kind.simpleString()} in {label}" for label, kind in keys.items())
        raise RankqlError(f"query is {listed}; cast them to one type")
    as_key = "double" if numbers and len(set(kinds)) > 1 else "string"
    rows_by_table = []
    for i, table in enumerate(inputs.tables):
        key = F.col(quoted_name(table.roles["query"])).cast(as_key).alias("key")
        rows = [
            (
                F.struct(*(F.col(quoted_name(name)) for name in frame.columns))
                if label == table.label
                else F.lit(None).cast(frame.schema)
            ).alias(str(j))
            for j, (label, frame) in enumerate(selected.items())
        ]
        rows_by_table.append(selected[table.label].select(key, F.lit(i).alias("side"), *rows))
    together = (
        reduce(lambda one, other: one.union(other), rows_by_table).repartition("key").drop("key")
    )
    labels = [table.label for table in inputs.tables]

    class Evaluated:
        """The rows of one partition, evaluated once all have come."""

        def __init__(self) -> None:
            self.held: list[pa.RecordBatch] = []

        def eval(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
            self.held.append(batch)
            return iter(())

        def terminate(self) -> Iterator[pa.Table]:
            if not self.held:
                return
            rows = pa.Table.from_batches(self.held)
            tables = {}
            for i, label in enumerate(labels):
                side = rows.filter(pc.equal(rows["side"], i))[str(i)].combine_chunks()
                names = [field.name for field in side.type]
                tables[label] = pa.Table.from_arrays(side.flatten(), names=names)
            values = partitions.evaluate_partition(task, tables)
            missing = [pl.lit(None).alias(n) for n in shape.names if n not in values.columns]
            yield values.with_columns(missing).select(shape.names).to_arrow().cast(shape)

    # A table function, for mapInArrow asks for pandas.
    function: Any = arrow_udtf(Evaluated, returnType=from_arrow_schema(shape))
    values: DataFrame = function(together.asTable())
    return values


def quoted_name(name: str) -> str:
    """A column by its name, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


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

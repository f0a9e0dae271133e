"""Sessions of Spark for the tests, and the metrics in it as an engine of engines.py."""

import atexit
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, reduce

import pyarrow as pa

from support import metric_engines, signatures

# Short lives: what is compiled well is compiled too late.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What Spark would warn about or open is of no use here.
PLAIN = {
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    # Pages of 64 MB and the plans of a thousand queries fill the memory.
    "spark.buffer.pageSize": "1m",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Of many small queries most of the time goes into compiling them.
NO_CODEGEN = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
INTERPRETED = NO_CODEGEN | {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.constraintPropagation.enabled": "false",
}


@contextmanager
def session(master="local[1]", **settings):
    """A session of this process."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    for name, value in {**PLAIN, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@cache
def of_process():
    """The session of all tests of this process: to start one takes ten seconds."""
    opened = session(**INTERPRETED)
    spark = opened.__enter__()
    atexit.register(opened.__exit__, None, None, None)
    return spark


def table(metric, groups, types=None):
    """The groups of a metric as an Arrow table, numbers first."""
    rows = metric_engines.frame(metric_engines.flat(metric, groups), types or {})
    rows = rows.select(
        sorted(rows.columns, key=lambda name: name not in metric_engines.NUMBERS)
    ).to_arrow()
    return rows.cast(pa.schema([field.with_type(plain(field.type)) for field in rows.schema]))


def plain(kind):
    """The type, with texts as every engine takes them."""
    if pa.types.is_large_list(kind):
        return pa.large_list(plain(kind.value_type))
    return pa.string() if kind in (pa.string_view(), pa.large_string()) else kind


def text(metric, options, groups):
    """The call of a metric, as it is written in DuckDB."""
    given, options = metric_engines.names(metric), with_ideal(metric, options, groups)
    query = metric_engines.call(metric, [n for n in given if n not in ("query", "ideal")], options)
    for name in ("rels", "ideal"):  # Spark has no comprehensions
        comprehended = f"[exp2_gain(rel) for rel in {name}]"
        query = query.replace(comprehended, f"list_transform({name}, lambda x: exp2_gain(x))")
    return query


def with_ideal(metric, options, groups):
    """The options, with the column that some list needs."""
    needed = metric.startswith("list_") and any(ideal is not None for _, ideal in groups)
    return {**options, **({"ideal": metric_engines.Column("ideal")} if needed else {})}


@dataclass
class Frames:
    """df.groupBy("g").agg(rankql.spark.ndcg("rel", "pos", k=10))"""

    spark: object

    def many(self, metric, calls):
        parts, first = [], 0
        values = [self.value(metric, options, groups) for options, groups in calls]
        frame = self.spark.createDataFrame(table(metric, groups_of(calls))).coalesce(1)
        for value, (_, groups) in zip(values, calls, strict=True):
            last = first + len(groups) - 1
            rows = frame.where(f"g BETWEEN {first} AND {last}")
            lists = metric.startswith("list_")
            parts.append(rows.select("g", value) if lists else rows.groupBy("g").agg(value))
            for g in [g for g, group in enumerate(groups, first) if not group]:
                empty = rows.where(f"g = {g}").agg(value)
                parts.append(empty.selectExpr(f"{g}L AS g", "value"))
            first = last + 1
        values = reduce(lambda a, b: a.union(b), parts).collect()
        return metric_engines.in_order(values, groups_of(calls))

    @staticmethod
    def value(metric, options, groups):
        import rankql.spark

        if "gain" in options:
            value = rankql.spark.expr(text(metric, options, groups))
        else:
            value = getattr(rankql.spark, metric)(**with_ideal(metric, options, groups))
        return value.alias("value")


def groups_of(calls):
    return [group for _, groups in calls for group in groups]


EVERY = ["exp2_gain", *signatures.METRICS, *signatures.LISTS, *signatures.SCORES]

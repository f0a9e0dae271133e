"""Sessions of Spark for the tests, and the metrics in it as an engine of engines.py."""

import os
import shutil
import sys
from contextlib import contextmanager
from functools import reduce
from itertools import groupby

import api
import engines
import pyarrow as pa

# What Spark would warn about or open is of no use here.
PLAIN = {
    # Short lives: what is compiled well is compiled too late.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Of many small queries most of the time goes into compiling them.
INTERPRETED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
TYPES = {"item": pa.string(), "query": pa.int64(), "g": pa.int64()}


@contextmanager
def session(master="local[1]", **settings):
    """A session of this process."""
    from pyspark.sql import SparkSession

    assert shutil.which("java"), (
        "pyspark needs Java 17 or newer: apt-get install openjdk-17-jre-headless"
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    for name, value in {**PLAIN, **settings}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    try:
        yield made
    finally:
        made.stop()


def table(metric, groups, types=None):
    """The groups of a metric as an Arrow table."""
    data = engines.flat(metric, groups)
    frame = engines.frame({n: v for n, v in data.items() if n in engines.NUMBERS}, types or {})
    columns = {name: frame[name].to_arrow() for name in frame.columns}
    columns |= {n: pa.array(v, TYPES[n]) for n, v in data.items() if n not in columns}
    return pa.table(columns)


def text(metric, options, groups):
    """The call of a metric, as it is written in DuckDB."""
    given, options = engines.names(metric), dict(options)
    if metric.startswith("list_") and any(ideal is not None for _, ideal in groups):
        options["ideal"] = engines.Column("ideal")
    if options.get("query"):
        options["query"] = engines.Column(options["query"])
    made = engines.call(metric, [n for n in given if n not in ("query", "ideal")], options)
    for name in ("rels", "ideal"):  # Spark has no comprehensions
        comprehended = f"[exp2_gain(rel) for rel in {name}]"
        made = made.replace(comprehended, f"list_transform({name}, lambda x: exp2_gain(x))")
    return made


def values(spark, metric, cases):
    """The value of each case, a few options in one job; `absent` where a group has no rows."""
    from rankql.spark import expr

    frames, order = [], []
    key = lambda case: str(case.options)  # noqa: E731
    for i, (_, alike) in enumerate(groupby(sorted(cases, key=key), key)):
        alike = list(alike)
        order += [((i, g), case) for g, case in enumerate(alike)]
        groups = [case.group for case in alike]
        frame = spark.createDataFrame(table(metric, groups))
        value = expr(text(metric, alike[0].options, groups)).alias("value")
        made = (
            frame.select("g", value)
            if metric.startswith("list_")
            else frame.groupBy("g").agg(value)
        )
        frames.append(made.selectExpr(f"{i} AS i", "g", "value"))
    jobs = [frames[at : at + 4] for at in range(0, len(frames), 4)]
    rows = [row for job in jobs for row in reduce(lambda a, b: a.union(b), job).collect()]
    found = {(row.i, row.g): row.value for row in rows}
    return [(case, found.get(at, "absent")) for at, case in order]


METRICS = [*api.RANKING, *api.MICRO, *api.RATING, *api.TWO_RANKINGS]
EVERY = ["exp2_gain", *METRICS, *api.LISTS, *api.SCORES]

"""Spark: a metric as a Column, and an evaluation, against a sum.

    python tests/benchmarks/spark.py [MASTER] [NAME=VALUE ...]

The master is local[1] unless given; settings of the session are such as
spark.sql.objectHashAggregate.sortBased.fallbackThreshold=1000000.

Times are in units of `sum(rel) GROUP BY user` of the same Parquet; the tasks take turns, and the
median counts. Spark itself counts what is shuffled; docs/speed.md is written from it.
"""

import json
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import rankql.spark as metrics  # noqa: E402
from support.spark_sessions import session  # noqa: E402

# As in a long life, in the end.
COMPILED = {"spark.driver.extraJavaOptions": "", "spark.driver.memory": "2g"}
# Executors of their own find the sources there; the counts are had from the interface.
COMPILED |= {"spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path)}
COMPILED |= {"spark.ui.enabled": "true", "spark.ui.port": "0"}
COMPILED |= {"spark.ui.retainedStages": "1000", "spark.ui.retainedJobs": "1000"}


def stages(spark):
    """What Spark has counted, by stage."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete"
    with urllib.request.urlopen(url) as answer:
        return {stage["stageId"]: stage for stage in json.load(answer)}


def measured(spark, work):
    """Seconds, and the rows and bytes that were shuffled."""
    before = stages(spark)
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    ran = [stage for key, stage in stages(spark).items() if key not in before]
    counted = ("shuffleWriteRecords", "shuffleWriteBytes")
    return seconds, *(sum(stage[name] for stage in ran) for name in counted)


def written(spark, folder, per=100):
    """A ranked table of 50,000 groups, and the same as a run with scores and its judgments."""
    table = spark.range(0, 50_000 * per, 1, 8).selectExpr(
        f"CAST(id DIV {per} AS INT) AS user",
        f"CAST(id % {per} AS INT) AS item",
        "CAST(CASE WHEN hash(id) % 10 > 6 THEN 1 + abs(hash(id)) % 4 ELSE 0 END AS INT) AS rel",
        f"CAST(id % {per} + 1 AS INT) AS pos",
        f"CAST({per} - id % {per} AS DOUBLE) AS score",
    )
    table.repartition(8).write.parquet(f"{folder}/ranked")
    ranked = spark.read.parquet(f"{folder}/ranked")
    ranked.selectExpr("user AS query", "item", "score").write.parquet(f"{folder}/run")
    judged = ranked.where("pos % 4 = 0").selectExpr("user AS query", "item", "rel")
    judged.write.parquet(f"{folder}/qrels")
    return (spark.read.parquet(f"{folder}/{name}") for name in ("ranked", "run", "qrels"))


def ran(frame):
    """Everything in the frame is worked out, and kept nowhere."""
    frame.write.format("noop").mode("overwrite").save()


def main(master="local[1]", *settings):
    settings = COMPILED | dict(setting.split("=", 1) for setting in settings)
    with tempfile.TemporaryDirectory() as folder, session(master, **settings) as spark:
        ranked, run, qrels = written(spark, folder)
        by_user = ranked.groupBy("user")
        tasks = {
            "sum(rel)": lambda: ran(by_user.sum("rel")),
            "ndcg(k=10)": lambda: ran(by_user.agg(metrics.ndcg(k=10))),
            "join and sum": lambda: ran(
                qrels.join(run, ["query", "item"], "left").groupBy("query").sum("rel")
            ),
            "evaluate": lambda: metrics.evaluate(run, qrels, "nDCG@10", interval=None),
        }
        times = {name: [] for name in tasks}
        for _ in range(6):
            for name, task in tasks.items():
                times[name].append(measured(spark, task))
        # The first of several compiled.
        medians = {
            name: [*map(statistics.median, zip(*each[1:], strict=True))]
            for name, each in times.items()
        }
        unit = medians["sum(rel)"][0]
        print(f"{'':20} {'s':>6} {'× sum':>6} {'shuffled':>10} {'B each':>6}")
        for name, (seconds, records, size) in medians.items():
            ratio = seconds / unit
            print(f"{name:20} {seconds:6.2f} {ratio:6.1f} {records:10,.0f} {size / records:6.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])

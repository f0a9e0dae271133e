"""Spark: a metric as a Column and whole evaluations against a sum, and against what else there is.

    python tests/benchmarks/spark.py [--rows 5000000] [--groups 50000] [--master local[1]]
        [--conf spark.sql.objectHashAggregate.sortBased.fallbackThreshold=1000000]
    python tests/benchmarks/spark.py --queries 10000000

Everything is in units of `sum(rel) GROUP BY user` of the same run, from the same Parquet; the works
take turns, and the median of their times counts. What is shuffled, and for how long cores were
busy, is what Spark itself has counted; docs/speed.md is written from it.

With --queries, rankql.spark.evaluate alone runs, on two executors and with 1 GB of memory for the
driver: time, memory, and how far the means are from those of rankql.evaluate.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import duckdb  # noqa: E402
import polars as pl  # noqa: E402

import rankql  # noqa: E402
import rankql.spark as metrics  # noqa: E402
from support.spark_sessions import session  # noqa: E402

# As in a long life, in the end.
COMPILED = {"spark.driver.extraJavaOptions": "", "spark.driver.memory": "2g"}
# Executors of their own find the sources there; the counts are had from the interface.
COMPILED |= {"spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path)}
COMPILED |= {"spark.ui.enabled": "true", "spark.ui.port": "0"}


def stages(spark):
    """What Spark has counted, by stage."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete"
    with urllib.request.urlopen(url) as answer:
        return {stage["stageId"]: stage for stage in json.load(answer)}


def measured(spark, work):
    """Seconds, the rows and bytes that were shuffled, and seconds in which a core was busy."""
    before = stages(spark)
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    ran = [stage for key, stage in stages(spark).items() if key not in before]
    counted = ("shuffleWriteRecords", "shuffleWriteBytes", "executorRunTime")
    return seconds, *(sum(stage[name] for stage in ran) for name in counted)


def written(spark, folder, rows, groups):
    """A ranked table, and the same as a run with scores and its judgments."""
    per = rows // groups
    table = spark.range(0, rows, 1, 8).selectExpr(
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


def with_pandas(group):
    """nDCG@10 of one group, as it would be written with pandas."""
    import numpy as np
    import pandas as pd

    weights = 1 / np.log2(np.arange(2, 12))
    gains = group.sort_values("pos")["rel"].to_numpy()[:10]
    ideal = np.sort(group["rel"].to_numpy())[::-1][:10]
    best = (ideal * weights[: len(ideal)]).sum()
    value = (gains * weights[: len(gains)]).sum() / best if best else None
    return pd.DataFrame({"user": [group["user"].iloc[0]], "ndcg": [value]})


def ranking_metrics(ranked):
    """Spark's own, which takes lists: it is binary, and gives the mean alone."""
    from pyspark.mllib.evaluation import RankingMetrics

    lists = ranked.groupBy("user").agg(
        of_spark("transform(sort_array(collect_list(struct(pos, item))), x -> x.item)"),
        of_spark("collect_list(item) FILTER (WHERE rel > 0)"),
    )
    pairs = lists.rdd.map(lambda row: (row[1], row[2])).filter(lambda pair: pair[1])
    return RankingMetrics(pairs).ndcgAt(10)


def of_spark(text):
    from pyspark.sql.functions import expr

    return expr(text)


TRANSLATED = """
WITH ranked AS (
    SELECT query, item, row_number() OVER (PARTITION BY query ORDER BY score DESC) AS pos FROM run)
SELECT query, ndcg(rel, pos, 10) AS ndcg
FROM qrels LEFT JOIN ranked USING (query, item) GROUP BY query
"""


# Five items of each query, two of which are judged, in SQL that both engines understand.
MANY = {
    "run": (5, "id // 5 AS query, id % 5 AS item, CAST(5 - id % 5 AS DOUBLE) AS score"),
    "qrels": (2, "id // 2 AS query, id % 2 * 2 + id // 2 % 2 AS item, id // 3 % 5 % 4 AS rel"),
}


def evaluate_many(queries, partitions):
    """Evaluate on two executors with a small driver, then in DuckDB."""
    asked = ["nDCG@10", "AP", "P@5"]
    settings = COMPILED | {"spark.driver.memory": "1g", "spark.executor.memory": "2g"}
    summaries = []
    with session("local-cluster[2,1,2048]", **settings) as spark:
        frames = [
            spark.range(rows * queries).selectExpr(*text.replace("//", "DIV").split(", "))
            for rows, text in MANY.values()
        ]
        for number in partitions:
            spark.conf.set("spark.sql.shuffle.partitions", number)
            start = time.perf_counter()
            summaries.append(metrics.evaluate(*frames, asked).summary)
            seconds = time.perf_counter() - start
            print(f"{queries:,} queries in {number} partitions: {seconds:.0f} s", flush=True)
        pids = {"Java": spark.sparkContext._gateway.proc.pid, "Python": "self"}
        for name, pid in pids.items():
            (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
            print(f"the driver's {name}: at most {int(peak) / 1e6:.2f} GB")
    con = duckdb.connect()
    for name, (rows, text) in MANY.items():
        con.execute(f"CREATE VIEW {name} AS SELECT {text} FROM range({rows * queries}) AS t (id)")
    summaries.append(rankql.evaluate("run", "qrels", asked, con=con).summary)
    *theirs, ours = (summary.select("mean", "lo", "hi") for summary in summaries)
    distances = [(means - ours).select(pl.all().abs()).max().row(0) for means in theirs]
    print(f"distance of means and intervals from those of rankql.evaluate: {distances}")
    print(summaries[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--groups", type=int, default=50_000)
    parser.add_argument("--master", default="local[1]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--conf", action="append", default=[], help="a setting of the session")
    parser.add_argument("--only", default="", help="the works whose names a pattern is found in")
    parser.add_argument("--queries", type=int, help="only evaluate so many, with a small driver")
    parser.add_argument("--partitions", type=int, nargs="+", default=[200])
    given = parser.parse_args()
    if given.queries:
        return evaluate_many(given.queries, given.partitions)
    settings = COMPILED | dict(setting.split("=", 1) for setting in given.conf)
    with tempfile.TemporaryDirectory() as folder, session(given.master, **settings) as spark:
        ranked, run, qrels = written(spark, folder, given.rows, given.groups)
        run.createOrReplaceTempView("run")
        qrels.createOrReplaceTempView("qrels")
        by_user = ranked.groupBy("user")
        works = {
            "sum(rel)": lambda: ran(by_user.sum("rel")),
            **{
                name: lambda column=column: ran(by_user.agg(column))
                for name, column in {
                    "ndcg(k=10)": metrics.ndcg(k=10),
                    "ndcg(k=10, grades=[1, 2, 3, 4])": metrics.ndcg(k=10, grades=[1, 2, 3, 4]),
                    "a list of rel": of_spark("size(collect_list(rel) FILTER (WHERE rel > 0))"),
                    "ap()": metrics.ap(),
                    "rr()": metrics.rr(),
                    "err(k=10)": metrics.err(k=10, max_rel=4),
                    "precision_at(k=10)": metrics.precision_at(k=10),
                }.items()
            },
            "five in one": lambda: ran(
                by_user.agg(
                    metrics.ndcg(k=10),
                    metrics.ap(),
                    metrics.rr(),
                    metrics.err(k=10, max_rel=4),
                    metrics.precision_at(k=10),
                )
            ),
            "run and judgments: join and sum": lambda: ran(
                qrels.join(run, ["query", "item"], "left").groupBy("query").sum("rel")
            ),
            "run and judgments: window, join, ndcg": lambda: ran(metrics.sql(spark, TRANSLATED)),
            "run and judgments: evaluate": lambda: metrics.evaluate(
                run, qrels, "nDCG@10", interval=None
            ),
            "RankingMetrics, nDCG@10": lambda: ranking_metrics(ranked),
            "applyInPandas, nDCG@10": lambda: ran(
                by_user.applyInPandas(with_pandas, "user int, ndcg double")
            ),
        }
        works = {name: work for name, work in works.items() if re.search(given.only, name)}
        found = {name: [] for name in works}
        for i in range(given.rounds + 1):
            for name, work in works.items():
                if i == 1 or not name.startswith(("Ranking", "apply")):
                    found[name].append(measured(spark, work))
        # The first of several compiled.
        medians = {
            name: [*map(statistics.median, zip(*(each[1:] or each), strict=True))]
            for name, each in found.items()
        }
        unit = medians["sum(rel)"][0]
        print(f"{'':40} {'s':>6} {'× sum':>6} {'shuffled':>10} {'B each':>6} {'rows / s core':>13}")
        for name, (seconds, records, size, busy) in medians.items():
            print(
                f"{name:40} {seconds:6.2f} {seconds / unit:6.1f} {records:10,.0f} "
                f"{size / records:6.1f} {given.rows * 1000 / busy:13,.0f}"
            )


if __name__ == "__main__":
    main()

"""Another tool in a process of its own, with its own interpreter where its versions conflict.

    python tests/benchmarks/peer.py TOOL nDCG@10|AP RUN.parquet QRELS.parquet

Prints a line of JSON with the tool's version; then, for every line on stdin, the seconds from the
two files to the mean over all queries, and the mean. The first one includes imports. Each tool is
called as its documentation shows it, with its input made by polars, or by pandas if it takes that.
This file imports nothing of rankql: it runs where rankql is not installed.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
import time
from importlib.metadata import PackageNotFoundError, version

import polars as pl


def nested(path: str, value: str) -> dict[str, dict[str, float]]:
    """The dict of dicts that trec_eval's wrappers take, without a loop over rows."""
    lists = pl.read_parquet(path).group_by("query").agg("item", value)
    return {
        query: dict(zip(items, values, strict=True)) for query, items, values in lists.iter_rows()
    }


def joined(run: str, qrels: str) -> pl.DataFrame:
    """The run with its grades, 0 where there is none: for tools that take scored items only."""
    judgments = pl.scan_parquet(qrels)
    rows = pl.scan_parquet(run).join(judgments, on=["query", "item"], how="left")
    return rows.with_columns(pl.col("rel").fill_null(0)).collect()


def pytrec_eval(metric: str, run: str, qrels: str) -> float:
    """pytrec_eval.RelevanceEvaluator; the mean is that of its values per query."""
    import pytrec_eval as library

    name = {"nDCG@10": "ndcg_cut_10", "AP": "map"}[metric]
    result = library.RelevanceEvaluator(nested(qrels, "rel"), {name}).evaluate(nested(run, "score"))
    return statistics.fmean(values[name] for values in result.values())


def ir_measures(metric: str, run: str, qrels: str) -> float:
    """ir_measures.calc_aggregate of dicts, which it takes sooner than frames."""
    import ir_measures as library

    measure = library.parse_measure(metric)
    result = library.calc_aggregate([measure], nested(qrels, "rel"), nested(run, "score"))
    return float(result[measure])


def ranx(metric: str, run: str, qrels: str) -> float:
    """ranx.evaluate of frames; the first call compiles for half a minute."""
    import ranx as library

    # It takes strings as objects, grades as 64 bits.
    kinds = {"query": object, "item": object}
    judgments = pl.read_parquet(qrels).to_pandas().astype({**kinds, "rel": "int64"})
    scores = pl.read_parquet(run).to_pandas().astype(kinds)
    return float(
        library.evaluate(
            library.Qrels.from_df(judgments, "query", "item", "rel"),
            library.Run.from_df(scores, "query", "item", "score"),
            {"nDCG@10": "ndcg@10", "AP": "map"}[metric],
        )
    )


def sklearn(metric: str, run: str, qrels: str, ignore_ties: bool = False) -> float:
    """sklearn.metrics.ndcg_score of two matrices: every query has equally many scored items."""
    from sklearn.metrics import ndcg_score

    rows = joined(run, qrels).sort("query")
    queries = rows["query"].n_unique()
    grades, scores = (rows[name].to_numpy().reshape(queries, -1) for name in ("rel", "score"))
    return float(ndcg_score(grades, scores, k=10, ignore_ties=ignore_ties))


def polars_ds(metric: str, run: str, qrels: str) -> float:
    """polars_ds.query_ndcg_score, an expression by query; with ties it needs polars 1."""
    import polars_ds as library

    ndcg = library.query_ndcg_score("rel", "score", k=10, ignore_ties=True)
    values = joined(run, qrels).lazy().group_by("query").agg(ndcg.alias("ndcg"))
    return float(values.select(pl.col("ndcg").mean()).collect().item())


def torchmetrics(metric: str, run: str, qrels: str) -> float:
    """torchmetrics.retrieval.RetrievalNormalizedDCG, on the CPU."""
    from torchmetrics.retrieval import RetrievalNormalizedDCG

    rows, ndcg = joined(run, qrels), RetrievalNormalizedDCG(top_k=10)
    ndcg.update(
        rows["score"].to_torch(),
        rows["rel"].cast(pl.Int64).to_torch(),
        indexes=rows["query"].rank("dense").cast(pl.Int64).to_torch(),
    )
    return float(ndcg.compute())


def rectools(metric: str, run: str, qrels: str) -> float:
    """rectools.metrics.NDCG of the ten best recommendations and all interactions; binary."""
    from rectools.metrics import NDCG

    place = pl.col("score").rank("ordinal", descending=True).over("query")
    best = pl.scan_parquet(run).with_columns(place.alias("rank")).filter(pl.col("rank") <= 10)
    relevant = pl.scan_parquet(qrels).filter(pl.col("rel") >= 1)
    names = {"query": "user_id", "item": "item_id"}
    return float(
        NDCG(k=10, divide_by_achievable=True).calc(
            best.select("query", "item", "rank").rename(names).collect().to_pandas(),
            relevant.select("query", "item").rename(names).collect().to_pandas(),
        )
    )


def spark(metric: str, run: str, qrels: str) -> float:
    """pyspark.mllib.evaluation.RankingMetrics of lists that Spark makes; binary."""
    from pyspark.mllib.evaluation import RankingMetrics
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for place in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(place, "127.0.0.1")
    # A partition per core, where 200 is the default. The first call starts the session.
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    best = f.sort_array(f.collect_list(f.struct("score", "item")), asc=False)
    ranked = session.read.parquet(run).groupBy("query").agg(best["item"].alias("ranked"))
    judged = session.read.parquet(qrels).groupBy("query")
    relevant = f.collect_list(f.when(f.col("rel") >= 1, f.col("item"))).alias("relevant")
    both = ranked.join(judged.agg(relevant), "query").select("ranked", "relevant")
    return float(RankingMetrics(both.rdd.map(tuple)).ndcgAt(10))


# By name: its function here, and the name of its distribution.
TOOLS = {
    "pytrec_eval": (pytrec_eval, "pytrec_eval-terrier"),
    "ir_measures": (ir_measures, "ir_measures"),
    "ranx": (ranx, "ranx"),
    "scikit-learn": (sklearn, "scikit-learn"),
    # Without a mean over tied items, which this data does not have: much faster.
    "scikit-learn, ignore_ties": (functools.partial(sklearn, ignore_ties=True), "scikit-learn"),
    "polars_ds": (polars_ds, "polars-ds"),
    "torchmetrics": (torchmetrics, "torchmetrics"),
    "RecTools": (rectools, "rectools"),
    "Spark": (spark, "pyspark"),
}


def main() -> None:
    """Measure as often as stdin says."""
    name, *arguments = sys.argv[1:]
    # What libraries print goes to stderr; stdout is for the lines of JSON.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    value, distribution = TOOLS[name]
    try:
        print(json.dumps({distribution: version(distribution)}), file=answers)
    except PackageNotFoundError:
        print(json.dumps({"missing": distribution}), file=answers)
        return
    for _ in sys.stdin:
        start = time.perf_counter()
        mean = value(*arguments)
        result = {"seconds": time.perf_counter() - start, "value": mean}
        print(json.dumps(result), file=answers)


if __name__ == "__main__":
    main()

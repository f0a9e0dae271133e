"""One peer in a process of its own, with an interpreter of its own where its versions conflict.

    python tests/benchmarks/peer.py PEER nDCG@10|AP RUN.parquet QRELS.parquet

Says a line of JSON with its version when its imports are done; then, for every line on stdin, the
seconds from the two files to the mean over all queries, and the mean. Each peer is written as its
documentation shows it, with its input made by polars, or by pandas where that is what it takes.
This file imports nothing of rankql: it runs where rankql is not installed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import polars as pl

Value = Callable[[str, str], float]


def nested(path: str, value: str) -> dict[str, dict[str, float]]:
    """The dict of dicts that trec_eval's wrappers take, without a loop over rows."""
    lists = pl.read_parquet(path).group_by("query").agg("item", value)
    return {
        query: dict(zip(items, values, strict=True)) for query, items, values in lists.iter_rows()
    }


def joined(run: str, qrels: str) -> pl.DataFrame:
    """The run with its grades, 0 where there is none: for those that know scored items only."""
    judgments = pl.scan_parquet(qrels)
    rows = pl.scan_parquet(run).join(judgments, on=["query", "item"], how="left")
    return rows.with_columns(pl.col("rel").fill_null(0)).collect()


def pytrec_eval(metric: str) -> Value:
    """pytrec_eval.RelevanceEvaluator; the mean is that of its values per query."""
    import pytrec_eval as library

    theirs = {"nDCG@10": "ndcg_cut_10", "AP": "map"}[metric]

    def value(run: str, qrels: str) -> float:
        evaluator = library.RelevanceEvaluator(nested(qrels, "rel"), {theirs})
        result = evaluator.evaluate(nested(run, "score"))
        return statistics.fmean(values[theirs] for values in result.values())

    return value


def ir_measures(metric: str) -> Value:
    """ir_measures.calc_aggregate of dicts, which it takes sooner than frames."""
    import ir_measures as library

    theirs = library.parse_measure(metric)

    def value(run: str, qrels: str) -> float:
        result = library.calc_aggregate([theirs], nested(qrels, "rel"), nested(run, "score"))
        return float(result[theirs])

    return value


def ranx(metric: str) -> Value:
    """ranx.evaluate of frames; the first call compiles for half a minute."""
    import ranx as library

    theirs = {"nDCG@10": "ndcg@10", "AP": "map"}[metric]

    def value(run: str, qrels: str) -> float:
        # It knows strings as objects, grades as 64 bits.
        kinds = {"query": object, "item": object}
        judgments = pl.read_parquet(qrels).to_pandas().astype({**kinds, "rel": "int64"})
        scores = pl.read_parquet(run).to_pandas().astype(kinds)
        return float(
            library.evaluate(
                library.Qrels.from_df(judgments, "query", "item", "rel"),
                library.Run.from_df(scores, "query", "item", "score"),
                theirs,
            )
        )

    return value


def sklearn(metric: str, ignore_ties: bool = False) -> Value:
    """sklearn.metrics.ndcg_score of two matrices: every query has equally many scored items."""
    from sklearn.metrics import ndcg_score

    def value(run: str, qrels: str) -> float:
        rows = joined(run, qrels).sort("query")
        queries = rows["query"].n_unique()
        grades, scores = (rows[name].to_numpy().reshape(queries, -1) for name in ("rel", "score"))
        return float(ndcg_score(grades, scores, k=10, ignore_ties=ignore_ties))

    return value


def sklearn_ignoring_ties(metric: str) -> Value:
    """The same where nobody minds ties (this data has none): much quicker."""
    return sklearn(metric, ignore_ties=True)


def polars_ds(metric: str) -> Value:
    """polars_ds.query_ndcg_score, an expression by query; with ties it needs polars 1."""
    import polars_ds as library

    def value(run: str, qrels: str) -> float:
        ndcg = library.query_ndcg_score("rel", "score", k=10, ignore_ties=True)
        values = joined(run, qrels).lazy().group_by("query").agg(ndcg.alias("ndcg"))
        return float(values.select(pl.col("ndcg").mean()).collect().item())

    return value


def torchmetrics(metric: str) -> Value:
    """torchmetrics.retrieval.RetrievalNormalizedDCG, on the CPU."""
    from torchmetrics.retrieval import RetrievalNormalizedDCG

    def value(run: str, qrels: str) -> float:
        rows = joined(run, qrels)
        metric = RetrievalNormalizedDCG(top_k=10)
        metric.update(
            rows["score"].to_torch(),
            rows["rel"].cast(pl.Int64).to_torch(),
            indexes=rows["query"].rank("dense").cast(pl.Int64).to_torch(),
        )
        return float(metric.compute())

    return value


def rectools(metric: str) -> Value:
    """rectools.metrics.NDCG of the ten best recommendations and all interactions; binary."""
    from rectools.metrics import NDCG

    def value(run: str, qrels: str) -> float:
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

    return value


def spark(metric: str) -> Value:
    """pyspark.mllib.evaluation.RankingMetrics of lists that Spark makes; binary."""
    from pyspark.mllib.evaluation import RankingMetrics
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for place in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(place, "127.0.0.1")
    # A partition per core, where 200 is the default.
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def value(run: str, qrels: str) -> float:
        best = f.sort_array(f.collect_list(f.struct("score", "item")), asc=False)
        ranked = session.read.parquet(run).groupBy("query").agg(best["item"].alias("ranked"))
        judged = session.read.parquet(qrels).groupBy("query")
        relevant = f.collect_list(f.when(f.col("rel") >= 1, f.col("item"))).alias("relevant")
        both = ranked.join(judged.agg(relevant), "query").select("ranked", "relevant")
        return float(RankingMetrics(both.rdd.map(tuple)).ndcgAt(10))

    return value


# By name: how it is written, and the name of its distribution.
PEERS: dict[str, tuple[Callable[[str], Value], str]] = {
    "pytrec_eval": (pytrec_eval, "pytrec_eval-terrier"),
    "ir_measures": (ir_measures, "ir_measures"),
    "ranx": (ranx, "ranx"),
    "scikit-learn": (sklearn, "scikit-learn"),
    "scikit-learn, ignore_ties": (sklearn_ignoring_ties, "scikit-learn"),
    "polars_ds": (polars_ds, "polars-ds"),
    "torchmetrics": (torchmetrics, "torchmetrics"),
    "RecTools": (rectools, "rectools"),
    "Spark": (spark, "pyspark"),
}


def main() -> None:
    """Import, then measure as often as stdin says."""
    name, metric, run, qrels = sys.argv[1:]
    # What libraries print goes to stderr; stdout is for the lines of JSON.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    make, distribution = PEERS[name]
    try:
        value = make(metric)
    except ModuleNotFoundError as error:
        print(json.dumps({"missing": error.name}), file=answers)
        return
    print(json.dumps({distribution: importlib.metadata.version(distribution)}), file=answers)
    for _ in sys.stdin:
        start = time.perf_counter()
        mean = value(run, qrels)
        result = {"seconds": time.perf_counter() - start, "value": mean}
        print(json.dumps(result), file=answers)


if __name__ == "__main__":
    main()

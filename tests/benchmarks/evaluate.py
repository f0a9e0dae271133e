"""What whole evaluations cost: against a bare join, and against pytrec_eval and ranx.

    python tests/benchmarks/evaluate.py [--queries 100000] [--peer-queries 10000] [--repeat 5]

The run and the judgments are simulated, in Parquet: 100 scored items per query, 25 judged ones, 30%
of them relevant, a fifth of the run's items judged. First the cost of nDCG@10 and of a panel of 24
metrics, in units of the bare hash join with GROUP BY of the same files; then, with fewer queries,
the same values end to end by each tool from the same Parquet. Every repetition runs all in turn;
the ratios are those of the medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import polars as pl

import rankql

MEASURES = ("nDCG", "AP", "RR", "P", "R", "Success", "ERR(max_rel=3)", "RBP(p=0.8)")
PANEL = [f"{measure}@5,10,20" for measure in MEASURES]


def simulate(folder: Path, queries: int) -> tuple[str, str]:
    """Write the run and the judgments."""
    run, qrels = str(folder / f"run-{queries}.parquet"), str(folder / f"qrels-{queries}.parquet")
    item = "'d' || ((q * 7919 + {} * 104729) % 5000000) AS item"
    con = duckdb.connect()
    con.execute(f"""
        COPY (SELECT 'q' || q AS query, {item.format("i")},
                     hash(q, i) % 1000000 / 1e6 + (100 - i) / 100.0 AS score
              FROM range({queries}) AS t (q), range(100) AS u (i)) TO '{run}'""")
    con.execute(f"""
        COPY (SELECT 'q' || q AS query, {item.format("(i * 5)")},
                     CAST(CASE WHEN hash(i, q) % 10 < 7 THEN 0
                               ELSE 1 + hash(q, i, 3) % 3 END AS INTEGER) AS rel
              FROM range({queries}) AS t (q), range(25) AS u (i)) TO '{qrels}'""")
    return run, qrels


def bare(run: str, qrels: str) -> Callable[[], object]:
    """The join without which no evaluation can be."""
    joined = f"'{run}' JOIN '{qrels}' USING (query, item)"
    return lambda: duckdb.sql(f"SELECT query, sum(rel) FROM {joined} GROUP BY query").pl()


def evaluated(run: str, qrels: str, metrics: list[str], **options: str) -> Callable[[], object]:
    return lambda: rankql.evaluate(run, qrels, metrics, interval=None, **options).summary


def nested(path: str, value: str) -> dict[str, dict[str, float]]:
    """The dict of dicts that the peers take."""
    found: dict[str, dict[str, float]] = {}
    for query, item, number in pl.read_parquet(path).select("query", "item", value).iter_rows():
        found.setdefault(query, {})[item] = number
    return found


def pytrec_eval(run: str, qrels: str) -> object:
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(nested(qrels, "rel"), {"ndcg_cut_10", "map"})
    values = evaluator.evaluate(nested(run, "score"))
    return [statistics.fmean(v[m] for v in values.values()) for m in ("ndcg_cut_10", "map")]


def ranx(run: str, qrels: str) -> object:
    import ranx

    left, right = (
        pl.read_parquet(path).to_pandas().astype({"query": object, "item": object, **kind})
        for path, kind in ((qrels, {"rel": "int64"}), (run, {}))
    )
    left = ranx.Qrels.from_df(left, "query", "item", "rel")
    right = ranx.Run.from_df(right, "query", "item", "score")
    return ranx.evaluate(left, right, ["ndcg@10", "map"], make_comparable=True)


def measured(tasks: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The median seconds of each task, all of them in turn; the first turn warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeat + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(found[1:]) for name, found in seconds.items()}


def show(title: str, medians: Mapping[str, float]) -> None:
    print(f"\n{title}")
    first = next(iter(medians.values()))
    for name, seconds in medians.items():
        print(f"  {name:44} {seconds:8.3f} s {seconds / first:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--peer-queries", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    print(f"duckdb {duckdb.__version__}, polars {pl.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        run, qrels = simulate(Path(folder), given.queries)
        tasks = {
            "join and GROUP BY": bare(run, qrels),
            "evaluate nDCG@10": evaluated(run, qrels, ["nDCG@10"]),
            "evaluate AP": evaluated(run, qrels, ["AP"]),
            "evaluate 24 metrics": evaluated(run, qrels, PANEL),
        }
        show(f"{given.queries * 100:,} rows, in units of the join", measured(tasks, given.repeat))
        run, qrels = simulate(Path(folder), given.peer_queries)
        tasks = {
            "rankql": evaluated(run, qrels, ["nDCG@10", "AP"], conventions="trec_eval"),
            "pytrec_eval": lambda: pytrec_eval(run, qrels),
            "ranx": lambda: ranx(run, qrels),
        }
        title = (
            f"nDCG@10 and AP of {given.peer_queries * 100:,} rows of Parquet, in units of rankql"
        )
        show(title, measured(tasks, given.repeat))


if __name__ == "__main__":
    main()

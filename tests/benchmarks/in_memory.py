"""Evaluations of dicts and frames that are in memory, as people do who loop over systems.

    python tests/benchmarks/in_memory.py [--peers-python PATH]

Prints a Markdown table of milliseconds of the processor per call, after a first one: the median of
nine, each tool in a process of its own. Where --peers-python names another interpreter, it needs
rankql's dependencies too.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

SIZES = {
    **{"1 × 2": (1, 2), "50 × 100": (50, 100)},
    **{"500 × 100": (500, 100), "5,000 × 100": (5000, 100)},
}
METRICS = {"nDCG@10": ["nDCG@10"], "five metrics": ["nDCG@10", "AP", "RR", "P@5", "R@100"]}
NAMES = {
    **{"nDCG@10": ("ndcg_cut_10", "ndcg@10"), "AP": ("map", "map"), "RR": ("recip_rank", "mrr")},
    **{"P@5": ("P_5", "precision@5"), "R@100": ("recall_100", "recall@100")},
}
Tables = dict[str, dict[str, Any]]
CALLS = 9


def tables(queries: int, items: int) -> tuple[Tables, Tables]:
    """A run, and judgments of 15 items per query, of which most are in it."""
    rnd = random.Random(1)
    run: Tables = {
        f"q{i}": {f"d{x}": rnd.random() for x in rnd.sample(range(100_000), items)}
        for i in range(queries)
    }
    return run, {q: {x: rnd.randrange(4) for x in [*row][:15]} for q, row in run.items()}


def rankql_dicts(run: Tables, qrels: Tables, metrics: list[str]) -> Callable[[], Any]:
    import rankql

    return lambda: rankql.evaluate(run, qrels, metrics, interval=None).summary


def rankql_frames(run: Tables, qrels: Tables, metrics: list[str]) -> Callable[[], Any]:
    import polars as pl

    import rankql

    frames = [
        pl.DataFrame(
            [(q, item, x) for q, row in table.items() for item, x in row.items()],
            ["query", "item", name],
            orient="row",
        )
        for table, name in ((run, "score"), (qrels, "rel"))
    ]
    return lambda: rankql.evaluate(*frames, metrics, interval=None).summary


def pytrec_eval(run: Tables, qrels: Tables, metrics: list[str]) -> Callable[[], Any]:
    import pytrec_eval as library

    names = {NAMES[x][0] for x in metrics}

    def call() -> list[float]:
        result = library.RelevanceEvaluator(qrels, names).evaluate(run)
        return [statistics.fmean(row[x] for row in result.values()) for x in names]

    return call


def ir_measures(run: Tables, qrels: Tables, metrics: list[str]) -> Callable[[], Any]:
    import ir_measures as library

    measures = [*map(library.parse_measure, metrics)]
    return lambda: library.calc_aggregate(measures, qrels, run)


def ranx(run: Tables, qrels: Tables, metrics: list[str]) -> Callable[[], Any]:
    import ranx as library

    names = [NAMES[x][1] for x in metrics]
    return lambda: library.evaluate(library.Qrels(qrels), library.Run(run), names)


def scikit_learn(run: Tables, qrels: Tables, metrics: list[str]) -> Callable[[], Any] | None:
    """nDCG alone; what is judged and not retrieved has the lowest score."""
    if metrics != ["nDCG@10"]:
        return None
    import numpy as np
    from sklearn.metrics import ndcg_score

    def call() -> float:
        values = []
        for query, scores in run.items():
            grades = qrels[query]
            items = [*(scores | grades)]
            lowest = min(scores.values()) - 1
            values.append(
                ndcg_score(
                    np.array([[grades.get(x, 0) for x in items]]),
                    np.array([[scores.get(x, lowest) for x in items]]),
                    k=10,
                )
            )
        return statistics.fmean(values)

    return call


TOOLS = {
    **{"rankql, dicts": rankql_dicts, "rankql, frames": rankql_frames},
    **{"pytrec_eval-terrier": pytrec_eval, "ir_measures": ir_measures, "ranx": ranx},
    "scikit-learn": scikit_learn,
}


def milliseconds(tool: str, size: str, metrics: str) -> float | None:
    """Of one tool, in this process; None if it has not the metrics."""
    call = TOOLS[tool](*tables(*SIZES[size]), METRICS[metrics])
    if call is None:
        return None
    call()
    took = []
    for _ in range(CALLS):
        start = time.process_time()
        call()
        took.append(time.process_time() - start)
    return 1000 * statistics.median(took)


def main() -> None:
    if "--one" in sys.argv:
        print(json.dumps(milliseconds(*sys.argv[-3:])))
        return
    others = sys.argv[-1] if "--peers-python" in sys.argv else sys.executable
    print(f"| tool | {' | '.join(f'{x}, {y}' for x in SIZES for y in METRICS)} |")
    print(f"|---|{'--:|' * (len(SIZES) * len(METRICS))}")
    for tool in TOOLS:
        python = sys.executable if tool.startswith("rankql") else others
        cells = []
        for size in SIZES:
            for metrics in METRICS:
                command = [python, __file__, "--one", tool, size, metrics]
                done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
                took = json.loads(done.stdout.splitlines()[-1])
                cells.append("" if took is None else f"{took:.1f}")
        print(f"| {tool} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

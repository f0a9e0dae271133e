"""A lowest score that some questions choose, and its rate of false answers on new ones.

`python tests/run_simulation.py --min-scores` prints the numbers of the page on retrieval for RAG.
"""

import numpy as np
import polars as pl

import rankql
from research.simulation import print_table

LIMITS = (0.05, 0.1, 0.2)
COUNTS = (20, 50, 100, 200)


def questions(rng, count):
    """The best scores of questions with an answer and of as many without; one item each."""
    score = rng.normal(np.repeat([2, 0], count))
    query = range(2 * count)
    run = pl.DataFrame({"query": query, "item": "x", "score": score})
    return run, pl.DataFrame({"query": query, "item": "x", "rel": [1] * count + [0] * count})


def choose(rng, count, limit):
    """FalseAnswer at the chosen score, of the questions that chose it and of as many new ones."""
    run, qrels = questions(rng, count)
    report = rankql.min_scores(run, qrels, "RR", max_false_answer=limit, interval=None)
    row = report.table.filter(min_score=report.chosen)
    new = questions(rng, count)[0]["score"][count:]
    return row["FalseAnswer"].item(), (new >= report.chosen).mean()


def exceeded(count, limit, repeats):
    """How often new questions have a higher rate than the limit, by more than rounding."""
    rng = np.random.default_rng([count, round(1000 * limit)])
    rates = (choose(rng, count, limit)[1] for _ in range(repeats))
    return sum(rate > limit + 1e-12 for rate in rates) / repeats


def min_scores_table(repeats):
    """The shares of choices whose limit new questions exceed."""
    print_table(["FalseAnswer exceeded; questions without an answer", *map(str, COUNTS)], {
        f"{limit:g}": [exceeded(count, limit, repeats // 10) for count in COUNTS]
        for limit in LIMITS
    })  # fmt: skip

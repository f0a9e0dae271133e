"""In the long run: a lowest score is chosen on some questions, and its rate differs on others."""

import numpy as np
import polars as pl
import pytest

import rankql
from research.simulation import REPEATS


def questions(rng, count):
    """The best scores of questions with an answer and of as many without; one item each."""
    score = rng.normal(np.repeat([2, 0], count))
    query = range(2 * count)
    run = pl.DataFrame({"query": query, "item": "x", "score": score})
    return run, pl.DataFrame({"query": query, "item": "x", "rel": [1] * count + [0] * count})


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("count", [20, 100])
def test_new_questions_exceed_the_limit_in_almost_half_of_the_choices(count):
    """Never on those that it was chosen on."""
    rng, limit, repeats, above = np.random.default_rng(count), 0.1, REPEATS // 10, 0
    for _ in range(repeats):
        run, qrels = questions(rng, count)
        report = rankql.min_scores(run, qrels, "RR", max_false_answer=limit, interval=None)
        row = report.table.filter(min_score=report.chosen)
        assert row["FalseAnswer"].item() <= limit
        new = questions(rng, count)[0]["score"][count:]
        above += (new >= report.chosen).mean() > limit + 1e-12
    assert 0.25 < above / repeats < 0.65

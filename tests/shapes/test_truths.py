"""One id per query as the truth, beside as many rows of scores or of ids."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rankql
from support.parameters import few
from support.reading import asked

# The column that is right is third, first and second by score.
SCORES = [[0.9, 0.3, 0.5], [0.2, 0.3, 0.5], [0.1, 0.6, 0.4]]
COLUMNS = [1, 2, 2]
# The id that is right is second, first and not listed.
IDS, RIGHT = [[17, 31], [52, 17], [90, 4]], [31, 52, 77]
TEXTS, WORDS = [["x", "y"], ["z", "x"], ["k"]], ["y", "z", "v"]
OF_SCORES, OF_IDS = (1 / 3 + 1 + 1 / 2) / 3, 0.5


@few(3)(
    ("run", "truth", "value"),
    [
        (np.array(SCORES), np.array(COLUMNS), OF_SCORES),
        (TEXTS, WORDS, OF_IDS),
        (pd.DataFrame(SCORES), pd.Series(COLUMNS), OF_SCORES),
        (SCORES, COLUMNS, OF_SCORES),
        (np.array(SCORES), [[x] for x in COLUMNS], OF_SCORES),
        (np.array(SCORES), [[1, 0], [2], [2]], (1 + 1 + 1 / 2) / 3),
        (IDS, RIGHT, OF_IDS),
        (np.array(IDS), np.array(RIGHT), OF_IDS),
        (IDS, tuple(RIGHT), OF_IDS),
        (IDS, pl.Series(RIGHT), OF_IDS),
        (tuple(map(tuple, TEXTS)), tuple(WORDS), OF_IDS),
    ],
)
def test_one_id_per_query_is_the_truth(run, truth, value):
    result = rankql.evaluate(run, truth, "RR", interval=None)
    assert result["RR"] == pytest.approx(value)
    runs = {"a": run, "b": run}
    means = rankql.compare(runs, truth, metrics="RR").summary["mean"]
    assert means.to_list() == pytest.approx([value, value])


# Ids that are numbers below the number of items; the last truth of SMALL is not listed.
SHORT, AT = [[2, 0, 1, 3], [1, 3, 0, 2], [0, 3, 2, 1]], [0, 1, 3]
SMALL, FOUND = [[3, 0, 7, 2], [1, 5, 6, 4, 0], [2, 4, 1]], [0, 4, 3]


@few(2)(
    ("run", "truth", "value"),
    [
        (np.array(SHORT), AT, (1 / 2 + 1 + 1 / 2) / 3),
        (np.array(SHORT), pd.Series(AT), (1 / 2 + 1 + 1 / 2) / 3),
        (SMALL, FOUND, (1 / 2 + 1 / 4) / 3),
        (SMALL, np.array(FOUND), (1 / 2 + 1 / 4) / 3),
        (dict(zip("abc", SMALL, strict=True)), dict(zip("abc", FOUND, strict=True)), 0.25),
        ([[*range(20)], [*range(19, -1, -1)]], [0, 18], (1 + 1 / 2) / 2),
    ],
)
def test_small_numbers_that_the_rows_hold_are_ids(run, truth, value):
    assert rankql.evaluate(run, truth, "RR", interval=None)["RR"] == pytest.approx(value)


def test_whole_floats_that_hold_the_truth_are_asked_about():
    run, truth = np.array([[10.0, 1.0, 2.0], [0.0, 4.0, 1.0]]), [1, 0]
    question = asked(run, truth, match="ids or scores")
    values = [x.means("RR")[0] for x in question.readings]
    assert values == pytest.approx([(1 / 2 + 1) / 2, (1 / 3 + 1 / 3) / 2])
    votes = np.array([[3.0, 1.0, 2.0], [2.0, 3.0, 1.0]])
    assert rankql.evaluate(votes, [0, 1], "RR", interval=None)["RR"] == 1


@pytest.mark.parametrize(
    ("run", "labels"),
    [
        ([0.9, 0.3, 0.5], [0, 1, 1]),  # one number for each item, as scikit-learn has them
        (SCORES, [0, 1, 3]),  # no column 3
        (SCORES, [0.5, 1.0, 0.0]),
        (IDS, [0, 1, 1]),  # clicked or not
        (IDS, [1, 2, 1]),  # ranks
        ([[4, 1, 2, 0], [3, 4, 0, 1]], [4, 4]),  # sizes of groups
        (TEXTS, ["AP", "RR", "R@5"]),  # metrics in the place of judgments
        (SCORES, [[0, 1, 0], [1, 0, 0], [0, 0, 1]]),  # a grade for each column
    ],
)
def test_labels_and_ranks_are_no_ids(run, labels):
    with pytest.raises(rankql.RankqlError):
        rankql.evaluate(run, labels, "RR")

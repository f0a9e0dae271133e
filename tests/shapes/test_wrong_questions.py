"""Questions that miss the point: empty rows at the end, flags, grades of which one is a word."""

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import few

ROWS = [{"ask": "a", "got": ["s1"], "gold": ["s1"]}, {"ask": "b", "got": [], "gold": ["s2"]}]


@pytest.mark.parametrize("empty", [[], None])
def test_a_last_row_that_retrieved_nothing_is_counted(empty):
    rows = [ROWS[0], {**ROWS[1], "got": empty}]
    assert rankql.evaluate(rows, metrics="R@1", item=["got", "gold"])["R@1"] == 0.5


@few(2)("name", ["recall", "precision", "recall_hit", "table_recall"])
def test_a_flag_called_like_a_metric_proves_nothing(name):
    rows = [
        {"question": "a", "retrieved": ["ox", "elk"], "relevant": ["elk"], name: True},
        {"question": "b", "retrieved": ["ox"], "relevant": ["ox", "cow"], name: False},
    ]
    assert rankql.evaluate(rows, metrics="R@5")["R@5"] == 0.75


def test_numbers_with_a_word_are_cast_and_the_word_is_named():
    run = {"q": ["b", "c", "a"]}
    rows = [("q", "a", "3"), ("q", "b", "0"), ("q", "c", "UNSURE")]
    qrels = pl.DataFrame(rows, ["query_id", "doc_id", "grade"], orient="row")
    with pytest.raises(RankqlError, match="1 row has 'UNSURE', which becomes NULL, unj") as error:
        rankql.evaluate(run, qrels, "nDCG")
    call = {"rel": "TRY_CAST(grade AS DOUBLE)"}
    assert error.value.calls[0] == call
    assert rankql.evaluate(run, qrels, "nDCG", **call)["nDCG"] == pytest.approx(0.5)
    scored = qrels.rename({"grade": "score"})
    with pytest.raises(RankqlError, match="which becomes NULL, without a place") as error:
        rankql.evaluate(scored, {"q": ["a"]}, "RR")
    assert error.value.calls[0] == {"score": "TRY_CAST(score AS DOUBLE)"}

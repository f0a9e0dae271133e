"""AUC counts tied pairs half by definition; float32 rounds scores only to compare them."""

import polars as pl
import pytest

import rankql

SCORES, GRADES = [0.5, 0.5, 0.5, 0.2, 0.2, 0.9], [1, 0, 0, 1, 0, 1]
TABLE = pl.DataFrame({"query": "q", "item": list("abcdef"), "score": SCORES, "rel": GRADES})
JUDGMENTS = TABLE.select("query", "item", "rel")


@pytest.mark.few(2)
@pytest.mark.parametrize("ties", ["item", "order", "best", "worst", "expected"])
@pytest.mark.parametrize(
    ("unjudged", "float32", "descending"), [("zero", True, True), ("remove", False, False)]
)
def test_a_tied_pair_counts_half_whatever_ties_is(ties, unjudged, float32, descending):
    options = {"ties": ties, "unjudged": unjudged, "float32": float32, "interval": None}
    frame = TABLE if descending else TABLE.with_columns(-pl.col("score"))
    run = frame.drop("rel")
    for data in ((run, JUDGMENTS), (frame, None)):
        result = rankql.evaluate(*data, ["AUC", "GAUC", "RR"], descending=descending, **options)
        assert [result["AUC"], result["GAUC"]] == pytest.approx([5.5 / 9, 5.5 / 9])
        assert result["RR"] == 1


def test_auc_by_score_needs_no_item():
    for options in ({}, {"item": "item"}, {"ties": "item"}, {"ties": "expected"}):
        assert TABLE.select(rankql.auc_by_score("rel", "score", **options)).item() == 5.5 / 9
    assert rankql.auc_by_score(TABLE.drop("item"))["auc_by_score"].item() == 5.5 / 9


@pytest.mark.parametrize("float32", [False, True])
def test_positions_have_no_ties(float32):
    frame = TABLE.drop("score").with_columns(pos=pl.Series([2, 3, 4, 5, 6, 1]))
    result = rankql.evaluate(frame, metrics="AUC", float32=float32, interval=None)
    assert result["AUC"] == pytest.approx(7 / 9)


@pytest.mark.few(2)
@pytest.mark.parametrize("ties", ["item", "best", "expected"])
@pytest.mark.parametrize("judged", [False, True])
def test_float32_rounds_only_to_compare(ties, judged):
    # 0.1 and its neighbour are equal as float32, and stand in the order of items.
    scores = [0.1, 0.1 + 1e-12]
    run = pl.DataFrame({"query": "q", "item": ["b", "a"], "score": scores, "rel": [1, 0]})
    data = (run.drop("rel"), run.drop("score")) if judged else (run, None)
    values = rankql.evaluate(*data, ["MSE", "RMSE", "AUC"], ties=ties, float32=True, interval=None)
    expected = ((1 - scores[0]) ** 2 + scores[1] ** 2) / 2
    assert values["MSE"] == pytest.approx(expected, abs=1e-15)
    assert values["RMSE"] == pytest.approx(expected**0.5, abs=1e-15)
    assert values["AUC"] == 0.5

"""Metrics of a share of queries: all relevant items are shown (AllRel), nothing forbidden is."""

import polars as pl
import pytest

import rankql

QRELS = pl.DataFrame(
    {
        "query": ["a", "a", "b", "c", "c", "c", "d", "e"],
        "item": ["x", "y", "x", "x", "y", "z", "x", "x"],
        "rel": [1, 1, 1, 1, 1, 1, 0, 1],
    }
)
RUN = pl.DataFrame(
    {
        "query": ["a", "a", "b", "b", "c", "c", "d"],
        "item": ["x", "y", "w", "x", "x", "y", "x"],
        "score": [2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0],
    }
)


@pytest.mark.parametrize("reduces", [False, True])
def test_all_relevant_items_are_shown(reduces, monkeypatch):
    """The run lacks e, which counts 0; d has no relevant item; c has three for two positions."""
    if reduces:
        monkeypatch.setattr("rankql.evaluation.evaluation.REDUCED_FROM_ROWS", 0)
    result = rankql.evaluate(RUN, QRELS, ["AllRel@2", "AllRel@1", "AllRel"], interval=None)
    columns = result.per_query.sort("query")
    assert columns["AllRel@2"].to_list() == [1, 1, 0, None, 0]
    assert columns["AllRel@1"].to_list() == [0, 0, 0, None, 0]
    assert result["AllRel"] == 2 / 4
    assert "AllRel@2 is 0 for 1 of 5 queries, which has more than 2 relevant items" in result.notes
    assert not any(note.startswith("AllRel is 0") for note in result.notes)


def test_other_names_of_all_relevant():
    names = ["recall_all@2", "full_recall@2", "all_recall@2"]
    for name in names:
        result = rankql.evaluate(RUN, QRELS, name, interval=None)
        assert result.meta.canonical == {name: "AllRel@2"} and result[name] == 2 / 4


def test_a_question_without_evidence_counts_1_in_longmemeval():
    result = rankql.evaluate(RUN, QRELS, "AllRel@2", undefined="one", interval=None)
    assert result["AllRel@2"] == 3 / 5
    assert rankql.evaluate(RUN, QRELS, "AllRel@2", negative="unjudged")["AllRel@2"] == 2 / 4


def test_its_interval_is_that_of_a_share():
    qrels = pl.DataFrame({"query": range(40), "item": 1, "rel": 1})
    run = qrels.select("query", item=1 + (pl.col("query") % 4 == 0), score=1.0)
    result = rankql.evaluate(run, qrels, ["AllRel@1", "Success@1"])
    ends = result.summary.select("mean", "lo", "hi").rows()
    assert ends[0] == ends[1] and ends[0][0] == 0.75

"""A path and the name of a column mean the same in item= and in rel=."""

import polars as pl
import pytest

import rankql

GRADED = [
    {"query": "a", "ids": ["x", "y"],
     "gains": [{"chunk": "y", "worth": 2}, {"chunk": "x", "worth": 0}]},
    {"query": "b", "ids": ["z"], "gains": [{"chunk": "z", "worth": 1}]},
]  # fmt: skip


@pytest.mark.parametrize("grades", ["relevance", "worth"])
def test_rel_names_the_grades_of_a_list_whatever_they_hold(grades):
    """Every grade is an id too: the second and the first are relevant."""
    rows = [
        {"query": "a", "candidate_ids": [3, 1, 0], grades: [0, 3, 1]},
        {"query": "b", "candidate_ids": [1, 0], grades: [1, 0]},
    ]
    result = rankql.evaluate(rows, metrics="RR", item="candidate_ids", rel=grades)
    assert result["RR"] == 0.75


@pytest.mark.parametrize(
    ("rel", "value"),
    [("gains.worth", 0.75), ("worth", 0.75), ("gains.worth >= 1", 0.75), ("worth >= 1", 0.75),
     ("CASE WHEN gains.worth > 1 THEN 1 ELSE 0 END", 0.5)],
)  # fmt: skip
def test_a_path_of_the_grades_may_be_in_an_expression(rel, value):
    options = {"item": ["ids", "gains.chunk"], "rel": rel, "undefined": "zero"}
    result = rankql.evaluate(GRADED, metrics="RR", **options)
    assert result["RR"] == (value if value == 0.75 else 0.25)


def test_objects_take_nothing_over_that_item_names():
    """graded_relevance has ids of its own, which are not those of strict_ids."""
    rows = [
        {"query": "a", "retrieved_ids": ["y", "x"], "strict_ids": ["x"],
         "graded_relevance": [{"chunk_id": "x", "score": 3}, {"chunk_id": "y", "score": 1}]},
    ]  # fmt: skip
    strict = rankql.evaluate(rows, metrics="RR", item=["retrieved_ids", "strict_ids"])
    assert strict["RR"] == 0.5
    options = {
        "item": ["retrieved_ids", "graded_relevance.chunk_id"],
        "rel": "graded_relevance.score",
    }
    assert rankql.evaluate(rows, metrics="RR", **options)["RR"] == 1.0
    flat = pl.DataFrame(rows).select("query", "retrieved_ids", "strict_ids", grades=pl.lit([2.0]))
    assert rankql.evaluate(flat, metrics="RR", item=["retrieved_ids", "strict_ids"])["RR"] == 0.5

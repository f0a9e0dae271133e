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


HITS = [
    {"query": "a", "hits": [{"doc": "f", "page": 2}, {"doc": "f", "page": 11}]},
    {"query": "b", "hits": [{"doc": "g", "page": 7}, {"doc": "f", "page": 7}]},
]
OF_KEY = {"metrics": "RR", "item": ["hits.doc, page", "docs, pages"]}


@pytest.mark.parametrize("docs", [("f", "g"), (["f", "f"], ["g"])])
@pytest.mark.parametrize("in_one", [True, False])
def test_lists_are_zipped_in_a_key_and_a_plain_value_belongs_to_each_element(docs, in_one):
    """The second and the first are relevant."""
    pages = ([11, 12], [7])
    gold = [{"docs": x, "pages": y} for x, y in zip(docs, pages, strict=True)]
    gold = [{"query": x["query"], **y} for x, y in zip(HITS, gold, strict=True)]
    tables = [[{**x, **y} for x, y in zip(HITS, gold, strict=True)]] if in_one else [HITS, gold]
    assert rankql.evaluate(*tables, **OF_KEY)["RR"] == 0.75


def test_lists_of_a_key_are_equally_long():
    gold = [{"query": x, "docs": ["f", "f"], "pages": [2]} for x in "ab"]
    with pytest.raises(
        rankql.RankqlError, match=r"docs, pages must be equally long .* not 2 and 1"
    ):
        rankql.evaluate(HITS, gold, **OF_KEY)


def test_item_names_the_list_of_judgments_that_have_a_run_too(tmp_path):
    """In a part of objects by id, of which the run is in another table."""
    path = tmp_path / "gold.json"
    path.write_text('{"queries": {"a": {"retrieved": ["y"], "gold": ["y"]},'
                    ' "b": {"retrieved": ["z"], "gold": ["z"]}}}')  # fmt: skip
    options = {"part": [None, "queries"], "item": ["item", "gold"]}
    result = rankql.evaluate({"a": ["x", "y"], "b": ["z"]}, str(path), "RR", **options)
    assert result["RR"] == 0.75


TIMED = pl.DataFrame({"user": ["u", "u"], "item": ["x", "y"], "at": ["2026-01-02", "2026-01-01"],
                      "order": ["0.5", "0.7"], "rel": [0, 1]})  # fmt: skip


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({"score": "at"}, {"score": 'epoch("at")'}),
        ({"score": "rel", "rel": "at"}, {"rel": '"at" IS NOT NULL'}),
    ],
)
def test_what_is_no_number_is_cast_by_a_call_that_works(options, call):
    table = TIMED.with_columns(pl.col("at").str.to_date())
    with pytest.raises(
        rankql.RankqlError, match=r"must be a number, not .* Cast it first"
    ) as error:
        rankql.evaluate(table, metrics="RR", **options)
    assert error.value.remedies == (call,)
    assert rankql.evaluate(table, metrics="RR", **{**options, **call})["RR"] in (0.5, 1)


def test_for_words_a_message_says_how_to_cast_them():
    words = TIMED.with_columns(order=pl.Series(["low", "top"]))
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(words, metrics="RR", score="order")
    assert "THEN 1 ELSE 2 END" in str(error.value)
    assert not error.value.remedies


@pytest.mark.parametrize("text", ["epoch(at)", "-order", "2 * at + order"])
def test_a_column_called_like_a_keyword_is_quoted(text):
    table = TIMED.with_columns(
        pl.col("at").str.to_datetime().dt.epoch("s"), order=pl.Series([1, 2])
    )
    with pytest.raises(rankql.RankqlError, match=r"is a keyword of SQL. Put it in double") as error:
        rankql.evaluate(table, metrics="RR", score=text)
    written = str(error.value).rpartition(": ")[2]
    if not text.startswith("epoch"):  # of a number
        assert rankql.evaluate(table, metrics="RR", score=written)["RR"] in (0.5, 1)
    assert written == text.replace("at", '"at"').replace("order", '"order"')

"""Judgments with an item twice, rows of several kinds, and lists called ranking."""

import json

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import few
from support.reading import asked, read, refused

RUN = pl.DataFrame({
    "query": ["m", "m", "n", "n"], "item": ["p1", "p2", "p3", "p4"], "score": [2.0, 1.0, 2.0, 1.0],
})  # fmt: skip
TWICE = [("m", "p1", 1), ("m", "p1", 3), ("m", "p2", 2), ("n", "p4", 1)]
# By hand: (3 + 2 / log2(3)) / itself, and 1 / log2(3).
NDCG = (1 + 0.6309297535714575) / 2
LABELLED = [
    {"qid": "m", "piece": "p1", "verdict": {"why": "near", "points": 0}, "rater": None},
    {"qid": "m", "piece": "p2", "verdict": {"why": "exact", "points": 1}},
    {"qid": "n", "piece": "p3", "verdict": {"why": "exact", "points": 1}},
]
DUELS = [
    {"qid": "m", "left": "x", "right": "y", "verdict": {"winner": "left"}},
    {"qid": "n", "left": "x", "right": "y", "verdict": {"winner": "right"}},
]
STANDINGS = [{"players": ["x", "y"], "elo": {"x": 1016, "y": 984}}]


def test_two_grades_of_an_item_have_the_highest(tmp_path):
    qrels = pl.DataFrame(TWICE, ["query", "item", "grade"], orient="row")
    path = tmp_path / "labels.qrels"
    path.write_text("".join(f"{q} 0 {item} {grade}\n" for q, item, grade in TWICE))
    for data, grade in ((qrels, "grade"), (path, "rel")):
        with pytest.raises(RankqlError, match=rf"pass\n    rel='max\({grade}\)'\n") as error:
            rankql.evaluate(RUN, data, "nDCG@5")
        assert "Keep one row of each" in str(error.value)
        assert read(RUN, data, rel=f"max({grade})")["nDCG@5"] == pytest.approx(NDCG)


def test_a_row_that_is_there_twice_has_no_such_offer():
    """A single one counts once; more are a file that was read twice."""
    qrels = pl.DataFrame([TWICE[0]] * 2, ["query", "item", "grade"], orient="row")
    assert rankql.evaluate(RUN, qrels, "nDCG@5", interval=None)["nDCG@5"] == 1
    qrels = pl.concat([qrels, qrels.with_columns(item=pl.lit("p2"))])
    refused(RUN, qrels, "nDCG@5", match=r"Keep one row of each\. 50% .*: pass qrels\.unique\(\)$")


@few(2)("form", ["jsonl", "list", "json"])
def test_the_kind_of_rows_with_grades_is_read(form, tmp_path):
    rows = [*DUELS[:1], *LABELLED, *STANDINGS, *DUELS[1:]]
    data, path = rows, tmp_path / f"labels.{form}"
    if form != "list":
        lines = "\n".join(map(json.dumps, rows))
        path.write_text(lines if form == "jsonl" else json.dumps(rows))
        data = path
    call = {"item": "piece", "rel": "verdict.points"}
    question = asked(RUN, data, match=r"Pass: item='piece', rel='verdict\.points'")
    result = question.readings[question.calls.index(call)]
    assert result["RR"] == 0.75
    (note,) = [x for x in result.notes if "another kind" in x]
    assert note.startswith("qrels: 3 rows of another kind (left, right, verdict.winner; players")


def test_rows_that_lack_values_are_of_one_kind():
    rows = [LABELLED[0], {"qid": "m", "piece": "p2", "verdict": {"points": 1}}, LABELLED[2]]
    for each in (rows, LABELLED):
        result = read(RUN, each, item="piece", rel="verdict.points")
        assert result["RR"] == 0.75
        assert not any("kind" in x for x in result.notes)


@pytest.mark.parametrize("objects", [False, True])
def test_a_list_called_ranking_has_the_retrieved_ids(objects, tmp_path):
    found = {"m": ["p2", "p1"], "n": ["p4"]}
    path = tmp_path / "found.jsonl"
    rows = [
        {"query_id": q, "ranking": [{"doc_id": x, "weight": 0.5} for x in ids] if objects else ids}
        for q, ids in found.items()
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    qrels = {"m": {"p1": 1}, "n": {"p4": 1}}
    assert read(path, qrels)["RR"] == 0.75


def test_a_number_called_ranking_stays_the_position():
    run = RUN.select("query", "item", ranking=pl.Series([2, 1, 1, 2]))
    assert read(run, {"m": {"p1": 1}, "n": {"p3": 1}})["RR"] == 0.75


@few(2)(
    ("name", "closest"),
    [
        ("MAP@R", "AP or Rprec"),
        ("mean_average_precision_at_r", "AP or Rprec"),
        ("prec@3", "P@3"),
        ("avg_prec@10", "AP@10"),
        ("ap@r", "AP or Rprec"),
    ],
)
def test_names_of_other_tools_have_the_closest(name, closest):
    refused(RUN, {"m": {"p1": 1}}, name, match=f"The closest in rankql: {closest}$")


SHOWN = {"w1": ["ale", "rye"], "w2": ["fig"], "w3": ["ale", "bun", "yam"], "w4": ["ale"]}
GOLD = {"w1": ["rye", "kale"], "w2": ["fig"], "w3": ["yam"], "w4": ["leek"]}


def optional(more):
    """Judgments with a row per query, of which some have further keys."""
    rows = [{"id": k, "question": f"on {k}", "relevant_ids": ids} for k, ids in GOLD.items()]
    return [row | more.get(row["id"], {}) for row in rows]


@few(2)("more", [
    {"w2": {"language": "fr"}, "w4": {"negative": True}},
    {"w2": {"tags": ["new"]}, "w4": {"level": 3}},
    {"w1": {"language": "fr"}, "w2": {"language": "fr"}, "w3": {"note": "x"}, "w4": {"steps": 2}},
])  # fmt: skip
@pytest.mark.parametrize("form", ["rows", "jsonl", "parquet"])
def test_a_row_with_its_ids_is_read_whatever_is_beside_them(more, form, tmp_path):
    rows, path = optional(more), tmp_path / f"gold.{form}"
    if form == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    if form == "parquet":
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    result = read(SHOWN, rows if form == "rows" else path)
    assert result["R@2"] == pytest.approx((1 / 2 + 1 + 0 + 0) / 4)
    assert not any("kind" in x for x in result.notes)


def test_few_rows_without_ids_are_noted_and_many_asked_about():
    rows = optional({"w2": {"language": "fr"}, "w4": {"negative": True}})
    result = read(SHOWN, [*rows, {"comment": "made by hand"}])
    assert "qrels: 1 row of another kind (comment) is not read" in result.notes
    others = [{"id": f"v{i}", "answer": "yes", "by": "m"} for i in range(3)]
    text = r"3 of 7 rows are of another kind \(answer, by\), without relevant_ids"
    refused(SHOWN, rows + others, "R@2", match=text)

"""Conventions: ties, unjudged items, missing and undefined queries, and gains."""

import dataclasses
import re

import polars as pl
import pytest

import rankql
from rankql.core.metrics.conventions import CHOICES, choose
from support.parameters import cycled, few
from support.samples import QRELS, RUN, same


def test_best_and_worst_of_unjudged_and_grade_0():
    """Judged items of grade 0 and unjudged ones differ if a threshold is 0."""
    run, qrels = {"q": {"a": 1, "z": 1}}, {"q": {"a": 0}}
    for ties, value in (("best", 1.0), ("worst", 0.5)):
        result = rankql.evaluate(run, qrels, ["RR(rel=0)", "Judged@1"], ties=ties)
        assert result["RR(rel=0)"] == value and result["Judged@1"] == float(ties == "best")


def test_gain_by_dict_and_by_name():
    expected = rankql.evaluate(RUN, QRELS, "nDCG@10", gain="exp2")["nDCG@10"]
    for metric, options in (
        ("nDCG@10", {"gain": {0: 0, 1: 1, 2: 3, 3: 7}}),
        ("nDCG(gain=exp2)@10", {}),
        ({"x": "ndcg(exp2_gain(rel), pos, 10)"}, {}),
    ):
        (value,) = rankql.evaluate(RUN, QRELS, metric, **options).summary["mean"]
        assert value == pytest.approx(expected, abs=1e-12)
    with pytest.raises(rankql.RankqlError, match="gain has no entry for grade"):
        rankql.evaluate(RUN, QRELS, "nDCG@10", gain={0: 0, 1: 1})


@few(1)("options", [{}, {"unjudged": "remove"}, {"conventions": "trec_eval"}, {"ties": "expected"}])
def test_queries_without_grades_are_left_out_of_ranked_tables(options):
    run = pl.DataFrame({"query": [*"aabbc"], "item": [*"xyxyx"], "score": [3.0, 2, 2, 1, 1]})
    qrels = pl.DataFrame({"query": [*"acc"], "item": [*"yxy"], "rel": [1, -1, 2]})
    table = run.join(qrels, on=["query", "item"], how="full", coalesce=True)
    options = options | {"metrics": ["P@2", "AP", "Judged@2", "RBP(p=.5)", "nDCG@5", "RR"]}
    two, one = (rankql.evaluate(*tables, **options) for tables in ((run, qrels), (table,)))
    same(one.per_query, two.per_query)
    assert one.per_query["query"].to_list() == ["a", "c"]
    offered = "; unjudged_queries='count' counts them"  # of judgments in another table
    assert one.notes[0] == two.notes[0].replace(offered, "")
    assert "Queries: 1 of 3 not judged" in one.notes[0] and offered in two.notes[0]
    with pytest.raises(rankql.RankqlError, match="every grade is NULL"):
        rankql.evaluate(table.filter(query="b"), **options)


@pytest.mark.parametrize("options", [{}, {"unjudged": "remove"}])
def test_a_system_without_judged_items_counts_in_judged_queries(options):
    table = pl.DataFrame({
        "system": [*"mmnn"], "query": [*"abab"], "item": [*"xxyy"], "rel": [1, None, None, None],
        "pos": 1,
    })  # fmt: skip
    result = rankql.evaluate(table, metrics=["P@1"], system="system", **options)
    assert result.per_query.rows() == [("m", "a", 1.0), ("n", "a", 0.0)]


@pytest.mark.parametrize("alone", [True, False])
def test_unjudged_items_are_removed_but_gaps_stay(alone):
    """Only positions below a removed item move up, by the number of items removed above."""
    rows = pl.DataFrame({
        "query": ["a"] * 5, "item": [*"uvwxy"], "rel": [None, 0, None, 1, 2],
        "pos": [2, 4, 5, 7, 9],
    })  # fmt: skip
    run = rows if alone else rows.drop("rel")
    qrels = None if alone else rows.drop("pos").drop_nulls()
    result = rankql.evaluate(run, qrels, ["RR", "RR(rel=2)", "Judged@3"], unjudged="remove")
    assert result.per_query.row(0)[1:] == (1 / 5, 1 / 7, 1 / 3)


def test_every_choice_is_understood():
    for option, choices in CHOICES.items():
        for choice in choices:
            assert getattr(choose({option: choice}), option) == choice
    for field in dataclasses.fields(rankql.Conventions)[1:]:
        assert re.search(rf"^    {field.name} : ", rankql.Conventions.__doc__, re.M), field
    for choice in {choice for choices in CHOICES.values() for choice in choices}:
        assert f"'{choice}'" in rankql.Conventions.__doc__


# AUC counts tied pairs half by definition; float32 rounds scores only to compare them.

SCORES, GRADES = [0.5, 0.5, 0.5, 0.2, 0.2, 0.9], [1, 0, 0, 1, 0, 1]
TABLE = pl.DataFrame({"query": "q", "item": list("abcdef"), "score": SCORES, "rel": GRADES})
JUDGMENTS = TABLE.select("query", "item", "rel")


@few(1)(
    ("ties", "descending"),
    cycled(["item", "order", "best", "worst", "expected"], [True, False]),
)
def test_a_tied_pair_counts_half_whatever_ties_is(ties, descending):
    unjudged = "zero" if descending else "remove"
    options = {"ties": ties, "unjudged": unjudged, "float32": descending, "interval": None}
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


@few(2)(("ties", "judged"), cycled(["item", "best", "expected"], [False, True]))
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


# Grades that the default threshold may misread

IDS = [(f"u{u}", f"i{i}") for u in range(40) for i in range(10)]
RATED = pl.DataFrame(IDS, schema=["query", "item"], orient="row").with_columns(
    score=pl.int_range(400).hash(1).cast(pl.Float64)
)
# 2.5% are below 1.
RATINGS = [0.5, *[1, 2, 3, 4, 5, 5, 4, 3] * 4, *[2, 3, 4, 3.5, 4.5, 5, 1.5]]


def judgments(grades):
    rel = (grades * 400)[:400]
    return RATED.select("query", "item", rel=pl.Series(rel, dtype=pl.Float64))


def notes_of(qrels, metrics="AP", run=RATED, **options):
    return rankql.evaluate(run, qrels, metrics, interval=None, **options).notes


@few(1)("form", ["frame", "csv", "alone", "integers"])
def test_ratings_ask_for_a_threshold(form, tmp_path):
    qrels, run = judgments(RATINGS), RATED
    if form == "csv":
        qrels.write_csv(tmp_path / "ratings.csv")
        qrels = tmp_path / "ratings.csv"
    if form == "integers":
        qrels = judgments([1, 2, 3, 4, 5]).cast({"rel": pl.Int64})
    if form == "alone":
        run, qrels = RATED.join(qrels, on=["query", "item"]), None
    part, least, below = ("100%", 1, "") if form == "integers" else ("98%", 0.5, ", 10 below 1")
    (note,) = notes_of(qrels, ["P@5", "nDCG@5"], run)
    assert note == (
        f"{part} of judged items count as relevant (threshold 1, grades {least} to 5{below}). "
        "For ratings pass threshold=, often 4"
    )
    (finding,) = [f for f in rankql.check(run, qrels).findings if f.kind == "ratings"]
    assert finding.message == note.partition(". For")[0]
    assert "pass threshold=, often 4" in finding.why
    assert notes_of(qrels, "nDCG@5", run) == notes_of(qrels, "P(rel=4)@5", run) == []
    for threshold in (1, 4):
        assert notes_of(qrels, "P@5", run, threshold=threshold) == []


@few(1)(
    "grades",
    [
        [1, 2, 3],
        [0, 1, 2, 3, 4],
        [1],
        [1, 1, 1, 5],
        [1, 1, 1, 1, 1, 2, 3, 12, 40],  # counts
    ],
)
def test_other_grades_are_silent(grades):
    notes = notes_of(judgments(grades), ["AP", "P@5"])
    assert not any("any order" not in x for x in notes)
    kinds = {finding.kind for finding in rankql.check(RATED, judgments(grades)).findings}
    assert "ratings" not in kinds


def test_grades_of_events_are_silent():
    events = ["buy", "cart", "click", "view", "view"] * 80
    qrels = RATED.select("query", "item", event=pl.Series(events))
    grades = {"buy": 5, "cart": 4, "click": 3, "view": 2}
    assert notes_of(qrels, rel=grades) == []

"""Shapes of input as other tools write them: dicts, no grades, their names of columns."""

import numpy
import polars as pl
import pytest
import pytrec_eval

import rankql
from rankql import RankqlError

# As in the README of pytrec_eval.
RUN = {"q1": {"d1": 1.0, "d2": 0.0, "d3": 1.5}, "q2": {"d1": 1.5, "d2": 0.2, "d3": 0.5}}
QRELS = {"q1": {"d1": 0, "d2": 1, "d3": 0}, "q2": {"d2": 1, "d3": 1}}
LISTS = {query: sorted(scores, key=scores.get, reverse=True) for query, scores in RUN.items()}


def frame(nested, value):
    rows = [(query, item, x) for query, items in nested.items() for item, x in items.items()]
    return pl.DataFrame(rows, schema=["query", "item", value], orient="row")


# Dicts


def test_dicts_are_evaluated_like_frames():
    expected = rankql.evaluate(frame(RUN, "score"), frame(QRELS, "rel"), ["nDCG@10", "AP"])
    for run in (RUN, LISTS, {"q0": {}, **RUN}, {**LISTS, "q0": []}):
        found = rankql.evaluate(run, QRELS, ["nDCG@10", "AP"])
        assert found.per_query.equals(expected.per_query)
    numpys = {q: {d: numpy.float32(x) for d, x in items.items()} for q, items in RUN.items()}
    assert rankql.evaluate(numpys, QRELS, "AP")["AP"] == expected["AP"]
    assert found.columns == {
        "run": {"query": "query", "item": "item", "pos": "pos"},
        "qrels": {"query": "query", "item": "item", "rel": "rel"},
    }


def test_dicts_agree_with_pytrec_eval():
    theirs = pytrec_eval.RelevanceEvaluator(QRELS, {"map", "ndcg"}).evaluate(RUN)
    ours = rankql.evaluate(RUN, QRELS, ["map", "ndcg"], conventions="trec_eval").per_query
    for query, *values in ours.rows():
        assert values == pytest.approx([theirs[query]["map"], theirs[query]["ndcg"]], abs=1e-6)


def test_dicts_of_several_runs():
    runs = {"one": RUN, "two": frame(RUN, "score").with_columns(score=-pl.col("score"))}
    found = rankql.evaluate(runs, QRELS, "RR").summary
    assert found["system"].to_list() == ["one", "two"]
    assert found["mean"].to_list() == pytest.approx([5 / 12, 1.0])
    assert rankql.evaluate({"one": LISTS}, QRELS, "RR").per_query.columns[0] == "system"


def test_dicts_in_all_functions():
    worse = {query: items[1:] for query, items in LISTS.items()}
    assert rankql.compare(LISTS, worse, QRELS, "RR").systems == ["run 1", "run 2"]
    assert rankql.compare({1: ["d1"]}, {1: {"d1": 1}}, "RR").systems == ["run"]
    assert rankql.compare({"a": LISTS, "b": worse}, QRELS, "RR").systems == ["a", "b"]
    assert rankql.gate(RUN, QRELS, minimum="RR>=0.4")
    assert rankql.gate(worse, QRELS, baseline=RUN, minimum="RR>=0.4")
    assert rankql.check(RUN, QRELS).ok
    assert rankql.limits(RUN, QRELS, "RR").result["RR"] == pytest.approx(5 / 12)
    assert rankql.explain(LISTS, QRELS, "q2", "RR").value == 0.5
    assert rankql.correlate(RUN, LISTS, "RBO(p=0.9)")["RBO(p=0.9)"] == pytest.approx(1)


def test_numeric_ids_match_ids_as_text():
    run = {numpy.int64(1): {7: 0.5, 8: 0.4}}
    assert rankql.evaluate(run, {"1": {"8": 1}}, "RR")["RR"] == 0.5
    assert rankql.evaluate(run, {1: {2**63 + 1: 1, 8: 1}}, "RR")["RR"] == 0.5


@pytest.mark.parametrize(
    "run, message",
    [
        ({}, "^A dict of runs must map at least one name to a run"),
        ({"q1": {}, "q2": []}, "^run is empty: the dict has no items"),
        ({"q1": {"d1": "high"}}, r"^run: the score of item 'd1' of query 'q1' must be a number, "),
        ({"q1": {"d1": float("nan"), "d2": 1}}, "^run: score must be a number, not nan"),
        ({"q1": {"d1": None}}, "^Every score of the run is NULL"),
        ({"q1": ["d1", "d2", "d2"]}, "^run has duplicates: query 'q1', item 'd2'"),
        ({"q1": [("d1", 0.5)]}, "^run: item ids must be all text or all whole numbers, not tuple"),
        ({"q1": ["d1", 2]}, "^run: item ids must be .*, not int and str. Pass {query: {item:"),
        ({"q1": ["d1"], 2: ["d1"]}, "^run: query ids must be .*, not int and str"),
        ({"q1": ["d1", None]}, "^run: item is NULL in 1 of 2 rows"),
        ({"q1": {"d1", "d2"}}, "^run: a set of items has no order. Pass a list"),
        (
            {"q1": {"d1": 1}, "q2": ["d1"]},
            "^The values of the dict run are mixed: 'q1' is a dict of numbers and 'q2' is a list",
        ),
        ({"a": "a.parquet", "q1": {"d1": 1}}, r"mixed: 'a' is a run \(str\) and 'q1' is a dict"),
        ({"query": ["q1"], "item": ["d1"]}, r"^run looks like a dict of columns \(query, item\)"),
    ],
)
def test_dicts_that_cannot_be_right(run, message):
    with pytest.raises(RankqlError, match=message):
        rankql.evaluate(run, QRELS, "RR")


def test_judgments_that_cannot_be_right():
    with pytest.raises(RankqlError, match=r"^qrels must be one table, not a dict of runs"):
        rankql.evaluate(RUN, {"one": QRELS}, "RR")
    with pytest.raises(RankqlError, match=r"^qrels: the rel of item 'd2' .*, not 'yes'\. Pass {q"):
        rankql.evaluate(RUN, {"q1": {"d1": 1, "d2": "yes"}}, "RR")


# Names of columns


@pytest.mark.parametrize(
    "query, item, rel",
    [
        ("userId", "movieId", "rating"),
        ("question_id", "chunk_id", "label"),
        ("Query ID", "passage-id", "Relevance"),
        ("query-id", "doc", "grade"),
    ],
)
def test_names_of_other_tools(query, item, rel):
    run = frame(RUN, "score").rename({"query": query, "item": item})
    qrels = frame(QRELS, rel).rename({"query": query, "item": item})
    found = rankql.evaluate(run, qrels, "RR")
    assert found["RR"] == pytest.approx(5 / 12)
    assert found.columns["qrels"] == {"query": query, "item": item, "rel": rel}


def test_names_that_only_look_alike():
    """An exact name comes before one that is spelled in another way."""
    run = frame(RUN, "score").with_columns(docid=pl.int_range(pl.len())).rename({"item": "docno"})
    qrels = frame(QRELS, "rel").rename({"item": "document", "query": "query-id"})
    found = rankql.evaluate(run, qrels, "RR")
    assert found.columns["run"]["item"] == "docno"
    both = run.with_columns(**{"Query_ID": pl.col("query")}, query=pl.lit("words"))
    assert rankql.evaluate(both, qrels, "RR").columns["run"]["query"] == "Query_ID"


# Judgments without grades


# As a recommender logs it: no grade, and columns that are none.
BOUGHT = pl.DataFrame({"user_id": ["q1", "q2"], "item_id": ["d2", "d3"], "timestamp": [5, 6]})
EVENTS = BOUGHT.with_columns(event=pl.Series(["buy", "click"]))


def test_judgments_of_items_alone_have_grade_1(tmp_path):
    run = frame(RUN, "score").rename({"query": "user_id", "item": "item_id"})
    BOUGHT.write_csv(tmp_path / "bought.csv")
    for qrels in (BOUGHT, tmp_path / "bought.csv", {"q1": ["d2"], "q2": {"d3"}}):
        found = rankql.evaluate(run, qrels, ["RR", "R@2"])
        assert found.per_query.rows() == [("q1", pytest.approx(1 / 3), 0), ("q2", 0.5, 1)]
        assert found.columns["qrels"]["rel"] == "1 for every row"
        assert "rel = 1 for every row" in repr(found)
    assert rankql.check(run, BOUGHT).ok
    assert rankql.limits(run, BOUGHT, "RR").result["RR"] == pytest.approx(5 / 12)


def test_runs_are_no_judgments():
    run = frame(RUN, "score").rename({"query": "user_id", "item": "item_id"})
    with pytest.raises(RankqlError, match=r"^run and qrels look swapped"):
        rankql.evaluate(BOUGHT, run, "RR")
    for other in (run, run.rename({"score": "pos"})):
        with pytest.raises(RankqlError, match=r"^No grade column in qrels"):
            rankql.evaluate(run, other, "RR")
    with pytest.raises(RankqlError, match=r"^rel='grade': no column of that name"):
        rankql.evaluate(run, BOUGHT, "RR", rel="grade")


def test_grades_of_events(tmp_path):
    grades = {"buy": 3, "cart": 2, "click": 1}
    EVENTS.write_csv(tmp_path / "events.csv")
    pandas = EVENTS.to_pandas().astype({"event": "category"})
    for qrels in (EVENTS, pandas, tmp_path / "events.csv"):
        found = rankql.evaluate(RUN, qrels, "RR(rel=2)", rel=grades, by="event")
        assert found.per_query.rows() == [
            ("q1", "buy", pytest.approx(1 / 3)),
            ("q2", "click", None),
        ]
        assert found.columns["qrels"]["rel"] == "event (buy: 3, cart: 2, click: 1)"
    half = rankql.evaluate(RUN, EVENTS, "DCG@1", rel={"buy": 3, "click": 0.5}).per_query
    assert half["DCG@1"].to_list() == [0, 0]
    ranked = EVENTS.with_columns(pos=pl.Series([1, 3]))
    found = rankql.evaluate(ranked, metrics="DCG@3", rel={"buy": 3, "click": 0.5})
    assert found.per_query["DCG@3"].to_list() == [3, 0.25]
    assert rankql.explain(RUN, EVENTS, "q1", "DCG@3", rel=grades).value == 1.5
    assert rankql.check(RUN, EVENTS, rel=grades).ok


@pytest.mark.parametrize(
    "qrels, grades, message",
    [
        (EVENTS, {"buy": 3}, r"^qrels: rel=.* has no grade for event 'click'. Add one, such as 'c"),
        (BOUGHT, {"buy": 3}, r"^rel=\{'buy': 3\} needs a text column in qrels: one of event, .*"),
        (EVENTS, {}, r"^rel=\{\} needs a text column"),
        (EVENTS, {"buy": "much"}, r"^rel must map events \(text\) to grades, not 'buy' to 'much'"),
        (EVENTS, {"buy": float("nan")}, r"^rel must map .* not 'buy' to nan"),
    ],
)
def test_mappings_that_cannot_be_right(qrels, grades, message):
    with pytest.raises(RankqlError, match=message):
        rankql.evaluate(RUN, qrels, "RR", rel=grades)


def test_judgments_of_beir(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td2\t2\nq2\td3\t1\n")
    found = rankql.evaluate(RUN, path, "nDCG@10")
    assert found.columns["qrels"] == {"query": "query-id", "item": "corpus-id", "rel": "score"}
    expected = rankql.evaluate(RUN, {"q1": {"d2": 1}, "q2": {"d2": 2, "d3": 1}}, "nDCG@10")
    assert found["nDCG@10"] == expected["nDCG@10"]


# Files of MS MARCO, which have no header

MARCO = "1048585\t7187158\t1\t9.5\n1048585\t7187157\t2\t8.1\n2\t4339068\t1\t7.2\n"
MARCO_QRELS = "1048585\t0\t7187157\t1\n2\t0\t4339068\t1\n"


@pytest.mark.parametrize("columns", [3, 4])
@pytest.mark.parametrize("name", ["run.tsv", "run.dev.small", "run.txt"])
def test_files_of_ms_marco(tmp_path, name, columns):
    lines = ["\t".join(line.split("\t")[:columns]) for line in MARCO.splitlines()]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    for qrels in ("qrels.dev.tsv", "qrels.txt"):
        (tmp_path / qrels).write_text(MARCO_QRELS)
        found = rankql.evaluate(tmp_path / name, tmp_path / qrels, "RR@10")
        assert found.per_query.rows() == [("1048585", 0.5), ("2", 1.0)]
        assert found.columns["run"]["pos"] == "rank"
        assert found.columns["qrels"] == {"query": "query", "item": "item", "rel": "rel"}


def test_files_that_are_not_of_ms_marco(tmp_path):
    run, qrels = tmp_path / "run.tsv", tmp_path / "qrels.tsv"
    run.write_text("q1\td1\tfirst\nq1\td2\tsecond\n")
    qrels.write_text(MARCO_QRELS)
    with pytest.raises(RankqlError, match=r"^No query column in run: expected one of"):
        rankql.evaluate(run, qrels, "RR")
    run.write_text(MARCO + "2\t4339068\n")
    with pytest.raises(RankqlError, match=r"run.tsv' has a line without 4 columns: '2 4339068'"):
        rankql.evaluate(run, qrels, "RR")
    run.write_text(MARCO)
    with pytest.raises(RankqlError, match=r"^run and qrels look swapped"):
        rankql.evaluate(qrels, run, "RR")
    # Judgments of TREC with another iteration, and items that look like ranks.
    qrels.write_text("2\t1\t1\t0\n2\t1\t2\t1\n")
    assert rankql.evaluate({2: [1, 2]}, qrels, "RR")["RR"] == 0.5

"""Shapes of input as other tools write them: dicts, no grades, their names of columns."""

import gzip
import json
import math
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

import numpy
import pandas
import polars as pl
import pyarrow
import pytest

import rankql
from rankql import RankqlError
from support.parameters import cycled, few, of_each_kind
from support.reading import assert_read, read, refused
from support.samples import written

# As in the README of pytrec_eval.
RUN = {"q1": {"d1": 1.0, "d2": 0.0, "d3": 1.5}, "q2": {"d1": 1.5, "d2": 0.2, "d3": 0.5}}
QRELS = {"q1": {"d1": 0, "d2": 1, "d3": 0}, "q2": {"d2": 1, "d3": 1}}
LISTS = {query: sorted(scores, key=scores.get, reverse=True) for query, scores in RUN.items()}


def frame(nested, value):
    rows = [(query, item, x) for query, items in nested.items() for item, x in items.items()]
    return pl.DataFrame(rows, schema=["query", "item", value], orient="row")


# As a recommender logs it: no grade, and columns that are none.
BOUGHT = pl.DataFrame({"user_id": ["q1", "q2"], "item_id": ["d2", "d3"], "timestamp": [5, 6]})
EVENTS = BOUGHT.with_columns(event=pl.Series(["buy", "click"]))
TEXT_RUN = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": ["2.0", "1e0"]})
TEXT_QRELS = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": ["0", "1.0"]})
TEXT_ROW = {"query": "a", "retrieved": {"x": "0.9", "y": "0.1"},
            "relevant": [{"id": "x", "label": "0"}, {"id": "y", "label": "1.0"}]}  # fmt: skip
FTS5 = pl.DataFrame({"query": ["q1"] * 2, "item": ["d0", "d1"], "rank": [-3.0, -2.0]})
SYSTEMS = {"bm25": {"q1": ["d0", "d1"]}, "dense": {"q1": ["d1", "d0"]}}

# Objects of other libraries


class Hit(NamedTuple):
    doc_id: str
    score: float


@dataclass
class Point:
    id: str
    score: float


class Model:
    """As an object of pydantic."""

    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self):
        return self.fields


def three(kind):
    """Two hits of one query and one of another."""
    return {"q1": [kind("d1", 0.9), kind("d2", 0.5)], "q2": [kind("d2", 0.8)]}


HIGHEST = 3.4028234663852886e38
LAST = {"q1": {"d0": 1}, "q2": {"d2": 1}}
FIRST = {"q1": {1: 1}, "q2": {5: 1}}
SECOND = {"q1": ["d2"], "q2": ["d2"]}
NEAR = {"query": ["q1"] * 3 + ["q2"] * 2, "item": [3, 1, -1, 5, -1],
        "score": [0.4, 0.5, HIGHEST, 0.5, HIGHEST]}  # fmt: skip
GRADED = [{"id": "q1", "relevance": {"d1": 1, "d7": 0}}, {"id": "q2", "relevance": {"d2": 2}}]
FOUND = {"q1": ["d0", "d1"], "q2": ["d2"]}
EMPTY = {"query": "q1", "item": "d0", "score": 0.5, "tags": [], "inner": {"of": []}}

READ = {
    "numbers as ids and text": ({numpy.int64(1): {7: 0.5, 8: 0.4}}, {"1": {"8": 1}}, {}, 1 / 2),
    "numbers of 64 bits as ids": ({1: {7: 0.5, 8: 0.4}}, {1: {2**63 + 1: 1, 8: 1}}, {}, 1 / 2),
    **{f"names of other tools: {query}": (
        *(frame(*x).rename({"query": query, "item": item}) for x in ((RUN, "score"), (QRELS, rel))),
        {}, 5 / 12, f"{{'query': {query!r}, 'item': {item!r}, 'rel': {rel!r}}}")
       for query, item, rel in (
           ("userId", "movieId", "rating"), ("question_id", "chunk_id", "label"),
           ("Query ID", "passage-id", "Relevance"), ("query-id", "doc", "grade"),
           ("visitor_id", "sku", "rel"), ("customer", "movie", "rel"), ("session", "asin", "rel"))},
    **{f"objects with fields as {kind.__name__}": (three(kind), SECOND, {}, 3 / 4)
       for kind in (Hit, Point)},
    "objects with fields as pydantic has them": (
        three(lambda doc, score: Model(id=doc, score=score)), SECOND, {}, 3 / 4),
    "objects with fields as rows": (
        [Model(query=q, item=d, score=s) for q, d, s in frame(RUN, "score").rows()], QRELS, {},
        5 / 12),
    # As OpenSearch writes `sort`, and LanceDB a vector.
    **{f"lists in hits: {[*more]}": (three(lambda d, _, m=more: {"_id": d, **m}), SECOND, {}, 3 / 4)
       for more in ({"sort": [1.5]}, {"vector": [0.1, 0.2]}, {"matched_queries": ["t"]})},
    **{f"numbers as {kind.__name__}": (
        {q: {d: kind(x) for d, x in pairs} for q, pairs in three(lambda *x: x).items()}, SECOND,
        {}, 3 / 4) for kind in (Decimal, numpy.array, numpy.float32)},
    "two systems of one query": (SYSTEMS, LAST, {}, [0.5, 0.25]),
    "keys of usearch without a distance": (
        (numpy.array([[10, 12, 0], [11, 13, 0]], "uint64"),
         numpy.array([[0, 1, math.nan], [0, 2, math.nan]], "float32")),
        {0: {10: 1, 0: 1}, 1: {11: 1}}, {"metrics": "P@3"}, 1 / 3),
    # As LlamaIndex and Pinecone write them beside each hit.
    "lists of rows that are empty everywhere": ([EMPTY], LAST, {}, 1 / 2),
    "lists that are empty everywhere: of hits": (
        {"q1": [{"id": "d0", "tags": []}]}, LAST, {}, 1 / 2),
    "a list of lists": (
        [[{"id": 3, "score": 0.9}, {"id": 1, "score": 0.5}], [{"id": 2, "score": 0.8}]],
        {0: {1: 1}, 1: {2: 1}}, {}, 3 / 4),
    "the rank of FTS5": (FTS5, LAST, {"score": "rank", "descending": False}, 1 / 2),
    "fill-ins: the caller overrules their order": (
        pl.DataFrame(NEAR), FIRST, {"descending": True}, 1),
    "relevance maps ids to grades in a table": (FOUND, GRADED, {}, 3 / 4),
    "relevance maps ids to grades beside lists": (
        [{**row, "retrieved": FOUND[row["id"]]} for row in GRADED], None, {}, 3 / 4),
    "relevance maps ids to grades by a field": (
        [{"query": "q1", "item": "d1", "pos": 1, "relevance": {"rel": 1, "score": 2}}], None,
        {"rel": "relevance.rel"}, 1),
    "numbers in text of dicts": (
        {"a": {"x": "2.0", "y": "1"}}, {"a": {"x": "0", "y": "1"}}, {}, 1 / 2),
    "numbers in text of lists": (pl.DataFrame([TEXT_ROW]), None, {}, 1 / 2),
    "iterations of TREC that look like ranks": (
        {2: [1, 2]}, "2\t1\t1\t0\n2\t1\t2\t1\n", {}, 1 / 2),
}  # fmt: skip


@of_each_kind(READ)
def test_what_is_read(kind, case, tmp_path):
    """A text is a file of judgments."""
    run, qrels, *expected = READ[case]
    if isinstance(qrels, str):
        (path := tmp_path / "qrels.tsv").write_text(qrels)
        qrels = path
    assert_read(run, qrels, *expected)


WRONG_RUNS = [
    ({"q1": {}, "q2": []}, "^run is empty: the dict has no items"),
    ({"q1": {"d1": "high"}}, r"^run: the score of item 'd1' of query 'q1' must be a number, "),
    ({"q1": {"d1": float("nan"), "d2": 1}}, "^run: score must be a number, not nan"),
    ({"q1": {"d1": None}}, "^Every score of the run is NULL"),
    ({"q1": ["d1", "d2", "d2"]}, "^run has duplicates: query 'q1', item 'd2'"),
    ({"q1": [("d1", 0.5), "d2"]}, "^run: some items are pairs, others"),
    ({"q1": {"d1": 2**63}}, "^run: the score 9223372036854775808 is too large"),
    ({"q1": {"d1": -(10**400), "d2": 0.5}}, "^run: the score -1000.* is too large"),
    ({"q1": {"d1": Decimal(2**53 + 1), "d2": Decimal(2**53)}}, "has so many digits that different"),
    ({"q1": ["d1", 2]}, "^run: item ids must be .*, not int and str. Pass {query: {item:"),
    ({"q1": ["d1"], 2: ["d1"]}, "^run: query ids must be .*, not int and str"),
    ({"q1": ["d1", None]}, "^run: item is NULL in 1 of 2 ids"),
    ({UUID(int=1): ["d1"]}, "^run: query ids must be .*, not UUID. Pass .* as text: str"),
    ({"q1": {"d1", "d2"}}, "^run has a set of items, which has no order. Pass a list"),
    ({"q1": {"d1": 1}, "q2": ["d1"]}, "^run must be one table of queries, not numbers and"),
    ({"a": "a.parquet", "q1": {"d1": 1}}, "^run must be one table .*, not a run and"),
    ({"responses": [{"hits": {"hits": []}}]}, "an answer of a search engine, but no query has an"),
    ({"query": ["q1"], "item": ["d1"]}, "^run looks like a dict of columns, not of queries"),
    ({1: pandas.Series([1.5], index=["a"])}, "^run: item ids must be all text or all"),
    ({1: numpy.array([["a", "b"]])}, "^run must be one table of queries, not arrays"),
    (FTS5, "below 0, as in FTS5, where it is a score. Pass: score='rank', descending=False"),
    (pl.DataFrame([{**TEXT_ROW, "retrieved": [{"id": "x", "score": "9"}, {"id": "y", "score": "10"}]
                    }]).drop("relevant"), "is not in the order of retrieved"),
    *((run, r"must be a (number|list of ids), not") for value in ("nan", "inf", "0,9", "1_0", "")
      for run in (TEXT_RUN.with_columns(score=pl.Series([value, "1"])), {"a": {"x": value}},
                  pl.DataFrame([{"query": "a", "retrieved": {"x": value, "y": "1"}}]))),
]  # fmt: skip
WRONG_QRELS = [
    (EVENTS, {"buy": 3}, "^qrels: rel=.* has no grade for event 'click'"),
    (BOUGHT, {"buy": 3}, r"^rel=\{'buy': 3\} needs a text column in qrels, or a column of yes "
     r"and no for each grade\. Fill in: rel=\('\.\.\.', \{'buy': 3\}\) "),
    *((EVENTS, rel, r"^rel must map events \(text\) to grades, as .*, not {")
      for rel in ({}, {"buy": "much"}, {"buy": float("nan")}, {1: 2})),
    ({"one": QRELS, "two": QRELS}, None, "^qrels must be one table of queries, not a run"),
    ({"q1": {"d1": 1}, "q2": ["d1"]}, None, "^qrels must be one table .*, not numbers and"),
    ({"q1": {"d1": 1, "d2": "yes"}}, None, "^qrels: the rel of item 'd2' .*, not 'yes'"),
]  # fmt: skip


@few(14)(
    ("run", "qrels", "rel", "message"),
    [*((run, QRELS, None, message) for run, message in WRONG_RUNS),
     *((RUN, *case) for case in WRONG_QRELS)],
)  # fmt: skip
def test_what_cannot_be_right_is_refused(run, qrels, rel, message):
    refused(run, qrels, rel=rel, match=message)


PADDED = {"q1": ["d1", "d0", ""], "q2": ["d2", "", ""]}
OF_INTS = {"q1": {3: 0.4, 1: 0.5}, "q2": {5: 0.5}}


def with_fills(pairs, *fill):
    """Pairs by query, with what ends them in an index."""
    return {query: [*x.items(), fill] for query, x in pairs.items()}


DISTANCES = "2 items -1 left out, the fill-in of FAISS. The numbers are distances"


@few(6)(
    ("run", "qrels", "value", "kept", "note"),
    [
        ({"q1": {"documents": [{"id": "d0"}]}, "q2": {"documents": [{"id": "d2"}]}}, LAST, 1, 2,
         ""),
        ({"q1": {"nodes": ["d0", "d1"]}, "q2": {"nodes": ["d2"]}}, LAST, 1, 3, ""),
        ({"q1": {"hits": {"d1": {"score": 0.2}, "d0": {"score": 0.9}}},
          "q2": {"hits": {"d2": {"score": 0.5}}}}, LAST, 1, 3, ""),
        ({"q1": {"hits": {"d1": 0.2, "d0": 0.9}}, "q2": {"hits": {"d2": 0.5}}}, LAST, 1, 3, ""),
        ({"q1": ([1, 3], [0.1, 0.3]), "q2": ([5, 4], [0.3, 0.9])}, FIRST, 1, 4, ""),
        ({"q1": (["d0", "d1"], [0.1, 0.3]), "q2": (["d2"], [0.3])}, LAST, 1, 3, ""),
        ({"q1": ([1, -1], [0.1, HIGHEST]), "q2": ([5, 4], [0.3, 0.9])}, FIRST, 1, 3, "1 place at"),
        ({"q1": {1: 0.1, 3: 0.2, -1: HIGHEST}, "q2": {5: 0.3, 4: 0.9}}, FIRST, 1, 4,
         "1 item -1 left out, the fill-in of FAISS. The numbers are distances"),
        ({"q1": {1: 0.2, 3: 0.1, -1: -HIGHEST}, "q2": {5: 0.9, -1: -HIGHEST}}, FIRST, 1, 3,
         "2 items -1 left out, the fill-in of FAISS. The numbers are scores"),
        ({"q1": {1: 0.2, -1: 0.1}, "q2": {5: 0.9}}, FIRST, 1, 3, ""),  # an item
        ({q: numpy.array(x, object) for q, x in PADDED.items()}, LAST, 0.75, 3, "3 places at the"),
        *(({"q1": numpy.array([3, 1, end]), "q2": numpy.array([5, end, end])}, FIRST, 0.75, 3,
           "3 places") for end in (-1, math.nan)),
        (with_fills(OF_INTS, -1, HIGHEST), FIRST, 0.75, 3, DISTANCES),
        (with_fills({"q1": {3: 0.5, 1: 0.4}, "q2": {5: 0.5}}, -1, -HIGHEST), FIRST, 0.75, 3,
         "The numbers are scores"),
        (with_fills(OF_INTS, 0, math.nan), FIRST, 0.75, 3,
         "2 items 0 left out, the fill-in of usearch. The numbers are distances"),
        ({q: dict(x) for q, x in with_fills(OF_INTS, 0, math.nan).items()}, FIRST, 0.75, 3,
         "fill-in of usearch"),
        ({"q1": {"d1": {"score": 2.0, "rank": 1}, "d0": {"score": 1.0, "rank": 2}},
          "q2": {"d2": {"score": 1.0, "rank": 1}}}, LAST, 0.75, 3, ""),
        ({"q1": [3, 1], "q2": [5]}, {"q1": {1.0: 1}, "q2": {5.0: 1}}, 0.75, 3, ""),
        ({"q1": ["3", "1"], "q2": ["5"]}, {"q1": [1.0], "q2": [5.0]}, 0.75, 3, ""),
    ],
)  # fmt: skip
def test_what_libraries_return_by_query(run, qrels, value, kept, note):
    result = read(run, qrels)
    assert result["RR"] == value and sum(result.values("num_ret").values()) == kept
    notes = "\n".join(result.notes)
    assert note in notes and bool(note) == ("left out" in notes or "The numbers" in notes)


@few(1)("form", ["frame", "pandas", "arrow", "parquet", "table"])
def test_columns_of_numbers_in_text(form, tmp_path):
    for run in (TEXT_RUN, TEXT_RUN.rename({"score": "pos"})):
        data, con = written(run, form, tmp_path)
        expected = 0.5 if "score" in run.columns else 1
        assert read(data, TEXT_QRELS, con=con)["RR"] == expected
    assert rankql.check(TEXT_RUN, TEXT_QRELS).passed


# Dicts


def test_dicts_are_evaluated_like_frames():
    expected = read(frame(RUN, "score"), frame(QRELS, "rel"))
    for run in (RUN, LISTS, {"q0": {}, **RUN}, {**LISTS, "q0": []}):
        result = read(run, QRELS)
        assert result.rankings == expected.rankings
    numpys = {q: {d: numpy.float32(x) for d, x in items.items()} for q, items in RUN.items()}
    assert read(numpys, QRELS).rankings == expected.rankings
    assert result.columns["run"] == {"query": "query", "item": "item", "pos": "pos"}


def test_dicts_hold_series_and_arrays():
    expected = read(LISTS, QRELS).rankings
    # As groupby gives them, with the index of the frame.
    groups = pandas.DataFrame([(q, d) for q, items in LISTS.items() for d in items]).groupby(0)[1]
    kinds = (numpy.array, pl.Series, pandas.Series, pandas.Index)
    runs = [{query: kind(items) for query, items in LISTS.items()} for kind in kinds]
    for run in (*runs, dict(list(groups)), groups.apply(list)):
        assert read(run, QRELS).rankings == expected
    assert read({1: pandas.Series([7, 8])}, {1: [8]})["RR"] == 0.5
    assert {key[0] for key in read({"one": runs[2]}, QRELS).rankings} == {"one"}


# Judgments without grades


def test_judgments_of_items_alone_have_grade_1(tmp_path):
    BOUGHT.write_csv(tmp_path / "bought.csv")
    for qrels in (BOUGHT, tmp_path / "bought.csv", {"q1": ["d2"], "q2": {"d3"}}):
        result = read(RUN, qrels)
        assert result.values() == {"q1": pytest.approx(1 / 3), "q2": 0.5}
        assert result.columns["qrels"]["rel"] == "1 for every row"
    assert "rel = 1 for every row" in repr(rankql.evaluate(RUN, BOUGHT, "RR"))
    BOUGHT.drop("timestamp").to_pandas().to_csv(tmp_path / "index.csv")
    for qrels in (tmp_path / "index.csv", pl.read_csv(tmp_path / "index.csv")):
        result = read(RUN, qrels)  # the numbers of rows are not asked about
        assert result.values() == {"q1": pytest.approx(1 / 3), "q2": 0.5}
        assert result.columns["qrels"]["not read"] in ("column0", "Unnamed: 0")
    assert rankql.check(RUN, BOUGHT).passed
    refused(RUN, BOUGHT.with_columns(pos=1), match=r"^No grade column in qrels")


def test_events_have_grades(tmp_path):
    grades = {"buy": 3, "cart": 2, "click": 1}
    EVENTS.write_csv(tmp_path / "events.csv")
    categories = EVENTS.to_pandas().astype({"event": "category"})
    for qrels in (EVENTS, categories, tmp_path / "events.csv"):
        result = rankql.evaluate(RUN, qrels, "RR(rel=2)", rel=grades, by="event")
        rows = [("q1", "buy", pytest.approx(1 / 3)), ("q2", "click", None)]
        assert result.per_query.rows() == rows
        assert result.columns["qrels"]["rel"] == "event (buy: 3, cart: 2, click: 1)"
    ranked = EVENTS.with_columns(pos=pl.Series([1, 3]))
    result = rankql.evaluate(ranked, metrics="DCG@3", rel={"buy": 3, "click": 0.5})
    assert result.per_query["DCG@3"].to_list() == [3, 0.25]
    assert rankql.explain(RUN, EVENTS, "q1", "DCG@3", rel=grades).value == 1.5
    assert rankql.check(RUN, EVENTS, rel=grades).passed


def test_repeated_items_count_once_with_the_highest_assumed_grade():
    """As a log has them: the item was clicked, then bought."""
    more = EVENTS.with_columns(pl.col("timestamp") + 9, event=pl.lit("click"))
    grades = {"buy": 3, "click": 1}
    priced = BOUGHT.with_columns(price=pl.Series([5, 7]))
    for once, again, rel in ((EVENTS, more, grades), (BOUGHT, BOUGHT, None), (priced, priced, "1")):
        result = read(RUN, pl.concat([once, again]), rel=rel)
        assert result.rankings == read(RUN, once, rel=rel).rankings
        left_out = "qrels: 2 rows with an item that its query already has are left out"
        assert result.notes[0].startswith(left_out) and "left out" not in str(result.columns)
    message = r"Is price the grade of item_id\? Pass one of: rel='1' rel='price'"
    refused(RUN, priced, "R@9", match=message)


def test_attributes_and_grades_of_the_data_are_not_merged():
    phones = [EVENTS.with_columns(device=pl.lit(name)) for name in "ab"]
    for name in ("by", "cluster"):
        options = {name: "device", "rel": {"buy": 3, "click": 1}}
        message = f"^{name}: device must have one value per query"
        refused(RUN, pl.concat(phones), "DCG", match=message, **options)
    twice = pl.concat([BOUGHT.with_columns(rel=1)] * 2)
    refused(RUN, twice, "DCG", match="^qrels has duplicates: query 'q1', item 'd2'")


def test_judgments_of_beir_have_whole_grades(tmp_path):
    path, header = tmp_path / "test.tsv", "query-id\tcorpus-id\tscore\n"
    path.write_text(f"{header}q1\td2\t1\nq2\td2\t2\nq2\td3\t1\n")
    result = read(RUN, path, "nDCG@10")
    assert result.columns["qrels"] == {"query": "query-id", "item": "corpus-id", "rel": "score"}
    expected = read(RUN, {"q1": {"d2": 1}, "q2": {"d2": 2, "d3": 1}}, "nDCG@10")
    assert result["nDCG@10"] == expected["nDCG@10"]
    path.write_text(f"{header}q1\td2\t12.5\nq2\td2\t2\n")
    refused(RUN, path, "nDCG@10", match=r"^qrels looks like a run: score is 12.5")
    assert rankql.evaluate(RUN, path, "DCG@3", rel="score").per_query["DCG@3"].max() == 6.25


# Streams, and files without rows


@pytest.fixture
def runs(tmp_path):
    """The run in the formats of files."""
    rows = frame(RUN, "score")
    rows.write_parquet(tmp_path / "run.parquet")
    rows.write_csv(tmp_path / "run.csv")
    rows.write_csv(tmp_path / "run.tsv", separator="\t")
    rows.write_ndjson(tmp_path / "run.jsonl")
    rankql.convert(rows, tmp_path / "run.trec")
    rankql.convert(rows, tmp_path / "run.trec.zst")
    (tmp_path / "run.trec.gz").write_bytes(gzip.compress((tmp_path / "run.trec").read_bytes()))
    frame(QRELS, "rel").write_csv(tmp_path / "qrels.csv")
    return tmp_path


COMMAND = "'{python}' -m rankql {command} -m RR --format csv --interval none"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        *((command, 0, "\nall,RR,0.41666666666666663,,,2,0,0\n") for command in (
            *(f"eval - qrels.csv <run.{x}" for x in ("parquet", "tsv", "jsonl", "trec.gz")),
            "eval <(cat run.trec) <(cat qrels.csv)", "eval run.trec.zst - <qrels.csv")),
        ("eval - qrels.csv </dev/null", 2, "rankql: run: '-' is empty"),
    ],
)  # fmt: skip
def test_streams(runs, command, status, message):
    command = COMMAND.format(python=sys.executable, command=command)
    done = subprocess.run(["bash", "-c", command], cwd=runs, capture_output=True, text=True)
    assert done.returncode == status and message in done.stdout + done.stderr


def test_a_pipe_of_a_name_is_read_every_time(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for items, expected in ((["x", "y"], 0.5), (["y", "x"], 1)):
        lines = "".join(f"a Q0 {item} 1 {-i} t\n" for i, item in enumerate(items))
        writer = threading.Thread(target=pipe.write_text, args=(lines,))
        writer.start()
        assert read(pipe, {"a": ["y"]})["RR"] == expected
        writer.join()


@pytest.mark.parametrize("form", ["pipe", "stream"])
def test_a_repeated_row_of_what_can_be_read_once_counts_once(tmp_path, form):
    rows = [(f"q{i}", f"d{j}", 5 - j) for i in range(30) for j in range(4)]
    run = pl.DataFrame([*rows, rows[0]], ["query", "item", "score"], orient="row")
    judged = {f"q{i}": ["d1"] for i in range(30)}
    if form == "stream":
        result = rankql.evaluate(run.to_arrow().to_reader(), judged, "RR", interval=None)
    else:
        os.mkfifo(pipe := tmp_path / "pipe")
        writer = threading.Thread(target=pipe.write_text, args=(run.write_csv(),))
        writer.start()
        result = rankql.evaluate(pipe, judged, "RR", interval=None)
        writer.join()
    assert result["RR"] == 0.5
    assert "run: 1 row equal to another one in all columns is left out" in result.notes


@few(2)("mark", [",", ";", "|", "\t"])
def test_a_pipe_may_have_the_marks_of_a_file(tmp_path, mark):
    """A stream has no suffix, so its header says that it is CSV."""
    frame(RUN, "score").write_csv(tmp_path / "run.csv", separator=mark)
    os.mkfifo(pipe := tmp_path / "pipe")
    text = (tmp_path / "run.csv").read_text()
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    found = read(pipe, frame(QRELS, "rel"))["RR"]
    writer.join()
    assert found == read(tmp_path / "run.csv", frame(QRELS, "rel"))["RR"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.run", "b.csv"])
def test_files_without_rows_are_refused(tmp_path, name):
    (tmp_path / name).write_text("\n\n" if name.startswith("b") else "")
    for run, qrels, label in ((RUN, tmp_path / name, "qrels"), (tmp_path / name, QRELS, "run")):
        refused(run, qrels, match=rf"^{label}: '.*{name}' is empty")


# Files of MS MARCO, which have no header

MARCO = "1048585\t7187158\t1\t9.5\n1048585\t7187157\t2\t8.1\n2\t4339068\t1\t7.2\n"
MARCO_QRELS = "1048585\t0\t7187157\t1\n2\t0\t4339068\t1\n"


@few(2)(("name", "columns"), cycled(["run.tsv", "run.dev.small", "run.txt"], [3, 4]))
def test_files_of_ms_marco_need_no_header(tmp_path, name, columns):
    lines = ["\t".join(line.split("\t")[:columns]) for line in MARCO.splitlines()]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    for qrels in ("qrels.dev.tsv", "qrels.txt"):
        (tmp_path / qrels).write_text(MARCO_QRELS)
        result = read(tmp_path / name, tmp_path / qrels)
        assert result.values() == {"1048585": 0.5, "2": 1}
        assert result.columns["run"]["pos"] == "rank"
        assert result.columns["qrels"] == {"query": "query", "item": "item", "rel": "rel"}


@few(2)(
    ("run", "qrels", "message"),
    [
        ("q1\td1\tfirst\nq1\td2\tsecond\n", MARCO_QRELS, r"^No query column in run\. Fill in: "),
        (MARCO + "2\t7\n", MARCO_QRELS, "run.tsv' .* it has a line without 4 columns: '2 7'"),
        (MARCO_QRELS, MARCO, "The run comes first"),
    ],
)
def test_files_that_are_not_of_ms_marco(tmp_path, run, qrels, message):
    (tmp_path / "run.tsv").write_text(run)
    (tmp_path / "qrels.tsv").write_text(qrels)
    refused(tmp_path / "run.tsv", tmp_path / "qrels.tsv", match=message)


# Two columns of one name


@few(2)("form", ["pandas", "arrow", "csv"])
def test_a_name_of_two_columns_is_refused_if_it_is_used(form, tmp_path):
    def table(*names):
        rows = [row[: len(names)] for row in (("a", "x", 2, 1, 1), ("a", "y", 1, 3, 3))]
        if form == "pandas":
            return pandas.DataFrame(rows, columns=names)
        if form == "arrow":
            return pyarrow.table([*map(pyarrow.array, zip(*rows, strict=True))], names=names)
        path = tmp_path / f"{'-'.join(names)}.csv"
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in (names, *rows)))
        return path

    qrels, twice = {"a": {"y": 1}}, table("query", "item", "score", "score")
    for function in (rankql.evaluate, rankql.check):
        message = r"^run has several columns called 'score'\. Rename or"
        with pytest.raises(RankqlError, match=message):
            function(twice, qrels)
    unused = table("query", "item", "score", "note", "note")
    refused(unused, qrels, score="note", match="'note'")
    cased = table("query", "item", "score", "Score", "score_1")
    refused(cased, qrels, match=r"^run has several columns called '.core'")
    runs = [unused.to_reader()] if form == "arrow" else []
    for run in (*runs, unused):
        assert read(run, qrels)["RR"] == 0.5


def test_lists_of_columns_may_be_missing_or_empty():
    rows = [
        {"query": "a", "retrieved": [{"id": "x", "tags": ["t"]}, {"id": "y", "tags": None}]},
        {"query": "b", "retrieved": [], "relevant": ["x"]},
        {"query": "c", "retrieved": [{"id": "y", "note": {"n": 1}}, {"id": "x"}]},
    ]
    both = [{**row, "relevant": ["x"]} for row in rows]
    expected = read(pl.DataFrame(both, infer_schema_length=None))
    assert read(both).rankings == expected.rankings
    assert expected.values() == {"a": 1, "b": 0, "c": 0.5}


def test_na_of_r_is_null_in_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("query,item,rel,place\nq1,d0,1,NA\nq1,d1,NA,NA\n")
    result = rankql.evaluate({"q1": ["d0", "d1"]}, tmp_path / "a.csv", ["P@2", "Judged@2"])
    assert result.summary["mean"].to_list() == [0.5, 0.5]
    assert any("1 value of rel is NA, as R writes missing ones" in x for x in result.notes)


@few(5)("kind", ["frame", "float32", "pandas", "rows", "csv", "rank"])
@pytest.mark.parametrize(
    ("sign", "item", "number", "note"),
    [
        (1, -1, HIGHEST, "2 items -1 left out, the fill-in of FAISS. The numbers are distances"),
        (-1, -1, sys.float_info.max, "2 items -1 left out, .* The numbers are scores"),
        (1, 0, math.nan, "2 items 0 left out, the fill-in of usearch. The numbers are distances"),
    ],
)  # fmt: skip
def test_rows_of_fill_ins_are_left_out_and_say_the_order(kind, sign, item, number, note, tmp_path):
    fill = pl.col("item") == -1
    rows = pl.DataFrame(NEAR).with_columns(
        item=pl.when(fill).then(item).otherwise("item"),
        score=pl.when(fill).then(sign * number).otherwise(sign * pl.col("score")),
    )
    rows.write_csv(tmp_path / "run.csv")
    run = {
        "frame": rows,
        "float32": rows.with_columns(pl.col("score").cast(pl.Float32)).sort("item"),
        "pandas": rows.to_pandas(),
        "rows": rows.rows(),
        "csv": tmp_path / "run.csv",
        "rank": rows.with_columns(rank=pl.int_range(1, pl.len() + 1).over("query")),
    }[kind]
    result = read(run, FIRST)
    assert result["RR"] == 0.75 and sum(result.values("num_ret").values()) == 3
    assert re.search(note, "\n".join(result.notes))


@dataclass
class Document:
    page_content: str
    metadata: dict
    id: str | None = None


def test_pairs_of_a_document_and_its_score_are_asked_about_if_the_order_is_of_distances():
    """As LangChain returns them: the score of Chroma and FAISS is a distance."""
    found = {f"q{i}": [(Document("t", {}, f"d{i}{j}"), numpy.float32(0.1 * j)) for j in range(4)]
             for i in range(5)}  # fmt: skip
    best = {query: [pairs[0][0].id] for query, pairs in found.items()}
    refused(found, best, match=r"order='list' score='retrieved\.score', descend")
    assert read(found, best, order="list")["RR"] == 1
    scored = {query: [(x, 1 - y) for x, y in pairs] for query, pairs in found.items()}
    lists = [*scored.values()], [*best.values()]
    for data in ((scored, best), lists):
        assert read(*data, "RR")["RR"] == 1


def test_an_object_with_a_run_and_judgments_names_both_parts():
    judged = [{"query_id": "q1", "item_id": "d1", "rel": 1}]
    shown = [{"query_id": "q1", "item_id": x, "rank": i} for i, x in enumerate(["d0", "d1"], 1)]
    both = {"relevance_judgments": judged, "search_results": shown}
    parts = ["search_results", "relevance_judgments"]
    refused(both, match=re.escape(f"Pass it as both, with part={parts}"))
    assert read(both, both, part=parts)["RR"] == 0.5


def test_grades_stand_beside_groups():
    row = {"query": "q1", "retrieved": ["a", "b"], "relevant": [["b"], ["z", "a"]]}
    for scores, value in (([[2], [1, 1]], 0.5), ([[2], [1, 0]], 0), ([[2.0], [1, 0.0]], 0)):
        rows = [{**row, "relevance_scores": scores}]
        result = rankql.evaluate(rows, groups="any", metrics="group_recall@1")
        assert result["group_recall@1"] == value


@few(1)("form", ["frame", "csv"])
def test_a_column_of_nothing_but_null_is_no_candidate(form, tmp_path):
    table = pl.DataFrame({
        "query": ["q1", "q1", "q2"], "item": ["d0", "d1", "d2"],
        "score": pl.Series([None] * 3, dtype=pl.Float64), "similarity": [0.5, 0.4, 0.3],
        "rel": pl.Series([None] * 3, dtype=pl.Int64), "relevance": [0, 1, 1],
    })  # fmt: skip
    if form == "csv":
        table.write_csv(tmp_path / "a.csv")
    data = table if form == "frame" else tmp_path / "a.csv"
    assert read(data)["RR"] == 0.75
    refused(data, rel="rel", match="every grade is NULL")


def test_a_list_of_paths_is_read_as_one_table(tmp_path):
    paths = [tmp_path / f"{i}.parquet" for i in range(3)]
    for path, query, scores in ((paths[0], "q1", [2, 1]), (paths[1], "q2", [1.5, 2.5])):
        pl.DataFrame({"query": query, "item": ["d0", "d2"], "score": scores}).write_parquet(path)
    qrels = {"q1": ["d2"], "q2": ["d2"]}
    assert read([str(x) for x in paths[:2]], qrels)["RR"] == 0.75
    pl.DataFrame({"query": ["q3"], "doc": ["d0"], "score": [2]}).write_parquet(paths[2])
    refused(paths[::2], qrels, match=r"2.parquet' and .* have other columns: doc, item")


def test_json_is_seen_by_its_first_character(tmp_path):
    rows = [{"query": "q1", "retrieved": ["d0", "d1"], "relevant": ["d1"]}]
    (tmp_path / "a.out").write_text(json.dumps(rows))
    assert read(tmp_path / "a.out")["RR"] == 0.5


def test_a_query_that_no_column_has_is_refused():
    """Of {system: rows} under names of one's own, each system was read as one query."""
    rows = [
        {"vorgang": f"t{q}", "artikel": f"a{q}{d}", "punkte": -d, "note": int(d == q % 3)}
        for q in range(6) for d in range(3)
    ]  # fmt: skip
    names = {"query": "vorgang", "item": "artikel", "score": "punkte", "rel": "note"}
    with pytest.raises(RankqlError, match=r"query='vorgang': no .*\. The lists have it: pass rows"):
        rankql.evaluate({"alt": rows, "neu": rows}, metrics="RR", **names)
    frames = {name: pl.DataFrame(rows) for name in ("alt", "neu")}
    found = rankql.evaluate(frames, metrics="RR", **names).summary
    assert found["queries"].to_list() == [6, 6]
    lists = pl.DataFrame({"frage": ["p", "q"], "hits": [rows[:3], rows[3:6]]})
    hits = {"item": "hits.artikel", "rel": "note", "score": "punkte"}
    with pytest.raises(RankqlError, match=r"query='fragen': no column .*Did you mean 'frage'"):
        rankql.evaluate(lists, metrics="RR", query="fragen", **hits)
    named = rankql.evaluate(lists, metrics="RR", query="frage", **hits)
    assert named.summary["queries"].item() == 2

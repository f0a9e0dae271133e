"""Metrics of spans: what the first chunks cover together, in characters of documents."""

import json
import random
import re
import warnings

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support.parameters import cycled, few, slow
from support.span_cases import METRICS, covered, judged, name_of, random_cases, random_collections

SPAN = ("start", "end")
CHUNKS = pl.DataFrame(
    [("a", "d", "d#1", 0, 60, 3.0), ("a", "d", "d#2", 50, 120, 2.0), ("a", "e", "e#1", 0, 50, 1.0),
     ("b", "d", "d#1", 0, 60, 1.0)],
    schema=["query", "doc_id", "chunk_id", *SPAN, "score"], orient="row",
)  # fmt: skip
TRUTH = pl.DataFrame(
    [("a", "d", 40, 80, 1), ("a", "e", 10, 20, 1), ("b", "d", 100, 110, 1)],
    schema=["query", "doc_id", *SPAN, "rel"], orient="row",
)  # fmt: skip
NONE = {"query": ["n"], "doc_id": [None], "start": [None], "end": [None], "rel": [None]}


def evaluate(run=CHUNKS, qrels=TRUTH, metrics="SpanR@2", span=SPAN, **options):
    return rankql.evaluate(run, qrels, metrics, span=span, **options)


def values(*arguments, **options):
    """The values of the queries; of several metrics a list of each."""
    result = evaluate(*arguments, **options)
    columns = [result.per_query[name].to_list() for name in result.metrics]
    return columns[0] if len(columns) == 1 else columns


@few(2)(
    ("queries", "systems", "seed"),
    [(60, [None], 1), (40, ["A", "B"], 2), slow(1000, [None], 3), slow(500, ["A", "B"], 4)],
)
def test_values_are_those_of_sets_of_characters(queries, systems, seed):
    run, qrels, cases = random_cases(random.Random(seed), queries, systems)
    options = {"system": "system"} if len(systems) > 1 else {}
    names = [name_of(*metric) for metric in METRICS]
    run = run if options else run.drop("system")
    result = evaluate(run, qrels, names, evidence="evidence", interval=None, **options)
    rows = {(row.get("system"), row["query"]): row for row in result.per_query.rows(named=True)}
    assert rows.keys() == cases.keys()
    for key, case in cases.items():
        for metric, name in zip(METRICS, names, strict=True):
            assert rows[key][name] == pytest.approx(covered(*metric, *case), abs=1e-12), (key, name)


def test_a_share_of_the_length_is_not_rounded_up():
    """0.28 * 25 is 7.000000000000001 in floating point, and 7 characters are 28%."""
    run = pl.DataFrame({"query": ["a"], "doc_id": ["d"], "start": [0], "end": [7], "pos": [1]})
    truth = pl.DataFrame({"query": ["a"], "doc_id": ["d"], "start": [0], "end": [25]})
    assert values(run, truth, ["SpanR(cover=0.28)@1", "SpanR(cover=0.29)@1"]) == [[1], [0]]


def test_spans_across_two_chunks_are_covered_together():
    names = ["SpanR(cover=0.8)@1,2", "AllSpans(cover=0.8)@3", "CharR@2", "CharP@3"]
    one, two, every, recall, precision = values(metrics=names)
    assert one == [0, 0] and two == [0.5, 0] and every == [1, 0]
    # 40 of 50 characters of two documents, and 120 + 50 characters of three chunks.
    assert recall[0] == 0.8 and precision[0] == 50 / 170


def test_the_last_line_may_count():
    lines = {"start": "first_line", "end": "last_line"}
    run, truth = CHUNKS.rename(lines), TRUTH.rename(lines)
    assert values(run, truth, span=("first_line", "last_line"), inclusive=True) == [0.5, 0]
    touching = TRUTH.filter(query="b").with_columns(start=60, end=60).rename(lines)
    one = {"span": ("first_line", "last_line"), "inclusive": True}
    assert values(run.filter(query="b"), touching, **one) == [1]
    with pytest.raises(RankqlError, match="Pass inclusive=True or inclusive=False"):
        values(run, truth, span=("first_line", "last_line"))


@few(2)(("names", "are_named"), cycled(
    [("char_start", "char_end"), ("start_char", "end_char"), ("begin", "end"), ("Start", "End"),
     ("offset", "length")], [False, True, False]))  # fmt: skip
def test_the_other_table_may_have_another_pair_of_names(names, are_named):
    run = CHUNKS.rename(dict(zip(SPAN, names, strict=True)))
    if names[1] == "length":
        run = run.with_columns(length=pl.col("length") - pl.col("offset"))
    assert values(run, span=[names, SPAN] if are_named else SPAN) == [0.5, 0]


def test_the_document_is_the_item_whatever_chunks_are_called():
    result = evaluate(CHUNKS.rename({"doc_id": "source"}), chunk="chunk_id")
    columns = result.columns["run"]
    assert (columns["item"], columns["span"]) == ("source", "start, end")
    assert result.per_query["SpanR@2"].to_list() == [0.5, 0]
    text = CHUNKS.rename({"doc_id": "x"})
    with pytest.raises(
        RankqlError, match=r"run: which column is the document.*\n\nPass:\n    item='x'\n"
    ):
        evaluate(text)
    assert values(text, item=["x", "doc_id"]) == [0.5, 0]


def test_objects_in_lists_are_spans(tmp_path):
    """The file is a QuestionSet of anchor-eval, and the run has lists in order."""
    rows = TRUTH.filter(doc_id="d").rows()
    spans = {x: [{"doc_id": d, "char_start": s, "char_end": e}] for x, d, s, e, _ in rows}
    questions = [{"question_id": x, "text": "?", "anchors": {"spans": y, "requirement": "any"}}
                 for x, y in [*spans.items(), ("none", [])]]  # fmt: skip
    path = tmp_path / "questions.json"
    path.write_text(json.dumps({"schema_version": 1, "questions": questions}))
    places = pl.struct("doc_id", *SPAN)
    run = CHUNKS.group_by("query", maintain_order=True).agg(retrieved=places)
    for data in (CHUNKS, run):
        result = evaluate(data, path, "SpanR@1")
        expected = {"a": 1.0, "b": 0.0, "none": None}
        assert dict(result.per_query["question_id", "SpanR@1"].rows()) == expected


@pytest.mark.parametrize(
    ("ends", "span"),
    [
        (("start_index", "end_index"), ("start_index", "end_index")),
        (("a", "b"), [("hits.a", "hits.b"), ("a", "b")]),
        (None, ("offsets[1]", "offsets[2]")),
        (None, [("hits.offsets[1]", "hits.offsets[2]"), ("offsets[1]", "offsets[2]")]),
    ],
)
def test_ends_are_paths_and_expressions_too(ends, span):
    """The second hit covers the span of a, the first that of b."""

    def place(*values):
        own = dict(zip(ends, values, strict=True)) if ends else {"offsets": [*values]}
        return {"doc_id": "f", **own}

    run = [{"query": "a", "hits": [place(30, 44), place(8, 20)]},
           {"query": "b", "hits": [place(0, 9)]}]  # fmt: skip
    spans = [{"query": "a", **place(8, 12)}, {"query": "b", **place(0, 7)}]
    assert rankql.evaluate(run, spans, "SpanR@1", span=span)["SpanR@1"] == 0.5
    assert rankql.evaluate(run, spans, "SpanR@2", span=span)["SpanR@2"] == 1


def test_equal_scores_are_ordered_by_place():
    places = [("d", 0, 9), ("d", 20, 29), ("e", 0, 9)]
    # The three chunks in any order, and a query for each of them.
    rows = [(q, *place) for q in "abc" for place in (places[2], places[1], places[0])]
    truth = [(q, *place) for q, place in zip("abc", places, strict=True)]
    head = ["query", "doc_id", *SPAN]
    run, truth = (pl.DataFrame(x, schema=head, orient="row") for x in (rows, truth))
    run, metrics = run.with_columns(score=1.0), "SpanR@1,2,3"
    assert values(run, truth, metrics) == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert values(run, truth, "SpanR@1", ties="order") == [0, 0, 1]


def test_queries_without_evidence_and_missing_ones_count_as_the_conventions_say():
    truth = pl.concat([TRUTH, pl.DataFrame(NONE, schema=TRUTH.schema)])
    truth = pl.concat([truth, truth.head(1).with_columns(query=pl.lit("m"))])
    result = evaluate(CHUNKS, truth)
    assert result.per_query["SpanR@2"].to_list() == [0.5, 0, 0, None]
    assert result.summary.select("queries", "undefined", "missing").row(0) == (4, 1, 2)
    assert result["SpanR@2"] == pytest.approx(0.5 / 3)
    assert evaluate(CHUNKS, truth, missing="skip")["SpanR@2"] == 0.25
    assert evaluate(CHUNKS, truth, undefined="zero")["SpanR@2"] == 0.125
    both = pl.concat([TRUTH, pl.DataFrame({**NONE, "query": ["a"]}, schema=TRUTH.schema)])
    with pytest.raises(RankqlError, match="query 'a' has a row without a document and ends"):
        evaluate(CHUNKS, both)


def test_copies_are_noted_and_count_once():
    run = pl.concat([CHUNKS.head(1), CHUNKS]).with_columns(score=pl.Series([9.0, 8, 7, 6, 1]))
    result = evaluate(run, pl.concat([TRUTH, TRUTH.head(1)]))
    assert result.per_query["SpanR@2"].to_list() == [0.5, 0]
    chunk, span = map(str, result.data_notes[-2:])
    assert "1 of 5 chunks is at a place that the ranking already has" in chunk
    assert "qrels: 1 of 4 relevant spans is a copy" in span


def test_rows_of_one_evidence_count_once():
    truth = TRUTH.filter(query="a").with_columns(answer=pl.lit("x"))
    assert values(CHUNKS, truth, "SpanR@1", evidence="answer") == [1]
    assert values(CHUNKS, truth, "SpanR@1") == [0.5]


@pytest.mark.slow
def test_values_go_the_way_of_all_others(tmp_path):
    truth = TRUTH.with_columns(lang=pl.Series(["x", "x", "y"]), w=pl.Series([3.0, 3.0, 1.0]))
    result = evaluate(CHUNKS, truth, by="lang", weight="w", output=tmp_path / "values.parquet")
    assert result["SpanR@2"] == pytest.approx(0.375)
    by_slice = dict(result.summary.select("slice", "mean").rows())
    assert by_slice == {"all": 0.375, "lang=x": 0.5, "lang=y": 0}
    with pytest.raises(RankqlError, match="by: start must have one value per query, but qrels"):
        evaluate(CHUNKS, truth.with_columns(start2="start"), by="start2 AS start")
    runs = {"A": CHUNKS, "B": CHUNKS.with_columns(end=pl.col("end") + 60)}
    pairs = rankql.compare(runs, TRUTH, ["SpanR@2", "CharP@2"], span=SPAN).pairs
    assert pairs.filter(metric="SpanR@2")["difference"].to_list() == [0.5]
    other = evaluate(CHUNKS, TRUTH.with_columns(end=pl.col("end") + 1))
    assert evaluate().fingerprint() == evaluate(runs["B"]).fingerprint() != other.fingerprint()
    assert "SpanR@2" in result.sql and "rankql_chunks" in result.sql


REFUSED = {
    "nDCG@5 counts items": {"metrics": "nDCG@5"},
    "Name their columns: span=": {"span": None},
    "span must be two columns": {"span": "start"},
    "span='stop': no column": {"span": ("stop", "end")},
    "collapse='#' does not support span=": {"collapse": "#"},
    "groups='any' does not support span=": {"groups": "any"},
    "conventions='ranx' does not support span=": {"conventions": "ranx"},
    "judge= does not support span=": {"judge": TRUTH},
    "min_score= does not support span=": {"min_score": 1.0},
    "seen= does not support span=": {"seen": "drop"},
    "unjudged_queries='count' does not support span=": {"unjudged_queries": "count"},
    "SpanR@2 needs positions, but ties='expected'": {"ties": "expected"},
    "No row of qrels is a relevant span": {"threshold": 2},
    "Pass qrels= with a document": {"qrels": None},
    "inclusive must be true or false": {"inclusive": 1},
    "chunk= is for span=": {"span": None, "chunk": "chunk_id"},
    "run: start 0 and end 0 of document 'd' and query 'a'": {
        "run": CHUNKS.with_columns(end="start")},
    "qrels: start -1 and end 80 of document 'd'": {"qrels": TRUTH.with_columns(start=-1)},
    "qrels: start NULL and end 110": {
        "qrels": TRUTH.with_columns(start=pl.when(query="a").then("start"))},
    "qrels: start 40 and end 80.5": {"qrels": TRUTH.with_columns(end=pl.col("end") + 0.5)},
    "run: doc_id is NULL": {"run": CHUNKS.with_columns(doc_id=pl.when(query="a").then("doc_id"))},
    "run has duplicates: query 'a', pos 1": {
        "run": CHUNKS.drop("score").with_columns(pos=1)},
}  # fmt: skip


@few(4)("text", REFUSED)
def test_what_spans_do_not_support_is_refused_by_name(text):
    with pytest.raises(RankqlError, match=re.escape(text)):
        evaluate(**REFUSED[text])


@few(1)("name", ["explain", "check", "funnel", "min_scores"])
def test_functions_without_spans_say_so(name):
    data = {"run": CHUNKS, "other": CHUNKS} if name == "funnel" else CHUNKS
    with pytest.raises(RankqlError, match=f"{name} does not support span="):
        getattr(rankql, name)(data, TRUTH, span=SPAN)


def test_documents_that_no_table_shares_are_an_error():
    more = pl.concat([TRUTH.with_columns(query=pl.lit(f"q{n}")) for n in range(5)])
    run = CHUNKS.with_columns(doc_id=pl.lit("z"), query=pl.lit("q1"))
    with pytest.raises(RankqlError, match=r"run is in a document.*it has 'z', qrels has 'd'"):
        evaluate(run, more)
    assert evaluate(run, more, none_judged="zero")["SpanR@2"] == 0


@pytest.mark.parametrize(
    "names", [SPAN, ("start_index", "end_index"), ("start_char_idx", "end_char_idx")]
)
def test_places_in_both_tables_are_offered_as_spans(names):
    """They used to be offered as a part of the key of items, which matches nothing."""
    named = dict(zip(SPAN, names, strict=True))
    with pytest.raises(RankqlError) as error:
        rankql.evaluate(CHUNKS.drop("chunk_id").rename(named), TRUTH.rename(named), "R@5")
    text = str(error.value)
    assert f"pass span={names!r} and metrics such as SpanR@5" in text
    assert f"doc_id, {names[0]}" not in text
    judged = CHUNKS.select("query", "doc_id", *SPAN).with_columns(rel=1)
    chunks = CHUNKS.unique(["query", "doc_id"], keep="first", maintain_order=True)
    judged = judged.unique(["query", "doc_id"], keep="first", maintain_order=True)
    assert rankql.evaluate(chunks.drop("chunk_id"), judged, "R@5")["R@5"] == 1


def test_the_command_line_takes_spans(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CHUNKS.write_csv("run.csv")
    TRUTH.write_csv("truth.csv")
    for command, code in (("eval run.csv", 0), ("gate run.csv --min SpanR@2>=0.2", 0)):
        metrics = "" if "gate" in command else " -m SpanR@2"
        call = f"{command} truth.csv{metrics} --span start,end"
        printed = CliRunner().invoke(main, call.split())
        assert printed.exit_code == code and "span = (start, end)" in printed.stdout, printed.stderr
    wrong = CliRunner().invoke(main, ["eval", "run.csv", "truth.csv", "-m", "SpanR@2"])
    assert wrong.exit_code == 2 and "Name their columns: --span start,end" in wrong.stderr


COLLECTION = pl.DataFrame(
    [("d#1", "d", 0, 60), ("d#2", "d", 50, 120), ("e#1", "e", 0, 50)],
    schema=["chunk_id", "doc_id", *SPAN], orient="row",
)  # fmt: skip


FAR = [pl.lit(place, pl.Int64).alias(x) for x, place in zip(SPAN, (500, 600), strict=True)]


def judge(spans=TRUTH, chunks=COLLECTION, **options):
    return rankql.span_judgments(chunks, spans, **options)


def test_chunks_are_judged_by_the_spans_that_they_cover():
    rows = judge(cover=0.6, spans=TRUTH.with_columns(rel=pl.Series([1, 2, 1])))
    names = ["query", "item", "rel", "share", "subtopics"]
    assert rows.select(names).rows() == [
        ("a", "d#2", 1, 0.75, ["d:40-80"]), ("a", "e#1", 2, 1, ["e:10-20"]),
        ("b", "d#2", 1, 1, ["d:100-110"]),
    ]  # fmt: skip
    places = judge(chunks=COLLECTION.drop("chunk_id"), cover=0.6)
    assert places["item"].to_list() == ["d:50-120", "e:0-50", "d:50-120"]


def test_a_span_that_no_chunk_covers_counts_as_not_found():
    lost = TRUTH.tail(1).with_columns(pl.lit("c").alias("query"), *FAR)
    spans = pl.concat([TRUTH, lost])
    spans = pl.concat([spans, pl.DataFrame(NONE, schema=TRUTH.schema)])
    rows = judge(spans)
    assert rows.filter(query="c").select("item", "rel", "share").rows() == [("d:500-600", 1, 0)]
    runs = pl.concat([CHUNKS, CHUNKS.head(1).with_columns(query=pl.lit("c"))]).drop("doc_id", *SPAN)
    result = rankql.evaluate(runs, rows.drop("share"), ["R@5", "STREC@5", "alpha_nDCG@5"])
    found = {row["query"]: row["R@5"] for row in result.per_query.rows(named=True)}
    assert found == {"a": 1, "b": 0, "c": 0, "n": None}
    assert dict(result.per_query["query", "STREC@5"].rows())["c"] == 0


def test_one_span_of_an_evidence_suffices():
    spans = pl.concat([TRUTH, TRUTH.with_columns(FAR)]).filter(query="a")
    assert judge(spans)["share"].to_list().count(0) == 2
    rows = judge(spans.with_columns(answer=pl.lit("x")), evidence="answer")
    assert rows["share"].min() > 0 and rows["subtopics"].to_list() == [["x"]] * 3


def test_a_covered_span_below_the_threshold_is_no_evidence():
    """It used to hide that no chunk covers the relevant span."""
    spans = pl.DataFrame({"query": ["q", "q"], "doc_id": ["d", "d"], "start": [0, 90],
                          "end": [3, 95], "rel": [0, 3], "answer": ["x", "x"]})  # fmt: skip
    rows = judge(spans, COLLECTION.head(1).with_columns(end=5), evidence="answer")
    names = ["item", "rel", "share", "subtopics"]
    assert rows.select(names).rows() == [("d#1", 0, 1, None), ("d:90-95", 3, 0, ["x"])]
    run = pl.DataFrame({"query": ["q"], "item": ["d#1"], "pos": [1]})
    assert rankql.evaluate(run, rows.drop("share"), "R@5")["R@5"] == 0


def test_two_evidences_at_one_place_are_one_row():
    """Two rows are refused as duplicates."""
    spans = TRUTH.head(2).with_columns(*FAR, doc_id=pl.lit("d"), rel=pl.Series([1, 2]))
    rows = judge(spans.with_columns(answer=pl.Series(["y", "x"])), evidence="answer")
    assert rows.select("item", "rel", "subtopics").rows() == [("d:500-600", 2, ["x", "y"])]


@few(1)(("cover", "threshold"), [(None, 1), (0.5, 1), (0.5, 2)])
def test_judgments_of_a_thousand_collections(cover, threshold):
    collections = random_collections(random.Random(8), 1000)
    places = [row for chunks, _ in collections for row in chunks]
    chunks = pl.DataFrame(places, schema=COLLECTION.columns, orient="row")
    truth = [(n, *row) for n, (_, spans) in enumerate(collections) for row in spans]
    columns = {"query": int, "doc_id": str, "start": int, "end": int, "rel": int, "answer": str}
    spans = pl.DataFrame(truth, schema=columns, orient="row")
    rows = judge(spans, chunks, cover=cover, threshold=threshold, evidence="answer")
    found = rows.select("item", "rel", "share", "subtopics", "query").rows()
    expected = [
        (*row, n)
        for n, (own, of_query) in enumerate(collections)
        for row in judged(own, of_query, cover, threshold)
    ]
    assert sorted(found, key=lambda row: (row[4], row[0])) == expected
    assert any(row[2] == 0 and len(row[3]) > 1 for row in expected)


def test_iou_depends_on_the_size_of_a_chunk():
    spans = pl.DataFrame({"query": ["a"], "doc_id": ["d"], "start": [100], "end": [200]})
    for end, count in ((600, 0), (300, 1)):
        chunk = pl.DataFrame({"doc_id": ["d"], "start": [100], "end": [end]})
        covering = judge(spans, chunk, iou=0.5).filter(pl.col("share") > 0)
        assert covering.height == count and judge(spans, chunk)["share"].to_list() == [1]


def test_a_run_is_no_collection():
    with pytest.raises(RankqlError, match="chunks has query and score: is it a run"):
        judge(chunks=CHUNKS)
    with pytest.warns(UserWarning, match="recall and nDCG do not know"):
        rows = judge(chunks=CHUNKS, collection=False)
    assert rows.rows() == judge().rows()


WRONG = {
    "cover must lie between 0 and 1, not 2": {"cover": 2},
    "iou must lie between 0 and 1, not 0": {"iou": 0},
    "cover and iou are two rules": {"cover": 0.5, "iou": 0.5},
    "the chunk d is at several places": {
        "chunks": COLLECTION.with_columns(chunk_id=pl.lit("d"))},
    "chunks: start 0 and end 0 of document 'd' are not": {
        "chunks": COLLECTION.with_columns(end="start")},
    "No query column in spans": {"spans": TRUTH.drop("query")},
    "chunk='x': no column": {"chunk": "x"},
}  # fmt: skip


@few(3)("text", WRONG)
def test_span_judgments_refuse(text):
    with pytest.raises(RankqlError, match=re.escape(text)):
        judge(**WRONG[text])


def test_the_command_writes_judgments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    COLLECTION.write_csv("chunks.csv")
    TRUTH.write_csv("spans.csv")
    call = "span-judgments chunks.csv spans.csv --cover 0.6 -o judged.parquet"
    printed = CliRunner().invoke(main, call.split())
    assert printed.exit_code == 0 and "judged.parquet: 3 rows" in printed.stderr, printed.stderr
    assert pl.read_parquet("judged.parquet").rows() == judge(cover=0.6).rows()


def test_a_cutoff_may_be_the_length_of_the_context():
    """Overlaps count again, as a prompt has them: 60 characters of d#1, 40 of d#2."""
    metrics = ["CharR@1,100c,60c", "SpanR(cover=0.8)@100c"]
    result = evaluate(metrics=metrics, run=CHUNKS.filter(query="a"), qrels=TRUTH.filter(query="a"))
    assert result.per_query.drop("query").row(0) == (0.4, 0.8, 0.4, 0.5)
    assert result.metrics == ["CharR@1", "CharR@100c", "CharR@60c", "SpanR(cover=0.8)@100c"]
    limits = rankql.gate(CHUNKS, TRUTH, minimum="CharR@100c>=0.1", span=SPAN).table
    assert limits["check"].to_list() == ["CharR@100c >= 0.1"]


@few(2)(("metric", "text"), [
    ("nDCG@2000c", "a cutoff by characters is one of SpanR"), ("SpanR@2000C", "write @2000c"),
    ("SpanR@2k", "write @2000c"), ("SpanR@2000c", "inclusive=True is for lines and pages"),
    ("SpanR@0c", "k must be a whole number"), ("nDCG@2k", "k must be a whole number"),
])  # fmt: skip
def test_other_spellings_of_a_length_are_refused(metric, text):
    with pytest.raises(RankqlError, match=text):
        evaluate(metrics=metric, inclusive=True)


def test_places_of_the_page_on_rag_have_its_recall():
    """Lines of files, whose last one counts."""
    found = pl.DataFrame(
        [("q1", "app.py", 10, 30, 1), ("q1", "db.py", 1, 20, 2), ("q2", "app.py", 40, 60, 1),
         ("q2", "app.py", 1, 12, 2)],
        schema=["question", "file", "first", "last", "pos"], orient="row",
    )  # fmt: skip
    places = [("q1", "app.py", 25, 28), ("q2", "app.py", 50, 70), ("q2", "app.py", 5, 9)]
    truth = pl.DataFrame(places, schema=["question", "file", "first", "last"], orient="row")
    assert values(found, truth, "SpanR@1", span=("first", "last"), inclusive=True) == [1, 0.5]


def test_chunks_without_a_score_are_noted():
    result = evaluate(CHUNKS.with_columns(score=pl.Series([3.0, None, 1.0, 1.0])))
    assert result.per_query["SpanR@2"].to_list() == [1, 0]
    assert "1 of 4 chunks is without a score or position" in str(result.data_notes[-1])


def test_queries_without_spans_are_left_out_and_offer_nothing_that_is_refused():
    result = evaluate(qrels=TRUTH.filter(query="a"))
    assert "1 of 2 not judged and left out ('b')" in repr(result)
    with pytest.raises(RankqlError, match="unjudged_queries"):
        evaluate(qrels=TRUTH.filter(query="a"), unjudged_queries="count")


@pytest.mark.parametrize("name", ["text", "content", "page_content"])
@pytest.mark.parametrize(("each", "noted"), [(4, True), (1, False)])
def test_ends_in_tokens_are_noted(name, each, noted):
    """A token has about four characters; the answer of one document has no text."""
    rows = [
        (q, d, f"{d}{i}", 100 * i // each, 100 * (i + 1) // each, -i, str(i) * 100)
        for q, documents in (("a", "de"), ("b", "fg")) for d in documents for i in range(3)
    ]  # fmt: skip
    run = pl.DataFrame(rows, ["query", "doc_id", "chunk_id", *SPAN, "score", name], orient="row")
    run = run.with_columns(pl.when(pl.col("doc_id") != "g").then(name))
    said = f"of less than half of their text ({name}): are start, end counted in tokens?"
    result = evaluate(run, TRUTH.with_columns(pl.lit("d").alias("doc_id")))
    assert any(said in x for x in result.notes) == noted
    chunks = run.drop("query", "score").unique(maintain_order=True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        rankql.span_judgments(chunks, TRUTH)
    assert any(said in str(x.message) for x in found) == noted


@pytest.mark.parametrize(
    ("chunks", "texts", "noted"),
    [
        ([(0, 200), (40, 240), (80, 280), (120, 320)], [200] * 4, False),  # they overlap
        ([(0, 100), (100, 200)], [1000, 1000], False),  # the text of the document
        ([(0, 50), (40, 90), (80, 130)], [200] * 3, True),
        ([(900, 950)], [200], True),  # one chunk, after the end of its text
    ],
)
def test_chunks_that_overlap_or_have_the_whole_text_are_not_in_tokens(chunks, texts, noted):
    rows = [
        ("a", d, start, end, -i, (d if size == 1000 else f"{d}{i}").ljust(size, "x"))
        for d in "de" for i, ((start, end), size) in enumerate(zip(chunks, texts, strict=True))
    ]  # fmt: skip
    run = pl.DataFrame(rows, ["query", "doc_id", *SPAN, "score", "text"], orient="row")
    result = evaluate(run, TRUTH.with_columns(pl.lit("d").alias("doc_id")))
    assert any("counted in tokens" in x for x in result.notes) == noted

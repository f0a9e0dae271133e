"""JSON as MTEB, OpenSearch and Elasticsearch write it, and CSV as Quepid exports it."""

import json

import numpy as np
import pandas
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few, of_each_kind
from support.reading import read, refused

RUN = {"q1": {"d1": 0.5, "d2": 1}, "q2": {}, "q3": {"2024-01-01": 3}}
QRELS = {"q1": {"d1": 1}, "q3": {"2024-01-01": 2}}
MTEB = {"model_name": "simulated/model", "revision": "1"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, data):
        text = data if isinstance(data, str) else json.dumps(data)
        (tmp_path / name).write_text(text)
        return name

    return write


def error_of(run, qrels):
    error = refused(run, qrels)
    return str(error)


def rr(run, qrels):
    return [*read(run, qrels).values().values()]


# Dicts


def test_dicts_in_json_are_read_as_in_python(write):
    expected = rankql.evaluate(RUN, QRELS, ["nDCG@10", "AP"])
    result = rankql.evaluate(write("a.json", RUN), write("b.json", QRELS), ["nDCG@10", "AP"])
    assert result.per_query.equals(expected.per_query) and result.columns == expected.columns
    lists = write("lists.json", {"q0": [], "q1": ["d2", "d1"], "q3": ["2024-01-01"]})
    assert rr(lists, write("ids.json", {"q1": ["d1"], "q3": ["2024-01-01"]})) == [0.5, 1]


def test_objects_with_names_of_columns_are_rows(write):
    row = {"retrieved": {"d1": 1.0, "d2": 0.4}, "relevant": ["d2"]}
    assert rr(write("rag.jsonl", row), None) == [0.5]
    write("pandas.json", {"score": {"0": 0.5}, "query": {"0": "q1"}})
    assert "looks like" not in error_of("pandas.json", QRELS)


# Answers of engines


def hit(item, score=1.0):
    return {"_index": "shop", "_id": item, "_score": score, "_source": {"title": "x"}}


def answer(*items, **fields):
    shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
    hits = {"total": {"value": 2, "relation": "eq"}, "max_score": 1.0, "hits": [*map(hit, items)]}
    return {"took": 3, "timed_out": False, "_shards": shards, "hits": hits, **fields}


def request(**ratings):
    rated = [
        {
            "id": query,
            "request": {"query": {"match": {"title": query}}},
            "ratings": [{"_index": "shop", "_id": i, "rating": r} for i, r in items.items()],
        }
        for query, items in ratings.items()
    ]
    return {"requests": rated, "metric": {"dcg": {"k": 10, "normalize": True}}}


def rank_eval(failures=(), **hits):
    details = {
        query: {
            "metric_score": 0.5,
            "unrated_docs": [{"_index": "shop", "_id": "d9"}],
            "hits": [{"hit": hit(item), "rating": None} for item in items],
            "metric_details": {"dcg": {"dcg": 1.0, "unrated_docs": 1}},
        }
        for query, items in hits.items()
    }
    return {"metric_score": 0.5, "details": details, "failures": {query: {} for query in failures}}


HITS = [{"id": "d1", "score": 0.9}, {"id": "d2", "score": 0.8}]
ENGINES = {
    "OpenSearch": answer("d1", "d2"),
    "Pinecone": {"matches": HITS, "namespace": ""},
    "Qdrant": {"points": HITS},
    "Qdrant in REST": {"result": {"points": HITS}, "status": "ok"},
    "Solr": {"responseHeader": {"status": 0}, "response": {"numFound": 2, "docs": HITS}},
    "Vespa": {"root": {"id": "toplevel", "children": [
        {"id": hit["id"], "relevance": hit["score"], "fields": {"x": 1}} for hit in HITS]}},
    "Typesense": {"found": 2, "hits": [
        {"document": {"id": hit["id"]}, "text_match": 9} for hit in HITS]},
    "Bedrock": {"retrievalResults": [
        {"content": {"text": "t"}, "location": {"s3Location": {"uri": hit["id"]}}, "score": 1.0}
        for hit in HITS]},
    "Azure": {"value": [
        {"id": hit["id"], "@search.score": 0.2, "@search.rerankerScore": 2} for hit in HITS]},
    "Chroma": {"ids": [["d1", "d2"]], "distances": [[0.1, 0.2]], "documents": None},
}  # fmt: skip
EMPTY = [
    answer(), {"matches": []}, {"points": []}, {"result": {"points": []}}, {"value": []},
    {"hits": [], "found": 0}, {"response": {"numFound": 0, "docs": []}},
    {"root": {"id": "toplevel", "relevance": 1.0, "fields": {"totalCount": 0}}},
]  # fmt: skip
MANY = {f"d{i}": 1 / (i + 1) for i in range(300)}
JUDGED = {"q1": ["d2"], "q2": ["d1"]}
FOUND = {"u1": ["n2", "n1"], "u2": ["n3", "n1"]}
GOLD = {"u1": ["n1"], "u2": ["n3"]}
KEYED = {
    "k1": {"question": "what?", "gold_inds": ["b"], "retrieved": ["a", "b"]},
    "k2": {"question": "why?", "gold_inds": ["c"], "retrieved": ["c"]},
}
# The run, the judgments and the part that has them; objects by key are rows.
WRAPPED = [
    (FOUND, {"queries": {"u1": "what is a?", "u2": "b?"}, "corpus": {"n1": "text"},
             "relevant_docs": GOLD}, "relevant_docs"),
    ({"system": "x", "queries": FOUND}, GOLD, "queries"),
    ({"answers": [{"id": q, "retrieved": ids} for q, ids in FOUND.items()]},
     [{"id": q, "relevant": ids} for q, ids in GOLD.items()], "answers"),
    (FOUND, {"name": "esci", "judgmentRatings": [
        {"query": q, "ratings": [{"docId": x, "rating": "1.0"} for x in ids]}
        for q, ids in GOLD.items()]}, "judgmentRatings"),
    ({"_comment": "of today", **FOUND}, {"_comment": "ours", **GOLD}, ""),
    ({q: [[x, 1 / i] for i, x in enumerate(ids, 1)] for q, ids in FOUND.items()},
     {q: [[x, 2] for x in ids] for q, ids in GOLD.items()}, ""),
    ({q: [{"id": x, "text": "a b c d"} for x in ids] for q, ids in FOUND.items()}, GOLD, ""),
    (KEYED, None, ""),
    ([{"_comment": "of today"}, *KEYED.values()], None, ""),
]  # fmt: skip
# The data, the judgments, RR of each query, and text of the columns.
READ = {
    "infinite scores: first": (
        {"q1": {"d2": float("inf"), "d1": 1.0}}, {"q1": ["d1"]}, [0.5]),
    "infinite scores: last": ({"q1": {"d2": float("-inf"), "d1": 1.0}}, {"q1": ["d1"]}, [1]),
    # As AbsTask._save_task_predictions writes them.
    "MTEB": ({"mteb_model_meta": MTEB, "default": {"test": RUN}}, QRELS, [0.5, 1]),
    "answers: with their queries": (
        [answer("d1", "d2", query="q1"), answer("d1", query="q2")], JUDGED, [0.5, 1]),
    "answers: of several searches": (
        {"took": 3, "responses": [answer("d1", "d2"), answer("d1")]}, {0: ["d2"], 1: ["d1"]},
        [0.5, 1], "'query': 'place in responses'"),
    "answers: without queries": (
        [answer("d1", "d2"), answer("d1")], {0: ["d2"], 1: ["d1"]}, [0.5, 1]),
    "answers: of which the first is not judged": (
        [answer("d1", "d2"), answer("d1")], {1: ["d1"]}, [1]),
    "answers: one": (answer("d1", "d2"), {0: ["d2"]}, [0.5], "'query': 'row number'"),
    "answers: one with its query": (
        {"query": "a", **answer("d1", "d2")}, {"a": ["d2"]}, [0.5]),
    **{f"an answer of {engine}": (found, {0: ["d2"]}, [0.5])
       for engine, found in ENGINES.items()},
    **{f"engines: {engine}": (
        {"q1": found, "q2": found} if len(engine) % 2 else
        [{"query": query, **found} for query in JUDGED], JUDGED, [0.5, 1])
       for engine, found in ENGINES.items()},
    **{f"a query without hits: {[*empty]}": (
        {"q1": ENGINES["Pinecone"], "q2": empty}, JUDGED, [0.5, 0]) for empty in EMPTY},
    "a matrix of Chroma": (
        {"ids": [["a", "b"], ["c", "d"]], "distances": [[0.1, 0.2], [0.1, 0.3]]},
        {0: ["a"], 1: ["d"]}, [1, 0.5]),
    "hits and relevant ids": (
        [{"query": "q", "hits": [{"id": "a"}, {"id": "b"}], "relevant": ["b"]}], None, [0.5]),
    "rows: lists": (
        [{"query": "a", "retrieved": ["x", "y"], "relevant": ["y"]},
         {"query": "b", "retrieved": ["x"], "relevant": []}], None, [0.5, None]),
    "rows: numbers": ([{"query": 1, "retrieved": [7, 8], "relevant": [8]}], None, [0.5]),
    "rows of objects": (
        [{"query": "a", "retrieved": [{"id": "x"}, {"id": "y", "page": 3}],
          "relevant": [{"id": "y", "grade": 2}]}], None, [0.5]),
    "rows: grades": (
        [{"query": "a", "retrieved": ["x", "y"], "relevant": {"y": 2}},
         {"query": "b", "retrieved": ["x", "y"], "relevant": {"x": 1.5}}], None, [0.5, 1]),
    "rows of maps": (
        [{"query": "a", "retrieved": MANY, "relevant": {"d7": 1}},
         {"query": "b", "retrieved": MANY, "relevant": {"d2": 1}}], None, [1 / 8, 1 / 3]),
    "rows of items": (
        [{"query": "a", "item": "x", "rank": 1, "rel": 0},
         {"query": "a", "item": "y", "rank": 2, "rel": 1}], None, [0.5]),
    "rows with empty objects": (
        [{"query": "a", "retrieved": ["x", "y"], "relevant": {}, "more": {}},
         {"query": "b", "retrieved": ["x", "y"], "relevant": {"y": 1}, "more": {"n": {"m": 1}}}],
        None, [None, 0.5]),
    "rows: of pairs": (
        [{"question": "q", "retrieved": [["a", 0.9], ["b", 0.5]], "relevant": ["b"]}], None, [0.5]),
}  # fmt: skip


@of_each_kind(READ)
def test_an_object_and_its_file_are_read_alike(kind, case, write):
    run, qrels, values, *said = READ[case]
    alone, of_file = read(run, qrels), read(write("a.json", run), qrels)
    assert [*alone.values().values()] == [*of_file.values().values()] == values
    assert alone.columns == of_file.columns and all(x in str(alone.columns) for x in said)


@few(3)(("run", "gold", "part"), WRAPPED)
def test_files_are_read_by_their_part(run, gold, part, write):
    files = [write(f"{i}.json", x) for i, x in enumerate((run, gold)) if x]
    result = read(*files)
    assert result["RR"] == 0.75 and part in str(result.columns)


@few(2)("engine", ENGINES)
def test_check_finds_no_error_in_answers(engine):
    rows = [{"query": query, **ENGINES[engine]} for query in JUDGED]
    findings = rankql.check(rows, JUDGED).findings
    assert not [x for x in findings if x.level == "error"], findings
    assert read({"a": rows, "b": rows}, {"q1": ["d2"]}).means() == [0.5, 0.5]


def test_values_of_frames_and_other_libraries_are_read():
    """Arrays, tuples, sets of relevant ids, numbers of NumPy; answers and pairs in cells."""
    rows = [
        {"query": np.int64(3), "retrieved": np.array(["x", "y"]), "relevant": {"y"}},
        {"query": np.int64(4), "retrieved": ("x", "y"), "relevant": pl.Series(["x"])},
    ]
    assert rr(rows, None) == [0.5, 1]
    for found in (answer("d1", "d2"), {"matches": HITS}):
        assert rr(pl.DataFrame([{"query": q, **found} for q in JUDGED]), JUDGED) == [0.5, 1]
    assert rr(pandas.DataFrame(READ["rows: of pairs"][0]), None) == [0.5]


def test_judgments_that_count_answers_from_1_are_asked_about():
    answers, judged = [answer("d1", "d2"), answer("d1")], {1: ["d2"], 2: ["d1"]}
    refused(answers, judged, match="from 0, and the queries of qrels from 1")
    assert rr(dict(enumerate(answers, 1)), judged) == [0.5, 1]


def test_rank_eval_has_judgments_and_runs(write):
    """The request has the judgments, the answer has the run; a query without hits counts 0."""
    qrels = write("request.json", json.dumps(request(a={"d1": 0, "d2": 3}, b={"d1": 1}), indent=1))
    run = write("answer.json", rank_eval(a=["d1", "d2", "d9"], b=[]))
    assert rr(run, qrels) == [0.5, 0]
    assert read(run, qrels).columns["run"]["pos"] == "order of the hits"
    assert rr(rank_eval(a=["d1", "d2"]), request(a={"d2": 1})) == [0.5]
    assert "The run comes first, the judgments second.\n\nBy hand, " in error_of(qrels, run)
    half = request(a={"d1": 1, "d2": 1})
    del half["requests"][0]["ratings"][0]["_id"]
    for ratings, message in (
        (request(a={"d1": "good"}), "a request to _rank_eval, but 'good' is not a number"),
        (
            {"requests": [x for n in (1, 2) for x in request(a={"d1": n})["requests"]]},
            "qrels has duplicates: query 'a'",
        ),
        (half, "qrels: item is NULL in 1 of 2 rows"),
    ):
        assert message in error_of(run, write("bad.json", json.dumps(ratings)))


def test_keys_after_long_values_are_read(write):
    """A key far from the start of the file; without it a wrong number would be silent."""
    long = {"query_vector": [0.123456789] * 8000}
    qrels = {1: ["d2"], 2: ["d1"]}
    for key in ("query", "id"):
        logged = [{**answer("d1", "d2"), "long": long, key: 2}, answer("d2", **{key: 1})]
        assert rr(write("log.jsonl", "\n".join(map(json.dumps, logged))), qrels) == [1, 1]
    ratings = request(a={"d1": 1})
    ratings["requests"][0] = {"id": "a", "request": long, **ratings["requests"][0]}
    assert rr(write("answer.json", rank_eval(a=["d2", "d1"])), write("r.json", ratings)) == [0.5]


ERROR = {"error": {"root_cause": [], "type": "x"}, "status": 400}
PARTIAL = {"total": 2, "successful": 1, "failed": 1}


REPEATED = answer("d1", "d1", query="q1")
REPEATED["hits"]["hits"][1]["_index"] = "other"


@few(4)(
    ("data", "message"),
    [
        ('{"q1": {"d1": 1}, "q2": {"d1":', "run: 'a.json' cannot be read: Expecting value"),
        ('{"q1": {"d2": 1}, "q1": {"d1": 2}}', "a query, or an item of a query, is repeated"),
        ('{"q1": {"d1": 1, "d1": 2}}', "a query, or an item of a query, is repeated"),
        (
            {"n": 1, **{x: {"q1": {"d1": 1}} for x in "ab"}},
            "run: in 'a.json', 'a' and 'b' may be the data",
        ),
        ({"query": "q1", "hits": {"hits": [{"_id": "d1", "_score": 10**400}]}}, "too large"),
        ({"q1": {}, "q2": {}}, "run is empty"),
        ({"mteb_model_meta": MTEB, "default": {"test": RUN, "dev": RUN}}, "it has 2 subsets or"),
        ([answer("d1", query="q1"), ERROR], "engine, but a search without query failed or is inc"),
        ({"took": 3, "responses": [ERROR]}, "engine, but the search of query 0 failed or is inc"),
        ({**ERROR, "query": "q1"}, "engine, but the search of query q1 failed or is incomplete"),
        ({"responses": [answer("d1"), answer("d1", timed_out=True)]}, "of query 1 failed or is"),
        ({"responses": [answer("d1"), answer("d1", _shards=PARTIAL)]}, "of query 1 failed or is"),
        (rank_eval(["b"], a=["d1"]), "_rank_eval, but the search of b failed"),
        (rank_eval(a=[], b=[]), "_rank_eval, but no query has an item"),
        ([answer(query="q1")], "engine, but no query has an item"),
        (REPEATED, "run has duplicates: query"),
    ],
)
def test_json_that_cannot_be_right_is_refused(write, data, message):
    assert message in error_of(write("a.json", data), QRELS)


# Quepid


@pytest.mark.slow
def test_exports_of_quepid_are_read(write):
    """A query without ratings is a line of its own; several snapshots are systems."""
    qrels = write("case.csv", 'query,docid,rating\ndog,d1,0\ndog,d2,3\ncat\n"a, b",d3,1\n')
    header = "Snapshot Name,Snapshot Time,Case ID,Query Text,Doc ID,Doc Position,title\r\n"
    rows = '{0},2026-03-05,8,dog,{1},1,Good dog\r\n{0},2026-03-05,8,dog,{2},2,"Great, dog"\r\n'
    run = write("snapshot.csv", header + rows.format("new", "d1", "d2"))
    assert read(run, qrels).values() == {"dog": 0.5, "a, b": 0}
    write("two.csv", header + rows.format("new", "d1", "d2") + rows.format("old", "d2", "d1"))
    assert read("two.csv", qrels, system="Snapshot Name").means() == [0.25, 0.5]
    assert "query 'dog'" in error_of("two.csv", qrels)
    for rows, message in (
        ("dog,,3\ndog,d1,0\n", "qrels: docid is NULL in 1 of 2 rows"),
        ("dog,d1,good\n", "qrels: rating must be a number, not text such as 'good'"),
        ("dog,d1,1\ndog,d1,2\n", "qrels has duplicates: query 'dog', item 'd1'"),
    ):
        assert error_of(run, write("bad.csv", "query,docid,rating\n" + rows)).startswith(message)


@pytest.mark.parametrize(
    "rows",
    [
        [{"query": "a"}, 3],
        [{"query": "a", "x": [{"y": 1}]}, {"query": "b", "x": [3]}],
        [{"query": "a", "retrieved": {"x", "y"}, "relevant": ["y"]}],
    ],
)
def test_rows_that_no_table_has_are_named(rows):
    refused(rows, match=r"^run\b")


# Parts of an object

ROWS = [{"question": "q", "retrieved": ["b", "a"], "relevant": ["a"]}]
TWO = {"first": {"q": ["b", "a"]}, "second": {"q": ["a", "b"]}, "n": 2, "gold": {"q": {"a": 1}}}


def test_a_part_is_picked_by_name(write):
    file, gold = write("a.json", TWO), {"q": ["a"]}
    for data in (file, TWO):
        message = "'first' and 'second' and 'gold' may be the data. Pass one of them, such as "
        refused(data, gold, match=message + r"part='first'$")
        for part, expected in (("first", 0.5), ("second", 1), (["second", "gold"], 1)):
            judged = data if isinstance(part, list) else gold
            result = read(data, judged, part=part)
            assert result["RR"] == expected
            assert result.columns["run"]["part"] == (part if judged is gold else part[0])
    compared = rankql.compare({"a": file, "b": TWO}, gold, metrics="RR", part="first")
    assert compared.pairs["difference"].to_list() == [0]
    refused(gold, file, match=r"^qrels: in .* part=\[None, 'first'\]$")
    refused(file, gold, part="x", match=r"^run: 'a.json' has no part 'x'. It has 'first', 'sec")
    refused(pl.DataFrame(ROWS), part="x", match="^run: part='x' is for objects and JSON files")
    for part in (3, [["a", "b"], None]):
        refused(file, gold, part=part, match=r"^part must be a name, or those of run and qrels")


def test_rows_win_over_averages(write):
    for more in ({"mrr": {"value": 0.5}}, {"mrr": 0.5}):
        data = {"aggregate": more, "per_question": ROWS}
        result = read(write("a.json", data))
        assert result["RR"] == 0.5 and result.columns["run"]["part"] == "per_question"


def test_a_part_on_the_command_line(write):
    file = write("a.json", TWO)
    for part, expected in (("first,gold", "0.5"), ("second,gold", "1.0")):
        command = ["eval", file, file, "--part", part, "-m", "RR", "--format", "csv"]
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0 and f"RR,{expected}" in done.output, done.output


@few(2)(
    "runs",
    [
        {"a": {"q": {"x": 2, "y": 1}}, "b": {"q": {"x": 1, "y": 3}}},
        {"a": {"q": ["x", "y"]}, "b": {"q": ["y", "x"]}},
        {x: [{"query": "q", "retrieved": ids}] for x, ids in (("a", ["x", "y"]), ("b", ["y"]))},
    ],
)
def test_a_json_file_has_several_runs_as_a_dict_has(runs, write):
    file, qrels = write("runs.json", runs), {"q": ["y"]}
    for data in (runs, file):
        assert read(data, qrels).values() == {("a", "q"): 0.5, ("b", "q"): 1}
    assert rankql.compare(file, qrels, metrics="RR").pairs["difference"].to_list() == [0.5]
    alone = {"a": runs["a"]}
    assert read(write("one.json", alone), qrels)["RR"] == 0.5


def test_a_saved_result_of_a_part_is_verified(write, tmp_path):
    file, gold = write("a.json", TWO), write("g.json", {"q": {"a": 1}})
    rankql.evaluate(file, gold, "RR", part="first", interval=None).save(tmp_path / "r.json")
    assert "Verified" in str(rankql.verify(tmp_path / "r.json", file, gold))

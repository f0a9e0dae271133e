"""JSON as MTEB, OpenSearch and Elasticsearch write it, and CSV as Quepid exports it."""

import json

import numpy as np
import pandas
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few
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


def test_infinite_scores_are_read(write):
    assert rr(write("a.json", {"q1": {"d2": float("inf"), "d1": 1.0}}), {"q1": ["d1"]}) == [0.5]
    assert rr(write("b.json", {"q1": {"d2": float("-inf"), "d1": 1.0}}), {"q1": ["d1"]}) == [1]


def test_objects_with_names_of_columns_are_rows(write):
    row = {"retrieved": {"d1": 1.0, "d2": 0.4}, "relevant": ["d2"]}
    assert rr(write("rag.jsonl", row), None) == [0.5]
    write("pandas.json", {"score": {"0": 0.5}, "query": {"0": "q1"}})
    assert "looks like" not in error_of("pandas.json", QRELS)


def test_predictions_of_mteb_are_read(write):
    """As AbsTask._save_task_predictions writes them."""
    file = write("a.json", {"mteb_model_meta": MTEB, "default": {"test": RUN}})
    assert rr(file, QRELS) == [0.5, 1]


# OpenSearch and Elasticsearch


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


def test_rank_eval_has_judgments_and_runs(write):
    """The request has the judgments, the answer has the run; a query without hits counts 0."""
    qrels = write("request.json", json.dumps(request(a={"d1": 0, "d2": 3}, b={"d1": 1}), indent=1))
    run = write("answer.json", rank_eval(a=["d1", "d2", "d9"], b=[]))
    assert rr(run, qrels) == [0.5, 0]
    assert read(run, qrels).columns["run"]["pos"] == "order of the hits"
    assert "The run comes first, the judgments second. run has" in error_of(qrels, run)
    half = request(a={"d1": 1, "d2": 1})
    del half["requests"][0]["ratings"][0]["_id"]
    for ratings, message in (
        (request(a={"d1": "good"}), "a request to _rank_eval, but 'good' is not a number"),
        ({"requests": request(a={"d1": 1})["requests"] * 2}, "qrels has duplicates: query 'a'"),
        (half, "qrels: item is NULL in 1 of 2 rows"),
    ):
        assert message in error_of(run, write("bad.json", json.dumps(ratings)))


def test_answers_of_search_are_runs(write):
    qrels = {"a": ["d2"], "b": ["d1"]}
    logged = [answer("d1", "d2", query="a"), answer("d1", query="b")]
    assert rr(write("log.jsonl", "\n".join(map(json.dumps, logged))), qrels) == [0.5, 1]
    assert rr(write("log.json", logged), qrels) == [0.5, 1]
    multi = write("multi.json", {"took": 3, "responses": [answer("d1", "d2"), answer("d1")]})
    result = read(multi, {0: ["d2"], 1: ["d1"]})
    assert result.values() == {0: 0.5, 1: 1}
    assert result.columns["run"]["query"] == "place in responses"
    alone = read(write("one.json", answer("d1", "d2")), {0: ["d2"]})
    assert alone["RR"] == 0.5 and alone.columns["run"]["query"] == "row number"


def test_judgments_that_count_answers_from_1_are_asked_about():
    answers, judged = [answer("d1", "d2"), answer("d1")], {1: ["d2"], 2: ["d1"]}
    refused(answers, judged, match="from 0, and the queries of qrels from 1")
    for run, qrels in ((dict(enumerate(answers, 1)), judged), (answers, {0: ["d2"], 1: ["d1"]})):
        assert rr(run, qrels) == [0.5, 1]
    assert rr(answers, {1: ["d1"]}) == [1]  # the first one is not judged


@pytest.mark.parametrize(
    ("data", "query"),
    [({"query": "a", **answer("d1", "d2")}, "a"), ({"responses": [answer("d1", "d2")]}, 0)],
)
def test_answers_are_dicts_too(data, query):
    for run in (data, {"new": data}):
        assert read(run, {query: ["d2"]}).means() == [0.5]


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


MANY = {f"d{i}": 1 / (i + 1) for i in range(300)}
OBJECTS = {
    "lists": [{"query": "a", "retrieved": ["x", "y"], "relevant": ["y"]},
              {"query": "b", "retrieved": ["x"], "relevant": []}],
    "numbers": [{"query": 1, "retrieved": [7, 8], "relevant": [8]}],
    "objects": [{"query": "a", "retrieved": [{"id": "x"}, {"id": "y", "page": 3}],
                 "relevant": [{"id": "y", "grade": 2}]}],
    "grades": [{"query": "a", "retrieved": ["x", "y"], "relevant": {"y": 2}},
               {"query": "b", "retrieved": ["x", "y"], "relevant": {"x": 1.5}}],
    "maps": [{"query": "a", "retrieved": MANY, "relevant": {"d7": 1}},
             {"query": "b", "retrieved": MANY, "relevant": {"d2": 1}}],
    "rows": [{"query": "a", "item": "x", "rank": 1, "rel": 0},
             {"query": "a", "item": "y", "rank": 2, "rel": 1}],
    "plain and list": [{"query": "a", "retrieved": ["x", "y"], "relevant": ["y"]},
                       {"query": "b", "retrieved": ["x", "y"], "relevant": ["x"]}],
}  # fmt: skip


@few(2)("form", OBJECTS)
def test_dicts_are_read_as_their_file(form, tmp_path):
    rows = OBJECTS[form]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    expected, result = map(read, (path, rows))
    assert result.values() == expected.values() and result.columns == expected.columns


def test_values_of_other_libraries_are_read():
    """Arrays, tuples, sets of relevant ids, and numbers of NumPy."""
    rows = [
        {"query": np.int64(3), "retrieved": np.array(["x", "y"]), "relevant": {"y"}},
        {"query": np.int64(4), "retrieved": ("x", "y"), "relevant": pl.Series(["x"])},
    ]
    assert rr(rows, None) == [0.5, 1]


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
    refused(
        pl.DataFrame(ROWS), None, part="x", match=r"^run: part='x' is for objects and JSON files"
    )
    refused(file, gold, part=3, match=r"^part must be a name, or those of run and qrels")


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


# Answers of other engines

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


@few(2)("engine", ENGINES)
def test_check_finds_no_error_in_answers(engine):
    rows = [{"query": query, **ENGINES[engine]} for query in ("q1", "q2")]
    findings = rankql.check(rows, {"q1": ["d2"], "q2": ["d1"]}).findings
    assert not [x for x in findings if x.level == "error"], findings


@few(6)("engine", ENGINES)
def test_answers_of_engines_by_query(engine, write):
    """As an object or as a file, by turns; each by its query, or with it, or alone."""
    found, turn = ENGINES[engine], [*ENGINES].index(engine) % 4
    by_query = {"q1": found, "q2": found}
    logged = [{"query": query, **each} for query, each in by_query.items()]
    lines = write("a.jsonl", "\n".join(map(json.dumps, logged)))
    run = (by_query, lines, logged, write("a.json", by_query))[turn]
    assert rr(run, {"q1": ["d2"], "q2": ["d1"]}) == [0.5, 1]
    if turn:
        assert rr(found, {0: ["d2"]}) == [0.5]
    else:
        assert read({"a": logged, "b": logged}, {"q1": ["d2"]}).means() == [0.5, 0.5]


@few(3)(
    "empty",
    [answer(), {"matches": []}, {"points": []}, {"result": {"points": []}}, {"value": []},
     {"hits": [], "found": 0}, {"response": {"numFound": 0, "docs": []}},
     {"root": {"id": "toplevel", "relevance": 1.0, "fields": {"totalCount": 0}}}],
)  # fmt: skip
def test_a_query_without_hits_is_an_answer_too(empty, write):
    runs = write("a.json", {"q1": ENGINES["Pinecone"], "q2": empty})
    assert rr(runs, {"q1": ["d2"], "q2": ["d1"]}) == [0.5, 0]


def test_a_matrix_of_chroma_has_a_query_per_row(write):
    found = {"ids": [["a", "b"], ["c", "d"]], "distances": [[0.1, 0.2], [0.1, 0.3]]}
    for run in (found, write("a.json", found)):
        assert rr(run, {0: ["a"], 1: ["d"]}) == [1, 0.5]


def test_rows_with_hits_and_relevant_ids_are_no_answers(write):
    rows = [{"query": "q", "hits": [{"id": "a"}, {"id": "b"}], "relevant": ["b"]}]
    for run in (rows, write("a.json", rows)):
        assert rr(run, None) == [0.5]


def test_a_request_and_an_answer_of_rank_eval_are_dicts_too():
    run, qrels = rank_eval(a=["d1", "d2"]), request(a={"d2": 1})
    assert rr(run, qrels) == [0.5]
    failed = {"q1": answer("d1"), "q2": answer("d1", timed_out=True)}
    assert "the search of query q2 failed or is incomplete" in error_of(failed, {"q1": ["d1"]})


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


def test_frames_may_have_answers_in_a_column():
    logged = [{"query": q, **answer("d1", "d2")} for q in ("q1", "q2")]
    found = [{"query": "q1", "matches": HITS}, {"query": "q2", "matches": HITS}]
    for rows in (logged, found):
        assert rr(pl.DataFrame(rows), {"q1": ["d2"], "q2": ["d1"]}) == [0.5, 1]


def test_cells_of_pandas_are_read_as_those_of_dicts():
    rows = [{"question": "q", "retrieved": [["a", 0.9], ["b", 0.5]], "relevant": ["b"]}]
    assert rr(pandas.DataFrame(rows), None) == rr(rows, None) == [0.5]


def test_objects_may_be_empty():
    rows = [
        {"query": "a", "retrieved": ["x", "y"], "relevant": {}, "more": {}},
        {"query": "b", "retrieved": ["x", "y"], "relevant": {"y": 1}, "more": {"n": {"m": 1}}},
    ]
    assert rr(rows, None) == [None, 0.5]


def test_a_saved_result_of_a_part_is_verified(write, tmp_path):
    file, gold = write("a.json", TWO), write("g.json", {"q": {"a": 1}})
    rankql.evaluate(file, gold, "RR", part="first", interval=None).save(tmp_path / "r.json")
    assert "Verified" in str(rankql.verify(tmp_path / "r.json", file, gold))

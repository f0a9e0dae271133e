"""Which columns are read: by names, by values where several have one, else an error that asks."""

import json
import math
import random
import re
from contextlib import suppress

import numpy as np
import pandas
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support.parameters import cycled, few, of_each_kind
from support.reading import asked, assert_read, read, refused

RUN = [("t2", ["b", "x"]), ("t1", ["x", "a"]), ("t3", ["b", "a"])]
GOLD = [("t1", ["a"]), ("t2", ["b"]), ("t3", ["b"])]
RANKED = {"question": "q one", "retrieved_ids": ["a", "b", "c"]}
ROWS = {"query": ["q"] * 3, "item": [*"abc"]}
FIRST, LAST = [3, 2, 1], [1, 2, 3]


def write(path, data):
    """A file of JSON, of one object per line, or of CSV."""
    if path.suffix == ".csv":
        path.write_text(data)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in data))
    else:
        path.write_text(json.dumps(data))
    return path


def cli(command, *files, **options):
    """The exit code and what a command prints as JSON, or its error."""
    texts = {name: x if isinstance(x, str) else ",".join(x) for name, x in options.items()}
    arguments = [x for name, text in texts.items() for x in (f"--{name}", text)]
    done = CliRunner().invoke(main, [command, *map(str, files), *arguments, "--format", "json"])
    return done.exit_code, json.loads(done.stdout) if done.exit_code == 0 else done.stderr


PRINTED = set()  # the kinds of calls that the command line has repeated


def both_ways(metric, files, **options):
    """The mean in Python, which the command line equals for the first call of each kind."""
    result = read(*files, metrics=metric, **options)
    kind = (*(x.suffix for x in files), *((name, type(x)) for name, x in options.items()))
    if kind not in PRINTED:
        PRINTED.add(kind)
        code, printed = cli("eval", *files, metric=metric, **options)
        assert code == 0, printed
        assert printed["table"][0]["mean"] == pytest.approx(result[metric])
    return result


# Tables of the cases

ZERO = pl.DataFrame({"query": [*"aab"], "item": [*"xyz"], "rank": [0, 1, 0]})
OF_ROWS = pl.DataFrame({"id": range(9), "asked": [0, 0, 0, 1, 1, 1, 2, 2, 2], "item": [*"xyz"] * 3,
                        "score": [3.0, 2.0, 1.0] * 3})  # fmt: skip
BY_ID = OF_ROWS.drop("id").rename({"asked": "id"})
THREE = pl.DataFrame({"query_id": range(3), "item": [*"xyz"], "rel": 1})
CHUNKS = pl.DataFrame({"query": [*"aab"], "doc_id": "D", "chunk_id": [*"xyx"], "score": [2, 1, 1]})
BOTH = {**RANKED, "relevant_ids": ["b", "c", "d"], "relevance_scores": [1, 3, 2]}
KINDS = {"question": "q", "retrieved_chunk_ids": ["a#1", "b#2"]}
OF_CHUNKS, OF_DOCUMENTS = {"expected_chunk_ids": ["b#2"]}, {"expected_document_ids": ["b"]}
CLASSES = pl.DataFrame({**ROWS, "prediction": [0, 1, 1], "probability": [0.2, 0.9, 0.6]})
INDEXED = pl.DataFrame({"query": ["q"] * 2, "item": ["a", "b"], "score": [2.0, 1.0]}).to_pandas()
WITH_KEY = pl.DataFrame({"id": ["k1"], "query": ["what is it"], "relevant_ids": [["b"]]})
TAGS = {"tag_1": ["x", "y"], "tag_2": ["x", "y"]}
WIDE = pl.DataFrame(
    {"user": ["u", "v"], "item_1": ["a", "c"], "item_2": ["b", None], "rel_1": [0, 1],
     "rel_2": [1, None], "score_1": [0.9, 0.8], "score_2": [0.5, None]}
)  # fmt: skip
PLACED_IDS = WIDE.drop("rel_1", "rel_2")
BOUGHT = pl.DataFrame({"user": ["u", "v", "v"], "item": ["b", "c", "z"]})
# Columns next to the retrieved ids a, b and c; RR says which of them has the relevant ids.
BESIDE = {
    "texts": [
        *(({"relevant_ids": ["b"], name: ["Red shoes are cheap", "Blue are not"]}, 1 / 2)
          for name in ("relevant_contexts", "relevant_texts")),
        ({"relevant_ids": ["b"], "ground_truth": ["red"]}, 1 / 2)],
    "copies": [({"relevant_ids": ["b"], "relevant_docs": ["b"]}, 1 / 2)],
    "vectors": [({"relevant_ids": ["b"], "relevant_vector": [0.1, 0.2]}, 1 / 2)],
    # Text next to relevant ids is an answer; alone it may be an id.
    "answers": [
        ({"ground_truth": "Yes b it is", "supporting_ids": ["c"]}, 1 / 3),
        ({"expected": "It is a or b", "expected_ids": ["c"]}, 1 / 3),
        ({"answer": "a", "gold": ["c"]}, 1 / 3),
        ({"reference": "b a", "relevant_chunks": ["c"]}, 1 / 3)],
    "text alone": [({name: "b"}, 1 / 2) for name in ("ground_truth", "expected", "reference")],
    # A plain id is a list of one.
    "plain ids": [({name: "b"}, 1 / 2) for name in ("expected_id", "gold_doc_id")],
    "numbers": [({"retrieved_ids": [7, 8, 9], name: 8}, 1 / 2)
                for name in ("target_id", "relevant_chunk_id")],
}  # fmt: skip
NO_GRADES = {
    "lang": ["en"], "page": [1, 2, 3], "chunk_id": [3, 4], "timestamp": [3, 4], "source": [*"ab"],
    "title": [*"ABC"], "year": [2024, 2025], "shelf": [0, 1, 2],  # the last is a function of the id
}  # fmt: skip
# The field of retrieved objects that has the ids that match, and the other fields.
FIELDS = [
    ("id", {"document_id": "D1"}), ("chunk_id", {"document_id": "D1", "similarity": 0.5}),
    *((name, {text: "A red shoe"}) for text in ("chunk", "product", "doc", "title")
      for name in ("id", "doc_id")),
    ("docid", {"score": 0.5, "doc": {"segment": "some text"}}), ("url", {"title": "A page"}),
]  # fmt: skip
OLD = [{"question": f"q{i}", "retrieved": [*("ab" if i % 2 else "ba")]} for i in range(4)]
NEW = [{**row, "retrieved": ["a", "b"]} for row in OLD]
BY_QUERY = {row["question"]: row["retrieved"] for row in OLD}
BEST = {f"q{i}": ["a"] for i in range(4)}
IDS, NEAR = np.array([[2, 1, 3], [3, 2, 9]]), np.array([[0.1, 0.2, 0.3]] * 2)
RUNS = [
    ((OLD, NEW), BEST, [0.75, 1]), ((OLD, pl.DataFrame(NEW)), BEST, [0.75, 1]),
    ((NEW, BY_QUERY), BEST, [1, 0.75]), ((OLD,), BEST, [0.75]),
    ((pandas.Series(BY_QUERY), NEW), BEST, [0.75, 1]),
    ((IDS, np.array([[2, 3, 1], [3, 9, 2]])), {0: [1], 1: [2]}, [0.5, 1 / 3]),
    ((IDS.tolist(), (NEAR, IDS)), {0: [1], 1: [2]}, [0.5, 0.5]),
]  # fmt: skip
LOWEST = np.finfo("float32").min
PADDED = [
    (np.array([[2, 1, 3], [2, -1, -1]]), "2 places"), ([[4, 1, 3], [2, 3, -1]], "1 place"),
    ({0: [2, 1, 3], 1: [2, 3, -1]}, "1 place"),
    ((np.array([[2, 1, 3], [2, 1, 3]]), np.array([[3, 2, LOWEST], [2, LOWEST, LOWEST]])),
     "3 places"),
    ((np.array([[0.1, 0.2], [0.3, np.inf]]), np.array([[2, 1], [2, 0]])), "1 place"),
]  # fmt: skip
TUPLES = [("q1", "d1", 0.9), ("q1", "d2", 0.5), ("q2", "d2", 0.8)]
INDEXED_SCORES = pandas.DataFrame(TUPLES, columns=["query", "item", "score"])
CURSORS = {
    "tuples": TUPLES, "lists": [*map(list, TUPLES)], "keys": {(q, d): x for q, d, x in TUPLES},
    "a series": INDEXED_SCORES.set_index(["query", "item"])["score"],
}  # fmt: skip
TWO_LISTS = {**RANKED, "relevant": ["b"], "partially_relevant": ["a"]}
RUNNING, OF_A = pl.DataFrame({**ROWS, "rn": LAST}), {"q": {"a": 1}}
# Columns of one role, and the role.
TWICE = [
    ("rank", "position", "pos"), ("grade", "relevance", "rel"), ("similarity", "pred", "score"),
    ("bm25", "rerank_score", "score"), ("is_relevant", "human_label", "rel"),
]  # fmt: skip


def twice(role, **columns):
    """A table with two columns of a role, and judgments if it has no grades."""
    more, gold = ({"pos": LAST}, None) if role == "rel" else ({}, {"q": {"b": 1}})
    return pl.DataFrame({**ROWS, **columns, **more}), gold


CONTESTED = pl.DataFrame({
    "question": [f"q{i}" for i in range(6)], "relevant": [[f"c{i}"] for i in range(6)],
    "retrieved": [[{"id": f"c{i}", "document_id": "D"}] for i in range(6)],
})  # fmt: skip
OF_OBJECTS = CONTESTED.with_columns(
    retrieved=pl.col("retrieved").list.eval(pl.element().struct.field("id")),
    relevant=pl.col("relevant").list.eval(pl.struct(doc_id=pl.element())),
)
HITS = [{"question": "q1", "gold": ["a"], "hits": ["x", "a"]},
        {"question": "q2", "gold": ["b"], "hits": ["x", "y"]}]  # fmt: skip
UNNAMED = [{"question": x["question"], "aa": x["gold"], "bb": x["hits"]} for x in HITS]
RERANKED = {**RANKED, "reranked_ids": [*reversed(RANKED["retrieved_ids"])], "gold": ["c"]}
OF_TEXT = [[{"id": q, "query": "red", name: ids} for q, ids in rows]
           for name, rows in (("retrieved", RUN), ("relevant", GOLD))]  # fmt: skip
# The mark between ids, and two ids.
MARKS = [*((mark, ["BERT, paper.pdf", "GPT 2.pdf"]) for mark in "\n;|\t"),
         *((mark, ["b", "c"]) for mark in (",", ", ", " "))]  # fmt: skip
# The relevant ids b and c, their grades 3 and 1, and the nDCG of those at 2 and 3.
GRADES = [("relevant_doc_ids", "relevance_grades", {"b": 3, "c": 1}),
          ("relevant", "relevance_scores", [3, 1]),
          ("gold_doc_ids", "graded_relevance", [3, 1])]  # fmt: skip
GAIN = (3 / math.log2(3) + 1 / 2) / (3 + 1 / math.log2(3))
SCORES = [("score", [0.1, 0.9, 0.5]), ("scores", [1, 3, 2]), ("distances", [3, 1, 2])]
FAISS, FAR = np.array([[3, 4], [4, 3]]), np.array([[0.1, 0.2], [0.3, 0.4]])
FOURS = [np.array([[4], [4]]), [[4], [4]], {0: [4], 1: [4]},
         pl.DataFrame({"query": [0, 1], "item": [4, 4]})]  # fmt: skip
OVER_ALL = {"query": [i // 10 for i in range(200)], "item": [f"i{i % 10}" for i in range(200)]}
THIRDS = pl.DataFrame({"query": range(20), "item": ["i3"] * 20, "rel": [1] * 20})
USEFUL = {repeats: [
    {"question": f"q{i}", "retrieved": ["d0"],
     "relevant": [{"id": "d0" if repeats else f"d{i}", "usefulness": i % 4}]}
    for i in range(8)] for repeats in (True, False)}  # fmt: skip


def of_systems(name):
    """Two rankings of one query, in whose rows a column differs."""
    rows = {"query": "q", "item": [*"abba"], "score": [2.0, 1.0, 2.0, 1.0]}
    return pl.DataFrame({name: [*"uuvv"], **rows})


def scored_systems(name):
    """Two rankings of one query that share no item."""
    rows = [("A", "q", "a", 0.9), ("A", "q", "x", 0.8), ("B", "q", "y", 0.7), ("B", "q", "b", 0.6)]
    return pl.DataFrame(rows, schema=[name, "query", "item", "score"], orient="row")


# The run, the judgments, the options; RR, of several systems each; and what is said.
READ = {
    "positions: from 0, plus 1": (ZERO, {"a": ["y"], "b": ["z"]}, {"pos": "rank + 1"}, 3 / 4),
    "an id: that both tables have": (BY_ID, THREE.rename({"query_id": "id"}), {}, 11 / 18),
    "an id: beside a query text": (
        pl.DataFrame({"query_id": ["q1", "q1", "q2"], "query": ["mugs", "mugs", "red shoe"],
                      "item": ["x", "y", "z"], "score": [2.0, 1.0, 1.0]}),
        pl.DataFrame({"query": ["q1", "q2"], "item": ["y", "z"], "rel": 1}), {}, 3 / 4),
    # The document matches too.
    "a key that does not repeat within a query": (
        CHUNKS, pl.DataFrame({"query": [*"ab"], "doc_id": "D", "chunk_id": [*"yx"], "rel": 1}),
        {}, 3 / 4),
    "numbers of both lists: grades": (
        [BOTH], None, {"rel": "relevance_scores", "threshold": 3}, 1 / 3),
    "numbers of both lists: scores": ([BOTH], None, {"score": "relevance_scores"}, 1),
    "chunks for chunks": (
        [KINDS | OF_CHUNKS | OF_DOCUMENTS], None,
        {"item": ["retrieved_chunk_ids", "expected_chunk_ids"]}, 1 / 2),
    "a probability next to its class": (CLASSES, {"q": {"b": 1}}, {"score": "probability"}, 1),
    "the index of pandas": (INDEXED.set_index(["query", "item"]), {"q": {"b": 1}}, {}, 1 / 2),
    "the index of pandas: a part": (INDEXED.set_index(["query"]), {"q": {"b": 1}}, {}, 1 / 2),
    "the id of a gold set: for a dict": ({"k1": ["a", "b"]}, WITH_KEY, {}, 1 / 2),
    "the id of a gold set: for a table": (
        pl.DataFrame({"query": "k1", "retrieved": [["a", "b"]]}), WITH_KEY, {}, 1 / 2),
    "ids below zero are no padding": ([[3, -1], [-7, -1]], {0: [-1], 1: [-7]}, {}, 3 / 4),
    "a running number: of grades and scores": (WIDE, None, {}, 3 / 4),
    "a running number: of scores": (PLACED_IDS, BOUGHT, {}, 3 / 4),
    "a running number: of whole numbers of pandas": (
        pandas.DataFrame({"user": [1, 2], "item_1": [7, 8], "item_2": [9, None]}),
        {1: [9], 2: [8]}, {}, 3 / 4),
    "a running number: of relevant ids": (
        PLACED_IDS,
        pl.DataFrame({"user": ["u", "v"], "relevant_1": ["b", "c"], "relevant_2": [None, "z"]}),
        {}, 3 / 4),
    "a running number: beside an item": (
        pl.DataFrame({"user": ["u"] * 2, "item": ["a", "b"], "score": [2.0, 1.0], **TAGS}), BOUGHT,
        {}, 1 / 4),
    "rows next to text are a part and no run": (
        {"name": "nightly", "results": [{"question": "q", "retrieved": ["b", "a"]}]},
        {"q": ["a"]}, {}, 1 / 2),
    **{f"{kind} beside retrieved ids: {x}": ([RANKED | x], None, {}, value)
       for kind, cases in BESIDE.items() for x, value in cases},
    "plain ids beside retrieved ids: named": (
        [RANKED | {"gold_doc_id": "b"}], None, {"item": ["retrieved_ids", "gold_doc_id"]}, 1 / 2),
    **{f"two lists of relevant ids: {name}": (
        [TWO_LISTS], None, {"item": ["retrieved_ids", name]}, value)
       for name, value in (("relevant", 1 / 2), ("partially_relevant", 1))},
    **{f"a field that is no grade: {name}": (
        [{"question": f"q{i}", "retrieved": [f"x{i}", f"d{i % 3}"],
          "relevant": [{"id": f"d{i % 3}", name: values[i % len(values)]}]} for i in range(6)],
        None, {}, 1 / 2) for name, values in NO_GRADES.items()},
    **{f"the field whose values match: {name}, {[*fields]}": (
        [{"question": f"q{i}", "relevant": [f"c{i}"],
          "retrieved": [{name: x, **fields} for x in (f"c{i}", "z")]} for i in range(3)],
        None, {}, 1, f"'item': 'retrieved.{name}'") for name, fields in FIELDS},
    "the field whose values match: of two tables": (
        [{"question": q, "retrieved": [{"id": q, "title": "x"}]} for q in "ab"],
        pl.DataFrame({"question": [*"ab"], "id": [*"ab"]}), {}, 1, "'item': 'retrieved.id'"),
    **{f"queries called: {name}": (
        pl.DataFrame({name: "x y", "item": ["a", "b"], "score": [2.0, 1.0]}),
        pl.DataFrame({name: ["x y"], "item": ["b"], "rel": [1]}), {}, 1 / 2)
       for name in ("prompt", "input", "search_term", "search_query", "user_query", "keyword",
                    "q")},
    "queries called: prompt, and their id": (
        pl.DataFrame({"prompt": "x y", "query_id": "1", "item": ["a", "b"], "score": [2.0, 1.0]}),
        pl.DataFrame({"prompt": ["x y"], "query_id": ["1"], "item": ["b"], "rel": [1]}),
        {}, 1 / 2, "'query': 'query_id'"),
    **{f"lists called: {name}": ([{"user": 1, name: ids, "purchased": ["b"]}], None, {}, 1 / 2)
       for name, ids in cycled(["recommendations", "items", "item_ids", "recs", "top_k"],
                               [["a", "b"], "['a', 'b']"])},
    "lists called: items in both tables": (
        [{"user": 1, "items": ["a", "b"]}], [{"user": 1, "items": ["b"]}], {}, 1 / 2),
    **{f"positions called: {name}": (pl.DataFrame({**ROWS, name: LAST}), OF_A, {}, 1)
       for name in ("ranking", "rn", "row_number", "slot", "rnk")},
    "positions called: rn, which are named": (RUNNING, OF_A, {"pos": "rn"}, 1),
    "positions called: rn, as scores": (RUNNING, OF_A, {"score": "rn", "descending": True}, 1 / 3),
    "positions called: rn, beside scores": (
        RUNNING.with_columns(score=pl.Series(LAST)), OF_A, {}, 1 / 3),
    **{f"two columns of a role that agree: {one}": (
        *twice(role, **{one: FIRST, other: [30, 20, 10] if role == "score" else FIRST}),
        {}, 1 if role == "rel" else 1 / 2) for one, other, role in TWICE},
    **{f"grades of a ranked table: {yes}": (
        pl.DataFrame({**ROWS, "rank": LAST, "clicked": [no, yes, no]}), None, {"rel": "clicked"},
        1 / 2) for yes, no in (("True", "False"), ("true", "false"), ("yes", "no"), ("Y", "N"))},
    **{f"grades of a ranked table: {score}": (
        pl.DataFrame({**ROWS, score: FIRST, rel: [0, 1, 0]}), None, {}, 1 / 2)
       for score, rel in (("rerank_score", "is_relevant"), ("bm25", "human_label"),
                          ("probability", "relevant"))},
    **{f"flags of retrieved objects: {flag}": (
        [{"question": "q", "answers": ["x"],
          name: [{"id": x, "title": "t", flag: x == "b"} for x in "abc"]}], None, {}, 1 / 2,
        "recall counts retrieved items only")
       for flag, name in cycled(["has_answer", "relevant", "is_relevant", "grade"],
                                ["ctxs", "results", "retrieved"])},
    **{f"a split by value: {name} {test}": (
        {1: ["a", "b"], 2: ["b", "c"]},
        pl.DataFrame({"user": [1, 1, 2, 2], "item": [*"abbc"], name: [train, test] * 2}),
        {}, 1 / 2)
       for name, test, train in (("split", "TEST", "TRAIN"), ("split", "testing", "training"),
                                 ("fold", "test", "train"), ("is_test", "1", "0"),
                                 ("is_test", "true", "false"), ("Split", "test", "train"))},
    **{f"{'several runs' if len(runs) > 1 else 'one run of a dict'}: {place}": (
        dict(zip("ab", runs, strict=False)), gold, {}, means)
       for place, (runs, gold, means) in enumerate(RUNS)},
    **{f"padding at the end: {place}": (
        run, {0: [1], 1: [2, 0, 7]}, {}, 3 / 4, f"run: {count} at the end of lists left out")
       for place, (run, count) in enumerate(PADDED)},
    **{f"rows of a cursor as {name}": (run, [("q1", "d2", 1), ("q2", "d2", 1)], {}, 3 / 4)
       for name, run in CURSORS.items()},
    "rows of a cursor: which says so": (
        TUPLES, {"q1": ["d2"], "q2": ["d2"]}, {}, 3 / 4,
        "run: the values of a row are read as query, item, score"),
    **{f"ids that differ by type: {role} {odd!r}": (
        pl.DataFrame({"query": [60, 61], "item": [60, 61], "score": [1.0, 2.0]}),
        pl.DataFrame({"query": ["60", "61"], "item": ["60", "61"], "rel": 1} | {role: [odd, "61"]}),
        {}, 0.5, f"1 id in {role} is text with leading zeros or blanks, such as '{odd}'")
       for role in ("item", "query") for odd in ("060", " 60", "60 ")},
    "lists called: gold and hits": (HITS, None, {}, 1 / 4),
    "lists called: nothing known, but named": (UNNAMED, None, {"item": ["bb", "aa"]}, 1 / 4),
    "two lists of retrieved ids: named": (
        [RERANKED], None, {"item": ["reranked_ids", "gold"]}, 1),
    "two lists of retrieved ids: of some of the items": (
        [RERANKED | {"reranked_ids": ["c", "b"]}], None, {}, 1 / 3,
        "To read it, pass item=['reranked_ids', 'gold']"),
    **{f"the exact name of a score: and {other}": (
        pl.DataFrame({**ROWS, "score": FIRST, other: LAST}), OF_A, {}, 1, f"score, not {other}")
       for other in ("similarity", "rerank_score", "pred", "bm25")},
    "the exact name of a score: and another that agrees": (
        pl.DataFrame({**ROWS, "score": FIRST, "bm25": [9, 5, 1]}), OF_A, {}, 1,
        "'score': 'score'"),
    **{f"cells are split where most queries match: {mark!r}": (
        [{"question": "q", "retrieved_ids": mark.join(["x", *ids]), "relevant_ids": ids[0]},
         {"question": "r", "retrieved_ids": ids[1], "relevant_ids": ids[1]}], None, {}, 3 / 4)
       for mark, ids in MARKS},
    "an id: of queries of one text": (*OF_TEXT, {}, 5 / 6),
    "an id: of queries of one text, named": (*OF_TEXT, {"query": "id"}, 5 / 6),
    "lines that hold only objects": (
        [{"inputs": {"question": f"q{i}"}, "outputs": {"retrieved": [{"id": x} for x in ids]},
          "reference_outputs": {"gold_chunk_ids": ["b"]}} for i, ids in enumerate(["ab", "b"])],
        None, {}, 3 / 4, "{'query': 'inputs.question', 'item': 'outputs.retrieved.id'"),
    "each run has its own field of relevant ids": (
        {"a": CONTESTED, "b": OF_OBJECTS}, None, {}, [1, 1]),
    **{f"grades in another column: {name}": (
        [{**RANKED, ids: ["b", "c"], name: grades}], None, {"metrics": "nDCG@10"}, GAIN,
        f"{name} of {ids}") for ids, name, grades in GRADES},
    **{f"scores in another column: {name}": (
        [{**RANKED, "relevant_ids": ["c"], name: values}], None, {"score": name}, 1 / 2,
        f"'score': '{name}'{', ' + repr('order') if name == 'distances' else ''}")
       for name, values in SCORES},
    # As FAISS, hnswlib and implicit return them.
    **{f"arrays in form {place} have a query per row": (run, gold, {}, 3 / 4)
       for place, (run, gold) in enumerate(zip(
           (FAISS, (FAR, FAISS), (FAISS, FAR), FAISS.tolist()), FOURS, strict=True))},
    **{f"positions of each query: {name}": (
        pl.DataFrame({**OVER_ALL, name: [i % 10 + 1 for i in range(200)]}), THIRDS, {}, 1 / 4)
       for name in ("rank", "pos", "rn")},
    **{f"what separates duplicates is a system: {name}": (
        of_systems(name), {"q": {"a": 1}}, {}, [1, 1 / 2])
       for name in ("method", "engine", "model_name")},
    **{f"what separates duplicates is a system: {name}, named": (
        of_systems(name), {"q": {"a": 1}}, {"system": name}, [1, 1 / 2])
       for name in ("_index", "part")},
    **{f"systems that share no item: {name}": (
        scored_systems(name), {"q": {"a": 1, "b": 1}}, {}, value)
       for name, value in (("system", [1, 1 / 2]), ("ranker", [1, 1 / 2]), ("variant", [1]))},
    **{f"a field of few numbers that is no grade: {repeats}": (
        rows, None, {"rel": "1"}, 1 if repeats else 1 / 8) for repeats, rows in USEFUL.items()},
    "fractions: with a threshold": (
        {"q": [*"abc"]}, {"q": {"a": 0.33, "b": 0.67, "c": 1.0}}, {"threshold": 0.5}, 1 / 2),
}  # fmt: skip


@of_each_kind(READ)
def test_what_is_read(kind, case):
    assert_read(*READ[case])


# What is asked about or refused: the run, the judgments, the options, the message.

# One id that matches by chance is not better than a document of which several chunks match.
CHANCE = [{"question": f"q{i}", "relevant": ["d"] if i else ["c0"],
           "retrieved": [{"id": f"c{i}", "doc_id": "d"}, {"id": "z", "doc_id": "d"}]}
          for i in range(6)]  # fmt: skip
SHELVES = [{"query": q, "shelf_id": q % 3, "store_id": q % 2, "score": 1.0} for q in range(40)]
OTHER_SHELVES = [{"query": q, "shelf_id": (q + 1) % 3, "store_id": (q + 1) % 2} for q in range(40)]
OTHER_TIER = pl.DataFrame({"query_id": [f"a{i}" for i in range(6)], "item": "x", "score": 1.0})
PARTS = [("split", ["a", "b"]), ("fold", ["0", "1"]), ("split", ["test", None]), ("fold", [0, 1])]
CUTS = [["item_1"], ["item_1", "item_3"], ["item_2", "item_3"]]
LIST_OR_ROWS = r"values rows of a table, or a list of ids.*pl\.DataFrame\(data, schema=\['query',"

REFUSED = {
    **{f"two columns of a role: {one}": (
        *twice(role, **{one: FIRST, other: LAST}), {},
        f"may all be the {role}, and they differ. Pass one of: {role}='")
       for one, other, role in TWICE},
    "lists of unknown names": (
        UNNAMED, None, {}, r"Pass one of: item=\['aa', 'bb'\] item=\['bb', 'aa'\]"),
    # All of the same items are a second ranking.
    "two lists of retrieved ids": (
        [RERANKED], None, {}, "reranked_ids has ids of the run too. Which are the retrieved"),
    "a text that repeats": (
        *OF_TEXT, {"query": "query"},
        "several rows for query 'red'.* Pass one of: query='id' query="),
    **{f"too few grades of other ids: {name}": (
        [{**RANKED, ids: ["b", "c"], name: [3] if isinstance(grades, list) else {"b": 3}}], None,
        {}, "Write one number for each of its ids, or") for ids, name, grades in GRADES},
    **{f"scores against the order: {name}": (
        [{**RANKED, "relevant_ids": ["c"], name: values}], None, {},
        f"not in the order of {name} in 1 query. .* Pass one of: order='list' score='{name}'")
       for name, values in SCORES},
    "arrays: of distances alone": (
        (FAR, FAR), FOURS[0], {}, "one must have whole numbers, the ids"),
    "arrays: with a fill-in at the start": (
        np.array([[-1, 3]]), {0: [3]}, {}, "has -1, which is not an id"),
    **{f"positions over all rows: {name}": (
        pl.DataFrame({**OVER_ALL, name: range(1, 201)}), THIRDS, {},
        f"{name} numbers the rows of all queries together") for name in ("rank", "pos", "rn")},
    **{f"what separates duplicates is a system: {name}": (
        of_systems(name), {"q": {"a": 1}}, {}, f"the column of the systems: system='{name}'")
       for name in ("_index", "part")},
    **{f"a field of few numbers: {repeats}": (
        rows, None, {}, "Is relevant.usefulness the grade") for repeats, rows in USEFUL.items()},
    "a running number is no score": (
        RUNNING, OF_A, {"score": "rn"},
        "counts from 1 in each query, like positions. Pass one of: pos='rn' desc"),
    **{f"two lists of relevant ids: {one}": (
        [{**RANKED, one: ["b"], other: ["a"]}], None, {},
        "has ids of the run too. Which are the retrieved .* Pass "
        r"one of: item=\['retrieved_ids', '\w+'\] item=\['retrieved_ids', '\w+'\] run ")
       for one, other in (("relevant", "partially_relevant"), ("gold_ids", "acceptable_ids"),
                          ("relevant_doc_ids", "gold_doc_ids"))},
    "two lists of relevant ids: of judgments": (
        {"q one": ["a", "b"]}, [{"question": "q one", "relevant": ["b"], "acceptable": ["a"]}], {},
        "has ids of the run too"),
    **{f"fractions: {len(grades)}": (
        {"q": [*"abc"]}, {"q": grades}, {}, "Pass threshold= with the lowest relevant grade")
       for grades in ({"a": 0.33, "b": 0.67, "c": 1.0}, {"a": 0.2, "b": 0.5})},
    "positions from 0": (
        ZERO, {"a": ["y"], "b": ["z"]}, {}, r"rank counts from 0 .* Pass: pos='rank \+ 1'$"),
    "positions from 0: in one query": (
        ZERO.with_columns(rank=pl.Series([0, 1, 1])), {"a": ["y"], "b": ["z"]}, {},
        "rank is 0 in some queries. Is it the top"),
    "row numbers: that match by chance": (OF_ROWS, THREE, {}, "^No query column in run"),
    "an id that one table has": (
        BY_ID, THREE, {}, "^No query column in run. Pass: query='id' run id"),
    "the field that matches most repeats": (
        CHANCE, None, {}, "Keep one row of each, .* collapse='retrieved.doc_id'"),
    "row numbers: that join no tables": (
        [{"retrieved": ids} for _, ids in RUN], [{"relevant": ["a"]}], {},
        "^No query column in run"),
    "whole numbers that match by chance": (
        pl.DataFrame(SHELVES), pl.DataFrame(OTHER_SHELVES), {"rel": "1"}, "^No item column"),
    "a column of another tier that matches": (
        OTHER_TIER, OTHER_TIER.select(
            task_id="query_id", query_id="b" + pl.col("query_id"), item="item", rel=1),
        {}, r"task_id of qrels matches: query=\['query_id', 'task"),
    "numbers of both lists": (
        [BOTH], None, {}, "Pass one of: rel='relevance_scores' score='relevance_scores'"),
    "documents and chunks: after chunks": (
        [KINDS | OF_CHUNKS | OF_DOCUMENTS], None, {},
        r"Pass: item=\['retrieved_chunk_ids', 'expected_chunk_ids'\] run "),
    "documents and chunks: before chunks": (
        [KINDS | OF_DOCUMENTS | OF_CHUNKS], None, {},
        r"Pass: item=\['retrieved_chunk_ids', 'expected_chunk_ids'\] run "),
    "a class next to its probability": (
        CLASSES, {"q": {"b": 1}}, {}, "prediction and probability may all be the score"),
    **{f"text that is no retrieved id: {name}": (
        [{**RANKED, name: "It is a or b"}], None, {},
        "most values of .* are not among the retrieved ids")
       for name in ("ground_truth", "expected", "reference")},
    **{f"a number or flag that is no id: {name} = {value}": (
        [{"question": "q", "retrieved_ids": [1, 2, 7], name: value}], None, {}, "^(run|qrels)")
       for name, value in (("top_k", 5), ("relevant", True), ("relevant", 1), ("expected_id", 99))},
    "labels are listed without numbers": (
        pl.DataFrame({**ROWS, "rank": LAST, "label": ["bad", "good", "fair"]}), None, {},
        r"rel=\('label', \{'bad': \.\.\., 'fair': \.\.\., 'good': \.\.\.\}\)"),
    **{f"another part: {name} = {values}": (
        {1: ["a", "b"]}, pl.DataFrame({"user": [1, 1], "item": ["a", "b"], name: values}), {},
        f"has a column {name} with (?!.*rel=).*Keep the rows")
       for name, values in PARTS},
    **{f"lists and objects are no queries: {kind}": (
        pl.DataFrame({"query": [kind], "retrieved": [["a"]], "relevant": [["a"]]}), None, named,
        "query has lists or objects.*query=")
       for kind, named in (([0.1, 0.2], {}), ([1, 2], {"query": "query"}), (["a"], {}),
                           ({"x": 1}, {"query": "query"}))},
    "rows or a list of ids: judgments": ({0: [10, 11]}, [(0, 11, 1), (1, 13, 1)], {}, LIST_OR_ROWS),
    "rows or a list of ids: an array": (
        {0: [10, 11]}, np.array([(0, 11, 1), (1, 13, 1)]), {}, LIST_OR_ROWS),
    "rows or a list of ids: pairs": ({0: [10, 11]}, [(0, 11), (1, 13)], {}, LIST_OR_ROWS),
    "rows or a list of ids: a run": ([(0, 11, 1), (0, 13, 1)], {0: [11]}, {}, LIST_OR_ROWS),
    "rows or a list of ids: of text": ([("q1", "d1", 1, 0.5)], {"q1": ["d1"]}, {}, LIST_OR_ROWS),
    "equal scores with a running number": (
        PLACED_IDS.with_columns(score_1=pl.lit(0.1)), BOUGHT, {},
        r"not in the order of retrieved_ids\.score"),
    "an id after a missing one": (
        pl.DataFrame({"user": ["u"], "item_1": ["a"], "item_2": [None], "item_3": ["b"]}), BOUGHT,
        {}, "^run: item_1 to item_3 are the places of a list, but"),
    **{f"numbers with a gap are no places: {names}": (
        pl.DataFrame({"user": ["u"], **{name: ["a"] for name in names}}), BOUGHT, {},
        "^No item column in run") for names in CUTS},
}  # fmt: skip


@of_each_kind(REFUSED)
def test_what_is_refused(kind, case):
    run, gold, options, message = REFUSED[case]
    refused(run, gold, **options, match=message)


# Two tables of lists are joined by a column, never by their row numbers.

KEYS = ["id", "task_id", "_id", "uuid", "example_id", "taskId"]


@few(2)(("key", "other"), cycled(KEYS, [None, "id", "question", None]))
def test_lists_in_two_tables_are_joined_by_the_best_column_of_both(key, other, tmp_path):
    run = write(tmp_path / "run.jsonl", [{key: q, "retrieved": ids} for q, ids in RUN])
    gold = [{other or key: q, "relevant": ids} for q, ids in GOLD]
    result = both_ways("RR", [run, write(tmp_path / "gold.jsonl", gold)])
    assert result["RR"] == pytest.approx(5 / 6)
    assert [x["query"] for x in result.columns.values()] == [key, other or key]


@few(2)(("key", "other"), cycled(["case_id", "ticket_id", "name"], [None, "id", "topic", "owner"]))
def test_columns_of_other_names_are_asked_for(key, other, tmp_path):
    run = write(tmp_path / "run.jsonl", [{key: q, "retrieved": ids} for q, ids in RUN])
    gold = [{other or key: q, "relevant": ids} for q, ids in GOLD]
    files = [run, write(tmp_path / "gold.jsonl", gold)]
    query = [key, "owner"] if other == "owner" else key
    call = re.escape(f"Pass: query={query!r} run ")
    refused(*files, match=f"^No query column in run. {call}")
    assert both_ways("RR", files, query=query)["RR"] == pytest.approx(5 / 6)


def test_an_attribute_that_differs_between_the_tables_is_noted():
    run = pl.DataFrame({"query": [*"aab"], "item": [*"xyz"], "rank": [1, 2, 1], "seg": [*"mmn"]})
    gold = pl.DataFrame({"query": [*"ab"], "item": [*"yz"], "seg": [*"mk"]})
    result = rankql.evaluate(run, gold, "RR", by="seg")
    assert "seg is that of qrels. In run 1 query has another one" in result.notes
    assert result.summary["seg"].to_list() == [None, "k", "m"]
    assert read(run, gold.drop("seg"), by="seg").notes == []


def test_one_call_answers_several_questions():
    run = pl.DataFrame({"asked": [*"aab"], "thing": [*"xyz"], "score": [3.0, 2.0, 1.0]})
    gold = pl.DataFrame({"need": [*"ab"], "object": [*"yz"], "rel": [1, 1]})
    question = asked(run, gold, match=r"^No query column in run")
    assert question.calls[0] == {"query": ["asked", "need"], "item": ["thing", "object"]}
    assert question.readings[0]["RR"] == 0.75


def test_a_run_equals_its_own_reversed_copy(tmp_path):
    rows = [{"id": i, "retrieved": [f"d{i % 7}", "x"], "relevant": [f"d{i % 3}"]} for i in range(9)]
    files = [write(tmp_path / f"{name}.jsonl", each) for name, each in
             (("a", rows), ("b", rows[::-1]))]  # fmt: skip
    assert rankql.compare(files, metrics="RR").pairs["difference"].to_list() == [0]


def test_submissions_of_kaggle_with_an_id(tmp_path):
    run = write(tmp_path / "run.csv", "id,prediction\n0,a b\n1,c b\n2,e b\n")
    gold = write(tmp_path / "gold.csv", "user_id,item_id\n0,a\n1,b\n2,b\n")
    assert both_ways("HR@1", [run, gold])["HR@1"] == pytest.approx(1 / 3)
    assert both_ways("HR@1", [run, gold], query=["id", "user_id"])["HR@1"] == pytest.approx(1 / 3)
    assert both_ways("HR@1", [run, gold], query="user_id")["HR@1"] == pytest.approx(1 / 3)


# Fields of objects contend, and values decide.


def test_gate_and_monitor_ask_to_name_what_values_decided(tmp_path):
    result = read(CONTESTED)
    option = "item=['retrieved.id', 'relevant']"
    assert result.columns["run"]["chosen by values"] == option
    shown = str(rankql.evaluate(CONTESTED, metrics="RR", interval=None))
    assert f"chosen by values, pass {option} to name them" in shown
    path = tmp_path / "run.parquet"
    CONTESTED.write_parquet(path)
    with pytest.raises(RankqlError, match=r"values decide which columns.*item=\['retrieved.id"):
        rankql.gate(path, minimum="RR>=1")
    assert rankql.gate(path, minimum="RR>=1", item=["retrieved.id", "relevant"]).passed
    days = pl.concat(
        CONTESTED.with_columns(day=pl.date(2026, 1, 1) + pl.duration(days=i)) for i in range(3)
    )
    with pytest.raises(RankqlError, match=r"values decide which columns"):
        rankql.monitor(days, metrics="RR")
    done = CliRunner().invoke(main, ["gate", str(path), "--min", "RR>=1"])
    assert done.exit_code == 2 and "--item retrieved.id,relevant" in done.stderr


def test_one_decision_holds_for_all_runs():
    """The better run matches id, the worse document_id, in fewer queries."""
    worse = pl.DataFrame(
        [
            {"question": f"q{i}", "relevant": [f"c{i}"],
             "retrieved": [{"id": f"c{i}" if i > 4 else "y",
                            "document_id": f"c{i}" if i < 2 else "D"}]}
            for i in range(6)
        ]
    )  # fmt: skip
    runs = {"better": CONTESTED, "worse": worse}
    result = read(runs, None, undefined="zero")
    assert {x["item"] for label, x in result.columns.items() if "run" in label} == {"retrieved.id"}


# Splits, keys, padding, systems

LOG = pl.DataFrame({
    "user": ["u1"] * 4 + ["u2"] * 4, "item": [*"abcdbaef"], "time": [1, 2, 3, 4] * 2,
    "rating": 1, "event": "buy", "clicks": 2,
})  # fmt: skip
TOP = {"u1": ["d", "x"], "u2": ["f", "y"]}


@few(2)(
    ("columns", "rel", "split"),
    [
        (["rating"], None, rankql.leave_one_out),
        ([], None, rankql.time_split),
        ([], "1", rankql.leave_one_out),
        (["event"], {"buy": 3, "click": 1}, rankql.time_split),
        (["clicks"], "clicks - 1", rankql.leave_one_out),
    ],
)
def test_a_split_is_one_whatever_gives_the_grades(columns, rel, split, tmp_path):
    options = {} if split is rankql.leave_one_out else {"since": 4}
    log = split(LOG.select("user", "item", "time", *columns), **options)
    result = read(TOP, log, "R@2", rel=rel)
    assert result["R@2"] == 1 and result.columns["train"]["split"] == "train"
    if columns == ["rating"]:
        test = read(TOP, log.filter(split="test"), "R@2")
        assert test["R@2"] == 1 and "train" not in test.columns
    log.write_csv(tmp_path / "log.csv")
    named = "buy=3,click=1" if isinstance(rel, dict) else rel
    files = [write(tmp_path / "run.json", TOP), tmp_path / "log.csv"]
    code, printed = cli("eval", *files, metric="R@2", **({"rel": named} if rel else {}))
    assert code == 0 and printed["table"][0]["mean"] == 1


def test_parts_of_queries_are_judgments_and_other_parts_ask():
    part = pl.when(pl.col("user") == "u1").then(pl.lit("train")).otherwise(pl.lit("test"))
    result = read(TOP, LOG.select("user", "item", "rating", split=part), "R@2")
    assert result["R@2"] == 0.25
    assert "qrels: each user is in one part of split (test, train)" in result.notes[0]
    log = rankql.leave_one_out(LOG).with_columns(pl.col("split").replace("train", "valid"))
    refused(TOP, log, "R@2", match=r"test, valid\. Keep the rows with split = 'test'$")


@few(1)("other", ["train", "valid"])
def test_judgments_are_those_of_the_parts_that_runs_have_queries_of(other, tmp_path):
    """A log split by users, and a run of the users of test."""
    part = pl.when(pl.col("user") == "u1").then(pl.lit(other)).otherwise(pl.lit("test"))
    log = LOG.select("user", "item", "rating", split=part)
    result = rankql.evaluate({"u2": TOP["u2"]}, log, "R@2")
    assert result["R@2"] == 0.25 and result.summary["missing"].item() == 0
    assert "the run has queries of test only, so the rows of test" in result.notes[0]
    assert result.columns["qrels"]["split"] == "test"
    runs = {x: pl.DataFrame({"user": [x], "item": ["d"], "score": [1.0]}) for x in TOP}
    both = rankql.evaluate(runs, log, "R@2", missing="zero").summary
    assert both.select("system", "mean", "missing").rows() == [("u1", 0.125, 1), ("u2", 0, 1)]
    number = {"u1": 1, "u2": 2}
    log = log.with_columns(user=pl.col("user").replace_strict(number))
    run = pl.DataFrame({"id": [2, 2], "item": ["y", "f"], "pos": [1, 2]})
    assert read(run, log, "R@2", query=("id", "user"))["R@2"] == 0.25


def test_ratings_with_times_are_not_trec(tmp_path):
    """MovieLens: user, item, rating, time between tabs, without a header."""
    rows = [(1, 7, 5, 881250949), (2, 8, 3, 881250950), (3, 9, 4, 881250951)]
    path = tmp_path / "u1.test"
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    run = write(tmp_path / "run.json", {"1": ["7"], "2": ["x", "8"], "3": ["x"]})
    names = ["query", "item", "rel", "time"]
    refused(run, path, match=f"times in its last column.*{re.escape(f'columns={names}')}")
    assert both_ways("RR", [run, path], columns=names)["RR"] == 0.5


def test_padding_is_refused_with_the_expression_that_drops_it(tmp_path):
    rows = [{"query": "0", "retrieved": [8, 2, -1], "relevant": [3, -1, -1]}]
    path = write(tmp_path / "r.jsonl", rows)
    drop = "list_filter({}, lambda x: x <> -1)".format
    both = [drop("retrieved"), drop("relevant")]
    refused(path, match=re.escape(f"Drop it: item={[both[0], 'relevant']}") + "$")
    hits = pl.DataFrame(rows).with_columns(retrieved=pl.Series([[8, 3, -1]]))
    texts = hits.cast({"retrieved": pl.List(pl.String), "relevant": pl.List(pl.String)})
    for tables, minus in (([hits], "-1"), ([texts.drop("relevant"), texts.drop("retrieved")],
                                           "'-1'")):  # fmt: skip
        with pytest.raises(RankqlError) as error:
            rankql.evaluate(*tables, metrics="RR")
        (call,) = error.value.calls
        assert call == {"item": [x.replace("-1", minus) for x in both]}
        assert read(*tables, **call)["RR"] == 0.5
    assert both_ways("Success", [path], item=both)["Success"] == 0
    files = [write(tmp_path / f"{name}.json", {"0": rows[0][name]})
             for name in ("retrieved", "relevant")]  # fmt: skip
    assert "left out, without an item" in " ".join(both_ways("Success", files).notes)


@few(1)("rows", ["query,item\n0,3\n0,-1\n", pl.DataFrame(
    {"query": [0, 0], "item": [3, -1]})])  # fmt: skip
def test_padding_in_rows_is_refused_in_judgments_and_no_hit_in_runs(rows, tmp_path):
    run = pl.DataFrame({"query": [0, 0, 0], "item": [8, 2, -1], "pos": [1, 2, 3]})
    gold = write(tmp_path / "gold.csv", rows) if isinstance(rows, str) else rows
    refused(run, gold, "Success", match=r"^qrels: item has -1")
    assert read(run, {0: {3: 1}}, "Success")["Success"] == 0
    hashes = {0: {-1: 1, -7: 1}}  # ids below 0 are ids
    assert read({0: [-1, -7]}, hashes, "P@2")["P@2"] == 1


@few(1)(("score", "ids"), [(float, "ab"), (str, [1, 2])])
def test_pairs_in_lists_are_ids_and_numbers(score, ids, tmp_path):
    pairs = [[ids[0], score(0.5)], [ids[1], score(0.7)]]  # not in order
    run = write(tmp_path / "run.jsonl", [{"query": "q", "retrieved": pairs}])
    gold = write(tmp_path / "gold.jsonl", [{"query": "q", "relevant": [[ids[0], 3], [ids[1], 1]]}])
    refused(
        run, gold, rel="relevant.2", match="order of the number .* Pass one of: order='list' desc"
    )
    for options, value in (({"descending": True}, 0.5), ({"order": "list"}, 1)):
        metric, options = "RR(rel=2)", {**options, "rel": "relevant.2"}
        assert read(run, gold, metric, **options)[metric] == value
    if score is str:
        return
    refused(run, gold, order="list", match="is the second part of each pair in relevant the grade")
    for wrong in ([[ids[0], 0.5, 1]], [[ids[0], "x"]]):
        path = write(tmp_path / "w.jsonl", [{"query": "q", "retrieved": wrong}])
        refused(path, gold, match="^run: retrieved must be a list of ids")


IMPRESSIONS = "session,query_text,doc_id,position\ns1,red,x,1\ns1,red,y,2\ns2,red,y,1\ns2,red,x,2\n"


def test_judgments_of_a_text_hold_for_all_its_sessions(tmp_path):
    run = write(tmp_path / "impressions.csv", IMPRESSIONS)
    gold = write(tmp_path / "judgements.csv", "query_text,doc_id,grade\nred,x,1\n")
    refused(run, gold, match=r"query=\['session', 'query_text'\]")
    key = ["session", "query_text"]
    result = both_ways("nDCG", [run, gold], query=key)
    assert [*result.values("nDCG").values()] == pytest.approx([1, 0.63093], abs=1e-5)
    assert result.columns["qrels"]["query"] == "session, query_text"
    assert "qrels: judgments of query_text hold for each session" in result.notes
    assert rankql.evaluate(run, gold, "nDCG", query=key[::-1]).per_query.height == 2


def test_queries_of_one_text_are_clusters():
    run = pl.DataFrame([(f"s{i}", f"t{i % 3}", "x", 1) for i in range(9)],
                       ["session", "query_text", "doc_id", "position"], orient="row")  # fmt: skip
    qrels = pl.DataFrame({"query_text": ["t0", "t1", "t2"], "doc_id": [*"xyx"], "grade": 1})
    options = {"query": ["session", "query_text"]}
    _, note = rankql.evaluate(run, qrels, "RR", **options).notes
    assert note.startswith("Queries with the same query_text are not independent: pass cluster=")
    clustered = rankql.evaluate(run, qrels, "RR", cluster="query_text", **options)
    assert clustered.notes[1].startswith("Queries are clustered by query_text: 3 clusters")


def test_systems_that_share_no_item_share_positions(tmp_path):
    rows = "query,model,item,pos\na,m,x,1\na,m,y,2\na,n,z,1\na,n,w,2\n"
    files = [write(tmp_path / "run.csv", rows), write(tmp_path / "gold.json", {"a": ["x", "w"]})]
    summary = rankql.evaluate(*files, "RR").summary
    assert summary.select("system", "mean").rows() == [("m", 1), ("n", 0.5)]
    assert [x["mean"] for x in cli("eval", *files, metric="RR")[1]["table"]] == [1, 0.5]
    same = write(tmp_path / "same.csv", rows.replace("n,w,2", "n,w,1"))  # no ranking by any
    refused(same, files[1], match="duplicates")


# Hints and the command line


@few(1)("item", [None, "bb,aa"])
def test_tables_with_both_lists_are_compared_without_judgments(item, tmp_path):
    names = ("aa", "bb") if item else ("relevant", "retrieved")
    rows = [{"question": x["question"], names[0]: x["gold"], names[1]: x["hits"]} for x in HITS]
    worse = [{**row, names[1]: row[names[1]][::-1]} for row in rows]
    files = [write(tmp_path / "a.jsonl", rows), write(tmp_path / "b.jsonl", worse)]
    options = {"metric": "RR", **({"item": item} if item else {})}
    code, printed = cli("compare", *files, **options)
    assert code == 0 and {x["system"] for x in printed["summary"]} == {"a", "b"}


def test_a_name_makes_a_run_and_one_system_is_an_error(tmp_path):
    run, gold = write(tmp_path / "run.json", TOP), write(tmp_path / "gold.json", TOP)
    code, error = cli("compare", run, gold, metric="RR")
    assert code == 2 and "gold.json is read as the judgments" in error
    code, error = cli("compare", f"a={run}", f"b={gold}", metric="RR")
    assert code == 2 and "grade" in error  # two runs without judgments


# Wrong refusals


def test_check_finds_a_field_of_few_numbers():
    findings = rankql.check(USEFUL[True]).findings
    assert any("Is relevant.usefulness the grade" in finding.message for finding in findings)


@pytest.mark.slow
def test_two_questions_of_equal_text(tmp_path):
    rows = [{"question": "red", "retrieved": ["a", "b"], "relevant": ["a"]},
            {"question": "red", "retrieved": ["c", "d"], "relevant": ["d"]}]  # fmt: skip
    numbered = [{**row, "sample_id": i} for i, row in enumerate(rows)]
    path = write(tmp_path / "r.jsonl", numbered)
    result = both_ways("RR", [path])
    note = "question repeats in rows with different sample_id, so each row is a query"
    assert result["RR"] == 0.75 and result.notes[0].endswith(note)
    (finding,) = (x for x in rankql.check(path).findings if x.kind == "reading")
    assert (finding.level, finding.table, finding.message) == ("note", "run", note)
    assert read({"a": path, "b": path}).means() == [0.75] * 2
    for more, advice in (
        ([{}, {}], r"Keep one of them, or number the rows"),
        ([{"id": 1}, {"id": 1}], r"Keep one of them, or number the rows"),
        ([{"query_id": "q", "id": 0}, {"query_id": "q", "id": 1}], "Pass one of: query='id' query"),
    ):
        files = [write(path, [row | x for row, x in zip(rows, more, strict=True)])]
        refused(*files, match=f"several rows for query .*{advice}")


@pytest.mark.parametrize("ids", [list, lambda x: [{"id": i, "document_id": "D"} for i in x]])
def test_interactions_of_training_are_lists_too(ids):
    run = pl.DataFrame({"user": [1, 1, 2], "item": [*"abc"], "score": [3.0, 2.0, 1.0]})
    qrels = pl.DataFrame({"user": [1, 2], "item": ["a", "c"], "rel": 1})
    rows = pl.DataFrame({"user": [1, 1, 2], "item": [*"xac"]})
    lists = [{"user": 1, "relevant": ids("xa")}, {"user": 2, "relevant": ids("c")}]
    expected = rankql.evaluate(run, qrels, "Novelty@2", train=rows)["Novelty@2"]
    if ids is list:
        result = rankql.evaluate(run, qrels, "Novelty@2", train=pl.DataFrame(lists))
        assert result["Novelty@2"] == expected
    else:  # without a run, names alone say which field is the id
        result = read(run, qrels, "HR@1", train=pl.DataFrame(lists))
        assert result.columns["train"]["item"] == "relevant.document_id"


def test_positions_are_read_and_a_score_that_contradicts_them_is_noted():
    for score, value in ((LAST, 1 / 3), (FIRST, 1)):
        table = pl.DataFrame({**ROWS, "rank": LAST, "score": score})
        result = read(table, OF_A)
        assert result["RR"] == 1 and ("pass score='score'" in str(result.notes)) == (score == LAST)
        assert read(table, OF_A, score="score")["RR"] == pytest.approx(value)


# An empty list is a judgment.

EMPTY = {"retrieved": [["x", "y"], ["x"], ["y"]], "relevant": [["y"], [], ["z"]]}


@few(2)("form", range(7))
def test_empty_lists_are_judged(form, tmp_path):
    queries, metrics = [*"abc"], ["RR", "P@1", "nDCG"]
    table = pl.DataFrame({"query": queries, **EMPTY})
    gold = dict(zip(queries, EMPTY["relevant"], strict=True))
    run = dict(zip(queries, EMPTY["retrieved"], strict=True))
    zeros = pl.DataFrame({"query": queries, "item": ["y", "x", "z"], "rel": [1, 0, 1]})
    expected = rankql.evaluate(run, zeros, metrics, undefined="one")
    path, texts = write(tmp_path / "t.json", table.to_dicts()), tmp_path / "t.csv"
    joined = (pl.col(name).list.join(";") for name in EMPTY)
    table.with_columns(joined).write_csv(texts)
    data = ((path,), (texts,), (run, gold), (table,), (table.to_pandas(),),
            (run, {q: dict.fromkeys(x, 1) for q, x in gold.items()}),
            (run, table.drop("retrieved")))[form]  # fmt: skip
    result = rankql.evaluate(*data, metrics=metrics, undefined="one")
    rows = [x.summary.drop("lo", "hi").rows() for x in (result, expected)]
    assert rows[0] == rows[1] and result["RR"] == 0.5
    undefined, mean = (("zero", 1 / 6), ("skip", 0.25))[form % 2]
    assert rankql.evaluate(*data, metrics="RR", undefined=undefined)["RR"] == pytest.approx(mean)


def test_null_is_not_judged_and_noted(tmp_path):
    rows = [{"query": q, "retrieved": ["x"], "relevant": gold}
            for q, gold in (("a", ["x"]), ("b", None), ("c", []))]  # fmt: skip
    result = both_ways("RR", [write(tmp_path / "rows.jsonl", rows)])
    assert result.values() == {"a": 1, "c": None}
    note = "1 of 3 rows have NULL in relevant and count as not judged; [] means"
    assert note in " ".join(result.notes)


@few(1)("cells", ["b", "b,c", "b c", "['b', 'c']", '["b"]', '[{"id": "b"}]'])
def test_null_in_a_column_of_text_says_that_nothing_is_relevant(cells, tmp_path):
    """An empty cell of a CSV is NULL, whatever the other cells look like."""
    table = pl.DataFrame({
        "query": ["1", "2", "3"], "retrieved_ids": ["a,b", "x,y", "y,z"],
        "relevant_ids": [cells, None, ""],
    })  # fmt: skip
    path, run = tmp_path / "rows.csv", table.select("query", "retrieved_ids")
    table.write_csv(path)
    for data in ((table,), (str(path),), (run, table.select("query", "relevant_ids"))):
        result = rankql.evaluate(*data, metrics="RR", undefined="drop")
        assert result.summary.select("mean", "queries", "undefined").row(0) == (0.5, 3, 2), data
        assert "2 of 3 queries have nothing relevant" in " ".join(result.notes)


# Positions, fractions, types


def test_most_queries_without_a_first_position_are_noted():
    rows = {"query": [*"aabbc"], "item": [*"xyxyx"], "rel": [0, 1, 1, 0, 1]}
    for positions, noted in (([3, 4, 2, 5, 4], True), ([1, 2, 1, 2, 9], False)):
        result = read(pl.DataFrame({**rows, "pos": positions}))
        assert ("no row with pos 1" in " ".join(result.notes)) == noted


def test_a_table_of_retrieved_items_alone_has_no_recall_of_others():
    """As a LEFT JOIN from the run has it."""
    table = pl.DataFrame({
        "query": [i // 3 for i in range(90)], "item": [i % 3 for i in range(90)],
        "pos": [i % 3 + 1 for i in range(90)], "rel": [int(i % 3 == 1) for i in range(90)],
    })  # fmt: skip
    missed = pl.DataFrame({"query": [0], "item": [9], "pos": None, "rel": [1]})
    said = "Every relevant item has a position, so AP and R@5 are of retrieved items only"
    for rows, metrics, noted in (
        (table, ["AP", "RR", "R@5"], True), (table, ["RR", "nDCG", "P@5"], False),
        (table.head(30), ["AP", "RR", "R@5"], False),
        (pl.concat([table, missed], how="vertical_relaxed"), ["AP", "RR", "R@5"], False),
    ):  # fmt: skip
        assert (said in " ".join(rankql.evaluate(rows, metrics=metrics).notes)) == noted


def test_scored_rankings_cut_at_one_length_have_no_recall_of_others():
    rows = [(i // 4, i % 4, -(i % 4), int(i % 4 == i // 4 % 3)) for i in range(100)]
    table = pl.DataFrame(rows, ["query", "item", "score", "rel"], orient="row")
    unscored = table.with_columns(score=pl.when(pl.int_range(100) > 0).then("score"))
    a, b = (table.with_columns(system=pl.lit(name)) for name in "ab")
    call = "score, so AP is of retrieved items only. If others are relevant too, pass judgments"
    for data, metric, noted in (
        (table, "AP", True), (table, "nDCG", False), (table.head(40), "AP", False),
        (table.head(99), "AP", False), (unscored, "AP", False), (pl.concat([a, b]), "AP", False),
    ):  # fmt: skip
        assert (call in " ".join(rankql.evaluate(data, metrics=metric).notes)) == noted


def test_fractions_are_refused_by_all_functions_that_read_a_threshold():
    run, gold = {"q": [*"abc"]}, {"q": {"a": 0.33, "b": 0.67, "c": 1.0}}
    for call in (lambda: rankql.compare({"x": run}, gold, "RR"),
                 lambda: rankql.gate(run, gold, minimum="RR>=0.1")):  # fmt: skip
        with pytest.raises(RankqlError, match="threshold="):
            call()
    assert read(run, gold, "nDCG")["nDCG"] > 0


def test_fractions_below_higher_grades_are_noted(tmp_path):
    run, gold = {"q": ["a", "b"]}, {"q": {"a": 0.693, "b": 2.08}}
    files = [write(tmp_path / f"{i}.json", x) for i, x in enumerate((run, gold))]
    notes = " ".join(rankql.evaluate(*files, "RR").notes)
    assert "1 positive grade below 1 (from 0.693) count" in notes and "threshold=" in notes
    assert "below 1" not in " ".join(rankql.evaluate(run, gold, "RR", threshold=1).notes)


# Nothing but RankqlError


@few(1)("seed", range(2))
def test_random_data_raise_nothing_but_our_errors(seed):
    draw = random.Random(seed)
    for _ in range(12):
        run, gold = random_data(draw), draw.choice([random_data, lambda _: None])(draw)
        for call in (
            lambda: rankql.evaluate(run, gold, "RR"),  # noqa: B023
            lambda: rankql.check(run, gold),  # noqa: B023
            lambda: rankql.compare({"x": run, "y": run}, gold, "AP"),  # noqa: B023
            lambda: rankql.funnel({"x": run, "y": run}, gold),  # noqa: B023
        ):
            with suppress(RankqlError):
                call()


NAMES = [
    *("query", "query_id", "q", "id", "item", "doc_id", "items", "rel", "grade", "relevance", "rn"),
    *("relevant", "score", "rank", "pos", "similarity", "retrieved", "retrieved_ids", "gold_ids"),
    *("relevant_ids", "ground_truth", "expected", "scores", "relevance_scores", "split", "fold"),
    *("is_test", "tag", "system", "prediction", "probability", "ctxs", "text", "top_k", "user"),
]
CELLS = {
    "i": [-1, 0, 1, 2], "f": [0.0, 0.5, 2.5, float("nan")], "b": [True, False], "n": [None],
    "s": ["a", "b", "", "a b", "a,b", "['a']", "{a}", "yes", "1", " 1", "test", "train"],
}  # fmt: skip


def random_data(draw):
    """Rows as dicts, polars or pandas, dicts, arrays, or what is none of them."""

    def cell(kind):
        if kind in CELLS:
            return draw.choice(CELLS[kind])
        inner = draw.choice("isf")
        if kind == "l":
            return [cell(inner) for _ in range(draw.randint(0, 3))]
        names = ["id", "score", "rel", "has_answer", "text"] if kind == "o" else "abc"
        each = {x: cell(inner) for x in draw.sample(names, draw.randint(0, 2))}
        return [each] if kind == "o" else each

    kinds = {x: draw.choice("iissffbntllom") for x in draw.sample(NAMES, draw.randint(1, 6))}
    kinds = {x: "s" if kind == "t" else kind for x, kind in kinds.items()}
    rows = [{x: cell(kind) for x, kind in kinds.items()} for _ in range(draw.randint(0, 5))]
    form = draw.randint(0, 6)
    if form < 3:
        with suppress(Exception):
            return [rows, pl.DataFrame(rows, strict=False), pandas.DataFrame(rows)][form]
        return rows
    if form == 3:
        return {cell("s"): cell(draw.choice("lomis")) for _ in range(3)}
    if form == 4:
        return np.array([[cell("i"), cell("i")] for _ in range(draw.randint(0, 3))])
    return draw.choice(
        [[], [1], {"a": rows, "b": 1}, [[1, 2], ["a"]], 3, None, {"q": [["a", 1.0]]}]
    )


@pytest.mark.parametrize("row", ['{"query": 1, ', '{"query" 1}', '{"query": "\\q"}'])
def test_errors_of_json_end_in_one_sentence(row, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(f'{{"query": 1, "item": 2, "score": 3}}\n{row}\n')
    refused(path, pl.DataFrame({"query": 1, "item": 2, "rel": 1}), match=r"[a-z]\. Correct it$")


@few(2)(
    ("name", "form"),
    cycled(["rec_{}", "item_{}", "top{}", "Rec {}", "place-{}", "{}"], ["polars", "pandas", "csv"]),
)
def test_columns_with_a_running_number_are_a_list(name, form, tmp_path):
    first = 0 if name == "{}" else 1
    names = [name.format(i) for i in range(first, first + 3)]
    run = pl.DataFrame(
        [["u", "a", "b", None], ["v", "c", None, None]], ["user", *names], orient="row"
    )
    run.write_csv(tmp_path / "r.csv")
    data = {"polars": run, "pandas": run.to_pandas(), "csv": tmp_path / "r.csv"}[form]
    result = read(data, BOUGHT)
    assert result["RR"] == 0.75
    assert result.notes[0].startswith(f"run: {names[0]} to {names[2]} are read as one list of ids")

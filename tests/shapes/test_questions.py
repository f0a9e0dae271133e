"""Tables whose names say too little: the question ends in a call, and the call is right.

Each case has its right value, worked out by hand, and the verdict on what a newcomer gets.
"""

import re
import shlex

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few
from support.questions import File, case, frame, ndcg, rows, rr, verdict

PASSAGES = [
    {"doc_id": "m1", "passage_id": "m1-p1"},
    {"doc_id": "m2", "passage_id": "m2-p4"},
]
ENGINES = [
    (engine, query, item, score)
    for engine, order in (("sparse", "ab"), ("graph", "ba"))
    for query in ("L1", "L2")
    for item, score in zip(order if query == "L1" else "ab", (0.9, 0.8), strict=True)
]
WORDS = {"off": 0, "near": 1, "close": 2, "exact": 3}

# Each case with the verdict on it, its tables, and options of `evaluate`.
CASES = {
    "levels: documents and passages": case("asked",
        rows("inquiry_no answers", ("i1", PASSAGES[:1]), ("i2", PASSAGES[1:])),
        rows("inquiry_no expected_doc_id expected_passage_id",
             ("i1", "m1", "m1-p3"), ("i2", "m2", "m2-p4")), right=(rr(1, 1), rr(0, 1)),
        every=True),
    "levels: cells with several ids": case("asked",
        File("r.csv", "ticket_no,rank,file_id,chunk_id", "t1,1,f2,f2/1", "t2,1,f3,f3/1"),
        File("g.csv", "ticket_no,gold_file_ids,gold_chunk_ids", "t1,f1;f2,f1/3;f2/0", "t2,f3,f3/1"),
        right=(rr(1, 1), rr(0, 1)), every=True),
    "keys: a binder and its passage": case("asked",
        rows("query expected retrieved",
             ("a", [{"binder": "B7", "passage_id": "p1"}],
              [{"binder": "B6", "passage_id": "p1"}, {"binder": "B7", "passage_id": "p1"}]),
             ("b", [{"binder": "C1", "passage_id": "p1"}],
              [{"binder": "C1", "passage_id": "p1"}]))),
    "keys: two fields that gold joins": case("asked",
        rows("q expected ranked",
             ("a", ["Gen:2"], [{"book_code": "Gen", "verse_no": "9", "doc_id": "k"},
                               {"book_code": "Gen", "verse_no": "2", "doc_id": "k"}]),
             ("b", ["Ex:1", "Ex:4"], [{"book_code": "Ex", "verse_no": "4", "doc_id": "l"}]))),
    "keys: gold as pairs": case("asked",
        rows("query results",
             ("a", [{"title": "Guide", "paragraph": 5}, {"title": "Guide", "paragraph": 3}]),
             ("b", [{"title": "Terms", "paragraph": 7}])),
        rows("query relevant", ("a", [["Guide", 3], ["Guide", 9]]), ("b", [["Terms", 7]]))),
    "grades: an object of the ids of one level": case("asked",
        rows("query results",
             ("a", [{"chunk_id": "u:2", "document_id": "u"},
                    {"chunk_id": "u:1", "document_id": "u"}]),
             ("b", [{"chunk_id": "w:5", "document_id": "w"},
                    {"chunk_id": "v:1", "document_id": "v"}])),
        rows("query relevant_chunk_ids relevant_document_ids graded_relevance",
             ("a", ["u:1", "u:2"], ["u"], {"u:1": 2, "u:2": 1}),
             ("b", ["v:1"], ["v"], {"v:1": 3})), right=ndcg(([1, 2], [2, 1]), ([0, 3], [3])),
        metrics="nDCG@10"),
    "roles: the place in an exact search": case("asked",
        frame("probe_id doc_id rank similarity",
              ("7", "10", 1, 0.98), ("7", "12", 2, 0.89), ("8", "20", 1, 0.8)),
        frame("probe_id doc_id rank", ("7", "10", 1), ("7", "11", 2), ("8", "20", 1)),
        right=ndcg(([1, 0], [1, 1]), ([1], [1])), metrics="nDCG", query="probe_id"),
    "roles: prices and coordinates": case("asked",
        {"q1": ["a", "b"], "q2": ["c", "d"]},
        frame("query item price longitude latitude",
              ("q1", "b", 3.5, 1.5, 8.0), ("q2", "c", 0.0, 0.0, 9.0))),
    "exclusion: blocked ids": case("noted",
        {"7": {"t9": 0.9, "t1": 0.8}, "8": {"u7": 0.9, "u2": 0.7}},
        rows("id expected_ids blocked_ids", ("7", ["t1"], ["t9"]), ("8", ["u2"], ["x"])),
        right=rr(1, 2), note="seen='drop'"),
    "exclusion: irrelevant first": case("asked",
        {"s": ["n1", "p1"], "t": ["p2"]},
        rows("query irrelevant_refs proper_refs",
             ("s", ["n1"], ["p1"]), ("t", ["n2"], ["p2"]))),
    "records: by key inside another key": case("right",
        File("r.json", {"suite": "n", "checks": {
            "k1": {"question": "a", "retrieved": ["x1", "x2"], "relevant": ["x2"]},
            "k2": {"question": "b", "retrieved": ["y1"], "relevant": ["y1"]}}})),
    "headerless: the third counts from 0": case("asked",
        File("r.tsv", "k1\tdA\t0", "k1\tdB\t1", "k1\tdE\t2", "k2\tdC\t0"),
        {"k1": ["dE"], "k2": ["dC"]}, right=rr(3, 1)),
    "objects: the query has an id": case("asked",
        rows("query relevant_ids retrieved_ids",
             ({"id": "q1", "lang": "en"}, ["p1"], ["p2", "p1"]),
             ({"id": "q2", "lang": "de"}, ["p1"], ["p1"]))),
    "objects: gold inside the query": case("asked",
        rows("question retrieved_ids",
             ({"id": "q1", "body": "x", "support_ids": ["p1"]}, ["p2", "p1"]),
             ({"id": "q2", "body": "y", "support_ids": ["p1"]}, ["p1", "p2"]))),
    "pairs: beside a column of products": case("right",
        rows("product query gold_ref best",
             ("P", "a", "n2", ["n1", "n2"]), ("P", "b", "n3", ["n3"])), item=["best", "gold_ref"]),
    "pairs: texts of several codes": case("right",
        frame("item_id guesses truths", (1, "A1;B2;C3", "A1;Z9"), (2, "D4;E5", "E5")),
        right=(0.5 + 1) / 2, metrics="R@5", query="item_id", item=["guesses", "truths"]),
    "repeats: titles of chunks": case("asked",
        rows("question expected_page top_4",
             ("a", "B", [{"page_title": "C"}, {"page_title": "C"}, {"page_title": "B"}]),
             ("b", "A", [{"page_title": "A"}])), right=(rr(3, 1), rr(2, 1))),
    "events: a row per click": case("dead end",
        frame("query item rel pos", ("s", "x", 0, 1), ("s", "y", 0, 2), ("s", "y", 2, 2),
              ("t", "z", 1, 1))),
    "names: a wrapper with unknown lists": case("asked",
        rows("item_no parts", ("c1", ["one", "two"]), ("c2", ["three"])),
        File("g.json", {"owner": "us", "truths": rows(
            "item_no should_cite", ("c1", ["two"]), ("c2", ["three"]))})),
    "wide: a column per rank": case("asked",
        File("w.csv", "question,expected_sku,rank1_sku,rank2_sku", "a,S1,S2,S1", "b,S4,S4,S1")),
    "null: a query without gold": case("asked",
        rows("query retrieved_ids", ("a", ["x", "y"]), ("b", ["z"]), ("c", ["x"])),
        File("g.csv", "query,item_id", "a,y", "b,z", "c,"), right=(rr(2, 1), rr(2, 1, 0))),
    "nested: one expected object": case("asked",
        rows("input expected results",
             ("a", {"id": "o1", "kind": "x"},
              [{"id": "o9", "kind": "x"}, {"id": "o1", "kind": "x"}]),
             ("b", {"id": "o2", "kind": "y"}, [{"id": "o2", "kind": "y"}]))),
    "masks: labels beside predictions": case("dead end",
        pl.DataFrame({"truths": [[0, 1, 0], [1, 0]],
                      "predictions": [[0.9, 0.7, 0.1], [0.8, 0.2]]})),
    "words: an opinion": case("asked",
        frame("need offer fit", ("q1", "a", 0.9), ("q1", "b", 0.8), ("q2", "c", 0.7),
              ("q2", "d", 0.6)),
        frame("need offer opinion", ("q1", "a", "off"), ("q1", "b", "exact"),
              ("q2", "c", "near"), ("q2", "d", "close")),
        right=ndcg(([0, 3], [3, 0]), ([1, 2], [2, 1])), metrics="nDCG@10", every=True, fill=WORDS),
    "words: in the objects of a list": case("asked",
        rows("case_no hits", ("C1", [{"passage_id": "P1", "sim": 0.9},
                                     {"passage_id": "P2", "sim": 0.8}]),
             ("C2", [{"passage_id": "P1", "sim": 0.7}])),
        rows("case_no proof", ("C1", [{"passage_id": "P1", "stance": "against"},
                                      {"passage_id": "P2", "stance": "backs"}]),
             ("C2", [{"passage_id": "P1", "stance": "hints"},
                     {"passage_id": "P2", "stance": "against"}])),
        fill={"against": 0, "hints": 1, "backs": 2}, query="case_no", item=["hits", "proof"]),
    "systems: a column of engines": case("asked",
        frame("setup query item score", *ENGINES),
        frame("query item rel", ("L1", "a", 2), ("L1", "b", 0), ("L2", "b", 1), ("L2", "a", 0)),
        right={"sparse": rr(1, 2), "graph": rr(2, 2)}),
    "one table: hired or not": case("asked",
        File("m.csv", "vacancy_id,person_id,match_score,hired", "r1,j1,87,no", "r1,j2,80,yes",
             "r2,j3,91,yes", "r2,j1,20,no")),
    "one table: a column of tags": case("right",
        rows("query_id rank ok tags", ("u1", 1, True, []), ("u1", 2, False, ["far"]),
             ("u2", 1, False, []), ("u2", 2, True, ["far"])), right=0.5, metrics="P@2", rel="ok"),
    "numbers: percents": case("asked",
        File("r.csv", "query_id,sku,score", "q1,b,91%", "q1,a,8.5%", "q2,c,40%"),
        File("g.csv", "query_id,sku,relevance", "q1,a,1", "q2,c,1")),
    "ids: dates beside timestamps": case("asked",
        pl.DataFrame({"user_id": [1, 1], "pos": [1, 2], "item_id": pl.Series(
            ["2026-03-05", "2026-03-06"]).str.to_datetime()}),
        pl.DataFrame({"user_id": [1], "item_id": pl.Series(["2026-03-06"]).str.to_date()}),
        right=rr(2)),
}  # fmt: skip


@few(8)(("name", "expected"), [(name, case.verdict) for name, case in CASES.items()])
def test_a_question_ends_in_the_right_call(name, expected, tmp_path):
    found, tried = verdict(CASES[name], tmp_path)
    assert found == expected, tried


PASTED = {
    "a path": (
        rows("q steps", ("a", [{"hits": [{"doc": "x"}, {"doc": "y"}]}]),
             ("b", [{"hits": [{"doc": "z"}]}])),
        rows("q wanted", ("a", "y"), ("b", "z")), "item",
    ),
    "a key with other names on each side": (
        rows("query results", ("a", [{"title": "T", "page": 1}, {"title": "T", "page": 2}]),
             ("b", [{"title": "U", "page": 1}])),
        rows("query gold", ("a", [["T", 2]]), ("b", [["U", 1]])), "item",
    ),
    "a part of one file": (
        rows("case_no parts", ("a", ["x", "y"]), ("b", ["z"])),
        {"owner": "us", "truths": rows("case_no cited", ("a", ["y"]), ("b", ["z"]))}, "part",
    ),
    "words": (
        rows("query item score", ("a", "x", 2), ("a", "y", 1), ("b", "z", 1)),
        rows("query item verdict", ("a", "x", "no"), ("a", "y", "yes"), ("b", "z", "yes")), "rel",
    ),
}  # fmt: skip


@few(2)("name", [*PASTED])
def test_offered_options_are_pasted_on_the_command_line(name, tmp_path):
    run, qrels, option = PASTED[name]
    paths = [File(x, y).write(tmp_path) for x, y in (("run.json", run), ("qrels.json", qrels))]
    command = ["eval", *paths, "-m", "RR", "-q", "--format", "csv"]
    asked = CliRunner().invoke(main, command).stderr
    offered = re.search(r"\n    (--.*)\n", asked)[1]
    assert f"--{option} " in offered
    assert (
        CliRunner()
        .invoke(main, [*command, *shlex.split(offered)])
        .stdout.endswith("a,0.5\nb,1.0\n")
    )


def test_a_path_that_is_none_is_an_error():
    run = rows("query steps gold", ("a", [{"hits": [{"doc": "x"}]}], ["x"]))
    with pytest.raises(rankql.RankqlError, match="no column of that name"):
        rankql.evaluate(run, metrics="RR", item=["steps.hits.page", "gold"])


def test_the_note_on_excluded_ids_has_a_line_that_runs():
    run = {"7": {"t9": 0.9, "t1": 0.8}, "8": {"u7": 0.9, "u2": 0.7}}
    qrels = rows("id gold_ids blocked_ids", ("7", ["t1"], ["t9"]), ("8", ["u2"], ["u7"]))
    item = ["item", "gold_ids"]
    result = rankql.evaluate(run, qrels, "RR", item=item)
    (line,) = re.findall(r"as (train=.*), seen='drop'", "".join(map(str, result.notes)))
    train = eval(line.removeprefix("train="), {"pl": pl, "qrels": qrels})
    assert result["RR"] == 0.5
    assert rankql.evaluate(run, qrels, "RR", item=item, train=train, seen="drop")["RR"] == 1


@few(1)("count", [10, 60])
def test_queries_by_key_inside_another_key_are_read(count, tmp_path):
    queries = {f"k{n}": {"question": f"q{n}", "retrieved_ids": ["a", "b"], "relevant_ids": ["b"]}
               for n in range(count)}  # fmt: skip
    path = File("run.json", {"suite": "x", "queries": queries}).write(tmp_path)
    assert rankql.evaluate(path, metrics="RR")["RR"] == 0.5
    assert rankql.evaluate(path, metrics="RR", part="queries")["RR"] == 0.5


def test_no_offer_names_a_column_that_the_caller_named_for_another_role():
    run = frame("stack ask listing fit", ("a", "q1", "x", 0.9), ("b", "q1", "y", 0.8))
    gold = frame("ask listing rel", ("q1", "x", 1))
    with pytest.raises(rankql.RankqlError) as caught:
        rankql.evaluate(run, gold, "RR", system="stack")
    assert caught.value.calls
    assert not any("stack" in str(x) for x in caught.value.calls)


def test_a_large_table_is_tried_on_some_of_its_queries(monkeypatch):
    from rankql.shapes.ask import answers

    monkeypatch.setattr(answers, "_QUERIES", 3)
    monkeypatch.setattr(answers, "_ROWS", 20)
    sampled, load = [], answers._load

    def count_rows(*arguments):
        table = load(*arguments)
        sampled.append(table.value("count(*)"))
        return table

    monkeypatch.setattr(answers, "_load", count_rows)
    items = [f"d{n}" for n in range(10)]
    run = frame(
        "ask listing fit", *[(q, x, 1 - n / 20) for q in range(40) for n, x in enumerate(items)]
    )
    gold = frame("ask listing rel", *[(q, "d1", 1) for q in range(40)])
    with pytest.raises(rankql.RankqlError, match="query='ask'"):
        rankql.evaluate(run, gold, "RR")
    assert sampled and max(sampled) < 400 / 2


def test_a_word_for_nothing_is_noted_where_the_items_are_named():
    table = rows("query retrieved relevant", ("a", ["x", "y"], ["y"]), ("b", ["z"], ["none"]))
    notes = rankql.evaluate(table, metrics="RR", item=["retrieved", "relevant"]).notes
    assert any("'none' in relevant" in str(x) and "list_filter(relevant" in str(x) for x in notes)

"""Tables whose names say too little: the question ends in a call, and the call is right.

Each case has its right value, worked out by hand, and the verdict on what a newcomer gets.
"""

import json
import re
import shlex
from math import log2

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few
from support.questions import Case, rr, verdict


def frame(head, *rows):
    return pl.DataFrame([*rows], schema=head.split(), orient="row")


def rows(head, *values):
    return [dict(zip(head.split(), x, strict=True)) for x in values]


def file(folder, name, text):
    path = folder + name
    with open(path, "w") as target:
        target.write(text)
    return path


def json_file(folder, name, value):
    return file(folder, name, json.dumps(value))


def ndcg(*pairs):
    """The mean nDCG of pairs of grades as ranked and the grades in the best order."""
    dcg = [
        [sum(x / log2(i + 2) for i, x in enumerate(grades)) for grades in pair] for pair in pairs
    ]
    return sum(one / best for one, best in dcg) / len(dcg)


def case(metrics, right, make, expect="value", **more):
    return Case(metrics, right if isinstance(right, tuple) else (right,), make, expect, **more)


PASSAGES = [
    {"doc_id": "m1", "passage_id": "m1-p1"},
    {"doc_id": "m2", "passage_id": "m2-p4"},
]
VISITS = (("v1", "x", 0.9, 0), ("v1", "y", 0.8, 2), ("v2", "z", 0.7, 1), ("v2", "w", 0.6, 0))
ENGINES = [
    (engine, query, item, score)
    for engine, order in (("sparse", "ab"), ("graph", "ba"))
    for query in ("L1", "L2")
    for item, score in zip(order if query == "L1" else "ab", (0.9, 0.8), strict=True)
]
WORDS = {"off": 0, "near": 1, "close": 2, "exact": 3}

# The name of each case, the verdict on it, and the case.
CASES = {
    "levels: documents and passages": ("asked", case(
        "RR", (rr(1, 1), rr(0, 1)),
        lambda t: (
            rows("inquiry_no answers", ("i1", PASSAGES[:1]), ("i2", PASSAGES[1:])),
            rows("inquiry_no expected_doc_id expected_passage_id",
                 ("i1", "m1", "m1-p3"), ("i2", "m2", "m2-p4")),
            {},
        ), "question")),
    "levels: cells with several ids": ("asked", case(
        "RR", (rr(1, 1), rr(0, 1)),
        lambda t: (
            file(t, "r.csv", "ticket_no,rank,file_id,chunk_id\nt1,1,f2,f2/1\nt2,1,f3,f3/1\n"),
            file(t, "g.csv", "ticket_no,gold_file_ids,gold_chunk_ids\n"
                 "t1,f1;f2,f1/3;f2/0\nt2,f3,f3/1\n"),
            {},
        ), "question")),
    "keys: a binder and its passage": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            rows("query expected retrieved",
                 ("a", [{"binder": "B7", "passage_id": "p1"}],
                  [{"binder": "B6", "passage_id": "p1"}, {"binder": "B7", "passage_id": "p1"}]),
                 ("b", [{"binder": "C1", "passage_id": "p1"}],
                  [{"binder": "C1", "passage_id": "p1"}])),
            None, {},
        ))),
    "keys: two fields that gold joins": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            rows("q expected ranked",
                 ("a", ["Gen:2"], [{"book_code": "Gen", "verse_no": "9", "doc_id": "k"},
                                   {"book_code": "Gen", "verse_no": "2", "doc_id": "k"}]),
                 ("b", ["Ex:1", "Ex:4"], [{"book_code": "Ex", "verse_no": "4", "doc_id": "l"}])),
            None, {},
        ))),
    "keys: gold as pairs": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            rows("query results",
                 ("a", [{"title": "Guide", "paragraph": 5}, {"title": "Guide", "paragraph": 3}]),
                 ("b", [{"title": "Terms", "paragraph": 7}])),
            rows("query relevant", ("a", [["Guide", 3], ["Guide", 9]]), ("b", [["Terms", 7]])),
            {},
        ))),
    "grades: an object of the ids of one level": ("asked", case(
        "nDCG@10", ndcg(([1, 2], [2, 1]), ([0, 3], [3])),
        lambda t: (
            rows("query results",
                 ("a", [{"chunk_id": "u:2", "document_id": "u"},
                        {"chunk_id": "u:1", "document_id": "u"}]),
                 ("b", [{"chunk_id": "w:5", "document_id": "w"},
                        {"chunk_id": "v:1", "document_id": "v"}])),
            rows("query relevant_chunk_ids relevant_document_ids graded_relevance",
                 ("a", ["u:1", "u:2"], ["u"], {"u:1": 2, "u:2": 1}),
                 ("b", ["v:1"], ["v"], {"v:1": 3})),
            {},
        ))),
    "roles: the place in an exact search": ("asked", case(
        "nDCG", ndcg(([1, 0], [1, 1]), ([1], [1])),
        lambda t: (
            frame("probe_id doc_id rank similarity",
                  ("7", "10", 1, 0.98), ("7", "12", 2, 0.89), ("8", "20", 1, 0.8)),
            frame("probe_id doc_id rank", ("7", "10", 1), ("7", "11", 2), ("8", "20", 1)),
            {"query": "probe_id"},
        ))),
    "roles: prices and coordinates": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            {"q1": ["a", "b"], "q2": ["c", "d"]},
            frame("query item price longitude latitude",
                  ("q1", "b", 3.5, 1.5, 8.0), ("q2", "c", 0.0, 0.0, 9.0)),
            {},
        ))),
    "exclusion: blocked ids": ("noted", case(
        "RR", rr(1, 2),
        lambda t: (
            {"7": {"t9": 0.9, "t1": 0.8}, "8": {"u7": 0.9, "u2": 0.7}},
            rows("id expected_ids blocked_ids", ("7", ["t1"], ["t9"]), ("8", ["u2"], ["x"])),
            {},
        ), note="seen='drop'")),
    "exclusion: irrelevant first": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            {"s": ["n1", "p1"], "t": ["p2"]},
            rows("query irrelevant_refs proper_refs",
                 ("s", ["n1"], ["p1"]), ("t", ["n2"], ["p2"])),
            {},
        ))),
    "records: by key inside another key": ("right", case(
        "RR", rr(2, 1),
        lambda t: (
            json_file(t, "r.json", {"suite": "n", "checks": {
                "k1": {"question": "a", "retrieved": ["x1", "x2"], "relevant": ["x2"]},
                "k2": {"question": "b", "retrieved": ["y1"], "relevant": ["y1"]}}}),
            None, {},
        ))),
    "headerless: the third counts from 0": ("asked", case(
        "RR", rr(3, 1),
        lambda t: (
            file(t, "r.tsv", "k1\tdA\t0\nk1\tdB\t1\nk1\tdE\t2\nk2\tdC\t0\n"),
            {"k1": ["dE"], "k2": ["dC"]}, {},
        ))),
    "objects: the query has an id": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            rows("query relevant_ids retrieved_ids",
                 ({"id": "q1", "lang": "en"}, ["p1"], ["p2", "p1"]),
                 ({"id": "q2", "lang": "de"}, ["p1"], ["p1"])),
            None, {},
        ))),
    "objects: gold inside the query": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            rows("question retrieved_ids",
                 ({"id": "q1", "body": "x", "support_ids": ["p1"]}, ["p2", "p1"]),
                 ({"id": "q2", "body": "y", "support_ids": ["p1"]}, ["p1", "p2"])),
            None, {},
        ))),
    "pairs: beside a column of products": ("right", case(
        "RR", rr(2, 1),
        lambda t: (
            rows("product query gold_ref best",
                 ("P", "a", "n2", ["n1", "n2"]), ("P", "b", "n3", ["n3"])),
            None, {"item": ["best", "gold_ref"]},
        ))),
    "pairs: texts of several codes": ("right", case(
        "R@5", (0.5 + 1) / 2,
        lambda t: (
            frame("item_id guesses truths", (1, "A1;B2;C3", "A1;Z9"), (2, "D4;E5", "E5")),
            None, {"query": "item_id", "item": ["guesses", "truths"]},
        ))),
    "repeats: titles of chunks": ("asked", case(
        "RR", (rr(3, 1), rr(2, 1)),
        lambda t: (
            rows("question expected_page top_4",
                 ("a", "B", [{"page_title": "C"}, {"page_title": "C"}, {"page_title": "B"}]),
                 ("b", "A", [{"page_title": "A"}])),
            None, {},
        ))),
    "events: a row per click": ("dead end", case(
        "RR", rr(2, 1),
        lambda t: (
            frame("query item rel pos", ("s", "x", 0, 1), ("s", "y", 0, 2), ("s", "y", 2, 2),
                  ("t", "z", 1, 1)),
            None, {},
        ))),
    "names: a wrapper with unknown lists": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            rows("item_no parts", ("c1", ["one", "two"]), ("c2", ["three"])),
            json_file(t, "g.json", {"owner": "us", "truths": rows(
                "item_no should_cite", ("c1", ["two"]), ("c2", ["three"]))}),
            {},
        ))),
    "wide: a column per rank": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            file(t, "w.csv", "question,expected_sku,rank1_sku,rank2_sku\na,S1,S2,S1\nb,S4,S4,S1\n"),
            None, {},
        ))),
    "null: a query without gold": ("asked", case(
        "RR", (rr(2, 1), rr(2, 1, 0)),
        lambda t: (
            rows("query retrieved_ids", ("a", ["x", "y"]), ("b", ["z"]), ("c", ["x"])),
            file(t, "g.csv", "query,item_id\na,y\nb,z\nc,\n"), {},
        ))),
    "nested: one expected object": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            rows("input expected results",
                 ("a", {"id": "o1", "kind": "x"},
                  [{"id": "o9", "kind": "x"}, {"id": "o1", "kind": "x"}]),
                 ("b", {"id": "o2", "kind": "y"}, [{"id": "o2", "kind": "y"}])),
            None, {},
        ))),
    "masks: labels beside predictions": ("dead end", case(
        "RR", rr(2, 1),
        lambda t: (
            pl.DataFrame({"truths": [[0, 1, 0], [1, 0]],
                          "predictions": [[0.9, 0.7, 0.1], [0.8, 0.2]]}),
            None, {},
        ))),
    "words: an opinion": ("asked", case(
        "nDCG@10", ndcg(([0, 3], [3, 0]), ([1, 2], [2, 1])),
        lambda t: (
            frame("need offer fit", ("q1", "a", 0.9), ("q1", "b", 0.8), ("q2", "c", 0.7),
                  ("q2", "d", 0.6)),
            frame("need offer opinion", ("q1", "a", "off"), ("q1", "b", "exact"),
                  ("q2", "c", "near"), ("q2", "d", "close")),
            {},
        ), "question", fill=WORDS)),
    "words: in the objects of a list": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            rows("case_no hits", ("C1", [{"passage_id": "P1", "sim": 0.9},
                                         {"passage_id": "P2", "sim": 0.8}]),
                 ("C2", [{"passage_id": "P1", "sim": 0.7}])),
            rows("case_no proof", ("C1", [{"passage_id": "P1", "stance": "against"},
                                          {"passage_id": "P2", "stance": "backs"}]),
                 ("C2", [{"passage_id": "P1", "stance": "hints"},
                         {"passage_id": "P2", "stance": "against"}])),
            {"query": "case_no", "item": ["hits", "proof"]},
        ), fill={"against": 0, "hints": 1, "backs": 2})),
    "systems: a column of engines": ("asked", case(
        "RR", {"sparse": rr(1, 2), "graph": rr(2, 2)},
        lambda t: (
            frame("setup query item score", *ENGINES),
            frame("query item rel", ("L1", "a", 2), ("L1", "b", 0), ("L2", "b", 1), ("L2", "a", 0)),
            {},
        ))),
    "one table: hired or not": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            file(t, "m.csv", "vacancy_id,person_id,match_score,hired\n"
                 "r1,j1,87,no\nr1,j2,80,yes\nr2,j3,91,yes\nr2,j1,20,no\n"),
            None, {},
        ))),
    "one table: a column of tags": ("right", case(
        "P@2", 0.5,
        lambda t: (
            rows("query_id rank ok tags", ("u1", 1, True, []), ("u1", 2, False, ["far"]),
                 ("u2", 1, False, []), ("u2", 2, True, ["far"])),
            None, {"rel": "ok"},
        ))),
    "numbers: percents": ("asked", case(
        "RR", rr(2, 1),
        lambda t: (
            file(t, "r.csv", "query_id,sku,score\nq1,b,91%\nq1,a,8.5%\nq2,c,40%\n"),
            file(t, "g.csv", "query_id,sku,relevance\nq1,a,1\nq2,c,1\n"), {},
        ))),
    "ids: dates beside timestamps": ("asked", case(
        "RR", rr(2),
        lambda t: (
            pl.DataFrame({"user_id": [1, 1], "pos": [1, 2], "item_id": pl.Series(
                ["2026-03-05", "2026-03-06"]).str.to_datetime()}),
            pl.DataFrame({"user_id": [1], "item_id": pl.Series(["2026-03-06"]).str.to_date()}),
            {},
        ))),
}  # fmt: skip


@few(8)(("name", "expected"), [(name, expected) for name, (expected, _) in CASES.items()])
def test_a_question_ends_in_the_right_call(name, expected, tmp_path):
    found, tried = verdict(CASES[name][1], tmp_path)
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
    folder = f"{tmp_path}/"
    paths = [json_file(folder, x, y) for x, y in (("run.json", run), ("qrels.json", qrels))]
    command = ["eval", *paths, "-m", "RR", "-q", "--format", "csv"]
    asked = CliRunner().invoke(main, command).stderr
    offered = re.search(r"Pass (--.*?)(?: or --|, or |\. |\n)", asked)[1]
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
    path = json_file(f"{tmp_path}/", "run.json", {"suite": "x", "queries": queries})
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
    items = [f"d{n}" for n in range(10)]
    run = frame(
        "ask listing fit", *[(q, x, 1 - n / 20) for q in range(40) for n, x in enumerate(items)]
    )
    gold = frame("ask listing rel", *[(q, "d1", 1) for q in range(40)])
    with pytest.raises(rankql.RankqlError, match="query='ask'"):
        rankql.evaluate(run, gold, "RR")


def test_a_word_for_nothing_is_noted_where_the_items_are_named():
    table = rows("query retrieved relevant", ("a", ["x", "y"], ["y"]), ("b", ["z"], ["none"]))
    notes = rankql.evaluate(table, metrics="RR", item=["retrieved", "relevant"]).notes
    assert any("'none' in relevant" in str(x) and "list_filter(relevant" in str(x) for x in notes)

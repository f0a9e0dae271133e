"""Tables of public issues and files whose questions ended in no call, or in a wrong one.

Each case has its right value and the verdict on what a newcomer gets; those that are read rightly
stand beside. The data are our own.
"""
# ruff: noqa: E501, E731, E741, SIM115

import json
import math

import pandas as pd
import polars as pl

from support.parameters import few
from support.questions import Case, rr, verdict


def case(metrics, right, make, expect="value", **more):
    return Case(metrics, right if isinstance(right, tuple) else (right,), make, expect, **more)


def mean(x):
    return sum(x) / len(x)


def dcg(g):
    return sum((x / math.log2(i + 2) for i, x in enumerate(g)))


def nd(*lists):
    return mean([dcg(g) / dcg(ideal) for g, ideal in lists])


def e2(g):
    return [2**x - 1 for x in g]


def F(head, *rows):
    return pl.DataFrame([*rows], schema=head.split(), orient="row")


def P(head, *rows):
    return F(head, *rows).to_pandas()


def js(t, name, x):
    open(t + name, "w").write(json.dumps(x))
    return t + name


def jl(t, name, *rows):
    open(t + name, "w").write("".join(json.dumps(r) + "\n" for r in rows))
    return t + name


def tx(t, name, s):
    open(t + name, "w").write(s)
    return t + name


def R(head, *rows):
    return [dict(zip(head.split(), r, strict=False)) for r in rows]


LV = (rr(1, 1), rr(0, 1))


def kf(fields, gold="expected", run="retrieved"):
    o = lambda v: dict(zip(fields, v, strict=False))
    a, b, c = (
        (x,) * (len(fields) - 1) + (y,) for x, y in (("r25", "c1"), ("r26", "c1"), ("s1", "c1"))
    )
    return (
        R(f"query {gold} {run}", ("ask1", [o(b)], [o(a), o(b)]), ("ask2", [o(c)], [o(c)])),
        None,
        {},
    )


GB = nd(([1, 2], [2, 1]), ([0, 2], [2]))


def gb(**gold):
    return [
        {
            "query": "a",
            "results": [
                {"chunk_id": "t#2", "document_id": "t"},
                {"chunk_id": "t#1", "document_id": "t"},
            ],
        },
        {
            "query": "b",
            "results": [
                {"chunk_id": "z#1", "document_id": "z"},
                {"chunk_id": "u#1", "document_id": "u"},
            ],
        },
    ]


REC = {
    "q1": {"query": "a", "retrieved_ids": ["x1", "x2"], "relevant_ids": ["x2"]},
    "q2": {"query": "b", "retrieved_ids": ["y1"], "relevant_ids": ["y1"]},
}

OQ = lambda name="question", **more: [
    {
        name: {"id": q, "text": x},
        **{k: v for k, v in more.items() if v},
        "relevant_ids": ["p1"],
        "retrieved_ids": l,
    }
    for q, x, l in (("q1", "one", ["p2", "p1"]), ("q2", "two", ["p1"]))
]

NG = R("query retrieved_ids", ("a", ["x", "y"]), ("b", ["z"]), ("c", ["x"]))


def RUNC(t):
    return jl(
        t,
        "d.jsonl",
        *R(
            "case_ref hits",
            (
                "C1",
                [{"passage_key": "P9", "affinity": 0.9}, {"passage_key": "P1", "affinity": 0.8}],
            ),
            ("C2", [{"passage_key": "P2", "affinity": 0.9}]),
        ),
    )


TG = (("q1", "a", "none"), ("q1", "b", "high"), ("q2", "c", "low"), ("q2", "d", "mid"))

TGF = {
    "none": 0,
    "low": 1,
    "mid": 2,
    "high": 3,
    "no": 0,
    "weak": 1,
    "good": 2,
    "perfect": 3,
    "poor": 0,
    "fair": 1,
    "great": 3,
}


def tg(name, words=None, scores="fit"):
    return (
        F(
            f"ask listing {scores}",
            ("q1", "a", 0.9),
            ("q1", "b", 0.8),
            ("q2", "c", 0.7),
            ("q2", "d", 0.6),
        ),
        F(f"ask listing {name}", *[(q, i, (words or {}).get(g, g)) for q, i, g in TG]),
    )


TGR = nd(([0, 3], [3, 0]), ([1, 2], [2, 1]))

SY = [
    (s, q, i, x)
    for s, o in (("lexi", "ab"), ("densb", "ba"), ("rera", "ab"))
    for q in ("L1", "L2")
    for i, x in zip(o if q == "L1" else "ab", (0.9, 0.8), strict=False)
]

SYR = {"lexi": rr(1, 2), "densb": rr(2, 2), "rera": rr(1, 2)}

SYG = (("L1", "a", 2), ("L1", "b", 0), ("L2", "b", 1), ("L2", "a", 0))

ST = (("v1", "i1", 0.9, 0), ("v1", "i2", 0.8, 2), ("v2", "i3", 0.7, 1), ("v2", "i4", 0.6, 0))

CR = R(
    "pairid gold soft members",
    ("q1", "b", {"b": 1.0, "c": 0.5}, ["a", "b"]),
    ("q2", "d", {"d": 1.0}, ["d"]),
)

# The verdict on each case, and the case.
CASES = {
    "levels: section": (
        "asked",
        case(
            "RR",
            LV,
            lambda t: (
                js(
                    t,
                    "r.json",
                    R(
                        "question_id results",
                        ("Q1", [{"doc_id": "D1", "section_id": "D1-S1"}]),
                        ("Q2", [{"doc_id": "D2", "section_id": "D2-S1"}]),
                    ),
                ),
                js(
                    t,
                    "g.json",
                    R(
                        "question_id expected_doc_id expected_section_id",
                        ("Q1", "D1", "D1-S2"),
                        ("Q2", "D2", "D2-S1"),
                    ),
                ),
                {},
            ),
            "question",
        ),
    ),
    "levels: chunk index": (
        "asked",
        case(
            "RR",
            LV,
            lambda t: (
                R(
                    "query results",
                    ("ask1", [{"doc_id": "d1", "chunk_index": 0}]),
                    ("ask2", [{"doc_id": "d2", "chunk_index": 0}]),
                ),
                R(
                    "query expected_doc_id expected_chunk_index",
                    ("ask1", "d1", 3),
                    ("ask2", "d2", 0),
                ),
                {},
            ),
            "question",
        ),
    ),
    "levels: ids by line": (
        "asked",
        case(
            "RR",
            LV,
            lambda t: (
                tx(
                    t,
                    "r.csv",
                    "case_id,rank,doc_id,chunk_id,score\nc1,1,doc-2,doc-2#1,.8\nc2,1,doc-3,doc-3#1,.7\n",
                ),
                tx(
                    t,
                    "g.csv",
                    'case_id,expected_rag_doc_ids,expected_rag_chunk_ids\nc1,"doc-1\ndoc-2","doc-1#3\ndoc-2#0"\nc2,doc-3,doc-3#1\n',
                ),
                {},
            ),
            "question",
        ),
    ),
    "levels: expected object": (
        "asked",
        case(
            "RR",
            (rr(1, 1), rr(0, 1)),
            lambda t: (
                R(
                    "case_no citations",
                    ("p1", [{"doc_id": "D1", "chunk_id": "D1-c1"}]),
                    ("p2", [{"doc_id": "D2", "chunk_id": "D2-c1"}]),
                ),
                R(
                    "case_no expected",
                    ("p1", {"gold_doc_ids": ["D1"], "gold_chunk_ids": ["D1-c2"]}),
                    ("p2", {"gold_doc_ids": ["D2"], "gold_chunk_ids": ["D2-c1"]}),
                ),
                {},
            ),
            "question",
        ),
    ),
    "levels: one found nowhere": (
        "right",
        case(
            "RR",
            rr(1, 1),
            lambda t: (
                R(
                    "query gold_doc_ids gold_page_ids results",
                    ("ask1", ["k1"], ["k1:2"], [{"doc_id": "k1"}]),
                    ("ask2", ["k2"], ["k2:3"], [{"doc_id": "k2"}]),
                ),
                None,
                {},
            ),
        ),
    ),
    "levels: same ids twice": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(t, "r.csv", "query_id,chunk_id,rank\n1,7,1\n1,12,2\n2,3,1\n2,9,2\n"),
                R(
                    "query_id relevant_chunk_ids relevant_chunk_keys",
                    (1, ["12"], ["a3f1"]),
                    (2, ["3"], ["bb"]),
                ),
                {},
            ),
        ),
    ),
    "key-of-fields: kdoc chunk": (
        "asked",
        case("RR", rr(2, 1), lambda t: kf(("kdoc", "chunk_id"))),
    ),
    "key-of-fields: span": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "query retrieved_snippets",
                    (
                        "a",
                        [
                            {"file_path": "c/x.txt", "span": [50, 60]},
                            {"file_path": "c/x.txt", "span": [10, 20]},
                        ],
                    ),
                    ("b", [{"file_path": "c/y.txt", "span": [0, 5]}]),
                ),
                js(
                    t,
                    "g.json",
                    {
                        "tests": R(
                            "query snippets",
                            ("a", [{"file_path": "c/x.txt", "span": [10, 20]}]),
                            ("b", [{"file_path": "c/y.txt", "span": [0, 5]}]),
                        )
                    },
                ),
                {},
            ),
        ),
    ),
    "key-of-fields: src page": (
        "asked",
        case(
            "RR",
            rr(3, 1),
            lambda t: (
                jl(
                    t,
                    "bm.jsonl",
                    *R(
                        "ask_key cited",
                        (
                            "k1",
                            [
                                {"src": "m0.pdf", "page": 3, "sim": 0.9},
                                {"src": "m9.pdf", "page": 4, "sim": 0.8},
                                {"src": "m0.pdf", "page": 4, "sim": 0.7},
                            ],
                        ),
                        ("k2", [{"src": "m1.pdf", "page": 3, "sim": 0.9}]),
                    ),
                ),
                js(
                    t,
                    "gold.json",
                    {
                        "k1": {"ask": "how", "proofs": [{"src": "m0.pdf", "page": 4}]},
                        "k2": {"ask": "who", "proofs": [{"src": "m1.pdf", "page": 3}]},
                    },
                ),
                {},
            ),
        ),
    ),
    "key-of-fields: index or list": (
        "asked",
        case(
            "RR",
            rr(2, 1, 2),
            lambda t: (
                R(
                    "id post_rerank",
                    (
                        "q1",
                        [
                            {"document": "m.pdf", "chunk_index": 1},
                            {"document": "m.pdf", "chunk_index": 3},
                        ],
                    ),
                    ("q2", [{"document": "m.pdf", "chunk_index": 0}]),
                    (
                        "q3",
                        [
                            {"document": "m.pdf", "chunk_index": 3},
                            {"document": "n.pdf", "chunk_index": 3},
                        ],
                    ),
                ),
                js(
                    t,
                    "g.json",
                    R(
                        "id question document chunk_index",
                        ("q1", "a", "m.pdf", 3),
                        ("q2", "b", "m.pdf", [0, 4]),
                        ("q3", "c", "n.pdf", 3),
                    ),
                ),
                {},
            ),
        ),
    ),
    "key-of-fields: joined": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "q expected ranked",
                    (
                        "a",
                        ["S/1"],
                        [
                            {"source_code": "S", "article_no": "9", "doc_id": "d1"},
                            {"source_code": "S", "article_no": "1", "doc_id": "d1"},
                        ],
                    ),
                    (
                        "b",
                        ["T/3", "T/4"],
                        [{"source_code": "T", "article_no": "3", "doc_id": "d2"}],
                    ),
                ),
                None,
                {},
            ),
        ),
    ),
    "key-of-fields: sentence ids": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                P(
                    "QuestionID DocumentID SentenceID Label score",
                    ("Q1", "D1", "D1-0", 0, 0.9),
                    ("Q1", "D1", "D1-1", 1, 0.8),
                    ("Q2", "D2", "D2-0", 1, 0.7),
                    ("Q2", "D2", "D2-1", 0, 0.2),
                ),
                None,
                {},
            ),
        ),
    ),
    "key-of-fields: pairs": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "query results",
                    (
                        "a",
                        [{"title": "Handbook", "ordinal": 1}, {"title": "Handbook", "ordinal": 2}],
                    ),
                    ("b", [{"title": "Policy", "ordinal": 1}]),
                ),
                R(
                    "query relevant",
                    ("a", [["Handbook", 0], ["Handbook", 2]]),
                    ("b", [["Policy", 1]]),
                ),
                {},
            ),
        ),
    ),
    "key-of-fields: no repeats": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "query expected retrieved",
                    (
                        "a",
                        [{"doc_id": "r26", "chunk_id": "c2"}],
                        [{"doc_id": "r25", "chunk_id": "c1"}, {"doc_id": "r26", "chunk_id": "c2"}],
                    ),
                    ("b", [{"doc_id": "s", "chunk_id": "c3"}], [{"doc_id": "s", "chunk_id": "c3"}]),
                ),
                None,
                {},
            ),
        ),
    ),
    "key-of-fields: documents only": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "question acceptable_docs retrieved",
                    (
                        "a",
                        ["d1", "d2"],
                        [
                            {"doc": "d9", "distance": 0.1},
                            {"doc": "d1", "distance": 0.2},
                            {"doc": "d1", "distance": 0.3},
                        ],
                    ),
                    ("b", ["d3"], [{"doc": "d3", "distance": 0.1}]),
                ),
                None,
                {},
            ),
        ),
    ),
    "grades-by-id: other level": (
        "asked",
        case(
            "nDCG@10",
            GB,
            lambda t: (
                gb(),
                R(
                    "query relevant_chunk_ids relevant_document_ids graded_relevance",
                    ("a", ["t#1", "t#2"], ["t"], {"t#1": 2, "t#2": 1}),
                    ("b", ["u#1"], ["u"], {"u#1": 2}),
                ),
                {},
            ),
        ),
    ),
    "grades-by-id: two objects": (
        "misled",
        case(
            "nDCG@10",
            GB,
            lambda t: (
                R("query retrieved_chunk_ids", ("a", ["t#2", "t#1"]), ("b", ["z#1", "u#1"])),
                js(
                    t,
                    "specs.json",
                    R(
                        "query relevant_chunk_ids relevant_doc_ids relevance_by_chunk_id relevance_by_doc_id",
                        ("a", ["t#1", "t#2"], ["t"], {"t#1": 2, "t#2": 1}, {"t": 3}),
                        ("b", ["u#1"], ["u", "v"], {"u#1": 2}, {"u": 2, "v": 1}),
                    ),
                ),
                {},
            ),
        ),
    ),
    "grades-by-id: one object": (
        "right",
        case(
            "nDCG@10",
            nd(([0, 3], [3]), ([2, 3], [3, 2])),
            lambda t: (
                R("query_id retrieved_ids", ("n1", [12, 11]), ("h1", [14, 13])),
                R(
                    "query_id gold_answer_ids graded_relevance",
                    ("n1", ["11"], {"11": 3}),
                    ("h1", ["13", "14"], {"13": 3, "14": 2}),
                ),
                {},
            ),
        ),
    ),
    "grades-by-id: weights": (
        "asked",
        case(
            "nDCG@10",
            nd(([0.5, 1], [1, 0.5]), ([0, 1], [1])),
            lambda t: (
                R(
                    "qid results",
                    ("1", [{"chunk_id": "c2", "score": 0.9}, {"chunk_id": "c1", "score": 0.8}]),
                    ("2", [{"chunk_id": "c9", "score": 0.9}, {"chunk_id": "c3", "score": 0.8}]),
                ),
                R(
                    "qid gold_chunks gold_weights",
                    ("1", ["c1", "c2"], {"c1": 1.0, "c2": 0.5}),
                    ("2", ["c3"], {"c3": 1.0}),
                ),
                {},
            ),
        ),
    ),
    "rank-as-grade: truth with rank": (
        "noted",
        case(
            "R@2",
            mean([0.5, 1]),
            lambda t: (
                F(
                    "query_id doc_id rank score",
                    ("0", "10", 1, 0.98),
                    ("0", "12", 2, 0.89),
                    ("1", "20", 1, 0.8),
                    ("1", "21", 2, 0.7),
                ),
                F(
                    "query_id doc_id rank score",
                    ("0", "10", 1, 0.99),
                    ("0", "11", 2, 0.95),
                    ("0", "12", 3, 0.9),
                    ("1", "20", 1, 0.8),
                    ("1", "21", 2, 0.7),
                    ("1", "22", 3, 0.6),
                ),
                {},
            ),
            note="cut",
        ),
    ),
    "rank-as-grade: truth with rank graded": (
        "asked",
        case(
            "nDCG",
            nd(([1, 0], [1, 1]), ([1], [1])),
            lambda t: (
                F(
                    "query_id doc_id rank score",
                    ("0", "10", 1, 0.98),
                    ("0", "12", 2, 0.89),
                    ("1", "20", 1, 0.8),
                ),
                F("query_id doc_id rank", ("0", "10", 1), ("0", "11", 2), ("1", "20", 1)),
                {},
            ),
        ),
    ),
    "absurd-role: rank as key no text": (
        "right",
        case(
            "RR",
            (),
            lambda t: (
                F("query_id document_id rank", ("q1", "d9", 1), ("q1", "d1", 2), ("q2", "d3", 1)),
                F(
                    "query_text document_id relevance",
                    ("red shoe", "d1", 2),
                    ("red shoe", "d3", 1),
                    ("hat", "e1", 1),
                ),
                {},
            ),
            "question",
        ),
    ),
    "rank-as-grade: rank true": (
        "asked",
        case(
            "nDCG(gain=exp2)@20",
            nd((e2([3, 5, 0, 1]), e2([5, 3, 1, 0]))),
            lambda t: (
                P(
                    "qid score pred rank_pred rank_true",
                    (1, 5, 0.8, 2, 1),
                    (1, 3, 0.9, 1, 2),
                    (1, 1, 0.2, 4, 3),
                    (1, 0, 0.5, 3, 4),
                ),
                None,
                {},
            ),
        ),
    ),
    "absurd-role: sum position": (
        "right",
        case(
            "nDCG@10",
            nd(([5, 9, 0], [9, 5, 0]), ([1], [1])),
            lambda t: (
                P(
                    "query url clicks impressions sum_position",
                    ("shoe", "/a", 5, 10, 2),
                    ("shoe", "/b", 9, 10, 15),
                    ("shoe", "/c", 0, 4, 12),
                    ("hat", "/d", 1, 5, 0),
                ),
                None,
                {},
            ),
            clear=".",
        ),
    ),
    "absurd-role: row id as query": (
        "asked",
        case(
            "AP",
            mean([(1 + 2 / 4 + 3 / 5) / 3]),
            lambda t: (
                P(
                    "Obs S1 True_Label",
                    ("o1", 0.9, 1),
                    ("o2", 0.8, 0),
                    ("o3", 0.7, 0),
                    ("o4", 0.6, 1),
                    ("o5", 0.1, 1),
                ),
                None,
                {},
            ),
        ),
    ),
    "rank-as-grade: judge scores": (
        "asked",
        case(
            "nDCG@10",
            nd(([1, 3], [3, 1]), ([2], [2])),
            lambda t: (
                F("query_id doc_id rank", ("a", "x", 1), ("a", "y", 2), ("b", "z", 1)),
                F("query_id doc_id level", ("a", "x", 1), ("a", "y", 3), ("b", "z", 2)),
                {},
            ),
        ),
    ),
    "feature-as-grade: coordinates": (
        "asked",
        case(
            "AP@3",
            mean([1, 1 / 3, 0]),
            lambda t: (
                tx(t, "s.csv", "row_id,place_id\n0,85230 17577 4\n1,17577 2 85230\n2,1 3 5\n"),
                tx(t, "h.csv", "row_id,x,y,place_id\n0,0,9,85230\n1,1,3,85230\n2,3,1,77\n"),
                {},
            ),
        ),
    ),
    "feature-as-grade: four numbers": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                {"q1": ["a", "b"], "q2": ["c", "d"]},
                F(
                    "query item price age lat lon",
                    ("q1", "b", 3.5, 31, 1.5, 8.0),
                    ("q2", "c", 0.0, 0, 0.0, 9.0),
                ),
                {},
            ),
        ),
    ),
    "feature-as-grade: playtime": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                F("steamid appid score", (1, 10, 0.9), (1, 20, 0.8), (2, 40, 0.9)),
                F("steamid appid playtime_forever", (1, 20, 3200), (2, 40, 15)),
                {},
            ),
        ),
    ),
    "exclusion: excluded ids": (
        "noted",
        case(
            "RR",
            rr(1, 2),
            lambda t: (
                {"0": {"t9": 0.9, "t1": 0.8}, "1": {"u7": 0.9, "u2": 0.7}},
                R("id gold_ids excluded_ids", ("0", ["t1"], ["t9"]), ("1", ["u2"], ["N/A"])),
                {},
            ),
            note="seen='drop'",
        ),
    ),
    "exclusion: candidate first": (
        "asked",
        case(
            "RR",
            rr(2, 3),
            lambda t: (
                R(
                    "candidate target captions ranking",
                    ("B1", "B9", ["x"], ["B1", "B9", "B3"]),
                    ("B2", "B8", ["z"], ["B4", "B2", "B8"]),
                ),
                None,
                {},
            ),
        ),
    ),
    "exclusion: forbidden": (
        "asked",
        case(
            "RR",
            (rr(2, 1), rr(1, 1)),
            lambda t: (
                R(
                    "id query expected_ids acceptable_ids forbidden_ids retrieved_ids",
                    ("s1", "a", ["T1"], ["T2"], ["T9"], ["T2", "T1", "T9"]),
                    ("s2", "b", ["T3"], [], [], ["T3", "T4"]),
                ),
                None,
                {},
            ),
        ),
    ),
    "records-by-id: below a key": (
        "right",
        case(
            "RR", rr(2, 1), lambda t: (js(t, "r.json", {"dataset": "n", "queries": REC}), None, {})
        ),
    ),
    "records-by-id: facts": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "question ranked fact_chunk_ids",
                    ("a", ["c9", "c1"], {"F1": ["c1"], "F2": ["c2"]}),
                    ("b", ["c4"], {"F3": ["c4"]}),
                ),
                None,
                {},
            ),
        ),
    ),
    "headerless: rank from 0": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(t, "r.tsv", "q1\tdA\t0\nq1\tdB\t1\nq2\tdC\t0\n"),
                {"q1": ["dB"], "q2": ["dC"]},
                {},
            ),
        ),
    ),
    "headerless: texts with blanks": (
        "asked",
        case(
            "RR",
            rr(2, 2),
            lambda t: (
                tx(
                    t,
                    "r.tsv",
                    "how to pay\tpay by card\t0.91\nhow to pay\tpay later\t0.80\nlate bus\tbus plan\t0.70\nlate bus\tbus late\t0.60\n",
                ),
                tx(t, "g.tsv", "how to pay\tpay later\nlate bus\tbus late\n"),
                {},
            ),
        ),
    ),
    "headerless: score file": (
        "misled",
        case(
            "nDCG@10",
            nd(([0, 1, 0], [1]), ([2, 0], [2])),
            lambda t: (
                tx(
                    t,
                    "scores.txt",
                    "10\t0\t0.9\n10\t1\t0.5\n10\t2\t-0.2\n182\t0\t1.4\n182\t1\t0.3\n",
                ),
                tx(
                    t,
                    "test.txt",
                    "0 qid:10 1:0.2 #docid = A\n1 qid:10 1:0.4 #docid = B\n0 qid:10 1:0.1 #docid = C\n2 qid:182 1:0.7 #docid = D\n0 qid:182 1:0.2 #docid = A\n",
                ),
                {},
            ),
        ),
    ),
    "headerless: scores": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(t, "e.txt", "q1\td1\t1\t0.95\nq1\td2\t2\t0.87\nq2\td5\t1\t0.91\n"),
                tx(t, "q.tsv", "query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td5\t1\n"),
                {},
            ),
        ),
    ),
    "object-query: question": ("asked", case("RR", rr(2, 1), lambda t: (OQ(), None, {}))),
    "object-query: id beside": (
        "asked",
        case(
            "RR", rr(2, 1), lambda t: ([{**r, "id": r["question"]["id"]} for r in OQ()], None, {})
        ),
    ),
    "object-query: gold inside": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "question retrieved_ids",
                    ({"id": "q1", "text": "x", "evidence_ids": ["p1"]}, ["p2", "p1"]),
                    ({"id": "q2", "text": "y", "evidence_ids": ["p1"]}, ["p1", "p2"]),
                ),
                None,
                {},
            ),
        ),
    ),
    "object-query: messages": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "id query relevant_ids retrieved_ids",
                    ("q1", [{"role": "user", "content": "x"}], ["p1"], ["p2", "p1"]),
                    ("q2", [{"role": "user", "content": "y"}], ["p1"], ["p1"]),
                ),
                None,
                {},
            ),
        ),
    ),
    "object-query: other name": (
        "right",
        case("RR", rr(2, 1), lambda t: (OQ("case"), None, {"query": "case.id"})),
    ),
    "named-pair: document": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "document query gold_id top",
                    ("D", "a", "n2", ["n1", "n2"]),
                    ("D", "b", "n3", ["n3"]),
                ),
                None,
                {"item": ["top", "gold_id"]},
            ),
        ),
    ),
    "named-pair: expected doc csv": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(
                    t,
                    "e.csv",
                    "question_id,expected_doc,retrieved_docs\nQ1,D1,D3;D1;D2\nQ2,D2,D2;D1\n",
                ),
                None,
                {},
            ),
        ),
    ),
    "named-pair: gold doc csv named": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(
                    t, "e.csv", "question_id,gold_doc,retrieved_docs\nQ1,D1,D3;D1;D2\nQ2,D2,D2;D1\n"
                ),
                None,
                {"item": ["retrieved_docs", "gold_doc"]},
            ),
        ),
    ),
    "named-pair: no item name": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "chapter query gold_id top",
                    ("D", "a", "n2", ["n1", "n2"]),
                    ("D", "b", "n3", ["n3"]),
                ),
                None,
                {"item": ["top", "gold_id"]},
            ),
        ),
    ),
    "named-pair: known names csv": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(
                    t,
                    "e.csv",
                    "query_id,relevant_ids,retrieved_ids\nQ1,D1|D4,D3|D1|D2\nQ2,D2,D2|D1\n",
                ),
                None,
                {},
            ),
        ),
    ),
    "key-like-item: text lists named": (
        "right",
        case(
            "R@5",
            mean([0.5, 1]),
            lambda t: (
                P(
                    "doc_id top5_predictions true_labels",
                    (1, "A01|B02|C03", "A01|Z99"),
                    (2, "D04|E05", "E05"),
                ),
                None,
                {"query": "doc_id", "item": ["top5_predictions", "true_labels"]},
            ),
        ),
    ),
    "key-like-item: wide": (
        "asked",
        case(
            "HR@3",
            mean([1, 1, 0]),
            lambda t: (
                pd.DataFrame(
                    {
                        "product_key": ["k1", "k2", "k3"],
                        "1": [10, 21, 31],
                        "2": [11, 20, 32],
                        "3": [12, 22, 33],
                    }
                ),
                pd.DataFrame({"product_key": ["k1", "k2", "k3"], "product_id": [10, 20, 30]}),
                {"query": "product_key", "item": "product_id"},
            ),
        ),
    ),
    "repeats: source titles": (
        "asked",
        case(
            "RR",
            (rr(3, 1), rr(2, 1)),
            lambda t: (
                R(
                    "question expected_title top_5",
                    (
                        "a",
                        "B",
                        [{"parent_title": "C"}, {"parent_title": "C"}, {"parent_title": "B"}],
                    ),
                    ("b", "A", [{"parent_title": "A"}]),
                ),
                None,
                {},
            ),
        ),
    ),
    "repeats: none": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "test_id question retrieved_sources expected_sources",
                    ("t1", "a", ["a.pdf", "b.pdf"], ["b.pdf"]),
                    ("t2", "b", ["b.pdf", "c.pdf"], ["b.pdf"]),
                ),
                None,
                {},
            ),
        ),
    ),
    "events: highest grade": (
        "dead end",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                F(
                    "query item rel pos",
                    ("a", "x", 0, 1),
                    ("a", "y", 0, 2),
                    ("a", "y", 1, 2),
                    ("b", "z", 1, 1),
                ),
                None,
                {},
            ),
        ),
    ),
    "unknown-fields: mentions": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(
                    t,
                    "h.tsv",
                    "mention_no\tgold\tpredicted\nm1\tQ69\tQ1|Q69\nm2\tQ39\tQ39|Q34|Q56\n",
                ),
                None,
                {},
            ),
        ),
    ),
    "unknown-fields: spark arrays": (
        "asked",
        case(
            "RR",
            rr(3, 1),
            lambda t: (
                pd.DataFrame(
                    {"prediction": [[1.0, 6.0, 2.0], [4.0, 1.0, 5.0]], "label": [[2.0, 9.0], [4.0]]}
                ),
                None,
                {},
            ),
        ),
    ),
    "unknown-fields: wrapper golden": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                jl(t, "a.jsonl", *R("case_no chunks", ("c1", ["one", "two"]), ("c2", ["three"]))),
                js(
                    t,
                    "golden.json",
                    {
                        "made_by": "us",
                        "golden": R("case_no must_cite", ("c1", ["two"]), ("c2", ["three"])),
                    },
                ),
                {},
            ),
        ),
    ),
    "unknown-fields: results file": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "id query results",
                    ("c0", "alpha", [{"file": "b.md"}, {"file": "a.md"}]),
                    ("c1", "beta", [{"file": "e.md"}]),
                ),
                R("id query expected_files", ("c0", "alpha", ["a.md"]), ("c1", "beta", ["e.md"])),
                {},
            ),
        ),
    ),
    "unknown-fields: faq": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "q results",
                    ("a", [{"faq_id": "f3", "score": 0.9}, {"faq_id": "f1", "score": 0.8}]),
                    ("b", [{"faq_id": "f2", "score": 0.9}]),
                ),
                R("q expected_faq_id", ("a", "f1"), ("b", "f2")),
                {},
            ),
        ),
    ),
    "wide-columns: top1 top2": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(
                    t,
                    "w.csv",
                    "question,expected_source_id,top1_source_id,top2_source_id\na,S1,S2,S1\nb,S4,S4,S1\n",
                ),
                None,
                {},
            ),
        ),
    ),
    "wide-columns: pred": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                P(
                    "query gold pred_1 pred_2 pred_3",
                    ("a", "x", "z", "x", "q"),
                    ("b", "y", "y", "w", "r"),
                ),
                None,
                {},
            ),
        ),
    ),
    "null-gold: csv cell": (
        "asked",
        case(
            "RR",
            (rr(2, 1), rr(2, 1, 0)),
            lambda t: (NG, tx(t, "g.csv", "query,doc_id\na,y\nb,z\nc,\n"), {}),
        ),
    ),
    "null-gold: null symbol": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "query hits",
                    ("a", [{"symbol": "x"}, {"symbol": "open"}, {"symbol": None}]),
                    ("b", [{"symbol": "cut"}]),
                ),
                R("query expected_symbols", ("a", ["open"]), ("b", ["cut"])),
                {"item": ["hits.symbol", "expected_symbols"]},
            ),
        ),
    ),
    "null-gold: one table": (
        "right",
        case(
            "RR",
            (rr(2, 1), rr(2, 1, 0)),
            lambda t: (
                [{**r, "relevant_id": g} for r, g in zip(NG, ["y", "z", None], strict=False)],
                None,
                {},
            ),
        ),
    ),
    "nested: expected object": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "input expected results",
                    (
                        "a st",
                        {"id": "o1", "lat": 1.0},
                        [{"id": "o9", "lat": 1.5}, {"id": "o1", "lat": 1.0}],
                    ),
                    ("b st", {"id": "o2", "lat": 3.0}, [{"id": "o2", "lat": 3.0}]),
                ),
                None,
                {},
            ),
        ),
    ),
    "nested: judgments by rank": (
        "dead end",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "query retrieved judgments",
                    (
                        "a",
                        [{"text": "t1"}, {"text": "t2"}],
                        [{"rank": 1, "relevant": False}, {"rank": 2, "relevant": True}],
                    ),
                    ("b", [{"text": "t3"}], [{"rank": 1, "relevant": True}]),
                ),
                None,
                {},
            ),
        ),
    ),
    "nested: metadata": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                [
                    {
                        "id": "r0",
                        "metadata": {"gold_doc_ids": ["g"], "retrieved_doc_ids": ["x", "g"]},
                    },
                    {
                        "id": "r1",
                        "metadata": {"gold_doc_ids": ["h", "i"], "retrieved_doc_ids": ["h", "z"]},
                    },
                ],
                None,
                {},
            ),
        ),
    ),
    "nested: cases without text": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                RUNC(t),
                js(
                    t,
                    "golden.json",
                    {
                        "version": 1,
                        "cases": R(
                            "case_ref evidence",
                            ("C1", [{"passage_key": "P1", "span": "s"}]),
                            ("C2", [{"passage_key": "P2", "span": "s"}]),
                        ),
                    },
                ),
                {},
            ),
        ),
    ),
    "masks: targets and ranks": (
        "misled",
        case(
            "nDCG@3",
            nd(([2, 1, 0], [2, 1]), ([0, 1], [1])),
            lambda t: (
                pl.DataFrame({"targets": [[1, 0, 2], [1, 0]], "ranks": [[2, 3, 1], [2, 1]]}),
                None,
                {},
            ),
        ),
    ),
    "masks: labels and predictions": (
        "dead end",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                pl.DataFrame(
                    {"labels": [[0, 1, 0], [1, 0]], "predictions": [[0.9, 0.7, 0.1], [0.8, 0.2]]}
                ),
                None,
                {},
            ),
        ),
    ),
    "text-grades: usefulness": (
        "asked",
        case("nDCG@10", (TGR,), lambda t: (*tg("usefulness"), {}), "question", fill=TGF),
    ),
    "text-grades: verdict csv": (
        "asked",
        case(
            "nDCG@10",
            (TGR,),
            lambda t: (
                tx(t, "r.csv", "probe,listing_no,utility\nq1,a,.9\nq1,b,.8\nq2,c,.7\nq2,d,.6\n"),
                tx(
                    t,
                    "g.csv",
                    "probe,listing_no,verdict\nq1,a,poor\nq1,b,great\nq2,c,fair\nq2,d,good\n",
                ),
                {},
            ),
            "question",
            fill=TGF,
        ),
    ),
    "text-grades: yes no": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                F("lead plan slot", ("q1", "a", 1), ("q1", "b", 2), ("q2", "c", 1)),
                F("lead plan signed", ("q1", "a", "N"), ("q1", "b", "Y"), ("q2", "c", "Y")),
                {},
            ),
            fill={"N": 0, "Y": 1},
        ),
    ),
    "text-grades: usual names": (
        "asked",
        case(
            "nDCG@10",
            (TGR,),
            lambda t: (
                tg("x")[0].rename({"ask": "query", "listing": "item", "fit": "score"}),
                tg("usefulness")[1].rename({"ask": "query", "listing": "item"}),
                {},
            ),
            "question",
            fill=TGF,
        ),
    ),
    "text-grades: label y n": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                F("query item score", ("q1", "a", 0.9), ("q1", "b", 0.8), ("q2", "c", 0.7)),
                F("query item label", ("q1", "a", "N"), ("q1", "b", "Y"), ("q2", "c", "Y")),
                {},
            ),
        ),
    ),
    "system-column: stack": (
        "asked",
        case(
            "RR", SYR, lambda t: (F("stack query item score", *SY), F("query item rel", *SYG), {})
        ),
    ),
    "system-column: ids of two systems": (
        "asked",
        case(
            "RR",
            SYR,
            lambda t: (
                F("stack lookup_ref listing_ref affinity", *SY),
                F("lookup_ref listing_ref verdict", *[(q, i, g > 0) for q, i, g in SYG]),
                {"system": "stack"},
            ),
        ),
    ),
    "single-table: clicked yn": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                F("query item score clicked_yn", *[(q, i, s, "NY"[g > 0]) for q, i, s, g in ST]),
                None,
                {},
            ),
        ),
    ),
    "single-table: job match": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(
                    t,
                    "m.csv",
                    "resume_id,job_id,match_score,shortlisted\nr1,j1,87,no\nr1,j2,80,yes\nr2,j3,91,yes\nr2,j1,20,no\n",
                ),
                None,
                {},
            ),
        ),
    ),
    "single-table: question pairs": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                P(
                    "id qid1 qid2 is_duplicate cosine",
                    (0, 1, 2, 0, 0.9),
                    (1, 1, 3, 1, 0.8),
                    (2, 1, 4, 0, 0.2),
                    (3, 5, 6, 1, 0.95),
                    (4, 5, 7, 0, 0.1),
                ),
                None,
                {},
            ),
        ),
    ),
    "single-table: two tables two keys": (
        "asked",
        case(
            "P@2",
            mean([0.5, 0.5]),
            lambda t: (
                F(
                    "match_request_id candidate_id overall_score",
                    ("r1", "c1", 90),
                    ("r1", "c2", 80),
                    ("r2", "c1", 60),
                    ("r2", "c4", 50),
                ),
                F(
                    "match_request_id candidate_id outcome",
                    ("r1", "c2", "hired"),
                    ("r1", "c1", "rejected"),
                    ("r2", "c1", "hired"),
                ),
                {},
            ),
            fill={"hired": 1, "rejected": 0},
        ),
    ),
    "single-table: gold stars": (
        "asked",
        case("RR", rr(2, 1), lambda t: (F("query item score gold_stars", *ST), None, {})),
    ),
    "list-column: codes": (
        "right",
        case(
            "P@2",
            mean([0.5, 0.5]),
            lambda t: (
                R(
                    "run_id query_id rank right violation_codes",
                    (1, "u1", 1, True, []),
                    (1, "u1", 2, False, ["far"]),
                    (1, "u2", 1, False, []),
                    (1, "u2", 2, True, ["far"]),
                ),
                None,
                {"rel": "right"},
            ),
        ),
    ),
    "list-column: embedding": (
        "right",
        case(
            "nDCG@10",
            nd(([0, 1], [1]), ([2, 0], [2])),
            lambda t: (
                pl.DataFrame(
                    {
                        "query": [1, 1, 2, 2],
                        "label": [0, 1, 2, 0],
                        "features": [[0.1, 0.2], [0.3, 0.1], [0.5, 0.5], [0.0, 0.9]],
                        "prediction": [0.9, 0.4, 0.7, 0.1],
                    }
                ),
                None,
                {},
            ),
        ),
    ),
    "number-text: percents": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(t, "r.csv", "query_id,doc_id,similarity\nq1,b,87.5%\nq1,a,9.5%\nq2,c,70%\n"),
                tx(t, "g.csv", "query_id,doc_id,relevance\nq1,a,1\nq2,c,1\n"),
                {},
            ),
        ),
    ),
    "number-text: decimal commas": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                tx(t, "r.csv", "query_id;doc_id;score\nq1;a;0,95\nq1;b;0,90\nq2;c;12,5\n"),
                tx(t, "g.csv", "query_id;doc_id;relevance\nq1;b;1\nq2;c;1\n"),
                {},
            ),
        ),
    ),
    "crash: soft and members": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                {"q1": ["a", "b"], "q2": ["d"]},
                CR,
                {"query": ["query", "pairid"], "item": ["item", "gold"]},
            ),
        ),
    ),
    "crash: no members": (
        "right",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                {"q1": ["a", "b"], "q2": ["d"]},
                [{"pairid": r["pairid"], "gold": r["gold"]} for r in CR],
                {"query": ["query", "pairid"], "item": ["item", "gold"]},
            ),
        ),
    ),
    "ids: date and timestamp": (
        "asked",
        case(
            "RR",
            rr(2),
            lambda t: (
                pl.DataFrame(
                    {
                        "user_id": [1, 1],
                        "item_id": pl.Series(["2026-01-05", "2026-01-06"]).str.to_datetime(),
                        "pos": [1, 2],
                    }
                ),
                pl.DataFrame({"user_id": [1], "item_id": pl.Series(["2026-01-06"]).str.to_date()}),
                {},
            ),
        ),
    ),
    "ids: mixed shapes": (
        "dead end",
        case(
            "RR",
            {"popular": rr(2, 1), "cooc": rr(1, 2)},
            lambda t: (
                {
                    "popular": F(
                        "subscriber_no episode score", (1, 10, 0.9), (1, 11, 0.8), (2, 12, 0.7)
                    ),
                    "cooc": pl.DataFrame({"subscriber_no": [1, 2], "picks": [[11, 10], [13, 12]]}),
                },
                F("subscriber_no episode", (1, 11), (2, 12)),
                {"query": "subscriber_no", "item": ["picks", "episode"], "rel": "1"},
            ),
        ),
    ),
    "ids: mixed usual names": (
        "right",
        case(
            "RR",
            {"popular": rr(2, 1), "cooc": rr(1, 2)},
            lambda t: (
                {
                    "popular": F("user item score", (1, 10, 0.9), (1, 11, 0.8), (2, 12, 0.7)),
                    "cooc": pl.DataFrame({"user": [1, 2], "items": [[11, 10], [13, 12]]}),
                },
                F("user item", (1, 11), (2, 12)),
                {},
            ),
        ),
    ),
    "text-grades: evidence role": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "case_ref hits",
                    (
                        "C1",
                        [
                            {"passage_key": "P1", "affinity": 0.9},
                            {"passage_key": "P2", "affinity": 0.8},
                        ],
                    ),
                    ("C2", [{"passage_key": "P1", "affinity": 0.7}]),
                ),
                R(
                    "case_ref evidence",
                    (
                        "C1",
                        [
                            {"passage_key": "P1", "role": "unrelated"},
                            {"passage_key": "P2", "role": "supports"},
                        ],
                    ),
                    (
                        "C2",
                        [
                            {"passage_key": "P1", "role": "mentions"},
                            {"passage_key": "P2", "role": "unrelated"},
                        ],
                    ),
                ),
                {"query": "case_ref", "item": ["hits", "evidence"]},
            ),
            fill={"unrelated": 0, "mentions": 1, "supports": 2},
        ),
    ),
    "crash: by a map": (
        "right",
        case(
            "RR",
            (),
            lambda t: (
                [
                    {"graded": {"b": 2, "c": 1}, "k": 2, "map": {"a": 0.9, "b": 0.8}},
                    {"graded": {"d": 1}, "k": 2, "map": {"d": 0.7}},
                    {"graded": {}, "k": 1, "map": {}},
                ],
                None,
                {"query": ["k", "graded"], "by": "map"},
            ),
            "question",
        ),
    ),
    "crash: groups of a map": (
        "right",
        case(
            "RR",
            (),
            lambda t: (
                [
                    {
                        "pairs": [["b", 2], ["c", 1]],
                        "results": [
                            {"doc_id": "a", "chunk_id": "a#1", "score": 0.9, "relevant": False},
                            {"doc_id": "b", "chunk_id": "b#1", "score": 0.8, "relevant": True},
                        ],
                        "map": {"a": 0.9, "b": 0.8},
                    },
                    {
                        "pairs": [["d", 1]],
                        "results": [
                            {"doc_id": "d", "chunk_id": "d#1", "score": 0.7, "relevant": True}
                        ],
                        "map": {"d": 0.7},
                    },
                    {"pairs": [], "results": [], "map": {}},
                ],
                None,
                {"query": "map", "item": ["results", "map"], "groups": "any"},
            ),
            "question",
        ),
    ),
    "text-grades: evidence useful": (
        "asked",
        case(
            "RR",
            rr(2, 1),
            lambda t: (
                R(
                    "case_ref hits",
                    (
                        "C1",
                        [
                            {"passage_key": "P1", "affinity": 0.9},
                            {"passage_key": "P2", "affinity": 0.8},
                        ],
                    ),
                    ("C2", [{"passage_key": "P1", "affinity": 0.7}]),
                ),
                R(
                    "case_ref evidence",
                    (
                        "C1",
                        [{"passage_key": "P1", "useful": 0}, {"passage_key": "P2", "useful": 2}],
                    ),
                    (
                        "C2",
                        [{"passage_key": "P1", "useful": 1}, {"passage_key": "P2", "useful": 0}],
                    ),
                ),
                {"query": "case_ref", "item": ["hits", "evidence"]},
            ),
        ),
    ),
    "rows-per-k: depth lists": (
        "asked",
        case(
            "R@3",
            {"1": mean([0, 1]), "3": mean([1, 1])},
            lambda t: (
                R(
                    "question depth retrieved_ids relevant_ids",
                    *[
                        (q, k, l[:k], g)
                        for q, l, g in [
                            ("a", ["x", "y", "z"], ["z"]),
                            ("b", ["m", "n", "o"], ["m"]),
                        ]
                        for k in (1, 3)
                    ],
                ),
                None,
                {},
            ),
        ),
    ),
}


@few(12)(("name", "expected"), [(name, expected) for name, (expected, _) in CASES.items()])
def test_a_question_ends_in_the_right_call(name, expected, tmp_path):
    found, tried = verdict(CASES[name][1], tmp_path)
    assert found == expected, tried

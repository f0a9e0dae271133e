"""Tables of public issues and files whose questions ended in no call, or in a wrong one.

Each case has its right value and the verdict on what a newcomer gets; those that are read rightly
stand beside. The data are our own.
"""

from statistics import fmean

import pandas as pd
import polars as pl

from support.parameters import few
from support.questions import File, case, frame, ndcg, rows, rr, verdict

LEVELS = {"right": (rr(1, 1), rr(0, 1)), "every": True}
GAINS = {"right": ndcg(([1, 2], [2, 1]), ([0, 2], [2])), "metrics": "nDCG@10"}
QUERIES = {
    "q1": {"query": "a", "retrieved_ids": ["x1", "x2"], "relevant_ids": ["x2"]},
    "q2": {"query": "b", "retrieved_ids": ["y1"], "relevant_ids": ["y1"]},
}
WITHOUT_GOLD = rows("query retrieved_ids", ("a", ["x", "y"]), ("b", ["z"]), ("c", ["x"]))
MEMBERS = rows(
    "pairid gold soft members",
    ("q1", "b", {"b": 1.0, "c": 0.5}, ["a", "b"]),
    ("q2", "d", {"d": 1.0}, ["d"]),
)
SCORED = (("v1", "i1", 0.9, 0), ("v1", "i2", 0.8, 2), ("v2", "i3", 0.7, 1), ("v2", "i4", 0.6, 0))
STACKS = [
    (stack, query, item, score)
    for stack, order in (("lexi", "ab"), ("densb", "ba"), ("rera", "ab"))
    for query in ("L1", "L2")
    for item, score in zip(order if query == "L1" else "ab", (0.9, 0.8), strict=True)
]
OF_STACKS = {"lexi": rr(1, 2), "densb": rr(2, 2), "rera": rr(1, 2)}
STACK_GRADES = (("L1", "a", 2), ("L1", "b", 0), ("L2", "b", 1), ("L2", "a", 0))
USEFUL = {
    **{"right": ndcg(([0, 3], [3, 0]), ([1, 2], [2, 1])), "metrics": "nDCG@10", "every": True},
    "fill": {"none": 0, "low": 1, "mid": 2, "high": 3, "poor": 0, "fair": 1, "good": 2, "great": 3},
}


def with_object(name="question"):
    """Queries that are objects with an id."""
    return rows(
        f"{name} relevant_ids retrieved_ids",
        ({"id": "q1", "text": "one"}, ["p1"], ["p2", "p1"]),
        ({"id": "q2", "text": "two"}, ["p1"], ["p1"]),
    )


def in_words(*names):
    """A run and judgments with these names of the query, the item, the score and the grade."""
    query, item, score, grade = names
    ids = [("q1", "a"), ("q1", "b"), ("q2", "c"), ("q2", "d")]
    grades = ("none", "high", "low", "mid")
    return [
        frame(f"{query} {item} {name}", *((*x, y) for x, y in zip(ids, values, strict=True)))
        for name, values in ((score, (0.9, 0.8, 0.7, 0.6)), (grade, grades))
    ]


# Each case with the verdict on it, its tables, and options of `evaluate`.
CASES = {
    "levels: section": case(
        "asked",
        File(
            "r.json",
            rows(
                "question_id results",
                ("Q1", [{"doc_id": "D1", "section_id": "D1-S1"}]),
                ("Q2", [{"doc_id": "D2", "section_id": "D2-S1"}]),
            ),
        ),
        File(
            "g.json",
            rows(
                "question_id expected_doc_id expected_section_id",
                ("Q1", "D1", "D1-S2"),
                ("Q2", "D2", "D2-S1"),
            ),
        ),
        **LEVELS,
    ),
    "levels: chunk index": case(
        "asked",
        rows(
            "query results",
            ("ask1", [{"doc_id": "d1", "chunk_index": 0}]),
            ("ask2", [{"doc_id": "d2", "chunk_index": 0}]),
        ),
        rows("query expected_doc_id expected_chunk_index", ("ask1", "d1", 3), ("ask2", "d2", 0)),
        **LEVELS,
    ),
    "levels: ids by line": case(
        "asked",
        File(
            "r.csv",
            "case_id,rank,doc_id,chunk_id,score",
            "c1,1,doc-2,doc-2#1,.8",
            "c2,1,doc-3,doc-3#1,.7",
        ),
        File(
            "g.csv",
            "case_id,expected_rag_doc_ids,expected_rag_chunk_ids",
            'c1,"doc-1',
            'doc-2","doc-1#3',
            'doc-2#0"',
            "c2,doc-3,doc-3#1",
        ),
        **LEVELS,
    ),
    "levels: expected object": case(
        "asked",
        rows(
            "case_no citations",
            ("p1", [{"doc_id": "D1", "chunk_id": "D1-c1"}]),
            ("p2", [{"doc_id": "D2", "chunk_id": "D2-c1"}]),
        ),
        rows(
            "case_no expected",
            ("p1", {"gold_doc_ids": ["D1"], "gold_chunk_ids": ["D1-c2"]}),
            ("p2", {"gold_doc_ids": ["D2"], "gold_chunk_ids": ["D2-c1"]}),
        ),
        **LEVELS,
    ),
    "levels: one found nowhere": case(
        "right",
        rows(
            "query gold_doc_ids gold_page_ids results",
            ("ask1", ["k1"], ["k1:2"], [{"doc_id": "k1"}]),
            ("ask2", ["k2"], ["k2:3"], [{"doc_id": "k2"}]),
        ),
        right=rr(1, 1),
    ),
    "levels: same ids twice": case(
        "right",
        File("r.csv", "query_id,chunk_id,rank", "1,7,1", "1,12,2", "2,3,1", "2,9,2"),
        rows(
            "query_id relevant_chunk_ids relevant_chunk_keys",
            (1, ["12"], ["a3f1"]),
            (2, ["3"], ["bb"]),
        ),
    ),
    "key-of-fields: kdoc chunk": case(
        "asked",
        rows(
            "query expected retrieved",
            (
                "ask1",
                rows("kdoc chunk_id", ("r26", "c1")),
                rows("kdoc chunk_id", ("r25", "c1"), ("r26", "c1")),
            ),
            ("ask2", rows("kdoc chunk_id", ("s1", "c1")), rows("kdoc chunk_id", ("s1", "c1"))),
        ),
    ),
    "key-of-fields: span": case(
        "asked",
        rows(
            "query retrieved_snippets",
            ("a", rows("file_path span", ("c/x.txt", [50, 60]), ("c/x.txt", [10, 20]))),
            ("b", [{"file_path": "c/y.txt", "span": [0, 5]}]),
        ),
        File(
            "g.json",
            {
                "tests": rows(
                    "query snippets",
                    ("a", [{"file_path": "c/x.txt", "span": [10, 20]}]),
                    ("b", [{"file_path": "c/y.txt", "span": [0, 5]}]),
                )
            },
        ),
    ),
    "key-of-fields: src page": case(
        "asked",
        File(
            "bm.jsonl",
            *rows(
                "ask_key cited",
                (
                    "k1",
                    rows(
                        "src page sim", ("m0.pdf", 3, 0.9), ("m9.pdf", 4, 0.8), ("m0.pdf", 4, 0.7)
                    ),
                ),
                ("k2", [{"src": "m1.pdf", "page": 3, "sim": 0.9}]),
            ),
        ),
        File(
            "gold.json",
            {
                "k1": {"ask": "how", "proofs": [{"src": "m0.pdf", "page": 4}]},
                "k2": {"ask": "who", "proofs": [{"src": "m1.pdf", "page": 3}]},
            },
        ),
        right=rr(3, 1),
    ),
    "key-of-fields: index or list": case(
        "asked",
        rows(
            "id post_rerank",
            ("q1", rows("document chunk_index", ("m.pdf", 1), ("m.pdf", 3))),
            ("q2", [{"document": "m.pdf", "chunk_index": 0}]),
            ("q3", rows("document chunk_index", ("m.pdf", 3), ("n.pdf", 3))),
        ),
        File(
            "g.json",
            rows(
                "id question document chunk_index",
                ("q1", "a", "m.pdf", 3),
                ("q2", "b", "m.pdf", [0, 4]),
                ("q3", "c", "n.pdf", 3),
            ),
        ),
        right=rr(2, 1, 2),
    ),
    "key-of-fields: joined": case(
        "asked",
        rows(
            "q expected ranked",
            (
                "a",
                ["S/1"],
                rows("source_code article_no doc_id", ("S", "9", "d1"), ("S", "1", "d1")),
            ),
            ("b", ["T/3", "T/4"], [{"source_code": "T", "article_no": "3", "doc_id": "d2"}]),
        ),
    ),
    "key-of-fields: sentence ids": case(
        "asked",
        frame(
            "QuestionID DocumentID SentenceID Label score",
            ("Q1", "D1", "D1-0", 0, 0.9),
            ("Q1", "D1", "D1-1", 1, 0.8),
            ("Q2", "D2", "D2-0", 1, 0.7),
            ("Q2", "D2", "D2-1", 0, 0.2),
        ).to_pandas(),
    ),
    "key-of-fields: pairs": case(
        "asked",
        rows(
            "query results",
            ("a", rows("title ordinal", ("Handbook", 1), ("Handbook", 2))),
            ("b", [{"title": "Policy", "ordinal": 1}]),
        ),
        rows("query relevant", ("a", [["Handbook", 0], ["Handbook", 2]]), ("b", [["Policy", 1]])),
    ),
    "key-of-fields: places in a list": case(
        "asked",
        rows(
            "ask wanted_shop wanted_no best",
            ("a", "north", 1, [["north", 2, 0.9], ["north", 1, 0.8]]),
            ("b", "south", 2, [["south", 2, 0.9], ["north", 2, 0.7]]),
        ),
    ),
    "key-of-fields: book beside": case(
        "asked",
        rows(
            "qid found",
            ("a", rows("book page_no", ("M", 1), ("M", 2))),
            ("b", rows("book page_no", ("N", 1), ("M", 1))),
        ),
        rows(
            "qid book proof",
            ("a", "M", rows("proof_book proof_page_no", ("M", 2))),
            ("b", "N", rows("proof_book proof_page_no", ("N", 1))),
        ),
    ),
    "key-of-fields: no repeats": case(
        "right",
        rows(
            "query expected retrieved",
            (
                "a",
                [{"doc_id": "r26", "chunk_id": "c2"}],
                rows("doc_id chunk_id", ("r25", "c1"), ("r26", "c2")),
            ),
            ("b", [{"doc_id": "s", "chunk_id": "c3"}], [{"doc_id": "s", "chunk_id": "c3"}]),
        ),
    ),
    "key-of-fields: documents only": case(
        "asked",
        rows(
            "question acceptable_docs retrieved",
            ("a", ["d1", "d2"], rows("doc distance", ("d9", 0.1), ("d1", 0.2), ("d1", 0.3))),
            ("b", ["d3"], [{"doc": "d3", "distance": 0.1}]),
        ),
    ),
    "grades-by-id: other level": case(
        "asked",
        rows(
            "query results",
            ("a", rows("chunk_id document_id", ("t#2", "t"), ("t#1", "t"))),
            ("b", rows("chunk_id document_id", ("z#1", "z"), ("u#1", "u"))),
        ),
        rows(
            "query relevant_chunk_ids relevant_document_ids graded_relevance",
            ("a", ["t#1", "t#2"], ["t"], {"t#1": 2, "t#2": 1}),
            ("b", ["u#1"], ["u"], {"u#1": 2}),
        ),
        **GAINS,
    ),
    "grades-by-id: two objects": case(
        "misled",
        rows("query retrieved_chunk_ids", ("a", ["t#2", "t#1"]), ("b", ["z#1", "u#1"])),
        File(
            "specs.json",
            rows(
                "query relevant_chunk_ids relevant_doc_ids "
                "relevance_by_chunk_id relevance_by_doc_id",
                ("a", ["t#1", "t#2"], ["t"], {"t#1": 2, "t#2": 1}, {"t": 3}),
                ("b", ["u#1"], ["u", "v"], {"u#1": 2}, {"u": 2, "v": 1}),
            ),
        ),
        **GAINS,
    ),
    "grades-by-id: one object": case(
        "right",
        rows("query_id retrieved_ids", ("n1", [12, 11]), ("h1", [14, 13])),
        rows(
            "query_id gold_answer_ids graded_relevance",
            ("n1", ["11"], {"11": 3}),
            ("h1", ["13", "14"], {"13": 3, "14": 2}),
        ),
        right=ndcg(([0, 3], [3]), ([2, 3], [3, 2])),
        metrics="nDCG@10",
    ),
    "grades-by-id: weights": case(
        "asked",
        rows(
            "qid results",
            ("1", rows("chunk_id score", ("c2", 0.9), ("c1", 0.8))),
            ("2", rows("chunk_id score", ("c9", 0.9), ("c3", 0.8))),
        ),
        rows(
            "qid gold_chunks gold_weights",
            ("1", ["c1", "c2"], {"c1": 1.0, "c2": 0.5}),
            ("2", ["c3"], {"c3": 1.0}),
        ),
        right=ndcg(([0.5, 1], [1, 0.5]), ([0, 1], [1])),
        metrics="nDCG@10",
    ),
    "rank-as-grade: truth with rank": case(
        "noted",
        frame(
            "query_id doc_id rank score",
            ("0", "10", 1, 0.98),
            ("0", "12", 2, 0.89),
            ("1", "20", 1, 0.8),
            ("1", "21", 2, 0.7),
        ),
        frame(
            "query_id doc_id rank score",
            ("0", "10", 1, 0.99),
            ("0", "11", 2, 0.95),
            ("0", "12", 3, 0.9),
            ("1", "20", 1, 0.8),
            ("1", "21", 2, 0.7),
            ("1", "22", 3, 0.6),
        ),
        right=fmean([0.5, 1]),
        metrics="R@2",
        note="cut",
    ),
    "rank-as-grade: truth with rank graded": case(
        "asked",
        frame(
            "query_id doc_id rank score",
            ("0", "10", 1, 0.98),
            ("0", "12", 2, 0.89),
            ("1", "20", 1, 0.8),
        ),
        frame("query_id doc_id rank", ("0", "10", 1), ("0", "11", 2), ("1", "20", 1)),
        right=ndcg(([1, 0], [1, 1]), ([1], [1])),
        metrics="nDCG",
    ),
    "absurd-role: rank as key no text": case(
        "right",
        frame("query_id document_id rank", ("q1", "d9", 1), ("q1", "d1", 2), ("q2", "d3", 1)),
        frame(
            "query_text document_id relevance",
            ("red shoe", "d1", 2),
            ("red shoe", "d3", 1),
            ("hat", "e1", 1),
        ),
        right=(),
        every=True,
    ),
    "rank-as-grade: rank true": case(
        "asked",
        frame(
            "qid score pred rank_pred rank_true",
            (1, 5, 0.8, 2, 1),
            (1, 3, 0.9, 1, 2),
            (1, 1, 0.2, 4, 3),
            (1, 0, 0.5, 3, 4),
        ).to_pandas(),
        right=ndcg(([7, 31, 0, 1], [31, 7, 1, 0])),
        metrics="nDCG(gain=exp2)@20",
    ),
    "absurd-role: sum position": case(
        "right",
        frame(
            "query url clicks impressions sum_position",
            ("shoe", "/a", 5, 10, 2),
            ("shoe", "/b", 9, 10, 15),
            ("shoe", "/c", 0, 4, 12),
            ("hat", "/d", 1, 5, 0),
        ).to_pandas(),
        right=ndcg(([5, 9, 0], [9, 5, 0]), ([1], [1])),
        metrics="nDCG@10",
        clear=".",
    ),
    "absurd-role: row id as query": case(
        "asked",
        frame(
            "Obs S1 True_Label",
            ("o1", 0.9, 1),
            ("o2", 0.8, 0),
            ("o3", 0.7, 0),
            ("o4", 0.6, 1),
            ("o5", 0.1, 1),
        ).to_pandas(),
        right=fmean([(1 + 2 / 4 + 3 / 5) / 3]),
        metrics="AP",
    ),
    "rank-as-grade: judge scores": case(
        "asked",
        frame("query_id doc_id rank", ("a", "x", 1), ("a", "y", 2), ("b", "z", 1)),
        frame("query_id doc_id level", ("a", "x", 1), ("a", "y", 3), ("b", "z", 2)),
        right=ndcg(([1, 3], [3, 1]), ([2], [2])),
        metrics="nDCG@10",
    ),
    "feature-as-grade: coordinates": case(
        "asked",
        File("s.csv", "row_id,place_id", "0,85230 17577 4", "1,17577 2 85230", "2,1 3 5"),
        File("h.csv", "row_id,x,y,place_id", "0,0,9,85230", "1,1,3,85230", "2,3,1,77"),
        right=fmean([1, 1 / 3, 0]),
        metrics="AP@3",
    ),
    "feature-as-grade: four numbers": case(
        "asked",
        {"q1": ["a", "b"], "q2": ["c", "d"]},
        frame(
            "query item price age lat lon",
            ("q1", "b", 3.5, 31, 1.5, 8.0),
            ("q2", "c", 0.0, 0, 0.0, 9.0),
        ),
    ),
    "feature-as-grade: playtime": case(
        "asked",
        frame("steamid appid score", (1, 10, 0.9), (1, 20, 0.8), (2, 40, 0.9)),
        frame("steamid appid playtime_forever", (1, 20, 3200), (2, 40, 15)),
    ),
    "exclusion: excluded ids": case(
        "noted",
        {"0": {"t9": 0.9, "t1": 0.8}, "1": {"u7": 0.9, "u2": 0.7}},
        rows("id gold_ids excluded_ids", ("0", ["t1"], ["t9"]), ("1", ["u2"], ["N/A"])),
        right=rr(1, 2),
        note="seen='drop'",
    ),
    "exclusion: candidate first": case(
        "asked",
        rows(
            "candidate target captions ranking",
            ("B1", "B9", ["x"], ["B1", "B9", "B3"]),
            ("B2", "B8", ["z"], ["B4", "B2", "B8"]),
        ),
        right=rr(2, 3),
    ),
    "exclusion: forbidden": case(
        "asked",
        rows(
            "id query expected_ids acceptable_ids forbidden_ids retrieved_ids",
            ("s1", "a", ["T1"], ["T2"], ["T9"], ["T2", "T1", "T9"]),
            ("s2", "b", ["T3"], [], [], ["T3", "T4"]),
        ),
        right=(rr(2, 1), rr(1, 1)),
    ),
    "records-by-id: below a key": case(
        "right", File("r.json", {"dataset": "n", "queries": QUERIES})
    ),
    "records-by-id: facts": case(
        "asked",
        rows(
            "question ranked fact_chunk_ids",
            ("a", ["c9", "c1"], {"F1": ["c1"], "F2": ["c2"]}),
            ("b", ["c4"], {"F3": ["c4"]}),
        ),
    ),
    "headerless: rank from 0": case(
        "asked", File("r.tsv", "q1\tdA\t0", "q1\tdB\t1", "q2\tdC\t0"), {"q1": ["dB"], "q2": ["dC"]}
    ),
    "headerless: texts with blanks": case(
        "asked",
        File(
            "r.tsv",
            "how to pay\tpay by card\t0.91",
            "how to pay\tpay later\t0.80",
            "late bus\tbus plan\t0.70",
            "late bus\tbus late\t0.60",
        ),
        File("g.tsv", "how to pay\tpay later", "late bus\tbus late"),
        right=rr(2, 2),
    ),
    "headerless: score file": case(
        "misled",
        File("scores.txt", "10\t0\t0.9", "10\t1\t0.5", "10\t2\t-0.2", "182\t0\t1.4", "182\t1\t0.3"),
        File(
            "test.txt",
            "0 qid:10 1:0.2 #docid = A",
            "1 qid:10 1:0.4 #docid = B",
            "0 qid:10 1:0.1 #docid = C",
            "2 qid:182 1:0.7 #docid = D",
            "0 qid:182 1:0.2 #docid = A",
        ),
        right=ndcg(([0, 1, 0], [1]), ([2, 0], [2])),
        metrics="nDCG@10",
    ),
    "headerless: scores": case(
        "right",
        File("e.txt", "q1\td1\t1\t0.95", "q1\td2\t2\t0.87", "q2\td5\t1\t0.91"),
        File("q.tsv", "query-id\tcorpus-id\tscore", "q1\td2\t1", "q2\td5\t1"),
    ),
    "object-query: question": case("asked", with_object()),
    "object-query: id beside": case(
        "asked", [{**r, "id": r["question"]["id"]} for r in with_object()]
    ),
    "object-query: gold inside": case(
        "asked",
        rows(
            "question retrieved_ids",
            ({"id": "q1", "text": "x", "evidence_ids": ["p1"]}, ["p2", "p1"]),
            ({"id": "q2", "text": "y", "evidence_ids": ["p1"]}, ["p1", "p2"]),
        ),
    ),
    "object-query: messages": case(
        "asked",
        rows(
            "id query relevant_ids retrieved_ids",
            ("q1", [{"role": "user", "content": "x"}], ["p1"], ["p2", "p1"]),
            ("q2", [{"role": "user", "content": "y"}], ["p1"], ["p1"]),
        ),
    ),
    "object-query: other name": case("right", with_object("case"), query="case.id"),
    "named-pair: document": case(
        "right",
        rows(
            "document query gold_id top", ("D", "a", "n2", ["n1", "n2"]), ("D", "b", "n3", ["n3"])
        ),
        item=["top", "gold_id"],
    ),
    "named-pair: expected doc csv": case(
        "asked",
        File("e.csv", "question_id,expected_doc,retrieved_docs", "Q1,D1,D3;D1;D2", "Q2,D2,D2;D1"),
    ),
    "named-pair: gold doc csv named": case(
        "right",
        File("e.csv", "question_id,gold_doc,retrieved_docs", "Q1,D1,D3;D1;D2", "Q2,D2,D2;D1"),
        item=["retrieved_docs", "gold_doc"],
    ),
    "named-pair: no item name": case(
        "right",
        rows("chapter query gold_id top", ("D", "a", "n2", ["n1", "n2"]), ("D", "b", "n3", ["n3"])),
        item=["top", "gold_id"],
    ),
    "named-pair: known names csv": case(
        "right",
        File("e.csv", "query_id,relevant_ids,retrieved_ids", "Q1,D1|D4,D3|D1|D2", "Q2,D2,D2|D1"),
    ),
    "key-like-item: text lists named": case(
        "right",
        frame(
            "doc_id top5_predictions true_labels",
            (1, "A01|B02|C03", "A01|Z99"),
            (2, "D04|E05", "E05"),
        ).to_pandas(),
        right=fmean([0.5, 1]),
        metrics="R@5",
        query="doc_id",
        item=["top5_predictions", "true_labels"],
    ),
    "key-like-item: wide": case(
        "asked",
        pd.DataFrame(
            {
                "product_key": ["k1", "k2", "k3"],
                "1": [10, 21, 31],
                "2": [11, 20, 32],
                "3": [12, 22, 33],
            }
        ),
        pd.DataFrame({"product_key": ["k1", "k2", "k3"], "product_id": [10, 20, 30]}),
        right=fmean([1, 1, 0]),
        metrics="HR@3",
        query="product_key",
        item="product_id",
    ),
    "repeats: source titles": case(
        "asked",
        rows(
            "question expected_title top_5",
            ("a", "B", [{"parent_title": "C"}, {"parent_title": "C"}, {"parent_title": "B"}]),
            ("b", "A", [{"parent_title": "A"}]),
        ),
        right=(rr(3, 1), rr(2, 1)),
    ),
    "repeats: none": case(
        "right",
        rows(
            "test_id question retrieved_sources expected_sources",
            ("t1", "a", ["a.pdf", "b.pdf"], ["b.pdf"]),
            ("t2", "b", ["b.pdf", "c.pdf"], ["b.pdf"]),
        ),
    ),
    "events: highest grade": case(
        "dead end",
        frame(
            "query item rel pos",
            ("a", "x", 0, 1),
            ("a", "y", 0, 2),
            ("a", "y", 1, 2),
            ("b", "z", 1, 1),
        ),
    ),
    "unknown-fields: mentions": case(
        "asked",
        File("h.tsv", "mention_no\tgold\tpredicted", "m1\tQ69\tQ1|Q69", "m2\tQ39\tQ39|Q34|Q56"),
    ),
    "unknown-fields: spark arrays": case(
        "asked",
        pd.DataFrame(
            {"prediction": [[1.0, 6.0, 2.0], [4.0, 1.0, 5.0]], "label": [[2.0, 9.0], [4.0]]}
        ),
        right=rr(3, 1),
    ),
    "unknown-fields: wrapper golden": case(
        "asked",
        File("a.jsonl", *rows("case_no chunks", ("c1", ["one", "two"]), ("c2", ["three"]))),
        File(
            "golden.json",
            {
                "made_by": "us",
                "golden": rows("case_no must_cite", ("c1", ["two"]), ("c2", ["three"])),
            },
        ),
    ),
    "unknown-fields: results file": case(
        "asked",
        rows(
            "id query results",
            ("c0", "alpha", [{"file": "b.md"}, {"file": "a.md"}]),
            ("c1", "beta", [{"file": "e.md"}]),
        ),
        rows("id query expected_files", ("c0", "alpha", ["a.md"]), ("c1", "beta", ["e.md"])),
    ),
    "unknown-fields: faq": case(
        "asked",
        rows(
            "q results",
            ("a", rows("faq_id score", ("f3", 0.9), ("f1", 0.8))),
            ("b", [{"faq_id": "f2", "score": 0.9}]),
        ),
        rows("q expected_faq_id", ("a", "f1"), ("b", "f2")),
    ),
    "wide-columns: top1 top2": case(
        "asked",
        File(
            "w.csv",
            "question,expected_source_id,top1_source_id,top2_source_id",
            "a,S1,S2,S1",
            "b,S4,S4,S1",
        ),
    ),
    "wide-columns: pred": case(
        "asked",
        frame(
            "query gold pred_1 pred_2 pred_3", ("a", "x", "z", "x", "q"), ("b", "y", "y", "w", "r")
        ).to_pandas(),
    ),
    "null-gold: csv cell": case(
        "asked",
        WITHOUT_GOLD,
        File("g.csv", "query,doc_id", "a,y", "b,z", "c,"),
        right=(rr(2, 1), rr(2, 1, 0)),
    ),
    "null-gold: null symbol": case(
        "asked",
        rows(
            "query hits",
            ("a", [{"symbol": "x"}, {"symbol": "open"}, {"symbol": None}]),
            ("b", [{"symbol": "cut"}]),
        ),
        rows("query expected_symbols", ("a", ["open"]), ("b", ["cut"])),
        item=["hits.symbol", "expected_symbols"],
    ),
    "null-gold: one table": case(
        "right",
        [{**r, "relevant_id": g} for r, g in zip(WITHOUT_GOLD, ["y", "z", None], strict=True)],
        right=(rr(2, 1), rr(2, 1, 0)),
    ),
    "nested: expected object": case(
        "asked",
        rows(
            "input expected results",
            ("a st", {"id": "o1", "lat": 1.0}, rows("id lat", ("o9", 1.5), ("o1", 1.0))),
            ("b st", {"id": "o2", "lat": 3.0}, [{"id": "o2", "lat": 3.0}]),
        ),
    ),
    "nested: judgments by rank": case(
        "dead end",
        rows(
            "query retrieved judgments",
            ("a", [{"text": "t1"}, {"text": "t2"}], rows("rank relevant", (1, False), (2, True))),
            ("b", [{"text": "t3"}], [{"rank": 1, "relevant": True}]),
        ),
    ),
    "nested: metadata": case(
        "right",
        rows(
            "id metadata",
            ("r0", {"gold_doc_ids": ["g"], "retrieved_doc_ids": ["x", "g"]}),
            ("r1", {"gold_doc_ids": ["h", "i"], "retrieved_doc_ids": ["h", "z"]}),
        ),
    ),
    "nested: cases without text": case(
        "asked",
        File(
            "d.jsonl",
            *rows(
                "case_ref hits",
                ("C1", rows("passage_key affinity", ("P9", 0.9), ("P1", 0.8))),
                ("C2", rows("passage_key affinity", ("P2", 0.9))),
            ),
        ),
        File(
            "golden.json",
            {
                "version": 1,
                "cases": rows(
                    "case_ref evidence",
                    ("C1", [{"passage_key": "P1", "span": "s"}]),
                    ("C2", [{"passage_key": "P2", "span": "s"}]),
                ),
            },
        ),
    ),
    "masks: targets and ranks": case(
        "misled",
        pl.DataFrame({"targets": [[1, 0, 2], [1, 0]], "ranks": [[2, 3, 1], [2, 1]]}),
        right=ndcg(([2, 1, 0], [2, 1]), ([0, 1], [1])),
        metrics="nDCG@3",
    ),
    "masks: labels and predictions": case(
        "dead end",
        pl.DataFrame({"labels": [[0, 1, 0], [1, 0]], "predictions": [[0.9, 0.7, 0.1], [0.8, 0.2]]}),
    ),
    "text-grades: usefulness": case(
        "asked", *in_words("ask", "listing", "fit", "usefulness"), **USEFUL
    ),
    "text-grades: verdict csv": case(
        "asked",
        File("r.csv", "probe,listing_no,utility", "q1,a,.9", "q1,b,.8", "q2,c,.7", "q2,d,.6"),
        File(
            "g.csv", "probe,listing_no,verdict", "q1,a,poor", "q1,b,great", "q2,c,fair", "q2,d,good"
        ),
        **USEFUL,
    ),
    "text-grades: yes no": case(
        "asked",
        frame("lead plan slot", ("q1", "a", 1), ("q1", "b", 2), ("q2", "c", 1)),
        frame("lead plan signed", ("q1", "a", "N"), ("q1", "b", "Y"), ("q2", "c", "Y")),
        fill={"N": 0, "Y": 1},
    ),
    "text-grades: usual names": case(
        "asked",
        *in_words("query", "item", "score", "usefulness"),
        **USEFUL,
    ),
    "text-grades: label y n": case(
        "right",
        frame("query item score", ("q1", "a", 0.9), ("q1", "b", 0.8), ("q2", "c", 0.7)),
        frame("query item label", ("q1", "a", "N"), ("q1", "b", "Y"), ("q2", "c", "Y")),
    ),
    "system-column: stack": case(
        "asked",
        frame("stack query item score", *STACKS),
        frame("query item rel", *STACK_GRADES),
        right=OF_STACKS,
    ),
    "system-column: ids of two systems": case(
        "asked",
        frame("stack lookup_ref listing_ref affinity", *STACKS),
        frame("lookup_ref listing_ref verdict", *[(q, i, g > 0) for q, i, g in STACK_GRADES]),
        right=OF_STACKS,
        system="stack",
    ),
    "single-table: clicked yn": case(
        "asked",
        frame("query item score clicked_yn", *[(q, i, s, "NY"[g > 0]) for q, i, s, g in SCORED]),
    ),
    "single-table: job match": case(
        "asked",
        File(
            "m.csv",
            "resume_id,job_id,match_score,shortlisted",
            "r1,j1,87,no",
            "r1,j2,80,yes",
            "r2,j3,91,yes",
            "r2,j1,20,no",
        ),
    ),
    "single-table: question pairs": case(
        "asked",
        frame(
            "id qid1 qid2 is_duplicate cosine",
            (0, 1, 2, 0, 0.9),
            (1, 1, 3, 1, 0.8),
            (2, 1, 4, 0, 0.2),
            (3, 5, 6, 1, 0.95),
            (4, 5, 7, 0, 0.1),
        ).to_pandas(),
    ),
    "single-table: two tables two keys": case(
        "asked",
        frame(
            "match_request_id candidate_id overall_score",
            ("r1", "c1", 90),
            ("r1", "c2", 80),
            ("r2", "c1", 60),
            ("r2", "c4", 50),
        ),
        frame(
            "match_request_id candidate_id outcome",
            ("r1", "c2", "hired"),
            ("r1", "c1", "rejected"),
            ("r2", "c1", "hired"),
        ),
        right=fmean([0.5, 0.5]),
        metrics="P@2",
        fill={"hired": 1, "rejected": 0},
    ),
    "single-table: gold stars": case("asked", frame("query item score gold_stars", *SCORED)),
    "list-column: codes": case(
        "right",
        rows(
            "run_id query_id rank right violation_codes",
            (1, "u1", 1, True, []),
            (1, "u1", 2, False, ["far"]),
            (1, "u2", 1, False, []),
            (1, "u2", 2, True, ["far"]),
        ),
        right=fmean([0.5, 0.5]),
        metrics="P@2",
        rel="right",
    ),
    "list-column: embedding": case(
        "right",
        pl.DataFrame(
            {
                "query": [1, 1, 2, 2],
                "label": [0, 1, 2, 0],
                "features": [[0.1, 0.2], [0.3, 0.1], [0.5, 0.5], [0.0, 0.9]],
                "prediction": [0.9, 0.4, 0.7, 0.1],
            }
        ),
        right=ndcg(([0, 1], [1]), ([2, 0], [2])),
        metrics="nDCG@10",
    ),
    "number-text: percents": case(
        "asked",
        File("r.csv", "query_id,doc_id,similarity", "q1,b,87.5%", "q1,a,9.5%", "q2,c,70%"),
        File("g.csv", "query_id,doc_id,relevance", "q1,a,1", "q2,c,1"),
    ),
    "number-text: decimal commas": case(
        "asked",
        File("r.csv", "query_id;doc_id;score", "q1;a;0,95", "q1;b;0,90", "q2;c;12,5"),
        File("g.csv", "query_id;doc_id;relevance", "q1;b;1", "q2;c;1"),
    ),
    "crash: soft and members": case(
        "asked",
        {"q1": ["a", "b"], "q2": ["d"]},
        MEMBERS,
        query=["query", "pairid"],
        item=["item", "gold"],
    ),
    "crash: no members": case(
        "right",
        {"q1": ["a", "b"], "q2": ["d"]},
        [{"pairid": r["pairid"], "gold": r["gold"]} for r in MEMBERS],
        query=["query", "pairid"],
        item=["item", "gold"],
    ),
    "ids: date and timestamp": case(
        "asked",
        pl.DataFrame(
            {
                "user_id": [1, 1],
                "item_id": pl.Series(["2026-01-05", "2026-01-06"]).str.to_datetime(),
                "pos": [1, 2],
            }
        ),
        pl.DataFrame({"user_id": [1], "item_id": pl.Series(["2026-01-06"]).str.to_date()}),
        right=rr(2),
    ),
    "ids: mixed shapes": case(
        "dead end",
        {
            "popular": frame(
                "subscriber_no episode score", (1, 10, 0.9), (1, 11, 0.8), (2, 12, 0.7)
            ),
            "cooc": pl.DataFrame({"subscriber_no": [1, 2], "picks": [[11, 10], [13, 12]]}),
        },
        frame("subscriber_no episode", (1, 11), (2, 12)),
        right={"popular": rr(2, 1), "cooc": rr(1, 2)},
        query="subscriber_no",
        item=["picks", "episode"],
        rel="1",
    ),
    "ids: mixed usual names": case(
        "right",
        {
            "popular": frame("user item score", (1, 10, 0.9), (1, 11, 0.8), (2, 12, 0.7)),
            "cooc": pl.DataFrame({"user": [1, 2], "items": [[11, 10], [13, 12]]}),
        },
        frame("user item", (1, 11), (2, 12)),
        right={"popular": rr(2, 1), "cooc": rr(1, 2)},
    ),
    "text-grades: evidence role": case(
        "asked",
        rows(
            "case_ref hits",
            ("C1", rows("passage_key affinity", ("P1", 0.9), ("P2", 0.8))),
            ("C2", [{"passage_key": "P1", "affinity": 0.7}]),
        ),
        rows(
            "case_ref evidence",
            ("C1", rows("passage_key role", ("P1", "unrelated"), ("P2", "supports"))),
            ("C2", rows("passage_key role", ("P1", "mentions"), ("P2", "unrelated"))),
        ),
        fill={"unrelated": 0, "mentions": 1, "supports": 2},
        query="case_ref",
        item=["hits", "evidence"],
    ),
    "crash: by a map": case(
        "right",
        rows(
            "graded k map",
            ({"b": 2, "c": 1}, 2, {"a": 0.9, "b": 0.8}),
            ({"d": 1}, 2, {"d": 0.7}),
            ({}, 1, {}),
        ),
        right=(),
        every=True,
        query=["k", "graded"],
        by="map",
    ),
    "crash: groups of a map": case(
        "right",
        rows(
            "pairs results map",
            (
                [["b", 2], ["c", 1]],
                rows(
                    "doc_id chunk_id score relevant",
                    ("a", "a#1", 0.9, False),
                    ("b", "b#1", 0.8, True),
                ),
                {"a": 0.9, "b": 0.8},
            ),
            (
                [["d", 1]],
                [{"doc_id": "d", "chunk_id": "d#1", "score": 0.7, "relevant": True}],
                {"d": 0.7},
            ),
            ([], [], {}),
        ),
        right=(),
        every=True,
        query="map",
        item=["results", "map"],
        groups="any",
    ),
    "text-grades: evidence useful": case(
        "asked",
        rows(
            "case_ref hits",
            ("C1", rows("passage_key affinity", ("P1", 0.9), ("P2", 0.8))),
            ("C2", [{"passage_key": "P1", "affinity": 0.7}]),
        ),
        rows(
            "case_ref evidence",
            ("C1", rows("passage_key useful", ("P1", 0), ("P2", 2))),
            ("C2", rows("passage_key useful", ("P1", 1), ("P2", 0))),
        ),
        query="case_ref",
        item=["hits", "evidence"],
    ),
    "rows-per-k: depth lists": case(
        "asked",
        rows(
            "question depth retrieved_ids relevant_ids",
            *[
                (query, k, ids[:k], gold)
                for query, ids, gold in [
                    ("a", ["x", "y", "z"], ["z"]),
                    ("b", ["m", "n", "o"], ["m"]),
                ]
                for k in (1, 3)
            ],
        ),
        right={"1": fmean([0, 1]), "3": fmean([1, 1])},
        metrics="R@3",
    ),
}


@few(12)(("name", "expected"), [(name, case.verdict) for name, case in CASES.items()])
def test_a_question_ends_in_the_right_call(name, expected, tmp_path):
    found, tried = verdict(CASES[name], tmp_path)
    assert found == expected, tried

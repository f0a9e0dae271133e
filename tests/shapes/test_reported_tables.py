"""Tables of a second set of public issues and files, one of each kind: what a newcomer gets.

The first relevant items are second and first, if nothing else is said. The data are our own.
"""

import numpy as np
import polars as pl

from support.parameters import of_each_kind
from support.questions import File, case, frame, ndcg, rows, rr, verdict

LISTS = {"a": ["x", "y"], "b": ["z", "w"]}
PADDING = {"pad0": 5.0, "pad1": 5.0}
# Amounts: what is bought is relevant, whatever it cost.
SHOWN = frame("user sku score", ("a", "x", 0.9), ("a", "y", 0.8), ("b", "z", 0.7), ("b", "x", 0.6))
BOUGHT = [("a", "y"), ("b", "z")]


def bought(column, *values):
    """The purchases with a number beside each, which is no grade."""
    return case("asked", SHOWN, frame(f"user sku {column}", *map(add, BOUGHT, values)))


def add(row, value):
    return (*row, value)


CASES = {
    "padding: lists": case(
        "noted",
        {"a": {"x": 2.0, "y": 1.0, **PADDING}, "b": {"z": 1.0, **PADDING}},
        {q: {**x, "pad0": -1, "pad1": -1} for q, x in (("a", {"x": 0, "y": 1}), ("b", {"z": 1}))},
        right=(),
        note="-1",
    ),
    "cell-grade: colon": case(
        "noted",
        rows("query retrieved", ("a", ["x", "y"]), ("b", ["z"])),
        File("gold.csv", "query,gold", "a,y:2;w:1", "b,z:1"),
        note="grade",
    ),
    "one-or-list: id": case(
        "asked",
        rows("question retrieved_ids", ("a", ["x", "y"]), ("b", ["z", "w"])),
        rows("question doc_id relevant_doc_ids", ("a", "y", None), ("b", None, ["z"])),
    ),
    "time-key: labels": case(
        "noted",
        frame(
            "user_id timestamp item_id score label",
            (1, 100, 11, 0.9, 0),
            (1, 100, 12, 0.8, 1),
            (1, 200, 13, 0.7, 1),
            (1, 200, 14, 0.6, 0),
        ),
        note="timestamp",
    ),
    "time-key: repeats": case(
        "asked",
        frame(
            "user_id ts item_id score label",
            (1, 100, 11, 0.9, 0),
            (1, 100, 12, 0.8, 1),
            (1, 200, 11, 0.7, 1),
            (1, 200, 12, 0.6, 0),
        ),
    ),
    "derived: fused": case(
        "asked",
        File(
            "diag.jsonl",
            *rows(
                "query sparse_ids dense_ids fused_ids relevant_ids",
                ("a", ["x", "y"], ["y", "x"], ["x", "y"], ["y"]),
                ("b", ["w", "z"], ["z", "w"], ["z", "w"], ["z"]),
            ),
        ),
        right=(rr(2, 1), rr(2, 2), rr(1, 1)),
    ),
    "first-rank: 0": case(
        "asked",
        File("r.csv", "query_id,gold_rank", "1,1", "2,0", "3,3", "4,1"),
        right=rr(1, 0, 3, 1),
    ),
    "first-rank: empty": case(
        "asked", File("r.csv", "query_id,gold_rank", "1,1", "2,3", "3,"), right=rr(1, 3, 0)
    ),
    "groups: passages": case(
        "asked",
        rows(
            "query items needed_passage_groups",
            ("a", ["x", "w"], [["y", "w"], ["v"]]),
            ("b", ["z", "x"], [["z"]]),
        ),
    ),
    "levels: both": case(
        "asked",
        rows(
            "query retrieved_ids retrieved_document_ids expected_chunk_ids expected_document_ids",
            ("a", ["l1", "l2"], ["k1", "k1"], ["l2"], ["k1"]),
            ("b", ["l3", "l4"], ["k2", "k3"], ["l3"], ["k2"]),
        ),
        right=(rr(2, 1), rr(1, 1)),
    ),
    "key-of-two: joined": case(
        "asked",
        rows(
            "query hits gold_pages",
            ("a", rows("doc page", ("d", 1), ("d", 2)), ["d#2"]),
            ("b", rows("doc page", ("e", 3), ("d", 1)), ["e#3"]),
        ),
    ),
    "key-as-system: source": case(
        "asked",
        frame(
            "src dst ts score label",
            *((1, d, 5, s, g) for d, s, g in ((7, 0.9, 0), (8, 0.8, 1))),
            *((1, d, 6, s, g) for d, s, g in ((7, 0.9, 1), (8, 0.8, 0))),
        ),
    ),
    "purchases: units": bought("units", 7, 1),
    "purchases: copies": bought("copies", 2, 30),
    "purchases: price": bought("price_eur", 9.5, 120.0),
    "purchases: date": bought("bought_at", "2026-11-02", "2026-11-03"),
    "numbered: named": case(
        "right",
        frame("query item pos", ("a", "x", 1), ("a", "y", 2), ("b", "z", 1)),
        frame("query id1 id2 id3", ("a", "q", "r", "y"), ("b", "s", "t", "z")),
        item=["item", "id3"],
        rel="1",
    ),
    "id-key: expected": case(
        "asked",
        File("run.jsonl", *rows("id retrieved_ids", ("a", ["x", "y"]), ("b", ["z", "w"]))),
        File(
            "gold.jsonl",
            *rows("id question expected_doc_id", ("a", "What?", "y"), ("b", "Which?", "z")),
        ),
    ),
    "graded: beside ids": case(
        "asked",
        rows(
            "id retrieved_chunk_ids relevance_grades",
            ("a", ["x", "y"], rows("chunk_id score", ("x", 1), ("y", 2))),
            ("b", ["z", "w"], rows("chunk_id score", ("z", 1),)),
        ),
        right=ndcg(([1, 2], [2, 1]), ([1], [1])),
        metrics="nDCG@10",
    ),
    "records: hits": case(
        "asked",
        File(
            "res.json",
            {
                "a": rows("section title bm25", (301, "t", 9.0), (302, "t", 8.0)),
                "b": rows("section title bm25", (303, "t", 9.0)),
            },
        ),
        File("q.json", rows("query relevant_sections kind", ("a", ["302"], 1), ("b", ["303"], 1))),
    ),
    "rows-in-order: grades": case(
        "asked",
        File("judged.csv", "query,result_id,relevance", "a,x,0", "a,y,1", "b,z,1", "b,w,0"),
    ),
    "systems: numbers": case(
        "asked",
        rows(
            "query chunk_size retrieved relevant",
            *((q, n, x, ["y" if q == "a" else "z"]) for n, each in
              ((256, LISTS), (512, {"a": ["y", "x"], "b": ["x", "w"]})) for q, x in each.items()),
        ),
        right={"256": rr(2, 1), "512": rr(1, 0)},
    ),
    "one-truth: array": case("right", np.array([[7, 3], [2, 8], [5, 6]]), np.array([3, 2, 99]),
                             right=rr(2, 1, 0)),
    "one-truth: dict": case("right", LISTS, {"a": "y", "b": "z"}),
    "triples: tails": case(
        "asked",
        frame(
            "head relation tail score",
            *(("ant", "owns", x, y) for x, y in (("tea", 0.95), ("cup", 0.3))),
            *(("ant", "likes", x, y) for x, y in (("tea", 0.9), ("pot", 0.8))),
            *(("bee", "owns", x, y) for x, y in (("cup", 0.9), ("tea", 0.2), ("mug", 0.1))),
        ),
        frame(
            "head relation tail",
            *(("ant", "owns", "cup"), ("ant", "likes", "pot"), ("bee", "owns", "mug")),
        ),
        right=rr(2, 2, 3),
    ),
    "one-table: rare names": case(
        "asked",
        frame(
            "model query_id product_id relevancy score",
            *(("m1", *r) for r in (("a", "x", 0, 0.9), ("a", "y", 1, 0.8), ("b", "z", 1, 0.7))),
            *(("m2", *r) for r in (("a", "x", 0, 0.3), ("a", "y", 1, 0.8), ("b", "z", 1, 0.7))),
        ),
        right={"m1": rr(2, 1), "m2": rr(1, 1)},
    ),
    "half-differ: prediction": case(
        "noted",
        pl.DataFrame(
            [(q, f"d{i}", i + 1, 1.0 - (i if q % 2 else 1 - i) / 10, i)
             for q in range(14) for i in range(2)],
            ["query", "item", "position", "predicted_score", "label"], orient="row",
        ),
        right=(),
        note="predicted_score",
    ),
}  # fmt: skip


@of_each_kind(CASES)
def test_verdict(kind, case, tmp_path):
    found, tried = verdict(CASES[case], tmp_path)
    wanted = CASES[case].verdict
    assert found == wanted or (found == "right" and wanted != "noted"), tried

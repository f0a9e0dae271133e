"""Inputs whose columns and forms nothing here was written for: keys of two columns, values that are
read without a word, lists of other stages and levels, one id per query as the truth.

Each has its right value, worked out where it stands. The share that is read, noted or asked is what
counts: no rule is made for one of them. The data are our own.
"""

import numpy as np
import pandas as pd

from support.parameters import of_each_kind
from support.questions import File, case, frame, ndcg, rows, rr, verdict

# Of each of two openings of the page, the second of two cards was taken, then the first.
TAKEN = (
    ("m1", 7, "k", 0.9, 0),
    ("m1", 7, "l", 0.8, 1),
    ("m1", 9, "k", 0.7, 1),
    ("m1", 9, "l", 0.6, 0),
)
STAMPS = {7: "2026-05-02 08:10:00", 9: "2026-05-02 19:40:00"}
# Lists of two engines with two prompts; y is relevant to a, z to b.
GRID = [
    ("okapi", "short", "a", ["x", "y"]),
    ("okapi", "short", "b", ["z"]),
    ("okapi", "long", "a", ["y", "x"]),
    ("okapi", "long", "b", ["x", "z"]),
    ("dpr", "short", "a", ["x", "w"]),
    ("dpr", "short", "b", ["z", "x"]),
    ("dpr", "long", "a", ["w", "x", "y"]),
    ("dpr", "long", "b", ["z"]),
]
OF_GRID = {
    "okapi, short": rr(2, 1),
    "okapi, long": rr(1, 2),
    "dpr, short": rr(0, 1),
    "dpr, long": rr(3, 1),
}
GOLD = {"a": "y", "b": "z"}
# Two lists, in which y is second and z first; LISTS has them by query.
LISTS = {"a": ["x", "y"], "b": ["z", "x"]}
FOUND = rows("query retrieved", *LISTS.items())
LONG = frame("query item score", ("a", "x", 0.9), ("a", "y", 0.8), ("b", "z", 0.7), ("b", "x", 0.6))


# Each case with its tables, and options of `evaluate`.
CASES = {
    # Keys of two columns. The relevant item is second and then first, if nothing is said.
    "key: opened at": case(
        "",
        frame(
            "member_id opened_at card_id p taken",
            *((m, STAMPS[t], i, s, g) for m, t, i, s, g in TAKEN),
        ),
    ),
    "key: no item twice": case(
        "",
        frame(
            "user_id visit_time item_id score label",
            *((m, t, f"{i}{t}", s, g) for m, t, i, s, g in TAKEN),
        ),
    ),
    "key: branch and week": case(
        "",
        frame(
            "branch week sku yhat",
            ("n", 1, "a", 0.9),
            ("n", 1, "b", 0.8),
            ("n", 2, "b", 0.7),
            ("n", 2, "a", 0.9),
            ("s", 1, "a", 0.3),
        ),
        frame("branch week sku", ("n", 1, "b"), ("n", 2, "a"), ("s", 1, "a")),
        right=rr(2, 1, 1),  # n 1: b second; n 2: a first (.9); s 1: a alone
    ),
    "key: subject and predicate": case(
        "",
        frame(
            "subj pred obj prob",
            ("ant", "eats", "leaf", 0.9),
            ("ant", "eats", "seed", 0.8),
            ("ant", "fears", "bird", 0.9),
            ("bee", "eats", "leaf", 0.4),
        ),
        frame(
            "subj pred obj",
            ("ant", "eats", "seed"),
            ("ant", "fears", "bird"),
            ("bee", "eats", "leaf"),
        ),
        right=rr(2, 1, 1),
    ),
    "key: caller and minute": case(
        "",
        frame(
            "caller callee minute p y",
            (1, 5, 10, 0.9, 0),
            (1, 6, 10, 0.8, 1),
            (1, 5, 20, 0.7, 1),
            (1, 6, 20, 0.6, 0),
            (2, 5, 10, 0.3, 0),
            (2, 7, 10, 0.2, 0),
            (2, 6, 10, 0.1, 1),
        ),
        right=rr(2, 1, 3),
    ),
    "key: question and language": case(
        "",
        frame(
            "question_id language passage_id rank",
            (1, "en", "a", 1),
            (1, "en", "b", 2),
            (1, "fi", "a", 1),
            (1, "fi", "b", 2),
        ),
        frame("question_id language passage_id", (1, "en", "b"), (1, "fi", "a")),
    ),
    # Settings.
    "settings: lists": case(
        "",
        rows(
            "engine prompt query retrieved relevant",
            *((e, p, q, x, [GOLD[q]]) for e, p, q, x in GRID),
        ),
        right=OF_GRID,
    ),
    "settings: rows": case(
        "",
        frame(
            "engine prompt query doc_id rank",
            *((e, p, q, d, k + 1) for e, p, q, x in GRID for k, d in enumerate(x)),
        ),
        frame("query doc_id", *GOLD.items()),
        right=OF_GRID,
    ),
    "settings: temperature": case(
        "",
        rows(
            "temperature query retrieved relevant",
            *(
                (0.2 if p == "short" else 0.7, q, x, [GOLD[q]])
                for e, p, q, x in GRID
                if e == "okapi"
            ),
        ),
        right={"0.2": rr(2, 1), "0.7": rr(1, 2)},
    ),
    "settings: ranks": case(
        "",
        frame(
            "stage rewritten question gold_rank",
            ("one", "yes", "how", 2),
            ("one", "yes", "who", 1),
            ("one", "no", "how", 1),
            ("one", "no", "who", 4),
            ("two", "yes", "how", 1),
            ("two", "yes", "who", 1),
            ("two", "no", "how", 3),
            ("two", "no", "who", 1),
        ),
        right={
            "one, yes": rr(2, 1),
            "one, no": rr(1, 4),
            "two, yes": rr(1, 1),
            "two, no": rr(3, 1),
        },
    ),
    # Read without a word.
    "cell: brackets": case(
        "",
        FOUND,
        File("g.csv", "query,gold", "a,y(2);w(1)", "b,z(3)"),
        right=ndcg(([0, 2], [2, 1]), ([3], [3])),
        metrics="nDCG",
    ),
    "cell: blank": case(
        "",
        FOUND,
        File("g.csv", "query,gold", "a,y 2;w 1", "b,z 3"),
        right=ndcg(([0, 2], [2, 1]), ([3], [3])),
        metrics="nDCG",
    ),
    "cell: some": case(
        "",
        FOUND,
        File("g.csv", "query,gold", "a,y:2;w", "b,z"),
        right=ndcg(([0, 2], [2, 1]), ([1], [1])),
        metrics="nDCG",
    ),
    "found: hits": case(
        "",
        rows(
            "query hits_found candidates expected",
            ("a", ["y"], ["x", "y"], ["y", "w"]),
            ("b", ["z", "k"], ["k", "z"], ["z", "k"]),
            ("c", [], ["x"], ["v"]),
        ),
        right=rr(2, 1, 0),
    ),
    "one or more: table": case(
        "",
        LONG,
        pd.DataFrame(
            {"query": ["a", "b"], "main_item": ["y", None], "item_list": [None, ["z", "w"]]}
        ),
    ),
    "orders: as the truth": case(
        "",
        rows("query mine", ("a", ["x", "y", "v"]), ("b", ["z", "x", "k"])),
        rows("query theirs", ("a", ["y", "x", "v"]), ("b", ["x", "k", "z"])),
        right=(),
        note="order",
    ),
    "orders: as rows": case(
        "",
        frame("query item rank", ("a", "x", 1), ("a", "y", 2), ("b", "z", 1), ("b", "x", 2)),
        frame("query item", ("a", "y"), ("a", "x"), ("b", "x"), ("b", "z")),
        right=(),
        note="order",
    ),
    # Offered, and wrong.
    "stages: fused beside parts": case(
        "",
        rows(
            "q needed lexical_ids semantic_ids merged_ids",
            ("a", ["y"], ["x", "y"], ["y", "x"], ["y", "x"]),
            ("b", ["z"], ["w", "z"], ["x", "w", "z"], ["w", "x", "z"]),
        ),
        right=(rr(2, 2), rr(1, 3), rr(1, 3)),
    ),
    "levels: law and article": case(
        "",
        rows(
            "ask found",
            ("a", rows("law article", ("L", "L-1"), ("L", "L-2"))),
            ("b", rows("law article", ("M", "M-1"), ("M", "M-3"))),
        ),
        rows("ask expected_law expected_article", ("a", "L", "L-2"), ("b", "M", "M-1")),
        right=(rr(2, 1), rr(1, 1)),
        every=True,
    ),
    "two parts: flat": case(
        "",
        frame(
            "qid source doc_no score",
            ("a", "wiki", 3, 0.9),
            ("a", "blog", 3, 0.8),
            ("b", "wiki", 4, 0.7),
        ),
        frame("qid source doc_no", ("a", "blog", 3), ("b", "wiki", 4)),
    ),
    "ranks: two annotators": case(
        "",
        frame(
            "query_id photo_no rank rater_one rater_two",
            ("a", 11, 1, 0, 0),
            ("a", 12, 2, 2, 1),
            ("b", 13, 1, 1, 1),
            ("b", 14, 2, 0, 2),
            ("c", 15, 1, 0, 0),
            ("c", 16, 2, 0, 0),
            ("c", 17, 3, 1, 1),
        ),
        right=rr(2, 1, 3),
    ),
    "split: blanks": case(
        "",
        File("e.csv", "query,expected,returned", "a,y,x; y", "b,z; v,z; x"),
        right=rr(2, 1),
    ),
    "split: bars": case(
        "",
        File("e.csv", "ask,wanted_docs,shown_docs", "a,y | v,x | y", "b,z,z | x"),
        right=rr(2, 1),
    ),
    "parts: easy and hard": case(
        "",
        File(
            "r.json",
            {
                "easy": rows("query retrieved relevant", ("a", ["x", "y"], ["y"])),
                "hard": rows("query retrieved relevant", ("b", ["z"], ["z"]), ("c", ["x"], ["v"])),
            },
        ),
        right=({"easy": rr(2), "hard": rr(1, 0)}, rr(2, 1, 0)),
    ),
    "no answer: rank": case(
        "",
        rows("ask wanted rank", ("a", "y", 2), ("b", "z", 1), ("c", "v", None), ("d", "", None)),
        right=rr(2, 1, 0),
        note="wanted",
    ),
    "ranges: offsets": case(
        "",
        rows(
            "ask cited gold",
            (
                "a",
                rows("file offsets", ("f", [30, 44]), ("f", [8, 20])),
                rows("file offsets", ("f", [5, 9])),
            ),
            ("b", rows("file offsets", ("g", [0, 9])), rows("file offsets", ("g", [0, 7]))),
        ),
        clear="(?i)overlap|span=",
    ),
    # One id per query as the truth.
    "truth: columns": case(
        "",
        np.array([[0.9, 0.3, 0.5], [0.2, 0.3, 0.5], [0.1, 0.6, 0.4]]),
        [2, 0, 1],
        right=rr(2, 3, 1),
    ),
    "truth: text list": case(
        "", [["x", "y"], ["z", "x"], ["k"]], ["y", "z", "v"], right=rr(2, 1, 0)
    ),
    "truth: numbers": case("", [[17, 31], [52, 17], [90, 4]], [31, 52, 77], right=rr(2, 1, 0)),
    # More of these kinds.
    "key: lists of a user": case(
        "",
        rows(
            "shopper at shown bought",
            ("u", "08:10", ["x", "y"], ["y"]),
            ("u", "19:40", ["z", "x"], ["z"]),
            ("v", "08:10", ["x"], ["k"]),
        ),
        right=rr(2, 1, 0),
    ),
    "key: dates in both": case(
        "",
        frame(
            "customer_id basket_date product_id score",
            ("c", "2026-01-02", 1, 0.9),
            ("c", "2026-01-02", 2, 0.8),
            ("c", "2026-01-09", 2, 0.9),
            ("c", "2026-01-09", 1, 0.8),
        ),
        frame("customer_id basket_date product_id", ("c", "2026-01-02", 2), ("c", "2026-01-09", 2)),
    ),
    "settings: alpha": case(
        "",
        frame(
            "query_id alpha doc_id score",
            ("a", 0.3, "x", 0.9),
            ("a", 0.3, "y", 0.8),
            ("b", 0.3, "z", 0.9),
            ("a", 0.6, "y", 0.9),
            ("a", 0.6, "x", 0.8),
            ("b", 0.6, "x", 0.9),
            ("b", 0.6, "z", 0.5),
        ),
        frame("query_id doc_id", *GOLD.items()),
        right={"0.3": rr(2, 1), "0.6": rr(1, 2)},
    ),
    "settings: scores of three": case(
        "",
        frame(
            "index reranked query_id doc_id score",
            *((e, p == "long", q, d, 1 / (k + 1)) for e, p, q, x in GRID for k, d in enumerate(x)),
        ),
        frame("query_id doc_id", *GOLD.items()),
        right={
            "okapi, false": rr(2, 1),
            "okapi, true": rr(1, 2),
            "dpr, false": rr(0, 1),
            "dpr, true": rr(3, 1),
        },
    ),
    "cell: ids of a dict": case(
        "",
        LISTS,
        {"a": ["y:2", "w:1"], "b": ["z:3"]},
        right=ndcg(([0, 2], [2, 1]), ([3], [3])),
        metrics="nDCG",
    ),
    "one or more: csv": case(
        "", FOUND, File("g.csv", "query,relevant_doc,relevant_docs", "a,y,", "b,,z;w")
    ),
    "one or more: three rows": case(
        "",
        rows("query retrieved", ("a", ["x", "y"]), ("b", ["z", "x"]), ("c", ["v", "k"])),
        [
            {"query": "a", "passage": "y"},
            {"query": "b", "passages": ["z", "w"]},
            {"query": "c", "passage": "k"},
        ],
        right=rr(2, 1, 2),
    ),
    "flags: two levels of gold": case(
        "",
        rows(
            "query must_have nice_to_have top",
            ("a", ["w"], ["y"], rows("key hit", ("x", False), ("y", True))),
            ("b", ["z"], ["z", "x"], rows("key hit", ("z", True), ("k", False))),
        ),
        right=(rr(0, 1), rr(2, 1)),
        every=True,
    ),
    "ranks: nothing is -1 and 0": case(
        "",
        frame("ask first_correct", ("a", 0), ("b", 2), ("c", -1), ("d", 0), ("e", 1)),
        right=rr(1, 3, 0, 1, 2),
    ),
    "truth: array beside lists": case(
        "",
        np.array([[17, 31], [52, 17], [90, 4]]),
        np.array([31, 52, 77]),
        right=rr(2, 1, 0),
    ),
    "truth: series of columns": case(
        "",
        pd.DataFrame([[0.9, 0.3, 0.5], [0.2, 0.3, 0.5]]),
        pd.Series([2, 1]),
        right=rr(2, 2),
    ),
}

# What is not read, noted or asked first, with the verdict on it; all others are.
OPEN = {
    "silent": ["cell: blank", "cell: ids of a dict"],
    "misled": ["ranges: offsets"],
    "dead end": ["key: subject and predicate", "ranks: two annotators"],
}


@of_each_kind(CASES)
def test_verdict(kind, case, tmp_path):
    expected = [verdict for verdict, names in OPEN.items() if case in names]
    found, tried = verdict(CASES[case], tmp_path)
    assert found in (expected or ["right", "noted", "asked"]), tried

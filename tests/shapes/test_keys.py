"""What tells rows apart beside the query: times, keys of two columns, ranks of first hits."""

from datetime import datetime

import polars as pl
import pytest

import rankql
from support.reading import asked


def rows(time, *requests, items=None):
    """A row per request and item, of one user: the item, its score and its label."""
    return pl.DataFrame(
        [
            (7, at, item if items is None else items[n][i], score, label)
            for n, (at, ranking) in enumerate(requests)
            for i, (item, score, label) in enumerate(ranking)
        ],
        ["user_id", time, "item_id", "score", "label"],
        orient="row",
    )


# The second item is relevant, then the first: RR 3/4; as one ranking it is 1/2.
FIRST, SECOND = [("a", 0.9, 0), ("b", 0.8, 1)], [("c", 0.7, 1), ("d", 0.6, 0)]
TIMES = {
    "ts": (1735689600, 1735693200),
    "event_time": ("2026-03-01 10:00", "2026-03-01 11:00"),
    "served": (pl.date(2026, 3, 1), pl.date(2026, 3, 2)),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ts", pl.Int64), ("timestamp", pl.Int64), ("request_time", pl.Int64), ("date", pl.Date)],
)
def test_a_time_of_rankings_is_noted_where_no_item_repeats(name, kind):
    table = rows(name, (100, FIRST), (200, SECOND)).cast({name: kind})
    result = rankql.evaluate(table, metrics="RR")
    (note,) = (x for x in result.notes if name in x)
    assert result["RR"] == 0.5 and f"query=['user_id', '{name}']" in note
    assert rankql.evaluate(table, metrics="RR", query=["user_id", name])["RR"] == 0.75


@pytest.mark.parametrize(
    "table",
    [
        # Each item has a time of its own.
        rows("timestamp", *((n, [x]) for n, x in enumerate([*FIRST, *SECOND]))),
        # The second request has no relevant item, nor the third.
        rows("timestamp", (1, FIRST), (2, [("c", 0.7, 0), ("d", 0.6, 0)]), (3, [("e", 0.1, 0)])),
        # One time per query.
        pl.concat([rows("timestamp", (1, FIRST)), rows("timestamp", (2, SECOND)).with_columns(
            user_id=pl.lit(8, pl.Int64))]),
        # A brand and a day without a name of times are properties of items.
        rows("brand", (1, FIRST), (2, SECOND)),
        rows("made", (1, FIRST), (2, SECOND)).cast({"made": pl.Datetime}),
        # The time of an item is the same in every query.
        pl.concat([rows("time", (1, FIRST), (2, SECOND)).with_columns(user_id=pl.lit(n))
                   for n in range(3)]),
    ],
)  # fmt: skip
def test_other_times_are_no_keys(table):
    assert not any("of its own" in x for x in rankql.evaluate(table, metrics="RR").notes)


@pytest.mark.parametrize("kind", [int, pl.Datetime, pl.Date])
def test_a_time_is_offered_as_a_part_of_the_key_where_items_repeat(kind):
    table = rows("served_at", (1735689600, FIRST), (1735776000, SECOND), items=["ab", "ab"])
    if kind is not int:
        table = table.with_columns(pl.from_epoch("served_at").cast(kind))
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(table, metrics="RR")
    call = error.value.remedies[0] if not hasattr(error.value, "calls") else error.value.calls[0]
    assert call == {"query": ["user_id", "served_at"]}
    assert rankql.evaluate(table, metrics="RR", **call)["RR"] == 0.75


def test_numbers_of_chunks_are_no_part_of_the_key():
    """A document has several chunks, numbered from 0 or 1: its best one counts."""
    for first in (0, 1):
        table = pl.DataFrame(
            [("q", n + first, x, s, r) for n in (0, 1) for x, s, r in FIRST],
            ["query", "chunk_index", "item", "score", "rel"], orient="row",
        )  # fmt: skip
        with pytest.raises(rankql.RankqlError) as error:
            rankql.evaluate(table, metrics="RR")
        assert "collapse" in error.value.calls[0]


GRID = [
    (heat, style, query, ids)
    for heat, style, a, b in (
        (0.5, "short", ["x", "y"], ["z"]), (0.5, "long", ["y", "x"], ["x", "z"]),
        (0.7, "short", ["x", "w"], ["z", "x"]), (0.7, "long", ["w", "x", "y"], ["z"]),
    )
    for query, ids in (("a", a), ("b", b))
]  # fmt: skip
OF_GRID = {"0.5, short": 0.75, "0.5, long": 0.75, "0.7, short": 0.5, "0.7, long": 2 / 3}


@pytest.mark.parametrize("form", ["lists", "items", "ranks"])
def test_two_settings_are_the_systems(form):
    """y is relevant to a, and z to b. Fractions are systems by their text."""
    gold, qrels = {"a": "y", "b": "z"}, None
    if form == "lists":
        run = [{"heat": h, "style": s, "query": q, "retrieved": ids, "relevant": [gold[q]]}
               for h, s, q, ids in GRID]  # fmt: skip
    elif form == "items":
        rows = [(h, s, q, x, n) for h, s, q, ids in GRID for n, x in enumerate(ids, 1)]
        run = pl.DataFrame(rows, ["heat", "style", "query", "item", "rank"], orient="row")
        qrels = pl.DataFrame({"query": [*gold], "item": [*gold.values()]})
    else:
        rows = [(h, s, q, ids.index(gold[q]) + 1 if gold[q] in ids else None)
                for h, s, q, ids in GRID]  # fmt: skip
        run = pl.DataFrame(rows, ["heat", "style", "query", "gold_rank"], orient="row")
    call = {"query": "query"} if form != "ranks" else {"query": "query", "rel": "1"}
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(run, qrels, "RR", **call, pos="gold_rank" if form == "ranks" else None)
    remedy = (getattr(error.value, "calls", None) or error.value.remedies)[0]
    assert remedy["system"] == ["CAST(heat AS VARCHAR)", "style"]
    named = {**call, "system": remedy["system"]} | ({"pos": "gold_rank"} if form == "ranks" else {})
    means = rankql.evaluate(run, qrels, "RR", **named).summary
    assert dict(means.select("system", "mean").iter_rows()) == pytest.approx(OF_GRID)


@pytest.mark.slow
def test_what_the_judgments_have_too_is_part_of_a_key():
    """Of the queries where rankings repeat, of the items where a query has several of one name."""
    run = pl.DataFrame(
        [("c", day, x, s) for day in ("mon", "tue") for x, s in ((1, 0.9), (2, 0.8))],
        ["customer_id", "shift", "product_id", "score"], orient="row",
    )  # fmt: skip
    judged = pl.DataFrame({"customer_id": "c", "shift": ["mon", "tue"], "product_id": [2, 1]})
    question = asked(run, judged)
    assert question.calls[0] == {"query": ["customer_id", "shift"]}
    assert rankql.evaluate(run, judged, "RR", **question.calls[0])["RR"] == 0.75
    pages = pl.DataFrame({"query": ["a", "a", "b"], "site": ["n", "s", "n"], "page_no": [1, 1, 2],
                          "item": ["1", "1", "2"], "score": [0.9, 0.8, 0.7]})  # fmt: skip
    gold = pages[1:].select("query", "site", "item")
    question = asked(pages.drop("page_no"), gold)
    assert question.calls[0] == {"item": "site, item"}
    assert rankql.evaluate(pages.drop("page_no"), gold, "RR", **question.calls[0])["RR"] == 0.75


def test_two_columns_may_be_the_key_of_unknown_names():
    """The right tail is first, second and third."""
    table = pl.DataFrame(
        [
            (src, ts, dst, 1.0 - place / 10, int(place == right))
            for src, ts, right in ((1, 100, 1), (1, 200, 0), (2, 100, 2))
            for place, dst in enumerate((10, 11, 12))
        ],
        ["src", "ts", "dst", "score", "label"], orient="row",
    )  # fmt: skip
    question = asked(table)
    call = question.calls[0]
    assert call == {"query": ["src", "ts"], "item": "dst"}
    value = rankql.evaluate(table, metrics="RR", **call)["RR"]
    assert value == pytest.approx((1 / 2 + 1 + 1 / 3) / 3)


@pytest.mark.parametrize(
    ("ranks", "calls", "value"),
    [
        ([1, 3, 0, 2], ["nullif(gold_rank, 0)", "gold_rank + 1"], (1 + 1 / 3 + 0 + 1 / 2) / 4),
        ([0, 2, 0, 1], ["gold_rank + 1", "nullif(gold_rank, 0)"], (1 + 1 / 3 + 1 + 1 / 2) / 4),
        ([1, -1, 2, 4], ["nullif(gold_rank, -1)"], (1 + 0 + 1 / 2 + 1 / 4) / 4),
        ([0, -1, 1, 3], ["nullif(gold_rank, -1) + 1"], (1 + 0 + 1 / 2 + 1 / 4) / 4),
        ([1, 3, None, 2], ["gold_rank"], (1 + 1 / 3 + 0 + 1 / 2) / 4),
    ],
)
@pytest.mark.parametrize("file", [True, False])
def test_first_ranks_of_which_a_number_says_no_hit(ranks, calls, value, file, tmp_path):
    table = pl.DataFrame({"query_id": [*"abcd"], "gold_rank": ranks})
    if file:
        table.write_csv(path := tmp_path / "ranks.csv")
        table = str(path)
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(table, metrics="RR")
    offered = [x["pos"] for x in error.value.calls if "pos" in x]
    assert offered == calls
    assert rankql.evaluate(table, metrics="RR", rel="1", pos=calls[0])["RR"] == pytest.approx(value)


def test_numbers_of_places_and_minus_one_are_ranks_whatever_they_are_called():
    table = pl.DataFrame({"asked": [*"abcd"], "found": [0, -1, 1, 3]})
    call = {"query": "asked", "rel": "1", "pos": "nullif(found, -1) + 1"}
    assert asked(table).calls[0] == call
    for name, values in (
        ("found", [0, -1, 1, 0]),
        ("found", [3, -1, 7, 2]),
        ("profit", [0, -1, 1, 3]),
    ):
        other = pl.DataFrame({"asked": [*"abcd"], name: values})
        assert not any("pos" in x for x in asked(other).calls)


@pytest.mark.parametrize("name", ["chunk_size", "approach_no", "setting"])
def test_a_column_of_which_each_value_has_all_queries_is_offered_as_the_system(name):
    """Numbers too: two rows per question, of which the second has nothing on top."""
    values = ["a", "b"] if name == "setting" else [256, 512]
    rows = [
        {"query": q, name: value, "retrieved": order(["x", "y"]), "relevant": ["x"]}
        for q in ("tea", "jug", "mug")
        for value, order in zip(values, (list, lambda x: x[::-1]), strict=True)
    ]
    question = asked(pl.DataFrame(rows))
    assert question.calls[0] == {"system": name}
    means = rankql.evaluate(pl.DataFrame(rows), metrics="RR", **question.calls[0]).summary["mean"]
    assert means.to_list() == [1.0, 0.5]


def test_a_column_with_other_values_in_each_query_is_a_part_of_the_key():
    rows = [
        {"query": q, "visit": 10 * n + i, "retrieved": ["x", "y"], "relevant": [gold]}
        for n, q in enumerate(("tea", "jug", "mug"))
        for i, gold in enumerate("xy")
        for _ in (1,)
    ]
    table = pl.DataFrame(rows)
    with pytest.raises(rankql.RankqlError, match="several rows for query") as error:
        rankql.evaluate(table, metrics="RR")
    assert {"system": "visit"} not in getattr(error.value, "calls", [])


def test_a_numbered_column_that_the_caller_names_is_no_place_of_a_list():
    run = {1: [12, 3, 15], 2: [4, 11]}
    gold = pl.DataFrame(
        [(1, 1, 5, 12), (1, 1, 6, 15), (2, 2, 7, 11)], ["user_id", "id1", "id2", "id3"],
        orient="row",
    )  # fmt: skip
    value = rankql.evaluate(run, gold, "R@2", item="id3", rel="1")["R@2"]
    assert value == pytest.approx((1 / 2 + 1) / 2)
    note = "id1 to id3 are read as one list of ids"
    assert any(note in x for x in rankql.evaluate(run, gold, "R@2").notes)


@pytest.mark.parametrize(("one", "many"), [("answer_id", "answer_ids"), ("gold", "expected_ids")])
def test_one_id_where_a_list_is_null_is_offered_with_the_list(one, many):
    """y is second; z is first."""
    run = pl.DataFrame({"query": [*"ab"], "retrieved": [["x", "y"], ["z", "x"]]})
    gold = pl.DataFrame({"query": [*"ab"], one: ["y", None], many: [None, ["z", "w"]]})
    question = asked(run, gold)
    call = question.calls[0]
    assert call == {"item": ["retrieved", f"coalesce({many}, [{one}])"]}
    assert rankql.evaluate(run, gold, "RR", **call)["RR"] == 0.75
    both = gold.with_columns(pl.Series(many, [["y"], ["z", "w"]]))
    assert rankql.evaluate(run, both, "RR")["RR"] == 0.75


def test_lists_of_lists_of_unknown_names_are_groups_of_alternatives():
    """One of each inner list suffices: y or w, and v; z. Pairs are parts of a key still."""
    rows = pl.DataFrame({"query": [*"ab"], "items": [["x", "w"], ["z", "x"]],
                         "needed": [[["y", "w"], ["v"]], [["z"]]]})  # fmt: skip
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(rows, metrics="STREC@2")
    call = {"item": ["items", "needed"], "groups": "any"}
    assert error.value.calls == [call]
    value = rankql.evaluate(rows, metrics="STREC@2", **call)["STREC@2"]
    assert value == pytest.approx((1 / 2 + 1) / 2)
    pairs = rows.with_columns(
        needed=pl.Series([[["x", "w"], ["w", "p"]], [["z", "q"], ["x", "r"]]])
    )
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(pairs, metrics="RR")
    assert not any("groups" in x for x in error.value.calls)


def test_what_two_lists_have_in_common_is_not_offered_before_the_judgments():
    """joined_only_relevant is what joined_ids and relevant_ids have in common."""
    rows = pl.DataFrame({
        "query": [*"abc"],
        "relevant_ids": [["y"], ["z"], ["v"]],
        "text_ids": [["x", "y"], ["w", "x", "z"], ["v", "x"]],
        "joined_ids": [["y", "x"], ["x", "z", "w"], ["v", "w"]],
        "joined_only_relevant": [[], ["z"], ["v"]],
    })  # fmt: skip
    question = asked(rows)
    assert question.calls[0]["item"][1] == "relevant_ids"


@pytest.mark.parametrize(("differ", "noted"), [(0, False), (1, False), (3, True), (8, True)])
def test_a_prediction_beside_a_logged_place_is_noted_from_a_tenth_of_the_queries_on(differ, noted):
    rows = [
        (q, item, place, score if q < differ else 1 - score, rel)
        for q in range(12)
        for item, place, score, rel in (("a", 1, 0.2, 0), ("b", 2, 0.9, 1))
    ]
    names = ["qid", "doc_id", "position", "predicted_score", "label"]
    table = pl.DataFrame(rows, names, orient="row")
    result = rankql.evaluate(table, metrics="RR")
    assert result["RR"] == 0.5
    assert any("pass score='predicted_score'" in x for x in result.notes) is noted
    equal = table.with_columns(predicted_score=pl.lit(0.5))
    assert not any("another way" in x for x in rankql.evaluate(equal, metrics="RR").notes)


def test_one_id_per_query_is_its_only_relevant_item():
    """oat is second, fig first, and jug nowhere."""
    run = {"a": ["pea", "oat"], "b": ["fig", "nut"], "c": ["pot"]}
    truth = {"a": "oat", "b": "fig", "c": "jug"}
    expected = rankql.evaluate(run, {q: [x] for q, x in truth.items()}, "RR")["RR"]
    assert rankql.evaluate(run, truth, "RR")["RR"] == expected == 0.5
    with pytest.raises(rankql.RankqlError):  # which may be grades
        rankql.evaluate(run, {"a": 3, "b": 1}, "RR")


RANKS = {
    "one name": ("query_id,rank\n1,1\n2,3\n3,0\n4,2\n", (1 + 1 / 3 + 0 + 1 / 2) / 4),
    "topics that repeat": (
        "id,topic,hit,rank\n1,t,1,1\n2,t,1,3\n3,u,0,0\n4,u,1,2\n", (1 + 1 / 3 + 0 + 1 / 2) / 4,
    ),
    # The last has no answer, and the third is not found.
    "no answer": ("query,expected,rank\na,y,2\nb,z,1\nc,v,\nd,,\n", (1 / 2 + 1 + 0) / 3),
    "all have an answer": ("query,expected,rank\na,y,2\nb,z,1\nc,v,\nd,w,\n", (1 / 2 + 1) / 4),
}  # fmt: skip


@pytest.mark.parametrize("name", RANKS)
def test_ranks_of_first_hits_have_a_row_per_query_with_an_answer(name, tmp_path):
    text, value = RANKS[name]
    path = tmp_path / "ranks.csv"
    path.write_text(text)
    with pytest.raises(rankql.RankqlError, match="the rank of the first hit of each") as error:
        rankql.evaluate(path, metrics="RR")
    call = (getattr(error.value, "calls", None) or error.value.remedies)[0]
    assert rankql.evaluate(path, metrics="RR", **call)["RR"] == pytest.approx(value)


def test_several_rows_of_a_query_without_anything_else_have_a_row_of_the_page():
    rows = [{"ask": "a", "found": [x], "wanted": ["x"], "query": "a"} for x in "xy"]
    with pytest.raises(rankql.RankqlError, match=r"number the rows .*by-hand\.md#trials$"):
        rankql.evaluate(rows, metrics="RR", item=["found", "wanted"], query="ask")
    numbered = [{**x, "run_no": n} for n, x in enumerate(rows)]
    call = {"query": ["ask", "run_no"], "by": "ask", "mean": "slices"}
    assert rankql.evaluate(numbered, metrics="RR", item=["found", "wanted"], **call)["RR"] == 0.5


def test_flags_are_no_part_of_a_key_and_two_columns_come_before_a_system():
    """Where a table has its own grades, a shop and its week are more often the key."""
    rows = [
        (f"s{shop}", week, f"p{(7 * shop + 5 * week + 3 * n) % 11}", 9.0 - n, int(n == shop % 3))
        for shop in range(6)
        for week in (31, 32, 33)
        for n in range(4)
    ]
    table = pl.DataFrame(rows, ["shop", "nth", "product", "fit", "bought"], orient="row")
    first = {"query": ["shop", "nth"], "rel": "bought", "score": "fit"}
    assert first.items() <= asked(table).calls[0].items()
    assert not any("bought" in str(x.get("query")) for x in asked(table).calls)


def test_the_time_of_an_item_is_no_part_of_the_key():
    rows = [
        (f"q{q}", f"d{d}", 1 - 0.1 * n, int((q * d) % 3 == 1), datetime(2026, 5, 1 + d % 3))
        for q in range(8)
        for n, d in enumerate((q * 5 + j * 7) % 20 for j in range(6))
    ]
    table = pl.DataFrame(rows, ["asked_by", "sheet", "fit", "mark", "crawled"], orient="row")
    assert not any("crawled" in str(x) for x in asked(table).calls)

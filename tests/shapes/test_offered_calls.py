"""What a call that is offered computes: the right value is among them, and a wrong one is not.

Next to each shape stands an ordinary one that is read as it is.
"""

import json
import re
from math import log2

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rankql
from rankql.core.base.errors import as_arguments
from rankql.core.tables import frames, reading
from rankql.shapes.ask import answers
from rankql.shapes.ask.trials import TRIED
from support.parameters import few, of_each_kind
from support.reading import asked, assert_offered, assert_read, read, refused


def rows(gold, retrieved):
    """Rows of two questions with objects: a list per question."""
    return [
        {"question": f"q{i}", "gold": one, "retrieved": other}
        for i, (one, other) in enumerate(zip(gold, retrieved, strict=True))
    ]


def objects(*fields):
    """How to write lists of tuples as lists of objects."""
    return lambda lists: [[dict(zip(fields, x, strict=True)) for x in each] for each in lists]


def beside(name, values, retrieved=(["c3", "c1"], ["d1", "d2"]), relevant=(["c1", "c2"], ["d2"])):
    """Rows with both lists, and another column."""
    return [
        {"query": f"q{i}", "retrieved_ids": one, "relevant_ids": other, name: value}
        for i, (one, other, value) in enumerate(zip(retrieved, relevant, values, strict=True))
    ]


RUN = pl.DataFrame(
    {"query": ["a"] * 3 + ["b"] * 3, "item": [*"xyzxuv"], "score": [9, 5, 1, 8, 3, 2]}
)


def judged(name, values, ids=((*"aabb",), (*"yzuw",))):
    return pl.DataFrame({"query": ids[0], "item": ids[1], name: values})


def many(low, step, n=14):
    """Judgments with n different numbers."""
    ids = ["a"] * (n // 2) + ["b"] * (n - n // 2), [*"yztrefguwklmno"][:n]
    return judged("wert", [low + step * i for i in range(n)], ids)


def hits(**columns):
    return [{"q": q, **{x: values[n] for x, values in columns.items()}}
            for n, q in enumerate("ab")]  # fmt: skip


def pairs(gold, retrieved):
    return [{"q": f"q{i}", "retrieved": y, "gold": x}
            for i, (x, y) in enumerate(zip(gold, retrieved, strict=True))]  # fmt: skip


PAGES = ([[("k", 30, 4.4)], [("m", 3, 2.1)]],
         [[("z", 30, 9.0), ("k", 12, 1.0)], [("m", 3, 2.1), ("n", 8, 1.0)]])  # fmt: skip
CLAUSES, GAINS = (rows(*map(objects("doc_id", "page", name), PAGES)) for name in ("clause", "gain"))
# The line alone would match another file.
LINES = ([[("a.py", 10)], [("c.py", 7)]],
         [[("b.py", 10), ("a.py", 40), ("a.py", 7)], [("c.py", 7), ("a.py", 1)]])  # fmt: skip
IN_ROWS = [
    pl.DataFrame([(f"q{i}", *x) for i, each in enumerate(side) for x in each],
                 schema=["question", "path", "start_line"], orient="row") for side in LINES
]  # fmt: skip
GRADES = [{"c1": 3, "c2": 1}, {"d2": 2}]
# nDCG of both questions: grade 3 at 2 of the ideal 3, 1; and grade 2 at 2.
GRADED = (3 / log2(3) / (3 + 1 / log2(3)) + 1 / log2(3)) / 2
PLAIN = (1 / log2(3) / (1 + 1 / log2(3)) + 1 / log2(3)) / 2
# nDCG of two judged items each, at 2 and 3, and at 2.
JUDGED = (2 / log2(3) + 1 / 2) / (1 + 1 / log2(3)) / 2
TURNS = [{"Conversation_no": 1, "Turn_no": i} for i in (1, 2)]
PASSAGES = [{"p1": 0.9, "p2": 0.5}, {"p3": 0.9, "p4": 0.5}]
TRUTH = [{**x, "Truth_passages": y} for x, y in zip(TURNS, (["p2"], ["p3"]), strict=True)]
META = pl.DataFrame({
    "query": ["a", "a"], "item": ["x", "y"],
    "meta": [{"wert": 0.1, "cost": None}, {"wert": 0.9, "cost": 2.0}],
})  # fmt: skip
WERT = META.with_columns(meta=pl.struct(pl.col("meta").struct.field("wert")))
COLLAPSED = "{{'item': ['{0}', '{1}'], 'collapse': '{0}'}}".format
PAIR = "{{'item': ['{0}', '{1}']}}".format
HIT = "{'rel': '1'}"
KEYED = pairs([[["d1", 5]], [["d2", 3]]], [[["d3", 2], ["d1", 2], ["d1", 5]], [["d2", 3]]])
AS_KEY = "list_transform({}, lambda x: x[1] || ', ' || x[2])".format
RANKING = [{"qid": "a", "ranking": ["x", "y"], "relevance": {"y": 2, "z": 1}},
           {"qid": "b", "ranking": ["u", "v"], "relevance": {"u": 1}}]  # fmt: skip
NDCG, NDCG_10 = {"metrics": "nDCG"}, {"metrics": "nDCG@10"}

# The run, the judgments and the options; of each offered call a part of its text, and the value.
OFFERED = {
    **{f"a grade leaves the rest of the key open: {options}": (
        CLAUSES, None, options, [("page", 0.5), ("", 0.75)]) for options in ({}, {"rel": "1"})},
    **{f"a grade that names a field leaves the others open: {name}": (
        GAINS, None, {"rel": name}, [("", 0.5), ("", 0.75)]) for name in ("gain", "gold.gain")},
    **{f"a place is offered with what it is in: {place}": (
        rows(*([[{"path": x, place: kind(y)} for x, y in each] for each in side]
               for side in LINES)), None, {}, [(f"path, {place}", 0.5)])
       for place, kind in (("start_line", int), ("span", str))},
    "a place in rows is offered with what it is in": (
        IN_ROWS[1].with_columns(score=9.0 - pl.row_index()), IN_ROWS[0], {},
        [("{'item': 'path, start_line'}", 0.5)]),
    **{f"numbers of relevant ids: {name} {values[0]}": (
        beside(name, values), None, NDCG_10, [(repr({"rel": name}), GRADED), (HIT, PLAIN)])
       for name, values in [
           *((x, GRADES) for x in ("gains", "relevance", "relevance_by_id", "grades_by_doc",
                                   "wert")),
           ("wert", [{"c1": 0.75, "c2": 0.25}, {"d2": 0.5}])]},
    **{f"numbers of more ids: {name}": (
        beside(name, [{"c1": 3, "c2": 1, "c3": 0}, {"d2": 2, "d1": 0}]), None, NDCG_10,
        [(PAIR("retrieved_ids", name), GRADED), (HIT, PLAIN)])
       for name in ("gains", "relevance_scores", "grades")},
    **{f"objects whose fields differ are scores of ids: {name}": (
        [{**x, name: y} for x, y in zip(TURNS, PASSAGES, strict=True)], TRUTH, {},
        [(f"'{name}'", 0.75)]) for name in ("Model_passages", "werte")},
    "a field of an object": (
        WERT, pl.DataFrame({"query": ["a"], "item": ["x"]}), {}, [("{'score': 'meta.wert'}", 0.5)]),
    **{f"an amount comes after the number of hits: {name}": (
        RUN, judged(name, [40.5, 895.0, 60.25, 100.0]), NDCG,
        [(HIT, JUDGED), (repr({"rel": name}), None)])
       for name in ("umsatz", "seconds", "price_eur", "latencyMs")},
    **{f"an amount comes after the number of hits: {low}": (
        RUN, many(low, step), NDCG, [(HIT, None), ("{'rel': 'wert'}", None)])
       for low, step in ((3.7, 4.1), (20, 1))},
    **{f"grades come before the number of hits: {name}": (
        RUN, qrels, NDCG, [(repr({"rel": qrels.columns[-1]}), None), (HIT, None)])
       for name, qrels in {
           "0": judged("sterne", [0.0, 2.5, 3.0, 0.5]),
           "not 0": judged("sterne", [0.5, 2.5, 3.0, 0.5]),
           "an amount of 0": judged("umsatz", [0.0, 2.5, 3.0, 0.5]),  # which is no relevant item
           "100": judged("gain", [100.5, 2.5, 3.0, 0.5]),
           "shares": judged("wert", [0.11, 0.52, 0.73, 0.91]),
           "quarters": many(0.25, 0.25), "many shares": many(0.01, 0.07)}.items()},
    "one way of a pair: a repeated id": (
        hits(treffer=[["x", "x", "y"], ["u", "v"]], soll=[["y"], ["v"]]), None, {},
        [(COLLAPSED("treffer", "soll"), 0.5), (PAIR("soll", "treffer"), 1)]),
    "one way of a pair with a repeated relevant id": (
        hits(treffer=[["x", "y"], ["u", "v"]], soll=[["y", "y"], ["v"]]), None, {},
        [(PAIR("treffer", "soll"), 0.5), (COLLAPSED("soll", "treffer"), 1)]),
    "one way of a pair: both": (
        hits(treffer=[["x", "y"], ["u", "v"]], soll=[["y"], ["v"]]), None, {},
        [(PAIR("treffer", "soll"), 0.5), (PAIR("soll", "treffer"), 1)]),
    "pairs of both lists as keys": (KEYED, None, {}, [(AS_KEY("retrieved"), (1 / 3 + 1) / 2)]),
    "pairs: of scores and grades": (
        pairs([[["d1", 2]], [["d2", 1]]], [[["d3", 0.9], ["d1", 0.5]], [["d2", 0.3]]]), None, {},
        [("{'rel': 'gold.2'}", 0.75), (HIT, 0.75)]),
}  # fmt: skip


@of_each_kind(OFFERED)
def test_offered_calls_have_these_values(kind, case):
    assert_offered(*OFFERED[case])


CITIES, CHUNKS = objects("page", "title"), objects("doc", "chunk")
IDS = np.array([[4, 7, 1], [2, 9, 3]])
# What is read without a question.
READ = {
    "a grade that names a field": (
        GAINS, None,
        {"rel": "gain * 2", "item": ["retrieved.doc_id, page", "gold.doc_id, page"]}, 0.5),
    "grades in the run": (GAINS, None, {"rel": "retrieved.gain"}, 1),
    "numbers of chunks beside their document": (
        rows(*map(objects("doc_id", "chunk"),
                  ([[("k", 1), ("k", 2)], [("m", 3)]], [[("z", 1), ("y", 2)], [("m", 3)]]))),
        None, {}, 0.5, "'item': 'retrieved.doc_id'"),
    **{f"places in form {place} that are ids or stand alone": (rows(*lists), None, {}, 0.75)
       for place, lists in enumerate([
           ([[4], [1]], [[3, 4], [1, 4]]),
           (objects("page")([[(4,)], [(1,)]]), objects("chunk")([[(3,), (4,)], [(1,)]])),
           (CHUNKS([[("d", "c17")], [("d", "c2")]]), [["c1", "c17"], ["c2"]]),
           ([["c17"], ["c2"]], CHUNKS([[("d", "c1"), ("d", "c17")], [("d", "c2")]])),
           ([[3], [7]], objects("doc_id", "chunk")([[("d", 2), ("d", 3)], [("e", 7)]])),
           (CITIES([[("Bonn", "t")], [("Ulm", "u")]]),
            CITIES([[("Bern", "s"), ("Bonn", "t")], [("Ulm", "u")]]))])},
    **{f"other numbers: {name} {values[0]}": (beside(name, values), None, NDCG_10, value)
       for name, values, value in [
           ("latency_ms", [[30, 12], [7]], PLAIN),
           ("latency_ms", [{"c1": 30, "c2": 12}, {"d2": 7}], PLAIN),
           ("preis", [{"c1": 30.5, "c2": 12.25}, {"d2": 7.5}], PLAIN),
           ("gains", [{"c1": 1, "c2": 1}, {"d2": 1}], PLAIN),
           ("wert", [{"c3": 1, "c1": 2, "c2": 2}, {"d1": 3, "d2": 4}], PLAIN),
           ("scores", [{"c3": 0.1, "c1": 0.9}, {"d1": 0.1, "d2": 0.9}], PLAIN * log2(3)),
           ("relevance_grades", GRADES, GRADED),
           ("config", [{"top_k": 3}, {"top_k": 3}], PLAIN)]},
    "numbers that lack a relevant id": (
        beside("relevance_grades", [{"c1": 3}, {"d2": 2}]), None, {**NDCG_10, "rel": "1"}, PLAIN),
    "a field of an object that is named": (
        META, pl.DataFrame({"query": ["a"], "item": ["x"]}), {"score": "meta.wert"}, 0.5),
    **{f"years and places: {name}": (RUN, judged(name, [1999, 2001, 2004, 2010]), NDCG, JUDGED)
       for name in ("year", "gold_doc_indices", "line_no")},
    **{f"years and places: {name} beside lists": (
        beside(name, [[0, 1], [1]]), None, NDCG_10, PLAIN)
       for name in ("year", "gold_doc_indices", "line_no")},
    "labels beside a grade": (
        [{"qid": "a", "item": "x", "rel": 1, "score": 0.9, "labels": ["x"]}], None, {}, 1),
    **{f"arrays of ids in form {place}": (run, qrels, {}, 0.75)
       for place, (run, qrels) in enumerate([
           (IDS, {0: [7], 1: [2]}), ((np.array([[0.1, 0.2, 0.3]] * 2), IDS), {0: [7], 1: [2]}),
           (IDS, np.array([[7, 5, 6, 8, 11], [2, 12, 13, 14, 15]]))])},
}  # fmt: skip


@of_each_kind(READ)
def test_what_is_read(kind, case):
    assert_read(*READ[case])


def test_errors_without_a_call():
    run = beside("relevance_grades", [{"c1": 3}, {"d2": 2}])
    refused(run, metrics="nDCG@10", match="relevance_grades has other ids")
    named = hits(retrieved=[["x", "x", "y"], ["u", "v"]], soll=[["y"], ["v"]])
    assert not asked(named).calls  # a repeated id is an error of its own


def test_amounts_stay_beside_the_call_for_tables_of_unknown_names():
    names = {"query": "frage", "item": "ware"}
    bought = pl.concat([judged("umsatz", [40.5, 895.0, 60.25, x]) for x in (100.0, 90.0)])
    question = asked(RUN.rename(names), bought.rename(names), "nDCG")
    assert question.calls[0] == {"query": "frage", "item": "ware", "rel": "1"}
    assert question.others == ["pass rel='max(umsatz)'", "pass rel='sum(umsatz)'"]
    assert rankql.evaluate(RUN, bought, "nDCG", rel="sum(umsatz)")["nDCG"] > 0
    assert "Is umsatz the grade of item?" in str(rankql.check(RUN, bought))


@few(2)("name", ["missed", "matched_ids", "missing", "irrelevant", "reciprocal"])
def test_ids_that_both_lists_give_are_not_offered_as_relevant(name):
    derived = {"treffer": [["x", "y"], ["u", "v"]], name: [["y"], ["v"]]}
    assert not asked(hits(**derived)).calls
    named = {"retrieved": derived["treffer"], "gold": [["y", "w"], ["v"]], name: derived[name]}
    gold = read(hits(**named))
    assert gold["RR"] == 0.5 and name not in "".join(gold.notes)


def test_the_order_of_rows_is_named_in_words_beside_a_score():
    run = RUN.with_columns(score=-pl.col("score"))
    text = str(rankql.check(run, judged("rel", [1, 1, 1, 1]), order="rows"))
    assert "score is not in the order of the rows" in text and "__rankql" not in text


def write_runs(folder, rankings, suffix="run"):
    """A file of TREC for each ranking {query: items}, with ranks from 1, and their glob."""
    for name, queries in rankings.items():
        lines = [f"{q} Q0 {item} {place} {9 - place} t\n"
                 for q, items in queries.items() for place, item in items]  # fmt: skip
        (folder / f"{name}.{suffix}").write_text("".join(lines))
    return str(folder / f"*.{suffix}")


def ranked(*items, start=1):
    return [*enumerate(items, start)]


COLLECTIONS = {
    "news": {"300": ranked("n1", "n2"), "301": ranked("n3", "n4")},
    "web": {"300": ranked("w1", "w2"), "302": ranked("w3")},
}


def test_files_of_several_collections_are_asked_about(tmp_path):
    qrels = {"300": {"n1": 1, "w2": 1}, "301": {"n4": 1}, "302": {"w3": 1}}
    path = write_runs(tmp_path, COLLECTIONS)
    question = asked(path, qrels, match="news.run and web.run rank the same queries, each from")
    assert question.calls == [{"score": "score"}] and "evaluate each file" in str(question)
    assert question.readings[0]["RR"] == pytest.approx((0.5 + 0.5 + 1) / 3)
    text = str(rankql.check(path, qrels))
    assert "each from the top, and share no item" in text
    for name, value in (("news", 0.75), ("web", 0.75)):
        ids = {q: {i: x for i, x in each.items() if i[0] == name[0]} for q, each in qrels.items()}
        judged = {q: each for q, each in ids.items() if each}
        assert read(str(tmp_path / f"{name}.run"), judged)["RR"] == value


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        ({"a": {"300": ranked("n1", "n2")}, "b": {"301": ranked("n3")}}, 0.75),
        ({"a": {"300": [(1, "n1"), (3, "n2")]}, "b": {"300": [(2, "n3")]}}, 1 / 3),
        ({"a": {"300": [(1, "n1"), (1, "n2")]}, "b": {"300": [(1, "n3"), (1, "n4")]}}, 1 / 3),
    ],
)
def test_parts_of_one_run_are_one_ranking(parts, value, tmp_path):
    qrels = {"300": {"n2": 1}, "301": {"n3": 1}}
    if "301" not in parts["b"]:
        del qrels["301"]
    assert read(write_runs(tmp_path, parts), qrels)["RR"] == pytest.approx(value)


def test_judgments_of_several_rounds_share_topics(tmp_path):
    for name, item in (("one", "n1"), ("two", "w2")):
        (tmp_path / f"{name}.qrels").write_text(f"300 0 {item} 1\n")
    run = {"300": {"n2": 3.0, "w2": 2.5}}
    assert read(run, str(tmp_path / "*.qrels"))["RR"] == 0.5


@few(1)("options", [{}, {"item": "doc_id, page"}])
def test_pairs_of_an_item_and_its_place_match_objects(options):
    as_objects = objects("doc_id", "page")
    run = [{**x, "retrieved": y} for x, y in zip(
        KEYED, as_objects([x["retrieved"] for x in KEYED]), strict=True)]  # fmt: skip
    call = {"item": ["retrieved.doc_id, page", AS_KEY("gold")]}
    question = asked(run, **options)
    assert question.calls == [call]
    assert question.readings[0]["RR"] == pytest.approx((1 / 3 + 1) / 2)


DENSE = [[0, 1, 0], [1, 0, 2]]


@few(2)(
    "arrays",
    [
        ([[0.1, 0.9, 0.3], [0.8, 0.2, 0.4]], DENSE),
        ([[0.1, 0.9, 0.3], [0.8, 0.2, 0.4]], [[0, 1.0, 0], [1.0, 0, 2.0]]),
        ([[1, 9, 3], [8, 2, 4]], DENSE),
        ([[1, 9, 3, 0, 0], [8, 2, 4, 0, 0]], [[*x, 0, 0] for x in DENSE]),
    ],
)
@pytest.mark.parametrize("form", [list, np.array])
def test_numbers_of_all_items_have_a_call(arrays, form):
    run, qrels = map(form, arrays)
    call = "{q: dict(enumerate(x)) for q, x in enumerate(data)}"
    refused(run, qrels, match=re.escape(f"ass {call}. See docs/by-hand.md#arrays"))
    value = (1 + (1 + 2 / log2(3)) / (2 + 1 / log2(3))) / 2
    tables = (eval(call, {"data": data}) for data in (run, qrels))
    assert read(*tables, "nDCG")["nDCG"] == pytest.approx(value)


def test_a_part_of_the_key_is_no_item_too():
    run = pl.DataFrame({"h": [*"aabb"], "side": ["l"] * 4, "t": [*"xyxy"], "rank": [1, 2, 2, 1]})
    qrels = pl.DataFrame({"h": ["a", "b"], "side": ["l", "l"], "t": ["y", "y"]})
    key = {"query": ["h", "side", "t"], "item": "t"}
    question = asked(run, qrels, **key)
    assert question.calls == [{"query": ["h", "side"]}]
    assert question.readings[0]["RR"] == 0.75
    places = pl.DataFrame({"h": ["a", "b"], "side": ["l", "l"], "t": ["x", "y"], "rank": [1, 2]})
    assert asked(places, **key).otherwise.startswith("Leave out item=")
    assert read(places, query=["h", "side", "t"], rel="1")["RR"] == 0.75


NEAR = {q: {f"{q}{i}": 9.0 - i for i in range(6)} for q in "abc"}
FIVE = pl.DataFrame(
    {"query": [*"aaaaabbbbbccccc"], "item": [x for q in NEAR for x in [*NEAR[q]][:5]]}
)


def test_judgments_of_neighbours_have_a_call_that_cuts_them():
    cut = "qrels.group_by(QUERY, maintain_order=True).head(2)"
    found = rankql.evaluate(NEAR, FIVE, ["R@2", "AllRel@2", "nDCG@2"])
    (note,) = found.notes
    assert note.startswith("R@2 is below 1 for 3 of 3 queries") and note.endswith(cut)
    assert found["R@2"] == pytest.approx(0.4)
    call = cut.replace("QUERY", "'query'")
    assert rankql.evaluate(NEAR, eval(call, {"qrels": FIVE}), "R@2")["R@2"] == 1
    rows = [{"q": q, "retrieved": [*NEAR[q]], "gold": [*NEAR[q]][:5]} for q in NEAR]
    assert "item=[..., 'LIST[:2]']" in rankql.evaluate(rows, metrics="R@2").notes[0]
    assert rankql.evaluate(rows, metrics="R@2", item=["retrieved", "gold[:2]"])["R@2"] == 1
    assert not rankql.evaluate(NEAR, FIVE, ["R@9", "Success@2"]).notes


@pytest.mark.parametrize(
    "qrels",
    [
        FIVE[:-1],
        FIVE.rename({"query": "user_id"}),
        FIVE.with_columns(timestamp=1.5),
        FIVE.with_columns(rel=pl.Series([1, 2, 1, 1, 1] * 3)),
        FIVE.with_columns(rel=pl.Series([1, 0, 1, 1, 1] * 3)),
    ],
    ids=["other numbers", "users", "a log", "grades", "not relevant"],
)
def test_other_judgments_are_not_cut(qrels):
    assert "neighbours" not in "".join(rankql.evaluate(NEAR, qrels, ["R@2", "nDCG@2"]).notes)


def test_a_part_in_a_part_is_named_with_dots(tmp_path):
    rows = [{"q": "a", "retrieved": ["x", "y"], "gold": ["y"]}]
    data = {"meta": {"n": 1}, "dataset": {"v": {"cases": rows}}}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(data))
    for each in (data, path, {"one": data}):
        found = rankql.evaluate(each, metrics="RR", part="dataset.v.cases")
        assert found.summary["mean"].to_list() == [0.5]
    with pytest.raises(rankql.RankqlError, match="no part 'w'"):
        rankql.evaluate(path, metrics="RR", part="dataset.w")


def test_errors_of_other_functions_name_what_is_meant():
    bought = pl.DataFrame({"kunde": [*"abb"], "ware": [*"xxy"], "split": ["train"] * 3})
    with pytest.raises(rankql.RankqlError, match=r"query='kunde', item='ware'\n +query="):
        rankql.most_popular(bought, 2)
    with pytest.raises(rankql.RankqlError, match="the third argument: of='q1'"):
        rankql.explain(RUN, judged("rel", [1, 1, 1, 1]), query_id="a")
    with pytest.raises(rankql.RankqlError, match=r"Pass the column as query=$"):
        rankql.evaluate(RUN, judged("rel", [1, 1, 1, 1]), query_id="a")


@pytest.mark.parametrize("form", [list, np.array])
def test_pairs_of_lists_have_a_call(form):
    data = [(form([1, 6, 2]), form([2, 3])), (form([4, 1]), form([4]))]
    with pytest.raises(rankql.RankqlError, match="run has pairs of lists, as of Spark") as caught:
        rankql.evaluate(data, metrics="RR")
    call = str(caught.value).partition("run and judgments: ")[2]
    run, qrels = eval(f"({call})", {"data": data})
    assert read(run, qrels)["RR"] == pytest.approx((1 / 3 + 1) / 2)
    scored = [[("a", 0.9), ("b", 0.1)], [("c", 0.9), ("d", 0.1)]]
    for each in (scored, [(*x,) for x in scored]):
        assert read(each, {0: ["a"], 1: ["d"]})["RR"] == 0.75


def test_an_array_of_ranks_has_a_call():
    data = np.array([1, 2])
    with pytest.raises(rankql.RankqlError, match="of ranks alone ") as caught:
        rankql.evaluate(data)
    call = str(caught.value).partition("of ranks alone ")[2].removesuffix(" and rel='1'")
    assert read(eval(call, {"pl": pl, "data": data}), rel="1")["RR"] == 0.75


WORDS = pl.DataFrame({x: [f"{x}1", f"{x}2"] for x in "abcdefgh"})


def test_a_ranking_beside_an_object_of_grades_is_read():
    result = rankql.evaluate(RANKING, **NDCG)
    assert result.summary["mean"].item() == pytest.approx((2 / log2(3) / (2 + 1 / log2(3)) + 1) / 2)


@few(2)(
    ("run", "qrels", "offered_calls"),
    [
        (RUN.rename({"query": "frage", "item": "ware"}),
         many(20, 1).rename({"query": "frage", "item": "ware"}), 2),
        (RUN.select(foo="query", bar="item", baz=pl.col("score") / 2),
         {"a": {"y": 1}, "b": {"u": 1}}, 1),
        (hits(treffer=[["x", "y"], ["u", "v"]], soll=[["y"], ["v"]],
              extra=[["l"], ["m"]], sprache=["de", "en"], art=["e", "f"]), None, 2),
        (WORDS, WORDS.rename({x: f"{x}{x}" for x in "abcdefgh"}), 0),
    ],
    ids=["unknown names", "a position or a score", "lists", "nothing matches"],
)  # fmt: skip
def test_a_question_tries_few_calls_and_reads_nothing_twice(run, qrels, offered_calls, monkeypatch):
    assert len(asked(run, qrels).calls) == offered_calls
    tried, queries = [], []
    read_tables, fetch_rows = reading._read_tables, frames.fetch_rows
    monkeypatch.setattr(reading, "_read_tables", lambda *x: tried.append(x[3]) or read_tables(*x))
    monkeypatch.setattr(frames, "fetch_rows", lambda *x: queries.append(x[1]) or fetch_rows(*x))
    with pytest.raises(rankql.RankqlError):
        rankql.evaluate(run, qrels, "RR")
    assert 2 < len(tried) <= 1 + TRIED  # with the call itself
    assert len(queries) == len({re.sub(r"(CREATE TEMP TABLE) \S+", r"\1", x) for x in queries})


def test_a_column_that_one_run_has_is_not_asked_of_a_dict():
    one = pl.DataFrame({"frage": ["a", "a"], "ware": ["x", "y"], "wert": [0.9, 0.1]})
    named = {"query": "frage", "item": "ware", "score": "wert"}
    runs = {"one": one, "two": {"a": {"x": 0.2, "y": 0.9}}}
    assert read(runs, {"a": {"y": 1}}, **named).means() == [0.5, 1]
    message = "query='frage': no column of that"
    refused({"a": {"x": 1.0}}, {"a": ["x"]}, query="frage", match=message)
    other = {"one": one, "two": one.rename({"frage": "kunde"})}
    refused(other, {"a": {"y": 1}}, **named, match="no column of that name in run 'two'")


@pytest.mark.slow
def test_a_text_file_is_asked_about_as_a_frame_with_types_is(tmp_path):
    """All columns of a text file are text, so that few calls were tried before they ran out."""
    frame = pl.DataFrame({
        "suche": ["s1", "s1", "s2", "s2"], "artikel": ["a", "b", "a", "b"],
        "punktzahl": [0.5, 1.5, 2.5, 0.1], "gesehen": ["2026-01-02 10:00", "2026-01-03 11:00"] * 2,
    })  # fmt: skip
    judged = frame.drop("punktzahl").with_columns(relevanz=pl.Series([2, 0, 0, 1]))
    paths = [str(tmp_path / name) for name in ("run.csv", "qrels.csv")]
    for data, path in zip((frame, judged), paths, strict=True):
        data.write_csv(path)
    question = asked(*paths)
    first = {"query": "suche", "item": "artikel", "score": "punktzahl", "rel": "relevanz"}
    assert question.calls[0] == first and question.columns[0].name != "gesehen"
    assert not question.others  # a time is no label
    kinds = {x.name: x.kind for x in question.columns}
    assert kinds["punktzahl"] == "DOUBLE" and kinds["gesehen"] == "TIMESTAMP"
    assert question.blanks == dict.fromkeys(first, "...")
    assert question.readings[0]["RR"] == read(frame, judged, **first)["RR"] == 0.5
    grades = asked(*paths, query="suche", item="artikel", score="punktzahl")
    assert "Is relevanz the grade" in str(grades)


@pytest.mark.slow
def test_rows_of_systems_under_own_names_are_passed_as_frames():
    rows = [
        {"suche": f"s{q}", "artikel": f"a{d}", "punkte": d + 0.5}
        for q in range(3)
        for d in range(2)
    ]
    judged = pl.DataFrame([{**row, "note": int(row["punkte"])} for row in rows]).drop("punkte")
    names = {"query": "suche", "item": "artikel", "score": "punkte", "rel": "note"}
    remedy = r"pass rows as frames, such as \{'system': pl.DataFrame\(rows\)\}(\.$|\.\n|$)"
    for options, qrels in (({}, judged), (names, judged.to_dicts())):
        with pytest.raises(rankql.RankqlError, match=remedy):
            rankql.evaluate({"alt": rows, "neu": rows}, qrels, "RR", **options)
    frames = {"alt": pl.DataFrame(rows), "neu": pl.DataFrame(rows)}
    question = asked(frames, judged)
    assert question.calls[0] == names and question.readings[0].means() == [1, 1]
    hits = {"q": [{"schluessel": "x", "text": "y z"}]}  # of queries, it may be a field
    assert asked(hits, {"q": {"x": 1}}).calls == [{"item": ["retrieved.schluessel", "item"]}]


@pytest.mark.parametrize("mark", ["", "#1"])
def test_the_field_of_an_id_is_offered_with_the_other_list(mark):
    """Chunks match no judged id before they are collapsed."""
    rows = [{"frage": "f", "treffer": [{"stueck": f"d{mark}", "punkte": 0.5}], "richtig": ["d"]}]
    options = {"query": "frage", "item": ["treffer", "richtig"]} | (
        {"collapse": "#"} if mark else {}
    )
    question = asked(rows, **options)
    assert question.calls == [{"item": ["treffer.stueck", "richtig"]}]
    assert question.readings[0]["RR"] == 1


@few(2)(
    ("column", "values", "remedy"),
    [
        ("chunk", ["d1_0", "d1_1"], {"item": "chunk"}),
        ("score", [float("nan"), 1.0], {"score": "if(isfinite(score), score, NULL)"}),
        ("item", ["d1#1", "d1#2"], {"collapse": "#"}),
    ],
)
def test_an_error_has_the_calls_that_its_text_names(column, values, remedy, monkeypatch):
    monkeypatch.setattr(answers, "_answer", lambda session, request, error, evaluate: error)
    table = {"query": ["q1"] * 2, "item": ["d1"] * 2, "score": [2.0, 1.0]}
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(pl.DataFrame(table | {column: values}), {"q1": {"d1": 1}}, "RR")
    found = error.value.remedies
    assert remedy in found and all(as_arguments(x) in str(error.value) for x in found)


def test_ids_of_a_scan_are_asked_for_without_its_values(tmp_path):
    rows = [("a", ["x", "y"], ["z"], ["y"]), ("b", ["z", "y"], ["x"], ["z"])]
    names = ["frage", "treffer", "quellen", "richtig"]
    pl.DataFrame(rows, names, orient="row").write_parquet(tmp_path / "run.parquet")
    scan = pl.scan_parquet(tmp_path / "run.parquet")
    with pytest.raises(rankql.RankqlError, match=r"Fill in:\n    item=\['\.\.\.', '\.\.\.'\]\n"):
        rankql.evaluate(scan, metrics="RR")
    assert read(scan, None, "RR", item=["treffer", "richtig"])["RR"] == 3 / 4
    runs = {"one": scan.collect(), "two": scan.collect()}  # the first has the pairs of all
    assert asked(runs).calls[0] == {"item": ["treffer", "richtig"]}


ORDERED = "query,result_id,title,relevance\na,p0,t,0\na,p1,t,2\na,p2,t,1\nb,p3,t,2\nb,p4,t,0\n"
# Of two tables of unusual names, the second item is relevant, and then the first.
UNUSUAL = pl.DataFrame(
    [("t1", "i1", 0, 0.9), ("t1", "i2", 2, 0.8), ("t2", "i3", 1, 0.7), ("t2", "i4", 0, 0.6)],
    ["topic_no", "listing_ref", "relevancy", "points"], orient="row",
)  # fmt: skip


def test_the_order_of_rows_is_offered_where_nothing_else_orders_them(tmp_path):
    path = tmp_path / "judged.csv"
    path.write_text(ORDERED)
    assert asked(str(path)).calls == [{"order": "rows"}]
    assert rankql.evaluate(str(path), metrics="RR", order="rows")["RR"] == 0.75
    falling = ORDERED.replace("p0,t,0", "p0,t,2").replace("p1,t,2", "p1,t,1")
    path.write_text(falling)  # sorted by grade, as judgments are
    assert asked(str(path)).calls == []


def test_the_columns_that_are_left_are_the_score_and_the_grade():
    (call, *_) = asked(UNUSUAL).calls
    assert rankql.evaluate(UNUSUAL, metrics="RR", **call)["RR"] == 0.75


def test_a_rank_with_fractions_is_offered_as_the_score():
    table = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rank": [0.93, 0.8],
                          "rel": [0, 1]})  # fmt: skip
    with pytest.raises(rankql.RankqlError, match="rank must be a whole number from 1") as error:
        rankql.evaluate(table, metrics="RR")
    assert "the highest first, pass score='rank'" in str(error.value)
    assert rankql.evaluate(table, metrics="RR", score="rank")["RR"] == 0.5


def test_two_runs_get_the_call_of_one_where_a_list_repeats_an_id():
    def case(number, *ids):
        hits = [{"ref": x, "sim": 1 / n} for n, x in enumerate(ids, 2)]
        return {"case": number, "hits": hits}

    one = [case(1, "x", "x", "y"), case(2, "z"), case(3, "v")]
    gold = [{"case": n, "evidence": [x]} for n, x in enumerate("yzv", 1)]
    with pytest.raises(rankql.errors.Question) as alone:
        rankql.evaluate(one, gold, "RR")
    (call,) = alone.value.calls
    for other in (one, one[1:]):
        with pytest.raises(rankql.errors.Question) as error:
            rankql.compare({"a": one, "b": other}, gold, metrics="RR")
        assert error.value.calls[0] == call and "collapse" in call


def test_errors_that_have_no_call_name_the_row_of_the_page():
    run = pl.DataFrame({"query": ["a"] * 2, "item": ["x"] * 2, "score": [2.0, 1.0]})
    for data, row in ((run, "key"), (np.array([1.0, 2.0]), "arrays")):
        with pytest.raises(rankql.RankqlError) as error:
            rankql.evaluate(data, {"a": {"x": 1}}, "RR")
        assert f"docs/by-hand.md#{row}" in str(error.value)


@pytest.mark.parametrize("mark", ["; ", ";", " | "])
def test_an_offered_split_has_no_blanks_of_the_text(mark, tmp_path):
    """Columns of unknown names; y is second, z is first."""
    path = tmp_path / "cells.csv"
    lines = ["ask,wanted,shown", f"a,y{mark}v,x{mark}y", f"b,z,z{mark}x"]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(rankql.errors.Question) as error:
        rankql.evaluate(str(path), metrics="RR")
    assert rankql.evaluate(str(path), metrics="RR", **error.value.calls[0])["RR"] == 0.75


def test_candidates_are_offered_as_the_ranking_before_what_was_found():
    rows = [
        {"query": "a", "hits_found": ["y"], "candidates": ["x", "y"], "expected": ["y", "w"]},
        {"query": "b", "hits_found": ["z", "k"], "candidates": ["k", "z"], "expected": ["z", "k"]},
        {"query": "c", "hits_found": [], "candidates": ["x"], "expected": ["v"]},
    ]
    question = asked(rows)
    assert question.calls[0] == {"item": ["candidates", "expected"]}


WIDE = pd.DataFrame({"song": ["s1", "s2"], "folk": [0.9, 0.2], "rock": [0.7, 0.3]})
ROWS_OF_PAGE = {
    "columns": (pl.DataFrame({"a": ["x"], "b": ["y"], "c": ["z"]}), {"q": ["x"]}),
    "wide-frame": (WIDE, WIDE.assign(folk=[0, 1], rock=[1, 0])),
    "map": ([{"task": "t", "pred": [3, 1], "output": [0.0, 0.5, 1.0]}], None),
    "sql-list": ([{"a": "t", "shown": ["x", "y"], "seen": ["z", "v"]}], None),
    "objects": ([{"a": "t", "shown": [{"u": "x", "v": "y"}]}], {"q": ["x"]}),
}


@pytest.mark.parametrize("row", ROWS_OF_PAGE)
def test_a_question_without_a_call_ends_with_the_row_of_the_page(row):
    run, qrels = ROWS_OF_PAGE[row]
    with pytest.raises(rankql.errors.Question) as error:
        rankql.evaluate(run, qrels, "nDCG@10")
    assert not error.value.calls and f"docs/by-hand.md#{row}\n" in f"{error.value}\n"

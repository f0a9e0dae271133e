"""Columns that fit a role better than the one that is read, and their ordinary neighbours.

What is silent stays without a note: categories, features of a log, grades by several columns.
"""

import ast
from math import log2

import duckdb
import polars as pl
import pytest

import rankql
from rankql.shapes.doubts.sample import says_nothing
from support import reading
from support.parameters import few, of_each_kind


def table(head, *rows):
    return pl.DataFrame([*rows], schema=head.split(), orient="row")


def evaluate(run, qrels=None, metrics="RR", **options):
    """The mean and the notes."""
    others = [] if qrels is None else [qrels]
    result = rankql.evaluate(run, *others, metrics=metrics, interval=None, **options)
    return result.summary["mean"][0], [str(x) for x in result.notes]


def offered(run, qrels=None, metrics="RR", **options):
    """The calls of the question that is asked, and the mean of each."""
    question = reading.asked(run, qrels, metrics, **options)
    means = (x.means(metrics)[0] for x in question.readings)
    return [*zip(question.calls, means, strict=True)]


def steps(column, values=(1, 2), judged=("b", "c", "b")):
    """Three rankings of two queries, first hits at 2, 1 and 1; and their judgments."""
    one, two = values
    rows = [("s1", one, "a", 0.9), ("s1", one, "b", 0.8), ("s1", two, "c", 0.3)]
    rows += [("s1", two, "d", 0.2), ("s2", one, "b", 0.9), ("s2", one, "a", 0.3)]
    gold = zip(("s1", "s1", "s2"), (one, two, one), judged, strict=True)
    run = table(f"query {column} item score", *rows)
    return run, table(f"query {column} item rel", *((*x, 1) for x in gold))


def places(column, values=("x", "y"), within=()):
    """The same by places, which start again at 1 for each value, or run on."""
    run, qrels = steps(column, values)
    within = ["query", *([] if within == "query" else [column])]
    return run.with_columns(rank=pl.int_range(1, pl.len() + 1).over(within)).drop("score"), qrels


ALONE = ("category", "brand", "type", "domain", "year", "source", "retriever", "arm", "match_type")
# A column that both tables have beside the query, by what is done about it.
PARTS = {
    **{f"asked by scores: {x}": steps(x)
       for x in ("turn", "turn_number", "Turn-No", "session_id", "step")},
    **{f"asked by places: {x}": places(x)
       for x in ("turn", "lang", "date", "round", "visit", "scenario_key")},
    **{f"noted: {x}": steps(x, ("en", "de"))
       for x in ("lang", "locale", "market", "dataset", "Subset")},
    **{f"silent by scores: {x}": steps(x) for x in ALONE},
    **{f"silent by places of systems: {x}": places(x) for x in ("retriever", "system", "arm")},
    **{f"silent by places that run on: {x}": places(x, (1, 2), within="query")
       for x in ("turn", "session_id", "lang", "round", "category", "brand", "retriever",
                 "year")},
}  # fmt: skip


@of_each_kind(PARTS)
def test_a_column_of_both_tables_may_be_a_part_of_the_query(kind, case):
    run, qrels = PARTS[case]
    key = ["query", case.partition(": ")[2]]
    if kind.startswith("asked"):
        call, mean = offered(run, qrels)[0]
        assert [*call] == ["query"] and sorted(call["query"]) == sorted(key)
        assert mean == pytest.approx(5 / 6)
        return
    mean, notes = evaluate(run, qrels)
    assert [f"query={key}" in x for x in notes] == [True] * (kind == "noted")
    assert kind != "noted" or mean == pytest.approx(3 / 4)


def test_a_step_that_is_spelled_differently_is_named_in_both():
    run, qrels = steps("turn")
    assert offered(run, qrels.rename({"turn": "Turn"}))[0][1] == pytest.approx(5 / 6)


def test_days_split_queries_where_an_item_stands_under_two():
    run, qrels = steps("date", ("2026-01-05", "2026-01-06"))
    assert evaluate(run, qrels)[1] == []  # a and b have the same day in both queries
    run = run.with_columns(item=pl.col("item").replace({"d": "a"}))
    assert offered(run, qrels)[0][0] == {"query": ["query", "date"]}


def test_a_step_is_silent_if_some_values_are_not_judged_or_each_row_has_its_own():
    run, qrels = steps("turn")
    assert evaluate(run, qrels.filter(pl.col("turn") == 1))[1] == []
    of_rows = run.with_columns(turn=pl.arange(6))
    judged = qrels.drop("turn").join(of_rows, on=["query", "item"]).drop("score")
    assert evaluate(of_rows, judged)[1] == []


LOG = "session product position clicked "


def log(column, values=(0.9, 0.1, 0.6, 0.2, 0.1, 0.8)):
    rows = [("s1", 1, 1, 0), ("s1", 2, 2, 0), ("s1", 3, 3, 1)]
    rows += [("s2", 1, 1, 0), ("s2", 4, 2, 0), ("s2", 5, 3, 1)]
    both = zip(rows, values, strict=True)
    return table(LOG + column, *((*row, value) for row, value in both))


ORDERED = (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)
# Numbers beside a logged place: their role if they are a prediction.
BESIDE = {
    **{f"score: {x}": ORDERED
       for x in ("predicted_score", "y_pred", "yhat", "modelScore", "pred_proba")},
    **{f"pos: {x}": (1, 3, 2, 2, 3, 1) for x in ("new_rank", "ltr-position")},
    "none as of the item: review_score": (4, 1, 3, 2, 1, 5),
    "none as of the item: sales_rank": (9, 8, 7, 6, 5, 4),
    "none as of the item: position_in_category": (3, 2, 1, 3, 2, 1),
    **{f"none as a feature: {x}": ORDERED
       for x in ("bm25_score", "dense_score", "predicted_click", "propensity")},
    **{f"none as a flag: {x}": (0, 1, 1, 0, 1, 1) for x in ("new", "predicted")},
    "none in the same order: model_score": (0.9, 0.8, 0.7, 0.6, 0.5, 0.4),
}  # fmt: skip


@of_each_kind(BESIDE)
def test_a_prediction_beside_a_logged_place_gets_a_note(kind, case):
    role, column = kind if " " not in kind else None, case.partition(": ")[2]
    table = log(column, BESIDE[case])
    mean, notes = evaluate(table, rel="clicked")
    assert mean == pytest.approx(1 / 3)
    assert [f"pass {role}='{column}'" in x for x in notes] == [True] * (role is not None)
    if role:
        assert evaluate(table, rel="clicked", **{role: column})[0] == pytest.approx(3 / 4)


def test_grades_computed_from_the_number_that_orders_are_asked_about():
    run = table("query item score pred", *(
        (1, "a", 5.0, 0.1), (1, "b", 1.0, 0.9), (2, "a", 4.0, 0.8), (2, "b", 2.0, 0.3),
    ))  # fmt: skip
    threshold = "CAST(score >= 4 AS INT)"
    calls = offered(run, metrics="P@1", rel=threshold)
    assert calls == [({"score": "pred"}, 0.5), ({"score": "score"}, 1.0)]
    for call, mean in calls:
        assert evaluate(run, None, "P@1", rel=threshold, **call) == (mean, [])
    (note,) = evaluate(run.drop("pred"), None, "P@1", rel=threshold)[1]
    assert note.startswith("run: rel= computes the grades of score, which orders the items too")
    ranks = table("group tuner rank predicted_rank", *(
        ("g1", "a", 1, 1), ("g1", "b", 2, 2), ("g2", "a", 1, 2), ("g2", "b", 2, 1),
    ))  # fmt: skip
    assert offered(ranks, metrics="P@1", rel="CAST(rank = 1 AS INT)")[0][1] == 0.5


@few(2)("rel", ["clicked * ln(position + 1)", "CASE WHEN position <= 10 THEN clicked END"])
def test_grades_of_several_columns_may_read_the_place(rel):
    assert evaluate(log("stock"), None, "nDCG@2", rel=rel)[1] == []


def lists(head, *rows):
    return [dict(zip(head.split(), row, strict=True)) for row in rows]


@few(2)(
    ("name", "other", "ids"),
    [
        ("labels", "candidates", ([0, 1, 2], [0, 1])),
        ("relevance", "retrieved_ids", ([5, 1, 7], [0, 9])),
        ("Is_Relevant", "results", (["a", "b", "c"], ["a", "d"])),
        ("gains", "ranked", (["a", "b", "c"], ["a", "d"])),
    ],
)
def test_a_list_of_grades_beside_candidates_is_their_grades(name, other, ids):
    rows = lists(f"qid {other} {name}", ("1", ids[0], [0, 0, 1]), ("2", ids[1], [1, 0]))
    for options in ({}, {"rel": name}):
        mean, notes = evaluate(rows, **options)
        assert mean == pytest.approx(2 / 3)
        text = f"run: {name} is the grade of each retrieved item. Others have none, so recall "
        assert notes == [f"{text}counts retrieved items only"]


@few(2)(
    ("right", "head", "rows"),
    [
        (1 / 2, "query predictions labels", ((1, [3, 7, 1], [7, 2, 3]), (2, [5, 2], [2, 9]))),
        (2 / 3, "query predictions labels", ((1, [3], [3]), (2, [1], [0]), (3, [0], [0]))),
        (1 / 2, "query retrieved_ids pages relevant_ids", ((1, ["a", "b"], [3, 3], ["b"]),)),
        (1 / 2, "query retrieved_ids labels relevant_ids", ((1, [5, 6], [0, 0], [6]),)),
    ],
)
def test_other_lists_of_numbers_are_not_grades(right, head, rows):
    mean, notes = evaluate(lists(head, *rows), metrics="P@1" if "pred" in head else "RR")
    assert mean == pytest.approx(right)
    assert not any("grade" in x for x in notes)


def test_a_list_of_numbers_with_another_name_is_asked_about():
    rows = lists("query texts picked", ("a", ["t", "u", "v"], [0, 0, 1]), ("b", ["w", "x"], [1, 0]))
    assert offered(rows)[0] == ({"item": "texts", "rel": "picked"}, pytest.approx(2 / 3))


@few(2)(
    ("name", "first", "mean"),
    [
        ("rerank_scores", {"score": "rerank_scores", "descending": True}, 3 / 4),
        ("scores", {"order": "list"}, 2 / 3),
    ],
)
@few(1)("grades", ["labels", "is_selected"])
def test_scores_beside_a_list_of_grades_are_asked_about(grades, name, first, mean):
    scores = [0.1, 0.2, 0.9], [0.3, 0.8]
    rows = lists(f"query docs {grades} {name}", ("a", ["t", "u", "v"], [0, 0, 1], scores[0]),
                 ("b", ["w", "x"], [1, 0], scores[1]))  # fmt: skip
    known = {} if grades == "labels" else {"rel": grades}
    assert offered(rows, item="docs", **known)[0] == (first, pytest.approx(mean))
    assert evaluate(rows, item="docs", **known, score=name)[0] == pytest.approx(3 / 4)
    if known:
        assert offered(rows)[0][0] == {"item": "docs", **known, **first}
    by_id = [{**x, name: dict(zip(x["docs"], x[name], strict=True))} for x in rows]
    assert evaluate(by_id, item="docs", **known, score=name)[0] == pytest.approx(3 / 4)


@pytest.mark.parametrize("names", [["gold_old", "gold_new"], ["gold_style", "gold_tone"]])
def test_flags_of_objects_do_not_hide_two_lists_of_relevant_ids(names):
    """Where the lists have none of the ids, the flags are the grades."""
    ids = "gold_old" in names
    rows = [
        {names[0]: [y if ids else "cosy"], names[1]: [x if ids else "warm"], "query": y,
         "retrieved": [{"id": x, "is_relevant": False}, {"id": y, "is_relevant": True}]}
        for x, y in ("ab", "cd")
    ]  # fmt: skip
    if not ids:
        assert rankql.evaluate(rows, metrics="RR")["RR"] == 0.5
        return
    calls = reading.asked(rows, metrics="RR").calls
    pairs = [x["item"] for x in calls if "rel" not in x]
    assert pairs == [["retrieved.id", x] for x in names]


def test_flags_of_an_object_of_lists_are_asked_about():
    one = {"is_selected": [0, 1, 0], "passage_text": ["t", "u", "v"], "url": ["x", "y", "z"]}
    two = {"is_selected": [1, 0], "passage_text": ["w", "p"], "url": ["q", "r"]}
    rows = lists("query_id query passages", (1, "a", one), (2, "b", two))
    calls = offered(rows)
    assert ({"item": "passages.url", "rel": "passages.is_selected"}, 3 / 4) in calls
    assert {mean for _, mean in calls} == {3 / 4}


@few(1)("flag", ["is_supporting", "is_relevant", "gold"])
def test_predictions_beside_flagged_candidates_are_the_run(flag):
    one = [{"idx": 0, flag: False}, {"idx": 1, flag: True}, {"idx": 2, flag: True}]
    two = [{"idx": 0, flag: True}, {"idx": 1, flag: False}]
    rows = lists("question paragraphs predicted_idxs", ("a", one, [0, 1]), ("b", two, [0]))
    first = reading.asked(rows, metrics="SetP").calls[0]
    assert first == {"item": ["predicted_idxs", "paragraphs.idx"], "rel": f"paragraphs.{flag}"}
    assert evaluate(rows, metrics="SetP", **first) == (pytest.approx(3 / 4), [])


def levels(run, whole, part):
    rows = [("a", "k1", "k1:2", "k1:1"), ("b", "k2", "k2:3", "k2:3")]
    head = f"query {run.format(whole)} {run.format(part)} gold_{whole} gold_{part}"
    return lists(head, *((q, [d], [x], [d], [y]) for q, d, y, x in rows))


@few(2)(
    ("whole", "part"),
    [
        ("doc_ids", "page_ids"),
        ("documents", "passages"),
        ("article_ids", "sentence_ids"),
        ("page_ids", "section_ids"),
        ("parent_ids", "child_ids"),
        ("file_keys", "span_keys"),
    ],
)
def test_judgments_at_two_levels_are_asked_about(whole, part):
    rows = levels("retrieved_{}", whole, part)
    calls = offered(rows)
    for name, mean in ((whole, 1), (part, 0.5)):
        assert ({"item": [f"retrieved_{name}", f"gold_{name}"]}, mean) in calls[:2]


def test_levels_of_objects_and_of_one_id_per_cell_are_asked_about():
    found = [[{"doc_id": "d1", "chunk_id": "d1#0"}], [{"doc_id": "d2", "chunk_id": "d2#0"}]]
    rows = lists("query expected_doc_id expected_chunk_id retrieved",
                 ("a", "d1", "d1#3", found[0]), ("b", "d2", "d2#0", found[1]))  # fmt: skip
    assert ({"item": ["retrieved.chunk_id", "expected_chunk_id"]}, 0.5) in offered(rows)


@few(2)(
    ("whole", "other"),
    [
        ("doc_ids", "category_ids"),
        ("doc_ids", "seller_id"),
        ("doc_ids", "author_ids"),
        ("doc_ids", "user_ids"),
        ("doc_ids", "shops"),
        ("doc_ids", "titles"),
        ("doc_ids", "urls"),
    ],
)
def test_attributes_of_documents_are_no_level(whole, other):
    assert evaluate(levels("retrieved_{}", whole, other)) == (1, [])


def test_levels_that_are_found_nowhere_or_one_to_one_are_silent():
    rows = levels("retrieved_{}", "doc_ids", "page_ids")
    alone = [{x: y for x, y in row.items() if x != "retrieved_page_ids"} for row in rows]
    assert evaluate(alone) == (1, [])
    assert evaluate([{**row, "retrieved_page_ids": row["gold_page_ids"]} for row in rows])[0] == 1


def rows_of_levels(whole, part, parts, judged=None):
    """Rows of documents, of which one has two parts in a query; the judgments of its second."""
    found = [("a", "k1", 0.9), ("a", "k1", 0.8), ("a", "k2", 0.7), ("b", "k2", 0.9)]
    found = [(*x[:2], y, x[2]) for x, y in zip(found, parts, strict=True)]
    gold = [("a", "k1", parts[1], 1), ("b", "k2", parts[3], 1)]
    names = judged or (whole, part)
    run = table(f"query {whole} {part} score", *found)
    return run, table(f"query {names[0]} {names[1]} rel", *gold)


UNIQUE, COUNTED = ("k1:1", "k1:2", "k2:1", "k2:2"), (1, 2, 1, 2)


@few(3)(
    ("whole", "part", "parts"),
    [
        ("doc_id", "page_id", UNIQUE),
        ("document", "passage", UNIQUE),
        ("page_id", "section_id", UNIQUE),
        ("article_id", "sentence_id", UNIQUE),
        ("doc_id", "page", COUNTED),
        ("doc_id", "page_id", COUNTED),
        ("document_id", "chunk_index", COUNTED),
    ],
)
def test_judgments_of_rows_at_two_levels_are_asked_about(whole, part, parts):
    run, qrels = rows_of_levels(whole, part, parts)
    fine = {"item": part if parts is UNIQUE else f"{whole}, {part}"}
    coarse = {"item": [whole] * 2, "collapse": whole, "positions": "keep"}
    assert offered(run, qrels)[:2] == [(fine, pytest.approx(3 / 4)), (coarse, 1)]


@few(2)(
    ("whole", "part"),
    [
        *(("doc_id", x) for x in ("seller_id", "category_id", "brand_id", "author_id", "user_id")),
        *(("doc_id", x) for x in ("shop", "title", "url", "category")),
    ],
)
def test_attributes_of_rows_are_no_level(whole, part):
    run, qrels = rows_of_levels(whole, part, ("x", "y", "x", "y"))
    run = run.unique(["query", whole])
    qrels = qrels.drop(part).join(run.drop("score"), on=["query", whole])
    assert evaluate(run, qrels)[1] == []


def test_rows_of_documents_once_in_a_query_or_with_other_columns_are_read():
    run, qrels = rows_of_levels("doc_id", "page_id", UNIQUE)
    once = run.filter(pl.col("page_id") != "k1:1")
    assert evaluate(once, qrels) == (1, [])
    for sold in ("seller_id", "author_id", "shop"):
        with pytest.raises(rankql.RankqlError, match="duplicates"):
            evaluate(*rows_of_levels("doc_id", sold, ("x", "y", "x", "y")))
    one = run.with_columns(doc_id=pl.lit("k")), qrels.with_columns(doc_id=pl.lit("k"))
    assert evaluate(*one)[0] == pytest.approx(3 / 4)  # no ranking of documents


FOUND = "run: {} has only relevant ids, so it is what was found and no ranking."


@few(4)(
    ("name", "column", "values"),
    [
        ("hits", "recall", (0.5, 1.0)),
        ("hits", "misses", (["e2"], [])),
        ("matched_ids", "recall_at_5", (0.5, 1.0)),
        ("hits", "candidates_seen", (["x", "e1"], ["e3"])),
    ],
)
def test_a_list_of_what_was_found_is_no_ranking(name, column, values):
    rows = lists(
        f"question expected_ids {name} {column}",
        ("a", ["e1", "e2"], ["e1"], values[0]),
        ("b", ["e3"], ["e3"], values[1]),
    )
    item = {"item": [name, "expected_ids"]}
    assert any(x.startswith(FOUND.format(name)) for x in evaluate(rows, **item)[1])


def test_what_was_found_is_not_offered_first():
    chunks = [[{"id": "x"}, {"id": "e1"}], [{"id": "e3"}, {"id": "y"}]]
    rows = lists("question gold chunks hits misses", ("a", ["e1", "e2"], chunks[0], ["e1"], ["e2"]),
                 ("b", ["e3"], chunks[1], ["e3"], []))  # fmt: skip
    with pytest.raises(rankql.RankqlError) as error:
        evaluate(rows)
    first, second, *_ = error.value.calls
    assert (first, second) == ({"item": ["chunks.id", "gold"]}, {"item": ["hits", "gold"]})
    assert evaluate(rows, **first)[0] == pytest.approx(3 / 4)


@few(2)(
    ("hits", "column", "values"),
    [
        ((["x", "e1"], ["e3"]), "misses", (["e2"], [])),
        ((["x", "e1"], ["e3"]), "misses", (1, 0)),
        ((["e1"], ["e3"]), "misses", (1, 0)),
        ((["e1"], ["e3"]), "recall", (1.0, 1.0)),
        ((["e2", "e1"], ["e3"]), "recall", (1.0, 1.0)),
    ],
)
def test_other_lists_of_hits_are_rankings(hits, column, values):
    rows = lists(f"question expected_ids hits {column}", ("a", ["e1", "e2"], hits[0], values[0]),
                 ("b", ["e3"], hits[1], values[1]))  # fmt: skip
    notes = evaluate(rows, item=["hits", "expected_ids"])[1]
    assert not any("no ranking" in x for x in notes)


NOTHING = [
    *("NO_ANSWER", "Abstain", "NIL", "unanswerable", "out of scope", "Not found.", "out_of_scope"),
    *("Insufficient information", "no_relevant_document", "none", "No relevant documents!"),
]
ASKED = {"q1": ["d9", "d1"], "q2": ["d2"], "q3": ["d4"]}


def test_words_that_say_nothing_are_known_in_any_spelling():
    words = [*NOTHING, "Paris", "Dockerfile", "d4", "none of the above"]
    sql = f"SELECT word FROM (SELECT unnest(?) AS word) WHERE {says_nothing('word')}"
    assert duckdb.execute(sql, [words]).fetchall() == [(x,) for x in NOTHING]


@few(1)("word", NOTHING)
def test_a_word_of_no_answer_in_lists_is_asked_about(word):
    rows = lists("query retrieved relevant", ("q1", ["d9", "d1"], ["d1"]), ("q2", ["d2"], ["d2"]),
                 ("q3", ["d4"], [word]))  # fmt: skip
    assert sorted(mean for _, mean in offered(rows)[:2]) == [0.5, 0.75]


def tables_of(form, run, qrels, folder):
    """Runs and judgments of dicts in a form, and the connection of those in a database."""
    if form == "dicts":
        return run, {x: dict.fromkeys(y, 1) for x, y in qrels.items()}, None
    if form == "lists":
        return run, qrels, None
    rows = [[(q, x, -n) for q, items in run.items() for n, x in enumerate(items)]]
    rows += [[(q, x, 1) for q, items in qrels.items() for x in items]]
    heads = ("topic docno score", "topic docno rel")
    frames = [table(x, *y) for x, y in zip(heads, rows, strict=True)]
    if form in ("frames", "no grades"):
        return frames[0], frames[1] if form == "frames" else frames[1].drop("rel"), None
    if form == "tables":
        con = duckdb.connect()
        for name, frame in zip("ab", frames, strict=True):
            con.register("frame", frame)
            con.sql(f"CREATE TABLE {name} AS FROM frame")
        return "a", "b", con
    for frame, name in zip(frames, "ab", strict=True):
        getattr(frame, f"write_{form}")(folder / f"{name}.{form}")
    return folder / f"a.{form}", folder / f"b.{form}", None


FORMS = ["dicts", "lists", "frames", "no grades", "parquet", "csv", "tables"]


@few(7)(("form", "word"), [(form, word) for word in NOTHING for form in FORMS])
def test_a_word_of_no_answer_in_judgments_gets_a_note(form, word, tmp_path):
    qrels = {"q1": ["d1"], "q2": ["d2"], "q3": [word]}
    run, qrels, con = tables_of(form, ASKED, qrels, tmp_path)
    mean, (note,) = evaluate(run, qrels, con=con)
    assert mean == 0.5
    assert note.startswith(f"{word!r} is the only relevant item of 1 query")
    name = "item" if form in ("dicts", "lists") else "docno"
    grade = "1" if form in ("lists", "no grades") else "rel"
    call = {"rel": f"CASE WHEN {name} <> '{word}' THEN {grade} END"}
    assert f'rel="{call["rel"]}"' in note
    assert evaluate(run, qrels, con=con, **call)[0] == 0.75


@few(1)("form", ["parquet", "tables"])
def test_words_are_looked_for_where_a_query_lacks_its_only_item(form, tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr("rankql.shapes.doubts.no_answers.says_nothing", looked.append)
    found = {"q1": ["d1"], "q2": ["d2"]}
    for qrels in (found, {"q1": ["d1"], "q3": ["d4", "nil"]}, {"q1": ["d1"], "q2": ["x", "y"]}):
        run, judged, con = tables_of(form, {x: ASKED[x] for x in qrels}, qrels, tmp_path)
        assert evaluate(run, judged, con=con)[1] == [] == looked
        if con:
            con.close()
    with pytest.raises(rankql.RankqlError):  # says_nothing has no answer here
        rankql.evaluate(ASKED, {**found, "q3": ["nil"]}, "RR")
    assert looked


def test_another_word_of_three_queries_gets_a_note():
    run = {f"q{n}": [f"d{n}"] for n in range(9)}
    qrels = {x: ["see above" if int(x[1]) < 3 else y[0]] for x, y in run.items()}
    assert "'see above' is the only relevant item of 3 queries" in evaluate(run, qrels)[1][0]
    two = {**qrels, "q2": ["d2"]}
    assert evaluate(run, two)[1] == []
    assert evaluate({**run, "q8": ["d8", "see above"]}, qrels)[1] == []


@few(3)(
    ("run", "qrels"),
    [
        (ASKED, {"q1": ["d1"], "q2": ["Paris"], "q3": ["Dockerfile"]}),
        (ASKED, {"q1": ["d1"], "q2": ["MSFT"], "q3": ["d4"]}),
        (ASKED, {"q1": ["d1", "none"], "q2": ["none"], "q3": ["d4"]}),  # beside another
        ({**ASKED, "q3": ["d4", "unknown", "nil"]}, {"q1": ["d1"], "q2": ["d5"], "q3": ["nil"]}),
        ({"q1": ["pay", "nil"], "q2": ["pay", "nil"]}, {"q1": ["nil"], "q2": ["bill"]}),  # classes
    ],
)
def test_words_that_are_ids_stay_without_a_note(run, qrels):
    assert evaluate(run, qrels)[1] == []


def test_a_run_may_say_the_word_alone():
    rows = lists("query predicted_ids gold_ids", ("a", ["d1"], ["d1"]), ("b", ["NIL"], ["NIL"]),
                 ("c", ["d2"], ["NIL"]))  # fmt: skip
    assert sorted(mean for _, mean in offered(rows)[:2]) == [2 / 3, 1]


def test_notes_name_no_item_that_rankql_made_up():
    rows = [(n + 1, x, 0.9 - n / 10) for n, x in enumerate([1, 0, 1, 0, 1, 1, 0, 1])]
    mean, notes = evaluate(table("query_id label score", *rows), metrics="P@1")
    assert mean == 0.625
    assert len(notes) == 1
    assert notes[0].startswith("each query_id of the run has a single item")
    tied = table("query_id label score", (1, 2, 3.0), (1, 0, 3.0), (2, 0, 0.9), (2, 1, 0.5))
    assert evaluate(tied) == (0.625, [])  # the mean over the orders of equal scores


def test_few_positions_number_the_rows_by_chance():
    places = table("query item rel pos", ("q1", "a", 1, 1), ("q1", "b", 1, 2), ("q2", "c", 1, 4),
                   ("q9", "d", 1, 3))  # fmt: skip
    assert evaluate(places)[0] == pytest.approx((1 + 1 / 4 + 1 / 3) / 3)
    rows = [(n // 2, n, 1, n + 1) for n in range(6)]
    with pytest.raises(rankql.RankqlError, match="numbers the rows of all queries together"):
        evaluate(table("query item rel pos", *rows))
    fractions = table("query item rel pos", (1, 1, 0, 1.2), (1, 2, 1, 2.5), (1, 3, 0, 4.0),
                      (2, 4, 1, 1.0))  # fmt: skip
    with pytest.raises(rankql.RankqlError, match=r"pos must be a whole number from 1, not 1\.2"):
        evaluate(fractions)


def test_triples_whose_numbers_count_are_ranks_or_scores():
    gold = [("q1", "b", 1), ("q2", "c", 1)]
    run = [("q1", "a", 1), ("q1", "b", 2), ("q2", "c", 1)]
    calls = [({"pos": "score"}, pytest.approx(3 / 4)), ({"descending": True}, 1)]
    assert offered(run, gold) == calls
    assert evaluate([("q1", "a", 9), ("q1", "b", 4), ("q2", "c", 3)], gold)[0] == pytest.approx(
        3 / 4
    )


@pytest.mark.parametrize("form", ["{}:{}", "{}={}", "{}({})"])
@pytest.mark.parametrize("cell", [True, False])
def test_a_number_at_the_end_of_an_id_may_be_its_grade(form, cell, tmp_path):
    """Of y 2 and w, y is found second; z 3 is first."""
    run = [{"query": "a", "retrieved": ["x", "y"]}, {"query": "b", "retrieved": ["z", "x"]}]
    ids = {"a": [form.format("y", 2), "w"], "b": [form.format("z", 3)]}
    if cell:
        path = tmp_path / "gold.csv"
        path.write_text("query,gold\n" + "".join(f"{q},{';'.join(x)}\n" for q, x in ids.items()))
        gold = str(path)
    else:
        gold = [{"query": q, "gold": x} for q, x in ids.items()]
    (note,) = (x for x in rankql.evaluate(run, gold, "nDCG").notes if "without their end" in x)
    call = ast.literal_eval(note.rpartition("item=")[2])
    value = rankql.evaluate(run, gold, "nDCG", item=call)["nDCG"]
    assert value == pytest.approx((2 / log2(3) / (2 + 1 / log2(3)) + 1) / 2)


@pytest.mark.parametrize(
    ("run", "gold"),
    [
        ({"a": ["x:1", "y:2"], "b": ["z:1"]}, {"a": ["y:2", "w:1"], "b": ["z:1"]}),
        ({"a": ["x:1", "y"], "b": ["z"]}, {"a": ["y:2"], "b": ["z"]}),  # the run has ends too
        ({"a": ["x", "y"], "b": ["z"]}, {"a": ["w:2"], "b": ["z"]}),  # not found
    ],
)
def test_other_ends_of_ids_are_no_grades(run, gold):
    assert not any("without their end" in x for x in rankql.evaluate(run, gold, "nDCG").notes)


@pytest.mark.parametrize(
    ("names", "form"),
    [
        (("relevant_id", "relevant_ids"), "objects"),
        (("relevant_id", "relevant_ids"), "csv"),
        (("passage", "passages"), "objects"),
    ],
)
def test_one_id_in_one_column_and_several_in_another_are_both_relevant(names, form, tmp_path):
    """y is second, z is first; never are both columns filled."""
    run = [{"query": "a", "retrieved": ["x", "y"]}, {"query": "b", "retrieved": ["z", "x"]}]
    gold = [{"query": "a", names[0]: "y"}, {"query": "b", names[1]: ["z", "w"]}]
    if form == "csv":
        gold = str(tmp_path / "gold.csv")
        with open(gold, "w") as file:
            file.write(f"query,{names[0]},{names[1]}\na,y,\nb,,z;w\n")
    question = reading.asked(run, gold)
    assert rankql.evaluate(run, gold, "RR", **question.calls[0])["RR"] == 0.75
    named = question.calls[0]["item"][1].partition("(")[2].partition(",")[0]
    notes = rankql.evaluate(run, gold, "RR", item=["retrieved", named]).notes
    assert any("has one id where" in x and "If both are relevant, pass" in x for x in notes)

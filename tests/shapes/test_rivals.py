"""Columns that fit a role better than the one that is read, and their ordinary neighbours.

What is silent stays without a note: categories, features of a log, grades by several columns.
"""

import duckdb
import polars as pl
import pytest

import rankql
from support import reading
from support.parameters import few


def table(head, *rows):
    return pl.DataFrame([*rows], schema=head.split(), orient="row")


def evaluate(run, qrels=None, metrics="RR", **options):
    """The mean and the notes."""
    others = [] if qrels is None else [qrels]
    result = rankql.evaluate(run, *others, metrics=metrics, interval=None, **options)
    return result.summary["mean"][0], [str(x) for x in result.notes]


def asked(run, qrels=None, metrics="RR", **options):
    """The calls of the question that is asked, each of which was run."""
    return reading.asked(run, qrels, metrics, **options).calls


def steps(column, values=(1, 2), judged=("b", "c", "b")):
    """Three rankings of two queries, first hits at 2, 1 and 1; and their judgments."""
    one, two = values
    rows = [("s1", one, "a", 0.9), ("s1", one, "b", 0.8), ("s1", two, "c", 0.3)]
    rows += [("s1", two, "d", 0.2), ("s2", one, "b", 0.9), ("s2", one, "a", 0.3)]
    gold = zip(("s1", "s1", "s2"), (one, two, one), judged, strict=True)
    run = table(f"query {column} item score", *rows)
    return run, table(f"query {column} item rel", *((*x, 1) for x in gold))


@few(2)("column", ["turn", "turn_number", "Turn-No", "session_id", "step"])
def test_a_step_of_both_tables_is_a_part_of_the_query(column):
    run, qrels = steps(column)
    first, _ = asked(run, qrels)
    assert first == {"query": ["query", column]}
    assert evaluate(run, qrels, **first)[0] == pytest.approx(5 / 6)


def test_a_step_that_is_spelled_differently_is_named_in_both():
    run, qrels = steps("turn")
    first, _ = asked(run, qrels.rename({"turn": "Turn"}))
    assert evaluate(run, qrels.rename({"turn": "Turn"}), **first)[0] == pytest.approx(5 / 6)


@few(2)("column", ["lang", "locale", "market", "dataset", "Subset"])
def test_a_slice_of_both_tables_may_be_a_part_of_the_query(column):
    run, qrels = steps(column, ("en", "de"))
    mean, notes = evaluate(run, qrels)
    assert mean == pytest.approx(3 / 4)
    assert f"query=['query', '{column}']" in notes[0]


@few(2)(
    "column",
    ["category", "brand", "type", "domain", "year", "source", "retriever", "arm", "match_type"],
)
def test_other_columns_of_both_tables_are_not_asked_about(column):
    assert evaluate(*steps(column))[1] == []


def test_days_split_queries_where_an_item_stands_under_two():
    run, qrels = steps("date", ("2026-01-05", "2026-01-06"))
    assert evaluate(run, qrels)[1] == []  # a and b have the same day in both queries
    run = run.with_columns(item=pl.col("item").replace({"d": "a"}))
    assert asked(run, qrels)[0] == {"query": ["query", "date"]}


def test_a_step_is_silent_if_some_values_are_not_judged_or_each_row_has_its_own():
    run, qrels = steps("turn")
    assert evaluate(run, qrels.filter(pl.col("turn") == 1))[1] == []
    of_rows = run.with_columns(turn=pl.arange(6))
    judged = qrels.drop("turn").join(of_rows, on=["query", "item"]).drop("score")
    assert evaluate(of_rows, judged)[1] == []


def places(column, values=(1, 2), runs_on=False):
    """The same by places, which start again at 1 for each value, or run on."""
    run, qrels = steps(column, values)
    within = ["query"] if runs_on else ["query", column]
    return run.with_columns(rank=pl.int_range(1, pl.len() + 1).over(within)).drop("score"), qrels


@few(3)("column", ["turn", "lang", "date", "round", "visit", "scenario_key"])
def test_places_that_start_again_at_1_prove_a_part_of_the_query(column):
    run, qrels = places(column, ("x", "y"))
    first = asked(run, qrels)[0]
    assert [*first] == ["query"] and {*first["query"]} == {"query", column}
    assert evaluate(run, qrels, **first)[0] == pytest.approx(5 / 6)


@few(4)("column", ["turn", "session_id", "lang", "round", "category", "brand", "retriever", "year"])
def test_places_that_run_on_over_the_values_are_silent(column):
    run, qrels = places(column, (1, 2), runs_on=True)
    assert evaluate(run, qrels)[1] == []


@few(1)("column", ["retriever", "system", "arm"])
def test_places_of_systems_start_again_without_a_question(column):
    assert evaluate(*places(column, ("x", "y")))[1] == []


LOG = "session product position clicked "


def log(column, values=(0.9, 0.1, 0.6, 0.2, 0.1, 0.8)):
    rows = [("s1", 1, 1, 0), ("s1", 2, 2, 0), ("s1", 3, 3, 1)]
    rows += [("s2", 1, 1, 0), ("s2", 4, 2, 0), ("s2", 5, 3, 1)]
    both = zip(rows, values, strict=True)
    return table(LOG + column, *((*row, value) for row, value in both))


@few(3)(
    ("column", "role", "values"),
    [
        ("predicted_score", "score", (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)),
        ("new_rank", "pos", (1, 3, 2, 2, 3, 1)),
        ("y_pred", "score", (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)),
        ("yhat", "score", (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)),
        ("ltr-position", "pos", (1, 3, 2, 2, 3, 1)),
        ("modelScore", "score", (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)),
        ("pred_proba", "score", (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)),
    ],
)
def test_a_prediction_beside_a_logged_place_gets_a_note(column, role, values):
    mean, notes = evaluate(log(column, values), rel="clicked")
    assert mean == pytest.approx(1 / 3)
    assert len(notes) == 1
    assert f"pass {role}='{column}'" in notes[0]
    assert evaluate(log(column, values), rel="clicked", **{role: column})[0] == pytest.approx(3 / 4)


@few(3)(
    ("column", "values"),
    [
        ("review_score", (4, 1, 3, 2, 1, 5)),
        ("sales_rank", (9, 8, 7, 6, 5, 4)),
        ("bm25_score", (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)),
        ("dense_score", (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)),
        ("position_in_category", (3, 2, 1, 3, 2, 1)),
        ("predicted_click", (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)),
        ("propensity", (0.9, 0.1, 0.6, 0.2, 0.1, 0.8)),
        ("new", (0, 1, 1, 0, 1, 1)),
        ("predicted", (0, 1, 1, 0, 1, 1)),  # flags
        ("model_score", (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)),  # the same order
    ],
)
def test_other_numbers_beside_a_logged_place_stay_without_a_note(column, values):
    assert evaluate(log(column, values), rel="clicked") == (pytest.approx(1 / 3), [])


def test_grades_computed_from_the_number_that_orders_are_asked_about():
    run = table("query item score pred", *(
        (1, "a", 5.0, 0.1), (1, "b", 1.0, 0.9), (2, "a", 4.0, 0.8), (2, "b", 2.0, 0.3),
    ))  # fmt: skip
    threshold = "CAST(score >= 4 AS INT)"
    first, other = asked(run, metrics="P@1", rel=threshold)
    assert (first, other) == ({"score": "pred"}, {"score": "score"})
    assert evaluate(run, None, "P@1", rel=threshold, **first) == (0.5, [])
    assert evaluate(run, None, "P@1", rel=threshold, score="score") == (1.0, [])
    (note,) = evaluate(run.drop("pred"), None, "P@1", rel=threshold)[1]
    assert note.startswith("run: rel= computes the grades of score, which orders the items too")
    ranks = table("group tuner rank predicted_rank", *(
        ("g1", "a", 1, 1), ("g1", "b", 2, 2), ("g2", "a", 1, 2), ("g2", "b", 2, 1),
    ))  # fmt: skip
    first, _ = asked(ranks, metrics="P@1", rel="CAST(rank = 1 AS INT)")
    assert evaluate(ranks, None, "P@1", rel="CAST(rank = 1 AS INT)", **first)[0] == 0.5


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
    (first, *_) = asked(rows)
    assert first == {"item": "texts", "rel": "picked"}
    assert evaluate(rows, **first)[0] == pytest.approx(2 / 3)


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
    calls = asked(rows, item="docs", **known)
    assert calls[0] == first
    assert evaluate(rows, item="docs", **known, **first)[0] == pytest.approx(mean)
    assert evaluate(rows, item="docs", **known, score=name)[0] == pytest.approx(3 / 4)
    if known:
        assert asked(rows)[0] == {"item": "docs", **known, **first}
    by_id = [{**x, name: dict(zip(x["docs"], x[name], strict=True))} for x in rows]
    assert evaluate(by_id, item="docs", **known, score=name)[0] == pytest.approx(3 / 4)


def test_flags_of_an_object_of_lists_are_asked_about():
    one = {"is_selected": [0, 1, 0], "passage_text": ["t", "u", "v"], "url": ["x", "y", "z"]}
    two = {"is_selected": [1, 0], "passage_text": ["w", "p"], "url": ["q", "r"]}
    rows = lists("query_id query passages", (1, "a", one), (2, "b", two))
    calls = asked(rows)
    assert {"item": "passages.url", "rel": "passages.is_selected"} in calls
    assert {evaluate(rows, **call)[0] for call in calls} == {3 / 4}


@few(1)("flag", ["is_supporting", "is_relevant", "gold"])
def test_predictions_beside_flagged_candidates_are_the_run(flag):
    one = [{"idx": 0, flag: False}, {"idx": 1, flag: True}, {"idx": 2, flag: True}]
    two = [{"idx": 0, flag: True}, {"idx": 1, flag: False}]
    rows = lists("question paragraphs predicted_idxs", ("a", one, [0, 1]), ("b", two, [0]))
    (first, *_) = asked(rows, metrics="SetP")
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
    calls = asked(rows)
    assert {"item": [f"retrieved_{whole}", f"gold_{whole}"]} in calls
    assert {"item": [f"retrieved_{part}", f"gold_{part}"]} in calls
    assert sorted(evaluate(rows, **call)[0] for call in calls[:2]) == [0.5, 1]


def test_levels_of_objects_and_of_one_id_per_cell_are_asked_about():
    found = [[{"doc_id": "d1", "chunk_id": "d1#0"}], [{"doc_id": "d2", "chunk_id": "d2#0"}]]
    rows = lists("query expected_doc_id expected_chunk_id retrieved",
                 ("a", "d1", "d1#3", found[0]), ("b", "d2", "d2#0", found[1]))  # fmt: skip
    assert {"item": ["retrieved.chunk_id", "expected_chunk_id"]} in asked(rows)


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
    fine, coarse = asked(run, qrels)[:2]
    assert fine == {"item": part if parts is UNIQUE else f"{whole}, {part}"}
    assert evaluate(run, qrels, **fine)[0] == pytest.approx(3 / 4)
    assert coarse == {"item": [whole] * 2, "collapse": whole, "positions": "keep"}
    assert evaluate(run, qrels, **coarse)[0] == 1


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


@few(2)(
    ("name", "column", "values"),
    [
        ("hits", "recall", (0.5, 1.0)),
        ("matched_ids", "recall_at_5", (0.5, 1.0)),
        ("hits", "misses", (["e2"], [])),
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


@few(2)("word", NOTHING)
def test_a_word_of_no_answer_in_lists_is_asked_about(word):
    rows = lists("query retrieved relevant", ("q1", ["d9", "d1"], ["d1"]), ("q2", ["d2"], ["d2"]),
                 ("q3", ["d4"], [word]))  # fmt: skip
    calls = asked(rows)
    assert sorted(evaluate(rows, **call)[0] for call in calls[:2]) == [0.5, 0.75]


@few(3)("word", NOTHING)
def test_a_word_of_no_answer_in_judgments_gets_a_note(word):
    grades = {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {word: 1}}
    dicts = [grades, {x: [*y] for x, y in grades.items()}]
    rows = [(x, z, 1) for x, y in grades.items() for z in y]
    frame = table("topic docno rel", *rows)
    for qrels in (*dicts, frame, frame.drop("rel")):
        mean, notes = evaluate(ASKED, qrels)
        assert (mean, len(notes)) == (0.5, 1)
        assert notes[0].startswith(f"{word!r} is the only relevant item of 1 query")
        name = "docno" if isinstance(qrels, pl.DataFrame) else "item"
        rel = "rel" if qrels is grades or qrels is frame else "1"
        call = f"CASE WHEN {name} <> '{word}' THEN {rel} END"
        assert f'rel="{call}"' in notes[0]
        assert evaluate(ASKED, qrels, rel=call)[0] == 0.75


def tables_of(form, run, qrels, folder):
    """Runs and judgments of dicts as files, or as tables of a database."""
    run = {x: dict(zip(y, (1 / n for n in range(1, 99)), strict=False)) for x, y in run.items()}
    rows = [[(q, x, y) for q, items in run.items() for x, y in items.items()]]
    rows += [[(q, x, 1) for q, items in qrels.items() for x in items]]
    heads = ("topic docno score", "topic docno rel")
    frames = [table(x, *y) for x, y in zip(heads, rows, strict=True)]
    if form == "tables":
        con = duckdb.connect()
        for name, frame in zip("ab", frames, strict=True):
            con.register("frame", frame)
            con.sql(f"CREATE TABLE {name} AS FROM frame")
        return "a", "b", con
    for frame, name in zip(frames, "ab", strict=True):
        getattr(frame, f"write_{form}")(folder / f"{name}.{form}")
    return folder / f"a.{form}", folder / f"b.{form}", None


@few(2)("form", ["parquet", "csv", "tables"])
@few(3)("word", NOTHING)
def test_a_word_of_no_answer_in_files_gets_a_note(word, form, tmp_path):
    qrels = {"q1": ["d1"], "q2": ["d2"], "q3": [word]}
    run, qrels, con = tables_of(form, ASKED, qrels, tmp_path)
    mean, (note,) = evaluate(run, qrels, con=con)
    assert mean == 0.5
    assert note.startswith(f"{word!r} is the only relevant item of 1 query")
    call = {"rel": f"CASE WHEN docno <> '{word}' THEN rel END"}
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
    assert sorted(evaluate(rows, **call)[0] for call in asked(rows)[:2]) == [2 / 3, 1]


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
    assert asked(run, gold) == [{"pos": "score"}, {"descending": True}]
    assert evaluate(run, gold, pos="score")[0] == pytest.approx(3 / 4)
    assert evaluate([("q1", "a", 9), ("q1", "b", 4), ("q2", "c", 3)], gold)[0] == pytest.approx(
        3 / 4
    )

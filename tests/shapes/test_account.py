"""Every column is used, asked about, noted or named as not read."""

import datetime as dt
import json
import re

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.base.errors import Question
from support.parameters import cycled, few
from support.reading import asked, one_line, read, refused

QUERIES = [f"q{i}" for i in range(40)]
RANKED = {q: [f"d{q}_{k}" for k in range(4)] + ["common"] for q in QUERIES}
RELEVANT = {q: [f"d{q}_{i % 2}"] for i, q in enumerate(QUERIES)}  # RR 1 and .5
RUN = pl.DataFrame(
    [(q, d, k, 10.0 - k) for q in QUERIES for k, d in enumerate(RANKED[q], 1)],
    schema=["query", "item", "rank", "score"], orient="row",
)  # fmt: skip
GOLD = pl.DataFrame(
    [(q, d, 1) for q in QUERIES for d in RELEVANT[q]], schema=["query", "item", "rel"], orient="row"
)
BARE = GOLD.drop("rel")


def numbers(table, low=0, high=98):
    return pl.Series([low + 37 * i % (high - low + 1) for i in range(len(table))])


def times(table, step=7):
    start = dt.datetime(2026, 5, 1)
    return pl.Series([start + dt.timedelta(minutes=step * i) for i in range(len(table))])


def lists(**columns):
    return [
        {"question": q, "retrieved": RANKED[q], "relevant": RELEVANT[q]}
        | {name: value(q) if callable(value) else value for name, value in columns.items()}
        for q in QUERIES
    ]


def objects(**fields):
    hits = {q: [{"id": d, **{x: f(k) for x, f in fields.items()}} for k, d in enumerate(RANKED[q])]
            for q in QUERIES}  # fmt: skip
    return [{"question": q, "retrieved": hits[q], "relevant": RELEVANT[q]} for q in QUERIES]


def judged(**fields):
    return [
        {"question": q, "retrieved": RANKED[q],
         "relevant": [{"id": d, **{x: f(q) for x, f in fields.items()}} for d in RELEVANT[q]]}
        for q in QUERIES
    ]  # fmt: skip


SCORED, PLACED = RUN.drop("rank"), RUN.drop("score")
ORDINARY = {
    "row ids": (RUN.with_row_index("id"), GOLD.with_row_index("id", 900)),
    "times": (SCORED.with_columns(created_at=times(SCORED)),
              GOLD.with_columns(created_at=times(GOLD, 3))),
    "same titles": (SCORED.with_columns(title="T " + pl.col("item")),
                    GOLD.with_columns(title="T " + pl.col("item"))),
    "other titles": (SCORED.with_columns(title="The title of " + pl.col("item")),
                     GOLD.with_columns(title="the title of " + pl.col("item"))),
    "sources": (SCORED.with_columns(source=pl.lit("bm25")),
                GOLD.with_columns(source=pl.lit("annotation"))),
    "models": (SCORED.with_columns(model=pl.lit("e5")), GOLD.with_columns(model=pl.lit("gpt"))),
    "pool ranks": (PLACED, GOLD.with_columns(rank=numbers(GOLD, 1, 5))),
    "score of judgments": (SCORED, GOLD.with_columns(score=numbers(GOLD))),
    "annotators": (PLACED, GOLD.with_columns(annotator=pl.lit("ann"), comment=pl.lit("ok"))),
    "latency": (PLACED.with_columns(latency=numbers(PLACED), cost=numbers(PLACED)), GOLD),
    "changed prices": (SCORED.with_columns(price=numbers(SCORED)),
                       GOLD.with_columns(price=numbers(GOLD, 5))),
    "consistent distance": (SCORED.with_columns(distance=1 / pl.col("score")), GOLD),
    "days of clicks": (PLACED, BARE.with_columns(date=pl.lit("2026-05-01"))),
    "query texts": (PLACED, GOLD.with_columns(query_text="what is " + pl.col("query"))),
    "sessions": (PLACED.with_columns(session_id="s" + pl.col("query"), user_id=pl.lit("u")), GOLD),
    "answers": (lists(answer="text", contexts=lambda q: [f"text of {d}" for d in RANKED[q]]), None),
    "scores beside": (lists(scores=[0.9, 0.8, 0.7, 0.6, 0.5]), None),
    "vectors": (lists(embedding=[0.1, 0.2, 0.3]), None),
    "a copy": (lists(retrieved_copy=lambda q: RANKED[q]), None),
    "tags": (lists(tags=["easy", "faq"]), None),
    "cited ids": (lists(cited_ids=lambda q: RANKED[q][:1]), None),
    "negatives": (lists(hard_negatives=lambda q: RANKED[q][2:3]), None),
    "scored objects": (objects(score=lambda k: 1 - k / 10, page=lambda k: 3 * k), None),
    "reranked objects": (objects(score=lambda k: k * 7 % 5, rerank_score=lambda k: 9 - k), None),
    "spans": (judged(start=lambda q: 10 * int(q[1:]), quote=lambda q: "some words of it"), None),
    "constant weight": (judged(weight=lambda q: 1), None),
    "pairs": ({q: [(d, 1 - k / 10) for k, d in enumerate(x)] for q, x in RANKED.items()}, RELEVANT),
    "integer scores": ({q: {d: 5 - k for k, d in enumerate(RANKED[q])} for q in RANKED}, RELEVANT),
    "an id called none": ({q: [*x[:4], "none"] for q, x in RANKED.items()}, RELEVANT),
    "cells of both lists": (
        pl.DataFrame({"question": QUERIES, "retrieved": [",".join(RANKED[q]) for q in QUERIES],
                      "relevant": [f"{RELEVANT[q][0]},z{q}" for q in QUERIES]}), None),
    "an empty id": ({"q": ["a1", "b"], "r": ["b"]}, {"q": {"": 1, "b": 1}, "r": {"b": 1}}),
    "paths": ([{"question": q, "retrieved": [f"src/{d}.py" for d in RANKED[q]],
                "relevant": [f"src/{d}.py" for d in RELEVANT[q]]} for q in QUERIES], None),
}  # fmt: skip


@few(8)("name", ORDINARY)
def test_ordinary_tables_are_not_asked_about(name):
    run, qrels = ORDINARY[name]
    result = read(run, qrels)
    assert result["RR"] == 0.75 and "chunks" not in str(result)


def test_columns_without_a_role_are_named():
    run = RUN.with_columns(seg=pl.lit("a"), deleted=numbers(RUN) % 2)
    qrels = GOLD.with_columns(annotator=pl.lit("ann"))
    result = read(run, qrels, by="seg")
    assert result.columns["run"]["not read"] == "deleted"
    assert result.columns["qrels"]["not read"] == "annotator"
    assert "not read: deleted (run), annotator (qrels)" in str(result)
    wide = GOLD.with_columns(**{f"column_{i:03}": pl.lit(i) for i in range(99)})
    shown = str(rankql.evaluate(RUN, wide, "RR", interval=None))
    assert "and 89 more" in shown and "column_099" not in shown
    own = read(run, qrels, ["x = avg(deleted)"])
    assert "not read" in own.columns["run"] and "deleted" not in own.columns["run"]["not read"]


# The fault is in a few of 1,000 queries.
FAULTS = {
    "two ids in an element": {"relevant": ["z; b"]},
    "a word for nothing": {"relevant": ["none"]},
    "another form of URLs": {"retrieved": ["a", "b/", "c"]},
    "a second list": {"acceptable": ["a"]},
    "scores against the order": {"scores": [0.1, 0.5, 0.9]},
}


@few(3)(("fault", "share", "late"), cycled([*FAULTS] * 2, [2, 10, 50], [False, True]))
def test_faults_of_few_queries_are_asked_about_or_noted(fault, share, late):
    row = {"retrieved": ["a", "b", "c"], "relevant": ["b"]}
    row |= {"scores": [0.9, 0.5, 0.1]} if "scores" in fault else {}
    row |= {"acceptable": []} if "second" in fault else {}
    faulty = range(1000 - 1000 // share, 1000) if late else range(0, 1000, share)
    rows = [{"question": f"q{i}", **row, **(FAULTS[fault] if i in faulty else {})}
            for i in range(1000)]  # fmt: skip
    try:
        notes = " ".join(rankql.evaluate(rows, metrics="RR", interval=None).notes)
    except Question:
        return
    assert "spelled differently" in notes or "acceptable has ids" in notes


@pytest.mark.parametrize("form", ["frames", "dicts"])
def test_ids_of_the_last_queries_are_compared_too(form):
    run = {f"q{i}": [f"d{i % 7}", "d8/" if i > 1450 else "d8"] for i in range(1500)}
    qrels = {query: {"d8": 1} for query in run}
    if form == "frames":
        rows = [(query, item, i) for query, items in run.items() for i, item in enumerate(items, 1)]
        run = pl.DataFrame(rows, ["query", "item", "pos"], orient="row")
        qrels = pl.DataFrame([(x, "d8", 1) for x in qrels], ["query", "item", "rel"], orient="row")
    (note,) = rankql.evaluate(run, qrels, "R@2", interval=None).notes
    assert "spelled differently in the run and not found: 'd8/' and 'd8'" in note


def test_check_lists_doubts():
    run = objects(page=lambda k: k)
    qrels = [{"question": q, "relevant": [{"id": RELEVANT[q][0], "page": 9}]} for q in QUERIES]
    (finding,) = (x for x in rankql.check(run, qrels).findings if x.kind == "reading")
    assert "retrieved.page of run and relevant.page of qrels differ" in finding.message


def test_counts_of_a_sample_say_so():
    rows = [{"query": f"q{i}", "retrieved": ["A", "b"], "relevant": ["a", "b"]}
            for i in range(5000)]  # fmt: skip
    for number, extent in ((9, ""), (5000, " of a sample")):
        notes = rankql.evaluate(rows[:number], metrics="RR", interval=None).notes
        (note,) = (note for note in notes if "spelled differently" in note)
        assert f"relevant ids{extent} are spelled" in note


ASKED = [
    ({"q": [("a", 0.1), ("b", 0.2)]}, {"q": {"a": 1}}, {}, "order='rows'"),
    ({"q": {"b": 1, "a": 2}}, {"q": {"a": 1}}, {}, "pos='score'"),
    ({"q": {"b": 0, "a": 1}}, {"q": {"a": 1}}, {}, "pos='score + 1' descending=True"),
    (lists(relevant=lambda q: [*RELEVANT[q], ""]), None, {}, "lambda x: x <> '')\"] item="),
    (lists(relevant_pairs=lambda q: [[RELEVANT[q][0], 2.0]]), None,
     {"item": ["retrieved", "relevant_pairs"]}, None),
    ([{"query": "q", "retrieved": ["b", "a"], "gold_pairs": [["a", 2.0]]}], None, {},
     "rel='gold_pairs.2' rel='1'"),
    (objects(page=lambda k: k), [{"question": q, "relevant": [{"id": RELEVANT[q][0], "page": 9}]}
                                 for q in QUERIES], {}, "item=['retrieved.id', 'relevant.id']"),
    (lists(reranked=lambda q: RANKED[q][::-1]), None, {}, "item=['reranked', 'relevant']"),
    (SCORED, BARE.with_columns(price=numbers(BARE)), {}, "rel='1' rel='price'"),
    (lists(grades=lambda q: [int(q[1:]) / 9]), None, {}, "rel='grades' rel='1'"),
    (lists(relevance=lambda q: [int(q[1:]) % 3]), None, {}, "rel='relevance' rel='1'"),
    (pl.DataFrame({"question": QUERIES, "retrieved": [json.dumps(RANKED[q]) for q in QUERIES],
                   "relevant": [json.dumps(RELEVANT[q]) for q in QUERIES],
                   "gains": [f"[{i % 3}]" for i in range(40)]}), None, {}, "rel='gains'"),
    (RANKED, pl.DataFrame({"query": QUERIES, "doc_id": RELEVANT.values(),
                           "rel": [[1 + i % 3] for i in range(40)]}), {},
     "item=['item', 'doc_id'], rel='rel'"),
    (SCORED, BARE.with_columns(kept=numbers(BARE) % 2 == 0), {}, "rel='kept'"),
    (PLACED, GOLD, {"score": "rank"}, "pos='rank' descending=True"),
    (PLACED.with_columns(rank=pl.col("rank") - 1), GOLD, {"score": "rank"}, "pos='rank + 1'"),
    (PLACED.rename({"rank": "shown"}).with_columns(shown=pl.col("shown") - 1, clicked=PLACED["rank"]
     == 2), None, {}, "rel='clicked', pos='shown + 1'"),
    (PLACED.rename({"rank": "shown"}), GOLD, {}, "Pass: pos='shown' The run"),
    ([{"query": "q", "retrieved": [{"id": "b", "rank": 2, "rel": 0}, {"id": "a", "rank": 1,
       "rel": 1}]}], None, {}, "score='retrieved.rank', descending=False"),
    ([{"c": f"c{i // 3}", "turn": i % 3, "question": "and?", "retrieved": ["a"], "relevant": ["a"]}
      for i in range(9)], None, {}, "query=['c', 'turn']"),
    (pl.DataFrame({"question": QUERIES} | {
        c: [f"[{i}, {i + 50}]" for i in range(40)] for c in ("docs", "relevant")}), None, {},
     "item=['docs', 'relevant']"),
]  # fmt: skip


def test_a_score_that_ranks_one_of_several_runs_is_read():
    result = read({"a": SCORED, "b": RANKED}, GOLD)
    assert "a by score, b by pos" in str(result.notes) and "not read" not in str(result)
    both = read({"a": RUN, "b": RANKED}, GOLD)
    assert "not read: score" in str(both) and "differ in it" not in str(both.notes)


def test_relevant_ids_of_all_runs_are_read():
    runs = {"a": pl.DataFrame(lists()), "b": pl.DataFrame(lists(length=5))}
    result = read(runs)
    assert "not read: length" in str(result) and "relevant (run" not in str(result)
    assert "relevant" not in result.columns["run 'b'"]["not read"]


def test_a_file_offers_the_score_of_a_name_that_is_not_known(tmp_path):
    """In CSV all columns are text."""
    run = SCORED.select("query", "item", match_score=pl.col("score") / 3)
    run.write_csv(tmp_path / "run.csv")
    question = asked(tmp_path / "run.csv", GOLD, match="match_score")
    assert question.calls == [{"score": "match_score"}]


@few(5)(("run", "qrels", "options", "call"), ASKED)
def test_a_question_offers_the_call_that_answers_it(run, qrels, options, call):
    if call is None:
        assert read(run, qrels, **options)["RR"] == 0.75
        return
    question = asked(run, qrels, **options)
    assert call in one_line(question) and 1 <= len(question.calls) <= 3


def test_events_of_one_item_are_seen_before_one_row_of_each_is_kept():
    """The kept rows have no event, but the log as it came has: views would count as purchases."""
    events = ("view", "purchase", "view")
    rows = [(q, d, e) for q in QUERIES for d, e in zip(RANKED[q], events, strict=False)]
    log = pl.DataFrame([*rows, *rows[:9]], schema=["query", "item", "event"], orient="row")
    run = RUN.drop("rank")
    asked(run, log, match=r"Is event the grade of item\? Pass: rel='1' Or a grade for")
    grades = {"purchase": 1, "view": 0}
    assert read(run, log, rel=("event", grades))["RR"] == 0.5
    result = read(run, log, rel="1")
    assert result["RR"] == 1 and "not read: event" in str(result)
    assert "not read" not in str(read(run, log.drop("event")))
    amounts = log.with_columns(amount=numbers(log, -3)).drop("event")
    asked(run, amounts, match=r"Pass one of: rel='max\(amount\)' rel='sum\(amount\)' ")


# The rows of a query begin with its lowest score: how many queries have how many rows, and what
# is said. By chance all rise in one of 2, 24, 13,824 and 5,040 samples.
RISING = {
    "2": ((2,), ""), "4": ((4,), "note"), "4 4 4": ((4, 4, 4), "question"), "7": ((7,), "question"),
    "a falling one": ((4, 4, 4, -2), ""), "an equal one": ((4, 4, 4, 0), "question"),
}  # fmt: skip


@few(3)("case", RISING)
@pytest.mark.parametrize("shape", ["frame", "rows", "dict", "file"])
def test_the_order_of_rows_is_a_witness_of_the_best_score(case, shape, tmp_path):
    sizes, says = RISING[case]
    rows = [
        (f"q{i}", f"d{i}{k}", float(10 - i + (k if size > 0 else -k if size < 0 else 0)))
        for i, size in enumerate(sizes)
        for k in range(abs(size) or 2)
    ]
    frame = pl.DataFrame(rows, schema=["query", "item", "score"], orient="row")
    run = {
        "frame": frame,
        "rows": rows,
        "dict": {q: {d: s for p, d, s in rows if p == q} for q in frame["query"].unique()},
        "file": str(tmp_path / "run.csv"),
    }[shape]
    frame.write_csv(tmp_path / "run.csv")
    qrels = {f"q{i}": [f"d{i}0"] for i in range(len(sizes))}
    if says == "question":
        text = r"begin with the lowest score. Is the lowest the best\? Pass one of: desc"
        question = asked(run, qrels, match=text)
        assert question.calls == [{"descending": False}, {"descending": True}]
        assert read(run, qrels, descending=False)["RR"] >= 0.875
        assert "lowest" not in str(read(run, qrels, descending=True))
        assert "lowest" not in str(read(frame.sort("query", -pl.col("score")), qrels))
    else:
        text = "If the lowest is best, pass descending=False"
        assert (text in str(read(run, qrels))) == (says == "note")


def test_rows_that_are_sorted_by_score_are_noted():
    """As `sort_values` sorts them: no query stands alone, so their order says less."""
    scored = RUN.drop("rank").with_columns(score=pl.int_range(200) * 1.0)
    run = scored.sample(200, shuffle=True, seed=1)
    assert "all rows begin with the lowest score" in str(read(run.sort("score"), GOLD))
    assert "lowest" not in str(read(run, GOLD))


@pytest.mark.parametrize("ordered", [True, False])
def test_bm25_below_0_is_asked_about_unless_the_best_come_first(ordered):
    falling = RUN.drop("rank").with_columns(score=pl.col("score") - 20).rename({"score": "bm25"})
    for table, asks in ((falling, not ordered), (falling.sort("query", "bm25"), True)):
        run = table if ordered else duckdb.from_arrow(table.to_arrow())
        if not asks:
            assert read(run, GOLD)["RR"] == 0.75
            continue
        asked(run, GOLD, match=r"as in FTS5, where the lowest is best. Is it here\?")
        assert read(run, GOLD, descending=True)["RR"] == 0.75


def test_a_score_that_rises_with_the_position_is_named_with_a_call_that_ranks_by_it():
    run = RUN.with_columns(score=-pl.col("score"))
    best_last = read(run, GOLD, score="score")["RR"]
    named = ({"pos": "rank"}, "pass score='score' instead of pos='rank'")
    for options, remedy in (({}, "pass score='score'"), named):
        found = read(run, GOLD, **options)
        assert found.notes[0].endswith(remedy) and found["RR"] == 0.75 != best_last


def test_words_for_nothing_in_the_run_are_asked_about():
    rows = [
        {"query": "q1", "retrieved": ["No results found"], "relevant": ["a"]},
        {"query": "q2", "retrieved": ["y"], "relevant": ["y"]},
        {"query": "q3", "retrieved": ["No results found"], "relevant": []},
    ]
    drop = "list_filter(retrieved, lambda x: x <> 'No results found')"
    call = f"item=[\"{drop}\", 'relevant']"
    refused(
        rows,
        metrics="FalseAnswer",
        match=re.escape(f"that no item is retrieved? Pass one of: {call}"),
    )
    metrics = ["FalseAbstention", "FalseAnswer"]
    result = rankql.evaluate(rows, metrics=metrics, item=[drop, "relevant"])
    assert result.summary["mean"].to_list() == [0.5, 0]


def test_yes_and_no_are_grades():
    judged = PLACED.select("query", "item", verdict=pl.lit("no"))
    judged = judged.with_columns(verdict=pl.when(pl.int_range(pl.len()) % 2 == 0).then("verdict"))
    call = {"rel": ("verdict", {"no": 0, "yes": 1})}
    assert asked(PLACED, judged.with_columns(pl.col("verdict").fill_null("yes"))).calls[0] == call

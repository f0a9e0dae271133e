"""Tidy tables skip what makes tables tidy, and what makes tables tidy leaves them as they are."""

import sys
from pathlib import Path
from random import Random

import pandas as pd
import polars as pl
import pytest

import rankql
from rankql.core.tables import reading
from support.parameters import few

PACKAGE = str(Path(rankql.__file__).parent)
SCORED = pl.DataFrame(
    {
        "query": [*"aaabbbccd"],
        "item": [*"xyzxyzxyx"],
        "score": [3.0, 2.0, 1.0, 1.0, 2.0, 2.0, 5.0, 4.0, 1.0],
    }
)
PLACED = SCORED.drop("score").with_columns(pos=pl.int_range(1, pl.len() + 1).over("query"))
QRELS = pl.DataFrame({"query": [*"aaabbce"], "item": [*"xyzxyyx"], "rel": [1, 0, 2, 0, 1, None, 1]})
OTHER = SCORED.rename({"query": "user_id", "item": "sku"}).with_columns(title=pl.lit("a text"))
ABOUT = QRELS.with_columns(
    segment=pl.col("query").replace_strict({"a": "new", "b": "old", "c": "old", "e": None}),
    traffic=pl.col("query").replace_strict({"a": 2.0, "b": 1.0, "c": 3.0, "e": 1.0}),
)
TABLES = {
    "scores": (SCORED, QRELS, {}),
    "positions": (PLACED, QRELS, {}),
    "pandas": (SCORED.to_pandas(), QRELS.to_pandas().astype({"rel": "Int64"}), {}),
    "several runs": ({"old": SCORED, "new": SCORED.with_columns(-pl.col("score"))}, QRELS, {}),
    "positions and scores": ({"old": PLACED, "new": SCORED}, QRELS, {}),
    "slices": (SCORED, ABOUT, {"by": "segment", "weight": "traffic"}),
    "clusters": (PLACED, ABOUT, {"by": ["segment", "traffic"], "cluster": "segment"}),
    "ties": (SCORED, QRELS, {"ties": "expected"}),
    "query in the judgments alone": (SCORED.filter(query="d"), QRELS, {}),
    "an item twice": (pl.concat([SCORED, SCORED]), QRELS, {}),
    "two grades": (SCORED, pl.concat([QRELS, QRELS.with_columns(rel=pl.lit(2, pl.Int64))]), {}),
    "NULL": (SCORED.with_columns(query=pl.lit(None, pl.String)), QRELS, {}),
    "NaN": (SCORED.with_columns(score=pl.lit(float("nan"))), QRELS, {}),
    "positions from 0": (PLACED.with_columns(pl.col("pos") - 1), QRELS, {}),
    "by is the item": (SCORED, QRELS, {"by": "item"}),
    "no such attribute": (SCORED, QRELS, {"by": "country"}),
}


def outcome(run, qrels, options):
    """All that a caller sees of an evaluation, or the error."""
    try:
        result = rankql.evaluate(run, qrels, ["nDCG@2", "AP", "Judged@2"], **options)
    except rankql.RankqlError as error:
        return str(error)
    frames = result.summary.to_dicts(), result.per_query.to_dicts()
    return repr(result), result.sql, dict(result.steps), result.columns, result.notes, *frames


@few(4)("name", TABLES)
def test_both_ways_give_the_same(name, monkeypatch):
    skipped = outcome(*TABLES[name])
    monkeypatch.setattr(reading, "name_ids", lambda *_: None)
    assert skipped == outcome(*TABLES[name])


NAMES = {
    "query": ["qid", "user_id", "Topic", "session", "q", "visitorId", "query", "request_id", "id"],
    "item": ["doc_id", "docno", "ITEM", "hotel_id", "sku", "url", "page", "model_id", "item"],
    "score": ["score", "bm25", "dist", "Similarity", "probability", "points"],
    "pos": ["rank", "slot", "pos", "row_number"],
    "rel": ["grade", "relevance", "relevant", "label", "rating", "rel"],
}
UNREAD = ["title", "id", "user", "run", "split", "retrieved", "timestamp", "score", "relevant_ids"]


@few(4)("seed", range(40))
def test_both_ways_give_the_same_whatever_the_names(seed, monkeypatch):
    random = Random(seed)
    same = {role: random.choice(names) for role, names in NAMES.items()}
    other = {role: random.choice(names) for role, names in NAMES.items()}
    run = random.choice([SCORED, PLACED, SCORED.with_columns(pos=PLACED["pos"])])
    names = [same, random.choice([same, other])]
    run, qrels = (
        table.rename({x: each[x] for x in table.columns})
        for table, each in zip((run, QRELS), names, strict=True)
    )
    if seed % 4 == 0:  # one table with the grades
        run, qrels = SCORED.join(QRELS, on=["query", "item"], how="left"), None
        run = run.rename({x: same[x] for x in run.columns})
    more = random.choice(UNREAD)
    if more not in run.columns:
        run = run.with_columns(pl.lit(random.choice(["a;b", "[1]", "x"])).alias(more))
    options = random.choice([{}, {}, {"by": more}, {"by": run.columns[0]}])
    skipped = outcome(run, qrels, options)
    monkeypatch.setattr(reading, "name_ids", lambda *_: None)
    assert skipped == outcome(run, qrels, options)


def entered_modules(call):
    """The modules of the package of which a call enters a function."""
    modules = set()

    def enter(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            modules.add(frame.f_code.co_filename.removeprefix(PACKAGE + "/"))

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return modules


@few(2)(
    "call",
    [
        lambda: print(rankql.evaluate(SCORED, QRELS, ["nDCG@10", "AP"])),
        lambda: print(rankql.evaluate(PLACED, ABOUT.to_pandas(), by="segment", weight="traffic")),
        lambda: print(rankql.evaluate(OTHER, QRELS.rename({"query": "user_id", "item": "sku"}))),
        lambda: print(rankql.check(SCORED, QRELS)),
        lambda: print(rankql.explain(SCORED, QRELS, "a", "nDCG@10")),
        lambda: print(rankql.gate(SCORED, QRELS, minimum="nDCG@10>=0.1")),
    ],
    ids=["evaluate", "positions", "other names", "check", "explain", "gate"],
)
def test_tidy_tables_enter_nothing_that_makes_tables_tidy(call):
    try:
        modules = entered_modules(call)
    except rankql.RankqlError:
        pytest.fail("the call is in order")
    assert "core/tables/reading.py" in modules
    assert not [x for x in modules if x.startswith(("shapes/choose/", "shapes/unpack/"))]


def test_untidy_tables_enter_it():
    lists = pd.DataFrame({"query": ["a"], "retrieved": [["x"]], "relevant": [["x"]]})
    assert "shapes/unpack/lists.py" in entered_modules(lambda: rankql.evaluate(lists))

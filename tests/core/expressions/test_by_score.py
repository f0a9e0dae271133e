"""Forms by score of polars: ties, parts, types of items, and queries of several columns."""

import random
from datetime import timedelta

import pandas
import polars as pl
import pytest

import rankql
from rankql import RankqlError
from rankql.core.expressions import by_score
from support import calls
from support.parameters import few

METRICS = ("ndcg", "recall_at", "ap")


def scored(levels, rows=600):
    """Groups of 1 to 40 rows, a tenth without a score. levels: so many different scores."""
    draw = random.Random(levels)
    query, item = [min(draw.randrange(1, 24) ** 2 // 16, 30) for _ in range(rows)], range(rows)
    score = [None if draw.random() < 0.1 else draw.randrange(levels) for _ in item]
    rel = [draw.choice((None, 0, 0, 1, 2)) for _ in item]
    table = {"query": query, "item": [f"é{x % 97}" for x in item], "rel": rel, "score": score}
    return pl.DataFrame(table).unique(["query", "item"], maintain_order=True)


@few(1)("levels", [3, 200, 10**9])
@pytest.mark.parametrize("rows", [by_score.MAX_ROWS, 50])
def test_frames_of_many_or_few_ties_in_any_number_of_parts(monkeypatch, levels, rows):
    """All equal SQL: every form is chosen by the share of ties, and its parts by their rows."""
    monkeypatch.setattr(by_score, "MAX_ROWS", rows)
    frame = scored(levels)
    con = calls.connected(frame)
    pos = con.sql("SELECT query, item, pos FROM ranked('input_rows') ORDER BY ALL").pl()
    assert rankql.ranked(frame).select("query", "item", "pos").sort("query", "item").equals(pos)
    for ties in ("item", "expected"):
        named = ", ".join(
            f"{x}_by_score(rel, score, item, k := 5, ties := '{ties}')" for x in METRICS
        )
        values = con.sql(
            f"SELECT query, {named} FROM input_rows GROUP BY query ORDER BY query"
        ).fetchall()
        forms = [getattr(rankql, f"{x}_by_score")(k=5, ties=ties) for x in METRICS]
        result = frame.group_by("query").agg(forms).sort("query")
        for row, expected in zip(result.rows(), values, strict=True):
            assert row == pytest.approx(expected, abs=1e-12)


def test_ties_that_begin_within_the_cutoff_reach_beyond_it():
    """Position 2 goes to the item that is higher as text; at 3 nothing is tied any more."""
    rows = {"rel": [0, 1, 0, 3], "score": [9, 8, 8, 8], "item": ["a", "b", "d", "c"]}
    form = pl.DataFrame(rows).select(
        *(rankql.cg_by_score(k=k).alias(f"{k}") for k in (1, 2, 3, 4)),
        expected=rankql.cg_by_score(k=2, ties="expected"),
    )
    assert form.row(0) == pytest.approx((0, 0, 3, 4, 4 / 3))


@few(2)("item", [[[1], [2]], [timedelta(1), timedelta(2)]], ids=str)
@pytest.mark.parametrize("score", [[1, 2], [1, 1]])
def test_items_that_are_no_text_are_refused_with_and_without_ties(item, score):
    frame = pl.DataFrame({"query": 1, "rel": [0, 1], "score": score, "item": item})
    for call in (rankql.ndcg_by_score(), None):
        with pytest.raises(RankqlError, match="item must be text or a number, not"):
            frame.select(call) if call is not None else rankql.ranked(frame)


@few(2)("query", [["store", "visit"], pl.struct("store", "visit")], ids=str)
@pytest.mark.parametrize("kind", [pl.DataFrame, pl.LazyFrame, pl.DataFrame.to_pandas])
def test_a_query_of_several_columns(query, kind):
    rows = [("x", 1, "a", 0.1), ("y", 1, "b", 0.2), ("x", 2, "c", 0.3), ("x", 1, "d", 0.4)]
    frame = pl.DataFrame(rows, schema=["store", "visit", "item", "score"], orient="row")
    result = rankql.ranked(frame.lazy() if kind is pl.LazyFrame else kind(frame), query=query)
    result = result.collect() if kind is pl.LazyFrame else result
    assert [*result["pos"]] == [2, 1, 1, 1]


@few(2)("item", ["item", "doc_id"])
@pytest.mark.parametrize("ties", ["item", "expected"])
def test_pandas_needs_no_name_of_the_item_that_polars_finds(item, ties):
    frame = pl.DataFrame({"query": 1, item: [*"abc"], "rel": [0, 1, 0], "score": [2, 2, 1]})
    value = frame.pipe(rankql.ndcg_by_score, ties=ties)["ndcg_by_score"].item()
    result = frame.to_pandas().pipe(rankql.ndcg_by_score, ties=ties)
    assert isinstance(result, pandas.DataFrame) and result["ndcg_by_score"].item() == value


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.LazyFrame, pl.DataFrame.clear])
def test_a_forgotten_item_is_named_by_its_argument(kind):
    frame = kind(pl.DataFrame({"grade": [0, 1], "points": [2.0, 1.0]}))
    with pytest.raises(RankqlError, match=r"equal scores: pass its name as item='...'"):
        frame.lazy().select(rankql.ndcg_by_score("grade", "points")).collect()
    item = pl.col("points").cast(pl.String)
    assert frame.lazy().select(rankql.ndcg_by_score("grade", "points", item)).collect().width == 1
    kept = frame.lazy().select(
        rankql.ndcg_by_score("grade", "points", ties="expected").alias("expected"),
        rankql.auc_by_score("grade", "points"),  # neither reads an item
    )
    assert kept.collect().width == 2

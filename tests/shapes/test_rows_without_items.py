"""A row whose list is empty or NULL keeps its attributes."""

import json

import polars as pl
import pytest

import rankql
from support.parameters import few

ROWS = [
    {"question": q, "theme": t, "visits": v, "who": w, "retrieved": r, "relevant": ["s1"]}
    for q, t, v, w, r in (
        ("a", "x", 1, "u1", ["s1"]), ("b", "x", 9, "u1", []), ("c", "y", 1, "u2", ["s1"]),
    )
]  # fmt: skip
# By hand: a and c are right, b retrieved nothing.
BY_THEME = {"all": 2 / 3, "theme=x": 0.5, "theme=y": 1.0}


def means(*tables, **options):
    result = rankql.evaluate(*tables, metrics="R@1", **options)
    return dict(zip(*result.summary.select("slice", "mean"), strict=True))


@few(2)("form", ["rows", "NULL", "jsonl", "polars", "parquet", "objects", "maps", "cells", "apart"])
def test_attributes_of_a_row_that_retrieved_nothing(form, tmp_path):
    rows, qrels = [dict(row) for row in ROWS], []
    made = {
        "NULL": lambda x: x or None, "objects": lambda x: [{"id": y, "score": 0.5} for y in x],
        "maps": lambda x: dict.fromkeys(x, 0.5), "cells": " ".join,
    }.get(form, list)  # fmt: skip
    for row in rows:
        row["retrieved"] = made(row["retrieved"])
        row["relevant"] = " ".join(row["relevant"]) if form == "cells" else row["relevant"]
        if form == "apart":
            qrels.append({"question": row["question"], "relevant": row.pop("relevant")})
    data = pl.DataFrame(rows) if form in ("polars", "parquet", "cells") else rows
    if form == "parquet":
        data.write_parquet(data := tmp_path / "out.parquet")
    if form == "jsonl":
        data = tmp_path / "out.jsonl"
        data.write_text("\n".join(map(json.dumps, rows)))
    assert means(data, *[qrels] * bool(qrels), by="theme") == pytest.approx(BY_THEME)


def test_weights_clusters_expressions_and_the_mean_of_slices():
    assert rankql.evaluate(ROWS, metrics="R@1", weight="visits")["R@1"] == pytest.approx(2 / 11)
    result = rankql.evaluate(ROWS, metrics="R@1", cluster="who")
    assert any("2 clusters of 1 to 2 queries" in note for note in result.notes)
    assert means(ROWS, by="visits > 5 AS busy")["busy=true"] == 0
    assert means(ROWS, by="theme", mean="slices")["mean of slices"] == 0.75
    assert "attributes" not in rankql.evaluate(ROWS, metrics="R@1", by="theme").columns


def test_a_gate_of_a_slice_and_a_comparison():
    assert not rankql.gate(ROWS, minimum={"theme=x: R@1": 0.8}, by="theme").passed
    better = [{**row, "retrieved": row["retrieved"] and ["s2"]} for row in ROWS]
    pairs = rankql.compare({"a": ROWS, "b": better}, metrics="R@1", by="theme").pairs
    assert dict(zip(*pairs.select("slice", "mean_a"), strict=True)) == pytest.approx(BY_THEME)


def test_two_values_of_a_query_are_those_of_the_run():
    other = [{**row, "theme": "z"} for row in ROWS]
    with pytest.raises(
        rankql.RankqlError,
        match="theme must have one value per query, but run has 'x' and 'z' for query 'a'",
    ):
        means({"a": ROWS, "b": other}, by="theme")


LANGUAGES = pl.DataFrame({"question": [*"abc"], "language": ["de", "de", "en"]})
SILENT = [{**row, "retrieved": []} for row in ROWS]


def test_attributes_of_another_table_leave_those_of_the_rows():
    options = {"by": [["theme"], ["language"]], "attributes": LANGUAGES}
    assert means(ROWS, **options) == BY_THEME | {"language=de": 0.5, "language=en": 1.0}
    assert means(ROWS, by="theme", attributes=LANGUAGES) == BY_THEME


def test_a_system_that_retrieved_nothing_stays():
    column = [{**row, "system": s} for s, rows in (("a", ROWS), ("b", SILENT)) for row in rows]
    for data in ({"a": ROWS, "b": SILENT}, column):
        summary = rankql.evaluate(data, metrics="R@1", by="theme", interval=None).summary
        silent = summary.filter(system="b")
        assert silent["mean"].to_list() == [0, 0, 0] and silent["queries"].to_list() == [3, 2, 1]
    compared = rankql.compare({"a": ROWS, "b": SILENT}, metrics="R@1")
    assert compared.pairs["difference"].to_list() == pytest.approx([-2 / 3])


@few(1)("where", ["item", "item and score"])
def test_a_row_whose_item_is_null_is_a_query_without_items(where):
    run = pl.DataFrame({"question": [*"abc"], "theme": [*"xxy"], "item": ["s1", None, "s1"],
                        "score": [1.0, None if "score" in where else 0.5, 1.0]})  # fmt: skip
    qrels = pl.DataFrame({"question": [*"abc"], "item": ["s1"] * 3, "rel": [1] * 3})
    assert means(run, qrels, by="theme") == BY_THEME
    notes = rankql.evaluate(run, qrels, "R@1").notes
    assert "run: 1 query without an item retrieved nothing" in notes
    more = pl.concat([run, run[:1].with_columns(item=pl.lit(None))])
    with pytest.raises(rankql.RankqlError, match="item is NULL in 2 of 4 rows"):
        rankql.evaluate(more, qrels, "R@1")

"""Each row of the page on shapes by hand is run on data of its kind."""

import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rankql
from support.paths import ROOT

ROW = re.compile(r'^\| <a id="([\w-]+)"></a>.*? \| (.*) \|$', re.MULTILINE)
PAGES = [ROOT / "docs" / "by-hand.md", ROOT / "docs" / "zh" / "by-hand.md"]
ROWS, CHINESE = ({x: code.rstrip() for x, code in ROW.findall(y.read_text("utf-8"))} for y in PAGES)
# Query a shows x and y, and y is relevant; b shows z, which is relevant.
RUN = {"a": ["x", "y"], "b": ["z"]}
ITEMS = {"query": [*"aab"], "item": [*"xyz"]}
TIMES = ["2026-01-01 10:00", "2026-01-01 11:00", "2026-01-02 09:00"]
SCORES = pd.DataFrame([[0.9, 0.8, None], [0.1, None, 0.7]], [*"ab"], [*"xyz"])
DATA = {
    "loop": {"data": [{"q": "a", "found": [{"k": "x"}, {"k": "y"}], "truth": [("y", 2)]},
                      {"q": "b", "found": [{"k": "z"}], "truth": [("z", 1)]}]},
    "columns": {"df": pl.DataFrame({"asked": [*"aab"], "shown": [*"xyz"],
                                    "quality": [0.9, 0.8, 0.7], "fit": [0, 2, 1]})},
    "key": {"df": pl.DataFrame({"user": [1, 1, 1], "ts": [5, 5, 6], "item": [*"xyx"],
                                "score": [0.9, 0.8, 0.7], "label": [0, 1, 1]})},
    "trials": {"data": [
        {"question": q, "run_no": n, "retrieved": [*x], "relevant": ["y"]}
        for q, each in {"a": ["xy", "xy", "xy"], "b": ["yx"]}.items() for n, x in enumerate(each)]},
    "all-relevant": {"run": RUN, "bought": pl.DataFrame(
        {"user": [*"ab"], "item": [*"yz"], "price": [5.0, 9.5], "age": [3, 4]})},
    "condition": {"df": pl.DataFrame({"race": [1, 1, 2], "horse": [11, 12, 11],
                                      "place": [2, 1, 1], "p": [0.9, 0.5, 0.4]})},
    "words": {"df": pl.DataFrame({**ITEMS, "score": [0.9, 0.8, 0.7],
                                  "verdict": ["bad", "good", "fair"]})},
    "first-hit": {"df": pl.DataFrame({"query": [*"abcd"], "first_hit": [2, 1, 0, 1]})},
    "time": {"df": pl.DataFrame({**ITEMS, "rel": [0, 1, 1],
                                 "seen": pl.Series(TIMES).str.to_datetime()})},
    "row-order": {"df": pl.DataFrame({**ITEMS, "rel": [0, 1, 1]})},
    "objects": {"data": [
        {"ask": "a", "hits": [{"key": "x"}, {"key": "y"}], "wanted": [{"code": "y"}]},
        {"ask": "b", "hits": [{"key": "z"}], "wanted": [{"code": "z"}]}]},
    "two-fields": {"data": [
        {"query": "a", "hits": [{"doc": "d", "page": 1}, {"doc": "d", "page": 2}],
         "gold": [{"doc": "d", "page": 2}]},
        {"query": "b", "hits": [{"doc": "e", "page": 3}], "gold": [{"doc": "e", "page": 3}]}]},
    "part": {"run": [{"query": x, "found": y} for x, y in RUN.items()]},
    "text": {"data": pl.DataFrame({"query": [*"ab"], "shown": ["x; y", "z"], "right": [*"yz"]})},
    "sql-list": {"data": [{"query": "a", "hits": [["d", 1], ["d", 2]], "doc": "d", "pages": [2]},
                          {"query": "b", "hits": [["e", 3]], "doc": "e", "pages": [3]}]},
    "map": {"data": [{"query": "a", "ids": ["x", "y"], "quality": [0, 2]},
                     {"query": "b", "ids": ["z"], "quality": [1]}]},
    "map-of-objects": {"data": [
        {"query": "a", "log": [{"doc": "x", "mark": "bad"}, {"doc": "y", "mark": "good"}]},
        {"query": "b", "log": [{"doc": "z", "mark": "good"}]}]},
    "arrays": {"S": np.array([[0.9, 0.95, 0.1], [0.2, 0.3, 0.8], [0.5, 0.6, 0.1], [1, 0, 0]]),
               "t": np.array([0, 2, 0, 0])},
    "negatives": {"pos": np.array([0.8, 0.5]), "neg": np.array([[0.9, 0.1], [0.2, 0.3]])},
    "wide-frame": {"S": SCORES, "Y": pd.DataFrame([[0, 1, 0], [0, 0, 1]], [*"ab"], [*"xyz"])},
    "wide-scores": {
        "d": pl.DataFrame({"user": [*"aab"], "item": [*"xyz"], "model_a": [0.9, 0.8, 0.7],
                           "model_b": [0.6, 0.5, 0.4]}),
        "bought": pl.DataFrame({"user": [*"ab"], "item": [*"yz"]})},
    "masks": {"masks": [[0, 1, -1], [1, 0, 0]]},
}  # fmt: skip
PART = {"dataset": {"v": 1, "cases": [{"query": "a", "expected": {"ids": ["y"]}},
                                      {"query": "b", "expected": {"ids": ["z"]}}]}}  # fmt: skip
# The mean of 1/2, 1, no hit and 1.
MEANS = {"first-hit": 0.625}


@pytest.mark.parametrize("row", DATA)
def test_a_row_reads_data_of_its_kind(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gold.json").write_text(json.dumps(PART))
    names = {"evaluate": rankql.evaluate, "compare": rankql.compare, **DATA[row]}
    *lines, last = (x.strip("`") for x in ROWS[row].split("<br>"))
    exec("\n".join(lines), names)
    result = eval(last, names)
    assert result.summary["mean"][-1] == MEANS.get(row, 0.75)  # of all, or of slices


def test_both_pages_have_the_same_rows():
    assert ROWS == CHINESE and [*ROWS] == [*DATA] and len(ROWS) <= 25

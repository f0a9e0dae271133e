"""Numbers in text are numbers in every shape; labels in text ask for a mapping."""

import json

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.formats import written

RUN = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": ["2.0", "1e0"]})
QRELS = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": ["0", "1.0"]})


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["frame", "pandas", "arrow", "parquet", "table"])
def test_columns(form, tmp_path):
    for run in (RUN, RUN.rename({"score": "pos"})):
        data, con = written(run, form, tmp_path)
        expected = 0.5 if "score" in run.columns else 1
        assert rankql.evaluate(data, QRELS, "RR", con=con)["RR"] == expected
    assert rankql.check(RUN, QRELS).ok


def test_dicts_and_lists(tmp_path):
    assert (
        rankql.evaluate({"a": {"x": "2.0", "y": "1"}}, {"a": {"x": "0", "y": "1"}}, "RR")["RR"]
        == 0.5
    )
    row = {"query": "a", "retrieved": {"x": "0.9", "y": "0.1"},
           "relevant": [{"id": "x", "label": "0"}, {"id": "y", "label": "1.0"}]}  # fmt: skip
    path = tmp_path / "row.jsonl"
    path.write_text(json.dumps(row))
    for data in (pl.DataFrame([row]), path):
        assert rankql.evaluate(data, None, "RR")["RR"] == 0.5
    hits = [{"id": "x", "score": "9"}, {"id": "y", "score": "10"}]
    with pytest.raises(RankqlError, match="is not in the order of its field score"):
        rankql.evaluate(pl.DataFrame([{**row, "retrieved": hits}]), None, "RR")


@pytest.mark.parametrize("value", ["nan", "inf", "0,9", "1_0", ""])
def test_other_text_is_refused(value):
    for run in (
        RUN.with_columns(score=pl.Series([value, "1"])),
        {"a": {"x": value, "y": "1"}},
        pl.DataFrame([{"query": "a", "retrieved": {"x": value, "y": "1"}}]),
    ):
        with pytest.raises(RankqlError, match=r"must be a (number|list of ids), not"):
            rankql.evaluate(run, QRELS, "RR")

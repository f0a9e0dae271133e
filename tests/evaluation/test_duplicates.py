"""Ids that match wrongly, and comments that look like rows."""

import pandas
import polars as pl
import pytest

import rankql
from rankql import RankqlError

FLOATS = {"2^53": 2.0**53, "fraction": 1.5}


@pytest.mark.few(3)
@pytest.mark.parametrize("value", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("role", ["query", "item"])
@pytest.mark.parametrize("form", ["pandas", "polars", "parquet", "float32"])
def test_floats_that_stand_for_several_ids_are_refused(value, role, form, tmp_path):
    """As a column of integers in pandas after a NULL."""
    run = pl.DataFrame({"query": [1, 1], "item": [2**53, 2**53 + 1], "score": [2.0, 1.0]})
    kind = pl.Float32 if form == "float32" else pl.Float64
    judged = pl.DataFrame({"query": [1], "item": [2**53], "rel": [1]})
    judged = judged.with_columns(pl.lit(value, kind).alias(role))
    data = judged.to_pandas() if form == "pandas" else judged
    if form == "parquet":
        judged.write_parquet(data := tmp_path / "judged.parquet")
    with pytest.raises(RankqlError, match=f"qrels: {role} has the id .* different ids"):
        rankql.evaluate(run, data, "RR")
    assert "rounded-ids" in [finding.kind for finding in rankql.check(run, data)]


def test_whole_floats_are_the_same_ids():
    run = pl.DataFrame({"query": [1, 1], "item": [10, 11], "score": [2.0, 1.0]})
    judged = pandas.DataFrame({"query": [1.0], "item": [11.0], "rel": [1]})
    assert rankql.evaluate(run, judged, "RR", interval=None)["RR"] == 0.5


@pytest.mark.parametrize("role", ["query", "item"])
def test_integers_that_became_floats_in_text_are_named(role, tmp_path):
    for name, ids in (("run.csv", ["10.0", "11.0"]), ("qrels.csv", ["10", "11"])):
        rows = {"query": ["q"] * 2, "item": ["a", "b"], "score": [2, 1], "rel": [1, 0], role: ids}
        pl.DataFrame(rows).write_csv(tmp_path / name)
    with pytest.raises(RankqlError, match=r"has (item )?'10\.0'.* qrels has '10'"):
        rankql.evaluate(tmp_path / "run.csv", tmp_path / "qrels.csv", "RR")


@pytest.mark.few(1)
@pytest.mark.parametrize("blank", [" ", "\t", "  "])
def test_comments_that_look_like_rows_are_counted(blank, tmp_path):
    run, qrels = (tmp_path / name for name in ("a.run", "a.qrels"))
    rows = ["#1 Q0 d1 1 3 t", "#1 Q0 d2 2 2 t", "# made by me", "2 Q0 d1 1 3 t"]
    run.write_text("\n".join(rows).replace(" ", blank))
    qrels.write_text("#1 0 d2 1\n2 0 d1 1\n".replace(" ", blank))
    notes = "\n".join(rankql.evaluate(run, qrels, "RR", interval=None).notes)
    assert "run: 2 lines begin with #" in notes and "qrels: 1 line begins with #" in notes
    assert [x.kind for x in rankql.check(run, qrels)].count("comments") == 2

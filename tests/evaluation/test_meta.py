"""Results know their conventions and judgments; results that differ in these are not compared."""

from dataclasses import asdict

import polars as pl
import pytest

import rankql
from rankql.evaluation.means import Meta

RUN = pl.DataFrame(
    {"query": [*"aabbccdd"], "item": [*"xyxyxyxy"], "score": [2.0, 1, 1, 2, 2, 1, 1, 2]}
)
OTHER = RUN.with_columns(score=-pl.col("score"))
QRELS = pl.DataFrame({"query": [*"abcd"], "item": [*"xxyy"], "rel": [1, 2, 1, 1]})
MORE = pl.concat([QRELS, pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})])


def result(run, qrels, how, tmp_path, **options):
    """The result in memory, from `output=`, or saved."""
    path = tmp_path / f"{len([*tmp_path.iterdir()])}.parquet"
    if how == "output":
        rankql.evaluate(run, qrels, "nDCG@10", output=path, **options)
        return path
    evaluated = rankql.evaluate(run, qrels, "nDCG@10", **options)
    if how == "saved":
        evaluated.save_values(path)
        return path
    return evaluated


def require_mismatch(old, new, message):
    """Both decisions refuse the results."""
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.compare({"old": old, "new": new})
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.gate(new, baseline=old, max_drop="nDCG@10:0.1")


@pytest.mark.few(2)
@pytest.mark.parametrize("how", ["memory", "output", "saved"])
@pytest.mark.parametrize("other", ["memory", "output"])
def test_different_judgments_are_refused(how, other, tmp_path):
    old, new = result(RUN, QRELS, how, tmp_path), result(OTHER, MORE, other, tmp_path)
    require_mismatch(old, new, "different judgments.*with the same qrels")


def test_the_order_and_types_of_judgments_do_not_matter(tmp_path):
    old = result(RUN, QRELS, "output", tmp_path)
    same = QRELS.reverse().with_columns(pl.col("rel").cast(pl.Float64))
    QRELS.write_csv(tmp_path / "qrels.csv")
    for qrels in (same, tmp_path / "qrels.csv"):
        new = result(OTHER, qrels, "output", tmp_path)
        assert not any("judgments" in n for n in rankql.compare({"old": old, "new": new}).notes)


def test_unknown_judgments_are_noted(tmp_path):
    known = result(RUN, QRELS, "output", tmp_path)
    values = pl.DataFrame({"query": [*"abcd"], "nDCG@10": [0.1, 0.2, 0.3, 0.5]})
    notes = rankql.compare({"old": known, "new": values}).notes
    assert any("not known" in note and "new" in note for note in notes)
    frames = {"old": values, "new": values.with_columns(pl.col("nDCG@10") + pl.col("nDCG@10") / 9)}
    assert not any("judgments" in note for note in rankql.compare(frames).notes)


def test_different_conventions_are_refused(tmp_path):
    old = result(RUN, QRELS, "output", tmp_path)
    require_mismatch(old, result(OTHER, QRELS, "output", tmp_path, gain="exp2"), "exp2")


def test_a_scale_of_grades_that_one_result_does_not_need_is_no_difference():
    scaled = rankql.evaluate(RUN, QRELS, ["nDCG@10", "ERR@10"])
    results = {"old": rankql.evaluate(OTHER, QRELS, "nDCG@10"), "new": scaled}
    assert rankql.compare(results).metrics == ["nDCG@10"]


def test_files_of_later_versions_are_read():
    meta = rankql.evaluate(RUN, QRELS, ["nDCG@10", "microP@5"]).meta
    later = asdict(meta) | {"something new": 1}
    assert Meta.from_dict(later) == meta

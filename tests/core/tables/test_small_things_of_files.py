"""Zero bytes, columns called like an expression, folders of saves that were killed."""

import os
import time

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from rankql.cli.demo import write_shop

RUN = pl.DataFrame({"query": ["q", "r"], "item": ["a", "b"], "score": [2.0, 1.0]})
QRELS = pl.DataFrame({"query": ["q", "r"], "item": ["a", "x"], "rel": [1, 1]})


def test_zero_bytes_in_a_trec_file_are_refused(tmp_path):
    rows = "".join(f"q{i} Q0 d{i} 1 3.0 t\n" for i in range(9))
    (tmp_path / "a.run").write_text(rows.replace("d5", "d5\0"))
    (tmp_path / "a.qrels").write_text("q3 0 d3 1\n")
    with pytest.raises(RankqlError, match=r"has zero bytes \(line 6\)"):
        rankql.evaluate(tmp_path / "a.run", tmp_path / "a.qrels", "RR")


def test_a_column_may_be_called_like_an_expression():
    run = RUN.with_columns(pl.Series("store AS city", ["m", "n"]))
    result = rankql.evaluate(run, QRELS, "RR", by="store AS city")
    assert dict(result.means.select("slice", "mean").rows()) == {
        "all": 0.5,
        "city=m": 1,
        "city=n": 0,
    }
    plain = rankql.evaluate(run.with_columns(store=pl.lit("x")).drop("store AS city"), QRELS, "RR",
                            by="store AS city")  # fmt: skip
    assert plain.means["slice"].to_list() == ["all", "city=x"]


def test_empty_folders_of_killed_saves_are_removed(tmp_path):
    killed, running, full = (tmp_path / f".rankql-{x}" for x in ("killed", "running", "full"))
    for folder in (killed, running, full):
        folder.mkdir()
    (full / "rankql.tmp").write_text("half")
    for folder in (killed, full):
        os.utime(folder, (time.time() - 7200,) * 2)
    rankql.evaluate(RUN, QRELS, "RR").save(tmp_path / "means.csv")
    assert {x.name for x in tmp_path.iterdir()} == {".rankql-running", ".rankql-full", "means.csv"}


def test_the_demo_says_that_a_folder_cannot_be_written(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(RankqlError, match=r"Cannot write '.*demo': Read-only file system"):
        write_shop(tmp_path / "demo", 10)


@pytest.mark.frames
def test_a_workbook_on_a_full_disk_fails_once(monkeypatch, tmp_path, capsys):
    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(RankqlError, match="No space left on device"):
        rankql.evaluate(RUN, QRELS, "RR").save(tmp_path / "means.xlsx")
    assert capsys.readouterr().err == "" and not [*tmp_path.iterdir()]


def test_equal_distances_are_highest():
    run = RUN.with_columns(distance=pl.lit(0.5)).drop("score")
    qrels = QRELS.with_columns(rel=pl.Series([1, 0]))
    result = rankql.min_scores(run, qrels, max_false_answer=1)
    assert result.title.startswith("min_score=0.5 is the highest distance")

"""Comparisons as a user makes them: from runs and results, shown, and asked for more."""

import json

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli import main

QRELS = pl.DataFrame(
    {
        "query": ["a", "a", "b", "b", "c", "c", "d"],
        "item": ["x", "y", "x", "y", "x", "y", "x"],
        "rel": [1, 0, 1, 2, 0, 3, 0],
    }
)


def run(**orders):
    rows = [(q, i, -float(n)) for q, items in orders.items() for n, i in enumerate(items)]
    return pl.DataFrame(rows, schema=["query", "item", "score"], orient="row")


OLD = run(a="yx", b="xy", c="xy", d="x")
NEW = run(a="xy", b="yx", c="xy", d="x")


@pytest.fixture
def two():
    return rankql.compare({"old": OLD, "new": NEW}, QRELS, ["nDCG@2", "RR", "P@1"])


def test_by_hand(two):
    row = two.table.row(1, named=True)
    assert (row["metric"], row["a"], row["b"], row["slice"]) == ("RR", "old", "new", "all")
    # d has no relevant item; a goes from 1/2 to 1, b stays at 1 and c at 1/2.
    assert row["mean_a"] == pytest.approx(2 / 3) and row["mean_b"] == pytest.approx(5 / 6)
    assert row["difference"] == pytest.approx(1 / 6)
    assert (row["wins"], row["ties"], row["losses"], row["n"]) == (1, 2, 0, 3)
    assert row["effect"] == pytest.approx((1 / 6) / (1 / 12) ** 0.5)
    assert row["p"] == pytest.approx(0.42264973081037427)  # t = 1 with 2 degrees of freedom
    assert row["verdict"] == "no evidence"
    assert two.table["n"].to_list() == [3, 3, 4]  # precision of nothing found is 0
    assert "nDCG@2: 1 of 4 queries are undefined in some system and left out" in two.notes
    assert any("Holm over 3 tests" in note for note in two.notes)


def test_the_same_from_results_files_and_frames(two, tmp_path):
    names = two.metrics
    results = {name: rankql.evaluate(r, QRELS, names) for name, r in (("old", OLD), ("new", NEW))}
    files = {name: tmp_path / f"{name}.parquet" for name in results}
    for name, result in results.items():
        result.write(files[name])
    frames = {name: result.per_query for name, result in results.items()}
    together = rankql.evaluate({"old": OLD, "new": NEW}, QRELS, names)
    for given in (results, files, frames):
        assert rankql.compare(given).table.equals(two.table)
    assert rankql.compare(results, metrics="mrr").table.equals(
        rankql.compare({"old": OLD, "new": NEW}, QRELS, "RR").table
    )
    swapped = rankql.compare(together, baseline="old")
    assert swapped.table.select("a", "b").unique().rows() == [("old", "new")]
    assert swapped.table.drop("sentence").equals(two.table.drop("sentence"))


def test_differences(two):
    found = two.differences("mrr", "old", "new")
    assert found.rows() == [("b", 1, 1, 0), ("c", 0.5, 0.5, 0), ("a", 0.5, 1.0, 0.5)]
    worst = rankql.compare({"old": OLD, "new": NEW}, QRELS, "TauDistance")
    assert worst.differences("TauDistance", "new", "old")["query"].to_list()[:2] == ["a", "b"]


def test_what_a_metric_tells_apart():
    systems = {"old": OLD, "new": NEW, "same": NEW}
    found = rankql.compare(systems, QRELS, ["RR", "P@1", "nDCG@2"])
    assert found.agreement().rows()[0] == ("RR", "P@1", pytest.approx(1), 0, 3)
    power = found.discriminative_power()
    assert power.columns == ["metric", "pairs", "significant", "share"]
    assert power["pairs"].to_list() == [3, 3, 3]
    assert power["significant"].to_list() == [0, 0, 0]
    many = [f"q{i}" for i in range(12)]
    good = pl.DataFrame({"query": many, "AP": [0.5 + i / 100 for i in range(12)]})
    bad = pl.DataFrame({"query": many, "AP": [0.1 + i / 90 for i in range(12)]})
    apart = rankql.compare({"good": good, "bad": bad})
    assert apart.discriminative_power().row(0) == ("AP", 1, 1, 1.0)


def test_cutoffs(two):
    curve = two.cutoffs("nDCG", [1, 2])
    assert curve.metrics == ["nDCG@1", "nDCG@2"]
    assert curve.table.filter(metric="nDCG@2").equals(
        rankql.compare({"old": OLD, "new": NEW}, QRELS, ["nDCG@1", "nDCG@2"]).table.filter(
            metric="nDCG@2"
        )
    )
    with pytest.raises(rankql.RankqlError, match="Bpref has no cutoff"):
        rankql.compare({"old": OLD, "new": NEW}, QRELS, "Bpref").cutoffs()
    results = {"old": rankql.evaluate(OLD, QRELS), "new": rankql.evaluate(NEW, QRELS)}
    with pytest.raises(rankql.RankqlError, match="needs the runs"):
        rankql.compare(results).cutoffs()


def test_shown(two):
    text = repr(two)
    assert two.table["sentence"][0] in text and "Note: Paired t test" in text
    assert "slice" not in text.splitlines()[0]
    said = json.loads(two.to_json())
    assert len(said["table"]) == 3 and said["settings"]["test"] == "t"
    assert said["conventions"]["gain"] == "linear" and said["summary"]
    assert two.to_markdown().count("| nDCG@2 |") == 1
    assert "<table>" in two._repr_html_()


def test_one_system():
    alone = rankql.compare({"only": OLD}, QRELS, "RR")
    assert alone.table.is_empty() and alone.table.columns[0] == "metric"
    assert alone.notes[0] == "there is one system, 'only': nothing to compare it with"
    assert "0.6667" in repr(alone)


@pytest.mark.parametrize(
    ("runs", "keywords", "said"),
    [
        ({}, {}, "compare needs at least one run"),
        ({"old": OLD, "new": NEW}, {"test": "tt"}, "test: there is no 'tt'; did you mean t?"),
        ({"old": OLD, "new": NEW}, {"correction": "holmes"}, "did you mean holm?"),
        ({"old": OLD, "new": NEW}, {"family": "metrics"}, "did you mean metric?"),
        ({"old": OLD, "new": NEW}, {"baseline": "odl"}, "there is no system 'odl'; did you mean"),
        ({"old": OLD, "new": NEW}, {"confidence": 95}, "confidence must lie between 0 and 1"),
        ({"old": OLD, "new": NEW}, {"resamples": 10}, "resamples must be a whole number from 100"),
        ({"old": OLD, "new": NEW}, {"seed": 1.5}, "seed must be a whole number from 0"),
        ({"old": OLD, "new": NEW}, {"cluster": "query", "test": "sign"}, "knows no clusters"),
        ({"old": OLD, "new": NEW}, {"test": "tukey", "correction": "bh"}, "corrects for its pairs"),
        ({"old": OLD, "new": NEW}, {"bad": 1}, "bad"),
    ],
)
def test_refused(runs, keywords, said):
    with pytest.raises(rankql.RankqlError) as caught:
        rankql.compare(runs, QRELS, "RR", **keywords)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_results_and_runs_do_not_mix():
    result = rankql.evaluate(OLD, QRELS, "RR")
    for given, qrels, said in (
        ({"old": result, "new": NEW}, QRELS, "'old' is a result"),
        ({"old": result, "new": result}, QRELS, "qrels goes with runs"),
        ({"old": result, "new": rankql.evaluate(NEW, QRELS, "AP")}, None, "no metric in common"),
        (
            {"old": result, "new": rankql.evaluate(NEW, QRELS, "RR", undefined="zero")},
            None,
            "different conventions",
        ),
    ):
        with pytest.raises(rankql.RankqlError, match=said):
            rankql.compare(given, qrels)
    with pytest.raises(rankql.RankqlError, match="ties= goes with runs"):
        rankql.compare({"old": result}, ties="expected")
    with pytest.raises(rankql.RankqlError, match="no attribute 'segment'"):
        rankql.compare({"old": result}, by="segment")
    with pytest.raises(rankql.RankqlError, match="'AP' was not evaluated"):
        rankql.compare({"old": result}, metrics="AP")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    OLD.write_parquet("old.parquet")
    NEW.write_parquet("new.parquet")
    QRELS.write_parquet("qrels.parquet")


def test_on_the_command_line(files, two):
    def said(*arguments):
        done = CliRunner().invoke(main, ["compare", *arguments])
        assert done.exit_code == 0, done.output
        return done

    runs = ["old.parquet", "new.parquet", "qrels.parquet"]
    metrics = ["-m", "nDCG@2", "-m", "RR", "-m", "P@1"]
    assert said(*runs, *metrics).stdout == repr(two) + "\n"
    assert json.loads(said(*runs, *metrics, "--format", "json").stdout) == json.loads(two.to_json())
    csv = said("before=old.parquet", "now=new.parquet", "qrels.parquet", "--format", "csv")
    assert "before,now," in csv.stdout and "Note: Paired t test" in csv.stderr
    for name in ("old", "new"):
        arguments = ["eval", f"{name}.parquet", "qrels.parquet", *metrics]
        CliRunner().invoke(main, [*arguments, "--output", f"{name}_values.parquet"])
    values = ["old=old_values.parquet", "new=new_values.parquet"]
    table = json.loads(said(*values, "--format", "json").stdout)["table"]
    assert table == json.loads(two.to_json())["table"]
    done = CliRunner().invoke(main, ["compare", *runs, "--test", "student"])
    assert done.exit_code == 2 and "test: there is no 'student'" in done.stderr
    done = CliRunner().invoke(main, ["compare", "old.parquet", "old.parquet", "qrels.parquet"])
    assert done.exit_code == 2 and "give NAME=PATH" in done.stderr


def test_more_tests_than_resamples_can_tell():
    """The least p of 199 resamples is 1/200; of 15 pairs Holm makes 0.075 of it."""
    queries = [f"q{i}" for i in range(30)]
    frames = {
        f"s{n}": pl.DataFrame(
            {"query": queries, "AP": [(i * 7 % 11) / 40 + n / 10 for i in range(30)]}
        )
        for n in range(6)
    }
    frames["s0"] = frames["s0"].with_columns(pl.col("AP") ** 1.1)
    few = rankql.compare(frames, test="randomisation", resamples=199)
    assert few.table["p_adjusted"].min() == 15 / 200
    assert sum("p_adjusted is 0.075 at least" in note for note in few.notes) == 1
    (note,) = (note for note in few.notes if "would do" in note)
    enough = int(note.split("resamples=")[1].split()[0])
    many = rankql.compare(frames, test="randomisation", resamples=enough)
    assert many.table["p_adjusted"].min() < 0.05 and "would do" not in str(many.notes)

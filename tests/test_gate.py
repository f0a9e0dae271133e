"""The gate: what fails, what does not, and how it is said to people and to CI."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
import yaml
from click.testing import CliRunner

import rankql
from rankql.cli import main
from rankql.testing import assert_no_regression

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "dl19"

# 20 queries in two slices; in `WORSE` one slice has lost, in `NOISY` the ups and downs are large.
IDS = [f"q{i:02}" for i in range(20)]
SEGMENTS = ["new"] * 12 + ["old"] * 8
BASE = [0.3 + 0.02 * i for i in range(20)]


def values(metric="nDCG@10", by=True, **columns):
    """A per_query frame; of `shift`, a function of the place, added to the base."""
    shift = columns.pop("shift", lambda i: 0)
    frame = {"query": IDS} | ({"segment": SEGMENTS} if by else {})
    return pl.DataFrame(frame | {metric: [x + shift(i) for i, x in enumerate(BASE)]})


OLD = values()
WORSE = values(shift=lambda i: -0.1 - 0.01 * (i % 3) if i < 12 else 0.01 * (i % 3))
NOISY = values(shift=lambda i: -0.28 if i % 2 else 0.24)
RUN = pl.DataFrame({"query": ["a", "a", "b", "b"], "item": list("xyxy"), "score": [2.0, 1, 2, 1]})
QRELS = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "rel": [1, 1]})


def statuses(verdict):
    return {(r["check"], r["slice"]): r["status"] for r in verdict.table.iter_rows(named=True)}


def said(verdict, part="all"):
    return verdict.table.filter(pl.col("slice") == part)["message"].to_list()


# Drops


def test_a_drop_beyond_noise_fails():
    verdict = rankql.gate(WORSE, baseline=OLD, max_drop="ndcg@10:0.05", by="segment", min_queries=5)
    assert not verdict and not verdict.passed
    check = "nDCG@10 drop <= 0.05"
    assert statuses(verdict) == {
        (check, "all"): "failed",
        (check, "segment=new"): "failed",
        (check, "segment=old"): "passed",
    }
    assert "more than 0.05 and beyond noise: adjusted p < 0.001" in said(verdict)[0]
    assert said(verdict, "segment=old")[0].startswith("better by 0.00875 (")


def test_numbers_are_those_of_compare():
    """Means, differences, intervals and p, also of another test and another correction."""
    for options in ({}, {"test": "randomisation", "correction": "bh", "seed": 3}):
        verdict = rankql.gate(
            WORSE, baseline=OLD, max_drop="nDCG@10:0.05", by="segment", alpha=0.1, **options
        )
        compared = rankql.compare(
            {"old": OLD, "new": WORSE},
            baseline="old",
            by="segment",
            confidence=0.9,
            min_queries=10,
            **options,
        )
        ours = ["mean", "baseline", "difference", "lo", "hi", "p_adjusted", "n"]
        theirs = ["mean_b", "mean_a", "difference", "lo", "hi", "p_adjusted", "n"]
        assert verdict.table.select(ours).rows() == compared.table.select(theirs).rows()
        assert verdict.comparison.differences("nDCG@10", "baseline", "run").height == 20


def test_noise_does_not_fail_unless_asked():
    verdict = rankql.gate(NOISY, baseline=OLD, max_drop="nDCG@10:0.01")
    assert verdict and verdict.table["status"].to_list() == ["within noise"]
    assert said(verdict)[0].startswith("dropped by 0.02 (") and "not failed" in said(verdict)[0]
    strict = rankql.gate(NOISY, baseline=OLD, max_drop="nDCG@10:0.01", beyond_noise=False)
    assert not strict and "more than 0.01 (p = " in said(strict)[0]
    p = verdict.table["p_adjusted"][0]
    assert not rankql.gate(NOISY, baseline=OLD, max_drop="nDCG@10:0.01", alpha=p + 1e-9)
    assert rankql.gate(NOISY, baseline=OLD, max_drop="nDCG@10:0.01", alpha=p - 1e-9)


def test_a_drop_within_its_limit_passes():
    verdict = rankql.gate(WORSE, baseline=OLD, max_drop="nDCG@10:0.2")
    assert verdict and "no more than 0.2" in said(verdict)[0]
    loss = -verdict.table["difference"][0]
    assert rankql.gate(WORSE, baseline=OLD, max_drop=f"nDCG@10:{loss!r}")
    assert not rankql.gate(WORSE, baseline=OLD, max_drop=f"nDCG@10:{loss - 1e-9!r}")


def test_the_same_loss_everywhere_has_no_noise():
    verdict = rankql.gate(values(shift=lambda i: -0.05), baseline=OLD, max_drop="nDCG@10:0.01")
    assert not verdict and "beyond noise: the same in every query" in said(verdict)[0]


def test_identical():
    verdict = rankql.gate(OLD, baseline=OLD, by="segment")
    assert verdict and set(verdict.table["message"]) <= {
        "no difference",
        "no difference on 8 queries, fewer than 10: not checked",
    }


def test_one_query():
    one, other = OLD.head(1), WORSE.head(1)
    verdict = rankql.gate(other, baseline=one, max_drop="nDCG@10:0.01")
    assert verdict and verdict.table["status"].to_list() == ["too few queries"]
    assert said(verdict) == ["dropped by 0.1 on 1 query: not testable, not failed"]
    assert not rankql.gate(other, baseline=one, max_drop="nDCG@10:0.01", beyond_noise=False)


def test_small_slices_are_reported():
    options = {"baseline": WORSE, "by": "segment", "min_queries": 9}
    worse = OLD.with_columns(
        pl.col("nDCG@10") - pl.Series([0.01 * (i % 3) + 0.2 for i in range(20)])
    )
    verdict = rankql.gate(worse, minimum="nDCG@10>=0.9", **options)
    found = verdict.table.filter(pl.col("slice") == "segment=old")
    assert found["status"].to_list() == ["too few queries"] * 2
    assert all(m.endswith("on 8 queries, fewer than 9: not checked") for m in found["message"])
    assert "2 too few queries" in verdict.summary and "segment=old" in repr(verdict)
    enough = rankql.gate(worse, minimum="nDCG@10>=0.9", **options | {"min_queries": 8})
    assert enough.table.filter(slice="segment=old")["status"].to_list() == ["failed"] * 2


def test_the_whole_is_checked_however_small():
    verdict = rankql.gate(OLD.head(3), baseline=OLD.head(3), minimum="nDCG@10>=0.9")
    assert verdict.table["status"].to_list() == ["failed", "passed"]


def test_less_is_better():
    old, new = values("RMSE"), values("RMSE", shift=lambda i: 0.1 + 0.01 * (i % 3))
    verdict = rankql.gate(new, baseline=old, minimum="RMSE<=0.5", max_drop="RMSE:0.05")
    assert [r["check"] for r in verdict.table.to_dicts()] == ["RMSE <= 0.5", "RMSE rise <= 0.05"]
    assert verdict.table["status"].to_list() == ["failed", "failed"]
    assert said(verdict)[1].startswith("rose by 0.11 (0.10")
    back = rankql.gate(old, baseline=new, max_drop="RMSE:0.05")
    assert back and said(back)[0].startswith("better by 0.11 (0.10")


# Minima


@pytest.mark.parametrize(
    ("limit", "passed"),
    [
        (">=0.49", True), (">= 0.491", False), ("<=0.49", True), ("<=0.489", False),
        ("> 0.489", True), (">0.49", False), ("<0.491", True), ("<0.49", False),
        (">=-1", True), (">=4.9e-1", True),
    ],
)  # fmt: skip
def test_a_minimum(limit, passed):
    verdict = rankql.gate(OLD, minimum=f"ndcg@10{limit}")
    assert verdict.passed is passed
    assert verdict.table["mean"][0] == pytest.approx(0.49) and verdict.table["n"][0] == 20
    assert said(verdict)[0].startswith("0.49 on 20 queries")


@pytest.mark.parametrize(
    ("off", "limit", "passed"),
    [(-1, ">=", True), (1, "<=", True), (1, ">", False), (-1, "<", False)],
)
def test_rounding_decides_nothing(off, limit, passed):
    frame = pl.DataFrame({"query": ["a", "b"], "AP": [0.45 + off * 1e-14] * 2})
    assert rankql.gate(frame, minimum=f"AP{limit}0.45").passed is passed


def test_minima_of_runs():
    verdict = rankql.gate(RUN, QRELS, minimum=["P@1,2>=0.5", "RR>0.8", "share = avg(rel) > 0.2"])
    assert verdict.table["metric"].to_list() == ["P@1", "P@2", "RR", "share"]
    assert verdict.table["mean"].to_list() == [0.5, 0.5, 0.75, 1.0]
    assert verdict.table["status"].to_list() == ["passed", "passed", "failed", "passed"]
    assert said(verdict)[2] == "0.75 on 2 queries, not > 0.8"


def test_queries_that_count():
    qrels = pl.DataFrame({"query": list("abcd"), "item": list("xyxx"), "rel": [1, 1, 0, 1]})
    for conventions, n, mean in (("rankql", 3, 0.5), ("trec_eval", 2, 0.75), ("ranx", 4, 0.375)):
        verdict = rankql.gate(RUN, qrels, minimum="RR>=0", conventions=conventions)
        assert (verdict.table["n"][0], verdict.table["mean"][0]) == (n, mean), conventions


def test_undefined_fails():
    nothing = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "rel": [0, 0]})
    verdict = rankql.gate(RUN, nothing, RUN, minimum="RR>=0", max_drop="RR:1")
    assert verdict.table["status"].to_list() == ["failed", "failed"]
    assert said(verdict) == [
        "undefined: none of 2 queries has a value",
        "undefined: none of 2 queries has a value in both",
    ]
    assert verdict.table["n"].to_list() == [0, 0]
    undefined = OLD.with_columns(pl.when(segment="new").then("nDCG@10").alias("nDCG@10"))
    verdict = rankql.gate(undefined, baseline=OLD, minimum="nDCG@10>=0", by="segment")
    assert verdict.table.filter(slice="segment=new")["status"].to_list() == ["passed"] * 2
    assert verdict.table.filter(slice="segment=old")["status"].to_list() == ["too few queries"] * 2
    verdict = rankql.gate(
        undefined, baseline=OLD, minimum="nDCG@10>=0", by="segment", min_queries=8
    )
    assert verdict.table.filter(slice="segment=old")["status"].to_list() == ["failed"] * 2


def test_nan_fails():
    frame = OLD.with_columns(pl.lit(float("nan")).alias("nDCG@10"))
    verdict = rankql.gate(frame, baseline=OLD, minimum="nDCG@10>=0")
    assert verdict.table["status"].to_list() == ["failed", "failed"]
    assert all("undefined: none of 20 queries" in message for message in said(verdict))
    frame = OLD.with_columns(pl.when(segment=pl.lit("new")).then("nDCG@10").otherwise(float("nan")))
    verdict = rankql.gate(frame, minimum="nDCG@10>=0.1")
    assert said(verdict) == ["0.41 on 12 of 20 queries"] and verdict.table["n"][0] == 12


# What is compared


def test_runs_results_files_and_frames(tmp_path):
    run = pl.concat([RUN.head(2).with_columns(query=pl.lit(q)) for q in IDS])
    other = run.with_columns(score=pl.when(pl.col("query") < "q05").then(-pl.col("score"))
                             .otherwise("score"))  # fmt: skip
    qrels = pl.DataFrame({"query": IDS, "item": ["x"] * 20, "rel": [1] * 20})
    checks = {"minimum": "RR>=0.5", "max_drop": "RR:0.1"}
    expected = rankql.gate(other, qrels, run, **checks)
    assert expected.table["status"].to_list() == ["passed", "failed"]
    results = [rankql.evaluate(each, qrels, ["RR", "AP"]) for each in (other, run)]
    files = [tmp_path / "new.parquet", tmp_path / "old.parquet"]
    for result, file in zip(results, files, strict=True):
        result.write(file)
    frames = [result.per_query for result in results]
    for new, old in (results, files, frames, map(str, files), (results[0], files[1])):
        assert rankql.gate(new, None, old, **checks).table.equals(expected.table)
    for old in (results[1], files[1], frames[1], run):
        assert rankql.gate(other, qrels, old, **checks).table.equals(expected.table)
    assert rankql.gate(results[0], qrels, run, **checks).table.equals(expected.table)


def test_a_baseline_alone():
    """Nothing may drop: of the minima, else of the results, else of evaluate's metrics."""
    two = OLD.with_columns(AP=pl.col("nDCG@10"))
    checks = rankql.gate(two, baseline=two).table["check"].to_list()
    assert checks == ["nDCG@10 drop <= 0", "AP drop <= 0"]
    assert rankql.gate(OLD, baseline=two).table["metric"].to_list() == ["nDCG@10"]
    checks = rankql.gate(two, baseline=two, minimum="AP>=0").table["check"].to_list()
    assert checks == ["AP >= 0", "AP drop <= 0"]
    metrics = rankql.gate(RUN, QRELS, RUN).table["metric"].to_list()
    assert metrics == ["nDCG@10", "AP", "RR@10", "P@5", "R@100"]


def test_queries_of_one_side():
    new = OLD.with_columns(query=pl.col("query").str.replace("q00", "q99"))
    verdict = rankql.gate(new, baseline=OLD, by="segment", max_drop="nDCG@10:0.5")
    note = "1 of 20 queries of the run are not in the baseline: left out of the drops"
    assert verdict.notes[0] == note and note in repr(verdict)
    assert "1 of 20 queries are missing in run: counted as 0" in verdict.notes
    row = verdict.table.row(0, named=True)
    assert row["n"] == 20 and row["difference"] == pytest.approx(-0.3 / 20)
    assert set(verdict.table["slice"]) == {"all", "segment=new", "segment=old"}
    with pytest.raises(rankql.RankqlError, match="baseline has no query of the run: the run has"):
        rankql.gate(OLD.with_columns(query="x" + pl.col("query")), baseline=OLD)


def test_attributes_are_those_of_the_run():
    bare = OLD.drop("segment")
    moved = OLD.with_columns(segment=pl.Series(SEGMENTS[::-1]))
    expected = rankql.gate(WORSE, baseline=OLD, by="segment").table
    for baseline in (bare, moved, OLD.rename({"query": "qid"})):
        assert rankql.gate(WORSE, baseline=baseline, by="segment").table.equals(expected)
    whole = rankql.gate(WORSE, baseline=OLD).table
    assert whole["slice"].to_list() == ["all"] and whole["n"][0] == 20


def test_clusters():
    compared = rankql.compare({"a": OLD, "b": NOISY}, baseline="a", cluster="segment", by="segment")
    verdict = rankql.gate(NOISY, baseline=OLD, cluster="segment", max_drop="nDCG@10:0.01")
    assert verdict.table["slice"].to_list() == ["all"]
    assert verdict.table["lo"][0] == compared.table["lo"][0]
    assert "queries are clustered by segment: 2 clusters" in verdict.notes
    assert verdict.comparison.summary["slice"].unique().to_list() == ["all"]
    assert "segment" not in repr(verdict.comparison.result).splitlines()[0]


def test_conventions_of_the_baseline(tmp_path):
    """A scale that a metric beside needed is no difference; another gain is."""
    path = tmp_path / "old.parquet"
    rankql.evaluate(RUN, QRELS, ["nDCG@10", "ERR"], output=path)
    assert rankql.gate(RUN, QRELS, path, max_drop="nDCG@10:0")
    other = rankql.evaluate(RUN, QRELS, "nDCG@10", gain="exp2")
    with pytest.raises(rankql.RankqlError, match="evaluated with gain=exp2, the run with gain=lin"):
        rankql.gate(RUN, QRELS, other)
    assert rankql.gate(RUN, QRELS, other, gain="exp2")
    frame = rankql.evaluate(RUN, QRELS, "AP", conventions="trec_eval").per_query
    assert rankql.gate(RUN, QRELS, frame, conventions="trec_eval")
    stated = rankql.evaluate(RUN, QRELS, "AP", conventions="trec_eval")
    assert rankql.gate(frame, baseline=stated).result.conventions["profile"] == "trec_eval"


def test_micro_averages():
    with pytest.raises(rankql.RankqlError, match="microP@1 is a mean over all queries at once"):
        rankql.gate(RUN, QRELS, RUN, max_drop="microP@1:0")
    low = RUN.with_columns(score=-pl.col("score"))
    low = low.with_columns(score=pl.when(query=pl.lit("a")).then("score").otherwise(0.0))
    checks = {"minimum": "microP@1>=0.5", "max_drop": "microP@1:0.1", "beyond_noise": False}
    verdict = rankql.gate(low, QRELS, RUN, **checks)
    assert verdict.table["mean"].to_list() == [0.5, 0.5]
    verdict = rankql.gate(low.with_columns(item=pl.lit("z") + pl.col("item")), QRELS, RUN, **checks)
    assert verdict.table["difference"][1] == -0.5 and not verdict


def test_own_metrics():
    mine = OLD.rename({"nDCG@10": "share"})
    result = rankql.evaluate(RUN, QRELS, "share = avg(rel)")
    verdict = rankql.gate(result, baseline=result, minimum="share>=0.5")
    assert verdict.table["metric"].to_list() == ["share", "share"]
    with pytest.raises(rankql.RankqlError):
        rankql.gate(mine, baseline=mine, minimum="share>=0.5")


OLD_RESULT = rankql.evaluate(RUN, QRELS, "AP")


@pytest.mark.parametrize(
    ("given", "keywords", "message"),
    [
        ((RUN, QRELS), {}, "there is nothing to check: give minimum= or baseline="),
        ((RUN, QRELS, RUN), {"max_drop": ()}, "there is nothing to check"),
        ((RUN, QRELS), {"max_drop": "AP:0"}, "max_drop needs a baseline to drop from: baseline="),
        ((RUN, QRELS), {"minimum": "AP=0.4"}, "'AP=0.4' is no limit; write metric>=number"),
        ((RUN, QRELS), {"minimum": "AP>="}, "is no limit"),
        ((RUN, QRELS), {"minimum": "AP>=nan"}, "is no limit"),
        ((RUN, QRELS), {"minimum": "AP=>0.4"}, "'AP=' is no metric"),
        ((RUN, QRELS), {"minimum": "nDCB>=0.4"}, "there is no metric 'nDCB'; did you mean nDCG?"),
        ((RUN, QRELS), {"minimum": 0.4}, "minimum must be a text or a list of texts, not 0.4"),
        ((RUN, QRELS, RUN), {"max_drop": "AP"}, "max_drop: 'AP' is no limit; write metric:number"),
        ((RUN, QRELS, RUN), {"max_drop": "AP:-0.1"}, "is no limit"),
        ((RUN, QRELS, RUN), {"max_drop": "AP:inf"}, "is no limit"),
        ((RUN, QRELS, RUN), {"alpha": 5}, "alpha must lie between 0 and 1, not 5"),
        ((RUN, QRELS, RUN), {"min_queries": 0}, "min_queries must be a whole number from 1, not 0"),
        ((RUN, QRELS, RUN), {"test": "tt"}, "test: there is no 'tt'; did you mean t?"),
        ((RUN, QRELS, RUN), {"by": "segment"}, "segment"),
        ((RUN, QRELS, RUN), {"tie": "best"}, "there is no option 'tie'; did you mean ties?"),
        ((RUN, QRELS, "no.parquet"), {}, "run 'baseline': there is no file 'no.parquet'"),
        (({"a": RUN, "b": RUN}, QRELS), {"minimum": "AP>=0"}, "run holds several systems"),
        ((RUN, QRELS, {"a": RUN}), {"minimum": "AP>=0"}, "baseline"),
        ((OLD, QRELS), {"minimum": "nDCG@10>=0"}, "item"),
        ((OLD_RESULT, QRELS), {"minimum": "AP>=0"}, "qrels goes with a run; what was given is"),
        ((OLD_RESULT,), {"minimum": "AP>=0", "ties": "best"}, "ties goes with a run"),
        ((OLD_RESULT,), {"minimum": "RR>=0"}, "run: 'RR' was not evaluated; There are: AP"),
        ((RUN, QRELS, OLD_RESULT), {"max_drop": "RR:0"}, "baseline: 'RR' was not evaluated"),
        ((OLD_RESULT,), {"minimum": "AP>=0", "by": "x"}, "by: the run has no attribute 'x'"),
        ((OLD,), {"minimum": "nDCG@10>=0", "by": "segmet"}, "did you mean segment?"),
    ],
)  # fmt: skip
def test_refused(given, keywords, message):
    with pytest.raises(rankql.RankqlError) as caught:
        rankql.gate(*given, **keywords)
    assert message in str(caught.value) and "\n" not in str(caught.value)


# How it is said

EVIL = '<script>alert(1)</script>\n::error::100% "sure", a|b: c\x00\x1b\r'


@pytest.fixture(scope="module")
def evil():
    segments = [EVIL] * 12 + ["x\n::set-output name=a::b"] * 8
    old, new = (frame.with_columns(segment=pl.Series(segments)) for frame in (OLD, WORSE))
    return rankql.gate(
        new, baseline=old, minimum="nDCG@10>=0.6", by="segment", max_drop="nDCG@10:0"
    )


def test_junit(evil):
    root = ElementTree.fromstring(evil.junit())
    (suite,) = root
    assert root.tag == "testsuites" and suite.tag == "testsuite"
    counts = {"tests": "6", "failures": "4", "errors": "0", "skipped": "2"}
    assert counts.items() <= suite.attrib.items() and counts.items() <= root.attrib.items()
    found = [(case.get("name"), [child.tag for child in case]) for case in suite]
    assert found[0] == ("nDCG@10 >= 0.6", ["failure"])
    shown = EVIL.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    assert (f"nDCG@10 >= 0.6 [segment='{shown}']", ["failure"]) in found
    assert sum(tags == ["skipped"] for _, tags in found) == 2
    assert {case.get("classname") for case in suite} == {"rankql.gate.nDCG@10"}
    messages = [case[0].get("message") for case in suite]
    assert messages == [case[0].text for case in suite] == evil.table["message"].to_list()
    passed = ElementTree.fromstring(rankql.gate(OLD, minimum="nDCG@10>0").junit())
    assert passed[0][0][0].tag == "system-out" and passed.get("failures") == "0"


def test_annotations(evil):
    lines = evil.annotations()
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 4 + ["::notice"] * 2
    assert not any("\n" in line or "\r" in line for line in lines)
    title = lines[1].split("title=")[1].split("::")[0]
    assert title == (
        "nDCG@10 >= 0.6 [segment='<script>alert(1)</script>%0A%3A%3Aerror%3A%3A100%25 "
        '"sure"%2C a|b%3A c\x00\x1b%0D\']'
    )
    assert lines[0] == f"::error title=nDCG@10 >= 0.6::{evil.table['message'][0]}"
    noisy = rankql.gate(NOISY, baseline=OLD, max_drop="nDCG@10:0.01")
    assert noisy.annotations()[0].startswith("::notice title=nDCG@10 drop <= 0.01::dropped by 0.02")
    assert rankql.gate(OLD, minimum="nDCG@10>0").annotations() == []


def test_shown(evil):
    assert repr(evil).splitlines()[0] == "Gate failed: 4 failed, 2 too few queries"
    assert not any(line.startswith("::") for line in repr(evil).splitlines())
    assert "<script>" not in evil.to_markdown() and "<script>" not in evil._repr_html_()
    assert "a\\|b" in evil.to_markdown()
    plain = json.loads(evil.to_json())
    assert plain["passed"] is False and len(plain["checks"]) == 6
    assert plain["checks"] == evil.table.to_dicts() and plain["conventions"]["gain"] == "linear"
    assert evil.to_pandas().shape == (6, 13) and evil.to_arrow().num_rows == 6
    failed = rankql.gate(WORSE, baseline=OLD, minimum="nDCG@10>=0.1", max_drop="nDCG@10:0")
    assert ">= 0.1" not in repr(failed) and ">= 0.1" not in failed.to_markdown()
    passed = rankql.gate(OLD, minimum="nDCG@10>=0.1")
    assert "baseline" not in repr(passed) and "slice" not in repr(passed)
    assert "nDCG@10 >= 0.1" in repr(passed)


# The command line, pytest, GitHub Actions


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The frames as files, the way `eval --output` writes them; no variables of GitHub."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    for name, frame in (("old", OLD), ("worse", WORSE), ("noisy", NOISY)):
        rankql.combine([frame]).write(f"{name}.parquet")
    RUN.write_parquet("run.parquet")
    QRELS.write_parquet("qrels.parquet")
    return tmp_path


def command(*arguments, code=0):
    done = CliRunner().invoke(main, ["gate", *arguments])
    assert done.exit_code == code, done.output
    return done


def test_exit_codes(folder):
    old = ["--baseline", "old.parquet", "--max-drop", "nDCG@10:0.01"]
    expected = rankql.gate(WORSE, baseline=OLD, max_drop="nDCG@10:0.01")
    done = command("worse.parquet", *old, code=1)
    assert done.stdout == repr(expected) + "\n" and done.stderr == ""
    assert (
        json.loads(command("worse.parquet", *old, "--format", "json", code=1).stdout)["checks"]
        == expected.table.to_dicts()
    )
    assert command("old.parquet", *old).stdout.startswith("Gate passed: 1 passed")
    assert "within noise" in command("noisy.parquet", *old).stdout
    command("noisy.parquet", *old, "--any-drop", code=1)
    command("noisy.parquet", *old, "--alpha", "0.999", code=1)
    command("run.parquet", "qrels.parquet", "--min", "RR>=0.75", "--min", "P@1>=0.5")
    command("run.parquet", "qrels.parquet", "--min", "RR>=0.75", "--min", "P@1>0.5", code=1)
    sliced = [*old, "--by", "segment", "--min-queries", "8"]
    assert "segment=new" in command("worse.parquet", *sliced, code=1).stdout
    for arguments, message in (
        (["run.parquet", "qrels.parquet"], "nothing to check"),
        (["old.parquet", "--min", "nDCG@10"], "is no limit"),
        (["old.parquet", "--baseline", "none.parquet"], "there is no file 'none.parquet'"),
        (["old.parquet", *old, "--test", "tt"], "did you mean t?"),
        (["old.parquet", *old, "--by", "x"], "no attribute 'x'"),
        (["old.parquet", *old, "--junit", "no/gate.xml"], "there is no folder"),
    ):
        done = command(*arguments, code=2)
        assert message in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert "Usage" in command(code=2).stderr


def test_for_ci(folder, monkeypatch):
    arguments = ["worse.parquet", "--baseline", "old.parquet", "--by", "segment"]
    verdict = rankql.gate(WORSE, baseline=OLD, by="segment")
    quiet = command(*arguments, "--junit", "gate.xml", code=1)
    assert Path("gate.xml").read_text("utf-8") == verdict.junit() and quiet.stderr == ""
    lines = "".join(f"{line}\n" for line in verdict.annotations())
    assert command(*arguments, "--github", code=1).stderr == lines
    Path("summary.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = command(*arguments, code=1)
    assert done.stderr == lines and done.stdout == quiet.stdout
    assert Path("summary.md").read_text() == f"before\n{verdict.to_markdown()}\n\n"
    assert command(*arguments, "--no-github", code=1).stderr == ""
    assert Path("summary.md").read_text().count("Gate failed") == 1


def python(folder, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip


def test_in_pytest(folder):
    Path("test_ranking.py").write_text(
        "from rankql.testing import assert_no_regression\n"
        "def test_better():\n"
        "    assert assert_no_regression('old.parquet', baseline='worse.parquet').passed\n"
        "def test_worse():\n"
        "    limits = {'baseline': 'old.parquet', 'max_drop': 'nDCG@10:0.01'}\n"
        "    assert_no_regression('worse.parquet', **limits)\n"
    )
    done = python(folder, "pytest", "-q", "-p", "no:cacheprovider", "test_ranking.py")
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout
    verdict = rankql.gate(WORSE, baseline=OLD, max_drop="nDCG@10:0.01")
    assert f"E       AssertionError: {verdict.summary}" in done.stdout
    assert said(verdict)[0] in done.stdout
    assert "raise AssertionError" not in done.stdout  # the helper's own frame is hidden


def test_helper():
    with pytest.raises(AssertionError) as caught:
        assert_no_regression(WORSE, baseline=OLD, max_drop="nDCG@10:0.01")
    expected = rankql.gate(WORSE, baseline=OLD, max_drop="nDCG@10:0.01")
    assert str(caught.value) == repr(expected)
    with pytest.raises(rankql.RankqlError):
        assert_no_regression(OLD)
    code = "import rankql.testing, sys; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.fixture
def workflow(tmp_path):
    """The steps of the example as a runner would take them, with the rankql that is here."""
    said = yaml.safe_load((ROOT / "examples" / "github-actions.yml").read_text("utf-8"))
    steps = said["jobs"]["gate"]["steps"]
    shim = tmp_path / "bin" / "rankql"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rankql "$@"\n')
    shim.chmod(0o755)
    home = tmp_path / "repository"
    home.mkdir()
    environment = os.environ | {
        "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }

    def run(name, change=str):
        (script,) = (step["run"] for step in steps if step.get("name") == name)
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", change(script)],
            cwd=home, env=environment, capture_output=True, text=True,
        )  # fmt: skip

    return steps, run, home


def test_the_workflow_runs_as_it_is(workflow):
    steps, run, home = workflow
    names = [step["name"] for step in steps if "run" in step]
    assert names == ["Install", "Data", "Gate"]
    assert [s["run"] for s in steps if s.get("name") == "Install"] == [
        "pip install 'rankql[stats]'"
    ]
    for name in names[1:]:
        done = run(name)
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Gate passed: 12 passed")
    (upload,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
    report = home / upload["with"]["path"]
    assert upload["if"] == "always()"
    assert ElementTree.parse(report).getroot().get("tests") == "12"
    assert "**Gate passed" in (home.parent / "summary.md").read_text()
    before = (home / "baseline.parquet").read_bytes()
    assert run("Data").returncode == 0 and (home / "baseline.parquet").read_bytes() == before
    strict = run("Gate", lambda script: script.replace("0.02", "0.001"))
    assert strict.returncode == 1 and strict.stderr.startswith("::error title=nDCG@10 drop <=")
    assert ElementTree.parse(report).getroot().get("failures") == "1"


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no data: {DATA} is absent")
def test_dl19(tmp_path):
    runs = {name: DATA / f"{name}.run" for name in ("BM25", "SPLADE_P_P_ENSEMBLE_DISTIL")}
    old, new = runs.values()
    qrels, metrics = DATA / "dl19.qrels", ["nDCG@10", "AP"]
    checks = {"max_drop": ["nDCG@10:0.01", "AP:0.01"], "minimum": "nDCG@10>=0.5"}
    for one, other, status in ((new, old, "passed"), (old, new, "failed")):
        rankql.evaluate(other, qrels, metrics, output=tmp_path / "other.parquet")
        verdict = rankql.gate(one, qrels, tmp_path / "other.parquet", **checks)
        assert verdict.table["status"].to_list() == ["passed", status, status]
        compared = rankql.compare({"a": other, "b": one}, qrels, metrics, baseline="a")
        for column in ("difference", "lo", "hi", "p_adjusted"):
            assert verdict.table[column][1:].to_list() == compared.table[column].to_list()
    assert verdict.table["n"].to_list() == [43, 43, 43]


def test_slices_too_small_to_fail_do_not_weaken_the_whole():
    queries = list(range(400))
    base = [0.3 + i % 7 / 20 for i in queries]
    new = [value - 0.01 + (i * 37 % 11 - 5) / 50 for i, value in zip(queries, base, strict=True)]
    users = [i // 2 for i in queries]
    old, now = (pl.DataFrame({"query": queries, "user": users, "AP": v}) for v in (base, new))
    alone = rankql.gate(now, baseline=old, max_drop="AP:0")
    sliced = rankql.gate(now, baseline=old, max_drop="AP:0", by="user")
    assert not alone and not sliced
    whole = sliced.table.filter(slice="all")
    assert whole["p_adjusted"].to_list() == alone.table["p_adjusted"].to_list()
    assert sliced.table["status"].to_list().count("too few queries") == 200


def test_a_gate_over_nothing_is_no_gate():
    for frame in (OLD.head(0), OLD.with_columns(query=pl.lit(None, pl.String))):
        with pytest.raises(rankql.RankqlError, match=r"no query|NULL in"):
            rankql.gate(frame, minimum="nDCG@10>=0.1")


@pytest.mark.parametrize("test", ["t", "randomisation", "wilcoxon", "sign", "randomised_tukey"])
def test_a_drop_that_is_the_same_everywhere_fails(test):
    old = pl.DataFrame({"query": list("abcd"), "AP": [0.5, 0.6, 0.7, 0.8]})
    new = old.with_columns(pl.col("AP") - 0.3)
    verdict = rankql.gate(new, baseline=old, max_drop="AP:0.05", test=test)
    assert not verdict and "the same in every query" in verdict.table["message"][0]

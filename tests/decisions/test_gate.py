"""The gate: what fails, what does not, and what people and CI read."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import stats

import rankql
from rankql.cli.main import main
from rankql.decisions.gate import gate_comparison
from rankql.testing import assert_no_regression
from support.own_values import as_values, compare_values, gate_values
from support.parameters import few

# 20 queries in two slices; in `WORSE` one slice has lost, in `NOISY` the ups and downs are large.
IDS = [f"q{i:02}" for i in range(20)]
SEGMENTS = ["new"] * 12 + ["old"] * 8
BASE = [0.3 + 0.02 * i for i in range(20)]


def values(metric="nDCG@10", shift=lambda place: 0):
    """A per_query frame; `shift` gives what is added to the base at each place."""
    column = [x + shift(i) for i, x in enumerate(BASE)]
    return pl.DataFrame({"query": IDS, "segment": SEGMENTS, metric: column})


def shifted(name, start, changes):
    """Two frames of queries, the first with equal values, the second with these changes."""
    old = pl.DataFrame({"query": range(len(changes)), name: [float(start)] * len(changes)})
    return old, old.with_columns(pl.col(name) + pl.Series(changes, dtype=pl.Float64))


def statuses(verdict, part=None):
    """The status of every row, or of those of a slice."""
    table = verdict.table if part is None else verdict.table.filter(slice=part)
    return table["status"].to_list()


def messages(verdict, part="all"):
    return verdict.table.filter(slice=part)["message"].to_list()


def only_row(verdict):
    return verdict.table.row(0, named=True)


OLD = values()
WORSE = values(shift=lambda i: -0.1 - 0.01 * (i % 3) if i < 12 else 0.01 * (i % 3))
NOISY = values(shift=lambda i: -0.28 if i % 2 else 0.24)
RUN = pl.DataFrame({"query": ["a", "a", "b", "b"], "item": list("xyxy"), "score": [2.0, 1, 2, 1]})
DROP = "nDCG@10:0.01"
QRELS = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "rel": [1, 1]})


# Drops


@few(1)("turned", [False, True])
def test_a_run_with_positions_too_is_read_by_score_as_in_compare(turned):
    rows = [(q, x, (q * 7 + x * 5) % 11) for q in range(5) for x in range(9)]
    model = pl.DataFrame(rows, ["query", "item", "score"], orient="row")
    popular = model.select("query", "item", pos=1 + pl.col("item"), score=-pl.col("item"))
    qrels = model.select("query", "item", rel=pl.col("item") % 2)
    run, baseline = (popular, model) if turned else (model, popular)
    verdict = rankql.gate(run, qrels, baseline, max_drop="AP:0.9")
    expected = rankql.compare({"a": baseline, "b": run}, qrels, "AP").summary["mean"].to_list()
    assert verdict.table.select("baseline", "mean").row(0) == pytest.approx(expected)
    other = popular.with_columns(score=pl.col("item"))
    with pytest.raises(rankql.RankqlError, match="pos and score order"):
        rankql.gate(model, qrels, other, max_drop="AP:0.9")


def test_a_drop_beyond_its_limit_fails():
    verdict = gate_values(WORSE, baseline=OLD, max_drop="ndcg@10:0.01", by="segment", min_queries=8)
    assert not verdict and not verdict.passed and verdict.exit_code == 1
    assert set(verdict.table["check"]) == {"nDCG@10 drop <= 0.01"}
    assert verdict.table.select("slice", "status").rows() == [
        ("all", "failed"), ("segment=new", "failed"), ("segment=old", "passed")
    ]  # fmt: skip
    (message,) = messages(verdict)
    assert message == "dropped by 0.062 (95% CI 0.031 to 0.091), beyond the limit of 0.01"
    assert messages(verdict, "segment=old") == ["improved by 0.0088 (95% CI 0.0018 to 0.0167)"]


@few(2)(
    ("argument", "limits", "checks"),
    [
        ("minimum", "NDCG:top=3>=0.5, AP>=0.3", ["NDCG:top=3 >= 0.5", "AP >= 0.3"]),
        ("minimum", "nDCG@1,2 >= .3,NDCG:top=3;type=Exp<1,", [
            "nDCG@1 >= 0.3", "nDCG@2 >= 0.3", "NDCG:top=3;type=Exp < 1"]),
        ("minimum", "sure = greatest(avg(if(rel >= 1, 1, 0)), 0) >= 0.2, AP>=1e-3", [
            "sure >= 0.2", "AP >= 0.001"]),
        ("max_drop", "NDCG:top=3:0.1, MAP:top=2;hints=x:0.2", [
            "NDCG:top=3 drop <= 0.1", "MAP:top=2;hints=x drop <= 0.2"]),
    ],
)  # fmt: skip
def test_a_text_holds_several_limits(argument, limits, checks):
    rows = [(q, item, int(item == "a"), -i) for q in "xy" for i, item in enumerate("bac")]
    frame = pl.DataFrame(rows, schema=["query", "item", "rel", "score"], orient="row")
    options = {argument: limits, "conventions": "catboost", "min_queries": 2}
    options |= {"baseline": frame} if argument == "max_drop" else {}
    assert rankql.gate(frame, **options).table["check"].to_list() == checks


def test_the_interval_is_that_of_scipy():
    """A drop of 0.0169 with a limit of 0.01, symmetric, so that nothing is widened."""
    drop = [0.0169 + 0.045 * (-1) ** i for i in range(40)]
    old, new = shifted("AP", 0.6, [-x for x in drop])
    row = only_row(gate_values(new, baseline=old, max_drop="AP:0.01"))
    ends = stats.ttest_1samp(drop, 0).confidence_interval(0.95)
    assert (-row["hi"], -row["lo"]) == pytest.approx((ends.low, ends.high))
    assert row["confidence"] == 0.95 and row["status"] == "inconclusive"
    assert row["message"] == (
        "dropped by 0.017 (95% CI 0.002 to 0.031). Inconclusive: the interval contains the limit "
        "of 0.01. About 360 queries would decide"
    )


def test_skewed_losses_widen_the_interval():
    """If few queries lose much while the rest keep their values, plain t would pass too soon."""
    losses = [0.0] * 17 + [0.2, 0.3, 0.4]
    old, new = shifted("AP", 0.6, [-loss for loss in losses])
    row = only_row(gate_values(new, baseline=old, max_drop="AP:0.1"))
    lo, hi = stats.ttest_1samp(losses, 0).confidence_interval(0.95)
    assert hi < 0.1 < -row["lo"] and row["status"] == "inconclusive"
    assert -row["hi"] == pytest.approx(lo)
    # Hall's cubic turns the bound back into Student's quantile, at the skewness that reaches most.
    slopes = np.linspace(0.05, 1, 20) * stats.skew(losses, bias=False) * (1 + 6 / 20) / 20**0.5
    t = (np.mean(losses) + row["lo"]) / stats.sem(losses)
    quantiles = t + slopes * t**2 / 3 + slopes**2 * t**3 / 27 + slopes / 6
    assert np.abs(quantiles - stats.t.ppf(0.025, 19)).min() < 1e-9


def test_without_a_limit_only_a_significant_drop_fails():
    for limit in (None, "nDCG@10:0"):
        verdict = gate_values(NOISY, baseline=OLD, max_drop=limit)
        assert messages(verdict) == ["dropped by 0.02 (95% CI -0.10 to 0.14): not significant"]
        assert verdict.notes[0].startswith("A limit of 0 fails only if a drop is significant.")
    bounded = gate_values(NOISY, baseline=OLD, max_drop="nDCG@10:0.2")
    assert bounded and not any("A limit of 0" in note for note in bounded.notes)


@few(1)("name", ["AP", "RMSE"])
def test_equivalence_limits_drop_and_gain(name):
    """Two one-sided t tests, whose interval has twice the level."""
    changes = 0.01 + 0.02 * np.random.default_rng(4).standard_normal(200)
    old, new = shifted(name, 0.5, changes)
    verdict = gate_values(new, baseline=old, equivalence=f"{name}:0.01")
    ways = ("rise", "drop") if name == "RMSE" else ("drop", "rise")
    assert verdict.table["check"].to_list() == [f"{name} {way} <= 0.01" for way in ways]
    assert set(verdict.table["confidence"]) == {0.9}
    ends = stats.ttest_1samp(changes, 0).confidence_interval(0.9)
    assert verdict.table["lo", "hi"].row(0) == pytest.approx([*ends], abs=1e-4)


@few(1)("loss", [0.0, 0.05])
def test_equal_losses_have_an_interval(loss):
    """20 queries that all lose as much say little about the others: 0.025^(1/20) = 0.83."""
    old, new = shifted("AP", 0.6, [-loss] * 20)
    share = 0.025 ** (1 / 20)
    for limit, status in ((loss, "inconclusive" if loss else "passed"), (0.5, "passed")):
        row = only_row(gate_values(new, baseline=old, max_drop={"AP": limit}))
        ends = -1 + share * (1 - loss), 1 - share * (1 + loss)
        assert (row["lo"], row["hi"]) == pytest.approx(ends) and row["status"] == status
    free = gate_values(new.rename({"AP": "revenue"}), baseline=old.rename({"AP": "revenue"}))
    assert statuses(free) == ["inconclusive"]  # no range, so no interval


def test_identical_rankings_pass_however_few():
    """Known from the runs: the same items in the same order. Equal values are not enough."""
    assert rankql.gate(RUN, QRELS, RUN, max_drop="RR:0.01").passed
    same = rankql.compare({"old": RUN, "new": RUN}, QRELS, "RR")
    assert gate_comparison(same, "RR:0.01").passed  # as the report has it
    swapped = RUN.with_columns(item=pl.Series(["x", "z", "x", "y"]))
    verdict = rankql.gate(swapped, QRELS, RUN, max_drop="RR:0.01")
    assert verdict.table["difference"].item() == 0 and verdict.exit_code == 3
    result = rankql.evaluate(RUN, QRELS, "RR")
    assert rankql.gate(RUN, QRELS, result, max_drop="RR:0.01").passed
    assert gate_values(result.per_query, baseline=result, max_drop="RR:0.01").exit_code == 3


def test_less_is_better():
    old, new = values("RMSE"), values("RMSE", shift=lambda i: 0.1 + 0.01 * (i % 3))
    verdict = gate_values(new, baseline=old, minimum={"RMSE": 0.5}, max_drop="RMSE:0.05")
    assert verdict.table["check"].to_list() == ["RMSE <= 0.5", "RMSE rise <= 0.05"]
    assert messages(verdict)[1].startswith("rose by 0.1095 (95% CI 0.105")
    back = gate_values(old, baseline=new, max_drop="RMSE:0.05")
    assert back and messages(back)[0].startswith("improved by 0.1095 (95% CI 0.105")


def bounded(frame, *limits, **options):
    minimum = [f"nDCG@10{limit}" for limit in limits]
    return gate_values(frame, minimum=minimum, minimum_bound=True, **options)


def test_bounds_of_a_minimum():
    """minimum_bound=True holds the interval to the limit; few queries do not decide."""
    verdict = bounded(OLD, ">=0.48", by="segment")
    assert messages(verdict)[0] == (
        "0.490 (95% CI 0.435 to 0.545) over 20 queries. Inconclusive: the interval contains the "
        "limit of 0.48. About 1,200 queries would decide"
    )
    (message,) = messages(verdict, "segment=old")
    assert message.endswith(" over 8 queries, fewer than 10 queries: not checked")
    dropped = gate_values(NOISY.tail(8), baseline=OLD.tail(8), max_drop=DROP)
    assert messages(dropped)[0].endswith(" over 8 queries, fewer than 10: inconclusive")


def test_bounds_of_a_minimum_of_equal_values():
    flat = OLD.with_columns(pl.lit(0.5).alias("nDCG@10"))
    few = bounded(flat.head(6), ">=0.4", min_queries=1)
    assert few.exit_code == 3 and few.table["queries_needed"].to_list() == [17]
    free = flat.rename({"nDCG@10": "orders"})
    free = gate_values(free, minimum="orders>=0.4", minimum_bound=True)
    assert messages(free)[0].endswith("Inconclusive: there is no confidence interval of 20 queries")


@few(2)("metric", ["Judged@2", "RMSE", "P@1"])
@pytest.mark.parametrize("options", [{}, {"weight": "traffic"}, {"cluster": "user"}])
def test_the_interval_of_a_minimum_is_that_of_evaluate(metric, options):
    """Equal values too, whose effective number counts, and metrics with one end of their range."""
    i = pl.int_range(40, eager=True)
    table = pl.select(
        query=i, item=pl.lit("a"), pos=1, score=0.0, rel=(i % 9 == 0).cast(float) * (i % 4),
        traffic=1.0 + i % 5, user=i.clip(0, 20),
    )  # fmt: skip
    expected = rankql.evaluate(table, metrics=metric, **options).summary
    verdict = rankql.gate(table, minimum=f"{metric}>=0.01", minimum_bound=True, **options)
    ends = (each.select("lo", "hi").row(0) for each in (verdict.table, expected))
    assert next(ends) == pytest.approx(next(ends))


def test_a_minimum_below_zero_where_gains_may_be_negative():
    judged = QRELS.with_columns(rel=-1)
    verdict = rankql.gate(RUN, judged, minimum="DCG>=-0.5", negative="keep")
    assert not verdict.passed and verdict.table["mean"][0] < -0.5


# Minima


def test_numbers_of_a_minimum_in_any_form():
    minima = [f"ndcg@10{limit}" for limit in (">= 0.491", ">=4.9e-1", "> 0.489", "<=.5,")]
    table = gate_values(OLD, minimum=minima).table
    assert table["status"].to_list() == ["failed", *["passed"] * 3]
    assert all(message.startswith("0.49 over 20 queries") for message in table["message"])


def test_minima_of_runs():
    verdict = rankql.gate(RUN, QRELS, minimum=["P@1,2>=0.5", "RR>0.8", "share = avg(rel) > 0.2"])
    assert verdict.table.select("metric", "mean", "status").rows() == [
        ("P@1", 0.5, "passed"), ("P@2", 0.5, "passed"), ("RR", 0.75, "failed"),
        ("share", 1.0, "passed"),
    ]  # fmt: skip
    assert messages(verdict)[2] == "0.75 over 2 queries, not above the limit of 0.8"


def test_undefined_fails():
    nothing = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "rel": [0, 0]})
    verdict = rankql.gate(RUN, nothing, RUN, minimum="RR>=0", max_drop="RR:0.99")
    assert statuses(verdict) == ["failed", "failed"] and verdict.table["n"].to_list() == [0, 0]
    assert messages(verdict) == [
        "undefined: none of 2 queries has a value",
        "undefined: none of 2 queries has a value in both",
    ]
    undefined = OLD.with_columns(pl.when(segment="new").then("nDCG@10").alias("nDCG@10"))
    few = gate_values(undefined, baseline=OLD, minimum="nDCG@10>=0", by="segment", min_queries=9)
    assert "2 too few queries" in few.title and "segment=old" in repr(few)
    assert messages(few, "segment=old")[1].endswith(" in both, fewer than 9: not checked")


# What is compared


@pytest.mark.slow
def test_runs_results_files_and_frames(tmp_path):
    run = pl.concat([RUN.head(2).with_columns(query=pl.lit(q)) for q in IDS])
    other = run.with_columns(score=pl.when(pl.col("query") < "q05").then(-pl.col("score"))
                             .otherwise("score"))  # fmt: skip
    qrels = pl.DataFrame({"query": IDS, "item": ["x"] * 20, "rel": [1] * 20})
    checks = {"minimum": "RR>=0.5", "max_drop": "RR:0.01"}
    expected = rankql.gate(other, qrels, run, **checks)
    assert statuses(expected) == ["passed", "failed"]
    results = [rankql.evaluate(each, qrels, ["RR", "AP"]) for each in (other, run)]
    files = [tmp_path / "new.parquet", tmp_path / "old.parquet"]
    for result, file in zip(results, files, strict=True):
        result.save_values(file)
    frames = [rankql.read_values(result.per_query) for result in results]
    for data in (
        *((new, None, old) for new, old in (files, frames, (results[0], str(files[1])))),
        *((other, qrels, old) for old in (results[1], files[1], frames[1])),
        (results[0], qrels, run),
    ):
        assert rankql.gate(*data, **checks).table.equals(expected.table)


def test_a_baseline_alone():
    """Nothing may drop: of the minima, else of the results, else of evaluate's metrics."""
    two = OLD.with_columns(AP=pl.col("nDCG@10"))
    checks = gate_values(two, baseline=two).table["check"].to_list()
    assert checks == ["nDCG@10 drop <= 0", "AP drop <= 0"]
    assert gate_values(OLD, baseline=two).table["metric"].to_list() == ["nDCG@10"]
    checks = gate_values(two, baseline=two, minimum="AP>=0").table["check"].to_list()
    assert checks == ["AP >= 0", "AP drop <= 0"]
    metrics = rankql.gate(RUN, QRELS, RUN).table["metric"].to_list()
    assert metrics == ["nDCG@10", "AP", "RR@10", "P@5", "R@100"]


def test_queries_of_one_side():
    baseline = rankql.evaluate(RUN, QRELS, "AP")
    values = rankql.read_values(baseline.per_query)  # whose judgments are not known
    verdict = rankql.gate(RUN, QRELS.head(1), values, max_drop="AP:0.1")
    assert verdict.table["n"].to_list() == [1]
    note = "Queries: 1 of 2 of the baseline not judged any more and left out of the drops"
    assert note in verdict.notes
    # A query that the run lacks still counts as 0.
    lacking = rankql.gate(RUN.head(2), QRELS, baseline, max_drop="AP:0.1")
    assert "Queries: 1 of 2 (run) missing and counted as the worst value" in lacking.notes
    assert lacking.table.select("n", "mean").row(0) == (2, 0.5)
    new = OLD.with_columns(query=pl.col("query").str.replace("q00", "q99"))
    verdict = gate_values(new, baseline=OLD, by="segment", max_drop="nDCG@10:0.5")
    note = "Queries: 1 of 20 of the run not in the baseline and left out of the drops"
    assert note in verdict.notes and note in repr(verdict)
    row = verdict.table.row(0, named=True)
    assert row["n"] == 20 and row["difference"] == pytest.approx(-0.3 / 20)
    assert set(verdict.table["slice"]) == {"all", "segment=new", "segment=old"}


def test_attributes_are_those_of_the_run():
    moved = OLD.with_columns(segment=pl.Series(SEGMENTS[::-1]))
    expected = gate_values(WORSE, baseline=OLD, by="segment").table
    for baseline in (OLD.drop("segment"), moved, OLD.rename({"query": "qid"})):
        assert gate_values(WORSE, baseline=baseline, by="segment").table.equals(expected)


def test_clusters():
    """Queries of one user lose together: the interval is that of compare."""
    drop = np.random.default_rng(5).normal(0.02, 0.1, 30).repeat(4)
    old, new = (x.with_columns(user=pl.int_range(120) // 4) for x in shifted("AP", 0.5, -drop))
    verdict = gate_values(new, baseline=old, cluster="user", max_drop="AP:0.01")
    compared = compare_values({"a": old, "b": new}, cluster="user").pairs
    assert verdict.table["lo", "hi"].row(0) == pytest.approx(compared["lo", "hi"].row(0))
    assert "Queries are clustered by user: 30 clusters of 4 queries" in verdict.notes


def test_conventions_of_the_baseline(tmp_path):
    """A scale that only another metric needs is no difference. A table has those of the result."""
    path = tmp_path / "old.parquet"
    rankql.evaluate(RUN, QRELS, ["nDCG@10", "ERR"], output=path)
    assert rankql.gate(RUN, QRELS, path, max_drop="nDCG@10:0").outcome == "inconclusive"
    assert rankql.compare([path, rankql.evaluate(RUN, QRELS, "nDCG@10")]).metrics == ["nDCG@10"]
    other = rankql.evaluate(RUN, QRELS, "nDCG@10", gain="exp2")
    assert rankql.gate(RUN, QRELS, other, gain="exp2")
    stated = rankql.evaluate(RUN, QRELS, "AP", conventions="trec_eval")
    frame = rankql.read_values(stated.per_query)
    assert rankql.gate(RUN, QRELS, frame, conventions="trec_eval").exit_code == 3
    assert gate_values(frame, baseline=stated).result.conventions["profile"] == "trec_eval"
    # An expression is a metric, and its column in a result too.
    own = rankql.evaluate(RUN, QRELS, "share = avg(rel)")
    for data in (own, OLD.rename({"nDCG@10": "share"})):
        verdict = gate_values(data, baseline=data, minimum="share>=0.5")
        assert verdict.table["metric"].to_list() == ["share", "share"]


@pytest.mark.slow
def test_micro_averages():
    verdict = rankql.gate(RUN, QRELS, RUN, max_drop="microP@1:0")
    assert verdict and "no confidence interval" in verdict.table["message"][0]
    low = RUN.with_columns(score=pl.Series([-2.0, -1, 0, 0]))
    checks = {"minimum": "microP@1>=0.5", "max_drop": "microP@1:0.1"}
    verdict = rankql.gate(low, QRELS, RUN, **checks)
    assert verdict.table["mean"].to_list() == [0.5, 0.5]
    last = pl.DataFrame({"query": ["a"], "item": ["x"], "score": [-9.0]})
    lost = pl.concat([low.with_columns(item=pl.lit("z") + pl.col("item")), last])
    verdict = rankql.gate(lost, QRELS, RUN, **checks)
    assert verdict.table["difference"][1] == -0.5 and not verdict


# What people and CI read

EVIL = '<script>alert(1)</script>\n::error::100% "sure", a|b: c\x00\x1b\r'


@pytest.fixture(scope="module")
def evil():
    segments = [EVIL] * 12 + ["x\n::set-output name=a::b"] * 8
    old, new = (frame.with_columns(segment=pl.Series(segments)) for frame in (OLD, WORSE))
    return gate_values(
        new, baseline=old, minimum="nDCG@10>=0.6", by="segment", max_drop="nDCG@10:0"
    )


def test_junit(evil):
    root = ElementTree.fromstring(evil.junit())
    (suite,) = root
    assert root.tag == "testsuites" and suite.tag == "testsuite"
    counts = {"tests": "6", "failures": "4", "errors": "0", "skipped": "2"}
    assert counts.items() <= suite.attrib.items() and counts.items() <= root.attrib.items()
    cases = [(case.get("name"), [child.tag for child in case]) for case in suite]
    assert cases[0] == ("nDCG@10 >= 0.6", ["failure"])
    name = EVIL.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    assert (f"nDCG@10 >= 0.6 [segment='{name}']", ["failure"]) in cases
    assert sum(tags == ["skipped"] for _, tags in cases) == 2
    assert {case.get("classname") for case in suite} == {"rankql.gate.nDCG@10"}
    messages = [case[0].get("message") for case in suite]
    assert messages == [case[0].text for case in suite] == evil.table["message"].to_list()
    passed = ElementTree.fromstring(gate_values(OLD, minimum="nDCG@10>0").junit())
    assert passed[0][0][0].tag == "system-out" and passed.get("failures") == "0"


def test_annotations(evil):
    lines = evil.annotations()
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 4 + ["::notice"] * 2
    assert not any("\n" in line or "\r" in line for line in lines)
    title = lines[1].split("title=")[1].split("::")[0]
    assert title == (
        "nDCG@10 >= 0.6 [segment='<script>alert(1)</script>\\n%3A%3Aerror%3A%3A100%25 "
        '"sure"%2C a|b%3A c\\x00\\x1b\\r\']'
    )
    assert lines[0] == f"::error title=nDCG@10 >= 0.6::{evil.table['message'][0]}"
    assert gate_values(OLD, minimum="nDCG@10>0").annotations() == []


@pytest.mark.parametrize(
    ("inconclusive", "level", "tag", "counts", "title"),
    [
        ("fail", "error", "failure", ("1", "0"), "Gate inconclusive: 1 of 1 check"),
        ("warn", "warning", "skipped", ("0", "1"), "Gate passed: 0 of 1 check, 1 inconclusive"),
    ],
)
def test_inconclusive_limits(inconclusive, level, tag, counts, title):
    options = {"baseline": OLD, "max_drop": DROP, "inconclusive": inconclusive}
    verdict = gate_values(NOISY, **options)
    assert verdict.title == title and verdict.passed == ("passed" in title)
    assert verdict.exit_code == (0 if verdict else 3)
    assert verdict.inconclusive.height == 1 and verdict.failures.is_empty()
    (line,) = verdict.annotations()
    assert line.startswith(f"::{level} title=nDCG@10 drop <= 0.01::dropped by 0.02")
    suite = ElementTree.fromstring(verdict.junit())[0]
    assert suite[0][0].tag == tag and (suite.get("failures"), suite.get("skipped")) == counts
    both = gate_values(NOISY, **options, minimum="nDCG@10>=0.9")
    assert both.to_dict()["outcome"] == "failed" and both.exit_code == 1
    assert both.title == "Gate failed: 1 of 2 checks, 1 inconclusive"


# The command line, pytest, GitHub Actions


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The frames as files, the way `eval --output` writes them; no variables of GitHub."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    for name, frame in (("old", OLD), ("worse", WORSE), ("noisy", NOISY)):
        rankql.read_values(frame).save_values(f"{name}.parquet")
    RUN.write_parquet("run.parquet")
    QRELS.write_parquet("qrels.parquet")
    return tmp_path


def command(*arguments, code=0):
    done = CliRunner().invoke(main, ["gate", *arguments])
    assert done.exit_code == code, done.output
    return done


def test_exit_codes(folder):
    old = ["--baseline", "old.parquet", "--max-drop", DROP]
    options = {"baseline": "old.parquet", "max_drop": DROP}
    runs = ["run.parquet", "qrels.parquet", "--min", "RR>=0.75", "--min"]
    for arguments, code, start in (
        (["worse.parquet", *old], 1, repr(rankql.gate("worse.parquet", **options)) + "\n"),
        (["noisy.parquet", *old], 3, "Gate inconclusive"),
        (
            ["noisy.parquet", *old, "--inconclusive", "warn"],
            0,
            "Gate passed: 0 of 1 check, 1 inconclusive",
        ),
        (["noisy.parquet", *old, "--alpha", "0.999"], 1, "Gate failed"),
        (["old.parquet", "--min", "nDCG@10>=0.48", "--min-bound"], 3, "Gate inconclusive"),
        ([*runs, "P@1>=0.5"], 0, "Gate passed"),
        ([*runs, "P@1>0.5"], 1, "Gate failed"),
        (["worse.parquet", *old, "--by", "segment", "--min-queries", "8"], 1, "Gate failed"),
    ):
        done = command(*arguments, code=code)
        assert done.stdout.startswith(start)
        warned = "Warning: inconclusive limits: 1\n" if "warn" in arguments else ""
        assert done.stderr == warned
    table = json.loads(command("worse.parquet", *old, "--format", "json", code=1).stdout)["table"]
    assert table == rankql.gate("worse.parquet", **options).table.to_dicts()
    for arguments, text in (
        (["run.parquet", "qrels.parquet"], "Nothing to check. Pass --min or --baseline\n"),
        (["old.parquet", "--min", "nDCG@10"], "Cannot parse the limit 'nDCG@10' of --min."),
        (["old.parquet", *old, "--junit", "no/gate.xml"], "does not exist"),
        ([], "Usage"),
    ):
        error = command(*arguments, code=2).stderr
        assert text in error and "Traceback" not in error, error


def test_annotations_summary_and_file_for_github_actions(folder, monkeypatch):
    arguments = ["worse.parquet", "--baseline", "old.parquet", "--by", "segment"]
    verdict = rankql.gate("worse.parquet", baseline="old.parquet", by="segment")
    Path("summary.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = command(*arguments, "--junit", "gate.xml", code=1)
    assert done.stderr == "".join(f"{line}\n" for line in verdict.annotations())
    assert Path("gate.xml").read_text("utf-8") == verdict.junit()
    assert Path("summary.md").read_text() == f"before\n{verdict.to_markdown()}\n\n"


def test_assert_no_regression():
    with pytest.raises(AssertionError) as caught:
        assert_no_regression(as_values(WORSE), baseline=as_values(OLD), max_drop=DROP)
    assert str(caught.value) == repr(gate_values(WORSE, baseline=OLD, max_drop=DROP))
    assert "raise AssertionError" not in str(caught.getrepr())  # its own frame is hidden
    with pytest.raises(AssertionError, match="Gate inconclusive"):
        assert_no_regression(as_values(NOISY), baseline=as_values(OLD), max_drop=DROP)
    with pytest.warns(UserWarning, match=r"nDCG@10 drop <= 0.01: dropped by 0.02"):
        assert assert_no_regression(
            as_values(NOISY), baseline=as_values(OLD), max_drop=DROP, inconclusive="warn"
        )
    with pytest.raises(rankql.RankqlError):
        assert_no_regression(as_values(OLD))


@pytest.mark.slow
def test_a_gate_with_train_catalogue_and_seen(tmp_path):
    """As evaluate and compare have them; on the command line too.

    Two runs of 40 users, the items that they had before, and those that they bought then.
    """
    users = pl.DataFrame({"user": range(40)})
    old = users.with_columns(item=pl.lit([*"abcd"])).explode("item")
    old = old.with_columns(pos=pl.int_range(1, pl.len() + 1).over("user"))
    run, test = old.with_columns(pos=5 - pl.col("pos")), users.with_columns(item=pl.lit("c"))
    train = users.with_columns(item=pl.lit([*"ad"])).explode("item")
    paths = [str(tmp_path / f"{name}.parquet") for name in ("new", "test", "train")]
    for path, frame in zip(paths, (run, test, train), strict=True):
        frame.write_parquet(path)
    limits = {"minimum": {"RR": 0.4, "Coverage@2": 0.1}}
    verdict = rankql.gate(run, test, train=train, catalogue=10, **limits)
    expected = rankql.evaluate(run, test, ["RR", "Coverage@2"], train=train, catalogue=10)
    for metric in ("RR", "Coverage@2"):
        mean = verdict.table.filter(metric=metric)["mean"].item()
        assert mean == pytest.approx(expected[metric])
    dropped = rankql.gate(run, test, train=train, seen="drop", minimum={"RR": 0.9})
    assert dropped.passed and not rankql.gate(run, test, minimum={"RR": 0.9}).passed
    both = rankql.gate(run, test, old, train=train, max_drop={"Novelty@2": 0.1})
    assert both.table["difference"].item() == pytest.approx(
        rankql.compare([old, run], test, "Novelty@2", train=train).pairs["difference"][0]
    )
    done = CliRunner().invoke(
        main, ["gate", *paths[:2], "--train", paths[2], "--catalogue", "10", "--min", "RR>=0.4",
               "--min", "Coverage@2>=0.1"])  # fmt: skip
    assert done.exit_code == verdict.exit_code == 0
    result = rankql.evaluate(run, test, "RR")
    with pytest.raises(rankql.RankqlError, match="train= is an option for runs"):
        gate_values(result, train=train, minimum="RR>=0.1")


# Limits on one slice

DIETS = pl.DataFrame({
    "query": [f"q{i:02}" for i in range(60)],
    "diet": ["vegan", "all: b=c", "no fish"] * 20,
    "time": ["12:30"] * 57 + ["9"] * 3,
    "RR": [0.9, 0.5, 0.7] * 20,
})  # fmt: skip
LOST = DIETS.with_columns(pl.when(pl.col("diet") == "vegan").then(0.4).otherwise("RR").alias("RR"))


def gate_slices(frame, **options):
    frames = {"run": frame, **{k: v for k, v in options.items() if k == "baseline"}}
    results = {name: rankql.read_values(x) for name, x in frames.items()}
    return rankql.gate(results.pop("run"), **{"by": "diet", **options, **results})


@few(3)(
    ("limit", "part", "mean"),
    [
        ("diet=vegan: RR>=0.8", "diet=vegan", 0.9),
        ("diet = vegan:RR>=0.8", "diet=vegan", 0.9),
        ("diet='all: b=c': RR<0.6", "diet=all: b=c", 0.5),
        ("diet=all: b=c: RR<0.6", "diet=all: b=c", 0.5),
        ({"diet=all: b=c: RR": 0.4}, "diet=all: b=c", 0.5),
        ('diet="no fish": RR>=0.7', "diet=no fish", 0.7),
        ("diet=no fish: RR>=0.7", "diet=no fish", 0.7),
        ("all: RR>=0.7", "all", 0.7),
        ({"diet=vegan: RR": 0.8}, "diet=vegan", 0.9),
    ],
)
def test_a_limit_names_a_slice(limit, part, mean):
    (row,) = gate_slices(DIETS, minimum=limit).table.to_dicts()
    assert (row["slice"], row["status"]) == (part, "passed") and row["mean"] == pytest.approx(mean)


def test_limits_on_slices_are_held_alone():
    every = gate_slices(DIETS, minimum='RR>=0.6, diet="no fish": RR>=0.71').table
    assert every["slice"].to_list()[-1] == "diet=no fish" and len(every) == 5
    times = gate_slices(DIETS, minimum='time="12:30": RR>=0.6, RR>=0.1', by="time")
    assert times.table["slice"].to_list() == ["time=12:30", "all", "time=12:30", "time=9"]
    both = gate_slices(DIETS, minimum="time=9,diet=vegan:RR>=0.1", by=["diet", "time"])
    assert both.table["slice"].to_list() == ["diet=vegan, time=9"]


def test_drops_of_a_slice(tmp_path):
    equal = gate_slices(DIETS, baseline=DIETS, equivalence="diet=vegan: RR:0.5", min_queries=5)
    assert equal.passed
    paths = [tmp_path / "new.csv", tmp_path / "old.csv"]
    for frame, path in zip((LOST, DIETS), paths, strict=True):
        frame.write_csv(path)
    command = ["gate", str(paths[0]), "--baseline", str(paths[1]), "--max-drop", "diet=vegan:RR:.1"]
    for by in (["--by", "diet"], []):
        done = CliRunner().invoke(main, [*command, *by])
        assert done.exit_code == 1 and "diet=vegan" in done.stdout, done.output


def test_an_unknown_slice_is_refused():
    unknown = r"A limit on RR: Unknown slice 'diet=vegn'\. Did you mean 'diet=vegan'\?"
    with pytest.raises(rankql.RankqlError, match=unknown):
        gate_slices(DIETS, minimum="diet=vegn: RR>=0.1")
    with pytest.raises(rankql.RankqlError, match=r"Unknown slice 'diet=vegan'"):
        gate_slices(DIETS, minimum="diet=vegan: RR>=0.1", by="time")


def test_values_without_a_known_query_are_asked_for_it(tmp_path):
    path = str(tmp_path / "values.csv")
    DIETS.drop("time").rename({"query": "suche", "RR": "umsatz"}).write_csv(path)
    for more, code, text in (([], 2, "No query column in"), (["--query", "suche"], 0, "umsatz")):
        done = CliRunner().invoke(main, ["gate", path, "--min", "diet=vegan: umsatz>=0.1", *more])
        assert done.exit_code == code and text in done.output
    run, qrels = RUN.rename({"query": "suche"}), QRELS.rename({"query": "suche"})
    rankql.evaluate(run, qrels, "RR", query="suche", output=tmp_path / "rr.parquet")
    result = ["gate", str(tmp_path / "rr.parquet"), "--min", "RR>=0.1"]
    assert CliRunner().invoke(main, result).exit_code == 0


def test_limits_name_the_slices_of_a_gate_without_by():
    every = gate_slices(DIETS, minimum="diet=vegan: RR>=0.8, RR>=0.1, all: RR>=0.2", by=())
    assert every.table["slice"].to_list() == ["diet=vegan", "all", "all"]
    (alone,) = gate_slices(DIETS, minimum="diet=vegan: RR>=0.8").table.rows()
    assert every.table.rows()[0] == alone
    limits = ["diet=vegan: RR:0.1", "diet=no fish, time=12:30: RR:0.5", "RR:0.3"]
    lost = gate_slices(LOST, baseline=DIETS, max_drop=limits, by=()).table
    assert lost.select("slice", "status").rows() == [
        ("diet=vegan", "failed"), ("diet=no fish, time=12:30", "passed"), ("all", "passed")
    ]  # fmt: skip
    drops = gate_slices(LOST, baseline=DIETS, minimum="diet=vegan: RR>=0.3", by=()).table
    assert drops["slice"].to_list() == ["diet=vegan", "all"]  # the drop of 0 is on all
    with pytest.raises(rankql.RankqlError, match="meal"):
        gate_slices(DIETS, minimum="meal=noon: RR>=0.1", by=())
    with pytest.raises(rankql.RankqlError, match="Pass by="):  # which slices, nobody says
        gate_slices(DIETS, minimum="mean of slices: RR>=0.1, diet=vegan: RR>=0.1", by=())


def test_slices_that_are_not_shown_are_counted():
    verdict = gate_slices(DIETS, minimum="RR>=0.6")
    assert "Gate failed: 1 of 4 checks" in repr(verdict) and len(verdict.displayed()[0]) == 2
    line = "Not shown: 2 slices that passed. .table and --format csv have all"
    assert line in repr(verdict) and line in verdict.to_markdown()
    assert "Not shown" not in repr(gate_slices(DIETS, minimum="RR>=0.1"))


def test_a_drop_has_one_digit_more_than_its_limit():
    old = pl.DataFrame({"query": range(8), "AP": [0.6] * 8})
    new = old.with_columns(AP=0.6 - pl.Series([0.0, 0.3, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0]))
    new, old = (rankql.read_values(x, metrics="AP") for x in (new, old))
    for limit, size in (("0.01", "0.075"), ("0.1", "0.07"), ("0.0010", "0.0750")):
        (message,) = messages(rankql.gate(new, baseline=old, max_drop=f"AP:{limit}"))
        assert message.startswith(f"dropped by {size} ("), message

"""The gate: what fails, what does not, and how it is said to people and to CI."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import rankql
from rankql.cli.main import main
from rankql.evaluation.values import Request, identify
from rankql.stats.sample import Sample
from rankql.stats.tests import TESTS
from rankql.testing import assert_no_regression
from support.paths import DL19, ROOT

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


def test_a_drop_beyond_its_limit_fails():
    verdict = rankql.gate(WORSE, baseline=OLD, max_drop="ndcg@10:0.01", by="segment", min_queries=5)
    assert not verdict and not verdict.passed and verdict.exit_code == 1
    check = "nDCG@10 drop <= 0.01"
    assert statuses(verdict) == {
        (check, "all"): "failed",
        (check, "segment=new"): "failed",
        (check, "segment=old"): "passed",
    }
    assert said(verdict)[0] == "dropped by 0.062 (95% CI 0.031 to 0.091), beyond the limit of 0.01"
    assert said(verdict, "segment=old") == ["improved by 0.0088 (95% CI 0.0018 to 0.0167)"]


def test_a_dict_of_drops_is_the_text():
    new = values(shift=lambda i: -0.02)
    for limit in (0.005, 1e-5, 0.05):
        verdicts = [
            rankql.gate(new, baseline=values(), max_drop=drops)
            for drops in ({"nDCG@10": limit}, f"nDCG@10:{limit}")
        ]
        assert verdicts[0].table.equals(verdicts[1].table)
    with pytest.raises(rankql.RankqlError, match="nDCG@10:often"):
        rankql.gate(new, baseline=values(), max_drop={"nDCG@10": "often"})


def test_the_interval_decides():
    """A drop of 0.0169 with a limit of 0.01: passes, fails or neither, by the interval shown."""
    drop = [0.0169 + 0.045 * (-1) ** i for i in range(40)]
    old = pl.DataFrame({"query": range(40), "AP": [0.6] * 40})
    new = old.with_columns(pl.col("AP") - pl.Series(drop))
    row = rankql.gate(new, baseline=old, max_drop="AP:0.01").table.row(0, named=True)
    lo, hi = map(float, stats.ttest_1samp(drop, 0).confidence_interval(0.95))
    assert (-row["hi"], -row["lo"]) == pytest.approx((lo, hi))  # symmetric: nothing to widen
    assert row["confidence"] == 0.95 and row["status"] == "inconclusive"
    assert row["message"] == (
        "dropped by 0.017 (95% CI 0.002 to 0.031). Inconclusive: the interval contains the limit "
        "of 0.01. About 360 queries would decide"
    )
    for limit, status in ((hi + 1e-6, "passed"), (hi - 1e-6, "inconclusive"),
                          (lo + 1e-6, "inconclusive"), (lo - 1e-6, "failed")):  # fmt: skip
        verdict = rankql.gate(new, baseline=old, max_drop=f"AP:{limit!r}")
        assert verdict.table["status"].to_list() == [status]
        assert verdict.exit_code == {"passed": 0, "failed": 1, "inconclusive": 3}[status]


def test_a_mean_at_its_limit():
    """No number of queries decides, because the interval is around the limit."""
    old = pl.DataFrame({"query": range(12), "P@1": [1.0] * 12})
    new = pl.DataFrame({"query": range(12), "P@1": [0.0, 1.0] * 6})
    for limit in ({"minimum": "P@1>=0.5", "minimum_bound": True},
                  {"baseline": old, "max_drop": "P@1:0.5"}):  # fmt: skip
        verdict = rankql.gate(new, **limit)
        assert verdict.exit_code == 3 and verdict.table["queries_needed"].item() is None
        assert said(verdict)[0].endswith("More than a billion queries would decide")


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({"minimum": "nDCG@10>=0.1"}, "A limit on a drop passes if"),
        ({"minimum": "nDCG@10>=0.1", "minimum_bound": True}, "A limit passes if"),
        ({}, "A limit passes if"),
    ],
)
def test_the_rule_is_that_of_these_limits(options, limits):
    notes = rankql.gate(WORSE, baseline=OLD, max_drop="nDCG@10:0", **options).notes
    assert notes[0].startswith(limits)
    assert any("A limit of 0 on a drop fails only" in note for note in notes)
    assert not rankql.gate(WORSE, minimum="nDCG@10>=0.1").notes


def test_the_number_of_queries_that_decides():
    """Of so many queries with the same mean and spread, four in five samples decide."""
    rng = np.random.default_rng(1)
    losses = 0.01 + 0.1 * rng.standard_normal(60)
    losses += 0.01 - losses.mean()
    old = pl.DataFrame({"query": range(60), "revenue": [5.0] * 60})
    new = old.with_columns(pl.col("revenue") - pl.Series(losses))
    verdict = rankql.gate(new, baseline=old, max_drop="revenue:0.03")
    needed = verdict.table["queries_needed"].item()
    assert 60 < needed < 260
    more = 0.01 + losses.std(ddof=1) * rng.standard_normal((500, needed))
    passed = [TESTS["auto"]().apply(Sample(row), 0.05).hi <= 0.03 for row in more]
    assert 0.72 < sum(passed) / 500 < 0.9


def test_slices_never_weaken_the_overall_test():
    """By slices or not, the row of all queries is the same; slices are adjusted (Holm)."""
    rng = np.random.default_rng(3)
    queries = pl.DataFrame({"query": range(300), "seg": rng.integers(0, 4, 300)})
    old = queries.with_columns(AP=pl.Series(rng.random(300)))
    new = old.with_columns(pl.col("AP") - pl.Series(0.02 + 0.1 * rng.standard_normal(300)))
    for limit in ("AP:0", "AP:0.005", "AP:0.03", "AP:0.5"):
        alone = rankql.gate(new, baseline=old, max_drop=limit).table
        sliced = rankql.gate(new, baseline=old, max_drop=limit, by="seg").table
        assert sliced.filter(slice="all").equals(alone) and alone["confidence"][0] == 0.95
        slices = sliced.filter(pl.col("slice") != "all")
        levels = [1 - 0.05 / tests for tests in (4, 3, 2, 1)]
        assert all(min(abs(x - level) for level in levels) < 1e-12 for x in slices["confidence"])
        undecided = slices.filter(status="inconclusive").height
        if 0 < undecided < 4:  # those left have the level of the last stage
            left = slices.filter(status="inconclusive")["confidence"]
            assert left.to_list() == pytest.approx([1 - 0.05 / undecided] * undecided)


@given(
    st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=40),
    st.sampled_from(["0", "0.01", "0.1"]),
    st.booleans(),
)
def test_interval_and_verdict_agree(losses, limit, lower):
    """What is shown is what decided, whichever way is better; and with RMSE as with AP."""
    name, sign = ("RMSE", 1) if lower else ("AP", -1)
    old = pl.DataFrame({"query": range(len(losses)), name: [0.5] * len(losses)})
    new = old.with_columns(pl.col(name) + sign * pl.Series(losses))
    options = {"baseline": old, "max_drop": f"{name}:{limit}"}
    few = rankql.gate(new, **options).table["status"].item()
    assert len(losses) >= 10 or few != "passed"
    row = rankql.gate(new, **options, min_queries=1).table.row(0, named=True)
    margin, status = float(limit), row["status"]
    loss = row["difference"] * sign
    if row["lo"] is None:
        assert status == "inconclusive" and "no confidence interval" in row["message"]
        return
    lo, hi = sorted((sign * row["lo"], sign * row["hi"]))
    assert lo <= loss + 1e-12 and loss <= hi + 1e-12
    if lo > margin + 1e-12:
        assert status == ("failed" if len(losses) >= 6 else "inconclusive")
    elif hi <= margin + 1e-12 or not margin:
        assert status == "passed"
    else:
        assert status == "inconclusive" and ("queries would decide" in row["message"])
    if len(losses) < 6:
        return
    shown = re.search(r"95% CI (\S+) to (\S+)\)", row["message"])
    shown = sorted(float(x) * (1 if loss > 0 else -1) for x in shown.groups())
    if margin and abs(loss) > 1e-9:
        assert (shown[0] > margin, shown[1] <= margin) == (lo > margin, hi <= margin)


def test_skewed_losses_widen_the_interval():
    """Of queries that lose much while the rest keep, plain t would pass too soon."""
    losses = [0.0] * 17 + [0.2, 0.3, 0.4]
    old = pl.DataFrame({"query": range(20), "AP": [0.6] * 20})
    new = old.with_columns(pl.col("AP") - pl.Series(losses))
    row = rankql.gate(new, baseline=old, max_drop="AP:0.1").table.row(0, named=True)
    lo, hi = stats.ttest_1samp(losses, 0).confidence_interval(0.95)
    assert hi < 0.1 < -row["lo"] and row["status"] == "inconclusive"
    assert -row["hi"] == pytest.approx(lo)
    # Hall's cubic turns the bound back into Student's quantile, at the skewness that reaches most.
    skewness = stats.skew(losses, bias=False) * (1 + 6 / 20)
    t = (np.mean(losses) + row["lo"]) / stats.sem(losses)
    wanted = stats.t.ppf(0.025, 19)
    reached = [
        t + g * t**2 / (3 * 20**0.5) + g**2 * t**3 / 540 + g / (6 * 20**0.5)
        for g in np.linspace(0.05, 1, 20) * skewness
    ]
    assert (
        max(reached) == pytest.approx(wanted) or min(map(abs, np.subtract(reached, wanted))) < 1e-9
    )


def test_without_a_limit_only_a_significant_drop_fails():
    """And a note recommends a limit that so many queries can test."""
    verdict = rankql.gate(NOISY, baseline=OLD)
    assert verdict and said(verdict) == ["dropped by 0.02 (95% CI -0.10 to 0.14): not significant"]
    (note,) = (note for note in verdict.notes if "has no limit" in note)
    assert note == (
        "nDCG@10 has no limit, so only a significant drop fails. These 20 queries can test a "
        "limit of about 0.18: max_drop='nDCG@10:0.18' (CLI: --max-drop 'nDCG@10:0.18')"
    )
    few = rankql.gate(NOISY.head(3), baseline=OLD.head(3))
    assert [note for note in few.notes if "has no limit" in note] == [
        "nDCG@10 has no limit, so only a significant drop fails. These 3 queries are too few to "
        "test any other limit"
    ]
    worse = rankql.gate(WORSE, baseline=OLD)
    assert not worse and said(worse) == [
        "dropped by 0.062 (95% CI 0.031 to 0.091), beyond the limit of 0"
    ]
    stated = rankql.gate(NOISY, baseline=OLD, max_drop="nDCG@10:0")
    assert stated and not any("has no limit" in note for note in stated.notes)
    assert "A limit of 0 on a drop fails only if the CI is beyond it" in stated.notes
    # The limit is one that a run without any loss passes in four samples of five.
    rng = np.random.default_rng(2)
    spread = 0.26 * rng.standard_normal((500, 20))
    passed = [TESTS["auto"]().apply(Sample(x), 0.05).hi <= 0.18 for x in spread]
    assert 0.72 < sum(passed) / 500 < 0.92


@pytest.mark.parametrize("name", ["AP", "RMSE"])
@pytest.mark.parametrize("gain", [0.0, 0.009, -0.009, 0.03, -0.03])
def test_equivalence_limits_drop_and_gain(name, gain):
    """Both limits pass exactly where compare says that the systems are equivalent."""
    rng = np.random.default_rng(4)
    old = pl.DataFrame({"query": range(200), name: rng.uniform(0.3, 0.6, 200)})
    new = old.with_columns(pl.col(name) + pl.Series(gain + 0.02 * rng.standard_normal(200)))
    verdict = rankql.gate(new, baseline=old, equivalence=f"{name}:0.01")
    assert verdict.table["check"].to_list() == [
        f"{name} {way} <= 0.01"
        for way in (("rise", "drop") if name == "RMSE" else ("drop", "rise"))
    ]
    (compared,) = rankql.compare({"a": old, "b": new}, equivalence=0.01).table.rows(named=True)
    assert verdict.passed == (compared["verdict"] == "equivalent within 0.01") == (gain == 0)
    failed = verdict.failures["check"].to_list()
    assert failed == (
        [f"{name} {'rise' if gain > 0 else 'drop'} <= 0.01"] if abs(gain) > 0.01 else []
    )
    assert set(verdict.table["confidence"]) == {0.9}
    if gain == 0:
        assert verdict.table["lo"][0] == pytest.approx(compared["lo"])


def test_noise_is_inconclusive():
    verdict = rankql.gate(NOISY, baseline=OLD, max_drop="nDCG@10:0.01")
    assert not verdict and verdict.outcome == "inconclusive" and verdict.exit_code == 3
    assert verdict.inconclusive.height == 1 and verdict.failures.is_empty()
    warned = rankql.gate(NOISY, baseline=OLD, max_drop="nDCG@10:0.01", inconclusive="warn")
    assert warned and warned.exit_code == 0 and warned.table.equals(verdict.table)
    assert warned.title == "Gate passed: 1 inconclusive"
    with pytest.raises(rankql.RankqlError, match=r"gate\(beyond_noise=\) was removed"):
        rankql.gate(NOISY, baseline=OLD, beyond_noise=False)


def test_a_failure_counts_more_than_an_inconclusive_limit():
    verdict = rankql.gate(NOISY, baseline=OLD, max_drop="nDCG@10:0.01", minimum="nDCG@10>=0.9")
    assert verdict.outcome == "failed" and verdict.exit_code == 1
    assert verdict.title == "Gate failed: 1 failed, 1 inconclusive"


@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("n", [20, 400])
def test_equal_losses_have_an_interval(loss, n):
    """20 queries that all lose as much say little about the others: 0.025^(1/20) = 0.83."""
    old = pl.DataFrame({"query": range(n), "AP": [0.6] * n})
    new = old.with_columns(pl.col("AP") - loss)
    share = 0.025 ** (1 / n)
    for limit in (loss, 0.1, 0.5):
        verdict = rankql.gate(new, baseline=old, max_drop=f"AP:{limit}")
        row = verdict.table.row(0, named=True)
        ends = -1 + share * (1 - loss), 1 - share * (1 + loss)
        assert (row["lo"], row["hi"]) == pytest.approx(ends)
        inside = limit == 0 or -row["lo"] <= limit
        assert row["status"] == ("passed" if inside else "inconclusive")
    free = rankql.gate(new.rename({"AP": "revenue"}), baseline=old.rename({"AP": "revenue"}))
    assert free.table["status"].to_list() == ["inconclusive"]  # no range, so no interval


def test_identical_rankings_pass_however_few():
    """Known from the runs: the same items in the same order. Equal values are not enough."""
    assert rankql.gate(RUN, QRELS, RUN, max_drop="RR:0.01").passed
    swapped = RUN.with_columns(item=pl.Series(["x", "z", "x", "y"]))
    verdict = rankql.gate(swapped, QRELS, RUN, max_drop="RR:0.01")
    assert verdict.table["difference"].item() == 0 and verdict.exit_code == 3
    result = rankql.evaluate(RUN, QRELS, "RR")
    assert rankql.gate(RUN, QRELS, result, max_drop="RR:0.01").passed
    assert rankql.gate(result.per_query, baseline=result, max_drop="RR:0.01").exit_code == 3


def test_few_queries_never_pass():
    """Neither one query, nor two that both drop less than the limit."""
    for values in ([0.9], [0.9, 0.5]):
        old = pl.DataFrame({"query": range(len(values)), "AP": values})
        for shift in (-0.01, 0.0, 0.1):
            new = old.with_columns(pl.col("AP") + shift)
            for limit in ({}, {"max_drop": "AP:0"}, {"max_drop": "AP:0.02"}):
                for least in (10, 1):
                    verdict = rankql.gate(new, baseline=old, min_queries=least, **limit)
                    some = len(values) > 1 and least == 1 and limit.get("max_drop") != "AP:0.02"
                    assert verdict.exit_code == (0 if some else 3)


def test_small_slices_are_reported():
    options = {"baseline": WORSE, "by": "segment", "min_queries": 9}
    shift = [0.01 * (i % 3) - 0.01 + 0.2 * (-1) ** i for i in range(20)]
    noisy = OLD.with_columns(pl.col("nDCG@10") - pl.Series(shift))
    verdict = rankql.gate(noisy, minimum="nDCG@10>=0.9", **options)
    found = verdict.table.filter(pl.col("slice") == "segment=old")
    assert found["status"].to_list() == ["too few queries"] * 2
    assert "2 too few queries" in verdict.title and "segment=old" in repr(verdict)
    enough = rankql.gate(noisy, minimum="nDCG@10>=0.9", **options | {"min_queries": 8})
    assert enough.table.filter(slice="segment=old")["status"].to_list() == ["failed", "passed"]


def test_a_small_slice_that_collapses_fails():
    """Eight of eight queries lose 0.5: beyond doubt, though fewer than min_queries."""
    worse = values(shift=lambda i: 0.01 * (i % 3) - (0.5 if i >= 12 else -0.5))
    verdict = rankql.gate(worse, baseline=OLD, max_drop="nDCG@10:0.1", by="segment")
    status = statuses(verdict)["nDCG@10 drop <= 0.1", "segment=old"]
    assert status == "failed" and verdict.exit_code == 1
    few = pl.concat([OLD.head(12), OLD.tail(3)]), pl.concat([worse.head(12), worse.tail(3)])
    verdict = rankql.gate(few[1], baseline=few[0], max_drop="nDCG@10:0.1", by="segment")
    assert statuses(verdict)["nDCG@10 drop <= 0.1", "segment=old"] == "too few queries"
    (message,) = said(verdict, "segment=old")
    assert message.startswith("dropped by 0.4") and "3 queries, fewer than 10" in message


def test_less_is_better():
    old, new = values("RMSE"), values("RMSE", shift=lambda i: 0.1 + 0.01 * (i % 3))
    verdict = rankql.gate(new, baseline=old, minimum="RMSE<=0.5", max_drop="RMSE:0.05")
    assert [r["check"] for r in verdict.table.to_dicts()] == ["RMSE <= 0.5", "RMSE rise <= 0.05"]
    assert verdict.table["status"].to_list() == ["failed", "failed"]
    assert said(verdict)[1].startswith("rose by 0.1095 (95% CI 0.105")
    assert verdict.table["lo"][1] > 0.05
    back = rankql.gate(old, baseline=new, max_drop="RMSE:0.05")
    assert back and said(back)[0].startswith("improved by 0.1095 (95% CI 0.105")
    assert back.table["hi"][0] == pytest.approx(-verdict.table["lo"][1])


def test_bounds_of_a_minimum():
    """minimum_bound=True holds the interval to the limit; the mean is 0.49."""
    (lo, hi), *_ = rankql.compare({"run": OLD}).summary.select("lo", "hi").rows()
    for limit, status in (("<=", (hi + 1e-6, "passed")), ("<", (lo, "failed")),
                          (">=", (lo - 1e-6, "passed")), (">", (hi, "failed")),
                          (">=", (lo + 1e-6, "inconclusive")), ("<", (hi - 1e-6, "inconclusive")),
                          (">=", (hi + 1e-6, "failed"))):  # fmt: skip
        number, wanted = status
        verdict = rankql.gate(OLD, minimum=f"nDCG@10{limit}{number!r}", minimum_bound=True)
        assert verdict.table["status"].to_list() == [wanted], (limit, number)
        assert verdict.table.select("lo", "hi").row(0) == pytest.approx((lo, hi))
    assert rankql.gate(OLD, minimum="nDCG@10>=0.48").passed
    verdict = rankql.gate(OLD, minimum="nDCG@10>=0.48", minimum_bound=True, by="segment")
    assert said(verdict)[0] == (
        "0.490 (95% CI 0.435 to 0.545) over 20 queries. Inconclusive: the interval contains the "
        "limit of 0.48. About 1,200 queries would decide"
    )
    assert statuses(verdict)["nDCG@10 >= 0.48", "segment=old"] == "too few queries"
    flat = OLD.with_columns(pl.lit(0.5).alias("nDCG@10"))
    # Equal values are no certainty: 0.025 ** (1 / 20) = 0.83, so the mean is from 0.42 to 0.58.
    for limit, status in ((">=0.5", "inconclusive"), (">=0.41", "passed"), (">0.59", "failed"),
                          ("<=0.59", "passed"), ("<0.41", "failed")):  # fmt: skip
        verdict = rankql.gate(flat, minimum=f"nDCG@10{limit}", minimum_bound=True)
        assert verdict.table["status"].to_list() == [status]
        assert verdict.table.select("lo", "hi").row(0) == pytest.approx(
            (0.41578, 0.58422), abs=1e-5
        )
    # A slice of equal values is one of those that are adjusted.
    mixed = OLD.with_columns(pl.when(segment="new").then(0.5).otherwise("nDCG@10").alias("nDCG@10"))
    verdict = rankql.gate(
        mixed, minimum="nDCG@10>=0.99", minimum_bound=True, by="segment", min_queries=2
    )
    assert sorted(verdict.table["confidence"][1:]) == pytest.approx([0.95, 0.975])
    few = rankql.gate(flat.head(6), minimum="nDCG@10>=0.4", minimum_bound=True, min_queries=1)
    assert few.exit_code == 3 and few.table["queries_needed"].to_list() == [17]
    free = flat.rename({"nDCG@10": "orders"})
    free = rankql.gate(free, minimum="orders>=0.4", minimum_bound=True)
    assert said(free)[0].endswith("Inconclusive: there is no confidence interval of 20 queries")
    undefined = OLD.with_columns(pl.when(segment="new").then("nDCG@10").alias("nDCG@10"))
    verdict = rankql.gate(undefined, minimum="nDCG@10>=0", by="segment", minimum_bound=True)
    assert statuses(verdict)["nDCG@10 >= 0", "segment=old"] == "too few queries"
    with pytest.raises(rankql.RankqlError, match="microP@1 is one value for all queries"):
        rankql.gate(RUN, QRELS, minimum="microP@1>=0", minimum_bound=True)


def test_a_minimum_below_zero_where_gains_may_be_negative():
    judged = QRELS.with_columns(rel=-1)
    verdict = rankql.gate(RUN, judged, minimum="DCG>=-0.5", negative="keep")
    assert not verdict.passed and verdict.table["mean"][0] < -0.5


# Minima


@pytest.mark.parametrize(
    ("limit", "passed"),
    [
        (">=0.49", True), (">= 0.491", False), ("<=0.49", True), ("<=0.489", False),
        ("> 0.489", True), (">0.49", False), ("<0.491", True), ("<0.49", False),
        (">=0", True), (">=4.9e-1", True),
    ],
)  # fmt: skip
def test_a_minimum(limit, passed):
    verdict = rankql.gate(OLD, minimum=f"ndcg@10{limit}")
    assert verdict.passed is passed
    assert verdict.table["mean"][0] == pytest.approx(0.49) and verdict.table["n"][0] == 20
    assert said(verdict)[0].startswith("0.49 over 20 queries")


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
    assert said(verdict)[2] == "0.75 over 2 queries, not above the limit of 0.8"


def test_queries_that_count():
    qrels = pl.DataFrame({"query": list("abcd"), "item": list("xyxx"), "rel": [1, 1, 0, 1]})
    for conventions, n, mean in (("rankql", 3, 0.5), ("trec_eval", 2, 0.75), ("ranx", 4, 0.375)):
        verdict = rankql.gate(RUN, qrels, minimum="RR>=0", conventions=conventions)
        assert (verdict.table["n"][0], verdict.table["mean"][0]) == (n, mean), conventions


def test_undefined_fails():
    nothing = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "rel": [0, 0]})
    verdict = rankql.gate(RUN, nothing, RUN, minimum="RR>=0", max_drop="RR:0.99")
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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "limit", [{"minimum": "nDCG@10>=0.1", "minimum_bound": True}, {"max_drop": "nDCG@10:0.1"}]
)
def test_values_that_are_not_finite_are_refused(value, limit):
    """As in compare: a run whose failed queries are NaN would pass if they were left out."""
    frame = OLD.with_columns(pl.when(segment=pl.lit("new")).then("nDCG@10").otherwise(value))
    reason = rf"nDCG@10 of 'run' is {value} for query 'q\d+'. A value must be a finite number"
    with pytest.raises(rankql.RankqlError, match=reason):
        rankql.gate(frame, baseline=OLD, **limit)
    with pytest.raises(rankql.RankqlError, match="nDCG@10 of 'baseline' is"):
        rankql.gate(OLD, baseline=frame, max_drop="nDCG@10:0.1")


# What is compared


def test_runs_results_files_and_frames(tmp_path):
    run = pl.concat([RUN.head(2).with_columns(query=pl.lit(q)) for q in IDS])
    other = run.with_columns(score=pl.when(pl.col("query") < "q05").then(-pl.col("score"))
                             .otherwise("score"))  # fmt: skip
    qrels = pl.DataFrame({"query": IDS, "item": ["x"] * 20, "rel": [1] * 20})
    checks = {"minimum": "RR>=0.5", "max_drop": "RR:0.01"}
    expected = rankql.gate(other, qrels, run, **checks)
    assert expected.table["status"].to_list() == ["passed", "failed"]
    results = [rankql.evaluate(each, qrels, ["RR", "AP"]) for each in (other, run)]
    files = [tmp_path / "new.parquet", tmp_path / "old.parquet"]
    for result, file in zip(results, files, strict=True):
        result.save_values(file)
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


def test_queries_that_are_not_judged_any_more():
    """They are not missing in the run."""
    baseline = rankql.evaluate(RUN, QRELS, "AP")
    verdict = rankql.gate(RUN, QRELS.head(1), baseline, max_drop="AP:0.1", on_mismatch="note")
    assert verdict.passed and verdict.table["n"].to_list() == [1]
    note = "1 of 2 queries of the baseline is not judged any more: left out of the drops"
    assert note in verdict.notes
    # A query that the run lacks still counts as 0.
    lacking = rankql.gate(RUN.head(2), QRELS, baseline, max_drop="AP:0.1")
    assert "1 of 2 queries is missing in run: counted as 0" in lacking.notes
    assert lacking.table.select("n", "mean").row(0) == (2, 0.5)


def test_queries_of_one_side():
    new = OLD.with_columns(query=pl.col("query").str.replace("q00", "q99"))
    verdict = rankql.gate(new, baseline=OLD, by="segment", max_drop="nDCG@10:0.5")
    note = "1 of 20 queries of the run is not in the baseline: left out of the drops"
    assert note in verdict.notes and note in repr(verdict)
    assert "1 of 20 queries is missing in run: counted as 0" in verdict.notes
    row = verdict.table.row(0, named=True)
    assert row["n"] == 20 and row["difference"] == pytest.approx(-0.3 / 20)
    assert set(verdict.table["slice"]) == {"all", "segment=new", "segment=old"}
    with pytest.raises(
        rankql.RankqlError, match="'run' has no query in common with the other systems"
    ):
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
    """Queries of one user lose together: the interval is that of as many users."""
    rng = np.random.default_rng(5)
    users = np.repeat(np.arange(30), 4)
    drop = 0.02 + rng.normal(0, 0.1, 30)[users] + rng.normal(0, 0.02, 120)
    old = pl.DataFrame({"query": range(120), "user": users, "AP": rng.random(120)})
    new = old.with_columns(pl.col("AP") - pl.Series(drop))
    compared = rankql.compare({"a": old, "b": new}, baseline="a", cluster="user")
    alone = rankql.gate(new, baseline=old, max_drop="AP:0.01")
    verdict = rankql.gate(new, baseline=old, cluster="user", max_drop="AP:0.01")
    assert verdict.table["slice"].to_list() == ["all"]
    width = (verdict.table["hi"] - verdict.table["lo"])[0]
    assert width > 1.5 * (alone.table["hi"] - alone.table["lo"])[0]
    plain = (compared.table["hi"] - compared.table["lo"])[0]
    assert plain <= width < 1.3 * plain  # widened for skewness only
    assert "Queries are clustered by user: 30 clusters of 4 queries" in verdict.notes
    one = rankql.gate(new.head(4), baseline=old.head(4), cluster="user", max_drop="AP:0.01")
    assert one.exit_code == 3 and "fewer than 10" in said(one)[0]
    means = rankql.gate(new, baseline=old, cluster="user", minimum="AP>=0.5", minimum_bound=True)
    assert means.table["lo"][0] is not None


@pytest.mark.parametrize("name", ["value", "cluster", "run", "baseline", "difference"])
def test_attributes_of_any_name(name):
    old, new = (frame.rename({"segment": name}) for frame in (OLD, WORSE))
    limits = {"max_drop": "nDCG@10:0.05", "minimum": "nDCG@10>=0.1", "minimum_bound": True}
    verdict = rankql.gate(new, baseline=old, by=name, cluster=name, **limits)
    assert set(verdict.table["slice"]) == {"all", f"{name}=new", f"{name}=old"}
    assert verdict.differences("nDCG@10").height == 20


def test_differences_by_query():
    verdict = rankql.gate(WORSE, baseline=OLD, max_drop="nDCG@10:0.05", by="segment")
    rows = verdict.differences("nDCG@10")
    assert rows.columns == ["query", "baseline", "run", "difference"]
    assert rows["difference"].is_sorted() and rows.height == 20
    assert rows["difference"].mean() == pytest.approx(verdict.table["difference"][0])


def test_conventions_of_the_baseline(tmp_path):
    """A scale that a metric beside needed is no difference; another gain is."""
    path = tmp_path / "old.parquet"
    rankql.evaluate(RUN, QRELS, ["nDCG@10", "ERR"], output=path)
    assert rankql.gate(RUN, QRELS, path, max_drop="nDCG@10:0").outcome == "inconclusive"
    other = rankql.evaluate(RUN, QRELS, "nDCG@10", gain="exp2")
    with pytest.raises(rankql.RankqlError, match=r"different conventions: .*exp2.* and .*linear"):
        rankql.gate(RUN, QRELS, other)
    assert rankql.gate(RUN, QRELS, other, gain="exp2")
    frame = rankql.evaluate(RUN, QRELS, "AP", conventions="trec_eval").per_query
    assert rankql.gate(RUN, QRELS, frame, conventions="trec_eval").exit_code == 3
    stated = rankql.evaluate(RUN, QRELS, "AP", conventions="trec_eval")
    assert rankql.gate(frame, baseline=stated).result.conventions["profile"] == "trec_eval"


def test_micro_averages():
    with pytest.raises(rankql.RankqlError, match="microP@1 is one value for all queries"):
        rankql.gate(RUN, QRELS, RUN, minimum="microP@1>=0")
    verdict = rankql.gate(RUN, QRELS, RUN, max_drop="microP@1:0")
    assert verdict and "no confidence interval" in verdict.table["message"][0]
    low = RUN.with_columns(score=-pl.col("score"))
    low = low.with_columns(score=pl.when(query=pl.lit("a")).then("score").otherwise(0.0))
    checks = {"minimum": "microP@1>=0.5", "max_drop": "microP@1:0.1"}
    verdict = rankql.gate(low, QRELS, RUN, **checks)
    assert verdict.table["mean"].to_list() == [0.5, 0.5]
    last = pl.DataFrame({"query": ["a"], "item": ["x"], "score": [-9.0]})
    lost = pl.concat([low.with_columns(item=pl.lit("z") + pl.col("item")), last])
    verdict = rankql.gate(lost, QRELS, RUN, **checks)
    assert verdict.table["difference"][1] == -0.5 and not verdict


def test_undefined_queries_never_count_in_micro_averages():
    """undefined='zero' is a rule for means: a micro average has no value of a query."""
    run = pl.DataFrame({"query": [*"aab"], "item": [*"xyx"], "score": [2.0, 1, 1]})
    qrels = pl.DataFrame({"query": [*"aabc"], "item": [*"xyxz"], "rel": [1, 0, 0, 0]})
    limits = ["microR@1>=0", "R@1>=0"]
    verdict = rankql.gate(run, qrels, minimum=limits, undefined="zero")
    assert verdict.table["n"].to_list() == [1, 3]


def test_own_metrics():
    mine = OLD.rename({"nDCG@10": "share"})
    result = rankql.evaluate(RUN, QRELS, "share = avg(rel)")
    verdict = rankql.gate(result, baseline=result, minimum="share>=0.5")
    assert verdict.table["metric"].to_list() == ["share", "share"]
    verdict = rankql.gate(mine, baseline=mine, minimum="share>=0.5")
    assert verdict.table["metric"].to_list() == ["share", "share"]


OLD_RESULT = rankql.evaluate(RUN, QRELS, "AP")


@pytest.mark.parametrize(
    ("given", "keywords", "message"),
    [
        ((RUN, QRELS), {}, "Nothing to check. Pass minimum="),
        ((RUN, QRELS, RUN), {"max_drop": ()}, "Nothing to check. max_drop= is empty: leave it"),
        ((RUN, QRELS), {"max_drop": "AP:0"}, "max_drop= needs a baseline. Pass baseline="),
        ((RUN, QRELS), {"equivalence": "AP:0.1"}, "equivalence= needs a baseline. Pass baseline="),
        ((RUN, QRELS, RUN), {"equivalence": "AP:0"}, "METRIC:NUMBER with a number above 0"),
        ((RUN, QRELS, RUN), {"equivalence": "AP:0.1", "alpha": 0.5}, "alpha below 0.5, not 0.5"),
        ((RUN, QRELS, RUN), {"minimum_bound": True}, "needs a limit on a mean. Pass minimum="),
        ((RUN, QRELS), {"minimum": "AP=0.4"}, "Cannot parse the limit 'AP=0.4' of minimum=."),
        ((RUN, QRELS), {"minimum": "AP>="}, "Cannot parse the limit"),
        ((RUN, QRELS), {"minimum": "AP>=2"}, "minimum='AP>=2': AP is between 0 and 1."),
        ((RUN, QRELS), {"minimum": "TauB>=-1.5"}, "TauB is between -1 and 1."),
        ((RUN, QRELS, RUN), {"max_drop": "AP:2"}, "max_drop='AP:2' can never fail: AP is between"),
        ((RUN, QRELS, RUN), {"max_drop": "AP:1"}, "max_drop='AP:1' can never fail: AP is between"),
        ((RUN, QRELS), {"minimum": "AP>=nan"}, "Cannot parse"),
        ((RUN, QRELS), {"minimum": "AP=>0.4"}, "'AP=' has no expression after '='"),
        ((RUN, QRELS), {"minimum": "nDCB>=0.4"}, "Unknown metric 'nDCB'. Did you mean 'nDCG'?"),
        ((RUN, QRELS), {"minimum": 0.4}, "minimum= must be a string or a list of strings, not 0.4"),
        ((RUN, QRELS, RUN), {"max_drop": "AP"}, "Cannot parse the limit 'AP' of max_drop=."),
        ((RUN, QRELS, RUN), {"max_drop": "AP:-0.1"}, "Cannot parse"),
        ((RUN, QRELS, RUN), {"max_drop": "AP:inf"}, "Cannot parse"),
        ((RUN, QRELS, RUN), {"alpha": 5}, "alpha must lie between 0 and 1, not 5"),
        ((RUN, QRELS, RUN), {"min_queries": 0}, "min_queries must be a whole number from 1, not 0"),
        ((RUN, QRELS, RUN), {"test": "t"}, "Unknown option 'test'."),
        ((RUN, QRELS, RUN), {"metrics": "AP"}, "Unknown option 'metrics'."),
        ((RUN, QRELS, RUN), {"inconclusive": "pass"}, "inconclusive must be 'fail' or 'warn'"),
        ((RUN, QRELS), {"minimum_bound": 1}, "minimum_bound must be true or false, not 1"),
        ((RUN, QRELS, RUN), {"by": "segment"}, "segment"),
        ((RUN, QRELS, RUN), {"tie": "best"}, "Unknown option 'tie'. Did you mean 'ties'?"),
        ((RUN, QRELS, "no.parquet"), {}, "run 'baseline': file 'no.parquet' does not exist"),
        (({"a": RUN, "b": RUN}, QRELS), {"minimum": "AP>=0"}, "run has several systems"),
        ((RUN, QRELS, {"a": RUN}), {"minimum": "AP>=0"}, "baseline"),
        ((OLD, QRELS), {"minimum": "nDCG@10>=0"}, "item"),
        ((OLD_RESULT, QRELS), {"minimum": "AP>=0"}, "qrels= is an option for runs"),
        ((OLD_RESULT,), {"minimum": "AP>=0", "ties": "best"}, "ties= is an option for runs"),
        ((OLD_RESULT,), {"minimum": "RR>=0"}, "run: Unknown metric 'RR'. Available: AP"),
        ((RUN, QRELS, OLD_RESULT), {"max_drop": "RR:0"}, "baseline: Unknown metric 'RR'"),
        ((OLD_RESULT,), {"minimum": "AP>=0", "by": "x"}, "by: The results have no attribute 'x'"),
        ((OLD,), {"minimum": "nDCG@10>=0", "by": "segmet"}, "Did you mean 'segment'?"),
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
        "nDCG@10 >= 0.6 [segment='<script>alert(1)</script>\\n%3A%3Aerror%3A%3A100%25 "
        '"sure"%2C a|b%3A c\\x00\\x1b\\r\']'
    )
    assert lines[0] == f"::error title=nDCG@10 >= 0.6::{evil.table['message'][0]}"
    for inconclusive, level in (("fail", "error"), ("warn", "warning")):
        limits = {"max_drop": "nDCG@10:0.01", "inconclusive": inconclusive}
        noisy = rankql.gate(NOISY, baseline=OLD, **limits)
        (line,) = noisy.annotations()
        assert line.startswith(f"::{level} title=nDCG@10 drop <= 0.01::dropped by 0.02")
        case = ElementTree.fromstring(noisy.junit())[0]
        tag = {"fail": "failure", "warn": "skipped"}[inconclusive]
        assert case[0][0].tag == tag
        assert (case.get("failures"), case.get("skipped")) == (
            ("1", "0") if tag == "failure" else ("0", "1")
        )
        assert noisy.to_dict()["outcome"] == ("inconclusive" if tag == "failure" else "passed")
    assert rankql.gate(OLD, minimum="nDCG@10>0").annotations() == []


def test_shown(evil):
    assert repr(evil).splitlines()[0] == "Gate failed: 4 failed, 2 too few queries"
    assert not any(line.startswith("::") for line in repr(evil).splitlines())
    assert "<script>" not in evil.to_markdown() and "<script>" not in evil._repr_html_()
    assert "a\\|b" in evil.to_markdown()
    plain = json.loads(evil.to_json())
    assert plain["passed"] is False and len(plain["table"]) == 6
    assert plain["table"] == evil.table.to_dicts() and plain["conventions"]["gain"] == "linear"
    assert evil.to_pandas().shape == (6, 14) and evil.to_arrow().num_rows == 6
    failed = rankql.gate(WORSE, baseline=OLD, minimum="nDCG@10>=0.1", max_drop="nDCG@10:0")
    assert "= 0.1" in failed.to_markdown()
    assert repr(failed).index("drop <= 0") < repr(failed).index(">= 0.1")  # the worst first
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
        identify(frame, name, Request()).result.save_values(f"{name}.parquet")
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
        json.loads(command("worse.parquet", *old, "--format", "json", code=1).stdout)["table"]
        == expected.table.to_dicts()
    )
    better = ["--baseline", "worse.parquet", "--max-drop", "nDCG@10:0.01"]
    assert command("old.parquet", *better).stdout.startswith("Gate passed: 1 passed")
    assert "Gate inconclusive" in command("noisy.parquet", *old, code=3).stdout
    warned = command("noisy.parquet", *old, "--inconclusive", "warn")
    assert warned.stdout.startswith("Gate passed: 1 inconclusive")
    assert warned.stderr == "Warning: inconclusive limits: 1\n"
    assert (
        "invalid" in command("noisy.parquet", *old, "--inconclusive", "no", code=2).stderr.lower()
    )
    command("noisy.parquet", *old, "--alpha", "0.999", code=1)
    command("old.parquet", "--min", "nDCG@10>=0.48")
    command("old.parquet", "--min", "nDCG@10>=0.48", "--min-bound", code=3)
    command("old.parquet", "--min", "nDCG@10>=0.8", "--min-bound", code=1)
    command("run.parquet", "qrels.parquet", "--min", "RR>=0.75", "--min", "P@1>=0.5")
    command("run.parquet", "qrels.parquet", "--min", "RR>=0.75", "--min", "P@1>0.5", code=1)
    sliced = [*old, "--by", "segment", "--min-queries", "8"]
    assert "segment=new" in command("worse.parquet", *sliced, code=1).stdout
    for arguments, message in (
        (["run.parquet", "qrels.parquet"], "Nothing to check. Pass --min or --baseline\n"),
        (
            ["old.parquet", "--min", "nDCG@10"],
            "Cannot parse the limit 'nDCG@10' of --min. Expected",
        ),
        (["old.parquet", "--baseline", "none.parquet"], "file 'none.parquet' does not exist"),
        (["old.parquet", *old, "--by", "x"], "Unknown attribute 'x'"),
        (["old.parquet", *old, "--junit", "no/gate.xml"], "does not exist"),
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
    Path("summary.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = command(*arguments, code=1)
    assert done.stderr == lines and done.stdout == quiet.stdout
    assert Path("summary.md").read_text() == f"before\n{verdict.to_markdown()}\n\n"


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
    assert f"E       AssertionError: {verdict.title}" in done.stdout
    assert said(verdict)[0] in done.stdout
    assert "raise AssertionError" not in done.stdout  # the helper's own frame is hidden


def test_helper():
    with pytest.raises(AssertionError) as caught:
        assert_no_regression(WORSE, baseline=OLD, max_drop="nDCG@10:0.01")
    expected = rankql.gate(WORSE, baseline=OLD, max_drop="nDCG@10:0.01")
    assert str(caught.value) == repr(expected)
    with pytest.raises(AssertionError, match="Gate inconclusive"):
        assert_no_regression(NOISY, baseline=OLD, max_drop="nDCG@10:0.01")
    limits = {"baseline": OLD, "max_drop": "nDCG@10:0.01", "inconclusive": "warn"}
    with pytest.warns(UserWarning, match="nDCG@10 drop <= 0.01: dropped by 0.02"):
        assert assert_no_regression(NOISY, **limits)
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


@pytest.mark.slow
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
    strict = run("Gate", lambda script: script.replace("0.03", "0.001"))
    assert strict.returncode == 1 and strict.stderr.startswith("::error title=nDCG@10 drop <=")
    assert ElementTree.parse(report).getroot().get("failures") == "3"  # two are inconclusive


@pytest.mark.skipif(not DL19.is_dir(), reason=f"no data: {DL19} is absent")
def test_dl19(tmp_path):
    runs = {name: DL19 / f"{name}.run" for name in ("BM25", "SPLADE_P_P_ENSEMBLE_DISTIL")}
    old, new = runs.values()
    qrels, metrics = DL19 / "dl19.qrels", ["nDCG@10", "AP"]
    checks = {"max_drop": ["nDCG@10:0.01", "AP:0.01"], "minimum": "nDCG@10>=0.5"}
    for one, other, status in ((new, old, "passed"), (old, new, "failed")):
        rankql.evaluate(other, qrels, metrics, output=tmp_path / "other.parquet")
        verdict = rankql.gate(one, qrels, tmp_path / "other.parquet", **checks)
        assert verdict.table["status"].to_list() == ["passed", status, status]
        compared = rankql.compare(
            {"a": other, "b": one}, qrels, metrics, baseline="a", correction="none"
        )
        for column in ("difference", "lo", "hi"):  # hardly skewed, so hardly wider
            theirs = compared.table[column].to_list()
            assert verdict.table[column][1:].to_list() == pytest.approx(theirs, abs=0.01)
    assert verdict.table["n"].to_list() == [43, 43, 43]


def test_slices_too_small_to_pass_do_not_weaken_the_others():
    queries = list(range(400))
    base = [0.3 + i % 7 / 20 for i in queries]
    new = [value - 0.01 + (i * 37 % 11 - 5) / 50 for i, value in zip(queries, base, strict=True)]
    users = [min(i // 2, 100) for i in queries]
    old, now = (pl.DataFrame({"query": queries, "user": users, "AP": v}) for v in (base, new))
    alone = rankql.gate(now, baseline=old, max_drop="AP:0")
    sliced = rankql.gate(now, baseline=old, max_drop="AP:0", by="user")
    assert not alone and not sliced
    assert sliced.table.filter(slice="all").equals(alone.table)
    assert sliced.table.filter(slice="user=100")["confidence"].to_list() == [0.95]
    assert sliced.table["status"].to_list().count("too few queries") == 100


def test_a_gate_over_nothing_is_no_gate():
    for frame in (OLD.head(0), OLD.with_columns(query=pl.lit(None, pl.String))):
        with pytest.raises(rankql.RankqlError, match=r"have no queries|NULL in"):
            rankql.gate(frame, minimum="nDCG@10>=0.1")


def test_large_numbers_have_separators():
    old = pl.DataFrame({"query": range(4), "revenue": [5e6, 6e6, 7e6, 9e6]})
    new = old.with_columns(revenue=pl.Series([3e6, 5e6, 4e6, 5e6]))
    limits = {"max_drop": "revenue:1000000", "minimum": "revenue>=1000"}
    verdict = rankql.gate(new, baseline=old, min_queries=1, **limits)
    assert verdict.table["check"].to_list() == ["revenue >= 1,000", "revenue drop <= 1,000,000"]
    assert said(verdict)[0] == "4,250,000 over 4 queries"
    assert "dropped by 2,500,000 (95% CI" in said(verdict)[1]
    assert "the limit of 1,000,000" in said(verdict)[1]


def test_an_unknown_cluster_is_called_so():
    with pytest.raises(rankql.RankqlError, match=r"^cluster: Unknown attribute 'sg'"):
        rankql.gate(OLD, baseline=OLD, cluster="sg")
    run = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "pos": [1, 1], "rel": [1, 0]})
    runs, metrics = {"new": run, "old": run}, ["nDCG@10"]
    for argument, name, reason in (
        ("cluster", "sg", r": no column of that name in run 'new' and run 'old'\. "),
        ("cluster", "query", " is the column of the queries"),
        ("by", "sg", ": no column of that name"),
    ):
        with pytest.raises(rankql.RankqlError, match=f"^{argument}='{name}'{reason}"):
            rankql.compare(runs, metrics=metrics, **{argument: name})
    with pytest.raises(rankql.RankqlError, match=r"^by='query_type': no column of that name"):
        rankql.compare(runs, metrics=metrics, by="query_type", cluster="query")
    with pytest.raises(rankql.RankqlError, match=r"^cluster='sg': no column of that name"):
        rankql.gate(run, minimum="nDCG@10>=0.1", cluster="sg")
    with pytest.raises(rankql.RankqlError, match=r"Available: nDCG@10\.$"):
        rankql.gate(OLD, baseline=OLD, higher_is_better={"x": False})

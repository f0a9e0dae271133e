"""interval="anytime": the order of queries, and evaluate, compare and gate by it."""

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from functools import cache

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.core.stats.anytime import bet
from support.parameters import few
from support.refusals import refuses

N = 120
START = datetime(2026, 1, 1)


def judged(seed=0):
    """Queries with a time, which is not their order, and a segment."""
    rng = np.random.default_rng(seed)
    hours = rng.permutation(N)
    return pl.DataFrame(
        {"query": [f"q{i}" for i in range(N)], "item": "x", "rel": 1,
         "ts": [START + timedelta(hours=int(h)) for h in hours],
         "iso": [str(START + timedelta(hours=int(h))) for h in hours],
         "number": [str(h) for h in hours],
         "day": [f"{1 + h % 28:02}.{1 + h // 28:02}.2026" for h in hours],
         "segment": rng.choice(["a", "b"], N), "same": 1, "user": hours // 2,
         "gap": [None, *hours[1:].astype(float)], "traffic": 1.0, "nan": float("nan")},
    ).with_columns(zone=pl.lit(START).dt.replace_time_zone("UTC"))  # fmt: skip


def ranked(seed, places=5):
    """A run in which the relevant item is at one of the first positions."""
    rows = [(f"q{q}", "x" if i == p else f"w{i}", float(-i))
            for q, p in enumerate(np.random.default_rng(seed).integers(1, places, N))
            for i in range(1, places)]  # fmt: skip
    return pl.DataFrame(rows, schema=["query", "item", "score"], orient="row")


QRELS, OLD, NEW = judged(), ranked(1, 6), ranked(2, 3)
RUNS = {"old": OLD, "new": NEW}
OPTIONS = {"interval": "anytime", "time": "ts"}


@cache
def values_of(name, by="ts"):
    """The values of a run by query, in the order of a column; ties by md5."""
    values = rankql.evaluate(RUNS[name], QRELS, "RR", interval=None).per_query.join(
        QRELS, on="query"
    )
    digest = pl.col("query").map_elements(lambda x: hashlib.md5(x.encode()).hexdigest(),
                                          return_dtype=pl.String)  # fmt: skip
    return values.sort(by or digest, digest)


@few(1)("time", ["ts", "iso", "number", "CAST(number AS INT)", False])
def test_the_order_of_evaluate(time):
    """By time, or by md5 alone; text is read as times or numbers; rows may come in any order."""
    by = "ts" if time else None
    p, ends = bet(values_of("old", by)["RR"].to_numpy(), 0, 1, 0.05)
    others = QRELS.with_columns(
        pl.col("iso", "number").cast(pl.Categorical),
        pl.col("ts").dt.replace_time_zone("Asia/Tokyo"),
    )
    for qrels in (QRELS, QRELS.sample(fraction=1, shuffle=True, seed=4), others):
        result = rankql.evaluate(OLD, qrels, "RR", interval="anytime", time=time)
        assert result.summary.select("lo", "hi").row(0) == pytest.approx(ends, abs=1e-12)
    assert p < 0.05 and ("in the order of" in result.method) == bool(time)


def with_offsets(kinds=("+09:00", "Z", "-0800"), local=()):
    """The times of the queries as text, each with an offset in turn, or without one."""

    def write(i, moment):
        offset = kinds[i % len(kinds)]
        hours = {"+09:00": 9, "Z": 0, "-0800": -8}[offset]
        wall = (moment + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S")
        return wall + offset * (i not in local)

    times = [write(i, x) for i, x in enumerate(QRELS["ts"])]
    return QRELS.with_columns(arrived=pl.Series(times))


@few(2)("form", ["frame", "csv", "compare", "gate"])
def test_times_with_offsets_are_moments(form, tmp_path):
    """By the wall clock, the order and the interval would be others."""
    qrels, options = with_offsets(), {"interval": "anytime", "metrics": "RR"}
    wall = qrels.with_columns(arrived=pl.col("arrived").str.slice(0, 19))
    if form == "csv":
        qrels.write_csv(tmp_path / "qrels.csv")
        qrels = tmp_path / "qrels.csv"
    call, runs = rankql.evaluate, OLD
    if form == "compare":
        call, runs = rankql.compare, RUNS
    if form == "gate":
        call, runs = rankql.gate, NEW
        options = {"interval": "anytime", "baseline": OLD, "max_drop": "RR:0.1"}
    ends = [
        call(runs, qrels=x, time=y, **options).table.select("lo", "hi").row(0)
        for x, y in ((qrels, "arrived"), (QRELS, "ts"), (wall, "arrived"))
    ]
    assert ends[0] == pytest.approx(ends[1]) and ends[0] != pytest.approx(ends[2], abs=1e-4)


def test_times_of_unknown_zones_beside_moments_are_asked_about():
    qrels = with_offsets(local=(3, 7))
    message = r"whose time zone is not known\. If it is UTC, pass time=\"(.*)\"$"
    with pytest.raises(rankql.RankqlError, match=message) as error:
        rankql.evaluate(OLD, qrels, "RR", interval="anytime", time="arrived")
    assert "for query 'q3'" in str(error.value) and "'q0'" in str(error.value)
    with pytest.raises(rankql.RankqlError, match=r'"my time" \|\| '):
        renamed = qrels.rename({"arrived": "my time"})
        rankql.evaluate(OLD, renamed, "RR", interval="anytime", time="my time")
    dates = QRELS.with_columns(day=pl.col("ts").dt.strftime("%Y-%m-%d"))
    assert rankql.evaluate(OLD, dates, "RR", interval="anytime", time="day").summary["lo"].item()


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
def test_the_call_for_utc_does_not_depend_on_the_zone_of_the_machine(zone, tmp_path):
    qrels, end = with_offsets(local=(3, 7)), {"+09:00": 9, "Z": 0, "-0800": -8}
    qrels.write_parquet(tmp_path / "qrels.parquet")
    OLD.write_parquet(tmp_path / "run.parquet")
    code = """
import re, rankql
options = {"metrics": "RR", "interval": "anytime"}
try:
    rankql.evaluate("run.parquet", "qrels.parquet", time="arrived", **options)
except rankql.RankqlError as error:
    time = re.search('time="(.*)"$', str(error))[1]
print(*rankql.evaluate("run.parquet", "qrels.parquet", time=time, **options).summary["lo"])
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "TZ": zone},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    utc = QRELS.with_columns(
        ts=pl.col("ts")
        + pl.when(query="q3")
        .then(pl.duration(hours=end["+09:00"]))
        .otherwise(pl.when(query="q7").then(pl.duration(hours=end["Z"])).otherwise(pl.duration()))
    )
    expected = rankql.evaluate(OLD, utc, "RR", interval="anytime", time="ts").summary["lo"].item()
    assert float(printed) == pytest.approx(expected)


def test_ties_of_time_go_by_a_hash():
    digests = [hashlib.md5(f"q{i}".encode()).hexdigest() for i in range(N)]
    qrels = QRELS.with_columns(day=pl.Series([min(i, 1) for i in range(N)]))
    order = [0, *sorted(range(1, N), key=digests.__getitem__)]
    values = rankql.evaluate(OLD, QRELS, "RR", interval=None).per_query
    values = values.sort(pl.col("query").str.slice(1).cast(int))["RR"].to_numpy()[order]
    result = rankql.evaluate(OLD, qrels, "RR", interval="anytime", time="day")
    ends = bet(values, 0, 1, 0.05)[1]
    assert result.summary.select("lo", "hi").row(0) == pytest.approx(ends, abs=1e-12)


def test_the_line_says_how_wide_it_is():
    result = rankql.evaluate(OLD, QRELS, "RR", **OPTIONS)
    fixed = rankql.evaluate(OLD, QRELS, "RR")
    widths = [(x.summary["hi"] - x.summary["lo"]).item() for x in (result, fixed)]
    assert result.method == (
        "intervals by betting, valid at every number of queries, in the order of ts, if they come "
        f"at random; {widths[0] / widths[1]:.1f} times as wide as for one look"
    )
    assert f"Method: {result.method}\n" in repr(result)
    assert fixed.method == "" and result["RR"] == pytest.approx(fixed["RR"], abs=1e-12)
    shuffled = rankql.evaluate(OLD, QRELS, "RR", interval="anytime", time=False)
    assert "shuffled once by a hash of their ids, if none are added" in shuffled.method


def test_slices_have_their_own_sequences_and_share_the_level():
    result = rankql.evaluate(OLD, QRELS, "RR", by="segment", **OPTIONS)
    values = values_of("old")
    parts = {"all": values} | {f"segment={x}": values.filter(segment=x) for x in "ab"}
    for part, rows in parts.items():
        ends = bet(rows["RR"].to_numpy(), 0, 1, 0.05 / 3)[1]
        row = result.summary.filter(slice=part).select("lo", "hi").row(0)
        assert row == pytest.approx(ends, abs=1e-12)
    assert "3 means share the level" in result.method


@few(1)("alpha", [0.05, 0.3])
def test_compare(alpha):
    """The interval and p of differences in the order of time; the interval agrees with p."""
    differences = (values_of("new")["RR"] - values_of("old")["RR"]).to_numpy()
    comparison = rankql.compare(RUNS, QRELS, "RR", confidence=1 - alpha, **OPTIONS)
    row = comparison.pairs.row(0, named=True)
    p, ends = bet(differences, -1, 1, comparison.settings.alpha)
    assert (row["lo"], row["hi"]) == ends
    assert row["p"] == row["p_adjusted"] == p and row["detectable"] is None
    assert (row["verdict"] == "better") == (p <= alpha) == (ends.lo > 0)
    assert re.search(
        r"^betting test, 1 test, 120 queries, valid at every number", comparison.method
    )
    assert comparison.summary["lo"].null_count() == 2  # means alone may drift
    results = {x: rankql.evaluate(y, QRELS, "RR", by="ts", interval=None) for x, y in RUNS.items()}
    again = rankql.compare(results, confidence=1 - alpha, **OPTIONS)
    assert again.pairs.drop("sentence").equals(comparison.pairs.drop("sentence"))


@few(1)("name", ["x.json", "x.md"])
def test_verify_computes_it_again(name, tmp_path):
    rankql.compare(RUNS, QRELS, "RR", **OPTIONS).save(tmp_path / name)
    assert rankql.verify(tmp_path / name, RUNS, QRELS).passed
    later = QRELS.with_columns(ts=QRELS["ts"].reverse())
    assert not rankql.verify(tmp_path / name, RUNS, later).passed
    rankql.evaluate(OLD, QRELS, "RR", **OPTIONS).save(tmp_path / name)
    assert rankql.verify(tmp_path / name, OLD, QRELS).passed


def test_gate():
    verdict = rankql.gate(NEW, QRELS, baseline=OLD, max_drop="RR:0.1", **OPTIONS)
    pair = rankql.compare(RUNS, QRELS, "RR", **OPTIONS).pairs
    row = verdict.table.row(0, named=True)
    assert (row["lo"], row["hi"]) == pytest.approx((pair["lo"][0], pair["hi"][0]), abs=1e-9)
    assert verdict.passed and any("valid at every number" in note for note in verdict.notes)
    near = rankql.gate(OLD, QRELS, baseline=ranked(3, 6), max_drop="RR:0.02", **OPTIONS)
    assert near.outcome == "inconclusive" and near.table["queries_needed"][0] > N


ANYTIME = {"metrics": "RR", "interval": "anytime"}
test_what_evaluate_refuses = refuses(
    "anytime", globals(), "rankql.evaluate(OLD, QRELS, **ANYTIME | dict(%s))", light=5
)
test_what_compare_refuses = refuses(
    "anytime", globals(), "rankql.compare(RUNS, QRELS, **ANYTIME | dict(%s))", light=2
)


test_what_each_refuses = refuses("anytime_each", globals(), "rankql.%s")


@few(1)("option", [{"weight": "traffic"}, {"cluster": "user"}])
def test_weights_and_clusters_of_results_are_refused(option):
    keep = {**option, "by": "ts", "interval": None}
    old, new = (rankql.evaluate(run, QRELS, "RR", **keep) for run in (OLD, NEW))
    message = f"does not support {next(iter(option))}="
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.compare({"old": old, "new": new}, **OPTIONS)
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.gate(new, baseline=old, **OPTIONS)


def test_the_remedies_work():
    day = rankql.evaluate(OLD, QRELS, "RR", interval="anytime", time="strptime(day, '%d.%m.%Y')")
    assert day.summary["lo"].item() > 0
    found = QRELS.filter(pl.col("ts") < START + timedelta(hours=N // 2))["query"].implode()
    drifting = pl.concat([OLD.filter(pl.col("query").is_in(found)).with_columns(
        score=pl.when(item="x").then(1.0).otherwise("score")),
        OLD.filter(~pl.col("query").is_in(found)).with_columns(
            score=pl.when(item="x").then(-9.0).otherwise("score"))])  # fmt: skip
    message = "the mean of the first half of 120 is 1, and that of the others 0.2.*interval='auto'"
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.evaluate(drifting, QRELS, "RR", **OPTIONS)
    assert rankql.evaluate(drifting, QRELS, "RR").summary["lo"].item() > 0


def test_a_note_on_users():
    for function, run in ((rankql.evaluate, OLD), (rankql.compare, RUNS)):
        notes = " ".join(function(run, QRELS, "RR", **OPTIONS).notes)
        assert "same user are not independent: keep one of each" in notes


def test_times_are_kept_without_intervals():
    result = rankql.evaluate(OLD, QRELS, "RR", interval=None, time="ts")
    assert result.per_query.columns == ["query", "ts", "RR"] and result.method == ""


@pytest.mark.slow
def test_the_command_line(tmp_path):
    QRELS.write_csv(tmp_path / "qrels.csv")
    for name, data in RUNS.items():
        data.write_parquet(tmp_path / f"{name}.parquet")

    def run(command, code=0):
        with contextlib.chdir(tmp_path):
            done = CliRunner().invoke(main, f"{command} --interval anytime")
        assert done.exit_code == code, done.output
        return done.output

    both = "compare old.parquet new.parquet qrels.csv -m RR --format json"
    table = json.loads(run(f"{both} --time ts"))["table"]
    assert table[0]["lo"] == rankql.compare(RUNS, QRELS, "RR", **OPTIONS).pairs["lo"][0]
    assert "shuffled once" in run("eval old.parquet qrels.csv -m RR --no-time")
    gate = "gate new.parquet qrels.csv --baseline old.parquet --max-drop RR:.1"
    assert "valid at every number of queries" in run(f"{gate} --time ts")
    needs = "needs the order in which queries came. Pass --time with a column of their times, or"
    assert f"--interval anytime {needs} --no-time for" in run(gate, 2)
    assert "--time and --no-time do not go together" in run(f"{gate} --time ts --no-time", 2)


@pytest.mark.slow
def test_judgments_of_queries_to_come():
    """Their time is not known yet. Skipped, they change nothing."""
    times = QRELS.select("query", "ts")
    old, new = (run.join(times, on="query") for run in (OLD, NEW))
    late = pl.concat([QRELS.drop("ts"), QRELS.drop("ts").head(4).with_columns(
        query=pl.Series([f"late{i}" for i in range(4)]))])  # fmt: skip
    calls = {
        "evaluate": lambda qrels, **o: rankql.evaluate(old, qrels, "RR", **OPTIONS, **o),
        "compare": lambda qrels, **o: rankql.compare(
            {"old": old, "new": new}, qrels, "RR", **OPTIONS, **o),
        "gate": lambda qrels, **o: rankql.gate(
            new, qrels, baseline=old, max_drop="RR:0.5", **OPTIONS, **o),
    }  # fmt: skip
    for call in calls.values():
        with pytest.raises(rankql.RankqlError, match="'late0', which is judged, but no run has it"):
            call(late)
    for call in (calls["evaluate"], calls["compare"]):
        ends, expected = (call(x, missing="skip").table for x in (late, QRELS.drop("ts")))
        assert ends.select("lo", "hi").rows() == expected.select("lo", "hi").rows()

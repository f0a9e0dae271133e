"""Runs in any form, and values per query that rankql did not compute."""

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal
from scipy import stats

import rankql
from rankql.cli.main import main

QRELS = pl.DataFrame({"query": list("aabbcc"), "item": list("xyxyxy"), "rel": [1, 0] * 3})
OLD = pl.DataFrame({"query": list("aabbcc"), "item": list("xyxyxy"), "score": [1, 2, 2, 1, 1, 2]})
NEW = pl.DataFrame({"query": list("aabbcc"), "item": list("xyxyxy"), "score": [2, 1, 2, 1, 1, 2]})


def shop(seed=1, n=40, shift=0.0):
    """One row per user: revenue (more is better), wait (less is better), clicks, a segment."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame({
        "user": [f"u{i}" for i in range(n)],
        "segment": ["new", "old"] * (n // 2),
        "revenue": np.random.default_rng(0).exponential(10, n) + rng.normal(shift, 1, n),
        "wait": np.random.default_rng(9).exponential(3, n) + rng.normal(shift, 1, n),
        "clicks": rng.integers(0, 9, n),
    })  # fmt: skip


BEFORE, AFTER = shop(), shop(2, shift=2.0)


# Runs in any form


@pytest.mark.few(1)
@pytest.mark.parametrize("convert", [lambda f: f, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_two_runs_a_list_and_a_dict_are_the_same(convert):
    old, new, qrels = map(convert, (OLD, NEW, QRELS))
    expected = rankql.compare({"run 1": OLD, "run 2": NEW}, QRELS, "RR")
    for comparison in (
        rankql.compare(old, new, qrels, ["RR"]),
        rankql.compare(old, new, qrels, metrics="RR"),
        rankql.compare(old, new, qrels=qrels, metrics="RR"),
        rankql.compare([old, new], qrels, "RR"),
        rankql.compare((old, new), qrels=qrels, metrics=["RR"]),
    ):
        assert comparison.pairs.equals(expected.pairs)
        assert any("run 1 and run 2" in note for note in comparison.notes)
    assert rankql.compare({"old": old, "new": new}, qrels, "RR").systems == ["old", "new"]
    assert rankql.compare(old, new, qrels).metrics == [*rankql.evaluate(OLD, QRELS)]


def test_files_give_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in {"old": OLD, "new": NEW, "qrels": QRELS}.items():
        frame.write_parquet(f"{name}.parquet")
    for arguments in (
        ("old.parquet", "new.parquet", "qrels.parquet", "ndcg_cut_2"),
        (["old.parquet", "new.parquet"], "qrels.parquet"),
    ):
        assert rankql.compare(*arguments).systems == ["old", "new"]
    same = rankql.compare(["old.parquet", "old.parquet"], "qrels.parquet", "RR")
    assert same.systems == ["run 1", "run 2"]


# Any columns of numbers


def test_any_numbers_are_compared():
    comparison = rankql.compare({"before": BEFORE, "after": AFTER}, test="t")
    assert comparison.metrics == ["revenue", "wait", "clicks"]
    for name in comparison.metrics:
        row = comparison.pairs.filter(metric=name).row(0, named=True)
        assert row["p"] == pytest.approx(stats.ttest_rel(AFTER[name], BEFORE[name]).pvalue)
        assert row["difference"] == pytest.approx((AFTER[name] - BEFORE[name]).mean())
    notes = " ".join(comparison.notes)
    assert "before is read as one row per user: metrics revenue, wait, clicks" in notes
    assert "Higher revenue, wait and clicks are assumed to be better" in notes


def test_the_caller_gives_directions():
    assumed = rankql.compare({"before": BEFORE, "after": AFTER})
    stated = rankql.compare({"before": BEFORE, "after": AFTER}, higher_is_better={"wait": False})
    assert assumed.pairs["verdict"].to_list()[:2] == ["better", "better"]
    assert stated.pairs["verdict"].to_list()[:2] == ["better", "worse"]
    assert stated.higher_is_better == {"revenue": True, "wait": False, "clicks": True}
    assert json.loads(stated.to_json())["higher_is_better"] == stated.higher_is_better
    assert "Lower is better: wait" in stated.notes
    assert any(note.startswith("Higher revenue and clicks are assumed") for note in stated.notes)
    assert stated.pairs["wins"][1] == (AFTER["wait"] < BEFORE["wait"]).sum()
    lower = rankql.compare({"a": BEFORE, "b": AFTER}, metrics="wait", higher_is_better=False)
    assert lower.pairs["verdict"].to_list() == ["worse"]
    assert not [note for note in lower.notes if "assumed" in note]
    assert lower.differences("wait", "a", "b")["difference"].is_sorted(descending=True)


def test_expressions_over_runs_have_directions():
    runs = {"a": OLD.with_columns(pl.col("score") + pl.int_range(6)), "b": OLD}
    for direction, verdict in ((None, "worse"), (False, "better")):
        comparison = rankql.compare(runs, QRELS, "top = max(score)", higher_is_better=direction)
        assert comparison.pairs["verdict"].item() in (verdict, "not significant")
        assert comparison.higher_is_better == {"top": direction is None}


def test_slices_and_clusters_are_not_metrics():
    data = {name: x.with_columns(shop=pl.int_range(40) % 12) for name, x in
            {"before": BEFORE, "after": AFTER}.items()}  # fmt: skip
    comparison = rankql.compare(data, by="segment", cluster="shop")
    assert comparison.metrics == ["revenue", "wait", "clicks"]
    slices = comparison.pairs["slice"].unique().sort().to_list()
    assert slices == ["all", "segment=new", "segment=old"]
    assert rankql.compare(data, metrics="shop").metrics == ["shop"]
    # Numbers before a metric that rankql knows are attributes.
    known = {name: x.select("user", "wait", AP=pl.col("clicks") / 9) for name, x in data.items()}
    assert rankql.compare(known).metrics == ["AP"]


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
def test_files_of_numbers(tmp_path, suffix):
    files = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for file, frame in zip(files, (BEFORE, AFTER), strict=True):
        getattr(frame, f"write_{suffix}")(file)
    expected = rankql.compare({"a": BEFORE, "b": AFTER}, by="segment").pairs
    assert_frame_equal(rankql.compare(files, by="segment").pairs, expected)


def test_a_column_system_has_the_systems():
    runs = {"before": BEFORE, "after": AFTER}
    both = pl.concat([run.with_columns(system=pl.lit(name)) for name, run in runs.items()])
    comparison, expected = rankql.compare(both, baseline="before"), rankql.compare(runs)
    assert comparison.pairs.drop("sentence").equals(expected.pairs.drop("sentence"))


def test_the_key_can_be_named():
    days = [x.rename({"user": "day"}).select("segment", "revenue", "day") for x in (BEFORE, AFTER)]
    with pytest.raises(rankql.RankqlError):
        rankql.compare(*days)  # the first column, segment, has several rows
    comparison = rankql.compare(*days, query="day", by="segment")
    assert comparison.metrics == ["revenue"]
    assert comparison.pairs["n"].to_list() == [40, 20, 20]


def test_missing_values_and_columns_are_left_out():
    """A run without results has 0; a missing revenue is not 0."""
    after = AFTER.head(30).drop("segment")
    comparison = rankql.compare({"a": BEFORE, "b": after}, metrics="revenue")
    assert comparison.pairs.select("slice", "n").rows() == [("all", 30)]
    assert "10 of 40 queries are missing in b: left out" in comparison.notes


SOLD = {"a": OLD.head(1).with_columns(sold=1), "b": NEW.head(1).with_columns(sold=2)}
BOTH, RUNS = {"a": BEFORE, "b": AFTER}, ({"a": OLD, "b": NEW}, QRELS)
KINDS = QRELS.select("query", kind=pl.lit("x")).unique()
SLICED = rankql.evaluate(OLD, QRELS, "RR", by="kind", attributes=KINDS)
PRICES = AFTER.select("user", revenue=pl.lit("1,200"))
TWICE = pl.concat([AFTER, AFTER])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((SOLD,), {}, r"^No grade column in run"),
        (({"a": BEFORE, "b": OLD},), {}, "'b' is a run or has several rows per"),
        (({"a": BEFORE, "b": PRICES},), {}, "'b' is a run or has several rows per query"),
        (({"a": BEFORE, "b": TWICE},), {}, "occur twice"),
        (({"a": TWICE, "b": AFTER},), {"metrics": "wait"}, "occur twice"),
        ((BOTH,), {"metrics": "revenu"}, "Unknown metric 'revenu'. Did you mean 'revenue'?"),
        ((BOTH,), {"by": "segmnt"}, "Unknown attribute 'segmnt'. Did you mean 'segment'"),
        ((BOTH,), {"query": "zz"}, "query='zz': no column of that name"),
        ((BOTH,), {"higher_is_better": {"wiat": False}}, "'wiat'. Did you mean 'wait'?"),
        ((BOTH,), {"higher_is_better": {"wait": "no"}}, "higher_is_better must be True, False"),
        ((*RUNS, "RR"), {"higher_is_better": False}, "False contradicts the definition"),
        ((*RUNS, "TauDistance"), {"higher_is_better": {"TauDistance": True}}, "True contradicts"),
        ((BEFORE, AFTER, AFTER), {}, "compare takes two runs or results"),
        ((OLD, NEW, OLD, QRELS), {}, "Pass more runs as a dict"),
        (({"a": OLD}, NEW, QRELS), {}, "Pass more runs as a dict"),
        (([OLD], NEW, QRELS), {}, "Pass more runs as a dict"),
        # Judgments with an unknown item column have several rows per query.
        ((OLD, QRELS.rename({"item": "thing"})), {}, "No item column in"),
        (({"old": SLICED, "new": BEFORE},), {}, "'new' has no column 'kind'"),
    ],
)
def test_errors(arguments, options, message):
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.compare(*arguments, **options)


def test_named_metrics_are_values():
    assert rankql.compare(SOLD, metrics="sold").metrics == ["sold"]
    flags = {"a": BEFORE.with_columns(bought=True), "b": AFTER.with_columns(bought=False)}
    assert "bought" not in rankql.compare(flags).metrics  # an attribute, unless it is named
    assert rankql.compare(flags, metrics="bought").pairs["difference"].item() == -1


# On the command line


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("command", "code", "printed"),
    [
        ("compare before.csv after.parquet", 0, "Lower is better: wait"),
        ("gate after.parquet --max-drop wait:0.5 --baseline before.csv", 1, "wait rise <= 0.5"),
        ("report before.csv after.parquet -o report.md", 0, "report.md"),
    ],
)
def test_lower_is_better_on_the_command_line(command, code, printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    BEFORE.write_csv("before.csv")
    AFTER.write_parquet("after.parquet")
    for column, exit_code, text in (("wait", code, printed), ("wiat", 2, "Did you mean 'wait'?")):
        done = CliRunner().invoke(main, [*command.split(), "--lower-is-better", column])
        assert done.exit_code == exit_code and text in done.output


# Associated


def test_any_numbers_are_associated():
    sold = BEFORE.select("user", sold=pl.col("clicks") * 2 + 1)
    association = rankql.associate(BEFORE, sold, on="user")
    assert association.metrics == ["revenue", "wait", "clicks"]
    assert association.table.filter(metric="clicks")["spearman"].item() == 1
    known = BEFORE.with_columns(AP=pl.col("clicks") / 9)
    assert rankql.associate(known, sold, on="user").metrics == ["AP"]
    assert rankql.associate(known, sold, on="user", metrics="wait").metrics == ["wait"]


# Gated


def test_any_numbers_are_gated():
    drops = {"baseline": BEFORE, "max_drop": ["revenue:0.5", "wait:0.5"]}
    better = rankql.gate(AFTER, **drops)
    assert better.passed
    assert any(note.startswith("Higher revenue and wait are assumed") for note in better.notes)
    worse = rankql.gate(AFTER, **drops, higher_is_better={"wait": False}).table
    assert dict(worse.select("metric", "status").rows()) == {"revenue": "passed", "wait": "failed"}
    assert rankql.gate(AFTER, minimum="revenue>=1", by="segment").passed
    assert not rankql.gate(AFTER, minimum="wait<=1").passed
    for wrong in ({"minimum": "wait<=1", "higher_is_better": {"wiat": False}},
                  {"baseline": BEFORE, "max_drop": "wiat:0.1"}):  # fmt: skip
        with pytest.raises(rankql.RankqlError, match="Did you mean 'wait'"):
            rankql.gate(AFTER, **wrong)


def test_a_baseline_beside_judgments_is_a_run_or_values():
    run = QRELS.select("query", "item", score="rel", price=pl.lit(3))
    old = run.with_columns(score=1 - pl.col("score"))
    for baseline in (old, rankql.evaluate(old, QRELS, "RR").per_query):
        verdict = rankql.gate(run, QRELS, baseline=baseline, max_drop="RR:0.1")
        assert verdict.table["baseline"].item() == 0.5

"""Runs in any form, and values per query that rankql did not compute."""

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main

QRELS = pl.DataFrame({"query": list("aabbcc"), "item": list("xyxyxy"), "rel": [1, 0] * 3})
OLD = pl.DataFrame({"query": list("aabbcc"), "item": list("xyxyxy"), "score": [1, 2, 2, 1, 1, 2]})
NEW = pl.DataFrame({"query": list("aabbcc"), "item": list("xyxyxy"), "score": [2, 1, 2, 1, 1, 2]})


def table(**columns):
    return pl.DataFrame(columns, strict=False)


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


@pytest.mark.parametrize("convert", [lambda f: f, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_two_runs_a_list_and_a_dict_are_the_same(convert):
    old, new, qrels = map(convert, (OLD, NEW, QRELS))
    wanted = rankql.compare({"run 1": OLD, "run 2": NEW}, QRELS, "RR")
    note = "Systems are named run 1 and run 2. Pass a dict to choose other names"
    for found in (
        rankql.compare(old, new, qrels, "RR"),
        rankql.compare(old, new, qrels, ["RR"]),
        rankql.compare(old, new, qrels, metrics="RR"),
        rankql.compare(old, new, qrels=qrels, metrics="RR"),
        rankql.compare([old, new], qrels, "RR"),
        rankql.compare((old, new), qrels=qrels, metrics=["RR"]),
    ):
        assert found.table.equals(wanted.table)
        assert note in found.notes
    assert rankql.compare({"old": old, "new": new}, qrels, "RR").systems == ["old", "new"]
    assert rankql.compare(old, new, qrels).metrics == [*rankql.evaluate(OLD, QRELS)]


def test_files_give_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in {"old": OLD, "new": NEW, "qrels": QRELS}.items():
        frame.write_parquet(f"{name}.parquet")
    for arguments in (
        ("old.parquet", "new.parquet", "qrels.parquet", "RR"),
        ("old.parquet", "new.parquet", "qrels.parquet", "ndcg_cut_2"),
        (["old.parquet", "new.parquet"], "qrels.parquet"),
        (["old.parquet", "new.parquet"], "qrels.parquet", "RR"),
    ):
        assert rankql.compare(*arguments).systems == ["old", "new"]
    same = rankql.compare(["old.parquet", "old.parquet"], "qrels.parquet", "RR")
    assert same.systems == ["run 1", "run 2"]
    with pytest.raises(rankql.RankqlError, match=r"nDGC.*mean 'nDCG'"):
        rankql.compare("old.parquet", "new.parquet", "qrels.parquet", "nDGC@10")


def test_two_results_need_no_judgments():
    results = [rankql.evaluate(run, QRELS, "RR") for run in (OLD, NEW)]
    wanted = rankql.compare({"run 1": OLD, "run 2": NEW}, QRELS, "RR").table
    assert rankql.compare(*results).table.equals(wanted)
    assert rankql.compare(results).table.equals(wanted)
    assert rankql.compare(*(result.per_query for result in results)).table.equals(wanted)
    assert rankql.compare(*results, metrics="RR").table.equals(wanted)


def test_more_than_two_runs_need_names():
    for arguments in ((OLD, NEW, OLD, QRELS), ({"a": OLD}, NEW, QRELS), ([OLD], NEW, QRELS)):
        with pytest.raises(rankql.RankqlError, match="Pass more runs as a dict"):
            rankql.compare(*arguments)


def test_results_are_compared_by_identity():
    result = rankql.evaluate(OLD, QRELS, "RR")
    again = rankql.evaluate(OLD, QRELS, "RR")
    comparison = rankql.compare({"old": OLD, "new": NEW}, QRELS, "RR")
    verdict = rankql.gate(OLD, QRELS, minimum="RR>=0.1")
    keys = list(range(12))
    link = rankql.associate(table(query=keys, AP=keys), table(query=keys, CTR=keys), on="query")
    others = (
        rankql.limits(OLD, QRELS, "RR"),
        rankql.check(OLD, QRELS),
        rankql.explain(OLD, QRELS, "a", "RR"),
        rankql.sign_agreement(table(offline=[1], online=[1])),
    )
    for one in (result, comparison, verdict, link, *others):
        assert one == one  # a frame inside would raise: its truth is ambiguous
        assert one != result or one is result
        assert {one: 1}[one] == 1
    assert result != again
    assert (result in [again], result in [again, result]) == (False, True)


# Any columns of numbers


def test_any_numbers_are_compared():
    found = rankql.compare({"before": BEFORE, "after": AFTER}, test="t")
    assert found.metrics == ["revenue", "wait", "clicks"]
    from scipy import stats

    for name in found.metrics:
        row = found.table.filter(metric=name).row(0, named=True)
        wanted = stats.ttest_rel(AFTER[name], BEFORE[name])
        assert row["p"] == pytest.approx(wanted.pvalue)
        assert row["difference"] == pytest.approx((AFTER[name] - BEFORE[name]).mean())
    said = " ".join(found.notes)
    assert (
        "before is read as one row per user: metrics revenue, wait, clicks; attributes segm" in said
    )
    assert "Higher revenue, wait and clicks are assumed to be better. If not, set higher" in said


def test_the_direction_is_the_callers():
    guessed = rankql.compare({"before": BEFORE, "after": AFTER})
    told = rankql.compare({"before": BEFORE, "after": AFTER}, higher_is_better={"wait": False})
    verdicts = [dict(f.table.select("metric", "verdict").rows()) for f in (guessed, told)]
    assert (verdicts[0]["wait"], verdicts[1]["wait"]) == ("better", "worse")
    assert verdicts[0]["revenue"] == verdicts[1]["revenue"] == "better"
    assert told.higher_is_better == {"revenue": True, "wait": False, "clicks": True}
    assert json.loads(told.to_json())["higher_is_better"] == told.higher_is_better
    assert "Lower is better: wait" in told.notes
    assert any(note.startswith("Higher revenue and clicks are assumed") for note in told.notes)
    wins = told.table.filter(metric="wait").row(0, named=True)
    assert wins["wins"] == (AFTER["wait"] < BEFORE["wait"]).sum()
    lower = rankql.compare({"a": BEFORE, "b": AFTER}, metrics="wait", higher_is_better=False)
    assert lower.table["verdict"].to_list() == ["worse"]
    assert not [note for note in lower.notes if "assumed" in note]
    assert lower.differences("wait", "a", "b")["difference"].is_sorted(descending=True)


def test_the_direction_of_expressions():
    """Also of runs that are evaluated: a label and its SQL."""
    metrics = ["top = max(score)"]
    for given, verdict in ((None, "worse"), (False, "better")):
        runs = {"a": OLD.with_columns(pl.col("score") + pl.int_range(6)), "b": OLD}
        found = rankql.compare(runs, QRELS, metrics, higher_is_better=given)
        assert found.table["verdict"].item() in (verdict, "not significant")
        assert found.higher_is_better == {"top": given is None}


def test_slices_and_clusters_are_not_metrics():
    data = {name: f.with_columns(shop=pl.int_range(40) % 12) for name, f in
            {"before": BEFORE, "after": AFTER}.items()}  # fmt: skip
    found = rankql.compare(data, by="segment", cluster="shop")
    assert found.metrics == ["revenue", "wait", "clicks"]
    assert found.table["slice"].unique().sort().to_list() == ["all", "segment=new", "segment=old"]
    assert rankql.compare(data, metrics="shop").metrics == ["shop"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
def test_files_of_numbers(tmp_path, suffix):
    wanted = rankql.compare({"a": BEFORE, "b": AFTER}, by="segment").table
    for name, frame in {"a": BEFORE, "b": AFTER}.items():
        getattr(frame, f"write_{suffix}")(tmp_path / f"{name}.{suffix}")
    files = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    found = rankql.compare(files, by="segment")
    assert found.systems == ["a", "b"]
    columns = ["metric", "slice", "verdict", "n"]
    assert found.table.select(columns).equals(wanted.select(columns))
    assert found.table["p"].to_list() == pytest.approx(wanted["p"].to_list())


def test_a_column_system_tells_systems_apart():
    both = pl.concat([
        BEFORE.select(pl.lit("before").alias("system"), pl.all()),
        AFTER.select(pl.lit("after").alias("system"), pl.all()),
    ])  # fmt: skip
    found = rankql.compare(both, baseline="before")
    wanted = rankql.compare({"before": BEFORE, "after": AFTER})
    assert found.table.drop("sentence").equals(wanted.table.drop("sentence"))


def test_the_key_can_be_named():
    days = BEFORE.rename({"user": "day"}).select("segment", "revenue", "day")
    other = AFTER.rename({"user": "day"}).select("segment", "revenue", "day")
    with pytest.raises(rankql.RankqlError):
        rankql.compare({"a": days, "b": other})  # the first column, segment, has several rows
    found = rankql.compare({"a": days, "b": other}, query="day", by="segment")
    assert found.metrics == ["revenue"] and found.table["n"].to_list() == [40, 20, 20]


def test_what_is_missing_is_left_out():
    """A run that found nothing has 0; a revenue that is not there is not 0."""
    found = rankql.compare({"a": BEFORE, "b": AFTER.head(30)}, metrics="revenue")
    assert found.table["n"].item() == 30
    assert "10 of 40 queries are missing in b: left out" in found.notes


def test_a_column_that_only_one_table_has_makes_no_slices():
    found = rankql.compare({"a": BEFORE, "b": AFTER.drop("segment")}, metrics="revenue")
    assert found.table["slice"].to_list() == ["all"]


def test_beside_results_of_evaluate():
    result = rankql.evaluate(OLD, QRELS, "RR")
    other = rankql.evaluate(NEW, QRELS, "RR").per_query.rename({"query": "user"})
    found = rankql.compare({"old": result, "new": other})
    wanted = rankql.compare({"old": OLD, "new": NEW}, QRELS, "RR")
    assert found.table.equals(wanted.table)
    sliced = QRELS.select("query", kind=pl.lit("x")).unique()
    result = rankql.evaluate(OLD, QRELS, "RR", by="kind", attributes=sliced)
    with pytest.raises(rankql.RankqlError, match="'new' has no column 'kind', which the others"):
        rankql.compare({"old": result, "new": other})


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            ({"a": OLD.head(1).with_columns(sold=1), "b": NEW.head(1).with_columns(sold=1)},),
            {},
            "Cannot tell whether a is a run or has one row per query: it has an item (item) and "
            "other numbers (sold). Name the numbers to compare, such as metrics='sold', or pass "
            "qrels= to evaluate it as a run.",
        ),
        (
            ({"a": BEFORE, "b": OLD},),
            {},
            "'a' is a result, but 'b' is a run or has several rows per",
        ),
        (
            ({"a": BEFORE, "b": AFTER.select(AFTER.columns[0], revenue=pl.lit("1,200"))},),
            {},
            f"b has no numbers per {AFTER.columns[0]}: revenue is text. Cast it to a",
        ),
        (
            ({"a": BEFORE, "b": pl.concat([AFTER, AFTER])},),
            {},
            f"b has several rows for some {AFTER.columns[0]}, and no items. Keep one row per",
        ),
        (
            ({"a": BEFORE, "b": AFTER},),
            {"metrics": "revenu"},
            "Unknown metric 'revenu'. Did you mean 'revenue'? Available: revenue, wait, clicks.",
        ),
        (({"a": BEFORE, "b": AFTER},), {"metrics": "AP"}, "Unknown metric 'AP'"),
        (
            ({"a": BEFORE, "b": AFTER},),
            {"higher_is_better": {"wiat": False}},
            "Unknown name in higher_is_better: 'wiat'. Did you mean 'wait'?",
        ),
        (
            ({"a": BEFORE, "b": AFTER},),
            {"higher_is_better": {"wait": "no"}},
            "higher_is_better must be True, False or a dict of name: True or False, not 'no'.",
        ),
        (
            ({"a": OLD, "b": NEW}, QRELS, "RR"),
            {"higher_is_better": False},
            "higher_is_better=False contradicts RR, for which higher is better by definition.",
        ),
        (
            ({"a": OLD, "b": NEW}, QRELS, "TauDistance"),
            {"higher_is_better": {"TauDistance": True}},
            "higher_is_better=True contradicts TauDistance, for which lower is better",
        ),
        (
            ({"a": BEFORE, "b": AFTER},),
            {"ties": "expected"},
            "ties= is an option for runs, but these are results",
        ),
    ],
)
def test_errors(arguments, options, message):
    with pytest.raises(rankql.RankqlError) as caught:
        rankql.compare(*arguments, **options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_more_errors():
    with pytest.raises(rankql.RankqlError, match="compare takes two runs or results"):
        rankql.compare(BEFORE, AFTER, AFTER)
    with pytest.raises(rankql.RankqlError, match="compare needs at least one run"):
        rankql.compare([])
    with pytest.raises(rankql.RankqlError, match="query='zz': no column of that name"):
        rankql.compare({"a": BEFORE, "b": AFTER}, query="zz")
    with pytest.raises(rankql.RankqlError, match=r"Unknown metric 'wiat'\. Did you mean 'wait'\?"):
        rankql.gate(AFTER, baseline=BEFORE, max_drop="wiat:0.1")
    with pytest.raises(
        rankql.RankqlError, match=r"Unknown attribute 'segmnt'\. Did you mean 'segment'"
    ):
        rankql.compare({"a": BEFORE, "b": AFTER}, by="segmnt")
    with pytest.raises(rankql.RankqlError, match="occur twice"):
        twice = pl.concat([BEFORE, BEFORE])
        rankql.compare({"a": twice, "b": AFTER}, metrics="wait")


def test_named_metrics_settle_what_is_ambiguous():
    runs = {"a": OLD.head(1).with_columns(sold=1), "b": NEW.head(1).with_columns(sold=2)}
    assert rankql.compare(runs, metrics="sold").metrics == ["sold"]
    flags = {"a": BEFORE.with_columns(bought=True), "b": AFTER.with_columns(bought=False)}
    assert "bought" not in rankql.compare(flags).metrics  # an attribute, unless it is named
    assert rankql.compare(flags, metrics="bought").table["difference"].item() == -1


def test_judgments_are_not_taken_for_values():
    """Of an unknown item column, too: they have several rows per query."""
    qrels = QRELS.rename({"item": "thing"})
    with pytest.raises(rankql.RankqlError, match="No item column in"):
        rankql.compare(OLD, qrels)
    with pytest.raises(rankql.RankqlError):
        rankql.compare([qrels, qrels])


# On the command line


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    BEFORE.write_csv("before.csv")
    AFTER.write_parquet("after.parquet")
    BEFORE.write_parquet("before.parquet")


def run(*arguments, code=0):
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    return done


def test_compare_on_the_command_line(tables):
    for first in ("before.csv", "before.parquet"):
        shown = json.loads(
            run("compare", first, "after.parquet", "--lower-is-better", "wait", "--by", "segment",
                "--format", "json").stdout
        )  # fmt: skip
        wanted = rankql.compare(
            {"before": BEFORE, "after": AFTER}, by="segment", higher_is_better={"wait": False}
        )
        assert shown["higher_is_better"] == wanted.higher_is_better
        verdicts = [row["verdict"] for row in shown["table"]]
        assert verdicts == wanted.table["verdict"].to_list()
    run("report", "before.parquet", "after.parquet", "-o", "report.md", "--lower-is-better", "wait")
    wrong = run("compare", "before.csv", "after.parquet", "--lower-is-better", "wiat", code=2)
    assert "Did you mean 'wait'?" in wrong.stderr


def test_associate_on_the_command_line(tables):
    BEFORE.select("user", sold="clicks").write_csv("sold.csv")
    shown = run("associate", "before.csv", "sold.csv", "--on", "user", "--lower-is-better", "wait",
                "--format", "json")  # fmt: skip
    notes = json.loads(shown.stdout)["notes"]
    assert notes[0] == (
        "No column of per_query is named like a metric. All its numbers are used: revenue, wait "
        "and clicks"
    )
    assert "Lower is better: wait" in notes


# Associated


def test_any_numbers_are_associated():
    sold = BEFORE.select("user", sold=pl.col("clicks") * 2 + 1)
    found = rankql.associate(BEFORE, sold, on="user", by="segment")
    assert found.metrics == ["revenue", "wait", "clicks"]
    assert found.table.filter(metric="clicks", slice="all")["spearman"].item() == 1
    known = BEFORE.with_columns(AP=pl.col("clicks") / 9)
    assert rankql.associate(known, sold, on="user").metrics == ["AP"]
    assert rankql.associate(known, sold, on="user", metrics="wait").metrics == ["wait"]


def test_quadrants_go_by_the_directions():
    old = table(user=[1, 2, 3], wait=[1.0, 2, 3])
    was, now = table(user=[1, 2, 3], loss=[1, 1, 1]), table(user=[1, 2, 3], loss=[2, 0, 2])
    new = old.with_columns(wait=pl.col("wait") + pl.Series([1, 1, -1]))

    def readings(given):
        scores, losses = (
            pl.concat([a.with_columns(system=pl.lit("old")), b.with_columns(system=pl.lit("new"))])
            for a, b in ((old, new), (was, now))
        )
        found = rankql.associate(scores, losses, on="user", baseline="old", higher_is_better=given)
        return dict(found.quadrants().table.filter(n=1).select("reading", "metric").rows())

    assert readings(None) == {
        "better, and noticed": "up",
        "relevant but not attractive": "up",
        "attractive but not relevant (clickbait?)": "down",
    }
    assert readings({"wait": False, "loss": False}) == {
        "worse": "up",
        "attractive but not relevant (clickbait?)": "up",
        "relevant but not attractive": "down",
    }
    assert readings(False) == {
        "attractive but not relevant (clickbait?)": "up",
        "worse": "up",
        "better, and noticed": "down",
    }
    with pytest.raises(rankql.RankqlError, match="Unknown name in higher_is_better: 'los'"):
        readings({"los": True})


# Gated


def test_any_numbers_are_gated():
    better = rankql.gate(AFTER, baseline=BEFORE, max_drop=["revenue:0.5", "wait:0.5"])
    assert better.passed
    assert any(note.startswith("Higher revenue and wait are assumed") for note in better.notes)
    told = rankql.gate(
        AFTER, baseline=BEFORE, max_drop=["revenue:0.5", "wait:0.5"],
        higher_is_better={"wait": False},
    )  # fmt: skip
    assert dict(told.table.select("metric", "status").rows()) == {
        "revenue": "passed", "wait": "failed"
    }  # fmt: skip
    assert told.table.filter(metric="wait")["check"].item() == "wait rise <= 0.5"
    assert rankql.gate(AFTER, minimum="revenue>=1", by="segment").passed
    assert not rankql.gate(AFTER, minimum="wait<=1").passed
    with pytest.raises(rankql.RankqlError, match=r"Unknown option 'qq'. Available: "):
        rankql.gate(AFTER, minimum="wait<=1", qq=1)
    with pytest.raises(rankql.RankqlError, match="Did you mean 'wait'"):
        rankql.gate(AFTER, minimum="wait<=1", higher_is_better={"wiat": False})


def test_a_baseline_is_a_run_where_judgments_go_with_it():
    run = QRELS.select("query", "item", score="rel", price=pl.lit(3))
    old = run.with_columns(score=1 - pl.col("score"))
    verdict = rankql.gate(run, QRELS, baseline=old, max_drop="RR:0.1")
    assert verdict.table["baseline"].item() == 0.5
    values = rankql.evaluate(old, QRELS, "RR").per_query
    same = rankql.gate(run, QRELS, baseline=values, max_drop="RR:0.1")
    assert same.table["baseline"].item() == 0.5


def test_gate_on_the_command_line(tables):
    limits = ["--max-drop", "wait:0.5", "--baseline", "before.csv"]
    run("gate", "after.parquet", *limits)
    failed = run("gate", "after.parquet", *limits, "--lower-is-better", "wait", code=1)
    assert "wait rise <= 0.5" in failed.stdout

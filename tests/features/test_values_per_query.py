"""Runs in any form, and values per query that rankql did not compute."""

import itertools
import json
import shlex
from datetime import date, timedelta
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal
from scipy import stats

import rankql
from rankql.cli.main import main
from support.parameters import cycled, few
from support.refusals import refuses

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


def read(*tables, **options):
    """The values of tables called before and after."""
    names = ("before", "after")
    return {name: rankql.read_values(x, **options) for name, x in zip(names, tables, strict=True)}


# Runs in any form


@few(1)("convert", [lambda f: f, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_a_list_and_a_dict_are_the_same(convert):
    old, new, qrels = map(convert, (OLD, NEW, QRELS))
    expected = rankql.compare({"run 1": OLD, "run 2": NEW}, QRELS, "RR")
    for comparison in (
        rankql.compare([old, new], qrels, "RR"),
        rankql.compare([old, new], qrels, ["RR"]),
        rankql.compare((old, new), qrels=qrels, metrics=["RR"]),
    ):
        assert comparison.pairs.equals(expected.pairs)
        assert any("run 1 and run 2" in note for note in comparison.notes)
    assert rankql.compare({"old": old, "new": new}, qrels, "RR").systems == ["old", "new"]
    assert rankql.compare([old, new], qrels).metrics == [*rankql.evaluate(OLD, QRELS)]


def test_files_give_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in {"old": OLD, "new": NEW, "qrels": QRELS}.items():
        frame.write_parquet(f"{name}.parquet")
    for metrics in ("ndcg_cut_2", None):
        files = ["old.parquet", "new.parquet"]
        assert rankql.compare(files, "qrels.parquet", metrics).systems == ["old", "new"]
    same = rankql.compare(["old.parquet", "old.parquet"], "qrels.parquet", "RR")
    assert same.systems == ["run 1", "run 2"]


def test_files_of_one_name_give_those_of_their_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    QRELS.write_parquet("qrels.parquet")
    for name, frame in {"bm25": OLD, "dense": NEW}.items():
        (tmp_path / name).mkdir()
        rows = duckdb.from_arrow(frame.to_arrow())
        rows.write_csv(f"{name}/nq.csv.gz", compression="gzip")
        rows.write_csv(f"{name}.csv.zst", compression="zstd")
    for files in (["bm25/nq.csv.gz", "dense/nq.csv.gz"], ["bm25.csv.zst", "dense.csv.zst"]):
        assert rankql.compare(files, "qrels.parquet", "RR").systems == ["bm25", "dense"]


# Any columns of numbers


def test_any_numbers_are_compared():
    comparison = rankql.compare(read(BEFORE, AFTER), test="t")
    assert comparison.metrics == ["revenue", "wait", "clicks"]
    for name in comparison.metrics:
        row = comparison.pairs.filter(metric=name).row(0, named=True)
        p = stats.ttest_rel(AFTER[name], BEFORE[name]).pvalue
        differ = (AFTER[name] != BEFORE[name]).sum()
        assert row["p"] == pytest.approx(max(p, 2.0 ** (1 - differ)))
        assert row["difference"] == pytest.approx((AFTER[name] - BEFORE[name]).mean())
    printed = repr(comparison)
    assert "Columns: values: query = user, metrics = (revenue, wait, clicks)" in printed
    assert "Higher revenue, wait and clicks are assumed to be better" in " ".join(comparison.notes)


IDS = {
    "int": pl.Int16, "float": pl.Float64, "decimal": pl.Decimal(9, 2), "text": pl.String,
    "category": pl.Categorical,
}  # fmt: skip
FIRST_DAY = pl.date(2024, 1, 1)
KEYS = {
    "day": FIRST_DAY + pl.duration(days=pl.int_range(40)),
    "time": (FIRST_DAY + pl.duration(days=pl.int_range(40))).cast(pl.Datetime("ms")),
    "iso": (FIRST_DAY + pl.duration(days=pl.int_range(40))).cast(pl.String),
    **{name: pl.int_range(40).cast(pl.String).cast(kind) for name, kind in IDS.items()},
}


@few(1)(
    "keys", [*itertools.combinations(IDS, 2), *itertools.combinations(("day", "time", "iso"), 2)]
)
def test_keys_of_several_types_are_text(keys):
    """Of a CSV file ids are text, and pandas has times for days."""
    tables = [x.with_columns(user=KEYS[key]) for x, key in zip((BEFORE, AFTER), keys, strict=True)]
    for each in (tables, tables[::-1]):
        pair = rankql.compare(read(*each, metrics="revenue")).pairs.row(0, named=True)
        difference = each[1]["revenue"].mean() - each[0]["revenue"].mean()
        assert (pair["n"], pair["difference"]) == (40, pytest.approx(difference))


def test_a_baseline_may_have_ids_of_another_type():
    number = pl.col("query").rank("dense")
    run, qrels, base = (x.with_columns(query=number) for x in (NEW, QRELS, OLD))
    base = base.with_columns(pl.col("query").cast(pl.String))
    limits = {"minimum": "RR>=0", "max_drop": "RR:0.9"}
    verdict = rankql.gate(run, qrels, base, **limits)
    expected = rankql.gate(NEW, QRELS, OLD, **limits)
    assert verdict.table.equals(expected.table)
    saved = rankql.gate(run, qrels, rankql.evaluate(base, qrels, "RR"), **limits)
    assert saved.table["baseline"].equals(expected.table["baseline"])


def test_the_caller_gives_directions():
    both = read(BEFORE, AFTER)
    assumed = rankql.compare(both)
    stated = rankql.compare(both, higher_is_better={"wait": False})
    assert assumed.pairs["verdict"].to_list()[:2] == ["better", "better"]
    assert stated.pairs["verdict"].to_list()[:2] == ["better", "worse"]
    assert stated.higher_is_better == {"revenue": True, "wait": False, "clicks": True}
    assert json.loads(stated.to_json())["higher_is_better"] == stated.higher_is_better
    assert "Lower is better: wait" in stated.notes
    assert any(note.startswith("Higher revenue and clicks are assumed") for note in stated.notes)
    assert stated.pairs["wins"][1] == (AFTER["wait"] < BEFORE["wait"]).sum()
    lower = rankql.compare(both, metrics="wait", higher_is_better=False)
    assert lower.pairs["verdict"].to_list() == ["worse"]
    assert not [note for note in lower.notes if "assumed" in note]
    assert lower.differences("wait", "before", "after")["difference"].is_sorted(descending=True)


def test_expressions_over_runs_have_directions():
    runs = {"a": OLD.with_columns(pl.col("score") + pl.int_range(6)), "b": OLD}
    for direction, verdict in ((None, "worse"), (False, "better")):
        comparison = rankql.compare(runs, QRELS, "top = max(score)", higher_is_better=direction)
        undecided = "cannot be decided: 3 of 3 queries differ, 6 are needed"
        assert comparison.pairs["verdict"].item() in (verdict, undecided)
        assert comparison.higher_is_better == {"top": direction is None}


def test_slices_and_clusters_are_not_metrics():
    """Columns that metrics= does not name are attributes."""
    data = [x.with_columns(shop=pl.int_range(40) % 12) for x in (BEFORE, AFTER)]
    values = read(*data, metrics=["revenue", "wait"])
    comparison = rankql.compare(values, by="segment", cluster="shop")
    assert comparison.metrics == ["revenue", "wait"]
    slices = comparison.pairs["slice"].unique().sort().to_list()
    assert slices == ["all", "segment=new", "segment=old"]
    assert rankql.compare(read(*data), metrics="shop").metrics == ["shop"]
    with pytest.raises(rankql.RankqlError, match="Unknown attribute 'shop'"):
        rankql.compare(read(*data), cluster="shop")


@few(1)("suffix", ["csv", "parquet", "json"])
def test_files_of_numbers(tmp_path, suffix):
    files = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for file, frame in zip(files, (BEFORE, AFTER), strict=True):
        getattr(frame, f"write_{suffix}")(file)
    expected = rankql.compare(read(BEFORE, AFTER), by="segment").pairs
    found = rankql.compare(read(*files), by="segment").pairs
    assert_frame_equal(found, expected)


def test_a_column_system_has_the_systems():
    runs = {"before": BEFORE, "after": AFTER}
    both = pl.concat([run.with_columns(system=pl.lit(name)) for name, run in runs.items()])
    expected = rankql.compare(read(*runs.values()))
    for name in ("system", "variant", "arm"):
        table = both.rename({"system": name})
        values = rankql.read_values(table, system=name if name == "arm" else None)
        comparison = rankql.compare(values, baseline="before")
        assert_frame_equal(comparison.pairs.drop("sentence"), expected.pairs.drop("sentence"))


def test_the_key_is_named_or_has_a_usual_name():
    days = [x.rename({"user": "day"}).select("segment", "revenue", "day") for x in (BEFORE, AFTER)]
    for tables, options in (
        (days, {}),
        ([x.rename({"day": "shop no"}) for x in days], {"query": "shop no"}),
    ):
        comparison = rankql.compare(read(*tables, **options), by="segment")
        assert comparison.metrics == ["revenue"]
        assert comparison.pairs["n"].to_list() == [40, 20, 20]


def test_missing_values_and_columns_are_left_out():
    """A run without results has 0; a missing revenue is not 0."""
    after = AFTER.head(30).drop("segment")
    comparison = rankql.compare(read(BEFORE, after), metrics="revenue")
    assert comparison.pairs.select("slice", "n").rows() == [("all", 30)]
    left_out = "Queries: 10 of 40 missing in at least one system and left out"
    assert left_out in comparison.notes


@few(2)(
    ("name", "value"),
    cycled(["ndcg", "revenue"], [float("nan"), float("inf"), -float("inf")]),
)
def test_values_that_are_no_numbers_are_refused_where_they_are_read(tmp_path, name, value):
    days = [f"2026-01-{day:02}" for day in range(1, 31)]
    frame = pl.DataFrame({"day": days, name: [0.5, 0.25] * 14 + [0.5, value]})
    message = f"{name} is {value} for query '2026-01-30', but must be a finite number"
    for each in (frame, frame.with_columns(system=pl.lit("a"))):
        with pytest.raises(rankql.RankqlError, match=f"values: {message}"):
            rankql.read_values(each)
    told = f"{name} is {value} for row '2026-01-30, 30', but must"
    with pytest.raises(rankql.RankqlError, match=told):
        rankql.monitor(frame)
    frame.write_parquet(path := tmp_path / "days.parquet")
    for command, printed in (
        (["compare", str(path), str(path)], f"days.parquet': {message}"),
        (["monitor", str(path)], told),
    ):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 2 and printed in result.output


def test_nan_of_pandas_is_an_undefined_value():
    """pandas writes NaN for what is undefined in the values of a result, too."""
    gaps = pl.int_range(40) % 7 == 0
    lacking = AFTER.with_columns(revenue=pl.when(~gaps).then("revenue"))
    as_pandas = lacking.to_pandas()
    assert as_pandas["revenue"].isna().sum() == 6
    expected, found = (
        rankql.compare(read(BEFORE, x), metrics="revenue") for x in (lacking, as_pandas)
    )
    assert_frame_equal(found.pairs, expected.pairs)
    assert found.pairs["n"].item() == 34
    assert "Queries: 6 of 40 undefined in at least one system and left out" in found.notes
    tables = [
        rankql.associate(BEFORE, x, on="user", metrics="wait", outcome="revenue")
        for x in (lacking, as_pandas)
    ]
    assert tables[0].table.equals(tables[1].table) and tables[1].table["n"].item() == 34
    days = lacking.select("revenue", day=pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 2, 9)))
    watched = [rankql.monitor(x).table.sort("day") for x in (days, days.to_pandas())]
    assert_frame_equal(*watched)
    printed = pd.DataFrame(
        {"query": [1, 1, 2, 2], "metric": ["AP", "RR"] * 2, "value": [0.5, None, 0.2, 1]}
    )
    assert rankql.read_values(printed).summary["undefined"].to_list() == [0, 1]


SOLD = {"a": OLD.head(1).with_columns(sold=1), "b": NEW.head(1).with_columns(sold=2)}
BOTH, RUNS = read(BEFORE, AFTER), ({"a": OLD, "b": NEW}, QRELS)
KINDS = QRELS.select("query", kind=pl.lit("x")).unique()
SLICED = rankql.evaluate(OLD, QRELS, "RR", by="kind", attributes=KINDS)
TWICE = pl.concat([AFTER, AFTER])


test_errors = refuses("compared_values", globals(), "rankql.%s", light=4)


test_errors_of_tables = refuses("values", globals(), "rankql.%s")


def test_flags_are_metrics_if_they_are_named():
    flags = [BEFORE.with_columns(bought=True), AFTER.with_columns(bought=False)]
    assert "bought" not in rankql.compare(read(*flags)).metrics
    named = rankql.compare(read(*flags, metrics="bought"))
    assert named.pairs["difference"].item() == -1


def test_a_file_of_values_may_have_flags_as_attributes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in (("a.csv", BEFORE), ("b.csv", AFTER)):
        flag = pl.int_range(pl.len()) % 2 == 0
        frame.select("user", "wait", "clicks", is_new=flag).write_csv(name)
    compared = rankql.compare({"before": "a.csv", "after": "b.csv"})
    assert compared.metrics == ["wait", "clicks"] and "attributes = is_new" in str(compared)


WRITTEN = {
    "csv": (pd.DataFrame.to_csv, str),
    "csv of many": (lambda f, path: f.assign(**dict.fromkeys("abcdefgh", 1)).to_csv(path), str),
    "parquet": (lambda f, path: f[::-1].to_parquet(path), str),
    "read by polars": (pd.DataFrame.to_csv, pl.read_csv),
    "read by pandas": (pd.DataFrame.to_csv, pd.read_csv),
}


@few(1)("form", WRITTEN)
def test_the_row_numbers_of_data_frames_are_no_values(form, tmp_path, monkeypatch):
    """pandas writes its index, which has no name. It would be a metric, and one more test."""
    monkeypatch.chdir(tmp_path)
    write, read_back = WRITTEN[form]
    tables = []
    for name, frame in (("a", BEFORE), ("b", AFTER)):
        days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 2, 9))
        write(frame.select("revenue", day=days).to_pandas(), path := f"{name}.{form.split()[0]}")
        tables.append(read_back(path))
    kept = {"revenue", *("abcdefgh" if "many" in form else "")}
    assert {*rankql.compare(read(*tables)).metrics} == kept
    assert {*rankql.monitor(tables[0]).table["metric"]} == kept
    found = rankql.associate(*tables, on="day", outcome={"sold": "revenue"}).table
    assert {*found["metric"]} == kept
    if read_back is str:
        done = CliRunner().invoke(main, ["compare", *tables, "--format", "csv"])
        assert {line.split(",")[0] for line in done.stdout.splitlines()[1:]} == kept


# On the command line


@few(1)(
    ("command", "code", "printed"),
    [
        ("compare before.csv after.parquet", 0, "Lower is better: wait"),
        ("gate after.parquet --max-drop wait:0.5 --baseline before.csv", 1, "wait rise <= 0.5"),
        ("report before.csv after.parquet -o report.md", 0, "report.md"),
    ],
)
def test_lower_is_better_on_the_command_line(command, code, printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    BEFORE.drop("segment").write_csv("before.csv")
    AFTER.drop("segment").write_parquet("after.parquet")
    for column, exit_code, text in (("wait", code, printed), ("wiat", 2, "Did you mean 'wait'?")):
        done = CliRunner().invoke(main, [*command.split(), "--lower-is-better", column])
        assert done.exit_code == exit_code and text in done.output


@few(2)(
    ("kind", "case"),
    cycled(["csv", "parquet", "json"], [
        (["user", "revenue"], "", True),
        (["user", "revenue", "day"], "", True),
        (["user", "revenue", "variant"], "--query user", True),
        (["user", "revenue", "System"], "", True),
        (["user", "revenue", "Date"], "", True),
        (["day", "revenue"], "", True),
        (["user", "revenue", "segment"], "--by segment", True),
        (["user", "revenue", "segment"], "", False),
        (["user", "revenue", "item"], "", False),
        (["user", "revenue", "rel"], "", False),
        (["user", "rel"], "-m rel", True),
        (["shop no", "revenue"], "", False),
        (["shop no", "revenue"], "--query 'shop no'", True),
        (["user", "segment"], "", False),
    ]),
)  # fmt: skip
def test_files_of_a_query_and_numbers_are_values(kind, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns, options, is_read = case
    table = AFTER.with_columns(
        **{"shop no": pl.int_range(40), "item": pl.int_range(40), "rel": pl.int_range(40) % 3},
        day=pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 2, 9)),
        Date=pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 2, 9)),
        variant=pl.lit("a"), System=pl.lit("a"),
    ).select(columns)  # fmt: skip
    files = [f"{name}.{kind}" for name in "ab"]
    for file in files:
        getattr(table, f"write_{kind}")(file)
    done = CliRunner().invoke(main, ["compare", *files, *shlex.split(options)])
    assert (done.exit_code == 0) == is_read, done.output
    assert ("values: query =" in done.output) == is_read


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
    values = read(BEFORE, AFTER)
    drops = {"baseline": values["before"], "max_drop": ["revenue:0.5", "wait:0.5"]}
    better = rankql.gate(values["after"], **drops)
    assert better.passed
    assert any(note.startswith("Higher revenue and wait are assumed") for note in better.notes)
    worse = rankql.gate(values["after"], **drops, higher_is_better={"wait": False}).table
    assert dict(worse.select("metric", "status").rows()) == {"revenue": "passed", "wait": "failed"}
    assert rankql.gate(values["after"], minimum="revenue>=1", by="segment").passed
    assert not rankql.gate(values["after"], minimum="wait<=1").passed
    for wrong in ({"minimum": "wait<=1", "higher_is_better": {"wiat": False}},
                  {"baseline": values["before"], "max_drop": "wiat:0.1"}):  # fmt: skip
        with pytest.raises(rankql.RankqlError, match="Did you mean 'wait'"):
            rankql.gate(values["after"], **wrong)


def test_a_baseline_beside_judgments_is_a_run_or_values():
    run = QRELS.select("query", "item", score="rel", price=pl.lit(3))
    old = run.with_columns(score=1 - pl.col("score"))
    for baseline in (old, rankql.read_values(rankql.evaluate(old, QRELS, "RR").per_query)):
        verdict = rankql.gate(run, QRELS, baseline=baseline, max_drop="RR:0.1")
        assert verdict.table["baseline"].item() == 0.5


def test_a_column_that_may_be_lower_is_asked_about_by_compare_and_gate():
    before, after = (
        rankql.read_values(x.rename({"wait": "latency"}).select("user", "latency"))
        for x in (BEFORE, AFTER)
    )
    question = (
        r"^latency: is lower or higher better\?\n\nPass one of:\n    "
        r"higher_is_better=\{'latency': False\}\n    higher_is_better=\{'latency': True\}$"
    )
    with pytest.raises(rankql.RankqlError, match=question):
        rankql.compare({"a": before, "b": after})
    with pytest.raises(rankql.RankqlError, match=question):
        rankql.gate(after, baseline=before, max_drop={"latency": 0.1})
    for way in (True, False):
        stated = rankql.compare({"a": before, "b": after}, higher_is_better={"latency": way})
        assert stated.higher_is_better == {"latency": way}


@pytest.mark.parametrize("wrong", ["9,5", "n.d.", "1_0"])
def test_text_among_numbers_is_refused(tmp_path, wrong):
    """Left out, 9,5 beside 10 would be a mean of 10."""
    path = tmp_path / "revenue.csv"
    lines = [f"c{i};{[10, wrong][i % 2]}" for i in range(20)]
    path.write_text("\n".join(["cliente;ingreso", *lines]))
    with pytest.raises(rankql.RankqlError, match=f"must be a number, not '{wrong}'") as error:
        rankql.read_values(path, query="cliente", metrics="ingreso")
    assert ("decimal commas" in str(error.value)) == ("," in wrong)
    path.write_text(path.read_text().replace(wrong, ""))  # an empty cell has no value
    values = rankql.read_values(path, query="cliente", metrics="ingreso")
    assert values["ingreso"] == 10 and values.summary["undefined"].item() == 10


def test_decimal_commas_are_named_with_the_call_that_reads_them(tmp_path):
    path = tmp_path / "values.csv"
    lines = [f"{date(2026, 1, 1) + timedelta(i)};0,{60 + i % 5}\n" for i in range(60)]
    path.write_text("day;quote\n" + "".join(lines))
    for call in (rankql.monitor, partial(rankql.read_values, query="day")):
        for metrics in ({}, {"metrics": "quote"}):
            with pytest.raises(rankql.RankqlError, match="quote have decimal commas, such as 0,60"):
                call(path, **metrics)
    frame = pl.read_csv(path, separator=";", decimal_comma=True)
    assert rankql.monitor(frame).title == "No alarm on 2026-03-01"

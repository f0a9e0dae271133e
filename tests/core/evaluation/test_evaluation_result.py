"""The result of an evaluation: its SQL, exports and files."""

import copy
import os
import pickle
from dataclasses import asdict

import duckdb
import pandas as pd
import polars as pl
import pytest

import rankql
from rankql.core.base.results import ROWS
from rankql.core.evaluation.plan.meta import Meta
from support import metric_engines
from support.own_values import compare_values
from support.parameters import few, slow
from support.samples import METRICS, QRELS, RUN, same, with_segments


@few(1)(
    "options",
    [
        {},
        *map(slow, ({"ties": "best"}, {"unjudged": "remove"})),
        {"ties": "expected", "gain": "exp2"},
        {"metrics": {"own": "avg(rel)"}},
    ],
)
def test_sql_that_ran_runs(options):
    """The SQL of a result, pasted into a connection with the macros, returns its values."""
    con = metric_engines.connect()
    con.register("rankql_run", RUN)
    con.register("rankql_qrels", QRELS)
    metrics = [m for m in METRICS if "ERR" not in m]
    result = rankql.evaluate(RUN, QRELS, **{"metrics": metrics, **options})
    same(con.sql(result.sql).pl()[result.per_query.columns], result.per_query)


def test_conventions_are_part_of_every_result():
    result = rankql.evaluate(RUN, QRELS, "AP@10", conventions="trec_eval")
    for printed in (repr(result), result._repr_html_(), result.to_markdown(), result.to_json()):
        assert "ap_denominator" in printed and "trec_eval" in printed and "float32" in printed


@pytest.mark.slow
def test_parts_in_memory_and_in_files_are_combined(tmp_path):
    metrics, path = [*METRICS, "microR@5"], tmp_path / "values.parquet"
    options = {"by": "segment", "attributes": with_segments()}
    complete = rankql.evaluate(RUN, QRELS, metrics, **options)
    parts = []
    for day in range(3):
        tables = (x.filter(pl.col("query").hash() % 3 == day) for x in (RUN, QRELS))
        file = tmp_path / f"day {day}'s.parquet"
        part = rankql.evaluate(*tables, metrics, output=file, **options)
        assert file.is_file() and part.per_query.height > 0
        parts.append(file if day else part)
    complete.save_values(path)
    for whole in (parts, [path]):
        combined = rankql.combine(whole)
        same(combined.per_query, complete.per_query)
        same(combined.summary, complete.summary)
    listed = rankql.evaluate(RUN, QRELS, "nDCG@5", discounts=[1, 2, 3, 4, 5])
    listed.save_values(path)
    assert rankql.combine(str(path)).conventions == listed.conventions
    other = rankql.evaluate(RUN, QRELS, metrics, ties="best", **options)
    RUN.write_parquet(path)
    for results, message in (
        ([complete, complete], "queries that occur twice"),
        ([complete, other], "different conventions"),
        ([path], "is neither a result nor a file"),
    ):
        with pytest.raises(rankql.RankqlError, match=message):
            rankql.combine(results)


def test_an_error_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "out.parquet"
    rankql.evaluate(RUN, QRELS, "AP", output=path)
    before = path.read_bytes()
    with pytest.raises(rankql.RankqlError, match="undefined='error'"):
        rankql.evaluate(RUN, QRELS, "AP", output=path, undefined="error")
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["out.parquet"]


# The table of a paper: systems or slices as rows, metrics as columns


def run_of(grades, **columns):
    """One query per grade: its item is on top."""
    frame = pl.DataFrame({"query": [f"q{i:02}" for i in range(len(grades))], "rel": grades})
    return frame.with_columns(pos=1, item=pl.lit("i"), **columns)


OLD = run_of([1, 0] * 10, group=pl.Series(["a"] * 10 + ["b"] * 10))
NEW = OLD.with_columns(rel=pl.Series([1, 1] * 9 + [1, 0]))


@pytest.fixture(scope="module")
def comparison():
    runs = {"old": OLD, "new": NEW, "same": OLD}
    return rankql.compare(runs, metrics=["P@1", "CG"], baseline="old", by="group")


def test_the_baseline_comes_first_in_every_slice(comparison):
    table = comparison.wide().table
    marks = [f"{name} marks" for name in ("old", "new", "same")]
    assert table.columns == ["metric", "group", "queries", "old", "new", "same", *marks]
    assert table["group"].to_list() == ["all", "a", "b"] * 2
    assert table.row(0)[:6] == ("P@1", "all", 20, 0.5, 0.95, 0.5)


def test_systems_may_be_columns(comparison):
    runs = {"old": OLD, "new": NEW}
    compared = rankql.compare(runs, metrics=["P@1", "RR"])
    assert compared.wide(rows="system", columns="metric").table.equals(compared.wide().table)
    for turned in (compared, rankql.evaluate(runs, metrics=["P@1", "RR"])):
        table = turned.wide(rows="metric", columns="system").table
        assert table.select("metric", "queries", "old", "new").rows()[0] == ("P@1", 20, 0.5, 0.95)
    marks = compared.wide(rows="metric", columns="system").table["new marks"].to_list()
    assert marks[0] == "†"


def test_marks_agree_with_the_verdicts(comparison):
    table, marks = comparison.wide().table, {"better": "†", "worse": "‡"}
    verdicts = comparison.pairs.filter(metric="P@1")["slice", "b", "verdict"].rows()
    expected = {row[:2]: marks.get(row[2], "") for row in verdicts}
    rows = table.filter(metric="P@1").to_dicts()
    parts = {"all": "all", "a": "group=a", "b": "group=b"}
    found = {(parts[r["group"]], x): r[f"{x} marks"] for r in rows for x in ("old", "new", "same")}
    assert found == expected | {(part, "old"): "" for part in parts.values()}
    assert "†" in found.values() and repr(comparison.wide()).count("0.9500†") == 2


@pytest.mark.parametrize(
    ("convert", "bold"),
    [
        ("to_markdown", "**{}**†"),
        ("to_latex", r"\textbf{{{}}}\textsuperscript{{\dag{{}}}}"),
        ("_repr_html_", "<strong>{}</strong><sup>†</sup>"),
    ],
)
def test_the_best_system_is_bold(comparison, convert, bold):
    printed = getattr(comparison.wide(), convert)()
    assert bold.format("0.9500") in printed and bold.format("0.5000") not in printed


def test_lower_is_better_where_the_metric_says_so():
    values = {name: pl.DataFrame({"user": [1, 2, 3], "wait": wait}) for name, wait in
              {"slow": [3.0, 4, 5], "quick": [1.0, 2, 3]}.items()}  # fmt: skip
    wide = compare_values(values, higher_is_better={"wait": False}).wide()
    assert "**2.0000" in wide.to_markdown() and "**4.0000" not in wide.to_markdown()


def test_equal_means_and_one_system_are_not_bold():
    both = rankql.evaluate({"a": OLD, "b": OLD}, metrics=["P@1"]).wide()
    assert "0.5000" in both.to_markdown() and "**" not in both.to_markdown()
    assert "**" not in rankql.evaluate(OLD, metrics=["P@1"], by="group").wide().to_markdown()


def test_a_long_table_is_cut_in_the_middle_when_printed_but_not_in_files(tmp_path):
    many = run_of([1, 0] * 60, group=pl.int_range(120))
    wide = rankql.evaluate(many, metrics=["P@1"], by="group").wide()
    printed = repr(wide).split("\n\n")[0].split("\n")
    assert len(printed) == ROWS + 2 and "61 more rows" in printed[ROWS // 2 + 1]
    wide.save(tmp_path / "wide.csv")
    assert pl.read_csv(tmp_path / "wide.csv").height == 121
    assert wide.to_latex().count(r"\\") == 122


@few(1)("name", ["slice", "queries"])
def test_a_metric_may_have_the_name_of_another_column(name):
    groups = {"user": [*range(4)], "g": [*"aabb"], name: [1.0, 2.0, 3.0, 4.0]}
    comparison = compare_values(dict.fromkeys("xyz", pl.DataFrame(groups)), by="g")
    assert comparison.table.row(0) == (name, "all", 4, 2.5, 2.5, 2.5)
    one = compare_values({"x": pl.DataFrame(groups)}, by="g")
    assert one.result.wide().table[f"{name} (metric)"].to_list() == [2.5, 1.5, 3.5]


@few(1)("name", ["metric", "queries"])
def test_an_attribute_may_have_the_name_of_another_column(name):
    groups = pl.DataFrame({"user": [*range(4)], name: [*"aabb"], "wait": [1.0, 2.0, 3.0, 4.0]})
    comparison = compare_values(dict.fromkeys("xyz", groups), by=name)
    assert comparison.table[f"by_{name}"].to_list() == ["all", "a", "b"]


@few(1)("by", ["group", ["group"], ()])
def test_latex_of_means_is_one_table_with_caption_and_label(by):
    result = rankql.evaluate({"a": OLD, "b": OLD}, metrics=["P@1", "RR"], by=by)
    for each in (result, result.wide(), rankql.evaluate(OLD, metrics="P@1", by=by)):
        latex = each.to_latex()
        assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 1
        assert latex.count(r"\caption{Means") == latex.count(r"\label{tab:means}") == 1


@pytest.mark.parametrize(("rows", "columns"), [("country", "week"), ("week", "country")])
def test_many_slices_are_under_the_name_of_their_attribute(rows, columns):
    log = [
        (f"q{q}", "abc"[i], i + 1, int((q + i) % 3 == 0), "dfa"[q % 3], f"W{q // 3 % 30:02d}")
        for q in range(270) for i in range(3)
    ]  # fmt: skip
    frame = pl.DataFrame(log, ["query", "item", "pos", "rel", "country", "week"], orient="row")
    result = rankql.evaluate(frame, metrics="nDCG@3", by=["country", "week"])
    printed = repr(result.wide(rows=rows, columns=columns))
    header = printed.split("\n")[0].split()
    assert header[0] == rows and "metric" not in header


# Results know their conventions and judgments; those that differ in these are not compared

FEW_RUN = pl.DataFrame(
    {"query": [*"aabbccdd"], "item": [*"xyxyxyxy"], "score": [2.0, 1, 1, 2, 2, 1, 1, 2]}
)
OTHER = FEW_RUN.with_columns(score=-pl.col("score"))
FEW_QRELS = pl.DataFrame({"query": [*"abcd"], "item": [*"xxyy"], "rel": [1, 2, 1, 1]})
MORE = pl.concat([FEW_QRELS, pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})])


def result_of(run, qrels, how, tmp_path, **options):
    """The result_of in memory, from `output=`, or saved."""
    path = tmp_path / f"{len([*tmp_path.iterdir()])}.parquet"
    if how == "output":
        rankql.evaluate(run, qrels, "nDCG@10", output=path, **options)
        return path
    evaluated = rankql.evaluate(run, qrels, "nDCG@10", **options)
    if how == "saved":
        evaluated.save_values(path)
        return path
    return evaluated


@few(2)("how", ["memory", "output", "saved"])
@pytest.mark.parametrize("other", ["memory", "output"])
def test_different_judgments_are_refused(how, other, tmp_path):
    old, new = result_of(FEW_RUN, FEW_QRELS, how, tmp_path), result_of(OTHER, MORE, other, tmp_path)
    for call in (
        lambda: rankql.compare({"old": old, "new": new}),
        lambda: rankql.gate(new, baseline=old, max_drop="nDCG@10:0.1"),
    ):
        with pytest.raises(rankql.RankqlError, match=r"different judgments.*same qrels"):
            call()


def test_the_order_and_types_of_judgments_do_not_matter(tmp_path):
    old = result_of(FEW_RUN, FEW_QRELS, "output", tmp_path)
    same = FEW_QRELS.reverse().with_columns(pl.col("rel").cast(pl.Float64))
    FEW_QRELS.write_csv(tmp_path / "qrels.csv")
    for qrels in (same, tmp_path / "qrels.csv"):
        new = result_of(OTHER, qrels, "output", tmp_path)
        assert not any("judgments" in n for n in rankql.compare({"old": old, "new": new}).notes)


def test_unknown_judgments_are_noted(tmp_path):
    known = result_of(FEW_RUN, FEW_QRELS, "output", tmp_path)
    values = pl.DataFrame({"query": [*"abcd"], "nDCG@10": [0.1, 0.2, 0.3, 0.5]})
    notes = compare_values({"old": known, "new": values}).notes
    assert any("not known" in note and "new" in note for note in notes)
    frames = {"old": values, "new": values.with_columns(pl.col("nDCG@10") + pl.col("nDCG@10") / 9)}
    assert not any("judgments" in note for note in compare_values(frames).notes)


def test_files_of_later_versions_are_read():
    meta = rankql.evaluate(FEW_RUN, FEW_QRELS, ["nDCG@10", "microP@5"]).meta
    later = asdict(meta) | {"something new": 1}
    assert Meta.from_dict(later) == meta


@pytest.mark.spark
def test_a_result_whose_values_are_elsewhere(tmp_path):
    """It has the means, and says how to get the values where these are needed."""
    from rankql.spark import SparkResult

    ours = rankql.evaluate(RUN, QRELS, ["AP", "RR"], attributes=with_segments(), by="segment")
    about = {"columns": ours.columns, "data_notes": ours.data_notes, "_script": ours.sql}
    result = SparkResult(meta=ours.meta, **about, means=ours.means, values=None)
    assert repr(result) == repr(ours) and result.to_dict().keys() == ours.to_dict().keys()
    assert result["AP"] == ours["AP"] and [*result] == ["AP", "RR"]
    result.save(tmp_path / "means.csv")
    for use in (
        lambda: rankql.compare({"one": result, "two": ours}),
        lambda: rankql.gate(result, baseline=ours, max_drop="AP:0.1"),
        lambda: rankql.combine([result]),
        lambda: rankql.associate(result, with_segments(), on="query"),
    ):
        with pytest.raises(rankql.RankqlError, match=r"are in Spark. Pass result.collect\(\)"):
            use()


@few(1)("change", ["close", "frame", "gain", "pickle", "copy"])
def test_sql_is_written_late_and_stays_the_same(change):
    """It is made of texts and names: neither the tables nor the options are read again."""
    frame = pd.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    judged = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": [1, 2]})
    about = pd.DataFrame({"query": ["a"], "segment": ["new"]})
    gain = {0: 0, 1: 1, 2: 3}

    def evaluate(con):
        con.execute("CREATE OR REPLACE TABLE qrels AS FROM judged")
        options = {"con": con, "gain": gain, "by": "segment"}
        return rankql.evaluate(frame, "qrels", ["nDCG@2", "AP"], attributes=about, **options)

    con = duckdb.connect()
    con.register("judged", judged)
    early, late = evaluate(con), evaluate(con)
    expected = early.sql, dict(early.steps)
    if change == "close":
        con.close()
    elif change == "frame":
        frame["score"] = ["a", "b"]
        frame.columns = ["other", "names", "now"]
        con.execute("DROP TABLE qrels")
    elif change == "gain":
        gain.update({0: 7, 1: 7})
    elif change == "pickle":
        late = pickle.loads(pickle.dumps(late))
    else:
        late = copy.deepcopy(late)
    assert (late.sql, dict(late.steps)) == expected

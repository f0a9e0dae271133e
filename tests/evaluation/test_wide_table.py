"""The table of a paper: systems or slices as rows, metrics as columns."""

import polars as pl
import pytest

import rankql
from rankql.text import ROWS


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
    means = ["P@1", "P@1 marks", "CG", "CG marks"]
    assert table.columns == ["slice", "system", "queries", *means]
    assert table["system"].to_list() == ["old", "new", "same"] * 3
    assert table["slice"].to_list() == ["all"] * 3 + ["group=a"] * 3 + ["group=b"] * 3
    assert table["P@1"].to_list()[:3] == [0.5, 0.95, 0.5]


def test_marks_agree_with_the_verdicts(comparison):
    table, marks = comparison.wide().table, {"better": "†", "worse": "‡"}
    verdicts = comparison.pairs.filter(metric="P@1")["slice", "b", "verdict"].rows()
    expected = {row[:2]: marks.get(row[2], "") for row in verdicts}
    found = {row[:2]: row[2] for row in table["slice", "system", "P@1 marks"].rows()}
    assert found == expected | {(part, "old"): "" for part in table["slice"]}
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
    wide = rankql.compare(values, higher_is_better={"wait": False}).wide()
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


@pytest.mark.parametrize("name", ["slice", "queries"])
def test_a_metric_may_have_the_name_of_another_column(name):
    groups = {"user": [*range(4)], "g": [*"aabb"], name: [1.0, 2.0, 3.0, 4.0]}
    comparison = rankql.compare(dict.fromkeys("xyz", pl.DataFrame(groups)), by="g")
    assert comparison.table[f"{name} (metric)"].to_list()[:3] == [2.5] * 3
    assert f"{name} (metric)" in repr(comparison)


@pytest.mark.parametrize("by", ["group", ["group"], ()])
def test_latex_of_means_is_one_table_with_caption_and_label(by):
    result = rankql.evaluate({"a": OLD, "b": OLD}, metrics=["P@1", "RR"], by=by)
    for each in (result, result.wide(), rankql.evaluate(OLD, metrics="P@1", by=by)):
        latex = each.to_latex()
        assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 1
        assert latex.count(r"\caption{Means") == latex.count(r"\label{tab:means}") == 1


def by_country_and_week(weeks=12):
    rows = [
        (f"q{q}", "abc"[i], i + 1, int((q + i) % 3 == 0), ["de", "fr", "at"][q % 3],
         f"2026-W{q // 3 % weeks + 1:02d}")
        for q in range(9 * weeks) for i in range(3)
    ]  # fmt: skip
    names = ["query", "item", "pos", "rel", "country", "week"]
    frame = pl.DataFrame(rows, names, orient="row")
    return rankql.evaluate(frame, metrics="nDCG@3", by=["country", "week"])


@pytest.mark.parametrize(("rows", "columns"), [("country", "week"), ("week", "country")])
def test_many_slices_are_under_the_name_of_their_attribute(rows, columns):
    printed = repr(by_country_and_week(30).wide(rows=rows, columns=columns))
    header = printed.split("\n")[0].split()
    assert header[0] == rows and "metric" not in header

"""The table of a paper: systems or slices as rows, metrics as columns."""

import polars as pl
import pytest

import rankql
from rankql.results import ROWS


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
    assert table.columns == ["slice", "system", "queries", "P@1", "CG"]
    assert table["system"].to_list() == ["old", "new", "same"] * 3
    assert table["slice"].to_list() == ["all"] * 3 + ["group=a"] * 3 + ["group=b"] * 3
    assert table["P@1"].to_list()[:3] == [0.5, 0.95, 0.5]


def test_marks_agree_with_the_verdicts(comparison):
    marked = {
        (line[2], line[1]) for line in map(str.split, repr(comparison.wide()).split("\n"))
        if "0.9500†" in line or "0.9000†" in line or "1.0000†" in line
    }  # fmt: skip
    better = comparison.table.filter(pl.col("verdict") == "better")
    assert len(marked) == better["slice"].n_unique() > 0


@pytest.mark.parametrize(
    ("convert", "bold"),
    [
        ("to_markdown", "**{}**"),
        ("to_latex", r"\textbf{{{}}}"),
        ("_repr_html_", "<strong>{}</strong>"),
    ],
)
def test_the_best_system_is_bold(comparison, convert, bold):
    printed = getattr(comparison.wide(), convert)()
    assert bold.format("0.9500†") in printed and bold.format("0.5000") not in printed


def test_lower_is_better_where_the_metric_says_so():
    values = {name: pl.DataFrame({"user": [1, 2, 3], "wait": wait}) for name, wait in
              {"slow": [3.0, 4, 5], "quick": [1.0, 2, 3]}.items()}  # fmt: skip
    wide = rankql.compare(values, higher_is_better={"wait": False}).wide()
    assert "**2.0000" in wide.to_markdown() and "**4.0000" not in wide.to_markdown()


def test_equal_best_means_are_all_bold_and_one_system_is_not():
    both = rankql.evaluate({"a": OLD, "b": OLD}, metrics=["P@1"]).wide()
    assert both.to_markdown().count("**0.5000**") == 2
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
def test_a_metric_with_the_name_of_another_column_is_refused(name):
    values = {x: pl.DataFrame({"user": [1, 2], name: [1.0, 2.0]}) for x in ("old", "new")}
    comparison = rankql.compare(values, higher_is_better=True)
    with pytest.raises(rankql.RankqlError, match=repr(name)):
        comparison.wide()

"""The end of a question: the columns, two values of each, and a call with blanks."""

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.core.base.errors import RankqlError
from support.parameters import few
from support.reading import asked, read

NAMES = [("foo", "bar", "baz"), ("kysely", "osuma", "pisteet"), ("zoekvraag", "treffer", "waarde")]
ROWS = {"query": ["a", "a", "b"], "item": ["x", "y" * 40, "z\n1"], "score": [3.0, 2.5, 1.0]}
GOLD = {"query": ["a", "b"], "item": ["y" * 40, "z\n1"], "rel": [1, 2]}


@few(2)("names", NAMES)
def test_each_column_has_its_type_and_two_values(names):
    query, item, score = names
    run = pl.DataFrame(ROWS).rename({"query": query, "item": item, "score": score})
    gold = pl.DataFrame(GOLD).rename({"query": query, "item": item})
    question = asked(run, gold)
    assert question.columns == (
        f"run has {query} VARCHAR (a, b), {item} VARCHAR (x, {'y' * 27}...), {score} DOUBLE "
        f"(3.0, 2.5); qrels has {query} VARCHAR (a, b), {item} VARCHAR ({'y' * 27}..., z 1), "
        "rel BIGINT (1, 2)"
    )
    assert str(question).endswith(
        f"{question.columns}. Fill in: query='...', item='...', score='...'"
    )
    filled = dict(zip(question.blanks, names, strict=True))
    assert question.readings[question.calls.index(filled)]["RR"] == 0.75


def test_one_shared_name_and_lists():
    run = pl.DataFrame({"case": ["a", "b"], "given": [["x", "y"], ["z"]], "wanted": [["y"], ["z"]]})
    question = asked(run)
    assert question.blanks == {"query": "...", "item": ["...", "..."]}
    filled = {"query": "case", "item": ["given", "wanted"]}
    assert read(run, **filled)["RR"] == 0.75
    gold = run.select("case", "wanted")
    question = asked(run.drop("wanted"), gold)
    assert "gold" not in question.columns
    assert question.blanks == {"query": "...", "item": "..."}


def test_at_most_twelve_columns_are_listed():
    wide = pl.DataFrame({f"c{i}x": ["t"] for i in range(14)})
    columns = asked(wide).columns
    assert columns.count(" VARCHAR (t)") == 12 and ", and 2 more" in columns


def test_values_that_may_not_be_read_are_not_listed(tmp_path):
    frame = pl.DataFrame({"foo": ["a"], "bar": ["x"], "baz": [1.0]})
    frame.write_parquet(tmp_path / "frame.parquet")
    assert asked(pl.scan_parquet(tmp_path / "frame.parquet"), frame).columns == ""
    with pytest.raises(RankqlError) as error:
        rankql.check(frame, frame)
    assert error.value.columns == ""


def test_questions_that_are_not_about_columns_end_as_before():
    ascending = pl.DataFrame({"query": [*"aaabbb"], "item": [*"xyzxyz"], "score": [*range(6)]})
    gold = pl.DataFrame({"query": [*"ab"], "item": [*"xy"], "rel": [1, 1]})
    runs = ascending.with_columns(score=pl.Series([1, 2, 3, 1, 2, 3]))
    more = pl.concat([runs.with_columns(query=f"{i}" + pl.col("query")) for i in range(9)])
    question = asked(more, gold.with_columns(query="0" + pl.col("query")))
    assert (
        str(question).endswith("Pass descending=False or descending=True") and not question.columns
    )


def test_the_command_line_has_options(tmp_path):
    run, gold = tmp_path / "run.csv", tmp_path / "gold.csv"
    pl.DataFrame({"foo": ["a"], "bar": ["x"], "baz": [1.5]}).write_csv(run)
    pl.DataFrame({"foo": ["a"], "bar": ["x"], "rel": [1]}).write_csv(gold)
    result = CliRunner().invoke(main, ["eval", str(run), str(gold)])
    assert "run has foo VARCHAR (a), bar VARCHAR (x), baz DOUBLE (1.5)" in result.stderr
    assert result.stderr.strip().endswith("Fill in: --query ... --item ... --score ...")

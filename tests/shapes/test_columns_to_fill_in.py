"""The end of a question: a call with blanks, and the columns with two values of each."""

import json
import textwrap

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.command import write_options
from rankql.cli.main import main
from rankql.core.base.errors import RankqlError
from support.parameters import few
from support.paths import ROOT
from support.reading import asked, read

NAMES = [("foo", "bar", "baz"), ("kysely", "osuma", "pisteet"), ("zoekvraag", "treffer", "waarde")]
ROWS = {"query": ["a", "a", "b"], "item": ["x", "y" * 40, "z\n1"], "score": [3.0, 2.5, 1.0]}
GOLD = {"query": ["a", "b"], "item": ["y" * 40, "z\n1"], "rel": [1, 2]}
NESTED = [
    {"ask": ask, "hits": [{"title": "T", "page": 3, "doc_id": "x"}], "data": {"a": {"ids": ["x"]}}}
    for ask in "ab"
]


def table_of(question):
    """The lines below the calls."""
    return str(question).rpartition("\n\n")[2].splitlines()


@few(2)("names", NAMES)
def test_each_column_has_its_type_and_two_values(names):
    query, item, score = names
    run = pl.DataFrame(ROWS).rename({"query": query, "item": item, "score": score})
    gold = pl.DataFrame(GOLD).rename({"query": query, "item": item})
    question = asked(run, gold)
    width = max(map(len, names))
    long = "y" * 27 + "..."
    assert table_of(question) == [
        f"run    {query:{width}}  text   a, b",
        f"       {item:{width}}  text   x, {long}",
        f"       {score:{width}}  float  3.0, 2.5",
        f"qrels  {query:{width}}  text   a, b",
        f"       {item:{width}}  text   {long}, z 1",
        f"       {'rel':{width}}  int    1, 2",
    ]
    assert question.blanks == {"query": "...", "item": "...", "score": "..."}
    filled = dict(zip(question.blanks, names, strict=True))
    assert question.readings[question.calls.index(filled)]["RR"] == 0.75


def test_a_question_is_read_at_a_glance():
    races = {"race_id": [1, 1, 2], "horse_id": [11, 12, 11], "pred_score": [0.2, 0.9, 0.5]}
    question = asked(pl.DataFrame(races), match="No query column in run")
    assert str(question) == textwrap.dedent("""\
        No query column in run.

        Fill in:
            query='...', item='...', score='...', rel='...'

        By hand, two dicts: {query: [ids in order] or {id: score}} and \
{query: [ids] or {id: grade}}. See docs/by-hand.md#columns

        run  race_id     int    1, 2
             horse_id    int    11, 12
             pred_score  float  0.2, 0.9""")


def test_a_question_without_a_call_names_a_row_of_the_page():
    """By the types of its tables, or by the one role that is open; with a call, none is named."""
    page = (ROOT / "docs" / "by-hand.md").read_text("utf-8")
    ids = pl.DataFrame({"query": [*"ab"], "item": [*"xy"], "note": [*"uv"]})
    for data, row in (
        ([{"ask": "a", "hits": [{"k": "x"}], "want": [{"c": "y"}]}], "objects"),
        ({"a": [1], "foo": [["x"]], "bar": [["y"]], "baz": [["z"]]}, "sql-list"),
        ({"foo": ["a", "a"], "bar": ["x", "x"], "baz": [1.0, 1.0]}, "columns"),
        (ids.with_columns(score=pl.Series([2.0, 1.0])), "condition"),
        (ids.with_columns(score=pl.Series([2.0, 1.0]), rel="note"), "words"),
    ):
        with pytest.raises(RankqlError) as caught:
            rankql.evaluate(data if isinstance(data, list) else pl.DataFrame(data), metrics="RR")
        error = caught.value
        assert error.row == row and f'<a id="{row}"></a>' in page
        assert "two dicts: {query: [ids in order] or {id: score}}" in str(error)
        assert f"docs/by-hand.md#{row}" in str(error)
        assert "--item A,B" in error.format(write_options) and "dicts" not in error.format(repr)
    question = asked(pl.DataFrame(ROWS).rename({"query": "foo"}), pl.DataFrame(GOLD))
    assert question.calls and "by-hand" not in str(question)


def test_roles_that_are_read_need_no_blank():
    run = pl.DataFrame({"query": [*"ab"], "item": [*"xy"], "score": [2.0, 1], "note": [*"uv"]})
    assert asked(run).blanks == {"rel": "..."}


def test_one_shared_name_and_lists():
    run = pl.DataFrame({"case": ["a", "b"], "given": [["x", "y"], ["z"]], "wanted": [["y"], ["z"]]})
    question = asked(run)
    assert question.blanks == {"query": "...", "item": ["...", "..."]}
    assert table_of(question)[1:] == [
        "     given   list of text  x, y",
        "     wanted  list of text  y, z",
    ]
    filled = {"query": "case", "item": ["given", "wanted"]}
    assert read(run, **filled)["RR"] == 0.75
    gold = run.select("case", "wanted")
    question = asked(run.drop("wanted"), gold)
    assert {x.table for x in question.columns} == {"run", "qrels"}
    assert question.blanks == {"query": "...", "item": "..."}


def test_fields_are_the_paths_that_item_takes():
    assert table_of(asked(NESTED[:1] * 2)) == [
        "run  ask          text          a",
        "     hits.doc_id  list of text  x",
        "     hits.title   list of text  T",
        "     hits.page    list of int   3",
        "     data.a.ids   list of text  x",
    ]
    assert read(NESTED, None, "RR", query="ask", item=["hits.doc_id", "data.a.ids"])["RR"] == 1


@pytest.mark.slow
def test_at_most_eight_columns_are_listed():
    wide = pl.DataFrame({f"c{i}x": ["t"] for i in range(14)})
    lines = table_of(asked(wide))
    assert len(lines) == 9 and lines[-1] == "Also in run: c8x, c9x, c10x, c11x, c12x, c13x"
    lines = table_of(asked(wide, wide.rename(lambda x: f"q{x}")))
    assert [x[:5].strip() for x in lines] == ["run", "", "", "", "qrels", "", "", "", "Also"]
    assert "in run: c4x, " in lines[-1] and "; in qrels: qc4x, " in lines[-1]
    assert [x[:5].strip() for x in table_of(asked(wide, pl.DataFrame(GOLD)))].index("qrels") == 5


def test_values_that_may_not_be_read_are_not_listed(tmp_path):
    frame = pl.DataFrame({"foo": ["a"], "bar": ["x"], "baz": [1.0]})
    frame.write_parquet(tmp_path / "frame.parquet")
    question = asked(pl.scan_parquet(tmp_path / "frame.parquet"), frame)
    assert not question.columns and table_of(question)[0] == "Found: foo, bar, baz"
    with pytest.raises(RankqlError) as error:
        rankql.check(frame, frame)
    assert error.value.columns == []


def test_questions_that_are_not_about_columns_list_none():
    ascending = pl.DataFrame({"query": [*"aaabbb"], "item": [*"xyzxyz"], "score": [*range(6)]})
    gold = pl.DataFrame({"query": [*"ab"], "item": [*"xy"], "rel": [1, 1]})
    runs = ascending.with_columns(score=pl.Series([1, 2, 3, 1, 2, 3]))
    more = pl.concat([runs.with_columns(query=f"{i}" + pl.col("query")) for i in range(9)])
    question = asked(more, gold.with_columns(query="0" + pl.col("query")))
    assert not question.columns
    assert table_of(question) == ["Pass one of:", "    descending=False", "    descending=True"]


def test_the_command_line_has_options(tmp_path):
    run, gold = tmp_path / "run.csv", tmp_path / "gold.json"
    pl.DataFrame({"foo": ["a"], "bar": ["x"], "baz": [1.5]}).write_csv(run)
    gold.write_text(json.dumps([{"foo": "b", "bar": "x", "rel": 1}]))
    lines = CliRunner().invoke(main, ["eval", str(run), str(gold)]).stderr.splitlines()
    assert lines[0] == "rankql: No query column in run."
    assert "    --query ... --item ... --score ..." in lines
    assert "run    foo  text   a" in lines and "       baz  float  1.5" in lines

"""Words of other tools, which errors answer."""

import re

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support.parameters import few

RUN = pl.DataFrame({
    "kunde": ["a", "a", "b", "b"], "artikel": ["x", "y", "x", "y"], "score": [2.0, 1, 2, 1],
})  # fmt: skip
QRELS = pl.DataFrame({"kunde": ["a", "b"], "artikel": ["y", "x"], "rel": [1, 1]})
NAMES = {"query": "kunde", "item": "artikel"}


@pytest.fixture
def command(tmp_path):
    """Evaluate the tables as files; without the names of their columns for `[:5]`."""
    paths = [str(tmp_path / name) for name in ("run.csv", "qrels.csv")]
    for frame, path in zip((RUN, QRELS), paths, strict=True):
        frame.write_csv(path)
    return ["eval", *paths, "-m", "RR", "--query", "kunde", "--item", "artikel"]


@pytest.mark.parametrize(
    ("word", "remedy"), [("user", "query="), ("doc", "item="), ("product", "item=")]
)
def test_a_role_has_one_word(word, remedy, command):
    for function in (rankql.evaluate, rankql.compare, rankql.check):
        with pytest.raises(RankqlError, match=rf"Unknown option '{word}'\. .*{remedy}"):
            function(RUN, QRELS, **{word: "kunde"})
    wrong = CliRunner().invoke(main, [*command[:5], f"--{word}", "kunde"])
    assert wrong.exit_code == 2 and f"--{remedy[:-1]}" in wrong.stderr


def test_a_group_is_a_ranking_or_a_slice():
    for function in (rankql.evaluate, rankql.check):
        with pytest.raises(RankqlError, match=r"'group'\. query= ranks within it"):
            function(RUN, QRELS, group="kunde")


def test_a_known_name_of_a_column_is_no_option():
    """Who passes qid= means the column of the queries."""
    for word, role in {"qid": "query", "docid": "item", "relevance": "rel", "rank": "pos"}.items():
        for function in (rankql.evaluate, rankql.compare, rankql.check):
            error = rf"Unknown option '{word}'\. Pass the column as {role}=$"
            with pytest.raises(RankqlError, match=error):
                function(RUN, QRELS, **{word: "kunde"})


def test_words_of_the_command_line(command):
    wrong = CliRunner().invoke(main, [*command[:5], "--group", "kunde"])
    assert wrong.exit_code == 2
    assert "No such option '--group'. --query ranks within it, --by gives slices." in wrong.stderr


def test_the_functions_of_bigquery_come_first(tmp_path):
    command = ["sql", "my_run", "my_qrels", "-m", "RR", "--dialect", "bigquery"]
    done = CliRunner().invoke(main, command)
    assert "`dataset`.rr(" in done.stdout
    first = "Create the functions first: rankql sql --engine bigquery --schema"
    assert f"{first} DATASET. Here `dataset` is a placeholder: pass --schema" in done.stderr
    named = CliRunner().invoke(main, [*command, "--schema", "shop"])
    assert "`shop`.rr(" in named.stdout and named.stderr == f"{first} shop\n"


@few(1)(
    ("arguments", "remedy"),
    [
        (["-c"], "--missing zero counts queries that the run lacks as 0."),
        (["-l", "2"], "--threshold is the lowest grade that is relevant."),
        (["--cutoff", "5"], "Write the cutoff in the metric: nDCG@10."),
        (["--qid=kunde"], "Pass the column as --query."),
    ],
)
def test_an_option_of_another_tool_is_answered(command, arguments, remedy):
    wrong = CliRunner().invoke(main, [*command, *arguments])
    option = arguments[0].partition("=")[0]
    assert wrong.exit_code == 2 and f"No such option '{option}'. {remedy}" in wrong.stderr
    for works in (["--missing", "zero"], ["--threshold", "2"]):
        assert CliRunner().invoke(main, [*command, *works]).exit_code == 0
    other = CliRunner().invoke(main, [*command, "--conventoins", "trec_eval"])
    assert "--conventions" in other.stderr and "--missing" not in other.stderr


def test_a_function_of_another_name_is_answered():
    with pytest.raises(
        AttributeError, match=r"rankql has no 'interleave'\. Use rankql.team_draft$"
    ):
        _ = rankql.interleave
    with pytest.raises(AttributeError, match=r"rankql has no 'evalute'\. Use rankql.evaluate$"):
        _ = rankql.evalute
    with pytest.raises(AttributeError, match=r"rankql has no 'items'$"):  # many have the word
        _ = rankql.items
    assert callable(rankql.team_draft)
    draft = CliRunner().invoke(main, ["interleave", "a.run", "b.run"])
    answer = "No such command 'interleave'. Did you mean rankql.team_draft in Python?"
    assert answer in draft.stderr
    assert "Did you mean 'compare'?" in CliRunner().invoke(main, ["comparr"]).stderr


def test_an_attribute_of_another_name_is_answered():
    result = rankql.evaluate(RUN, QRELS, "RR", **NAMES)
    with pytest.raises(AttributeError, match=r"Result has no attribute 'sumary'\. Did you mean 's"):
        _ = result.sumary
    comparison = rankql.compare({"a": RUN, "b": RUN}, QRELS, "RR", **NAMES)
    error = r"Comparison has no attribute 'losers'\. .*Available: .*differences, .*leaderboard"
    with pytest.raises(AttributeError, match=error):
        _ = comparison.losers
    assert not hasattr(result, "_hidden") and not hasattr(result, "tolist")


def test_a_function_names_its_arguments():
    log = RUN.with_columns(klick=1, propensity=0.5)
    with pytest.raises(
        TypeError, match=r"^debiased takes click=, .*by=: got an unexpected .*query"
    ):
        rankql.debiased(log, query="kunde", click="klick")
    assert rankql.debiased(log, by=["kunde", "artikel"], click="klick").height == 4


def test_metrics_may_be_a_set():
    """As pytrec_eval takes them; they are sorted, because a set has no order."""
    result = rankql.evaluate(RUN, QRELS, {"map", "P_5", "RR"}, **NAMES)
    assert result.metrics == ["P_5", "RR", "map"]


def test_sets_of_metrics_are_answered_by_a_list():
    with pytest.raises(RankqlError, match="'all_trec' of trec_eval: sets of measures") as error:
        rankql.evaluate(RUN, QRELS, "all_trec", **NAMES)
    metrics = re.search("such as (.*)$", str(error.value))[1]
    result = rankql.evaluate(RUN, QRELS, metrics, **NAMES)
    assert len(result.metrics) == 7


def test_the_command_line_has_a_caption_of_ones_own(command, tmp_path):
    caption = r"\textbf{Kunden} in Bonn"
    command = [*command, "--caption", caption]
    for more in ([], ["--quiet"], ["--long"]):
        printed = CliRunner().invoke(main, [*command, *more, "--format", "latex"])
        assert f"\\caption{{{caption}}}" in printed.stdout, printed.output
    file = tmp_path / "table.tex"
    assert CliRunner().invoke(main, [*command, "-o", str(file)]).exit_code == 0
    assert f"\\caption{{{caption}}}" in file.read_text()
    assert "--caption is for LaTeX" in CliRunner().invoke(main, command).output


def test_a_typo_has_one_suggestion(command):
    for name, close in (("nDGC@10", "'nDCG'"), ("precison@5", "'Precision'"), ("zzz", "")):
        with pytest.raises(RankqlError) as error:
            rankql.evaluate(RUN, QRELS, name, **NAMES)
        hint = f" Did you mean {close}?" if close else ""
        lists = "rankql.metrics(), or `rankql metrics`, lists all"
        assert str(error.value) == f"Unknown metric {name.partition('@')[0]!r}.{hint} {lists}"
    wrong = CliRunner().invoke(main, [*command, "--conventions", "trec_evl"])
    assert "unknown tool 'trec_evl'. Did you mean 'trec_eval'?" in wrong.stderr
    listed = CliRunner().invoke(main, ["metrics", "--tools"]).stdout
    assert "trec_eval 9" in listed and len(listed.splitlines()) == 20


def test_an_old_name_leads_to_the_one_of_today():
    result = rankql.check(RUN, QRELS, **NAMES)
    assert result.passed and isinstance(result, rankql.CheckResult)
    with pytest.raises(AttributeError, match=r"has no attribute 'ok'\. It is passed now"):
        _ = result.ok
    with pytest.raises(AttributeError, match=r"no 'Report'\. Use rankql\.CheckResult"):
        _ = rankql.Report

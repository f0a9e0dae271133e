"""Ranks of first hits, one per query: read as reciprocal ranks, or as they are if named."""

import json

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support.parameters import few

TOPICS = [f"t{n}" for n in range(24)]
FOUND = [2] * 24
BETTER = [1] * 22 + [None] * 2
CALL = "by RR, pass\n    rel='1', pos='firstRelevantRank'\nTo read the ranks"


def frame(ranks, name="firstRelevantRank"):
    return pl.DataFrame({"topic": TOPICS, name: ranks}, schema_overrides={name: pl.Int64})


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, ranks in (("a", FOUND), ("b", BETTER)):
        frame(ranks).write_csv(f"{name}.csv")
    return {"a": "a.csv", "b": "b.csv"}


@few(2)("name", ["hit_rank", "firstRelevantRank", "first_relevant_rank", "best.rank", "rank"])
def test_ranks_of_first_hits_are_asked_about(name):
    ranks = frame([3, *BETTER[1:]], name)
    with pytest.raises(RankqlError, match=f"rel='1', pos='{name}'"):
        rankql.read_values(ranks)
    mean = rankql.evaluate(ranks, None, "RR", rel="1", pos=name)["RR"]
    assert mean == pytest.approx((1 / 3 + 21) / 24)


def test_gate_asks_where_no_limit_names_them(files):
    """The mean of ranks that were found would have failed the better one."""
    for run, baseline in (("b.csv", "a.csv"), (frame(BETTER), frame(FOUND))):
        with pytest.raises(RankqlError, match="rel='1', pos='firstRelevantRank'"):
            rankql.gate(run, baseline=baseline)
    assert rankql.gate("b.csv", baseline="a.csv", max_drop={"firstRelevantRank": 2}).table["n"][0]
    columns = {"rel": "1", "pos": "firstRelevantRank"}
    verdict = rankql.gate("b.csv", baseline="a.csv", max_drop={"RR": 0.05}, **columns)
    assert verdict.table["difference"][0] == pytest.approx(22 / 24 - 0.5)


@few(2)("name", ["reciprocal_rank", "pageRank", "percentile_rank", "frank", "rank_hits"])
def test_other_names_are_read(name):
    assert rankql.read_values(frame(FOUND, name))[name] == 2


def test_means_of_ranks_are_read():
    ranks = pl.DataFrame({"topic": TOPICS, "hit_rank": [1.5, *[2.0] * 23]})
    assert rankql.read_values(ranks)["hit_rank"] == pytest.approx(47.5 / 24)
    zeros = pl.DataFrame({"topic": TOPICS, "hit_rank": [0, *FOUND[1:]]})
    assert rankql.read_values(zeros)["hit_rank"] == pytest.approx(46 / 24)


def test_files_and_frames_are_asked_about(files, tmp_path):
    for systems in (files, {"a": frame(FOUND), "b": frame(BETTER)}):
        with pytest.raises(RankqlError, match=CALL):
            rankql.compare(systems)
    rows = [{"topic": x, "firstRelevantRank": y} for x, y in zip(TOPICS, BETTER, strict=True)]
    (tmp_path / "report.json").write_text(json.dumps({"per_case": rows, "n": 24}))
    with pytest.raises(RankqlError, match=CALL):
        rankql.read_values("report.json")
    printed = CliRunner().invoke(main, ["compare", *files.values()])
    assert printed.exit_code == 2
    assert "--pos firstRelevantRank" in printed.output


@pytest.mark.parametrize("in_files", [False, True])
def test_compare_takes_them_as_positions(files, in_files):
    systems = files if in_files else {"a": frame(FOUND), "b": frame(BETTER)}
    result = rankql.compare(systems, None, "RR", rel="1", pos="firstRelevantRank")
    means = dict(result.summary.select("system", "mean").rows())
    assert means == pytest.approx({"a": 0.5, "b": 22 / 24})
    assert result.title.startswith("Is b better than a? Undecided: +0.417 RR")
    assert not any("top position" in note for note in result.notes)


def test_named_files_are_compared_as_ranks_and_the_title_names_the_misses(files):
    name = "firstRelevantRank"
    result = rankql.compare(files, metrics=name, higher_is_better=False)
    assert result.title.endswith(f"; 2 of 24 queries left out, without a {name} in a system")
    values = {x: rankql.read_values(path, metrics=name) for x, path in files.items()}
    assert rankql.compare(values, higher_is_better=False).title == result.title
    arguments = ["compare", *files.values(), "-m", name, "--lower-is-better", name]
    assert result.title in CliRunner().invoke(main, arguments).output.replace("\n", " ")


def test_a_run_whose_top_is_missing_keeps_its_note():
    rows = {"query": ["a", "a", "b", "b"], "item": [*"wxyz"], "pos": [2, 3, 2, 3]}
    run, judged = pl.DataFrame(rows), pl.DataFrame(rows).select("query", "item", rel=1)
    assert any("the top position" in x for x in rankql.evaluate(run, judged, "RR").notes)

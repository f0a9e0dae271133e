"""--qrels FILE names the judgments, which else are the last file."""

import pytest
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support.parameters import few

COMMANDS = [
    "eval run.csv", "eval run.csv other.csv", "compare run.csv other.csv", "check run.csv",
    "explain run.csv", "explain run.csv --of a", "gate run.csv --min nDCG@10>=0.1",
    "min-scores run.csv -m RR", "funnel a=run.csv b=other.csv",
]  # fmt: skip


def run_cli(command):
    result = CliRunner().invoke(main, command.split())
    return result.exit_code, result.stdout, result.stderr


@few(2)("command", COMMANDS)
def test_judgments_may_be_named(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{query},{item},{score}\n" for query in "abc" for item, score in (("x", 1), ("y", 2))]
    for name in ("run", "other"):
        (tmp_path / f"{name}.csv").write_text("query,item,score\n" + "".join(rows))
    (tmp_path / "gold.csv").write_text("query,item,rel\na,x,1\nb,y,1\nc,x,0\nc,y,0\n")
    option, last = run_cli(f"{command} --qrels gold.csv"), run_cli(f"{command} gold.csv")
    assert option == last and last[0] in (0, 1, 3), last
    if command.startswith("gate"):
        code, _, printed = run_cli(f"{command} gold.csv --qrels gold.csv")
        assert code == 2 and "named twice" in printed


def test_runs_of_one_file_name_are_called_like_their_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, score in (("bm25", 1), ("dense", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nq.run").write_text(f"q Q0 a 1 {score} x\nq Q0 b 2 1.5 x\n")
    (tmp_path / "nq.qrels").write_text("q 0 a 1\n")
    files = ["bm25/nq.run", "dense/nq.run"]
    printed = CliRunner().invoke(main, ["eval", *files, "nq.qrels", "-m", "RR", "--format", "csv"])
    assert "bm25,all,RR,0.5," in printed.stdout and "dense,all,RR,1.0," in printed.stdout
    named = ["eval", *(f"a={x}" for x in files), "nq.qrels", "-m", "RR"]
    assert "Two runs have the same name. Name each run" in CliRunner().invoke(main, named).stderr
    same = ["eval", files[0], files[0], "nq.qrels", "-m", "RR"]
    assert "Two runs have the same name. Name each run" in CliRunner().invoke(main, same).stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [("Hits@3", "closest in rankql: Success@3"), ("p-MRR", "'p-MRR' of FollowIR")],
)
def test_names_of_other_tools_keep_their_cutoff(name, message):
    with pytest.raises(RankqlError, match=message):
        rankql.evaluate({"a": {"x": 1.0}}, {"a": {"x": 1}}, name)

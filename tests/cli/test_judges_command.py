"""rankql judges, and --judge of eval and compare, print what the functions return."""

import json

import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.judged_runs import simulated


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judges")
    names = ("run", "human", "llm")
    for name, frame in zip(names, simulated()[:3], strict=True):
        frame.write_parquet(folder / f"{name}.parquet")
    return {name: str(folder / f"{name}.parquet") for name in names}


def run(*arguments):
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.output


def test_the_report_card(files):
    code, printed = run("judges", files["human"], f"gpt={files['llm']}", "--run", files["run"])
    assert code == 0
    report = rankql.judges({"gpt": files["llm"]}, files["human"], {"run": files["run"]})
    assert printed == f"{report!r}\n"
    arguments = ("judges", files["human"], files["llm"], "--format", "json", "--threshold", "2")
    assert json.loads(run(*arguments)[1])["threshold"] == 2


def test_two_judges_need_two_names(files):
    code, printed = run("judges", files["human"], files["llm"], files["llm"])
    assert code == 2
    assert "same name" in printed


@pytest.mark.parametrize(
    ("command", "names", "options"),
    [
        ("eval", [""], ["-m", "P@3"]),
        ("compare", ["a=", "b="], ["-m", "P@3"]),
        ("gate", [""], ["--min", "P@3>=0.1"]),
    ],
)
def test_means_corrected_by_a_judge(files, command, names, options):
    runs = [f"{name}{files['run']}" for name in names]
    code, printed = run(command, *runs, files["human"], "--judge", files["llm"], *options)
    assert code == 0
    assert "corrected by the judge" in printed

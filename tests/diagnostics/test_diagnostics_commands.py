"""The commands print what the functions return."""

import json

import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.judged_runs import simulated

COMMANDS = {
    "funnel first=run last=other qrels -k 3": lambda run, other, qrels: rankql.funnel(
        {"first": run, "last": other}, qrels, 3
    ),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, tmp_path):
    run, qrels, *_ = simulated(30, 30)
    other = run.with_columns(score=-run["score"])
    paths = {name: str(tmp_path / f"{name}.parquet") for name in ("run", "other", "qrels")}
    for path, table in zip(paths.values(), (run, other, qrels), strict=True):
        table.write_parquet(path)
    arguments = [
        f"{name}={paths[file]}" if name and file in paths else paths.get(word, word)
        for word in command.split()
        for name, _, file in [word.rpartition("=")]
    ]
    expected = COMMANDS[command](*paths.values())
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0 and done.stdout == repr(expected) + "\n"
    done = CliRunner().invoke(main, [*arguments, "--format", "json"])
    assert json.loads(done.stdout) == json.loads(expected.to_json())

"""Retired names say what to use instead, and are not public any more."""

import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.retired import RETIRED


def test_the_table_is_short():
    assert len(RETIRED) <= 40


@pytest.mark.parametrize("name", [name for name in RETIRED if name.isidentifier()])
def test_names(name):
    assert not hasattr(rankql, name) and name not in rankql.__all__
    with pytest.raises(rankql.RankqlError) as error:
        getattr(rankql, name)
    assert name in str(error.value) and RETIRED[name] in str(error.value)


@pytest.mark.parametrize("name", [name for name in RETIRED if name.startswith("rankql ")])
def test_commands(name):
    command = name.removeprefix("rankql ")
    assert command not in main.commands
    done = CliRunner().invoke(main, [command, "--help"])
    assert done.exit_code == 2 and RETIRED[name] in done.stderr

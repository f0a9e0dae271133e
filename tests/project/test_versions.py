"""What `show_versions` prints: of everything in pyproject.toml."""

import platform
import re
import tomllib
from importlib import metadata

from click.testing import CliRunner

import rankql
from rankql import versions
from rankql.cli.main import main
from support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Those of who works on rankql, not with it.
OURS = {"bench", "docs", "lint", "test", "test-all"}


def names(needs):
    return {re.match(r"[\w-]+", need)[0] for need in needs}


def listed(capsys):
    rankql.show_versions()
    return dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if "  " in line
    )


def version(name):
    """The version of a package, where rankql and scipy are not installed."""
    if name in ("rankql", "scipy"):
        raise metadata.PackageNotFoundError(name)
    return "1.2.3"


def test_version(monkeypatch):
    assert rankql.__version__ == metadata.version("rankql")
    assert "__version__" not in rankql.__all__
    monkeypatch.setattr(metadata, "version", version)
    assert rankql.__version__ == "unknown"


def test_everything_is_listed(capsys):
    extras = PROJECT["optional-dependencies"]
    assert set(versions.REQUIRED) == names(PROJECT["dependencies"])
    needed = names(need for extra in extras.keys() - OURS for need in extras[extra])
    assert set(versions.OPTIONAL) == {*needed, "pandas"}  # which no extra brings
    assert list(versions.OPTIONAL) == sorted(versions.OPTIONAL)
    lines = listed(capsys)
    assert lines["Python"] == platform.python_version() and lines["system"] == platform.platform()
    for name in versions.REQUIRED:
        assert lines[name] == metadata.version(name)
    assert {"rankql", *versions.OPTIONAL} < lines.keys()


def test_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(versions, "version", version)
    lines = listed(capsys)
    assert lines["scipy"] == "not installed" and lines["altair"] == "1.2.3"


def test_the_command_line_shows_the_same(capsys):
    rankql.show_versions()
    assert CliRunner().invoke(main, ["versions"]).stdout == capsys.readouterr().out

"""Settings of the suite. HYPOTHESIS_PROFILE=long draws new and many more examples, brief few.

A whole run also tells which errors no test has triggered.
"""

import os
import re
import sys
import traceback
from pathlib import Path

import click
import duckdb
import pytest
from hypothesis import HealthCheck, settings

from rankql.errors import RankqlError

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("ci", max_examples=20, derandomize=True, **QUIET)
settings.register_profile("brief", max_examples=8, derandomize=True, **QUIET)
settings.register_profile("long", max_examples=500, database=None, **QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

PACKAGE = Path(__file__).parents[1] / "rankql"
# What the errors that tests trigger left behind, in all processes of the run.
SEEN: set = set()


def pytest_configure():
    watch(SEEN)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    SEEN.update(getattr(node, "workeroutput", {}).get("errors", ()))


def pytest_sessionfinish(session, exitstatus):
    """A whole run fails where an error is left that no test triggers."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["errors"] = SEEN
    elif exitstatus == 0 and untriggered(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    if exitstatus == 0:
        for error in untriggered(config):
            terminalreporter.write_line(f"no test triggers {error}", red=True)


def untriggered(config):
    """The errors left by a run of all tests; simulations apart, which trigger none."""
    chosen = config.option
    some = (chosen.keyword, chosen.deselect, chosen.ignore, getattr(chosen, "lf", False))
    testpaths = config.args_source is config.ArgsSource.TESTPATHS
    if not testpaths or chosen.markexpr != "not simulation" or any(some):
        return []
    import errors

    return errors.unseen(SEEN)


def watch(seen):
    """Put into `seen` the lines in which ours are raised, and what ours and DuckDB's say."""
    began = {kind: kind.__init__ for kind in (RankqlError, click.UsageError, duckdb.Error)}

    def init(error, *given, **named):
        next(start for kind, start in began.items() if isinstance(error, kind))(
            error, *given, **named
        )
        line = re.sub(r"^[\w ]+ Error: ", "", "".join(map(str, given)).partition("\n")[0])
        seen.add(line.encode("utf-8", "replace").decode())
        if not isinstance(error, duckdb.Error):
            frames = traceback.walk_stack(sys._getframe(1))
            places = ((frame.f_code.co_filename, line) for frame, line in frames)
            seen.update(place for place in places if place[0].startswith(f"{PACKAGE}{os.sep}"))

    for kind in began:
        kind.__init__ = init

"""Settings of the test suite.

Property tests draw few examples by default, more with HYPOTHESIS_PROFILE=ci, and new ones and many
more with HYPOTHESIS_PROFILE=long.

RANKQL_EVERY=n takes every n-th test only, for a run beside the complete one.

RANKQL_ERRORS=file adds the errors that the tests trigger to that file. After all parts of the suite
`python tests/untriggered_errors.py file` fails if an error in the source was never triggered.
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
from support.components import BROWSERS, COMPONENTS, program
from support.paths import PACKAGE

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("brief", max_examples=4, derandomize=True, **QUIET)
settings.register_profile("ci", max_examples=5, derandomize=True, **QUIET)
settings.register_profile("long", max_examples=500, database=None, **QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "brief"))

# Fixtures that start a component: their tests get its marker.
STARTED_BY = {"browser": "browser", "server": "postgres"}
# The errors that tests triggered, in all processes of this run.
SEEN: set = set()


def pytest_configure(config):
    for name, component in COMPONENTS.items():
        needs = " and ".join([*component.modules, *(group[0] for group in component.programs)])
        config.addinivalue_line("markers", f"{name}: needs {needs}")
    watch(SEEN)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark heavy tests, before pytest selects by marker."""
    every = int(os.environ.get("RANKQL_EVERY", "1"))
    for number, item in enumerate(items):
        if number % every:
            item.add_marker("slow")
        for fixture in STARTED_BY.keys() & set(item.fixturenames):
            item.add_marker(STARTED_BY[fixture])
        if any(component.heavy for component in needed(item)):
            item.add_marker("heavy")


def needed(item):
    names = {marker.name for marker in item.iter_markers()}
    return [component for name, component in COMPONENTS.items() if name in names]


def pytest_runtest_setup(item):
    """Skip a test if a component is missing, or fail if CI=true."""
    for component in needed(item):
        if component.missing:
            reason = f"not installed: {component.missing}; {component.remedy}"
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    SEEN.update(getattr(node, "workeroutput", {}).get("errors", ()))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["errors"] = SEEN
    elif "RANKQL_ERRORS" in os.environ:
        from support import triggered_errors

        triggered_errors.record(Path(os.environ["RANKQL_ERRORS"]), SEEN)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(program, BROWSERS)))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


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

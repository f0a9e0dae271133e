"""Settings of the suite. HYPOTHESIS_PROFILE=long draws new and many more examples, brief few.

A whole run also tells which errors no test has triggered.
"""

import os

import errors
import pytest
from hypothesis import HealthCheck, settings

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("ci", max_examples=20, derandomize=True, **QUIET)
settings.register_profile("brief", max_examples=8, derandomize=True, **QUIET)
settings.register_profile("long", max_examples=500, database=None, **QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# What the errors that tests trigger left behind, in all processes of the run.
SEEN: set = set()


def pytest_configure():
    errors.watch(SEEN)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    SEEN.update(getattr(node, "workeroutput", {}).get("errors", ()))


def pytest_sessionfinish(session, exitstatus):
    """A whole run fails where an error is left that no test triggers."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["errors"] = SEEN
    elif exitstatus == 0 and is_whole(config) and errors.unseen(SEEN):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    if exitstatus == 0 and is_whole(config):
        for error in errors.unseen(SEEN):
            terminalreporter.write_line(f"no test triggers {error}", red=True)


def is_whole(config):
    """Are all tests run? Those of simulations apart, which trigger no error of their own."""
    chosen = config.option
    some = (chosen.keyword, chosen.deselect, chosen.ignore, getattr(chosen, "lf", False))
    testpaths = config.args_source is config.ArgsSource.TESTPATHS
    return testpaths and chosen.markexpr == "not simulation" and not any(some)

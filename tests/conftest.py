"""Settings of the test suite.

Property tests draw few examples by default, and new ones and many more with
HYPOTHESIS_PROFILE=long.

RANKQL_SHUFFLE=seed shuffles the files and the tests in each, which shows a test that needs its
neighbour. RANKQL_TURN=1 leaves out the tests that rest at this commit: see support/turns.py.
"""

import gc
import os
import random
import shutil
import signal
import subprocess
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings

from support import turns
from support.components import BROWSERS, COMPONENTS, program
from support.paths import ROOT

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("brief", max_examples=3, derandomize=True, **QUIET)
settings.register_profile("long", max_examples=500, database=None, **QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "brief"))

# Fixtures that start a component: their tests get its marker.
STARTED_BY = {"browser": "browser", "server": "postgres"}
# Components whose tests share a session, a server or an environment.
SHARED = ("spark", "dbt", "postgres", "postgres18", "clickhouse", "browser", "site", "package")
SEED = os.environ.get("RANKQL_SHUFFLE")


def untracked_files():
    """The files of the project that git neither has nor ignores; None without git."""
    command = ["git", "ls-files", "--others", "--exclude-standard"]
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return None
    return {*subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split("\n")}


FILES = pytest.StashKey()


def pytest_sessionfinish(session):
    """A run of the tests leaves no file in the project."""
    before = session.config.stash.get(FILES, None)
    if before is not None and (left := (untracked_files() or set()) - before):
        print(f"\nFAILED: the tests left {', '.join(sorted(left))}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """A file stays in one process, which makes its fixtures once: a twentieth of the CPU of all."""
    if config.option.numprocesses and config.option.dist == "no":
        config.option.dist = "loadfile"


def pytest_configure(config):
    gc.disable()  # until the tests are collected, which stay to the end
    # A shell starts a job of & with SIGINT ignored, and no test could interrupt what it starts.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # one process looks for all
        config.stash[FILES] = untracked_files()
    elif config.option.markexpr.startswith("not") and hasattr(os, "sched_setaffinity"):
        # The README's command: a process per core. With one thread each, DuckDB and polars take a
        # tenth less for small data. Faults of several threads are seen by the slow tests.
        cores = sorted(os.sched_getaffinity(0))
        number = int(config.workerinput["workerid"].removeprefix("gw"))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    for name, component in COMPONENTS.items():
        needs = " and ".join([*component.modules, *(group[0] for group in component.programs)])
        config.addinivalue_line("markers", f"{name}: needs {needs}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the tests, before pytest selects by marker.

    Those that share what is costly to start are a group, which `--dist loadgroup` does not divide.
    """
    repetitions = mark_repetitions(items)
    for item in items:
        for fixture in STARTED_BY.keys() & set(item.fixturenames):
            item.add_marker(STARTED_BY[fixture])
    if turn := turns.this_turn():
        resting = {item for item in items if rests(turn, item, repetitions)}
        config.hook.pytest_deselected(items=[*resting])
        items[:] = [item for item in items if item not in resting]
    for item in items:
        names = needed(item)
        if any(COMPONENTS[name].heavy for name in names):
            item.add_marker("slow")
        for group in [name for name in SHARED if name in names][:1]:
            item.add_marker(pytest.mark.xdist_group(group))
    if SEED:
        order = random.Random(SEED)
        files = defaultdict(order.random)
        items.sort(key=lambda item: (files[item.path], order.random()))


def pytest_collection_finish():
    """Half a million objects that stay are not looked at again: a fiftieth of the CPU of all."""
    gc.enable()
    gc.freeze()


def mark_repetitions(items):
    """Of a test marked few(n), all but n parameters are slow; those n have the most values.

    Those that are slow, with their place among them.
    """
    result = {}
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("slow"):
            tests[item.path, item.originalname].append(item)
    for parameters in tests.values():
        values = {item: values_of(item) for item in parameters}
        seen = set()
        for _ in range(min(len(values), parameters[0].get_closest_marker("few").args[0])):
            first = max(values, key=lambda item: len(values[item] - seen))
            seen |= values.pop(first)
        for place, item in enumerate(values):
            item.add_marker("slow")
            result[item] = place
    return result


def rests(turn, item, repetitions):
    """Whether it is the turn of others: components, families of the Spark matrix, repetitions."""
    path = item.path.relative_to(ROOT).as_posix()
    if not turn.runs_components(needed(item), path, bool(item.get_closest_marker("quick"))):
        return True
    if (
        getattr(item, "originalname", "") == "test_matrix"
        and item.callspec.params["name"] == "Spark"
    ):
        return not turn.runs_family(item.callspec.params["family"])
    return item in repetitions and not turn.runs_repetition(repetitions[item], path)


def values_of(item):
    """Simple values as they are, others by their place: the same in all processes."""
    call, simple = item.callspec, str | int | float | None
    return {(n, v if isinstance(v, simple) else call.indices[n]) for n, v in call.params.items()}


def needed(item):
    """The components that a test has as markers."""
    return COMPONENTS.keys() & {marker.name for marker in item.iter_markers()}


def pytest_runtest_setup(item):
    """Skip a test if a component is missing, or fail if CI=true."""
    for component in map(COMPONENTS.get, needed(item)):
        if component.missing:
            reason = f"not installed: {component.missing}; {component.remedy}"
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(program, BROWSERS)))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()

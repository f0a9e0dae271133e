"""The default tests need nothing but the extra `test`."""

import ast
import re
from types import SimpleNamespace

import pytest

import conftest
from support.components import COMPONENTS, Component
from support.paths import ROOT

TESTS = ROOT / "tests"
PATHS = {path.name: path for path in TESTS.rglob("*.py") if "benchmarks" not in path.parts}


def imported(path):
    """The packages that a module imports when it is loaded."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


def test_tests_import_neither_heavy_packages_nor_each_other():
    """At the top of a file, heavy packages would stop the collection of all tests.

    What several test modules share lives in tests/support.
    """
    refused = {name for component in COMPONENTS.values() for name in component.modules}
    refused |= {name.removesuffix(".py") for name in PATHS if name.startswith("test_")}
    imports = {name: refused & {*imported(path)} for name, path in PATHS.items()}
    assert not any(imports.values()), imports


def test_no_test_is_skipped_in_ci_for_want_of_a_package():
    """importorskip would do that; a marker of tests/support/components.py does not."""
    # Python itself has no `resource` on Windows.
    skips = re.compile(r"pytest\.importorskip\((?!.resource)")
    assert [name for name, path in PATHS.items() if skips.search(path.read_text("utf-8"))] == []


def test_a_missing_component_is_a_skip_and_in_ci_a_failure(monkeypatch):
    missing = Component(("no_such_package",), (("no-such-program",),))
    monkeypatch.setitem(COMPONENTS, "gone", missing)
    test = SimpleNamespace(iter_markers=lambda: [SimpleNamespace(name="gone")])
    message = r"not installed: no_such_package, no-such-program; pip install -e '.\[test-all\]'"
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=message):
        conftest.pytest_runtest_setup(test)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=message):
        conftest.pytest_runtest_setup(test)

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


def imported(tree):
    """The packages that a module imports when it is loaded."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


def test_heavy_packages_are_imported_where_they_are_used():
    """At the top of a file they would stop the collection of all tests."""
    heavy = {name for component in COMPONENTS.values() for name in component.modules}
    packages = {
        path.name: sorted(heavy & {*imported(ast.parse(path.read_text("utf-8")))})
        for path in PATHS.values()
    }
    assert not any(packages.values()), packages


def test_no_module_imports_a_test_module():
    """What several test modules share lives in tests/support."""
    modules = {
        path.name: [name for name in imported(ast.parse(path.read_text("utf-8"))) if name in tests]
        for tests in [{name.removesuffix(".py") for name in PATHS if name.startswith("test_")}]
        for path in PATHS.values()
    }
    assert not any(modules.values()), modules


def test_no_test_is_skipped_in_ci_for_want_of_a_package():
    """importorskip would do that; a marker of tests/support/components.py does not."""
    texts = {name: path.read_text("utf-8") for name, path in PATHS.items()}
    # Python itself has no `resource` on Windows.
    skips = re.compile(r"pytest\.importorskip\((?!.resource)")
    assert [name for name, text in texts.items() if skips.search(text)] == []


def test_a_missing_component_is_a_skip_and_in_ci_a_failure(monkeypatch):
    monkeypatch.setitem(
        COMPONENTS, "gone", Component(("no_such_package",), (("no-such-program",),))
    )
    test = SimpleNamespace(iter_markers=lambda: [SimpleNamespace(name="gone")])
    message = r"not installed: no_such_package, no-such-program; pip install -e '.\[test-all\]'"
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=message):
        conftest.pytest_runtest_setup(test)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=message):
        conftest.pytest_runtest_setup(test)

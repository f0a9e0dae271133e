"""The default tests need nothing but the extra `test`."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import conftest
import pytest
from components import COMPONENTS, Component

HERE = Path(__file__).parent


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
    found = {
        path.name: sorted(heavy & {*imported(ast.parse(path.read_text("utf-8")))})
        for path in HERE.glob("*.py")
    }
    assert {name: packages for name, packages in found.items() if packages} == {}


def test_no_test_is_skipped_in_ci_for_want_of_a_package():
    """importorskip would do that; a marker of tests/components.py does not."""
    texts = {path.name: path.read_text("utf-8") for path in HERE.glob("test_*.py")}
    # Python itself has no `resource` on Windows.
    skips = re.compile(r"pytest\.importorskip\((?!.resource)")
    assert [name for name, text in texts.items() if skips.search(text)] == []


def test_thinned_tests_exist():
    for name in conftest.THINNED:
        file, _, test = name.partition("::")
        text = (HERE / file).read_text("utf-8")
        assert not test or f"\ndef {test}(" in text, name


def test_a_missing_component_is_a_skip_and_in_ci_a_failure(monkeypatch):
    monkeypatch.setitem(
        COMPONENTS, "gone", Component(("no_such_package",), (("no-such-program",),))
    )
    test = SimpleNamespace(iter_markers=lambda: [SimpleNamespace(name="gone")])
    said = r"not installed: no_such_package, no-such-program; pip install -e '.\[test-all\]'"
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=said):
        conftest.pytest_runtest_setup(test)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=said):
        conftest.pytest_runtest_setup(test)

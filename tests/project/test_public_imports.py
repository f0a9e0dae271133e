"""What people import stays where it is: names of rankql, and what pages and examples import."""

import re
from importlib import import_module

import pytest

import rankql
from support.paths import ROOT

PAGES = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").glob("*.py"), ROOT / "README.md"]
EXAMPLES = [*(ROOT / "examples").rglob("*.py")]
IMPORT = re.compile(
    r"^(?:>>> |\s*)(?:from (rankql[\w.]*) import ([\w, ]+)|import (rankql[\w.]*))", re.MULTILINE
)


def list_imports():
    """Each module with each name that a page or an example imports from it."""
    found = set()
    for path in (*PAGES, *EXAMPLES):
        for module, names, alone in IMPORT.findall(path.read_text("utf-8")):
            listed = re.split(r"\s*,\s*", names.strip()) if names else [""]
            found |= {(module or alone, x.partition(" as ")[0]) for x in listed}
    return sorted(found)


def is_there(module, name):
    imported = import_module(module)
    return not name or hasattr(imported, name) or import_module(f"{module}.{name}")


def needs_spark(module, name):
    return "rankql.spark" in (module, f"{module}.{name}")


def test_pages_and_examples_import_what_there_is():
    imports = list_imports()
    assert {("rankql", "PROFILES"), ("rankql.testing", "assert_no_regression")} < {*imports}
    assert all(is_there(*each) for each in imports if not needs_spark(*each))


def test_every_public_name_is_imported():
    missing = [name for name in rankql.__all__ if getattr(rankql, name, None) is None]
    assert not missing and rankql.PROFILES["rankql"] == rankql.Conventions()
    assert {*import_module("rankql.errors").__all__} == {"Question", "RankqlError"}
    assert callable(import_module("rankql.testing").assert_no_regression)


@pytest.mark.spark
def test_spark_is_imported():
    assert callable(import_module("rankql.spark").evaluate)

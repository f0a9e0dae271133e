"""The examples in docstrings print what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rankql"
MARKS = {"charts": pytest.mark.report, "spark": pytest.mark.spark}


MODULES = sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem != "__main__")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, [])) for name in MODULES]
)
def test_doctests(name):
    module = importlib.import_module(f"rankql.{name}" if name != "__init__" else "rankql")
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert not failed

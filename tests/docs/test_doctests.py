"""The examples in docstrings print what they show."""

import doctest
import importlib

import pytest

from support.paths import PACKAGE

DRAWN = ("charts", "difference_charts", "mean_charts", "panels", "report_sections")
MARKS = {
    **{f"rankql.output.{name}": pytest.mark.report for name in (*DRAWN, "report_elements")},
    **{f"rankql.engines.{name}": pytest.mark.spark for name in ("spark", "spark_evaluation")},
    "rankql.spark": pytest.mark.spark,
}
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.stem != "__main__"
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, [])) for name in MODULES]
)
def test_doctests(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert not failed

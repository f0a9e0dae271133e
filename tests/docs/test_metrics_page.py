"""The pages of the metrics: a table of their properties, and the docstring of each.

`python tests/generate.py metrics` writes the tables.
"""

import re

import pytest

from rankql.registry.all_metrics import FUNCTIONS
from support.metric_pages import COUNTED, FOLDER, PAGES, counted, page, written
from support.paths import ROOT


@pytest.mark.parametrize("name", PAGES)
def test_table(name):
    assert written(name) == (FOLDER / name).read_text(), "run python tests/generate.py metrics"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_docstring(function):
    """It is on the page of its family, after a text that mentions the function."""
    text = (FOLDER / page(function)).read_text()
    before, directive, _ = text.partition(f".. autofunction:: rankql.{function}\n")
    assert directive
    assert len(re.findall(rf"\b{function}\b", before)) > 2


@pytest.mark.parametrize("name", COUNTED)
def test_the_number_of_metrics_is_current(name):
    text = (ROOT / name).read_text("utf-8")
    assert counted(name) == text, "run python tests/generate.py metrics"
    assert re.search(r"MAP (and|等) \d+ (more|个指标)", text)

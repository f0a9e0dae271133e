"""The notebooks run from a clean kernel or process, and show what is committed.

`python tests/test_notebooks.py` runs the Jupyter notebook and writes its outputs anew.
"""

import os
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from test_readme import cells

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[1] / "examples"
JUPYTER = EXAMPLES / "is_it_better.ipynb"


def executed(folder):
    """The notebook as a clean kernel runs it; without what is of this machine or moment."""
    notebook = nbformat.read(JUPYTER, as_version=4)
    path = os.pathsep.join([str(EXAMPLES), *filter(None, sys.path)])
    client = NotebookClient(notebook, kernel_name="python3", record_timing=False, timeout=300)
    client.execute(cwd=folder, env={**os.environ, "PYTHONPATH": path})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return notebook


def shown(notebook):
    """What the cells show: of what kinds it is, and the cells and words of its text."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = {"text/plain": output.get("text", ""), **output.get("data", {})}
            yield sorted(data), cells(data.get("text/markdown", data["text/plain"]))


def test_jupyter(tmp_path):
    committed = nbformat.read(JUPYTER, as_version=4)
    nbformat.validate(committed)
    assert [*shown(executed(tmp_path))] == [*shown(committed)]
    text = JUPYTER.read_text()
    assert text.count('"image/png": "') == 2
    machine = (str(EXAMPLES), sys.prefix, tempfile.gettempdir(), "iopub")
    assert not [word for word in machine if word in text]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(executed(folder), JUPYTER)

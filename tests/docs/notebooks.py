"""The notebooks of the examples, and how a clean kernel runs them."""

import os

from support.components import optional
from support.paths import ROOT

nbformat, nbclient = optional("nbformat"), optional("nbclient")
EXAMPLES = ROOT / "examples"
JUPYTER = EXAMPLES / "is_it_better.ipynb"
MARIMO = EXAMPLES / "explore.py"
# Where simulate.py and rankql are.
PATH = os.pathsep.join([str(EXAMPLES), str(EXAMPLES.parent)])


def executed(folder):
    """The notebook as a clean kernel runs it; without what is of this machine or moment."""
    notebook = nbformat.read(JUPYTER, as_version=4)
    client = nbclient.NotebookClient(
        notebook, kernel_name="python3", record_timing=False, timeout=300
    )
    client.execute(cwd=folder, env={**os.environ, "PYTHONPATH": PATH})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return notebook

"""The site, built as the README says: with the extra docs, in an environment of its own."""

import os
import re
import subprocess
import sys
import zlib
from importlib.metadata import version

import pytest

import rankql
from rankql.registry.all_metrics import FUNCTIONS
from support import components
from support.paths import ROOT


def run(*command):
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, env=outside, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.site
def test_the_reference_is_complete_with_the_extra_docs(tmp_path):
    """Each name that a page documents has an entry: none fails to import."""
    uv, python = components.program("uv"), tmp_path / "env" / "bin" / "python"
    same = [f"{name}=={version(name)}" for name in ("duckdb", "polars", "pyarrow", "sphinx")]
    run(uv, "venv", "-q", "--python", sys.executable, tmp_path / "env")
    run(uv, "pip", "install", "-q", "--python", python, "-e", f"{ROOT}[docs]", *same)
    warnings = run(python, "-m", "sphinx", "-q", "docs", tmp_path / "site")
    assert "WARNING" not in warnings
    content = (tmp_path / "site" / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = {*re.findall(r"^rankql\.(\w+) py:", zlib.decompress(content).decode(), re.MULTILINE)}
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    named = {*re.findall(r"^\.\. auto\w+:: rankql\.(\w+)$", pages, re.MULTILINE)}
    assert named - entries == set()
    assert {*FUNCTIONS} & {*rankql.__all__} <= entries and len(entries) >= 105

"""Every block of the README and of the pages of docs/ prints what stands below it.

`python tests/test_docs.py` runs them and writes that anew.
"""

import contextlib
import doctest
import io
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli import demo
from rankql.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Run: sql, python, and sh that calls rankql; what sql and sh print stands in the next block.
BLOCK = re.compile(r"```(sql|python|sh)\n(.*?)```\n(?:(\n?```text\n)(.*?)```\n)?", re.DOTALL)
# Not run: how to install and what belongs to other programs; test_spark.py runs py.
OTHERS = {"bash", "yaml", "py", "text"}


def run(text):
    """A page with the output of its blocks as it is now; in a folder with the demo's data."""
    con = duckdb.connect()
    rankql.register(con)
    namespace = {"con": con}

    def sql(code):
        *before, last = code.strip().rstrip(";").split(";\n")
        for statement in before:
            con.execute(statement)
        found = con.sql(last)
        return "" if found is None else str(found).rstrip() + "\n"

    def sh(code):
        if not code.startswith("rankql "):
            return ""
        done = CliRunner().invoke(main, shlex.split(code)[1:])
        assert done.exit_code == 0, done.output
        return done.stdout

    def python(code):
        output = []
        for example in doctest.DocTestParser().get_examples(code):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(example.source, "a page", "single"), namespace)
            first, *further = example.source.splitlines()
            output += [f">>> {first}\n", *(f"... {line}\n" for line in further), printed.getvalue()]
        return "".join(output)

    def block(found):
        kind, code, label, _ = found.groups()
        if kind == "python":
            after = "" if label is None else f"{label}{found[4]}```\n"
            return f"```python\n{python(code)}```\n{after}"
        printed = {"sql": sql, "sh": sh}[kind](code)
        return f"```{kind}\n{code}```\n" + ("" if label is None else f"{label}{printed}```\n")

    return BLOCK.sub(block, text)


def cells(text):
    """The table cells and the words of a text: how frames are drawn changes between versions."""
    lines = [line for line in text.splitlines() if "─" not in line]
    return [list(map(word, cell.split())) for line in lines for cell in re.split("[│┆|]", line)]


def word(text):
    """A word; of a number the digits that all versions agree on."""
    return f"{float(text):.12g}" if re.fullmatch(r"-?\d+\.\d{12,}", text) else text


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    demo.write_shop(folder / "rankql-demo")
    return folder


def draws(page):
    """Does a block of the page draw a chart or write a report?"""
    blocks = BLOCK.findall(page.read_text())
    return any(re.search(r"\.plot\(|\.save\(|\.html\b", code) for _, code, *_ in blocks)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.report] if draws(page) else []) for page in PAGES],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_blocks(page, demo_folder, monkeypatch):
    monkeypatch.chdir(demo_folder)
    text = page.read_text()
    with pl.Config(tbl_formatting="UTF8_FULL_CONDENSED"):
        assert cells(run(text)) == cells(text)


def test_kinds_of_blocks():
    """What is not run is of a kind that says so."""
    for page in PAGES:
        text = page.read_text()
        for kind in re.findall(r"^```(\S+)$", BLOCK.sub("", text), re.MULTILINE):
            assert kind in OTHERS or kind.startswith("{"), f"{page.name}: {kind}"


def test_every_metric_has_its_place():
    text = "".join(page.read_text() for page in PAGES[1:] if page.name != "reference.md")
    for name in rankql.__all__:
        if name.islower() and not name.startswith("list_") and not name.endswith("_by_score"):
            assert re.search(rf"\b{name}\b", text), name


def test_speed():
    """The tables are those of the results that are kept."""
    folder = ROOT / "tests" / "benchmarks"
    plot = runpy.run_path(str(folder / "plot.py"))
    rows, _ = plot["read"]([folder / "results" / "results.json"])
    for table in plot["tables"](rows).split("\n\n"):
        assert table in (ROOT / "docs" / "speed.md").read_text()


@pytest.mark.site
def test_site(tmp_path):
    """It is built without a warning, and loads nothing from the network."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", ROOT / "docs", tmp_path]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"(https?:[^\"]*)", page.read_text()
        )
        assert not loaded, page


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        demo.write_shop(Path("rankql-demo"))
        with pl.Config(tbl_formatting="UTF8_FULL_CONDENSED"):
            for page in PAGES:
                page.write_text(run(page.read_text()))

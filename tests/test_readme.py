"""Every block of the README prints what stands below it.

`python tests/test_readme.py` runs them and writes that anew.
"""

import contextlib
import io
import re
import runpy
import shlex
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql import demo
from rankql.cli import main

README = Path(__file__).parents[1] / "README.md"
SQL = re.compile(r"(```sql\n(.*?)```\n```text\n)(.*?)(?=```)", re.DOTALL)
SHELL = re.compile(r"(```sh\n(rankql .*?)\n```\n```text\n)(.*?)(?=```)", re.DOTALL)
PYTHON = re.compile(r"(?<=```python\n)(.*?)(?=```)", re.DOTALL)


def run(text):
    """The README with the output of its blocks as it is now; in a folder with the demo's data."""
    con = duckdb.connect()
    rankql.register(con)
    namespace = {}

    def sql(block):
        *before, last = block[2].strip().rstrip(";").split(";\n")
        for statement in before:
            con.execute(statement)
        return block[1] + str(con.sql(last)).rstrip() + "\n"

    def python(block):
        output = []
        for line in re.findall(r"^>>> (.*)$", block[0], re.MULTILINE):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(line, "README.md", "single"), namespace)
            output.append(f">>> {line}\n{printed.getvalue()}")
        return "".join(output)

    def shell(block):
        done = CliRunner().invoke(main, shlex.split(block[2])[1:])
        assert done.exit_code == 0, done.output
        return block[1] + done.stdout

    return SHELL.sub(shell, PYTHON.sub(python, SQL.sub(sql, text)))


def cells(text):
    """The table cells and the words of a text: how frames are drawn changes between versions."""
    lines = [line for line in text.splitlines() if "─" not in line]
    return [list(map(word, cell.split())) for line in lines for cell in re.split("[│┆|]", line)]


def word(text):
    """A word; of a number the digits that all versions agree on."""
    return f"{float(text):.12g}" if re.fullmatch(r"-?\d+\.\d{12,}", text) else text


@pytest.fixture
def in_demo_folder(tmp_path, monkeypatch):
    demo.write_shop(tmp_path / "rankql-demo")
    monkeypatch.chdir(tmp_path)
    with pl.Config(tbl_formatting="UTF8_FULL_CONDENSED"):
        yield


def test_blocks(in_demo_folder):
    text = README.read_text()
    assert len(SQL.findall(text)) >= 5 and len(PYTHON.findall(text)) >= 1
    assert cells(run(text)) == cells(text)


def test_every_metric_is_listed():
    text = README.read_text()
    for name in rankql.__all__:
        if name.islower() and not name.startswith("list_") and not name.endswith("_by_score"):
            assert re.search(rf"\b{name}\b", text), name


def test_speed():
    """The tables are those of the results that are kept."""
    folder = Path(__file__).parent / "benchmarks"
    plot = runpy.run_path(str(folder / "plot.py"))
    rows, _ = plot["read"]([folder / "results" / "results.json"])
    for table in plot["tables"](rows).split("\n\n"):
        assert table in README.read_text()


if __name__ == "__main__":
    demo.write_shop(Path("rankql-demo"))
    README.write_text(run(README.read_text()))

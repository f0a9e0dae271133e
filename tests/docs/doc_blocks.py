"""The blocks of the documentation: run them, and compare their output."""

import contextlib
import doctest
import io
import re
import shlex
import sys

import duckdb
from click.testing import CliRunner

from rankql.cli.main import main
from support import metric_engines
from support.paths import ROOT

# SKILL.md uses files of other names: see test_recipes_for_assistants.
PAGES = sorted({*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "SKILL.md"})
PAGES = [ROOT / "README.md", *PAGES]
FLOWS = ROOT / "tests" / "docs" / "flows.md"
# The pages in docs/zh have the blocks of the English ones, which alone are run.
ENGLISH = {
    page: page.parents[1] / ("metrics/index.md" if page.name == "metrics.md" else page.name)
    for page in PAGES
    if page.parent.name == "zh"
}
RUN = [*(page for page in PAGES if page not in ENGLISH), FLOWS]
FENCES = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
# Run: sql, python, and sh that calls rankql; what sql and sh print stands in the next block.
BLOCK = re.compile(r"```(sql|python|sh)\n(.*?)```\n(?:(\n?```text\n)(.*?)```\n)?", re.DOTALL)


def run_blocks(text):
    """A page with the output of its blocks as it is now; in a folder with the demo's data."""
    con = metric_engines.with_macros(duckdb.connect())
    namespace = {"con": con}
    if str(ROOT / "examples") not in sys.path:  # pages that simulate data import `simulate`
        sys.path.append(str(ROOT / "examples"))

    def sql(code):
        *before, last = code.strip().rstrip(";").split(";\n")
        for statement in before:
            con.execute(statement)
        result = con.sql(last)
        return "" if result is None else str(result).rstrip() + "\n"

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

    def block(result):
        kind, code, label, _ = result.groups()
        if kind == "python":
            after = "" if label is None else f"{label}{result[4]}```\n"
            return f"```python\n{python(code)}```\n{after}"
        printed = {"sql": sql, "sh": sh}[kind](code)
        return f"```{kind}\n{code}```\n" + ("" if label is None else f"{label}{printed}```\n")

    return BLOCK.sub(block, text)


def with_english_blocks(page):
    """A Chinese page with the blocks of the English one, which must be as many."""
    text, blocks = page.read_text("utf-8"), FENCES.findall(ENGLISH[page].read_text("utf-8"))
    words = FENCES.split(text)
    assert len(words) == len(blocks) + 1, f"{page.name} has not the blocks of the English page"
    return "".join(part for pair in zip(words, [*blocks, ""], strict=True) for part in pair)


def cells(text):
    """The table cells and the words of a text: how frames are drawn changes between versions."""
    lines = [line for line in text.splitlines() if "─" not in line]
    return [list(map(word, cell.split())) for line in lines for cell in re.split("[│┆|]", line)]


def word(text):
    """A word; of a number the digits that all versions agree on."""
    return f"{float(text):.12g}" if re.fullmatch(r"-?\d+\.\d{12,}", text) else text

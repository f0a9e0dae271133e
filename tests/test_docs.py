"""Every block of the README and of the pages of docs/ prints the output below it.

`python tests/test_docs.py` runs them and writes the outputs.
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

import components
import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli import demo
from rankql.cli.main import main

sync_api = components.optional("playwright.sync_api")
ROOT = Path(__file__).parents[1]
# SKILL.md uses files of other names: see test_recipes_for_assistants.
PAGES = sorted({*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "SKILL.md"})
PAGES = [ROOT / "README.md", *PAGES]
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


def test_length_of_the_readme():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


ASSISTANTS = runpy.run_path(str(ROOT / "docs" / "assistants.py"))


@pytest.mark.parametrize("name", ASSISTANTS["FILES"])
def test_files_for_assistants_are_current(name):
    """`python docs/assistants.py` writes them."""
    assert (ROOT / "docs" / name).read_text("utf-8") == ASSISTANTS["FILES"][name]()


def test_recipes_for_assistants(demo_folder, tmp_path, monkeypatch):
    """The five recipes of SKILL.md run on files of the names that they use."""
    monkeypatch.chdir(tmp_path)
    shop = pl.read_parquet(demo_folder / "rankql-demo" / "shop.parquet")
    shop.write_parquet("ranked.parquet")
    judged = shop.select("query", "item", "rel").drop_nulls()
    judged.write_parquet("qrels.parquet")
    for name in ("run", "old"):
        shop.drop_nulls("score").select("query", "item", "score").write_parquet(f"{name}.parquet")
    pl.read_parquet(demo_folder / "rankql-demo" / "new.parquet").write_parquet("new.parquet")
    namespace = {}
    blocks = re.findall(r"```(py|sh)\n(.*?)```", ASSISTANTS["skill"](), re.DOTALL)
    for kind, code in blocks:
        if kind == "py":
            exec(code, namespace)
        else:
            done = CliRunner().invoke(main, shlex.split(code)[1:])
            assert done.exit_code == 0, done.output
    assert namespace["result"]["nDCG@10"] > 0.6
    assert len(blocks) == 7


# The site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", ROOT / "docs", folder]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.site
def test_site_loads_nothing_from_the_network(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"(https?:[^\"]*)", page.read_text()
        )
        assert not loaded, page


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(components.program, components.BROWSERS)))
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


SEARCHES = {
    "compare two rankers": "compare",
    "statistical significance": "significance",
    "unjudged": "unjudged",
    "group by": "queries",
    "trec_eval": "coming-from",
    "ties": "conventions",
    "click bias": "bias",
}
# The search of the site itself, which lists the last result first.
SEARCH = "query => Search._performSearch(...Search._parseQuery(query)).at(-1)[0]"


@pytest.mark.site
@pytest.mark.browser
def test_search_finds_the_right_page_first(site, browser):
    page = browser.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q=ties")
    page.wait_for_function("Search.hasIndex()")
    assert {query: page.evaluate(SEARCH, query) for query in SEARCHES} == SEARCHES


# The beginnings of the elements that are wider than their box.
WIDER = """selector => [...document.querySelectorAll(selector)]
    .filter(node => node.scrollWidth > node.clientWidth + 1)
    .map(node => node.textContent.slice(0, 80))"""


@pytest.mark.site
@pytest.mark.browser
def test_no_sideways_scrolling(site, browser):
    """At 1280 px neither pages nor outputs, at 390 px no page."""
    for width, selector in ((1280, "html, .highlight pre"), (390, "html")):
        page = browser.new_page(viewport={"width": width, "height": 800})
        for path in sorted(site.rglob("*.html")):
            page.goto(path.as_uri())
            assert page.evaluate(WIDER, selector) == [], (path, width)
        page.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        demo.write_shop(Path("rankql-demo"))
        with pl.Config(tbl_formatting="UTF8_FULL_CONDENSED"):
            for page in PAGES:
                page.write_text(run(page.read_text()))

"""Every block of the README and of the pages of docs/ prints the output below it.

`python tests/generate.py docs` runs them and writes the outputs.
"""

import os
import re
import runpy
import shlex
import sys
import zlib
from importlib.metadata import version

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from doc_blocks import BLOCK, FENCES, FLOWS, PAGES, RUN, cells, run_blocks
from rankql.cli import demo
from rankql.cli.main import main
from rankql.core.metrics.all_metrics import FUNCTIONS
from rankql.core.metrics.profiles import TOOLS
from support import components, native_databases
from support.environments import run
from support.paths import ROOT

# Not run: how to install and what belongs to other programs; test_spark.py runs py.
OTHERS = {"bash", "yaml", "py", "text"}


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    demo.write_shop(folder / "rankql-demo")
    return folder


def marks(page):
    """One page is light. The oldest DuckDB cannot read text of pandas 3."""
    needed = [] if page.stem == "order" else [pytest.mark.slow]
    needed += [pytest.mark.tea_tasting] if page.stem == "experiment" else []
    blocks = BLOCK.findall(page.read_text())
    draws = any(re.search(r"\.plot\(|\.save\(|\.html\b", code) for _, code, *_ in blocks)
    return [*needed, pytest.mark.report] if draws else needed


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=marks(page)) for page in RUN],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_blocks(page, request, tmp_path, monkeypatch):
    text = page.read_text()
    reads_demo = "rankql-demo" in text  # which takes two seconds to write
    monkeypatch.chdir(request.getfixturevalue("demo_folder") if reads_demo else tmp_path)
    with pl.Config(tbl_formatting="UTF8_FULL_CONDENSED"):
        assert cells(run_blocks(text)) == cells(text), "run python tests/generate.py docs"


GUIDE = [
    page
    for page in RUN
    if page.parent.name in ("docs", "metrics") and page.stem not in ("inside", "commands")
]


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_begins_with_an_example(page):
    """The first block is over within 150 words of prose and tables."""
    text = page.read_text("utf-8")
    block = BLOCK.search(text)
    if block is not None:
        before = FENCES.sub("", text[: block.start()])
        assert len(re.findall(r"[^\s|]+", before)) <= 150


def test_kinds_of_blocks():
    """What is not run is of a kind that says so."""
    for page in PAGES:
        text = page.read_text()
        for kind in re.findall(r"^```(\S+)$", BLOCK.sub("", text), re.MULTILINE):
            assert kind in OTHERS or kind.startswith("{"), f"{page.name}: {kind}"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Postgres", marks=pytest.mark.postgres),
        pytest.param("ClickHouse", marks=pytest.mark.clickhouse),
    ],
)
def test_sections_of_databases(name):
    """The lines that a newcomer pastes into Postgres and ClickHouse print what stands below."""
    page = (ROOT / "docs" / "engines.md").read_text("utf-8")
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    pattern = r"```{code-block} sql\n(.*?)```\n```text\n(.*?)```"
    ((code, printed),) = re.findall(pattern, section, re.DOTALL)
    with native_databases.opened(name.lower()) as database:
        *before, last = code.strip().rstrip(";").split(";\n")
        for statement in before:
            run = database.con.execute if name == "Postgres" else database.session.query
            run(statement)
        rows = [
            ["NULL" if x is None else x if isinstance(x, str) else f"{x:.4g}" for x in row]
            for row in database.ask(last)
        ]
        if name == "ClickHouse":
            database.session.query("DROP TABLE shown")
    assert [[cell.strip() for cell in line.split("|")] for line in printed.splitlines()] == rows


def test_speed():
    """The tables are those of the results that are kept, on the page or in its appendix."""
    folder = ROOT / "tests" / "benchmarks"
    plot = runpy.run_path(str(folder / "plot.py"))
    rows, _ = plot["read"]([folder / "results" / "results.json"])
    pages = [(ROOT / "docs" / name).read_text() for name in ("speed.md", "appendix/speed.md")]
    for table in plot["tables"](rows).split("\n\n"):
        assert sum(table in page for page in pages) == 1


def test_no_flow_of_a_newcomer_has_a_second_error():
    """Each section refuses at most one call, and its pages exist."""
    _, *flows = FLOWS.read_text("utf-8").split("\n## ")
    assert len(flows) == 4
    for flow in flows:
        assert flow.count("except rankql.RankqlError") <= 1
        page = flow.partition("](")[2].partition(")")[0]
        assert (FLOWS.parent / page).is_file()


def test_length_of_the_readme():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 140


ASSISTANTS = runpy.run_path(str(ROOT / "docs" / "assistants.py"))


@pytest.mark.parametrize("name", ASSISTANTS["FILES"])
def test_files_for_assistants_are_current(name):
    """`python docs/assistants.py` writes them."""
    assert (ROOT / "docs" / name).read_text("utf-8") == ASSISTANTS["FILES"][name]()


@pytest.mark.slow
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
    assert len(blocks) == 8


# The site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built without a warning as the README says: by an environment with `docs`."""
    folder = tmp_path_factory.mktemp("site")
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    uv, python = components.program("uv"), folder / "env" / "bin" / "python"
    same = [f"{name}=={version(name)}" for name in ("duckdb", "polars", "pyarrow", "sphinx")]
    for command in (
        [uv, "venv", "-q", "--python", sys.executable, folder / "env"],
        [uv, "pip", "install", "-q", "--python", python, "-e", f"{ROOT}[docs]", *same],
        [python, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", folder / "site"],
    ):
        run(*command, env=outside, cwd=ROOT)
    return folder / "site"


@pytest.mark.site
def test_the_reference_is_complete_with_the_extra_docs(site):
    """Each name that a page documents has an entry: none fails to import."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = {*re.findall(r"^rankql\.(\w+) py:", zlib.decompress(content).decode(), re.MULTILINE)}
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    named = {*re.findall(r"^\.\. (?:auto\w+|py:data):: rankql\.(\w+)$", pages, re.MULTILINE)}
    assert named - entries == set()
    assert {*FUNCTIONS} & {*rankql.__all__} <= entries and len(entries) >= 105


@pytest.mark.site
def test_site_loads_nothing_from_the_network(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"(https?:[^\"]*)", page.read_text()
        )
        assert not loaded, page


@pytest.mark.site
def test_pages_that_moved_lead_to_their_section(site):
    result = [page for page in site.rglob("*.html") if 'http-equiv="refresh"' in page.read_text()]
    assert len(result) > 5
    for page in result:
        path, _, section = re.search(r"url=([^\"]+)", page.read_text())[1].partition("#")
        assert not section or f'id="{section}"' in (page.parent / path).read_text(), page


SEARCHES = {
    "compare two rankers": "compare",
    "statistical significance": "compare",
    "unjudged": "trust",
    "group by": "queries",
    "trec_eval": "coming-from",
    "ties": "trust",
    "click bias": "bias",
}
# The tools of coming-from.md, by the names that their records begin with.
SEARCHES |= {
    name: "coming-from"
    for tool in TOOLS.values()
    for name in re.findall(r"^[A-Za-z][\w-]+", tool.version)
}
SEARCHES["Ragas"] = "rag"  # a keyword of that page, which says how to read its files
# The search of the site itself, which lists the last result first.
SEARCH = "query => Search._performSearch(...Search._parseQuery(query)).at(-1)[0]"


@pytest.mark.site
def test_chinese_pages_stand_under_one_heading_on_top(site):
    """The first entry of the sidebar is 中文, and opens all pages of docs/zh."""
    text = (site / "index.html").read_text("utf-8")
    sidebar = text.partition('class="sidebar-tree"')[2].partition('class="main"')[0]
    entries = sidebar.split('class="toctree-l1')
    assert '<a class="reference internal" href="zh/start.html">中文</a>' in entries[1]
    pages = {f"zh/{page.stem}.html" for page in (ROOT / "docs" / "zh").glob("*.md")}
    assert {*re.findall(r'href="(zh/\w[\w-]*\.html)"', entries[1])} == pages
    assert not any('href="zh/' in entry for entry in entries[2:])


def test_readme_leads_to_chinese_pages():
    """RAG, gate, monitoring and labels in Chinese are two clicks away from the README."""
    assert "](docs/zh/start.md)" in (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\((\w[\w-]*\.md)\)", (ROOT / "docs/zh/start.md").read_text("utf-8"))
    pages = {page.name for page in (ROOT / "docs" / "zh").glob("*.md")} - {"start.md"}
    assert pages - {*links} == set() and pages > {"rag.md", "gate.md", "monitor.md", "labels.md"}


# Words of two characters, most of them inside longer words or sentences.
CHINESE = re.findall(
    "..",
    "分群标注指标物品查询截断区间显著检验折损增益精确召回位置等级"
    "用户点击购买日志模型均值同分阈值权重样本偏差覆盖新颖基线报告",
)
PAGES_FOUND = """word => [...new Set(
    Search._performSearch(...Search._parseQuery(word)).map(result => result[0]))].sort()"""


def article(path):
    """The text of a page of the site, without tags."""
    _, _, text = path.read_text("utf-8").partition('<article role="main"')
    return re.sub(r"<[^>]*>", "", text.partition("</article>")[0])


@pytest.mark.site
@pytest.mark.browser
def test_search_finds_the_right_page_first_and_every_page_with_a_chinese_word(site, browser):
    pages = {
        path.relative_to(site).with_suffix("").as_posix(): article(path)
        for path in {*site.rglob("*.html")} - {site / "genindex.html"}
    }
    expected = {word: sorted(p for p, text in pages.items() if word in text) for word in CHINESE}
    assert len(CHINESE) == 30 and min(map(len, expected.values())) >= 2
    page = browser.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q=ties")
    page.wait_for_function("Search.hasIndex()")
    assert {word: page.evaluate(PAGES_FOUND, word) for word in CHINESE} == expected
    assert {query: page.evaluate(SEARCH, query) for query in SEARCHES} == SEARCHES
    page.close()


SPHINX_SPLITS = """lines => lines.map(line => line
    .split(/[^\\p{Letter}\\p{Number}_\\p{Emoji_Presentation}]+/gu).filter(term => term))"""


@pytest.mark.site
@pytest.mark.browser
def test_english_is_searched_as_sphinx_does(site, browser):
    """The index and the query have the words of Sphinx's own splitter, on all English lines."""
    texts = [page.read_text("utf-8") for page in PAGES]
    module = runpy.run_path(str(ROOT / "docs" / "chinese_search.py"))
    ours, theirs = module["SearchEnglishAndChinese"]({}), module["SearchEnglish"]({})
    lines = [line for text in texts for line in text.splitlines()]
    lines = [line for line in lines if not re.search(module["HAN"], line)]
    assert [ours.split(line) for line in lines] == [theirs.split(line) for line in lines]
    assert (ours.stopwords, ours.stem("rankings")) == (theirs.stopwords, theirs.stem("rankings"))
    page = browser.new_page()
    page.goto((site / "search.html").as_uri())
    assert page.evaluate("lines => lines.map(splitQuery)", lines) == page.evaluate(
        SPHINX_SPLITS, lines
    )
    page.close()


# The beginnings of the elements that are wider than their box.
WIDER = """selector => [...document.querySelectorAll(selector)]
    .filter(node => node.scrollWidth > node.clientWidth + 1)
    .map(node => node.textContent.slice(0, 80))"""


@pytest.mark.site
@pytest.mark.browser
def test_no_sideways_scrolling(site, browser):
    """At 1280 px neither pages nor outputs, at 390 px no page."""
    page = browser.new_page(java_script_enabled=False)
    for path in sorted(site.rglob("*.html")):
        if 'http-equiv="refresh"' in path.read_text()[:50]:  # a page that has moved
            continue
        page.goto(path.as_uri())
        for width, selector in ((1280, "html, .highlight pre"), (390, "html")):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate(WIDER, selector) == [], (path, width)
    page.close()


@pytest.mark.site
@pytest.mark.browser
@pytest.mark.parametrize(("width", "name"), [(1280, "report-{}.png"), (390, "report-{}-phone.png")])
def test_the_index_shows_one_picture_of_each_size_and_colour(site, browser, width, name):
    """So that the page is as high in the dark as in the light."""
    shown = "[...document.querySelectorAll('article img')].filter(x => x.offsetWidth > 0)"
    heights = set()
    for scheme in ("light", "dark"):
        page = browser.new_page(
            viewport={"width": width, "height": 800}, color_scheme=scheme, device_scale_factor=1
        )
        page.goto((site / "index.html").as_uri())
        (picture,) = page.evaluate(f"{shown}.map(x => [x.src.split('/').at(-1), x.offsetWidth])")
        assert picture[0] == name.format(scheme) and picture[1] > 300
        heights.add(int.from_bytes(page.screenshot(full_page=True)[20:24]))  # of the PNG
        page.close()
    assert max(heights) - min(heights) < 20


@pytest.mark.site
@pytest.mark.browser
def test_tables_on_a_phone(site, browser):
    """Cells of Chinese tables are 5 characters wide or more."""
    page = browser.new_page(viewport={"width": 390, "height": 800})
    narrow = "Math.min(...[...document.querySelectorAll('td, th')].map(cell => cell.offsetWidth))"
    for name in ("metrics", "textbook", "start", "monitor"):
        page.goto((site / "zh" / f"{name}.html").as_uri())
        assert page.evaluate(narrow) >= 80, name
    page.close()

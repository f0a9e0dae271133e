"""The reference: every name, metric and command, and examples that print what they show.

The Chinese pages follow the English ones. `python tests/generate.py metrics` writes the tables.
"""

import ast
import doctest
import importlib
import re

import pytest

import column_page
import doc_tables
import rankql
from doc_blocks import ENGLISH, PAGES, with_english_blocks
from rankql.cli.main import main
from rankql.core.metrics.all_metrics import FUNCTIONS
from rankql.core.metrics.macros import read_comments
from support import signatures
from support.paths import PACKAGE, ROOT

TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in PAGES}


def test_every_name_has_an_entry():
    """Those of metrics are in completeness.py. Their list and score forms belong to them."""
    entries = re.findall(
        r"^\.\. (?:auto\w+|py:data):: rankql\.(\w+)", "\n".join(TEXTS.values()), re.MULTILINE
    )
    names = {*map(signatures.metric_of, rankql.__all__)} - {*FUNCTIONS}
    assert sorted(names - {*entries}) == []


def test_functions_md_names_every_function_of_sql():
    named = {*re.findall(r"\w+", TEXTS["docs/functions.md"])}
    assert sorted({*map(signatures.metric_of, read_comments())} - named) == []


def test_the_list_of_all_functions_has_each_metric():
    text = TEXTS["docs/functions.md"].split("\n## ")[0]
    listed = {*re.findall(r"`(\w+)", text)}
    assert {name for name in FUNCTIONS if not name.startswith("micro_")} - listed == set()


def test_the_names_of_columns_are_current():
    assert column_page.with_table() == TEXTS["docs/reference/columns.md"], (
        "run python tests/generate.py columns"
    )


def test_dir_has_all_names_but_variants():
    names = set(dir(rankql))
    assert names < set(rankql.__all__)
    assert names >= {"evaluate", "gate", "register", "ndcg", "rmse", "novelty", "gini", "graded"}
    variants = re.compile("(list|micro|num)_.*|.*_by_score")
    assert {*filter(variants.fullmatch, rankql.__all__)} == {*rankql.__all__} - names


def test_every_command_has_its_help():
    commands = re.findall(r"^rankql ([\w-]+) --help$", TEXTS["docs/commands.md"], re.MULTILINE)
    assert sorted(commands) == sorted(main.commands)


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.stem)
def test_chinese_pages(page):
    """They have the blocks of the English one, and columns of tables line up on the screen."""
    text = page.read_text("utf-8")
    assert text == with_english_blocks(page), "run python tests/generate.py docs"
    assert doc_tables.aligned(text) == text


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.stem)
def test_the_english_page_links_to_the_chinese_one(page):
    link = "../zh/metrics.md" if page.stem == "metrics" else f"zh/{page.name}"
    assert f"\n\n[简体中文]({link})\n\n" in ENGLISH[page].read_text("utf-8")[:400]


def test_chinese_words_that_people_search_for_are_on_their_page():
    conf = ast.parse((ROOT / "docs/conf.py").read_text("utf-8"))
    (node,) = [x for x in conf.body if isinstance(x, ast.Assign) and x.targets[0].id == "KEYWORDS"]
    words = eval(compile(ast.Expression(node.value), "conf", "eval"))
    chinese = {page: words for page, words in words.items() if page.startswith("zh/")}
    missing = [
        (p, w) for p, words in chinese.items() for w in words if w not in TEXTS[f"docs/{p}.md"]
    ]
    assert len(chinese) >= 6 and not missing


def test_chinese_text_has_no_line_breaks():
    """A browser shows one as a blank."""
    broken = re.compile(r"[\u3001-\u9fff\uff00-\uffef]\n[\u3001-\u9fff\uff00-\uffef]")
    for name, text in TEXTS.items():
        assert not name.startswith("docs/zh/") or not broken.search(text), name


# The examples in docstrings.

DRAWN = ("charts", "report")
MARKS = {
    **{f"rankql.pages.{name}": pytest.mark.report for name in DRAWN},
    **{f"rankql.engines.{name}": pytest.mark.spark for name in ("spark", "spark_evaluation")},
    "rankql.spark": pytest.mark.spark,
}
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.stem != "__main__" and path.parent / path.stem != PACKAGE / "__init__"
)  # the functions of the package are tested where they stand


@pytest.mark.few(36)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, [])) for name in MODULES]
)
def test_doctests(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples write files
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert not failed

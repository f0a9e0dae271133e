"""The reference has every name and every command; the Chinese pages follow the English ones."""

import re

import pytest

import rankql
from rankql.cli.main import main
from support import doc_tables
from support.doc_blocks import PAGES, ROOT

TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in PAGES}


def test_every_name_has_an_entry():
    """The list and score forms of the metrics are described together."""
    entries = re.findall(r"^\.\. auto\w+:: rankql\.(\w+)", "\n".join(TEXTS.values()), re.MULTILINE)
    forms = {n for n in rankql.__all__ if n.startswith("list_") or n.endswith("_by_score")}
    assert sorted(set(rankql.__all__) - forms - set(entries)) == []


def test_forms_are_those_of_metrics_with_an_entry():
    for name in rankql.__all__:
        if name.startswith("list_") or name.endswith("_by_score"):
            assert name.removeprefix("list_").removesuffix("_by_score") in rankql.__all__


def test_dir_has_the_tasks_and_the_metrics_of_one_ranking():
    names = set(dir(rankql))
    assert names < set(rankql.__all__) and len(names) <= 70
    assert names >= {"evaluate", "compare", "gate", "register", "ranked", "metrics", "ndcg", "rmse"}
    others = ["list_ndcg", "ndcg_by_score", "gini", "alpha_ndcg", "click_model", "tally"]
    assert names.isdisjoint(others) and all(hasattr(rankql, name) for name in others)


def test_every_command_has_its_help():
    commands = re.findall(r"^rankql (\w+) --help$", TEXTS["docs/commands.md"], re.MULTILINE)
    assert sorted(commands) == sorted(main.commands)


# The Chinese pages, and the English ones whose blocks they have.
TRANSLATIONS = {
    "docs/zh/start.md": "docs/start.md",
    "docs/zh/textbook.md": "docs/textbook.md",
    "docs/zh/evaluate.md": "docs/evaluate.md",
    "docs/zh/compare.md": "docs/compare.md",
    "docs/zh/implicit.md": "docs/implicit.md",
    "docs/zh/metrics.md": "docs/metrics/index.md",
    "docs/zh/choosing-k.md": "docs/choosing-k.md",
    "docs/zh/judges.md": "docs/judges.md",
    "docs/zh/questions.md": "docs/questions.md",
}


def test_all_chinese_pages_are_listed():
    assert {name for name in TEXTS if name.startswith("docs/zh/")} == TRANSLATIONS.keys()


@pytest.mark.parametrize("page", TRANSLATIONS)
def test_chinese_pages(page):
    """They have the same blocks, and tables whose columns line up on the screen."""
    chinese, english = (
        re.findall(r"^```.*?^```$", TEXTS[name], re.M | re.S) for name in (page, TRANSLATIONS[page])
    )
    assert chinese == english
    assert doc_tables.aligned(TEXTS[page]) == TEXTS[page]

"""The reference has every name and every command; the Chinese pages follow the English ones."""

import re

import pytest

import rankql
from rankql.cli.main import main
from support import doc_tables
from support.doc_blocks import PAGES, ROOT

TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in PAGES}


def test_every_name_has_an_entry():
    """The list and score forms of the metrics are described with them."""
    entries = re.findall(r"^\.\. auto\w+:: rankql\.(\w+)", "\n".join(TEXTS.values()), re.MULTILINE)
    names = {name.removeprefix("list_").removesuffix("_by_score") for name in rankql.__all__}
    assert sorted(names - {*entries}) == []


def test_dir_has_the_tasks_and_the_metrics_of_one_ranking():
    names = set(dir(rankql))
    assert names < set(rankql.__all__) and len(names) <= 70
    assert names >= {"evaluate", "compare", "gate", "register", "ranked", "metrics", "ndcg", "rmse"}
    others = ["list_ndcg", "ndcg_by_score", "gini", "alpha_ndcg", "click_model", "tally"]
    assert names.isdisjoint(others) and all(hasattr(rankql, name) for name in others)


def test_every_command_has_its_help():
    commands = re.findall(r"^rankql (\w+) --help$", TEXTS["docs/commands.md"], re.MULTILINE)
    assert sorted(commands) == sorted(main.commands)


def english(page):
    """The English page whose blocks a Chinese page has."""
    return page.replace("zh/metrics", "metrics/index").replace("zh/", "")


@pytest.mark.parametrize("page", [name for name in TEXTS if name.startswith("docs/zh/")])
def test_chinese_pages(page):
    """They have the same blocks, and tables whose columns line up on the screen."""
    blocks = re.compile(r"^```.*?^```$", re.M | re.S)
    assert blocks.findall(TEXTS[page]) == blocks.findall(TEXTS[english(page)])
    assert doc_tables.aligned(TEXTS[page]) == TEXTS[page]

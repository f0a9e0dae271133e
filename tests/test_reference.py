"""The reference: every name of rankql and every command stands on a page."""

import re

from test_docs import PAGES

import rankql
from rankql.cli.main import main

TEXTS = {page.name: page.read_text() for page in PAGES}


def test_every_name_has_an_entry():
    """The list and score forms of the metrics are described together."""
    entries = re.findall(r"^\.\. auto\w+:: rankql\.(\w+)", "\n".join(TEXTS.values()), re.MULTILINE)
    forms = {n for n in rankql.__all__ if n.startswith("list_") or n.endswith("_by_score")}
    assert sorted(set(rankql.__all__) - forms - set(entries)) == []


def test_forms_are_those_of_metrics_with_an_entry():
    for name in rankql.__all__:
        if name.startswith("list_") or name.endswith("_by_score"):
            assert name.removeprefix("list_").removesuffix("_by_score") in rankql.__all__


def test_every_command_has_its_help():
    asked = re.findall(r"^rankql (\w+) --help$", TEXTS["reference.md"], re.MULTILINE)
    assert sorted(asked) == sorted(main.commands)


def test_the_chinese_quick_start_has_the_same_blocks():
    blocks = [
        re.findall(r"^```.*?^```$", TEXTS[page], re.M | re.S) for page in ("start.md", "zh.md")
    ]
    assert blocks[0] == blocks[1]
    assert len(blocks[0]) > 10

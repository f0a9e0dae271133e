"""Links between pages, and from messages and docstrings to pages, lead to a section that exists."""

import re

import pytest

from doc_blocks import FENCES, PAGES
from support.paths import PACKAGE, ROOT

LINK = re.compile(r"(?<!!)\]\(([^)\s]+)\)")
# What messages, docstrings and comments name: docs/by-hand.md#columns.
NAMED = re.compile(r"docs/[\w/-]+\.md(?:#[\w-]+)?")
DOCS = ROOT / "docs"


def anchors(path):
    """The anchors of a page: of headings to the third level, and those that it sets."""
    text = path.read_text("utf-8")
    titles = re.findall(r"^#{1,3} (.+)$", FENCES.sub("", text), re.MULTILINE)
    slugs = (re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles)
    return {*slugs, *re.findall(r'<a id="([\w-]+)">', text)}


def broken(source, target):
    """What is wrong with a link from a page to a path with an anchor."""
    path, _, anchor = target.partition("#")
    page = (source.parent / path).resolve() if path else source
    if not page.exists():
        return f"{source.relative_to(ROOT)}: {target} does not exist"
    if anchor and page.suffix == ".md" and anchor not in anchors(page):
        return f"{source.relative_to(ROOT)}: {target} has no such section"


def links(page):
    """The links of a page to files, outside blocks."""
    found = LINK.findall(FENCES.sub("", page.read_text("utf-8")))
    return [x for x in found if not re.match(r"\w+:", x)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_pages(page):
    # The page of the browser is built with the site; a link to .html is one to its source.
    targets = [re.sub(r"\.html\b", ".md", x) for x in links(page) if "browser/" not in x]
    assert [x for x in (broken(page, target) for target in targets) if x] == []


def test_links_of_messages_and_docstrings():
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "sql").glob("*.sql"), *(ROOT / "tests").rglob("*.py")]
    named = {
        name
        for path in files
        for name in NAMED.findall(path.read_text("utf-8"))
        if path.name != "test_looks.py"  # ids of documents
    }
    assert len(named) > 5
    assert [x for x in (broken(ROOT / "README.md", name) for name in sorted(named)) if x] == []

"""Plain English: phrases that must not occur in what people read.

That is the README, the changelog, the documentation, docstrings, help, errors, sentences and the
report. The style says what to write instead.
"""

import ast
import re
import tomllib
from functools import cache

import pytest

from support.paths import PACKAGE, ROOT

# A phrase, and what to write instead.
PHRASES = {
    r"where the data lies": "where your data lives",
    r"such a difference by chance|Holm over \d": "p = 0.03, Holm-adjusted for 4 tests",
    r"\bwould show\b": "would be detected",
    r"there is no metric|There are: ": "Unknown metric ... Available: ...",
    r"(?<!there)(?<!There) (is|are) no (limit|metric|Parquet|number|error|list|test)\b": "is not a",
    r"\bknows no\b": "does not support",
    r"nothing to be found|nothing is to be found": "has no relevant item",
    r"\bas a peer has\b|\bpeers?\b(?!\.)": "other tools, or the name of the tool",
    r"Noise is p": "Significance level",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\banew\b": "again",
    r"\bthe house\b": "(nothing)",
    r"the way of the data|what clicks tell of": "(nothing)",
    r"\bin silence\b": "silently",
    r"\btold apart\b|\btells? from noise\b": "distinguish",
    r"\bwhatever the unjudged\b": "for any grades of the unjudged items",
    r"\bof equal ones\b": "if several are equal",
    r"\bthat which\b": "the one that",
    r"\bcall (it|one) otherwise\b|give the column another name": "rename the column",
    r"\bstands? (beside|there twice|once|the wrong way)\b": "is next to, appears",
    r"\bgainsays?\b": "contradicts",
    r"\bgoes with p\b": "agrees with p",
    r"\bis said of\b|\bsaid of it\b": "is reported",
    r"\bwhat nobody can do without\b|\bdoes without\b": "does not need",
    r"\bbesides? (it|them|each other)\b": "along with",
    r"\bthereof\b|\bas they lie\b|\bwhere it lies\b": "in place",
}


def texts():
    """What people read, by a name for it: pages, and the texts in code with their line."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    templates = [*(PACKAGE).rglob("*.j2"), *(ROOT / "sql").glob("*.sql")]
    for path in (*pages, *templates):
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    for path in (PACKAGE).rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{name}:{node.lineno}", node.value
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    yield "pyproject.toml", project["description"]


@cache
def all_texts():
    return [*texts()]


@pytest.mark.slow
@pytest.mark.parametrize("phrase", PHRASES)
def test_phrase_does_not_occur(phrase):
    pattern = re.compile(phrase.replace(" ", r"\s+"))
    result = [
        f"{name}: ...{text[max(match.start() - 30, 0) : match.end() + 30]}..."
        for name, text in all_texts()
        for match in pattern.finditer(text)
    ]
    assert result == [], f"write instead: {PHRASES[phrase]}"

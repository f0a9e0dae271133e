"""The pages of the metrics: the table of all of them, and each on the page of its family.

`python tests/test_metrics_page.py` writes the table anew.
"""

import re
from pathlib import Path

import pytest

import rankql
from rankql.facts import FACTS

PAGES = Path(__file__).parents[1] / "docs" / "metrics"
TABLE = re.compile(r"(<!-- metrics.*?-->\n).*?(<!-- end -->)", re.DOTALL)


def page(function):
    """The page of a function's family."""
    return getattr(rankql, function).__module__.removeprefix("rankql.") + ".md"


def table():
    """`rankql.metrics()` in Markdown."""
    lines = [
        "| function | in `evaluate` | of | better | range | undefined where |",
        "|---" * 6 + "|",
    ]
    for row in rankql.metrics().to_dicts():
        name, function = row["name"], row["function"]
        low, high = (None if end is None else f"{end:g}" for end in (row["lowest"], row["highest"]))
        reach = f"≥ {low}" if high is None else f"{low} to {high}"
        cells = [
            f"[`{function}`]({page(function)})",
            "" if name == function else f"`{name}`",
            row["level"],
            row["better"],
            "any" if low is None else reach,
            row["undefined"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def written(text):
    """The index with the table as it is now."""
    return TABLE.sub(lambda found: f"{found[1]}\n{table()}\n\n{found[2]}", text)


def test_table():
    text = (PAGES / "index.md").read_text()
    assert TABLE.search(text)
    assert written(text) == text


@pytest.mark.parametrize("function", FACTS)
def test_place(function):
    """Its docstring stands on the page of its family, and something is said of it before."""
    text = (PAGES / page(function)).read_text()
    said, directive, _ = text.partition(f".. autofunction:: rankql.{function}\n")
    assert directive
    assert re.search(rf"\b{function}\b", said)


if __name__ == "__main__":
    (PAGES / "index.md").write_text(written((PAGES / "index.md").read_text()))

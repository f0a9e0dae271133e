"""The pages of the metrics: a table of their properties, and the docstring of each.

`python tests/test_metrics_page.py` writes the tables.
"""

import re
from pathlib import Path

import pages
import pytest

import rankql
from rankql.registry.all_metrics import FUNCTIONS

FOLDER = Path(__file__).parents[1] / "docs" / "metrics"


def page(function):
    """The page of a function's family."""
    return f"{getattr(rankql, function).__module__.rpartition('.')[2]}.md"


def table(name):
    """`rankql.metrics()` in Markdown: all of them in the index, those of the family on a page."""
    lines = [
        "| function, name in evaluate | reads | one value per | better | range | NULL if |",
        "|---" * 6 + "|",
    ]
    for row in rankql.metrics().to_dicts():
        function, home = row["function"], page(row["function"])
        if name not in ("index.md", home):
            continue
        low, high = (None if end is None else f"{end:g}" for end in (row["lowest"], row["highest"]))
        reach = f"≥ {low}" if high is None else f"{low} to {high}"
        cells = [
            (f"[`{function}`]({home})" if name == "index.md" else f"`{function}`")
            + ("" if row["name"] == function else f", `{row['name']}`"),
            f"`{row['columns']}`",
            row["level"],
            row["better"],
            "any" if low is None else reach,
            row["undefined"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


PAGES = sorted({"index.md", *map(page, FUNCTIONS)})


def written(name):
    """The page with its table as it is now."""
    return pages.with_table(FOLDER / name, "metrics", table(name))


@pytest.mark.parametrize("name", PAGES)
def test_table(name):
    assert written(name) == (FOLDER / name).read_text()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_docstring(function):
    """It is on the page of its family, after a text that mentions the function."""
    text = (FOLDER / page(function)).read_text()
    before, directive, _ = text.partition(f".. autofunction:: rankql.{function}\n")
    assert directive
    assert len(re.findall(rf"\b{function}\b", before)) > 2


if __name__ == "__main__":
    for name in PAGES:
        (FOLDER / name).write_text(written(name))

"""The table of docs/coming-from.md with names that mean something else in other tools."""

from rankql.registry.parse import OTHERS
from support import doc_tables
from support.paths import ROOT

PAGE = ROOT / "docs" / "coming-from.md"


def with_table():
    """The page with its table as it is now."""
    lines = ["| name | tool | what it is there | the closest in rankql |", "|---|---|---|---|"]
    for names, *rest in OTHERS:
        coded = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        lines.append(f"| {' | '.join([coded, *rest])} |")
    return doc_tables.with_table(PAGE, "other names", "\n".join(lines))

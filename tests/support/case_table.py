"""The table of the documentation that says how many hand-checked cases agree on which engine."""

import re
import sys

from support import case_matrix, hand_cases
from support.paths import ROOT

# Where the table stands, between two markers.
PAGE = ROOT / "docs" / "engines.md"
MARKED = re.compile(r"(?<=<!-- matrix -->\n).*?(?=\n<!-- /matrix -->)", re.DOTALL)


def cell(equal, refused):
    """`52`, or `48 / 10` where 10 are refused."""
    return f"{equal} / {refused}" if refused else str(equal)


def written(cells):
    """The page's table of the cells by engine and family, those that are only printed below."""
    tables = []
    for executed in (True, False):
        names = [name for name, x in case_matrix.ENGINES.items() if x.executed == executed]
        head = "cases" if executed else "not executed"
        lines = [f"| {head} | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
        for family in hand_cases.FAMILIES:
            row = " | ".join(cells[name, family] for name in names)
            lines.append(f"| {family} | {row} |")
        tables.append("\n".join(lines))
    messages = {}
    for entry in case_matrix.REFUSED:
        messages.setdefault(", ".join(entry.engines), []).append(entry.what)
    refused = [f"- {names}: {'; '.join(what)}" for names, what in messages.items()]
    return "\n\n".join([*tables, "Refused:\n\n" + "\n".join(refused)])


def stored():
    """The page's table as it stands, its cells by engine and family."""
    (text,) = MARKED.findall(PAGE.read_text("utf-8"))
    cells = {}
    for table in text.split("\n\n"):
        if table.startswith("|"):
            (_, *names), _, *rows = (
                [part.strip() for part in line.strip("|").split("|")] for line in table.split("\n")
            )
            for family, *row in rows:
                cells |= {(name, family): c for name, c in zip(names, row, strict=True)}
    return text, cells


def write():
    """Run all engines over all cases, and write the table."""
    cells, wrong = {}, []
    for engine in case_matrix.ENGINES.values():
        with case_matrix.PLACES[engine.place]() as place:
            for family, cases in hand_cases.FAMILIES.items():
                equal, refused, lines = case_matrix.run(engine, place, cases)
                cells[engine.name, family] = cell(equal, refused)
                wrong += lines
                print(f"{engine.name}, {family}: {cell(equal, refused)}")
    if wrong:
        sys.exit("\n".join(wrong))
    PAGE.write_text(MARKED.sub(lambda _: written(cells), PAGE.read_text("utf-8")), "utf-8")

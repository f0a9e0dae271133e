"""Every hand-checked case on every engine, and the table of it that users read.

`python tests/test_matrix.py` runs all engines and writes the table anew.
"""

import re
import sys
from pathlib import Path

import casebook
import matrix
import pytest

# Where the table stands, between two markers.
PAGE = Path(__file__).parents[1] / "docs" / "engines.md"
MARKED = re.compile(r"(?<=<!-- matrix -->\n).*?(?=\n<!-- /matrix -->)", re.DOTALL)


def cell(equal, refused):
    """`52`, or `48 / 10` where 10 are refused."""
    return f"{equal} / {refused}" if refused else str(equal)


def written(cells):
    """The page's table of the cells by engine and family, those that are only printed below."""
    tables = []
    for executed in (True, False):
        names = [name for name, engine in matrix.ENGINES.items() if engine.executed == executed]
        head = "cases" if executed else "not executed"
        lines = [f"| {head} | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
        for family in casebook.FAMILIES:
            row = " | ".join(cells[name, family] for name in names)
            lines.append(f"| {family} | {row} |")
        tables.append("\n".join(lines))
    told = {}
    for entry in matrix.REFUSED:
        told.setdefault(", ".join(entry.engines), []).append(entry.what)
    refused = [f"- {names}: {'; '.join(what)}" for names, what in told.items()]
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


@pytest.fixture(scope="module")
def place(request):
    with matrix.PLACES[request.param]() as made:
        yield made


@pytest.mark.parametrize("family", casebook.FAMILIES)
@pytest.mark.parametrize(
    ("place", "name"),
    [pytest.param(e.place, e.name, marks=e.marks, id=e.name) for e in matrix.ENGINES.values()],
    indirect=["place"],
)
def test_matrix(place, name, family):
    equal, refused, wrong = matrix.run(matrix.ENGINES[name], place, casebook.FAMILIES[family])
    assert not wrong, "\n".join(wrong)
    _, cells = stored()
    assert cells.get((name, family)) == cell(equal, refused), "run python tests/test_matrix.py"


def test_the_table_is_whole():
    """Nothing but the cells that the runs look at, and what is refused as it is told here."""
    text, cells = stored()
    assert cells.keys() == {(e, family) for e in matrix.ENGINES for family in casebook.FAMILIES}
    assert text == written(cells)


def test_nothing_is_refused_in_vain():
    """Each error that is expected is that of some case, on each engine."""
    for entry in matrix.REFUSED:
        for engine in map(matrix.ENGINES.get, entry.engines):
            assert any(matrix.refused(engine, case) is entry for case in casebook.ALL), entry


def main():
    cells, lines = {}, []
    for engine in matrix.ENGINES.values():
        with matrix.PLACES[engine.place]() as place:
            for family, cases in casebook.FAMILIES.items():
                equal, refused, wrong = matrix.run(engine, place, cases)
                cells[engine.name, family] = cell(equal, refused)
                lines += wrong
                print(f"{engine.name}, {family}: {cell(equal, refused)}")
    if lines:
        sys.exit("\n".join(lines))
    PAGE.write_text(MARKED.sub(lambda _: written(cells), PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()

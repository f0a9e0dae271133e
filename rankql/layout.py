"""How tables fit a screen: long ones without the middle, wide ones in parts, long names cut."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rankql.text import Name, TableRows, display_width, format_count, text_widths

# A longer table is printed without the rows in the middle. Files have all rows.
ROWS = 60
# The display columns of a table, if there is no terminal.
WIDTH = 80
# The display columns of a name in plain text.
NAME = 16
# Between the attributes of a slice.
_ATTRIBUTES = re.compile(r", (?=[^,=]+=)")


@dataclass(frozen=True)
class Block:
    """A table as text, the header first. Columns `right` are aligned right; a wide one may wrap."""

    rows: TableRows
    right: Sequence[int] = ()
    title: str = ""
    wraps: bool = False

    def cut(self) -> Block:
        """Replace the middle of a long table by the number of its rows."""
        header, *body = self.rows
        if (hidden := len(body) - ROWS) <= 0:
            return self
        gap = [f"... {format_count(hidden, 'more row')} ...", *[""] * (len(header) - 1)]
        half = ROWS // 2
        top, (first, *rest) = body[:half], body[-half:]
        if not first[0]:  # as in the rows above, of which the last with a name may be hidden
            first = [next((row[0] for row in body[-half::-1] if row[0]), ""), *first[1:]]
        return replace(self, rows=[header, *top, gap, first, *rest])

    def nest(self) -> Block:
        """Put the last attribute of long slices below a row with the others: none is cut."""
        header, *body = self.rows
        if "slice" not in header:
            return self
        at, above, rows = header.index("slice"), "", [header]
        labels = [_ATTRIBUTES.split(row[at]) for row in body]
        if all(len(x) < 2 or display_width(", ".join(x)) <= NAME for x in labels):
            return self
        for row, (*others, last) in zip(body, labels, strict=True):
            first = ", ".join(others)
            if others and first != above:
                rows.append([*row[:at], first, *[""] * len(row[at + 1 :])])
            above = first or last
            rows.append([*row[:at], "  " * bool(others) + last, *row[at + 1 :]])
        return replace(self, rows=rows)

    def wrap(self, room: int) -> list[Block]:
        """Parts with as many columns as fit, each with those before the numbers."""
        if not self.wraps:
            return [self]
        keys = [*range(min(self.right, default=1))]
        (block,), _ = cut_names([self.cut().nest()])
        widths = text_widths(block.rows)
        parts = [[*keys]]
        for column in range(len(keys), len(widths)):
            if parts[-1] != keys and sum(widths[i] + 2 for i in [*parts[-1], column]) - 2 > room:
                parts.append([*keys])
            parts[-1].append(column)
        return [
            replace(
                self,
                rows=[[row[i] for i in part] for row in self.rows],
                right=[new for new, old in enumerate(part) if old in self.right],
            )
            for part in parts
        ]


def terminal_width(default: int = WIDTH) -> int:
    """The display columns of the terminal, if there is one."""
    if sys.stdout is not None and sys.stdout.isatty():
        with suppress(OSError):  # of a captured stream
            return os.get_terminal_size().columns or default
    return default


def cut_names(blocks: Sequence[Block]) -> tuple[list[Block], str]:
    """Cut long names in the middle, and a line that says what they stand for."""
    cells = [cell for block in blocks for row in block.rows for cell in row]
    short = cut_in_middle((cell for cell in cells if isinstance(cell, Name)), NAME)
    rows = (
        [[short[cell] if isinstance(cell, Name) else cell for cell in row] for row in block.rows]
        for block in blocks
    )
    legend = ", ".join(f"{cut} = {name}" for name, cut in short.items() if cut != name)
    return [replace(block, rows=cut) for block, cut in zip(blocks, rows, strict=True)], legend


def cut_in_middle(names: Iterable[str], most: int) -> dict[str, str]:
    """Cut names in the middle, to so many display columns or to as many as keep them apart."""
    names = list(dict.fromkeys(names))
    for width in range(most, max(map(display_width, names), default=0)):
        cut = {name: _cut_middle(name, width) for name in names}
        if len({*cut.values()}) == len(names):
            return cut
    return {name: name for name in names}


def _cut_middle(name: str, width: int) -> str:
    cut, size = name, len(name)
    while display_width(cut) > width and size > 1:
        size -= 1
        cut = f"{name[: (size + 1) // 2]}…{name[len(name) - size // 2 :]}"
    return cut

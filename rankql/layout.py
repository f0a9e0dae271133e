"""How tables are laid out: in blocks of columns that fit the width, with long names cut."""

from __future__ import annotations

import itertools
import os
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
# More letters in a row are a range.
RUN = 4


@dataclass(frozen=True)
class Block:
    """A table as text, the header first. Columns `right` are aligned right.

    If it is too wide, the first `keys` columns are repeated in each of its parts.
    """

    rows: TableRows
    right: Sequence[int] = ()
    title: str = ""
    keys: int = 1

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

    def select(self, columns: Sequence[int]) -> Block:
        """Keep some columns."""
        right = [new for new, old in enumerate(columns) if old in self.right]
        return replace(self, rows=[[row[i] for i in columns] for row in self.rows], right=right)


def terminal_width(default: int = WIDTH) -> int:
    """The display columns of the terminal, if there is one."""
    if sys.stdout is not None and sys.stdout.isatty():
        with suppress(OSError):  # of a captured stream
            return os.get_terminal_size().columns or default
    return default


def first_that_fits(candidates: Iterable[list[Block]], room: int | None) -> list[Block]:
    """The first layout that fits, its names cut; otherwise the last, its columns split."""
    blocks: list[Block] = []
    for blocks in candidates:
        if room is None or all(_width(block) <= room for block in cut_names(blocks)[0]):
            return blocks
    assert room is not None
    return [part for block in blocks for part in _split(block, room)]


def _width(block: Block) -> int:
    widths = text_widths(block.rows)
    return sum(widths) + 2 * (len(widths) - 1)


def _split(block: Block, room: int) -> list[Block]:
    """Parts with as many columns as fit, each with the keys."""
    widths = text_widths(cut_names([block])[0][0].rows)
    keys, parts = [*range(block.keys)], list[list[int]]()
    for column in range(block.keys, len(widths)):
        together = [*keys, *(parts[-1] if parts else ()), column]
        if parts and sum(widths[i] + 2 for i in together) - 2 <= room:
            parts[-1].append(column)
        else:
            parts.append([column])
    return [block.select([*keys, *columns]) for columns in parts]


def cut_names(blocks: Sequence[Block]) -> tuple[list[Block], str]:
    """Cut long names in the middle, and a line that says what they stand for."""
    cells = [cell for block in blocks for row in block.rows for cell in row]
    names = {str(cell): cell.short for cell in cells if isinstance(cell, Name)}
    given = {name: short for name, short in names.items() if short}
    long = shorten_lines([name for name in names if name not in given], NAME)
    short = {name: x for name, x in (long | given).items() if x != name}
    if not short:
        return [*blocks], ""
    named = (f"{x} = {name}" for name, x in short.items())
    return [
        replace(block, rows=[
            [short.get(cell, cell) if isinstance(cell, Name) else cell for cell in row]
            for row in block.rows
        ])
        for block in blocks
    ], ", ".join(named)  # fmt: skip


def shorten_lines(names: Iterable[str], most: int) -> dict[str, str]:
    """Shorten long names, no two to the same: in the middle, or to what differs."""
    names = list(dict.fromkeys(names))
    for width in range(most, max(map(display_width, names), default=0)):
        middle = {name: _cut_middle(name, width) for name in names}
        cut = dict(middle)
        for name in names:
            same = [other for other in names if other != name and middle[other] == middle[name]]
            if same:
                cut[name] = _cut_to_difference(name, same, width)
        if len({*cut.values()}) == len(names):
            return cut
    return {name: name for name in names}


def _cut_middle(name: str, width: int) -> str:
    if display_width(name) <= width:
        return name
    return f"{_take(name, width // 2)}…{_take(name, width - 1 - width // 2, -1)}"


def _cut_to_difference(name: str, others: Sequence[str], width: int) -> str:
    """The part of a name from the word in which it differs from all others."""
    start = max(_count_common(name, other) for other in others)
    word = 1 + max(name.rfind(mark, 0, start) for mark in " /-_")
    start = word if start - word < width // 2 else start
    if display_width(name[start:]) < width:
        return f"…{_take(name, width - 1, -1)}"
    return f"…{_take(name[start:], width - 2)}…"


def _take(name: str, width: int, step: int = 1) -> str:
    """The first characters that fit, or with step -1 the last ones."""
    count = next(
        (n for n in range(len(name), 0, -1) if display_width(name[::step][:n]) <= width), 0
    )
    return name[::step][:count][::step]


def _count_common(a: str, b: str) -> int:
    """The number of characters with which both begin."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))


def name_letters(systems: Sequence[str]) -> dict[str, str]:
    """A letter for each system: a to z, aa, ab, ..."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    words = itertools.chain.from_iterable(
        map("".join, itertools.product(alphabet, repeat=n)) for n in itertools.count(1)
    )
    return dict(zip(systems, words, strict=False))


def join_letters(places: Sequence[int], systems: Sequence[str]) -> str:
    """The letters of systems at these places, more than four in a row as a range: 'bc', 'b-g'."""
    names, parts = [*name_letters(systems).values()], list[str]()
    for _, run in itertools.groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        members = [names[place] for _, place in run]
        parts += [f"{members[0]}-{members[-1]}"] if len(members) > RUN else members
    return (", " if any(len(part) > 1 for part in parts) else "").join(parts)

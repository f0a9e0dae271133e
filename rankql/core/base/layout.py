"""How a question lists columns: table, name, type in a word or two and values, in aligned lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

# The characters of a value, of all values of a column, and of a line.
_VALUE, _VALUES, _LINE = 30, 60, 100
_TYPES = {"VARCHAR": "text", "BOOLEAN": "bool", "DOUBLE": "float", "STRUCT": "object"}


class ListedColumn(NamedTuple):
    """A column or a path of a table: its type in DuckDB, and some values as text."""

    table: str
    name: str
    kind: str
    values: Sequence[str]


def align_columns(columns: Sequence[ListedColumn]) -> list[str]:
    """The columns, one a line; the first of each table has its label."""
    labels = [x.table for x in columns]
    cells = [
        ("" if label == before else label, x.name, short_type(x.kind))
        for x, label, before in zip(columns, labels, ["", *labels], strict=False)
    ]
    widths = [max(map(len, each)) for each in zip(*cells, strict=True)]
    lines = []
    for cell, column in zip(cells, columns, strict=True):
        values = cut(", ".join(cut(x) for x in column.values), _VALUES)
        texts = [f"{x:{n}}" for x, n in zip(cell, widths, strict=True)]
        lines.append(cut_end("  ".join([*texts, values]).rstrip(), _LINE))
    return lines


def short_type(kind: str) -> str:
    """A type of DuckDB in a word or two."""
    if kind.endswith("]"):
        return f"list of {short_type(kind[: kind.rindex('[')])}"
    name = kind.strip('"').partition("(")[0]
    if name.endswith("INT") or name == "INTEGER":
        return "int"
    return "time" if name.startswith("TIME") else _TYPES.get(name, name.lower())


def cut(text: str, length: int = _VALUE) -> str:
    """A text of at most so many characters on one line."""
    return cut_end(" ".join(text.split()), length)


def cut_end(line: str, length: int) -> str:
    """A line of at most so many characters."""
    return line if len(line) <= length else f"{line[: length - 3]}..."


def indent(title: str, lines: Iterable[str]) -> list[str]:
    """Lines of code below a title, each once; nothing if there are none."""
    code = [f"    {line}" for line in dict.fromkeys(lines)]
    return ["", title, *code] if code else []

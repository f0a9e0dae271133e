"""What the page of the report is made of: sections with figures, cases and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from rankql.layout import Block
from rankql.output.specs import SCHEMA, Spec
from rankql.text import Status, format_table

# The largest number of charts in a section.
PANELS = 12


@dataclass
class Section:
    """A part of the page, in the order in which it is shown."""

    id: str
    title: str
    tables: list[Block] = field(default_factory=list)
    # Tables that are folded, and their title.
    folded: list[Block] = field(default_factory=list)
    folded_title: str = ""
    remarks: list[str] = field(default_factory=list)
    reading: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    cases: dict[str, list[Case]] = field(default_factory=dict)
    # The number of charts that the page leaves out.
    beyond: int = 0

    def draw(self, panels: Sequence[Spec]) -> None:
        """Add the charts that have rows."""
        for panel in panels:
            rows = panel["data"]["values"]
            if not rows:
                continue
            if len(self.figures) == PANELS:
                self.beyond += 1
                continue
            title, finding = panel["title"], panel["description"]
            # The page has the words and the configuration.
            left_out = ("title", "description", "config")
            spec = {name: panel[name] for name in panel if name not in left_out}
            spec["$schema"] = SCHEMA
            # As wide as there is room.
            spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
            data = make_block(pl.DataFrame(rows, infer_schema_length=None), f"{title}: data")
            name = f"{self.id}-{len(self.figures) + 1}"
            self.figures.append(Figure(name, title, spec, finding, data))


@dataclass(frozen=True)
class Figure:
    """A chart, what it shows in words, and its numbers."""

    id: str
    title: str
    spec: Spec
    finding: str
    data: Block


@dataclass(frozen=True)
class Case:
    """A query, the items that moved its value, and the rankings side by side."""

    query: str
    a: float
    b: float
    difference: float
    tables: list[Block]


def make_block(frame: pl.DataFrame, title: str) -> Block:
    """Format a frame as a table; a last column with verdicts is coloured."""
    numbers = [i for i, kind in enumerate(frame.dtypes) if kind.is_numeric()]
    rows = format_table(frame)
    if frame.columns[-1] == "verdict":
        rows = [[*row[:-1], Status(row[-1])] for row in rows]
    return Block(rows, numbers, title)

"""What the page of the report is made of: sections with figures, cases and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from rankql.output.specs import SCHEMA, Spec
from rankql.text import TableRows, format_table

# The largest numbers of rows of a chart's data, and of charts in a section.
DATA, PANELS = 100, 12


@dataclass
class Section:
    """A part of the page, in the order in which it is shown."""

    id: str
    title: str
    tables: list[ReportTable] = field(default_factory=list)
    all_pairs: ReportTable | None = None
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
            data = ReportTable.of(pl.DataFrame(rows, infer_schema_length=None), f"{title}: data")
            name = f"{self.id}-{len(self.figures) + 1}"
            self.figures.append(Figure(name, title, spec, finding, data))


@dataclass(frozen=True)
class Figure:
    """A chart, what it shows in words, and its numbers."""

    id: str
    title: str
    spec: Spec
    finding: str
    data: ReportTable


@dataclass(frozen=True)
class Case:
    """A query, the items that moved its value, and the rankings side by side."""

    query: str
    a: float
    b: float
    difference: float
    tables: list[ReportTable]


@dataclass(frozen=True)
class ReportTable:
    """A table of text, the header first; which columns are numbers, and what is left out."""

    caption: str
    rows: TableRows
    numbers: frozenset[int] = frozenset()
    note: str = ""

    @classmethod
    def of(cls, frame: pl.DataFrame, caption: str, most: int = DATA) -> ReportTable:
        """Make a table of a frame; of too many rows it shows the first and the last."""
        numbers = frozenset(i for i, kind in enumerate(frame.dtypes) if kind.is_numeric())
        count, note = len(frame), ""
        if count > most:
            note = f"{count - most:,} of {count:,} rows, in the middle, are not shown."
            frame = pl.concat([frame.head(most - most // 2), frame.tail(most // 2)])
        return cls(caption, format_table(frame), numbers, note)

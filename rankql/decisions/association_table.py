"""A table about an association, with the sentences that say what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from rankql import text as show


@dataclass(frozen=True, eq=False)
class AssociationTable(show.Tabular):
    """A table, and what it says."""

    table: pl.DataFrame
    sentences: list[str]

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars frame."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Table and sentences as plain values."""
        return {"table": self.table.to_dicts(), "sentences": self.sentences}

    def to_markdown(self) -> str:
        """Table and sentences as Markdown."""
        return show.format_markdown(show.format_cells(self.table), self.sentences)

    def __repr__(self) -> str:
        return show.format_text(show.format_cells(self.table), self.sentences)

    def _repr_html_(self) -> str:
        return show.format_html(show.format_cells(self.table), self.sentences)

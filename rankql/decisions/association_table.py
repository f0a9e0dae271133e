"""A table about an association, with the sentences that say what it shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rankql.results import TableResult


@dataclass(frozen=True, eq=False, repr=False)
class AssociationTable(TableResult):
    """A table, and what it says."""

    table: pl.DataFrame
    sentences: list[str]
    notes: list[str] = field(default_factory=list)

    def _details(self) -> dict[str, Any]:
        return {"sentences": self.sentences}

"""The arguments of `evaluate`, and its default metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankql.errors import RankqlError
from rankql.registry.argument_checks import require, require_choice
from rankql.sources.tables import Data

if TYPE_CHECKING:
    import duckdb

DEFAULT_METRICS = ("nDCG@10", "AP", "RR@10", "P@5", "R@100")
# Those of `correlate`.
DEFAULT_CORRELATIONS = ("RBO(p=0.9)", "TauB", "TauAP", "TauDistance")


@dataclass(frozen=True)
class RankingOptions:
    """How the rows of a run become rankings."""

    order: str | None = None
    # A column of documents, or the text before the number of a chunk.
    collapse: str | None = None
    positions: str | None = None

    def __post_init__(self) -> None:
        text = self.collapse is None or (isinstance(self.collapse, str) and self.collapse)
        require(bool(text), f"collapse must be a column or a separator, not {self.collapse!r}")
        if self.positions is not None:
            require_choice("positions", self.positions, "renumber", "keep")
            require(
                self.collapse is not None,
                f"positions={self.positions!r} is for collapse=. Name the column of the documents",
            )

    @classmethod
    def take(cls, options: dict[str, Any]) -> RankingOptions:
        """Take these options out of others."""
        return cls(*(options.pop(name, None) for name in ("order", "collapse", "positions")))


@dataclass(frozen=True)
class EvaluateArguments:
    """The arguments of `evaluate`, checked as far as possible without the data."""

    run: Data | Mapping[str, Data]
    qrels: Data | None
    metrics: str | Sequence[str]
    attributes: Data | None = None
    con: duckdb.DuckDBPyConnection | None = None
    # The columns that the caller names, by role.
    columns: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    descending: bool | None = None
    ranking: RankingOptions = field(default_factory=RankingOptions)
    groupings: Sequence[Sequence[str]] = ()
    weight: str | None = None
    interval: str | None = "auto"
    confidence: float = 0.95
    # The file for the values per query.
    output: Path | None = None
    # Whether to pack sums, for which the grades of all queries are read. None: if it is faster.
    packs: bool | None = None
    # The profile of the conventions, and the changes to it.
    profile: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_groupings(by: str | Sequence[str | Sequence[str]]) -> list[list[str]]:
    """The groupings of by=: names are one grouping, each list of names is one."""
    if isinstance(by, str):
        return [[by]]
    message = f"by must be names of columns, or lists of them, not {by!r}"
    if not isinstance(by, list | tuple):
        raise RankqlError(message)
    if all(isinstance(name, str) for name in by):
        by = [by]
    if not all(isinstance(group, str | list | tuple) for group in by):
        raise RankqlError(message)
    groups = [[group] if isinstance(group, str) else list(group) for group in by]
    if not all(isinstance(name, str) for group in groups for name in group):
        raise RankqlError(message)
    distinct: dict[frozenset[str], list[str]] = {}
    for group in filter(None, groups):
        distinct.setdefault(frozenset(group), [*dict.fromkeys(group)])
    return [*distinct.values()]

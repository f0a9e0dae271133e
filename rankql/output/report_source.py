"""What a report is made from: the runs, texts by id, and the parts of its sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from rankql.errors import RankqlError
from rankql.layout import Block
from rankql.macros import quote
from rankql.output.panels import SCHEMA, Spec
from rankql.registry.metric_record import Metric
from rankql.registry.parse import is_metric, parse_any
from rankql.results import make_block
from rankql.sources.reading import open_runs
from rankql.sources.session import open_session
from rankql.stats.means import ROUNDING

if TYPE_CHECKING:
    from rankql.decisions.comparison import ComparedRuns, Comparison


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


# Errors of runs that are read again: a section that needs them is left out.
ERRORS = (RankqlError, duckdb.Error, pl.exceptions.PolarsError, OSError)

_NO_RUNS = "Not shown: the runs are needed, but the comparison was made from results."


@dataclass(frozen=True)
class ReportSource:
    """What the sections of a report are made from."""

    comparison: Comparison
    texts: Texts
    # The runs, or None and the reason; '' if they cannot be read again.
    runs: ComparedRuns | None
    reason: str = _NO_RUNS

    @cached_property
    def same(self) -> list[str]:
        """The metrics that no query has a different value of in two systems."""
        pairs = self.comparison.pairs
        differs = pl.sum_horizontal(pl.col("difference").abs() > ROUNDING, "wins", "losses") > 0
        names = {*pairs.drop_nulls("difference")["metric"]} - {*pairs.filter(differs)["metric"]}
        return [x for x in self.comparison.metrics if x in names]


@contextmanager
def open_source(comparison: Comparison, texts: Texts) -> Iterator[ReportSource]:
    """Open the compared runs once for all sections."""
    source, runs = ReportSource(comparison, texts, None), comparison.source
    if runs is None:
        yield source
        return
    with ExitStack() as stack:
        try:
            con = runs.keywords.get("con")
            session = stack.enter_context(open_session(con, runs.runs, runs.qrels))
            qrels = None if runs.qrels is None else session.table(runs.qrels, "qrels")
            keywords = {**runs.keywords, "con": session.con}
            runs = replace(runs, runs=open_runs(session, runs.runs), qrels=qrels, keywords=keywords)
            source = replace(source, comparison=replace(comparison, source=runs), runs=runs)
        except ERRORS:
            source = replace(source, reason="")
        yield source


def parse_metric(name: str) -> Metric | None:
    """Return the metric of a name, None for an expression of the user."""
    return parse_any(name)[0] if is_metric(name) else None


ROLES = ("query", "item")
# Names of the column of texts, the likeliest first.
_COLUMNS = ("text", "title", "name", "query", "question", "description", "url")
# Longer texts are cut.
LENGTH = 160


class Texts:
    """Finds texts by id, in `{"query": ..., "item": ...}`: each a dict, a frame or a file."""

    def __init__(self, sources: Mapping[str, Any] | None) -> None:
        if sources is not None and not (isinstance(sources, Mapping) and {*sources} <= {*ROLES}):
            raise RankqlError(
                "texts must be a dict with the keys 'query' and 'item'. Each value is a dict of "
                "id: text, a frame or a file with a column of ids and a column of texts."
            )
        self._sources = sources or {}
        for role, source in self._sources.items():
            if not isinstance(source, Mapping):
                _read(source, role, set())  # an error now, not in a section of the report

    def find(self, role: str, ids: Iterable[Any]) -> dict[str, str]:
        """Return the known texts of these ids, each on one line."""
        names, source = {str(each) for each in ids}, self._sources.get(role)
        if source is None or not names:
            return {}
        rows = source.items() if isinstance(source, Mapping) else _read(source, role, names)
        return {
            str(key): line if len(line) <= LENGTH else f"{line[: LENGTH - 1].rstrip()}…"
            for key, text in rows
            if str(key) in names and text is not None and (line := " ".join(str(text).split()))
        }

    def label(self, role: str, ids: Iterable[Any]) -> dict[str, str]:
        """Return each id with its text."""
        ids = [*ids]
        texts = self.find(role, ids)
        return {str(x): f"{x}: {texts[str(x)]}" if str(x) in texts else str(x) for x in ids}


def _read(source: Any, role: str, names: set[str]) -> list[tuple[str, str]]:
    """Read the texts of these ids from a table."""
    label = f"texts[{role!r}]"
    with open_session(None, source) as session:
        table = session.table(source, label)
        columns = [*table.columns]
        if len(columns) < 2:
            raise RankqlError(f"{label} has one column. Expected a column of ids and one of texts.")
        key = table.find(role) or columns[0]
        rest = [name for name in columns if name != key]
        lower = {name.lower(): name for name in rest}
        text = next((lower[name] for name in _COLUMNS if name in lower), rest[0])
        session.con.execute(
            f"SELECT CAST({quote(key)} AS VARCHAR) AS id, CAST({quote(text)} AS VARCHAR) "
            f"FROM {table.sql} WHERE id IN (SELECT unnest($1))", [[*names]]
        )  # fmt: skip
        rows: list[tuple[str, str]] = session.con.fetchall()
        return rows

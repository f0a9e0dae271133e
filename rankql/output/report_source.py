"""The runs behind a comparison, which the report reads again: they may be gone or changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import duckdb
import polars as pl

from rankql.errors import RankqlError
from rankql.output.report_elements import Section
from rankql.output.texts import Texts
from rankql.registry.parse import is_metric, parse
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import open_runs
from rankql.sources.session import open_session

if TYPE_CHECKING:
    from rankql.decisions.comparison import ComparedRuns, Comparison

_ERRORS = (RankqlError, duckdb.Error, pl.exceptions.PolarsError, OSError)

_NO_RUNS = "Not shown: the runs are needed, but the comparison was made from results."


@dataclass(frozen=True)
class ReportSource:
    """What the sections of a report are made from."""

    comparison: Comparison
    texts: Texts
    # The runs, or None and the reason why they cannot be read.
    runs: ComparedRuns | None
    reason: str = _NO_RUNS

    @contextmanager
    def errors_as_notes(self, section: Section) -> Iterator[None]:
        """Turn an error about the runs into a note of the section."""
        try:
            yield
        except _ERRORS as error:
            section.notes.append(_describe(error))


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
        except _ERRORS as error:
            source = replace(source, reason=_describe(error))
        yield source


def _describe(error: BaseException) -> str:
    return f"Not shown: the runs could not be read again: {str(error).splitlines()[0]}"


def parse_metric(name: str) -> Metric | None:
    """Return the metric of a name, None for an expression of the user."""
    return parse(name)[0] if is_metric(name) else None

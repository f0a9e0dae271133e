"""check: problems in the data that make metrics wrong or misleading, before any evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import polars as pl

from rankql.diagnostics.check_data import CheckData
from rankql.diagnostics.check_ids import (
    find_empty_tables,
    find_id_spellings,
    find_id_types,
    find_null_ids,
)
from rankql.diagnostics.check_judgments import (
    find_duplicate_judgments,
    find_queries_without_relevant,
    find_reversed_scores,
    find_unjudged_items,
    find_unmatched_queries,
)
from rankql.diagnostics.check_numbers import find_column_types, find_suspect_numbers
from rankql.diagnostics.check_rankings import (
    find_duplicate_items,
    find_duplicate_positions,
    find_order_conflicts,
    find_position_gaps,
    find_short_rankings,
    find_tied_rows,
    find_ties_at_cutoff,
)
from rankql.diagnostics.findings import LEVELS, Finding, Report
from rankql.errors import RankqlError
from rankql.evaluation.ctes import HIGHEST_K
from rankql.sources.inputs import Inputs, open_runs, read_inputs
from rankql.sources.session import Session, duckdb_errors, flatten_inputs, open_session
from rankql.sources.tables import Data


def check(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    *,
    k: int = 10,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | None = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
) -> Report:
    """Look for what would make the metrics of a run wrong or misleading.

    Takes the runs, the judgments and the names of columns that `evaluate` takes; `k` is the cutoff
    for ties and for the share that is judged. A run may be checked without judgments.

    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "x"], "score": [2.0, 1.0]})
    >>> check(run, k=2).findings[0].message
    'the same item more than once in a ranking: 1 item'
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k < HIGHEST_K:
        raise RankqlError(f"k must be a whole number from 1 to {HIGHEST_K - 1}, not {k!r}")
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    with open_session(con, run, qrels) as session:
        inputs = _read_inputs(session, run, qrels, columns, system, descending)
        with duckdb_errors(session):
            data = CheckData(session, inputs, k)
            findings = [finding for find in CHECKS for finding in find(data)]
            sources = {table.label: {"rows": table.rows, "columns": table.columns}
                       for table in data.tables}  # fmt: skip
    findings.sort(key=lambda finding: LEVELS.index(finding.level))
    return Report(findings, sources, k)


CHECKS: tuple[Callable[[CheckData], Iterator[Finding]], ...] = (
    find_empty_tables,
    find_null_ids,
    find_id_types,
    find_id_spellings,
    find_column_types,
    find_suspect_numbers,
    find_duplicate_items,
    find_duplicate_positions,
    find_duplicate_judgments,
    find_order_conflicts,
    find_position_gaps,
    find_unmatched_queries,
    find_queries_without_relevant,
    find_ties_at_cutoff,
    find_tied_rows,
    find_short_rankings,
    find_reversed_scores,
    find_unjudged_items,
)


def _read_inputs(
    session: Session,
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    columns: Mapping[str, Any],
    system: str | None,
    descending: bool | None = None,
) -> Inputs:
    """The tables that evaluate would read, or a run alone, which may have no judgments yet."""
    if qrels is None:
        run = open_runs(session, run)
        if not any(table.find("rel", columns["rel"]) for table in flatten_inputs(run)):
            empty = pl.DataFrame(schema=dict.fromkeys(("query", "item", "rel"), pl.String))
            inputs = read_inputs(session, run, empty, None, columns, system, descending=descending)
            return replace(inputs, qrels=None)
    return read_inputs(session, run, qrels, None, columns, system, descending=descending)

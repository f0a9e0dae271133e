"""check: find problems in the data before they make metrics wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import polars as pl

from rankql.diagnostics.check_columns import check_columns
from rankql.diagnostics.check_data import CheckData, CheckedTable
from rankql.diagnostics.check_rows import check_rows
from rankql.diagnostics.findings import LEVELS, REFUSED, Finding, Report, as_examples
from rankql.errors import RankqlError
from rankql.evaluation.facts import HIGHEST_K
from rankql.evaluation.overlap import (
    few_common_items_note,
    find_example_items,
    is_small_overlap,
    item_overlap,
)
from rankql.macros import quote
from rankql.sources.inputs import Inputs, open_runs, read_inputs
from rankql.sources.list_checks import FLOATS, is_rounded
from rankql.sources.macro_sql import fetch
from rankql.sources.session import Session, duckdb_errors, flatten_inputs, open_session
from rankql.sources.tables import Data, Rel, same_kind
from rankql.text import format_count, join_words
from rankql.writing import remember_inputs


@remember_inputs
def check(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    *,
    k: int = 10,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: Rel = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
) -> Report:
    """Find problems in runs and judgments that make metrics wrong or misleading.

    Takes the same runs, judgments and column names as `evaluate`. `k` is the cutoff for ties and
    for the share of judged items. Without `qrels`, only the run is checked.

    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "x"], "score": [2.0, 1.0]})
    >>> check(run, k=2).findings[0].message
    'item appears more than once in a ranking: 1 item'
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k < HIGHEST_K:
        raise RankqlError(f"k must be a whole number from 1 to {HIGHEST_K - 1}, not {k!r}")
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    with open_session(con, run, qrels) as session:
        inputs = _read_inputs(session, run, qrels, columns, system, descending)
        with duckdb_errors(session):
            data = CheckData(session, inputs, k)
            findings = [
                *_find_empty_tables(data),
                *check_columns(data),
                *check_rows(data),
                *_find_unmatched_items(data),
                *_find_id_types(data),
                *_find_rounded_ids(data),
                *(_skipped_lines(*note.split(": ", 1)) for note in session.notes),
            ]
            sources = {table.label: {"rows": table.rows, "columns": table.columns}
                       for table in data.tables}  # fmt: skip
    findings.sort(key=lambda finding: LEVELS.index(finding.level))
    return Report(findings, sources, k)


def _read_inputs(
    session: Session,
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    columns: Mapping[str, Any],
    system: str | None,
    descending: bool | None = None,
) -> Inputs:
    """The tables that evaluate would read; a run alone needs no grades."""
    if qrels is None:
        run = open_runs(session, run)
        found = {t.find("rel") for t in flatten_inputs(run)} - {None, *map(str, columns.values())}
        if columns["rel"] is None and not found:
            empty = pl.DataFrame(schema=dict.fromkeys(("query", "item", "rel"), pl.String))
            inputs = read_inputs(session, run, empty, None, columns, system, descending=descending)
            return replace(inputs, qrels=None)
    return read_inputs(session, run, qrels, None, columns, system, descending=descending)


def _find_empty_tables(data: CheckData) -> Iterator[Finding]:
    """Tables without rows."""
    for table in data.tables:
        if not table.rows:
            why = "There is nothing to evaluate. Check the path, the filter or the name."
            yield Finding("empty", "error", table.label, 1, "the table is empty", why)


def _skipped_lines(label: str, note: str) -> Finding:
    """Lines of a TREC file that look like rows, but are comments."""
    return Finding("comments", "warning", label, 1, note, "These rows are missing.")


def _find_id_types(data: CheckData) -> Iterator[Finding]:
    """Ids that are numbers in one table and text in the other."""
    for run in data.pairs:
        tables = [run, *data.judgments]
        if any(table.table.text for table in tables):
            continue  # Text files have no types.
        for role in ("query", "item"):
            types = {table.label: table.table.columns[table.roles[role]]
                     for table in tables if role in table.roles}  # fmt: skip
            if not same_kind(list(types.values())):
                where = join_words([f"{kind} in {label}" for label, kind in types.items()])
                yield Finding(
                    "id-types", "warning", run.label, 1, f"{role} ids are {where}",
                    "They are compared as text, where 1.0 and 01 differ from 1. Cast both to one "
                    "type.",
                    (types,),
                )  # fmt: skip


def _find_rounded_ids(data: CheckData) -> Iterator[Finding]:
    """Ids of floating point that may stand for several integers."""
    for table in data.tables:
        for role in {"query", "item"} & table.roles.keys():
            name = table.roles[role]
            kind = table.table.columns[name]
            if not kind.startswith(FLOATS):
                continue
            where = is_rounded(quote(name), kind)
            sql = f"SELECT count(*), min({quote(name)}) FROM {table.table.sql} WHERE {where}"
            ((count, example),) = fetch(data.session, sql)
            if count:
                yield Finding(
                    "rounded-ids", "error", table.label, count,
                    f"{name} is a floating-point number that may stand for different ids: "
                    f"{format_count(count, 'row')}", REFUSED + "Write ids as text or as integers.",
                    as_examples([{role: example}]),
                )  # fmt: skip


def _find_unmatched_items(data: CheckData) -> Iterator[Finding]:
    """Systems with no or few judged items, counted as in evaluate."""
    for run in data.matched:

        def ask(sql: str, run: CheckedTable = run) -> list[Any]:
            assert run.qrels
            judged = f"(FROM {run.qrels.clean} WHERE rel IS NOT NULL)"
            steps = f"WITH run AS {run.clean}, qrels AS {judged}"
            return fetch(data.session, f"{steps} {sql}")

        for counts in item_overlap(ask, data.inputs):
            system, in_run, judged, common = counts
            query, run_item, qrels_item = find_example_items(ask, system)
            if judged and not common:
                example = {"query": query, "item of run": run_item, "item of qrels": qrels_item}
                yield Finding(
                    "no-common-items", "error", run.system_label(system), in_run,
                    "no item of the run is judged for its query",
                    REFUSED + "Write item ids the same way in both tables, or pass item=.",
                    as_examples([example]),
                )  # fmt: skip
            elif is_small_overlap(*counts):
                yield Finding(
                    "few-common-items", "warning", run.system_label(system), common,
                    few_common_items_note(*counts).partition(":")[0],
                    "Check that both tables write item ids the same way.",
                )  # fmt: skip

"""check: find problems in the data before they make metrics wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Unpack

import duckdb

from rankql import text
from rankql.diagnostics.findings import LEVELS, REFUSED, Finding, Report, as_examples
from rankql.diagnostics.row_findings import (
    CheckData,
    CheckedTable,
    find_in_rows,
    is_nan,
    is_numeric,
)
from rankql.errors import RankqlError
from rankql.evaluation.overlap import (
    find_judged_queries,
    has_same_ids,
    is_small_overlap,
    item_overlap,
    leave_out_unjudged,
    no_common_items,
    no_judged_query_message,
)
from rankql.evaluation.plan import read_rankings
from rankql.evaluation.request import Reading, ReadingOptions
from rankql.macros import quote
from rankql.sources.id_lists import FLOATS, is_rounded
from rankql.sources.reader import fetch
from rankql.sources.session import duckdb_errors, open_session
from rankql.sources.tables import Data
from rankql.text import format_count, format_queries, is_or_are, run_label
from rankql.writing import remember_inputs

# The highest k of max(score, k).
HIGHEST_K = 999_999
_EMPTY = "There is nothing to evaluate. Check the path, the filter or the name."


@remember_inputs
def check(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    *,
    k: int = 10,
    train: Data | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[ReadingOptions],
) -> Report:
    """Find problems in runs and judgments that make metrics wrong or misleading.

    Parameters
    ----------
    run, qrels, collapse, con
        As in `evaluate`. Without `qrels`, only the run is checked.
    k : int
        Cutoff for ties and for the share of judged items.
    train : table, optional
        Interactions that the model was trained on, as in `evaluate`.
    **options
        How the data are read, as in `evaluate`: query, item, rel, score, pos, system, descending,
        columns, order, collapse, positions, conventions, threshold.

    Examples
    --------
    >>> import polars as pl
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "x"], "score": [2.0, 1.0]})
    >>> check(run, k=2).findings[0].message
    'item appears more than once in a ranking: 1 item'
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k < HIGHEST_K:
        raise RankqlError(f"k must be a whole number from 1 to {HIGHEST_K - 1}, not {k!r}")
    reading = Reading.of(options, check, ReadingOptions)
    with open_session(con, run, qrels, train) as session:
        inputs = read_rankings(
            session, run, qrels, reading, graded=False, keeps_unjudged=True, train=train
        )
        with duckdb_errors():
            data = CheckData(session, inputs, k, reading.conventions.threshold)
            findings = [
                *(
                    Finding("empty", "error", table.label, 1, "the table is empty", _EMPTY)
                    for table in data.tables
                    if not table.rows
                ),
                *check_columns(data),
                *_find_unjudged(data),
                *find_in_rows(data),
                *_find_rounded_ids(data),
                # Lines of a TREC file that look like rows, but are comments.
                *(
                    Finding("comments", "warning", label, 1, note, "These rows are missing.")
                    for label, note in (note.split(": ", 1) for note in session.notes)
                ),
            ]
            sources = {table.label: {"rows": table.rows, "columns": table.columns}
                       for table in data.tables}  # fmt: skip
    findings.sort(key=lambda finding: LEVELS.index(finding.level))
    return Report(findings, sources, k)


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


def _find_unjudged(data: CheckData) -> Iterator[Finding]:
    """Systems with unjudged queries, or with few judged items: the facts and words of evaluate."""
    own = leave_out_unjudged(data.session, data.inputs)[1]  # of tables with grades and positions
    for overlap in [*data.overlaps, *own]:
        unjudged = as_examples([{"query": query} for query in overlap.unjudged or ()])
        label = data.run_of(overlap.system).system_label(overlap.system)
        if not overlap.judged:
            judged_ids = None if own else find_judged_queries(data.evaluation)
            yield Finding(
                "no-overlap", "error", label, overlap.queries,
                no_judged_query_message(run_label(overlap.system), overlap.unjudged, judged_ids),
                REFUSED + "There is nothing to evaluate.",
            )  # fmt: skip
        elif count := overlap.queries - overlap.judged:
            yield Finding(
                "unjudged-queries", "warning", label, count,
                f"{count:,} of {format_queries(overlap.queries)} of {run_label(overlap.system)} "
                f"{is_or_are(count)} not judged and left out",
                "Are judgments missing?", unjudged,
            )  # fmt: skip
    judged = {overlap.system: overlap.judged for overlap in data.overlaps}
    for counts in item_overlap(data.evaluation) if data.matched else ():
        system, items, judged_items, common = counts
        label = data.run_of(system).system_label(system)
        if judged_items and not common:
            is_error, message = no_common_items(data.evaluation, system, judged[system])
            yield Finding(
                "no-common-items", "error" if is_error else "warning", label, items, message,
                f"{REFUSED if is_error else ''}Its metrics would be 0.",
            )  # fmt: skip
        elif is_small_overlap(*counts) and not has_same_ids(data.evaluation, system):
            yield Finding(
                "few-common-items", "warning", label, common,
                f"Only {common:,} of {min(items, judged_items):,} items match for their query, "
                "and few ids are in both tables",
                "Write item ids the same way in both tables.",
            )  # fmt: skip


def check_columns(data: CheckData) -> Iterator[Finding]:
    """Look for suspect values in all columns, in one pass over each table."""
    for table in data.tables:
        read = [role for role in table.roles if role != table.unused]
        rules = [(role, rule) for role in read for rule in RULES[role]]
        aggregates = (_count_and_examples(table, role, rule) for role, rule in rules)
        sql = f"SELECT {', '.join(aggregates)} FROM {table.raw}"
        ((*values,),) = fetch(data.session, sql)
        for (role, rule), count, rows in zip(rules, values[::2], values[1::2], strict=True):
            severity = _severity(data, table, role, rule, count) if count else None
            if severity:
                message = f"{table.roles[role]} {rule.problem}: {text.format_count(count, 'row')}"
                yield Finding(
                    rule.kind, severity[0], table.label, count, message, severity[1],
                    as_examples(rows),
                )  # fmt: skip
        for role in ("score", "pos", "rel"):
            column = table.roles.get(role)
            readable = table.table.text or role == table.unused
            if column and not readable and not is_numeric(table.table, column):
                yield Finding(
                    "column-type", "error", table.label, table.rows,
                    f"{column} has type {table.table.columns[column]} instead of a number",
                    REFUSED + "Cast the column to a number.",
                )  # fmt: skip


@dataclass(frozen=True)
class ColumnRule:
    """A condition that finds suspect values of a column."""

    kind: str
    level: str
    where: str
    problem: str
    why: str


def _count_and_examples(table: CheckedTable, role: str, rule: ColumnRule) -> str:
    """The number of rows that a rule finds, and the first three of them."""
    ids = [*table.keys.split(", "), *(["item"] if "item" in table.roles else [])]
    columns = {name: name for name in ids} | ({} if role in ids else {role: f"raw_{role}"})
    row = ", ".join(f"'{name}': {column}" for name, column in columns.items())
    return f"count(*) FILTER ({rule.where}), min({{{row}}}, 3) FILTER ({rule.where})"


def _severity(
    data: CheckData, table: CheckedTable, role: str, rule: ColumnRule, count: int
) -> tuple[str, str] | None:
    """The level of a finding and its `why`; None if the values are valid in this table."""
    if rule.kind in ("null-scores", "null-positions", "null-grades"):
        is_unranked = role == table.ranking_role and count == table.rows
        # In a run with grades, NULL means not retrieved or not judged.
        if table is not data.qrels and "rel" in table.roles and not (is_unranked and table.scored):
            return None
        if is_unranked:
            return "error", REFUSED + "Nothing is ranked."
    return rule.level, rule.why


_NULL_ID = REFUSED + "Remove these rows."
_NO_RANK = "These rows take no position, as if they were not in the run."
# By the role of the column.
RULES = {
    **{role: (ColumnRule("null-ids", "error", f"{role} IS NULL", "is NULL", _NULL_ID),)
       for role in ("system", "query", "item")},
    "score": (
        ColumnRule("text-scores", "error", "raw_score IS NOT NULL AND score IS NULL",
                   "is not a number", REFUSED + "Fix or remove these rows."),
        ColumnRule("nan-scores", "error", is_nan("score"),
                   "is NaN", REFUSED + "NaN cannot be sorted. Find out where it comes from."),
        ColumnRule("null-scores", "warning", "raw_score IS NULL", "is NULL", _NO_RANK),
        ColumnRule("infinite-scores", "warning", "isinf(score)",
                   "is infinite",
                   "Infinite scores are all tied. Look for a division by 0 or log(0)."),
    ),
    "pos": (
        ColumnRule("text-positions", "error",
                   f"raw_pos IS NOT NULL AND (pos IS NULL OR {is_nan('pos')})",
                   "is not a number", REFUSED + "Fix or remove these rows."),
        ColumnRule("null-positions", "warning", "raw_pos IS NULL", "is NULL", _NO_RANK),
        ColumnRule("positions-from-0", "error", "pos = 0",
                   "starts at 0", REFUSED + "Position 1 is the top. Add 1."),
        ColumnRule("positions-below-1", "error", "pos < 1 AND pos <> 0",
                   "is below 1", REFUSED + "Position 1 is the top."),
        ColumnRule("fractional-positions", "error", "pos > 1 AND pos <> floor(pos)",
                   "is not a whole number", REFUSED + "If it is a score, pass it as score=."),
        ColumnRule("huge-positions", "error",
                   f"pos > 9007199254740992 AND NOT {is_nan('pos')}",
                   "is infinite or too large",
                   REFUSED + "Use NULL for items that were not retrieved."),
    ),
    "rel": (
        ColumnRule("text-grades", "error", "raw_rel IS NOT NULL AND rel IS NULL",
                   "is not a number", REFUSED + "Map each grade to a number."),
        ColumnRule("nan-grades", "error", is_nan("rel"),
                   "is NaN", REFUSED + "Remove these rows, or use NULL for unjudged items."),
        ColumnRule("null-grades", "warning", "raw_rel IS NULL",
                   "is NULL", "These rows are ignored. NULL means unjudged, not 0."),
        ColumnRule("infinite-grades", "error", "isinf(rel)",
                   "is infinite", REFUSED + "Look for a division by 0 or log(0)."),
        ColumnRule("negative-grades", "warning", "rel < 0 AND NOT isinf(rel)",
                   "is below 0",
                   "These items count as judged and not relevant, with gain 0. Change this with "
                   "negative=."),
        ColumnRule("grades-below-1", "warning", "rel > 0 AND rel < 1",
                   "is between 0 and 1", "These items are not relevant: that takes grade 1. Change "
                   "this with threshold=."),
        ColumnRule("high-grades", "warning", "rel > 10 AND isfinite(rel)",
                   "is above 10", "Few such rows outweigh all others, above all with gain='exp2'. "
                   "Is this a count or a percentage?"),
    ),
}  # fmt: skip

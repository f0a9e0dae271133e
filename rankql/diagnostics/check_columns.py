"""Checks of single columns: ids that are NULL, and numbers that cannot be right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rankql import text
from rankql.diagnostics.check_data import CheckData, CheckedTable, is_nan, is_numeric
from rankql.diagnostics.findings import REFUSED, Finding, as_examples
from rankql.sources.macro_sql import fetch


def check_columns(data: CheckData) -> Iterator[Finding]:
    """Look for suspect values in all columns, in one pass over each table."""
    for table in data.tables:
        rules = [(role, rule) for role in table.roles for rule in RULES[role]]
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
            if column and not table.table.text and not is_numeric(table.table, column):
                level = "note" if role == table.unused else "error"
                yield Finding(
                    "column-type", level, table.label, table.rows,
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
    if role == table.unused:
        return "note", table.unused_reason
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
        ColumnRule("fractional-grades", "note", "rel > 1 AND isfinite(rel) AND rel <> floor(rel)",
                   "is not a whole number",
                   "Some tools, such as trec_eval, truncate grades to whole numbers."),
        ColumnRule("high-grades", "warning", "rel > 10 AND isfinite(rel)",
                   "is above 10", "Few such rows outweigh all others, above all with gain='exp2'. "
                   "Is this a count or a percentage?"),
    ),
}  # fmt: skip

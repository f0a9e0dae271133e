"""Checks of the numbers in a table: scores, positions and grades."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rankql import text
from rankql.diagnostics.check_data import CheckData, CheckedTable, is_nan, is_numeric
from rankql.diagnostics.findings import REFUSED, Finding


@dataclass(frozen=True)
class _Rule:
    """A condition that finds suspect numbers."""

    kind: str
    level: str
    where: str
    problem: str
    why: str


_RULES = {
    "score": (
        _Rule("text-scores", "error", "raw_score IS NOT NULL AND score IS NULL",
              "is not a number", REFUSED + "mend these rows or leave them out"),
        _Rule("nan-scores", "error", is_nan("score"),
              "is NaN", REFUSED + "NaN has no place in an order; look where it comes from"),
        _Rule("null-scores", "warning", "raw_score IS NULL",
              "is NULL", "these rows take no position, as if they were not in the run"),
        _Rule("infinite-scores", "warning", "isinf(score)",
              "is infinite", "infinite scores are all tied: look for a division by 0 or log(0)"),
    ),
    "pos": (
        _Rule("text-positions", "error",
              f"raw_pos IS NOT NULL AND (pos IS NULL OR {is_nan('pos')})",
              "is not a number", REFUSED + "mend these rows or leave them out"),
        _Rule("null-positions", "warning", "raw_pos IS NULL",
              "is NULL", "these rows take no position, as if they were not in the run"),
        _Rule("positions-from-0", "error", "pos = 0",
              "begins at 0", REFUSED + "position 1 is the top; add 1"),
        _Rule("positions-below-1", "error", "pos < 1 AND pos <> 0",
              "is below 1", REFUSED + "position 1 is the top"),
        _Rule("fractional-positions", "error", "pos > 1 AND pos <> floor(pos)",
              "is not a whole number", REFUSED + "is it a score? Then name it: score="),
        _Rule("huge-positions", "error", f"pos > 9007199254740992 AND NOT {is_nan('pos')}",
              "is infinite or too large", REFUSED + "make it NULL where nothing was retrieved"),
    ),
    "rel": (
        _Rule("text-grades", "error", "raw_rel IS NOT NULL AND rel IS NULL",
              "is not a number", REFUSED + "say by number what each grade is worth"),
        _Rule("nan-grades", "error", is_nan("rel"),
              "is NaN", REFUSED + "leave these rows out, or make them NULL: unjudged"),
        _Rule("null-grades", "warning", "raw_rel IS NULL",
              "is NULL", "these rows are left out: NULL is unjudged, not 0"),
        _Rule("infinite-grades", "error", "isinf(rel)",
              "is infinite", REFUSED + "look for a division by 0 or log(0)"),
        _Rule("negative-grades", "warning", "rel < 0 AND NOT isinf(rel)",
              "is below 0", "it counts as judged and not relevant, with gain 0 (option: negative)"),
        _Rule("grades-below-1", "warning", "rel > 0 AND rel < 1",
              "is between 0 and 1", "relevant is what has grade 1 or more: set threshold="),
        _Rule("fractional-grades", "note", "rel > 1 AND isfinite(rel) AND rel <> floor(rel)",
              "is not a whole number", "trec_eval and others would cut it off to a whole number"),
        _Rule("high-grades", "warning", "rel > 10 AND isfinite(rel)",
              "is above 10", "few such rows outweigh all others, most of all with exp2 gain: "
              "is it a count or a percentage?"),
    ),
}  # fmt: skip
# The rules that find NaN.
_NAN_RULES = ("nan-scores", "text-positions", "nan-grades")


def find_column_types(data: CheckData) -> Iterator[Finding]:
    """Columns of numbers that have another type."""
    for table in data.tables:
        for role in _RULES:
            column = table.roles.get(role)
            if column and not table.table.text and not is_numeric(table.table, column):
                yield Finding(
                    "column-type", table.level(role, "error"), table.label, table.rows,
                    f"{column} is a column of {table.table.columns[column]}, not of numbers",
                    REFUSED + "cast it first",
                )  # fmt: skip


def find_suspect_numbers(data: CheckData) -> Iterator[Finding]:
    """Numbers that break a rule, in one pass over each table."""
    for table in data.tables:
        # In a run with grades of its own NULL means: not retrieved, or not judged.
        has_grades = table is not data.qrels and "rel" in table.roles
        rules = [
            (role, rule)
            for role, rules in _RULES.items()
            for rule in rules
            if role in table.roles
            and not (has_grades and rule.kind in ("null-positions", "null-grades"))
        ]
        counts = ", ".join(f"count(*) FILTER ({rule.where})" for _, rule in rules)
        (values,) = data.fetch(f"SELECT {counts} FROM {table.raw}") if rules else [()]
        # DuckDB reads the NaN of pandas as NULL.
        nans = {role: table.table.nans(role) for role in _RULES if role in table.roles}
        for (role, rule), count in zip(rules, values, strict=True):
            if nans[role] and rule.kind in _NAN_RULES:
                count += nans[role]
                rule = replace(rule, where=f"{rule.where} OR raw_{role} IS NULL")
            elif nans[role] and rule.kind.startswith("null-"):
                count -= nans[role]
            if rule.kind in ("null-scores", "null-positions"):
                if count == table.rows and role == table.ranking_role:
                    rule = replace(rule, level="error", why=REFUSED + "nothing is ranked")
                elif has_grades:
                    count = 0
            if count:
                yield _finding(data, table, role, rule, count)


def _finding(data: CheckData, table: CheckedTable, role: str, rule: _Rule, count: int) -> Finding:
    ids = [*table.keys.split(", "), *(["item"] if "item" in table.roles else [])]
    fields = f"{', '.join(ids)}, raw_{role} AS {role}"
    examples = data.examples(f"(SELECT {fields} FROM {table.raw} WHERE {rule.where})")
    message = f"{table.roles[role]} {rule.problem}: {text.format_count(count, 'row')}"
    why = rule.why
    if role == table.unused:
        why = f"it is not used, as {table.ranking_role} makes the ranking"
    level = table.level(role, rule.level)
    return Finding(rule.kind, level, table.label, count, message, why, examples)

"""Checks of judgments that no run can meet, and of queries without an answer."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from rankql.evaluation.checks.record import Check, Evidence, Facts
from rankql.evaluation.means import BOTH, left_out_if, undefined_value
from rankql.macros import MISSING
from rankql.sources.tables import Table
from rankql.text import format_shares, join_words

# Some of the relevant items are new in every split by time. A larger share is worth a note.
MUCH_UNKNOWN = 0.1
# The end of notes on means over different queries, which a comparison does not have.
COMPARED = "; compare uses the same queries for all systems"


def _unknown_items(evidence: Evidence) -> Iterable[Facts]:
    """Relevant items that are not in catalogue=, or of which many are not in train=."""
    inputs, threshold = evidence.evaluation.inputs, evidence.evaluation.conventions.threshold
    tables = [("catalogue", inputs.catalogue, 0.0), ("train", inputs.train, MUCH_UNKNOWN)]
    judged = all("rel" in table.roles for table in inputs.judging)
    for name, table, share in tables:
        if judged and isinstance(table, Table):
            known = f"SELECT {table.key('item', inputs.as_text('item'))} FROM {table.sql}"
            sql = f"""SELECT count(*), count(*) FILTER (item NOT IN ({known})), min(item)
                FILTER (item NOT IN ({known})) FROM (SELECT DISTINCT item FROM {inputs.graded_cte}
                WHERE rel >= {threshold} AND item IS NOT NULL)"""
            for total, count, example in evidence.evaluation.run_sql(sql):
                if count > share * total:
                    yield {"count": count, "total": total, "name": name, "example": example}


def _seen_judgments(evidence: Evidence) -> Iterable[Facts]:
    """Relevant items that seen='drop' leaves out of every list."""
    evaluation, inputs = evidence.evaluation, evidence.evaluation.inputs
    assert inputs.train
    pairs = ", ".join(inputs.train.key(role, inputs.as_text(role)) for role in ("query", "item"))
    sql = f"""SELECT count(*), count(*) FILTER ((query, item) IN (SELECT ({pairs})
        FROM {inputs.train.sql})) FROM {inputs.graded_cte}
        WHERE rel >= {evaluation.conventions.threshold} AND item IS NOT NULL"""
    for total, count in evaluation.run_sql(sql):
        if count:
            yield {"count": count, "total": total}


def _unanswerable(evidence: Evidence) -> Iterable[Facts]:
    """Queries of which nothing is relevant, where the caller may care about them."""
    evaluation, inputs = evidence.evaluation, evidence.evaluation.inputs
    best = "SELECT query, max(rel) AS best FROM"
    sql = f"""SELECT count(*), count(*) FILTER (best IS NULL OR best <
        {evaluation.conventions.threshold}) FROM ({best} {inputs.graded_cte} GROUP BY query
        HAVING count(rel) > 0)"""
    others = [
        m.name for m in evaluation.metrics
        if m.record and m.record.undefined != "never" and m.record.if_silent is None
        and undefined_value(m.name, vars(evaluation.conventions)) is None
    ]  # fmt: skip
    for total, count in evaluation.run_sql(sql):
        leave = f"leave{'s' * (len(others) == 1)} {'it' if count == 1 else 'them'} out; "
        if count:
            yield {"count": count, "total": total,
                   "others": f"{join_words(others)} {leave}" if others else ""}  # fmt: skip


def _without_worst(evidence: Evidence) -> Iterable[Facts]:
    """Metrics without a worst value, which leave missing queries out."""
    evaluation, values = evidence.evaluation, evidence.values
    absent, rules = values.filter(pl.col(MISSING)), vars(evaluation.conventions)
    system = pl.col("system") if "system" in values.columns else pl.lit("")
    for metric in evaluation.metrics:
        left_out = left_out_if(metric.name, rules) == BOTH
        if left_out and (n := absent[metric.name].null_count()):
            counts = absent.group_by(system, maintain_order=True).agg(
                pl.col(metric.name).null_count(), pl.len()
            )
            shares = f"{format_shares(counts.rows())} " * (n < len(absent))
            yield {"name": metric.name, "shares": shares}


JUDGMENTS = (
    Check(
        "without-worst-value", "values", "note",
        "{name}: {shares}missing queries are left out, as it has no worst value to count"
        + COMPARED,
        _without_worst, needs="missing",
    ),
    Check(
        "unknown-judgments", "values", "warning",
        "{count:,} of {total:,} relevant items {count:is|are} not in {name}, such as {example!r}: "
        "nothing that knows only {name} can show them. Are their ids the same in both?",
        _unknown_items, needs="items",
    ),
    Check(
        "seen-judgments", "values", "warning",
        "{count:,} of {total:,} relevant items {count:is|are} in train for the same user, so "
        "seen='drop' makes it impossible to show them. Leave them out of the judgments: "
        "time_split(..., seen='drop')",
        _seen_judgments, needs="seen",
    ),
    Check(
        "unanswerable", "values", "note",
        "{count:,} of {total:#query} {count:has|have} nothing relevant: {others}FalseAnswer counts "
        "what is shown for {count:it|them}",
        _unanswerable, needs="silence",
    ),
)  # fmt: skip

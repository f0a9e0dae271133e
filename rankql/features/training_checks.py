"""The checks of items against train= and catalogue=: those of a run, and relevant ones."""

from __future__ import annotations

from collections.abc import Iterable

from rankql.core.base.text import format_count, join_words
from rankql.core.evaluation.checks.record import Check, Evidence, Facts
from rankql.core.tables.tables import Table
from rankql.features.catalogue import cutoff, reads_catalogue

# A larger share of items that the user has in train is worth a note.
MUCH_SEEN = 0.01
# So is a larger share of relevant items that are not there: some are new in every split by time.
MUCH_UNKNOWN = 0.1


def _unknown_items(evidence: Evidence) -> Iterable[Facts]:
    """Relevant items that are not in catalogue=, or of which many are not in train=."""
    inputs, relevant = evidence.evaluation.inputs, evidence.evaluation.is_relevant()
    beyond, judged = inputs.beyond, all("rel" in table.roles for table in inputs.judging)
    tables = [("catalogue", beyond.catalogue, 0.0), ("train", beyond.train, MUCH_UNKNOWN)]
    for name, table, share in tables:
        if judged and isinstance(table, Table):
            known = inputs.rows(table, "item")
            sql = f"""SELECT count(*), count(*) FILTER (item NOT IN {known}), min(item)
                FILTER (item NOT IN {known}) FROM (SELECT DISTINCT item FROM {inputs.judging_cte}
                WHERE {relevant} AND item IS NOT NULL)"""
            for facts in evidence.facts(sql, "total", "count", "example"):
                if facts["count"] > share * facts["total"]:
                    yield {"name": name, **facts}


def _seen_judgments(evidence: Evidence) -> Iterable[Facts]:
    """Relevant items in train: seen='drop' leaves them out of every list, or no run shows one.

    Recommenders leave out what a user has, so such items look missed.
    """
    evaluation, inputs = evidence.evaluation, evidence.evaluation.inputs
    assert inputs.beyond.train
    train, request = inputs.rows(inputs.beyond.train), evaluation.request
    dropped = request is not None and bool(request.seen)
    sql = f"""SELECT count(*), count(*) FILTER ((query, item) IN (SELECT (query, item)
        FROM {train})) AS seen FROM {inputs.judging_cte}
        WHERE {evaluation.is_relevant()} AND item IS NOT NULL HAVING seen > 0"""
    shown = f"SELECT 1 FROM run SEMI JOIN {train} USING (query, item) LIMIT 1"
    if dropped or not evaluation.run_sql(shown):
        why = ", so seen='drop' makes it impossible to show them" if dropped else (
            ", and no run shows one, as if all had left out what is in train")  # fmt: skip
        named = (("query", "user"), ("item", "item"))
        names = ((role, inputs.beyond.train.roles[role], usual) for role, usual in named)
        own = "".join(f"{role}={name!r}, " for role, name, usual in names if name != usual)
        for facts in evidence.facts(sql, "total", "count"):
            yield {**facts, "why": why, "own": own}


def _seen(evidence: Evidence) -> Iterable[Facts]:
    """Items that the user has in train."""
    k = cutoff(evidence.evaluation.metrics)
    positions = "" if k is None else f" in the first {format_count(k, 'position')}"
    for system, (total, count) in evidence.seen.items():
        if count > MUCH_SEEN * total:
            yield {"system": system, "share": count / total, "positions": positions}


def _strangers(evidence: Evidence) -> Iterable[Facts]:
    """Runs of users that are all unknown in train."""
    evaluation, inputs = evidence.evaluation, evidence.evaluation.inputs
    assert inputs.beyond.train
    if not any(count for _, count in evidence.seen.values()):
        train = inputs.rows(inputs.beyond.train, "query")
        if not evaluation.run_sql(f"SELECT 1 FROM run SEMI JOIN {train} USING (query) LIMIT 1"):
            yield {}


def _outside(evidence: Evidence) -> Iterable[Facts]:
    """Shown items that are not in the catalogue."""
    evaluation = evidence.evaluation
    names = [metric.name for metric in evaluation.metrics if reads_catalogue(metric)]
    for system, (total, inside) in evidence.outside.items():
        if count := total - inside:
            yield {"system": system, "names": join_words(names), "metrics": len(names),
                   "count": count, "total": total,
                   "size": evaluation.inputs.beyond.size.partition(" ")[0]}  # fmt: skip


SHOWN = (
    Check(
        "seen-items", "values", "warning",
        "{share:.1%} of the items of {run}{positions} are in train for the same user. seen='drop' "
        "removes them",
        _seen, when=lambda x: x.inputs.beyond.train,
    ),
    Check(
        "strangers", "values", "warning",
        "No user of the run is in train. If this is not true, write their ids the same way in both",
        _strangers, when=lambda x: x.inputs.beyond.train,
    ),
    Check(
        "outside-catalogue", "values", "note",
        "{names} {metrics:leaves|leave} out {count:,} of {total:,} items of {run} that "
        "{count:is|are} not in the catalogue of {size} items",
        _outside, when=lambda x: x.outside,
    ),
)  # fmt: skip
JUDGED = (
    Check(
        "unknown-judgments", "values", "warning",
        "{count:,} of {total:,} relevant items {count:is|are} not in {name}, such as {example!r}: "
        "nothing that knows only {name} can show them. Are their ids the same in both?",
        _unknown_items,
    ),
    Check(
        "seen-judgments", "values", "warning",
        "{count:,} of {total:,} relevant items {count:is|are} in train for the same user{why}. "
        "Leave them out of the judgments: time_split(..., {own}seen='drop')",
        _seen_judgments, when=lambda x: x.inputs.beyond.train,
    ),
)  # fmt: skip

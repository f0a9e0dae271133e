"""Grades that were not read: every judged item has the same grade, and a column may say more.

With one grade for all, a metric says only whether judged items are on top. If nothing else is
shown, it is 1 whatever the order, so that neither a comparison nor a gate sees a difference.
"""

from __future__ import annotations

from collections.abc import Iterable

from rankql.core.evaluation.checks.looks import LAST
from rankql.core.evaluation.checks.record import UNREAD_GRADES, Check, Evidence, Facts, write
from rankql.core.metrics.metric_record import reads_grades
from rankql.core.tables.grades import find_unread
from rankql.core.tables.tables import Table

# Every relevant item may be on top by merit, unless nearly all that is shown is judged.
_JUDGED = 0.9
_TEXT = (
    "every judged item counts as equally relevant, and {name}, which is not read, has other "
    "values within {count:,} of {total:#query} ({values}). If {name} is the grade, pass {call}"
)


def note_unread_grades(table: Table) -> None:
    """Note on labels that no role has, where nothing is shown."""
    for facts in find_unread(table):
        table.note(write(_TEXT, facts), UNREAD_GRADES)


def _unread_grades(evidence: Evidence) -> Iterable[Facts]:
    """Columns that may have the grades, where nearly all that is shown is judged.

    A warning if a gate should not rely on metrics that are 1 throughout.
    """
    evaluation, inputs = evidence.evaluation, evidence.evaluation.inputs
    request, metrics = evaluation.request, evaluation.metrics
    graded = [x for x in metrics if not (x.record and x.record.reads_judged)]
    if metrics and not (graded and reads_grades(graded)):
        return
    found = [x for y in evidence.inputs.judging for x in find_unread(y)]
    if not found:
        return
    judged = "(SELECT *, rel IS NOT NULL AS known FROM run)"
    if inputs.qrels is not None:
        judged = """(SELECT run.*, known IS NOT NULL AS known
            FROM run SEMI JOIN qrels USING (query) LEFT JOIN
            (SELECT DISTINCT query, item, true AS known FROM qrels) USING (query, item))"""
    place, keys = "-score" if inputs.scored else "pos", inputs.keys
    k = max((metric.k or LAST for metric in metrics), default=evidence.k)
    sql = f"""SELECT sum(n), sum(j), count(*), count(*) FILTER (j > 1) FROM
        (SELECT count(*) AS n, count(*) FILTER (known) AS j FROM (SELECT *,
            row_number() OVER (PARTITION BY {keys} ORDER BY {place}) AS r FROM {judged}
            WHERE {place} IS NOT NULL) WHERE r <= {k} GROUP BY {keys})"""
    shown, known, lists, several = evidence.sample.fetch(sql)[0]
    named = request is not None and "rel" in request.rules.options
    for facts in found if lists and known >= _JUDGED * shown else ():
        decides = 2 * several >= lists and (named or facts["graded"])
        yield {**facts, "level": "warning" if decides or request is None else "note"}


CHECKS = (
    Check(
        UNREAD_GRADES, "evaluation", "warning", _TEXT, _unread_grades,
        why="Metrics cannot tell a good order from a bad one.",
    ),
)  # fmt: skip

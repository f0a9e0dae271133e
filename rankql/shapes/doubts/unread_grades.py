"""Grades that were not read: every judged item has the same grade, and a column may say more.

With one grade for all, a metric says only whether judged items are on top. If nothing else is
shown, it is 1 whatever the order, so that neither a comparison nor a gate sees a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rankql.core.base.column_names import number_kind, says, words_of
from rankql.core.base.errors import parse_number
from rankql.core.base.text import join_words
from rankql.core.evaluation.checks.looks import LAST
from rankql.core.evaluation.checks.record import UNREAD_GRADES, Check, Evidence, Facts, write
from rankql.core.metrics.macros import quote
from rankql.core.metrics.metric_record import reads_grades
from rankql.core.tables.tables import Table, format_mapping, is_number, is_text

# Grades have 2 to so many values; of more among the first rows, a column has none.
_LEVELS, _FIRST_ROWS = 10, 20_000
# A property of items has one value for each, which shows if so many stand in two queries.
_REPEATED = 0.1
# Every relevant item may be on top by merit, unless nearly all that is shown is judged.
_JUDGED = 0.9
_OTHERS = ("amount", "place")
# Words of grades, of which one is enough.
_GRADES = {
    *("poor", "weak", "bad", "fair", "ok", "good", "great", "excellent", "perfect", "superb"),
    *("no", "yes", "not", "irrelevant", "relevant", "partial", "partially", "marginal", "highly"),
    *("exact", "wrong", "correct", "incorrect", "useless", "useful", "low", "medium", "high"),
}
_TEXT = (
    "every judged item counts as equally relevant, and {name}, which is not read, has other "
    "values within {count:,} of {total:#query} ({values}). If {name} is the grade, pass {call}"
)


def note_unread_grades(table: Table) -> None:
    """Note on labels that no role has, where nothing is shown."""
    for facts in _find(table):
        table.note(write(_TEXT, facts), UNREAD_GRADES)


def _find(table: Table) -> Iterator[Facts]:
    """The columns of judgments that may have the grades, if all items have one."""
    if not table.has_one_grade or table.lists or "item" not in table.roles:
        return
    query, item = table.key("query"), table.key("item")
    for name in filter(_may_grade, table.unread):
        kind, value = table.columns.get(name, ""), quote(name)
        distinct = f"SELECT DISTINCT {value} AS v FROM {{}} WHERE v IS NOT NULL ORDER BY v"
        for rows in (f"(FROM {table.sql} LIMIT {_FIRST_ROWS})", table.sql):
            few = is_text(kind) or is_number(kind)
            found = (
                table.session.rows(f"{distinct.format(rows)} LIMIT {_LEVELS + 1}") if few else []
            )
            if len(found) > _LEVELS:
                break
        if not 2 <= len(found) <= _LEVELS:
            continue
        sql = f"""SELECT count(*), count(*) FILTER (q > 1), count(*) FILTER (v > 1) FROM
            (SELECT count(DISTINCT {query}) AS q, count(DISTINCT {value}) AS v FROM {table.sql}
            GROUP BY {{}})""".format
        (total, _, count), (items, repeated, unlike) = (
            table.session.row(sql(x)) for x in (query, item)
        )
        if 2 * count > total and (unlike or repeated < _REPEATED * items):
            values = [str(x) for (x,) in found]
            numbers = is_number(kind) or all(parse_number(x) is not None for x in values)
            mapping = format_mapping(dict.fromkeys(values, "..."), name)
            yield {"name": name, "values": join_words(values), "count": count, "total": total,
                   "call": f"rel={name!r}" if numbers else mapping, "table": table.label,
                   "graded": numbers or any(words_of(x) & _GRADES for x in values)}  # fmt: skip


def _may_grade(name: str) -> bool:
    """May a column with this name have grades?"""
    other = says(name, "id", "property", "query", "item", "annotator", "locator", "ranked system")
    return not (other or says(name, "split", "time", "user") or number_kind(name) in _OTHERS)


def _unread_grades(evidence: Evidence) -> Iterable[Facts]:
    """Columns that may have the grades, where nearly all that is shown is judged.

    A warning if a gate should not rely on metrics that are 1 throughout.
    """
    evaluation, inputs = evidence.evaluation, evidence.evaluation.inputs
    request, metrics = evaluation.request, evaluation.metrics
    graded = [x for x in metrics if not (x.record and x.record.reads_judged)]
    if metrics and not (graded and reads_grades(graded)):
        return
    found = [x for y in evidence.inputs.judging for x in _find(y)]
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

"""Words in the place of a relevant id that say that nothing is relevant, as NO_ANSWER does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import polars as pl

from rankql.core.base.errors import as_arguments
from rankql.core.evaluation.checks.record import Check, Evidence, Facts
from rankql.core.metrics.macros import literal
from rankql.core.tables.tables import quote_name
from rankql.shapes.doubts.sample import MARKS, NOTHING, says_nothing

# A word that no run has and that is the only relevant id of so many queries is no id that is
# merely missed; of how many it must be at least.
_SHARE, _QUERIES = 0.1, 3


def _no_answers(evidence: Evidence) -> Iterable[Facts]:
    """Words that are the only relevant item of queries, and that no run ranks among others."""
    evaluation, (qrels,) = evidence.evaluation, evidence.inputs.judging
    frame = evaluation.session.frames.get(qrels.sql)
    if (
        frame is not None
        and qrels.roles["item"] in frame
        and not _may_be(frame[qrels.roles["item"]])
    ):
        return
    nothing = says_nothing("word")
    words = evaluation.run_sql(f"""SELECT word, count(*) AS count, {nothing} AS nothing FROM
            (SELECT query, CAST(item AS VARCHAR) AS word, count(*) OVER (PARTITION BY query) AS n
            FROM qrels WHERE rel > 0)
        GROUP BY word HAVING max(n) = 1 AND NOT regexp_matches(word, '[0-9]')
            AND (nothing OR count >= {_QUERIES}
                AND count >= {_SHARE} * (SELECT count(DISTINCT query) FROM qrels)) ORDER BY ALL""")
    keys, known = evaluation.inputs.keys, ", ".join(literal(word) for word, *_ in words)
    sql = f"""SELECT word, max(n) FROM
            (SELECT {keys}, CAST(item AS VARCHAR) AS word FROM run WHERE word IN ({known}))
        JOIN (SELECT {keys}, count(*) AS n FROM run GROUP BY {keys}) USING ({keys})
        GROUP BY word"""
    lengths = dict(evaluation.run_sql(sql)) if words else {}
    rel = qrels.roles["rel"]
    grade = "1" if qrels.has_one_grade or qrels.is_assumed("rel") else quote_name(rel)
    for word, count, is_nothing in words:
        if word in lengths and not (is_nothing and lengths[word] == 1):
            continue
        value = f"CASE WHEN {quote_name(qrels.roles['item'])} <> {literal(word)} THEN {grade} END"
        yield {"word": word, "count": count, "call": as_arguments({"rel": value})}


def _may_be(items: pl.Series) -> bool:
    """Does an id in memory say nothing, or stand in so many rows, so that a query must tell?"""
    words = items.filter(~items.str.contains("[0-9]"))
    letters = words.str.to_lowercase().str.replace_all(MARKS, "")
    often = words.value_counts()["count"].max()
    return letters.is_in(NOTHING).any() or bool(often and cast("int", often) >= _QUERIES)


CHECKS = (
    Check(
        "no-answers", "values", "note",
        "{word!r} is the only relevant item of {count:#query}. If it says that nothing is "
        "relevant, pass {call}, which leaves {count:it|them} out",
        _no_answers,
    ),
)  # fmt: skip

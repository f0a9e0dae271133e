"""Grades of judgments that have none: 1 for every row, the score of BEIR, events by a mapping."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankql.errors import RankqlError
from rankql.macros import literal, quote
from rankql.registry.column_names import EVENTS, ROLES, TIMES, find_name, squash
from rankql.sources.session import Session
from rankql.sources.tables import Table, is_text, require_column
from rankql.text import format_count

# The column of the lists of subtopics, and names of columns with one subtopic per judgment.
SUBTOPICS, SUBTOPIC_NAMES = "subtopics", ("subtopic", "intent", "iteration")
# The column of mapped grades, as errors say it.
MAPPED = "grade of the event"


def assume_grades(
    session: Session, table: Table, names: dict[str, Any]
) -> tuple[Table, dict[str, Any]]:
    """The judgments with grades, and the names of their columns.

    In BEIR the grade is called score. Judgments of items alone mean grade 1.
    """
    if names.get("rel") or table.find("rel"):
        return table, names
    score = table.find("score", names.get("score"))
    if score and "corpusid" in map(squash, table.columns):
        _require_whole_grades(session, table, score)
        return table, {**names, "rel": score}
    if score or table.find("pos", names.get("pos")) or _may_be_graded(session, table):
        return table, names
    return _add_grades(table, "rel", "1", "INTEGER", [], "1 for every row"), names


def _may_be_graded(session: Session, table: Table) -> bool:
    """Has a column that is not named, and neither an id nor a time, several values or numbers?"""
    known = {squash(name) for name in (*ROLES["query"], *ROLES["item"], *TIMES)}
    values = [
        f"CAST({quote(name)} AS VARCHAR)"
        for name, kind in table.columns.items()
        if not (squash(name) in known or name in table.named or kind.startswith(("DATE", "TIME")))
    ]
    # An empty table may stand for one of Spark, whose values are not known yet.
    several = "count(*) = 0 OR min({0}) <> max({0}) OR count({0}) NOT IN (0, count(*))"
    for kind in ("DOUBLE", "BOOLEAN"):
        several += f" OR TRY_CAST(min({{0}}) AS {kind}) IS NOT NULL"
    sql = f"SELECT {' OR '.join(map(several.format, values)) or 'false'} FROM {table.sql}"
    return bool(session.con.execute(sql).fetchall()[0][0])


def _require_whole_grades(session: Session, table: Table, score: str) -> None:
    """Refuse a run of BEIR as judgments, whose column has the same name."""
    value = f"TRY_CAST({quote(score)} AS DOUBLE)"
    sql = f"SELECT {quote(score)} FROM {table.sql} WHERE {value} <> floor({value}) LIMIT 1"
    for (number,) in session.con.execute(sql).fetchall():
        raise RankqlError(
            f"{table.label} looks like a run: {score} is {number}, and grades are whole numbers. "
            f"Pass the judgments, or rel={score!r} if these are the grades"
        )


def keep_highest(session: Session, table: Table, by: Sequence[str]) -> Table:
    """The judgments with one row per query and item: of assumed grades, the highest."""
    if "rel" not in table.assumed and table.computed.get(table.roles["rel"]) != []:
        return table  # grades in the data must be unique; only a constant like '1' is assumed
    ids = [table.roles["query"], table.roles["item"]]
    kept = dict.fromkeys([*ids, *(table.actual_name(name) for name in by if table.has(name))])
    names, grade = ", ".join(map(quote, kept)), quote(table.roles["rel"])
    hashes = f"hash({', '.join(map(quote, ids))})"
    ((repeated,),) = session.con.execute(
        f"SELECT count(*) - count(DISTINCT {hashes}) FROM {table.sql}"
    ).fetchall()
    if not repeated:
        return table
    sql = f"(SELECT {names}, max({grade}) AS {grade} FROM {table.sql} GROUP BY ALL)"
    rows = session.load(table.label, sql, text=table.text)
    left_out = format_count(repeated, "row")
    assumed = f"{table.role_columns['rel']}, the highest of repeated items ({left_out} left out)"
    return replace(rows, roles=table.roles, assumed={"rel": assumed}, computed=table.computed)


def list_subtopics(session: Session, table: Table, threshold: float) -> tuple[Table, list[str]]:
    """The judgments with one row per item and the list of its subtopics, and a note on it."""
    if table.has(SUBTOPICS):
        return table, []
    name = find_name(table.columns, SUBTOPIC_NAMES)
    sql = f"SELECT count(DISTINCT {quote(name or '')}) FROM {table.sql}"
    # The second column of other TREC judgments is the same in all rows.
    if name is None or (name == "iteration" and session.con.execute(sql).fetchall() <= [(1,)]):
        raise RankqlError(
            f"{table.label} has no subtopics. Metrics such as alpha_nDCG@10 need one row per "
            f"subtopic, with a column subtopic, or a column {SUBTOPICS} of lists"
        )
    grade, rel = table.number("rel"), quote(table.roles["rel"])
    ids = ", ".join(quote(table.roles[role]) for role in ("query", "item"))
    subtopic = f"CAST({quote(name)} AS VARCHAR)"
    others = [x for x in table.columns if x not in (name, *table.roles.values())]
    fields = [
        ids,
        f"max({grade}) AS {rel}",
        *(f"any_value({quote(x)}) AS {quote(x)}" for x in others),
    ]
    fields.append(f"list(DISTINCT {subtopic}) FILTER (WHERE {grade} >= {threshold}) AS {SUBTOPICS}")
    rows = f"(SELECT {', '.join(fields)} FROM {table.sql} GROUP BY {ids})"
    note = f"{table.label}: the subtopics are those of {name}, and an item has its highest grade"
    columns = {x: kind for x, kind in table.columns.items() if x != name}
    columns |= {table.roles["rel"]: "DOUBLE", SUBTOPICS: "VARCHAR[]"}
    return replace(table, sql=rows, columns=columns, lasting=False), [note]


def map_events(
    session: Session, table: Table, column: str | None, grades: Mapping[Any, Any]
) -> Table:
    """The table with the grades of its events, in a column of this or a known name."""
    for event, grade in grades.items():
        number = isinstance(grade, int | float) and not isinstance(grade, bool)
        if not isinstance(event, str) or not number or not math.isfinite(grade):
            raise RankqlError(f"rel must map events (text) to grades, not {event!r} to {grade!r}")
    if not grades:
        raise RankqlError("rel={} has no grades. Map events to grades: rel={'buy': 3, 'click': 1}")
    known = (*EVENTS, *ROLES["rel"])
    texts = [name for name, kind in table.columns.items() if is_text(kind)]
    event = find_name(texts, known)
    option = ",".join(f"{name}={grade}" for name, grade in grades.items())
    rel = f"rel={dict(grades)!r} (CLI: --rel {shlex.quote(option)})"
    if column is not None:
        event = require_column(table, column, "rel")
        if event not in texts:
            kind = table.columns[event]
            raise RankqlError(f"{table.label}: {event} must be text to map it, not {kind}. Cast it")
    if event is None:
        raise RankqlError(
            f"{rel} needs a text column in {table.label}: one of {', '.join(known)}. Found: "
            f"{', '.join(texts) or 'none'}. Name it: rel=('...', {{...}})"
        )
    value = f"CAST({quote(event)} AS VARCHAR)"
    rows = session.con.execute(
        f"SELECT DISTINCT {value} FROM {table.sql} WHERE {value} NOT IN "
        f"({', '.join(map(literal, grades))}) ORDER BY ALL LIMIT 3"
    ).fetchall()
    if rows:
        raise RankqlError(
            f"{table.label}: {rel} has no grade for {event} "
            f"{', '.join(repr(name) for (name,) in rows)}. Add one, such as 0"
        )
    cases = " ".join(f"WHEN {literal(name)} THEN {grade!r}" for name, grade in grades.items())
    whole = all(isinstance(grade, int) for grade in grades.values())
    kind = "INTEGER" if whole else "DOUBLE"
    pairs = ", ".join(f"{name}: {grade}" for name, grade in grades.items())
    sql = f"CAST(CASE {value} {cases} END AS {kind})"
    return _add_grades(table, MAPPED, sql, kind, [event], f"{event} ({pairs})")


def _add_grades(
    table: Table, name: str, value: str, kind: str, reads: Sequence[str], assumed: str
) -> Table:
    """The table with a column of grades, and what the Columns line says of them."""
    return replace(table.with_column(name, value, kind, reads), assumed={"rel": assumed})

"""Questions about the grades that resolve rules, each asked at most once and if it is needed."""

from __future__ import annotations

from rankql.evaluation.protocol import SCALES
from rankql.sources.inputs import Inputs
from rankql.sources.session import Session


def has_grade(session: Session, inputs: Inputs, condition: str) -> bool:
    """Whether the condition on {rel} holds for any grade."""
    for table in inputs.judging:
        # Compare the column itself: DuckDB then skips what its statistics rule out.
        grade = table.integer("rel") or table.number("rel")
        sql = f"SELECT 1 FROM {table.sql} WHERE {condition.format(rel=grade)} LIMIT 1"
        if sql not in session.answers:
            session.answers[sql] = bool(session.rows(sql))
        if session.answers[sql]:
            return True
    return False


def has_fractions(session: Session, inputs: Inputs) -> bool:
    """Whether a grade is between 0 and 1."""
    are_whole = all(table.integer("rel") for table in inputs.judging) or grade_scale(
        session, inputs
    )
    return not are_whole and has_grade(session, inputs, "{rel} > 0 AND {rel} < 1")


def grade_scale(session: Session, inputs: Inputs) -> int:
    """The end of the smallest scale with all grades, if they are whole numbers from 0; or 0."""
    are_whole = all(table.integer("rel") for table in inputs.judging)
    fraction = "" if are_whole else " OR {rel} <> floor({rel})"
    for end in SCALES:
        if not has_grade(session, inputs, f"{{rel}} < 0 OR {{rel}} > {end}{fraction}"):
            return end
    return 0


def highest_grade(session: Session, inputs: Inputs) -> float:
    """The highest grade, or 0."""
    # The end of a scale is found without reading all rows.
    end = grade_scale(session, inputs)
    if end and has_grade(session, inputs, f"{{rel}} = {end}"):
        return float(end)
    grades = " UNION ALL ".join(
        f"SELECT {table.number('rel')} AS rel FROM {table.sql}" for table in inputs.judging
    )
    sql = f"SELECT coalesce(max(rel), 0) FROM ({grades}) WHERE rel > 0"
    return float(session.value(sql))

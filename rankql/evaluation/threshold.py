"""Notes on grades that the default threshold may misread: ratings, and fractions below it."""

from __future__ import annotations

from collections.abc import Sequence

from rankql.evaluation.checks import FIRST_ROWS
from rankql.evaluation.resolve import Facts
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.text import format_queries, has_or_have, join_words

# Ratings go up to this grade at least.
HIGHEST_RATING = 4
# Ratings, of which nearly all are relevant; of counts without zeros, most are at most 1.
RATINGS = f"""SELECT count(*) FILTER (rel >= {{threshold:g}}) AS count, count(rel) AS judged,
    count / count(rel) AS part, min(rel) AS lowest, max(rel) AS highest FROM {{rows}}
    HAVING count >= 0.95 * judged AND highest >= {HIGHEST_RATING} AND count(DISTINCT rel) >= 4
       AND count(*) FILTER (rel <= 1) <= judged / 2"""
RATINGS_PROBLEM = (
    "{part:.0%} of judged items count as relevant (threshold {threshold:g}, grades {lowest:g} to "
    "{highest:g})"
)


def note_threshold(
    facts: Facts, metrics: Sequence[Metric], conventions: Conventions, highest_grade: float | None
) -> list[str]:
    """Notes on binary metrics of ratings, and of grades between 0 and the default threshold.

    highest_grade: if it is known.
    """
    threshold, tables = conventions.threshold, facts.inputs.judging
    binary = [
        metric.name
        for metric in metrics
        if metric.record
        and "threshold" in metric.record.options
        and "max_rel" not in metric.options  # fractions count
        and metric.threshold(vars(conventions)) == threshold
    ]
    whole = all(table.integer("rel") for table in tables)
    known = vars(facts).get("grade_scale", 0)  # grades from 0 to it are whole
    if not binary or 0 < known < HIGHEST_RATING:
        return []
    notes, source = [], facts.inputs.graded
    may_rate = highest_grade is None or highest_grade >= HIGHEST_RATING
    if may_rate and not any("rel" in table.assumed for table in tables):
        sample = f"(SELECT rel FROM {source} WHERE rel IS NOT NULL LIMIT {FIRST_ROWS})"
        for rows in (sample, source):
            found = facts.run_sql(RATINGS.format(rows=rows, threshold=threshold))
            if not found:
                break
        for *_, part, lowest, highest in found:
            values = {"threshold": threshold, "lowest": lowest, "highest": highest}
            problem = RATINGS_PROBLEM.format(part=part, **values)
            notes.append(f"{problem}. For ratings pass threshold=, often 4")
    between = f"{{rel}} > 0 AND {{rel}} < {threshold:g}"
    if (whole and threshold <= 1) or known or not facts.has_grade(between):
        return notes
    low = f"bool_or({between.format(rel='rel')})"
    ((queries, undefined, highest),) = facts.run_sql(
        f"""SELECT count(*) FILTER (low), count(*) FILTER (low AND highest < {threshold:g}),
        max(highest) FROM (SELECT {low} AS low, max(rel) AS highest FROM {source} GROUP BY query)"""
    )
    if undefined or highest <= 1:
        lost = ""
        if undefined:
            some = f", and {undefined:,} of them {has_or_have(undefined)} no relevant item"
            lost = " and no relevant item" if undefined == queries else some
        notes.append(
            f"Grades between 0 and the threshold of {threshold:g} count as not relevant for "
            f"{join_words(binary)}: {format_queries(queries)} {has_or_have(queries)} such "
            f"grades{lost}. Pass a lower threshold= if they are relevant"
        )
    return notes

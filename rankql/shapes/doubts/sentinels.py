"""Numbers in the place of a grade: -1, 99 or 999 if nobody rated, and -1 of padding."""

from __future__ import annotations

from collections.abc import Iterable

from rankql.core.base.errors import as_arguments
from rankql.core.evaluation.checks.record import Check, Evidence, Facts
from rankql.core.tables.tables import quote_name

# Such a high number is this many times the next one, in so many rows.
_TIMES, _ROWS = 5, 2


def _sentinels(evidence: Evidence) -> Iterable[Facts]:
    for table in evidence.inputs.judging:
        name = table.roles["rel"]
        grades = f"(SELECT TRY_CAST({quote_name(name)} AS DOUBLE) AS r FROM {table.sql})"
        sql = f"""SELECT min(r), min(r) FILTER (r <> -1),
                max(r), max(r) FILTER (r NOT IN (99, 999)),
                count(*) FILTER (r = -1), count(*) FILTER (r IN (99, 999)) FROM {grades}"""
        low, next_low, high, next_high, lows, highs = evidence.evaluation.session.row(sql)
        found = [(-1, lows)] if low == -1 and (next_low or 0) > 0 else []
        if high in (99, 999) and highs >= _ROWS and 0 < _TIMES * (next_high or 0) <= high:
            found.append((int(high), highs))
        for value, count in found:
            call = {"rel": f"nullif({quote_name(name)}, {value})"}
            yield {"table": table.label, "name": name, "value": value, "count": count,
                   "call": as_arguments(call)}  # fmt: skip


def _padding(evidence: Evidence) -> Iterable[Facts]:
    """Items of grade -1 above others that all have one score, or end all rankings of one length.

    A -1 with a score of its own is a grade, such as a dislike.
    """
    inputs = evidence.inputs
    join = "run JOIN (SELECT query, item, rel FROM qrels) AS q USING (query, item)"
    lists = f"""SELECT count(*) AS n, count(*) FILTER (rel = -1) AS pads,
            max(score) FILTER (rel = -1) > min(score) FILTER (rel >= 0) AS above,
            max(id) - min(id) = n - 1
                AND min(id) FILTER (rel = -1) > max(id) FILTER (rel >= 0) AS ends,
            min(score) FILTER (rel = -1) AS low, max(score) FILTER (rel = -1) AS high
        FROM (SELECT *, TRY_CAST(item AS DOUBLE) AS id FROM {join if inputs.qrels else "run"})
        WHERE score IS NOT NULL GROUP BY {inputs.keys}"""
    sql = f"""SELECT sum(pads), count(*) FILTER (above),
            2 * count(*) FILTER (pads > 1) > count(*) AND (min(low) = max(high)
                OR min(n) = max(n) AND coalesce(bool_and(ends) FILTER (pads > 0), false))
        FROM ({lists})"""
    ((count, above, are_padding),) = evidence.evaluation.run_sql(sql)
    if above and are_padding:
        (table, *_), run = inputs.judging, next(iter(inputs.runs.values()))
        name, score = (quote_name(x.roles[y]) for x, y in ((table, "rel"), (run, "score")))
        call = as_arguments({"score": f"CASE WHEN {name} <> -1 THEN {score} END"})
        remedy = f"To leave it out of the rankings, pass {call}"
        remedy = "Leave such items out of both tables" if inputs.qrels else remedy
        yield {"name": name, "count": int(count), "queries": above, "remedy": remedy}


_TEXT = "{name} is {value} in {count:#row}, unlike all others"
_REMEDY = "If it says that nobody rated, pass {call}, which counts {count:it|them} as unjudged"
CHECKS = (
    Check(
        "sentinels", "evaluation", "note", _TEXT, _sentinels, f"{{table}}: {_TEXT}. {_REMEDY}",
        f"{_REMEDY}.",
    ),
)  # fmt: skip
_PADDED = "{name} is -1 in {count:#row}, above other items in {queries:#query}"
_LEFT_OUT = "It looks like padding, which takes the places of items. {remedy}"
PADDING = (
    Check(
        "padding", "evaluation", "note", _PADDED, _padding, f"{_PADDED}. {_LEFT_OUT}",
        f"{_LEFT_OUT}.",
    ),
)  # fmt: skip

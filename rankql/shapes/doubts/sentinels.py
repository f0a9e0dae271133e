"""Numbers in the place of a rating that say that nobody rated: -1, 99 or 999."""

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


_TEXT = "{name} is {value} in {count:#row}, unlike all others"
_REMEDY = "If it says that nobody rated, pass {call}, which counts {count:it|them} as unjudged"
CHECKS = (
    Check(
        "sentinels", "evaluation", "note", _TEXT, _sentinels, f"{{table}}: {_TEXT}. {_REMEDY}",
        f"{_REMEDY}.",
    ),
)  # fmt: skip

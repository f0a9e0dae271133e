"""Rows of several kinds in one table of judgments, as JSON lines have them: one kind is read."""

from __future__ import annotations

from dataclasses import replace

from rankql.core.base.column_names import ROLES, find_name
from rankql.core.base.text import format_count, is_or_are
from rankql.core.metrics.macros import quote
from rankql.core.tables.candidates import fields_of
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table, is_id, is_nested, is_number
from rankql.shapes.choose.cells import unpack_objects

# More patterns of columns are not kinds, but values that lack at random.
_MOST = 20


def keep_one_kind(session: Session, table: Table) -> Table:
    """The rows of the one kind that has a query, an id and a grade, such as retrieved documents
    beside games of agents, and a note on the others. The table as it is if that is not clear.
    """
    if not any(map(is_nested, table.columns.values())):
        return table
    flat = unpack_objects(table)
    names = [x for x, kind in flat.columns.items() if not fields_of(kind) or kind.endswith("]")]
    flags = ", ".join(f"CASE WHEN {quote(x)} IS NOT NULL THEN {i} END" for i, x in enumerate(names))
    pattern = f"list_filter([{flags}], lambda x_: x_ IS NOT NULL)"
    rows = session.rows(f"SELECT {pattern}, count(*) FROM {flat.sql} GROUP BY 1 LIMIT {_MOST}")
    patterns = {frozenset(names[i] for i in each): count for each, count in rows}
    kinds = [x for x in patterns if not any(x < y for y in patterns)]
    graded = [x for x in kinds if _has_grades(flat, x)]
    if len(rows) == _MOST or len(kinds) < 2 or len(graded) != 1:
        return table
    (own,) = graded
    others = [[x for x in names if x in each - own] for each in kinds if each != own]
    count = sum(n for x, n in patterns.items() if not x <= own)
    known = "; ".join(map(", ".join, sorted(others, key=lambda each: names.index(each[0]))))
    session.note(
        table.label,
        f"{format_count(count, 'row')} of another kind ({known}) {is_or_are(count)} not read",
    )
    lacks = " AND ".join(f"{quote(x)} IS NULL" for x in names if x not in own)
    tops = {x.partition(".")[0] if x not in table.columns else x for x in own}
    kept = {x: kind for x, kind in table.columns.items() if x in tops}
    sql = f"(SELECT {', '.join(map(quote, kept))} FROM {flat.sql} WHERE {lacks})"
    return replace(table, sql=sql, columns=kept)


def _has_grades(table: Table, names: frozenset[str]) -> bool:
    """Have rows with these columns a known query, another id, and a number?"""
    query = find_name([x for x in table.columns if x in names], ROLES["query"])
    others = [table.columns[x] for x in names if x != query]
    return query is not None and any(map(is_id, others)) and any(map(is_number, others))

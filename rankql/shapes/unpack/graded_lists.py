"""Lists of grades beside lists of ids: candidates [5, 6, 7] with labels [0, 0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rankql.core.base.column_names import GRADE_LISTS, is_called, list_side
from rankql.core.metrics.macros import quote
from rankql.core.tables.candidates import Ids
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table, is_number


def join_grades(session: Session, table: Table, items: Sequence[Ids], rel: Any) -> Table:
    """The table with objects of an id and its grade in place of the retrieved ids.

    A list has their grades by its name, or as rel= says, if no other has relevant ids, and in some
    row one value twice, which ids have not.
    """
    ids = items[0].column if items else ""
    kind = table.columns.get(ids, "")
    if not kind.endswith("]") or kind.startswith("STRUCT(") or kind.endswith("[][]"):
        return table
    others = [x for x, y in table.columns.items() if y.endswith("]") and x != ids]
    judged = [x for x in others if list_side(x) == "qrels" or is_called(x, GRADE_LISTS) or x == rel]
    name = judged[0] if len(judged) == 1 else ""
    of_grade = table.columns.get(name, "")[:-2]
    if not (is_number(of_grade) or of_grade == "BOOLEAN") or rel not in (name, None):
        return table
    if rel is None and not is_called(name, GRADE_LISTS):
        return table
    grades, values = quote(name), quote(ids)
    fits = f"bool_and(len({grades}) IS NOT DISTINCT FROM len({values}))"
    repeats = f"bool_or(len(list_distinct({grades})) < len({grades}))"
    if not session.value(f"SELECT {fits} AND {repeats} FROM {table.sql}"):
        return table
    pair = f"lambda x_: {{'id': x_[1], {grades}: x_[2]}}"
    joined = f"list_transform(list_zip({values}, {grades}), {pair})"
    table = table.with_values(ids, joined, f"STRUCT(id {kind[:-2]}, {grades} {of_grade})[]")
    return replace(table, columns={x: y for x, y in table.columns.items() if x != name})

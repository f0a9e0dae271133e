"""Labels with one id: rows that a single column identifies, in the tables of all judges."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rankql.core.base.column_names import ROLES, TIMES, WEAK, is_called, rank_of, says
from rankql.core.base.writing import Part
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.files import JSON, suffix_of
from rankql.core.tables.session import Session, Source
from rankql.core.tables.tables import Rel, Table, is_id, is_text


def list_of_labels(session: Session, data: Any) -> Any:
    """The list of an object with one list of labels under a name, as {"verdicts": [{id, label}]};
    other data as they are.
    """
    objects = [data]
    if isinstance(data, str | os.PathLike) and suffix_of(os.fspath(data)) in JSON:
        from rankql.shapes.open.json_files import may_have_runs, parse_objects

        source = Source(session, data, "labels")
        is_read = source.entry is None and may_have_runs(source.file)
        objects = parse_objects(source.file) if is_read else []
    if len(objects) != 1 or not isinstance(objects[0], Mapping):
        return data
    lists = {x: rows for x, rows in objects[0].items() if isinstance(rows, list)}
    rows = next(iter(lists.values())) if len(lists) == 1 else []
    if not rows or not all(isinstance(x, dict) for x in rows):
        return data
    known = any(rank_of("item", name) is not None for name in rows[0])  # as of a dict by query
    return data if known and not any(is_called(x, LABELS) for x in lists) else Part(data, *lists)


# The names of a list of labels, which is no query.
LABELS = (
    *("verdicts", "labels", "judgments", "judgements", "annotations", "ratings", "results"),
    *("grades", "items", "rows", "records", "data", "answers", "examples", "findings"),
)


def grade_columns(table: Table, rel: Rel) -> list[str]:
    """The columns that hold the labels: named, called so, or with the keys of a mapping alone."""
    name, mapping = rel if isinstance(rel, list | tuple) and len(rel) == 2 else (rel, rel)
    known = [x for x in table.columns if x == name or is_called(x, ROLES["rel"])]
    if isinstance(mapping, Mapping) and mapping:
        keys = ", ".join(map(literal, mapping))
        for column in (x for x, kind in table.columns.items() if is_text(kind)):
            value = f"CAST({quote(column)} AS VARCHAR)"
            if table.value(f"bool_and({value} IN ({keys}))"):
                known.append(column)
    return known


def find_one_id(tables: Sequence[Table], rels: Sequence[Rel], query: Any, item: Any) -> str | None:
    """The column that all tables share and none repeats, if nothing else tells items apart.

    None if both ids are known, or the id of the queries repeats: then another column has the items.
    """
    known = [
        {x for t in tables for x in t.columns if (n := rank_of(role, x)) is not None and n < weak}
        for role, weak in WEAK.items()
    ]
    if (query and item) or not all(isinstance(x, str | None) for x in (query, item)):
        return None
    if (known[0] or query) and (known[1] - known[0] or item):
        return None
    graded = {x for y in zip(tables, rels, strict=True) for x in grade_columns(*y)}
    shared = [
        x for x, kind in tables[0].columns.items()
        if is_id(kind) and x not in graded and not (says(x, "order") or is_called(x, TIMES))
        and all(table.has(x) for table in tables)
    ]  # fmt: skip
    named = [x for x in shared if x in (query, item) or (not query and not item and x in known[0])]
    is_unique = "count(*) = count(DISTINCT {})".format
    named = named or shared
    unique = [x for x in named if all(table.value(is_unique(quote(x))) for table in tables)]
    likely = [x for x in unique if says(x, "id") or x in known[1]] or unique
    return likely[0] if len(likely) == 1 else None

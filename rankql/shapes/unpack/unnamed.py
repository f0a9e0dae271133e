"""Questions about lists whose names do not say which ids they have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from rankql.core.base.column_names import RELEVANT, RETRIEVED, list_side, number_kind, rank_of
from rankql.core.base.errors import Call, Question
from rankql.core.tables.candidates import fields_of, lists_of
from rankql.core.tables.grades import is_outcome
from rankql.core.tables.ids import Ids
from rankql.core.tables.tables import Table, is_number, quote_name


def require_known_lists(
    table: Table, item: Any, retrieved: Sequence[Ids] = (), relevant: Sequence[Ids] = ()
) -> None:
    """Refuse a table with lists, if no names say which are retrieved and which are relevant."""
    lists = lists_of(table)
    known = [any(x.column for x in each) for each in (retrieved, relevant)]
    if all(known) or (not any(known) and (not lists or item or table.known("item"))):
        return
    hints = ["If other tables have the relevant ids, pass qrels="]
    grades = (x for x in lists if is_number(table.columns[x][:-2]) and list_side(x) != "run")
    calls: list[Call] = [{"item": x, "rel": y} for y in grades for x in lists if x != y]
    for x in lists:
        fields = fields_of(table.columns[x])
        outcomes = [name for name, y in fields.items() if is_outcome(name, y.kind)]
        ranked = [y for y in lists if list_side(y) == "run" and y != x] if outcomes else []
        places = [y for y in fields if rank_of("item", y) or number_kind(y) == "place"]
        flagged = product(ranked, places, outcomes)  # predictions beside candidates with flags
        calls = [
            *({"item": [y, f"{x}.{z}"], "rel": f"{x}.{name}"} for y, z, name in flagged),
            *({"item": x, "rel": f"{x}.{name}"} for name in outcomes),
            *calls,
        ]
        if any(y.kind.endswith("]") for y in fields.values()):
            rows = f"SELECT unnest({quote_name(x)}, max_depth := 2) FROM ..."
            hints += [f"{x} has lists inside its objects: read one row per object, as in {rows}"]
    raise Question(
        f"{table.label} has no lists of retrieved and of relevant ids with known names",
        calls,
        hints,
        blanks={"item": ["...", "..."]},
        known=[RETRIEVED[0], RELEVANT[0]],
        found=table.own_columns,
        ungraded=True,
    )


def require_known_list(table: Table, items: Sequence[Ids], named: Any) -> None:
    """Refuse a table whose lists have unknown names, if nothing else is its item."""
    lists = lists_of(table)
    rows = any(x not in lists for x in table.known("item"))
    if named or not lists or rows or any(x.column for x in items):
        return
    word = "relevant" if table.label == "qrels" else "retrieved"
    raise Question(
        f"{table.label} has no list of {word} ids with a known name",
        blanks={"item": "..."},
        found=table.own_columns,
    )

"""The interactions of training, the items that could be shown, and logs that are split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Number
from operator import index
from typing import Any

from rankql.errors import require_whole_number
from rankql.registry.column_names import RELEVANT
from rankql.sources.choose.computed import resolve_columns
from rankql.sources.names.candidates import find_list
from rankql.sources.names.roles import assign_roles
from rankql.sources.open.session import Session
from rankql.sources.tables import Data, Table
from rankql.sources.unpack.lists import unnest_lists


def read_beyond(
    session: Session,
    train: Table | None,
    catalogue: Data | int | None,
    columns: Mapping[str, Any],
    runs: Sequence[Table],
    others: Sequence[Table],
) -> tuple[Table | None, Table | int | None]:
    """The interactions and the catalogue, whose columns are recognised like those of judgments.

    others: the tables whose ids they share, with their roles.
    """
    ids = {role: columns.get(role) for role in ("query", "item")}
    same = {role: [x.roles[role] for x in others if role in x.roles] for role in ids}

    def read(table: Table, *roles: str) -> Table:
        needed = {role: ids[role] for role in roles}
        named, (_, (table,), _) = resolve_columns(session, needed, [[*runs], [table]])
        return assign_roles(table, named[1], roles, same, only=True)

    if train:
        if find_list(train, RELEVANT):
            train = unnest_lists(session, {}, train, ids)[1] or train
        train = read(train, "query", "item")
    if isinstance(catalogue, Number):
        size: Any = index(catalogue) if isinstance(catalogue, Integral) else catalogue
        require_whole_number("catalogue", size, 1)
        return train, size
    if catalogue is None:
        return train, None
    table = session.table(catalogue, "catalogue")
    if len(table.columns) == 1:
        return train, replace(table, roles={"item": next(iter(table.columns))})
    return train, read(table, "item")

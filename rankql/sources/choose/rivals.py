"""Several columns that may have one role of a number, and how differently they order items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rankql.errors import Question
from rankql.macros import quote
from rankql.registry.column_names import (
    RERANKED,
    ROLES,
    WEAKER,
    find_name,
    is_called,
    is_distance,
    squash,
)
from rankql.sources.open.reader import first_rows
from rankql.sources.open.session import Session
from rankql.sources.tables import Table, is_number
from rankql.text import join_words


def require_one_name(
    session: Session, table: Table, roles: Sequence[str], names: Mapping[str, str | None]
) -> Table:
    """The table, if one column has each of these roles, or several say the same.

    Next to the exact name of a role, or a better known one, the Columns line names the others.
    """
    for role in roles:
        table = _require_one_name(session, table, role, names)
    return table


def _require_one_name(
    session: Session, table: Table, role: str, names: Mapping[str, str | None]
) -> Table:
    if names.get(role) or role in table.roles or table.trec:
        return table
    numbers = [x for x in table.free_columns(role) if is_number(table.columns[x]) or table.text]
    known, weaker = ([x for x in numbers if is_called(x, y[role])] for y in (ROLES, WEAKER))
    chosen = table.find(role)
    if chosen not in (*known, *weaker) or len(known) + len(weaker) < 2:
        return table
    key = table.find("query", names.get("query"))
    is_class = is_called(chosen, ("prediction", "pred")) and find_name(weaker, ["probability"])
    classes = f"SELECT count(DISTINCT {quote(chosen)}) <= 2 FROM {table.sql}"
    is_class = is_class and session.value(classes)
    others = [
        x for x in (*known, *weaker)
        if x != chosen
        and (is_class or _differ(session, table, key, role, [chosen, x]))
    ]  # fmt: skip
    rivals = [x for x in others if is_class or (x in known) == (chosen in known)]
    if rivals and squash(chosen) != role and chosen != RERANKED:
        raise Question(
            f"{table.label}: {join_words([chosen, *rivals])} may all be the {role}, and they "
            "differ",
            [{role: x} for x in (chosen, *rivals)],
        )
    said = {role: f"{chosen}, not {join_words(others)}"} if others else {}
    return replace(table, context={**table.context, **said})


def _differ(session: Session, table: Table, key: str | None, role: str, names: list[str]) -> bool:
    """Do two scores order items differently, or other numbers differ in a row?"""
    first = first_rows(session, table, key, names)
    if role != "score":
        return any(one != other for _, one, other in first.rows)
    also, lowest = map(is_distance, names)
    return first.disagreement(lowest, also) > 0

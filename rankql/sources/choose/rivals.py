"""Several columns that may have one role of a number, and how differently they order items."""

from __future__ import annotations

from collections.abc import Mapping
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
from rankql.sources.open.session import Session
from rankql.sources.tables import FIRST_ROWS, Table, is_number, is_text, text_number
from rankql.text import join_words


def require_one_name(
    session: Session, table: Table, role: str, names: Mapping[str, str | None]
) -> Table:
    """The table, if one column has the role, or several say the same.

    Next to the exact name of a role, or a better known one, the Columns line names the others.
    """
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
        and (is_class or disagreement(session, table, key, (role, chosen), (role, x)))
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


def disagreement(
    session: Session, table: Table, key: str | None, one: tuple[str, str], other: tuple[str, str]
) -> float:
    """The share of the first queries that two columns order differently; of grades, of rows."""
    a, b = (
        f"{'-' if role == 'score' and not is_distance(name) else ''}{number_of(table, name)}"
        for role, name in (one, other)
    )
    query = quote(key) if key and table.has(key) else "1"
    rows = f"SELECT {query} AS q, {a} AS a, {b} AS b FROM {table.sql} LIMIT {FIRST_ROWS}"
    sql = f"SELECT avg(CAST(a IS DISTINCT FROM b AS INTEGER)) FROM ({rows})"
    if other[0].endswith("score"):
        rows = f"SELECT *, lag(b) OVER (PARTITION BY q ORDER BY a, b) AS before FROM ({rows})"
        differs = f"SELECT coalesce(bool_or(b < before), false) AS differs FROM ({rows}) GROUP BY q"
        sql = f"SELECT avg(CAST(differs AS INTEGER)) FROM ({differs})"
    return float(session.value(sql) or 0)


def number_of(table: Table, name: str) -> str:
    """The number in a column, NULL if it is none."""
    return text_number(name) if is_text(table.columns[name]) else f"CAST({quote(name)} AS DOUBLE)"

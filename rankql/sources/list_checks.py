"""Checks of lists of ids: the order of their scores, and ids that are numbers."""

from __future__ import annotations

from rankql.errors import RankqlError
from rankql.macros import literal, quote
from rankql.sources.session import Session
from rankql.sources.tables import DISTANCES, Table, is_number, known_names


def require_order(session: Session, table: Table, column: str) -> None:
    """Refuse lists of objects in another order than that of their scores or positions."""
    if not table.columns[column].startswith("STRUCT("):
        return
    query = quote(table.roles["query"])
    for role in ("pos", "score"):
        for name, kind in list_fields(session, table, column).items():
            if name not in known_names(role, [name]) or not is_number(kind):
                continue
            order = "DESC" if role == "score" and name.lower() not in DISTANCES else "ASC"
            values = f"list_transform({quote(column)}, lambda x_: x_[{literal(name)}])"
            values = f"list_filter({values}, lambda x_: x_ IS NOT NULL)"
            sql = (
                f"SELECT {query} FROM {table.sql} WHERE {values} <> list_sort({values}, '{order}') "
                "LIMIT 1"
            )
            for (found,) in session.con.execute(sql).fetchall():
                raise RankqlError(
                    f"{table.label}: {column} of query {found!r} is not in the order of its "
                    f"field {name}, and the list's order is the ranking. Sort the list, best "
                    f"first, or drop the field {name} if its order is right"
                )


def require_queries(session: Session, table: Table, column: str) -> None:
    """Refuse lists without a query, before they are unnested."""
    counts = f"SELECT count(*) - count({quote(column)}), count(*) FROM {table.sql}"
    ((missing, total),) = session.con.execute(counts).fetchall()
    if missing:
        raise RankqlError(
            f"{table.label}: {column} is NULL in {missing} of {total} rows. Leave them out"
        )


def refuse_rounded(session: Session, table: Table, column: str, ids: str, kind: str) -> None:
    """Refuse ids of floating point that are fractions, or so long that different ids are equal.

    ids: what selects them from the column.
    """
    if not kind.startswith(FLOATS):
        return
    rounded = f"SELECT id FROM (SELECT {ids} AS id FROM (SELECT {quote(column)} AS x_ FROM "
    rounded += f"{table.sql})) WHERE {is_rounded('id', kind)} LIMIT 1"
    for (found,) in session.con.execute(rounded).fetchall():
        raise RankqlError(
            f"{table.label}: {column} has the id {found}, a floating-point number that may stand "
            "for different ids. Write ids as text or as integers"
        )


# The types of floating point, as DuckDB calls them and their lists.
FLOATS = ("DOUBLE", "FLOAT")


def is_rounded(column: str, kind: str) -> str:
    """The condition that a floating-point number may stand for several ids."""
    return f"{column} <> floor({column}) OR abs({column}) >= {2**24 if kind[0] == 'F' else 2**53}"


def list_fields(session: Session, table: Table, column: str) -> dict[str, str]:
    """The types of the fields in a list of structs."""
    rows = f"(SELECT unnest(x_) FROM (SELECT unnest({quote(column)}) AS x_ FROM {table.sql}))"
    return session.describe(table.label, rows).columns

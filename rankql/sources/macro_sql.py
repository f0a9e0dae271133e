"""Run SQL that may call our macros on a session."""

from __future__ import annotations

import duckdb

from rankql import macros
from rankql.sources.session import Session


def execute(session: Session, sql: str, checked: bool = False) -> duckdb.DuckDBPyRelation:
    """The rows of a query that may call our macros."""
    return session.con.sql(prepare(session, sql, checked))


def prepare(session: Session, sql: str, checked: bool = False) -> str:
    """The SQL, after its macros were created on the connection."""
    create, query = macros.isolate_macros(sql, checked)
    if create:
        session.con.execute(create).fetchall()
    return query


def render_script(session: Session, sql: str) -> str:
    """A query, after the statements that read the text files."""
    return ";\n".join([*session.loaded.values(), sql])

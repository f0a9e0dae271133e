"""Run SQL that may call our macros on a session."""

from __future__ import annotations

from typing import Any

import duckdb

from rankql.sources.private import create_macros
from rankql.sources.session import Session


def execute(session: Session, sql: str, checked: bool = False) -> duckdb.DuckDBPyRelation:
    """The rows of a query that may call our macros."""
    return session.con.sql(create_macros(session.con, sql, checked))


def fetch(session: Session, sql: str, checked: bool = False) -> list[tuple[Any, ...]]:
    """The rows of a query that may call our macros, as tuples: faster for few rows."""
    return session.con.execute(create_macros(session.con, sql, checked)).fetchall()


def render_script(session: Session, sql: str) -> str:
    """A query, after the statements that read the text files."""
    return ";\n".join([*session.loaded.values(), sql])

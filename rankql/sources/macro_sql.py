"""Run SQL that may call our macros on a session."""

from __future__ import annotations

import warnings
from typing import Any

import polars as pl

from rankql.sources.private import LOCK, create_macros
from rankql.sources.session import Session


def fetch(session: Session, sql: str, checked: bool = False) -> list[tuple[Any, ...]]:
    """The rows of a query that may call our macros, as tuples: faster for few rows."""
    return session.con.execute(create_macros(session.con, sql, checked)).fetchall()


def fetch_frame(
    session: Session, sql: str, checked: bool = False, few: bool = True
) -> pl.DataFrame:
    """The rows of a query that may call our macros, as a frame.

    few: plan the query once and copy the rows once more. A relation plans its query twice, which
    takes most of the time for few rows. (The copy keeps their order unless the user says that none
    matters.)
    """
    query, con = create_macros(session.con, sql, checked), session.con
    ((ordered,),) = con.execute("SELECT current_setting('preserve_insertion_order')").fetchall()
    rows = con.execute(query) if few and ordered else con.sql(query)
    if hasattr(rows, "pl"):  # a relation, or DuckDB 1
        frame: pl.DataFrame = rows.pl()
        return frame
    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the copy
        return pl.DataFrame(rows.to_arrow_table())


def render_script(session: Session, sql: str) -> str:
    """A query, after the statements that read the text files."""
    return ";\n".join([*session.loaded.values(), sql])

"""Run SQL that may call our macros on a session, and write them into a database file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import duckdb
import polars as pl

from rankql.errors import RankqlError
from rankql.macros import literal, qualify_macros, quote, read_sql
from rankql.sources.frames import fetch_rows, read_frame
from rankql.sources.private import create_macros
from rankql.sources.session import Session
from rankql.sources.tables import Table
from rankql.writing import output_path, write_file

NAME = "rankql"  # the macros call each other by this name, so it is the alias in ATTACH


def fetch(session: Session, sql: str, checked: bool = False) -> list[tuple[Any, ...]]:
    """The rows of a query that may call our macros, as tuples: faster for few rows."""
    return fetch_rows(session.con, create_macros(session.con, sql, checked))


def fetch_frame(
    session: Session, sql: str, checked: bool = False, few: bool = True
) -> pl.DataFrame:
    """The rows of a query that may call our macros, as a frame; `few`: plan the query once."""
    query = create_macros(session.con, sql, checked)
    if few and session.keeps_order():
        return read_frame(session.con, query)
    frame: pl.DataFrame = session.con.sql(query).pl()
    return frame


def render_script(session: Session, sql: str) -> str:
    """A query, after the statements that read the text files."""
    return ";\n".join([*session.attached.values(), *session.loaded.values(), sql])


def count_values(
    session: Session, table: Table, names: Sequence[str]
) -> tuple[int, dict[str, int]]:
    """How many rows a table has, and in how many there is a value, by the name of its column."""
    total, values = session.counts.get(table.sql) or (None, {})
    if total is None or not values.keys() >= {*names}:
        columns = ["count(*)", *(f"count({quote(name)})" for name in names)]
        ((total, *counts),) = fetch(session, f"SELECT {', '.join(columns)} FROM {table.sql}")
        values = values | dict(zip(names, counts, strict=True))
        session.counts[table.sql] = total, values
    return total, {name: values[name] for name in names}


def write_macro_database(path: str | os.PathLike[str]) -> None:
    """Write a new database file with the macros in its schema `main`, to be attached AS rankql.

    DuckDB 1.4 and later can read it. An existing file is an error.
    """
    if os.path.exists(output_path(path)):
        raise RankqlError(
            f"{str(path)!r} exists and is not overwritten. Delete it first, or choose another name"
        )
    with write_file(path) as temporary, duckdb.connect() as con:
        storage = "(STORAGE_VERSION 'v1.4.0')"  # the oldest that knows all of the macros
        con.execute(f"ATTACH {literal(str(temporary))} AS {NAME} {storage}")
        con.execute(qualify_macros(read_sql(), f"{NAME}.main")).fetchall()
        con.execute(f"DETACH {NAME}")

"""Write the macros into a database file, which any DuckDB can attach."""

from __future__ import annotations

import os

import duckdb

from rankql.errors import RankqlError
from rankql.macros import literal, qualify_macros, read_sql
from rankql.writing import output_path, write_file

NAME = "rankql"  # the macros call each other by this name, so it is the alias in ATTACH


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

"""Write the macros into a database file, which any DuckDB can attach."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from rankql.errors import RankqlError
from rankql.macros import literal, qualify_macros, read_sql
from rankql.writing import atomic_path

NAME = "rankql"  # the macros call each other by this name, so it is the alias in ATTACH


def write_macro_database(path: str | os.PathLike[str]) -> None:
    """Write a new database file with the macros in its schema `main`, to be attached AS rankql.

    DuckDB 1.4 and later can read it. An existing file is an error.
    """
    target = Path(path)
    if not target.name:
        raise RankqlError("database is an empty path. Name a new file, such as rankql.duckdb")
    if os.path.lexists(target.expanduser()):
        raise RankqlError(
            f"{str(path)!r} exists and is not overwritten. Delete it first, or choose another name"
        )
    with atomic_path(target) as temporary, duckdb.connect() as con:
        storage = "(STORAGE_VERSION 'v1.4.0')"  # the oldest that knows all of the macros
        try:
            con.execute(f"ATTACH {literal(str(temporary))} AS {NAME} {storage}")
        except duckdb.IOException as error:
            raise RankqlError(f"Cannot write {str(path)!r}. Choose another folder") from error
        con.execute(qualify_macros(read_sql(), f"{NAME}.main")).fetchall()
        con.execute(f"DETACH {NAME}")

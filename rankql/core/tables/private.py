"""DuckDB connections of our own, to databases in memory that live as long as the process.

A new connection to an open database takes 10 µs; opening a database and reading its catalog takes
as long as a small evaluation.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import duckdb

from rankql.core.base.errors import require
from rankql.core.base.writing import output_path, write_file
from rankql.core.metrics.macros import (
    has_transaction,
    isolate_macros,
    literal,
    qualify_macros,
    read_sql,
)


def lock_of_process() -> threading.Lock:
    """A lock that is free in a forked process, although a thread may hold it meanwhile."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_child=lock.release, after_in_parent=lock.release
        )
    return lock


# For what all threads share: the databases, their macros, and the filters of warnings.
LOCK = lock_of_process()
# The databases of a process, by the number of threads, and the statements that were run on each.
_DATABASES: dict[tuple[int, int | None], tuple[duckdb.DuckDBPyConnection, set[str]]] = {}
# The statements that were run on the database of each connection that is open.
_CREATED: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()
# Those that were run on each connection of a user, but not in a transaction, which may be undone.
_CREATED_TEMP: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()


def private_connection(threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A connection that sees no table but those made on it. The caller closes it.

    With `threads=1` sums add the rows in their order: the same every time, to the last bit.

    A forked process opens its own databases. DuckDB's threads do not survive a fork, so start
    processes with spawn.
    """
    key = (os.getpid(), threads)
    with LOCK:
        if key not in _DATABASES:
            config: dict[str, Any] = {} if threads is None else {"threads": threads}
            _DATABASES[key] = (duckdb.connect(config=config), set())
        database, created = _DATABASES[key]
        con = database.cursor()
        _CREATED[con] = created
        return with_progress(con)


def with_progress(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The connection, with DuckDB's bar for queries of over 2 s where somebody looks at stdout."""
    is_seen = sys.stdout is not None and (sys.stdout.isatty() or "ipykernel" in sys.modules)
    is_off = not is_seen and is_private(con)  # a cursor has no bar of its own
    return con if is_off else con.execute(f"SET enable_progress_bar = {is_seen}")


def is_private(con: duckdb.DuckDBPyConnection) -> bool:
    """Is it a connection of our own?"""
    return con in _CREATED


def remove_temporary_files() -> None:
    """Close our databases that wrote to disk. Close all connections first."""
    with LOCK:
        for (process, _), (database, _) in _DATABASES.items():
            if process == os.getpid():
                query = "SELECT current_setting('temp_directory')"
                if os.path.isdir(database.execute(query).fetchall()[0][0]):
                    database.close()


def create_macros(con: duckdb.DuckDBPyConnection, query: str, checked: bool = False) -> str:
    """Create the macros of a query, and return the query with their private names.

    They are TEMP macros of a connection of the user. In our own databases they last.
    """
    statements, renamed = isolate_macros(query, checked)
    private = is_private(con)
    with LOCK if private else nullcontext():
        created = _CREATED[con] if private else _CREATED_TEMP.setdefault(con, set())
        if missing := [text for text in statements if text not in created]:
            kind = " MACRO " if private else " TEMP MACRO "
            con.execute("".join(text.replace(" MACRO ", kind, 1) for text in missing)).fetchall()
            if private or not in_transaction(con):
                created.update(missing)
    return renamed


def in_transaction(con: duckdb.DuckDBPyConnection) -> bool:
    """Is a transaction open, with tables that no other connection may see? On ours never."""
    return not is_private(con) and has_transaction(con)


def has_room(con: duckdb.DuckDBPyConnection) -> bool:
    """Is there half a GiB for each thread?"""
    sql = "SELECT current_setting('memory_limit'), current_setting('threads')"
    ((limit, threads),) = con.execute(sql).fetchall()
    size, unit = limit.split()  # such as 18.7 GiB
    return bool(float(size) * {"GiB": 1, "TiB": 1024}.get(unit, 0) >= threads / 2)


NAME = "rankql"  # the macros call each other by this name, so it is the alias in ATTACH


def write_macro_database(path: str | os.PathLike[str]) -> None:
    """Write a new database file with the macros in its schema `main`, to be attached AS rankql.

    DuckDB 1.4 and later can read it. An existing file is an error.
    """
    remedy = "Delete it first, or choose another name"
    exists = os.path.exists(output_path(path))
    require(not exists, f"{str(path)!r} exists and is not overwritten. {remedy}")
    with write_file(path) as temporary, duckdb.connect() as con:
        storage = "(STORAGE_VERSION 'v1.4.0')"  # the oldest that knows all of the macros
        con.execute(f"ATTACH {literal(str(temporary))} AS {NAME} {storage}")
        con.execute(qualify_macros(read_sql(), f"{NAME}.main")).fetchall()
        con.execute(f"DETACH {NAME}")

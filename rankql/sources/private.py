"""DuckDB connections of rankql's own, to databases in memory that live as long as the process.

A new connection to an open database takes 10 µs; opening a database and reading its catalog takes
as long as a small evaluation.
"""

from __future__ import annotations

import os
import threading
from functools import cache

import duckdb

_LOCK = threading.Lock()


def private_connection(threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A connection that sees no table but those made on it. The caller closes it.

    With `threads=1` sums add the rows in their order: the same every time, to the last bit.
    """
    with _LOCK:
        return _database(os.getpid(), threads).cursor()


@cache
def _database(process: int, threads: int | None) -> duckdb.DuckDBPyConnection:
    """The database of a process: a forked one opens its own."""
    return duckdb.connect(config={} if threads is None else {"threads": threads})

"""A session: a DuckDB connection to evaluate on, and the tables that are read on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary

import duckdb

from rankql.errors import RankqlError
from rankql.macros import require_duckdb
from rankql.sources.dicts import is_several_runs
from rankql.sources.private import has_room, in_transaction, is_private, private_connection
from rankql.sources.progress import watch
from rankql.sources.reader import Reader, reword_error
from rankql.sources.shapes import SHAPES, Source
from rankql.sources.tables import Data, Table


@contextmanager
def open_session(
    con: duckdb.DuckDBPyConnection | None, *inputs: Data | Mapping[str, Data]
) -> Iterator[Session]:
    """Open a session on the user's connection, that of the relations, or a new one."""
    require_duckdb(con)
    own = None
    if con is None:
        relations = any(
            isinstance(data, duckdb.DuckDBPyRelation) for data in flatten_inputs(*inputs)
        )
        con = duckdb.connect(":default:") if relations else (own := private_connection())
    # Threads that share a connection take turns, because DuckDB refuses them.
    with _LOCKS_LOCK:
        lock = _LOCKS.setdefault(con, threading.RLock())
    with lock:
        session = Session(con)
        if own:
            session.hint = "To read a table, pass its connection: con="
        try:
            with watch(con, private=is_private(con)), duckdb_errors(session):
                yield session
        finally:
            session.close()
            if own:
                own.close()


_LOCKS: WeakKeyDictionary[duckdb.DuckDBPyConnection, threading.RLock] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


def flatten_inputs(*inputs: Data | Mapping[str, Data]) -> Iterator[Data]:
    """The inputs, with the runs of a dict one by one."""
    for data in inputs:
        yield from data.values() if is_several_runs(data) else [data]


@contextmanager
def duckdb_errors(session: Session | None = None) -> Iterator[None]:
    """Raise errors of DuckDB as RankqlError."""
    try:
        yield
    except duckdb.Error as error:
        # In a transaction that an error has ended, what is tried next fails too.
        while isinstance(error, duckdb.TransactionException) and (
            isinstance(cause := error.__context__, duckdb.Error)
        ):
            error = cause
        line = session.reword(error) if session else reword_error(error)
        if line.endswith("must be a whole number from 1, not 0"):
            line += ". Position 1 is the top: add 1"
        if line.endswith("Position 1 is the top: add 1"):
            line += ", or rank by scores: score='...'"
        raise RankqlError(line) from error
    except RuntimeError as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


class Session(Reader):
    """A connection that reads all that people pass."""

    def table(self, data: Data, label: str) -> Table:
        """The table of the data. Text files and dicts are read at once, others in place."""
        source = Source(self, data, label)
        return next(shape for shape in SHAPES if shape.matches(source)).load(source)

    @contextmanager
    def perfect_hashing(self, tables: Sequence[Table], columns: Sequence[str]) -> Iterator[None]:
        """Sum by integer keys with a range of up to 20 bits without hashing (12 by default).

        This is set on a connection of our own: that of the session, or a second one to the user's
        database if it sees the same tables. (It lacks the user's settings, but no number and no
        text depends on them.)
        """
        con, owned = self.con, self._own
        if not owned and not in_transaction(self.con) and all(t.lasts(columns) for t in tables):
            con, owned = self.con.cursor(), True
        if not owned or not has_room(con):
            yield
            return
        with suppress(duckdb.Error):  # the configuration may be locked
            con.execute("SET SESSION perfect_ht_threshold = 20").fetchall()
        before, self.con = self.con, con
        try:
            yield
        finally:
            self.con = before
            if con is before:
                con.execute("RESET SESSION perfect_ht_threshold").fetchall()
            else:
                con.close()

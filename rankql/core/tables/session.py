"""A session: a DuckDB connection that reads what people pass.

`Session._load` decides what it is. What is no table with columns, a door opens (`rankql/doors.py`).
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeGuard
from weakref import WeakKeyDictionary, WeakSet

import duckdb
import polars as pl

from rankql.core.base.arrow import require_pyarrow
from rankql.core.base.doors import DOORS, call_extra, find_door
from rankql.core.base.errors import TOO_HIGH, RankqlError, advise, require
from rankql.core.base.libraries import library
from rankql.core.base.writing import Part
from rankql.core.metrics.macros import require_duckdb
from rankql.core.tables import frames
from rankql.core.tables.files import DATA, JSON, PARQUET, File, is_pipe, open_file, suffix_of
from rankql.core.tables.parquet_files import load_parquet
from rankql.core.tables.private import is_private, private_connection
from rankql.core.tables.reader import HELD, CatalogTable, Reader, reword_error
from rankql.core.tables.tables import Data, Table, repeated_names


@contextmanager
def open_session(
    con: duckdb.DuckDBPyConnection | None, *inputs: Data | Mapping[str, Data]
) -> Iterator[Session]:
    """Open a session on the user's connection, that of the relations, or a new one."""
    con = require_duckdb(con)
    if con is None and any(
        isinstance(each, duckdb.DuckDBPyRelation)
        for data in inputs
        for each in (data.values() if isinstance(data, Mapping) else [data])
    ):
        con = duckdb.connect(":default:")
    with ExitStack() as stack:
        if con is None:
            session = Session(None, connect=lambda: stack.enter_context(_own_connection()))
            session.hint = "To read a table, pass its connection: con="
        else:
            # Threads that share a connection take turns, because DuckDB refuses them.
            with _LOCKS_LOCK:
                lock = _LOCKS.setdefault(con, threading.RLock())
            stack.enter_context(lock)
            stack.enter_context(_watch(con))
            session = Session(con)
            if is_private(con):  # of the command line
                session.hint = "Check its name"
        try:
            with duckdb_errors():
                yield session
        finally:
            session.close()


@contextmanager
def _own_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of our own, watched for Ctrl-C."""
    con = private_connection()
    try:
        with _watch(con):
            yield con
    finally:
        con.close()


def is_several_runs(data: Any) -> TypeGuard[Mapping[str, Any]]:
    """Is it a dict of name: run, and not one run or judgments?"""
    frames = (pl.DataFrame, pl.LazyFrame, duckdb.DuckDBPyRelation, Table)
    return isinstance(data, Mapping) and (
        all(isinstance(x, frames) for x in data.values())
        or bool(call_extra("are several runs", data))
    )


@contextmanager
def _watch(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt the queries on a connection by Ctrl-C, at once.

    DuckDB looks for signals between parts of a query only. A thread reads them from a socket.
    """
    if con in _WATCHED:
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    thread = threading.Thread(target=_interrupt, args=(con, receiver), daemon=True)
    previous = None
    try:
        thread.start()
        _WATCHED.add(con)
        with suppress(ValueError):  # in another thread than the main one
            previous = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        yield
    finally:
        if previous is not None:
            signal.set_wakeup_fd(previous)
        sender.send(bytes([_END]))
        thread.join()
        receiver.close()
        sender.close()
        _WATCHED.discard(con)


def _interrupt(con: duckdb.DuckDBPyConnection, receiver: socket.socket) -> None:
    numbers = b""
    while _END not in numbers:
        numbers = receiver.recv(64)
        if signal.SIGINT in numbers:
            con.interrupt()


_END = 0
_WATCHED: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
_LOCKS: WeakKeyDictionary[duckdb.DuckDBPyConnection, threading.RLock] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


@contextmanager
def duckdb_errors() -> Iterator[None]:
    """Raise errors of DuckDB as RankqlError."""
    try:
        yield
    except duckdb.Error as error:
        # In a transaction that an error has ended, what is tried next fails too.
        while isinstance(error, duckdb.TransactionException) and (
            isinstance(cause := error.__context__, duckdb.Error)
        ):
            error = cause
        line = reword_error(error)
        if line.endswith("must be a whole number from 1, not 0"):
            line += ". Position 1 is the top: add 1"
        number = re.search(r"must be a whole number from 1, not (\d+)$", line)
        if number and int(number[1]) > 2**53:
            line += f". It is at most {2**53:,}. Use NULL for items that were not retrieved"
        if re.search(r"must be a finite number, not -?\d\S*$", line):
            line += TOO_HIGH
        advice: str = line
        if fraction := re.search(r"(\w+) must be a whole number from 1, not \d*\.\d+$", line):
            how = ". If it orders the items, the highest first, pass "
            advice = advise(line, how, {"score": fraction[1]})
        raise RankqlError(advice) from error
    except RuntimeError as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


class Session(Reader):
    """A connection that reads all that people pass."""

    def open_runs(self, data: Data) -> Data | Mapping[str, Any]:
        """The runs by name, if a JSON file has several; else the data as they are."""
        if isinstance(data, str | os.PathLike) and suffix_of(os.fspath(data)) in JSON:
            runs: Mapping[str, Any] | None = call_extra("JSON runs", Source(self, data, "run"))
            return data if runs is None else runs
        return data

    def table(self, data: Data, label: str) -> Table:
        """The table of the data. Text files and dicts are read at once, others in place."""
        data, part = (data.data, data.name) if isinstance(data, Part) else (data, "")
        if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__"):
            if data not in self.iterated:  # an iterator can be read only once
                self.iterated[data] = [*data]
            data = self.iterated[data]
        one_pass = isinstance(data, Iterator) or is_pipe(data)
        if one_pass and data in self.piped:
            return replace(self.piped[data], label=label)
        source = Source(self, frames.native(data, label), label, part)
        table = self._load(source)
        if one_pass:
            self.piped[data] = table
        for door in DOORS["columns"]:
            if door.applies(table):
                table = door.load()(table)
        several = bool(source.name) and table.ordered and len(source.file.paths) > 1
        return replace(table, ordered="files") if several else table

    def _load(self, source: Source) -> Table:
        """The table of what was passed. Of a file, nothing is read before its name is known."""
        data, label, part = source.data, source.label, source.part
        if part and not isinstance(data, Mapping) and source.format not in ("json", "yaml"):
            raise RankqlError(f"{label}: part={part!r} is for objects and JSON files. Leave it out")
        if isinstance(data, Table):
            return data
        if isinstance(data, list) and data and all(
            isinstance(x, str | os.PathLike) and suffix_of(os.fspath(x)) in DATA for x in data
        ):  # fmt: skip
            return self._load_all(data, label)
        table: Table | None = None
        if (door := find_door("source", source)) is not None:
            table = door.load()(self, source)
        if table is None and not (source.name and source.format):
            table = _load_entry(source) if source.name else _load_frame(source)
        if table is None:
            is_parquet = source.format == "parquet"
            table = load_parquet(self, source.file) if is_parquet else _load_arrow(source)
        return table

    def _load_all(self, paths: Sequence[str | os.PathLike[str]], label: str) -> Table:
        """The rows of several files or tables, which have the same columns."""
        tables = [self._load(Source(self, path, label)) for path in paths]
        for path, table in zip(paths, tables, strict=True):
            other = {*table.columns} ^ {*tables[0].columns}
            require(
                not other,
                f"{label}: {os.fspath(path)!r} and {os.fspath(paths[0])!r} have other columns: "
                f"{', '.join(sorted(other))}. Pass files with the same",
            )
        sql = " UNION ALL BY NAME ".join(f"SELECT * FROM {table.sql}" for table in tables)
        return replace(self.describe(label, f"({sql})"), ordered="files", trec=tables[0].trec)


@dataclass
class Source:
    """What was passed, and what is known of it."""

    reader: Reader
    data: Any
    label: str
    # The part of an object that the caller names.
    part: str = ""

    @cached_property
    def name(self) -> str:
        """The path or the name of a table; "" for other data."""
        if not isinstance(self.data, str | os.PathLike):
            return ""
        name = os.fspath(self.data)
        if not name.startswith("file:///"):
            return name
        from urllib.request import url2pathname  # which takes 30 ms

        return url2pathname(name[7:])

    @cached_property
    def entry(self) -> CatalogTable | None:
        """The table of the connection with this name."""
        return self.reader.find_table(self.name, self.label) if self.name else None

    @cached_property
    def format(self) -> str:
        """The format of a file, by its suffix: text, or a name of `FORMATS`; "" for other data."""
        if not self.name or self.entry is not None:
            return ""
        return self.file.format

    @cached_property
    def file(self) -> File:
        """The file of this name. A text file without any text is an error."""
        file = open_file(os.path.expanduser(self.name), self.label, self.reader.hint)
        if "DUCK" in file.start[:16]:
            raise file.error("is a database. Pass con= and its table's name")
        file.refuse_unread()
        alone = file.suffix not in PARQUET and len(file.paths) == 1
        if alone and re.fullmatch(r"\s*(\[\s*\])?\s*", file.start):
            raise file.error("is empty")
        return file


def _load_entry(source: Source) -> Table:
    entry = source.entry
    assert entry
    if entry.kind == "sqlite":  # twice in one query DuckDB fails to read it
        return source.reader.load(source.label, entry.sql, text=False)
    permanent = entry.sql * entry.permanent
    return source.reader.describe(source.label, entry.sql, permanent=permanent)


def _load_arrow(source: Source) -> Table:
    require_pyarrow(repr(source.name))
    import pyarrow.dataset

    kind = "orc" if source.file.suffix == ".orc" else "ipc"
    try:
        data = pyarrow.dataset.dataset(source.file.paths, format=kind)
        return _load_frame(replace(source, data=data))
    except (OSError, ValueError) as error:  # of pyarrow
        raise source.file.error(f"is damaged: {str(error).partition(chr(10))[0]}") from error


def _load_frame(source: Source) -> Table:
    """A frame, an Arrow table or stream, or a relation."""
    data, label, kind = source.data, source.label, library(source.data)
    kind = kind if kind != "pandas" or hasattr(data, "columns") else ""  # not of an index
    lazy = hasattr(data, "collect_schema")
    schema = data.collect_schema() if lazy else getattr(data, "schema", None)
    index = data.index.names if kind == "pandas" else ()
    if any(index) and {*index}.isdisjoint(data.columns):  # which has keys
        data = data.reset_index()
    names = data.columns if kind == "pandas" else getattr(schema, "names", ())
    names = [*(names() if callable(names) else names)]
    for name in names:  # polars ends the process
        require("\0" not in str(name), f"{label}: a name must not have a NUL character: {name!r}")
    repeated = repeated_names(names)
    if kind == "pandas" and repeated:
        data = data.loc[:, ~data.columns.duplicated()]
    elif kind == "pyarrow" and repeated and not hasattr(data, "scanner"):  # scanned by name
        data = data.read_all() if hasattr(data, "read_all") else data
        data = data.select([i for i, name in enumerate(names) if name not in names[:i]])
    if isinstance(data, pl.LazyFrame):
        data = _collect_few(data)
    if kind == "pyarrow" and getattr(data, "num_rows", HELD + 1) <= HELD:
        few = pl.DataFrame(data)
        if frames.simple_types(few):
            data, kind = few, "polars"
    if is_pandas := kind == "pandas":
        data, kind = frames.read_pandas(data, label), "polars"
    if kind == "polars" and "" in names:  # the numbers of rows, as DuckDB reads them of a file
        data = data.rename({"": "column0"})
    scanned = kind in ("polars", "duckdb", "_duckdb")
    if not scanned and not hasattr(data, "scanner") and not hasattr(data, "combine_chunks"):
        data = frames.read_stream(data, label)  # a stream may be read only once
    table = source.reader.register(label, data)
    return replace(
        table,
        ordered="duckdb" not in kind,
        repeated=repeated,
        nan=is_pandas,
        lazy=isinstance(data, pl.LazyFrame),
    )


def _collect_few(data: pl.LazyFrame) -> pl.DataFrame | pl.LazyFrame:
    """The rows of a lazy frame if they are few and of no file, which DuckDB reads in parts."""
    if frames.may_lack_threads() or "SCAN" in data.explain(optimized=False).upper():
        return data
    first = data.head(HELD + 1).collect()
    return first if first.height <= HELD else data

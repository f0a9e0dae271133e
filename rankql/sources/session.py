"""A session: a DuckDB connection that reads what people pass, in any of `SHAPES`.

Each shape says how it is recognised and how it is loaded. The first that matches is loaded. To add
one, write an entry of `SHAPES`, or of `JSON_SHAPES` in `json_shapes` for JSON that is not one
object per row.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import duckdb

from rankql.errors import RankqlError, did_you_mean
from rankql.macros import INTERNAL_PREFIX, literal, quote, require_duckdb
from rankql.sources.dicts import frame_from_dict, is_answer, is_several_runs
from rankql.sources.files import (
    JSON,
    PARQUET,
    File,
    count_known,
    open_file,
    read_headerless,
    split_line,
    uneven_line,
)
from rankql.sources.frames import library, polars_counts, refuse_nul, refuse_unread_lists
from rankql.sources.json_shapes import SEARCH, load_json_rows, load_json_shape, load_shape
from rankql.sources.private import in_transaction, is_private, private_connection
from rankql.sources.progress import watch
from rankql.sources.reader import (
    TABLES_OF,
    CatalogTable,
    Reader,
    duckdb_errors,
    find_table,
    reword_error,
    split_database,
)
from rankql.sources.tables import Data, Table
from rankql.sources.trec import is_trec, load_trec
from rankql.writing import HeaderlessPath


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


class Session(Reader):
    """A connection that reads all that people pass."""

    def table(self, data: Data, label: str) -> Table:
        """The table of the data. Text files and dicts are read at once, others in place."""
        source = Source(self, data, label)
        return next(shape for shape in SHAPES if shape.matches(source)).load(source)


# Quotes as in RFC 4180: DuckDB would infer them from the first 20,480 rows.
_QUOTES = "quote = '\"', escape = '\"'"
_CSV = f"read_csv({{}}, all_varchar = true, {_QUOTES})"
# The judgments of Quepid have a line with the query alone if it has no rating.
_QUEPID = "query,docid,rating"
_READ_QUEPID = (
    "(FROM read_csv({}, all_varchar = true, header = true, delim = ',', quote = '\"', "
    "null_padding = true) WHERE docid IS NOT NULL OR rating IS NOT NULL)"
)


@dataclass
class Source:
    """What was passed, and what is known of it."""

    reader: Reader
    data: Any
    label: str

    @cached_property
    def name(self) -> str:
        """The path or the name of a table; "" for other data."""
        if not isinstance(self.data, str | os.PathLike):
            return ""
        name = os.fspath(self.data)
        if not name:
            raise RankqlError(
                f"{self.label} must be a path or the name of a table, not an empty text"
            )
        return name

    @cached_property
    def entry(self) -> CatalogTable | None:
        """The table of the connection with this name."""
        return self.reader.find_table(self.name, self.label) if self.name else None

    @cached_property
    def database(self) -> tuple[str, str] | None:
        """The DuckDB file and the table in it."""
        return split_database(self.name)

    @cached_property
    def file(self) -> File:
        """The file of this name. A text file without any text is an error."""
        file = open_file(os.path.expanduser(self.name), self.label, self.reader.hint)
        alone = file.suffix not in PARQUET and len(file.paths) == 1
        if alone and re.fullmatch(r"\s*(\[\s*\])?\s*", file.start):
            raise file.error("is empty")
        return file


def _load_entry(source: Source) -> Table:
    reader, entry = source.reader, source.entry
    assert entry
    reader.in_order = entry.in_order
    if entry.kind == "sqlite":  # twice in one query DuckDB fails to read it
        return reader.load(source.label, entry.sql, text=False)
    return reader.describe(source.label, entry.sql, lasting=entry.permanent)


_DATABASES = itertools.count()  # of our names of attached files, which a database has once


def _load_database(source: Source) -> Table:
    """A table of a DuckDB file, which is attached until the session ends."""
    assert source.database
    (path, name), reader, label = source.database, source.reader, source.label
    if path not in reader.catalogs:
        catalog = f"{INTERNAL_PREFIX}database_{next(_DATABASES)}"
        statement = f'ATTACH {literal(path)} AS "{catalog}" (READ_ONLY)'
        try:
            reader.con.execute(statement).fetchall()
        except duckdb.Error as error:
            raise RankqlError(
                f"{label}: {path!r} cannot be opened: {reword_error(error)}. If a connection "
                "has it open, pass con= and the name of the table"
            ) from error
        reader.catalogs[path], reader.attached[path] = catalog, statement
    catalog = reader.catalogs[path]
    if name and (table := find_table(reader.con, f"{catalog}.{name}")):
        return reader.describe(label, table.sql, lasting=table.permanent)
    names = [
        known if schema == "main" else f"{schema}.{known}"
        for schema, known in reader.con.execute(TABLES_OF, [catalog]).fetchall()
    ]
    what = f"{label}: {path!r} is a database"
    if name:
        raise RankqlError(f"{what} without the table {name!r}{did_you_mean(name, names)}")
    example = f"{path}:{names[0] if names else 'table'}"
    raise RankqlError(f"{what}. Name its table: {example!r}")


def _load_parquet(source: Source) -> Table:
    file, sql = source.file, f"read_parquet({literal(source.file.pattern)})"
    source.reader.files[f"{source.label}: {file.name!r}"] = sql
    problem = (
        f": {file.name!r} is not a complete Parquet file ({{}}). It is damaged, cut off, or has "
        "another format: write or copy it again"
    )
    return source.reader.describe(source.label, sql, problem, ordered=True)


def _load_csv(source: Source) -> Table:
    file, reader = source.file, source.reader
    header = next(iter(file.lines), "")
    sql = (_READ_QUEPID if header == _QUEPID else _CSV).format(literal(file.pattern))
    mark, names = split_line(header)
    if "delim" not in sql and mark in header and count_known(names):
        sql = sql.replace("all_varchar", f"delim = {literal(mark)}, all_varchar")
    with reader.reading(file):
        table = _load_quoted(reader, source.label, sql, mark in header and mark == "\t")
    unnamed = all(re.fullmatch(r"column\d+", name) for name in table.columns)
    joined = len(table.columns) == 1 and re.search(r"[,;|\t]", next(iter(table.columns)))
    # An uneven line may be why DuckDB found no header, or one column.
    if (unnamed or joined) and (uneven := uneven_line(file.paths[0])):
        raise RankqlError(f"{source.label}: {file.paths[0]!r}: {uneven}")
    return table


def _load_quoted(reader: Reader, label: str, sql: str, tabs: bool) -> Table:
    """The rows of a CSV file. A quote is doubled, or if that cannot be read, escaped by \\.

    Between tabs it is a character as others, as in MS MARCO, if values would have line breaks.
    """
    plain = sql.replace(_QUOTES, "quote = '', escape = ''")
    try:
        table = reader.load(label, sql, ordered=True)
    except duckdb.InvalidInputException:
        escaped = sql.replace("escape = '\"'", "escape = '\\'")
        for other in [plain, escaped] if tabs else [escaped]:
            with suppress(duckdb.Error):
                return reader.load(label, other, ordered=True)
        raise
    texts = (f"contains({quote(name)}, chr(10))" for name in table.columns)
    broken = f"SELECT 1 FROM {table.sql} WHERE {' OR '.join(texts)} LIMIT 1"
    if tabs and not in_transaction(reader.con) and reader.con.execute(broken).fetchall():
        with suppress(duckdb.Error):
            unquoted = reader.load(label, plain, ordered=True)
            same = [*unquoted.columns] == [*table.columns]
            reader.drop(table if same else unquoted)
            return unquoted if same else table
    return table


def _load_json(source: Source) -> Table:
    reader, file = source.reader, source.file
    return load_json_shape(reader, file) or load_json_rows(reader, file)


def _load_answer(source: Source) -> Table:
    return load_shape(source.reader, source.label, "the dict", SEARCH, [source.data])


def _load_dict(source: Source) -> Table:
    frame = frame_from_dict(source.data, source.label)
    table = source.reader.register(source.label, frame)
    source.reader.counts[table.sql] = polars_counts(frame, table.columns)
    return replace(table, ordered=True, unit="ids" if "pos" in table.columns else "rows")


def _load_frame(source: Source) -> Table:
    """A frame, an Arrow table or stream, or a relation."""
    data, label, kind = source.data, source.label, library(source.data)
    if kind == "pandas":
        refuse_unread_lists(data, label)
    if kind == "polars" and hasattr(data, "height"):
        refuse_nul(label, data.columns)
    scanned = kind in ("polars", "pandas", "duckdb", "_duckdb")
    if not scanned and not hasattr(data, "scanner") and not hasattr(data, "combine_chunks"):
        if not hasattr(data, "__arrow_c_stream__"):
            remedy = ". Pass polars.DataFrame(rows)" if isinstance(data, list) else ""
            raise RankqlError(
                f"{label} must be a path, a table, a relation or a frame, "
                f"not {type(data).__name__}{remedy}"
            )
        import polars

        data = polars.DataFrame(data)  # a stream may be read only once
    table = source.reader.register(label, data)
    source.reader.counts[table.sql] = polars_counts(data, table.columns)
    frame = data if kind == "pandas" else None
    return replace(table, frame=frame, ordered="duckdb" not in kind)


def _is_headerless(source: Source) -> bool:
    """Is it a text file without a header, whose columns the caller names?"""
    if not isinstance(source.data, HeaderlessPath) or source.file.suffix in JSON:
        return False
    line, columns = source.file.lines[0], source.data.columns
    if is_trec(source.file) and (words := len(line.split())) in (4, 6):
        return words in map(len, columns) or line.count("\t") + 1 in map(len, columns)
    # Words of a text between tabs are not names.
    marks = next((marks for marks in ("\t", ",;|") if {*marks} & {*line}), " ")
    return not count_known(split_line(line, marks)[1])


def _load_headerless(source: Source) -> Table:
    with source.reader.reading(source.file):
        sql, mark = read_headerless(source.file, source.data.columns)
        return _load_quoted(source.reader, source.label, sql, mark == "\t")


class Shape(NamedTuple):
    """A shape: is it this one, and the table of its rows. Files are loaded in their order."""

    name: str
    matches: Callable[[Source], bool]
    load: Callable[[Source], Table]


# In this order; of a file, nothing is read before a shape of files asks.
SHAPES = (
    Shape("Table", lambda x: isinstance(x.data, Table), lambda x: x.data),
    Shape("answer of _search", lambda x: is_answer(x.data), _load_answer),
    Shape("dict by query", lambda x: isinstance(x.data, Mapping), _load_dict),
    Shape(
        "pandas Series by query",
        lambda x: library(x.data) == "pandas" and not hasattr(x.data, "columns"),
        lambda x: _load_dict(replace(x, data=x.data.to_dict())),
    ),
    Shape("frame or relation", lambda x: not x.name, _load_frame),
    Shape("table of the connection", lambda x: x.entry is not None, _load_entry),
    Shape("table of a DuckDB file", lambda x: x.database is not None, _load_database),
    Shape("Parquet", lambda x: x.file.suffix in PARQUET, _load_parquet),
    Shape("file without a header", _is_headerless, _load_headerless),
    Shape("TREC or MS MARCO", lambda x: is_trec(x.file), lambda x: load_trec(x.reader, x.file)),
    Shape("JSON", lambda x: x.file.suffix in JSON, _load_json),
    Shape("CSV", lambda x: True, _load_csv),
)

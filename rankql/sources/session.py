"""A DuckDB connection to evaluate on, with the files and frames that are read on it."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from weakref import WeakKeyDictionary

import duckdb

from rankql.errors import RankqlError, did_you_mean
from rankql.macros import INTERNAL_PREFIX, literal, quote, require_duckdb
from rankql.sources.catalog import TABLES_OF, CatalogTable, find_table, split_database
from rankql.sources.dicts import frame_from_dict, is_several_runs
from rankql.sources.files import (
    QUEPID,
    READ_QUEPID,
    READERS,
    copy_stream,
    csv_delimiter,
    expand_home,
    find_files,
    is_stream,
    misread_line,
    read_head,
    refuse_unreadable,
    suffix,
)
from rankql.sources.frames import (
    library,
    polars_counts,
    refuse_nul,
    refuse_unread_lists,
    register_frame,
)
from rankql.sources.json_shapes import (
    NESTED,
    UNKNOWN_KEY,
    JsonShape,
    json_shape,
    text_rows,
    typed_rows,
)
from rankql.sources.messages import reword_error, unreadable_shape, unreadable_source
from rankql.sources.private import has_room, in_transaction, is_private, private_connection
from rankql.sources.tables import EXACT, Data, Table, is_text
from rankql.sources.trec import TrecFile, detect_trec, has_no_header


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
    with _lock(con):
        session = Session(con, is_private(con))
        if own:
            session.hint = "To read a table, pass its connection: con="
        try:
            with duckdb_errors(session):
                yield session
        finally:
            if own:
                session.detach()
                own.close()
            else:
                session.close()


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


_DATABASES = itertools.count()  # of our names of attached files, which a database has once
# The names of our tables on each connection, which sessions within each other share.
_NAMES: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()


class Session:
    """A connection to evaluate on, with the frames that are registered on it."""

    def __init__(self, con: duckdb.DuckDBPyConnection, own: bool) -> None:
        self.con = con
        self._own = own
        self._names = _NAMES.setdefault(con, set())
        self.registered: list[str] = []
        # Statements that read text files and SQLite tables, by the name of their temporary table.
        self.loaded: dict[str, str] = {}
        # The SQL of the Parquet files that are read, by their label.
        self.files: dict[str, str] = {}
        # The rows and values of polars frames, by the SQL of the table: see `polars_counts`.
        self.counts: dict[str, tuple[int, dict[str, int]] | None] = {}
        self.hint = "No table has this name"
        # The names of the DuckDB files that are attached, by path, and the statements for it.
        self._catalogs: dict[str, str] = {}
        self.attached: dict[str, str] = {}
        # What was left out of the files.
        self.notes: list[str] = []
        # Do copied rows keep their order? None if it is not known yet.
        self._in_order = True if own else None
        # Does it compare texts by a collation? None if it is not known yet.
        self._collates = False if own else None

    def table(self, data: Data, label: str) -> Table:
        """The table of the data, which is not copied. Text files and dicts are read at once."""
        if isinstance(data, Table):
            return data
        if library(data) == "pandas" and hasattr(data, "to_dict") and not hasattr(data, "columns"):
            data = data.to_dict()  # a Series by query, such as of groupby
        is_dict = isinstance(data, Mapping)
        if is_dict:
            data = frame_from_dict(data, label)
        if isinstance(data, str | os.PathLike):
            return self._open_name(os.fspath(data), label)
        table, source = self.describe(label, self._register(data, label)), library(data)
        self.counts[table.sql] = polars_counts(data, table.columns)
        frame = data if source == "pandas" else None
        unit = "ids" if is_dict and "pos" in table.columns else "rows"
        return replace(table, frame=frame, ordered="duckdb" not in source, unit=unit)

    def _register(self, data: Data, label: str) -> str:
        name = self._free_name(label)
        source = library(data)
        if source == "pandas":
            refuse_unread_lists(data, label)
        if source == "polars" and hasattr(data, "height"):
            refuse_nul(label, data.columns)
        scans = source in ("polars", "pandas", "duckdb", "_duckdb") or hasattr(data, "scanner")
        if not scans and not hasattr(data, "combine_chunks"):  # which Arrow tables have
            if not hasattr(data, "__arrow_c_stream__"):
                remedy = ". Pass polars.DataFrame(rows)" if isinstance(data, list) else ""
                raise RankqlError(
                    f"{label} must be a path, a table, a relation or a frame, "
                    f"not {type(data).__name__}{remedy}"
                )
            import polars

            data = polars.DataFrame(data)  # a stream may be read only once
        try:
            register_frame(self.con, name, data)
        except duckdb.Error as error:
            if isinstance(data, duckdb.DuckDBPyRelation):
                raise RankqlError(
                    f"{label} is a relation of another connection. Pass that one as con="
                ) from error
            raise unreadable_source(label, error) from error
        self.registered.append(name)
        self._names.add(name)
        return quote(name)

    def _open_name(self, name: str, label: str) -> Table:
        """A path, or the name of a table of the connection."""
        if not name:
            raise RankqlError(f"{label} must be a path or the name of a table, not an empty text")
        if table := self._find_table(name, label):
            self._in_order = table.in_order
            if table.kind == "sqlite":
                # twice in one query DuckDB fails to read it
                return self.load(label, table.sql, text=False)
            return self.describe(label, table.sql, lasting=table.permanent)
        if database := split_database(name):
            return self._open_database(*database, label)
        return replace(self._open_file(expand_home(name), label), ordered=True)

    def _open_database(self, path: str, name: str, label: str) -> Table:
        """A table of a DuckDB file, which is attached until the session ends."""
        if path not in self._catalogs:
            catalog = f"{INTERNAL_PREFIX}database_{next(_DATABASES)}"
            statement = f"ATTACH {literal(path)} AS {quote(catalog)} (READ_ONLY)"
            try:
                self.con.execute(statement).fetchall()
            except duckdb.Error as error:
                raise RankqlError(
                    f"{label}: {path!r} cannot be opened: {reword_error(error)}. If a connection "
                    "has it open, pass con= and the name of the table"
                ) from error
            self._catalogs[path], self.attached[path] = catalog, statement
        catalog = self._catalogs[path]
        table = find_table(self.con, f"{catalog}.{name}") if name else None
        if table is None:
            names = [
                known if schema == "main" else f"{schema}.{known}"
                for schema, known in self.con.execute(TABLES_OF, [catalog]).fetchall()
            ]
            what = f"{label}: {path!r} is a database"
            if name:
                raise RankqlError(f"{what} without the table {name!r}{did_you_mean(name, names)}")
            example = f"{path}:{names[0] if names else 'table'}"
            raise RankqlError(f"{what}. Name its table: {example!r}")
        return self.describe(label, table.sql, lasting=table.permanent)

    def _open_file(self, name: str, label: str) -> Table:
        if is_stream(name):
            name, kind = copy_stream(name, label)
            paths, pattern = [name], name
        else:
            paths, pattern = find_files(name, label, self.hint)
            kind = suffix(paths[0])
            for path in paths if kind not in (".parquet", ".pq") else ():
                refuse_unreadable(label, path)
        if kind not in READERS or has_no_header(paths[0]):
            return self._load_trec(paths, pattern, label)
        quepid = kind == ".csv" and read_head(paths[0], 1) == [QUEPID]
        sql = (READ_QUEPID if quepid else READERS[kind]).format(literal(pattern))
        if kind in (".parquet", ".pq"):
            self.files[f"{label}: {name!r}"] = sql
            return self.describe(label, sql, file=name)
        alone = paths == [pattern] and os.path.isfile(pattern)
        if alone and re.fullmatch(r"\s*(\[\s*\])?\s*", "".join(read_head(pattern))):
            raise RankqlError(f"{label}: {name!r} is empty")
        if "json" in sql and (shape := json_shape(paths, pattern, label)):
            return self._load_json(shape, label, name)
        try:
            table = (
                self._load_rows(label, sql) if "json" in sql else self._load_csv(label, sql, paths)
            )
        except duckdb.Error as error:
            raise unreadable_source(label, error, paths) from error
        if "json" not in sql and (uneven := misread_line(paths[0], [*table.columns])):
            raise RankqlError(f"{label}: {paths[0]!r}: {uneven}")
        return table

    def _load_csv(self, label: str, sql: str, paths: Sequence[str]) -> Table:
        """The rows of a CSV file. A quote is doubled, or if that cannot be read, escaped by \\."""
        header = "" if "://" in paths[0] else next(iter(read_head(paths[0], 1)), "")
        if "delim" not in sql and (delimiter := csv_delimiter(header)):
            sql = sql.replace("all_varchar", f"delim = {literal(delimiter)}, all_varchar")
        try:
            return self.load(label, sql)
        except duckdb.InvalidInputException:
            with suppress(duckdb.Error):
                return self.load(label, sql.replace("escape = '\"'", "escape = '\\'"))
            raise

    def _load_rows(self, label: str, sql: str) -> Table:
        """The rows of a JSON file: as text, or with types if they have lists or objects."""
        rows = self.con.sql(f"FROM {sql}")
        columns = dict(zip(rows.columns, map(str, rows.types), strict=True))
        text = text_rows(sql, columns)
        try:
            if in_transaction(self.con):  # an error would end it
                with private_connection() as con:
                    con.execute(f"SELECT max(hash(COLUMNS(*))) FROM {text}").fetchall()
            return self.load(label, text)
        except duckdb.Error as error:
            if UNKNOWN_KEY in str(error) and "sample_size" not in sql:
                every = "sample_size = -1, maximum_sample_files = 1000000"
                return self._load_rows(label, f"{sql.removesuffix(')')}, {every})")
            if NESTED not in str(error):
                raise
        typed = typed_rows(self.con, sql, columns)
        try:
            return self.load(label, typed.replace("UBIGINT", "BIGINT"), text=False)
        except duckdb.InvalidInputException:  # an integer from 2^63
            return self.load(label, typed, text=False)

    def _load_json(self, shape: JsonShape, label: str, name: str) -> Table:
        """The rows in a JSON file that has no row per object."""
        try:
            table = self.load(label, shape.rows, text=False)
        except duckdb.Error as error:
            raise unreadable_shape(label, name, shape.what, error) from error
        if not self.con.execute(f"FROM {table.sql} LIMIT 1").fetchall():
            raise RankqlError(
                f"{label} is empty: {name!r} looks like {shape.what}, but no query has an item. "
                "Check what wrote it"
            )
        unit = "ids" if shape.what.endswith("order]}") else "rows"
        return replace(table, assumed=shape.assumed, unit=unit)

    def _load_trec(self, paths: Sequence[str], pattern: str, label: str) -> Table:
        """The table of a TREC run or of TREC judgments."""
        file = detect_trec(paths[0], pattern, label)
        # An error would end a transaction of the user.
        if file.delimiter and not in_transaction(self.con):
            with suppress(duckdb.Error):
                return self._load_uncommented(label, file, file.delimited)
        try:
            for (line,) in self.con.execute(file.malformed).fetchall():
                many = len(file.columns)
                raise RankqlError(
                    f"{label}: {paths[0]!r} has a line without {many} columns: {line!r}"
                )
            return self._load_uncommented(label, file, file.split)
        except duckdb.Error as error:
            raise unreadable_source(label, error, paths) from error

    def _load_uncommented(self, label: str, file: TrecFile, sql: str) -> Table:
        """The rows of a TREC file without comments, and a note on comments with all columns."""
        first, trec = quote(file.columns[0]), not file.header
        if file.header:
            sql = f"(FROM {sql} WHERE {first} <> {literal(file.header)})"
        table, comments = self.load(label, sql, trec=trec), f"starts_with({first}, '#')"
        count = f"SELECT count(*), min({first}) FROM {table.sql} WHERE {comments}"
        ((skipped, example),) = self.con.execute(count).fetchall()
        if not skipped:
            return table
        lines = "1 line begins" if skipped == 1 else f"{skipped:,} lines begin"
        self.notes.append(
            f"{label}: {lines} with # and count as comments, although they have all columns (such "
            f"as {example!r}). Write ids without #"
        )
        return self.load(label, f"(FROM {sql} WHERE NOT {comments})", trec=trec)

    def load(self, label: str, sql: str, trec: bool = False, text: bool = True) -> Table:
        """A text file or a table of SQLite, read into a temporary table."""
        name = self._free_name(label)
        statement = f"CREATE TEMP TABLE {quote(name)} AS FROM {sql}"
        self.con.execute(statement).fetchall()
        self.loaded[name] = statement
        self._names.add(name)
        return self.describe(label, quote(name), trec, text)

    def describe(
        self,
        label: str,
        sql: str,
        trec: bool = False,
        text: bool = False,
        lasting: bool = False,
        file: str | None = None,
    ) -> Table:
        """The table of a source; `file` is the path of a Parquet file."""
        try:
            rows = self.con.sql(f"SELECT * FROM {sql}")  # DESCRIBE takes twice as long
        except duckdb.Error as error:
            if file is not None:
                raise RankqlError(
                    f"{label}: {file!r} is not a complete Parquet file ({reword_error(error)}). "
                    "It is damaged, cut off, or has another format: write or copy it again"
                ) from error
            raise unreadable_source(label, error) from error
        columns = dict(zip(rows.columns, map(str, rows.types), strict=True))
        refuse_nul(label, columns)
        texts = [name for name, kind in columns.items() if is_text(kind)]
        if not self.has_collation():
            return Table(label, sql, columns, trec, text, lasting=lasting)
        exact = (f"CAST({quote(name)} AS VARCHAR){EXACT} AS {quote(name)}" for name in texts)
        sql = f"(SELECT * REPLACE ({', '.join(exact)}) FROM {sql})" if texts else sql
        return Table(label, sql, columns | dict.fromkeys(texts, "VARCHAR"), trec, text, exact=EXACT)

    def _free_name(self, label: str) -> str:
        """A name that no table has yet."""
        name = "rankql_" + re.sub(r"\W+", "_", label)
        names = itertools.chain([name], map(f"{name}_{{}}".format, itertools.count(2)))
        return next(x for x in names if x not in self._names and not self._find_table(x))

    def _find_table(self, name: str, label: str = "") -> CatalogTable | None:
        """The user's table of this name; a connection of our own has none."""
        return None if self._own else find_table(self.con, name, label)

    def reword(self, error: duckdb.Error) -> str:
        """One line for an error of DuckDB, with the damaged file, which DuckDB may not name."""
        line = reword_error(error)
        if "schema mismatch in glob" in line:
            return f"{line.rstrip('.')}. Read files with the same columns"
        damaged = "The file is damaged: write or copy it again"
        if line.startswith(("Failed to read file", "Could not read enough bytes")):
            return f"{line}. {damaged}"
        if type(error) is duckdb.Error:  # what its reader of Parquet raises, and no query
            for name, sql in self.files.items():
                try:
                    self.con.execute(f"SELECT max(hash(COLUMNS(*))) FROM {sql}").fetchall()
                except duckdb.Error as again:
                    return f"{name} cannot be read ({reword_error(again)}). {damaged}"
        return line

    def close(self) -> None:
        """Remove our tables from the connection."""
        self._names.difference_update(self.registered, self.loaded)
        for name in self.registered:
            with suppress(duckdb.Error):  # the transaction may have failed
                self.con.unregister(name)
        for name in self.loaded:
            with suppress(duckdb.Error):  # in a transaction that failed it is gone already
                self.con.execute(f"DROP TABLE {quote(name)}").fetchall()
        self.detach()

    def detach(self) -> None:
        """Detach the DuckDB files."""
        for catalog in self._catalogs.values():
            with suppress(duckdb.Error):
                self.con.execute(f"DETACH {quote(catalog)}").fetchall()

    def has_collation(self) -> bool:
        """Does the user's connection compare texts by a collation?"""
        if self._collates is None:
            setting = "SELECT current_setting('default_collation') <> ''"
            self._collates = bool(self.con.execute(setting).fetchall()[0][0])
        return self._collates

    def keeps_order(self) -> bool:
        """Do copied rows keep their order? The user may say that none matters."""
        if self._in_order is None:
            setting = "SELECT current_setting('preserve_insertion_order')"
            self._in_order = bool(self.con.execute(setting).fetchall()[0][0])
        return self._in_order

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


_LOCKS: WeakKeyDictionary[duckdb.DuckDBPyConnection, threading.RLock] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


def _lock(con: duckdb.DuckDBPyConnection) -> threading.RLock:
    """The lock of a connection. Threads that share one take turns, because DuckDB refuses them."""
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(con, threading.RLock())


def flatten_inputs(*inputs: Data | Mapping[str, Data]) -> Iterator[Data]:
    """The inputs, with the runs of a dict one by one."""
    for data in inputs:
        yield from data.values() if is_several_runs(data) else [data]

"""The tables that are evaluated: files, tables and frames as one kind of source in DuckDB."""

from __future__ import annotations

import gzip
import itertools
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path
from typing import IO, Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import duckdb

from rankql.errors import RankqlError, database_message
from rankql.macros import elsewhere, literal, not_duckdb, quoted

Data: TypeAlias = Any
"""A path or glob, the name of a table, a DuckDB relation, or a frame of any Arrow library."""

# The roles a column may have, each with the names it is recognised by, the likeliest first.
ROLES = {
    # Beside an id `query` is its text, as in PyTerrier, where `docid` is a number of the index.
    "query": ("query_id", "qid", "q_id", "query", "topic", "user", "user_id", "uid", "session_id"),
    "item": (
        "item",
        "item_id",
        "doc",
        "doc_id",
        "docno",
        "docid",
        "document",
        "document_id",
        "product",
        "product_id",
        "iid",
    ),
    "rel": ("rel", "relevance", "grade", "label", "judgment", "judgement", "rating"),
    "pos": ("pos", "position", "rank"),
    "score": ("score", "similarity", "sim", "prediction", "pred", "distance", "dist"),
}
# Scores of which the lowest is best, unless the caller says otherwise.
DISTANCES = ("distance", "dist")

_READERS = {
    ".parquet": "read_parquet({})",
    ".pq": "read_parquet({})",
    ".csv": "read_csv({}, all_varchar = true)",
    ".tsv": "read_csv({}, all_varchar = true)",
    ".json": "read_json({})",
    ".jsonl": "read_json({}, format = 'newline_delimited')",
    ".ndjson": "read_json({}, format = 'newline_delimited')",
}
_TREC = {
    4: ("query", "iteration", "item", "rel"),
    6: ("query", "q0", "item", "rank", "score", "tag"),
}


@dataclass(frozen=True)
class Table:
    """A source of rows: what it is called in errors, its SQL, its columns and their types."""

    label: str
    sql: str
    columns: dict[str, str]
    trec: bool = False
    # Text files say nothing of types: their numbers are read from text, their ids stay text.
    text: bool = False
    roles: dict[str, str] = field(default_factory=dict)
    # A table of the database, neither temporary nor a view.
    lasting: bool = False
    # Is the lowest score the best? `number` and `read` then return -score.
    ascending: bool = False

    # The frame, if it is one of pandas.
    frame: Any = field(default=None, repr=False, compare=False)

    def nans(self, role: str) -> int:
        """How many values of a role are NaN in a frame of pandas, which DuckDB reads as NULL."""
        column = self.roles.get(role)
        if self.frame is None or column not in self.frame:
            return 0
        kind, values = str(self.frame[column].dtype), self.frame[column].to_numpy()
        if kind.startswith("float"):
            return int((values != values).sum())
        if kind == "object":
            return sum(isinstance(value, float) and value != value for value in values)
        return 0

    @property
    def assumed(self) -> dict[str, str]:
        """The columns of the roles, and the order of the scores where it is not the usual one."""
        return self.roles | ({"order": "ascending"} if self.ascending else {})

    def find(
        self, role: str, given: str | None = None, preferred: Sequence[str] = ()
    ) -> str | None:
        """The column of a role: the one given, if it is here, or one with a recognised name, of
        these first the preferred."""
        lower = {name.lower(): name for name in self.columns}
        if given is not None and given.lower() in lower:
            return self.spelled(given)
        # The ranks of a TREC run are not looked at, by trec_eval neither.
        names = () if self.trec and role == "pos" else (*preferred, *ROLES[role])
        return next((lower[name] for name in names if name in lower), None)

    def spelled(self, name: str) -> str:
        """A column that it has, as it spells it, which other databases are particular about."""
        there = (column for column in self.columns if column.lower() == name.lower())
        return name if name in self.columns else next(there)

    def known(self, role: str) -> list[str]:
        """All columns with a recognised name of a role."""
        return [name for name in self.columns if name.lower() in ROLES[role]]

    def number(self, role: str) -> str:
        """The column of a role as DOUBLE; that it holds numbers, `read` tells."""
        name = self.roles[role]
        kind = self.columns[name]
        if not self.text and not _is_number(kind):
            kind = "text" if _is_text(kind) else kind
            raise RankqlError(f"{self.label}: {name} must be a number, not {kind}; cast it first")
        return self.signed(role, f"{'TRY_' if self.text else ''}CAST({quoted(name)} AS DOUBLE)")

    def signed(self, role: str, value: str) -> str:
        """The value of a role such that the highest score is the best."""
        return f"(0 - {value})" if role == "score" and self.ascending else value

    def integer(self, role: str) -> str | None:
        """The column of a role as it is, where its type has whole numbers alone."""
        name = self.roles.get(role)
        kind = "" if name is None else self.columns[name]
        whole = kind.endswith("INT") or kind in ("INTEGER", "UINTEGER")
        return quoted(name) if name is not None and whole and not self.text else None

    def lasts(self, columns: Sequence[str]) -> bool:
        """Is it the same to every connection to the database, in these columns and its roles?"""
        read = {*self.roles.values(), *columns}
        kinds = {kind for name, kind in self.columns.items() if name in read}
        return self.lasting and all(_is_number(kind) or kind == "VARCHAR" for kind in kinds)

    def read(self, role: str) -> str:
        """The same, an error where it holds anything but numbers."""
        self.number(role)
        name = self.roles[role]
        value = f"rankql_read_{role}({quoted(name)}, {literal(f'{self.label}: {name}')})"
        return self.signed(role, value)

    def key(self, role: str, as_text: bool = False) -> str:
        """The column of a role that names something."""
        column = quoted(self.roles[role])
        as_text = as_text or _is_text(self.columns[self.roles[role]])
        return f"CAST({column} AS VARCHAR)" if as_text else column


def _is_text(kind: str) -> bool:
    return kind.startswith(("VARCHAR", "ENUM", "JSON"))


def _is_number(kind: str) -> bool:
    return kind.endswith("INT") or kind.startswith(
        ("INTEGER", "UINTEGER", "BIGNUM", "DECIMAL", "FLOAT", "DOUBLE", "BOOLEAN", '"NULL"')
    )


def same_kind(kinds: Sequence[str]) -> bool:
    """Can columns of these types be compared as they are?"""
    classes = {
        "text" if _is_text(kind) else "number" if _is_number(kind) else kind for kind in kinds
    }
    return len(classes) == 1


def hash_column(name: str, kinds: Sequence[str]) -> str:
    """The hash of a column, the same for values that are equal across columns of these types."""
    if len(set(kinds)) == 1:
        return f"hash({name})"
    common = "DOUBLE" if all(map(_is_number, kinds)) else "VARCHAR"
    return f"hash(CAST({name} AS {common}))"


class Session:
    """A connection to evaluate on, with the frames that are registered on it for the time being."""

    def __init__(self, con: duckdb.DuckDBPyConnection, own: bool) -> None:
        self.con = con
        self._own = own
        self.registered: list[str] = []
        # Text files and SQLite are read once, into temporary tables: by name, their statements.
        self.loaded: dict[str, str] = {}
        # The Parquet files that are read: their SQL, by what they are called.
        self.files: dict[str, str] = {}
        self._hint = "; for a table pass its connection: con=" if own else ", nor such a table"

    def table(self, data: Data, label: str) -> Table:
        """The source of the data, which is not copied; only text files are read at once."""
        if isinstance(data, Table):
            return data
        if isinstance(data, str | os.PathLike):
            return self._named(os.fspath(data), label)
        table = self._described(label, self._register(data, label))
        pandas = type(data).__module__.partition(".")[0] == "pandas"
        return replace(table, frame=data) if pandas else table

    def _register(self, data: Data, label: str) -> str:
        name = self._free(label)
        library = type(data).__module__.partition(".")[0]
        scans = library in ("polars", "pandas", "duckdb", "_duckdb") or hasattr(data, "scanner")
        if not scans and not hasattr(data, "combine_chunks"):  # which Arrow tables have
            if not hasattr(data, "__arrow_c_stream__"):
                raise RankqlError(
                    f"{label} must be a path, a table, a relation or a frame, "
                    f"not {type(data).__name__}"
                )
            import polars

            data = polars.DataFrame(data)  # a stream may be read only once
        try:
            self.con.register(name, data)
        except duckdb.Error as error:
            if isinstance(data, duckdb.DuckDBPyRelation):
                raise RankqlError(
                    f"{label} is a relation of another connection; pass that as con="
                ) from error
            raise _unreadable(label, error) from error
        self.registered.append(name)
        return quoted(name)

    def _free(self, label: str) -> str:
        """A name for what a label stands for, which no other has."""
        name = "rankql_" + re.sub(r"\W+", "_", label)
        names = itertools.chain([name], map(f"{name}_{{}}".format, itertools.count(2)))
        return next(name for name in names if not self._in_catalog(name))

    def _load(self, label: str, sql: str, trec: bool = False, text: bool = True) -> Table:
        """What a text file or a table of SQLite holds, as a temporary table."""
        name = self._free(label)
        statement = f"CREATE TEMP TABLE {quoted(name)} AS FROM {sql}"
        self.con.execute(statement).fetchall()
        self.loaded[name] = statement
        return self._described(label, quoted(name), trec, text)

    def error(self, error: duckdb.Error) -> str:
        """One line for an error of DuckDB, which does not always name a file that is damaged."""
        line = reword_error(error)
        damaged = "The file is damaged: write or copy it again"
        if line.startswith(("Failed to read file", "Could not read enough bytes")):
            return f"{line}. {damaged}"
        if type(error) is duckdb.Error:  # what its reader of Parquet raises, and no query
            for name, sql in self.files.items():
                try:
                    self.con.sql(f"SELECT max(hash(COLUMNS(*))) FROM {sql}").fetchall()
                except duckdb.Error as again:
                    return f"{name} cannot be read ({reword_error(again)}). {damaged}"
        return line

    def close(self) -> None:
        """Take away what was put on the connection."""
        for name in self.registered:
            with suppress(duckdb.Error):  # the transaction may have failed
                self.con.unregister(name)
        for name in self.loaded:
            with suppress(duckdb.Error):  # in a transaction that failed it is gone already
                self.con.execute(f"DROP TABLE {quoted(name)}").fetchall()

    def _named(self, name: str, label: str) -> Table:
        """A path, or the name of a table of the connection."""
        if not name:
            raise RankqlError(f"{label} must be named: a path or a table, not an empty text")
        if table := self._in_catalog(name, label):
            *path, lasting = table
            sql = ".".join(map(quoted, path))
            if self._kind(path[0]) == "sqlite":  # twice in one query DuckDB fails to read it
                return self._load(label, sql, text=False)
            return self._described(label, sql, lasting=lasting)
        name = expand_home(name)
        paths, pattern = [name], name
        if "://" in name:
            if _suffix(name) not in _READERS:
                paths = [pattern := f"{name.rstrip('/')}/**/*.parquet"]
        else:
            if os.path.exists(name):  # of a name that is too long too, which Path refuses
                pattern = re.sub(r"([\[*?])", r"[\1]", name)  # no pattern, this very path
            if os.path.isdir(name):
                _refuse_lake(Path(name), label)
                pattern = str(Path(pattern) / "**" / "*.parquet")
            if not os.path.isfile(name) and has_magic(pattern):
                paths = expand_glob(pattern)
            if not paths or not os.path.isfile(paths[0]):
                raise RankqlError(f"{label}: there is no file {_shortened(name)}{self._hint}")
        suffix = _suffix(paths[0])
        if suffix in _READERS:
            sql = _READERS[suffix].format(literal(pattern))
            if suffix in (".parquet", ".pq"):
                self.files[f"{label}: {name!r}"] = sql
                return self._described(label, sql, file=name)
            _require_utf8_mark(label, paths[0])
            try:
                return self._load(label, sql, text="all_varchar" in sql)
            except duckdb.Error as error:
                raise _unreadable(label, error, paths) from error
        return self._trec(paths, literal(pattern), label)

    def _in_catalog(self, name: str, label: str = "") -> tuple[str, str, str, bool] | None:
        """A table or view, by its name as it is or with schema and database before: these three,
        and whether it is a table that lasts."""
        rows = self.con.execute(
            """
            SELECT database_name, schema_name, name, lasting, CASE
                WHEN database_name = 'temp' THEN 0
                WHEN database_name <> current_database() THEN 3
                WHEN schema_name <> current_schema() THEN 2
                ELSE 1
            END AS distance
            FROM (
                SELECT database_name, schema_name, table_name AS name, NOT temporary AS lasting
                FROM duckdb_tables()
                UNION ALL
                SELECT database_name, schema_name, view_name, false FROM duckdb_views()
            ) WHERE lower($name) IN (
                lower(name), lower(concat_ws('.', schema_name, name)),
                CASE WHEN schema_name IN ('main', 'public')  -- the defaults, here and in Postgres
                     THEN lower(concat_ws('.', database_name, name)) END,
                lower(concat_ws('.', database_name, schema_name, name)))
            ORDER BY distance, database_name, schema_name
            """,
            {"name": name},
        ).fetchall()
        if not rows:
            return None
        if label and len(meant := [row[:3] for row in rows if row[4] == rows[0][4]]) > 1:
            names = " or ".join(map(".".join, meant))
            raise RankqlError(f"{label}: {name!r} may be {names}; say which")
        return rows[0][:4]

    def _kind(self, database: str) -> str:
        """What kind of database it is."""
        sql = f"SELECT type FROM duckdb_databases() WHERE database_name = {literal(database)}"
        return str(self.con.sql(sql).fetchall()[0][0])

    @contextmanager
    def indexed(self, tables: Sequence[Table], columns: Sequence[str]) -> Iterator[None]:
        """For sums by whole keys of little range: the key is where the sums are, without hashing.

        DuckDB does so of itself up to 12 bits. The setting is made on a connection of our own: that
        of the session, or one beside the user's, if that one sees the same. (It has none of the
        user's settings, on which no number and no text depends.)
        """
        con, ours = self.con, self._own
        if not ours and not self._in_transaction() and all(t.lasts(columns) for t in tables):
            con, ours = self.con.cursor(), True
        if not ours or not _roomy(con):
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

    def _in_transaction(self) -> bool:
        """May there be rows that no other connection sees?"""
        first, second = (self.con.sql("SELECT txid_current()").fetchall() for _ in range(2))
        return first == second  # without one, each query is a transaction of its own

    def _described(
        self,
        label: str,
        sql: str,
        trec: bool = False,
        text: bool = False,
        lasting: bool = False,
        file: str | None = None,
    ) -> Table:
        """The columns of a source; `file` is the path of a Parquet file."""
        try:
            rows = self.con.sql(f"DESCRIBE SELECT * FROM {sql}").fetchall()
        except duckdb.Error as error:
            if file is not None and "://" not in file:
                raise RankqlError(
                    f"{label}: {file!r} is not a complete Parquet file ({reword_error(error)}). "
                    "It is damaged, cut off, or has another format: write or copy it again"
                ) from error
            raise _unreadable(label, error) from error
        columns = {row[0]: row[1] for row in rows}
        return Table(label, sql, columns, trec, text, lasting=lasting)

    def _trec(self, paths: list[str], pattern: str, label: str) -> Table:
        """A TREC run of six columns or TREC judgments of four, whatever white space is between.

        As in trec_eval 10, lines that begin with # are comments, and what follows the sixth column
        of a run is ignored; but if that column is a number, an id may hold a space: refused.
        """
        _require_utf8_mark(label, paths[0])
        head = [line for line in _head(paths[0]) if not line.lstrip().startswith("#")]
        if not head:
            raise RankqlError(f"{label}: {paths[0]!r} is empty")
        first = head[0].split()
        columns = _TREC.get(len(first))
        if len(first) > 6 and _is_number_text(first[4]) and not _is_number_text(first[5]):
            columns = _TREC[6]
        if columns is None:
            raise RankqlError(
                f"{label}: {paths[0]!r} is no Parquet, CSV or JSON by its name, and no TREC file "
                f"by its first line, which has {len(first)} columns, not 4 or 6"
            )
        # One and the same single character between: DuckDB's own reader, in parallel.
        delimiter = next(
            (d for d in " \t" if all(_split_by(d, line, columns) for line in head)), ""
        )
        names = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
        if delimiter:
            sql = (
                f"read_csv({pattern}, delim = {literal(delimiter)}, header = false, quote = '', "
                f"escape = '', auto_detect = false, columns = {{{names}}}) "
                "WHERE NOT starts_with(query, '#')"
            )
            with suppress(duckdb.Error):
                return self._load(label, sql, trec=True)
        trimmed = "trim(line, ' ' || chr(9))"
        lines = (
            f"(SELECT string_split_regex({trimmed}, '\\s+') AS line "
            f"FROM read_csv({pattern}, delim = '\\0', header = false, quote = '', escape = '', "
            "auto_detect = false, columns = {'line': 'VARCHAR'}) "
            f"WHERE {trimmed} <> '' AND NOT starts_with({trimmed}, '#'))"
        )
        unlike = f"len(line) <> {len(columns)}"
        if columns == _TREC[6]:
            score, tag = (f"TRY_CAST(line[{i}] AS DOUBLE) IS NULL" for i in (5, 6))
            unlike = f"len(line) < 6 OR len(line) > 6 AND ({score} OR NOT {tag})"
        wrong = f"SELECT array_to_string(line, ' ') FROM {lines} WHERE {unlike}"
        fields = ", ".join(f"line[{i}] AS {name}" for i, name in enumerate(columns, 1))
        try:
            for (line,) in self.con.sql(f"{wrong} LIMIT 1").fetchall():
                many = len(columns)
                raise RankqlError(f"{label}: {paths[0]!r}: no {many} columns in the line {line!r}")
            return self._load(label, f"(SELECT {fields} FROM {lines})", trec=True)
        except duckdb.Error as error:
            raise _unreadable(label, error, paths) from error


def _is_number_text(word: str) -> bool:
    """Is this word a number?"""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _roomy(con: duckdb.DuckDBPyConnection) -> bool:
    """Is there half a GiB for each thread?"""
    sql = "SELECT current_setting('memory_limit'), current_setting('threads')"
    ((limit, threads),) = con.sql(sql).fetchall()
    size, unit = limit.split()
    gib = {"GiB": 1, "TiB": 1024}.get(unit, 0)
    return bool(float(size) * gib >= threads / 2)


def _unreadable(label: str, error: duckdb.Error, paths: Sequence[str] = ()) -> RankqlError:
    """The error for a source that DuckDB cannot read; of text files the first that is not UTF-8."""
    for path in paths:
        if line := _first_line_not_utf8(path):
            return RankqlError(
                f"{label}: {path!r} is not UTF-8 text (line {line}). Convert it, for example: "
                "iconv -f LATIN1 -t UTF-8"
            )
    what = f"{label}: {paths[0]!r}" if paths else label
    return RankqlError(f"{what} cannot be read: {reword_error(error)}")


# What DuckDB says of a connection, and what to do about it.
_OF_CONNECTIONS = {
    "transaction is aborted": "the transaction of con has failed. Call con.rollback(), then retry",
    "Connection already closed": "con is closed. Pass an open connection",
    "busy with another call": "con is in use by another thread. "
    "Give each thread a connection of its own: con.cursor()",
}


def reword_error(error: duckdb.Error) -> str:
    """One line for an error of DuckDB."""
    line = database_message(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return (
            f"DuckDB is out of memory: {line}. Raise its limit (SET memory_limit = '4GB'), use "
            "fewer threads (SET threads = 1), or make sure that temp_directory has room, to which "
            "DuckDB spills"
        )
    return next((words for sign, words in _OF_CONNECTIONS.items() if sign in line), line)


def expand_home(path: str) -> str:
    """The path with `~` as the folder of the user."""
    return os.path.expanduser(path) if path.startswith("~") else path


def expand_glob(pattern: str) -> list[str]:
    """The files of a glob, sorted."""
    return sorted(glob(expand_home(pattern), recursive=True))


def is_path(text: str) -> bool:
    """Is there a file of this name or pattern?"""
    return os.path.exists(expand_home(text)) or (has_magic(text) and bool(expand_glob(text)))


def _shortened(name: str) -> str:
    """A name in an error: of a long one, as of text that was taken for a path, the beginning."""
    return repr(name) if len(name) <= 200 else f"{name[:100]!r}... ({len(name):,} characters)"


def _refuse_lake(folder: Path, label: str) -> None:
    """The folder of such a table also holds rows that are no longer in it."""
    for kind, logs, remedy in (
        ("Delta", "_delta_log/*.json", "deltalake.DeltaTable(...).to_pyarrow_dataset()"),
        ("Iceberg", "metadata/*.metadata.json", "table.scan().to_arrow() of pyiceberg"),
    ):
        if any(folder.glob(logs)):
            raise RankqlError(f"{label}: {str(folder)!r} is a table of {kind}; pass {remedy}")


def _suffix(path: str) -> str:
    return Path(re.sub(r"\.(gz|zst)$", "", path.lower())).suffix


def _head(path: str, lines: int = 1000) -> list[str]:
    """The first lines of a text file, which may be compressed."""
    try:
        with _opened(path) as file:
            head = [raw.decode("utf-8-sig", "replace") for raw in itertools.islice(file, lines)]
    except (OSError, EOFError) as error:
        raise RankqlError(f"{path!r} cannot be read: {error}") from error
    return [line.rstrip("\r\n") for line in head if line.strip()]


def _opened(path: str) -> IO[bytes]:
    """The bytes of a file, which may be compressed."""
    if path.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path))
    return open(path, "rb")


def _require_utf8_mark(label: str, path: str) -> None:
    """Refuse a local text file that says of itself that it is UTF-16 or UTF-32."""
    if "://" in path or path.endswith(".zst"):
        return
    try:
        with _opened(path) as file:
            start = file.read(2)
    except (OSError, EOFError) as error:
        raise RankqlError(f"{path!r} cannot be read: {error}") from error
    if start in (b"\xff\xfe", b"\xfe\xff"):
        raise RankqlError(
            f"{label}: {path!r} is UTF-16 text, not UTF-8. Convert it, for example: "
            "iconv -f UTF-16 -t UTF-8"
        )


def _first_line_not_utf8(path: str) -> int | None:
    """The number of the first line of a local text file that is not UTF-8."""
    if "://" in path or path.endswith(".zst"):
        return None
    with suppress(OSError, EOFError), _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None


def _split_by(delimiter: str, line: str, columns: Sequence[str]) -> bool:
    return line.split(delimiter) == line.split() and len(line.split()) == len(columns)


def flatten_inputs(*inputs: Data | Mapping[str, Data]) -> Iterator[Data]:
    """The data of all inputs, those of a dict one by one."""
    for data in inputs:
        yield from data.values() if isinstance(data, Mapping) else [data]


@contextmanager
def open_session(
    con: duckdb.DuckDBPyConnection | None, *inputs: Data | Mapping[str, Data]
) -> Iterator[Session]:
    """The connection to work on: the one given, that of the relations, or one of our own."""
    if elsewhere(con):
        raise not_duckdb(con)
    own = None
    if con is None:
        relations = any(isinstance(data, duckdb.DuckDBPyRelation) for data in flatten_inputs(*inputs))
        con = duckdb.connect(":default:") if relations else (own := duckdb.connect())
    with _lock(con):
        here = Session(con, own is not None)
        try:
            yield here
        except duckdb.Error as error:
            raise RankqlError(here.error(error)) from error
        except RuntimeError as error:
            if "interrupt" in str(error).lower():
                raise KeyboardInterrupt from error
            raise
        finally:
            here.close()
            if own:
                own.close()


_LOCKS: WeakKeyDictionary[duckdb.DuckDBPyConnection, threading.RLock] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


def _lock(con: duckdb.DuckDBPyConnection) -> threading.RLock:
    """The lock of a connection: threads that share one take turns, as DuckDB refuses them."""
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(con, threading.RLock())


def find_common_id_columns(tables: Sequence[Table]) -> dict[str, list[str]]:
    """The recognised names of ids that all tables have, whose columns hold the same ids.

    The names of a TREC file are ours, and say nothing of what other tables call their ids.
    """
    named = [{name.lower() for name in table.columns} for table in tables if not table.trec]
    return {
        role: [name for name in ROLES[role] if all(name in names for names in named)]
        for role in ("query", "item")
    }


def assign_roles(
    table: Table,
    given: Mapping[str, str | None],
    needed: Sequence[str],
    preferred: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """The table with the columns of its roles."""
    preferred = preferred or {}
    columns = {role: table.find(role, given.get(role), preferred.get(role, ())) for role in ROLES}
    roles = {role: column for role, column in columns.items() if column is not None}
    for role in needed:
        if role not in roles:
            raise RankqlError(
                f"{table.label} has no column that is known as {role} ({', '.join(ROLES[role])}); "
                f"name it: {role}='...'. There are: {', '.join(table.columns)}"
            )
    return replace(table, roles=roles)

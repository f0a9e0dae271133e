"""A DuckDB connection and what was read on it, queries that call our macros, and errors."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import duckdb
import polars as pl

from rankql.core.base.arrow import relation_to_polars, stream_to_polars
from rankql.core.base.errors import RankqlError, python_message
from rankql.core.base.text import Note
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables import frames
from rankql.core.tables.files import File
from rankql.core.tables.private import create_macros, has_room, in_transaction, is_private
from rankql.core.tables.tables import (
    EXACT,
    FIRST_ROWS,
    FLOATS,
    Table,
    is_number,
    is_rounded,
    is_text,
)

# The rows of tables up to so many, with so many columns, are kept in memory.
HELD, _COLUMNS = 20_000, 8
# The names of our tables on each connection, which sessions within each other share.
_NAMES: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()


class Reader:
    """A connection, and what was read on it.

    One of our own is opened by the first statement: frames in memory may need none.
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection | None,
        own: bool = False,
        connect: Callable[[], duckdb.DuckDBPyConnection] | None = None,
    ) -> None:
        self._con, self._connect = con, connect
        self._own = own or con is None or is_private(con)
        self._names = set[str]() if con is None else _NAMES.setdefault(con, set())
        self.registered: list[str] = []
        # The frames that are registered when the connection is opened, by name.
        self._waiting: dict[str, pl.DataFrame] = {}
        # Statements that read text files and SQLite tables, by the name of their temporary table.
        self.loaded: dict[str, str] = {}
        # Our other temporary tables, which no script needs.
        self.copies: list[str] = []
        # The rows and values of polars frames, by the SQL of the table: see `polars_counts`.
        self.counts: dict[str, tuple[int, dict[str, int]] | None] = {}
        # The rows of short answers by their query, and what was loaded by its SQL. Tables do not
        # change, and the calls that are tried ask for the same.
        self.answers: dict[str, list[tuple[Any, ...]]] = {}
        self.tables: dict[tuple[str, ...], Table] = {}
        # The first rows of runs, by their query.
        self.first: dict[str, First] = {}
        # The polars frames that were registered, by the SQL of their table.
        self.frames: dict[str, pl.DataFrame] = {}
        # The numbers in their columns, by this SQL and the name: see `numbers_in_memory`.
        self.numbers: dict[tuple[str, str], pl.Series | None] = {}
        # The rows of iterators, by iterator.
        self.iterated: dict[Any, list[Any]] = {}
        # The tables of streams and pipes, which can be read once too.
        self.piped: dict[Any, Table] = {}
        self.hint = "No table has this name"
        # May values decide which columns are read? Not of a part of the rows.
        self.reads_values = True
        # Does a doubt about a column stop the reading? `check` reports it.
        self.asks = True
        # The tables that were read last: the runs, and the others by their argument. If offers are
        # tried later, by an evaluation, a question has all that may answer it.
        self.opened: tuple[dict[str | None, Table], dict[str, Table | None]] | None = None
        self.defers = False
        # What the caller wrote of columns and metrics, if only columns in it are read.
        self.mentioned: str | None = None
        # What was left out of the files.
        self.notes: list[Note] = []

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """The connection."""
        if self._con is None:
            assert self._connect
            self._con = self._connect()
            _NAMES[self._con] = self._names
            for name, frame in self._waiting.items():
                frames.register_frame(self._con, name, frame)
        return self._con

    def note(self, table: str, words: str, kind: str = "") -> None:
        """Add a note on how a table was read, by its label."""
        self.notes.append(Note(words, heading=table, kind=kind))

    @cached_property
    def _settings(self) -> tuple[bool, bool]:
        """Does it compare texts by a collation, and do copied rows keep their order?"""
        if self._own:
            return False, True
        names = ("default_collation", "preserve_insertion_order")
        settings = ", ".join(f"current_setting({literal(name)})" for name in names)
        collation, in_order = self.row(f"SELECT {settings}")
        return collation != "", in_order

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query that calls none of our macros: see `fetch`."""
        if sql in self.answers:
            return [*self.answers[sql]]
        rows = frames.fetch_rows(self.con, sql)
        word = sql.split(maxsplit=1)[0].lstrip("(")
        if len(rows) <= FIRST_ROWS and word in ("SELECT", "FROM", "WITH", "DESCRIBE"):
            self.answers[sql] = [*rows]
        return rows

    def row(self, sql: str) -> tuple[Any, ...]:
        """The first row of such a query."""
        return self.rows(sql)[0]

    def value(self, sql: str) -> Any:
        """The first value of such a query."""
        return self.rows(sql)[0][0]

    def mentions(self, *names: str) -> bool:
        """Did the caller write one of these names of columns, as a word?"""
        words = "|".join(re.escape(x.lower()) for x in names)
        return bool(re.search(rf"\b({words})\b", self.mentioned or ""))

    def keeps_order(self) -> bool:
        """Do copied rows keep their order? The user may say that none matters."""
        return self._settings[1]

    def find_table(self, name: str, label: str = "") -> CatalogTable | None:
        """The user's table of this name; a connection of our own has none."""
        return None if self._own else find_table(self.con, name, label)

    def _free_name(self, label: str) -> str:
        """A name that no table has yet."""
        name = "rankql_" + re.sub(r"\W+", "_", label)
        names = itertools.chain([name], map(f"{name}_{{}}".format, itertools.count(2)))
        return next(x for x in names if x not in self._names and not self.find_table(x))

    def register(self, label: str, data: Any) -> Table:
        """The table of a frame or relation, which is read in place."""
        name = self._free_name(label)
        columns = None if self._settings[0] else frames.simple_types(data)
        try:
            if columns is not None and self._con is None:
                self._waiting[name] = data
            else:
                frames.register_frame(self.con, name, data)
        except duckdb.Error as error:
            if isinstance(data, duckdb.DuckDBPyRelation):
                raise RankqlError(
                    f"{label} is a relation of another connection. Pass that one as con="
                ) from error
            raise RankqlError(f"{label} cannot be read: {reword_error(error)}") from error
        self.registered.append(name)
        self._names.add(name)
        if columns is None:
            table = self.describe(label, quote(name), ordered=True)
        else:
            table = Table(label, quote(name), columns, ordered=True, session=self)
        self.keep(table, data)
        return table

    def keep(self, table: Table, data: Any) -> None:
        """Keep the rows of a table, if they are a polars frame, and its counts."""
        if isinstance(data, pl.DataFrame) and not frames.may_lack_threads():
            self.frames[table.sql] = data
        self.counts[table.sql] = frames.polars_counts(data, table.columns)

    def load(self, label: str, sql: str, **fields: Any) -> Table:
        """A text file or a table of SQLite, read into a temporary table; text unless text=False."""
        if (key := (label, sql, repr(fields))) in self.tables:
            return self.tables[key]
        name, statement, rows = self._create(label, f"FROM {sql}")
        self.loaded[name] = statement
        table = self.describe(label, quote(name), **{"text": True, **fields})
        if rows <= HELD:
            self.hold(table)
        self.tables[key] = table
        return table

    def hold(self, table: Table) -> None:
        """Keep the rows of a small table of few and simple columns: most queries are spared."""
        few = len(table.columns) <= _COLUMNS and {*table.columns.values()} <= {*frames.TYPES}
        if not few or frames.may_lack_threads():
            return
        frame = stream_to_polars(self.con.sql(f"FROM {table.sql}"))
        if frames.simple_types(frame) == table.columns:
            self.keep(table, frame)

    def copy(self, label: str, sql: str) -> str:
        """The name of a temporary table with the rows of a query that may call our macros."""
        name, *_ = self._create(label, create_macros(self.con, sql))
        self.copies.append(name)
        return quote(name)

    def _create(self, label: str, sql: str) -> tuple[str, str, int]:
        """The name of a new temporary table of a query, the statement, and the number of rows."""
        name = self._free_name(label)
        statement = f"CREATE OR REPLACE TEMP TABLE {quote(name)} AS {sql}"
        rows = self.value(statement)
        self._names.add(name)
        return name, statement, rows

    def drop(self, table: Table) -> None:
        """Remove a table that `load` made."""
        name = next(name for name in self.loaded if quote(name) in table.sql)
        self.rows(f"DROP TABLE {quote(name)}")
        del self.loaded[name]
        self.tables = {key: x for key, x in self.tables.items() if x.sql != quote(name)}

    def describe(
        self,
        label: str,
        sql: str,
        problem: Callable[[str], str] = " cannot be read: {}".format,
        **fields: Any,
    ) -> Table:
        """The table of a source, with these fields; problem: what is wrong if it cannot be read."""
        try:
            rows = self.con.sql(f"SELECT * FROM {sql}")  # DESCRIBE takes twice as long
        except duckdb.Error as error:
            raise RankqlError(label + problem(reword_error(error))) from error
        columns = dict(zip(rows.columns, map(str, rows.types), strict=True))
        if not self._settings[0]:
            return Table(label, sql, columns, session=self, **fields)
        texts = [x for x, kind in columns.items() if is_text(kind) and not kind.endswith("]")]
        exact = (f"CAST({quote(name)} AS VARCHAR){EXACT} AS {quote(name)}" for name in texts)
        sql = f"(SELECT * REPLACE ({', '.join(exact)}) FROM {sql})" if texts else sql
        columns |= dict.fromkeys(texts, "VARCHAR")
        return Table(label, sql, columns, session=self, **{**fields, "exact": EXACT})

    @contextmanager
    def reading(self, file: File) -> Iterator[None]:
        """Raise errors of DuckDB as those of a file."""
        try:
            yield
        except duckdb.OutOfMemoryException as error:  # the file may be right
            raise RankqlError(reword_error(error)) from error
        except duckdb.Error as error:
            if re.search(r"(not|invalid) utf-8|UTF-16 encoding", str(error), re.IGNORECASE):
                number = re.search(r"Error on Line: (\d+)", str(error))
                path_line = re.search(r"\bfile = (.*)", str(error))
                path = path_line[1] if path_line else file.paths[0]
                line = f" (line {number[1]})" if number else ""
                raise file.not_utf8(path, line) from error
            form = r"(?<=Error on )Line: \d+|Expected Number of Columns: .*|Value with untermin.*"
            why = re.findall(form, str(error)) or [reword_error(error).rstrip(". ")]
            if "Error when sniffing file" in str(error):
                why = ["its lines have different numbers of values"]
            raise file.error(f"cannot be read: {', '.join(why)}. Correct it") from error

    @contextmanager
    def perfect_hashing(self, tables: Sequence[Table], columns: Sequence[str]) -> Iterator[None]:
        """Sum by integer keys with a range of up to 20 bits without hashing (12 by default).

        This is set on a connection of our own: that of the session, or a second one to the user's
        database if it sees the same tables. (It lacks the user's settings, but no number and no
        text depends on them.)
        """

        def is_same_elsewhere(table: Table) -> bool:
            read = {*table.roles.values(), *columns}
            kinds = {kind for name, kind in table.columns.items() if name in read}
            plain = all(is_number(kind) or kind == "VARCHAR" for kind in kinds)
            return table.sql == table.permanent and plain  # others may call temporary macros

        con, owned = self.con, self._own
        if not owned and not in_transaction(self.con) and all(map(is_same_elsewhere, tables)):
            con, owned = self.con.cursor(), True
        if not owned or not has_room(con):
            yield
            return
        with suppress(duckdb.Error):  # the configuration may be locked
            con.execute("SET SESSION perfect_ht_threshold = 20").fetchall()
        before, self._con = self.con, con
        try:
            yield
        finally:
            self._con = before
            if con is before:
                con.execute("RESET SESSION perfect_ht_threshold").fetchall()
            else:
                con.close()

    def close(self) -> None:
        """Remove our tables from the connection, unless it is closed with them."""
        if self._con is None or self._connect is not None:
            return
        tables = [*self.loaded, *self.copies]
        self._names.difference_update(self.registered, tables)
        for name in self.registered:
            with suppress(duckdb.Error):  # the transaction may have failed
                self._con.unregister(name)
        for name in tables:
            with suppress(duckdb.Error):  # in a transaction that failed they are gone already
                self.rows(f"DROP TABLE {quote(name)}")


# The tables and views whose name a text ends with.
_CANDIDATES = """
    FROM (
        SELECT database_name, schema_name, table_name AS name, NOT temporary AS permanent
        FROM duckdb_tables()
        UNION ALL SELECT database_name, schema_name, view_name, false FROM duckdb_views()
    ) WHERE ends_with(lower($name), lower(name))
"""
# The kinds of databases, and the current one. A join takes longer to plan.
_DATABASES = """
    SELECT database_name, type, current_database(), current_schema() FROM duckdb_databases()
"""


class CatalogTable(NamedTuple):
    """A table or view, and the kind of its database, such as duckdb or sqlite."""

    # Its database, schema and name.
    path: tuple[str, str, str]
    # It is neither a view nor temporary.
    permanent: bool
    kind: str

    @property
    def sql(self) -> str:
        """Its full name, quoted."""
        return ".".join(map(quote, self.path))


def find_table(con: duckdb.DuckDBPyConnection, name: str, label: str = "") -> CatalogTable | None:
    """Find a table or view by name, optionally with its schema and database.

    Temporary tables come first, then those of the current schema and database.
    """
    rows = sorted(con.execute(_CANDIDATES, {"name": name}).fetchall())
    databases = {row[0]: row[1:] for row in con.execute(_DATABASES).fetchall()} if rows else {}
    tables: dict[int, list[CatalogTable]] = {}
    for database, schema, table, permanent in rows:
        if database not in databases:
            continue
        kind, *current = databases[database]
        names = [table, f"{schema}.{table}", f"{database}.{schema}.{table}"]
        if schema in ("main", "public"):  # which a name may leave out, here and in Postgres
            names.append(f"{database}.{table}")
        if name.lower() in map(str.lower, names):
            near = 1 if schema == current[1] else 2
            distance = 0 if database == "temp" else near if database == current[0] else 3
            entry = CatalogTable((database, schema, table), permanent, kind)
            tables.setdefault(distance, []).append(entry)
    nearest = tables[min(tables)] if tables else []
    if label and len(nearest) > 1:
        places = " or ".join(".".join(each.path) for each in nearest)
        raise RankqlError(f"{label}: {name!r} may be {places}. Name the schema too")
    return nearest[0] if nearest else _find_unlisted(con, name)


def _find_unlisted(con: duckdb.DuckDBPyConnection, name: str) -> CatalogTable | None:
    """A table of an attached database whose catalogue lists none, such as that of quack."""
    *places, last = name.split(".")
    if not 1 <= len(places) <= 2 or not last.isidentifier():
        return None
    databases = {row[0].lower(): row[1] for row in con.execute(_DATABASES).fetchall()}
    path = (places[0], places[-1] if places[1:] else "main", last)
    with suppress(duckdb.Error):
        if places[0].lower() in databases and con.sql(f"FROM {'.'.join(map(quote, path))}"):
            return CatalogTable(path, False, databases[places[0].lower()])
    return None


def reword_error(error: duckdb.Error) -> str:
    """One line for an error of DuckDB."""
    line = python_message(error)
    if type(error) is duckdb.Error:  # what its reader of Parquet raises, and no query
        return f"A Parquet file is damaged ({line}). Write or copy it again"
    if isinstance(error, duckdb.OutOfMemoryException):
        return (
            f"DuckDB is out of memory: {line}. Raise its limit (SET memory_limit = '4GB'), use "
            "fewer threads (SET threads = 1), or make room in temp_directory, where DuckDB spills"
        )
    if "Multiple streaming scans" in line:
        return f"{line}. Copy each remote table first, as in CREATE TABLE run AS FROM r.run"
    return line


def fetch(session: Reader, sql: str, checked: bool = False) -> list[tuple[Any, ...]]:
    """The rows of a query that may call our macros, as tuples: faster for few rows."""
    return frames.fetch_rows(session.con, create_macros(session.con, sql, checked))


def fetch_frame(session: Reader, sql: str, checked: bool = False) -> pl.DataFrame:
    """The rows of a query that may call our macros, as a frame."""
    query = create_macros(session.con, sql, checked)
    if session.keeps_order():
        return frames.read_frame(session.con, query)
    return frames.plain_booleans(relation_to_polars(session.con.sql(query)))


# So many systems are read in order.
_MOST_ORDERED = 50


def list_in_order(table: Table, name: str) -> list[str]:
    """The values of a column in the order of the rows; none if these have no order."""
    text = f"CAST({quote(name)} AS VARCHAR){table.exact}"
    if table.ordered is not True or not table.session.keeps_order():
        return []
    frame = table.session.frames.get(table.sql)
    if frame is not None and name in frame.columns and frame[name].dtype == pl.String:
        known: list[str] = frame[name].drop_nulls().unique(maintain_order=True).to_list()
        return known if len(known) <= _MOST_ORDERED else []
    rows = f"SELECT {text} AS name, row_number() OVER () AS row FROM {table.sql}"
    first = f"SELECT name FROM ({rows}) WHERE name IS NOT NULL GROUP BY name"
    names = table.session.rows(f"{first} ORDER BY min(row) LIMIT {_MOST_ORDERED + 1}")
    return [name for (name,) in names] if len(names) <= _MOST_ORDERED else []


def count_values(table: Table, names: Sequence[str]) -> tuple[int, dict[str, int]]:
    """How many rows a table has, and in how many there is a value, by the name of its column."""
    values: dict[str, int]
    total, values = table.session.counts.get(table.sql) or (None, {})
    if total is None or not values.keys() >= {*names}:
        roles = [table.roles.get(role) for role in ("query", "item", "rel")]
        counted = dict.fromkeys([*names, *filter(None, roles)] if names else [])  # in one scan
        columns = ["count(*)", *(f"count({quote(name)})" for name in counted)]
        ((total, *counts),) = fetch(table.session, f"SELECT {', '.join(columns)} FROM {table.sql}")
        values = values | dict(zip(counted, counts, strict=True))
        table.session.counts[table.sql] = total, values
    return total, {name: values[name] for name in names}


def refuse_rounded(table: Table, column: str, ids: str, kind: str) -> None:
    """Refuse ids of floating point that are fractions, or so long that different ids are equal.

    ids: what selects them from the column.
    """
    if not kind.startswith(FLOATS):
        return
    rounded = f"SELECT id FROM (SELECT {ids} AS id FROM (SELECT {quote(column)} AS x_ FROM "
    rounded += f"{table.sql})) WHERE {is_rounded('id', kind)} LIMIT 1"
    for (value,) in table.session.rows(rounded):
        raise RankqlError(
            f"{table.label}: {column} has the id {value}, a floating-point number that may stand "
            "for different ids. Write ids as text or as integers"
        )


class First(NamedTuple):
    """The first rows of a run: of each its query and item as text, and one or two numbers."""

    rows: Sequence[tuple[Any, ...]]

    @property
    def values(self) -> list[float]:
        """The first numbers in the order of the rows."""
        return [row[2] for row in self.rows if row[2] is not None]

    @property
    def lists(self) -> list[list[float]]:
        """The first numbers by query."""
        lists = defaultdict[str, list[float]](list)
        for row in self.rows:
            if row[2] is not None:
                lists[row[0]].append(row[2])
        return [*lists.values()]

    def disagreement(self, lowest: bool, also: bool = True) -> float:
        """The share of queries that the two numbers order differently.

        lowest, also: is the lowest number best in the second, and in the first?
        """
        pairs: dict[str, list[tuple[float, float]]] = {}
        for query, _, one, other in self.rows:
            if one is not None and other is not None:
                pair = (one if also else -one), (other if lowest else -other)
                pairs.setdefault(query, []).append(pair)
        orders = [[y for _, y in sorted(x)] for x in pairs.values()]
        return sum(x != sorted(x) for x in orders) / (len(orders) or 1)


def first_rows(table: Table, names: Sequence[str] | None = None, key: str | None = None) -> First:
    """The ids and these numbers of the first rows, which a session reads once.

    By default the numbers are the positions and scores, and the ids those of the roles.
    """
    if names is None:
        numbers = [table.roles.get(role, "") for role in ("pos", "score")]
        names = [x for x in numbers if x and (is_number(table.columns[x]) or table.text)]
    ids = [key or table.roles.get("query"), table.roles.get("item")]
    texts = [f"CAST({quote(x)} AS VARCHAR)" if x and table.has(x) else "''" for x in ids]
    columns = ", ".join([*texts, *map(table.number_or_null, names)])
    sql = f"SELECT {columns} FROM {table.sql} LIMIT {FIRST_ROWS}"
    if sql not in table.session.first:
        rows = _first_of_frame(table, [*ids, *names])
        if rows is None:
            rows = [tuple(x if x == x else None for x in row) for row in table.session.rows(sql)]
        table.session.first[sql] = First(rows)
    first: First = table.session.first[sql]
    return first


# A number in text that polars and DuckDB read the same, and that DOUBLE does not round to another.
_PLAIN = r"^-?[0-9]{1,15}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,2})?$"


def numbers_in_memory(table: Table, name: str) -> pl.Series | None:
    """The numbers of a column that is in memory; None if it is not, or has other text."""
    frame, key = table.session.frames.get(table.sql), (table.sql, name)
    if frame is None or name not in frame.columns:
        return None
    numbers: dict[tuple[str, str], pl.Series | None] = table.session.numbers
    if key not in numbers:
        column = frame[name]
        text = table.text and column.dtype == pl.String and column.str.contains(_PLAIN).all()
        known = text or column.dtype.is_integer() or column.dtype.is_float()
        numbers[key] = column.cast(pl.Float64) if known else None
    return numbers[key]


def _first_of_frame(table: Table, names: Sequence[str | None]) -> list[tuple[Any, ...]] | None:
    """The first rows of a frame in memory, without a query; None of another table."""
    frame = table.session.frames.get(table.sql)
    if frame is None or any(name not in (None, *frame.columns) for name in names):
        return None
    columns = list[list[Any]]()
    for i, name in enumerate(names):
        if name is None:
            columns.append([""] * min(frame.height, FIRST_ROWS))
        elif i > 1:
            if (numbers := numbers_in_memory(table, name)) is None:
                return None
            values = numbers.head(FIRST_ROWS).to_list()
            columns.append([None if x != x else x for x in values])
        elif (kind := frame[name].dtype) == pl.String or kind.is_integer():
            columns.append(frame[name].head(FIRST_ROWS).cast(pl.String).to_list())
        else:
            return None
    return [*zip(*columns, strict=True)]


# The end of a time of day with an offset from UTC.
OFFSET = ":[0-9.]+ *([+-][0-9]|[Zz]$)"


def infer_types(table: Table) -> Table:
    """The table of a text file with numbers, times and booleans where all rows have them."""
    times = ("TIMESTAMP", "TIMESTAMPTZ")
    kinds = ("BIGINT", "DOUBLE", *times, "BOOLEAN") if table.text else times
    casts = []
    for name in (quote(name) for name, kind in table.columns.items() if kind == "VARCHAR"):
        for kind in kinds:
            value = f"TRY_CAST({name} AS {kind})"
            other = f"{value} IS NULL OR regexp_matches({name}, '^[+-]?0[0-9]')"
            if kind == "BIGINT":  # '1.5' would be 2
                other += f" OR CAST({value} AS VARCHAR) <> {name}"
            if kind == "TIMESTAMP":  # the cast ignores an offset
                other += f" OR regexp_matches({name}, {literal(OFFSET)})"
            sql = f"SELECT 1 FROM {table.sql} WHERE {name} IS NOT NULL AND ({other}) LIMIT 1"
            if not table.session.rows(sql):
                casts.append(f"CAST({name} AS {kind}) AS {name}")
                break
    sql = f"(SELECT * REPLACE ({', '.join(casts)}) FROM {table.sql})"
    if not casts:
        return table
    columns = table.describe(sql).columns
    return replace(table, sql=sql, columns=columns, text=False)

"""Other databases, read by whatever connection the user has to them: Postgres and SQLite.

What is read there is undone: a transaction of the user's goes on as it was, and where there was
none, none is left.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from rankql.errors import RankqlError
from rankql.macros import quote

Rows: TypeAlias = list[tuple[Any, ...]]


@dataclass(frozen=True)
class RemoteTable:
    """A table or view: its SQL, and its columns with their types."""

    sql: str
    columns: Mapping[str, pa.DataType]


class Database:
    """A database that is asked by `ask`, a query in and rows out."""

    name: str
    dialect: str
    # Text that is compared by its bytes, whatever collation the database and its columns have.
    text: str
    # What the message of an error of our own stands in.
    error: str
    # How the steps of a query are read: where they are asked for, or once.
    steps: str
    # What a transaction of our own begins with, so that all queries see the same rows.
    begin: Sequence[str] = ()
    # What holds until what we did is undone.
    settings: Sequence[str] = ()

    def __init__(self, ask: Callable[[str], Rows]) -> None:
        self._ask = ask

    def ask(self, sql: str) -> Rows:
        """The rows of a query; what the database has against it is a RankqlError."""
        try:
            return self._ask(sql)
        except Exception as error:
            text = str(getattr(error, "orig", None) or error).rpartition("ERROR:")[2].strip()
            line = (text or type(error).__name__).splitlines()[0]
            own = re.search(self.error, line)
            text = own[1].replace("''", "'") if own else f"{self.name}: {line}"
            raise RankqlError(text) from error

    @contextmanager
    def aside(self, began: bool) -> Iterator[None]:
        """What is done within is undone, in a transaction that we began or in one of the user's."""
        savepoint = not (began and self.begin)
        opening = ["SAVEPOINT rankql_evaluate"] if savepoint else self.begin
        try:
            for sql in [*opening, *self.settings]:
                self.ask(sql)
        except RankqlError:  # there is no transaction, or it has failed
            savepoint = False
        try:
            yield
        finally:
            if savepoint:
                with suppress(RankqlError):
                    self.ask("ROLLBACK TO SAVEPOINT rankql_evaluate")
                    self.ask("RELEASE SAVEPOINT rankql_evaluate")

    def literal(self, text: str) -> str:
        """A text as SQL."""
        return "'" + text.replace("'", "''") + "'"

    def full_join(self, judged: str, run: str, keys: str, columns: Sequence[str]) -> str:
        """All items of the judgments and of the run, as what stands after FROM."""
        return f"{judged} FULL JOIN {run} USING ({keys}, item)"

    def table(self, data: Any, label: str) -> RemoteTable:
        """A table or view by its name, with its schema before it or not."""
        if not isinstance(data, str) or not data:
            value = repr(data) if isinstance(data, str) else type(data).__name__
            what = f"{label} must be the name of a table or view of {self.name}"
            raise RankqlError(f"{what}, whose connection is given, not {value}")
        columns_by_table: dict[tuple[str, str], dict[str, pa.DataType]] = {}
        for schema, name, column, kind in self.columns(data):
            columns_by_table.setdefault((schema, name), {})[column] = kind
        exact = [path for path in columns_by_table if data in (path[1], ".".join(path))]
        paths = sorted(exact or columns_by_table)
        if not paths:
            raise RankqlError(f"{label}: there is no table or view {data!r} in {self.name}")
        if len(paths) > 1:
            names = " or ".join(map(".".join, paths))
            raise RankqlError(f"{label}: {data!r} may be {names}; say which")
        columns = columns_by_table[paths[0]]
        seen = {name.lower(): name for name in columns}
        for name in columns:
            if (other := seen[name.lower()]) != name:
                names = f"{name!r} and {other!r}"
                raise RankqlError(f"{label}: {names} differ by case alone; rename one in a view")
        # With its schema it is none of our WITH.
        return RemoteTable(".".join(map(quote, paths[0])), columns)

    def columns(self, name: str) -> Iterator[tuple[str, str, str, pa.DataType]]:
        """The columns of what a name may stand for: schema, table, column and type."""
        raise NotImplementedError


# Of another type ids would be told apart, and attributes ordered or shown, in another way than in
# DuckDB.
UNSUPPORTED = pa.binary()
NUMERIC = pa.decimal128(38, 9)
IDS = (pa.string(), pa.int16(), pa.int32(), pa.int64())
ATTRIBUTES = (*IDS, pa.bool_(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us"))


class Postgres(Database):
    """Postgres from version 12."""

    name, dialect, text = "Postgres", "postgres", 'CAST({} AS TEXT) COLLATE "C"'
    error = r'^invalid input syntax for type double precision: "(.*)"$'
    steps = "NOT MATERIALIZED"
    begin = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",)
    # The user may have chosen that numbers are sent with fewer.
    settings = ("SET LOCAL extra_float_digits = 1",)

    # By their names; what else is text, its category tells.
    _types: Mapping[str, pa.DataType] = {
        "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(),
        "float8": pa.float64(), "bool": pa.bool_(), "date": pa.date32(), "uuid": pa.string(),
        "timestamp": pa.timestamp("us"), "numeric": NUMERIC,
    }  # fmt: skip

    def literal(self, text: str) -> str:
        """A text as SQL, the same whatever standard_conforming_strings is."""
        plain = super().literal(text)
        return " E" + plain.replace("\\", "\\\\") if "\\" in text else plain

    def columns(self, name: str) -> Iterator[tuple[str, str, str, pa.DataType]]:
        """As the catalogue has them."""
        sql = f"""
            SELECT schema.nspname, relation.relname, attname, kind.typname, kind.typcategory
            FROM pg_catalog.pg_class AS relation
            JOIN pg_catalog.pg_namespace AS schema ON schema.oid = relnamespace
            JOIN pg_catalog.pg_attribute ON attrelid = relation.oid
            JOIN pg_catalog.pg_type AS given ON given.oid = atttypid
            JOIN pg_catalog.pg_type AS kind
                ON kind.oid = CASE given.typtype WHEN 'd' THEN given.typbasetype ELSE given.oid END
            WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND attnum > 0 AND NOT attisdropped
                AND CASE WHEN lower(relname) = lower({self.literal(name)})
                    THEN pg_catalog.pg_table_is_visible(relation.oid)
                    ELSE lower(nspname || '.' || relname) = lower({self.literal(name)}) END
            ORDER BY relation.oid, attnum"""
        for schema, table, column, kind, category in self.ask(sql):
            text = pa.string() if category in ("S", "E") else UNSUPPORTED
            yield schema, table, column, self._types.get(kind, text)


class SQLite(Database):
    """SQLite from version 3.39, with its mathematical functions."""

    name, dialect, text = "SQLite", "sqlite", "CAST({} AS TEXT) COLLATE BINARY"
    error = r"(?:bad JSON path: |JSON path error near )'(.*)'$"
    steps = "MATERIALIZED"  # then it makes indexes of them

    def full_join(self, judged: str, run: str, keys: str, columns: Sequence[str]) -> str:
        """As two joins: for FULL JOIN it would look at all pairs."""
        ids, places = f"{keys}, item", ", ".join(columns)
        return (
            f"(SELECT {ids}, rel, {places} FROM {judged} LEFT JOIN {run} USING ({ids}) UNION ALL "
            f"SELECT {ids}, rel, {places} FROM {run} LEFT JOIN {judged} USING ({ids}) "
            "WHERE rel IS NULL) AS both_sides"
        )

    def columns(self, name: str) -> Iterator[tuple[str, str, str, pa.DataType]]:
        """Of the types that their values have, whatever they are declared to be."""
        ((encoding,),) = self.ask("PRAGMA encoding")
        if encoding != "UTF-8":
            raise RankqlError(
                f"SQLite orders text by its bytes, which are {encoding} here; copy "
                "the database into one with PRAGMA encoding = 'UTF-8'"
            )
        tables = f"""
            SELECT schema, name FROM pragma_table_list
            WHERE lower({self.literal(name)}) IN (lower(name), lower(schema || '.' || name))"""
        for schema, table in self.ask(tables):
            listed = f"{self.literal(table)}, {self.literal(schema)}"
            described = self.ask(
                f"SELECT name, type FROM pragma_table_xinfo({listed}) WHERE hidden <> 1"
            )
            kinds = {
                "blob": UNSUPPORTED, "text": pa.string(), "real": pa.float64(),
                "integer": pa.int64(),
            }  # fmt: skip
            asked = ", ".join(
                f"max(typeof({quote(column)}) = '{kind}')"
                for column, _ in described
                for kind in kinds
            )
            (found,) = self.ask(f"SELECT {asked} FROM {quote(schema)}.{quote(table)}")
            for i, (column, declared) in enumerate(described):
                there = zip(kinds.values(), found[4 * i : 4 * i + 4], strict=True)
                known = (kind for kind, any_value in there if any_value)
                yield schema, table, column, next(known, _declared_type(declared))


def _declared_type(name: str) -> pa.DataType:
    """The type of a column of SQLite without values."""
    kinds = {r"CHAR|CLOB|TEXT": pa.string(), r"REAL|FLOA|DOUB": pa.float64()}
    return next((kind for words, kind in kinds.items() if re.search(words, name, re.I)), pa.int64())


_DATABASES: Mapping[str, type[Database]] = {"postgresql": Postgres, "sqlite": SQLite}


@contextmanager
def open_database(con: Any) -> Iterator[Database]:
    """The database of a connection, to be read beside what the user does there."""
    with ExitStack() as stack:
        began = False
        if _is_instance(con, "sqlalchemy.engine", "Engine"):
            con = stack.enter_context(con.connect())
        if _is_instance(con, "sqlalchemy.engine", "Connection"):
            database = _database_class(con.dialect.name)(lambda sql: _query_sqlalchemy(con, sql))
            if began := not con.in_transaction():
                stack.callback(con.begin().rollback)
        elif _is_instance(con, "adbc_driver_manager.dbapi", "Connection"):
            if began := _is_idle(con):  # which it is no longer once it is asked for its name
                stack.callback(con.rollback)
            name = con.adbc_get_info()["vendor_name"]
            database = _database_class(name)(lambda sql: _query_cursor(con, sql))
        elif _is_instance(con, "psycopg", "Connection"):
            from psycopg.pq import TransactionStatus
            from psycopg.rows import tuple_row

            database = Postgres(lambda sql: _query_cursor(con, sql, row_factory=tuple_row))
            if began := con.info.transaction_status == TransactionStatus.IDLE:
                stack.enter_context(con.transaction(force_rollback=True))
        elif _is_instance(con, "sqlite3", "Connection"):
            database = SQLite(lambda sql: _query_cursor(con, sql))
        else:
            raise RankqlError(
                "con must be a connection of DuckDB, a SQLAlchemy engine or connection, or a "
                f"connection of psycopg, sqlite3 or ADBC, not {type(con).__module__}."
                f"{type(con).__name__}"
            )
        stack.enter_context(database.aside(began))
        yield database


def _is_instance(con: Any, module: str, kind: str) -> bool:
    """Is it of a class of a library, which is imported then?"""
    return module in sys.modules and isinstance(con, getattr(sys.modules[module], kind))


def _is_idle(con: Any) -> bool:
    """Has ADBC begun no transaction in Postgres yet, and will it begin one?"""
    with suppress(Exception):  # other drivers do not tell
        option = con.adbc_connection.get_option
        idle = option("adbc.postgresql.transaction_status") == "idle"
        return bool(idle and option("adbc.connection.autocommit") == "false")
    return False


def _database_class(name: str) -> type[Database]:
    if name.lower() not in _DATABASES:
        known = "of DuckDB with its own connection, of Postgres and of SQLite"
        raise RankqlError(f"con: evaluate runs in the databases {known}, not in {name}")
    return _DATABASES[name.lower()]


def _query_sqlalchemy(con: Any, sql: str) -> Rows:
    # As it is: a percent sign is no place for a parameter.
    result = con.exec_driver_sql(sql, execution_options={"no_parameters": True})
    return [tuple(row) for row in result] if result.returns_rows else []


def _query_cursor(con: Any, sql: str, **options: Any) -> Rows:
    with closing(con.cursor(**options)) as cursor:
        if _is_instance(con, "sqlite3", "Connection"):
            cursor.row_factory = None
        cursor.execute(sql)
        return [tuple(map(_decode, row)) for row in cursor.fetchall()] if cursor.description else []


def _decode(value: Any) -> Any:
    """Text that a driver gives as its bytes, for sqlite3's text_factory or of no known encoding."""
    return value.decode() if isinstance(value, bytes) else value

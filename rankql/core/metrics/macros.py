"""The SQL macros: their text, and how to add them to a DuckDB connection."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankql.core.base.errors import RankqlError, closest, require

if TYPE_CHECKING:
    import duckdb

# A file comes after those that it calls: common and packed first, and gain before debias.
FAMILIES = (
    *("common", "packed", "gain", "precision", "cascade", "order", "rating", "catalogue"),
    *("diversity", "labels", "debias", "propensity", "interleaving", "monitor", "weights", "spans"),
)

# DuckDB refuses two threads that write the macros into one database.
_PERSISTING = threading.Lock()

_CREATE = re.compile(r"^CREATE OR REPLACE MACRO (\w+)", re.MULTILINE)
_SIGNATURE = re.compile(r"^CREATE OR REPLACE MACRO (\w+)\(([^)]*)\)", re.MULTILINE)
_PARAMETER = re.compile(r"(\w+)(?:\s*:=\s*('[^']*'|[\w.]+))?")
# Comments may have unclosed quotes.
_COMMENTS = re.compile(r"^(COMMENT ON |--).*\n?", re.MULTILINE)
_COMMENT = re.compile(r"^COMMENT ON MACRO (?:TABLE )?(\w+) IS '((?:[^']|'')*)'", re.MULTILINE)


def quote(name: str, mark: str = '"') -> str:
    """Quote a name as an SQL identifier; `mark` is that of the database."""
    return mark + name.replace(mark, mark * 2) + mark


# Values this close to 1 are 1: rankql_rounding() in sql/common.sql.
NEAR_ONE = 2.0**-40
# The prefix of internal columns.
INTERNAL_PREFIX = "__rankql_"
MISSING = f"{INTERNAL_PREFIX}missing"  # whether a run lacks a query


def literal(value: object) -> str:
    """Write a text, a number or a list of them as SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return "NULL" if value is None else str(value)


def template_literal(value: object) -> str:
    """The same in SQL that is still to be formatted."""
    return literal(value).replace("{", "{{").replace("}", "}}")


def sql_folder() -> Path:
    """Return the folder of the SQL files, which is a dbt package too."""
    # In the package in a wheel, next to it in a checkout.
    package = Path(__file__).parents[2]
    return next(path for path in (package / "sql", package.parent / "sql") if path.is_dir())


def _read_family(stem: str) -> str:
    return (sql_folder() / f"{stem}.sql").read_text("utf-8")


@cache
def read_sql() -> str:
    """Read all macros as one SQL text, the content of sql/rankql.sql."""
    return "\n\n".join(map(_read_family, FAMILIES))


@cache
def read_comments() -> dict[str, str]:
    """Read the description of each metric, in one line."""
    return {name: text.replace("''", "'") for name, text in _COMMENT.findall(read_sql())}


def nearest_names(word: str, names: Iterable[str]) -> list[str]:
    """The name that is most like a word, or else the few functions whose description has it."""
    if close := closest(word, names):
        return [close]
    some = re.compile(rf"\b{re.escape(word)}", re.IGNORECASE)
    found = [name for name, line in read_comments().items() if some.search(line)]
    return found if len(found) <= 3 < len(word) else []


@cache
def read_parameters() -> dict[str, dict[str, str | None]]:
    """Read the parameters of each macro, with their defaults as SQL or None."""
    return {
        name: {parameter: default or None for parameter, default in _PARAMETER.findall(signature)}
        for name, signature in _SIGNATURE.findall(read_sql())
    }


@cache
def read_statements(dialect: str | None = None) -> dict[str, str]:
    """Read each macro as a statement, by name: for DuckDB or, where they differ, for a dialect."""
    return _split(_read_family(dialect) if dialect else read_sql())


@cache
def _statements(checked: bool) -> dict[str, str]:
    """Read each macro as a statement, with or without the checks of rows and arguments."""
    files = ["input"] if checked else ["input", "trusted"]
    return _split("\n".join([read_sql(), *map(_read_family, files)]))


def _split(text: str) -> dict[str, str]:
    parts = re.split(r"^(?=CREATE OR REPLACE MACRO)", text, flags=re.MULTILINE)
    return {match[1]: part for part in parts if (match := _CREATE.match(part))}


# A function call; it also matches texts, quoted names and comments.
_CALL = re.compile(r"""--.*|'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.])(\w+)(?=\()""")


def isolate_macros(query: str, checked: bool = False) -> tuple[list[str], str]:
    """Return statements that create the macros of a query under private names, and the query.

    Private names never replace or hide functions of the user. Unless `checked`, the macros do not
    check rows and arguments, which takes longer than the metrics.
    """
    needed: dict[str, str] = {}

    def add_calls(names: Iterable[str]) -> None:
        for name in names:
            if name not in needed:
                calls, statement = _private_statement(name, checked)
                add_calls(calls)
                needed[name] = statement

    calls, renamed = _rename_calls(query, checked)
    add_calls(calls)
    return [*needed.values()], renamed


@cache
def _private_statement(name: str, checked: bool) -> tuple[list[str], str]:
    """Return the macros that a macro calls, and the statement that creates it."""
    text = _COMMENTS.sub("", _statements(checked)[name])
    calls, renamed = _rename_calls(text, checked)
    return [call for call in calls if call != name], renamed


def _rename_calls(text: str, checked: bool) -> tuple[list[str], str]:
    """Return the macros that are called, and the text with their private names."""
    macros, prefix = _statements(checked), "rankql checked " if checked else "rankql "
    calls: list[str] = []

    def rename(match: re.Match[str]) -> str:
        if match[1] not in macros:
            return match[0]
        calls.append(match[1])
        return quote(prefix + match[1])

    return calls, _CALL.sub(rename, text)


def register(
    con: duckdb.DuckDBPyConnection | None = None, persist: bool = False, schema: str = "rankql"
) -> None:
    """Add the metrics to a DuckDB connection, by default to that of `duckdb.sql`.

    They are TEMP macros: nothing is written to the database, which may be read-only, and they end
    with the connection. A `con.cursor()` is a connection of its own: register it too. With
    `persist` they are written into `schema` of the current database. Everyone who opens it can
    call them as `rankql.ndcg(...)`, also cursors and read-only readers; if it is attached, as
    `shop.rankql.ndcg(...)`. They call each other by the name of the database: attach the file under
    that name (`AS shop`), and register again after you rename it. Registering twice changes
    nothing. A function of yours with the same name is not replaced: a RankqlError names it. All
    are added in one transaction, or none. A DuckLake cannot hold them.

    >>> import duckdb
    >>> con = duckdb.connect()
    >>> register(con)
    >>> con.sql("SELECT ndcg(rel, pos) FROM (VALUES (1, 2), (0, 1)) AS t (rel, pos)").fetchall()
    [(0.6309297535714575,)]
    """
    import duckdb  # not at the top: reading the texts does not need it

    con = require_duckdb(con)
    require(isinstance(persist, bool), f"persist must be True or False, not {persist!r}")
    named = isinstance(schema, str) and schema != ""
    require(named, f"schema must be the name of a schema, not {schema!r}")
    con = duckdb.connect(":default:") if con is None else con
    _require_version(duckdb.__version__)
    text = read_sql()
    try:
        with _PERSISTING if persist else nullcontext(), _transaction(con):
            for name in _refuse_foreign(con, schema if persist else None):
                text = text.replace(_statements(True)[name], "")
            if persist:
                database = _require_macro_store(con)
                place = f"{quote(database)}.{quote(schema)}"
                text = f"CREATE SCHEMA IF NOT EXISTS {place};\n{qualify_macros(text, place)}"
            # Parsed at once: con.execute(text) takes 8% longer.
            for statement in con.extract_statements(text) if persist else _parse_temporary(text):
                con.execute(statement)
    except duckdb.ConnectionException as error:
        raise RankqlError("con is closed. Pass an open connection") from error
    except duckdb.TransactionException as error:
        raise RankqlError(
            f"The macros were not registered ({error}). End the transactions on this database, "
            "then register again"
        ) from error
    except duckdb.InvalidInputException as error:
        if "read-only" not in str(error):
            raise
        raise RankqlError(
            "The database is read-only, so nothing can be persisted in it. "
            "Use register(con), whose TEMP macros work there"
        ) from error


# The oldest DuckDB in which macros may be aggregates.
_OLDEST = (1, 4, 3)


def _require_version(version: str) -> None:
    """Refuse a DuckDB that cannot hold the macros."""
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    least = ".".join(map(str, _OLDEST))
    old = f"register needs DuckDB {least}, not {version}: pip install 'duckdb>={least}'"
    require(numbers >= _OLDEST, old)


@lru_cache(maxsize=1)
def _parse_temporary(text: str) -> list[duckdb.Statement]:
    """The macros as TEMP macros, parsed once for all connections: a quarter of register()."""
    import duckdb

    with duckdb.connect() as con:
        return con.extract_statements(as_temporary(text))


def as_temporary(text: str) -> str:
    """The macros as TEMP macros, which write nothing and end with the connection."""
    return _CREATE.sub(r"CREATE OR REPLACE TEMP MACRO \1", text)


def has_transaction(con: duckdb.DuckDBPyConnection) -> bool:
    """Is a transaction open? Otherwise each query is one of its own. Lakes have no txid_current."""
    query = "SELECT epoch_us(transaction_timestamp())"
    first, second = (con.execute(query).fetchall() for _ in range(2))
    return first == second


@contextmanager
def _transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """One transaction, or a part of that of the caller."""
    if is_own := not has_transaction(con):
        con.begin()
    try:
        yield
    except BaseException:
        if is_own:
            con.rollback()
        raise
    if is_own:
        con.commit()


def _require_macro_store(con: duckdb.DuckDBPyConnection) -> str:
    """The current database. It must be DuckDB's: a DuckLake holds no defaults that are NULL."""
    query = """SELECT database_name, type FROM duckdb_databases()
        WHERE database_name = current_database()"""
    ((database, kind),) = con.execute(query).fetchall()
    if kind != "duckdb":
        raise RankqlError(
            f"The current database {database!r} is of type {kind}, which cannot hold the macros. "
            "Use register(con), or attach the file that rankql sql --database rankql.duckdb writes"
        )
    return str(database)


def require_duckdb(con: Any) -> duckdb.DuckDBPyConnection | None:
    """The connection of a caller, or that of a backend of ibis. Another database is an error."""
    import duckdb

    con = getattr(con, "con", con) if con is not duckdb else duckdb.connect(":default:")
    if con is None or isinstance(con, duckdb.DuckDBPyConnection):
        return con
    kind = f"{type(con).__module__}.{type(con).__name__}"
    # Of SQLAlchemy, of JupySQL and Streamlit around it, and of JupySQL around a connection.
    parts = ("dialect", "driver", "dbapi_connection", "_connection")
    if any("duckdb" in str(part) for part in (kind, *(getattr(con, x, "") for x in parts))):
        raise RankqlError(
            f"con must be a DuckDB connection, not {kind}, which has one inside. Pass frames. For "
            "the metrics in its SQL, run ATTACH 'rankql.duckdb' AS rankql (READ_ONLY) there and "
            "call rankql.ndcg(...): rankql sql --database rankql.duckdb writes the file"
        )
    raise RankqlError(
        f"con must be a DuckDB connection, not {kind}. Pass frames: pl.read_database(query, "
        "connection), fastest with ADBC. Or attach the database in DuckDB: ATTACH '...' AS shop "
        "(TYPE postgres). Or compute in Postgres: rankql.native_sql('postgres') has the functions"
    )


# Macros that only say what to write. They give way to functions of the user.
_HINTS = (
    "mrr", "mean_reciprocal_rank", "reciprocal_rank", "hr", "hit_rate", "hits_at", "success",
    "p_at", "precision_k", "map_at", "average_precision", "mean_average_precision", "ndcg_at",
)  # fmt: skip


def _refuse_foreign(con: duckdb.DuckDBPyConnection, schema: str | None) -> list[str]:
    """Refuse to replace or hide a function of the user, and list the hints that would.

    Metrics of rankql are recognised by their comments, helpers by a metric in the same schema.
    """
    descriptions = read_comments()
    rows = con.execute(
        """
        SELECT DISTINCT lower(function_name), comment, concat_ws('.', database_name, schema_name),
               function_name, coalesce(macro_definition LIKE '%rankql_fail%', false)
        FROM duckdb_functions()
        WHERE CASE
            WHEN $schema IS NOT NULL
            THEN database_name = current_database() AND schema_name = $schema
            WHEN database_name = 'system'
            THEN description IS NULL  -- a Python function of the user
            WHEN database_name = current_database()
            THEN list_contains(current_schemas(true), schema_name)
            ELSE database_name = 'temp'
        END
        ORDER BY ALL
        """,
        {"schema": schema},
    ).fetchall()
    functions = [row for row in rows if row[0] in read_parameters()]
    hints = list[str]()
    our_schemas = {place for name, of, place, *_ in functions if descriptions.get(name, "") == of}
    for name, comment, place, spelling, is_ours in functions:
        if name in _HINTS:
            hints += [] if is_ours else [name]
        elif comment != descriptions[name] if name in descriptions else place not in our_schemas:
            action = "replaced" if schema else "hidden"
            raise RankqlError(
                f"Your function {place}.{spelling} would be {action} by rankql's {name}. Rename or "
                "drop it, or use register(con, persist=True, schema=...) with another schema"
            )
    return hints


def qualify_macros(text: str, place: str) -> str:
    """Put the macros into a schema, `"database"."schema"`, and name it where they call each other.

    DuckDB looks a call inside a macro up from where the macro is called, so that macros of an
    attached database do not find each other otherwise. (Texts hold no such call.)
    """
    names = "|".join(sorted(_CREATE.findall(text), key=len, reverse=True))
    call = re.compile(rf"(?<![\w.])({names})(?=\()")
    comment = re.compile(r"^(COMMENT ON MACRO (?:TABLE )?)(\w+)", re.MULTILINE)
    text = call.sub(lambda name: f"{place}.{name[0]}", text)
    return comment.sub(lambda head: f"{head[1]}{place}.{head[2]}", text)

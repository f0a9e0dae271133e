"""The SQL macros: where their text lies, and how a DuckDB connection gets them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rankql.errors import RankqlError

if TYPE_CHECKING:
    import duckdb

# common.sql first: every other family stands on it, debias on gain too.
FAMILIES = (
    "common",
    "gain",
    "precision",
    "cascade",
    "order",
    "rating",
    "catalogue",
    "diversity",
    "labels",
    "debias",
    "propensity",
    "interleaving",
    "bounds",
)

_CREATE = re.compile(r"^CREATE OR REPLACE MACRO (\w+)", re.MULTILINE)
# Comments may hold quotes that nothing closes.
_COMMENTS = re.compile(r"^(COMMENT ON |--).*\n?", re.MULTILINE)
_COMMENT = re.compile(r"^COMMENT ON MACRO (?:TABLE )?(\w+) IS '((?:[^']|'')*)'", re.MULTILINE)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


# The column that says whether a run lacks a query. Names that begin so are of our columns alone.
OURS = "__rankql_"
MISSING = f"{OURS}missing"


def literal(value: object) -> str:
    """A text, a number or a list of them as SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return "NULL" if value is None else str(value)


def folder() -> Path:
    """Where the SQL lies, which is a dbt package too."""
    # A wheel carries the folder inside the package; in a checkout it lies beside it.
    package = Path(__file__).parent
    return next(path for path in (package / "sql", package.parent / "sql") if path.is_dir())


def _text(stem: str) -> str:
    return (folder() / f"{stem}.sql").read_text("utf-8")


@cache
def sql() -> str:
    """All macros as one SQL text, the content of sql/rankql.sql."""
    return "\n\n".join(map(_text, FAMILIES))


@cache
def comments() -> dict[str, str]:
    """What each metric is, in one line."""
    return {name: text.replace("''", "'") for name, text in _COMMENT.findall(sql())}


@cache
def metrics(*families: str) -> frozenset[str]:
    """The metrics of some families."""
    return frozenset(name for family in families for name, _ in _COMMENT.findall(_text(family)))


@cache
def parameters() -> dict[str, dict[str, str | None]]:
    """The parameters of each macro, with their defaults as SQL, None where there is none."""
    return {
        name: {
            parameter: default or None
            for parameter, default in re.findall(r"(\w+)(?:\s*:=\s*('[^']*'|[\w.]+))?", listed)
        }
        for name, listed in re.findall(
            r"^CREATE OR REPLACE MACRO (\w+)\(([^)]*)\)", sql(), re.MULTILINE
        )
    }


@cache
def statements(dialect: str | None = None) -> dict[str, str]:
    """Each macro as a statement, by name: ours, or those that say DuckDB in another dialect."""
    return _split(_text(dialect) if dialect else sql())


@cache
def _statements(checked: bool) -> dict[str, str]:
    """Each macro as a statement, by name; with the checks of every row and argument, or without."""
    return _split(sql() if checked else f"{sql()}\n{_text('trusted')}")


def _split(text: str) -> dict[str, str]:
    parts = re.split(r"^(?=CREATE OR REPLACE MACRO)", text, flags=re.MULTILINE)
    return {match[1]: part for part in parts if (match := _CREATE.match(part))}


@cache
def _call() -> re.Pattern[str]:
    """A call of one of the macros; texts and quoted names are passed over."""
    names = "|".join(sorted(_statements(False), key=len, reverse=True))
    return re.compile(rf"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.])({names})(?=\()""")


def called(query: str, checked: bool = False) -> tuple[str, str]:
    """The statements that a query needs, and the query that then runs.

    The macros it calls are created under names of their own, so that nobody else's are replaced or
    hidden; and without the checks of every row and argument, which cost more than the metrics,
    unless `checked`.
    """
    statements, call = _statements(checked), _call()
    prefix = "rankql checked " if checked else "rankql "
    needed: dict[str, None] = {}

    def need(text: str) -> None:
        for name in filter(None, call.findall(text)):
            if name not in needed:
                need(_CREATE.sub("", statements[name]))
                needed[name] = None

    def renamed(text: str) -> str:
        return call.sub(lambda m: f'"{prefix}{m[1]}"' if m[1] else m[0], text)

    need(query)
    text = "".join(_COMMENTS.sub("", statements[name]) for name in needed)
    create = renamed(text).replace("CREATE OR REPLACE MACRO", "CREATE OR REPLACE TEMP MACRO")
    return create, renamed(query)


def register(
    con: duckdb.DuckDBPyConnection | None = None, persist: bool = False, schema: str = "rankql"
) -> None:
    """Make the metrics known to a DuckDB connection, by default to that of `duckdb.sql`.

    They are TEMP macros: the database stays untouched, may be read-only, and they end with the
    connection. A `con.cursor()` is a connection of its own: register it too. With `persist` they
    are written into `schema` of the current database, to be called as `rankql.ndcg(...)` by all
    who open it, cursors and read-only readers included; where it is attached, after USE. Doing it
    again changes nothing. A function of yours that has the name of one of ours is left as it is,
    and a RankqlError names it.

    >>> import duckdb
    >>> con = duckdb.connect()
    >>> register(con)
    >>> con.sql("SELECT ndcg(rel, pos) FROM (VALUES (1, 2), (0, 1)) AS t (rel, pos)").fetchall()
    [(0.6309297535714575,)]
    """
    import duckdb  # here, so that who only reads the texts need not wait for it

    if elsewhere(con):
        raise not_duckdb(con)
    con = duckdb.connect(":default:") if con is None else con
    text = sql()
    _refuse_foreign(con, text, schema if persist else None)
    if persist:
        text = f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};\n{_in_schema(text, schema)}"
    else:
        text = _CREATE.sub(r"CREATE OR REPLACE TEMP MACRO \1", text)
    try:
        con.execute(text).fetchall()
    except duckdb.InvalidInputException as error:
        if "read-only" not in str(error):
            raise
        raise RankqlError(
            "the database is read-only, so nothing can be persisted in it; "
            "use register(con), whose TEMP macros work there"
        ) from error


def elsewhere(con: object) -> bool:
    """Is it a connection to another database than DuckDB?"""
    import duckdb

    return con is not None and con is not duckdb and not isinstance(con, duckdb.DuckDBPyConnection)


def not_duckdb(con: object) -> RankqlError:
    """The error of what works in DuckDB alone."""
    kind = type(con)
    return RankqlError(
        f"con must be a connection of DuckDB here, not {kind.__module__}.{kind.__name__}; "
        "evaluate, and compare and gate by it, take other databases too"
    )


def _refuse_foreign(con: duckdb.DuckDBPyConnection, text: str, schema: str | None) -> None:
    """Refuse to replace or to hide a function that is not ours.

    The comment of a metric tells that it is ours, and so is a helper that lies beside such a one.
    """
    comments = {name: comment.replace("''", "'") for name, comment in _COMMENT.findall(text)}
    functions = con.execute(
        """
        SELECT DISTINCT lower(function_name), comment, concat_ws('.', database_name, schema_name),
               function_name
        FROM duckdb_functions()
        WHERE list_contains($names, lower(function_name)) AND CASE
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
        {"names": _CREATE.findall(text), "schema": schema},
    ).fetchall()
    homes = {home for name, comment, home, _ in functions if comments.get(name, "") == comment}
    for name, comment, home, theirs in functions:
        if comment != comments[name] if name in comments else home not in homes:
            action = "replaced" if schema else "hidden"
            raise RankqlError(
                f"your function {home}.{theirs} would be {action} by rankql's {name}; "
                "rename or drop it, or use register(con, persist=True, schema=...) "
                "with a schema of its own"
            )


def _in_schema(text: str, schema: str) -> str:
    """Put our macros, and their calls of each other, into a schema. (Texts hold no such call.)"""
    names = "|".join(sorted(_CREATE.findall(text), key=len, reverse=True))
    call = re.compile(rf"(?<![\w.])({names})(?=\()")
    comment = re.compile(r"^(COMMENT ON MACRO (?:TABLE )?)(\w+)", re.MULTILINE)
    text = call.sub(lambda name: f"{quoted(schema)}.{name[0]}", text)
    return comment.sub(lambda head: f"{head[1]}{quoted(schema)}.{head[2]}", text)

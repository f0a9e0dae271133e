"""Tables and views by name: those of a connection, and those of a DuckDB file."""

from __future__ import annotations

import os
from typing import NamedTuple

import duckdb

from rankql.errors import RankqlError
from rankql.macros import quote
from rankql.sources.files import DATA, suffix_of

# The tables and views whose name a text ends with.
_CANDIDATES = """
    FROM (
        SELECT database_name, schema_name, table_name AS name, NOT temporary AS permanent
        FROM duckdb_tables()
        UNION ALL SELECT database_name, schema_name, view_name, false FROM duckdb_views()
    ) WHERE ends_with(lower($name), lower(name)) ORDER BY ALL
"""
# The tables and views of a database.
TABLES_OF = """
    SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_catalog = ? ORDER BY ALL
"""
# The kinds of databases, and what holds for the connection. A join takes longer to plan.
_DATABASES = """
    SELECT database_name, type, current_setting('preserve_insertion_order'),
        current_database(), current_schema()
    FROM duckdb_databases()
"""


class CatalogTable(NamedTuple):
    """A table or view, and the kind of its database, such as duckdb or sqlite."""

    # Its database, schema and name.
    path: tuple[str, str, str]
    # It is neither a view nor temporary.
    permanent: bool
    kind: str
    # Do copied rows keep their order? A setting of the connection.
    in_order: bool

    @property
    def sql(self) -> str:
        """Its full name, quoted."""
        return ".".join(map(quote, self.path))


def find_table(con: duckdb.DuckDBPyConnection, name: str, label: str = "") -> CatalogTable | None:
    """Find a table or view by name, optionally with its schema and database.

    Temporary tables come first, then those of the current schema and database.
    """
    rows = con.execute(_CANDIDATES, {"name": name}).fetchall()
    databases = {row[0]: row[1:] for row in con.execute(_DATABASES).fetchall()} if rows else {}
    tables: dict[int, list[CatalogTable]] = {}
    for database, schema, table, permanent in rows:
        if database not in databases:
            continue
        kind, in_order, *current = databases[database]
        names = [table, f"{schema}.{table}", f"{database}.{schema}.{table}"]
        if schema in ("main", "public"):  # which a name may leave out, here and in Postgres
            names.append(f"{database}.{table}")
        if name.lower() in map(str.lower, names):
            near = 1 if schema == current[1] else 2
            distance = 0 if database == "temp" else near if database == current[0] else 3
            found = CatalogTable((database, schema, table), permanent, kind, in_order)
            tables.setdefault(distance, []).append(found)
    nearest = tables[min(tables)] if tables else []
    if label and len(nearest) > 1:
        places = " or ".join(".".join(each.path) for each in nearest)
        raise RankqlError(f"{label}: {name!r} may be {places}. Name the schema too")
    return nearest[0] if nearest else None


def split_database(name: str) -> tuple[str, str] | None:
    """Split path:table into a DuckDB file and its table; None if it is another name."""
    path, colon, table = name.rpartition(":") if not os.path.isfile(name) else (name, "", "")
    path = os.path.expanduser(path if colon else name)
    if (not colon and suffix_of(path) in DATA) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return (path, table) if file.read(12)[8:] == b"DUCK" else None

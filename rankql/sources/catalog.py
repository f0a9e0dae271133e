"""Find tables and views of a connection by name."""

from __future__ import annotations

import os
from dataclasses import dataclass

import duckdb

from rankql.errors import RankqlError
from rankql.macros import quote

# The tables and views whose name a text ends with.
_CANDIDATES = """
    FROM (
        SELECT database_name, schema_name, table_name AS name, NOT temporary AS permanent
        FROM duckdb_tables()
        UNION ALL SELECT database_name, schema_name, view_name, false FROM duckdb_views()
    ) WHERE ends_with(lower($name), lower(name))
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
# The schemas that a name may leave out, here and in Postgres.
_DEFAULT_SCHEMAS = ("main", "public")


@dataclass(frozen=True)
class CatalogTable:
    """A table or view, its place, and the kind of its database, such as duckdb or sqlite."""

    database: str
    schema: str
    name: str
    # It is neither a view nor temporary.
    permanent: bool
    kind: str
    # Do copied rows keep their order? A setting of the connection.
    in_order: bool
    # The database and the schema in use on the connection.
    current: tuple[str, str]

    @property
    def path(self) -> tuple[str, str, str]:
        """Its database, schema and name."""
        return self.database, self.schema, self.name

    @property
    def sql(self) -> str:
        """Its full name, quoted."""
        return ".".join(map(quote, self.path))

    @property
    def distance(self) -> int:
        """Temporary tables come first, then those of the current schema and database."""
        if self.database == "temp":
            return 0
        if self.database != self.current[0]:
            return 3
        return 1 if self.schema == self.current[1] else 2

    def is_called(self, name: str) -> bool:
        """Is this its name, perhaps with its schema and database?"""
        names = [self.name, f"{self.schema}.{self.name}", ".".join(self.path)]
        if self.schema in _DEFAULT_SCHEMAS:
            names.append(f"{self.database}.{self.name}")
        return name.lower() in map(str.lower, names)


def split_database(name: str) -> tuple[str, str] | None:
    """Split path:table into a DuckDB file and its table; None if it is another name."""
    path, colon, table = name.rpartition(":")
    if not colon:
        path, table = name, ""
    path = os.path.expanduser(path)
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return (path, table) if file.read(12)[8:] == b"DUCK" else None


def find_table(con: duckdb.DuckDBPyConnection, name: str, label: str = "") -> CatalogTable | None:
    """Find a table or view by name, optionally with its schema and database."""
    rows = con.execute(_CANDIDATES, {"name": name}).fetchall()
    databases = con.execute(_DATABASES).fetchall() if rows else []
    kinds = {
        database: (kind, in_order, (*current,)) for database, kind, in_order, *current in databases
    }
    tables = [
        CatalogTable(database, schema, table, permanent, *kinds[database])
        for database, schema, table, permanent in rows
        if database in kinds
    ]
    tables = [table for table in tables if table.is_called(name)]
    least = min((table.distance for table in tables), default=0)
    nearest = [table for table in tables if table.distance == least]
    nearest.sort(key=lambda table: table.path)
    if label and len(nearest) > 1:
        names = " or ".join(".".join(each.path) for each in nearest)
        raise RankqlError(f"{label}: {name!r} may be {names}. Name the schema too")
    return nearest[0] if nearest else None

"""Find tables and views of a connection by name."""

from __future__ import annotations

import duckdb

from rankql.errors import RankqlError
from rankql.macros import literal


def find_table(
    con: duckdb.DuckDBPyConnection, name: str, label: str = ""
) -> tuple[str, str, str, bool] | None:
    """Find a table or view by name, optionally with its schema and database.

    Return database, schema, name, and whether it is a permanent table.
    """
    rows = con.execute(
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
    matches = [row[:3] for row in rows if row[4] == rows[0][4]]
    if label and len(matches) > 1:
        names = " or ".join(map(".".join, matches))
        raise RankqlError(f"{label}: {name!r} may be {names}. Name the schema too")
    return rows[0][:4]


def database_type(con: duckdb.DuckDBPyConnection, database: str) -> str:
    """The kind of an attached database, such as duckdb or sqlite."""
    sql = f"SELECT type FROM duckdb_databases() WHERE database_name = {literal(database)}"
    return str(con.execute(sql).fetchall()[0][0])

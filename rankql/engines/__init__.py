"""Where DuckDB is not: Spark, ClickHouse, Postgres, SQLite, and the SQL of other engines.

Here is also the public `evaluate`, which picks DuckDB or another database. It is imported by
diagnostics, decisions and cli; it imports evaluation and what is below.
"""

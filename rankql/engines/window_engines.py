"""Engines that get window queries, and how they differ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """An engine that runs window queries."""

    name: str
    # The name in sqlglot.
    dialect: str
    # Whether tests run its queries.
    executed: bool = False
    # An expression that raises an error. Every engine fails on a text cast to a number.
    error: str = "CAST({} AS DOUBLE)"


ENGINES = {
    "duckdb": Engine("DuckDB", "duckdb", executed=True, error="error({})"),
    "postgres": Engine("Postgres", "postgres", executed=True),
    "datafusion": Engine("DataFusion", "postgres", executed=True),
    "snowflake": Engine("Snowflake", "snowflake"),
    "bigquery": Engine("BigQuery", "bigquery", error="error({})"),
    "databricks": Engine("Databricks", "databricks", error="raise_error({})"),
    "trino": Engine("Trino", "trino", error="fail({})"),
    "redshift": Engine("Redshift", "redshift"),
}

"""The engines that have a window form, and what differs between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """An engine, and the little that is not the same for all."""

    name: str
    # As sqlglot calls it.
    dialect: str
    # Do the tests run its queries?
    executed: bool = False
    # How a query fails with a message; a text that is not a number is an error everywhere.
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

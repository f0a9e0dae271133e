"""Where DuckDB is not: Spark, ClickHouse, Postgres, and the SQL of other engines.

`evaluate` is the public function; `postgres` fetches its tables where they are in Postgres.
`windows` writes a query for engines without lists. `translation`
writes the macros in the SQL of an engine that is described by a `Target` (`clickhouse_target`,
`spark_target`). `spark` and `partitions` evaluate in Spark; `dialects` is `translate`. It imports
evaluation and what is below; diagnostics, decisions, cli and `rankql.spark` import it.
"""

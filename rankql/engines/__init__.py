"""Engines other than DuckDB: Spark, ClickHouse, Postgres, and SQL for warehouses.

`translate` is in `dialects`. `translation` writes macros in the SQL of an engine with lists, which
a `Target` describes (`spark_target`, `clickhouse_functions`); `windows` writes a window query for
engines without lists. `spark` has the metrics as columns; `spark_evaluation` and `partitions`
evaluate complete runs in Spark, where the values of a `spark_result` stay. It imports evaluation
and what is below it; diagnostics, decisions, cli and `rankql.spark` import it.
"""

"""Engines other than DuckDB: Spark, Postgres, and SQL for warehouses.

`translate` is in `dialects`. `translation` writes macros in Spark's SQL, which `spark_target`
describes; `windows` writes a window query for engines without lists. `spark` has the metrics as
columns; `spark_evaluation` and `partitions` evaluate complete runs in Spark, where the values of a
`spark_result` stay. It imports evaluation and what is below it; diagnostics, decisions, cli and
`rankql.spark` import it.
"""

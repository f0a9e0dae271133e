"""Engines other than DuckDB: Spark, Postgres, and SQL for warehouses.

`translate` is in `dialects`. It parses queries and macros into `sql_trees`; `translation` writes
them in the SQL of Spark, `windows` as a window query for engines without lists. `spark` has the
metrics as columns; `spark_evaluation` and `partitions` evaluate complete runs in Spark, where their
values stay. It imports evaluation and what is below it; diagnostics, decisions, cli and
`rankql.spark` import it.
"""

"""Engines other than DuckDB: Spark, and databases with the metrics as functions of their own.

`native` has the files of these functions, and evaluations that call them. `translate` is in
`dialects`. It parses queries and macros into `sql_trees`; `translation` writes them in the SQL of
Spark. `spark` has the metrics as columns; `spark_evaluation` and `partitions` evaluate complete
runs in Spark, where their values stay. It imports evaluation and what is below it; diagnostics,
decisions, cli and `rankql.spark` import it.
"""

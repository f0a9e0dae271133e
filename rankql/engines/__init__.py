"""Engines other than DuckDB: Spark, and databases with the metrics as functions of their own.

`native` has the files of these functions, evaluations that call them, and `translate`. That parses
queries and macros into `sql_trees`, and `translation` writes them in the SQL of Spark, as for the
columns of `rankql.spark`. `textbook` has the metrics as plain SQL, which needs no functions.
`spark_evaluation` and `partitions` evaluate complete runs in Spark, where their values stay. It
imports evaluation and what is below it; diagnostics, decisions, cli and `rankql.spark` import it.
"""

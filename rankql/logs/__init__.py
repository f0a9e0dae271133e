"""Labels from logs of events: grades, agreement, propensities, debiasing, interleaving.

Functions of a whole table run the SQL macro of the same name in DuckDB (`table_macros`). The others
are polars expressions. It imports core, shapes and features; decisions and cli import it.
"""

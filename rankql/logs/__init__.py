"""From logs of events to labels: grades, agreement, propensities, debiasing, interleaving.

Functions of a whole table run the SQL macro of the same name in DuckDB (`table_macros`); the
others are polars expressions. It imports expressions, sources and what is below; no other package
imports it.
"""

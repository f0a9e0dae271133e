"""Why a value is what it is, and whether to trust it: check, explain, limits, correlate.

It is imported by output and cli; it imports evaluation and what is below. Its functions work in
DuckDB only; of other databases, `evaluate` alone reads the tables.
"""

"""The metrics as polars expressions, one module for each file of `sql/`.

A metric is written by hand here and in SQL, and the cases in `tests/cases` prove them equal. It is
imported by logs; it imports errors, text and registry, and never duckdb.
"""

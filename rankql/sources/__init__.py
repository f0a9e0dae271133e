"""Files, tables and frames as typed columns with roles, in DuckDB.

What a user passes as a run, as judgments or as attributes becomes a `Table`, its columns recognised
as query, item, grade, score or position. It is imported by evaluation and all above; it imports
errors, macros and registry.
"""

"""Diagnostics: whether to trust a value, and why it is what it is.

`check` returns the `findings` of its own checks and those in `row_findings`. `explain` has the SQL
of `contributions`. `funnel` and `monitor` are a module each. All of them run in DuckDB. It imports
engines, evaluation and everything below; output and cli import it.
"""

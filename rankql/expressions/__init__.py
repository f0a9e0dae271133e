"""The metrics as polars expressions, one module for each family of metrics in `sql/`.

Metrics are written here and in SQL; the cases in `tests/cases` prove them equal. `variants` makes
the list and score forms, which `forms` has, and `checked_columns` checks values. It imports errors,
text and registry, never duckdb. Evaluation, logs and decisions import it.
"""

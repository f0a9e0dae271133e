"""The metrics as polars expressions, one module for each family of metrics in `sql/`.

Metrics of a graded ranking are written here and in SQL; the cases in `tests/cases` prove them
equal. Metrics of a catalogue and of the items shown run their macro: `in_duckdb`. `variants` makes
the list and score forms, which `forms` has, and `checked_columns` checks values. It imports errors,
text, registry and sources. Logs and decisions import it.
"""

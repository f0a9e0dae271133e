"""The metrics as polars expressions, one module for each family of metrics in `sql/`.

Most are written here and in SQL; the cases in `tests/cases` prove them equal. Metrics of subtopics
and of pairs of sets, labels, and means over the orders of tied items run their macro: `in_duckdb`.
polars would take longer. `variants` makes the list and score forms, which `forms` has, and
`checked_columns` checks values. It imports errors, text, registry and sources. Logs and decisions
import it.
"""

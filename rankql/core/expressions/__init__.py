"""The metrics as polars expressions, one module for each family of metrics in `sql/`.

Most are written here and in SQL; the cases in `tests/cases` prove them equal. Metrics of subtopics
and of pairs of sets, labels, and means over the orders of tied items run their macro: `in_duckdb`.
polars would take longer. `variants` makes the list and score forms, which `forms` has, and
`checked_columns` checks values. It imports the core before it. Logs and decisions
import it.
"""

"""Diagnostics: whether to trust a value, and why it is what it is.

`check` runs the list of `evaluation.checks` and `row_checks` on its `checked_tables`. `monitor`
watches the `daily_values` of your own too. `explain`, `funnel` and `min_scores` are a module each.
All of them run in DuckDB. It imports engines, evaluation and everything below; output and cli
import it.
"""

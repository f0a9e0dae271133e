"""Diagnostics: whether to trust a value, and why it is what it is.

`check` returns the `findings` of its own checks and those in `check_rows`, which read the tables of
`check_data`. `explain` has the SQL of `contributions`. `funnel` returns a `funnel_result`, and
`limits` a `limits_result`, with `sensitivity`. `correlate` compares rankings, `monitor` days. All
of them run in DuckDB. It imports engines, evaluation and everything below; output and cli import
it.
"""

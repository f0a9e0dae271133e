"""Diagnostics: whether to trust a value, and why it is what it is.

`check` returns the `findings` of the lists of checks in `check_columns` and `check_rows`, which
read the tables of `check_data`. `explain` returns an `explanation`, from the SQL in
`contributions`. `funnel` returns a `funnel_result`, and `limits` a `limits_result`, from `unjudged`
and `sensitivity`. `correlate` compares rankings, `monitor` days. All of them run in DuckDB. It
imports engines, evaluation and everything below; output and cli import it.
"""

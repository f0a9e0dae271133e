"""Evaluation: from tables and metrics to one SQL query, and from its rows to a `Result`.

`evaluate` runs an evaluation from start to end: it resolves metrics and conventions, learns the
`facts` about the data, and chooses a `plan`. `query` writes the `steps` of the SQL from
the sources, the rankings of `ctes` and `metric_columns`, with `packed` and `packed_metrics` for
grades that are few whole numbers.
`validation` and `overlap` check the data. `result` holds the values and its `meta`, a
`means_result` what is displayed of them. `summary` averages them, in partitions from their
`moments`, with the intervals of `stats`; `result_checks` refuses values and weights,
`combining` joins results. `values` reads tables of values per query; `conversion` is `convert`. It
imports sources and what is below; is imported by engines, diagnostics, decisions, output and cli.
`plot` loads output when it is called, like the other `plot` and `save` methods: the only imports
that point upwards.
"""

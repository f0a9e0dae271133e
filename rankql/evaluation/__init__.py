"""From sources and metrics to one SQL query, and from its rows to a `Result`.

`execution` runs an evaluation from start to end. `planning` resolves metrics and conventions.
`query` writes the SQL from its `ctes` (sources, rankings) and `metric_columns`, with `packed` and
`packed_metrics` for few whole grades, and `bounds` for unjudged items. `validation`,
`column_checks` and `overlap` check the data and word their errors and notes. `result` and `summary`
hold and average the values, `intervals` has the confidence intervals, `combining` joins results.
`values` reads tables of values per query; `conversion` is `convert`. It imports sources and what is
below; engines, diagnostics, decisions, output and cli import it. `Result.plot` loads output when it
is called: with the other `plot` and `save` methods the one import that points upwards.
"""

"""Evaluation: from tables and metrics to values per query, and from these to a `Result`.

`evaluate` makes a `request`, reads the inputs (`collapse` keeps the best chunk of each document)
and `resolve`s metrics and conventions. `reduce` writes the query that gives one row per ranking,
with the packed sums of `top`; `columns` has the metrics as columns of polars. `readable` writes the
query of named `steps` that `result.sql` shows, a macro per metric. `compute` runs both, after the
`checks` of the data, which read the counters of `overlap`. `spelling` notes ids in another form,
`threshold` grades that a binary metric may misread. `result` holds the values, and
`means_result` what is displayed of them. `means` averages them, also in partitions, with the
intervals of `stats`; `result_checks` refuses values and weights, `judge` and `judged_values`
correct means by a judge, `combine` joins results, `values` reads tables of values per query, and
`convert` writes runs and judgments in other formats. It imports sources and what is below; is
imported by engines, diagnostics, decisions, output and cli. `plot` loads output when it is called,
like the other `plot` and `save` methods: the only imports that point upwards.
"""

"""The metrics as polars expressions, one module for each family of metrics in `sql/`.

A metric is written by hand here and in SQL, and the cases in `tests/cases` prove them equal.
`variants` makes the forms for lists and scores and checks options; `columns` checks the values;
`ndcg_groups` is a faster nDCG over the groups of a frame. It imports errors, text and registry,
never duckdb. Evaluation, logs and decisions import it.
"""

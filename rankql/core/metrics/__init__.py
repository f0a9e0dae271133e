"""Metrics, conventions and options as plain data, and the SQL macros.

`macros` has the SQL text and `register`. `all_metrics` has one record per metric, and
`metric_record` defines a record, its parameters, and the metric that is asked for. Definition,
columns and parameters of a record are those of its macro. `parse` turns 'nDCG(gain=exp2)@10' into a
metric and checks its options. `conventions` has the conventions and the profiles of other tools.

It imports base; it is imported by all packages above. Importing it loads neither polars nor duckdb,
so that `rankql --help` starts fast.
"""

"""Metrics, conventions and options as plain data.

`all_metrics` has one record per metric, and `metric_record` defines a record, its parameters, and
the metric that is asked for. Definition, columns and parameters of a record are those of its macro.
`parse` turns 'nDCG(gain=exp2)@10' into a metric and checks its options. `conventions` has the
conventions and the profiles of other tools, `column_names` all recognised names and what they mean.
It imports errors and macros; it is imported by all packages above.
Importing it loads neither polars nor duckdb, so that `rankql --help` starts fast.
"""

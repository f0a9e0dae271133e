"""Metrics, conventions and options as plain data.

`relevance`, `order` and `beyond` have one record per metric, `metric_record` defines a record, and
`all_metrics` lists them. Definition, columns and parameters of a record are those of its macro;
`parameters` has the parameters by name. `parse` turns 'nDCG(gain=exp2)@10' into a
`requested_metric` and checks its options. `conventions` has the conventions and the profiles of
other tools, `argument_checks` the checks of Python arguments. It imports errors and macros; it is
imported by all packages above.
Importing it loads neither polars nor duckdb, so that `rankql --help` starts fast.
"""

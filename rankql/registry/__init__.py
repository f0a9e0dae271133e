"""What metrics, conventions and options there are, as plain data.

`relevance`, `order` and `beyond` hold one record per metric, `metric_record` says what a record
is, `all_metrics` lists them. `parse` reads 'nDCG(gain=exp2)@10' into a `requested_metric` and
checks its options. `conventions` has the conventions and the profiles of other tools;
`argument_checks` the checks of Python arguments. It imports errors and macros, and every package
above may import it. Importing it loads neither polars nor duckdb, so `rankql --help` starts at
once.
"""

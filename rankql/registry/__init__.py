"""What metrics, conventions and options there are, as plain data.

`relevance`, `order` and `beyond` hold one record per metric, `records` what a record is, `metrics`
all of them, `parse` the parsing of 'nDCG(gain=exp2)@10' into a `metric`, `conventions` the
conventions and the profiles of other tools, `options` the checks of arguments. Every package above
may import it; it imports errors, macros and text, and neither polars nor duckdb, so that `rankql
--help` starts at once.
"""

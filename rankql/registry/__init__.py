"""What metrics, conventions and options there are, as plain data.

One record per metric, the parsing of 'nDCG(gain=exp2)@10', the conventions and the profiles of
other tools, the checks of arguments. Every package above may import it; it imports errors, macros
and text, and neither polars nor duckdb, so that `rankql --help` starts at once.
"""

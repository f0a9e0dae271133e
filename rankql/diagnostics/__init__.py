"""Why a value is what it is, and whether to trust it: check, explain, limits, correlate.

`check` returns `findings`: `check_columns` and `check_rows` are lists of checks, each with its SQL,
of the tables in `check_data`. `explain` returns an `explanation`,
from the SQL in `contributions`. `limits` puts together `unjudged`, `sensitivity` and duplicates in
`limits_result`. All of them work in DuckDB only; `evaluate`, `compare` and `gate` also read tables
of other databases. It imports engines, evaluation and what is below; output and cli import it.
"""

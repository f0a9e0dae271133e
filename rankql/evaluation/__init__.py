"""From sources and metrics to one SQL query, and from its rows to a `Result`.

Every metric of every query of every run is computed in DuckDB. It is imported by logs, engines,
diagnostics, decisions and cli; it imports sources and what is below. `Result.plot` loads output
when it is called: with the other `plot` and `save` methods the one import that points upwards.
"""

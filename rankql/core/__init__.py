"""What an evaluation of tidy tables, a macro and a polars expression need, without extras.

- `base`: errors, numbers and tables as text, files, what all results share, names of columns;
- `stats`: samples, significance tests, intervals;
- `metrics`: the SQL macros, one record per metric, conventions;
- `tables`: files and frames in DuckDB, with typed roles;
- `expressions`: the metrics as polars expressions;
- `evaluation`: values per query and their means.

Each imports only those before it, and no extra: `base.doors` finds what opens the rest. All other
packages import core.
"""

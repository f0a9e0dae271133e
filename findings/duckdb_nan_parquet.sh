#!/usr/bin/env bash
# DuckDB 2.0.1, pyarrow 26.0.1, polars 2.1.0
# A good guess: a column of numbers answers a condition the same in a Parquet file as in a table. NaN is above all numbers in
# DuckDB, so x <= 10 is false of it, and isnan(x) finds it.
# What happens: of a file that pyarrow or polars wrote, DuckDB takes the answer from the least and highest value in the file's
# statistics, which leave NaN out. Then NaN is at most 10, and isnan() finds none: a mean of what is at most 10 is nan. Of a
# file that DuckDB wrote, the answers are those of a table. isfinite() is not answered from statistics.
# Output in November 2026:
#   table: 2 of 3 are at most 10, 1 is NaN, their mean 1.5, 2 finite
#   pyarrow: 3 of 3 are at most 10, 0 is NaN, their mean nan, 2 finite
#   polars: 3 of 3 are at most 10, 0 is NaN, their mean nan, 2 finite
#   DuckDB: 2 of 3 are at most 10, 1 is NaN, their mean 1.5, 2 finite
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0
cat > "$folder/conditions.py" <<'PYTHON'
import sys
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

folder, rows = sys.argv[1], pa.table({"x": [1.0, 2.0, float("nan")]})
paths = {tool: f"{folder}/{tool}.parquet" for tool in ("pyarrow", "polars", "DuckDB")}
con = duckdb.connect()
con.execute(f"CREATE TABLE x AS FROM rows; COPY x TO '{paths['DuckDB']}' (FORMAT parquet)")
pq.write_table(rows, paths["pyarrow"])
pl.from_arrow(rows).write_parquet(paths["polars"])
found = {}
for name, source in {"table": "x", **{tool: f"'{path}'" for tool, path in paths.items()}}.items():
    def ask(what, condition):
        return con.execute(f"SELECT {what} FROM {source} WHERE {condition}").fetchall()[0][0]

    low, nan, finite = (ask("count(*)", condition) for condition in ("x <= 10", "isnan(x)", "isfinite(x)"))
    mean = ask("avg(x)", "x <= 10")
    found[name] = low, nan, str(mean), finite
    print(f"{name}: {low} of 3 are at most 10, {nan} is NaN, their mean {mean}, {finite} finite")
right, wrong = (2, 1, "1.5", 2), (3, 0, "nan", 2)
assert found == {"table": right, "pyarrow": wrong, "polars": wrong, "DuckDB": right}
PYTHON
"$folder/venv/bin/python" "$folder/conditions.py" "$folder"

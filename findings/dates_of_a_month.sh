#!/usr/bin/env bash
# polars 2.1.0, DuckDB 2.0.1, pandas 3.1.1
# A good guess: three readers of one CSV file of daily means find the same days, or refuse dates that can be read in two ways.
# What happens: while no day of the file is above 12, polars (try_parse_dates, and str.to_date without a format) and DuckDB take 01/03/2026
#   for the first of March, and pandas for the third of January. The first day above 12 in month-first dates changes what DuckDB finds in all
#   rows, so a log that grows moves its old days; polars keeps the column as text, and str.to_date(strict=False) swaps the early days of each
#   month and drops the rest.
# Output in November 2026: early rows: polars 2026-03-01, DuckDB 2026-03-01, pandas 2026-01-03; with 01/28/2026: polars text, DuckDB
#   2026-01-03, str.to_date 2026-03-01 and None
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q polars==2.1.0 duckdb==2.0.1 pandas==3.1.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from datetime import date
from pathlib import Path
import duckdb
import pandas as pd
import polars as pl

early = "day,mean\n" + "".join(f"0{month}/0{day}/2026,0.8\n" for month in (1, 2) for day in (3, 4))
Path("early.csv").write_text(early)
Path("all.csv").write_text(early + "01/28/2026,0.8\n")


def first(name):
    by_polars = pl.read_csv(name, try_parse_dates=True)["day"][0]
    by_duckdb = duckdb.sql(f"SELECT day FROM '{name}'").fetchall()[0][0]
    by_pandas = pd.to_datetime(pd.read_csv(name)["day"]).dt.date[0]
    return by_polars, by_duckdb, by_pandas


march, january = date(2026, 3, 1), date(2026, 1, 3)
found = first("early.csv")
print("early rows: polars {}, DuckDB {}, pandas {}".format(*found))
assert found == (march, march, january), found
found = first("all.csv")
print("with 01/28/2026: polars {}, DuckDB {}, pandas {}".format(*found))
assert found == ("01/03/2026", january, january), found
lax = pl.read_csv("all.csv")["day"].str.to_date(strict=False)
print("str.to_date(strict=False):", lax[0], "and", lax[-1])
assert lax[0] == march and lax[-1] is None, lax
PYTHON

#!/usr/bin/env bash
# duckdb 1.5.5, duckdb-extension-ducklake 1.5.5
# A good guess: a DuckLake stores every macro that DuckDB itself stores.
# What happens: a default of a number is stored, a default of NULL is refused when the transaction ends, and comments are refused.
# Output in November 2026: duckdb 1.5.5: in memory 1; in DuckLake with k := 1: 2; with k := NULL: unsupported type "NULL"; COMMENT: Unsupported catalog type
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q duckdb==1.5.5 duckdb-extension-ducklake==1.5.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import re
from pathlib import Path
import duckdb
import duckdb_extension_ducklake
(extension,) = Path(duckdb_extension_ducklake.__file__).parent.rglob("*.duckdb_extension")
con = duckdb.connect()
con.execute(f"LOAD '{extension}'; ATTACH 'ducklake:lake.ducklake' AS lake (DATA_PATH 'data')")
con.execute("CREATE MACRO memory.f(x, k := NULL) AS x + coalesce(k, 0)")
con.execute("CREATE MACRO lake.f(x, k := 1) AS x + k")
((own, stored),) = con.execute("SELECT memory.f(1), lake.f(1)").fetchall()
refused = []
for sql, words in (
    ("CREATE MACRO lake.g(x, k := NULL) AS x + coalesce(k, 0)", 'unsupported type "NULL"'),
    ("COMMENT ON MACRO lake.f IS 'adds'", "Unsupported catalog type"),
):
    try:
        con.execute(sql)
        refused.append("stored")
    except duckdb.Error as error:
        refused.append(words if re.search(words, str(error)) else str(error))
print(f"duckdb {duckdb.__version__}: in memory {own}; in DuckLake with k := 1: {stored}; "
      f"with k := NULL: {refused[0]}; COMMENT: {refused[1]}")
assert (own, stored) == (1, 2)
assert refused == ['unsupported type "NULL"', "Unsupported catalog type"]
PYTHON

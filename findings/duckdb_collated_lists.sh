#!/usr/bin/env bash
# duckdb 1.4.3 and 2.0.1
# A good guess: lists of a column with the collation NOCASE compare their elements either by it or byte by byte, whatever the
# function, and a cast to VARCHAR takes the collation away. So recall by list_contains and by list_intersect is the same number.
# What happens: in 1.4.3 no function of lists knows the collation, and the cast removes it from DISTINCT. In 2.0.1 list_contains
# finds 'ACME' in a list of 'Acme' and 'acme', also after a cast of the list, while list_distinct and list_intersect of the same
# list go by bytes; and DISTINCT of the cast column counts one brand where 1.4.3 counts two. Only the text of the list, cast back,
# has no collation.
# Output in November 2026:
#   1.4.3: distinct of cast 2, list_distinct 2, list_contains False, of cast False, of text False, list_intersect 0
#   2.0.1: distinct of cast 1, list_distinct 2, list_contains True, of cast True, of text False, list_intersect 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/lists.py" <<'PYTHON'
import sys

import duckdb

con = duckdb.connect()
con.execute("CREATE TABLE shown (brand VARCHAR COLLATE NOCASE)")
con.execute("INSERT INTO shown VALUES ('Acme'), ('acme')")
values = {
    "distinct of cast": "count(DISTINCT CAST(brand AS VARCHAR))",
    "list_distinct": "len(list_distinct(list(brand)))",
    "list_contains": "list_contains(list(brand), 'ACME')",
    "of cast": "list_contains(CAST(list(brand) AS VARCHAR[]), 'ACME')",
    "of text": "list_contains(CAST(CAST(list(brand) AS VARCHAR) AS VARCHAR[]), 'ACME')",
    "list_intersect": "len(list_intersect(list(brand), ['ACME']))",
}
row = con.execute(f"SELECT {', '.join(values.values())} FROM shown").fetchone()
seen = ", ".join(f"{name} {value}" for name, value in zip(values, row))
print(f"{duckdb.__version__}: {seen}")
expected = {"1.4.3": (2, 2, False, False, False, 0), "2.0.1": (1, 2, True, True, False, 0)}
sys.exit(row != expected[duckdb.__version__])
PYTHON
for version in 1.4.3 2.0.1; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install -q "duckdb==$version"
    "$folder/$version/bin/python" "$folder/lists.py"
done

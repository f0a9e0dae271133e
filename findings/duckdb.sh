#!/usr/bin/env bash
# DuckDB 2.0.1 and 1.4.3
# A good guess: a table macro that reads the table whose name it gets, by query_table(users), reads that table, whatever the
# steps after WITH in the macro are called. If not, a name with its schema does.
# What happens: query_table takes a step that stands before for the table, also if the name has a schema, with which plain
# SQL reads the table. A caller whose table has the name of a step gets other numbers without a word.
# Output in November 2026:
#   2.0.1: everyone 5 users, 2 active; active 2 users, 2 active; main.active 2 users, 2 active
#   1.4.3: everyone 5 users, 2 active; active 2 users, 2 active; main.active 2 users, 2 active
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat > "$folder/reach.py" <<'PYTHON'
import duckdb
con = duckdb.connect()
con.execute("""
    CREATE MACRO reach(log, users) AS TABLE
        WITH active AS (SELECT DISTINCT name FROM query_table(log))
        SELECT count(*) AS users, count(active.name) AS active
        FROM query_table(users) AS known LEFT JOIN active ON active.name = known.name;
    CREATE TABLE log AS SELECT unnest(['ann', 'bo']) AS name;
    CREATE TABLE everyone AS SELECT unnest(['ann', 'bo', 'cy', 'di', 'ed']) AS name;
    CREATE TABLE active AS FROM everyone;
""")
plain = "WITH active AS (SELECT 1) SELECT count(*) FROM main.active"
assert con.execute(plain).fetchone() == (5,)
counts = {x: con.execute(f"FROM reach('log', '{x}')").fetchone() for x in ("everyone", "active", "main.active")}
print(f"{duckdb.__version__}:", "; ".join(f"{x} {n} users, {m} active" for x, (n, m) in counts.items()))
assert counts == {"everyone": (5, 2), "active": (2, 2), "main.active": (2, 2)}
PYTHON
for version in 2.0.1 1.4.3; do
    "$folder/venv/bin/pip" install -q "duckdb==$version"
    "$folder/venv/bin/python" "$folder/reach.py"
done

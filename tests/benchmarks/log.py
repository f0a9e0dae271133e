"""A log in Parquet -> grades -> nDCG by user, in one SQL statement, against a plain GROUP BY of it.

    python tests/benchmarks/log.py [--rows 100000000] [--users 1000000] [--memory 4GB] [--repeat 3]
                                   [--folder DIR]

The statements run in turn on a connection of their own whose memory is limited, so that what does
not fit spills to disk. The ratio is to be 3 at most.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import duckdb
from data import write

import rankql

LOG = """
    SELECT CAST(hash(i) % {users} AS INTEGER) AS "user",
           CAST(hash(i * 3 + 1) % 200 AS INTEGER) AS item,
           CAST(hash(i * 3 + 1) % 20 + 1 AS INTEGER) AS pos,
           CASE WHEN hash(i * 7) % 100 < 70 THEN 'view' WHEN hash(i * 7) % 100 < 85 THEN 'cart'
                WHEN hash(i * 7) % 100 < 90 THEN 'purchase' END AS event
    FROM range({rows}) AS r (i)"""
GRADES = "MAP {'view': 1, 'cart': 2, 'purchase': 3}"
STATEMENTS = {
    "plain GROUP BY": """SELECT sum(n) FROM (
        SELECT "user", item, count(*) AS n FROM {log} GROUP BY "user", item)""",
    "grades": f"""SELECT avg(rel) FROM (
        SELECT "user", item, graded(event, {GRADES}) AS rel FROM {{log}} GROUP BY "user", item)""",
    "grades, nDCG by user": f"""SELECT avg(value) FROM (
        SELECT "user", ndcg(rel, pos, 10) AS value FROM (
            SELECT "user", item, min(pos) AS pos, graded(event, {GRADES}) AS rel
            FROM {{log}} GROUP BY "user", item)
        GROUP BY "user")""",
}


def main() -> None:
    """Print a line of Markdown for each statement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        path = folder / f"log-{given.rows}-{given.users}.parquet"
        write(path, LOG.format(rows=given.rows, users=given.users))
        config = {"memory_limit": given.memory, "temp_directory": str(folder / "spilled")}
        con = duckdb.connect(config=config)
        rankql.register(con)
        took: dict[str, list[float]] = {name: [] for name in STATEMENTS}
        for _ in range(given.repeat):
            for name, statement in STATEMENTS.items():
                start = time.perf_counter()
                con.execute(statement.replace("{log}", f"'{path}'")).fetchall()
                took[name].append(time.perf_counter() - start)
        sizes = f"{given.rows:,} rows, {given.users:,} users, {given.memory}"
        print(f"{sizes}, DuckDB {duckdb.__version__}\n")
        print("| statement | seconds | ratio |\n|---|---|---|")
        unit = statistics.median(took["plain GROUP BY"])
        for name, seconds in took.items():
            median = statistics.median(seconds)
            print(f"| {name} | {median:.2f} | {median / unit:.2f} |")


if __name__ == "__main__":
    main()

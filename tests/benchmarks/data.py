"""The data of the benchmarks, made by DuckDB: by hash(), so the same rows every time.

A ranked table holds, group after group, the positions 1 to n in no order; 30% or 100% of its rows
have a grade from 1 to 3, the others 0. Files that are there already are not made again.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

# The percentage of rows of a ranked table, or of judgments, that have a grade above 0.
DENSITIES = (30, 100)

# The order of rows that has a name; otherwise, group follows group.
RANDOM = ", random order"
ORDERS = ("", RANDOM)

PART = 100_000_000


def ranked(rows: range, size: int, density: int) -> str:
    """The SQL of some rows of a ranked table."""
    return f"""
        SELECT CAST(i // {size} AS INTEGER) AS "user",
               CAST(CASE WHEN hash(i) % 100 < {density}
                         THEN hash(i * 7 + 1) % 3 + 1 ELSE 0 END AS INTEGER) AS rel,
               CAST((i % {size} * 37 + i // {size}) % {size} + 1 AS INTEGER) AS pos
        FROM range({rows.start}, {rows.stop}) AS r (i)"""


def ranked_table(
    con: duckdb.DuckDBPyConnection, rows: int, groups: int, density: int, order: str = ""
) -> None:
    """Make the table t(user, rel, pos); its groups are mixed if `order` is RANDOM."""
    query = ranked(range(rows), rows // groups, density)
    query += "\nORDER BY hash(i)" if order == RANDOM else ""
    con.execute(f"CREATE OR REPLACE TABLE t AS {query}")


def ranked_files(folder: Path, rows: int, groups: int, density: int, order: str = "") -> str:
    """Write a ranked table; return its path, or the glob of its parts of a hundred million rows."""
    stem = "billion" if rows == 10**9 else f"ranked-{rows}-{groups}-"
    stem += "random-" if order == RANDOM else ""
    starts = range(0, rows, PART)
    for part, start in enumerate(starts):
        some = range(start, min(start + PART, rows))
        path = folder / f"{stem}{density}-{part:02}.parquet"
        mixed = "\nORDER BY hash(i)" if order == RANDOM else ""
        write(path, ranked(some, rows // groups, density) + mixed)
    return str(path if len(starts) == 1 else folder / f"{stem}{density}-*.parquet")


def run_and_judgments(folder: Path, queries: int, density: int) -> tuple[str, str]:
    """Write a run of 100 scored items per query and 25 judgments, 20 of them of its items.

    No two scores of a query are equal, not in 32 bits either: so all tools rank the items alike.
    """
    run = folder / f"run-{queries}.parquet"
    qrels = folder / f"qrels-{queries}-{density}.parquet"
    item = "'d' || ((q * 7919 + {} * 104729) % 5000000) AS item"
    write(
        run,
        f"""SELECT 'q' || q AS query, {item.format("i")},
                   ((hash(q, i) % 80000 + (100 - i) * 800) * 100 + i) / 16777216.0 AS score
            FROM range({queries}) AS t (q), range(100) AS u (i)""",
    )
    write(
        qrels,
        f"""SELECT 'q' || q AS query, {item.format("(i * 5)")},
                   CAST(CASE WHEN hash(i, q) % 10 < 10 - {density} // 10 THEN 0
                             ELSE 1 + hash(q, i, 3) % 3 END AS INTEGER) AS rel
            FROM range({queries}) AS t (q), range(25) AS u (i)""",
    )
    return str(run), str(qrels)


def interactions(folder: Path, users: int) -> tuple[str, str, str]:
    """Write a run of 10 items per user in order, one judgment each, and 20 interactions each.

    There are a tenth as many items as users, few of them popular; some interactions are repeated.
    """
    run, test, train = (folder / f"{name}-{users}.parquet" for name in ("shown", "test", "train"))
    items = users // 10
    item = f"(hash(u) % {items} + {{}} * 7919) % {items} AS item"
    write(run, f"SELECT u AS user, {item.format('p')}, p AS pos "
               f"FROM range({users}) AS t (u), range(1, 11) AS s (p)")  # fmt: skip
    write(test, f"SELECT u AS user, {item.format('u % 40')} FROM range({users}) AS t (u)")
    write(train, f"SELECT u AS user, CAST(floor({items} * pow(hash(u, i) / 2e19, 3)) AS BIGINT) "
                 f"AS item FROM range({users}) AS t (u), range(20) AS s (i)")  # fmt: skip
    return str(run), str(test), str(train)


def write(path: Path, query: str) -> None:
    """Write the rows of a query to Parquet, unless they are there."""
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        duckdb.connect().execute(f"COPY ({query}) TO '{unfinished}' (FORMAT parquet)")
        unfinished.rename(path)

"""What nDCG@10 costs, in units of a plain sum of the grades by group.

    python tests/benchmarks/ndcg.py [--rows 10000000] [--groups 100000] [--repeat 5]

Each engine is compared with its own sum, side by side: every repetition runs all of them in turn,
and the ratio is that of the medians. The data is simulated: each group holds the positions 1 to n
once, in no order, and 30% (then 100%) of its rows have a grade from 1 to 3, the others 0.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import duckdb
import polars as pl

import rankql

NDCG = rankql.ndcg("rel", "pos", k=10)


def ranked_table(con: duckdb.DuckDBPyConnection, rows: int, groups: int, density: int) -> None:
    """Make the table t(user, rel, pos)."""
    shown = rows // groups
    con.execute(f"""
        CREATE OR REPLACE TABLE t AS SELECT
            CAST(i // {shown} AS INTEGER) AS "user",
            CAST(CASE WHEN hash(i) % 100 < {density}
                      THEN hash(i * 7 + 1) % 3 + 1 ELSE 0 END AS INTEGER) AS rel,
            CAST((i % {shown} * 37 + i // {shown}) % {shown} + 1 AS INTEGER) AS pos
        FROM range({rows}) AS r (i)""")


def contestants(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, Callable[[], object]]]:
    """By engine: the sum, first, and what is compared with it."""

    def sql(expression: str) -> Callable[[], object]:
        query = f'SELECT "user", {expression} FROM t GROUP BY "user"'
        return lambda: con.execute(f"SELECT sum(hash(x)) FROM ({query}) AS g (u, x)").fetchall()

    frame = con.sql("FROM t").pl()
    lazy = frame.lazy()

    def polars(plan: pl.LazyFrame, engine: str) -> Callable[[], object]:
        return lambda: plan.collect(engine=engine)  # type: ignore[call-overload]

    total = lazy.group_by("user").agg(pl.col("rel").sum())
    expression = lazy.group_by("user").agg(NDCG)
    piped = lazy.pipe(rankql.ndcg, by="user", k=10)
    return {
        "DuckDB": {
            "sum(rel)": sql("sum(rel)"),
            "ndcg(rel, pos, 10)": sql("ndcg(rel, pos, 10)"),
        },
        "polars in memory": {
            "agg(sum)": polars(total, "in-memory"),
            "agg(rankql.ndcg)": polars(expression, "in-memory"),
            ".pipe(rankql.ndcg)": polars(piped, "in-memory"),
            ".pipe, DataFrame": lambda: frame.pipe(rankql.ndcg, by="user", k=10),
        },
        "polars streaming": {
            "agg(sum)": polars(total, "streaming"),
            "agg(rankql.ndcg)": polars(expression, "streaming"),
            ".pipe(rankql.ndcg)": polars(piped, "streaming"),
        },
    }


def main() -> None:
    """Time everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    con = duckdb.connect()
    con.execute("SET threads = 2")
    rankql.register(con)
    print(
        f"{args.rows:,} rows, {args.groups:,} groups, 2 threads, median of {args.repeat}; ", end=""
    )
    print(f"duckdb {duckdb.__version__}, polars {pl.__version__}\n")
    print("| rows with gain | engine | what | ms | × sum |\n|---|---|---|---|---|")
    for density in (30, 100):
        ranked_table(con, args.rows, args.groups, density)
        engines = contestants(con)
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(args.repeat + 1):  # the first warms up
            for engine, entries in engines.items():
                for name, run in entries.items():
                    start = time.perf_counter()
                    run()
                    times.setdefault((engine, name), []).append(time.perf_counter() - start)
        medians = {key: statistics.median(runs[1:]) for key, runs in times.items()}
        for engine, entries in engines.items():
            base = medians[engine, next(iter(entries))]
            for name in entries:
                took = medians[engine, name]
                print(f"| {density}% | {engine} | {name} | {took * 1e3:.0f} | {took / base:.2f} |")


if __name__ == "__main__":
    main()

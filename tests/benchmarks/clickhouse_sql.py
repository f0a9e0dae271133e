"""ClickHouse: the metrics, as functions and in a query, against a sum.

    python tests/benchmarks/clickhouse_sql.py [--rows 5000000] [--groups 50000]

Everything is in units of `sum(rel) GROUP BY user` of the same run, of a table in memory.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from rankql.engines import clickhouse_functions as clickhouse  # noqa: E402
from support.clickhouse_sessions import session  # noqa: E402

TABLE = """
CREATE TABLE ranked ENGINE = Memory AS
SELECT intDiv(number, {per}) AS user, number % {per} + 1 AS pos,
       if(cityHash64(number) % 10 > 6, 1 + cityHash64(number + 1) % 4, 0) AS rel
FROM numbers({rows})
"""
CALLS = {
    "ndcg(rel, pos, 10)": "ndcg(rel, pos, 10)",
    "ap(rel, pos, NULL)": "ap(rel, pos)",
    "rr(rel, pos, 10)": "rr(rel, pos, 10)",
    "err(rel, pos, 10, 4)": "err(rel, pos, 10, 4)",
    "precision_at(rel, pos, 10)": "precision_at(rel, pos, 10)",
}


def best(work, times=3):
    """The shortest of a few runs, in seconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--groups", type=int, default=50_000)
    given = parser.parse_args()
    with session() as house:
        house.query(TABLE.format(rows=given.rows, per=given.rows // given.groups))
        for statement in clickhouse.create_clickhouse_functions().split(";\n"):
            house.query(statement)
        query = "SELECT user, {} FROM ranked GROUP BY user"
        queries = {"sum(rel)": query.format("sum(rel)")}
        queries |= {f"{call}, function": query.format(call) for call in CALLS}
        queries |= {
            f"{call}, query": clickhouse.translate_to_clickhouse(query.format(call))
            for call in CALLS.values()
        }
        unit = None
        for name, text in queries.items():
            seconds = best(lambda text=text: house.query(f"SELECT * FROM ({text}) FORMAT Null"))
            unit = unit or seconds
            print(f"{name:40} {seconds:8.3f} s {seconds / unit:7.1f} ×", flush=True)


if __name__ == "__main__":
    main()

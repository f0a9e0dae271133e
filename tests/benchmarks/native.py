"""The functions of Postgres and ClickHouse as multiples of sum(rel) of the same engine.

    PYTHONPATH=tests python tests/benchmarks/native.py

Seconds of processor time, the least of several runs, because other work on the machine does not
change it. Postgres reads 200,000 rows without parallel workers, ClickHouse 5 million in one thread.
"""

import time

from support import native_databases

CALLS = ("ndcg(rel, pos, 10)", "precision_at(rel, pos, 10)", "ap(rel, pos, 10)", "rr(rel, pos, 10)")
CALLS += ("err(rel, pos, 10, 4)", "rbp(rel, pos, 10, 0.8)")
GRADE = "CASE WHEN {0} % 10 > 6 THEN 1 + {0} % 4 ELSE 0 END"


def least(run, used, repeat=5):
    """The least processor time of several runs."""
    times = []
    for _ in range(repeat):
        start = used()
        run()
        times.append(used() - start)
    return min(times)


def postgres():
    """The table of Postgres, for several numbers of rows per query."""
    with native_databases.opened("postgres") as server:
        server.con.execute("SET max_parallel_workers_per_gather = 0")
        ((pid,),) = server.ask("SELECT pg_backend_pid()")

        def used():
            with open(f"/proc/{pid}/schedstat") as file:
                return int(file.read().split()[0]) / 1e9

        sizes = (20, 200, 2000, 20000)
        for n in sizes:
            grade = GRADE.format("abs(hashint4(i)::bigint)")
            server.con.execute(
                f"CREATE TABLE t{n} AS SELECT i / {n} AS u, i % {n} + 1 AS pos, {grade} AS rel"
                f" FROM generate_series(0, 199999) AS i ORDER BY hashint4(i); ANALYZE t{n}"
            )
        for call in ("sum(rel)", *CALLS):
            queries = (f"SELECT count(v) FROM (SELECT u, {call} AS v FROM t{n} GROUP BY u) AS t"
                       for n in sizes)  # fmt: skip
            yield call, [least(lambda q=q: server.ask(q), used) for q in queries]


def clickhouse():
    """The table of ClickHouse."""
    with native_databases.opened("clickhouse") as database:
        grade = GRADE.format("intHash32(number)")
        rows = f"SELECT number % 50000 AS u, intDiv(number, 50000) + 1 AS pos, {grade} AS rel"
        database.session.query("DROP TABLE IF EXISTS bench")
        database.session.query(
            "CREATE TABLE bench ENGINE = MergeTree ORDER BY tuple() AS"
            f" {rows} FROM numbers(5000000) ORDER BY intHash32(number * 11)"
        )
        for call in ("sum(rel)", *CALLS):
            query = f"SELECT count(v) FROM (SELECT u, {call} AS v FROM bench GROUP BY u)"
            query += " SETTINGS max_threads = 1"
            yield call, [least(lambda q=query: database.ask(q), time.process_time)]


def main():
    """Print a table for each engine."""
    for engine, columns in ((postgres, ("20", "200", "2,000", "20,000")), (clickhouse, ("100",))):
        print(f"\n| {engine.__name__}, rows per query | {' | '.join(columns)} |")
        print(f"|---|{'--:|' * len(columns)}")
        unit = []
        for call, seconds in engine():
            unit = unit or seconds
            cells = (f"{x:.3f} s, {x / y:.1f} ×" for x, y in zip(seconds, unit, strict=True))
            print(f"| `{call}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

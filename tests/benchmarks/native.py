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
# Grades as a column and as expressions, to plan.
CASE = "CASE event WHEN 'buy' THEN 3 WHEN 'click' THEN 1 ELSE 0 END"
GRADES = ("rel", CASE, f"exp2_gain({CASE})")


def least(run, used, repeat=5):
    """The least processor time of several runs."""
    times = []
    for _ in range(repeat):
        start = used()
        run()
        times.append(used() - start)
    return min(times)


def planning(ask, used):
    """For each call, the processor time of EXPLAIN with each of GRADES."""
    for call in CALLS:
        calls = [call.replace("rel", grade, 1) for grade in GRADES]
        queries = [f"EXPLAIN SELECT u, {x} FROM planned GROUP BY u" for x in calls]
        yield call, [least(lambda q=q: ask(q), used, 10) for q in queries]


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
        server.con.execute("CREATE TABLE planned AS SELECT *, 'buy'::text AS event FROM t20")
        yield from planning(server.ask, used)


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
        database.session.query("DROP TABLE IF EXISTS planned")
        database.session.query(
            "CREATE TABLE planned ENGINE = MergeTree ORDER BY tuple() AS"
            " SELECT *, 'buy' AS event FROM bench LIMIT 1000"
        )
        yield from planning(database.ask, time.process_time)


def main():
    """Two tables for each engine: runs as multiples of the sum, and plans as those of columns."""
    for engine, columns in ((postgres, ("20", "200", "2,000", "20,000")), (clickhouse, ("100",))):
        rows = [*engine()]
        runs, plans = rows[: 1 + len(CALLS)], rows[1 + len(CALLS) :]
        show(f"{engine.__name__}, rows per query", columns, runs, lambda _, first=runs[0][1]: first)
        names = ("columns", "CASE", "exp2_gain(CASE)")
        show(f"{engine.__name__}, EXPLAIN", names, plans, lambda row: row[:1] * len(row))


def show(head, names, rows, unit):
    """Print a table of milliseconds, and how many units they are."""
    print(f"\n| {head} | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")
    for call, seconds in rows:
        pairs = zip(seconds, unit(seconds), strict=True)
        cells = (f"{1000 * x:.3g} ms, {x / y:.1f} ×" for x, y in pairs)
        print(f"| `{call}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

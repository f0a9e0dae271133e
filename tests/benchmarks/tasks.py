"""The tasks that many workloads share: the plain sum by group, and evaluations."""

from __future__ import annotations

import duckdb
from timing import Task

import rankql

MEASURES = ("nDCG", "AP", "RR", "P", "R", "Success", "ERR(max_rel=3)", "RBP(p=0.8)")
METRICS = {
    "nDCG@10": ["nDCG@10"],
    "AP": ["AP"],
    "24 metrics": [f"{measure}@5,10,20" for measure in MEASURES],
}

NDCG, AP, PANEL = METRICS

# nDCG@10 of t(user, rel, pos), as one writes it in SQL: ranks by position and by grade, joined.
BY_HAND = """
    WITH actual AS (
        SELECT "user", sum(rel / log2(rank + 1)) AS dcg
        FROM (SELECT "user", rel, row_number() OVER (PARTITION BY "user" ORDER BY pos) AS rank
              FROM t)
        WHERE rank <= 10 GROUP BY "user"
    ), best AS (
        SELECT "user", sum(rel / log2(rank + 1)) AS dcg
        FROM (SELECT "user", rel, row_number() OVER (PARTITION BY "user" ORDER BY rel DESC) AS rank
              FROM t)
        WHERE rank <= 10 GROUP BY "user"
    )
    SELECT "user", actual.dcg / nullif(best.dcg, 0) AS ndcg FROM actual JOIN best USING ("user")
"""


def summed(con: duckdb.DuckDBPyConnection, source: str, by: str = '"user"') -> Task:
    """The sum of the grades by group, fetched: what no evaluation can do without."""
    return lambda: con.sql(f"SELECT {by}, sum(rel) FROM {source} GROUP BY {by}").pl()


def evaluated(con: duckdb.DuckDBPyConnection, run: str, qrels: str | None, metrics: str) -> Task:
    """Every value of every group by `rankql.evaluate`, fetched."""
    return lambda: rankql.evaluate(run, qrels, METRICS[metrics], con=con, interval=None)


def against_sum(con: duckdb.DuckDBPyConnection, source: str) -> dict[str, Task]:
    """The sum of a ranked table or file, and its evaluations."""
    tasks = {"sum": summed(con, f"'{source}'")}
    return tasks | {name: evaluated(con, source, None, name) for name in (NDCG, PANEL)}

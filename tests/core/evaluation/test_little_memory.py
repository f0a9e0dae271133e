"""Evaluations in little memory, of large data, and interrupted ones."""

import re
import subprocess
import sys
from tempfile import gettempdir

import duckdb
import pytest

import rankql
from support.samples import same


def connect(limit=None, query="q"):
    """A database whose lists of the best 90 scores take 30 MB at once."""
    con = duckdb.connect(config={"threads": 1, "temp_directory": gettempdir()})
    con.execute(f"""
        CREATE TABLE run AS SELECT {query} AS query, i AS item, hash(q, i) % 9 AS score,
            's' || i % 2 AS name FROM range(20000) t(q), range(4) u(i);
        CREATE TABLE qrels AS SELECT query, item, (item + hash(query)) % 3 AS rel FROM run;
        CREATE TABLE about AS SELECT DISTINCT query, hash(query) % 3 AS segment FROM run""")
    if limit:
        con.execute(f"SET memory_limit = '{limit}'")
    return con


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"system": "name", "by": "segment", "attributes": "about"},
        {"ties": "order", "conventions": "ranx"},
        {"missing": "skip", "id": "'q' || q"},
        {"metrics": ["AP", "nDCG(base=3)@90", "P@5"]},
    ],
)
def test_queries_that_do_not_fit_into_memory_are_evaluated_in_parts(options, tmp_path):
    """With the same values, also in a file. The metric is not computed from reduced rankings."""
    options = {"metrics": "nDCG(base=3)@90", "id": "q", **options}
    query = options.pop("id")
    at_once = rankql.evaluate("run", "qrels", con=connect(None, query), **options)
    con, path = connect("25MB", query), tmp_path / "values.parquet"
    in_parts = rankql.evaluate("run", "qrels", con=con, **options)
    same(in_parts.per_query, at_once.per_query)
    same(in_parts.summary, at_once.summary)
    assert in_parts.notes[:-1] == at_once.notes and "parts" in in_parts.notes[-1]
    rankql.evaluate("run", "qrels", con=con, output=path, **options)
    same(rankql.combine([path]).per_query, at_once.per_query)


@pytest.mark.slow
def test_two_tables_in_little_memory(tmp_path):
    """Run and judgments of 5 million rows each in 70 MB, as 50 million in 700."""
    run, qrels = tmp_path / "run.parquet", tmp_path / "qrels.parquet"
    ids = "q AS query, (q * 7919 + i * 104729) % 1000003 AS item"
    for path, column, items in ((run, "100000 AS score", "100"), (qrels, "4 AS rel", "50, 150")):
        rows = f"SELECT {ids}, hash(q, i) % {column} FROM range(50000) t(q), range({items}) u(i)"
        duckdb.sql(f"COPY ({rows}) TO '{path}'")
    settings = {"memory_limit": "70MB", "threads": 2, "temp_directory": str(tmp_path / "spill")}
    con = duckdb.connect(config=settings)
    result = rankql.evaluate(run, qrels, ["nDCG@10", "AP", "R@100"], con=con)
    assert re.search(r"evaluated in \d+ parts", result.notes[-1])
    assert result.per_query.height == 50_000 and 0 < result["AP"] < 1


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
def test_an_interrupted_evaluation_leaves_no_file(tmp_path, signal):
    """A file with the final name is complete, whenever the program ends."""
    script = f"""
import duckdb, os, signal, threading, rankql
con = duckdb.connect()
rows = "FROM range(40000) AS t (q), range(100) AS u (i)"
con.execute(f"CREATE TABLE run AS SELECT q, i, hash(q, i) AS score {{rows}}")
con.execute(f"CREATE TABLE qrels AS SELECT q, i, i % 2 AS rel {{rows}}")
con.execute("CREATE TABLE small AS SELECT 1 AS query, 1 AS pos, 1 AS rel")
rankql.evaluate("small", None, "nDCG", con=con)  # DuckDB 1.4 loses interrupts while it imports
print("started", flush=True)
threading.Timer(0.6, lambda: os.kill(os.getpid(), signal.{signal})).start()
metrics = ["AP", "Bpref", "ERR(max_rel=3)", "TauB"]
path = {str(tmp_path / "out.parquet")!r}
rankql.evaluate("run", "qrels", metrics, con=con, query="q", item="i", output=path)
print("finished", flush=True)
"""
    # Where a callback happens to run, Python reports the interrupt there and goes on: once more.
    for _ in range(6):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        if done.returncode:
            break
        (tmp_path / "out.parquet").unlink()
    # DuckDB draws a bar where the tables take long to make.
    assert done.returncode != 0 and done.stdout.endswith("started\n")
    assert list(tmp_path.iterdir()) == []
    assert signal != "SIGINT" or "KeyboardInterrupt" in done.stderr

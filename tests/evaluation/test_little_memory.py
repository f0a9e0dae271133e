"""Evaluations in little memory, of large data, and interrupted ones."""

import subprocess
import sys

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from support.random_runs import QRELS, RUN, same, with_segments


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("plain", {}),
        ("systems", {"by": "segment", "attributes": "segments"}),
        ("text", {"ties": "expected", "missing": "skip"}),
        ("plain", {"ties": "order", "conventions": "ranx"}),
        ("ranked", {}),
        ("ranked", {"unjudged": "bounds"}),
        ("text", {"con": "own"}),
        ("other query", {"query": "user"}),
    ],
)
def test_parts_are_the_same(form, options, monkeypatch):
    """Where the memory is too small, some queries at a time: the same values, to the last bit."""
    run, qrels, metrics = RUN, QRELS, ["nDCG@3", "AP", "P@2", "R@2"]
    options = dict(options)
    if "attributes" in options:
        options["attributes"] = with_segments()
    if options.get("con"):
        options["con"] = duckdb.connect()
    if form == "systems":
        run = {"one": RUN, "two": RUN.with_columns(score=-pl.col("score"))}
    if form == "text":  # the ids of both are of one kind, but not of one type
        qrels = QRELS.with_columns(pl.col("query").cast(pl.Categorical))
    if form == "other query":  # a column with this name that holds no ids
        run = RUN.rename({"query": "user"}).with_columns(query=pl.lit("text"))
        qrels = QRELS.rename({"query": "user"})
    if form == "ranked":
        qrels = None
        run = pl.DataFrame(
            {"query": [1, 1, 2, 3, 3], "rel": [1, 0, 2, 0, 3], "pos": [2, 1, 1, 1, 4]}
        )
    whole = rankql.evaluate(run, qrels, metrics, **options)
    fetch_frame, made = rankql.evaluation.evaluate.fetch_frame, []

    def short_of_memory(here, sql, *arguments, **options):
        if "% 4 =" not in sql:
            raise duckdb.OutOfMemoryException("Out of Memory Error: no room\n\nPossible solutions:")
        made.append(sql)
        return fetch_frame(here, sql, *arguments, **options)

    monkeypatch.setattr("rankql.evaluation.evaluate.fetch_frame", short_of_memory)
    parts = rankql.evaluate(run, qrels, metrics, **options)
    assert_frame_equal(parts.per_query, whole.per_query, check_exact=True)
    assert_frame_equal(parts.summary, whole.summary, check_exact=True)
    assert len(made) == 4 and parts.notes == [
        *whole.notes,
        "The queries did not fit into memory_limit, so they were evaluated in 4 parts. A higher "
        "memory_limit is faster",
    ]


def test_out_of_memory(monkeypatch, tmp_path):
    """A file is written in parts too; where nothing helps, the remedy is named."""
    path, whole = tmp_path / "out.parquet", rankql.evaluate(RUN, QRELS, "AP")

    def refuse(*arguments, **options):
        raise duckdb.OutOfMemoryException("Out of Memory Error: no room\n\nPossible solutions:")

    def refuse_all_at_once(session, sql, *arguments, **options):
        return fetch_frame(session, sql) if "% 4 =" in sql else refuse()

    fetch_frame = rankql.evaluation.evaluate.fetch_frame
    monkeypatch.setattr("rankql.evaluation.evaluate.fetch_frame", refuse_all_at_once)
    parts = rankql.evaluate(RUN, QRELS, "AP", output=path)
    assert "evaluated in 4 parts" in parts.notes[-1]
    assert_frame_equal(rankql.combine([path]).per_query, whole.per_query, check_exact=True)
    monkeypatch.setattr("rankql.evaluation.evaluate.fetch_frame", refuse)
    message = r"^DuckDB is out of memory: no room\. Raise its limit \(SET memory_limit = '4GB'\)"
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.evaluate(RUN, QRELS, "AP")


@pytest.mark.slow
def test_two_tables_in_little_memory(tmp_path):
    """Run and judgments of 5 million rows each in 70 MB, as 50 million in 700."""
    run, qrels, spill = (tmp_path / name for name in ("run.parquet", "qrels.parquet", "spill"))
    duckdb.sql(f"""COPY (SELECT q AS query, (q * 7919 + i * 104729) % 1000003 AS item,
        hash(i, q) % 100000 AS score FROM range(50000) t(q), range(100) u(i)) TO '{run}'""")
    duckdb.sql(f"""COPY (SELECT q AS query, (q * 7919 + i * 104729) % 1000003 AS item,
        hash(q, i) % 4 AS rel FROM range(50000) t(q), range(50, 150) u(i)) TO '{qrels}'""")
    settings = {"memory_limit": "70MB", "threads": 2, "temp_directory": str(spill)}
    con = duckdb.connect(config=settings)
    result = rankql.evaluate(run, qrels, ["nDCG@10", "AP", "R@100"], con=con)
    assert "evaluated in 4 parts" in result.notes[-1]
    assert result.per_query.height == 50_000 and 0 < result["AP"] < 1


@pytest.mark.slow
def test_parquet_larger_than_memory(tmp_path):
    """Nothing is copied: two million rows of long ids, evaluated in 150 MB."""
    path = tmp_path / "run.parquet"
    con = duckdb.connect()
    con.execute(f"""
        COPY (SELECT 'q' || q AS query, hash(q, i) % 1000 / 1000.0 AS score,
                     md5(q || '-' || i) || md5(i || '+' || q) || md5(i::VARCHAR) AS item
              FROM range(40000) t(q), range(60) u(i)) TO '{path}' (COMPRESSION uncompressed)
    """)
    assert path.stat().st_size > 200_000_000
    con.execute(f"CREATE TABLE qrels AS SELECT query, item, 1 AS rel FROM '{path}' USING SAMPLE 1%")
    con.execute("SET memory_limit = '150MB'")
    con.execute(f"SET temp_directory = '{tmp_path}'")
    small = rankql.evaluate(path, "qrels", "nDCG@10", con=con)
    con.execute("SET memory_limit = '4GB'")
    large = rankql.evaluate(path, "qrels", "nDCG@10", con=con)
    same(small.per_query, large.per_query)


@pytest.mark.slow
def test_a_million_queries_and_a_query_of_a_million_items():
    con = duckdb.connect()
    con.execute("""
        CREATE TABLE run AS SELECT q, i, q % 7 + i AS score FROM range(1000000) t(q), range(3) u(i);
        CREATE TABLE qrels AS SELECT q, (q % 3) AS i, 1 AS rel FROM range(1000000) t(q)
    """)
    made = rankql.evaluate("run", "qrels", ["RR", "nDCG@2"], con=con, query="q", item="i")
    assert made["RR"] == pytest.approx((333334 / 3 + 333333 / 2 + 333333) / 1e6, abs=1e-12)
    assert made.per_query.height == 1_000_000
    con.execute("""
        CREATE TABLE long AS SELECT 1 AS q, i, -i AS score FROM range(1000000) u(i);
        CREATE TABLE few AS SELECT 1 AS q, i * 1000 AS i, 1 AS rel FROM range(1000) u(i)
    """)
    made = rankql.evaluate(
        "long", "few", ["AP", "R@1000000", "Rprec"], con=con, query="q", item="i"
    )
    wanted = sum((j + 1) / (j * 1000 + 1) for j in range(1000)) / 1000
    assert made["AP"] == pytest.approx(wanted, abs=1e-12)
    assert (made["R@1000000"], made["Rprec"]) == (1.0, 1 / 1000)


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
def test_an_interrupted_evaluation_leaves_no_file(tmp_path, signal):
    """What is under the final name is whole, whenever the program ends."""
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
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        if done.returncode:
            break
        (tmp_path / "out.parquet").unlink()
    assert done.returncode != 0 and done.stdout == "started\n"
    assert list(tmp_path.iterdir()) == []
    assert signal != "SIGINT" or "KeyboardInterrupt" in done.stderr

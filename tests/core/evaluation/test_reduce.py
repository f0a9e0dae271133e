"""Reduced rankings give the values of the readable query: a window, and one macro per metric."""

import os
import pickle
import subprocess
import sys

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.evaluation.reduce.fetch import UNHASHED_FROM_ROWS
from support import metric_engines
from support.parameters import cycled, few, slow
from support.reductions import compare, evaluate, require_equal
from support.samples import SHAPES, join, ranked, score

SMALL = ["nDCG@5", "AP@20", "P(rel=2)@10", "ERR@10"]
DEEP = ["AP", "Bpref", "Rprec", "R@100", "nDCG@5", "Judged@10"]


@pytest.mark.parametrize(
    ("rows", "key", "metrics"),
    [
        (UNHASHED_FROM_ROWS, "i // 100", "nDCG@10"),
        slow(UNHASHED_FROM_ROWS - 100, "i // 100", "nDCG@10"),
        slow(UNHASHED_FROM_ROWS, "'q' || i // 100", "nDCG@10"),
        slow(UNHASHED_FROM_ROWS, "i // 100", ["nDCG@10", "AP"]),
    ],
)
def test_integer_keys_of_many_rows_are_indexed(rows, key, metrics):
    con = duckdb.connect()
    con.execute(f"""CREATE TABLE t AS SELECT {key} AS query, i % 3 AS rel, i % 100 + 1 AS pos
        FROM range({rows}) t(i)""")
    compare("t", None, metrics, con=con)
    assert con.execute("SELECT current_setting('perfect_ht_threshold')").fetchall() == [(12,)]


# Shapes and names.

NAMES = ["top", "items", "tied", "least", "cuts", "rows", "repeats"]
NAMES += ["firsts", "word 0", "from 0", "nDCG@5.", "^.*$", "*", 'a"b', "{0}", "a.b"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape"), cycled(NAMES, [*SHAPES]))
def test_names_of_users_may_be_those_of_steps_or_patterns(name, shape):
    """The query, an attribute and a metric of the user."""
    table = ranked(3, queries=20)
    label = name if name.replace(" ", "").isalnum() else "x"
    run, qrels = SHAPES[shape](table)
    compare(run, qrels, ["nDCG@5", f"{label} = max(rel) + 0.5", "P@5"])
    about = run.with_columns((pl.col("query") % 3 + 0.5).alias(name))
    renamed = [None if t is None else t.rename({"query": name}) for t in (run, qrels)]
    compare(about, qrels, SMALL, by=name)
    compare(*renamed, DEEP, query=name)


# Types of ids, settings and transactions.


@few(1)("metrics", ["nDCG@3", "AP", ["AP", "own = sum(rel)"]])
def test_scores_and_ids_of_several_systems_are_their_own(metrics):
    """Whole numbers of one and fractions of another, whose ids are text."""
    qrels = pl.DataFrame({"query": 1, "item": [*range(8)], "rel": [0, 1, 2, 0, 0, 1, 0, 3]})
    whole = qrels.select("query", "item", score=pl.col("item") * 35 % 9)
    fractions = whole.with_columns(pl.col("item").cast(pl.String), pl.col("score") / 3)
    both = compare({"a": whole, "b": fractions}, qrels, metrics).per_query
    alone = evaluate(whole, qrels, metrics, reduces=False).per_query
    for name in ("a", "b"):
        require_equal(both.filter(system=name).drop("system", "query"), alone.drop("query"))


@few(1)(("kind", "tied"), cycled(
    ["UUID", "BIT", "BLOB", "DATE", "TIME", "HUGEINT", "VARCHAR", "VARCHAR COLLATE nocase", "ENUM"],
    [1, 0, 1, 9]))  # fmt: skip
def test_queries_of_any_type(kind, tied):
    """Rankings of some queries are read by the readable query: their values go to the same rows."""
    as_kind = {
        "UUID": "md5(q::VARCHAR)::UUID",
        "DATE": "'2020-01-01'::DATE + q::INT",
        "TIME": "to_seconds(q * q)::VARCHAR::TIME",
        "BLOB": "encode('q' || q)",
        "ENUM": "('q' || q)::ids",
    }
    kind, _, collation = kind.partition(" COLLATE ")
    names = ["B", "a", "C", "b1", "D", "g", "e", "F", "f1"]
    query = f"{names}[q + 1]" if collation else as_kind.get(kind, f"q::{kind}")
    con = duckdb.connect()
    con.execute("CREATE TYPE ids AS ENUM ('q8', 'q0', 'q1', 'q3', 'q2', 'q4', 'q5', 'q7', 'q6')")
    column = f"{'ids' if kind == 'ENUM' else kind} {f'COLLATE {collation}' if collation else ''}"
    for name in ("run", "qrels"):
        con.execute(f"CREATE TABLE {name} (query {column}, item INT, score DOUBLE, rel INT)")
        con.execute(f"""INSERT INTO {name} SELECT {query}, i,
                CASE WHEN q % 9 < {tied} THEN i // 2 ELSE i END, (i * q) % 3
            FROM range(9) s(q), range(6) t(i)""")
    con.execute("ALTER TABLE run DROP rel; ALTER TABLE qrels DROP score")
    for ties, metrics in (("expected", "nDCG@3"), ("item", ["AP", "Bpref", "own = sum(rel)"])):
        values = compare("run", "qrels", metrics, con=con, ties=ties).per_query
        assert values.height == 9


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"integer_division": "true", "preserve_insertion_order": "false", "threads": 4},
        {"default_order": "desc", "default_null_order": "nulls_last"},
        {"default_null_order": "nulls_first", "memory_limit": "200MB", "threads": 1},
        {"default_collation": "nocase"},
        {"disabled_optimizers": "statistics_propagation,filter_pushdown"},
        {"ieee_floating_point_ops": "false"},
    ],
    ids=str,
)
def test_settings_of_the_user_change_no_value_and_stay(settings):
    con, table = metric_engines.connect(**settings), ranked(3).cast({"rel": pl.Int32})
    for name, rows in zip(("ranked", "run", "qrels"), (table, *join(table)), strict=True):
        con.register("rows", rows.to_arrow())
        con.execute(f"CREATE TABLE {name} AS FROM rows")
    con.unregister("rows")
    both = (score(ranked(3, name, 40)).with_columns(system=pl.lit(name)) for name in "AB")
    scored = pl.concat(both)
    judged = scored.drop_nulls("rel").unique("item").drop("score", "system")
    before = metric_engines.state(con)
    expected = evaluate(ranked(3), None, SMALL, reduces=False)
    require_equal(compare("ranked", None, SMALL, con=con).per_query, expected.per_query)
    compare("run", "qrels", [*SMALL, "AP"], con=con)
    options = {"ties": "worst", "system": "system"}
    compare(scored.drop("rel"), judged, DEEP, con=con, **options)
    options["pool"] = False
    alone = compare(scored, None, SMALL, con=con, **options)
    plain = evaluate(scored, None, SMALL, reduces=False, **options)
    require_equal(alone.per_query, plain.per_query)
    assert metric_engines.state(con) == before


def test_transaction_sees_its_own_rows():
    con = duckdb.connect()
    con.register("rows", ranked(3, queries=10, most=22))
    con.execute("CREATE TABLE ranked AS FROM rows")
    before = compare("ranked", None, "nDCG@10", con=con).per_query
    con.execute("BEGIN; INSERT INTO ranked (query, item, rel, pos) VALUES (-1, -1, 3, 2)")
    con.execute("UPDATE ranked SET rel = 0 WHERE query = 1 AND rel IS NOT NULL")
    con.execute("CREATE TABLE fresh AS FROM ranked")
    for name in ("ranked", "fresh"):
        values = compare(name, None, "nDCG@10", con=con).per_query
        assert values.height == before.height + 1
        assert values.row(0)[1] == pytest.approx(0.63, abs=0.001)
        assert values.filter(query=1)["nDCG@10"].item() is None


def test_each_step_can_be_printed_and_run():
    run, qrels = join(score(ranked(3), 1))
    result = rankql.evaluate(run, qrels, "nDCG@10", interval=None)
    names = [*result.steps]
    assert names == ["run", "qrels", "cuts", "queries", "top", "ranked", "values"]
    top = result.steps.run("top")
    assert top.columns == ["query", "item", "score", "pos"] and top["pos"].max() == 10
    assert result.steps["top"].endswith("FROM top") and "ndcg" not in result.steps["top"]
    assert result.steps["values"] == result.sql
    moved = pickle.loads(pickle.dumps(rankql.evaluate(run, qrels, "AP", con=duckdb.connect())))
    with pytest.raises(rankql.RankqlError, match="another process"):
        moved.steps.run("ranked")
    difference = result.steps.run("values")["nDCG@10"] - result.per_query["nDCG@10"]
    assert difference.abs().max() < 1e-12


# Threads of polars.


def run_script(code, **env):
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are not forked there")
@pytest.mark.parametrize(
    "metrics", [["nDCG@3"], ["nDCG@3", "P@1", "P@2", "AP@3", "ERR(max_rel=2)@2"]]
)
def test_forked_processes_evaluate(metrics):
    """They lack the threads of polars, and would wait for ever."""
    code = f"""
import os, signal, warnings
import polars as pl, rankql
warnings.simplefilter("ignore")
rows = pl.DataFrame({{"query": [1, 1, 2], "pos": [1, 2, 1], "rel": [0, 1, 2]}})
rows.lazy().select(pl.all().sum()).collect()
if child := os.fork():
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
else:
    signal.alarm(30)
    rankql.evaluate(rows, None, {metrics}, interval=None)
    os._exit(0)
"""
    assert run_script(code) == "0\n"


@pytest.mark.slow
def test_values_are_one_chunk():
    """More chunks would open a second database for the means."""
    code = """
import polars as pl, rankql
rows = pl.DataFrame({"query": range(1000), "pos": [1] * 1000, "rel": [1] * 1000})
for metrics in (["nDCG@3"], ["nDCG@3", "P@1", "P@2", "AP@3"]):
    print(rankql.evaluate(rows, None, metrics).frame().n_chunks())
"""
    assert run_script(code, POLARS_MAX_THREADS="8") == "1\n1\n"

"""One ranking of 100,000 items, and many rankings on one thread and on more."""

import random
import subprocess
import sys
from functools import cache

import polars as pl
import pytest

import rankql
from support import definitions, metric_engines, signatures
from support.parameters import cycled

N = 100_000
GRADES = {
    "few grades": [None, 0, 0, 0, 0, 1, 2, 3],
    "many grades": [i / 4096 for i in range(-999, 12289)],
}
OPTIONS = signatures.REQUIRED
# The reference looks at pairs of items in these metrics: the forms are compared with each other.
PAIRS = ("ap", "bpref", "kendall_tau_distance", "kendall_tau_b", "auc")


@cache
def ranking(kind):
    """One ranking with ties in grades, in no order of rows; a tenth was not retrieved."""
    rng = random.Random(kind)
    places = [pos if pos <= 0.9 * N else None for pos in range(1, N + 1)]
    return [(rng.choice(GRADES[kind]), pos) for pos in rng.sample(places, N)]


@cache
def frames(kind):
    """The ranking as rows, and as a list with the grades of all judged items."""
    rel, pos = map(list, zip(*ranking(kind), strict=True))
    rows = pl.DataFrame({"g": 0, "rel": pl.Series(rel, dtype=pl.Float64, strict=False), "pos": pos})
    rels = rows.drop_nulls("pos").sort("pos")["rel"]
    return rows, pl.DataFrame({"rels": [rels], "ideal": [rows["rel"].drop_nulls()]})


def values(metric, rows, columns, options):
    """The value of all rows in SQL and in polars."""
    con = metric_engines.connection()
    con.register("large", rows)
    text = metric_engines.call(metric, columns, options)
    yield "sql", con.execute(f"SELECT {text} FROM large").fetchall()[0][0]
    value = getattr(rankql, metric)(*columns, **options)
    yield "polars", rows.select(value).item()
    yield "polars streaming", rows.lazy().select(value).collect(engine="streaming").item()


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "kind"), cycled(signatures.RANKING, [*GRADES]))
def test_one_ranking_of_100_000_items(metric, kind):
    (rows, lists), options = frames(kind), OPTIONS.get(metric, {})
    result = dict(values(metric, rows, ["rel", "pos"], options))
    result["pipe"] = rows.pipe(getattr(rankql, metric), by="g", **options)[metric].item()
    expected = result["sql"]
    if metric not in PAIRS:
        expected = getattr(definitions, metric)(ranking(kind), **options)
    ideal = {"ideal": metric_engines.Column("ideal")} if metric in signatures.TAKES_IDEAL else {}
    of_list = values(f"list_{metric}", lists, ["rels"], {**options, **ideal})
    result |= {f"{name} list": value for name, value in of_list}
    for name, value in result.items():
        assert metric_engines.same(value, expected), (name, value, expected)


@cache
def scores():
    rng = random.Random(3)
    rel, score = rng.choices([None, 0, 0, 1, 3], k=N), rng.choices(range(50), k=N)
    return pl.DataFrame({"rel": rel, "score": score, "item": rng.sample(range(N), N)})


@pytest.mark.slow
@pytest.mark.parametrize("metric", signatures.RANKING)
def test_sql_equals_polars_on_100_000_scores(metric):
    """Most of them tied: over all orders of the ties, or by item where that has no closed form."""
    options = {**OPTIONS.get(metric, {}), "ties": "expected"}
    if metric_engines.no_expectation(metric, options):
        options["ties"] = "item"
    of = values(f"{metric}_by_score", scores(), ["rel", "score", "item"], options)
    sql, *polars = (value for _, value in of)
    assert polars == pytest.approx([sql] * 2, rel=1e-10)


@pytest.mark.slow
def test_threads_change_no_value():
    """One thread or four, DuckDB or polars streaming: the same values of 300,000 rows."""
    metrics = {metric: OPTIONS.get(metric, {}) for metric in signatures.RANKING}
    calls = [metric_engines.call(name, ["rel", "pos"], given) for name, given in metrics.items()]
    results = []
    for threads in (1, 4):
        con = metric_engines.connect(threads=threads)
        con.execute("""
            CREATE TABLE many AS SELECT i // 100 AS g, (hash(i) % 9)::DOUBLE - 5 AS grade,
                CASE WHEN grade > -5 THEN greatest(grade, -1) END AS rel,
                CASE WHEN hash(i, 1) % 10 > 0 THEN (i * 37 + g) % 100 + 1 END AS pos
            FROM range(300000) AS r (i)
        """)
        query = f"SELECT g, {', '.join(calls)} FROM many GROUP BY g ORDER BY g"
        results.append(con.execute(query).fetchall())
    exprs = [getattr(rankql, metric)("rel", "pos", **given) for metric, given in metrics.items()]
    lazy = con.sql("SELECT g, rel, pos FROM many").pl().lazy().group_by("g").agg(exprs).sort("g")
    results.append(lazy.collect(engine="streaming").rows())
    for other in results[1:]:
        assert len(other) == len(results[0]) == 3_000
        for one, two in zip(results[0], other, strict=True):
            assert all(map(metric_engines.same, two[1:], one[1:])), (one, two)


def output_of(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout


def test_a_small_ranking_reserves_little_memory():
    """A small ranking asks for less than 8 GB: also what is only reserved may be refused."""
    calls = ", ".join(
        f"rankql.{metric}('rel', 'pos', **{OPTIONS.get(metric, {})})"
        for metric in signatures.RANKING
    )
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
import polars as pl, rankql
rows = pl.DataFrame({{"rel": [0, 1, 2], "pos": [1, 2, 3]}})
print(rows.select({calls}).width)
"""
    assert output_of(code).strip() == str(len(signatures.RANKING))


LONG_RANKING = """
import duckdb, rankql
con = duckdb.connect()
rankql.register(con)
con.execute("SET enable_progress_bar = false")
con.execute("CREATE TABLE t AS SELECT i AS pos, hash(i) % 7 AS rel FROM range(1, 500001) t(i)")
((value,),) = con.execute("SELECT kendall_tau_b(rel, pos) FROM t").fetchall()
status = open("/proc/self/status").read()  # ru_maxrss of a child may be that of its parent
used = int(status.partition("VmHWM:")[2].split()[0])
((grades,),) = con.execute("SELECT list(rel ORDER BY pos) FROM t").fetchall()
from scipy.stats import kendalltau
expected = kendalltau([-i for i in range(len(grades))], grades).statistic
print(used // 1024 < 600, abs(value - expected) < 1e-12)
"""


@pytest.mark.slow
def test_kendall_tau_in_bounded_memory():
    """One ranking of 500,000 items as scipy has it, in 230 MB.

    Each level of the merge sort is dropped before the next; all of them at once took 1,700 MB.
    """
    assert output_of(LONG_RANKING).split() == ["True", "True"]

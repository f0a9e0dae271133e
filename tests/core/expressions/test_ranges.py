"""Never a number that cannot be right: items that share a position, a perfect ranking, any k."""

import math
import random
import subprocess
import sys
from functools import cache

import duckdb
import polars as pl
import pytest

import rankql
from support import definitions, metric_engines, signatures
from support.metric_engines import ROWS as ENGINES
from support.parameters import crossed, cycled, few

SHARED = "several items share a position"
# All but those that define what ties are.
RANKING = [metric for metric in signatures.RANKING if not metric.startswith("kendall")]


def complaint(engine, metric, group, options):
    return metric_engines.complaint(lambda: ENGINES[engine].run(metric, [group], options))


# Two merged rankings; one of two items after another of three; the same within the first k.
MERGED = [
    ([(3, 1), (0, 2), (0, 1), (2, 2)], {}),
    ([(1, 1), (0, 2), (1, 3), (0, 1), (1, 2)], {}),
    ([(1, 1), (0, 1), (1, 90)], {"k": 1}),
]


@few(6)(("metric", "engine"), crossed(RANKING, ENGINES, ["sql", "polars"]))
def test_more_items_than_positions_are_refused(metric, engine):
    """In every form; and nothing is refused once they are told apart."""
    for rows, options in MERGED:
        if options and not signatures.takes_k(metric):
            continue
        options = {**signatures.REQUIRED.get(metric, {}), **options}
        assert complaint(engine, metric, rows, options).startswith(SHARED), rows
        apart = [(rel, place) for place, (rel, _) in enumerate(rows, 1)]
        assert len(ENGINES[engine].run(metric, [apart], options)) == 1


@few(10)("engine", ENGINES)
@pytest.mark.parametrize(
    ("metric", "options"), [("ndcg", {}), ("ndcg", {"k": 5}), ("ap", {}), ("rbp", {"p": 0.2})]
)
def test_two_items_at_the_first_position_are_refused(metric, options, engine):
    """As many items as positions up to the last, and yet two at the first: the value tells."""
    rows = [(1, 1), (1, 1), (1, 3)]
    assert complaint(engine, metric, rows, options).startswith(SHARED)


@few(2)("metric", ["alpha_ndcg", "alpha_dcg", "err_ia", "subtopic_recall"])
@pytest.mark.parametrize("engine", ["sql", "polars"])
def test_more_subtopic_items_than_positions_are_refused(metric, engine):
    rows = [(["a"], 1), (["b"], 1), (["a"], 2)]
    assert complaint(engine, metric, rows, {}).startswith(SHARED)


@pytest.mark.parametrize("metric", ["micro_precision_at", "micro_f1_at"])
def test_a_query_that_merges_rankings_is_refused(metric):
    options = {"k": 1, "query": metric_engines.Column("query")}
    expected = "query must identify one ranking, but has too few values for so many items: 1"
    for engine in ENGINES:
        assert complaint(engine, metric, [(1, 1, 7)] * 10, options).startswith(expected), engine


# Perfect rankings.


def perfect(seed, count=300):
    """Rankings in their best order: few grades and many, whole and not, short and long."""
    draw = random.Random(seed)
    for _ in range(count):
        size = draw.choice([1, 2, 3, 4, 7, 30, 100, 400])
        scales = [[0, 1], [0, 1, 2, 3], [0, 0.1, 0.3, 0.7], [2.0**n - 1 for n in range(6)]]
        grades = draw.choice([*scales, [draw.random() * 10 for _ in range(9)]])
        rels = sorted((draw.choice(grades) for _ in range(size)), reverse=True)
        if rels[0] > 0:
            yield [(rel, place) for place, rel in enumerate(rels, 1)]


PERFECT = list(perfect(1))
PERFECT_OPTIONS = [
    *({"k": k} for k in (None, 1, 3, 10, 37, 1000)),
    *({"base": 10}, {"k": 5, "base": math.e}, {"ideal": "retrieved"}),
    {"discounts": [1 + 0.1 * i for i in range(400)]},
    {"k": 3, "discounts": [0.9, 1.7, 2.3]},
]
FORMS = [*ENGINES, "sql list", "polars list", "sql score", "polars score"]


@few(2)(("options", "engine"), crossed(PERFECT_OPTIONS, FORMS, ["sql", "polars"]), ids=str)
def test_a_perfect_ranking_is_exactly_1(options, engine):
    run = metric_engines.ENGINES[engine]
    groups = PERFECT if engine not in ("sql whole table", "polars select") else PERFECT[:20]
    assert set(run.run("ndcg", groups, options)) == {1.0}


@few(3)("metrics", [["nDCG@1", "nDCG@3", "nDCG@10"], ["nDCG", "nDCG@100"]])
@pytest.mark.parametrize("grades", [1, 3, 5, 0.5])
def test_a_perfect_ranking_is_exactly_1_in_evaluate(grades, metrics):
    """Packed tops of whole grades, and the macros; of ranked tables, and joined by scores."""
    draw, rows = random.Random(2), []
    grade = draw.random if grades < 1 else lambda: draw.randint(0, grades)
    for query in range(400):
        rels = sorted((grade() for _ in range(draw.randint(1, 30))), reverse=True)
        rows += [(query, n, float(rel), n + 1, -n) for n, rel in enumerate(rels)]
    table = pl.DataFrame(rows, schema=["query", "item", "rel", "pos", "score"], orient="row")
    joined = (table.select("query", "item", "score"), table.select("query", "item", "rel"))
    for data in ((table.drop("score"),), joined):
        result = rankql.evaluate(*data, metrics=metrics, interval=None)
        for metric in metrics:
            assert set(result.per_query[metric].drop_nulls()) == {1.0}


@few(2)("engine", ["sql", "polars", "pipe", "sql list", "polars list"])
def test_one_swap_is_below_1(engine):
    """One swap at the bottom of 1,000 shows, also of grades that differ by a thousandth."""
    swapped = [
        [(rel, place) for place, rel in enumerate([1.0] * (size - 2) + [low, 1], 1)]
        for size in (2, 10, 100, 1000)
        for low in (0, 0.999)
    ]
    assert max(metric_engines.ENGINES[engine].run("ndcg", swapped, {})) < 1


@few(4)("p", [0.1, 0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("engine", ["sql", "polars", "sql list", "polars list"])
def test_rbp_stays_within_1(p, engine):
    run = metric_engines.ENGINES[engine].run
    groups = [[(1, place) for place in range(1, size + 1)] for size in (10, 100, 3000)]
    assert max(run("rbp", groups, {"p": p})) <= 1
    assert min(run("rbp_residual", groups, {"p": p})) >= 0


# Any k costs what the data costs.

LIMITS = [1, 10, 50, 1000, 10**6, 2**31 - 1, 2**53]


@pytest.fixture(scope="module")
def small():
    """Many small groups, and little memory."""
    con = metric_engines.with_macros(duckdb.connect(config={"memory_limit": "500MB", "threads": 2}))
    con.execute(
        "CREATE TABLE t AS SELECT i // 3 AS g, i % 3 AS item, 1 + i % 3 AS pos, "
        "(i * 7 % 11) / 2 AS rel, -(i % 3) AS score FROM range(150000) AS t (i)"
    )
    return con


CALLS = [
    *(f"{metric}(rel, pos, {{k}})" for metric in ("ndcg", "idcg", "ap", "precision_at")),
    *("ndcg(rel, pos, {k}, discounts := [1, 2, 3])", "err(rel, pos, {k}, max_rel := 5)"),
    *("rbp(rel, pos, {k}, p := 0.8)", "ndcg_by_score(rel, score, item, {k})"),
]


@few(2)(("call", "k"), crossed(CALLS, LIMITS, [2**53]))
def test_any_k_runs_in_little_memory(small, call, k):
    query = f"SELECT count(x), avg(x) FROM (SELECT {call.format(k=k)} AS x FROM t GROUP BY g)"
    count, mean = small.execute(query).fetchall()[0]
    assert 47_500 < count <= 50_000 and math.isfinite(mean)


@few(3)("k", LIMITS)
def test_any_k_of_a_list_runs_in_little_memory(small, k):
    query = f"SELECT list_ndcg([1, 2, 3], {k}), list_idcg(rels, {k}) FROM (SELECT [1] AS rels)"
    assert small.execute(query).fetchall()[0][1] == 1


@few(1)("k", [1, 1000, 2**53])
@pytest.mark.parametrize("columns", ["g AS query, item, rel, pos", "g AS query, item, rel, score"])
def test_evaluate_runs_any_k_in_little_memory(small, columns, k):
    small.execute(f"CREATE OR REPLACE TABLE run AS SELECT {columns} FROM t")
    result = rankql.evaluate("run", metrics=f"nDCG@{k}", con=small, interval=None)
    assert 0 < result[next(iter(result))] < 1


# One ranking of 10,000 items, and many rankings on one thread and on more

N = 10_000
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
def rows_and_lists(kind):
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
def test_one_ranking_of_10_000_items(metric, kind):
    (rows, lists), options = rows_and_lists(kind), OPTIONS.get(metric, {})
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
def test_sql_equals_polars_on_10_000_scores(metric):
    """Most of them tied: over all orders of the ties, or by item where that has no closed form."""
    options = {**OPTIONS.get(metric, {}), "ties": "expected"}
    if metric_engines.no_expectation(metric, options):
        options["ties"] = "item"
    of = values(f"{metric}_by_score", scores(), ["rel", "score", "item"], options)
    sql, *polars = (value for _, value in of)
    assert polars == (pytest.approx([sql] * 2, rel=1e-10) if sql is not None else [None] * 2)


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

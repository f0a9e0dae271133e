"""Reduced rankings give the values of the readable query: a window, and one macro per metric."""

import os
import pickle
import random
import subprocess
import sys

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.evaluation.finish.compute import UNHASHED_FROM_ROWS
from rankql.core.evaluation.reduce import reduce
from support import metric_engines
from support.parameters import cycled, few, slow
from support.reductions import compare, evaluate, require_equal
from support.samples import SHAPES, join, ranked, ranked_table, score

SMALL = ["nDCG@5", "AP@20", "P(rel=2)@10", "ERR@10"]
DEEP = ["AP", "Bpref", "Rprec", "R@100", "nDCG@5", "Judged@10"]
# Many ties, infinite scores, zeros of both signs, and items without a score; or few ties.
TIED = [0.0, -0.0, 1.0, 2.0, 0.5, 1e300, float("inf"), float("-inf"), None]
SCORES = [TIED, [1.0], [*range(1000)], [None, 1.0, 2.0]]
TIES = ["item", "order", "expected", "worst"]


def draw_scores(seed, scores, queries=40):
    """Rankings of two systems; some have no score at all."""
    rng = random.Random(seed)
    table = pl.concat(
        [ranked(3, name, queries, 45).with_columns(system=pl.lit(name)) for name in "AB"]
    ).drop("pos")
    column = pl.Series([rng.choice(scores) for _ in range(table.height)], dtype=pl.Float64)
    none = pl.col("query") % 8 == 1
    return table.with_columns(score=pl.when(~none).then(column), part=pl.col("query") % 3)


def as_run(table):
    """The same as runs of both systems and judgments."""
    qrels = table.filter(pl.col("rel").is_not_null()).unique("item").drop("score", "system")
    return table.select("system", "query", "item", "score"), qrels


# Ties.


@few(1)(("ties", "seed", "shape"), cycled(TIES * 3, range(len(SCORES)), ["own", "joined", "deep"]))
def test_ties(ties, seed, shape):
    """Within the first items and across the last, in rankings of few items; of several systems."""
    table = draw_scores(seed, SCORES[seed])
    data = (table, None) if shape == "own" else as_run(table)
    metrics = ["nDCG@10", "AP@3", "F1@20", "RR@7"]
    if shape == "deep":
        metrics = ["AP", "nDCG(gain=exp2)@3", "RR", "Rprec", "P@5", "nDCG"]
    if ties != "expected":
        metrics += ["ERR@5", "microF1@2", *(["Bpref"] if shape == "deep" else [])]
    for each in (metrics, ["R@1" if shape != "deep" else "Success"]):
        compare(*data, each, ties=ties, system="system", by="part")
    compare(*data, metrics, ties=ties, system="system", undefined="drop", missing="skip")
    own = [] if ties == "expected" else ["own = count(rel)"]
    compare(*data, [*metrics, *own], ties=ties, system="system", descending=False)


def test_an_item_that_is_tied_with_a_judged_one_moves_it():
    """Whatever it is, above or below, next to it or at the end."""
    rows = [(q, x, 3.0 if i == q else 5.0 - i) for q in range(5) for i, x in enumerate("abcde")]
    run = pl.DataFrame(rows, ["query", "item", "score"], orient="row")
    qrels = pl.DataFrame({"query": range(5), "item": "c", "rel": 1})
    for ties, metrics in cycled(TIES, [["RR", "P"], ["AP", "RR@3", "P@2"], "P@3"]):
        compare(run, qrels, metrics, ties=ties)


# What the reduction depends on.


@few(1)(
    ("shape", "metrics", "options"),
    [
        ("ranked without items", ["nDCG@5", "own = count(rel)"], {}),
        ("joined", SMALL, {}),
        ("joined", ["R@2", "nDCG(ideal=retrieved)@5"], {}),
        ("joined by score", DEEP, {}),
        ("joined by score", ["nDCG@10"], {"ideal": "retrieved"}),
        ("joined by other scores", ["nDCG@10", "P@5"], {"conventions": "sklearn"}),
        ("ranked by score", ["nDCG@10"], {"ideal": "retrieved"}),
        ("joined by score", ["IPrec@0.5"], {}),
        ("joined by score", ["own = count(rel)"], {}),
        ("ranked", ["nDCG@5"], {"unjudged": "remove"}),
        ("ranked", ["nDCG(base=3)@5"], {}),
        ("ranked", ["nDCG@5"], {"discounts": [1, 2, 3, 4, 5]}),
        ("ranked", ["nDCG@5"], {"gain": {0: 0, 1: 1, 2: 5, 3: 7}}),
        ("ranked", ["P@5"], {"threshold": 0}),
    ],
)
def test_metrics_and_conventions_with_and_without_a_formula(shape, metrics, options):
    compare(*SHAPES[shape](ranked(3)), metrics, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("tied", "grade"), cycled([1, 3], [1, 0.5, 7]))
def test_rankings_with_more_judged_items_than_columns(grade, tied):
    """They are read by the readable query; others are not."""
    sizes = (reduce.MAX_LISTED - 1, reduce.MAX_LISTED, reduce.MAX_LISTED + 1, 3)
    rows = [(q, pos % 3 + 1, pos) for q, size in enumerate(sizes) for pos in range(1, size + 1)]
    table = ranked_table(rows).with_columns(pl.col("rel") * grade)
    for data in ((table, None), (score(table, tied), None), join(score(table, tied))):
        compare(*data, ["AP", "nDCG@1000", "Bpref", "R@205"])
        compare(*data, "nDCG", ideal="retrieved")


@pytest.mark.slow
def test_long_lists_take_the_window(monkeypatch):
    monkeypatch.setattr(reduce, "MAX_STEPS", 50)
    for shape in ("ranked by score", "joined by other scores"):
        compare(*SHAPES[shape](ranked(3)), DEEP)


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


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_slices(shape):
    """By attributes in a table of their own, in the run and in the judgments; with weights."""
    about = pl.DataFrame({"query": range(200)}).with_columns(
        segment=pl.col("query") % 3,
        city=pl.when(pl.col("query") % 5 > 0).then(pl.lit("x")),
        traffic=pl.col("query") % 4 + 1,
    )
    run, qrels = SHAPES[shape](ranked(3))
    names = [x for x in about.columns if x != "query"]
    options = {"by": ["segment", ["segment", "city"]], "weight": "traffic"}
    for metrics in (["nDCG@10", "P@5"], ["nDCG@10", "P@5", "microR@5", "AP"], ["IPrec@0.5", "AP"]):
        compare(run, qrels, metrics, attributes=about, **options)
    compare(run.join(about, "query"), qrels, metrics, **options)
    if qrels is not None:
        compare(run, qrels.join(about.select("query", *names), "query"), metrics, **options)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_several_systems(shape):
    """A dict of runs, and a column with their names."""
    both = {name: SHAPES[shape](ranked(5, name)) for name in ("one", "two")}
    qrels = both["one"][1]
    runs = {name: run for name, (run, _) in both.items()}
    one = pl.concat([run.with_columns(name=pl.lit(name)) for name, run in runs.items()])
    compare(runs, qrels, [*SMALL, "microP@5", "microR@10", "microF1@10"])
    compare(one, qrels, DEEP, system="name")


# Types of columns, settings and grades.

TYPES = ["TINYINT", "UTINYINT", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT"]
TYPES += ["UHUGEINT", "DECIMAL(9,2)", "DECIMAL(38,4)", "DOUBLE"]
NARROW = [("TINYINT", "TINYINT"), ("UTINYINT", "UTINYINT"), ("FLOAT", "FLOAT"),
          ("BOOLEAN", "TINYINT")]  # fmt: skip


def connect(end=3, rel="DOUBLE", pos="BIGINT", **settings):
    """A connection with the tables `ranked`, `run` and `qrels`."""
    con, table = metric_engines.connect(**settings), ranked(end)
    for name, rows in zip(("ranked", "run", "qrels"), (table, *join(table)), strict=True):
        kinds = {"rel": rel, "pos": pos}
        casts = [f"CAST({c} AS {kinds[c]}) AS {c}" for c in kinds if c in rows.columns]
        con.register("rows", rows.to_arrow())
        con.execute(f"CREATE TABLE {name} AS SELECT * REPLACE ({', '.join(casts)}) FROM rows")
    con.unregister("rows")
    return con


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rel", "pos"), [*zip(TYPES, [*TYPES[1:], TYPES[0]], strict=True), *NARROW]
)
def test_no_sum_and_no_shift_overflows_for_any_type(rel, pos):
    end = 1 if rel == "BOOLEAN" or pos == "TINYINT" else 5
    con, last = connect(end, rel, pos), {1: 90, 5: 22}[end]
    compare("ranked", None, ["nDCG@5", f"IDCG@{last}", f"P@{last}"], con=con)
    compare(*(("run", "qrels") if rel in TYPES[::2] else ("ranked", None)), DEEP, con=con)
    if "INT" not in rel and rel != "BOOLEAN":
        con.execute("UPDATE ranked SET rel = 0.5 WHERE rel = 1; UPDATE qrels SET rel = rel / 2")
        compare("ranked", None, SMALL, con=con)
        compare("run", "qrels", SMALL, con=con)


ORDERS = [{}, {"descending": False}, {"float32": True}]
# Neighbours are equal as DOUBLE, and some are tied.
ABOVE = "9007199254740992"
KINDS = {
    "TINYINT": "({})::TINYINT",
    "BIGINT": f"{ABOVE} + {{}}",
    "HUGEINT": f"{ABOVE}::HUGEINT * 4096 + {{}}",
    "UHUGEINT": f"({ABOVE}::HUGEINT * 4096 + {{}})::UHUGEINT",
    "DECIMAL": f"(({ABOVE} + {{}}) / 16::DECIMAL(4, 2))::DECIMAL(30, 4)",
    "FLOAT": "({} / 7)::FLOAT",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "ties", "options"), cycled([*KINDS], ["expected", "item", "worst"], ORDERS), ids=str
)
def test_scores_are_compared_in_their_own_type(kind, ties, options):
    con = duckdb.connect()
    con.execute(f"""CREATE TABLE ranked AS SELECT q AS query, i AS item, hash(q, i) % 4 AS rel,
            {KINDS[kind].format("(hash(i, q) % 40)::BIGINT")} AS score
        FROM range(30) s(q), range(12) t(i)""")
    con.execute("CREATE VIEW run AS FROM ranked; CREATE VIEW qrels AS FROM ranked")
    options = {"con": con, "ties": ties, **options}
    for data in (("ranked", None), ("run", "qrels")):
        compare(*data, ["nDCG@5", "AP@3", "P@7"], **options)
        compare(*data, ["nDCG@5", "AP", "R@100"], **options)


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
    con, scored = connect(3, "INTEGER", **settings), draw_scores(1, TIED)
    before = metric_engines.state(con)
    expected = evaluate(ranked(3), None, SMALL, reduces=False)
    require_equal(compare("ranked", None, SMALL, con=con).per_query, expected.per_query)
    compare("run", "qrels", [*SMALL, "AP"], con=con)
    options = {"ties": "worst", "system": "system"}
    compare(*as_run(scored), DEEP, con=con, **options)
    alone = compare(scored, None, SMALL, con=con, **options)
    plain = evaluate(scored, None, SMALL, reduces=False, **options)
    require_equal(alone.per_query, plain.per_query)
    assert metric_engines.state(con) == before


def test_transaction_sees_its_own_rows():
    con = connect(3, "INTEGER")
    before = compare("ranked", None, "nDCG@10", con=con).per_query
    con.execute("BEGIN; INSERT INTO ranked (query, item, rel, pos) VALUES (-1, -1, 3, 2)")
    con.execute("UPDATE ranked SET rel = 0 WHERE query = 1 AND rel IS NOT NULL")
    con.execute("CREATE TABLE fresh AS FROM ranked")
    for name in ("ranked", "fresh"):
        values = compare(name, None, "nDCG@10", con=con).per_query
        assert values.height == before.height + 1
        assert values.row(0)[1] == pytest.approx(0.63, abs=0.001)
        assert values.filter(query=1)["nDCG@10"].item() is None


@few(1)(
    ("rel", "pos", "shape"),
    cycled([0.5, 2.999, 6, 1e300, -1, -0.5, 0.5], [1, None], ["ranked", "ranked", "joined"]),
)
def test_one_other_grade(rel, pos, shape):
    """Then no grades are counted."""
    one = [(7_000, rel, pos), (7_000, 1, 2), (7_000, 3, None)]
    data = SHAPES[shape](
        pl.concat([ranked(3), ranked_table(one).with_columns(pl.col("item") + 10**6)])
    )
    compare(*data, ["nDCG@5", "AP@5", *([] if rel == 1e300 else ["ERR@5"])])


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

"""The metrics as window queries, on every engine that runs them here."""

import dataclasses
import random

import duckdb
import polars as pl
import pyarrow as pa
import pytest
import sqlglot

import rankql
from rankql import macros
from rankql.engines import windows
from rankql.engines.dialects import DIALECTS
from rankql.engines.sql_trees import parse_sql, window_macros, window_metrics
from rankql.engines.windows import ENGINES, translate_to_windows
from rankql.errors import database_message
from support import metric_engines, signatures, window_databases
from support.metric_engines import same
from support.printed_dialects import LONG, PRINTED, snapshot_path, write_snapshot
from support.small_evaluation import QRELS, RUN, assert_alike

EXECUTED = ["duckdb", "datafusion", "postgres"]
OFFERED = [m for m in signatures.METRICS if m not in signatures.TWO_RANKINGS and "kendall" not in m]


@pytest.fixture(scope="module", params=window_databases.params(*EXECUTED))
def engine(request):
    with window_databases.opened(request.param) as made:
        made.name = request.param
        yield made


@pytest.fixture(scope="module")
def duck():
    return metric_engines.connect()


def test_engines():
    assert [n for n, e in ENGINES.items() if e.executed] == sorted(
        EXECUTED, key=list(ENGINES).index
    )
    assert [n for n, e in ENGINES.items() if not e.executed] == PRINTED
    assert [*DIALECTS] == ["spark", *(name for name in ENGINES if name != "duckdb")]
    assert window_metrics() - signatures.INCOMPLETE == {*OFFERED, "exp2_gain"}


def test_the_same_parameters():
    """What stands in for a macro is called as it is."""
    theirs = macros.read_parameters()
    for name, macro in window_macros().items():
        if name in macros.read_statements("windows") and name in macros.read_comments():
            assert list(macro.parameters) == list(theirs[name]), name


def equal(engine, duck, query, tables):
    """The query gives what DuckDB makes of it by the macros."""
    for name, table in tables.items():
        engine.load(name, table)
        duck.register("handed", table)
        duck.execute(f"CREATE OR REPLACE TABLE {name} AS FROM handed")
    expected = duck.sql(query).fetchall()
    result = engine.ask(translate_to_windows(query, engine.name))
    if "ORDER BY" not in query:
        expected, result = (sorted(r, key=lambda row: str(row[0])) for r in (expected, result))
    assert len(expected) == len(result)
    for ours, theirs in zip(result, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert same(one, other) if isinstance(other, float) else one == other, (ours, theirs)


def rankings(seed, n=60):
    """Nasty ones: unjudged, not retrieved, negative, gaps, nothing relevant, NULL for a key."""
    draw = random.Random(seed)
    listed = []
    for g in range(n):
        size = draw.choice([1, 2, 3, 8, 40])
        places = draw.sample(range(1, size * 2), size)
        for place in places:
            rel = (
                draw.choice([None, -1.5, 0, 0, 0.25, 1, 2, 3]) if g % 5 else draw.choice([0, None])
            )
            pos = place if draw.random() < 0.8 else None
            listed.append((None if g == 7 else g, f"s{g % 3}", rel, pos, draw.random()))
    columns = list(zip(*listed, strict=True))
    kinds = [pa.int64(), pa.string(), pa.float64(), pa.int64(), pa.float64()]
    arrays = [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=["user", "segment", "rel", "pos", "score"])


# All calls in one query, so that each must find its own columns.
EVERYTHING = [
    "cg(rel, pos)", "precision_at(rel, pos, 1)", "judged_at(rel, pos, 1)",
    "dcg(rel, pos, 5)", "dcg(rel, pos, base := 10)", "idcg(rel, pos, 3)",
    "idcg(rel, pos, ideal := 'retrieved')", "ndcg(rel, pos, 10)", "ndcg(exp2_gain(rel), pos, 5)",
    "ndcg(CASE rel WHEN 3 THEN 10 ELSE rel END, pos)", "ndcg(rel, pos, 4, negative := 'keep')",
    "ndcg(rel, pos, 3, discounts := [0.8, log2(3), 2])", "precision_at(rel, pos, 5)",
    "precision_at(rel, pos, denominator := 'retrieved')",
    "precision_at(rel, pos, 9, denominator := 'min')",
    "recall_at(rel, pos, 3, threshold := 2)", "f1_at(rel, pos)", "hit_at(rel, pos, 2)",
    "r_precision(rel, pos)", "ap(rel, pos)", "ap(rel, pos, 5, denominator := 'R')",
    "ap(rel, pos, 5, denominator := 'found')", "ap(rel, pos, 5, denominator := 'k')",
    "bpref(rel, pos)", "judged_at(rel, pos, 5)", "micro_recall_at(rel, pos, 3)",
    "micro_precision_at(rel, pos, 3, query := user)", "micro_f1_at(rel, pos)", "rr(rel, pos, 3)",
    "arhr(rel, pos)", "err(rel, pos, 10, max_rel := 3)", "err(rel, pos, max_rel := 4, p := 0.8)",
    "rbp(rel, pos, p := 0.8, threshold := 0.25)", "rbp(rel, pos, p := 0.5, max_rel := 3)",
    "rbp_residual(rel, pos, 5, p := 0.9)", "rmse(rel, score)", "mse(rel, score)", "mae(rel, score)",
]  # fmt: skip


@pytest.mark.slow
def test_all_metrics_in_one_query(engine, duck):
    query = f"SELECT user, {', '.join(EVERYTHING)} FROM shown GROUP BY user"
    equal(engine, duck, query, {"shown": rankings(0, 180)})


QUERIES = [
    # as in the README
    '''SELECT user, ndcg(rel, pos, 10), ap(rel, pos) AS "it's ""ap""" FROM shown
    GROUP BY user ORDER BY user DESC''',
    # what else may stand there
    """SELECT segment, user AS u, count(*) AS n, avg(score) AS a, count(DISTINCT pos) AS d,
    ndcg(rel, pos) AS v FROM shown WHERE score > 0.1
    GROUP BY segment, user ORDER BY v, 2 LIMIT 7 OFFSET 1""",
    # means over the rankings
    """SELECT segment, avg(v) AS mean, count(v) AS n
    FROM (SELECT segment, user, ap(rel, pos, 5) AS v FROM shown GROUP BY segment, user) AS each
    GROUP BY segment ORDER BY segment""",
    """WITH good AS (SELECT * FROM shown WHERE score > 0.3),
    each AS (SELECT user, ndcg(rel, pos) AS v FROM good GROUP BY user)
    SELECT avg(v), count(*) FROM each""",
    # run and judgments
    """SELECT r.user, ndcg(j.rel, r.pos, 5) AS v, ap(exp2_gain(j.rel) * 1, r.pos),
    interpolated_precision(j.rel, r.pos, recall := 0.5) FROM shown AS r
    LEFT JOIN shown AS j ON r.user = j.user AND r.pos = j.pos GROUP BY r.user ORDER BY 1""",
    # ranked on the way
    """SELECT user, ndcg(rel, place, 5) AS v FROM (
        SELECT user, rel, row_number() OVER (PARTITION BY user ORDER BY score DESC) AS place
        FROM shown
    ) AS by_score GROUP BY user ORDER BY user""",
    # of all rows, and of none
    """SELECT micro_precision_at(rel, pos, 3, query := user), micro_recall_at(rel, pos, 2)
    FROM shown""",
    "SELECT ndcg(rel, pos), dcg(rel, pos), precision_at(rel, pos, 3) FROM shown WHERE score > 2",
    "SELECT user, ndcg(rel, pos) FROM shown WHERE score > 2 GROUP BY user",
    # every item shown is as good, or is not known
    """SELECT 7 AS seven, user, ndcg(1, pos, 3), ap(1, pos), bpref(1, pos),
    err(1, pos, max_rel := 1), rbp(2, pos, p := 0.5, max_rel := 2), r_precision(NULL, pos),
    dcg(NULL, pos), judged_at(1, pos, 3) FROM shown
    WHERE pos IS NOT NULL GROUP BY user ORDER BY user""",
    # from nothing but the query
    """WITH shown (user, item, rel, pos) AS (VALUES
        ('ada', 'tea', 3, 1), ('ada', 'mug', 0, 2), ('ada', 'pot', 2, 3), ('ada', 'urn', 3, NULL),
        ('bob', 'mug', 0, 1), ('bob', 'jar', NULL, 2), ('bob', 'tea', 1, 3), ('eve', 'mug', 0, 1))
    SELECT user, 'ndcg(rel, pos) \\ it''s' AS text, ap(rel, pos),
        ndcg(CASE rel WHEN 3 THEN 10 ELSE rel END, pos, 3,
             discounts := [0.8, log2(3), log2(4)]) AS boosted
    FROM shown GROUP BY user ORDER BY user DESC""",
    # two queries
    """SELECT 1 AS k, micro_recall_at(rel, pos, 1) FROM shown UNION ALL
    SELECT 2, micro_recall_at(rel, pos, 2) FROM shown ORDER BY k""",
]  # fmt: skip


@pytest.mark.few(6)
@pytest.mark.parametrize("query", QUERIES)
def test_queries_equal_duckdb(engine, duck, query):
    equal(engine, duck, query, {"shown": rankings(9, 30)})


@pytest.mark.slow
def test_long_rankings_stay_finite(engine, duck):
    """Powers and products that no DOUBLE holds."""
    n = 3000
    table = pa.table({"u": [1] * n, "rel": [3.0] * n, "pos": list(range(1, n + 1))})
    query = (
        "SELECT u, err(rel, pos, max_rel := 3), err(rel, pos, max_rel := 3, p := 0.01),"
        " rbp(rel, pos, p := 0.01), rbp(rel, pos, p := 0.999),"
        " ap(rel, pos), ndcg(rel, pos) FROM shown GROUP BY u"
    )
    equal(engine, duck, query, {"shown": table})


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("call", "rel", "pos", "message"),
    [
        ("ndcg(rel, pos)", INFINITE, 1, "rel must be a finite number, not "),
        ("ndcg(rel, pos)", NAN, 1, "rel must be a finite number, not "),
        ("recall_at(rel, pos, 3)", 1.0, 0, "pos must be a whole number from 1, not 0"),
        ("ap(rel, pos * 0.5)", 1.0, 1, "pos must be a whole number from 1, not 0.5"),
        ("err(rel, pos, max_rel := 3)", 4.0, 1, "rel must not exceed max_rel: 4"),
        ("rbp(rel, pos, p := 0.5, max_rel := 3)", 4.0, 1, "rel must not exceed max_rel: 4"),
        ("mae(1, rel)", INFINITE, 1, "score must be a finite number, not "),
        ("dcg(rel, pos, discounts := [1, 2])", 1.0, 3, "has 2 entries, but position 3 is counted"),
        ("micro_precision_at(rel, pos, 1, query := 7 * pos)", 1.0, 1, "query must identify one"),
    ],
)
def test_rows_are_refused_by_the_engine(engine, call, rel, pos, message):
    """They are an error of the engine, with our message in it; other rows go through."""
    first = 2 if message.startswith("rel ") and pos == 1 else 1
    table = pa.table({"rel": [1.0, rel], "pos": [first, pos]})
    engine.load("bad", table.cast(pa.schema([("rel", pa.float64()), ("pos", pa.int64())])))
    query = translate_to_windows(f"SELECT {call} AS v FROM bad", engine.name)
    with pytest.raises(Exception, match=r"must|entries") as error:
        engine.ask(query)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "call", ["ndcg(rel, pos)", "ap(rel, pos, 2)", "rr(rel, pos)", "err(rel, pos, max_rel := 3)"]
)
def test_shared_positions_are_refused(engine, call):
    message = (
        "several items share a position: GROUP BY the query, or number positions with row_number()"
    )
    for shown, refused in (([1, 2, 1, 2], True), ([1, 2, 3, 4], False)):
        engine.load("merged", pa.table({"rel": [3.0, 0.0, 0.0, 2.0], "pos": shown}))
        query = translate_to_windows(f"SELECT {call} AS v FROM merged", engine.name)
        if refused:
            with pytest.raises(Exception, match="several items share a position") as error:
                engine.ask(query)
            assert message in str(error.value)
        else:
            assert 0 < engine.ask(query)[0][0] <= 1


def test_names(engine, duck):
    """Words that are reserved, names that are quoted, and case."""
    query = (
        'SELECT "Order", User, ndcg("select", Pos, 3) AS "Group", sum("a ""b""") AS Total'
        ' FROM "My Table" GROUP BY "Order", User ORDER BY "Order", user'
    )
    table = pa.table(
        {"Order": [1, 1, 2], "user": ["x", "x", "y"], "select": [1.0, 3, 0], "pos": [1, 2, 1],
         'a "b"': [1, 2, 3]}
    )  # fmt: skip
    engine.load("My Table", table)
    rows = engine.ask(translate_to_windows(query, engine.name))
    assert [(row[0], row[1], int(row[3])) for row in rows] == [(1, "x", 3), (2, "y", 3)]
    assert rows[1][2] is None


@pytest.mark.few(1)
@pytest.mark.parametrize("dialect", PRINTED)
def test_printed_dialects_equal_their_snapshots(dialect):
    """What is only printed is as it was looked at, can be read back, and says it is not run."""
    calls = ", ".join(f"{call} AS m{i}" for i, call in enumerate(EVERYTHING))
    for query in (LONG, f"SELECT user, {calls} FROM shown GROUP BY user"):
        text = translate_to_windows(query, dialect)
        assert text.startswith("-- not executed: ")
        for tree in sqlglot.parse(text, dialect=dialect, error_level=sqlglot.ErrorLevel.RAISE):
            again = tree.sql(dialect=dialect, identify=True, pretty=True, comments=False)
            plain = tree.sql(dialect=dialect, comments=False)
            assert sqlglot.parse_one(again, dialect=dialect) == sqlglot.parse_one(plain, dialect)
        lower = text.lower()
        assert not any(left in lower for left in ("filter", "qualify", "lambda", "list_", ":="))
    assert snapshot_path(dialect).read_text("utf-8") == write_snapshot(dialect), (
        "run python tests/generate.py dialects"
    )


def test_means_are_doubles(engine, duck):
    table = pa.table({"g": [1, 2, 3], "f": [2.5, -2.5, 0.5], "n": [2**53 + 1, -7, 0]})
    query = "SELECT g, f, avg(n) AS a FROM t GROUP BY g, f, n ORDER BY g"
    equal(engine, duck, query, {"t": table})
    engine.load("d", pa.table({"x": [1.0, 1.0, 2.0]}))
    ((mean,),) = engine.ask(translate_to_windows("SELECT avg(x) FROM d", engine.name))
    assert type(mean) is float and same(mean, 4 / 3)


@pytest.mark.datafusion
def test_the_mean_of_decimals():
    """DataFusion's own has six places."""
    with window_databases.opened("datafusion") as engine:
        values = pa.array([1, 1, 2], pa.int64()).cast(pa.decimal128(21, 2))
        engine.load("d", pa.table({"x": values}))
        assert engine.ask(translate_to_windows("SELECT avg(x) FROM d", "datafusion")) == [(4 / 3,)]


@pytest.mark.parametrize("engine", window_databases.params("postgres"), indirect=True)
def test_tables_of_postgres_are_read_as_frames(engine):
    for name, frame in {"run": RUN, "qrels": QRELS}.items():
        engine.load(name, pa.table(frame.to_dict(as_series=False)))
    queries = (
        "SELECT query::char(1), item::varchar, score::numeric, hour::smallint FROM run",
        "SELECT query, item, rel::real FROM qrels",
    )
    frames = [pl.read_database(query, engine.con) for query in queries]
    theirs = rankql.evaluate(*frames, ["nDCG@10", "AP"], by="hour")
    assert_alike(rankql.evaluate(RUN, QRELS, ["nDCG@10", "AP"], by="hour"), theirs)


# What translate() refuses, by engine: the query, and the words that say why. No engine is needed

CG = "SELECT u, cg(rel, pos) FROM t"
COLUMNS = {
    "kendall_tau_b(rel, pos)": "has no translation for {}; DuckDB and Spark have it",
    "kendall_tau_distance(rel, pos)": "kendall_tau_distance() has no translation",
    "tau_ap(place, pos)": "tau_ap() has no translation",
    "rbo(place, pos, p := 0.9)": "rbo() has no translation",
    "gini(item)": "gini() has no translation",
    "ndcg_by_score(rel, score, item)": "ndcg_by_score() has no translation",
    "list_ap(rels)": "list_ap() has no translation",
    "median(rel), cg(rel, pos)": "median() has no translation for {}",
    "max(rel, 3), cg(rel, pos)": "max() has no translation for {}",
    "rank, cg(rel, pos)": "rank is neither a key nor in an aggregate; put it into GROUP BY",
    "sum(rel) OVER (), cg(rel, pos)": "rel is neither a key nor in an aggregate",
    "*, cg(rel, pos)": "* next to a metric has no translation for {}; name the columns",
    "cg(rel, pos) FILTER (WHERE pos < 3)": "FILTER on cg has no translation for {}; filter",
    "cg(rel, pos) OVER (PARTITION BY u)": "cg(...) OVER",
    "cg(ndcg(rel, pos), pos)": "ndcg() where rows are not grouped",
    "cg(rel, pos, k := n)": "cg with k from a column has no translation for {}; give a constant",
    "cg(rel, pos, (SELECT 1))": "a query in the list of a SELECT of metrics",
    "cg(rel, pos, k := DATE '2026-01-01')": "An option must be a number, a",
    "list_transform([1], lambda x: x), cg(rel, pos)": "Lambda has no translation",
    "cg(rel, rankql_place)": "names with rankql_ at the start are reserved. Rename it",
    "cg(sum(rel), pos)": "an aggregate or a window within cg()",
    "cg(rel, row_number() OVER ())": "an aggregate or a window within cg()",
    "round(avg(rel)), cg(rel, pos)": "round() has no translation",
    "sum(x ORDER BY y), cg(rel, pos)": "ORDER BY within sum()",
    "strftime(u, '%Y'), cg(rel, pos)": "strftime()",
    "cg(rel[1], pos)": "Bracket",
    "cg(rel)": "cg needs the argument pos",
    "cg(rel, pos, kk := 3)": "cg: 'kk' is unknown or repeated",
}
REFUSED = {
    "spark": {
        "SELECT list_sort(x) FROM t": "list_sort() in another order than 'ASC' or 'DESC'",
        "SELECT x[2:3] FROM t": "x[2:3]",
        "SELECT x[-1] FROM t": "x[-1]",
        "SELECT x SIMILAR TO y FROM t": "has no translation for Spark; put it into a view",
        "SELECT x LIKE 'a%' FROM t": "x LIKE 'a%' has no",
        "SELECT CAST(x AS INT) FROM t": "CAST(x AS INT)",
        "SELECT a / 2 FROM t": "a / 2",
        "SELECT typeof(a) FROM t": "typeof()",
        "SELECT strftime(d, '%Y'), ndcg(rel, pos) FROM t": "strftime()",
        "SELECT list(x ORDER BY y) FROM t": "ORDER BY within list()",
        "SELECT a IN (SELECT b FROM u) FROM t": "a IN (SELECT b FROM u)",
        "SELECT ndcg(rel, pos) FILTER (WHERE pos < 3) FROM t": "FILTER on ndcg",
        "SELECT ndcg(rel, pos) OVER (PARTITION BY u) FROM t": "ndcg(...) OVER",
        "SELECT ndcg(rel) FROM t": "ndcg needs the argument pos",
        "FROM abs(3)": "the table function ABS(3)",
        "FROM ranked('t')": "ranked()",
        "SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS a": "BY NAME",
        # Where the word is no keyword it would be an alias of t, and the join another one.
        "FROM t POSITIONAL JOIN s": "POSITIONAL JOIN",
        "FROM t ASOF JOIN s USING (u)": "ASOF JOIN",
        "SELECT a FROM t WHERE a NOT IN (1, NULL)": "a IN (1, NULL)",
        "SELECT (SELECT max(b) FROM u WHERE u.a = t.a) FROM t": "(SELECT MAX(b) FROM u",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u)": "Exists",
        "SELECT a % 2 FROM t": "a % 2",
        "SELECT MAP {'a': 1}": "ToMap",
        "SELECT graded(e, MAP {'buy': 3}) FROM t": "ToMap",
        "SELECT graded(e, g) FROM t": "graded: ",
        "SELECT current_date": "CurrentDate",
        "SELECT 1; SELECT 2": "cannot be read as one statement",
        "SELECT gini(item) FROM t": "gini: histogram() has no translation for Spark",
        "SELECT ndcg(rel, pos, kk := 3) FROM t": "'kk'",
        "SELECT FROM WHERE": "cannot be read as one statement of DuckDB",
    },
    "postgres": {f"SELECT u, {text} FROM t GROUP BY u": said for text, said in COLUMNS.items()} | {
        "SELECT DISTINCT cg(rel, pos) FROM t GROUP BY u": "DISTINCT next to a metric",
        "SELECT cg(rel, pos, sum(DISTINCT": "cannot be read as one statement of DuckDB",
        "SELECT u FROM t WHERE cg(rel, pos) > 1": "cg() where rows are not grouped",
        "SELECT lower(u) AS v, cg(rel, pos) FROM t GROUP BY v": "GROUP BY v, an alias,",
        f"{CG} GROUP BY ROLLUP (u)": "GROUP BY ROLLUP (u) has no",
        f"{CG} GROUP BY u WITH ROLLUP": "GROUP BY with grouping sets",
        f"{CG} GROUP BY GROUPING SETS ((u))": "GROUP BY GROUPING SETS",
        f"{CG} GROUP BY 3": "GROUP BY 3 has no translation",
        f"{CG} GROUP BY u ORDER BY ALL": "ORDER BY ALL",
        f"{CG} GROUP BY u QUALIFY u > 1": "QUALIFY next to a metric",
        f"{CG} SEMI JOIN s USING (u) GROUP BY u": "SEMI JOIN",
        f"{CG} ANTI JOIN s USING (u) GROUP BY u": "ANTI JOIN",
        f"SELECT u FROM a EXCEPT ({CG} GROUP BY u)": "Except has no translation for Postgres",
        "SELECT cg(rel, pos) FROM t GROUP BY sum(u)": "GROUP BY SUM(u) has no translation",
        "SELECT cg(rel, pos) FROM t GROUP BY 'x'": "GROUP BY 'x' has no translation",
        "SELECT TRY_CAST(a AS DOUBLE) FROM t": "TRY_CAST(a AS DOUBLE)",
        "SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS a": "BY NAME",
    },
    "datafusion": {"SELECT a FROM t INTERSECT SELECT a FROM u": "Intersect"},
    "trino": {
        "SELECT u, median(rel), cg(rel, pos) FROM t GROUP BY u": "median() has no translation",
        "SELECT a FROM t SEMI JOIN u USING (a)": "SEMI JOIN",
        "SELECT a FROM t POSITIONAL JOIN u": "POSITIONAL JOIN",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "query"), [(engine, query) for engine in REFUSED for query in REFUSED[engine]]
)
def test_queries_without_a_translation_are_refused(engine, query):
    with pytest.raises(rankql.RankqlError) as error:
        rankql.translate(query, engine)
    name = ENGINES[engine].name if engine in ENGINES else ""
    assert REFUSED[engine][query].format(name) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "call",
    [
        "ndcg(rel, pos, 0)",
        "ndcg(rel, pos, k := 2.5)",
        "ap(rel, pos, denominator := 'r')",
        "precision_at(rel, pos, 3, denominator := 'R')",
        "ndcg(rel, pos, base := 1)",
        "ndcg(rel, pos, ideal := 'x')",
        "ndcg(rel, pos, negative := 'x')",
        "ndcg(rel, pos, discounts := [1, -1])",
        "hit_at(rel, pos, threshold := 'nan'::DOUBLE)",
        "err(rel, pos)",
        "err(rel, pos, max_rel := 0)",
        "err(rel, pos, max_rel := 3, p := 0)",
        "rbp(rel, pos)",
        "rbp(rel, pos, p := 1)",
        "rbp_residual(rel, pos, p := NULL)",
        "micro_precision_at(rel, pos, 3)",
    ],
)
def test_options_are_refused_in_the_words_of_the_macros(call):
    with pytest.raises(duckdb.Error) as theirs:
        metric_engines.connection().execute(f"SELECT {call} FROM (VALUES (1.0, 1)) AS t (rel, pos)")
    with pytest.raises(rankql.RankqlError) as ours:
        rankql.translate(f"SELECT u, {call} FROM t GROUP BY u", "postgres")
    assert str(ours.value) == database_message(theirs.value)


@pytest.mark.parametrize(
    ("body", "message"), [("sum(list_zip(rel, pos))", "list_zip()"), ("sum(rel[pos])", "Bracket")]
)
def test_a_macro_without_window_form_is_refused(body, message, monkeypatch):
    macro = dataclasses.replace(window_macros()["cg"], body=parse_sql(body, "duckdb"))
    monkeypatch.setitem(window_macros(), "cg", macro)
    with pytest.raises(rankql.RankqlError) as error:
        windows.translate_to_windows(f"{CG} GROUP BY u", "postgres")
    assert f"cg: {message} has no translation" in str(error.value)


def test_an_unknown_dialect_is_corrected():
    for name, correct in (("postgre", "postgres"), ("sparc", "spark")):
        with pytest.raises(rankql.RankqlError, match=f"'{name}'. Did you mean '{correct}'"):
            rankql.translate("SELECT 1", name)

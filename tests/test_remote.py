"""evaluate in Postgres and SQLite: the result of DuckDB, and nothing left behind."""

import random
import sqlite3
from contextlib import ExitStack, closing, suppress

import databases
import duckdb
import polars as pl
import pyarrow as pa
import pytest
from components import optional
from evaluations import QRELS, RUN, assert_alike
from polars.testing import assert_frame_equal
from test_dl19 import DATA, JUDGMENTS
from test_dl19 import RUN as RUN_OF

import rankql

psycopg, sqlalchemy = optional("psycopg"), optional("sqlalchemy")
adbc_duckdb = optional("adbc_driver_duckdb.dbapi")
adbc_postgres = optional("adbc_driver_postgresql.dbapi")
adbc_sqlite = optional("adbc_driver_sqlite.dbapi")

# Sorts 'a' before 'B', 9 before 10, and '_' first of all: nothing here may depend on it.
ODD = (
    "CREATE DATABASE odd TEMPLATE template0 ENCODING 'UTF8' "
    "LOCALE_PROVIDER icu ICU_LOCALE 'de-u-kn' LOCALE 'C'"
)
POSTGRES = ["psycopg", "engine", "connection", "adbc_postgres"]
SQLITE = ["sqlite3", "sqlite_engine", "adbc_sqlite"]


def places(*kinds):
    """The kinds of connections as parameters. Only sqlite3 comes with Python."""
    marks = {kind: [pytest.mark.drivers, pytest.mark.postgres] for kind in POSTGRES}
    marks |= {"sqlite3": [], "sqlite_engine": [pytest.mark.drivers]}
    marks |= {"adbc_sqlite": [pytest.mark.drivers]}
    return [pytest.param(kind, marks=marks[kind]) for kind in kinds]


def url(where):
    host = psycopg.conninfo.conninfo_to_dict(where)["host"]
    return f"postgres@/odd?host={host}"


@pytest.fixture(scope="module")
def server():
    with databases.postgres() as cluster:
        cluster.con.execute(ODD)
        host = psycopg.conninfo.conninfo_to_dict(cluster.where)["host"]
        made = databases.Postgres(host, "odd")
        assert made.ask("SELECT 'a' < 'B', '9' < '10', 'a' < 'ä', '_' < '1'") == [(True,) * 4]
        yield made
        made.con.close()


@pytest.fixture(scope="module")
def lite(tmp_path_factory):
    """A file, for the connections of several drivers."""
    made = databases.SQLite()
    made.path = str(tmp_path_factory.mktemp("lite") / "rankings.db")
    made.con = sqlite3.connect(made.path, isolation_level=None)
    yield made
    made.con.close()


def opened(kind, database):
    """A connection of a kind, or an engine, with what is to be closed in the end."""
    stack = ExitStack()
    if kind in ("engine", "connection"):
        con = sqlalchemy.create_engine(f"postgresql+psycopg://{url(database.where)}")
        stack.callback(con.dispose)
        con = stack.enter_context(con.connect()) if kind == "connection" else con
    elif kind == "sqlite_engine":
        con = sqlalchemy.create_engine(f"sqlite:///{database.path}")
        stack.callback(con.dispose)
    else:
        made = {
            "psycopg": lambda: psycopg.connect(database.where),
            "adbc_postgres": lambda: adbc_postgres.connect(f"postgresql://{url(database.where)}"),
            "sqlite3": lambda: sqlite3.connect(database.path),
            "adbc_sqlite": lambda: adbc_sqlite.connect(database.path),
        }
        con = stack.enter_context(closing(made[kind]()))
    return stack, con


@pytest.fixture(params=places(*POSTGRES, *SQLITE))
def place(request):
    """Where the tables go, and a connection to it."""
    database = request.getfixturevalue("server" if request.param in POSTGRES else "lite")
    stack, con = opened(request.param, database)
    with stack:
        yield database, con


KINDS = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}


def stored(database, **frames):
    for name, frame in frames.items():
        table = frame.to_arrow()
        kinds = [(field.name, KINDS.get(field.type, field.type)) for field in table.schema]
        database.load(name, table.cast(pa.schema(kinds)))


ASKED = [
    (["nDCG@10", "AP", "ERR@3"], {}),
    (["nDCG@10", "AP"], {"conventions": "trec_eval", "by": "hour"}),
    ("AP", {"interval": "t", "missing": "skip", "threshold": 2}),
    (["AP", "microR@10", "microP", "microF1@2", "P@2"], {"ties": "best"}),
    (["AP", "RMSE", "microMAE", "Rprec"], {"unjudged": "remove", "ties": "worst"}),
    (["nDCG", "CG", "AP"], {"gain": {0: 0, 1: 5, 2: 6, 3: 9}, "ideal": "retrieved"}),
    (["nDCG@2", "P@2", "Bpref", "RBP(p=0.8)"], {"gain": "binary", "undefined": "drop"}),
    (["twice = 2 * ndcg(rel, pos, 3)", "AP(denominator=R)@2"], {"undefined": "zero"}),
    (["nDCG", "F1@2", "ARHR", "Judged@2", "Success@1"], {"discounts": [0.8, 1, 2], "max_rel": 4}),
]


def without_32_bits(con, options):
    """SQLite has none."""
    lite = "sqlite" in f"{type(con).__module__} {getattr(con, 'url', '')}"
    return options | ({"float32": False} if lite and "conventions" in options else {})


@pytest.mark.parametrize(("asked", "options"), ASKED)
@pytest.mark.parametrize("place", places("psycopg", "adbc_postgres", "sqlite3"), indirect=True)
def test_a_run_and_judgments(place, asked, options):
    database, con = place
    options = without_32_bits(con, options)
    stored(database, run=RUN, qrels=QRELS)
    ours = rankql.evaluate(RUN, QRELS, asked, **options)
    assert_alike(ours, rankql.evaluate("run", "qrels", asked, con=con, **options))


def test_several_runs(place):
    database, con = place
    other = RUN.filter(pl.col("query") != "a")
    both = pl.concat(
        [RUN.with_columns(model=pl.lit("ä'\\")), other.with_columns(model=pl.lit("B"))]
    )
    stored(database, run=RUN, other=other, both=both, qrels=QRELS)
    ours = rankql.evaluate({"ä'\\": RUN, "B": other}, QRELS, ["AP", "P@1"], by="hour")
    theirs = {"ä'\\": "run", "B": "other"}
    assert_alike(ours, rankql.evaluate(theirs, "qrels", ["AP", "P@1"], con=con, by="hour"))
    ours = rankql.evaluate(both, QRELS, ["AP", "P@1"], system="model")
    assert_alike(ours, rankql.evaluate("both", "qrels", ["AP", "P@1"], con=con, system="model"))
    stored(database, other=other.rename({"hour": "Hour"}), both=both.rename({"model": "Model"}))
    assert_frame_equal(
        ours.per_query,
        rankql.evaluate("both", "qrels", ["AP", "P@1"], con=con, system="MODEL").per_query,
    )
    ours = rankql.evaluate({"a": RUN, "b": other}, QRELS, "AP", by="hour")
    assert_alike(
        ours, rankql.evaluate({"a": "run", "b": "other"}, "qrels", "AP", by="hour", con=con)
    )


# What collations, quotes and patterns stumble over.
IDS = ["B", "a", "ä", "_", "A", "aa", "Z", "10", "9", " a", "a ", "\u00e9", "e\u0301",
       "日本", "O'Brien", 'x"y', "%s", "%%", ":p", "a\\b", "", "$1"]  # fmt: skip


def nasty(seed, whole=False):
    """A run and judgments: unjudged, missing and tied items, grades and positions that are NULL."""
    draw = random.Random(seed)
    ids = [*range(-3, 25)] if whole else IDS
    queries, run, qrels = draw.sample(ids, 12), [], []
    for n, query in enumerate(queries):
        for item in draw.sample(ids, draw.choice([1, 5, 15])) if n != 3 else []:
            score = draw.choice([None, -1.0, 0.0, 0.5, 0.5, 1e-50, 1e300, float("inf"), 16777217.0])
            run.append((query, item, score, n % 3, f"{query}"))
        for item in draw.sample(ids, draw.choice([1, 3, 12])) if n not in (5, 6) else []:
            rel = draw.choice([None, -1.5, 0.0, 0.0, 0.25, 1.0, 2.0, 3.0])
            qrels.append((query, item, 0.0 if n == 7 else rel))
    names = ["query", "item", "score", "hour", "Seg ment"]
    kind = pl.Int64 if whole else pl.String
    run = pl.DataFrame(
        run,
        schema=dict(zip(names, [kind, kind, pl.Float64, pl.Int64, pl.String], strict=True)),
        orient="row",
    )
    qrels = pl.DataFrame(
        qrels, schema={"query": kind, "item": kind, "rel": pl.Float64}, orient="row"
    )
    return run, qrels


EVERY = [
    "nDCG@10", "nDCG", "nDCG(gain=exp2)@5", "DCG@3", "IDCG", "CG", "AP", "AP@5", "RR", "RR@3",
    "P@5", "P(denominator=retrieved)@3", "R@5", "R(rel=2)", "F1@5", "Success@1", "Rprec", "Bpref",
    "Judged@5", "ERR@10", "RBP(p=0.8)", "RBPres(p=0.5)@5", "ARHR", "microP@3", "microR@5",
    "map", "ndcg_cut_10", "recip_rank",
]  # fmt: skip
# Of which each has a way of its own through the query: cut, by row, judged alone, with gain alone.
WAYS = [["nDCG@3", "P@2"], ["nDCG", "AP"], ["DCG@2", "Bpref"], ["P(denominator=min)", "AP@3"]]


def ways(n):
    """These, and every other metric: most of the time goes into their translation."""
    return [EVERY[n % 2 :: 2], *WAYS]


OPTIONS = [
    {},
    {"conventions": "trec_eval"},
    {"ties": "best", "by": [["hour"], ["hour", "Seg ment"]]},
    {"ties": "worst", "negative": "keep"},
    {"unjudged": "remove", "by": "Seg ment"},
    {"negative": "unjudged", "undefined": "drop", "missing": "skip"},
    {"ideal": "retrieved", "threshold": 0, "gain": "binary"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("place", places("psycopg", "sqlite3"), indirect=True)
def test_nasty(place, options):
    database, con = place
    n, options = OPTIONS.index(options), without_32_bits(con, options)
    for seed, asked in enumerate(ways(n)):
        run, qrels = nasty(seed, whole=seed == 2)
        stored(database, run=run, qrels=qrels)
        ours = rankql.evaluate(run, qrels, asked, **options)
        assert_alike(ours, rankql.evaluate("run", "qrels", asked, con=con, **options))


@pytest.mark.parametrize("unjudged", ["zero", "remove"])
@pytest.mark.parametrize("place", places("psycopg", "sqlite3"), indirect=True)
def test_nasty_positions(place, unjudged):
    """Positions with gaps, of some items alone; beside judgments, and in a table with grades."""
    database, con = place
    for seed, asked in enumerate(ways(unjudged == "zero")):
        run, qrels = nasty(seed)
        draw = random.Random(seed)
        places = draw.sample(range(1, 5 * run.height), run.height)
        run = run.with_columns(
            rank=pl.Series([p if draw.random() < 0.8 else None for p in places], dtype=pl.Int64)
        )
        table = run.with_columns(
            rel=pl.Series(draw.choices([None, -1.5, 0.0, 0.25, 1.0, 3.0], k=run.height))
        )
        stored(database, run=run, qrels=qrels, ranked=table)
        options = {"unjudged": unjudged, "by": "hour" if seed % 2 else ()}
        ours = rankql.evaluate(run, qrels, asked, **options)
        assert_alike(ours, rankql.evaluate("run", "qrels", asked, con=con, **options))
        for score in (None, "score"):  # named, it wins over the positions
            ours = rankql.evaluate(table, None, asked, score=score, **options)
            theirs = rankql.evaluate("ranked", None, asked, con=con, score=score, **options)
            assert_alike(ours, theirs)


def test_ids_of_two_types(place):
    """They are compared as text, as in DuckDB."""
    database, con = place
    run, qrels = nasty(4, whole=True)
    text = run.with_columns(pl.col("query", "item").cast(pl.String))
    stored(database, run=text, qrels=qrels)
    assert_alike(rankql.evaluate(text, qrels), rankql.evaluate("run", "qrels", con=con))


ATTRIBUTES = pl.DataFrame({"query": ["a", "b", "d", "q"], "kind": ["ä", None, "NULL", "x, y"]})


def test_attributes(place):
    database, con = place
    qrels = QRELS.with_columns(price=pl.col("query").str.len_chars() + 0.5)
    stored(database, run=RUN, qrels=qrels, attributes=ATTRIBUTES)
    by = [["kind"], ["kind", "price"], ["hour"]]
    ours = rankql.evaluate(RUN, qrels, "AP", by=by, attributes=ATTRIBUTES)
    assert_alike(
        ours, rankql.evaluate("run", "qrels", "AP", by=by, attributes="attributes", con=con)
    )


def test_output(place, tmp_path):
    database, con = place
    stored(database, run=RUN, qrels=QRELS)
    path = tmp_path / "values.parquet"
    theirs = rankql.evaluate("run", "qrels", "AP", con=con, output=path)
    assert_alike(rankql.evaluate(RUN, QRELS, "AP"), theirs)
    assert pl.read_parquet(path)["AP"].to_list() == theirs.per_query["AP"].to_list()
    assert '"run"' in theirs.sql
    with pytest.raises(rankql.RankqlError, match=r"1 queries are judged but not in the run"):
        rankql.evaluate("run", "qrels", "AP", con=con, missing="error")


def test_compare_and_gate(place):
    """They evaluate by it."""
    database, con = place
    other = RUN.with_columns(score=-pl.col("score"))
    stored(database, run=RUN, other=other, qrels=QRELS)
    ours = rankql.compare({"one": RUN, "two": other}, QRELS, "AP")
    theirs = rankql.compare({"one": "run", "two": "other"}, "qrels", "AP", con=con)
    assert_frame_equal(ours.table, theirs.table)
    assert rankql.gate("run", "qrels", minimum="AP >= 0.1", con=con).passed


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("limits", ("run", "qrels")),
        ("check", ("run", "qrels")),
        ("explain", ("run", "qrels", "a")),
        ("correlate", ("run", "run")),
        ("grade_events", ("run", {"buy": 1})),
        ("convert", ("run", "qrels.parquet")),
        ("register", ()),
    ],
)
def test_others_are_refused(place, function, arguments):
    _, con = place
    if function == "register":
        arguments = (con,)
    options = {} if function == "register" else {"con": con}
    with pytest.raises(rankql.RankqlError, match="con must be a connection of DuckDB here, not"):
        getattr(rankql, function)(*arguments, **options)


def changed(frame, **columns):
    """The frame with another value in its first row."""
    first = pl.int_range(pl.len()) == 0
    return frame.with_columns(
        pl.when(first).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
        for name, value in columns.items()
    )


TWICE = pl.concat([RUN, RUN.filter(item="y", query="a")])
PLACED = RUN.with_columns(pos=pl.Series([1, 2, 1, 1, 2, 1])).drop("score")
ONE = pl.lit(1, pl.Int64)
CLOSE = QRELS.with_columns(item=pl.col("item").replace("w", "x"))
NAN = float("nan")
# What is given, and the options; in None's place are RUN and QRELS.
WRONG = {
    "id": ({"run": changed(RUN, item=None)}, {}),
    "query": ({"qrels": changed(QRELS, query=None)}, {}),
    "empty": ({"qrels": QRELS.clear()}, {}),
    "no grades": ({"qrels": QRELS.with_columns(rel=pl.lit(None, pl.Int64))}, {}),
    "nan score": ({"run": changed(RUN, score=NAN)}, {}),
    "nan grade": ({"qrels": changed(QRELS, rel=NAN)}, {}),
    "infinite grade": ({"qrels": changed(QRELS, rel=-float("inf"))}, {}),
    "text for a grade": ({"qrels": QRELS.with_columns(pl.col("rel").cast(pl.String))}, {}),
    "pos 0": ({"run": changed(PLACED, pos=0)}, {}),
    "pos 1.5": ({"run": changed(PLACED, pos=1.5)}, {}),
    "nan pos": ({"run": changed(PLACED, pos=NAN)}, {}),
    "twice in the run": ({"run": TWICE}, {}),
    "twice in qrels": ({"qrels": pl.concat([QRELS, QRELS])}, {}),
    "two at a position": ({"run": PLACED.with_columns(pos=ONE), "qrels": CLOSE}, {}),
    "two at one, removed": (
        {"run": PLACED.with_columns(pos=ONE), "qrels": CLOSE},
        {"unjudged": "remove"},
    ),
    "nothing in common": ({"run": RUN.with_columns(query=pl.lit("q") + pl.col("query"))}, {}),
    "swapped": ({"run": QRELS, "qrels": RUN}, {}),
    "no such column": ({}, {"score": "skore"}),
    "no column": ({"qrels": QRELS.rename({"rel": "gut"})}, {}),
    "two values": ({}, {"by": "item"}),
    "no attribute": ({}, {"by": "our"}),
    "negative": ({"qrels": changed(QRELS, rel=-1)}, {"negative": "error"}),
    "no gain": ({}, {"gain": {0: 0, 1: 1, 2: 2}}),
    "high grade": ({"qrels": changed(QRELS, rel=2000)}, {"gain": "exp2"}),
    "max_rel": ({}, {"max_rel": 2}),
    "undefined": ({}, {"undefined": "error"}),
    "missing": ({}, {"missing": "error"}),
    "option": ({}, {"ties": "no"}),
    "system": ({}, {"system": "model"}),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("place", places("connection", "sqlite3"), indirect=True)
def test_what_is_wrong(place, what):
    """In the words of DuckDB."""
    database, con = place
    frames, options = WRONG[what]
    frames = {"run": RUN, "qrels": QRELS} | frames
    if isinstance(database, databases.SQLite) and "nan" in what:
        return  # it has none: NaN is NULL there
    asked = ["nDCG@10", "ERR@3", "P@2"]
    con_of_duck = duckdb.connect()
    for name, frame in frames.items():  # noqa: B007 - by its name
        con_of_duck.execute(f"CREATE TABLE {name} AS FROM frame")
    with pytest.raises(rankql.RankqlError) as ours:
        rankql.evaluate("run", "qrels", asked, con=con_of_duck, **options)
    stored(database, **frames)
    with pytest.raises(rankql.RankqlError) as theirs:
        rankql.evaluate("run", "qrels", asked, con=con, **options)
    assert str(theirs.value) == str(ours.value)


REFUSED = {
    "TauB": "kendall_tau_b() has no translation for ",
    "median = median(rel)": "median() has no translation for ",
}


def test_refused(place):
    database, con = place
    stored(database, run=RUN, qrels=QRELS)
    name = "Postgres" if isinstance(database, databases.Postgres) else "SQLite"
    for metric, message in REFUSED.items():
        with pytest.raises(rankql.RankqlError) as error:
            rankql.evaluate("run", "qrels", metric, con=con)
        assert message + name in str(error.value)
    for options, message in (
        ({"ties": "order"}, f"ties='order' has no meaning in {name}, where rows have no order"),
        ({"ties": "expected"}, f"ties='expected' is not available in {name}"),
        ({"unjudged": "bounds"}, f"unjudged='bounds' is not available in {name}"),
    ):
        with pytest.raises(rankql.RankqlError) as error:
            rankql.evaluate("run", "qrels", "AP", con=con, **options)
        assert str(error.value) == message
    for run, message in (
        (RUN, f"run must be the name of a table or view of {name}, whose connection is given, not"),
        ("", f"run must be the name of a table or view of {name}"),
        ("runs", f"run: there is no table or view 'runs' in {name}"),
        ('run"; DROP TABLE run; --', "run: there is no table or view"),
        ("run'; DROP TABLE run; --", "run: there is no table or view"),
        ("\\'; DROP TABLE run; --", "run: there is no table or view"),
    ):
        with pytest.raises(rankql.RankqlError) as error:
            rankql.evaluate(run, "qrels", "AP", con=con)
        assert str(error.value).startswith(message)
    assert_alike(rankql.evaluate(RUN, QRELS), rankql.evaluate("run", "qrels", con=con))


EVIL = """'; DROP TABLE run; --" %s %(x)s :p $1 ? \\ {} ä"""


def test_names(place):
    """Whatever they hold, and however they are written."""
    database, con = place
    run = RUN.rename({"query": EVIL, "item": "Order", "score": "select", "hour": f"by {EVIL}"})
    qrels = QRELS.rename({"query": "from", "item": "ITEM", "rel": "rel\n"})
    table = f"T {EVIL}".replace('"', "")  # which the loader quotes as it is
    stored(database, run=RUN, qrels=QRELS, **{table: run, "Qrels.all": qrels})
    options = {"query": (EVIL, "from"), "item": ("Order", "ITEM"), "rel": "rel\n"}
    asked = ["AP", "it's % = ap(rel, pos)"]
    options |= {"score": "select", "by": f"by {EVIL}"}
    ours = rankql.evaluate(run, qrels, asked, **options)
    assert_alike(ours, rankql.evaluate(table, "Qrels.all", asked, con=con, **options))
    ours = rankql.evaluate({EVIL: RUN}, QRELS)
    assert_alike(ours, rankql.evaluate({EVIL: "run"}, "qrels", con=con))


def state(con):
    """Is a transaction open?"""
    if isinstance(con, psycopg.Connection):
        return con.info.transaction_status
    if isinstance(con, sqlalchemy.Connection):
        return con.in_transaction(), con.in_nested_transaction()
    if isinstance(con, adbc_postgres.Connection):
        with suppress(adbc_postgres.Error):  # SQLite does not tell
            return con.adbc_connection.get_option("adbc.postgresql.transaction_status") != "idle"
    return getattr(con, "in_transaction", None)


def said(con, text):
    """Something of the user's own, in whatever way the connection has."""
    if isinstance(con, sqlalchemy.Connection):
        result = con.exec_driver_sql(text)
        return result.fetchall() if result.returns_rows else None
    with closing(con.cursor()) as cursor:
        cursor.execute(text)
        return [*map(tuple, cursor.fetchall())] if cursor.description else None


@pytest.mark.parametrize(
    "place",
    places("psycopg", "connection", "adbc_postgres", "sqlite3", "adbc_sqlite"),
    indirect=True,
)
def test_a_transaction_of_the_user(place):
    """It sees what is not committed, and goes on as it was, whether there is an error or none."""
    database, con = place
    stored(database, run=RUN, qrels=QRELS)
    rankql.evaluate("run", "qrels", con=con)
    assert not any([state(con)] if not isinstance(state(con), tuple) else state(con))
    more = QRELS.vstack(pl.DataFrame({"query": ["a"], "item": ["x"], "rel": [2]}))
    said(con, "INSERT INTO qrels VALUES ('a', 'x', 2)")
    before = state(con)
    assert_alike(rankql.evaluate(RUN, more), rankql.evaluate("run", "qrels", con=con))
    for wrong in ({"con": con, "score": "skore"}, {"con": con, "undefined": "error"}):
        with pytest.raises(rankql.RankqlError):
            rankql.evaluate("run", "qrels", **wrong)
    with pytest.raises(rankql.RankqlError, match=r"^discounts has 1 entries, but position "):
        rankql.evaluate("run", "qrels", "nDCG", con=con, discounts=[1])
    assert state(con) == before
    if state(con) is not True:  # of ADBC in Postgres, which wants a rollback then
        assert said(con, "SELECT count(*) FROM qrels") == [(6,)]
    con.rollback()
    assert database.ask("SELECT count(*) FROM qrels") == [(5,)]
    assert_alike(rankql.evaluate(RUN, QRELS), rankql.evaluate("run", "qrels", con=con))
    con.rollback()


def test_nothing_is_held(server):
    """No lock and no transaction of a connection that had none; none of a pool is missing."""
    stored(server, run=RUN, qrels=QRELS)
    stack, engine = opened("engine", server)
    with stack, psycopg.connect(server.where) as con:
        for which in (engine, con):
            rankql.evaluate("run", "qrels", con=which)
            busy = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
            assert server.ask(busy) == [(0,)]
        assert engine.pool.checkedout() == 0
        con.autocommit = True
        rankql.evaluate("run", "qrels", con=con)
        con.read_only = True
        rankql.evaluate("run", "qrels", con=con)
    stack, engine = opened("engine", server)
    with stack:
        automatic = engine.execution_options(isolation_level="AUTOCOMMIT")
        rankql.evaluate("run", "qrels", con=automatic)
        with automatic.connect() as con:
            for _ in range(2):
                con.exec_driver_sql("SELECT 1")
                rankql.evaluate("run", "qrels", con=con)


def test_settings_of_the_user(server):
    """None of them changes what is found."""
    stored(server, run=RUN, qrels=QRELS)
    ours = rankql.evaluate({"a\\' ": RUN}, QRELS, by="hour")
    with psycopg.connect(server.where, row_factory=psycopg.rows.dict_row) as con:
        con.execute("SET standard_conforming_strings = off; SET lc_messages = 'C'")
        con.execute("SET transform_null_equals = on; SET search_path = pg_temp, public")
        con.execute("SET extra_float_digits = -14; SET DateStyle = 'German'")
        assert_alike(ours, rankql.evaluate({"a\\' ": "run"}, "qrels", by="hour", con=con))
        assert con.execute("SHOW extra_float_digits").fetchone() == {"extra_float_digits": "-14"}


def test_schemas_and_kinds(server):
    """Tables of several schemas, views, and the types of Postgres."""
    stored(server, run=RUN, qrels=QRELS)
    server.con.execute("""
        DROP SCHEMA IF EXISTS "My Schema" CASCADE; CREATE SCHEMA "My Schema";
        CREATE TYPE "My Schema".kind AS ENUM ('z', 'a');
        CREATE DOMAIN "My Schema".grade AS NUMERIC(4, 2);
        CREATE TABLE "My Schema".run AS SELECT
            query::char(3), item::varchar(9), score::real, hour > 1 AS late, hour::smallint AS h,
            (CASE hour WHEN 1 THEN 'z' ELSE 'a' END)::"My Schema".kind AS kind,
            DATE '2024-02-01' + hour::integer AS day, score::numeric AS price, '{}'::jsonb AS more,
            md5(query)::uuid AS "key" FROM run;
        CREATE VIEW "My Schema"."Qrels" AS
            SELECT query, item, rel::"My Schema".grade, md5(query)::uuid AS "key" FROM qrels;
    """)
    run = server.con.execute('SELECT "key"::text AS k, query::text FROM "My Schema".run').fetchall()
    keys = pl.DataFrame(run, schema=["key", "query"], orient="row").unique()
    frame = RUN.with_columns(
        late=pl.col("hour") > 1,
        h=pl.col("hour").cast(pl.Int16),
        kind=pl.when(hour=1).then(pl.lit("z")).otherwise(pl.lit("a")),
        day=pl.date(2024, 2, 1 + pl.col("hour")),
    )
    theirs = ("My Schema.run", "My Schema.Qrels")
    by = ["late", "h", "kind", "day"]
    for grouping in ([[name] for name in by], [by]):
        ours = rankql.evaluate(frame, QRELS, by=grouping)
        assert_alike(ours, rankql.evaluate(*theirs, by=grouping, con=server.con))
    assert_alike(rankql.evaluate(RUN, QRELS), rankql.evaluate("RUN", "qrels", con=server.con))
    by_key = rankql.evaluate(*theirs, query="key", con=server.con).per_query
    assert by_key.height == 4 and by_key["key"].is_sorted() and by_key["key"][0] in keys["key"]
    for name in ("price", "more"):
        with pytest.raises(rankql.RankqlError) as error:
            rankql.evaluate(*theirs, by=name, con=server.con)
        wrong = (
            f"run: {name} is of a type that no slices are made of in Postgres; cast it in a view"
        )
        assert str(error.value) == wrong
    with pytest.raises(rankql.RankqlError, match="run: price is neither text nor of whole numbers"):
        rankql.evaluate(*theirs, item=("price", "item"), con=server.con)
    server.con.execute('CREATE TABLE "My Schema"."RUN" AS SELECT 1 AS "a", 2 AS "A"')
    with pytest.raises(
        rankql.RankqlError, match=r"may be My Schema.RUN or My Schema.run; say which"
    ):
        rankql.evaluate("my schema.run", "qrels", con=server.con)
    with pytest.raises(rankql.RankqlError, match="run: 'a' and 'A' differ by case alone"):
        rankql.evaluate("My Schema.RUN", "qrels", con=server.con)
    server.con.execute('DROP SCHEMA "My Schema" CASCADE')


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no data: {DATA} is absent")
@pytest.mark.parametrize("place", places("psycopg", "sqlite3"), indirect=True)
def test_trec(place):
    database, con = place
    local = duckdb.connect()
    local.execute(JUDGMENTS)
    local.execute(RUN_OF % "BM25")
    run, qrels = local.sql("SELECT query, item, score FROM run").pl(), local.table("judgments").pl()
    stored(database, run=run, qrels=qrels.with_columns(pl.col("rel").cast(pl.Int64)))
    for conventions in ("rankql", "trec_eval"):
        options = without_32_bits(con, {"conventions": conventions})
        ours = rankql.evaluate(run, qrels, EVERY, **options)
        assert_alike(ours, rankql.evaluate("run", "qrels", EVERY, con=con, **options))
    assert f"{ours['ndcg_cut_10']:.4f}" == "0.5058"


@pytest.mark.parametrize("con", [object(), "postgresql://", sqlalchemy])
def test_no_connection(con):
    with pytest.raises(
        rankql.RankqlError, match="con must be a connection of DuckDB, a SQLAlchemy"
    ):
        rankql.evaluate("run", "qrels", con=con)


@pytest.mark.drivers
def test_another_database():
    with (
        closing(adbc_duckdb.connect()) as con,
        pytest.raises(rankql.RankqlError, match="of Postgres and of SQLite, not in duckdb"),
    ):
        rankql.evaluate("run", "qrels", con=con)


def test_other_numbers_and_texts_of_sqlite():
    """Whole numbers among others, texts as bytes, texts that are ordered by other bytes."""
    lite = databases.SQLite()
    priced = RUN.with_columns(price=pl.col("hour") / 2 + 0.5)
    stored(lite, run=priced, qrels=QRELS)
    lite.con.execute("UPDATE run SET price = 1 WHERE price = 1.0")
    assert lite.ask("SELECT DISTINCT typeof(price) FROM run") == [("integer",), ("real",)]
    lite.con.text_factory = bytes
    ours = rankql.evaluate(priced, QRELS, by="price")
    assert_alike(ours, rankql.evaluate("run", "qrels", by="price", con=lite.con))
    wide = databases.SQLite()
    wide.con.execute("PRAGMA encoding = 'UTF-16le'")
    stored(wide, run=RUN, qrels=QRELS)
    with pytest.raises(rankql.RankqlError, match="orders text by its bytes, which are UTF-16le"):
        rankql.evaluate("run", "qrels", con=wide.con)


def test_attributes_of_two_types(place):
    database, con = place
    text = RUN.with_columns(query=pl.col("query") + "2", hour=pl.lit("10"))
    part = RUN.with_columns(hour=pl.col("hour") / 2)
    judged = pl.concat([QRELS, QRELS.with_columns(pl.col("query") + "2")])
    stored(database, run=RUN, text=text, part=part, qrels=judged)
    ours = rankql.evaluate({"a": RUN, "b": text}, judged, by="hour")
    assert_alike(ours, rankql.evaluate({"a": "run", "b": "text"}, "qrels", by="hour", con=con))
    with pytest.raises(rankql.RankqlError, match=r"^by: hour is DOUBLE, VARCHAR in the runs; cast"):
        rankql.evaluate({"a": "part", "b": "text"}, "qrels", by="hour", con=con)


def test_a_role_that_may_only_read(server):
    stored(server, run=RUN, qrels=QRELS)
    server.con.execute("CREATE ROLE reader LOGIN; GRANT SELECT ON run TO reader")
    with psycopg.connect(server.where.replace("user=postgres", "user=reader")) as con:
        with pytest.raises(rankql.RankqlError, match="Postgres: permission denied for table qrels"):
            rankql.evaluate("run", "qrels", con=con)
        server.con.execute("GRANT SELECT ON qrels TO reader")
        assert_alike(rankql.evaluate(RUN, QRELS), rankql.evaluate("run", "qrels", con=con))


SEEN = set()


class Busy(psycopg.Cursor):
    """Before every query somebody else adds a row."""

    def execute(self, query, *arguments, **options):
        with psycopg.connect(self.connection.info.dsn, user="postgres") as other:
            other.execute("INSERT INTO run SELECT 'b', 'i' || count(*), 9, 2 FROM run")
        found = super().execute(query, *arguments, **options)
        if "SELECT" in query:
            asked = psycopg.Cursor(self.connection).execute("SELECT count(*) FROM run")
            SEEN.add(asked.fetchone())
        return found


class Mine(psycopg.Connection):
    """Of a module that is not that of psycopg."""


def test_rows_that_others_write(server):
    """All that is asked is asked of the same rows."""
    stored(server, run=RUN, qrels=QRELS)
    with Mine.connect(server.where, cursor_factory=Busy) as con:
        rankql.evaluate("run", "qrels", con=con)
    assert len(SEEN) == 1
    assert server.ask("SELECT count(*) FROM run")[0][0] > RUN.height + 5


def test_what_sqlite_refuses():
    """Scores of 32 bits, and an attribute that is not one of the query."""
    con = sqlite3.connect(":memory:")
    con.executescript(
        "CREATE TABLE run AS SELECT 'a' AS query, 'x' AS item, 2.0 AS score, 'n' AS part "
        "UNION ALL SELECT 'a', 'y', 1.0, 'm'; "
        "CREATE TABLE qrels AS SELECT 'a' AS query, 'y' AS item, 1 AS rel"
    )
    with pytest.raises(rankql.RankqlError, match="SQLite has no numbers of 32 bits"):
        rankql.evaluate("run", "qrels", con=con, float32=True)
    with pytest.raises(rankql.RankqlError, match="part"):
        rankql.evaluate("run", "qrels", con=con, by="part")

"""evaluate in Postgres and SQLite: the result of DuckDB, and nothing left behind."""

import random
import sqlite3
from contextlib import ExitStack, closing

import databases
import duckdb
import polars as pl
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy
from adbc_driver_postgresql import dbapi as adbc_postgres
from adbc_driver_sqlite import dbapi as adbc_sqlite
from polars.testing import assert_frame_equal
from test_dl19 import DATA, JUDGMENTS
from test_dl19 import RUN as RUN_OF

import rankql

# A server is started; what is translated does not depend on the version of DuckDB.
pytestmark = pytest.mark.slow

# Sorts 'a' before 'B', 9 before 10, and '_' first of all: nothing here may depend on it.
ODD = (
    "CREATE DATABASE odd TEMPLATE template0 ENCODING 'UTF8' "
    "LOCALE_PROVIDER icu ICU_LOCALE 'de-u-kn' LOCALE 'C'"
)
POSTGRES = ["psycopg", "engine", "connection", "adbc_postgres"]
SQLITE = ["sqlite3", "sqlite_engine", "adbc_sqlite"]


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


@pytest.fixture(params=POSTGRES + SQLITE)
def place(request, server, lite):
    """Where the tables go, and a connection to it."""
    database = server if request.param in POSTGRES else lite
    stack, con = opened(request.param, database)
    with stack:
        yield database, con


KINDS = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}


def stored(database, **frames):
    for name, frame in frames.items():
        table = frame.to_arrow()
        kinds = [(field.name, KINDS.get(field.type, field.type)) for field in table.schema]
        database.load(name, table.cast(pa.schema(kinds)))


def alike(ours, theirs):
    """The same result: values to 1e-12, types, conventions, columns, notes."""
    for one, other in ((ours.per_query, theirs.per_query), (ours.summary, theirs.summary)):
        assert_frame_equal(one, other, check_exact=False, abs_tol=1e-12, rel_tol=0)
    assert ours.meta == theirs.meta
    assert ours.columns == theirs.columns
    assert ours.notes == theirs.notes


RUN = pl.DataFrame(
    {
        "query": ["a", "a", "b", "c", "c", "z"],
        "item": ["x", "y", "x", "x", "y", "q"],
        "score": [2.0, 1.0, 1.0, 3.0, 3.0, 1.0],
        "hour": [1, 1, 2, 1, 1, 3],
    }
)
QRELS = pl.DataFrame(
    {
        "query": ["a", "a", "b", "c", "d"],
        "item": ["y", "w", "x", "y", "x"],
        "rel": [1, 3, 0, 2, 1],
    }
)
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
def test_a_run_and_judgments(place, asked, options):
    database, con = place
    options = without_32_bits(con, options)
    stored(database, run=RUN, qrels=QRELS)
    ours = rankql.evaluate(RUN, QRELS, asked, **options)
    alike(ours, rankql.evaluate("run", "qrels", asked, con=con, **options))


def test_several_runs(place):
    database, con = place
    other = RUN.filter(pl.col("query") != "a")
    both = pl.concat(
        [RUN.with_columns(model=pl.lit("ä'\\")), other.with_columns(model=pl.lit("B"))]
    )
    stored(database, run=RUN, other=other, both=both, qrels=QRELS)
    ours = rankql.evaluate({"ä'\\": RUN, "B": other}, QRELS, ["AP", "P@1"], by="hour")
    theirs = {"ä'\\": "run", "B": "other"}
    alike(ours, rankql.evaluate(theirs, "qrels", ["AP", "P@1"], con=con, by="hour"))
    ours = rankql.evaluate(both, QRELS, ["AP", "P@1"], system="model")
    alike(ours, rankql.evaluate("both", "qrels", ["AP", "P@1"], con=con, system="model"))


# What collations, quotes and patterns stumble over.
IDS = ["B", "a", "ä", "_", "A", "aa", "Z", "10", "9", " a", "a ", "\u00e9", "e\u0301", "日本", "O'Brien",
       'x"y', "%s", "%%", ":p", "a\\b", "", "$1"]  # fmt: skip


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
    "nDCG@10", "nDCG", "nDCG(gain=exp2)@5", "DCG@3", "IDCG", "CG", "AP", "AP@5", "RR", "RR@3", "P@5",
    "P(denominator=retrieved)@3", "R@5", "R(rel=2)", "F1@5", "Success@1", "Rprec", "Bpref",
    "Judged@5", "ERR@10", "RBP(p=0.8)", "RBPres(p=0.5)@5", "ARHR", "microP@3", "microR@5",
    "map", "ndcg_cut_10", "recip_rank",
]  # fmt: skip
# Of which each has a way of its own through the query: cut, by row, judged alone, with gain alone.
WAYS = [
    EVERY,
    ["nDCG@3", "P@2"],
    ["nDCG", "AP"],
    ["DCG@2", "Bpref"],
    ["P(denominator=min)", "AP@3"],
]
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
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("place", ["psycopg", "adbc_postgres", "sqlite3"], indirect=True)
def test_nasty(place, whole, options):
    database, con = place
    options = without_32_bits(con, options)
    for seed, asked in enumerate(WAYS):
        run, qrels = nasty(seed, whole)
        stored(database, run=run, qrels=qrels)
        ours = rankql.evaluate(run, qrels, asked, **options)
        alike(ours, rankql.evaluate("run", "qrels", asked, con=con, **options))


@pytest.mark.parametrize("unjudged", ["zero", "remove"])
@pytest.mark.parametrize("place", ["psycopg", "sqlite3"], indirect=True)
def test_nasty_positions(place, unjudged):
    """Positions with gaps, of some items alone; beside judgments, and with the grade beside them."""
    database, con = place
    for seed, asked in enumerate(WAYS):
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
        for options in ({"unjudged": unjudged}, {"unjudged": unjudged, "by": "hour"}):
            ours = rankql.evaluate(run, qrels, asked, **options)
            alike(ours, rankql.evaluate("run", "qrels", asked, con=con, **options))
            for score in (None, "score"):  # named, it wins over the positions
                ours = rankql.evaluate(table, None, asked, score=score, **options)
                theirs = rankql.evaluate("ranked", None, asked, con=con, score=score, **options)
                alike(ours, theirs)


def test_ids_of_two_types(place):
    """They are compared as text, as in DuckDB."""
    database, con = place
    run, qrels = nasty(4, whole=True)
    text = run.with_columns(pl.col("query", "item").cast(pl.String))
    stored(database, run=text, qrels=qrels)
    alike(rankql.evaluate(text, qrels), rankql.evaluate("run", "qrels", con=con))


ATTRIBUTES = pl.DataFrame({"query": ["a", "b", "d", "q"], "kind": ["ä", None, "NULL", "x, y"]})


def test_attributes(place):
    database, con = place
    qrels = QRELS.with_columns(weight=pl.col("query").str.len_chars() + 0.5)
    stored(database, run=RUN, qrels=qrels, attributes=ATTRIBUTES)
    by = [["kind"], ["kind", "weight"], ["hour"]]
    ours = rankql.evaluate(RUN, qrels, "AP", by=by, attributes=ATTRIBUTES)
    alike(ours, rankql.evaluate("run", "qrels", "AP", by=by, attributes="attributes", con=con))


def test_output(place, tmp_path):
    database, con = place
    stored(database, run=RUN, qrels=QRELS)
    path = tmp_path / "values.parquet"
    theirs = rankql.evaluate("run", "qrels", "AP", con=con, output=path)
    alike(rankql.evaluate(RUN, QRELS, "AP"), theirs)
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
    assert rankql.gate("run", "qrels", minimum={"AP": 0.1}, con=con).passed


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

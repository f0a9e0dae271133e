"""Tables of Postgres in evaluate: the result of the same frames, and nothing left behind."""

from contextlib import ExitStack, closing

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.engines import postgres
from support import window_databases
from support.components import optional
from support.small_evaluation import QRELS, RUN, assert_alike

psycopg, sqlalchemy = optional("psycopg"), optional("sqlalchemy")
adbc_duckdb = optional("adbc_driver_duckdb.dbapi")
adbc_postgres = optional("adbc_driver_postgresql.dbapi")

# Sorts 'a' before 'B', 9 before 10, and '_' first of all: nothing here may depend on it.
ODD = (
    "CREATE DATABASE odd TEMPLATE template0 ENCODING 'UTF8' "
    "LOCALE_PROVIDER icu ICU_LOCALE 'de-u-kn' LOCALE 'C'"
)
KINDS_OF_CONNECTIONS = ["psycopg", "engine", "connection", "adbc"]
pytestmark = [pytest.mark.drivers, pytest.mark.postgres]


def url(where):
    host = psycopg.conninfo.conninfo_to_dict(where)["host"]
    return f"postgres@/odd?host={host}"


@pytest.fixture(scope="module")
def server():
    with window_databases.postgres() as cluster:
        cluster.con.execute(ODD)
        host = psycopg.conninfo.conninfo_to_dict(cluster.where)["host"]
        made = window_databases.Postgres(host, "odd")
        assert made.ask("SELECT 'a' < 'B', '9' < '10', 'a' < 'ä', '_' < '1'") == [(True,) * 4]
        yield made
        made.con.close()


def opened(kind, database):
    """A connection of a kind, or an engine, with what is to be closed in the end."""
    stack = ExitStack()
    if kind in ("engine", "connection"):
        con = sqlalchemy.create_engine(f"postgresql+psycopg://{url(database.where)}")
        stack.callback(con.dispose)
        con = stack.enter_context(con.connect()) if kind == "connection" else con
    else:
        made = {
            "psycopg": lambda: psycopg.connect(database.where),
            "adbc": lambda: adbc_postgres.connect(f"postgresql://{url(database.where)}"),
        }
        con = stack.enter_context(closing(made[kind]()))
    return stack, con


@pytest.fixture(params=KINDS_OF_CONNECTIONS)
def place(request, server):
    """Where the tables go, and a connection to it."""
    stack, con = opened(request.param, server)
    with stack:
        yield server, con


KINDS = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}


def stored(database, **frames):
    for name, frame in frames.items():
        table = frame.to_arrow()
        kinds = [(field.name, KINDS.get(field.type, field.type)) for field in table.schema]
        database.load(name, table.cast(pa.schema(kinds)))


ASKED = [
    (["nDCG@10", "AP"], {"conventions": "trec_eval", "by": "hour"}),
    (["AP", "microR@10", "TauB"], {"ties": "expected"}),
]


@pytest.mark.parametrize(("asked", "options"), ASKED)
def test_a_run_and_judgments(place, asked, options):
    database, con = place
    stored(database, run=RUN, qrels=QRELS)
    ours = rankql.evaluate(RUN, QRELS, asked, **options)
    assert_alike(ours, rankql.evaluate("run", "qrels", asked, con=con, **options))


def test_numbers_in_batches(place, monkeypatch):
    """Scores that are infinite, tiny or NULL, in several batches; a table without rows."""
    database, con = place
    monkeypatch.setattr(postgres, "_BATCH", 2)
    scores = [None, -1.0, 0.1, 1e-300, 1 / 3, 16777217.0]
    run = RUN.with_columns(score=pl.Series(scores), other=float("inf"))
    stored(database, run=run, qrels=QRELS, nothing=QRELS.clear())
    for options in ({}, {"score": "other"}, {"float32": True}):
        ours = rankql.evaluate(run, QRELS, ["AP", "x = sum(atan(score))"], **options)
        theirs = rankql.evaluate("run", "qrels", ["AP", "x = sum(atan(score))"], con=con, **options)
        assert ours.per_query.equals(theirs.per_query)
    with pytest.raises(rankql.RankqlError, match="qrels is empty: it has no rows"):
        rankql.evaluate("run", "nothing", con=con)


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


def test_dicts_events_and_expressions(server):
    """Columns that expressions and mappings read are fetched; dicts stay in memory."""
    event = pl.when(pl.col("rel") > 1).then(pl.lit("buy")).otherwise(pl.lit("click"))
    events = QRELS.drop_nulls("rel").with_columns(event=event).drop("rel")
    run = RUN.select("query", "score", docno=pl.col("item") + "#1")
    stored(server, run=run, events=events)
    grades, item = {"buy": 3, "click": 1}, ["split_part(docno, '#', 1)", "item"]
    ours = rankql.evaluate(run, events, "nDCG", item=item, rel=grades)
    theirs = rankql.evaluate("run", "events", "nDCG", con=server.con, item=item, rel=grades)
    assert_alike(ours, theirs)
    lists = dict(events.group_by("query").agg("item").iter_rows())
    ours = rankql.evaluate(run, lists, "RR", item=item)
    assert_alike(ours, rankql.evaluate("run", lists, "RR", con=server.con, item=item))
    ours = rankql.evaluate(lists, events, "nDCG", rel=grades)
    assert_alike(ours, rankql.evaluate(lists, "events", "nDCG", con=server.con, rel=grades))


def test_ids_of_two_types(server):
    """They are compared as text, as in DuckDB."""
    database, con = server, server.con
    run = RUN.with_columns(query=pl.col("hour"), item=pl.int_range(pl.len()))
    qrels = run.select("query", "item", rel=pl.int_range(pl.len()))
    text = run.with_columns(pl.col("query", "item").cast(pl.String))
    stored(database, run=text, qrels=qrels)
    assert_alike(rankql.evaluate(text, qrels), rankql.evaluate("run", "qrels", con=con))


ATTRIBUTES = pl.DataFrame({"query": ["a", "b", "d", "q"], "kind": ["ä", None, "NULL", "x, y"]})


def test_attributes(server):
    database, con = server, server.con
    qrels = QRELS.with_columns(price=pl.col("query").str.len_chars() + 0.5)
    stored(database, run=RUN, qrels=qrels, attributes=ATTRIBUTES)
    by = [["kind"], ["kind", "price"], ["hour"]]
    ours = rankql.evaluate(RUN, qrels, "AP", by=by, attributes=ATTRIBUTES)
    assert_alike(
        ours, rankql.evaluate("run", "qrels", "AP", by=by, attributes="attributes", con=con)
    )


def test_output(server, tmp_path):
    database, con = server, server.con
    stored(database, run=RUN, qrels=QRELS)
    path = tmp_path / "values.parquet"
    theirs = rankql.evaluate("run", "qrels", "AP", con=con, output=path)
    assert_alike(rankql.evaluate(RUN, QRELS, "AP"), theirs)
    assert pl.read_parquet(path)["AP"].to_list() == theirs.per_query["AP"].to_list()
    with pytest.raises(rankql.RankqlError, match=r"1 query with judgments but not in the run"):
        rankql.evaluate("run", "qrels", "AP", con=con, missing="error")


def test_compare_and_gate(server):
    """They evaluate by it."""
    database, con = server, server.con
    other = RUN.with_columns(score=-pl.col("score"))
    stored(database, run=RUN, other=other, qrels=QRELS)
    ours = rankql.compare({"one": RUN, "two": other}, QRELS, "AP")
    theirs = rankql.compare({"one": "run", "two": "other"}, "qrels", "AP", con=con)
    assert_frame_equal(ours.table, theirs.table)
    assert rankql.gate("run", "qrels", minimum="AP >= 0.1", con=con).passed


def test_others_are_refused(server):
    con = server.con
    for call in (
        lambda: rankql.limits("run", "qrels", con=con),
        lambda: rankql.check("run", "qrels", con=con),
        lambda: rankql.explain("run", "qrels", "a", con=con),
        lambda: rankql.correlate("run", "run", con=con),
        lambda: rankql.grade_events("run", {"buy": 1}, con=con),
        lambda: rankql.convert("run", "qrels.parquet", con=con),
        lambda: rankql.register(con),
    ):
        with pytest.raises(rankql.RankqlError, match="con must be a DuckDB connection, "):
            call()


def changed(frame, **columns):
    """The frame with another value in its first row."""
    first = pl.int_range(pl.len()) == 0
    return frame.with_columns(
        pl.when(first).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
        for name, value in columns.items()
    )


WRONG = {
    "id": ({"run": changed(RUN, item=None)}, {}),
    "text for a grade": ({"qrels": QRELS.with_columns(pl.col("rel").cast(pl.String))}, {}),
    "nan grade": ({"qrels": changed(QRELS, rel=float("nan"))}, {}),
    "twice in qrels": ({"qrels": pl.concat([QRELS, QRELS])}, {}),
    "swapped": ({"run": QRELS, "qrels": RUN}, {}),
    "no such column": ({}, {"score": "skore"}),
    "no column": ({"qrels": QRELS.rename({"rel": "gut"})}, {}),
    "two values": ({}, {"by": "item"}),
    "option": ({}, {"ties": "no"}),
    "system": ({}, {"system": "model"}),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong(server, what):
    """In the words of DuckDB."""
    frames, options = WRONG[what]
    frames = {"run": RUN, "qrels": QRELS} | frames
    asked = ["nDCG@10", "ERR@3", "P@2"]
    con_of_duck = duckdb.connect()
    for name, frame in frames.items():  # noqa: B007 - by its name
        con_of_duck.execute(f"CREATE TABLE {name} AS FROM frame")
    with pytest.raises(rankql.RankqlError) as ours:
        rankql.evaluate("run", "qrels", asked, con=con_of_duck, **options)
    stored(server, **frames)
    with pytest.raises(rankql.RankqlError) as theirs:
        rankql.evaluate("run", "qrels", asked, con=server.con, **options)
    assert str(theirs.value) == str(ours.value)


def test_chunks(place):
    database, con = place
    chunks = pl.DataFrame({"query": ["q"] * 3, "item": ["A#1", "A#2", "B#1"], "score": [3.0, 2, 1],
                           "document": ["A", "A", "B"]})  # fmt: skip
    stored(database, run=chunks, qrels=pl.DataFrame({"query": ["q"], "item": ["B"], "rel": [1]}))
    for rule in ("document", "#", "left(item, 1)"):
        assert rankql.evaluate("run", "qrels", "RR", con=con, collapse=rule)["RR"] == 0.5


def test_refused(place):
    database, con = place
    stored(database, run=RUN, qrels=QRELS)
    with pytest.raises(rankql.RankqlError, match=r"^ties='order' is not supported in Postgres"):
        rankql.evaluate("run", "qrels", "AP", con=con, ties="order")
    with pytest.raises(rankql.RankqlError, match=r"^order='rows' is not supported in Postgres"):
        rankql.evaluate("run", "qrels", "AP", con=con, order="rows")
    for run, message in (
        (
            RUN,
            "run must be the name of a table or view, because con= is",
        ),
        ("", "run must be the name of a table or view"),
        ("runs", "run: no table or view 'runs' in Postgres"),
        ('run"; DROP TABLE run; --', "run: no table or view"),
        ("run'; DROP TABLE run; --", "run: no table or view"),
        ("\\'; DROP TABLE run; --", "run: no table or view"),
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
    option = con.adbc_connection.get_option("adbc.postgresql.transaction_status")
    return option != "idle"


def said(con, text):
    """Something of the user's own, in whatever way the connection has."""
    if isinstance(con, sqlalchemy.Connection):
        result = con.exec_driver_sql(text)
        return result.fetchall() if result.returns_rows else None
    with closing(con.cursor()) as cursor:
        cursor.execute(text)
        return [*map(tuple, cursor.fetchall())] if cursor.description else None


@pytest.mark.parametrize("place", ["psycopg", "connection", "adbc"], indirect=True)
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
        with pytest.raises(rankql.RankqlError, match=f"^run: the type of {name} is not supported"):
            rankql.evaluate(*theirs, by=name, con=server.con)
    with pytest.raises(rankql.RankqlError, match=r"^run: the type of price is not supported"):
        rankql.evaluate(*theirs, item=("price", "item"), con=server.con)
    server.con.execute('CREATE TABLE "My Schema"."RUN" AS SELECT 1 AS "a", 2 AS "A"')
    with pytest.raises(
        rankql.RankqlError, match=r"is ambiguous. Use My Schema.RUN or My Schema.run"
    ):
        rankql.evaluate("my schema.run", "qrels", con=server.con)
    with pytest.raises(rankql.RankqlError, match="run: 'a' and 'A' differ only by case"):
        rankql.evaluate("My Schema.RUN", "qrels", con=server.con)
    server.con.execute('DROP SCHEMA "My Schema" CASCADE')


@pytest.mark.parametrize("con", [object(), "postgresql://", sqlalchemy])
def test_no_connection(con):
    with pytest.raises(rankql.RankqlError, match="con must be a DuckDB connection, a SQLAlchemy"):
        rankql.evaluate("run", "qrels", con=con)


def test_another_database():
    with (
        closing(adbc_duckdb.connect()) as con,
        pytest.raises(rankql.RankqlError, match="to DuckDB or Postgres, not duckdb"),
    ):
        rankql.evaluate("run", "qrels", con=con)


def test_attributes_of_two_types(server):
    text = RUN.with_columns(query=pl.col("query") + "2", hour=pl.lit("10"))
    judged = pl.concat([QRELS, QRELS.with_columns(pl.col("query") + "2")])
    stored(server, run=RUN, text=text, qrels=judged)
    ours = rankql.evaluate({"a": RUN, "b": text}, judged, by="hour")
    theirs = rankql.evaluate({"a": "run", "b": "text"}, "qrels", by="hour", con=server.con)
    assert_alike(ours, theirs)


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

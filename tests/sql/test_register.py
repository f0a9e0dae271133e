"""register(): TEMP or persisted, idempotent, and never over the user's objects."""

import re

import duckdb
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.core.metrics import macros
from rankql.core.tables.private import write_macro_database
from support import signatures
from support.metric_engines import complaint
from support.paths import ROOT

TABLE = "(VALUES (5, 1), (2, 2), (3, 3)) AS t (rel, pos)"
NDCG = 7.7618595071429155 / 7.892789260714372


def value(con, call="ndcg(rel, pos, 3)"):
    return con.execute(f"SELECT {call} FROM {TABLE}").fetchall()[0][0]


@pytest.fixture
def con():
    with duckdb.connect() as con:
        yield con


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE mine AS SELECT 1 AS x")
    return str(path)


def test_temp_macros_leave_the_database_as_it_is(file):
    with duckdb.connect(file) as con:
        rankql.register(con)
        assert value(con) == pytest.approx(NDCG, abs=1e-12)
    with duckdb.connect(file) as con:
        assert con.execute("FROM duckdb_functions() WHERE NOT internal").fetchall() == []
        assert con.execute("FROM duckdb_schemas() WHERE schema_name = 'rankql'").fetchall() == []


def test_the_default_connection():
    rankql.register()
    assert value(duckdb) == pytest.approx(NDCG)


def test_no_macro_needs_the_json_extension(con):
    """DuckDB-Wasm 1.32.0 (DuckDB 1.4.3) would have to download it."""
    rows = con.execute("SELECT function_name FROM duckdb_functions()").fetchall()
    functions = "|".join({name for (name,) in rows if "json" in name})
    assert "json_extract" in functions
    assert re.findall(rf"\b(?:{functions})\s*\(", macros.read_sql()) == []


@pytest.mark.slow
def test_twice_is_once(con):
    def functions():
        columns = "COLUMNS(* EXCLUDE function_oid)"
        query = f"SELECT {columns} FROM duckdb_functions() WHERE NOT internal ORDER BY ALL"
        return con.execute(query).fetchall()

    rankql.register(con)
    first = functions()
    rankql.register(con)
    assert functions() == first
    rankql.register(con, persist=True)
    both = functions()
    rankql.register(con, persist=True)
    assert functions() == both and len(both) == 2 * len(first)


@pytest.mark.parametrize("persist", [False, True])
def test_all_macros_or_none(con, monkeypatch, persist):
    """Registering is one transaction, or a part of that of the caller."""
    count = "SELECT count(*) FROM duckdb_functions() WHERE NOT internal"
    text = "CREATE MACRO ndcg(a) AS a;"
    monkeypatch.setattr(macros, "read_sql", lambda: f"{text};\nFROM nowhere")
    with pytest.raises(duckdb.CatalogException, match="nowhere"):
        rankql.register(con, persist=persist)
    assert con.execute(count).fetchall() == [(0,)]
    monkeypatch.setattr(macros, "read_sql", lambda: text)
    con.execute("BEGIN; CREATE TABLE mine (x INT)")
    rankql.register(con, persist=persist)
    assert con.execute(count).fetchall() == [(1,)]
    con.execute("ROLLBACK")
    assert con.execute(count).fetchall() == [(0,)]


@pytest.mark.slow
def test_a_read_only_database(file):
    with duckdb.connect(file, read_only=True) as con:
        rankql.register(con)
        assert value(con) == pytest.approx(NDCG)
        with pytest.raises(rankql.RankqlError, match=r"read-only.*register\(con\)"):
            rankql.register(con, persist=True)


@pytest.mark.slow
def test_persisted_for_other_readers_and_cursors(file):
    with duckdb.connect(file) as con:
        rankql.register(con, persist=True)
        con.execute(f"CREATE VIEW quality AS SELECT rankql.ndcg(rel, pos, 3) AS q FROM {TABLE}")
        assert value(con.cursor(), "rankql.ndcg(rel, pos, 3)") == pytest.approx(NDCG)
    with duckdb.connect(file, read_only=True) as con:
        assert con.execute("FROM quality").fetchall()[0][0] == pytest.approx(NDCG)
        assert value(con, "rankql.ap(rel, pos, 2)") == 1


@pytest.mark.slow
def test_every_macro_in_any_schema(con, tmp_path):
    """What calls another macro finds it: temporary, in a schema that needs quotes, and attached."""
    rankql.register(con)
    rankql.register(con, persist=True, schema='My "Metrics"')
    write_macro_database(tmp_path / "rankql.duckdb")
    with duckdb.connect(tmp_path / "my shop.duckdb") as shop:
        rankql.register(shop, persist=True)
    con.execute(f"ATTACH '{tmp_path}/rankql.duckdb' AS rankql (READ_ONLY)")
    con.execute(f"ATTACH '{tmp_path}/my shop.duckdb' (READ_ONLY)")
    for turn, prefix in enumerate(("", '"My ""Metrics""".', "rankql.", '"my shop".rankql.')):
        call_macros(con, prefix, slice(turn, None, 4))


TABLES = {
    "ranked": "SELECT 1 AS query, 'a' AS item, 0.5 AS score",
    "counterfactual": "SELECT 1 AS query, 'a' AS item, 1 AS click, 0.5 AS propensity, 1 AS pos",
    **dict.fromkeys(
        ("krippendorff_alpha", "cohen_kappa"),
        "SELECT i // 2 AS unit, i % 2 AS annotator, i % 3 AS label FROM range(8) AS r (i)",
    ),
    **dict.fromkeys(
        ("tally", "leave_one_out"), "SELECT 1 AS user, 'a' AS rel, 'a' item, 2 AS time"
    ),
}


def call_macros(con, prefix, part):
    """Macros of NULL: DuckDB looks up those within them when it plans the call."""
    for name in sorted(signatures.EVERYTHING.keys() - signatures.TABLES)[part]:
        needed = [x for x in signatures.EVERYTHING[name].values() if x == signatures.NEEDED]
        call = f"SELECT {prefix}{name}({', '.join(['NULL'] * len(needed))})"
        message = complaint(lambda call=call: con.execute(call).fetchall())
        assert "Exception: " not in message, message  # but one of ours, or a value
    for name, query in TABLES.items():
        con.execute(f"CREATE OR REPLACE TEMP TABLE input_rows AS {query}")
        assert con.execute(f"FROM {prefix}{name}('input_rows')").fetchall()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("theirs", "name"),
    [
        ("CREATE MACRO ndcg(a) AS a", "memory.main.ndcg"),
        ("CREATE TEMP MACRO ap(a, b) AS a + b", "temp.main.ap"),
        ("CREATE MACRO Ndcg(a) AS a", "memory.main.Ndcg"),
        ("CREATE MACRO rankql_sum(a) AS a", "memory.main.rankql_sum"),
        ("CREATE TEMP MACRO rankql_sum(a) AS a", "temp.main.rankql_sum"),
        ("CREATE MACRO ranked(t) AS TABLE SELECT 1 AS one", "memory.main.ranked"),
        ("CREATE SCHEMA lib; SET search_path = 'lib'; CREATE MACRO rr(a) AS a", "memory.lib.rr"),
    ],
)
def test_a_macro_of_the_user_is_left_alone(con, theirs, name):
    con.execute(theirs)
    with pytest.raises(rankql.RankqlError, match=f"{name} would be hidden.*persist=True"):
        rankql.register(con)
    assert len(con.execute("FROM duckdb_functions() WHERE NOT internal").fetchall()) == 1


def test_a_python_function_of_the_user_is_left_alone(con):
    con.create_function("rr", lambda x: x, ["BIGINT"], "BIGINT")
    with pytest.raises(rankql.RankqlError, match="rr would be hidden"):
        rankql.register(con)
    assert value(con, "max(rr(rel))") == 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ndcg", "rankql_sum"])
def test_a_macro_of_the_user_in_the_schema_is_left_alone(con, name):
    con.execute(f"CREATE SCHEMA rankql; CREATE MACRO rankql.{name}(a) AS a")
    with pytest.raises(rankql.RankqlError, match=rf"memory\.rankql\.{name} would be replaced"):
        rankql.register(con, persist=True)
    rankql.register(con)
    rankql.register(con, persist=True, schema="metrics")
    assert value(con, "metrics.ndcg(rel, pos)") == pytest.approx(value(con), abs=1e-12)


# Names that people type, and the macros that their errors name.
TYPED = dict.fromkeys(("hr", "hit_rate", "hits_at", "success"), "hit_at")
TYPED |= {"p_at": "precision_at", "precision_k": "precision_at", "map_at": "ap", "ndcg_at": "ndcg"}
TYPED |= dict.fromkeys(("reciprocal_rank", "mean_reciprocal_rank"), "rr")
TYPED |= dict.fromkeys(("average_precision", "mean_average_precision"), "ap")


@pytest.mark.slow
def test_names_that_people_type_say_what_to_write(con):
    """The call works, and a function of the user goes before."""
    rankql.register(con)
    for call in ("mrr(rel, pos)", "mrr(rel, pos, k := 10)", "avg(mrr(rel, pos, 10))"):
        with pytest.raises(duckdb.Error, match=r"use avg\(rr\(\.\.\.\)\)"):
            value(con, call)
    other = duckdb.connect()
    for name, macro in TYPED.items():
        for call in (f"{name}(rel, pos)", f"{name}(rel, pos, 10)", f"avg({name}(rel, pos, 10))"):
            with pytest.raises(duckdb.Error, match=f"{name} is .*{macro}\\b.*: use ") as error:
                value(con, call)
        call = re.search(r"(\w+)\(rel, pos, k\)", str(error.value))[0]
        assert call.startswith(f"{macro}(") and value(con, call.replace("k)", "10)")) is not None
        other.execute(f"CREATE MACRO {name}(a) AS a + 1")
    rankql.register(other)
    for name in TYPED:
        assert other.execute(f"SELECT {name}(1)").fetchall() == [(2,)]


def test_no_function_of_duckdb_has_a_name_of_ours(con):
    names = {
        name for (name,) in con.execute("SELECT function_name FROM duckdb_functions()").fetchall()
    }
    assert names.isdisjoint(macros.read_parameters())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": None}, "schema must be the name of a schema, not None"),
        ({"persist": True, "schema": ""}, "schema must be the name of a schema, not ''"),
        ({"persist": "no"}, "persist must be True or False, not 'no'"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.register(duckdb.connect(), **options)


# The macros in a database file of their own, as any DuckDB attaches it

CALL = f"ndcg(rel, pos, 3) FROM {TABLE}"
VALUE = [(pytest.approx(NDCG),)]


def write_database(path):
    return CliRunner().invoke(main, ["sql", "--database", str(path)])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("it's") / "metrics.duckdb"
    done = write_database(path)
    text = str(path).replace("'", "''")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"Next, in DuckDB: ATTACH '{text}' AS rankql (READ_ONLY);\n"
    assert list(path.parent.iterdir()) == [path]
    return path


@pytest.fixture
def attached(path):
    with duckdb.connect() as con:
        attach(con, path)
        yield con


def attach(con, path):
    text = str(path).replace("'", "''")
    con.execute(f"ATTACH '{text}' AS rankql (READ_ONLY)")


@pytest.mark.slow
def test_the_format_is_that_of_1_4(path):
    """DuckDB 1.4 has 67, and 1.4.3 opens no file of a newer one. docs/engines.md has its size."""
    page = (ROOT / "docs" / "engines.md").read_text("utf-8")
    assert f"a DuckDB file of {path.stat().st_size / 1e6:.1f} MB" in page
    assert path.read_bytes()[12:20] == (67).to_bytes(8, "little")


@pytest.mark.slow
def test_where_it_is_called_from(attached, path, tmp_path):
    assert attached.cursor().execute(f"SELECT rankql.{CALL}").fetchall() == VALUE
    attached.execute(f"CREATE VIEW quality AS SELECT rankql.{CALL}")
    assert attached.execute("FROM quality").fetchall() == VALUE
    with pytest.raises(duckdb.ConversionException, match="rankql: k must be a whole number"):
        attached.execute(f"SELECT rankql.{CALL.replace('3)', '0)', 1)}").fetchall()
    attached.execute("USE rankql")
    assert attached.execute(f"SELECT {CALL}").fetchall() == VALUE
    with duckdb.connect(tmp_path / "shop.duckdb") as shop:
        attach(shop, path)
        shop.execute(f"CREATE VIEW quality AS SELECT rankql.{CALL}")
    attached.execute(f"ATTACH '{tmp_path}/shop.duckdb'")
    assert attached.execute("FROM shop.quality").fetchall() == VALUE


@pytest.mark.slow
def test_ranked_adds_a_position(attached):
    row = "SELECT 1 AS query, 'a' AS item, 0.5 AS score"
    attached.execute(f"CREATE TABLE scored AS {row}, {{'pos': 1}} AS \"a pos\"")
    assert attached.execute("SELECT pos, item FROM rankql.ranked('scored')").fetchall() == [
        (1, "a")
    ]
    attached.execute(f"CREATE TABLE placed AS {row}, 1 AS Pos")
    with pytest.raises(duckdb.Error, match="rankql: the table has a column 'pos' already: drop or"):
        attached.execute("SELECT count(*) FROM rankql.ranked('placed')").fetchall()


def test_nothing_is_overwritten(tmp_path):
    path = tmp_path / "rankql.duckdb"
    path.write_text("mine")
    done = write_database(path)
    assert done.exit_code == 2 and "exists and is not overwritten. Delete it" in done.stderr
    assert path.read_text() == "mine" and list(tmp_path.iterdir()) == [path]
    assert "folder" in write_database(tmp_path / "no" / "rankql.duckdb").stderr
    done = CliRunner().invoke(main, ["sql", "a.parquet", "--database", str(tmp_path / "b.duckdb")])
    assert done.exit_code == 2 and "With --database, pass no other arguments" in done.stderr

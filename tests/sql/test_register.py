"""register(): TEMP or persisted, idempotent, and never over the user's objects."""

import threading

import duckdb
import pytest

import rankql
from rankql import macros
from rankql.sources.macro_database import write_macro_database

TABLE = "(VALUES (5, 1), (2, 2), (3, 3)) AS t (rel, pos)"
NDCG = 7.7618595071429155 / 7.892789260714372


def value(con, call="ndcg(rel, pos, 3)"):
    return con.sql(f"SELECT {call} FROM {TABLE}").fetchall()[0][0]


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
        assert con.sql("SELECT count(*) FROM duckdb_functions() WHERE NOT internal").fetchall() == [
            (0,)
        ]
        assert con.sql("FROM duckdb_schemas() WHERE schema_name = 'rankql'").fetchall() == []


def test_the_default_connection():
    rankql.register()
    assert duckdb.sql(f"SELECT ndcg(rel, pos, 3) FROM {TABLE}").fetchall()[0][0] == pytest.approx(
        NDCG
    )


@pytest.mark.slow
def test_twice_is_once(con):
    def functions():
        columns = "COLUMNS(* EXCLUDE function_oid)"
        query = f"SELECT {columns} FROM duckdb_functions() WHERE NOT internal ORDER BY ALL"
        return con.sql(query).fetchall()

    rankql.register(con)
    first = functions()
    rankql.register(con)
    assert functions() == first
    rankql.register(con, persist=True)
    both = functions()
    rankql.register(con, persist=True)
    assert functions() == both and len(both) == 2 * len(first)


def test_a_read_only_database(file):
    with duckdb.connect(file, read_only=True) as con:
        rankql.register(con)
        assert value(con) == pytest.approx(NDCG)
        with pytest.raises(rankql.RankqlError, match=r"read-only.*register\(con\)"):
            rankql.register(con, persist=True)


def test_persisted_for_other_readers_and_cursors(file):
    with duckdb.connect(file) as con:
        rankql.register(con, persist=True)
        con.execute(f"CREATE VIEW quality AS SELECT rankql.ndcg(rel, pos, 3) AS q FROM {TABLE}")
        assert value(con.cursor(), "rankql.ndcg(rel, pos, 3)") == pytest.approx(NDCG)
    with duckdb.connect(file, read_only=True) as con:
        assert con.sql("FROM quality").fetchall()[0][0] == pytest.approx(NDCG)
        assert value(con, "rankql.ap(rel, pos, 2)") == 1


def test_a_cursor_needs_its_own_temp_macros(con):
    rankql.register(con)
    cursor = con.cursor()
    with pytest.raises(duckdb.CatalogException):
        value(cursor)
    rankql.register(cursor)
    assert value(cursor) == pytest.approx(NDCG)


def test_threads_with_a_cursor_each(con):
    results = []

    def work():
        cursor = con.cursor()
        rankql.register(cursor)
        results.append(value(cursor))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == pytest.approx([NDCG] * 4)


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
    expected = call_every_macro(con, "")
    for prefix in ('"My ""Metrics""".', "rankql.", '"my shop".rankql.'):
        assert call_every_macro(con, prefix) == expected


def call_every_macro(con, prefix):
    functions = con.sql("""
        SELECT DISTINCT function_name, parameters FROM duckdb_functions()
        WHERE NOT internal AND function_type = 'macro' AND NOT starts_with(function_name, 'rankql_')
        ORDER BY ALL""").fetchall()
    results = []
    assert len(functions) > 60
    given = {"rels": "[1, 0, 2]", "p": "0.8", "max_rel": "3", "query": "1", "reference": "pos"}
    given |= {"catalogue": "9", "users": "9", "similarity": "0.9"}
    values = {"category": "item", "attribute": "item", "attributes": "[item]", "embedding": "[pos]"}
    values |= {"subtopics": "[item]", "baseline": "true", "user": "1"}
    values |= {"event": "item", "grades": "MAP {'a': 1, 'b': 2, 'c': NULL}", "preference": "pos"}
    values |= {"a": "['a']", "b": "['b']", "shown": "['a']", "clicks": "['a']"}
    values["picks"] = "[{'item': 'a', 'team': 'A'}]"
    values |= {"click": "rel", "propensity": "0.5", "factor": "0.5"}
    values |= {"created_at": "1", "shown_at": "2"}
    values |= {"value": "rel", "weight": "pos", "retrieved": "['a']", "relevant": "['a']"}
    given["seed"] = "1"
    amounts = ("popularity", "exposure", "merit", "target")
    given |= values | dict.fromkeys(amounts, "1")
    rows = "(1, 1, 1.5, 'a'), (0, 2, 1.5, 'b'), (NULL, 3, 0.5, 'c')"
    table = f"(VALUES {rows}) AS t (rel, pos, score, item)"
    for name, parameters in functions:
        if name == "item_propensity":  # whose a and b are numbers
            parameters = ["popularity", "users"]
        columns = ("rel", "reference", "pos", "score", "item", "rels", *values, *amounts)
        arguments = [p for p in parameters if p in columns]
        options = [f"{p} := {given[p]}" for p in parameters if p in given and p not in columns]
        call = ", ".join([given.get(p, p) for p in arguments] + options)
        results.append((name, con.sql(f"SELECT {prefix}{name}({call}) FROM {table}").fetchall()))
    tables = {
        "scored": "SELECT 1 AS user, 'a' AS item, 0.5 AS score",
        "labels": "SELECT i // 2 AS unit, i % 2 AS annotator, i % 3 label FROM range(8) AS r(i)",
        "log": "SELECT 1 AS user, 'a' AS item, 2 AS time",
        "shown": "SELECT 1 query, 'a' item, 1 click, 0.5 propensity, 1 pos, 1 rel",
    }
    for name, text in tables.items():
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {text}")
    calls = ["ranked('scored')", "counterfactual('shown')", "propensity_scored('shown')"]
    calls += [f"{name}('labels')" for name in ("krippendorff_alpha", "cohen_kappa", "fleiss_kappa")]
    calls += ["tally('log', 'item')", "leave_one_out('log')", "time_split('log', 2)"]
    tabled = [con.sql(f"FROM {prefix}{call}").pl().to_dict(as_series=False) for call in calls]
    assert all(table for table in tabled) and tabled[0]["pos"] == [1]
    return repr(results + tabled)


def test_quotes_in_comments_hide_no_call():
    statements, query = macros.isolate_macros("SELECT 1 -- don't\n, ndcg(rel, pos), '-- ap(rel)'")
    assert query.endswith(""", "rankql ndcg"(rel, pos), '-- ap(rel)'""")
    assert any('MACRO "rankql ndcg"' in text for text in statements)


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
    with pytest.raises(
        rankql.RankqlError, match=f"Your function {name} would be hidden.*persist=True"
    ):
        rankql.register(con)
    assert con.sql("SELECT count(*) FROM duckdb_functions() WHERE NOT internal").fetchall() == [
        (1,)
    ]


def test_a_python_function_of_the_user_is_left_alone(con):
    con.create_function("rr", lambda x: x, ["BIGINT"], "BIGINT")
    with pytest.raises(rankql.RankqlError, match="rr would be hidden"):
        rankql.register(con)
    rankql.register(con, persist=True)
    assert value(con, "rankql.rr(rel, pos)") == 1


@pytest.mark.parametrize("name", ["ndcg", "rankql_sum"])
def test_a_macro_of_the_user_in_the_schema_is_left_alone(con, name):
    con.execute(f"CREATE SCHEMA rankql; CREATE MACRO rankql.{name}(a) AS a")
    with pytest.raises(rankql.RankqlError, match=rf"memory\.rankql\.{name} would be replaced"):
        rankql.register(con, persist=True)
    rankql.register(con)
    rankql.register(con, persist=True, schema="metrics")
    assert value(con, "metrics.ndcg(rel, pos)") == value(con)


def test_no_function_of_duckdb_has_a_name_of_ours():
    with duckdb.connect() as con:
        names = con.execute(
            "SELECT function_name FROM duckdb_functions() WHERE list_contains($1, function_name)",
            [macros._CREATE.findall(macros.read_sql())],
        ).fetchall()
    assert names == []


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

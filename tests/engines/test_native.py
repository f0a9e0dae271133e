"""The metrics as functions of other databases: errors, types, installing, evaluations.

test_matrix.py has the hand-checked cases.
"""

import re
import subprocess
from functools import cache

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.core.base.errors import database_message
from rankql.core.metrics import macros
from rankql.core.metrics.all_metrics import FUNCTIONS
from rankql.engines.native import DIALECTS, install_command, native_sql, render_native_query
from support import (
    case_matrix,
    components,
    hand_cases,
    metric_engines,
    native_databases,
    native_files,
    samples,
)
from support.case_matrix import assert_alike
from support.native_databases import handlers, options_of, run_node, run_python
from support.paths import ROOT
from support.refusals import REFUSALS, refuses
from support.samples import SMALL_QRELS as QRELS
from support.samples import SMALL_RUN as RUN

EXECUTED = {name: getattr(pytest.mark, name) for name in ("postgres", "clickhouse")}
HANDLERS = {"snowflake": (run_python, ()), "bigquery": (run_node, pytest.mark.bigquery)}
SHARED = "several items share a position"
NAN, INFINITE = float("nan"), float("inf")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=mark) for name, mark in EXECUTED.items()],
)
def database(request):
    with native_databases.opened(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def server():
    with native_databases.opened("postgres") as made:
        yield made


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("postgres", "postgres18")
    ],
)
def release(request):
    """A server of each release that the pages name."""
    with native_databases.opened(request.param) as made:
        yield made


def value(database, call, rows, columns=("rel", "pos")):
    database.load("some_rows", columns, rows)
    ((result,),) = database.ask(f"SELECT {call} FROM some_rows")
    return result


def message(database, call, rows, columns=("rel", "pos")):
    """The first line of the error."""
    with pytest.raises(Exception, match="rankql") as error:
        value(database, call, rows, columns)
    return re.search(r"rankql: (.*)", str(error.value))[1]


# Files and records


@pytest.mark.parametrize("engine", DIALECTS)
def test_files_have_the_functions_of_the_records(engine):
    """One for each metric that no record says an engine lacks, with its arguments in order."""
    text = native_sql(engine)
    if engine == "postgres":
        found = re.findall(r"^ +\('(\w+)', '\w+', '([\w ]+)'", text, re.MULTILINE)
        functions = {name: listed.split() for name, listed in found}
    else:
        pattern = r"FUNCTION (?:dataset\.)?([a-z]\w*)(?: AS )?\(([^)]*)\)"
        found = [(n, a) for n, a in re.findall(pattern, text) if not n.startswith("rankql_")]
        functions = {
            name: re.findall(r"(\w+)(?: FLOAT\S*(?: NOT AGGREGATE)?)?", a) for name, a in found
        }
        functions = {n: [x for x in a if x.islower()] for n, a in functions.items()}
        assert functions.pop("exp2_gain") == ["rel"]
    assert "exp2_gain" in text
    expected = {
        name: [*FUNCTIONS[name].columns, *options_of(name, engine)] for name in native_files.METRICS
    }
    assert functions == expected


def test_records_name_what_has_no_function():
    families = ("gain", "precision", "cascade", "rating")
    listed = {name for family in families for name in macros.read_statements(family)}
    without = {name for name in FUNCTIONS if FUNCTIONS[name].not_native}
    assert without & listed == {"micro_precision_at", "micro_recall_at", "micro_f1_at"}
    assert {*FUNCTIONS} - without == {*native_files.METRICS}
    assert all(
        FUNCTIONS[name].not_native for name in ("auc", "kendall_tau_b", "gini", "alpha_ndcg")
    )


@pytest.mark.parametrize("engine", HANDLERS)
def test_handlers_have_the_code_that_they_share(engine):
    text = native_sql(engine)
    assert len(handlers(engine)) == len(native_files.METRICS)
    rankings = {*native_files.METRICS} - {"rmse", "mse", "mae"}
    assert text.count("rankql: ' + message") == len(rankings)
    assert "-- rankql:" not in text


def test_dbt_reads_the_folder():
    """The file of Postgres is one macro, and no other file has Jinja by accident."""
    for path, text in native_files.DBT_FILES.items():
        assert path.read_text("utf-8") == text, "run python tests/generate.py native"
    folder = macros.sql_folder()
    postgres = (folder / "postgres.sql").read_text("utf-8")
    begin, end = (
        "-- {% macro postgres_functions() %}{% raw %}\n",
        "\n-- {% endraw %}{% endmacro %}\n",
    )
    assert postgres.startswith(begin) and postgres.endswith(end)
    texts = {path: path.read_text("utf-8") for path in folder.glob("*.sql")}
    texts[folder / "postgres.sql"] = postgres.removeprefix(begin).removesuffix(end)
    assert len(texts) > 20
    for path, text in texts.items():
        assert not re.search(r"\{[{%#]", text), path


def test_every_name_is_checked_before_it_is_replaced():
    for engine in ("postgres", "clickhouse"):
        checked = re.search(r"IN \(\n?(.*?)\)\)?", native_sql(engine), re.DOTALL)[1]
        assert {*re.findall(r"'(\w+)'", checked)} == {*native_files.METRICS, "exp2_gain"}, engine


# Wrong rows and options

ROWS = {
    "ndcg(rel, pos, 3)": [(1, 1), (INFINITE, 2)],
    "recall_at(rel, pos, 3)": [(1, 1), (NAN, 9)],
    "num_ret(rel, pos)": [(-INFINITE, None), (1, 1)],
    "ap(rel, pos, 3)": [(1, 0)],
    "cg(rel, pos, 3)": [(1, 1), (0, -2)],
    "rr(rel, pos, 3)": [(1, 2.5)],
    "bpref(rel, pos)": [(1, NAN)],
    "dcg(rel, pos, 3)": [(1, INFINITE)],
    "err(rel, pos, 3, 3)": [(1, 1), (4, 9)],
    "precision_at(rel, pos, 1)": [(1, 1), (1, 1)],
    "judged_at(rel, pos, 5)": [(1, 3), (1, 3), (0, 3)],
    "f1_at(rel, pos, NULL)": [(1, 1), (0, 2), (1, 1), (0, 2)],
    "ndcg(rel, pos, 0)": [(1, 1)],
    "hit_at(rel, pos, 2.5)": [(1, 1)],
    "nerr(rel, pos, 3, 0)": [(1, 1)],
    "rbp(rel, pos, 3, 1)": [(1, 1)],
    "rbp_residual(rel, pos, 3, 0)": [(1, 1)],
    "interpolated_precision(rel, pos, 2)": [(1, 1)],
    "mae(rel, score)": [(1, INFINITE)],
}


@cache
def in_duckdb(listed):
    """What DuckDB says of wrong rows, without the value and the remedy."""
    call, rows = listed, ROWS[listed]
    for pattern, option in (("n?err", "max_rel"), ("rbp|rbp_residual", "p")):
        call = re.sub(rf"^({pattern})\((.*), ([\d.]+)\)$", rf"\1(\2, {option} := \3)", call)
    place = "score" if "score" in call else "pos"
    con = metric_engines.connection()
    frame = pl.DataFrame(rows, ["rel", place], orient="row", strict=False)
    con.register("wrong_rows", frame.to_arrow())
    with pytest.raises(duckdb.Error) as error:
        con.execute(f"SELECT {call} FROM wrong_rows").fetchall()
    return shorten(database_message(error.value))


def shorten(text):
    return re.split(r", not |, but is|[:.] (?!.* is above)| is above|: \d", text)[0]


@pytest.mark.few(8)
@pytest.mark.parametrize("call", ROWS)
def test_wrong_rows_and_options_have_the_words_of_duckdb(database, call):
    columns = ("rel", "score" if "score" in call else "pos")
    assert shorten(message(database, call, ROWS[call], columns)) == in_duckdb(call)


@pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=marks) for name, (_, marks) in HANDLERS.items()]
)
def test_handlers_refuse_the_same(engine):
    run, _ = HANDLERS[engine]
    for call, rows in ROWS.items():
        name, listed = re.fullmatch(r"(\w+)\(\w+, \w+(.*)\)", call).groups()
        options = [None if x == "NULL" else float(x) for x in re.findall(r"NULL|[\d.]+", listed)]
        options += [None] * (len(options_of(name, engine)) - len(options))
        rows = [tuple(None if x is None else float(x) for x in row) for row in rows]
        for result in run(handlers(engine)[name][1], [(rows, options)], 3):
            said = str(result).removeprefix("rankql: ")
            assert shorten(said) == in_duckdb(call), (call, said)


@pytest.mark.postgres
def test_messages_of_postgres_name_the_value(server):
    for call, expected in REFUSALS["postgres"].items():
        assert expected in message(server, call, [(3, 1), (0, 2), (1, 3)]), call
    assert (
        message(server, "ap(rel, pos)", [(1, 0)])
        == "pos must be a whole number from 1, not 0. Position 1 is the top: add 1, or is the "
        "order rel, pos?"
    )


ONE_K = {"cg": (), "dcg": (), "ndcg": (), "recall_at": (), "judged_at": (), "ap": (), "rr": ()}
ONE_K |= {"err": (3,), "rbp": (0.5,)}
K_DIFFERS = r"k (and other options )?must be the same in all rows|not under aggregate function"


def test_a_k_that_differs_among_the_rows_is_refused(database):
    """Whatever the order of rows and grades, such as a first and a last row that count nothing."""
    for rows in ([(0, 1, 5), (0, 2, 2)], [(3, 1, 2), (None, 2, 5)], [(1, None, 2), (None, 9, 5)]):
        database.load("some_rows", ("rel", "pos", "k"), [*rows, (1, 3, 2)])
        for name, options in ONE_K.items():
            call = f"{name}(rel, pos, {', '.join(map(str, ('k', *options)))})"
            with pytest.raises(Exception, match=K_DIFFERS):
                database.ask(f"SELECT {call} FROM some_rows")
            grouped = database.ask(f"SELECT k, {call} FROM some_rows GROUP BY k ORDER BY k")
            constant = f"{name}(rel, pos, {', '.join(map(str, (5, *options)))})"
            expected = database.ask(f"SELECT k, {constant} FROM some_rows WHERE k = 5 GROUP BY k")
            assert grouped[-1:] == expected, name


def test_handlers_refuse_a_k_that_differs():
    """Of Snowflake; that of BigQuery is a constant by its declaration."""
    for name, options in ONE_K.items():
        text, code = handlers("snowflake")[name]
        space = {}
        exec(code, space)
        state = space["Handler"]()
        state.accumulate(0.0, 1.0, 2.0, *options)
        with pytest.raises(ValueError, match=K_DIFFERS):
            state.accumulate(None, None, 5.0, *options)
        assert "k FLOAT64 NOT AGGREGATE" in handlers("bigquery")[name][0], text


# Values

CALLS = {
    "ndcg(rel, pos, 3)": ("ndcg", {"k": 3}),
    "precision_at(rel, pos, NULL)": ("precision_at", {}),
    "ap(rel, pos, 9007199254740992)": ("ap", {}),
    "err(rel, pos, 2, 3)": ("err", {"k": 2, "max_rel": 3}),
    "ndcg(exp2_gain(rel), pos, 2)": ("ndcg", {"k": 2, "gain": "exp2"}),
}
GROUP = [(3, 1), (0, 2), (None, 3), (2, 4), (1, None), (-1, 5)]
KINDS = {
    "postgres": ("smallint", "integer", "bigint", "numeric", "real", "float8"),
    "clickhouse": tuple(f"Nullable({x})" for x in ("Int8", "Int64", "Decimal(9, 2)", "Float32")),
}


@pytest.mark.parametrize("call", CALLS)
def test_types_of_columns(database, call):
    (expected,) = metric_engines.Sql().run(CALLS[call][0], [GROUP], CALLS[call][1])
    kinds = KINDS[database.name]
    database.load("some_rows", ("rel", "pos"), GROUP)
    for kind in kinds:
        casts = f"CAST(rel AS {kind}) AS rel, CAST(pos AS {kind}) AS pos"
        query = f"SELECT {call} FROM (SELECT {casts} FROM some_rows) AS t"
        ((result,),) = database.ask(query)
        assert metric_engines.same(float(result), expected), kind


def test_a_boolean_grade_is_a_threshold(database):
    rows = [(3, 1), (1, 2), (None, 3), (2, 4)]
    hits = [(None if rel is None else float(rel >= 2), pos) for rel, pos in rows]
    for name in ("precision_at", "ap", "ndcg", "rr"):
        (expected,) = metric_engines.Sql().run(name, [hits], {"k": 4})
        result = float(value(database, f"{name}(rel >= 2, pos, 4)", rows))
        assert metric_engines.same(result, expected), name


@pytest.mark.clickhouse
def test_results_of_clickhouse_are_floats_also_where_no_column_is_nullable():
    with native_databases.opened("clickhouse") as database:
        database.session.query("CREATE TABLE whole (rel UInt8, pos UInt8) ENGINE = Memory")
        database.session.query("INSERT INTO whole VALUES (3, 1), (0, 2), (1, 3)")
        undefined = ("false_answer", "forbidden_at")  # an item is relevant, no grade is below 0
        for name in native_files.METRICS:
            listed = ", ".join(
                {"p": "0.5", "max_rel": "3", "recall": "0.5"}.get(o, "2")
                for o in options_of(name, "clickhouse")
            )
            call = f"{name}(rel, pos{listed and ', ' + listed})"
            ((kind, result),) = database.ask(f"SELECT toTypeName({call}), {call} FROM whole")
            assert "Float64" in kind and (result is None) is (name in undefined), call
            empty = f"SELECT {call} FROM whole WHERE rel > 9"
            ((nothing,),) = database.ask(empty)
            assert nothing is None or nothing in (0, 1), call
        with pytest.raises(Exception, match=r"NO_COMMON_TYPE|ILLEGAL_TYPE|Illegal type"):
            database.ask("SELECT ndcg('3', pos, 2) FROM whole")


@pytest.mark.clickhouse
def test_clickhouse_joins_views_and_enums():
    """What ClickHouse does otherwise than other databases, as the page and the errors say."""
    with native_databases.opened("clickhouse") as database:
        query, ask = database.session.query, database.ask
        query("CREATE TABLE rec (u String, item String, pos UInt8) ENGINE = Memory")
        query("INSERT INTO rec VALUES ('ann', 'tea', 1), ('ann', 'mug', 2), ('ann', 'pot', 3)")
        query("CREATE TABLE j (u String, item String, rel UInt8) ENGINE = Memory")
        query("INSERT INTO j VALUES ('ann', 'mug', 1), ('ann', 'pot', 0), ('ann', 'cup', 1)")
        values = "SELECT judged_at(rel, pos, 3), bpref(rel, pos) FROM rec {} JOIN j USING (u, item)"
        nulls = "SETTINGS join_use_nulls = 1"
        assert ask(f"{values.format('LEFT')} {nulls}") == [(pytest.approx(2 / 3), 1)]
        assert ask(f"{values.format('FULL')} {nulls}") == [(pytest.approx(2 / 3), 0.5)]
        with pytest.raises(
            Exception, match=r"from 1\. For 0: .* outer join SET join_use_nulls = 1"
        ):
            ask(values.format("FULL"))
        query("CREATE VIEW by_user AS SELECT u, num_ret(1, pos) AS n FROM rec GROUP BY u")
        last = native_sql("clickhouse").rstrip(";\n").rpartition(";\n")[2]
        assert ask(last) == [("default", "by_user")]
        with pytest.raises(Exception, match=r"Enum8.*pass toInt8\(rel\)"):
            ask("SELECT ndcg(CAST('a' AS Enum8('a' = 3)), 1, 2)")
        page = (ROOT / "docs" / "engines.md").read_text("utf-8").partition("## ClickHouse")[2]
        code = page.partition("metric from all of them:")[2].partition("```{code-block} sql")[2]
        *statements, select = code.partition("```")[0].strip().rstrip(";").split(";\n")
        for statement in statements:
            query(statement)
        one = "SELECT shopper, ndcg(rel, pos, 10) FROM events GROUP BY shopper ORDER BY shopper"
        assert ask(select) == ask(one) and len(ask(one)) == 2
        remove = " ".join(re.search(r"`(SELECT 'DROP FUNCTION.*?)`", page, re.DOTALL)[1].split())
        names = {row[0] for row in ask(remove)}
        assert "DROP FUNCTION ndcg;" in names and len(names) > 30
        for table in ("by_user", "rec", "j", "add_items", "items", "events"):
            query(f"DROP TABLE {table}")


@pytest.mark.postgres
def test_over_filter_and_having(server):
    server.load("t", ("u", "rel", "pos"), [(1, 3, 1), (1, 0, 2), (1, 2, 3), (2, 0, 1), (2, 1, 2)])
    assert server.ask(
        "SELECT u, rr(rel, pos) FROM t GROUP BY u HAVING rr(rel, pos) < 1 ORDER BY u"
    ) == [(2, 0.5)]
    ((value,),) = server.ask("SELECT precision_at(rel, pos, 2) FILTER (WHERE u = 1) FROM t")
    assert value == 0.5
    rows = server.ask("SELECT u, rr(rel, pos) OVER (PARTITION BY u) FROM t ORDER BY u, pos")
    assert rows == [(1, 1.0)] * 3 + [(2, 0.5)] * 2


@pytest.mark.postgres
def test_parallel_plans_have_the_same_values(server):
    """Of every metric, with states that are merged, also where grades are all different."""
    server.con.execute(
        "CREATE TABLE many AS SELECT i % 7 AS u, i / 7 + 1 AS pos,"
        " CASE WHEN i % 3 = 0 THEN (i * 7919 % 1009) / 200.0 END AS rel,"
        " (i * 31 % 17) / 4.0 AS score FROM generate_series(0, 4999) AS i; ANALYZE many"
    )
    arguments = {"p": "0.9", "max_rel": "6", "recall": "0.3"}
    names = ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size")
    forced = "; ".join(f"SET {name} = 0" for name in names)
    for name in native_files.METRICS:
        record = FUNCTIONS[name]
        listed = [arguments.get(o, "20") for o in record.native_options("bigquery")]
        if name == "rbp":
            listed += ["1", "6"]
        if name in ("ndcg", "dcg", "idcg"):
            listed.append("(SELECT array_agg(d::float8) FROM generate_series(2, 21) AS d)")
        call = f"{name}({', '.join([*record.columns, *listed])})"
        query = f"SELECT u, {call} FROM many GROUP BY u ORDER BY u"
        server.con.execute("SET max_parallel_workers_per_gather = 0")
        alone = server.ask(query)
        server.con.execute(f"SET max_parallel_workers_per_gather = 4; {forced}")
        plan = str(server.ask(f"EXPLAIN {query}"))
        together = server.ask(query)
        server.con.execute("RESET ALL")
        assert "Partial" in plan, name
        for (_, one), (_, other) in zip(alone, together, strict=True):
            assert metric_engines.same(one, other), name


@pytest.mark.postgres
@pytest.mark.parametrize("last", [1, 46, 47, 92, 93, 138])
def test_a_position_of_each_cell_may_not_repeat(server, last):
    """A cell holds 46 positions; repeated often, they are carried into its number of items."""
    for times in (2, 64, 5000):
        rows = f"(SELECT generate_series(1, {last}) AS p UNION ALL SELECT {last} FROM more) AS t"
        more = f"WITH more AS (SELECT generate_series(2, {times}))"
        for call in ("ndcg(1, p)", "precision_at(1, p, 200)", "ap(1, p)", "num_ret(1, p)"):
            with pytest.raises(Exception, match="several items share a position"):
                server.ask(f"{more} SELECT {call} FROM {rows}")
    rows = f"generate_series(1, {last}) AS p"
    call = "ndcg(1, p), precision_at(1, p), num_ret(1, p), judged_at(1, p, 1000)"
    assert server.ask(f"SELECT {call} FROM {rows}") == [(1, 1, last, last / 1000)]


@pytest.mark.postgres
@pytest.mark.parametrize("k", ["NULL", "10", "40"])
def test_the_state_of_gains_does_not_grow_with_the_rows(server, k):
    """With k, also of 3,000 different grades; with four grades it is as small without k."""
    server.con.execute(
        "CREATE OR REPLACE AGGREGATE cells(float8, float8, float8)"
        " (SFUNC = rankql_gain_k, STYPE = float8[])"
    )
    columns = "(i * 7919 % 3001)::float8 AS rel, i::float8 AS pos"
    rows = f"(SELECT {columns} FROM generate_series(1, 3000) AS i) AS t"
    ((cells, value),) = server.ask(f"SELECT cells(rel, pos, {k}), ndcg(rel, pos, {k}) FROM {rows}")
    assert len(cells) <= (11 + 2 * 3000 if k == "NULL" else 80 + 4 * int(k))
    grades = [(float(i * 7919 % 3001), i) for i in range(1, 3001)]
    (expected,) = metric_engines.Sql().run("ndcg", [grades], {} if k == "NULL" else {"k": int(k)})
    assert metric_engines.same(value, expected)
    ((few,),) = server.ask(f"SELECT cells(rel::int % 4, pos, NULL) FROM {rows}")
    assert len(few) == 11 + 2 * 3


# Installing


# With characters and words that the installation reads and replaces.
ODD_SCHEMA = """it's a "base" of discounts \\1"""


@pytest.mark.parametrize("schema", [None, ODD_SCHEMA])
def test_functions_work_whatever_the_search_path_is(release, schema):
    """Also in materialized views, where Postgres 17 has a safe one, and when installed again."""
    home = macros.quote(schema or "public")
    release.con.execute(
        f"DROP MATERIALIZED VIEW IF EXISTS by_user; CREATE SCHEMA IF NOT EXISTS {home}"
    )
    view = f"SELECT {home}.ndcg(r, p, 2, ARRAY[1, 2]) AS n, {home}.nerr(r, p, 2, 3) AS e"
    for replace in (False, True):
        release.install(schema=schema)
        release.con.execute("SET search_path = pg_catalog")
        if not replace:
            rows = "FROM (VALUES (3, 1), (0, 2)) AS t (r, p)"
            release.con.execute(f"CREATE MATERIALIZED VIEW public.by_user AS {view} {rows}")
        release.con.execute("REFRESH MATERIALIZED VIEW public.by_user")
        assert release.ask("SELECT * FROM public.by_user") == [(1.0, 1.0)]
        release.con.execute("RESET search_path")
    release.con.execute("SET search_path = pg_catalog")
    for name in native_files.METRICS:
        values = {"p": 0.5, "max_rel": 9, "recall": 0.5}
        extra = "".join(f", {values.get(o, 2)}" for o in options_of(name, "bigquery"))
        rows = "(VALUES (3.0, 1), (0.5, 2), (-1, 3)) AS t (r, p)"
        release.ask(f"SELECT {home}.{name}({home}.exp2_gain(r), p{extra}) FROM {rows}")
        with pytest.raises(Exception, match=r"rankql: (pos|score) must"):
            release.ask(f"SELECT {home}.{name}(1, 'NaN'::float8{extra})")
    release.con.execute("RESET search_path")


@pytest.mark.postgres
def test_a_case_of_each_metric_on_postgres_15(server):
    """All cases run on 18."""
    engine = case_matrix.ENGINES["Postgres"]
    cases = {x.metric: x for x in hand_cases.ALL if not case_matrix.lacks(engine, x)}
    wrong = case_matrix.run(engine, server, cases.values())
    assert len(cases) == len(native_files.METRICS) and not wrong, "\n".join(wrong)


@pytest.mark.postgres
def test_dumps_are_restored_and_functions_are_removed(server):
    """A materialized view is filled again while search_path is empty."""
    for database in ("dumped", "restored"):
        server.con.execute(f"CREATE DATABASE {database}")
    dumped = native_databases.Postgres(server.folder, "dumped")
    dumped.con.execute("CREATE SCHEMA metrics; ALTER DATABASE dumped SET search_path TO metrics")
    connect = ("-h", server.folder, "-U", "postgres")
    psql = [components.program("psql"), *connect, "-qv", "ON_ERROR_STOP=1"]
    file = ["-f", macros.sql_folder() / "postgres.sql", "dumped"]
    subprocess.run([*psql, *file], capture_output=True, check=True)
    rows = "FROM (VALUES (0, 1), (3, 2)) AS t (r, p)"
    dumped.con.execute(
        f"CREATE MATERIALIZED VIEW public.shop AS SELECT metrics.ndcg(r, p, 2) AS n {rows}"
    )
    dumped.con.close()
    command = [components.program("pg_dump"), *connect, "dumped"]
    dump = subprocess.run(command, capture_output=True, check=True).stdout
    subprocess.run([*psql, "restored"], input=dump, capture_output=True, check=True)
    restored = native_databases.Postgres(server.folder, "restored")
    ((n,),) = restored.ask("SELECT n FROM shop")
    assert n == pytest.approx(0.6309297535714574)
    page = (ROOT / "docs" / "engines.md").read_text("utf-8")
    rights, remove = re.findall(r"```{code-block} postgres\n(.*?)```", page, re.DOTALL)
    restored.con.execute("CREATE ROLE analysts; SET search_path TO metrics")
    restored.con.execute(rights)
    with pytest.raises(Exception, match=r"materialized view public\.shop depends"):
        restored.con.execute(remove)
    restored.con.execute("DROP MATERIALIZED VIEW public.shop; DROP OWNED BY analysts")
    restored.con.execute("CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 7'")
    restored.con.execute(remove)
    names = restored.ask("SELECT proname FROM pg_proc WHERE pronamespace = 'metrics'::regnamespace")
    assert names == [("mine",)]
    restored.con.execute("SET search_path TO nowhere")
    with pytest.raises(Exception, match=r"rankql: no schema of search_path \(nowhere\) exists"):
        restored.install()
    restored.con.close()


@pytest.mark.postgres
def test_a_role_without_rights_installs_into_pg_temp(server):
    import psycopg

    server.con.execute("CREATE ROLE guest LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    where = server.where.replace("user=postgres", "user=guest")
    with psycopg.connect(where, autocommit=True) as con:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            con.execute(native_sql("postgres"))
        con.execute("ROLLBACK")
        for _ in range(2):
            con.execute(native_sql("postgres", schema="pg_temp"))
        query = "SELECT pg_temp.ndcg(r, p, 10), pg_temp.ap(r > 1, p)"
        query += " FROM (VALUES (3, 1), (1, 2)) AS t (r, p)"
        assert con.execute(query).fetchall() == [(1.0, 1.0)]


@pytest.mark.postgres
@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE FUNCTION {}.ndcg(text) RETURNS int LANGUAGE sql AS 'SELECT 7'",
        "CREATE AGGREGATE {}.rr(int) (SFUNC = int4pl, STYPE = int)",
        "CREATE FUNCTION {}.rankql_text(float8) RETURNS text LANGUAGE sql AS 'SELECT 7::text'",
    ],
)
def test_functions_of_others_are_not_replaced(server, theirs):
    server.con.execute("DROP SCHEMA IF EXISTS taken CASCADE; CREATE SCHEMA taken")
    server.con.execute(theirs.format("taken"))
    query = "SELECT oid, proname FROM pg_proc WHERE pronamespace = 'taken'::regnamespace"
    before = server.ask(query)
    with pytest.raises(Exception, match=r"rankql: your function taken.* would be replaced"):
        server.install(schema="taken")
    server.con.execute("ROLLBACK")
    assert server.ask(query) == before


@pytest.mark.clickhouse
def test_functions_of_clickhouse_are_global():
    database = native_databases.ClickHouse()
    ours = "SELECT name FROM system.functions WHERE origin = 'SQLUserDefined' AND name != 'ap'"
    database.session.query("CREATE FUNCTION ap AS (x) -> x + 1")
    with pytest.raises(Exception, match="rankql: a function of yours has the name"):
        database.install()
    assert database.ask(ours) == []
    for _ in range(2):
        database.install(prefix="my_")
    rows = "values('rel Int8, pos Int8', (3, 1), (1, 2))"
    query = f"SELECT ap(1), my_set_ap(rel, pos), my_nerr(rel, pos, 2, 3) FROM {rows}"
    assert database.ask(query) == [(2, 1, 1)]
    names = database.ask(ours)
    assert len(names) > 30 and all(name.startswith("my_") for (name,) in names)
    native_databases.ClickHouse().install()  # as the other tests expect


test_wrong_arguments_of_native_sql = refuses("native_sql", globals(), "rankql.%s", light=6)


def test_engines_that_went_are_refused():
    for dialect in ("trino", "redshift", "databricks", "datafusion"):
        expected = f"no functions for {dialect}.*plain_sql.*Spark.*Available: spark, postgres"
        with pytest.raises(rankql.RankqlError, match=expected):
            rankql.translate("SELECT 1", dialect)
        with pytest.raises(rankql.RankqlError, match=expected):
            rankql.native_sql(dialect)


def test_a_dataset_replaces_the_word():
    text = native_sql("bigquery", schema="my-project.metrics")
    assert "FUNCTION `my-project.metrics`.ndcg(" in text and "dataset.ndcg" not in text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_translate_says_what_to_install(dialect):
    with pytest.raises(rankql.RankqlError) as error:
        rankql.translate("SELECT user, ndcg(rel, pos, 10) FROM shown GROUP BY user", dialect)
    assert install_command(dialect) in str(error.value)


# Evaluations

METRICS = [*samples.METRICS, "nDCG(gain=exp2)@5", "P(rel=2)@5", "NumRet", "Judged@5"]
METRICS += ["Bpref", "IPrec@0.5", "infAP"]


def load(database, run, qrels):
    for name, frame in {"run": run, "qrels": qrels}.items():
        if database.name == "postgres":
            kinds = {pl.String: "TEXT", pl.Float64: "DOUBLE PRECISION"}
            columns = ", ".join(f'"{x}" {kinds.get(k, "BIGINT")}' for x, k in frame.schema.items())
            database.con.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})")
            with database.con.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in frame.rows():
                    copy.write_row(row)
        else:
            database.session.query(f"DROP TABLE IF EXISTS {name}")
            path = f"{database.folder}/{name}.parquet"
            frame.write_parquet(path)
            rows = f"SELECT * FROM file('{path}')"
            database.session.query(f"CREATE TABLE {name} ENGINE = Memory AS {rows}")


def assert_evaluated(database, run, qrels, metrics=METRICS, **options):
    load(database, run, qrels)
    expected = rankql.evaluate(run, qrels, metrics, **options).per_query.sort("query")
    rows = database.ask(render_native_query(database.name, "run", "qrels", metrics, **options))
    assert [row[0] for row in rows] == expected["query"].to_list()
    for row, theirs in zip(rows, expected.select(metrics).rows(), strict=True):
        for one, other in zip(row[1:], theirs, strict=True):
            assert metric_engines.same(None if one is None else float(one), other), (row, theirs)


def test_evaluations_equal_those_of_duckdb(database):
    run, qrels = samples.random_frames(3)
    assert_evaluated(database, run, qrels)
    assert_evaluated(database, run, qrels, ["nDCG@3", "AP"], gain="binary", threshold=2)


def test_evaluations_break_ties_by_the_bytes_of_the_item(database):
    """And queries that the run lacks, or that are not judged, are as in evaluate."""
    assert_evaluated(database, RUN.drop("hour"), QRELS, ["nDCG@2", "AP", "RR", "P@1", "R@1"])
    run = pl.DataFrame({"query": [1] * 5, "item": ["a", "B", "é", "Z", "zz"], "score": [1.0] * 5})
    qrels = pl.DataFrame({"query": [1, 1], "item": ["a", "Z"], "rel": [3, 1]})
    assert_evaluated(database, run, qrels, ["nDCG@5", "RR", "Bpref", "P@2"])


def test_evaluations_of_positions_and_scores(database):
    run, qrels = samples.random_frames(4)
    run = run.with_columns(
        pos=pl.col("score").rank("ordinal", descending=True).over("query").cast(pl.Int64)
    )
    assert_evaluated(database, run.drop("score"), qrels, ["nDCG@10", "AP"], pos="pos")
    ratings = qrels.cast({"rel": pl.Float64})
    assert_evaluated(database, run.drop("pos"), ratings, ["RMSE", "MAE"])


COMPUTED = [
    {"query": ["query", "week"]},
    {"query": ["query", "week"], "item": "concat('x', item)", "score": "-score", "rel": "rel * 2"},
    {"query": ["query", "week"], "rel": {"buy": 3, "cli'ck": 1, "none": 0}, "pos": "score + 1"},
    {"query": ["query", "week"], "rel": "1"},
]


@pytest.mark.parametrize("options", COMPUTED, ids=["key", "expressions", "mapping", "constant"])
def test_evaluations_of_keys_expressions_and_mapped_grades(database, options):
    """A key may hold the comma that separates its columns."""
    ids = {"query": ["a", "a", "a, 1", "a", "b"], "week": [1, 1, 1, 2, 2], "item": [*"xyxzx"]}
    run = pl.DataFrame({**ids, "score": [1.0, 2.0, 1.0, 1.0, 1.0]}).with_columns(
        pl.col("week").cast(pl.String)
    )
    events = ["none", "buy", "cli'ck", "buy", None]
    qrels = run.select("query", "week", "item").with_columns(
        rel=pl.Series([1, 0, 2, 1, 1]), event=pl.Series(events)
    )
    qrels = qrels.head(4) if "rel" not in options else qrels
    load(database, run, qrels)
    metrics = ["nDCG@2", "RR", "P@1"]
    expected = rankql.evaluate(run, qrels, metrics, **options).per_query
    rows = database.ask(render_native_query(database.name, "run", "qrels", metrics, **options))
    values = [[None if x is None else float(x) for x in row[1:]] for row in rows]
    theirs = [list(row) for row in expected.sort(expected.columns[0]).select(metrics).rows()]
    assert [row[0] for row in rows] == sorted(expected[expected.columns[0]])
    assert values == [pytest.approx(row) for row in theirs]


def test_an_event_without_a_grade_is_an_error_of_the_engine(database):
    run = pl.DataFrame({"query": ["a"], "item": ["x"], "score": [1.0]})
    load(database, run, run.select("query", "item", event=pl.lit("view")))
    query = render_native_query(database.name, "run", "qrels", "RR", rel={"buy": 1})
    with pytest.raises(Exception, match="rankql: rel has no grade for view"):
        database.ask(query)


def test_duplicates_are_errors_of_the_engine(database):
    """They name the table, a query and an item. Rows that are not read may be repeated."""
    run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    qrels = pl.DataFrame({"query": ["a", "a"], "item": ["y", "w"], "rel": [1, 1]})
    query = render_native_query(database.name, "run", "qrels", ["R@10", "nDCG@10"])
    unscored = run.with_columns(score=pl.lit(None, pl.Float64))
    ungraded = qrels.with_columns(rel=pl.lit(None, pl.Int64))
    load(database, pl.concat([run, unscored]), pl.concat([qrels, ungraded]))
    assert database.ask(query) == [("a", 0.5, pytest.approx(0.38685280723454163))]
    for tables, expected in (
        ((run, pl.concat([qrels, qrels[1:]])), "qrels has duplicates: query a, item w. Keep"),
        ((pl.concat([run, run[:1]]), qrels), "run has duplicates: query a, item x. Keep one row"),
    ):
        load(database, *tables)
        with pytest.raises(Exception, match=f"rankql: {expected}"):
            database.ask(query)
        result = rankql.evaluate(*tables, "R@10")  # which counts equal rows once
        assert any("equal to another one" in x for x in result.notes)


def test_names_in_quotes_pairs_and_columns_of_events():
    """What parses as more than a column is an expression, and the rest is refused by name."""

    def text(**options):
        return render_native_query("postgres", "run", "qrels", "RR", **options)

    query = text(query="user_id=customer_id", item='"my ""sku"', rel=("what", {"buy": 2}))
    for part in (
        'SELECT "customer_id" AS query, "my ""sku" AS item, (CASE WHEN CAST("what" AS TEXT) =',
        'SELECT "user_id" AS query, "my ""sku" AS item, "score" AS score,',
        'SELECT any_query AS "customer_id",',
    ):
        assert part in query
    assert text(query=[["a", "b"], ["c", "d"]]) == text(query=["a=c", "b=d"])
    assert text(item="doc, page") == text(item=["doc", "page"])
    for options, expected in {
        "rel='my col' is not valid SQL": {"rel": "my col"},
        "A column of this name is rel='\"my col\"'": {"rel": "my col"},
        "rel must be a column or an SQL expression, not ('rating', 'x')": {"rel": "rating, x"},
        "pos must be a column or an SQL expression, not {'a': 1}": {"pos": {"a": 1}},
        "rel must map events (text) to grades": {"rel": {"buy": INFINITE}},
        "query='(SELECT 1)' must be one SQL expression": {"query": "(SELECT 1)"},
    }.items():
        with pytest.raises(rankql.RankqlError, match=re.escape(options)):
            text(**expected)


@pytest.mark.postgres
def test_evaluations_of_postgres_take_all_options(server):
    run, qrels = samples.random_frames(5)
    metrics = ["nDCG@10", "P@5", "AP@5", "F1@5", "IPrec@0.5", "nERR(max_rel=3)@5"]
    options = {"ideal": "retrieved", "precision_denominator": "min", "ap_denominator": "R"}
    assert_evaluated(server, run, qrels, metrics, recall_rounding="nearest", **options)
    discounts = [1.0 + i / 2 for i in range(100)]
    assert_evaluated(server, run, qrels, ["nDCG@10", "DCG@5"], discounts=discounts)


def test_files_give_names_and_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RUN.rename({"item": "sku"}).write_parquet("shown.parquet")
    QRELS.rename({"rel": 'gra"de'}).write_parquet("judged.parquet")
    options = {"item": ["sku", "item"], "rel": 'gra"de'}
    text = render_native_query("postgres", "shown.parquet", "judged.parquet", ["ERR@5"], **options)
    for part in ('FROM "shown" AS ranking', '"sku" AS item', '"gra""de" AS rel'):
        assert part in text
    assert "err(rel, pos, 5, 3.0)" in text  # the highest grade of the judgments


def test_what_is_computed_from_files_is_computed_in_the_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RUN.with_columns(day=1).write_parquet("shown.parquet")
    judged = QRELS.drop("rel").with_columns(day=1, what=pl.lit("buy"), yes=1, no=0)
    judged.write_parquet("judged.parquet")
    files = ("shown.parquet", "judged.parquet")
    key = "(replace(CAST(\"query\" AS TEXT), ',', ',,') || ', ' || replace("
    for options, expected in (
        ({"rel": "yes + 1"}, "(yes + 1) AS rel"),
        ({"rel": ("what", {"buy": 3})}, "(CASE WHEN CAST(\"what\" AS TEXT) = 'buy' THEN 3 WHEN"),
        ({"rel": "yes", "query": ["query", "day"]}, f"SELECT {key}"),
    ):
        assert expected in render_native_query("postgres", *files, "RR", **options)
    with pytest.raises(rankql.RankqlError, match=r"maps columns. Write an .*rel='3 \* yes \+ 0 \*"):
        render_native_query("postgres", *files, "RR", rel={"yes": 3, "no": 0})


def test_the_command_line_writes_keys_and_mappings():
    options = ["--query", "user_id,week", "--rel", "buy=3,click=1", "--dialect", "clickhouse"]
    result = CliRunner().invoke(main, ["sql", "shop.run", "shop.qrels", *options])
    assert result.exit_code == 0, result.output
    assert "replace(toString(\"week\"), ',', ',,')" in result.output
    assert "WHEN toString(\"event\") = 'click' THEN 1" in result.output


REFUSED = [
    ({"metrics": "microP@5"}, "microP@5 needs DuckDB: it reads several rankings"),
    ({"metrics": "GMAP"}, "GMAP needs DuckDB: it is a mean over rankings"),
    ({"metrics": "AUC"}, "AUC needs DuckDB: it compares pairs of items"),
    ({"metrics": "n = count(*)"}, "n needs DuckDB: it is an expression"),
    ({"metrics": "ERR@5"}, "ERR@5: max_rel must be given: the highest grade of the scale"),
    ({"ties": "expected"}, "ties='expected' needs DuckDB"),
    ({"unjudged": "remove"}, "unjudged='remove' needs DuckDB"),
    ({"undefined": "drop"}, "undefined='drop' needs DuckDB"),
    ({"negative": "error"}, "negative='error' needs DuckDB"),
    ({"gain": {0: 0, 1: 2}}, "gain={0: 0, 1: 2} needs DuckDB"),
    ({"conventions": "trec_eval"}, "needs DuckDB"),
    ({"collapse": "#"}, "collapse='#' needs DuckDB"),
    ({"ignore_identical_ids": True}, "ignore_identical_ids=True needs DuckDB"),
    ({"by": "segment"}, "by= needs DuckDB"),
    ({"ideal": "retrieved"}, "nDCG@10: the function of clickhouse has no option ideal (retrieved)"),
    ({"metrics": "infAP(rel=2)"}, "(rel=2): the function of clickhouse has no option threshold"),
]


@pytest.mark.parametrize(("options", "expected"), REFUSED, ids=str)
def test_rules_that_need_duckdb_are_refused_by_name(options, expected):
    with pytest.raises(rankql.RankqlError) as error:
        render_native_query("clickhouse", "run", "qrels", **options)
    assert expected in str(error.value)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_queries_name_tables_and_columns_as_asked_for(dialect):
    quote = "`" if dialect == "bigquery" else '"'
    text = render_native_query(dialect, "shop.run", "shop.qrels", query="user")
    assert f"{quote}shop{quote}.{quote}run{quote}" in text
    assert f"{quote}user{quote} AS query" in text
    assert text.count("|| ' has duplicates: '") == 2
    assert "MATERIALIZED" not in text and "any_value" not in text and ":=" not in text


@pytest.mark.postgres
def test_tables_of_postgres_are_read_as_frames(server):
    load(server, RUN, QRELS)
    queries = (
        "SELECT query::char(1), item::varchar, score::numeric, hour::smallint FROM run",
        "SELECT query, item, rel::real FROM qrels",
    )
    read = [pl.read_database(query, server.con) for query in queries]
    theirs = rankql.evaluate(*read, ["nDCG@10", "AP"], by="hour")
    assert_alike(rankql.evaluate(RUN, QRELS, ["nDCG@10", "AP"], by="hour"), theirs)

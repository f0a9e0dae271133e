"""The dbt package and its example: the numbers of evaluate, day by day, and tests that fail."""

import fcntl
import json
import os
import runpy
import shutil
import subprocess
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from support import components, native_databases
from support.paths import ROOT

EXAMPLE = ROOT / "examples" / "dbt"
METRICS = {"ndcg_10": "nDCG@10", "ap": "AP", "recall_10": "R@10", "micro_recall_10": "microR@10"}
# Runs lists of commands, each in its folder. dbt takes seconds to start.
RUNS = """
import json, os, shlex, sys
from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.cli.main import dbtRunner
for line in sys.stdin:
    folder, commands = json.loads(line)
    os.chdir(folder)
    done = [dbtRunner().invoke(shlex.split(command)).success for command in commands]
    DuckDBConnectionManager.close_all_connections()
    print(f"\\nDONE {all(done)}", flush=True)
"""
# The environment of dbt has the package as it was installed, not as it lies here, and keeps what
# is compiled: dbt is a thousand modules.
HERE = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
OUTSIDE = {name: value for name, value in os.environ.items() if name not in HERE}

pytestmark = pytest.mark.dbt
write = runpy.run_path(str(EXAMPLE / "simulate.py"))["write"]


def run(*command, **options):
    command = [*map(str, command)]
    return subprocess.run(command, capture_output=True, text=True, env=OUTSIDE, **options)


@pytest.fixture(scope="session")
def bin(tmp_path_factory, worker_id):
    """dbt in an environment of its own (it goes with no recent mypy), the same to all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "dbt"
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            uv, python = components.program("uv"), folder / "bin" / "python"
            same = [f"{name}=={version(name)}" for name in ("duckdb", "polars", "pyarrow")]
            install = ["pip", "install", "-q", "--python", python, f"{ROOT}[dbt]", *same]
            # Else uv takes the wheel that it built when pyproject.toml last changed.
            install += ["--refresh-package", "rankql"]
            for command in (["venv", "-q", "--python", sys.executable, folder], install):
                done = run(uv, *command)
                assert done.returncode == 0, done.stderr
            (folder / "ready").touch()
    return folder / "bin"


@pytest.fixture
def project(tmp_path):
    """A copy of the example, beside the SQL."""
    (tmp_path / "sql").symlink_to(ROOT / "sql")
    path = tmp_path / "examples" / "dbt"
    ignored = shutil.ignore_patterns("data", "target", "logs", "dbt_packages", "*.duckdb")
    shutil.copytree(EXAMPLE, path, ignore=ignored)
    return path


@pytest.fixture(scope="session")
def runner(bin):
    """Runs commands in a folder, and returns what they print, with a remark at the end."""
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    command = [bin / "python", "-c", RUNS]
    with subprocess.Popen(command, encoding="utf-8", env=OUTSIDE, **pipe) as process:

        def runner(folder, *commands, fails=False):
            print(json.dumps([str(folder), commands]), file=process.stdin, flush=True)
            lines = []
            while not lines or not lines[-1].startswith("DONE "):
                lines.append(process.stdout.readline())
                assert lines[-1], f"dbt ended: {''.join(lines)}"
            assert lines[-1] == f"DONE {not fails}\n", "".join(lines)
            return "".join(lines)

        yield runner
        process.stdin.close()


@pytest.fixture
def dbt(runner, project):
    return partial(runner, project)


def rows(project, table):
    with duckdb.connect(project / "ranking.duckdb", read_only=True) as con:
        return con.sql(f"SELECT * FROM {table} ORDER BY ALL").pl()


def assert_as_evaluated(project):
    """All tables have the numbers of `evaluate` on the files they were made of."""
    sides = (project / "data" / name for name in ("runs", "judgments"))
    by = [["day"], ["day", "segment"]]
    options = {"interval": None, "descending": True}  # bad runs begin with the lowest score
    result = rankql.evaluate(*sides, list(METRICS.values()), by=by, **options)
    results = rows(project, "per_query")
    expected = result.per_query.sort("day", "query")
    assert results["query"].to_list() == expected["query"].to_list()
    for name in ("ndcg_10", "ap", "recall_10"):
        assert results[name].to_list() == pytest.approx(
            expected[METRICS[name]].to_list(), abs=1e-12
        )
    summary = {(row["slice"], row["metric"]): row for row in result.summary.to_dicts()}
    slices = [
        *((f"day={row['day']}", row) for row in rows(project, "daily").to_dicts()),
        *(
            (f"day={row['day']}, segment={row['segment']}", row)
            for row in rows(project, "by_segment").to_dicts()
        ),
    ]
    assert len(slices) * 4 + 4 == len(summary)
    for slice, row in slices:
        for name, metric in METRICS.items():
            theirs = summary[slice, metric]
            assert row[name] == pytest.approx(theirs["mean"], abs=1e-12)
            counts = ["queries", "undefined", "missing"]
            assert [row[n] for n in counts] == [theirs[n] for n in counts]


def test_day_by_day(project, dbt):
    data = project / "data"
    write(data, 0)
    dbt("deps", "build")
    assert_as_evaluated(project)
    first = rows(project, "per_query")

    # Were the first day read again, its numbers would be others.
    write(data, 0, bad=True)
    write(data, 1)
    dbt("build")
    both = rows(project, "per_query")
    day = "SELECT * FROM per_query WHERE day = '2026-01-01'"
    assert rows(project, f"({day})").equals(first) and len(both) == 2 * len(first)

    dbt("run --vars '{since: 2026-01-01}'")
    assert_as_evaluated(project)
    assert not rows(project, f"({day})").equals(first)

    write(data, 0)
    dbt("build --full-refresh", "docs generate --static")
    # The last bits of a sum depend on the order of its threads.
    assert_frame_equal(rows(project, "per_query"), both, rel_tol=0, abs_tol=1e-12)
    assert_as_evaluated(project)

    catalog = json.loads((project / "target" / "catalog.json").read_text())["nodes"]
    described = json.loads((project / "target" / "manifest.json").read_text())
    assert len(catalog) == 4
    for name, table in catalog.items():
        node = described["nodes"][name]
        columns = {column for column, about in node["columns"].items() if about["description"]}
        assert node["description"] and columns == set(table["columns"])
    for source in described["sources"].values():
        assert source["description"] and all(c["description"] for c in source["columns"].values())
    macros = [m for m in described["macros"].values() if m["package_name"] == "rankql"]
    assert len(macros) == 53 and all(macro["description"] for macro in macros)


def test_one_table_with_grades_and_positions(project, dbt):
    """And a missing argument is an error at compile time."""
    models = project / "models"
    for path in models.glob("*.*"):
        path.unlink()
    table = "(VALUES ('a', 1, 1), ('a', 0, 2), ('b', 0, 1), ('b', 1, NULL)) AS t (query, rel, pos)"
    call = "metrics={'rr': 'rr(rel, pos)', 'ap': 'ap(rel, pos)'}"
    (models / "one.sql").write_text(f'{{{{ rankql.per_query("{table}", {call}) }}}}')
    (models / "mean.sql").write_text("{{ rankql.means(ref('one'), ['rr']) }}")
    (models / "call.sql").write_text(f"SELECT query, {CALL} AS rr FROM {table} GROUP BY query")
    dbt("deps", "build")
    assert rows(project, "call").rows() == [("a", 1.0), ("b", 0.0)]
    assert rows(project, "one").rows() == [("a", 1.0, 1.0, False), ("b", 0.0, 0.0, False)]
    assert rows(project, "mean").select("queries", "rr").rows() == [(2, 0.5)]
    (models / "one.sql").write_text(
        "{{ rankql.per_query(\"(VALUES ('a', 'x', 1.0)) AS t (query, item, score)\", "
        "\"(VALUES ('a', 'x', 1), ('a', 'x', 0)) AS t (query, item, rel)\", {'rr': '1'}) }}"
    )
    missing = 'compile --inline "{{ rankql.per_query(judgments=1) }}"'
    output = dbt("run -s one", missing, fails=True)
    assert "has duplicates: query a, item x. Keep one row of each" in output
    assert "rankql.per_query: the argument runs is missing" in output


def test_columns_that_a_table_lacks_are_named(project, dbt):
    """And other names of columns, and positions instead of scores, are arguments."""
    models = project / "models"
    for path in models.glob("*.*"):
        path.unlink()
    values = "SELECT * FROM (VALUES {}) AS t (member, film, {}, day)".format
    shown = "('a', 'x', 1, 'd'), ('a', 'y', 3, 'd'), ('b', 'x', 2, 'd')"
    (models / "shown.sql").write_text(values(shown, "place"))
    (models / "liked.sql").write_text(values("('a', 'y', 1, 'd'), ('b', 'z', 1, 'd')", "rel"))
    call = "{{ rankql.per_query(ref('shown'), ref('liked'), {'rr': 'rr(rel, pos)'}, by='day'"
    names = ", query='member', item='film'"
    (models / "named.sql").write_text(call + names + ", pos='place') }}")
    dbt("deps", "build")
    assert rows(project, "named").rows() == [("a", "d", 1 / 3, False), ("b", "d", 0.0, False)]
    wrong = {
        "": "the run has no column query, item, score. Expected: query, item, score. Found: member",
        names: "the run has no column score. Expected: member, film, score. Found: member, film",
        names + ", pos='rank'": "the run has no column rank.",
    }
    for more, message in wrong.items():
        (models / "named.sql").write_text(call + more + ") }}")
        assert f"rankql.per_query: {message}" in " ".join(dbt("run -s named", fails=True).split())
    lacking = call.replace("by='day'", "by=['day', 'city']") + names + ", pos='place') }}"
    (models / "named.sql").write_text(lacking)
    assert "the table of judgments has no column city" in " ".join(
        dbt("run -s named", fails=True).split()
    )


def points_at(project, **package):
    """The package elsewhere than beside the project."""
    (project.parents[1] / "sql").unlink()
    (project / "packages.yml").write_text(json.dumps({"packages": [package]}))


def outcomes(project):
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    return {result["unique_id"].split(".")[2]: result["status"] for result in results}


def test_an_attached_target_has_the_functions_of_its_views(project, dbt):
    """By the search path, as docs/engines.md writes it: else they go into the file of path."""
    path, models = project / "profiles.yml", project / "models"
    attached = """path: ":memory:"
      database: shop
      attach: [{path: shop.duckdb, alias: shop}]
      settings: {search_path: shop.main}"""
    assert attached in (ROOT / "docs" / "engines.md").read_text()
    path.write_text(path.read_text().replace("path: ranking.duckdb", attached))
    for model in models.glob("*.*"):
        model.unlink()
    shown = f"SELECT {CALL} AS rr FROM (VALUES (0, 1), (1, 2)) AS t (rel, pos)"
    (models / "seen.sql").write_text("{{ config(materialized='view') }} " + shown)
    (models / "stored.sql").write_text(shown)
    dbt("deps", "build")
    with duckdb.connect(project / "shop.duckdb", read_only=True) as con:
        assert con.sql("FROM seen, stored").fetchall() == [(0.5, 0.5)]


def test_a_bad_day_fails(project, bin, dbt):
    """With the package as pip installed it."""
    folder = run(bin / "rankql", "sql", "--folder", cwd=project).stdout.strip()
    assert Path(folder).is_relative_to(bin.parent)
    points_at(project, local=folder)
    write(project / "data", 0)
    write(project / "data", 1, bad=True)
    lost = "run-operation rankql.install --vars '{rankql_sql: nowhere.sql}'"
    output = dbt("deps", lost, "build", fails=True)
    assert "rankql: there is no file 'nowhere.sql'" in output
    failed = {name for name, status in outcomes(project).items() if status == "fail"}
    for table in ("daily", "by_segment"):
        for test in ("at_least", "no_drop"):
            assert any(name.startswith(f"rankql_{test}_{table}") for name in failed)
    assert len(failed) == 4
    # What dbt does not say: the rows that fail, with their status.
    assert "rankql: rankql_no_drop_daily_ndcg_10" in output
    assert "status = failed, yesterday = " in output and "segment = vip" in output


# A row for each day and slice: the last two days count. Each test is called by what it must say.
# test_no_drop.py has more of what they decide.
TABLE = """
SELECT * FROM (VALUES
    (1, 'a', 0.9, 0.9,  0.9,  0.9,  0.1),
    (2, 'a', 0.5, 0.5,  0.5,  NULL, 0.1),
    (2, 'b', 0.5, 0.5,  0.5,  0.5,  0.1),
    (3, 'a', 0.5, 0.44, 0.39, 0.5,  0.1),
    (3, 'b', 0.6, 0.5,  0.5,  0.5,  0.1)
) AS t (day, slice, same, less, drop, undefined, error)
"""
ERROR = {"error": "error", "queries": "20"}
PRECISE = {"error": "error / 10", "queries": "100"}
# Two days of alarm of a series that is not compared on the last day, or 29 days before it.
KEPT = """
SELECT * FROM (VALUES ('a', DATE '2026-02-01', true), ('a', DATE '2026-02-02', NULL),
                      ('b', DATE '2026-{}', false)) AS t (series, day, alarm)
"""
# Series 1 drops on the last day, series 0 five days before.
DAYS = """
WITH days AS (
    SELECT series, DATE '2026-01-01' + CAST(i AS INTEGER) AS day, 0.5 + 0.01 * ((7 * i) % 5)
           - CASE WHEN i = 30 + 5 * series THEN 0.3 ELSE 0 END AS value
    FROM range(36) AS d (i), range(2) AS s (series)
)
FROM monitor_days('days', DATE '2026-01-28', series := 'series')
"""
MODELS = {
    **{"t": TABLE, "one_day": f"SELECT * FROM ({TABLE}) WHERE day = 2", "days": DAYS},
    "unwatched": "SELECT DATE '2026-01-01' AS day, NULL AS series, NULL::BOOLEAN AS alarm",
    **{"kept": KEPT.format("02-10"), "ended": KEPT.format("03-02")},
}
SLICES = {"day": "day", "by": "slice"}
UNCLEAR = SLICES | {"max_drop": 0.1} | ERROR
BEYOND_DOUBT = SLICES | {"max_drop": 0.05, "inconclusive": "warn"} | PRECISE
UNCLEAR_LEAST = {"min": 0.45, "day": "day"} | ERROR
# Of a model and its column, or of the model alone: the tests by what they must do.
TESTS = {
    ("t", "same"): {
        "pass_at_least": ("at_least", {"min": 0.5}),
        "fail_at_least": ("at_least", {"min": 0.51, "day": "day"}),
        "pass_at_most_of_the_newest": ("at_most", {"max": 0.6, "day": "day"}),
        "warn_at_least_unclear": ("at_least", UNCLEAR_LEAST | {"inconclusive": "warn"}),
        "fail_at_most": ("at_most", {"max": 0.6}),
        "fail_at_most_of": ("at_most", {"max": 5, "of": "error"}),
        "pass_at_most_of": ("at_most", {"max": 9.1, "of": "error"}),
        "pass_no_drop": ("no_drop", SLICES),
    },
    ("t", "less"): {
        "fail_drop": ("no_drop", {"day": "day", "by": ["slice"], "max_drop": 0.05}),
        "fail_inconclusive": ("no_drop", UNCLEAR),
        "warn_inconclusive": ("no_drop", UNCLEAR | {"inconclusive": "warn"}),
    },
    ("t", "drop"): {"fail_beyond_doubt": ("no_drop", BEYOND_DOUBT)},
    ("t", "undefined"): {
        "fail_at_least_of_null": ("at_least", {"min": 0}),
        "fail_at_most_of_null": ("at_most", {"max": 1}),
    },
    ("t", None): {
        "pass_once": ("once", {"key": ["day", "slice"]}),
        "fail_once": ("once", {"key": ["day"]}),
    },
    ("one_day", "same"): {"pass_first_day": ("no_drop", SLICES)},
    ("days", "held"): {"fail_alarm": ("no_alarm", {})},
    ("unwatched", "alarm"): {"pass_in_the_baseline": ("no_alarm", {})},
    ("kept", "alarm"): {"fail_not_compared": ("no_alarm", {})},
    ("ended", "alarm"): {"pass_ended": ("no_alarm", {})},
}


def test_the_tests(project, dbt, tmp_path):
    """With the package from a folder of a git repository."""
    repository = tmp_path / "repository"
    shutil.copytree(ROOT / "sql", repository / "sql")
    git = ["git", "-C", repository, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        assert run(*git, *command).returncode == 0
    points_at(project, git=repository.as_uri(), subdirectory="sql", revision="HEAD")
    shutil.rmtree(project / "models")
    (project / "models").mkdir()
    models = {model: {"name": model, "columns": []} for model in MODELS}
    for model, text in MODELS.items():
        (project / "models" / f"{model}.sql").write_text(text)
    for (model, column), tests in TESTS.items():
        data_tests = [
            {f"rankql.{test}": {"name": name, "arguments": arguments}}
            for name, (test, arguments) in tests.items()
        ]
        if column is None:
            models[model]["data_tests"] = data_tests
        else:
            models[model]["columns"].append({"name": column, "data_tests": data_tests})
    described = json.dumps({"models": [*models.values()]})
    (project / "models" / "models.yml").write_text(described)
    dbt("deps", "build", fails=True)
    message = {
        n: s for n, s in outcomes(project).items() if n.startswith(("pass_", "fail_", "warn_"))
    }
    assert message == {name: name[:4] for name in message} and len(message) == 21


def test_a_macro_of_the_user_is_not_replaced(project, dbt):
    write(project / "data", 0)
    with duckdb.connect(project / "ranking.duckdb") as con:
        con.execute("CREATE MACRO nDCG(a) AS a")
    output = dbt("deps", "run-operation rankql.install", fails=True)
    assert "your macro nDCG would be replaced" in output
    with duckdb.connect(project / "ranking.duckdb") as con:
        assert con.sql("SELECT ndcg(7)").fetchall() == [(7,)]


# On Postgres: models, and the tests that need no interval.

SHOP = """
CREATE SCHEMA shop;
CREATE TABLE shop.runs (query text, item text, score float8, day int);
CREATE TABLE shop.judgments (query text, item text, rel int, day int);
INSERT INTO shop.runs VALUES
    ('a', 'x', 2, 1), ('a', 'y', 1, 1), ('b', 'x', 1, 1), ('b', 'Z', 1, 1),
    ('c', 'x', 1, 2), ('z', 'q', 1, 2);
INSERT INTO shop.judgments VALUES
    ('a', 'y', 1, 1), ('a', 'w', 3, 1), ('b', 'Z', 1, 1), ('c', 'x', 2, 2), ('d', 'x', 1, 2);
"""
SCHEMA = """
version: 2
models:
  - name: values_of_queries
    data_tests:
      - rankql.once: {name: pass_once, arguments: {key: [query, day]}}
      - rankql.once: {name: fail_once, arguments: {key: [day]}}
    columns:
      - name: ndcg
        data_tests:
          - rankql.at_least: {name: pass_at_least, arguments: {min: 0}}
          - rankql.at_least: {name: fail_at_least, arguments: {min: 0.9, day: day}}
          - rankql.at_most: {name: pass_at_most, arguments: {max: 1}}
"""
VALUES = """{{ rankql.per_query('shop.runs', 'shop.judgments', by='day', metrics={
    'ndcg': 'ndcg(rel, pos, 10)', 'gain': 'round(dcg(exp2_gain(rel), pos, 1)::numeric, 3)'}) }}"""
ONE_TABLE = """{{ rankql.per_query("(VALUES ('a', 1, 1), ('b', 0, 1)) AS t (query, rel, pos)",
    metrics={'rr': 'rr(rel, pos)'}) }}"""


CALL = "{{ rankql.rr('rel', 'pos', 10) }}"
# Models that call a function by the macro of its name.
KINDS = ("view", "table", "incremental", "materialized_view")


@pytest.fixture
def postgres_project(tmp_path):
    """A project whose target is a schema that is not in the search_path."""
    with native_databases.postgres(18) as server:
        server.con.execute(SHOP)
        for folder in ("sql", "models"):
            (tmp_path / folder).mkdir()
        shutil.copytree(ROOT / "sql", tmp_path / "sql", dirs_exist_ok=True)
        output = {"type": "postgres", "host": server.folder, "user": "postgres", "password": ""}
        output |= {"port": 5432, "dbname": "postgres", "schema": "Analytics", "threads": 2}
        profile = {"shop": {"target": "dev", "outputs": {"dev": output}}}
        config = {"name": "shop", "version": "1.0", "profile": "shop", "config-version": 2}
        config["flags"] = {"send_anonymous_usage_stats": False}
        files = {
            "profiles.yml": json.dumps(profile),
            "dbt_project.yml": json.dumps(config),
            "packages.yml": json.dumps({"packages": [{"local": "sql"}]}),
            "models/schema.yml": SCHEMA,
            "models/values_of_queries.sql": VALUES,
            "models/one_table.sql": ONE_TABLE,
        }
        table = "(VALUES ('a', 1, 1), ('b', 0, 1)) AS t (query, rel, pos)"
        select = f"SELECT query, {CALL} AS rr FROM {table} GROUP BY query"
        for kind in KINDS:
            config = f"{{{{ config(materialized='{kind}') }}}}"
            files[f"models/as_{kind}.sql"] = config + select
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        yield tmp_path, server


@pytest.mark.postgres18
def test_postgres(postgres_project, runner):
    folder, server = postgres_project
    dbt = partial(runner, folder)
    one_schema = "run --vars '{rankql_schema: my metrics}' -s"
    kinds = " ".join(f"as_{kind}" for kind in KINDS)
    dbt("deps", f"{one_schema} {kinds}", f"run -s {kinds}", "build", fails=True)
    assert {n: s for n, s in outcomes(folder).items() if n.startswith(("pass_", "fail_"))} == {
        **dict.fromkeys(("pass_once", "pass_at_least", "pass_at_most"), "pass"),
        **dict.fromkeys(("fail_once", "fail_at_least"), "fail"),
    }
    rows = server.ask(
        'SELECT query, day, ndcg, gain, missing FROM "Analytics".values_of_queries ORDER BY 1'
    )
    run_, qrels = (
        pl.DataFrame(
            server.ask(f"SELECT query, item, {x} FROM shop.{t}"), ["query", "item", x], orient="row"
        )
        for x, t in (("score", "runs"), ("rel", "judgments"))
    )
    expected = rankql.evaluate(run_, qrels, "nDCG@10").per_query.sort("query")["nDCG@10"].to_list()
    assert [row[2] for row in rows] == pytest.approx(expected, abs=1e-12)
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("a", 1, False), ("b", 1, False), ("c", 2, False), ("d", 2, True)
    ]  # fmt: skip
    assert [float(row[3]) for row in rows] == [0, 0, 3, 0]
    assert server.ask('SELECT query, rr FROM "Analytics".one_table ORDER BY 1') == [
        ("a", 1),
        ("b", None),
    ]
    for kind, copies in dict(zip(KINDS, (1, 1, 3, 1), strict=True)).items():
        of_a = f"""SELECT rr FROM "Analytics".as_{kind} WHERE query = 'a'"""
        assert server.ask(of_a) == [(1,)] * copies, kind
    schemas = server.ask(
        "SELECT DISTINCT pronamespace::regnamespace::text FROM pg_proc WHERE proname = 'ndcg'"
    )
    assert {*schemas} == {('"Analytics"',), ('"my metrics"',)}
    refused = {
        "means": "means(ref('values_of_queries'), ['ndcg'])",
        "no_drop": "test_no_drop(ref('values_of_queries'), 'ndcg', 'day')",
        "no_alarm": "test_no_alarm(ref('values_of_queries'), 'ndcg')",
        "at_least with error=": "test_at_least(ref('values_of_queries'), 'ndcg', 0, error='e')",
    }
    for table, row in (("judgments", "'a', 'w', 0, 1"), ("runs", "'z', 'q', 2, 2")):
        text = VALUES.replace(f"shop.{table}", f"shop.twice_{table}")
        text = "{{ config(materialized='table') }}" + text
        (folder / "models" / f"twice_{table}.sql").write_text(text)
        server.con.execute(
            f"CREATE TABLE shop.twice_{table} AS TABLE shop.{table} UNION ALL VALUES ({row})"
        )
    compiled = [f'compile --inline "{{{{ rankql.{text} }}}}"' for text in refused.values()]
    server.con.execute(
        "CREATE SCHEMA theirs; CREATE FUNCTION theirs.ndcg(text) RETURNS int"
        " LANGUAGE sql AS 'SELECT 7'"
    )
    twice = "run -s twice_judgments twice_runs"
    theirs = "run-operation rankql.install --vars '{rankql_schema: theirs}'"
    output = dbt(twice, theirs, *compiled, fails=True)
    assert "shop.twice_judgments has duplicates: query a, item w. Keep one row of each" in output
    assert "shop.twice_runs has duplicates: query z, item q. Keep one row of each" in output
    assert "would be replaced" in output
    for name in refused:
        assert f"rankql.{name} needs dbt-duckdb" in output

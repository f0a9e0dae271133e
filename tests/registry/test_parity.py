"""One name, one list of parameters, one line of text for a metric, whether macro or function."""

import ast
import doctest
import inspect
import re
import sys
from functools import cache

import duckdb
import pytest

import rankql
from rankql import macros
from support import metric_engines, signatures
from support.paths import ROOT

# Functions of rankql besides metrics; its classes begin with a capital.
TASKS = {
    *("associate", "check", "combine", "compare", "convert", "correlate", "evaluate", "explain"),
    *("funnel", "gate", "grade_events", "judges", "limits", "metrics", "monitor"),
    *("queries_needed", "register", "show_versions", "sign_agreement", "translate"),
}
METRICS = [name for name in rankql.__all__ if name not in TASKS and name[0].islower()]
MACRO = re.compile(r"^CREATE OR REPLACE MACRO (\w+)", re.MULTILINE)
every_metric = pytest.mark.parametrize("name", signatures.EVERYTHING)


@cache
def read_macros():
    """name -> (parameters, comment) of our macros, without their helpers."""
    con = duckdb.connect()
    rankql.register(con)
    rows = con.execute("""
        SELECT function_name, parameters, comment FROM duckdb_functions()
        WHERE database_name = 'temp' AND function_type IN ('macro', 'table_macro')
          AND NOT starts_with(function_name, 'rankql_')
          -- `rankql.monitor` runs it, and `evaluate` takes both tables
          AND NOT starts_with(function_name, 'monitor_') AND function_name <> 'ranked_table'
    """)
    return {name: (parameters, comment) for name, parameters, comment in rows.fetchall()}


def sql_defaults(name):
    """The parameters of a macro as its text has them: name -> default."""
    head = re.search(rf"MACRO {name}\((.*?)\) AS", macros.read_sql(), re.DOTALL)[1]
    defaults = {}
    for parameter in head.split(","):
        name, sign, text = (part.strip() for part in parameter.partition(":="))
        python = {"NULL": "None", "false": "False", "true": "True"}.get(text, text)
        defaults[name] = ast.literal_eval(python) if sign else signatures.NEEDED
    return defaults


def test_names():
    assert set(read_macros()) == set(METRICS) == set(signatures.EVERYTHING)


@every_metric
def test_parameters(name):
    """The same, with the same defaults; a table comes first under the engine's own word."""
    python, sql = inspect.signature(getattr(rankql, name)).parameters, sql_defaults(name)
    is_table = name in signatures.TABLES
    expected = dict([*signatures.EVERYTHING[name].items()][is_table:])
    names, _ = read_macros()[name]
    assert [*python][is_table:] == names[is_table:] == [*sql][is_table:] == [*expected]
    for parameter, default in expected.items():
        assert sql[parameter] == default
        # A column without a default may have its own name in polars.
        own = inspect.Parameter.empty, parameter
        assert python[parameter].default in (own if default == signatures.NEEDED else (default,))
        if default != signatures.NEEDED:
            assert type(python[parameter].default) is type(default)


@every_metric
def test_description(name):
    """COMMENT ON MACRO is the docstring's first line, which says something of its own."""
    line = inspect.getdoc(getattr(rankql, name)).split("\n")[0]
    assert read_macros()[name][1] == line
    assert len(line) > 20 and line.endswith(".")


@every_metric
def test_doctest(name):
    """Every public function shows an example, and it is true."""
    function = getattr(rankql, name)
    scope = dict(vars(sys.modules[function.__module__]))
    tests = doctest.DocTestFinder(recurse=False).find(function, name, globs=scope)
    runner = doctest.DocTestRunner(verbose=False)
    for test in tests:
        runner.run(test)
    assert runner.summarize(verbose=False).attempted > 0, "no example"
    assert runner.failures == 0


def test_one_sql_file():
    """sql/rankql.sql is all the families in one, in UTF-8, and needs no Python."""
    text = (ROOT / "sql" / "rankql.sql").read_text("utf-8")
    assert text.strip() == macros.read_sql().strip()
    con = duckdb.connect()
    con.execute(text).fetchall()
    query = "SELECT ndcg(rel, pos, 3) FROM (VALUES (0, 1), (2, 3)) t(rel, pos)"
    assert con.execute(query).fetchall() == [(0.5,)]


def test_macro_names_are_unique():
    """A macro of another file would replace the first one without a word."""
    names = MACRO.findall(macros.read_sql())
    assert sorted(names) == sorted(set(names))


# A row with all columns that metrics read, and the options that they need.
ROW = """(SELECT 1 AS rel, 1 AS reference, 1 AS pos, 1 AS score, 'a' AS item, [1, 0] AS rels,
    ['x'] AS a, ['x'] AS b, [{'item': 'x', 'team': 'A'}] AS picks, ['x'] AS shown, ['x'] AS clicks,
    1 AS preference, 'view' AS event, 1 AS user, 1 AS popularity, 1 AS exposure, 1 AS merit,
    1 AS created_at, 2 AS shown_at, 1 AS target, 1 AS category, 1 AS attribute, [1] AS attributes,
    [1] AS embedding, 1 AS value, 1 AS weight, true AS baseline, [1] AS subtopics, 1 AS click,
    0.5 AS propensity)"""
OPTIONS = {
    "catalogue": 1, "users": 3, "similarity": 0.9, "seed": 1, "p": 0.5, "max_rel": 3, "k": 2,
    "grades": metric_engines.Column("MAP {'view': 1}"), "query": metric_engines.Column("1"),
}  # fmt: skip


@pytest.mark.parametrize("family", [x for x in macros.FAMILIES if x not in ("common", "bounds")])
def test_families_stand_on_common(family):
    """A family's file needs common.sql and nothing else: each of its macros can be called."""
    con = duckdb.connect()
    texts = [(ROOT / "sql" / f"{name}.sql").read_text("utf-8") for name in ("common", family)]
    con.execute("\n".join(texts)).fetchall()
    for name in MACRO.findall(texts[1]):
        if name in signatures.EVERYTHING and name not in signatures.TABLES:
            parameters = signatures.EVERYTHING[name].items()
            columns = [p for p, x in parameters if x == signatures.NEEDED and p not in OPTIONS]
            options = {p: OPTIONS[p] for p, _ in parameters if p in OPTIONS}
            call = metric_engines.call(name, columns, options)
            assert len(con.execute(f"SELECT {call} FROM {ROW}").fetchall()) == 1

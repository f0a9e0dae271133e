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

# What rankql has besides metrics.
OTHERS = {
    "Association",
    "AssociationTable",
    "Comparison",
    "Conventions",
    "Explanation",
    "Monitoring",
    "Finding",
    "Funnel",
    "Limits",
    "RankqlError",
    "JudgeReport",
    "Report",
    "Result",
    "Verdict",
    "WideTable",
    "associate",
    "check",
    "combine",
    "compare",
    "convert",
    "correlate",
    "evaluate",
    "explain",
    "funnel",
    "gate",
    "grade_events",
    "judges",
    "limits",
    "metrics",
    "monitor",
    "queries_needed",
    "register",
    "show_versions",
    "sign_agreement",
    "translate",
}
FAMILIES = [
    "gain",
    "precision",
    "cascade",
    "order",
    "rating",
    "catalogue",
    "diversity",
    "labels",
    "debias",
    "interleaving",
    "propensity",
    "monitor",
    "weights",
]


def functions():
    return {name: getattr(rankql, name) for name in rankql.__all__ if name not in OTHERS}


@cache
def described():
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


def test_macro_names_are_unique():
    """A macro of another file would replace the first one without a word."""
    names = re.findall(r"^CREATE OR REPLACE MACRO (\w+)", macros.read_sql(), re.MULTILINE)
    assert len(names) == len({*names})


def test_names():
    assert set(described()) == set(functions()) == set(signatures.EVERYTHING)


@pytest.mark.parametrize("name", signatures.EVERYTHING)
def test_parameters(name):
    """The same in the same order; a table comes first under the engine's own word."""
    python = list(inspect.signature(functions()[name]).parameters)
    sql, _ = described()[name]
    wanted = list(signatures.EVERYTHING[name])
    if name in signatures.TABLES:
        python, sql, wanted = python[1:], sql[1:], wanted[1:]
    assert python == wanted
    assert sql == wanted


def sql_defaults(name):
    """The parameters of a macro as its text has them: name -> default."""
    head = re.search(rf"MACRO {name}\((.*?)\) AS", macros.read_sql(), re.DOTALL)[1]
    found = {}
    for parameter in head.split(","):
        name, given, default = (part.strip() for part in parameter.partition(":="))
        python = {"NULL": "None", "false": "False", "true": "True"}.get(default, default)
        found[name] = ast.literal_eval(python) if given else signatures.NEEDED
    return found


@pytest.mark.parametrize("name", signatures.EVERYTHING)
def test_defaults(name):
    """The same defaults. A column without one may default to its own name in polars."""
    sql = sql_defaults(name)
    python = inspect.signature(functions()[name]).parameters
    for parameter, default in list(signatures.EVERYTHING[name].items())[
        name in signatures.TABLES :
    ]:
        assert sql[parameter] == default
        if default == signatures.NEEDED:
            assert python[parameter].default in (inspect.Parameter.empty, parameter)
        else:
            assert python[parameter].default == default
            assert type(python[parameter].default) is type(default)


@pytest.mark.parametrize("name", signatures.EVERYTHING)
def test_description(name):
    """COMMENT ON MACRO is the docstring's first line, which says something of its own."""
    line = inspect.getdoc(functions()[name]).split("\n")[0]
    assert described()[name][1] == line
    assert len(line) > 20 and line.endswith(".")


@pytest.mark.parametrize("name", signatures.EVERYTHING)
def test_doctest(name):
    """Every public function shows an example, and it is true."""
    function = functions()[name]
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


def test_no_macro_is_made_twice():
    """A helper of one family does not replace that of another."""
    made = re.findall(r"^CREATE OR REPLACE MACRO (\w+)", macros.read_sql(), re.MULTILINE)
    assert sorted(made) == sorted(set(made))


@pytest.mark.parametrize("family", FAMILIES)
def test_families_stand_on_common(family):
    """A family's file needs common.sql and nothing else: each of its macros can be called."""
    con = duckdb.connect()
    con.execute((ROOT / "sql" / "common.sql").read_text("utf-8")).fetchall()
    text = (ROOT / "sql" / f"{family}.sql").read_text("utf-8")
    con.execute(text).fetchall()
    grades = metric_engines.Column("MAP {'view': 1}")
    values = {"catalogue": 1, "users": 3, "similarity": 0.9}
    values |= {
        "seed": 1,
        "grades": grades,
        "p": 0.5,
        "max_rel": 3,
        "query": metric_engines.Column("1"),
        "k": 2,
    }
    source = "(SELECT 1 AS rel, 1 AS reference, 1 AS pos, 1 AS score, 'a' AS item, [1, 0] AS rels, "
    source += "['x'] AS a, ['x'] AS b, [{'item': 'x', 'team': 'A'}] AS picks, ['x'] AS shown, "
    source += "['x'] AS clicks, 1 AS preference, "
    source += "'view' AS event, 1 AS user, 1 AS popularity, 1 AS exposure, 1 AS merit, "
    source += "1 AS created_at, 2 AS shown_at, "
    source += "1 AS target, 1 AS category, 1 AS attribute, [1] AS attributes, [1] AS embedding, "
    source += "1 AS value, 1 AS weight, "
    source += "true AS baseline, [1] AS subtopics, 1 AS click, 0.5 AS propensity)"
    for name in re.findall(r"^CREATE OR REPLACE MACRO (\w+)", text, re.MULTILINE):
        if name in signatures.EVERYTHING and name not in signatures.TABLES:
            parameters = signatures.EVERYTHING[name]
            needed = [
                p
                for p, default in parameters.items()
                if default == signatures.NEEDED and p not in values
            ]
            options = {p: value for p, value in values.items() if p in parameters}
            call = metric_engines.call(name, needed, options)
            assert len(con.execute(f"SELECT {call} FROM {source}").fetchall()) == 1

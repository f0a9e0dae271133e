"""One name, one list of parameters, one line of text for a metric, whether macro or function."""

import inspect
import re

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


def test_names():
    """Every metric of SQL is public in Python, and the other way round; it brings its comment."""
    assert set(METRICS) == set(signatures.EVERYTHING)
    con = duckdb.connect()
    rankql.register(con)
    rows = con.execute("SELECT function_name, comment FROM duckdb_functions()").fetchall()
    assert macros.read_comments().items() <= dict(rows).items()


@every_metric
def test_parameters(name):
    """The same, with the same defaults; a table comes first under the engine's own word."""
    start = name in signatures.TABLES
    python = [*inspect.signature(getattr(rankql, name)).parameters.values()][start:]
    sql = [*signatures.EVERYTHING[name].items()][start:]
    assert [parameter.name for parameter in python] == [parameter for parameter, _ in sql]
    for parameter, (_, default) in zip(python, sql, strict=True):
        if default == signatures.NEEDED:  # a column, which may have its own name in polars
            assert parameter.default in (inspect.Parameter.empty, parameter.name)
        else:
            assert parameter.default == default
            assert type(parameter.default) is type(default)


@every_metric
def test_description(name):
    """COMMENT ON MACRO is the docstring's first line, which says something of its own."""
    line = inspect.getdoc(getattr(rankql, name)).split("\n")[0]
    assert macros.read_comments()[name] == line
    assert len(line) > 20 and line.endswith(".")


@every_metric
def test_the_docstring_has_an_example(name):
    """tests/docs/test_doctests.py runs it."""
    assert ">>> " in inspect.getdoc(getattr(rankql, name))


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

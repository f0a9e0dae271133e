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
    *("associate", "check", "combine", "compare", "convert", "evaluate", "explain"),
    *("funnel", "gate", "grade_events", "judges", "metrics", "monitor"),
    *("queries_needed", "register", "translate"),
}
METRICS = [name for name in rankql.__all__ if name not in TASKS and name[0].islower()]
MACRO = re.compile(r"^CREATE OR REPLACE MACRO (\w+)", re.MULTILINE)


def test_names():
    """Every macro is public in Python, and the other way round; it brings its comment."""
    assert set(METRICS) - signatures.INCOMPLETE == set(signatures.EVERYTHING)
    con = duckdb.connect()
    rankql.register(con)
    rows = con.execute("SELECT function_name, comment FROM duckdb_functions()").fetchall()
    assert macros.read_comments().items() <= dict(rows).items()


@pytest.mark.parametrize("name", signatures.EVERYTHING)
def test_a_function_agrees_with_its_macro(name):
    """The first line of the docstring is COMMENT ON MACRO; test_reference_page.py runs its example.

    Parameters have the same defaults; a table comes first under the engine's own word.
    """
    docstring = inspect.getdoc(getattr(rankql, name))
    line = docstring.split("\n")[0]
    assert macros.read_comments()[name] == line
    assert len(line) > 20 and line.endswith(".") and ">>> " in docstring
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


def test_macro_names_are_unique():
    """A macro of another file would replace the first one without a word."""
    names = MACRO.findall(macros.read_sql())
    assert sorted(names) == sorted(set(names))


@pytest.mark.few(1)
@pytest.mark.parametrize("family", macros.FAMILIES[1:])
def test_families_stand_on_common(family):
    """A family's file needs common.sql and nothing else: each of its macros can be called."""
    con = duckdb.connect()
    texts = [(ROOT / "sql" / f"{name}.sql").read_text("utf-8") for name in ("common", family)]
    con.execute("\n".join(texts)).fetchall()
    for name in MACRO.findall(texts[1]):
        if name in signatures.EVERYTHING and name not in signatures.TABLES:
            needed = [x for x in signatures.EVERYTHING[name].values() if x == signatures.NEEDED]
            call = f"SELECT {name}({', '.join(['NULL'] * len(needed))})"
            message = metric_engines.complaint(lambda call=call: con.execute(call).fetchall())
            assert "Exception: " not in message, message  # but one of ours

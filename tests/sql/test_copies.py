"""List forms and others plan their arguments seldom, and lists stand wherever an expression may."""

import duckdb
import pytest

from support import copies, metric_engines, signatures
from support.parameters import few


@pytest.mark.skipif(duckdb.__version__ < "2", reason="the numbers are those of DuckDB 2.0")
@few(3)("macro", copies.MACROS)
def test_a_macro_names_its_arguments_no_more_often_than_before(macro):
    assert copies.count(macro) == copies.read()[macro], "if lower, run tests/generate.py arguments"


@pytest.mark.parametrize("macro", signatures.LISTS)
def test_a_list_form_names_its_lists_twice_at_most(macro):
    counts = copies.read()[macro]
    assert max(counts.values()) <= 2


def test_the_table_has_the_macros():
    assert [*copies.read()] == copies.MACROS


CALLS = {
    macro: f"{macro}({{}}{options}{', ideal := {}' if 'ideal' in parameters else ''})"
    for macro, parameters in signatures.LISTS.items()
    for options in [
        "".join(
            f", {name} := {value}"
            for name, value in signatures.REQUIRED.get(signatures.metric_of(macro), {}).items()
        )
    ]
}


@pytest.fixture(scope="module")
def con():
    con = metric_engines.connect()
    con.execute("CREATE TABLE t (q INT, rels INT[])")
    rows = [(1, [1, 0, 2]), (2, [0, -1, 1]), (3, [0, None]), (4, []), (5, None)]
    con.executemany("INSERT INTO t VALUES (?, ?)", rows)
    return con


# Queries of the values by q, with the call of the column and of a list that is made in place. A
# generated column may not have lambdas, and list forms had them before.
PLACES = {
    "lambda": "SELECT q, list_transform([rels], lambda x: {x})[1] FROM t",
    "view": "CREATE OR REPLACE TEMP VIEW v AS SELECT q, {rels} AS v FROM t; FROM v",
    "group": """SELECT q, {list} AS v
                FROM (SELECT q, unnest(rels) AS rel FROM t WHERE len(rels) > 0)
                GROUP BY q HAVING {list} IS NULL OR {list} < 99""",
    "window": "SELECT q, {rels} AS v FROM t QUALIFY row_number() OVER (ORDER BY {rels}, q) > 0",
    "subquery": "SELECT q, (SELECT {one} FROM (SELECT t.rels AS one)) FROM t",
    "filter": "SELECT q, {rels} AS v FROM t WHERE {rels} IS NULL OR {rels} < 99 ORDER BY {rels}",
}


@few(2)("macro", CALLS)
def test_a_list_form_stands_wherever_an_expression_may(con, macro):
    call = CALLS[macro]
    made = {name: call.format(name, name) for name in ("rels", "x", "one")}
    made["list"] = call.format("list(rel)", "list(rel)")
    query = "SELECT q, {rels} FROM t ORDER BY q".format(**made)
    rows = con.execute(query).fetchall()
    for place, text in PLACES.items():
        found = sorted(con.execute(text.format(**made)).fetchall())
        assert found == [row for row in rows if place != "group" or row[0] < 4], place
    for q, value in rows:
        ((rels,),) = con.execute("SELECT rels FROM t WHERE q = ?", [q]).fetchall()
        lists = [rels] * call.count("{}")
        assert con.execute(f"SELECT {call.format(*'??')}", lists).fetchall() == [(value,)]


@pytest.mark.parametrize("k", ["?", "(SELECT 2)", "1 + 1", "q + 1"])
def test_k_of_a_list_may_be_any_expression(con, k):
    calls = "list_recall_at(rels, {0}), list_dcg(rels, {0}), list_judged_at(rels, {0})"
    query = f"SELECT {calls} FROM t WHERE q = 1"
    values = [2] * 3 if k == "?" else []
    assert (
        con.execute(query.format(k), values).fetchall() == con.execute(query.format(2)).fetchall()
    )

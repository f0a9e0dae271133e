"""What must be a number is refused if its type is another: every macro, argument and type."""

import duckdb
import pytest

import rankql
from rankql.core.metrics.macros import _HINTS, read_parameters
from support import metric_engines
from support.parameters import few

# Arguments that must be numbers. Those of columns may also be true or false, but for a position.
OPTIONS = (
    "k", "threshold", "alpha", "p", "max_rel", "recall", "similarity", "base", "clip", "users",
)  # fmt: skip
COLUMNS = (
    "rel", "pos", "score", "popularity", "click", "propensity", "predicted", "reference",
    "factor", "weight", "exposure", "merit",
)  # fmt: skip
NOT_TRUE_OR_FALSE = (*OPTIONS, "pos", "reference")

VALUES = {
    "rel": "1", "pos": "1", "score": "0.5", "item": "'a'", "k": "1", "threshold": "1",
    "subtopics": "['s']", "alpha": "0.5", "popularity": "1", "users": "10", "click": "1",
    "propensity": "0.5", "predicted": "0.5", "p": "0.5", "max_rel": "4", "recall": "0.5",
    "similarity": "0.9", "catalogue": "10", "reference": "1", "rels": "[1]",
    "embedding": "[1.0, 2.0]", "category": "'c'", "attributes": "['a']", "attribute": "'a'",
    "factor": "0.5", "weight": "1", "exposure": "0.5", "merit": "1", "user": "'u'",
    "query": "'q'", "event": "'buy'", "grades": "MAP {'buy': 1}", "base": "2", "clip": "1",
    "created_at": "TIMESTAMP '2026-01-01'", "shown_at": "TIMESTAMP '2026-01-02'",
}  # fmt: skip
CONSTANT = (*OPTIONS, "catalogue")
TYPES = {
    "DATE": "DATE '2026-01-01'", "TIMESTAMP": "TIMESTAMP '2026-01-01'", "TIME": "TIME '10:00'",
    "TIMESTAMPTZ": "TIMESTAMPTZ '2026-01-01 00:00:00+00'", "INTERVAL": "INTERVAL 1 DAY",
    "LIST": "[1]", "ARRAY": "[1, 2]::INT[2]", "STRUCT": "{'a': 1}", "MAP": "MAP {1: 1}",
    "UUID": "uuid()", "BLOB": "'1'::BLOB", "BIT": "'101'::BIT", "VARCHAR": "'1'",
    "ENUM": "'1'::ENUM('1')", "JSON": "'1'::JSON", "UNION": "union_value(n := 1)",
    "BOOLEAN": "true",
}  # fmt: skip


@pytest.fixture(scope="module")
def con():
    with metric_engines.connect() as con:
        yield con


def ask(con, macro, required, **changed):
    """The value of a call, or its error. What is changed is an option, or a column of the rows."""
    values = VALUES | changed
    arguments = [values[x] if x in CONSTANT else x for x in required]
    arguments += [f"{x} := {y}" for x, y in changed.items() if x not in required]
    columns = ", ".join(f"{values[x]} AS {x}" for x in required)
    call = f"SELECT {macro}({', '.join(arguments)}) FROM (SELECT {columns or '1'})"
    try:
        return con.execute(call).fetchall()[0][0]
    except duckdb.Error as error:
        return str(error)


def find_needed(con, macro, parameters):
    """The parameters without a default; None if a call needs others than those above."""
    for needed in range(len(parameters) + 1):
        required = parameters[:needed]
        if VALUES.keys() >= {*required} and "Error" not in str(ask(con, macro, required)):
            return required
    return None


# Macros that only say what to write, and that take rows of other kinds.
OTHERS = {*_HINTS, "serendipity", "weighted_mean"}
MACROS = {
    name: parameters
    for name, parameters in read_parameters().items()
    if not name.startswith("rankql_") and next(iter(parameters), "") in VALUES
    if {*parameters} & {*OPTIONS, *COLUMNS} and name not in OTHERS
}


@few(4)("macro", [*MACROS])
def test_no_macro_reads_another_type_as_a_number(con, macro):
    parameters = [*MACROS[macro]]
    required = find_needed(con, macro, parameters)
    for argument in (x for x in parameters if x in (*OPTIONS, *COLUMNS)):
        for kind, value in TYPES.items():
            if kind != "BOOLEAN" or argument in NOT_TRUE_OR_FALSE:
                answer = str(ask(con, macro, required, **{argument: value}))
                assert "rankql: " in answer, (argument, kind, answer)


@pytest.mark.parametrize("rel", ["true", "1::UTINYINT", "1::DECIMAL(4, 1)", "1::UHUGEINT", "1.0"])
def test_every_number_and_true_or_false_is_a_grade(con, rel):
    for macro in ("rr", "ndcg", "num_rel_ret", "bpref"):
        assert ask(con, macro, ["rel", "pos"], rel=rel) == 1


def test_a_type_says_what_may_be_meant(con):
    when = ask(con, "rr", ["rel", "pos"], pos=TYPES["TIMESTAMP"])
    assert "pos must be a number, not TIMESTAMP. Cast it first. Times: row_number() OVER (" in when
    numbered = """SELECT rr(rel, pos) FROM (SELECT *, row_number() OVER (PARTITION BY query
        ORDER BY shown_at) AS pos FROM (VALUES ('q', 0, DATE '2026-01-01'),
        ('q', 1, DATE '2026-01-02')) AS t (query, rel, shown_at))"""
    assert con.execute(numbered).fetchall() == [(0.5,)]
    assert "Ids and words: click_id IS NOT NULL" in ask(con, "rr", ["rel", "pos"], rel="'c7'")
    given = (
        "SELECT rr(click_id IS NOT NULL, pos) FROM (VALUES (NULL, 1), ('c7', 2)) t(click_id, pos)"
    )
    assert con.execute(given).fetchall() == [(0.5,)]


def test_a_place_of_0_may_be_a_grade(con):
    """The order of the arguments is rel, pos."""
    swapped = ask(con, "ndcg", ["pos", "rel"], rel="0", pos="1")
    assert "Position 1 is the top: add 1, or is the order rel, pos?" in swapped


def test_a_column_in_the_place_of_the_threshold_is_refused(con):
    rows = (
        "(VALUES (1, 1, 1), (0, 2, 1), (2, 1, 2), (0, 3, 2), (1, NULL, 2)) AS t (rel, pos, user_no)"
    )
    for macro in ("micro_precision_at", "micro_recall_at", "micro_f1_at"):
        call = f"SELECT {macro}(rel, pos, 2, {{}}) FROM {rows}"
        with pytest.raises(duckdb.Error, match="Name the argument: query := or threshold :="):
            con.execute(call.format("user_no"))
        ((value,),) = con.execute(call.format("query := user_no")).fetchall()
        ((same,),) = con.execute(call.format("1, query := user_no")).fetchall()
        assert value == same
    assert value == pytest.approx(2 * 2 / (4 + 3))


def test_a_list_form_takes_one_list(con):
    with pytest.raises(
        duckdb.Error, match="forms take one list, the grades in rank order: list_nd"
    ):
        con.execute("SELECT list_ndcg(list(r), list(p), 10) FROM (VALUES (1, 1)) AS t (r, p)")


def test_polars_and_evaluate_refuse_a_position_that_is_true_or_false():
    import polars as pl

    rows = pl.DataFrame({"query": ["q"], "item": ["a"], "rel": [1], "pos": [True]})
    for call in (
        lambda: rows.group_by("query").agg(rankql.rr("rel", "pos")),
        lambda: rankql.evaluate(rows, metrics="RR"),
    ):
        with pytest.raises(Exception, match=r"pos must be a number, not (?i:boolean)"):
            call()

"""Input easily got wrong: NULL items, literal grades, text, options where nothing is relevant."""

import re

import polars as pl
import pytest

import rankql
from rankql import macros
from rankql.errors import database_message
from support import metric_engines

SQL_ERRORS = [
    # What is wrong is refused also where nothing is relevant, so that no value depends on it.
    (
        "ap(rel, CASE WHEN pos > 1 THEN pos END, denominator := 'x')",
        "denominator must be 'min', 'R', 'found' or 'k', not x",
    ),
    ("hit_at_by_score(rel, pos, pos, ties := 'x')", "ties must be 'item' or 'expected', not x"),
    ("rr_by_score(rel, pos, pos, k := 0)", "k must be a whole number from 1"),
    ("f1_at_by_score(rel, pos, pos, k := 0)", "k must be a whole number from 1"),
    ("list_ap([0], 0)", "k must be a whole number from 1"),
    ("list_ap([0], denominator := 'x')", "denominator must be"),
    ("list_rr([]::INT[], 0)", "k must be a whole number from 1"),
    ("list_err([0], max_rel := 3, p := 9)", "p must lie between 0 and 1, not 9"),
    # A list is checked also where `ideal` stands for the judged items.
    ("list_hit_at(['nan'::DOUBLE], ideal := [0])", "rel must be a finite number, not nan"),
    ("list_idcg(['nan'::DOUBLE], ideal := [1])", "rel must be a finite number, not nan"),
    ("list_err([9], max_rel := 3, ideal := [9, 0])", "rel must not exceed max_rel: 9"),
    # Text is never read as a number.
    ("list_ndcg('[1, 2]')", "rel must be a number, not text"),
    ("list_ndcg([1, 0], ideal := '[3, 2]')", "ideal must be a list of grades, not [3, 2]"),
    ("list_ndcg(['1', '0']::VARCHAR[2])", "rel must be a number, not text"),
    ("ndcg(rel::VARCHAR::ENUM('0'), pos)", "rel must be a number, not text"),
    ("ndcg(rel::JSON, pos)", "rel must be a number, not text"),
    ("ap(rel, pos, threshold := '1')", "threshold must be a finite number, not the text '1'"),
    ("rbp(rel, pos, p := '0.5')", "p must lie between 0 and 1, not the text '0.5'"),
    ("err(rel, pos, max_rel := 'x')", "max_rel must be a finite number above 0, not x"),
    ("list_dcg([1, 0], base := 'e')", "base must be a finite number above 1, not e"),
    ("dcg(rel, pos, discounts := ['1', '2'])", "discounts must be a list of numbers, not [1, 2]"),
    ("idcg(pos, NULL, discounts := ['a'])", "discounts must be a list of numbers, not [a]"),
    ("list_dcg([rel, rel], discounts := ['1'])", "discounts must be a list of numbers, not [1]"),
    # DuckDB drops sums over a constant NULL.
    ("ndcg('inf'::DOUBLE, NULL)", "rel must be a finite number, not inf"),
    ("ndcg(rel::VARCHAR, NULL::INT, 2)", "rel must be a number, not text"),
    ("kendall_tau_distance(rel, pos, normalized := 'no')", "normalized must be true or false"),
    # The name of the column instead of the column: both rankings would be one.
    ("micro_precision_at(rel, pos, 1, query := 'user')", "query must identify one ranking"),
]


@pytest.mark.parametrize(("call", "message"), SQL_ERRORS)
def test_sql_refuses(call, message):
    query = f"SELECT {call} FROM (VALUES (0, 1), (0, 2), (0, 1)) AS t (rel, pos)"
    with pytest.raises(metric_engines.duckdb.ConversionException) as error:
        metric_engines.connection().sql(query).fetchall()
    line = database_message(error.value)
    assert line.startswith(message) and "\n" not in line


def test_an_item_that_is_null_stands_last_of_its_peers():
    rows = [(3, 0.5, "a"), (0, 0.5, None), (2, 0.5, "c"), (1, 0.1, "z")]
    frame = pl.DataFrame(rows, schema=["rel", "score", "item"], orient="row")
    con = metric_engines.connection()
    con.register("peers", frame.to_arrow())
    for k, wanted in ((1, 2), (2, 5), (3, 5), (4, 6)):
        query = f"SELECT cg_by_score(rel, score, item, {k}) FROM peers"
        assert con.sql(query).fetchall() == [(wanted,)]
        assert frame.select(rankql.cg_by_score("rel", "score", "item", k)).item() == wanted
    query = "SELECT sum(rel) FROM ranked('peers', query := NULL) WHERE pos <= 2"
    assert con.sql(query).fetchall() == [(5,)]
    assert rankql.ranked(frame, query=None).filter(pl.col("pos") <= 2)["rel"].sum() == 5


@pytest.mark.parametrize("metric", ["ndcg", "recall_at", "f1_at", "idcg", "ap", "bpref", "rr"])
def test_a_literal_is_the_grade_of_every_row(metric):
    made = getattr(rankql, metric)
    frame = pl.DataFrame({"g": [1, 1, 1, 2], "pos": [1, 2, 3, 4], "rel": 1})
    for context in (frame.group_by("g", maintain_order=True).agg, frame.select):
        assert context(made(pl.lit(1), "pos")).equals(context(made("rel", "pos")))


@pytest.mark.parametrize("by", ["_rel", "_pos", "_dcg", "_counters", "_other"])
def test_group_columns_of_any_name(by):
    frame = pl.DataFrame({by: [7, 7], "rel": [0, 1], "pos": [1, 2]})
    assert frame.pipe(rankql.ndcg, by=by)["ndcg"].round(4).to_list() == [0.6309]
    with pytest.raises(rankql.RankqlError, match="by= contains 'ndcg'"):
        frame.rename({by: "ndcg"}).pipe(rankql.ndcg, by="ndcg")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rankql.dcg(discounts=3), "discounts must be a list of numbers, not int"),
        (lambda: rankql.kendall_tau_distance(normalized="no"), "normalized must be true or false"),
        (lambda: rankql.exp2_gain(pl.DataFrame()), "a column must be a name or an expression"),
    ],
)
def test_polars_refuses(call, message):
    with pytest.raises(rankql.RankqlError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "columns", "rows"),
    [
        ("bpref(rel, pos)", "hit, rel, pos", "(7, 1, 1), (7, 0, 2)"),
        ("err(rel, pos, 10, max_rel := 1)", "rel, pos", "(1, 1), (0, 2)"),
        ('personalisation("user", item)', '"user", item', "(1, 'a'), (2, 'b')"),
    ],
)
def test_tables_of_any_name(call, columns, rows):
    """Not even of one that a variable of ours has: x.hit is then the column."""
    con = metric_engines.connection()
    group = "GROUP BY hit" if "hit" in columns else ""
    found = {
        name: con.sql(
            f"SELECT {call} FROM (VALUES {rows}) AS {name} ({columns}) {group}"
        ).fetchall()
        for name in ("x", "b", "total", "part", "best", "two", "shown")
    }
    assert found["x"][0][0] is not None
    assert all(value == found["shown"] for value in found.values()), found


def test_fields_of_variables_are_read_in_brackets():
    """DuckDB takes `x.pos` for a column in HAVING, and `x['pos']` for the field of a variable."""
    statements = re.split(
        r"(?m)^CREATE OR REPLACE ", re.sub(r"--.*|'[^']*'", "", macros.read_sql())
    )
    wrong = {
        name
        for statement in statements
        if " AS TABLE" not in statement  # whose tables are ours
        for names in re.findall(r"lambda ([\w, ]+):|\bfor ([\w, ]+) in\b", statement)
        for name in re.findall(r"\w+", " ".join(names))
        if re.search(rf"(?<![\w.]){name}\.\w", statement)
    }
    assert not wrong

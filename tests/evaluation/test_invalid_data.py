"""Errors and notes about the data are the same for every form of the tables and every plan."""

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation import validation
from rankql.evaluation.facts import Facts
from rankql.macros import MISSING
from support.plans import LargeFacts, evaluate_plan

QRELS = pl.DataFrame(
    {"query": [f"q{i % 6}" for i in range(60)], "item": range(60), "rel": [0, 1, 2] * 20}
)
RUN = QRELS.select("query", "item", score=pl.col("item") * 37 % 61 * 1.0)
NO_NAN = pl.col("score").replace(RUN["score"][7], float("nan"))
CASES = {
    "all judged": (RUN, QRELS, {}),
    "some queries only": (RUN.filter(pl.col("query") > "q1"), QRELS, {}),
    "unjudged queries": (RUN, QRELS.filter(pl.col("query") > "q3"), {}),
    "no judged query": (RUN.with_columns("Q" + pl.col("query")), QRELS, {}),
    "no judged item": (RUN.with_columns(pl.col("item") + 100), QRELS, {}),
    "run twice": (pl.concat([RUN, RUN.head(7)]), QRELS, {}),
    "qrels twice": (RUN, pl.concat([QRELS, QRELS.head(7)]), {}),
    "two grades": (RUN, pl.concat([QRELS, QRELS[:1].with_columns(rel=pl.lit(1, pl.Int64))]), {}),
    "NaN": (RUN.with_columns(NO_NAN), QRELS, {}),
    "NaN in another query": (
        RUN.with_columns(NO_NAN),
        QRELS.filter(pl.col("query") != RUN["query"][7]),
        {},
    ),
    "ties, and NaN": (RUN.with_columns(NO_NAN // 10), QRELS, {}),
    "no score": (RUN.with_columns(score=pl.lit(None, pl.Float64)), QRELS, {}),
    "missing query": (RUN.filter(pl.col("query") > "q1"), QRELS, {"missing": "error"}),
    "missing query, other items": (
        RUN.filter(pl.col("query") > "q1").with_columns(pl.col("item") + 100),
        QRELS,
        {"missing": "error"},
    ),
    "undefined": (RUN, QRELS.with_columns(rel=pl.lit(0)), {"undefined": "error"}),
    "grades above 5": (RUN, QRELS.with_columns(pl.col("rel") * 9), {}),
    "slices": (RUN.with_columns(market=pl.col("query") > "q2"), QRELS, {"by": "market"}),
}


def outcome(run, qrels, metrics=("nDCG@10", "P@5"), **options):
    """Values, means and notes, or the error."""
    try:
        result = rankql.evaluate(run, qrels, metrics, **options)
    except rankql.RankqlError as error:
        return str(error)
    return result.per_query, result.summary, result.notes


@pytest.mark.parametrize(
    ("metrics", "ties"),
    [(["nDCG@10", "P@5"], "item"), (["nDCG@10", "P@5"], "expected"), (["AP", "RR"], "item")],
)
@pytest.mark.parametrize("case", CASES)
def test_every_plan_gives_the_same_values_or_error(case, metrics, ties):
    run, qrels, options = CASES[case]
    if {"missing", "undefined"} & options.keys():
        return  # refused by the result
    results = []
    for facts in (LargeFacts, Facts):
        try:
            results.append(evaluate_plan(run, qrels, metrics, facts, ties=ties, **options)[2])
        except rankql.RankqlError as error:
            results.append(str(error))
    if isinstance(results[0], str):
        assert results[0] == results[1]
    else:
        assert_frame_equal(*results, abs_tol=1e-12, rel_tol=1e-12)


@pytest.mark.parametrize("rows", [range(0), range(10**9)])
@pytest.mark.parametrize("twice", ["run", "qrels", None])
def test_repeated_items_in_either_engine(monkeypatch, rows, twice):
    """DuckDB or polars compares the hashes of rows."""
    monkeypatch.setattr(validation, "IN_POLARS", rows)
    _refuse_repeats(twice, many=1000)


def test_repeated_judgments_among_many():
    """Two million rows are compared by polars."""
    for twice in ("qrels", None):
        _refuse_repeats(twice, many=validation.IN_POLARS.start)


def _refuse_repeats(twice, many):
    items = pl.DataFrame({"item": range(many)}).with_columns(query=pl.col("item") // 100)
    tables = {
        "run": items.with_columns(score=pl.col("item") % 100 / 64),
        "qrels": items.with_columns(rel=pl.col("item") % 3 + 1),
    }
    item = many // 2 + 97
    if twice:
        tables[twice] = pl.concat([tables[twice], tables[twice].slice(item, 1)])
    message = outcome(*tables.values(), "nDCG@10")
    if twice:
        assert message.startswith(f"{twice} has duplicates: query {item // 100}, item {item}.")
    else:
        assert not isinstance(message, str)


@pytest.mark.parametrize("name", [MISSING])
def test_names_of_hidden_columns(name):
    """They are ours."""
    named = QRELS.with_columns((pl.col("query") > "q2").alias(name))
    message = f"Two columns of the result would be called {name!r}. Rename one of them"
    assert outcome(RUN, named, "P@5", by=name) == message


@pytest.mark.parametrize("kind", ["UUID", "BIT", "DATE", "HUGEINT", "VARCHAR"])
def test_queries_of_any_type(kind):
    """More judged queries than are compared at once, in a table whose types are its own."""
    as_kind = {
        "UUID": "md5(q::VARCHAR)::UUID",
        "BIT": "q::BIT",
        "DATE": "'2020-01-01'::DATE + q::INT",
    }
    query = as_kind.get(kind, f"q::{kind}")
    con = duckdb.connect()
    rows = f"SELECT {query} AS query, item, {{}} FROM range(3000) AS a (q), range(3) AS b (item)"
    con.execute(f"CREATE TABLE run AS {rows.format('item * 1.5 AS score')}")
    con.execute(f"CREATE TABLE qrels AS {rows.format('item % 2 AS rel')}")
    unjudged = "SELECT query FROM run ORDER BY query LIMIT 1"
    con.execute(f"CREATE TABLE fewer AS FROM qrels WHERE query NOT IN ({unjudged})")
    for facts in (Facts, LargeFacts):
        for qrels in ("qrels", "fewer"):
            values = evaluate_plan("run", qrels, "AP", facts, con=con)[2]
            assert values["AP"].mean() == 0.5


@pytest.mark.parametrize("metric", ["nDCG@10", "AP"])
@pytest.mark.parametrize("case", ["all judged", "no judged query", "NaN"])
def test_transactions_of_the_user_go_on(case, metric):
    """An error of our checks does not end the transaction, as one of DuckDB would."""
    run, qrels, _ = CASES[case]
    con = duckdb.connect()
    con.execute("CREATE TABLE kept AS SELECT 1 AS x")
    con.execute("BEGIN; INSERT INTO kept VALUES (2)").fetchall()
    found = outcome(run, qrels, metric, con=con)
    if case == "NaN":
        assert found == "run: score must be a number, not nan"
    else:
        assert con.execute("SELECT count(*) FROM kept").fetchall() == [(2,)]
    con.execute("ROLLBACK").fetchall()
    assert con.execute("SELECT count(*) FROM kept").fetchall() == [(1,)]

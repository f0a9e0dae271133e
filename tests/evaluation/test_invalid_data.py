"""Errors and notes about the data are the same for every form of the tables and every plan."""

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation.checks import IN_POLARS
from rankql.evaluation.resolve import Facts
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
    "no judged query": (RUN.with_columns(pl.col("query").str.to_uppercase()), QRELS, {}),
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
    "grades above 5": (RUN, QRELS.with_columns(pl.col("rel") * 9), {}),
    "slices": (RUN.with_columns(market=pl.col("query") > "q2"), QRELS, {"by": "market"}),
}


def evaluate(*args, **options):
    """The result, or the error."""
    try:
        return rankql.evaluate(*args, **options)
    except rankql.RankqlError as error:
        return str(error)


@pytest.mark.parametrize(
    ("metrics", "ties"),
    [(["nDCG@10", "P@5"], "item"), (["nDCG@10", "P@5"], "expected"), (["AP", "RR"], "item")],
)
@pytest.mark.parametrize("case", CASES)
def test_every_plan_gives_the_same_values_or_error(case, metrics, ties):
    run, qrels, options = CASES[case]
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


@pytest.mark.parametrize("rows", [1000, IN_POLARS.start])
@pytest.mark.parametrize("table", ["run", "qrels", None])
def test_repeated_items_are_refused_in_tables_of_any_size(rows, table):
    """DuckDB or, among many rows, polars compares their hashes."""
    items = pl.DataFrame({"item": range(rows)}).with_columns(query=pl.col("item") // 100)
    tables = {
        "run": items.with_columns(score=pl.col("item") % 100 / 64),
        "qrels": items.with_columns(rel=pl.col("item") % 3 + 1),
    }
    item = rows // 2 + 97
    if table:
        tables[table] = pl.concat([tables[table], tables[table].slice(item, 1)])
    result = evaluate(*tables.values(), "nDCG@10")
    assert isinstance(result, str) == bool(table)
    if table:
        assert result.startswith(f"{table} has duplicates: query {item // 100}, item {item}.")


@pytest.mark.parametrize("kind", ["UUID", "BIT", "DATE", "HUGEINT", "SMALLINT", "VARCHAR"])
def test_queries_of_any_type(kind):
    """More judged queries than are compared at once."""
    as_kind = {"UUID": "md5(q::VARCHAR)::UUID", "DATE": "'2020-01-01'::DATE + q::INT"}
    query = as_kind.get(kind, f"q::{kind}")
    con = duckdb.connect()
    rows = f"SELECT {query} AS query, item, {{}} FROM range(3000) AS a (q), range(3) AS b (item)"
    con.execute(f"CREATE TABLE run AS {rows.format('item * 1.5 AS score')}")
    con.execute(f"CREATE TABLE qrels AS {rows.format('item % 2 AS rel')}")
    unjudged = "SELECT query FROM run ORDER BY query LIMIT 1"
    con.execute(f"CREATE TABLE fewer AS FROM qrels WHERE query NOT IN ({unjudged})")
    for facts in (Facts, LargeFacts):
        for qrels in ("qrels", "fewer"):
            values = evaluate_plan("run", qrels, ["AP", "nDCG@3"], facts, con=con)[2]
            assert values["AP"].mean() == 0.5 and values["query"].is_sorted()


@pytest.mark.parametrize("metric", ["nDCG@10", "AP"])
@pytest.mark.parametrize("case", ["all judged", "no judged query", "NaN"])
def test_transactions_of_the_user_go_on(case, metric):
    """An error of our checks does not end the transaction, as one of DuckDB would."""
    run, qrels, _ = CASES[case]
    con = duckdb.connect()
    con.execute("CREATE TABLE kept AS SELECT 1 AS x")
    con.execute("BEGIN; INSERT INTO kept VALUES (2)").fetchall()
    result = evaluate(run, qrels, metric, con=con)
    assert isinstance(result, str) == (case != "all judged")
    if case != "NaN":
        assert con.execute("SELECT count(*) FROM kept").fetchall() == [(2,)]
    con.execute("ROLLBACK").fetchall()
    assert con.execute("SELECT count(*) FROM kept").fetchall() == [(1,)]

"""Metrics of the user over columns of the run, also over the first positions."""

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from rankql.sources.private import create_macros, private_connection

RUN = pl.DataFrame(
    {
        "query": ["a", "a", "a", "b"],
        "item": ["x", "y", "z", "x"],
        "score": [0.3, 0.2, 0.1, 0.5],
        "price": [10.0, 20.0, 60.0, 5.0],
        "judged": [1, 1, 0, 1],
    }
)
QRELS = pl.DataFrame({"query": ["a", "a", "b", "c"], "item": ["y", "w", "x", "x"], "rel": [1] * 4})
# By hand: the prices of all items, and those of the first two.
EXPECTED = [("a", 30.0, 15.0, 0.5), ("b", 5.0, 5.0, 1.0), ("c", None, None, 0.0)]


@pytest.mark.parametrize("kind", ["frames", "csv", "ranked", "runs"])
def test_columns_of_the_run(kind, tmp_path):
    metrics = [{"price": "avg(price)", "price@2": "avg(price)"}, "RR"]
    run, qrels, expected = RUN, QRELS, EXPECTED
    if kind == "csv":
        run, qrels = tmp_path / "run.csv", tmp_path / "qrels.csv"
        RUN.write_csv(run)
        QRELS.write_csv(qrels)
    if kind == "ranked":
        run, qrels = RUN.join(QRELS, on=["query", "item"], how="left"), None
        run, expected = run.with_columns(pos=pl.Series([1, 2, 3, 1])), EXPECTED[:2]
    if kind == "runs":
        run, expected = {"one": RUN}, [("one", *row) for row in EXPECTED]
    result = rankql.evaluate(run, qrels, metrics)
    assert result.per_query.rows() == expected
    assert result.metrics == ["price", "price@2", "RR"]


@pytest.mark.parametrize("options", [{}, {"ties": "best"}, {"undefined": "drop"}])
def test_with_other_conventions(options):
    texts = ["known@2 = sum(judged)", "dear = max(price) FILTER (pos <= 2)", "nDCG@2"]
    values = rankql.evaluate(RUN, QRELS, texts, **options).per_query
    assert values["known@2", "dear"].rows()[:2] == [(2, 20), (1, 5)]


@pytest.mark.parametrize(
    ("run", "metrics", "options", "message"),
    [
        (RUN, {"x": "avg(prize)"}, {}, "^metrics='prize': no column of that name"),
        ({"a": RUN, "b": RUN.drop("price")}, {"x": "avg(price)"}, {}, "^metrics='price': no colum"),
        (RUN, {"x@2": "avg(price)"}, {"ties": "expected"}, "^x@2 needs positions, but ties"),
        (RUN, {"nDCG@2": "avg(price)"}, {}, "^'nDCG@2' is the name of a metric of rankql"),
        (RUN, {"x": "price"}, {}, r"^The metric 'x' = 'price' does not give one number .* GROUP"),
        (
            RUN,
            {"y": "avg(price)", "x@2": "list(price)"},
            {},
            " or 'x@2' = 'list.price.' does not give",
        ),
        (RUN, {"x": "nDGC(rel, pos)"}, {}, r"Function with name ndgc does not exist\). Write an"),
        (RUN, {"x": "unnest([1, 2])"}, {}, "unnest, a semicolon or parameters. Compute it in"),
        (RUN, {"x": "ndcg(rel, pos, 0)"}, {}, "^k must be a whole number from 1, not 0"),
        (RUN, {"x": "(SELECT 1)"}, {}, "must be one SQL expression of the columns of a row"),
        (RUN, {"x": "sum(avg(price)) OVER ()"}, {}, "without a subquery, a window function"),
        (RUN, {"x": "1; SELECT 1"}, {}, "is not valid SQL"),
    ],
)
def test_metrics_that_cannot_be_right(run, metrics, options, message):
    with private_connection() as con:  # has a macro whose name is like the wrong one
        create_macros(con, "dcg_by_score(rel, score, item)")
    with pytest.raises(RankqlError, match=message):
        rankql.evaluate(run, QRELS, metrics, **options)

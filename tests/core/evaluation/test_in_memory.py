"""Small tables are read in memory: numbers in text, and types of queries."""

import polars as pl
import pytest

import rankql
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.reduce import fetch
from support.parameters import few


@few(2)(
    ("scores", "order"),
    [
        (["2", "10", "3"], "bca"),  # numbers, not text
        (["1e1", "-2.5", "0.5"], "acb"),
        (["NA", "1", "2"], "cb"),
        (["9007199254740991", "1", "2"], "acb"),
    ],
)
def test_numbers_in_text_are_those_of_duckdb(scores, order, tmp_path):
    """In whatever form polars knows, or leaves to DuckDB."""
    rows = "".join(f"1,{item},{x}\n" for item, x in zip("abc", scores, strict=True))
    (tmp_path / "run.csv").write_text(f"query,item,score\n{rows}")
    run, qrels = str(tmp_path / "run.csv"), {"1": {order[0]: 1}}
    for place, item in enumerate(order, 1):
        result = rankql.evaluate(run, {"1": {item: 1}}, "RR", interval=None)
        assert result.summary["mean"].item() == 1 / place
    assert rankql.evaluate(run, qrels, "RR", interval=None).summary["mean"].item() == 1


@few(2)("score", ["1_000", "12345678901234567890", "nan", "x"])
def test_text_that_is_no_plain_number_is_refused_as_before(score, tmp_path):
    (tmp_path / "run.csv").write_text(f"query,item,score\n1,a,{score}\n1,b,2\n1,c,1\n")
    with pytest.raises(rankql.RankqlError, match="score"):
        rankql.evaluate(str(tmp_path / "run.csv"), {"1": {"a": 1}}, "RR")


@few(2)("kind", [pl.Int32, pl.String, pl.Int64, pl.UInt8, pl.UInt64])
def test_queries_keep_their_type(kind, monkeypatch):
    """Polars or DuckDB reduces them: values per query are joined with the tables of the user."""
    reduced, reduce_frames = [], fetch.reduce_frames
    note = lambda reduction: reduced.append(reduce_frames(reduction)) or reduced[-1]  # noqa: E731
    monkeypatch.setattr(fetch, "reduce_frames", note)
    rows = {"query": [1, 1, 2], "item": [1, 2, 3], "score": [3, 2, 1], "rel": [1, 0, 1]}
    table = pl.DataFrame(rows).cast({"query": kind})
    run, qrels = table.drop("rel"), table.drop("score")
    for most in (0, fetch.MOST_ROWS):
        monkeypatch.setattr(fetch, "MOST_ROWS", most)
        for tables in ((table, None), (run, qrels), ({"a": run, "b": run}, qrels)):
            values = rankql.evaluate(*tables, ["AP", "nDCG@2"], interval=None).per_query
            assert values.schema["query"] == kind and (reduced[-1] is None) == (most == 0)


@few(2)("metric", ["Success@1", "P@1", "nDCG@3", "RR@2", "AP@1"])
def test_few_judged_items_in_the_first_positions_are_no_reason_to_look(metric, monkeypatch):
    """Judged items further down are counted too, so no query compares ids in DuckDB."""
    asked, run_sql = [], Evaluation.run_sql
    monkeypatch.setattr(
        Evaluation, "run_sql", lambda self, sql: asked.append(sql) or run_sql(self, sql)
    )
    rows = [(q, f"d{i:02}", 50.0 - i) for q in range(40, 60) for i in range(50)]
    run = pl.DataFrame(rows, ["query", "item", "score"], orient="row")
    judged = [(q, f"d{i:02}", 1 + i % 2) for q in range(40, 60) for i in range(q % 7, 50, 2)]
    qrels = pl.DataFrame(judged, ["query", "item", "rel"], orient="row")
    below = qrels.filter((pl.col("item") >= "d05") | (pl.col("query") == 42))
    rankql.evaluate(run, below, metric, interval=None)
    assert asked == []

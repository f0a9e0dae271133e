"""The result of an evaluation: its SQL, exports and files."""

import json
import os

import polars as pl
import pytest

import rankql
from support import metric_engines
from support.random_runs import METRICS, QRELS, RUN, joined, same, with_segments


def test_mean_is_that_of_the_plain_macros():
    """The mean of evaluate is avg(ndcg(...)) over the groups."""
    con = metric_engines.connect()
    con.register("joined", joined())
    calls = "ndcg(rel, pos, 10), ap(rel, pos), rr(rel, pos), precision_at(rel, pos, 5)"
    plain = con.sql(f"""
        SELECT avg(COLUMNS(* EXCLUDE query)) FROM (
            SELECT query, {calls} FROM ranked('joined', query := 'query') GROUP BY query)
    """).fetchall()[0]
    metrics = ["nDCG@10", "AP", "RR", "P@5"]
    for result in (
        rankql.evaluate(RUN, QRELS, metrics),
        rankql.evaluate(joined(), metrics=metrics),
    ):
        assert [result[m] for m in metrics] == pytest.approx(plain, abs=1e-12)
    assert result.summary["undefined"].to_list()[0] > 0


def test_sql_that_ran_runs():
    """The SQL of a result, pasted into a connection with the macros, returns its values."""
    con = metric_engines.connect()
    con.register("rankql_run", RUN)
    con.register("rankql_qrels", QRELS)
    for options in (
        {},
        {"ties": "best"},
        {"unjudged": "remove"},
        {"ties": "expected", "gain": "exp2"},
        {"unjudged": "bounds"},
    ):
        metrics = [m for m in METRICS if "ERR" not in m]
        made = rankql.evaluate(RUN, QRELS, metrics, **options)
        again = con.sql(made.sql).pl().drop("__rankql_missing")
        same(again.select(made.per_query.columns), made.per_query)


def test_conventions_are_part_of_every_result():
    made = rankql.evaluate(RUN, QRELS, "AP@10", conventions="trec_eval")
    for shown in (repr(made), made._repr_html_(), made.to_markdown(), made.to_json()):
        assert "ap_denominator" in shown and "trec_eval" in shown and "float32" in shown


def test_ways_out(tmp_path):
    made = rankql.evaluate(RUN, QRELS, ["nDCG@10", "AP"], attributes=with_segments(), by="segment")
    assert made.table.equals(made.summary)
    assert made.to_pandas().shape == made.summary.shape
    assert made.to_arrow().num_rows == len(made.summary)
    plain = json.loads(made.to_json())
    assert plain["table"] == made.to_dict()["table"] == made.summary.to_dicts()
    assert plain["conventions"]["ties"] == "item"
    lines = made.to_markdown().split("\n")
    assert lines[0].startswith("| slice | metric | mean | lo | hi |")
    assert len([line for line in lines if line.startswith("| ")]) == len(made.summary) + 2
    assert repr(made).startswith("slice") and "nDCG@10" in repr(made)
    assert made._repr_html_().count("<tr>") == len(made.summary) + 1
    with pytest.raises(rankql.RankqlError, match="'P@5' was not evaluated"):
        made["P@5"]


def test_written_per_query_and_combined(tmp_path):
    days = RUN.with_columns(day=pl.col("query").hash() % 3)
    judged = QRELS.with_columns(day=pl.col("query").hash() % 3)
    metrics = [*METRICS, "microR@5"]
    options = {"by": "segment", "attributes": with_segments()}
    everything = rankql.evaluate(RUN, QRELS, metrics, **options)
    parts = []
    for day in range(3):
        run, qrels = (f.filter(pl.col("day") == day).drop("day") for f in (days, judged))
        path = tmp_path / f"day {day}'s.parquet"
        part = rankql.evaluate(run, qrels, metrics, output=path, **options)
        assert path.is_file() and part.per_query.height > 0
        parts.append(path if day else part)
    assert len(list(tmp_path.iterdir())) == 3
    combined = rankql.combine(parts)
    same(combined.per_query, everything.per_query)
    same(combined.summary, everything.summary)
    everything.save_values(tmp_path / "all.parquet")
    same(rankql.combine([tmp_path / "all.parquet"]).summary, everything.summary)
    with pytest.raises(rankql.RankqlError, match="queries that occur twice"):
        rankql.combine([everything, everything])
    bounded = rankql.evaluate(RUN, QRELS, "nDCG@5", unjudged="bounds", discounts=[1, 2, 3, 4, 5])
    bounded.save_values(tmp_path / "bounds.parquet")
    assert rankql.combine(str(tmp_path / "bounds.parquet")).conventions == bounded.conventions
    other = rankql.evaluate(RUN, QRELS, metrics, ties="best", **options)
    with pytest.raises(rankql.RankqlError, match="different conventions"):
        rankql.combine([everything, other])
    RUN.write_parquet(tmp_path / "foreign.parquet")
    with pytest.raises(rankql.RankqlError, match="was not written by rankql"):
        rankql.combine([tmp_path / "foreign.parquet"])


def test_an_error_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "out.parquet"
    rankql.evaluate(RUN, QRELS, "AP", output=path)
    before = path.read_bytes()
    with pytest.raises(rankql.RankqlError, match="undefined='error'"):
        rankql.evaluate(RUN, QRELS, "AP", output=path, undefined="error")
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["out.parquet"]

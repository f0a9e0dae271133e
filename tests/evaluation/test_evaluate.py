"""rankql.evaluate: every input the same numbers, slices, conventions, results, errors."""

import csv
import dataclasses
import datetime as dt
import gzip
import itertools
import json
import math
import os
import random
import re
import subprocess
import sys
import uuid

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
import pytrec_eval
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation import overlap
from rankql.evaluation.overlap import item_overlap
from rankql.evaluation.values import Request, read_result
from rankql.registry import parse as names
from rankql.registry.all_metrics import EVALUATED
from rankql.registry.conventions import CHOICES, PROFILES, choose
from rankql.sources import fetching, private
from rankql.stats.means import logistic_interval
from support import metric_engines, other_tools

METRICS = ["nDCG@10", "AP", "RR", "P@5", "R@10", "ERR(max_rel=3)@10", "RBP(p=0.8)"]


def data(seed=1, **kinds):
    """A run and judgments as frames."""
    run, qrels = other_tools.random_data(seed, **kinds)
    scored = [(q, d, s) for q, items in run.items() for d, s in items.items()]
    judged = [(q, d, r) for q, items in qrels.items() for d, r in items.items()]
    return (
        pl.DataFrame(scored, schema=["query", "item", "score"], orient="row"),
        pl.DataFrame(judged, schema=["query", "item", "rel"], orient="row"),
    )


RUN, QRELS = data()
EXPECTED = rankql.evaluate(RUN, QRELS, METRICS).per_query


def same(left, right):
    """Equal to 1e-12: threads may add up in any order."""
    assert_frame_equal(left, right, abs_tol=1e-12, rel_tol=0)


class Stream:
    """Anything with the Arrow C stream, to be read once."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        frame, self.frame = self.frame, None
        return frame.__arrow_c_stream__(requested_schema)


FRAMES = {
    "polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "arrow": lambda frame: frame.to_arrow(),
    "batch": lambda frame: frame.to_arrow().combine_chunks().to_batches()[0],
    "reader": lambda frame: pa.RecordBatchReader.from_stream(frame),
    "dataset": lambda frame: pyarrow.dataset.dataset(frame.to_arrow()),
    "stream": Stream,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames(kind):
    made = rankql.evaluate(FRAMES[kind](RUN), FRAMES[kind](QRELS), METRICS)
    same(made.per_query, EXPECTED)


def write_trec(frame, path, opened=open):
    with opened(path, "wt", encoding="utf-8") as file:
        for row in frame.iter_rows():
            line = (row[0], "0", row[1], row[2])
            if "score" in frame.columns:
                line = (row[0], "Q0", row[1], "1", repr(row[2]), "tag")
            file.write(("\t" if "tab" in path.name else " ").join(map(str, line)) + "\n")


def write_spaced(frame, path):
    write_trec(frame, path)
    path.write_text(
        "\n".join(f" {line.replace(' ', '   ')} " for line in path.read_text().split("\n"))
    )


FILES = {
    "x.parquet": lambda frame, path: frame.write_parquet(path),
    "x.csv": lambda frame, path: frame.write_csv(path),
    "x.tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "x.csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode())),
    "x.jsonl": lambda frame, path: frame.write_ndjson(path),
    "x.ndjson.gz": lambda f, path: path.write_bytes(gzip.compress(f.write_ndjson().encode())),
    "x.json": lambda frame, path: frame.write_json(path),
    "x.trec": write_trec,
    "x.tab": write_trec,
    "x.spaced": write_spaced,
    "x.trec.gz": lambda frame, path: write_trec(frame, path, gzip.open),
    'it\'s a "file".parquet': lambda frame, path: frame.write_parquet(path),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name, tmp_path):
    for folder, frame in {"run": RUN, "qrels": QRELS}.items():
        (tmp_path / folder).mkdir()
        FILES[name](frame, tmp_path / folder / name)
    made = rankql.evaluate(tmp_path / "run" / name, str(tmp_path / "qrels" / name), METRICS)
    same(made.per_query, EXPECTED)


def test_globs_and_folders(tmp_path):
    half = len(RUN) // 2
    RUN[:half].write_parquet(tmp_path / "run-1.parquet")
    RUN[half:].write_parquet(tmp_path / "run-2.parquet")
    same(rankql.evaluate(f"{tmp_path}/run-*.parquet", QRELS, METRICS).per_query, EXPECTED)
    same(rankql.evaluate(tmp_path, QRELS, METRICS).per_query, EXPECTED)
    write_trec(RUN[:half], tmp_path / "a.run")
    write_trec(RUN[half:], tmp_path / "b.run")
    same(rankql.evaluate(f"{tmp_path}/*.run", QRELS, METRICS).per_query, EXPECTED)


def test_tables_views_and_relations():
    con = duckdb.connect()
    con.register("frame", RUN)
    con.execute('CREATE SCHEMA "my schema"; CREATE TABLE "my schema"."run; DROP" AS FROM frame')
    con.register("judged", QRELS)
    con.execute("CREATE VIEW qrels AS SELECT * FROM judged")
    before = metric_engines.state(con)
    made = rankql.evaluate("my schema.run; DROP", "qrels", METRICS, con=con)
    same(made.per_query, EXPECTED)
    relation = con.sql("SELECT * FROM frame WHERE score IS NOT NULL")
    same(rankql.evaluate(relation, "qrels", METRICS, con=con).per_query, EXPECTED)
    same(rankql.evaluate(RUN, QRELS, METRICS, con=con).per_query, EXPECTED)
    assert metric_engines.state(con) == before
    with pytest.raises(
        rankql.RankqlError, match=r"relation of another connection. Pass that one as con="
    ):
        rankql.evaluate(relation, QRELS, METRICS)


def test_tables_that_are_called_as_parts_of_our_query():
    """A table `run` may hold the judgments; one in a schema behind the current one is found."""
    con = duckdb.connect()
    con.register("x", RUN)
    con.register("y", QRELS)
    con.execute("CREATE TABLE qrels AS FROM x; CREATE TABLE run AS FROM y")
    con.execute("CREATE SCHEMA other; CREATE TABLE other.top AS FROM x; CREATE TABLE top AS FROM y")
    same(rankql.evaluate("qrels", "run", METRICS, con=con).per_query, EXPECTED)
    same(rankql.evaluate("other.top", "top", METRICS, con=con).per_query, EXPECTED)
    con.execute("USE other")
    same(rankql.evaluate("top", "main.top", METRICS, con=con).per_query, EXPECTED)
    con.execute("CREATE TEMP TABLE top AS FROM y")
    same(rankql.evaluate("other.top", "top", METRICS, con=con).per_query, EXPECTED)


def test_default_connection():
    run = duckdb.from_arrow(RUN.to_arrow())
    same(rankql.evaluate(run, QRELS, METRICS).per_query, EXPECTED)


def test_read_only_database_and_own_macros(tmp_path):
    path = str(tmp_path / "x.duckdb")
    with duckdb.connect(path) as con:
        con.register("frame", RUN)
        con.execute("CREATE TABLE run AS FROM frame; CREATE MACRO ndcg(a, b, c) AS 'mine'")
    con = duckdb.connect(path, read_only=True)
    same(rankql.evaluate("run", QRELS, METRICS, con=con).per_query, EXPECTED)
    assert con.sql("SELECT ndcg(1, 2, 3)").fetchall() == [("mine",)]


def test_busy_transaction_sees_its_own_rows():
    con = duckdb.connect()
    con.register("frame", RUN)
    con.execute("BEGIN; CREATE TEMP TABLE run AS FROM frame")
    same(rankql.evaluate("run", QRELS, METRICS, con=con).per_query, EXPECTED)
    con.execute("ROLLBACK")


def test_without_pandas():
    script = """
import importlib.abc, sys
class NoPandas(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoPandas())
import polars as pl, rankql
run = pl.DataFrame({"query": ["a"], "item": ["x"], "score": [1.0]})
result = rankql.evaluate(run, run.with_columns(rel=1), ["RR", "P@1"], interval=None)
result.to_arrow(), result.to_json(), repr(result), result._repr_html_(), result.to_markdown()
print(result["RR"], result.per_query.shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1.0 (1, 3)\n"


IDS = {
    "int64": lambda values: values.rank("dense").cast(pl.Int64),
    "uint32": lambda values: values.rank("dense").cast(pl.UInt32),
    "category": lambda values: values.cast(pl.Categorical),
    "unicode": lambda values: "ü " + values + " 查询 🦆 'x' \"y\"",
}


@pytest.mark.parametrize("kind", IDS)
def test_types_of_ids(kind):
    both = pl.concat([RUN.select("query"), QRELS.select("query")])["query"].unique().sort()
    ids = dict(zip(both, IDS[kind](both), strict=True))
    dtype = pl.Series(list(ids.values())).dtype if kind != "category" else pl.String
    run, qrels = (
        frame.with_columns(pl.col("query").replace_strict(ids, return_dtype=dtype))
        for frame in (RUN, QRELS)
    )
    if kind == "category":
        run, qrels = (f.with_columns(pl.col("query").cast(pl.Categorical)) for f in (run, qrels))
    made = rankql.evaluate(run, qrels, METRICS).per_query
    same(made.drop("query"), EXPECTED.drop("query"))


def test_uuids_and_ids_of_two_types():
    ids = {q: str(uuid.UUID(int=i)) for i, q in enumerate(sorted({*RUN["query"], *QRELS["query"]}))}
    run, qrels = (f.with_columns(pl.col("query").replace_strict(ids)) for f in (RUN, QRELS))
    con = duckdb.connect()
    con.register("frame", run)
    con.execute("CREATE TABLE run AS SELECT * REPLACE (query::UUID AS query) FROM frame")
    made = rankql.evaluate("run", qrels, METRICS, con=con).per_query
    same(made.drop("query"), EXPECTED.drop("query"))
    numbers = {q: i for i, q in enumerate(ids)}
    run = RUN.with_columns(pl.col("query").replace_strict(numbers, return_dtype=pl.Int64))
    qrels = QRELS.with_columns(pl.col("query").replace_strict(numbers, return_dtype=pl.Int64))
    made = rankql.evaluate(run, qrels.with_columns(pl.col("query").cast(pl.String)), METRICS)
    assert made.per_query["query"].dtype == pl.String
    assert (
        made.per_query.sort(pl.col("query").cast(int)).drop("query").equals(EXPECTED.drop("query"))
    )


def test_intervals_are_refused():
    """polars has no type for them, and '1 day' equals '24:00:00' in DuckDB."""
    con = duckdb.connect()
    con.execute(
        """CREATE TABLE run AS
        SELECT to_days(q) AS query, q AS user, to_hours(q % 2) AS age, pos, pos % 2 AS rel
        FROM range(3) AS a (q), range(1, 3) AS b (pos)"""
    )
    for name, options in (("query", {}), ("age", {"query": "user", "by": "age"})):
        with pytest.raises(rankql.RankqlError, match=f"^run: {name} is an INTERVAL. Cast it to"):
            rankql.evaluate("run", metrics="RR", con=con, **options)


ODD = {"query": 'select "x"; --', "item": "it's", "score": "ORDER", "rel": "a b\n⚑"}


def test_odd_names():
    run, qrels = (
        RUN.rename({k: ODD[k] for k in RUN.columns}),
        QRELS.rename({k: ODD[k] for k in QRELS.columns}),
    )
    attribute = '"; DROP TABLE x; --'
    qrels = qrels.with_columns(pl.lit("<b>'1'</b>").alias(attribute))
    made = rankql.evaluate(run, qrels, METRICS, by=attribute, **ODD)
    same(made.per_query.drop(attribute).rename({ODD["query"]: "query"}), EXPECTED)
    assert f"{attribute}=<b>'1'</b>" in made.summary["slice"].to_list()
    assert "<b>" not in made._repr_html_()
    assert made.columns["run"] == {k: ODD[k] for k in RUN.columns}


def test_columns_that_shadow_ours():
    """A table may have columns named as those that the query makes itself."""
    more = {
        name: pl.lit("x")
        for name in ("system", "judged", "pos_", "missing", "retrieved", "least", "line")
    }
    run = RUN.with_columns(**more).rename({"score": "rel"}).with_columns(score=pl.lit("text"))
    qrels = QRELS.with_columns(**more).rename({"rel": "score"}).with_columns(rel=pl.lit(None))
    made = rankql.evaluate(run, qrels, METRICS, score="rel", rel="score")
    same(made.per_query, EXPECTED)


@pytest.mark.parametrize("left", ["user", "qid", "query_id", "USER_ID"])
@pytest.mark.parametrize("right", ["doc", "docid", "item_id", "DocNo"])
def test_recognised_columns(left, right):
    run = RUN.rename({"query": left, "item": right, "score": "sim"})
    made = rankql.evaluate(run, QRELS.rename({"rel": "grade"}), METRICS)
    same(made.per_query, EXPECTED)
    assert made.columns == {
        "run": {"query": left, "item": right, "score": "sim"},
        "qrels": {"query": "query", "item": "item", "rel": "grade"},
    }
    assert f"run: query = {left}, item = {right}" in repr(made)


def test_pair_of_names():
    run = RUN.rename({"query": "a", "item": "b"})
    qrels = QRELS.rename({"query": "b", "item": "a"})
    made = rankql.evaluate(run, qrels, METRICS, query=("a", "b"), item=["b", "a"])
    same(made.per_query.rename({"b": "query"}), EXPECTED)
    for name in ("a", "b"):
        about = with_segments().rename({"query": name})
        sliced = rankql.evaluate(
            run, qrels, "AP", query=("a", "b"), item=["b", "a"], by="segment", attributes=about
        )
        assert sliced.summary["slice"].n_unique() > 2


def test_positions_win_over_scores():
    ranked = RUN.with_columns(pos=pl.col("score").rank("ordinal").over("query"))
    made = rankql.evaluate(ranked, QRELS, "nDCG@5")
    assert made.columns["run"]["pos"] == "pos"
    assert made["nDCG@5"] != rankql.evaluate(RUN, QRELS, "nDCG@5")["nDCG@5"]
    same(rankql.evaluate(ranked, QRELS, METRICS, score="score").per_query, EXPECTED)


def joined():
    """One ranked table of the judged queries, as the plain macros take it."""
    both = RUN.join(QRELS, on=["query", "item"], how="full", coalesce=True)
    return both.filter(pl.col("query").is_in(QRELS["query"].unique().to_list()))


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


# Slices


def with_segments():
    """Attributes of the queries: segment, NULL for some, and device."""
    queries = QRELS.select("query").unique(maintain_order=True).with_row_index("i")
    return queries.select(
        "query",
        segment=pl.when(pl.col("i") % 5 > 0).then(pl.format("s{}", pl.col("i") % 3)),
        device=pl.when(pl.col("i") % 2 == 0).then(pl.lit("phone")).otherwise(pl.lit("desk")),
    )


def test_slices_are_means_of_their_queries():
    about = with_segments()
    made = rankql.evaluate(
        RUN,
        QRELS,
        METRICS,
        attributes=about,
        by=[["segment"], ["segment", "device"]],
        interval=None,
    )
    rows = EXPECTED.join(about, on="query")
    for keys in (["segment"], ["segment", "device"]):
        for values, part in rows.group_by(keys):
            label = ", ".join(
                f"{k}={'NULL' if v is None else v}" for k, v in zip(keys, values, strict=True)
            )
            found = made.summary.filter(pl.col("slice") == label)
            assert found["metric"].to_list() == METRICS
            assert found["queries"].unique().to_list() == [len(part)]
            for metric, mean, undefined in found.select("metric", "mean", "undefined").rows():
                assert undefined == part[metric].null_count()
                assert mean == pytest.approx(part[metric].mean(), abs=1e-12)
    assert made.summary.filter(pl.col("slice") == "all")["queries"][0] == len(EXPECTED)
    assert made.summary.columns[:3] == ["slice", "segment", "device"]
    assert made.per_query.columns == ["query", "segment", "device", *METRICS]


@pytest.mark.parametrize("home", ["run", "qrels", "attributes"])
def test_attributes_from_anywhere(home):
    about = with_segments().select("query", "segment")
    run, qrels, more = RUN, QRELS, {}
    if home == "attributes":
        more = {"attributes": about}
    elif home == "qrels":
        qrels = QRELS.join(about, on="query", how="left")
    else:
        run = RUN.join(about, on="query", how="left")
    made = rankql.evaluate(run, qrels, "nDCG@10", by="segment", **more).per_query
    wanted = EXPECTED.select("query", "nDCG@10").join(about, on="query")
    if home == "run":  # which says nothing of the queries that it lacks
        seen = RUN["query"].unique().to_list()
        wanted = wanted.with_columns(
            pl.when(pl.col("query").is_in(seen)).then("segment").alias("segment")
        )
    same(made.sort("query"), wanted.select("query", "segment", "nDCG@10").sort("query"))


def test_an_attribute_has_one_value_per_query():
    run = RUN.with_columns(slot=pl.int_range(pl.len()))
    with pytest.raises(
        rankql.RankqlError, match="by: slot must have one value per query, but run has"
    ):
        rankql.evaluate(run, QRELS, "AP", by="slot")


def test_micro_averages():
    """Those of the plain macros over all rankings at once, and by slice."""
    con = metric_engines.connect()
    con.register("joined", joined().join(with_segments(), on="query"))
    micro = ["microP@5", "microR@5", "microF1@5", "microP", "microF1(rel=2)"]
    made = rankql.evaluate(RUN, QRELS, micro, attributes=with_segments(), by="segment").summary
    calls = """micro_precision_at(rel, pos, 5, query := query), micro_recall_at(rel, pos, 5),
               micro_f1_at(rel, pos, 5, query := query), micro_precision_at(rel, pos),
               micro_f1_at(rel, pos, threshold := 2)"""
    rows = con.sql(f"""
        SELECT segment, {calls} FROM ranked('joined', query := 'query')
        GROUP BY GROUPING SETS ((), (segment)) ORDER BY grouping(segment) DESC, segment NULLS LAST
    """).fetchall()
    wanted = [value for row in rows for value in row[1:]]
    assert made["mean"].to_list() == pytest.approx(wanted, abs=1e-12)


def test_grades_above_1000():
    """Only exp2 computes 2^rel: RBP divides by max_rel, and ERR takes the power of a difference."""
    run = pl.DataFrame({"query": [1, 1], "item": ["a", "b"], "score": [2, 1]})
    qrels = pl.DataFrame({"query": [1, 1], "item": ["a", "b"], "rel": [2000, 1999]})
    made = rankql.evaluate(run, qrels, ["RBP(p=0.8, max_rel=5000)", "ERR", "ERR(max_rel=2001)"])
    values = [0.2 * (2000 + 0.8 * 1999) / 5000, 1, 1 / 2 + 1 / 2 * 1 / 4 / 2]
    assert [made[name] for name in made.per_query.columns[1:]] == pytest.approx(values, abs=1e-12)
    with pytest.raises(rankql.RankqlError, match="max_rel=100 is below the highest grade, 2000"):
        rankql.evaluate(run, qrels, "RBP(p=0.8, max_rel=100)")
    with pytest.raises(rankql.RankqlError, match="2\\^rel overflows for grade 2000"):
        rankql.evaluate(run, qrels, "nDCG(gain=exp2)")


def test_err_of_stop_probabilities():
    run = pl.DataFrame({"query": [1] * 3, "item": [*"abc"], "score": [3, 2, 1]})
    qrels = pl.DataFrame({"query": [1] * 3, "item": [*"abc"], "rel": [0, 1, 1]})
    assert rankql.evaluate(run, qrels, "ERR(stop=rel)")["ERR(stop=rel)"] == 0.5
    made = rankql.evaluate(run, qrels, ["ERR(stop=rel)@1", "ERR"], max_rel=4)
    assert made["ERR(stop=rel)@1"] == 0
    with pytest.raises(rankql.RankqlError, match="max_rel is for stop 'exp2', not for 'rel'"):
        rankql.evaluate(run, qrels, "ERR(stop=rel, max_rel=4)")
    with pytest.raises(rankql.RankqlError, match="rel must lie between 0 and 1 for stop 'rel'"):
        rankql.evaluate(run, qrels.with_columns(rel=pl.col("rel") * 2), "ERR(stop=rel)")


@pytest.mark.parametrize("denominator", ["retrieved", "min"])
def test_micro_precision_by_denominator(denominator):
    """As an option of the metric and of the evaluation it is what the macro gives."""
    con = metric_engines.connect()
    con.register("joined", joined())
    calls = [
        f"micro_precision_at(rel, pos, {k}, query := query, denominator := '{denominator}')"
        for k in (4, 50, "NULL")
    ]
    query = f"SELECT {', '.join(calls)} FROM ranked('joined', query := 'query')"
    (wanted,) = con.execute(query).fetchall()
    names = [f"microP(denominator={denominator}){cutoff}" for cutoff in ("@4", "@50", "")]
    made = rankql.evaluate(RUN, QRELS, names)
    assert [made[name] for name in names] == pytest.approx(wanted, abs=1e-12)
    plain = ["microP@4", "microP@50", "microP"]
    made = rankql.evaluate(RUN, QRELS, plain, precision_denominator=denominator)
    assert [made[name] for name in plain] == pytest.approx(wanted, abs=1e-12)
    distinct = RUN.with_columns(score=pl.col("score").rank("ordinal"))
    options = {"precision_denominator": denominator}
    made = rankql.evaluate(distinct, QRELS, plain, **options)
    tied = rankql.evaluate(distinct, QRELS, plain, ties="expected", **options)
    assert [tied[m] for m in plain] == pytest.approx([made[m] for m in plain], abs=1e-12)


# Systems


def test_many_systems():
    other = RUN.with_columns(score=-pl.col("score"))
    made = rankql.evaluate({"b'ad": other, "good": RUN}, QRELS, METRICS)
    assert made.per_query.columns == ["system", "query", *METRICS]
    same(made.per_query.filter(pl.col("system") == "good").drop("system"), EXPECTED)
    alone = rankql.evaluate(other, QRELS, METRICS).per_query
    same(made.per_query.filter(pl.col("system") == "b'ad").drop("system"), alone)
    table = pl.concat(
        [other.with_columns(model=pl.lit("b'ad")), RUN.with_columns(model=pl.lit("good"))]
    )
    column = rankql.evaluate(table, QRELS, METRICS, system="model")
    same(column.per_query, made.per_query)
    same(column.summary, made.summary)
    with pytest.raises(rankql.RankqlError, match="several systems"):
        made["AP"]


def test_missing_queries_by_system():
    some = RUN.filter(pl.col("query").is_in(QRELS["query"].unique().sort()[:5].to_list()))
    made = rankql.evaluate({"some": some, "all": RUN}, QRELS, "P@5", interval=None).summary
    counts = dict(made.select("system", "missing").iter_rows())
    judged = set(QRELS["query"])
    assert counts["some"] == len(judged - set(some["query"]))
    assert counts["all"] == len(judged - set(RUN["query"])) > 0


# Conventions


def test_undefined_and_missing():
    first = rankql.evaluate(RUN, QRELS, ["AP", "P@5"], interval=None)
    rows = first.summary.row(0, named=True)
    values = EXPECTED["AP"]
    assert rows["undefined"] == values.null_count() > 0
    missing = set(QRELS["query"]) - set(RUN["query"])
    assert rows["missing"] == len(missing)
    zero = rankql.evaluate(RUN, QRELS, ["AP", "P@5"], undefined=0)
    assert zero["AP"] == pytest.approx(values.fill_null(0).mean())
    kept = EXPECTED.filter(~pl.col("query").is_in(list(missing)))["AP"].mean()
    assert rankql.evaluate(RUN, QRELS, "AP", missing="skip")["AP"] == pytest.approx(kept)
    for option in ("undefined", "missing"):
        with pytest.raises(rankql.RankqlError, match=rf"{option}='error'"):
            rankql.evaluate(RUN, QRELS, "AP", **{option: "error"})


def test_ties_lie_between_worst_and_best():
    means = {
        ties: rankql.evaluate(RUN, QRELS, ["nDCG@5", "RR", "P@3"], ties=ties)
        for ties in ("worst", "item", "expected", "best")
    }
    for metric in ("nDCG@5", "RR", "P@3"):
        worst, item, expected, best = (means[ties][metric] for ties in means)
        assert worst < expected < best
        assert worst <= item <= best


def test_best_and_worst_of_unjudged_and_grade_0():
    """Judged items of grade 0 and unjudged ones differ where a threshold of 0 makes them."""
    run = pl.DataFrame({"query": ["q"] * 2, "item": ["a", "z"], "score": [1, 1]})
    qrels = pl.DataFrame({"query": ["q"], "item": ["a"], "rel": [0]})
    for ties, value in (("best", 1.0), ("worst", 0.5)):
        made = rankql.evaluate(run, qrels, ["RR(rel=0)", "Judged@1"], ties=ties)
        assert made["RR(rel=0)"] == value and made["Judged@1"] == float(ties == "best")


def test_bounds_with_a_gain():
    """By hand: x of grade 2 stands second, below an unjudged item that could be worth 0, 1 or 2."""
    ranked = pl.DataFrame({"query": ["q"] * 2, "rel": [None, 2], "pos": [1, 2]})
    second = 1 / math.log2(3)
    for gain, low, high in (("linear", second, 1), ("exp2", second, 1), ("binary", second, 1)):
        made = rankql.evaluate(ranked, metrics="nDCG", gain=gain, unjudged="bounds", threshold=2)
        assert made["nDCG low"] == pytest.approx(low) and made["nDCG high"] == pytest.approx(high)
    alone = pl.DataFrame({"query": ["q"] * 2, "rel": [None, 1], "pos": [1, 2]})
    made = rankql.evaluate(alone, metrics="nDCG", gain="binary", unjudged="bounds", levels=[0, 2])
    assert made["nDCG low"] == pytest.approx(second) and made["nDCG high"] == pytest.approx(1)
    made = rankql.evaluate(
        ranked, metrics="DCG", gain="binary", unjudged="bounds", levels=[0, 1], threshold=2
    )
    assert made["DCG low"] == made["DCG high"] == pytest.approx(second)
    made = rankql.evaluate(
        ranked, metrics="DCG", gain="binary", unjudged="bounds", levels=[2], threshold=2
    )
    assert (made["DCG low"], made["DCG high"]) == pytest.approx((second, 1 + second))


def test_levels_belong_to_the_scale():
    """By hand: grade 2 stands second, below an unjudged item whose grade could be up to 5."""
    ranked = pl.DataFrame({"query": ["q"] * 2, "rel": [None, 2], "pos": [1, 2]})
    bounds = {"unjudged": "bounds", "levels": [0, 5], "interval": None}
    made = rankql.evaluate(ranked, metrics="ERR", **bounds)
    second = 3 / 32 / 2
    assert made.meta.conventions["max_rel"] == 5
    assert (made["ERR low"], made["ERR high"]) == pytest.approx((second, 31 / 32 + second / 32))
    refused = {
        "ERR(max_rel=3)": "max_rel=3 is below the highest grade, 5",
        "RBP(p=0.8, max_rel=3)": "max_rel=3 is below the highest grade, 5",
        "ERR(stop=rel)": "rel must lie between 0 and 1 for stop 'rel', not 5",
        "nDCG(gain=exp2)": "overflows for grade 1001",
    }
    ranked = ranked.with_columns(pl.col("rel") / 2)
    for metric, message in refused.items():
        bounds["levels"] = [0, 1001 if "exp2" in metric else 5]
        with pytest.raises(rankql.RankqlError, match=message):
            rankql.evaluate(ranked, metrics=metric, **bounds)


def test_gain_by_dict_and_by_name():
    exp2 = rankql.evaluate(RUN, QRELS, "nDCG@10", gain="exp2")
    same = rankql.evaluate(RUN, QRELS, "nDCG@10", gain={0: 0, 1: 1, 2: 3, 3: 7})
    inside = rankql.evaluate(
        RUN, QRELS, ["nDCG(gain=exp2)@10", "x = ndcg(exp2_gain(rel), pos, 10)"]
    )
    for value in (same["nDCG@10"], inside["nDCG(gain=exp2)@10"], inside["x"]):
        assert value == pytest.approx(exp2["nDCG@10"], abs=1e-12)
    with pytest.raises(rankql.RankqlError, match="gain has no entry for grade"):
        rankql.evaluate(RUN, QRELS, "nDCG@10", gain={0: 0, 1: 1})


def test_discounts_of_a_boosted_slot():
    ranked = pl.DataFrame({"query": ["q"] * 3, "rel": [1, 0, 3], "pos": [1, 2, 3]})
    made = rankql.evaluate(ranked, metrics=["DCG@3"], discounts=[0.8, 1.5, 2])
    assert made["DCG@3"] == pytest.approx(1 / 0.8 + 3 / 2)


def test_removed_unjudged_items_close_up():
    ranked = pl.DataFrame({"query": ["q"] * 3, "rel": [None, 0, 3], "pos": [1, 2, 3]})
    assert rankql.evaluate(ranked, metrics="RR")["RR"] == pytest.approx(1 / 3)
    assert rankql.evaluate(ranked, metrics="RR", unjudged="remove")["RR"] == pytest.approx(1 / 2)


def test_bounds_hold_whatever_the_judgments():
    """However the unjudged items of the run are judged, the value lies between low and high."""
    metrics = [
        "nDCG@5",
        "AP",
        "RR@5",
        "P@3",
        "R@5",
        "ERR@5",
        "RBP(p=0.8)",
        "F1@5",
    ]
    run = RUN.group_by("query", maintain_order=True).head(5)
    made = rankql.evaluate(run, QRELS, metrics, unjudged="bounds")
    assert list(made)[:3] == ["nDCG@5", "nDCG@5 low", "nDCG@5 high"]
    open_ = run.join(QRELS, on=["query", "item"], how="anti").select("query", "item")
    open_ = open_.filter(pl.col("query").is_in(QRELS["query"].unique().to_list()))
    reached = set()
    for grades in (0, 3, *range(10, 22)):
        rel = pl.lit(grades) if grades < 10 else (pl.struct("query", "item").hash(grades) % 4)
        judged = pl.concat([QRELS, open_.with_columns(rel.cast(pl.Int64).alias("rel"))])
        fixed = ["ERR(max_rel=3)@5" if m == "ERR@5" else m for m in metrics]
        values = rankql.evaluate(run, judged, fixed).per_query
        for name, column in zip(metrics, fixed, strict=True):
            pair = made.per_query.join(values, on="query", suffix=" now")
            now = pair[f"{column} now" if f"{column} now" in pair.columns else column]
            low, high = pair[f"{name} low"], pair[f"{name} high"]
            assert ((now < low - 1e-12) | (now > high + 1e-12)).sum() == 0, name
            reached |= {
                (name, side)
                for side, end in (("low", low), ("high", high))
                if ((now - end).abs() < 1e-12).any()
            }
    assert len(reached) == 2 * len(metrics)
    for metric in ("TauB", "Judged@5", "Bpref", "Rprec", "x = sum(rel)", "microR@5"):
        with pytest.raises(rankql.RankqlError, match="unjudged='bounds' is not available for"):
            rankql.evaluate(RUN, QRELS, metric, unjudged="bounds")


def test_bounds_look_below_the_cutoff():
    """An unjudged item beyond k would still be one more relevant item."""
    run = pl.DataFrame({"query": ["q"] * 3, "item": ["e", "f", "g"], "score": [3, 2, 1]})
    qrels = pl.DataFrame({"query": ["q"], "item": ["e"], "rel": [3]})
    made = rankql.evaluate(run, qrels, ["R@1", "F1@1"], unjudged="bounds")
    assert made["R@1 low"] == pytest.approx(1 / 3) and made["F1@1 low"] == 0.5


def test_settings_of_the_user_change_nothing():
    metrics = ["RR", "ARHR", "ERR@5", "AP", "nDCG@3", "Bpref"]
    for options in (
        {},
        {"ties": "order"},
        {"ties": "worst"},
        {"ties": "best"},
        {"unjudged": "remove"},
    ):
        plain = rankql.evaluate(RUN, QRELS, metrics, **options).per_query
        con = duckdb.connect()
        con.execute("SET integer_division = true; SET default_order = 'desc'")
        con.execute("SET default_null_order = 'nulls_first'; SET default_collation = 'nocase'")
        same(rankql.evaluate(RUN, QRELS, metrics, con=con, **options).per_query, plain)


def test_ids_systems_and_slices_that_a_collation_makes_equal():
    """Under NOCASE, 'a' = 'A'; for evaluate they are two, in every column and every shape."""
    letters = pl.Enum(["a", "A", "b"])
    run = pl.DataFrame({
        "query": ["q", "q", "q", "Q", "Q"], "item": ["a", "A", "b", "A", "b"],
        "score": [5.0, 4, 3, 2, 1], "kind": ["x", "x", "x", "X", "X"],
        "system": ["m", "m", "m", "m", "m"],
    })  # fmt: skip
    qrels = pl.DataFrame({"query": ["q", "q", "Q"], "item": ["A", "b", "b"], "rel": [1, 2, 1]})
    both = pl.concat([run, run.with_columns(pl.col("score") * -1, system=pl.lit("M"))])
    ranked = run.join(qrels, on=["query", "item"], how="left")
    con = duckdb.connect(config={"default_collation": "nocase"})
    metrics = ["nDCG@2", "AP", "R@1", "RR"]
    for source, judgments, options in [
        (run, qrels, {}),
        (run, qrels, {"by": "kind"}),
        (run, qrels, {"item": "item || ''", "ties": "best"}),
        (run, qrels, {"query": ["query", "kind"]}),
        (run.with_columns(pl.col("item").cast(letters)), qrels, {}),
        (ranked, None, {}),
        (both, qrels, {"system": "system"}),
        ({"m": run, "M": run}, qrels, {}),
    ]:
        if isinstance(options.get("query"), list):
            judgments = judgments.with_columns(kind=pl.lit("x"))
            source = source.with_columns(kind=pl.lit("x"))
        plain = rankql.evaluate(source, judgments, metrics, **options)
        made = rankql.evaluate(source, judgments, metrics, con=con, **options)
        same(made.per_query, plain.per_query)
        assert made.notes == plain.notes
        assert made.summary.equals(plain.summary)
    assert rankql.check(run, qrels, con=con).table.equals(rankql.check(run, qrels).table)


def test_queries_without_grades_are_left_out_of_ranked_tables_too():
    run = pl.DataFrame({
        "query": ["a", "a", "b", "b", "c"], "item": ["x", "y", "x", "y", "x"],
        "score": [3.0, 2, 2, 1, 1],
    })  # fmt: skip
    qrels = pl.DataFrame({"query": ["a", "c", "c"], "item": ["y", "x", "y"], "rel": [1, -1, 2]})
    ranked = run.join(qrels, on=["query", "item"], how="full", coalesce=True)
    metrics = ["P@2", "AP", "Judged@2", "RBP(p=.5)", "nDCG@5", "RR"]
    for options in ({}, {"unjudged": "remove"}, {"conventions": "trec_eval"}, {"ties": "expected"}):
        two = rankql.evaluate(run, qrels, metrics, **options)
        one = rankql.evaluate(ranked, metrics=metrics, **options)
        same(one.per_query, two.per_query)
        assert one.per_query["query"].to_list() == ["a", "c"]
        assert one.notes[0] == two.notes[0]
        assert "1 of 3 queries" in one.notes[0]
    with pytest.raises(rankql.RankqlError, match="every grade is NULL"):
        rankql.evaluate(ranked.filter(query="b"), metrics=metrics)


def test_a_system_without_judged_items_counts_in_judged_queries():
    ranked = pl.DataFrame({
        "system": ["m", "m", "n", "n"], "query": ["a", "b", "a", "b"], "item": ["x", "x", "y", "y"],
        "rel": [1, None, None, None], "pos": [1, 1, 1, 1],
    })  # fmt: skip
    for options in ({}, {"unjudged": "remove"}):
        made = rankql.evaluate(ranked, metrics=["P@1"], system="system", **options).per_query
        assert made.rows() == [("m", "a", 1.0), ("n", "a", 0.0)]


@pytest.mark.parametrize("alone", [True, False])
def test_unjudged_items_are_removed_but_gaps_stay(alone):
    """Only positions below a removed item move up, by the number of items removed above."""
    rows = pl.DataFrame({
        "query": ["a"] * 5, "item": [*"uvwxy"], "rel": [None, 0, None, 1, 2],
        "pos": [2, 4, 5, 7, 9],
    })  # fmt: skip
    run = rows if alone else rows.drop("rel")
    qrels = None if alone else rows.drop("pos").drop_nulls()
    made = rankql.evaluate(run, qrels, ["RR", "RR(rel=2)", "Judged@3"], unjudged="remove")
    assert made.per_query.row(0)[1:] == (1 / 5, 1 / 7, 1 / 3)


def test_a_query_with_negative_judgments_alone_counts_0_as_in_trec_eval():
    run = {"a": {"x": 2.0, "y": 1.0}, "b": {"x": 2.0, "y": 1.0}}
    qrels = {"a": {"x": 1, "y": -1}, "b": {"x": -1, "y": -2}}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map", "P_5", "ndcg"}).evaluate(run)
    made = rankql.evaluate(run, qrels, ["map", "P_5", "ndcg"], conventions="trec_eval")
    assert made.per_query.fill_null(0).rows() == [(q, *theirs[q].values()) for q in run]
    assert made.summary["queries"].to_list() == [2] * 3
    assert not made.notes


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["Judged@1", "Judged@2", "RBPres(p=.5)"])
def test_best_and_worst_orders_of_negative_grades_are_extreme(metric):
    items = {"x": -1, "y": None, "z": 0, "w": 1, "v": None}
    qrels = {"a": {item: rel for item, rel in items.items() if rel is not None}}
    values = [
        rankql.evaluate({"a": {x: -i for i, x in enumerate(order)}}, qrels, metric).summary["mean"][
            0
        ]
        for order in itertools.permutations(items)
    ]
    tied = {"a": dict.fromkeys(items, 1)}
    best, worst = (
        rankql.evaluate(tied, qrels, metric, ties=ties).summary["mean"][0]
        for ties in ("best", "worst")
    )
    assert sorted([best, worst]) == pytest.approx([min(values), max(values)])
    with pytest.raises(rankql.RankqlError, match="below 0"):
        rankql.evaluate(tied, qrels, [metric, "nDCG"], ties="best")
    assert rankql.evaluate(tied, qrels, [metric, "nDCG"], ties="best", negative="unjudged")


@pytest.mark.parametrize("kind", ["BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(38,3)", "text"])
def test_scores_that_doubles_round_are_not_tied(kind, tmp_path):
    """Beyond 2^53, in evaluate, convert and `ranked` alike, whatever has the scores."""
    con = duckdb.connect()
    cast = "VARCHAR" if kind == "text" else kind
    con.execute(
        "CREATE TABLE run AS SELECT 'q' AS query, 'd' || (i * 5 % 7) AS item, "
        f"CAST(9007199254740992::HUGEINT + i AS {cast}) AS score FROM range(7) AS rows(i)"
    )
    con.execute("CREATE TABLE ranked AS SELECT * EXCLUDE (score), 8 - row_number() OVER "
                "(ORDER BY score) AS pos FROM run")  # fmt: skip
    run, qrels = "run", {"q": {"d1": 1, "d4": 2}}
    if kind == "text":
        run = tmp_path / "run.csv"
        con.execute(f"COPY run TO '{run}'")
    metrics = ["RR", "nDCG@3", "AP", "P@2"]
    expected = rankql.evaluate("ranked", qrels, metrics, con=con).per_query
    for ties in ("item", "expected", "best", "worst", "order"):
        same(rankql.evaluate(run, qrels, metrics, con=con, ties=ties).per_query, expected)
    both = {"a": run, "b": con.sql("SELECT query, item, 0 AS score FROM run")}
    if kind in ("BIGINT", "HUGEINT"):
        made = rankql.evaluate(both, qrels, metrics, con=con).per_query
        same(made.filter(system="a").drop("system"), expected)
    else:
        with pytest.raises(rankql.RankqlError, match="integers, or decimals"):
            rankql.evaluate({**both, "b": {"q": {"d1": 0.5}}}, qrels, metrics, con=con)
    for name in ("out.run", "out.csv", "out.parquet"):
        if kind.startswith("DECIMAL") and name != "out.parquet":
            continue  # text with a point is read as DOUBLE
        rankql.convert(run, tmp_path / name, con=con)
        same(rankql.evaluate(tmp_path / name, qrels, metrics).per_query, expected)


def test_what_looks_like_a_call_is_left_alone(tmp_path):
    """Names of systems, files and tables, and texts in one's own SQL."""
    made = rankql.evaluate(
        {"ap(1)": RUN, 'ndcg("': RUN}, QRELS, ["AP", "x = max('rr(1)' = 'rr(1)')::INT"]
    )
    assert made.per_query["system"].unique().sort().to_list() == ["ap(1)", 'ndcg("']
    assert made.per_query["x"].unique().to_list() == [1.0]
    RUN.write_parquet(tmp_path / "rr(1).parquet")
    RUN.write_parquet(tmp_path / "run[1].parquet")
    for name in ("rr(1).parquet", "run[1].parquet"):
        same(rankql.evaluate(tmp_path / name, QRELS, METRICS).per_query, EXPECTED)


def test_what_the_user_registered_stays():
    con = duckdb.connect()
    con.register("rankql_run", QRELS)
    con.execute("CREATE TEMP TABLE rankql_qrels AS SELECT 1 AS x")
    same(rankql.evaluate(RUN, QRELS, METRICS, con=con).per_query, EXPECTED)
    assert con.sql("FROM rankql_run").pl().equals(QRELS)
    assert con.sql("FROM rankql_qrels").fetchall() == [(1,)]


@pytest.mark.parametrize("options", [{"ties": "best"}, {"unjudged": "remove"}])
@pytest.mark.parametrize("home", ["run", "qrels"])
def test_attributes_where_all_items_are_joined(home, options):
    frames = {"run": RUN, "qrels": QRELS}
    frames[home] = frames[home].with_columns(segment=pl.lit("s"))
    made = rankql.evaluate(*frames.values(), METRICS, by="segment", **options)
    plain = rankql.evaluate(RUN, QRELS, METRICS, **options)
    assert_frame_equal(made.per_query.drop("segment"), plain.per_query)


def test_attributes_of_the_table_disagree():
    about = pl.DataFrame({"query": ["q1", "q1"], "g": ["a", "b"]})
    with pytest.raises(
        rankql.RankqlError, match="g must have one value per query, but attributes has"
    ):
        rankql.evaluate(RUN, QRELS, "AP", by="g", attributes=about)


def test_an_attribute_of_one_run_is_that_of_the_query():
    """A query that one system lacks belongs to the slice that the other says."""
    one = RUN.with_columns(seg=pl.col("query").str.slice(0, 2))
    two = one.filter(pl.col("query") != one["query"][0])
    made = rankql.evaluate({"one": one, "two": two}, QRELS, "AP", by="seg").per_query
    row = made.filter(system="two", query=one["query"][0])
    assert row["seg"].to_list() == [one["seg"][0]]


def test_dropped_queries_weigh_nothing():
    run = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "score": [2, 1, 1]})
    qrels = pl.DataFrame({"query": ["a", "b"], "item": ["y", "z"], "rel": [1, 0]})
    assert rankql.evaluate(run, qrels, "microP@2", undefined="drop")["microP@2"] == 1 / 2
    assert rankql.evaluate(run, qrels, "microP@2")["microP@2"] == 1 / 4


@pytest.mark.parametrize(
    "text", ["q1 Q0 d1 1 2.0 t\nq1 Q0 d2\n", "q1 Q0 d1 1 2.0 t\nq1 Q0 d 2 1 2.0 t\n"]
)
def test_broken_lines_of_trec_files(tmp_path, text):
    (tmp_path / "x.run").write_text(text)
    with pytest.raises(rankql.RankqlError, match="has a line without 6 columns: 'q1 Q0 d"):
        rankql.evaluate(tmp_path / "x.run", QRELS, "AP")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query,item,score\nq1,a,2\nq1,b,1\nq2,a,1,9\n", "line 4 has 4 instead of 3 values"),
        ("query;item;score\nq1;a;2\nq1;b\n", r"line 3 has 2 instead of 3 values \(query, item, sc"),
        ("query,item,score\n" + "q,a,1\n" * 30_000 + "q,a,1,9\n", "line 30,002 has 4 instead of 3"),
        ("q1,a,2\nq1,b,3\nq2,a,1\n", "No query column in run"),
        ("query\na,\nb,\n", "No item column in run"),
        ('doc\n{"a": 1, "b": 2}\n', "No query column in run"),
    ],
)
def test_uneven_lines_of_csv_files(tmp_path, text, message):
    """DuckDB guesses that the first line is no header, or names the line without the reason."""
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.evaluate(tmp_path / "x.csv", QRELS, "AP")


@pytest.mark.parametrize(
    "text",
    [
        "# run of May, 2024\n,query,item,rel,pos\n0,q1,a,1,1\n1,q1,c,0,2\n",
        "My export\n,query,item,rel,pos\n0,q1,a,1,1\n1,q1,c,0,2\n",
        ',query,item,rel,pos\n0,q1,"a, b",1,1\n1,q1,"c",0,2\n',
        ";query;item,a,b,c,d;rel;pos\n0;q1;a;1;1\n1;q1;c;0;2\n",
    ],
)
def test_what_duckdb_reads_is_not_uneven(tmp_path, text):
    """Such as files of pandas with their index, which has no name."""
    (tmp_path / "x.csv").write_text(text)
    item = "item,a,b,c,d" if ";" in text else None
    assert rankql.evaluate(tmp_path / "x.csv", metrics="P@2", item=item)["P@2"] == 0.5


def test_folders_globs_and_empty_files(tmp_path):
    RUN.write_csv(tmp_path / "x.csv")
    with pytest.raises(rankql.RankqlError, match=r"has no Parquet files. Name its files, such as "):
        rankql.evaluate(tmp_path, QRELS, "AP")
    RUN.write_parquet(tmp_path / "a.parquet")
    RUN.rename({"query": "qid"}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(rankql.RankqlError, match=r"\. Read files with the same columns$"):
        rankql.evaluate(tmp_path / "*.parquet", QRELS, "AP")
    RUN.rename({"query": "qid"}).write_csv(tmp_path / "y.csv")
    with pytest.raises(rankql.RankqlError, match="the files of the glob have different columns"):
        rankql.evaluate(tmp_path / "*.csv", QRELS, "AP")
    (tmp_path / "x.json").write_text("[ ]\n")
    with pytest.raises(rankql.RankqlError, match=r"x\.json' is empty"):
        rankql.evaluate(tmp_path / "x.json", QRELS, "AP")


def test_conventions_are_part_of_every_result():
    made = rankql.evaluate(RUN, QRELS, "AP@10", conventions="trec_eval")
    for shown in (repr(made), made._repr_html_(), made.to_markdown(), made.to_json()):
        assert "ap_denominator" in shown and "trec_eval" in shown and "float32" in shown


def test_every_choice_is_understood():
    for option, choices in CHOICES.items():
        for choice in choices:
            assert getattr(choose(None, {option: choice}), option) == choice
    for field in dataclasses.fields(rankql.Conventions)[1:]:
        assert re.search(rf"^    - .*\b{field.name}\b.*:", rankql.Conventions.__doc__, re.M), field
    for choice in {choice for choices in CHOICES.values() for choice in choices}:
        assert f"'{choice}'" in rankql.Conventions.__doc__
    assert set(PROFILES) == {
        *("rankql", "trec_eval", "trec_eval_10", "sklearn", "ranx", "recbole", "spark"),
        *("mlflow", "opensearch", "elasticsearch"),
    }


# Names


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("ndcg@10", ["nDCG@10"]),
        ("nDCG@5,10,20", ["nDCG@5", "nDCG@10", "nDCG@20"]),
        (" P ( rel = 2 ) @ 5 ", ["P(rel=2)@5"]),
        ("P(threshold=2,cutoff=5)", ["P(rel=2)@5"]),
        ("MAP", ["AP"]),
        ("map", ["AP"]),
        ("map_cut_10", ["AP(denominator=R)@10"]),
        ("AP(denominator=r)@10", ["AP(denominator=R)@10"]),
        ("MRR@10", ["RR@10"]),
        ("recip_rank", ["RR"]),
        ("HR@10", ["Success@10"]),
        ("Hit@1", ["Success@1"]),
        ("success_5", ["Success@5"]),
        ("P_10", ["P@10"]),
        ("recall_100", ["R@100"]),
        ("Rprec", ["Rprec"]),
        ("bpref", ["Bpref"]),
        ("ndcg_cut_10", ["nDCG@10"]),
        ("set_P", ["P"]),
        ("nDCG(dcg='exp-log2')@10", ["nDCG(gain=exp2)@10"]),
        ("nDCG(gain=linear)@10", ["nDCG@10"]),
        ("ERR(max_rel=4, p=0.9)@20", ["ERR(max_rel=4, p=0.9)@20"]),
        ("TauDistance(normalized=true)", ["TauDistance(normalized=true)"]),
        ("mine = sum(rel) / 2", ["mine"]),
    ],
)
def test_names(given, canonical):
    under = [metric.under(vars(choose(None, {}))).name for metric in names.parse(given)]
    assert under == canonical
    if canonical != ["mine"]:  # which is a label, not a name
        assert [metric.name for name in under for metric in names.parse(name)] == under


def test_names_of_trec_eval_keep_their_meaning():
    """map_cut_10 divides by R whatever the conventions; under those of trec_eval it is AP@10."""
    ours = rankql.evaluate(RUN, QRELS, ["map_cut_3", "AP@3"])
    theirs = rankql.evaluate(
        RUN, QRELS, ["map_cut_3", "AP(denominator=min)@3"], conventions="trec_eval"
    )
    assert list(ours) == ["AP(denominator=R)@3", "AP@3"]
    assert list(theirs) == ["AP@3", "AP(denominator=min)@3"]
    # Without a cutoff, min and R are the same; found is not.
    every = ["AP", "AP(denominator=min)", "AP(denominator=R)", "AP(denominator=found)"]
    assert list(rankql.evaluate(RUN, QRELS, every)) == ["AP", "AP(denominator=found)"]
    assert ours["map_cut_3"] != ours["AP@3"]
    gained = rankql.evaluate(RUN, QRELS, ["ndcg_cut_5", "nDCG@5"], gain="exp2")
    assert list(gained) == ["nDCG(gain=linear)@5", "nDCG@5"]
    assert gained["ndcg_cut_5"] == rankql.evaluate(RUN, QRELS, "nDCG@5")["nDCG@5"]


def test_every_macro_has_a_name():
    macros = {m.macro for m in EVALUATED}
    rows = {n for n in rankql.__all__ if f"{n}_by_score" in rankql.__all__} | {"rmse", "mse", "mae"}
    assert macros == rows
    assert all(m.definition for m in EVALUATED)


# Errors: one line that names what is wrong


def bad(**columns):
    return RUN.with_columns(**columns)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: rankql.evaluate(QRELS, RUN, "AP"), "run and qrels look swapped"),
        (lambda: rankql.evaluate("no.parquet", QRELS), "run: file 'no.parquet' does not exist"),
        (
            lambda: rankql.evaluate(3, QRELS),
            "run must be a path, a table, a relation or a frame, not int",
        ),
        (lambda: rankql.evaluate({}, QRELS), "A dict of runs must map at least one name"),
        (lambda: rankql.evaluate(RUN.clear(), QRELS), "run is empty"),
        (lambda: rankql.evaluate(RUN, QRELS.clear()), "qrels is empty"),
        (
            lambda: rankql.evaluate(bad(query=pl.lit("zz")), QRELS),
            "No query of the run is judged: it has 'zz'",
        ),
        (
            lambda: rankql.evaluate(bad(score=pl.lit(float("nan"))), QRELS),
            "run: score must be a number, not nan",
        ),
        (
            lambda: rankql.evaluate(bad(score=pl.lit("x")), QRELS),
            "run: score must be a number, not text. Cast it first",
        ),
        (
            lambda: rankql.evaluate(bad(pos=pl.lit(0)), QRELS),
            "run: pos must be a whole number from 1, not 0",
        ),
        (
            lambda: rankql.evaluate(bad(pos=pl.lit(1.5)), QRELS),
            "run: pos must be a whole number from 1, not 1.5",
        ),
        (lambda: rankql.evaluate(bad(pos=pl.lit(1)), QRELS), "run has duplicates: query .*, pos 1"),
        (lambda: rankql.evaluate(bad(query=pl.lit(None)), QRELS), "run: query is NULL in"),
        (lambda: rankql.evaluate(bad(item=pl.lit(None)), QRELS), "run: item is NULL in"),
        (
            lambda: rankql.evaluate(pl.concat([RUN, RUN]), QRELS),
            "run has duplicates: query .*system=",
        ),
        (lambda: rankql.evaluate(RUN, pl.concat([QRELS, QRELS])), "qrels has duplicates: query"),
        (
            lambda: rankql.evaluate(pl.concat([RUN, RUN]).with_columns(session_id=1), QRELS),
            "run has duplicates: .*system=, or queries: query='session_id'$",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS.with_columns(rel=pl.lit(float("inf")))),
            "qrels: rel must be a finite number, not inf",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS.with_columns(rel=pl.lit("high"))),
            "qrels: rel must be a number, not text",
        ),
        (
            lambda: rankql.evaluate(RUN.rename({"item": "thing"}), QRELS),
            "No item column in run: expected .*item='...'",
        ),
        (
            lambda: rankql.evaluate(RUN.drop("score"), QRELS),
            "No score column in run",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, query="qeury"),
            "query='qeury': no column of that name in run and qrels. Did you mean 'query'",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, query=("query", "q")),
            "query='q': no column of that name in qrels",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, item=["item"]), "a pair names the columns of run"),
        (
            lambda: rankql.evaluate(RUN, QRELS, by="segmnt"),
            "by='segmnt': no column of that name in ",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, by="query"),
            "by='query' is the column of the queries",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, system="model"),
            "system='model': no column of that name in run",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, system=5), "system must be the name of a column"),
        (lambda: rankql.evaluate(RUN, QRELS, by=["a", 1]), "by must be names of columns, or lists"),
        (lambda: rankql.evaluate(RUN, QRELS, item=""), "item='' has an empty name"),
        (lambda: rankql.evaluate(RUN, QRELS, query=["", "q"]), "'q'. has an empty name"),
        (lambda: rankql.evaluate(RUN, QRELS, conventions=["a"]), "Unknown profile"),
        (lambda: rankql.evaluate(RUN, QRELS, output=5), "output must be a path, not 5"),
        (lambda: rankql.compare({"a": RUN}, QRELS, cluster=5), "cluster must be the name of a"),
        (
            lambda: rankql.compare({"a": RUN}, QRELS, higher_is_better=5),
            "higher_is_better must be True, False or a dict",
        ),
        (lambda: rankql.gate(RUN, minimum="x>=1", baseline="x" * 5000), "Unknown metric 'x'"),
        (
            lambda: rankql.evaluate(RUN, QRELS, "nDGC@10"),
            "Unknown metric 'nDGC'. Did you mean 'nDCG'",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, "Gini@10"),
            "Unknown metric 'Gini'. evaluate does not compute it: call gini",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, "P@0"), "k must be a whole number from 1, not 0"),
        (lambda: rankql.evaluate(RUN, QRELS, "P@ten"), "k must be a whole number from 1, not ten"),
        (
            lambda: rankql.evaluate(RUN, RUN, "nDCG@10"),
            r"Pass rel='...'. It has score, like a run: are these the judgments\?",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, "nDCG@10, AP"),
            "'nDCG@10, AP': 'AP' is not a cutoff. Pass a list of metrics",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, "MAP@10(rel=2)"),
            r"write options before the cutoff: MAP\(rel=2\)@10",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, f"P@{2**53 + 1}"),
            "k must be at most 9007199254740992, not 9007199254740993",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, "Rprec@5"), "Rprec has no cutoff"),
        (
            lambda: rankql.evaluate(RUN, QRELS, "P(rel=x)@5"),
            "threshold must be a finite number, not the text 'x'",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, "P(foo=1)@5"), "P has no option 'foo'"),
        (
            lambda: rankql.evaluate(RUN, QRELS, "P(denominator=R)@5"),
            "denominator must be 'k', 'retrieved' or 'min', not R",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, "RBP@5"), "p must be given"),
        (lambda: rankql.evaluate(RUN, QRELS, "RBP(p=1)@5"), "p must lie between 0 and 1, not 1"),
        (
            lambda: rankql.evaluate(RUN, QRELS, "ERR(max_rel=2)@5"),
            "max_rel=2 is below the highest grade, 3",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, "ERR@5", ties="expected"),
            "ties 'expected' is not available for err",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, []), "metrics is empty. Name at least one"),
        (lambda: rankql.evaluate(RUN, QRELS, [3]), "A metric must be a name"),
        (lambda: rankql.evaluate(RUN, QRELS, "x = foo(rel)"), "foo"),
        (
            lambda: rankql.evaluate(RUN.drop("score").with_columns(pos=1), QRELS, "RMSE"),
            "RMSE compares",
        ),
        (
            lambda: rankql.evaluate("", QRELS),
            "run must be a path or the name of a table, not an empty text",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, None), "metrics must be names such as"),
        (lambda: rankql.evaluate(RUN, QRELS, "nDCG(k=1)@10"), "the cutoff is given twice"),
        (lambda: rankql.evaluate(RUN, QRELS, "P(rel=1, rel=2)@10"), "threshold is given twice"),
        (lambda: rankql.evaluate(RUN, QRELS, ["x = 1", "x = 2"]), "Two metrics are called 'x'"),
        (lambda: rankql.evaluate(RUN, QRELS, ["x = 1", "x = 2"]), "Two metrics are called 'x'"),
        (lambda: rankql.evaluate(RUN, QRELS, "AP = 1"), "'AP' is the name of a metric of rankql"),
        (
            lambda: rankql.evaluate(RUN, QRELS, "microP(denominator=found)@5"),
            "denominator must be 'k', 'retrieved' or 'min', not found",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, by=5), "by must be names of columns"),
        (lambda: rankql.evaluate(RUN, QRELS, gain={}), "gain is an empty dict"),
        (
            lambda: rankql.evaluate(RUN, QRELS, ties="best", gain={0: 0, 1: 3, 2: 1, 3: 4}),
            "gains must rise with the grade",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, ties="worst", discounts=[2.0, 1.0]),
            "and discounts with the position",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, gain={0: 1, 3: 4}, unjudged="bounds"),
            "a gain of 0 for",
        ),
        (
            lambda: rankql.evaluate({"a": RUN, "b": bad(query=pl.lit("z"))}, QRELS),
            "No query of run 'b' is judged",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, "x = rbp(rel, pos, p := 2)"),
            "p must lie between 0 and 1",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, "x = ndcg(rel, pos, 0)"), "k must be a whole number"),
        (lambda: rankql.evaluate(RUN, QRELS, output="x.csv"), "'x.csv' must end in .parquet"),
        (
            lambda: rankql.combine([3]),
            "combine takes results and files that output= wrote",
        ),
        (lambda: rankql.evaluate(RUN, QRELS)["nDCG@5,10"], "'nDCG@5,10' was not evaluated"),
        (
            lambda: rankql.evaluate(RUN, QRELS, tie="best"),
            "Unknown option 'tie'. Did you mean 'ties'",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, ties="bets"),
            "ties must be 'item', 'order', 'expected', 'best' or 'worst', not bets",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, gain="exp"),
            "gain must be 'linear', 'exp2', 'binary' or a dict",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, threshold="2"),
            "threshold must be a finite number, not the text '2'",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, discounts=[1, 0]),
            "discounts must be a list of finite numbers above 0",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, "DCG@9", discounts=[1, 2]),
            "discounts has 2 entries, but position",
        ),
        (
            lambda: rankql.evaluate(RUN, QRELS, conventions="trec"),
            "Unknown profile 'trec'. Did you mean 'trec_eval'",
        ),
        (lambda: rankql.evaluate(RUN, QRELS, interval="z"), "interval must be"),
        (
            lambda: rankql.evaluate(RUN, QRELS, confidence=95),
            "confidence must lie between 0 and 1, not 95",
        ),
    ],
)
def test_errors(call, line):
    with pytest.raises(rankql.RankqlError, match=line) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("column", ["score", "pos", "rel"])
def test_nan_in_parquet(tmp_path, column):
    """Whose statistics leave NaN out: DuckDB 2.0 answers isnan() and comparisons from them."""
    rows = {"query": ["q"] * 3, "item": ["a", "b", "c"], "rel": [1.0, 0.0, 1.0]}
    rows |= {"score" if column == "rel" else column: [3.0, 2.0, 1.0]}
    rows[column][1] = float("nan")
    pl.DataFrame(rows).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(rankql.RankqlError, match=f"{column} must be a .*number.*, not nan"):
        rankql.evaluate(tmp_path / "x.parquet", metrics="RR")
    con = metric_engines.connect()
    call = "rr(rel, pos)" if column == "pos" else "rr_by_score(rel, score, item)"
    with pytest.raises(duckdb.Error, match=f"{column} must be a .*number.*, not nan"):
        con.sql(f"SELECT {call} FROM '{tmp_path}/x.parquet' GROUP BY query").fetchall()


def test_rows_of_text_files_are_checked(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("query,item,score\nq1,a,1.5\nq1,b,high\n")
    qrels = pl.DataFrame({"query": ["q1"], "item": ["a"], "rel": [1]})
    with pytest.raises(rankql.RankqlError, match="run: score must be a number, not high"):
        rankql.evaluate(path, qrels, "AP")
    path.write_text("not a run\nat all\n")
    with pytest.raises(rankql.RankqlError, match="No query column in run"):
        rankql.evaluate(path, qrels, "AP")
    other = tmp_path / "x.run"
    other.write_text("only three columns\n")
    with pytest.raises(rankql.RankqlError, match=r"TREC \(4 or 6 columns; its first line has 3\)"):
        rankql.evaluate(other, qrels, "AP")


def test_padded_ids_stay_apart(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("query,item,score\n01,a,1.5\n1,a,0.5\n")
    qrels = pl.DataFrame({"query": ["1", "01"], "item": ["a", "a"], "rel": [1, 0]})
    assert rankql.evaluate(path, qrels, "P@1").per_query["P@1"].to_list() == [0.0, 1.0]


# The result


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


@pytest.mark.parametrize("space", [" ", "\t", "   "])
@pytest.mark.parametrize("where", ["first", "last", "all"])
def test_words_after_the_sixth_column_of_a_run(tmp_path, space, where):
    """As trec_eval has it: ignored in a run, refused in judgments."""
    lines = [
        f"q1 Q0 {item} 0 {score} tag".split() for item, score in (("a", 3), ("b", 2), ("c", 1))
    ]
    chosen = {"first": lines[:1], "last": lines[-1:], "all": lines}[where]
    for line in chosen:
        line += ["more", "words"]
    run, qrels = tmp_path / "one.run", tmp_path / "qrels"
    run.write_text("".join(space.join(line) + "\n" for line in lines))
    qrels.write_text("q1 0 b 1\n")
    assert rankql.evaluate(run, qrels, "RR")["RR"] == 0.5
    qrels.write_text("q1 0 a 0\nq1 0 b 1 more\n")
    with pytest.raises(rankql.RankqlError, match="has a line without 4 columns: 'q1 0 b 1 more'"):
        rankql.evaluate(run, qrels, "RR")
    run.write_text("a b c d e f g\n")
    with pytest.raises(rankql.RankqlError, match=r"TREC \(4 or 6 columns; its first line has 7\)"):
        rankql.evaluate(run, qrels, "RR")


def test_intervals():
    from scipy.stats import t

    values = EXPECTED["AP"].drop_nulls().to_numpy()
    row = rankql.evaluate(RUN, QRELS, "AP", interval="t", confidence=0.9).summary.row(0, named=True)
    wanted = t.interval(
        0.9, len(values) - 1, values.mean(), values.std(ddof=1) / len(values) ** 0.5
    )
    assert (row["lo"], row["hi"]) == pytest.approx(wanted, abs=1e-12)


def test_intervals_stay_in_the_range():
    """RR@10 of mostly 1: mean ± t reaches beyond 1; on the logit scale nothing does."""
    from scipy.special import expit, logit
    from scipy.stats import t

    pos = [1] * 18 + [2, 3]
    ranked = pl.DataFrame({"query": range(20), "rel": 1, "pos": pos, "score": [-p for p in pos]})
    values = 1 / np.array(pos)
    mean, error = values.mean(), values.std(ddof=1) / 20**0.5
    reach = t.ppf(0.975, 19) * error
    assert mean + reach > 1
    row = rankql.evaluate(ranked, metrics="RR@10", interval="t").summary.row(0, named=True)
    assert (row["lo"], row["hi"]) == (pytest.approx(mean - reach, abs=1e-12), 1)
    row = rankql.evaluate(ranked, metrics="RR@10").summary.row(0, named=True)
    ends = expit(logit(mean) + np.array([-1, 1]) * reach / (mean * (1 - mean)))
    assert (row["lo"], row["hi"]) == pytest.approx(tuple(ends), abs=1e-12)
    # One bound only: cut there. All values are the same: see test_intervals.py.
    two = ranked[-2:]
    summary = rankql.evaluate(two, metrics=["MSE", "ARHR", "DCG", "Success@3"]).summary
    assert summary["lo"].to_list() == [0.0, 0.0, 0.0, pytest.approx(0.025**0.5)]
    assert summary["hi"][0] > summary["mean"][0] and summary["hi"][3] == 1
    # Kept negative gains take nDCG below 0: then there is no lower bound to stay above.
    signed = pl.DataFrame({"query": [1, 1, 2], "rel": [-1, 1, 1], "pos": [1, 2, 1]})
    row = rankql.evaluate(signed, metrics="nDCG", negative="keep").summary.row(0, named=True)
    assert row["lo"] < -1 and row["hi"] == 1


@pytest.mark.parametrize("unjudged", ["zero", "bounds"])
def test_every_interval_holds_its_mean(unjudged):
    names = ["nDCG@3", "AP", "RR@10", "P@2", "R@2"]
    for interval in ("auto", "t"):
        result = rankql.evaluate(
            RUN, QRELS, names, by="segment", attributes=with_segments(), interval=interval,
            unjudged=unjudged,
        )  # fmt: skip
        for row in result.summary.drop_nulls("lo").to_dicts():
            assert 0 <= row["lo"] <= row["mean"] <= row["hi"] <= 1


def test_coverage_of_intervals():
    """2,000 samples of 20 skewed values: the logit covers more often than mean ± t."""
    from scipy.stats import t

    rng = np.random.default_rng(1)
    values = rng.beta(0.3, 6, (2000, 20))
    means, widths = values.mean(1), t.ppf(0.975, 19) * values.std(1, ddof=1) / 20**0.5

    def coverage(ends):
        return np.mean([low <= 0.3 / 6.3 <= high for low, high in ends])

    logistic = [logistic_interval(*x, 0, 1) for x in zip(means, widths, strict=True)]
    student = zip(means - widths, means + widths, strict=True)
    assert coverage(logistic) > 0.91 > 0.9 > coverage(student)


def test_bounds_of_one_query_have_no_interval():
    one = pl.DataFrame({"query": ["q"], "item": ["a"], "rel": [1], "pos": [1]})
    row = rankql.evaluate(one, metrics="AP").summary.row(0, named=True)
    assert (row["mean"], row["lo"], row["hi"]) == (1.0, None, None)


def test_a_line_says_which_metrics_have_no_value():
    result = rankql.evaluate(RUN, QRELS.with_columns(rel=0), ["nDCG", "P@1", "AP"])
    note = "Note: nDCG and AP: no query has a value. Is any item relevant?"
    assert note in repr(result)
    assert "no query has a value" not in repr(rankql.evaluate(RUN, QRELS, ["nDCG", "P@1"]))


def test_a_line_says_that_equal_values_have_no_interval():
    ranked = pl.DataFrame({"query": [1, 2], "pos": 1, "rel": 3})
    result = rankql.evaluate(ranked, None, "DCG@1")
    line = "There is no confidence interval: it needs at least 2 queries with different values"
    assert line in repr(result)


def test_one_query_has_no_interval_and_a_line_that_says_so():
    """Also if others are missing and skipped. An undefined mean keeps its column."""
    one = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": [1, 0], "pos": [1, 2]})
    line = "There is no confidence interval: it needs at least 2 queries"
    assert line in repr(rankql.evaluate(one, metrics="AP"))
    two = pl.concat([one, one.with_columns(query=pl.lit("b"))])
    options = {"metrics": "AP", "missing": "skip"}
    assert line in repr(rankql.evaluate(one.drop("rel"), two.drop("pos"), **options))
    assert line not in repr(rankql.evaluate(one, metrics="AP", interval=None))
    assert line not in repr(rankql.evaluate(two, metrics=["AP", "microP@2"]))
    undefined = rankql.evaluate(one.with_columns(rel=0), metrics="AP")
    assert line not in repr(undefined) and "mean" in repr(undefined)


def test_intervals_need_no_scipy():
    """Same code, same columns and same numbers, whether or not scipy is installed."""
    script = """
import sys
from importlib import util
found = util.find_spec
util.find_spec = lambda name, *more: None if name == "scipy" else found(name, *more)
sys.modules["scipy"] = None
import polars as pl, rankql
ranked = pl.DataFrame({"query": ["q", "r", "s"], "rel": [1, 1, 1], "pos": [1, 2, 4]})
for interval in ("auto", "t"):
    print(*rankql.evaluate(ranked, metrics="DCG", interval=interval).summary.row(0))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    rows = done.stdout.splitlines()
    ranked = pl.DataFrame({"query": ["q", "r", "s"], "rel": [1, 1, 1], "pos": [1, 2, 4]})
    row = " ".join(map(str, rankql.evaluate(ranked, metrics="DCG").summary.row(0)))
    assert rows == [row, row] and "None" not in row


# Size


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("plain", {}),
        ("systems", {"by": "segment", "attributes": "segments"}),
        ("text", {"ties": "expected", "missing": "skip"}),
        ("plain", {"ties": "order", "conventions": "ranx"}),
        ("ranked", {}),
        ("ranked", {"unjudged": "bounds"}),
        ("text", {"con": "own"}),
        ("other query", {"query": "user"}),
    ],
)
def test_parts_are_the_same(form, options, monkeypatch):
    """Where the memory is too small, some queries at a time: the same values, to the last bit."""
    run, qrels, metrics = RUN, QRELS, ["nDCG@3", "AP", "P@2", "R@2"]
    options = dict(options)
    if "attributes" in options:
        options["attributes"] = with_segments()
    if options.get("con"):
        options["con"] = duckdb.connect()
    if form == "systems":
        run = {"one": RUN, "two": RUN.with_columns(score=-pl.col("score"))}
    if form == "text":  # the ids of both are of one kind, but not of one type
        qrels = QRELS.with_columns(pl.col("query").cast(pl.Categorical))
    if form == "other query":  # a column with this name that holds no ids
        run = RUN.rename({"query": "user"}).with_columns(query=pl.lit("text"))
        qrels = QRELS.rename({"query": "user"})
    if form == "ranked":
        qrels = None
        run = pl.DataFrame(
            {"query": [1, 1, 2, 3, 3], "rel": [1, 0, 2, 0, 3], "pos": [2, 1, 1, 1, 4]}
        )
    whole = rankql.evaluate(run, qrels, metrics, **options)
    fetch_frame, made = rankql.evaluation.evaluate.fetch_frame, []

    def short_of_memory(here, sql, *arguments, **options):
        if "% 4 =" not in sql:
            raise duckdb.OutOfMemoryException("Out of Memory Error: no room\n\nPossible solutions:")
        made.append(sql)
        return fetch_frame(here, sql, *arguments, **options)

    monkeypatch.setattr("rankql.evaluation.evaluate.fetch_frame", short_of_memory)
    parts = rankql.evaluate(run, qrels, metrics, **options)
    assert_frame_equal(parts.per_query, whole.per_query, check_exact=True)
    assert_frame_equal(parts.summary, whole.summary, check_exact=True)
    assert len(made) == 4 and parts.notes == [
        *whole.notes,
        "The queries did not fit into memory_limit, so they were evaluated in 4 parts. A higher "
        "memory_limit is faster",
    ]


def test_out_of_memory(monkeypatch, tmp_path):
    """A file is written in parts too; where nothing helps, the remedy is named."""
    path, whole = tmp_path / "out.parquet", rankql.evaluate(RUN, QRELS, "AP")

    def refuse(*arguments, **options):
        raise duckdb.OutOfMemoryException("Out of Memory Error: no room\n\nPossible solutions:")

    def refuse_all_at_once(session, sql, *arguments, **options):
        return fetch_frame(session, sql) if "% 4 =" in sql else refuse()

    fetch_frame = rankql.evaluation.evaluate.fetch_frame
    monkeypatch.setattr("rankql.evaluation.evaluate.fetch_frame", refuse_all_at_once)
    parts = rankql.evaluate(RUN, QRELS, "AP", output=path)
    assert "evaluated in 4 parts" in parts.notes[-1]
    assert_frame_equal(rankql.combine([path]).per_query, whole.per_query, check_exact=True)
    monkeypatch.setattr("rankql.evaluation.evaluate.fetch_frame", refuse)
    message = r"^DuckDB is out of memory: no room\. Raise its limit \(SET memory_limit = '4GB'\)"
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.evaluate(RUN, QRELS, "AP")


@pytest.mark.slow
def test_two_tables_in_little_memory(tmp_path):
    """Run and judgments of 5 million rows each in 70 MB, as 50 million in 700."""
    run, qrels, spill = (tmp_path / name for name in ("run.parquet", "qrels.parquet", "spill"))
    duckdb.sql(f"""COPY (SELECT q AS query, (q * 7919 + i * 104729) % 1000003 AS item,
        hash(i, q) % 100000 AS score FROM range(50000) t(q), range(100) u(i)) TO '{run}'""")
    duckdb.sql(f"""COPY (SELECT q AS query, (q * 7919 + i * 104729) % 1000003 AS item,
        hash(q, i) % 4 AS rel FROM range(50000) t(q), range(50, 150) u(i)) TO '{qrels}'""")
    settings = {"memory_limit": "70MB", "threads": 2, "temp_directory": str(spill)}
    con = duckdb.connect(config=settings)
    result = rankql.evaluate(run, qrels, ["nDCG@10", "AP", "R@100"], con=con)
    assert "evaluated in 4 parts" in result.notes[-1]
    assert result.per_query.height == 50_000 and 0 < result["AP"] < 1


@pytest.mark.slow
def test_parquet_larger_than_memory(tmp_path):
    """Nothing is copied: two million rows of long ids, evaluated in 150 MB."""
    path = tmp_path / "run.parquet"
    con = duckdb.connect()
    con.execute(f"""
        COPY (SELECT 'q' || q AS query, hash(q, i) % 1000 / 1000.0 AS score,
                     md5(q || '-' || i) || md5(i || '+' || q) || md5(i::VARCHAR) AS item
              FROM range(40000) t(q), range(60) u(i)) TO '{path}' (COMPRESSION uncompressed)
    """)
    assert path.stat().st_size > 200_000_000
    con.execute(f"CREATE TABLE qrels AS SELECT query, item, 1 AS rel FROM '{path}' USING SAMPLE 1%")
    con.execute("SET memory_limit = '150MB'")
    con.execute(f"SET temp_directory = '{tmp_path}'")
    small = rankql.evaluate(path, "qrels", "nDCG@10", con=con)
    con.execute("SET memory_limit = '4GB'")
    large = rankql.evaluate(path, "qrels", "nDCG@10", con=con)
    same(small.per_query, large.per_query)


@pytest.mark.slow
def test_a_million_queries_and_a_query_of_a_million_items():
    con = duckdb.connect()
    con.execute("""
        CREATE TABLE run AS SELECT q, i, q % 7 + i AS score FROM range(1000000) t(q), range(3) u(i);
        CREATE TABLE qrels AS SELECT q, (q % 3) AS i, 1 AS rel FROM range(1000000) t(q)
    """)
    made = rankql.evaluate("run", "qrels", ["RR", "nDCG@2"], con=con, query="q", item="i")
    assert made["RR"] == pytest.approx((333334 / 3 + 333333 / 2 + 333333) / 1e6, abs=1e-12)
    assert made.per_query.height == 1_000_000
    con.execute("""
        CREATE TABLE long AS SELECT 1 AS q, i, -i AS score FROM range(1000000) u(i);
        CREATE TABLE few AS SELECT 1 AS q, i * 1000 AS i, 1 AS rel FROM range(1000) u(i)
    """)
    made = rankql.evaluate(
        "long", "few", ["AP", "R@1000000", "Rprec"], con=con, query="q", item="i"
    )
    wanted = sum((j + 1) / (j * 1000 + 1) for j in range(1000)) / 1000
    assert made["AP"] == pytest.approx(wanted, abs=1e-12)
    assert (made["R@1000000"], made["Rprec"]) == (1.0, 1 / 1000)


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
def test_an_interrupted_evaluation_leaves_no_file(tmp_path, signal):
    """What is under the final name is whole, whenever the program ends."""
    script = f"""
import duckdb, os, signal, threading, rankql
con = duckdb.connect()
rows = "FROM range(40000) AS t (q), range(100) AS u (i)"
con.execute(f"CREATE TABLE run AS SELECT q, i, hash(q, i) AS score {{rows}}")
con.execute(f"CREATE TABLE qrels AS SELECT q, i, i % 2 AS rel {{rows}}")
con.execute("CREATE TABLE small AS SELECT 1 AS query, 1 AS pos, 1 AS rel")
rankql.evaluate("small", None, "nDCG", con=con)  # DuckDB 1.4 loses interrupts while it imports
print("started", flush=True)
threading.Timer(0.6, lambda: os.kill(os.getpid(), signal.{signal})).start()
metrics = ["AP", "Bpref", "ERR(max_rel=3)", "TauB"]
path = {str(tmp_path / "out.parquet")!r}
rankql.evaluate("run", "qrels", metrics, con=con, query="q", item="i", output=path)
print("finished", flush=True)
"""
    # Where a callback happens to run, Python reports the interrupt there and goes on: once more.
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        if done.returncode:
            break
        (tmp_path / "out.parquet").unlink()
    assert done.returncode != 0 and done.stdout == "started\n"
    assert list(tmp_path.iterdir()) == []
    assert signal != "SIGINT" or "KeyboardInterrupt" in done.stderr


def test_an_error_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "out.parquet"
    rankql.evaluate(RUN, QRELS, "AP", output=path)
    before = path.read_bytes()
    with pytest.raises(rankql.RankqlError, match="undefined='error'"):
        rankql.evaluate(RUN, QRELS, "AP", output=path, undefined="error")
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["out.parquet"]


def test_csv_reads_as_it_is_written(tmp_path):
    """Quotes, commas and line breaks in ids."""
    rows = [('q"1', "a,b", 2.0), ("q'2", "c\nd", 1.0)]
    with (tmp_path / "x.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("query", "item", "score"), *rows])
    qrels = pl.DataFrame(
        [(*row[:2], 1) for row in rows], schema=["query", "item", "rel"], orient="row"
    )
    assert rankql.evaluate(tmp_path / "x.csv", qrels, "RR")["RR"] == 1


@pytest.mark.parametrize("lacking", ["a", "b"])
def test_an_attribute_that_only_some_runs_have(lacking):
    runs = {name: RUN.with_columns(device=pl.lit("phone")) for name in ("a", "b")}
    runs[lacking] = RUN
    line = (
        f"by='device': run '{lacking}' has no such column, but other runs have. Add it, or pass "
        "attributes="
    )
    for ask in (
        lambda: rankql.evaluate(runs, QRELS, by="device"),
        lambda: rankql.compare(runs, QRELS, by="device"),
        lambda: rankql.correlate(runs, RUN, by="device"),
    ):
        with pytest.raises(rankql.RankqlError) as caught:
            ask()
        assert str(caught.value) == line


def test_examples_of_queries_that_are_not_judged_differ():
    others = QRELS.with_columns(query=pl.lit("q0"))
    with pytest.raises(rankql.RankqlError, match=r"qrels has 'q0'\. Write"):
        rankql.evaluate(RUN, others.unique("query"))
    with pytest.raises(rankql.RankqlError, match=r"qrels has 'q0'\. Write"):
        rankql.evaluate(RUN, others)


def test_control_characters_reach_no_terminal():
    """A line of its own would be a command in a log of CI, ESC one to a terminal."""
    name = "new\n::error::\x1b[2J"
    runs = {"old": RUN, name: RUN}
    shown = [
        repr(rankql.evaluate(runs, QRELS, "RR@2")),
        repr(rankql.compare(runs, QRELS, "RR@2")),
        repr(rankql.limits(runs, QRELS, "RR@2")),
        repr(rankql.explain(RUN, QRELS, metric="RR@2")),
        repr(rankql.check(runs, QRELS)),
        repr(rankql.correlate(runs, RUN, "TauB")),
    ]
    for text in shown:
        assert "\x1b" not in text
        assert not any(line.startswith("::") for line in text.splitlines())
    assert "new\\n::error::\\x1b[2J" in shown[0]


def test_summaries_are_the_same_to_the_last_bit():
    """However many threads read the values."""
    draw = random.Random(7)
    values = pl.DataFrame({"query": range(400_000), "AP": [draw.random() for _ in range(400_000)]})
    result = read_result(values, "values", Request())
    for _ in range(8):
        assert_frame_equal(
            read_result(values, "values", Request()).summary, result.summary, check_exact=True
        )


@pytest.mark.parametrize("options", [{}, {"weight": "w"}, {"system": "system"}, {"by": "w"}])
@pytest.mark.parametrize("queries", [1, 30, 1024, 2048, 2049])
def test_small_means_are_reproducible(monkeypatch, options, queries):
    """In a database with many threads, or in one with a single thread."""
    grades = pl.int_range(queries * 6) * 7919 % 11 / 3
    positions = pl.DataFrame({"pos": range(1, 7)})
    table = pl.DataFrame({"query": range(queries)}).join(positions, how="cross")
    table = table.with_columns(rel=grades, w=(pl.col("query") % 5 + 1) / 7)
    systems = [table.with_columns(system=pl.lit(name)) for name in "AB"]
    run = pl.concat(systems) if "system" in options else table
    result = rankql.evaluate(run, metrics=["nDCG@3", "AP(threshold=2)", "DCG", "P@5"], **options)
    many = (duckdb.connect(config={"threads": 8}), set())
    monkeypatch.setitem(private._DATABASES, (os.getpid(), None), many)
    found = [dataclasses.replace(result, _summary=None).summary for _ in range(6)]
    monkeypatch.setattr(fetching, "ONE_CHUNK", 0)
    for each in found:
        assert_frame_equal(
            each, dataclasses.replace(result, _summary=None).summary, check_exact=True
        )


@pytest.mark.parametrize(
    ("missing", "undefined", "means"),
    [
        ("zero", "skip", [1 / 4, 1 / 8]),
        ("zero", "zero", [1 / 8, 1 / 8]),
        ("zero", "drop", [1 / 4, 1 / 4]),
        ("skip", "skip", [1 / 2, 1 / 4]),
        ("skip", "zero", [1 / 4, 1 / 4]),
        ("skip", "drop", [1 / 2, 1 / 2]),
    ],
)
def test_missing_and_undefined_queries_are_counted_apart(missing, undefined, means):
    """By hand: a has RR 1/2, b nothing relevant; c and d are missing, d has nothing relevant."""
    run = pl.DataFrame({"query": list("aabb"), "item": list("xyxy"), "score": [1.0, 2, 1, 2]})
    qrels = pl.DataFrame({"query": list("abcd"), "item": ["x"] * 4, "rel": [1, 0, 1, 0]})
    options = {"missing": missing, "undefined": undefined}
    result = rankql.evaluate(run, qrels, ["RR", "microP@2"], **options)
    assert result.summary["mean"].to_list() == means
    counts = result.summary.select("queries", "undefined", "missing").rows()
    assert counts == [(4, 2, 2), (4, 2 if undefined == "drop" else 0, 2)]
    gate = rankql.gate(run, qrels=qrels, minimum=["RR>=0", "microP@2>=0"], **options)
    assert gate.table["mean"].to_list() == means


def test_means_lose_no_digits():
    """A plain average of ten 0.1 is less than 0.1."""
    ranked = pl.DataFrame({"query": range(10), "item": "x", "rel": 0.1, "pos": 1})
    assert rankql.evaluate(ranked, None, "own = sum(rel)")["own"] == 0.1


def test_micro_metrics_have_no_zero_for_undefined():
    """A query without a relevant item has no weight; without any, recall stays undefined."""
    run = pl.DataFrame({"query": list("aabb"), "item": list("xyxy"), "score": [1.0, 2, 1, 2]})
    some = pl.DataFrame({"query": list("ab"), "item": ["x"] * 2, "rel": [0, 1]})
    names = ["RR", "microP@2", "microR"]
    gate = rankql.gate(run, qrels=some, minimum=[f"{n}>=0.1" for n in names], undefined="zero")
    assert gate.table.select("mean", "n").rows() == [(0.25, 2), (0.25, 2), (1.0, 1)]
    none = some.with_columns(rel=0)
    result = rankql.evaluate(run, none, names, undefined="zero")
    assert result.summary["mean"].to_list() == [0, 0, None]


def test_grades_whose_sum_overflows():
    """Not duplicates, which have the same symptom: a DCG above the ideal one."""
    run = pl.DataFrame({"query": "a", "item": [*"xyz"], "pos": [1, 2, 3], "rel": 1e308})
    with pytest.raises(rankql.RankqlError, match=r"grades are too large: sums of 1e.308 over"):
        rankql.evaluate(run, metrics="nDCG@3")
    for metric, rel, value in (("CG", 1e308, "inf"), ("DCG@1", 1e200, r"1e\+200")):
        message = f"^metrics: {metric} is {value} for query 'a', so sums overflow. Rescale the num"
        with pytest.raises(rankql.RankqlError, match=message):
            rankql.evaluate(run.with_columns(rel=rel), metrics=metric)


def test_runs_of_one_of_many_judged_queries():
    """Also if the sample of queries, in which items in common are counted, does not have it."""
    qrels = pl.DataFrame({"query": range(3000), "item": ["a"] * 3000, "rel": [1] * 3000})
    for query in range(8):
        run = pl.DataFrame({"query": [query], "item": ["a"], "score": [1.0]})
        assert rankql.evaluate(run, qrels, "RR", missing="skip", interval=None)["RR"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queries", "every", "samples"),
    [
        (30, 1, [""]),
        (999, 50, [""]),
        (3000, 1, ["= ANY"]),
        (2500, 3, ["= ANY", "% 3 = 0"]),
        (3000, 10, ["= ANY", "% 4 = 0"]),
        (3000, 50, ["= ANY", "% 4 = 0", ""]),
    ],
)
def test_items_are_compared_in_some_of_many_queries_first(
    monkeypatch, tmp_path, queries, every, samples
):
    """The run lacks some judged queries, and has one that is not. One item in `every` is judged."""
    compared = []

    def counted(run_sql, inputs, part=""):
        counts = item_overlap(run_sql, inputs, part)
        compared.append(part.partition("{query}")[2].strip(" )").partition("(")[0])
        if "ANY" in part:  # each is counted
            assert all(items == 100 * 5 for _, items, *_ in counts)
        return counts

    monkeypatch.setattr(overlap, "item_overlap", counted)
    ids = pl.DataFrame({"query": [f"{{it's}} {i}" for i in range(5000)]})
    items = ids.join(pl.DataFrame({"item": range(100)}), how="cross")
    shift = pl.when(pl.col("item") % every > 0).then(100).otherwise(0)
    qrels = items.with_columns(pl.col("item") + shift, rel=1)
    unjudged = items.head(1).with_columns(query=pl.lit("other"))
    run = pl.concat([items.head(queries * 100), unjudged]).with_columns(score=1.0)
    systems = pl.concat([run.with_columns(system=pl.lit(name)) for name in "AB"])
    files = {"run": run, "systems": systems, "qrels": qrels}
    for name, frame in files.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
    for name, options in (("run", {}), ("systems", {"system": "system"})):
        sources = [tmp_path / f"{file}.parquet" for file in (name, "qrels")]
        for tables, read in (
            (sources, samples),
            ((files[name], qrels), samples[samples[0] == "= ANY" :]),
        ):
            compared.clear()
            result = rankql.evaluate(*tables, "RR", interval=None, **options)
            assert compared == (read or ["% 4 = 0"])
            assert any("Only" in note for note in result.notes) == (every == 50)


def test_times_with_a_zone_as_queries(monkeypatch):
    """Without pytz, which DuckDB needs for them."""
    monkeypatch.setitem(sys.modules, "pytz", None)
    times = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]
    qrels = pl.DataFrame({"query": times[:2], "item": ["a", "b"], "rel": [1, 1]})
    run = pl.DataFrame({"query": times[::2], "item": ["a", "b"], "score": [1.0, 1.0]})
    result = rankql.evaluate(run, qrels, "nDCG@10", interval=None)
    assert result["nDCG@10"] == 0.5
    assert result.per_query["query"].to_list() == times[:2]
    (note,) = result.notes
    assert note.startswith("1 of 2 queries of the run is not judged") and "2026, 1, 3" in note
    with pytest.raises(rankql.RankqlError, match=r"in the run, such as .*2026, 1, 2"):
        rankql.evaluate(run, qrels, "nDCG@10", missing="error")
    with pytest.raises(rankql.RankqlError, match=r"has duplicates: query .*2026, 1, 1"):
        rankql.evaluate(pl.concat([run, run]), qrels, "nDCG@10")


@pytest.mark.parametrize("output", [None, "values.parquet"])
@pytest.mark.parametrize(("relevant", "options", "noted"), [
    (15, {}, "0.750"), (19, {}, None), (15, {"undefined": "zero"}, None),
    (15, {"weight": "traffic"}, "0.750"), (15, {"by": "shop"}, "0.750"),
])  # fmt: skip
def test_a_hit_rate_that_leaves_many_queries_out_says_so(
    relevant, options, noted, output, tmp_path
):
    """Every query with a relevant item has a hit, of 20 queries."""
    rows = [(i, "a", 1, int(i < relevant), i % 2, 3) for i in range(20)]
    names = ["query", "item", "pos", "rel", "shop", "traffic"]
    ranked = pl.DataFrame(rows, schema=names, orient="row")
    output = output and tmp_path / output
    result = rankql.evaluate(ranked, metrics=["HR@10", "R@10"], output=output, **options)
    notes = [note for note in result.notes if note.startswith("Success@10 counts only")]
    assert len(notes) == (noted is not None)
    assert all(f"the {relevant} queries" in note and noted in note for note in notes)
    systems = rankql.evaluate({"x": ranked, "y": ranked}, metrics="HR@10", **options)
    assert ("0.750 for y" in " ".join(systems.notes)) == (noted is not None)


def test_discounts_in_the_name_of_a_metric():
    """Position 1 counts more: (2 / 0.8 + 3 / 2) / (3 / 0.8 + 2 / 2)."""
    ranked = pl.DataFrame({"query": 1, "item": ["a", "b"], "rel": [2, 3], "pos": [1, 2]})
    metrics = ["nDCG(discounts=[0.8, 2])@2", "ndcg(gain=exp2, discounts=[0.8,2])@1", "nDCG@2"]
    result = rankql.evaluate(ranked, metrics=metrics, interval=None)
    value = (2 / 0.8 + 3 / 2) / (3 / 0.8 + 2 / 2)
    assert result[metrics[0]] == pytest.approx(value)
    assert result[metrics[1]] == pytest.approx(3 / 7)
    again = rankql.evaluate(ranked, metrics=result.metrics, interval=None)
    assert again.metrics == result.metrics and again["nDCG@2"] != pytest.approx(value)
    same = rankql.evaluate(ranked, metrics=[metrics[0], "nDCG@2"], discounts=[0.8, 2])
    assert same.metrics == ["nDCG@2"] and same["nDCG@2"] == pytest.approx(value)
    found = rankql.explain(ranked, metric=metrics[0])
    assert found.summary is not None
    for wrong in ("[0, 1]", "[a]", "x", "[1, inf]", "[1_0]"):
        with pytest.raises(rankql.RankqlError, match="discounts must be a list"):
            rankql.evaluate(ranked, metrics=f"nDCG(discounts={wrong})@2")

"""Slices, attributes and systems of an evaluation."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from support import metric_engines
from support.random_runs import EXPECTED, METRICS, QRELS, RUN, joined, same, with_segments


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

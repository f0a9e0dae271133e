"""Slices, attributes and systems of an evaluation."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from support import metric_engines
from support.parameters import few
from support.samples import METRICS, QRELS, RUN, expected, joined, same, with_segments


def test_slices_are_means_of_their_queries():
    about, groups = with_segments(), [["segment"], ["segment", "device"]]
    result = rankql.evaluate(RUN, QRELS, METRICS, attributes=about, by=groups, interval=None)
    rows = expected().join(about, on="query")
    for keys in groups:
        for values, part in rows.group_by(keys):
            words = ["NULL" if value is None else value for value in values]
            label = ", ".join(map("=".join, zip(keys, words, strict=True)))
            means = result.summary.filter(pl.col("slice") == label)
            assert means["metric"].to_list() == METRICS
            assert means["queries"].unique().to_list() == [len(part)]
            for metric, mean, undefined in means.select("metric", "mean", "undefined").rows():
                assert undefined == part[metric].null_count()
                assert mean == pytest.approx(part[metric].mean(), abs=1e-12)
    assert result.summary.filter(pl.col("slice") == "all")["queries"][0] == len(expected())
    assert result.summary.columns[:3] == ["slice", "segment", "device"]
    assert result.per_query.columns == ["query", "segment", "device", *METRICS]


@pytest.mark.parametrize("source", ["run", "qrels", "attributes"])
def test_attributes_may_be_in_any_table(source):
    about = with_segments().select("query", "segment")
    tables = {"run": RUN, "qrels": QRELS, "attributes": QRELS.select("query").unique()}
    tables[source] = tables[source].join(about, on="query", how="left")
    result = rankql.evaluate(**tables, metrics="nDCG@10", by="segment").per_query
    means = expected().select("query", "nDCG@10").join(about, on="query")
    if source == "run":  # which lacks the attributes of missing queries
        in_run = pl.col("query").is_in(RUN["query"].unique().implode())
        means = means.with_columns(
            segment=pl.when(in_run).then("segment").otherwise(pl.lit("(missing)"))
        )
    same(result.sort("query"), means.select("query", "segment", "nDCG@10").sort("query"))


# Reduced to words, lists, the best items, sums, and counters only.
@few(2)("source, metric, place, joined", [
    ("run", "nDCG@5", "score", True), ("qrels", "nDCG@5", "score", True),
    ("attributes", "nDCG@5", "score", True), ("run", "AP", "score", True),
    ("run", "nDCG@5", "score", False), ("run", "nDCG@5", "pos", False),
    ("run", "value = avg(score)", "score", False),
])  # fmt: skip
def test_an_attribute_has_one_value_per_query(source, metric, place, joined):
    rows = pl.DataFrame({"i": range(3_000)}).with_columns(
        query=pl.col("i") // 2, item=pl.col("i") % 2, score=-pl.col("i"), pos=pl.col("i") % 2 + 1,
        rel=1, g=pl.lit(1.0),
    )  # fmt: skip
    columns = {"run": ["query", "item", place] + ["rel"] * (not joined)}
    columns |= {"qrels": ["query", "item", "rel"]} if joined else {}
    columns |= {source: [*columns.get(source, ["query"]), "g"]}
    others = [("by", 2.0), ("weight", 2.0), ("weight", None)]
    for role, other in others if metric == "AP" else others[:1]:
        last = rows.with_columns(g=pl.when(pl.col("i") == 2_999).then(other).otherwise("g"))
        tables = {name: last[names] for name, names in columns.items()}
        message = f"{role}: g must have one value per query, but {source} has 1.0 and {other}"
        with pytest.raises(rankql.RankqlError, match=f"{message} for query 1499"):
            rankql.evaluate(**tables, metrics=metric, **{role: "g"})
    tables = {name: rows[names] for name, names in columns.items()}
    assert len(rankql.evaluate(**tables, metrics=metric, by="g").per_query) == 1_500


def test_micro_averages():
    """Those of the plain macros over all rankings at once, and by slice."""
    con = metric_engines.connect()
    con.register("joined", joined().join(with_segments(), on="query"))
    micro = ["microP@5", "microR@5", "microF1@5", "microP", "microF1(rel=2)"]
    result = rankql.evaluate(RUN, QRELS, micro, attributes=with_segments(), by="segment").summary
    calls = """micro_precision_at(rel, pos, 5, query := query), micro_recall_at(rel, pos, 5),
               micro_f1_at(rel, pos, 5, query := query), micro_precision_at(rel, pos),
               micro_f1_at(rel, pos, threshold := 2)"""
    rows = con.sql(f"""
        SELECT segment, {calls} FROM ranked('joined', query := 'query')
        GROUP BY GROUPING SETS ((), (segment)) ORDER BY grouping(segment) DESC, segment NULLS LAST
    """).fetchall()
    expected = [value for row in rows for value in row[1:]]
    assert result["mean"].to_list() == pytest.approx(expected, abs=1e-12)


def test_many_systems():
    models = {"b'ad": RUN.with_columns(score=-pl.col("score")), "good": RUN}
    result = rankql.evaluate(models, QRELS, METRICS)
    assert result.per_query.columns == ["system", "query", *METRICS]
    for name, run in models.items():
        expected = rankql.evaluate(run, QRELS, METRICS).per_query
        same(result.per_query.filter(system=name).drop("system"), expected)
    table = pl.concat([run.with_columns(model=pl.lit(name)) for name, run in models.items()])
    column = rankql.evaluate(table, QRELS, METRICS, system="model")
    same(column.per_query, result.per_query)
    same(column.summary, result.summary)
    with pytest.raises(rankql.RankqlError, match="several systems"):
        result["AP"]


@few(1)("options", [{"ties": "best"}, {"unjudged": "remove"}])
@pytest.mark.parametrize("home", [0, 1])
def test_attributes_where_all_items_are_joined(home, options):
    tables = [RUN, QRELS]
    tables[home] = tables[home].with_columns(segment=pl.lit("s"))
    result = rankql.evaluate(*tables, METRICS, by="segment", **options)
    plain = rankql.evaluate(RUN, QRELS, METRICS, **options)
    assert_frame_equal(result.per_query.drop("segment"), plain.per_query)


def test_an_attribute_of_one_run_is_that_of_the_query():
    """A query that one system lacks belongs to the slice that the other says."""
    one = RUN.with_columns(seg=pl.col("query").str.slice(0, 2))
    two = one.filter(pl.col("query") != one["query"][0])
    result = rankql.evaluate({"one": one, "two": two}, QRELS, "AP", by="seg").per_query
    row = result.filter(system="two", query=one["query"][0])
    assert row["seg"].to_list() == [one["seg"][0]]


@pytest.mark.parametrize("lacking", ["a", "b"])
def test_an_attribute_that_only_some_runs_have(lacking):
    runs = dict.fromkeys("ab", RUN.with_columns(device=pl.lit("phone"))) | {lacking: RUN}
    for function in (rankql.evaluate, rankql.compare):
        with pytest.raises(rankql.RankqlError, match=f"no column .* in run '{lacking}'"):
            function(runs, QRELS, by="device")


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


@few(1)("name", ["member_id", "customer_id", "device_id", "seller", "Member-ID"])
def test_names_of_users_join_queries_and_some_are_never_queries(name):
    run = pl.DataFrame({"query": list("abcd"), "item": ["x"] * 4, "score": [1.0] * 4})
    users = pl.DataFrame({"query": list("abcd"), name: ["u", "u", "v", "v"]})
    judged = run.select("query", "item", rel=1).join(users, on="query")
    notes = rankql.evaluate(run, judged, "RR").notes
    assert any(f"Queries with the same {name} are not independent" in note for note in notes)
    if name in ("device_id", "seller"):
        with pytest.raises(rankql.RankqlError, match="No query column"):
            rankql.evaluate(run.rename({"query": name}), judged, "RR")

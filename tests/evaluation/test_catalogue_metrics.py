"""Metrics of the catalogue and of lists in evaluate and compare; the jackknife by brute force."""

import ast
import random
import re

import duckdb
import polars as pl
import pytest

import rankql
from rankql import RankqlError

RUN = pl.DataFrame(
    [
        (f"u{user}", f"i{item}", place, item * item % 50, ["a", "b"][item % 2])
        for user in range(12)
        for place, item in enumerate(random.Random(user).sample(range(20), 5), 1)
    ],
    schema=["query", "item", "pos", "popularity", "category"],
    orient="row",
).with_columns(created=pl.col("popularity") / 2, shown=pl.col("pos") + 30.0)
METRICS = {
    "coverage@3": "catalogue_coverage(item, catalogue := 25)",
    "gini@3": "gini(item, 25)",
    "gini": "gini(item, catalogue := 25, norm := 'n-1')",
    "entropy@3": "shannon_entropy(item)",
    "popularity@4": "average_popularity(popularity)",
    "novelty@4": "novelty(popularity, users := 60)",
    "freshness@3": "freshness(created, shown)",
    "personalisation@3": "personalisation(query, item)",
}
OURS = {
    "coverage@3": rankql.catalogue_coverage("item", catalogue=25),
    "gini@3": rankql.gini("item", catalogue=25),
    "gini": rankql.gini("item", catalogue=25, norm="n-1"),
    "entropy@3": rankql.shannon_entropy("item"),
    "popularity@4": rankql.average_popularity("popularity"),
    "novelty@4": rankql.novelty("popularity", users=60),
    "freshness@3": rankql.freshness("created", "shown"),
    "personalisation@3": rankql.personalisation("query", "item"),
}


def jackknife(run, metric):
    """The value of all rankings, and the pseudo-values by leaving out one after the other."""
    shown = run.filter(pl.col("pos") <= int(metric.partition("@")[2] or 5))
    value, queries = shown.select(OURS[metric]).item(), sorted(set(run["query"]))
    others = [shown.filter(pl.col("query") != q).select(OURS[metric]).item() for q in queries]
    mean, n = sum(others) / len(queries), len(queries)
    return value, [value + (n - 1) * (mean - other) for other in others]


def test_values_and_intervals_are_those_of_the_jackknife():
    result = rankql.evaluate(RUN, metrics=METRICS, rel="1", interval="t")
    for metric in METRICS:
        value, pseudo = jackknife(RUN, metric)
        assert result[metric] == pytest.approx(value, abs=1e-11)
        assert result.per_query[metric].to_list() == pytest.approx(pseudo, abs=1e-11)
    assert result.notes[0].startswith("coverage@3, gini@3, gini, entropy@3, ")
    # 2.2010 is the quantile of t with 11 degrees of freedom.
    value, pseudo = jackknife(RUN, "gini@3")
    row = result.summary.filter(metric="gini@3").row(0, named=True)
    error = pl.Series(pseudo).std() / 12**0.5
    assert row["hi"] - value == pytest.approx(2.20098516 * error, rel=1e-7)
    few = rankql.evaluate(RUN[:15], metrics={"gini": "gini(item, 25)"}, rel="1").summary
    assert few["lo"][0] >= 0 and few["hi"][0] <= 1


@pytest.mark.parametrize("missing", ["zero", "skip"])
def test_judged_queries_count_and_missing_ones_show_nothing(missing):
    qrels = RUN.filter(pl.col("pos") == 2).select("query", "item", rel=1)
    run = RUN.filter(pl.col("query") != "u3").with_columns(score=-pl.col("pos")).drop("pos")
    metrics = {name: METRICS[name] for name in ("coverage@3", "gini@3", "novelty@4")}
    options = {"missing": missing, "undefined": "zero"}
    result = rankql.evaluate(run, qrels.filter(pl.col("query") != "u5"), metrics, **options)
    shown = RUN.filter(~pl.col("query").is_in(["u3", "u5"]))
    for metric in metrics:
        assert result[metric] == pytest.approx(jackknife(shown, metric)[0], abs=1e-11)


def test_compare_knows_the_direction_and_each_system_by_itself():
    other = RUN.with_columns(pl.col("item").replace({"i1": "i2"}))
    other = other.unique(["query", "item"], maintain_order=True)
    metrics = {name: METRICS[name] for name in ("gini@3", "coverage@3")}
    qrels = RUN.select("query", "item", rel=1)
    table = rankql.compare({"a": RUN, "b": other}, qrels, metrics=metrics).table
    for row in table.to_dicts():
        value, changed = (jackknife(run, row["metric"])[0] for run in (RUN, other))
        assert row["mean_a"] == pytest.approx(value, abs=1e-11)
        assert row["difference"] == pytest.approx(changed - value, abs=1e-11)
    result = rankql.evaluate(RUN, qrels, metrics)
    assert result.lower_is_better("gini@3") and not result.lower_is_better("coverage@3")


def test_metrics_of_lists_are_means():
    """A metric of one list is any expression over its rows."""
    metrics = {
        "diversity@3": "category_diversity(category, pos)",
        "serendipity": "serendipity(rel, popularity > 20, pos)",
    }
    qrels = RUN.filter(pl.col("pos") < 4).select("query", "item", rel=1)
    result = rankql.evaluate(RUN, qrels, metrics)
    joined = RUN.join(qrels, on=["query", "item"], how="left")
    lists = joined.group_by("query").agg(
        rankql.category_diversity("category", "pos", 3).alias("diversity"),
        rankql.serendipity("rel", pl.col("popularity") > 20, "pos"),
    )
    assert result["diversity@3"] == pytest.approx(lists["diversity"].mean())
    assert result["serendipity"] == pytest.approx(lists["serendipity"].mean())


@pytest.mark.parametrize(
    "metric, options, message",
    [
        ("1 - gini(item, 25)", {}, "^metrics: m = 1 - .* it must be one call of catalogue_cov"),
        ("gini(popularity, 25)", {}, "it must be one call of .*, such as gini"),
        ("exposure(pos)", {}, "it must be one call of"),
        ("gini(item)", {}, "^catalogue must be given: the number of items"),
        ("gini(item, 3)", {}, "3 is less than the 20 that were shown"),
        ("gini(item, 'shown')", {}, "It supports .*catalogue := 500.*, with the number"),
        ("gini(item, catalogue := 5 * 10)", {}, "in digits, and norm := 'n-1'$"),
        ("gini(item, catalogue = 50)", {}, "^metrics: m = .* has an option that evaluate does not"),
        ("gini(item)", {"catalogue": 50}, "^catalogue is an option of .* Write it in the metric"),
        ("freshness(created / NULL, shown)", {}, "^m is NULL for all queries: nothing is shown"),
        ("novelty(popularity, 60, unseen := 'max')", {}, "It supports novelty.popularity, users"),
        (
            "gini(item, 25)",
            {"by": "category"},
            r"^m describes all .* and has no by= \('cat",
        ),
        ("gini(item, 25)", {"weight": "w"}, r"is not a mean and has no weight= \('w'\)"),
        ("gini(item, 25)", {"ties": "expected"}, "^m needs positions, but ties='expected'"),
    ],
)
def test_what_is_refused(metric, options, message):
    run = RUN.with_columns(w=1.0, category=pl.lit("a"), score=-pl.col("pos")).drop("pos")
    if metric == "exposure(pos)":
        run = RUN
    with pytest.raises(RankqlError, match=message):
        rankql.evaluate(run, metrics={"m": metric}, rel="1", **options)


def test_the_suggested_form_works():
    suggestion = "{'gini@10': 'gini(item, catalogue := 500)'}"
    with pytest.raises(RankqlError, match=re.escape(suggestion)):
        rankql.evaluate(RUN, metrics="gini@10", rel="1")
    assert rankql.evaluate(RUN, metrics=ast.literal_eval(suggestion), rel="1")["gini@10"] > 0


def test_lists_that_repeat_an_item_and_too_few_lists_are_refused():
    again = RUN[:1].with_columns(pos=pl.lit(9, pl.Int64))
    with pytest.raises(RankqlError, match=r"^m: a ranking repeats an item. Keep one row of each"):
        rankql.evaluate(pl.concat([RUN, again]), metrics={"m": "gini(item, 25)"}, rel="0")
    two = RUN.filter(pl.col("query").is_in(["u1", "u2"]))
    with pytest.raises(RankqlError, match=r"^m needs more queries: it is undefined without one"):
        rankql.evaluate(two, metrics={"m": "personalisation(query, item)"}, rel="1")
    same = RUN.filter(pl.col("query") == "u1")
    same = pl.concat([same, same.with_columns(query=pl.lit("u2"))])
    equal = rankql.evaluate(same, metrics={"m": METRICS["coverage@3"]}, rel="1").summary
    assert equal.select("mean", "lo", "hi").row(0) == (pytest.approx(5 / 25), None, None)
    one = rankql.evaluate(RUN[:5], metrics={"m": "gini(item, 25)"}, rel="1")
    assert one["m"] == pytest.approx(0.8) and one.summary["lo"].to_list() == [None]


def test_they_need_all_queries_at_once(monkeypatch):
    def short_of_memory(*_, **__):
        raise duckdb.OutOfMemoryException("Out of Memory Error: no room")

    monkeypatch.setattr("rankql.evaluation.evaluate.fetch_frame", short_of_memory)
    with pytest.raises(RankqlError, match=r"^gini@3 needs all queries at once. Raise memory_limit"):
        rankql.evaluate(RUN, metrics={"gini@3": METRICS["gini@3"]}, rel="1")


def test_systems_with_different_queries_are_refused():
    """Their pseudo-values are not those of the same rankings."""
    few, metrics = RUN.filter(pl.col("query") < "u4"), {"gini@3": METRICS["gini@3"]}
    message = (
        r"^gini@3 describes all .* 6 of 12 queries are missing in '(b|baseline)', such as 'u4'"
    )
    runs, qrels = {"a": RUN, "b": few}, RUN.select("query", "item", rel=1)
    with pytest.raises(RankqlError, match=message):
        rankql.compare(runs, metrics=metrics, rel="1")
    with pytest.raises(RankqlError, match=message):
        rankql.compare(runs, qrels, metrics=metrics, missing="skip")
    results = [rankql.evaluate(run, metrics=metrics, rel="1") for run in (RUN, few)]
    with pytest.raises(RankqlError, match=message):
        rankql.gate(results[0], baseline=results[1], max_drop="gini@3:0.1")
    with pytest.raises(RankqlError, match=r"^gini@3 cannot be combined: .* Evaluate them together"):
        rankql.combine(results)
    # A judged query that a run lacks shows nothing, in one run as in the other.
    table = rankql.compare(runs, qrels, metrics=metrics).table
    assert table["mean_b"][0] == pytest.approx(jackknife(few, "gini@3")[0])
    assert table.select("wins", "ties", "losses").row(0) == (None, None, None)

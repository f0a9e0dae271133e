"""Means under a few human labels, corrected by a judge that labelled all queries."""

import math

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.judged_runs import corrected, half_width, simulated

METRICS = ["nDCG@5", "P@3"]


def arrays(run, human, judge, metric):
    """Values under human labels, and under the judge's labels of the same and of other queries."""
    y, f = (rankql.evaluate(run, x, metric).per_query.fill_null(math.nan) for x in (human, judge))
    same = f.join(y, on="query", how="semi").sort("query")
    other = f.join(y, on="query", how="anti")
    return tuple(x[metric].to_numpy() for x in (y.sort("query"), same, other))


@pytest.mark.parametrize("metric", [*METRICS, "AP(rel=3)"])
def test_means_are_corrected(metric):
    """With t and the range of the metric; undefined values too, of AP(rel=3)."""
    run, human, judge, _ = simulated()
    row = rankql.evaluate(run, human, metric, judge=judge, interval="t").summary.row(0, named=True)
    expected = corrected(*arrays(run, human, judge, metric))
    width = half_width(expected)
    assert row["mean"] == pytest.approx(expected.mean)
    assert row["lo"] == pytest.approx(expected.mean - width)
    assert row["hi"] == pytest.approx(expected.mean + width)
    assert row["lambda"] == pytest.approx(expected.lam)
    assert row["worth"] == expected.worth(0.05)
    assert (row["queries"], row["judged"]) == (30, 80)


def test_the_interval_is_narrower_than_that_of_human_labels():
    run, human, judge, _ = simulated()
    alone = rankql.evaluate(run, human, METRICS).summary
    result = rankql.evaluate(run, human, METRICS, judge=judge)
    widths = (result.summary["hi"] - result.summary["lo"]) / (alone["hi"] - alone["lo"])
    assert widths.max() < 0.8
    assert result.summary["worth"].min() > 40
    assert result.per_query["query"].n_unique() == 30  # under human labels
    assert result.judge.per_query.height == 80
    assert result["nDCG@5"] == result.summary["mean"][0]
    assert "lambda" in repr(result)


def test_a_useless_judge_changes_nothing():
    run, human, judge, _ = simulated()
    constant = judge.with_columns(rel=1)
    alone = rankql.evaluate(run, human, "P@3").summary.row(0, named=True)
    row = rankql.evaluate(run, human, "P@3", judge=constant).summary.row(0, named=True)
    assert row["lambda"] == 0
    assert {name: row[name] for name in alone} == alone


def test_slices_systems_and_weights():
    run, human, judge, about = simulated()
    options = {"by": "lang", "attributes": about, "weight": "traffic"}
    runs = {"one": run, "other": run.with_columns(score=-pl.col("score"))}
    result = rankql.evaluate(runs, human, METRICS, judge=judge, interval="t", **options)
    assert result.summary.height == 2 * 3 * 2
    weights = about.sort("query").select("query", pl.col("traffic").cast(float))
    y, f, u = arrays(run, human, judge, "P@3")
    with_human = weights.join(human, on="query", how="semi")["traffic"].to_numpy()
    without = weights.join(human, on="query", how="anti")["traffic"].to_numpy()
    order = rankql.evaluate(run, judge, "P@3").per_query["query"].is_sorted()
    assert order
    expected = corrected(y, f, u, weights=(with_human, without))
    row = result.summary.filter(system="one", slice="all", metric="P@3").row(0, named=True)
    assert row["mean"] == pytest.approx(expected.mean)
    assert row["hi"] - row["lo"] == pytest.approx(2 * half_width(expected))
    part = about.filter(pl.col("lang") == "de")["query"].implode()
    alone = rankql.evaluate(
        run, human.filter(pl.col("query").is_in(part)), METRICS, interval="t",
        judge=judge.filter(pl.col("query").is_in(part)), attributes=about, weight="traffic",
    )  # fmt: skip
    rows = result.summary.filter(system="one", slice="lang=de")
    assert rows["mean"].to_list() == pytest.approx(alone.summary["mean"].to_list())


def test_a_slice_of_few_human_queries_is_not_corrected():
    run, human, judge, about = simulated(labelled=14)
    options = {"by": "lang", "attributes": about}
    result = rankql.evaluate(run, human, "P@3", judge=judge, **options)
    alone = rankql.evaluate(run, human, "P@3", **options)
    small = result.summary.filter(pl.col("queries") < 10)
    assert small.height == small["lambda"].null_count() >= 1
    expected = alone.summary.filter(pl.col("queries") < 10)
    assert small.select(expected.columns).equals(expected)
    assert "does not correct" in result.remarks()[-1]


def test_ids_of_different_types():
    run, human, judge, _ = simulated()
    numbers = [x.with_columns(pl.col("query").str.slice(1).cast(int)) for x in (run, human, judge)]
    expected = rankql.evaluate(*numbers[:2], METRICS, judge=numbers[2]).summary["mean"].to_list()
    text = numbers[2].with_columns(pl.col("query").cast(str))
    found = rankql.evaluate(*numbers[:2], METRICS, judge=text).summary
    assert found["mean"].to_list() == pytest.approx(expected)


def test_queries_that_are_not_a_random_sample_are_noted():
    run, _, judge, _ = simulated()
    values = rankql.evaluate(run, judge, "nDCG@5").per_query.sort("nDCG@5")
    best = judge.filter(pl.col("query").is_in(values["query"].tail(30).implode()))
    notes = rankql.evaluate(run, best, "nDCG@5", judge=judge).notes
    assert any("not a random sample" in note for note in notes)
    human = simulated()[1]
    notes = rankql.evaluate(run, human, "nDCG@5", judge=judge).notes
    assert not any("not a random sample" in note for note in notes)


def test_a_few_pairs_with_one_label_are_noted():
    run, human, judge, _ = simulated()
    notes = rankql.evaluate(run, human.slice(1), METRICS, judge=judge).notes
    assert any("1 of 360" in note for note in notes)


def test_queries_of_the_run_without_any_label_are_noted():
    run, human, judge, _ = simulated()
    more = pl.concat([run, run.head(12).with_columns(query=pl.lit("other"))])
    results = [rankql.evaluate(x, human, "P@3", judge=judge) for x in (run, more)]
    unjudged = [[note for note in x.notes if "left out" in note] for x in results]
    assert [len(notes) for notes in unjudged] == [0, 1]
    assert unjudged[1][0].startswith("1 of 81 queries")
    assert results[0].summary.equals(results[1].summary)


NINE = [f"q{i:03}" for i in range(9)]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda human, judge: (judge.filter(pl.col("query").is_in(NINE)), judge), "at least 10"),
        (lambda human, judge: (human, human.slice(12)), "not labelled by the judge"),
        (lambda human, judge: (human, judge.filter(pl.col("item") < "d5")), "both labels"),
        (lambda human, judge: (human, human), "nothing to correct"),
        (lambda human, judge: (human, judge.drop("rel", "item")), "judge: "),
    ],
)
def test_refusals(change, word):
    run, human, judge, _ = simulated()
    human, judge = change(human, judge)
    with pytest.raises(RankqlError, match=word):
        rankql.evaluate(run, human, METRICS, judge=judge)


@pytest.mark.parametrize(
    ("metrics", "options", "word"),
    [
        ("microRMSE", {}, "microRMSE"),
        ("P@3", {"unjudged": "bounds"}, "bounds"),
        ("P@3", {"output": "values.parquet"}, "output="),
    ],
)
def test_what_has_no_mean_per_query_is_refused(metrics, options, word):
    run, human, judge, _ = simulated()
    with pytest.raises(RankqlError, match=word):
        rankql.evaluate(run, human, metrics, judge=judge, **options)

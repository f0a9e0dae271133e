"""compare and gate with labels of a judge: differences under a few human labels, corrected."""

import math

import numpy as np
import polars as pl
import pytest

import rankql
from support.judged_runs import corrected, half_width, simulated, student_width
from support.parameters import few

RUN, HUMAN, JUDGE, ABOUT = simulated()
NOISE = pl.Series(np.random.default_rng(9).normal(0, 2, RUN.height))
RUNS = {"old": RUN.with_columns(pl.col("score") + NOISE), "new": RUN}


def arrays(labels, metric, runs=RUNS):
    """The differences new - old of each query, with its attributes."""
    values = rankql.evaluate(runs, labels, metric).per_query.fill_null(math.nan)
    wide = values.pivot("system", index="query", values=metric)
    return (
        wide.select("query", d=pl.col("new") - pl.col("old")).join(ABOUT, on="query").sort("query")
    )


def expected(metric, part=None, cluster=None, weight=None, **options):
    """The corrected mean, by the function of arrays."""
    human, judge = arrays(HUMAN, metric), arrays(JUDGE, metric)
    if part is not None:
        human, judge = human.filter(part), judge.filter(part)
    frames = [judge.join(human, on="query", how=how) for how in ("semi", "anti")]
    pair = None if weight is None else [frame[weight].to_numpy().astype(float) for frame in frames]
    codes = None if cluster is None else [frame[cluster].to_numpy().astype(int) for frame in frames]
    values = (frame["d"].to_numpy() for frame in (human, *frames))
    return corrected(*values, codes, pair, **options)


@few(1)("metric", ["nDCG@5", "AP(rel=3)"])
@pytest.mark.parametrize(
    "options", [{}, {"cluster": "user"}, {"weight": "traffic"}], ids=["plain", "cluster", "weight"]
)
def test_differences_are_corrected(metric, options):
    comparison = rankql.compare(
        RUNS, qrels=HUMAN, metrics=metric, judge=JUDGE, attributes=ABOUT, test="t", **options
    )
    row, sample = comparison.pairs.row(0, named=True), expected(metric, **options)
    assert row["difference"] == pytest.approx(sample.mean)
    assert row["mean_b"] - row["mean_a"] == pytest.approx(sample.mean)
    assert row["lo"] == pytest.approx(sample.mean - half_width(sample))
    assert row["hi"] == pytest.approx(sample.mean + half_width(sample))
    assert (row["lambda"], row["worth"]) == (pytest.approx(sample.lam), sample.worth(student_width))
    assert (row["verdict"] == "not significant") == (row["lo"] < 0 < row["hi"])
    assert f"worth {sample.worth(student_width)}" in row["sentence"]


@pytest.mark.slow
def test_slices():
    options = {"metrics": "P@3", "by": "lang", "attributes": ABOUT, "correction": "none"}
    table = rankql.compare(RUNS, qrels=HUMAN, judge=JUDGE, **options).pairs
    for lang in ("de", "en"):
        row = table.filter(slice=f"lang={lang}").row(0, named=True)
        assert row["difference"] == pytest.approx(expected("P@3", pl.col("lang") == lang).mean)


@pytest.mark.slow
def test_a_slice_of_few_human_queries_is_not_corrected():
    few = HUMAN.filter(pl.col("query").is_in(HUMAN["query"].unique().sort().head(30).implode()))
    options = {"metrics": "P@3", "by": "lang", "attributes": ABOUT}
    table = rankql.compare(RUNS, qrels=few, judge=JUDGE, **options).pairs
    alone = rankql.compare(RUNS, qrels=few, **options).pairs
    small = pl.col("n") < 20
    assert table.filter(small)["lambda"].null_count() == table.filter(small).height >= 1
    columns = ["difference", "mean_a", "mean_b"]
    assert table.filter(small)[columns].equals(alone.filter(small)[columns])


def test_intervals_are_narrower_than_those_of_human_labels_alone():
    alone, comparison = (
        rankql.compare(RUNS, qrels=HUMAN, metrics=["nDCG@5", "AP"], judge=judge)
        for judge in (None, JUDGE)
    )
    assert {"lambda", "worth"} <= {*comparison.summary.columns}
    assert comparison.leaderboard().height == 4
    assert comparison.differences("AP", "old", "new").height == 60  # under human labels
    row, of_people = (x.pairs.row(0, named=True) for x in (comparison, alone))
    assert row["hi"] - row["lo"] < 0.9 * (of_people["hi"] - of_people["lo"])
    assert row["n"] == of_people["n"] == 60 and row["detectable"] < of_people["detectable"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"cluster": "user"}, {"weight": "traffic"}])
def test_gate_decides_by_the_corrected_interval(options):
    about = {"attributes": ABOUT, **options}
    limits = {"minimum": "nDCG@5>=0.5", "max_drop": "nDCG@5:0.05", "minimum_bound": True}
    verdict = rankql.gate(RUNS["new"], HUMAN, RUNS["old"], judge=JUDGE, **limits, **about)
    mean, drop = verdict.table.rows(named=True)
    compared = rankql.compare(RUNS, qrels=HUMAN, metrics="nDCG@5", judge=JUDGE, **about)
    row = compared.pairs.row(0, named=True)
    for name in ("difference", "lo", "hi"):
        assert drop[name] == pytest.approx(row[name])
    assert drop["mean"] - drop["baseline"] == pytest.approx(row["difference"])
    if "cluster" not in options:
        result = rankql.evaluate(RUNS["new"], HUMAN, "nDCG@5", judge=JUDGE, **about)
        for name, value in result.summary.select("mean", "lo", "hi").row(0, named=True).items():
            assert mean[name] == pytest.approx(value)
    alone = rankql.gate(RUNS["new"], HUMAN, RUNS["old"], **limits, **about).table
    for limit, width in zip((mean, drop), alone["hi"] - alone["lo"], strict=True):
        assert limit["hi"] - limit["lo"] < width
    assert any("corrected by the judge" in note for note in verdict.result.notes)


def test_too_few_other_queries_leave_the_result_of_people():
    """In compare and gate, which say how many queries the judge must label."""
    human = HUMAN["query"].unique()
    others = JUDGE.filter(~pl.col("query").is_in(human.implode()))["query"].unique().sort().head(59)
    judge = JUDGE.filter(pl.col("query").is_in(pl.concat([human, others]).implode()))
    alone, few = (rankql.compare(RUNS, qrels=HUMAN, metrics="P@3", judge=x) for x in (None, judge))
    columns = ["mean_a", "mean_b", "difference", "lo", "hi", "p", "detectable"]
    for row, plain in zip(few.pairs[columns].row(0), alone.pairs[columns].row(0), strict=True):
        assert row == pytest.approx(plain)
    assert few.pairs.select("lambda", "worth").row(0) == (0, 60)
    verdict = rankql.gate(RUNS["new"], HUMAN, RUNS["old"], judge=judge, minimum="P@3>=0.1")
    for result in (few, verdict):
        assert "fewer than the 60 with them" in repr(result)
        assert repr(result).count("Not corrected by the judge (lambda 0): 1 of 1 mean") == 1


@pytest.mark.slow
def test_the_judge_of_a_difference_is_chosen_for_the_difference():
    """The means of both systems are close to 1, where the judge widens intervals."""
    rng, size = np.random.default_rng(8), 300
    keys = pl.DataFrame({"query": [f"q{i:03}" for i in range(size)] * 2,
                         "item": np.repeat(["a", "b"], size)})  # fmt: skip
    people = (rng.random(2 * size) < 0.95).astype(int)
    of_judge = np.where(rng.random(2 * size) < 0.05, 1 - people, people)
    human, judge = (keys.with_columns(rel=pl.Series(x)) for x in (people, of_judge))
    human = human.filter(pl.col("query") < "q060")
    runs = {x: keys.filter(item=x).with_columns(score=1.0) for x in ("a", "b")}
    means = rankql.evaluate(runs, human, "P@1", judge=judge).summary
    assert means["lambda"].min() == 0
    compared = [
        rankql.compare(runs, qrels=human, metrics="P@1", judge=judge, confidence=confidence)
        for confidence in (0.8, 0.95, 0.99)
    ]
    columns = ["lambda", "difference", "mean_a", "mean_b", "p"]
    rows = {each.pairs.select(columns).row(0) for each in compared}
    assert len(rows) == 1 and rows.pop()[0] > 0


@pytest.mark.slow
@few(1)("test", ["auto", "t"])
def test_no_interval_is_wider_than_that_of_people(test):
    """Of any row, at the level of its test; `worth` is of the interval shown."""
    corrected_rows = 0
    for seed in (0, 1, 5):
        rng, size = np.random.default_rng(seed), 300
        keys = pl.DataFrame({"query": [f"q{i:03}" for i in range(size)] * 2,
                             "item": np.repeat(["a", "b"], size)})  # fmt: skip
        keys = keys.with_columns(part=pl.col("query").str.tail(1).cast(int) % 2)
        people = (rng.random(2 * size) < 0.9).astype(int)
        of_judge = np.where(rng.random(2 * size) < 0.03, 1 - people, people)
        human, judge = (keys.with_columns(rel=pl.Series(x)) for x in (people, of_judge))
        human = human.filter(pl.col("query") < "q050")
        runs = {x: keys.filter(item=x).select("query", "item", score=1.0) for x in ("a", "b")}
        alone, both = (
            rankql.compare(
                runs, human.drop("part"), "P@1", judge=labels, test=test, by="part",
                attributes=keys.select("query", "part").unique(), correction="none",
            ).pairs
            for labels in (None, judge.drop("part"))
        )  # fmt: skip
        ratios = (both["hi"] - both["lo"]) / (alone["hi"] - alone["lo"])
        assert ratios.max() <= 1.02
        for ratio, worth, n in zip(ratios, both["worth"], both["n"], strict=True):
            assert worth <= n or ratio < 1
            corrected_rows += ratio < 0.9
    assert corrected_rows > 4

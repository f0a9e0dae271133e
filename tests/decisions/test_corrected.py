"""compare and gate with labels of a judge: differences under a few human labels, corrected."""

import math

import numpy as np
import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.judged_runs import corrected, half_width, simulated

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


@pytest.mark.parametrize("metric", ["nDCG@5", "AP(rel=3)"])
@pytest.mark.parametrize(
    "options", [{}, {"cluster": "user"}, {"weight": "traffic"}], ids=["plain", "cluster", "weight"]
)
def test_differences_are_corrected(metric, options):
    comparison = rankql.compare(
        RUNS, qrels=HUMAN, metrics=metric, judge=JUDGE, attributes=ABOUT, test="t", **options
    )
    row, found = comparison.table.row(0, named=True), expected(metric, **options)
    assert row["difference"] == pytest.approx(found.mean)
    assert row["mean_b"] - row["mean_a"] == pytest.approx(found.mean)
    assert row["lo"] == pytest.approx(found.mean - half_width(found))
    assert row["hi"] == pytest.approx(found.mean + half_width(found))
    assert (row["lambda"], row["worth"]) == (pytest.approx(found.lam), found.worth(0.05))
    assert (row["verdict"] == "not significant") == (row["lo"] < 0 < row["hi"])
    assert f"worth {found.worth(0.05)}" in row["sentence"]


def test_slices():
    comparison = rankql.compare(
        RUNS, qrels=HUMAN, metrics="P@3", judge=JUDGE, by="lang", attributes=ABOUT,
        correction="none",
    )  # fmt: skip
    for lang in ("de", "en"):
        row = comparison.table.filter(slice=f"lang={lang}").row(0, named=True)
        assert row["difference"] == pytest.approx(expected("P@3", pl.col("lang") == lang).mean)


def test_a_slice_of_few_human_queries_is_not_corrected():
    few = HUMAN.filter(pl.col("query").is_in(HUMAN["query"].unique().sort().head(14).implode()))
    options = {"metrics": "P@3", "by": "lang", "attributes": ABOUT}
    table = rankql.compare(RUNS, qrels=few, judge=JUDGE, **options).table
    alone = rankql.compare(RUNS, qrels=few, **options).table
    small = pl.col("n") < 10
    assert table.filter(small)["lambda"].null_count() == table.filter(small).height >= 1
    columns = ["difference", "mean_a", "mean_b"]
    assert table.filter(small)[columns].equals(alone.filter(small)[columns])


def test_the_interval_is_narrower():
    alone, corrected = (
        rankql.compare(RUNS, qrels=HUMAN, metrics="nDCG@5", judge=judge).table.row(0, named=True)
        for judge in (None, JUDGE)
    )
    assert corrected["hi"] - corrected["lo"] < 0.9 * (alone["hi"] - alone["lo"])
    assert corrected["n"] == alone["n"] == 30
    assert corrected["detectable"] < alone["detectable"]


def test_results_keep_the_contract(tmp_path):
    comparison = rankql.compare(RUNS, qrels=HUMAN, metrics=["P@3", "AP"], judge=JUDGE)
    assert {"lambda", "worth"} <= {*comparison.summary.columns}
    comparison.save(tmp_path / "comparison.json")
    assert comparison.leaderboard().height == 4
    assert comparison.differences("AP", "old", "new").height == 30  # under human labels


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"test": "randomisation"}, "randomisation"),
        ({"test": "anytime"}, "anytime"),
        ({"metrics": "Coverage@3"}, "Coverage"),
    ],
)
def test_refusals(options, word):
    with pytest.raises(RankqlError, match=word):
        rankql.compare(RUNS, qrels=HUMAN, judge=JUDGE, **{"metrics": "P@3", **options})


def test_results_have_no_labels_for_a_judge():
    values = {name: rankql.evaluate(run, HUMAN, "P@3") for name, run in RUNS.items()}
    with pytest.raises(RankqlError, match="judge="):
        rankql.compare(values, judge=JUDGE)
    corrected = rankql.evaluate(RUN, HUMAN, "P@3", judge=JUDGE)
    with pytest.raises(RankqlError, match="judge="):
        rankql.compare({"a": corrected, "b": values["old"]})


@pytest.mark.parametrize("options", [{}, {"cluster": "user"}, {"weight": "traffic"}])
def test_gate_decides_by_the_corrected_interval(options):
    about = {"attributes": ABOUT, **options}
    limits = {"minimum": "nDCG@5>=0.5", "max_drop": "nDCG@5:0.05", "minimum_bound": True}
    verdict = rankql.gate(RUNS["new"], HUMAN, baseline=RUNS["old"], judge=JUDGE, **limits, **about)
    mean, drop = verdict.table.rows(named=True)
    compared = rankql.compare(
        RUNS, qrels=HUMAN, metrics="nDCG@5", judge=JUDGE, test="auto", **about
    )
    row = compared.table.row(0, named=True)
    for name in ("difference", "lo", "hi"):
        assert drop[name] == pytest.approx(row[name])
    assert drop["mean"] - drop["baseline"] == pytest.approx(row["difference"])
    if "cluster" not in options:
        means = rankql.evaluate(RUNS["new"], HUMAN, "nDCG@5", judge=JUDGE, **about).summary.row(
            0, named=True
        )
        for name in ("mean", "lo", "hi"):
            assert mean[name] == pytest.approx(means[name])
    alone = rankql.gate(RUNS["new"], HUMAN, baseline=RUNS["old"], **limits, **about).table
    widths = (alone["hi"] - alone["lo"]).to_list()
    assert mean["hi"] - mean["lo"] < widths[0]
    assert drop["hi"] - drop["lo"] < widths[1]
    assert any("corrected by the judge" in note for note in verdict.result.notes)


def test_a_gate_needs_human_labels():
    with pytest.raises(RankqlError, match="human labels"):
        rankql.gate(RUN.join(JUDGE, on=["query", "item"]), judge=JUDGE, minimum="P@3>=0.1")
    result = rankql.evaluate(RUN, HUMAN, "P@3")
    with pytest.raises(RankqlError, match="judge="):
        rankql.gate(result, judge=JUDGE, minimum="P@3>=0.1")

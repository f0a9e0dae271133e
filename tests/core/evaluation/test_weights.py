"""Weighted means: evaluate, compare, gate, the macro and the command line."""

import re
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy import stats

import rankql
from rankql.core.stats.sample import Sample
from support import metric_engines
from support.own_values import compare_values, gate_values
from support.parameters import few
from support.refusals import refuses

N = 24
RNG = np.random.default_rng(5)
QUERIES = [f"q{i:02}" for i in range(N)]
RUNS = {
    name: pl.DataFrame({"query": np.repeat(QUERIES, 3), "item": [*"abc"] * N}).with_columns(
        score=RNG.random(3 * N)
    )
    for name in ("old", "new")
}
QRELS = pl.DataFrame({"query": np.repeat(QUERIES, 2), "item": [*"ab"] * N}).with_columns(
    rel=pl.Series([1, *RNG.integers(0, 3, 2 * N - 1)])
)
ABOUT = pl.DataFrame({"query": QUERIES, "segment": [*"xyz"] * (N // 3)}).with_columns(
    traffic=pl.Series([0, *RNG.integers(1, 30, N - 1)]), same=2.5
)
METRICS = ["nDCG@3", "DCG@3", "microR@1"]


@cache
def evaluated(weight=None, **options):
    return rankql.evaluate(RUNS["old"], QRELS, METRICS, attributes=ABOUT, weight=weight, **options)


@cache
def compared(weight=None, **options):
    return rankql.compare(RUNS, QRELS, METRICS, attributes=ABOUT, weight=weight, **options)


def jackknife(values, weights, confidence=0.95):
    """Each query left out once, and the matrix form of Satterthwaite's degrees of freedom."""
    n, mean = len(values), np.average(values, weights=weights)
    each = np.arange(n)
    left_out = [np.average(values[each != i], weights=weights[each != i]) for i in each]
    error = np.sqrt((n - 1) / n * np.square(np.array(left_out) - mean).sum())
    shares = weights / weights.sum()
    off = (np.eye(n) - shares[:, None]) / (1 - shares)[:, None]
    form = np.sqrt(weights)[:, None] * (off.T @ off) * np.sqrt(weights)
    freedom = np.trace(form) ** 2 / np.trace(form @ form)
    return mean, stats.t.ppf((1 + confidence) / 2, freedom) * error, freedom


def test_macro_is_the_jackknife():
    weights = [3.0, 1, 2, 0, 0.5, 8]
    frame = pl.DataFrame({"value": [0.2, 0.5, None, 0.9, 0.1, 0.7], "weight": weights})
    kept = frame.drop_nulls().filter(pl.col("weight") > 0)
    mean, width, freedom = jackknife(kept["value"].to_numpy(), kept["weight"].to_numpy(), 0.9)
    con = metric_engines.connect()
    in_sql = con.sql("SELECT weighted_mean(value, weight, confidence := 0.9) FROM frame").fetchall()
    in_polars = frame.select(rankql.weighted_mean(confidence=0.9)).item()
    expected = {"mean": mean, "lo": mean - width, "hi": mean + width, "n_eff": 12.5**2 / 74.25}
    for struct in (in_sql[0][0], in_polars):
        assert struct == pytest.approx(expected, abs=1e-12)
    sample = Sample(kept["value"].to_numpy(), None, kept["weight"].to_numpy())
    assert (sample.mean, sample.freedom) == pytest.approx((mean, freedom), abs=1e-12)


def test_macro_by_group():
    frame = pl.DataFrame({"g": [*"aab"], "value": [1.0, 3.0, 5.0], "weight": [1, 3, 2]})
    rows = rankql.weighted_mean(frame, by="g").sort("g")["weighted_mean"].struct.unnest().rows()
    assert [row[0] for row in rows] == [2.5, 5.0]
    assert rows[1] == (5.0, None, None, 1.0)
    none = frame.with_columns(weight=0).select(rankql.weighted_mean()).item()
    assert none == dict.fromkeys(("mean", "lo", "hi", "n_eff"))


ONES = {"value": [1.0, 2.0], "weight": [1, 1]}
test_macro_refuses = refuses(
    "weighted_mean", globals(), "pl.DataFrame(ONES | dict(%s)).select(rankql.weighted_mean())"
)


def test_one_row_with_almost_all_weight_has_no_interval():
    """The weight of the others is lost in the total, so leaving it out cannot be computed."""
    for weights, mean in (([1e17, 1, 1], 0.2), ([1e-99, 3e-99, 1e-99], 0.5)):
        frame = pl.DataFrame({"value": [0.2, 0.5, 0.8], "weight": weights})
        row = frame.select(rankql.weighted_mean()).item()
        assert row["mean"] == pytest.approx(mean) and (row["lo"] is None) == (mean == 0.2)


def test_the_line_counts_what_the_table_counts():
    """A query without a value does not weigh; one query weighs."""
    idle = QRELS.with_columns(rel=pl.when(pl.col("query") == "q01").then(0).otherwise("rel"))
    about = ABOUT.with_columns(same=pl.when(pl.col("query") == "q01").then(1000).otherwise(1))
    result = rankql.evaluate(RUNS["old"], idle, "nDCG@3", attributes=about, weight="same")
    (number,) = result.summary["n_eff"]
    line = next(x for x in result.remarks() if x.startswith("Weights: "))
    assert f"24 queries weigh as much as about {number:.0f} with equal" in line
    assert re.search(r"\d quer(y|ies) without a value do(es)? not count$", line)
    one = [table.filter(pl.col("query") == "q00") for table in (RUNS["old"], QRELS, ABOUT)]
    result = rankql.evaluate(*one[:2], "nDCG@3", attributes=one[2], weight="same")
    assert "1 query weighs as much as about 1" in str(result)


@few(1)("interval", ["auto", "t"])
def test_equal_weights_change_nothing(interval):
    plain = evaluated(by="segment", interval=interval).summary
    same = evaluated("same", by="segment", interval=interval).summary
    assert same.drop("n_eff", "mean", "lo", "hi").equals(plain.drop("mean", "lo", "hi"))
    for name in ("mean", "lo", "hi"):
        assert same[name].to_list() == pytest.approx(plain[name].to_list(), abs=1e-12)
    assert (same["n_eff"] - (same["queries"] - same["undefined"])).abs().max() < 3


def test_evaluate_by_hand():
    result = evaluated("traffic", interval="t")
    rows = result.per_query.filter(pl.col("traffic") > 0).drop_nulls("DCG@3")
    mean, width, _ = jackknife(rows["DCG@3"].to_numpy(), rows["traffic"].to_numpy())
    row = result.summary.filter(metric="DCG@3").row(0, named=True)
    assert (row["mean"], row["hi"]) == pytest.approx((mean, mean + width), abs=1e-12)
    weights = rows["traffic"]
    assert row["n_eff"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert row["queries"] == N
    line = next(x for x in result.remarks() if x.startswith("Weights: "))
    assert "traffic. 24 queries weigh" in line
    assert line.endswith("(n_eff); 1 query of weight 0 does not count")
    assert result.to_dict()["weight"] == "traffic"


def test_whole_weights_are_repeated_queries():
    """Also of metrics over all queries at once."""
    repeated = [
        table.join(ABOUT.select("query", "traffic"), on="query")
        .with_columns(pl.int_ranges("traffic").alias("copy"))
        .explode("copy", empty_as_null=False)
        .with_columns(query=pl.format("{} {}", "query", "copy"))
        for table in (RUNS["old"], QRELS)
    ]
    expected = rankql.evaluate(*repeated, METRICS, interval=None)
    result = evaluated("traffic", interval=None)
    for metric in METRICS:
        assert result[metric] == pytest.approx(expected[metric], abs=1e-12)


def test_compare_weighs_everything():
    comparison = compared("traffic", by="segment")
    means = comparison.summary.filter(metric="DCG@3")
    for row in comparison.pairs.filter(metric="DCG@3").iter_rows(named=True):
        both = dict(means.filter(slice=row["slice"]).select("system", "mean").rows())
        assert both == pytest.approx({"old": row["mean_a"], "new": row["mean_b"]}, abs=1e-12)
        assert row["difference"] == pytest.approx(row["mean_b"] - row["mean_a"], abs=1e-12)
        assert row["lo"] < row["difference"] < row["hi"]
    differences = comparison.differences("DCG@3", "old", "new").filter(pl.col("traffic") > 0)
    mean, width, freedom = jackknife(
        *(differences[x].to_numpy() for x in ("difference", "traffic"))
    )
    alone = compared("traffic", correction="none", test="t").pairs
    row = alone.filter(metric="DCG@3").row(0, named=True)
    assert (row["lo"], row["hi"]) == pytest.approx((mean - width, mean + width), abs=1e-12)
    t = mean / (width / stats.t.ppf(0.975, freedom))
    assert row["p"] == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-12)
    assert row["n"] == N - 1
    assert comparison.to_dict()["settings"]["weight"] == "traffic"
    assert "Weights: traffic" in comparison.to_markdown()


def test_clusters_with_weights():
    """The jackknife leaves out a cluster."""
    codes = np.repeat(np.arange(12), 2)
    d, w = RNG.normal(0.1, 0.2, 24), RNG.uniform(0.5, 9, 24)
    sample = Sample(d, codes, w)
    left = [np.average(d[codes != c], weights=w[codes != c]) for c in range(12)]
    error = np.sqrt(11 / 12 * np.square(np.array(left) - sample.mean).sum())
    assert sample.error == pytest.approx(error, abs=1e-12)


def test_gate_weighs_means_and_drops():
    limits = {"minimum": "DCG@3>=0.1", "max_drop": "DCG@3:0.3"}
    options = {"attributes": ABOUT, "weight": "traffic", "min_queries": 5, "by": "segment"}
    verdict = rankql.gate(RUNS["new"], QRELS, RUNS["old"], **limits, **options)
    comparison = compared("traffic", by="segment").pairs.filter(metric="DCG@3")
    means = dict(comparison.select("slice", "mean_b").rows())
    for row in verdict.table.iter_rows(named=True):
        assert row["mean"] == pytest.approx(means[row["slice"]], abs=1e-12)
        if row["lo"] is not None:
            assert row["lo"] < row["difference"] < row["hi"]
    assert "Weights: traffic" in str(verdict)
    baseline = rankql.evaluate(RUNS["old"], QRELS, METRICS)
    with pytest.raises(rankql.RankqlError, match="different weight: None and traffic"):
        rankql.gate(evaluated("traffic"), baseline=baseline, max_drop="DCG@3:0.3")


def test_a_slice_without_weight():
    """It has no mean, is not compared, and does not fail a gate."""
    idle = pl.when(pl.col("segment") == "x").then(0).otherwise("same").alias("same")
    options = {"attributes": ABOUT.with_columns(idle), "weight": "same", "by": "segment"}
    result = rankql.evaluate(RUNS["old"], QRELS, METRICS, **options)
    rows = result.summary.filter(slice="segment=x").select("mean", "lo", "hi", "n_eff").rows()
    assert rows == [(None,) * 4] * 3
    table = rankql.compare(RUNS, QRELS, "DCG@3", **options).pairs.filter(slice="segment=x")
    assert table.select("n", "difference", "verdict").rows() == [(0, None, "not testable")]
    limits = {"minimum": "DCG@3>=0.01", "max_drop": "DCG@3:2"}
    verdict = rankql.gate(RUNS["new"], QRELS, RUNS["old"], min_queries=5, **limits, **options)
    rows = verdict.table.filter(slice="segment=x").select("status", "message").rows()
    assert rows == [("too few queries", "all 8 queries have weight 0: not checked")] * 2
    assert verdict.passed


@pytest.mark.slow
def test_saved_results_keep_their_weights(tmp_path):
    result, path, plain = evaluated("traffic"), tmp_path / "old.parquet", tmp_path / "plain.parquet"
    result.save_values(path)
    assert rankql.combine(path).summary.equals(result.summary)
    saved = rankql.compare({"a": result, "b": path}, metrics="nDCG@3")
    assert saved.settings.weight == "traffic"
    evaluated(output=plain)
    with pytest.raises(rankql.RankqlError, match="Results have different"):
        rankql.combine([path, plain])


def test_values_per_query_with_weights():
    values = [
        ABOUT.select("query", "traffic", "segment").with_columns(AP=pl.Series(RNG.random(N)))
        for _ in range(2)
    ]
    table = compare_values(dict(zip("ab", values, strict=True)), weight="traffic").pairs
    expected = [np.average(x["AP"][1:], weights=x["traffic"][1:]) for x in values]
    assert [*table.select("mean_a", "mean_b").row(0)] == pytest.approx(expected, abs=1e-12)
    verdict = gate_values(values[1], baseline=values[0], weight="traffic", max_drop="AP:0.5")
    assert verdict.table["mean"][0] == pytest.approx(expected[1], abs=1e-12)


WEIGHTS = ABOUT.select("query", "traffic")
RUN, JUDGED = (table.join(WEIGHTS, on="query") for table in (RUNS["old"], QRELS))


@pytest.mark.slow
def test_the_column_may_be_anywhere(tmp_path):
    expected = evaluated("traffic", interval=None)["nDCG@3"]
    options = {"weight": "traffic", "interval": None}
    ABOUT.write_csv(tmp_path / "about.csv")
    file = {"attributes": str(tmp_path / "about.csv")}
    for tables, more in (((RUN, JUDGED), {}), ((RUNS["old"], QRELS), file)):
        result = rankql.evaluate(*tables, "nDCG@3", **options, **more)
        assert result["nDCG@3"] == pytest.approx(expected, abs=1e-15)
    other = RUN.with_columns(traffic=pl.col("traffic") + (pl.col("query") == "q03"))
    for runs in (other, {"old": RUN, "new": other}):
        with pytest.raises(rankql.RankqlError, match=r"traffic is \d+ in .*, for query 'q03'"):
            rankql.evaluate(runs, JUDGED, "nDCG@3", **options)


def replace(*values):
    return ABOUT.with_columns(same=pl.Series([*values, *ABOUT["same"][len(values) :]]))


test_bad_weights = refuses(
    "weights",
    globals(),
    "rankql.evaluate(RUNS['old'], QRELS, 'nDCG@3', attributes=%s, weight='same')",
)


VALUES = rankql.read_values(ABOUT.select("query", traffic=pl.lit("high"), AP=pl.lit(0.5)))
PLAIN = rankql.evaluate(RUNS["old"], QRELS)


test_wrong_uses_of_weights = refuses("used_weights", globals())


@pytest.mark.filterwarnings("error")
def test_a_query_with_all_the_weight_is_not_tested():
    """The others in the slice weigh too little: an interval would be far too narrow."""
    before = pl.DataFrame(
        {"query": [*"abcdefgh"], "AP": [1.0, 0.5, 1.0, 0.2] * 2, "part": [*"xxxxyyyy"],
         "w": [1e6, 1e-5, 1e-5, 1e-5, 1.0, 1.0, 1.0, 1.0]}
    )  # fmt: skip
    after = before.with_columns(AP=pl.Series([0.9, 0.6, 0.8, 0.4] * 2))
    compared = compare_values({"a": before, "b": after}, metrics="AP", weight="w", by="part")
    row = compared.pairs.row(by_predicate=pl.col("slice") == "part=x", named=True)
    assert row["verdict"] == "one query has almost all the weight"
    assert (row["lo"], row["hi"], row["p"], row["detectable"]) == (None, None, None, None)
    assert row["sentence"].endswith("Not tested: one query has almost all the weight")

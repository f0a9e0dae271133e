"""mean="slices": every slice counts once, in evaluate, compare and gate."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import rankql
from rankql.core.evaluation.plan.meta import MEAN_OF_SLICES
from rankql.core.stats.sample import Sample, SlicedSample
from rankql.core.stats.tests import TESTS
from support.parameters import few

SLICES = {"de": 30, "fr": 12, None: 11}


def judged():
    """Queries of three countries, one of them NULL; the first query has no relevant item."""
    countries = [country for country, n in SLICES.items() for _ in range(n)]
    n = len(countries)
    weight = [float(1 + i % 3) for i in range(n)]
    return pl.DataFrame(
        {"query": range(n), "item": "x", "rel": [0, *[1] * (n - 1)], "country": countries,
         "weight": weight}, schema_overrides={"country": pl.String},
    )  # fmt: skip


def ranked(seed, n=53):
    """A run in which the relevant item is at position 1 to 4."""
    rng = np.random.default_rng(seed)
    places = rng.integers(1, 5, n)
    rows = [(q, "x" if i == p else f"w{i}", -i) for q, p in enumerate(places) for i in range(1, 5)]
    return pl.DataFrame(rows, schema=["query", "item", "score"], orient="row")


def welch(parts):
    """The standard error of the mean of independent means, and Satterthwaite's freedom.

    The variance of a slice is at least that with three more values of the variance of all slices.
    """
    sizes = np.array([len(x) for x in parts])
    variances = np.array([np.var(x, ddof=1) for x in parts])
    freedoms = sizes - 1
    squares = variances / sizes
    freedom = squares.sum() ** 2 / (squares**2 / freedoms).sum()
    pooled = np.average(variances, weights=freedoms)
    shrunk = [np.average([v, pooled], weights=[f, 3])
              for v, f in zip(variances, freedoms, strict=True)]  # fmt: skip
    return np.sqrt((np.maximum(variances, shrunk) / sizes).sum()) / len(parts), freedom


def row(table, metric="RR"):
    return table.filter(slice=MEAN_OF_SLICES, metric=metric).row(0, named=True)


def test_by_hand():
    """Slices of 9 and of 1 query: the mean of all is .26, that of the slices .5."""
    run = pl.DataFrame({"query": range(10), "item": "x", "score": 1.0})
    values = [0.2] * 9 + [0.8]
    table = run.with_columns(rel=1, v=pl.Series(values), country=pl.Series(["a"] * 9 + [None]))
    result = rankql.evaluate(table, metrics="own = any_value(v)", by="country", mean="slices")
    assert result["own"] == pytest.approx(0.26)
    mean = row(result.summary, "own")
    assert (mean["mean"], mean["lo"], mean["hi"]) == (pytest.approx(0.5), None, None)
    assert "the slices are fixed, not a sample" in repr(result)
    plain = rankql.evaluate(table, metrics="own = any_value(v)", by="country")
    assert result.summary.filter(pl.col("slice") != MEAN_OF_SLICES).equals(plain.summary)


@few(2)("options", [{}, {"undefined": "zero"}, {"weight": "weight"}])
def test_it_is_the_mean_of_the_means_as_printed(options):
    result = rankql.evaluate(
        {"a": ranked(1), "b": ranked(2)}, judged(), ["RR", "P@1"], by="country", mean="slices",
        **options,
    )  # fmt: skip
    summary = result.summary
    parts = summary.filter(~pl.col("slice").is_in(["all", MEAN_OF_SLICES]))
    means = parts.group_by("system", "metric").agg(pl.col("mean").mean()).sort("system", "metric")
    own = summary.filter(slice=MEAN_OF_SLICES).sort("system", "metric")
    assert own["mean"].to_list() == pytest.approx(means["mean"].to_list(), abs=1e-12)
    assert own["lo"].is_not_null().all() and (own["lo"] < own["mean"]).all()
    alone = summary.filter(slice="all")
    assert own["queries"].sort().to_list() == alone["queries"].sort().to_list()


def test_its_interval_is_that_of_welch():
    result = rankql.evaluate(
        ranked(1), judged(), "RR", by="country", mean="slices", interval="t", confidence=0.9
    )
    values = result.per_query.drop_nulls("RR")
    parts = [values.filter(pl.col("country").eq_missing(x))["RR"].to_numpy() for x in SLICES]
    error, freedom = welch(parts)
    width = stats.t.ppf(0.95, freedom) * error
    mean = row(result.summary)
    assert (mean["lo"], mean["hi"]) == pytest.approx(
        (mean["mean"] - width, mean["mean"] + width), abs=1e-9
    )


def test_a_slice_without_a_value_does_not_count_and_one_of_a_single_value_leaves_no_interval():
    qrels = judged().filter(pl.col("country").is_not_null() | (pl.col("query") == 46))
    run = ranked(1)
    one = row(rankql.evaluate(run, qrels, "RR", by="country", mean="slices").summary)
    assert one["lo"] is None and one["mean"] is not None
    none = qrels.with_columns(rel=pl.when(pl.col("query") == 46).then(0).otherwise("rel"))
    result = rankql.evaluate(run, none, "RR", by="country", mean="slices")
    two = result.summary.filter(pl.col("slice").is_in(["country=de", "country=fr"]))["mean"]
    assert row(result.summary)["mean"] == pytest.approx(two.mean()) and row(result.summary)["lo"]


def test_gate_takes_a_limit_on_it_alone():
    run, base, qrels = ranked(2), ranked(1), judged()
    mean = row(rankql.evaluate(run, qrels, "RR", by="country", mean="slices").summary)["mean"]
    for limit, passed in (
        (f"mean of slices: RR>={mean - 0.01}", True),
        ({"mean of slices: RR": mean + 0.01}, False),
    ):
        verdict = rankql.gate(run, qrels, minimum=limit, by="country")
        assert verdict.passed is passed
        assert verdict.table["slice"].to_list() == [MEAN_OF_SLICES]
    both = rankql.gate(run, qrels, minimum=["RR>=0", "mean of slices: RR>=0.1"], by="country")
    assert both.table["slice"].to_list().count(MEAN_OF_SLICES) == 1 and len(both.table) == 5
    drop = rankql.gate(run, qrels, base, max_drop="mean of slices: RR:0.5", by="country")
    assert drop.passed and drop.table["slice"].to_list() == [MEAN_OF_SLICES]


def small_slices(sizes):
    """Two runs and judgments of countries with so many queries; the runs differ at random."""
    countries = [f"c{i}" for i, size in enumerate(sizes) for _ in range(size)]
    n = len(countries)
    qrels = judged().head(0).select("query", "item", "rel", "country")
    rows = {"query": range(n), "item": "x", "rel": 1, "country": countries}
    return ranked(1, n), ranked(2, n), pl.DataFrame(rows, schema=qrels.schema)


@pytest.mark.parametrize(
    ("sizes", "small"),
    [([23, 10], 0), ([24, 10], 1), ([40, 300], 0), ([39, 300], 1), ([10, 10], 0), ([5], 1),
     ([10, *[69] * 3], 0), ([10, *[71] * 3], 1), ([11, *[10] * 30], 0), ([30, 9], 1),
     ([9, *[10] * 30], 1), ([30, *[4] * 20], 20), ([15], 0)],
)  # fmt: skip
def test_slices_that_are_too_small(sizes, small):
    """Fewer than 10 queries; or fewer than 40 with more than 70% of the sum of 1 / n."""
    rng = np.random.default_rng(len(sizes))
    sample = SlicedSample.of({i: Sample(rng.normal(size=n)) for i, n in enumerate(sizes)})
    assert len(sample.too_small) == small
    assert not small or sizes[sample.too_small[0]] == min(sizes)


def test_the_size_of_a_weighted_slice_is_its_effective_number():
    values, weights = np.linspace(-1, 1, 30), np.where(np.arange(30) == 0, 20.0, 1.0)
    slices = {"even": Sample(values), "uneven": Sample(values, None, weights)}
    sample = SlicedSample.of(slices)
    assert sample.counts == pytest.approx({"uneven": 49**2 / 429, "even": 30})
    assert sample.too_small == ["uneven"]  # 5.6 of 30


@pytest.mark.parametrize("test", TESTS.values())
def test_a_slice_of_one_query_leaves_no_detectable_difference(test):
    sample = SlicedSample.of({x: Sample(np.linspace(-1, 1, n)) for x, n in (("a", 30), ("b", 1))})
    assert test().detectable(sample, 0.05) is None


TOO_SMALL = [
    ([30, 10], "country=c1 has 10 queries and decides almost alone"),
    ([30, 9], "1 slice has fewer than 10 queries (country=c1: 9)"),
    ([30, *[4] * 20], "20 slices have fewer than 10 queries (country=c1: 4)"),
]


@few(1)(("sizes", "why"), TOO_SMALL)
def test_a_difference_is_not_tested_if_a_slice_is_too_small(sizes, why):
    """Whose losses may not be seen, however many others there are. The note names the smallest."""
    a, b, qrels = small_slices(sizes)
    options = {"metrics": "RR", "by": "country", "mean": "slices"}
    comparison = rankql.compare({"a": a, "b": b}, qrels, **options)
    pair = row(comparison.pairs)
    assert f"has no p and no interval: {why}" in repr(comparison)
    assert pair["verdict"] == "too few queries in a slice"
    assert pair["p"] is pair["lo"] is None and pair["difference"] is not None
    if len(sizes) > 2:
        return
    same = rankql.compare({"a": a, "b": a}, qrels, **options)
    assert row(same.pairs)["verdict"] == "no difference" and "no interval" not in repr(same)
    pairs = rankql.compare({"a": a, "b": b}, qrels, **options, test="randomisation").pairs
    assert row(pairs)["p"] is row(pairs)["lo"] is None
    joined = qrels.with_columns(country=pl.lit("joined"))
    assert row(rankql.compare({"a": a, "b": b}, joined, **options).pairs)["p"] is not None


@pytest.mark.parametrize(("sizes", "noted"), [([41, 40], ""), ([40, 12, 30], "c1 (12 queries)")])
def test_where_it_is_tested_a_small_slice_is_named(sizes, noted):
    a, b, qrels = small_slices(sizes)
    options = {"metrics": "RR", "by": "country", "mean": "slices"}
    comparison = rankql.compare({"a": a, "b": b}, qrels, **options)
    assert row(comparison.pairs)["p"] is not None
    note = f"The mean of slices counts country={noted} as much as each other slice. So few contain"
    assert (note in repr(comparison)) == bool(noted) == ("in 28% of samples" in repr(comparison))


@pytest.mark.slow
def test_a_gate_on_its_drop_is_then_inconclusive():
    """A limit on the mean itself is decided by the interval of `evaluate`."""
    base, run, qrels = small_slices([300, 9])
    options = {"by": "country"}
    for limit in ("0.9", "0"):
        drop = rankql.gate(run, qrels, base, max_drop=f"mean of slices: RR:{limit}", **options)
        assert drop.outcome == "inconclusive" and "has no p and no interval" in repr(drop)
    mean = row(rankql.evaluate(run, qrels, "RR", by="country", mean="slices").summary)
    least = f"mean of slices: RR>={mean['lo'] - 1e-6}"
    bound = rankql.gate(run, qrels, minimum=least, minimum_bound=True, **options)
    assert bound.passed and bound.table["lo"].item() == pytest.approx(mean["lo"])
    assert bound.table["hi"].item() == pytest.approx(mean["hi"])


@few(2)(
    ("options", "message"),
    [
        ({}, "needs slices by one grouping"),
        ({"by": [["country"], ["weight"]]}, "needs slices by one grouping"),
        ({"by": "country", "cluster": "weight"}, "does not support cluster="),
        ({"by": "country", "judge": judged()}, "does not support judge="),
        ({"by": "country", "metrics": "microP@1"}, "does not support microP@1"),
        ({"by": "country", "metrics": "NumRet"}, "does not support NumRet"),
        ({"by": "country", "mean": "slice"}, "mean must be 'slices' or None, not 'slice'"),
    ],
)
def test_what_it_refuses(options, message):
    options = {"metrics": "RR", "mean": "slices", **options}
    for function, run in ((rankql.evaluate, ranked(1)), (rankql.compare, {"a": ranked(1)})):
        with pytest.raises(rankql.RankqlError, match=message):
            function(run, judged(), **options)


def test_metrics_of_shown_items_are_refused():
    train = pl.DataFrame({"query": [100, 101], "item": ["x", "w1"]})
    with pytest.raises(rankql.RankqlError, match="does not support Novelty@3"):
        rankql.evaluate(ranked(1), judged(), "Novelty@3", by="country", mean="slices", train=train)
    with pytest.raises(rankql.RankqlError, match="needs slices"):
        rankql.gate(ranked(1), judged(), minimum="mean of slices: RR>=0.1")


def test_tables_of_two_attributes_leave_it_out():
    qrels = judged().with_columns(odd=pl.col("query") % 2)
    result = rankql.evaluate(ranked(1), qrels, "RR", by=["country", "odd"], mean="slices")
    wide = result.wide(rows="country", columns="odd").table
    assert wide["country"].to_list() == ["de", "fr", "NULL"]
    systems = {"a": ranked(1), "b": ranked(2)}
    sliced = rankql.evaluate(systems, qrels, "RR", by="country", mean="slices").table
    assert sliced["country"].to_list() == ["all", "de", "fr", "NULL", MEAN_OF_SLICES]


def test_its_interval_is_as_wide_as_the_slices_say():
    """300 almost steady queries and 4 that vary: each end by square-and-add, or by the moments."""
    shares = [[1.0] * 291 + [0.0] * 9, [1.0, 0.0, 0.0, 0.0]]
    rows = [(f"{x}{i}", x, v) for x, values in zip("ab", shares, strict=True)
            for i, v in enumerate(values)]  # fmt: skip
    table = pl.DataFrame(rows, ["query", "country", "v"], orient="row")
    table = table.with_columns(item=pl.lit("x"), score=1.0, rel=pl.col("v").cast(int))
    options = {"metrics": "P@1", "by": "country", "mean": "slices"}
    summary = rankql.evaluate(table, **options).summary
    mean = row(summary, "P@1")
    slices = summary.filter(pl.col("slice").str.starts_with("country"))
    for end, side in (("lo", -1), ("hi", 1)):
        distance = np.hypot(*(slices["mean"] - slices[end])) / 2
        assert side * (mean[end] - mean["mean"]) >= distance - 1e-12

"""Metrics and outcomes: joined, correlated, calibrated, predicted, and the launches of the past."""

import itertools
import json
import math

import duckdb
import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.dummy import DummyRegressor
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression
from statsmodels.stats.proportion import proportion_confint

import rankql
from rankql.cli import main
from rankql.regression import pearson, ranks, slope, spearman

COEFFICIENTS = ("pearson", "spearman")


def table(**columns):
    return pl.DataFrame(columns, strict=False)


def many(n=200, seed=3):
    """Keys in three slices, with a metric, a coarse one, and outcomes of which some are NULL."""
    rng = np.random.default_rng(seed)
    part = rng.integers(0, 3, n)
    good = rng.random(n) + 0.3 * part
    scores = table(query=np.arange(n), part=part)
    scores = scores.with_columns(pl.Series("AP", good), pl.Series("P@5", good.round(1)))
    rate = 0.2 * good + 0.1 * rng.random(n) - 0.1 * part
    shown = rng.integers(1, 50, n)
    outcomes = table(query=np.arange(n), rate=rate, sold=(good * 3).round(), shown=shown)
    return scores, outcomes


def row(found, metric=None, outcome=None, part="all"):
    rows = found.table.filter(pl.col("slice") == part)
    rows = rows if metric is None else rows.filter(pl.col("metric") == metric)
    return (rows if outcome is None else rows.filter(pl.col("outcome") == outcome)).row(
        0, named=True
    )


# Correlations


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_pooled_is_what_scipy_says(confidence):
    scores, outcomes = many()
    found = rankql.associate(scores, outcomes, on="query", outcome="rate", confidence=confidence)
    for metric in ("AP", "P@5"):
        said, x, y = row(found, metric), scores[metric].to_numpy(), outcomes["rate"].to_numpy()
        r = stats.pearsonr(x, y)
        bounds = r.confidence_interval(confidence)
        wanted = [r.statistic, bounds.low, bounds.high, r.pvalue]
        assert [said[f"pearson{e}"] for e in ("", "_lo", "_hi", "_p")] == pytest.approx(wanted)
        rho = stats.spearmanr(x, y)
        width = stats.norm.ppf((1 + confidence) / 2) * math.sqrt(
            (1 + rho.statistic**2 / 2) / (len(x) - 3)
        )
        ends = [math.tanh(math.atanh(rho.statistic) + sign * width) for sign in (-1, 1)]
        wanted = [rho.statistic, *ends, rho.pvalue]
        assert [said[f"spearman{e}"] for e in ("", "_lo", "_hi", "_p")] == pytest.approx(wanted)
        assert said["n"] == len(x)


def test_within_is_the_partial_correlation():
    """Pearson: residuals after the slices are taken out; p is that of the regression with them."""
    scores, outcomes = many()
    found = rankql.associate(scores, outcomes, on="query", outcome="rate", by="part")
    said = row(found, "AP", part="within part")
    dummies = np.eye(3)[scores["part"].to_numpy()]
    x, y = scores["AP"].to_numpy(), outcomes["rate"].to_numpy()
    rests = [v - dummies @ np.linalg.lstsq(dummies, v, rcond=None)[0] for v in (x, y)]
    r = np.corrcoef(*rests)[0, 1]
    regression = sm.OLS(y, np.column_stack([x, dummies])).fit()
    width = stats.norm.ppf(0.975) / math.sqrt(len(x) - 3 - 2)
    wanted = [r, math.tanh(math.atanh(r) - width), math.tanh(math.atanh(r) + width)]
    assert [said[f"pearson{e}"] for e in ("", "_lo", "_hi")] == pytest.approx(wanted)
    assert said["pearson_p"] == pytest.approx(regression.pvalues[0])


def test_within_of_ranks():
    """Spearman: ranks within the slice, over its size plus 1; no monotone curve changes them."""
    scores, outcomes = many()
    found = rankql.associate(scores, outcomes, on="query", outcome="rate", by="part")
    part = scores["part"].to_numpy()
    ranked = []
    for values in (scores["AP"].to_numpy(), outcomes["rate"].to_numpy()):
        of = np.empty(len(values))
        for code in range(3):
            here = part == code
            of[here] = stats.rankdata(values[here]) / (here.sum() + 1) - 0.5
        ranked.append(of)
    x, y = ranked
    said = row(found, "AP", part="within part")
    assert said["spearman"] == pytest.approx(x @ y / math.sqrt(x @ x * (y @ y)))
    curved = scores.with_columns((pl.col("AP").exp() * (pl.col("part") + 1)).alias("AP"))
    again = rankql.associate(curved, outcomes, on="query", outcome="rate", by="part")
    for name in ("spearman", "spearman_lo", "spearman_hi", "spearman_p"):
        assert row(again, "AP", part="within part")[name] == pytest.approx(said[name])


def test_a_slice_is_its_keys_alone():
    scores, outcomes = many()
    found = rankql.associate(scores, outcomes, on="query", outcome="rate", by="part")
    labels = found.table.filter(pl.col("metric") == "AP")["slice"].to_list()
    assert labels == ["all", "within part", "part=0", "part=1", "part=2"]
    for part in range(3):
        some = scores.filter(pl.col("part") == part)
        alone = rankql.associate(some, outcomes, on="query", outcome="rate")
        one, other = row(found, "AP", part=f"part={part}"), row(alone, "AP")
        for name in ("n", *(f"{c}{e}" for c in COEFFICIENTS for e in ("", "_lo", "_hi", "_p"))):
            assert one[name] == pytest.approx(other[name])


def test_slices_with_missing_values():
    """What has no value is no part of its slice, nor of the degrees of freedom."""
    scores, outcomes = many(60)
    holes = outcomes.with_columns(pl.when(pl.col("query") % 4 > 0).then("rate"))
    kept = outcomes.filter(pl.col("query") % 4 > 0)
    one, other = (
        rankql.associate(scores, each, on="query", outcome="rate", by="part").table
        for each in (holes, kept)
    )
    assert one.equals(other)


def test_sentences_have_the_digits_of_the_interval():
    """Of a million keys an interval is narrow: 0.00 (0.00 to 0.01) says nothing."""
    keys = np.arange(10**6)
    x, y = np.random.default_rng(2).normal(size=(2, len(keys)))
    found = rankql.associate(table(user=keys, AP=x), table(user=keys, CTR=y - 0.005 * x), on="user")
    said = row(found)
    r, lo, hi = (f"{said[f'pearson{end}']:.4f}" for end in ("", "_lo", "_hi"))
    assert f"Pearson {r} ({lo} to {hi})" in found.sentences[0]


def test_what_differs_by_rounding_is_tied():
    keys, y = [1, 2, 3, 4, 5], [3.0, 1.0, 2.0, 5.0, 4.0]
    scores = table(user=keys, AP=[0.1 + 0.2, 0.3, 0.5, 0.7, 0.1])
    said = row(rankql.associate(scores, table(user=keys, CTR=y), on="user"))
    tied = stats.spearmanr([0.3, 0.3, 0.5, 0.7, 0.1], y)
    assert said["spearman"] == pytest.approx(tied.statistic)


# Slices a: (0, 1), (1, 2), (2, 0), and b the same moved by 10: within each r = -1/2.
X = [0, 1, 2, 10, 11, 12]
Y = [1, 2, 0, 11, 12, 10]


def simpson():
    scores = table(user=list("uvwxyz"), AP=X, segment=["a"] * 3 + ["b"] * 3)
    return rankql.associate(scores, table(user=list("uvwxyz"), CTR=Y), on="user", by="segment")


def test_simpson_by_hand():
    found = simpson()
    # Sums of products of the deviations from 6: 6 * 25 - 2; of squares: 6 * 25 + 4.
    assert row(found)["pearson"] == pytest.approx(148 / 154)
    within = row(found, part="within segment")
    assert [within["pearson"], within["spearman"]] == pytest.approx([-1 / 2, -1 / 2])
    # t = r sqrt(f / (1 - r^2)), f = 6 - 1 - 2 = 3: t = -1.
    assert within["pearson_p"] == pytest.approx(2 * stats.t.sf(1, 3))
    assert within["pearson_hi"] == pytest.approx(
        math.tanh(math.atanh(-0.5) + stats.norm.ppf(0.975) / math.sqrt(2))
    )
    assert row(found, part="segment=a")["pearson"] == pytest.approx(-1 / 2)
    assert within["remark"] == "perhaps another sign over all (Simpson)"
    assert row(found)["remark"] == "perhaps another sign within segment (Simpson)"
    (note,) = [note for note in found.notes if "over all" in note]
    assert note.startswith("AP and CTR: Pearson 0.96 (0.68 to 1.00) over all, but -0.50 (")
    assert note.endswith("within segment: at least one is within noise of 0")


def test_simpson_beyond_noise():
    n = 40
    noise = np.random.default_rng(0).normal(0, 0.1, (2, n))
    part = np.arange(n) % 2
    x = np.linspace(0, 1, n) + 3 * part
    scores = table(user=np.arange(n), AP=x + noise[0], segment=part)
    outcomes = table(user=np.arange(n), CTR=-x + 8 * part + noise[1])
    found = rankql.associate(scores, outcomes, on="user", by="segment")
    (note,) = [note for note in found.notes if "over all" in note]
    assert note.endswith("Simpson's paradox, go by what is within")
    assert row(found)["remark"] == "another sign within segment (Simpson)"
    assert row(found, part="within segment")["remark"] == "another sign over all (Simpson)"
    assert found.sentences[0].startswith("CTR is higher where AP is higher: Pearson 0.")
    assert found.sentences[1].startswith("within segment: CTR is lower where AP is higher")
    assert not [n for n in rankql.associate(scores, outcomes, on="user").notes if "Simpson" in n]


@pytest.mark.parametrize(
    ("x", "y", "remark", "known"),
    [
        ([1, 1, 1, 1], [1, 2, 3, 5], "AP is constant", ()),
        ([0.1 + 0.2, 0.3, 0.3, 0.3], [1, 2, 3, 5], "AP is constant", ()),
        ([1, 2, 3, 5], [0, 0, 0, 0], "CTR is constant", ()),
        ([1, 1, 1, 1], [0, 0, 0, 0], "AP is constant; CTR is constant", ()),
        ([1, 2], [1, 2], "too few to correlate", ()),
        ([1, 2, 3], [1, 3, 2], "too few for an interval", ("", "_p")),
        ([1, 2, 3, 5], [2, 4, 6, 10], "a perfect correlation: no interval", ("",)),
        ([1e200, 2e200, 3e200, 5e200], [1e-200, 3e-200, 2e-200, 5e-200], None, ("", "_lo", "_hi")),
    ],
)
def test_what_there_is_not_has_a_word(x, y, remark, known):
    keys = list(range(len(x)))
    found = rankql.associate(table(user=keys, AP=x), table(user=keys, CTR=y), on="user")
    said = row(found)
    assert said["remark"] == remark
    for end in ("", "_lo", "_hi"):
        assert (said[f"pearson{end}"] is not None) == (end in known)
    assert not any(isinstance(v, float) and not math.isfinite(v) for v in said.values())
    if not known:
        assert found.sentences[0].startswith(f"AP and CTR cannot be correlated: {remark}, ")


def test_constant_within_every_slice():
    scores = table(user=list(range(8)), AP=[0, 0, 0, 0, 1, 1, 1, 1], part=[0] * 4 + [1] * 4)
    outcomes = table(user=list(range(8)), CTR=[1, 2, 3, 4, 3, 4, 5, 7])
    found = rankql.associate(scores, outcomes, on="user", by="part")
    assert row(found, part="within part")["remark"] == "AP is constant within every slice"
    alone = rankql.associate(scores.with_columns(part="user"), outcomes, on="user", by="part")
    assert row(alone, part="within part")["remark"] == "too few to correlate"


def test_a_metric_without_any_value():
    scores = table(user=[1, 2, 3, 4], AP=[1.0, 2, 4, 3], RR=[None] * 4).cast({"RR": pl.Float64})
    found = rankql.associate(scores, table(user=[1, 2, 3, 4], CTR=[1, 2, 3, 4]), on="user")
    assert (row(found, "RR")["n"], row(found, "RR")["remark"]) == (0, "too few to correlate")
    assert "RR: 4 of 4 users have none and are left out" in found.notes
    best = found.best(folds=2)
    assert (
        best.table["metric"].to_list() == ["AP"] and best.sentences[-1] == "RR has no value at all"
    )


small = st.integers(0, 3)


@settings(max_examples=10)
@given(st.lists(st.tuples(small, small, st.sampled_from("ab")), min_size=4, max_size=12))
def test_any_few_values(rows):
    """As scipy has it, ties and all, in any order of the rows; nothing that is no number."""
    x, y, part = zip(*rows, strict=True)
    keys = list(range(len(rows)))
    scores, outcomes = table(user=keys, AP=x, part=part), table(user=keys, CTR=y)
    found = rankql.associate(scores, outcomes, on="user", by="part")
    said = row(found)
    if len({*x}) > 1 and len({*y}) > 1:
        assert said["pearson"] == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
        assert said["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    else:
        assert said["pearson"] is said["spearman"] is None
    for values in found.table.iter_rows():
        assert not any(isinstance(v, float) and not math.isfinite(v) for v in values)
    again = rankql.associate(scores.reverse(), outcomes.reverse(), on="user", by="part")
    assert again.table.equals(found.table)
    swapped = rankql.associate(
        table(user=keys, AP=y, part=part), table(user=keys, CTR=x), on="user", by="part"
    )
    names = [f"{c}{e}" for c in COEFFICIENTS for e in ("", "_lo", "_hi", "_p")]
    for one, other in zip(
        swapped.table.select(names).rows(), found.table.select(names).rows(), strict=True
    ):
        assert one == pytest.approx(other, abs=1e-12)


# What is joined


def test_several_rows_of_a_key():
    """Metrics are averaged, rates too, and ratios are of the sums; by hand."""
    scores = table(
        query=["q", "r", "s", "t"], day=[1, 1, 2, 2], AP=[0.2, 0.4, 0.5, None], RR=[1, 0, 1, 1]
    )
    outcomes = table(
        day=[1, 1, 1, 2, 2, 2],
        clicks=[1, 5, 9, 2, None, 4],
        shown=[10, 10, None, 4, 100, 0],
        dwell=[3.0, 5.0, None, 1.0, None, 2.0],
    )
    found = rankql.associate(
        scores, outcomes, on="day", outcome={"CTR": ("clicks", "shown"), "time": "dwell"}
    )
    assert found.pairs.columns == ["day", "AP", "RR", "CTR", "time"]
    assert found.pairs.rows() == [
        (1, pytest.approx(0.3), 0.5, pytest.approx(6 / 20), 4.0),
        (2, 0.5, 1.0, pytest.approx(6 / 4), 1.5),
    ]
    assert "per_query has several rows of one day: metrics are averaged" in found.notes
    assert (
        "outcomes has several rows of one day: rates are averaged, ratios are of the sums"
        in found.notes
    )


def test_the_order_of_several_rows_is_nothing_to_it():
    scores, outcomes = many()
    log = pl.concat([outcomes, outcomes.with_columns(pl.col("rate") / 3)])
    options = {"on": "query", "outcome": {"a": "rate", "b": ("rate", "shown")}, "by": "part"}
    one = rankql.associate(scores, log, **options).table.drop("sentence")
    mixed = log.sample(fraction=1, shuffle=True, seed=2)
    other = rankql.associate(scores.reverse(), mixed, **options)
    for a, b in zip(one.rows(), other.table.drop("sentence").rows(), strict=True):
        assert a[:4] == b[:4] and a[4:-1] == pytest.approx(b[4:-1], abs=1e-12) and a[-1] == b[-1]


def test_what_does_not_match_is_counted():
    scores = table(user_id=["a", "b", "c", "d", None, "e"], AP=[1.0, 2, 3, None, 9, 4])
    outcomes = table(
        user_id=["b", "c", "d", "e", "f", "g", "h", "i", None],
        clicks=[1, 2, 3, None, 1, 1, 1, 1, 7],
        shown=[2, 0, 4, 4, 1, 1, 1, 1, 7],
    )
    found = rankql.associate(scores, outcomes, on="user_id", outcome={"CTR": ("clicks", "shown")})
    assert found.notes[:-1] == [
        "1 rows of per_query have no user (NULL) and are left out",
        "1 rows of outcomes have no user (NULL) and are left out",
        "1 of 5 users of per_query are not in outcomes and left out ('a')",
        "4 of 8 users of outcomes are not in per_query and left out ('f', 'g', 'h', ...)",
        "AP: 1 of 4 users have none and are left out",
        "CTR: 2 of 4 users have none and are left out",
    ]
    assert found.pairs.rows() == [
        ("b", 2.0, 0.5), ("c", 3.0, None), ("d", None, 0.75), ("e", 4.0, None)
    ]  # fmt: skip
    assert row(found)["n"] == 1


@pytest.mark.parametrize("kind", [pl.String, pl.Int32, pl.Float64, pl.Categorical])
def test_keys_of_other_types(kind):
    scores = table(user=[1, 2, 3, 4], AP=[1.0, 2, 3, 5])
    keys = pl.Series("user", [1, 2, 3, 4])
    if kind == pl.Categorical:
        keys = keys.cast(pl.String)
    outcomes = table(user=keys.cast(kind), CTR=[1.0, 3, 2, 4])
    assert row(rankql.associate(scores, outcomes, on="user"))["n"] == 4


def test_columns_of_other_names_and_several_keys():
    scores = table(q=["x", "x", "y", "y"], day=[1, 2, 1, 2], AP=[0.1, 0.2, 0.3, 0.5])
    outcomes = table(search=["y", "x", "x", "y"], day=[1, 2, 1, 2], CTR=[3, 2, 1, 4])
    found = rankql.associate(scores, outcomes, on={"q": "search", "day": "day"}, by="day")
    assert found.pairs.rows() == [
        ("x", 1, 0.1, 1), ("x", 2, 0.2, 2), ("y", 1, 0.3, 3), ("y", 2, 0.5, 4)
    ]  # fmt: skip
    assert found.table["slice"].to_list() == ["all", "within day", "day=1", "day=2"]
    assert found.sentences[0].endswith(", 4 keys")


def test_attributes_from_either_side_and_missing_ones():
    scores = table(query=list(range(8)), kind=["x", None] * 4, AP=[1, 5, 2, 4, 3, 8, 6, 7])
    rates = [1, 2, 4, 3, 6, 5, 8, 9]
    outcomes = table(query=list(range(8)), queries=[1, 1, 1, 1, 2, 2, 2, 2], CTR=rates)
    found = rankql.associate(scores, outcomes, on="query", by=["kind", ["kind", "queries"]])
    assert found.table["slice"].to_list() == [
        "all", "within kind", "kind=x", "kind=NULL", "within kind, queries",
        *(f"kind={kind}, queries={n}" for kind in ("x", "NULL") for n in (1, 2)),
    ]  # fmt: skip
    assert found.table["n"].to_list() == [8, 8, 4, 4, 8, 2, 2, 2, 2]


def test_text_is_told_apart_by_its_bytes():
    con = duckdb.connect()
    con.execute("SET default_collation = 'NOCASE'")
    con.execute(
        "CREATE TABLE s AS FROM (VALUES ('a', 1.0, 'x'), ('A', 2.0, 'X')) t(user, ap, part)"
    )
    con.execute("CREATE TABLE o AS FROM (VALUES ('a', 3.0), ('A', 4.0)) t(user, ctr)")
    found = rankql.associate("s", "o", on="user", con=con, by="part")
    assert found.pairs.rows() == [("A", "X", 2.0, 4.0), ("a", "x", 1.0, 3.0)]
    tables = [name for (name,) in con.execute("SHOW TABLES").fetchall()]
    assert tables == ["o", "s"]


def test_from_files_results_and_relations(tmp_path):
    scores, outcomes = many(40)
    qrels = table(query=list("abcd"), item=["x"] * 4, rel=[1, 1, 1, 0])
    run = table(query=list("abcc"), item=["x", "x", "x", "y"], pos=[1, 2, 3, 1])
    result = rankql.evaluate(run, qrels, ["RR", "P@1"])
    counts = table(query=list("abcd"), CTR=[0.5, 0.4, 0.1, 0.2])
    one = rankql.associate(result, counts, on="query")
    # d is judged and not in the run: it counts as 0 where the metric is defined.
    assert one.pairs.select("query", "P@1").rows() == [("a", 1), ("b", 0), ("c", 0), ("d", 0)]
    assert one.metrics == ["RR", "P@1"]
    file, other = tmp_path / "scores.parquet", tmp_path / "counts.csv"
    result.write(file)
    counts.write_csv(other)
    for each in (file, str(file), result.per_query, result.per_query.to_pandas()):
        assert rankql.associate(each, other, on="query").table.equals(one.table)
    left = rankql.evaluate(run, qrels, ["RR", "P@1"], missing="skip")
    assert rankql.associate(left, counts, on="query").pairs["P@1"].to_list()[-1] is None
    con = duckdb.connect()
    relation = con.from_arrow(outcomes.to_arrow())
    for each in (outcomes, outcomes.lazy().collect().to_arrow(), relation):
        connection = con if each is relation else None
        found = rankql.associate(scores, each, on="query", outcome="rate", con=connection)
        assert row(found, "AP")["n"] == 40


def test_columns_that_are_no_numbers_are_no_outcomes(tmp_path):
    file = tmp_path / "o.csv"
    file.write_text("user,name,CTR,empty\n1,x,0.5,\n2,y,,\n3,4,0.7,\n4,5,0.9,\n")
    scores = table(user=[1, 2, 3, 4], AP=[1.0, 2, 3, 5])
    assert rankql.associate(scores, file, on="user").outcomes == ["CTR"]
    assert rankql.associate(scores, pl.read_csv(file), on="user").outcomes == ["CTR"]


def test_metrics_by_another_spelling():
    scores = table(user=[1, 2, 3, 4], own=[1, 3, 2, 4], **{"nDCG@10": [1.0, 2, 3, 5]})
    outcomes = table(user=[1, 2, 3, 4], CTR=[1, 2, 4, 3])
    for asked in ("ndcg@10", "ndcg_cut_10", ["nDCG@10"]):
        assert rankql.associate(scores, outcomes, on="user", metrics=asked).metrics == ["nDCG@10"]
    found = rankql.associate(scores, outcomes, on="user", metrics=["own", "ndcg@10"])
    assert found.metrics == ["own", "nDCG@10"]
    assert found.calibration("ndcg@10").table.equals(found.calibration("nDCG@10").table)


SCORES = table(query=[1, 2, 3, 4], AP=[0.1, 0.2, 0.3, 0.5], part=[1, 1, 2, 2])
COUNTS = table(query=[1, 2, 3, 4], clicks=[1, 2, 4, 3], shown=[9, 9, 9, 9], who=list("abcd"))
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"on": "user"},
            "on: per_query has no column 'user'; did you mean query? There are: query, AP, part",
        ),
        ({"on": {"query": "search"}}, "on: outcomes has no column 'search'"),
        ({"on": []}, "on must name the columns of the key, not []"),
        ({"on": 3}, "on must name the columns of the key, not 3"),
        ({"on": ["query", "system"]}, "on: system is told apart anyway"),
        ({"metrics": "nDCG@10"}, "metrics: per_query has no column 'nDCG@10'"),
        ({"metrics": "who"}, "metrics: per_query has no column 'who'"),
        ({"metrics": []}, "metrics must be names of columns of per_query, not []"),
        ({"metrics": 1}, "metrics must be names of columns of per_query, not 1"),
        ({"outcome": "CTR"}, "outcome: outcomes has no column 'CTR'"),
        ({"outcome": {"CTR": ("clicks", "views")}}, "outcome: outcomes has no column 'views'"),
        ({"outcome": {"CTR": ("clicks",) * 3}}, "outcome must be names of columns, or a dict"),
        ({"outcome": {}}, "outcome must be names of columns, or a dict of names and pairs"),
        ({"outcome": 7}, "outcome must be names of columns, or a dict"),
        ({"outcome": "who"}, "outcomes: who must be a number, not text; cast it first"),
        ({"outcome": {"AP": "clicks"}}, "'AP' would be the name of two columns"),
        ({"by": "segment"}, "by: there is no column 'segment'; There are: query, AP, part, clicks"),
        (
            {"per_query": SCORES.with_columns(system=pl.lit("new")), "by": "system"},
            "by: system is told apart anyway; leave it out",
        ),
        ({"by": 1}, "by must be names of columns, or lists of them, not 1"),
        ({"confidence": 95}, "confidence must lie between 0 and 1, not 95"),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1, not 1.0"),
        ({"baseline": "old"}, "baseline goes with two systems, and per_query holds one"),
        ({"per_query": SCORES.select("query", "part")}, "per_query has no column that is called"),
        ({"per_query": {}}, "per_query as a dict must hold two systems, each by its name"),
        ({"per_query": {"": SCORES}}, "per_query as a dict must hold two systems"),
        ({"per_query": 5}, "per_query must be a path, a table, a relation or a frame, not int"),
        ({"outcomes": "none.csv"}, "outcomes: there is no file 'none.csv'"),
        ({"outcomes": COUNTS.select("query", "who")}, "outcomes has no column of numbers"),
        (
            {"outcomes": COUNTS.with_columns(query=pl.col("query") + 10)},
            "no query is in both tables: per_query has 1, 2, 3, ..., outcomes has 11, 12, 13, ...",
        ),
        ({"outcomes": COUNTS.head(0)}, "outcomes has no row"),
        ({"per_query": SCORES.head(0)}, "per_query has no row"),
        (
            {"per_query": SCORES.with_columns(query=pl.lit(None, pl.Int64))},
            "per_query has no row with a query",
        ),
        (
            {"outcomes": COUNTS.rename({"clicks": "^x$"})},
            "'^x$' stands for several columns in polars; rename the column",
        ),
        (
            {"per_query": SCORES.rename({"AP": "*"}), "metrics": "*"},
            "'*' stands for several columns in polars; rename the column",
        ),
        ({"per_query": SCORES.rename({"part": "^p$"}), "by": "^p$"}, "'^p$' stands for several"),
        (
            {"outcomes": COUNTS.with_columns(pl.col("query").cast(pl.Date))},
            "no query is in both tables: per_query has '1', '2', '3', ..., outcomes has '1970-01-0",
        ),
        (
            {"per_query": SCORES.with_columns(AP=pl.Series([0.1, NAN, 0.3, 0.5]))},
            "per_query: AP must be a finite number, not nan",
        ),
        (
            {"outcomes": COUNTS.with_columns(clicks=pl.Series([1.0, 2, -INF, 3]))},
            "outcomes: clicks must be a finite number, not -inf",
        ),
        # Bad rows are refused that would not be matched, too.
        (
            {"outcomes": COUNTS.with_columns(query=pl.lit(None), clicks=pl.Series([NAN] * 4))},
            "outcomes: clicks must be a finite number, not nan",
        ),
        (
            {"outcomes": COUNTS.with_columns(shown=-1), "outcome": {"CTR": ("clicks", "shown")}},
            "outcomes: shown must not be negative, not -1.0",
        ),
        (
            {
                "per_query": pl.concat([SCORES, SCORES.with_columns(part=pl.col("part") * 0 + 3)]),
                "by": "part",
            },
            "by: part must have one value per query, but 1 has 1 and 3; add it to the key: on=",
        ),
        (
            {"outcomes": COUNTS.with_columns(system=pl.lit("new"))},
            "outcomes tells systems apart, per_query does not",
        ),
        (
            {"per_query": {"old": SCORES, "new": SCORES}},
            "per_query holds several systems, outcomes does not tell them apart",
        ),
    ],
)
def test_errors(changed, message):
    options = {"per_query": SCORES, "outcomes": COUNTS, "on": "query"} | changed
    with pytest.raises(rankql.RankqlError) as caught:
        rankql.associate(options.pop("per_query"), options.pop("outcomes"), **options)
    said = str(caught.value).lower()
    assert message.lower() in said and "\n" not in said


def test_text_that_is_no_number(tmp_path):
    file = tmp_path / "o.csv"
    file.write_text("query,clicks\n1,2\n2,many\n3,1\n4,1\n")
    with pytest.raises(rankql.RankqlError, match="clicks must be a finite number, not many"):
        rankql.associate(SCORES, file, on="query", outcome="clicks")


def test_without_scipy(monkeypatch):
    monkeypatch.setattr("rankql.errors.find_spec", lambda name: None)
    with pytest.raises(rankql.RankqlError, match=r"associate needs scipy: pip install 'rankql\["):
        rankql.associate(SCORES, COUNTS, on="query")
    with pytest.raises(rankql.RankqlError, match="sign_agreement needs scipy"):
        rankql.sign_agreement(COUNTS)


# Two systems

OLD = table(query=list("abcdefg"), AP=[0.5, 0.5, 0.5, 0.5, 0.1 + 0.2, 0.5, 0.5])
NEW = table(query=list("abcdefh"), AP=[0.7, 0.6, 0.4, 0.1, 0.3, 0.9, 0.5])
WAS = table(query=list("abcdefg"), CTR=[0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2])
NOW = table(query=list("abcdefg"), CTR=[0.3, 0.1, 0.3, 0.1, 0.3, 0.2, 0.2])


def two(**options):
    options = {"on": "query"} | options
    return rankql.associate({"old": OLD, "new": NEW}, {"old": WAS, "new": NOW}, **options)


def test_differences():
    found = two()
    assert found.systems == ("old", "new")
    assert found.pairs["query"].to_list() == list("abcdef")
    wanted = [0.2, 0.1, -0.1, -0.4, 0, 0.4]
    assert found.pairs["AP"].to_list() == pytest.approx(wanted)
    assert found.pairs["AP"][4] == 0  # 0.1 + 0.2 is not 0.3 exactly
    assert found.pairs["CTR"].to_list() == pytest.approx([0.1, -0.1, 0.1, -0.1, 0.1, 0])
    assert found.notes[0] == "every value is what a query gained: new - old"
    assert "1 of 7 queries are of one system only and left out" in found.notes
    assert found.table["sentence"][0].startswith(
        "no evidence that the change of CTR goes with the change of AP: Pearson "
    )


def test_systems_in_a_column_or_a_dict():
    one = two()
    scores = pl.concat(
        [NEW.with_columns(system=pl.lit("new")), OLD.with_columns(system=pl.lit("old"))]
    )
    counts = pl.concat(
        [WAS.with_columns(system=pl.lit("old")), NOW.with_columns(system=pl.lit("new"))]
    )
    for a, b in ((scores, counts), ({"old": OLD, "new": NEW}, counts)):
        assert rankql.associate(a, b, on="query", baseline="old").table.equals(one.table)
    turned = rankql.associate(scores, counts, on="query", baseline="new")
    assert turned.pairs["AP"].to_list() == pytest.approx([-x for x in one.pairs["AP"]])
    with pytest.raises(rankql.RankqlError, match=r"baseline: name the first of .* 'new' or 'old'"):
        rankql.associate(scores, counts, on="query")
    with pytest.raises(rankql.RankqlError, match="baseline: there is no system 'x'"):
        two(baseline="x")
    alone = scores.filter(pl.col("system") == "new")
    for single in (counts, NOW):
        found = rankql.associate(alone, single, on="query")
        assert found.systems is None and row(found)["n"] == 6
        assert found.pairs["CTR"].to_list() == NOW["CTR"].to_list()[:6]
    third = pl.concat([scores, OLD.select("query", "AP", system=pl.lit("third"))])
    with pytest.raises(rankql.RankqlError, match="holds 3 systems, not one or two"):
        rankql.associate(third, counts, on="query")
    with pytest.raises(rankql.RankqlError, match="per_query holds several systems"):
        rankql.associate(scores, NOW, on="query")


def test_systems_that_share_nothing():
    other = NEW.with_columns(query=pl.col("query") + "2")
    now = NOW.with_columns(query=pl.col("query") + "2")
    with pytest.raises(rankql.RankqlError, match="no query is in both 'old' and 'new'; take a key"):
        rankql.associate({"old": OLD, "new": other}, {"old": WAS, "new": now}, on="query")
    with pytest.raises(rankql.RankqlError, match="per_query 'new' has no row with a key"):
        rankql.associate({"old": OLD, "new": NEW.head(0)}, {"old": WAS, "new": NOW}, on="query")
    torn = {"old": OLD.with_columns(part=1), "new": NEW.with_columns(part=2)}
    with pytest.raises(rankql.RankqlError, match="part must have one value per query"):
        rankql.associate(torn, {"old": WAS, "new": NOW}, on="query", by="part")


def test_quadrants_by_hand():
    """a up up, b up down, c down up, d down down, e same up, f up same."""
    found = two().quadrants()
    assert found.table.rows() == [
        ("up", "up", 1, 1 / 6, "better, and noticed"),
        ("up", "down", 1, 1 / 6, "relevant but not attractive"),
        ("down", "up", 1, 1 / 6, "attractive but not relevant (clickbait?)"),
        ("down", "down", 1, 1 / 6, "worse"),
        ("up", "same", 1, 1 / 6, "unchanged"),
        ("down", "same", 0, 0, "unchanged"),
        ("same", "up", 1, 1 / 6, "unchanged"),
        ("same", "down", 0, 0, "unchanged"),
        ("same", "same", 0, 0, "unchanged"),
    ]
    assert found.sentences[1] == (
        "from old to new, AP up and CTR down: 1 query (16.7%), relevant but not attractive"
    )
    assert found.sentences[-1] == "2 queries did not move in one or both"
    with pytest.raises(rankql.RankqlError, match="quadrants needs two systems"):
        simpson().quadrants()


def test_of_two_systems_all_is_of_changes():
    found = two()
    said = found.calibration().sentences[0]
    assert said.startswith("mean change of CTR is -0.1 in the lowest bin by change of AP")
    moved = {"old": OLD.with_columns(AP=0), "new": OLD.with_columns(AP=pl.int_range(7))}
    sold = {"old": WAS.with_columns(CTR=0), "new": WAS.with_columns(CTR=pl.int_range(7))}
    best = rankql.associate(moved, sold, on="query").best(folds=2)
    assert best.sentences[0].startswith("the change of AP predicts the change of CTR best")
    assert found.best(folds=2).sentences[0] == (
        "no metric predicts the change of CTR better than its mean does"
    )


def test_quadrants_where_less_is_better():
    names = {"AP": "TauDistance"}
    found = rankql.associate(
        {"old": OLD.rename(names), "new": NEW.rename(names)}, {"old": WAS, "new": NOW}, on="query"
    )
    readings = found.quadrants().table["reading"].to_list()
    assert readings[:2] == ["attractive but not relevant (clickbait?)", "worse"]
    assert "less is better of TauDistance" in found.notes


# Calibration


def test_calibration_by_hand():
    """Twenty different values in ten bins of two, whose intervals are Student's."""
    x = list(range(20))
    y = [i * i for i in x]
    found = rankql.associate(table(user=x, AP=x), table(user=x, CTR=y), on="user").calibration()
    assert found.table["n"].to_list() == [2] * 10
    assert found.table.row(3)[:5] == (4, 2, 6.0, 7.0, (36 + 49) / 2)
    width = stats.t.ppf(0.975, 1) * np.std([36, 49], ddof=1) / math.sqrt(2)
    assert found.table.row(3)[5:] == pytest.approx((42.5 - width, 42.5 + width))
    assert found.sentences == [
        "mean CTR is 0.5 in the lowest bin by AP, 342 in the highest; it rises in 9 of 9 steps"
    ]


def test_equal_values_stay_in_one_bin():
    """Bins from 0: zeros have the mean rank 4 and floor(3.5 * 4 / 10) = 1; 0.5 and 1 have 3."""
    x = [0, 0, 0, 0, 0, 0, 0, 0.5, 1, 1]
    keys = list(range(10))
    found = rankql.associate(table(user=keys, AP=x), table(user=keys, CTR=keys), on="user")
    got = found.calibration(bins=4)
    assert got.table.select("bin", "n", "from", "to", "mean").rows() == [
        (1, 7, 0, 0, 3), (2, 3, 0.5, 1, 8)
    ]  # fmt: skip
    assert got.sentences[1] == "2 bins in place of 4: equal values of AP stay together"
    one = rankql.associate(table(user=keys, AP=[1] * 10), table(user=keys, CTR=keys), on="user")
    assert one.calibration().table["n"].to_list() == [10]
    alone = found.calibration(bins=100).table
    assert alone["n"].to_list() == [7, 1, 2] and alone["lo"][1] is None


@settings(max_examples=10)
@given(st.lists(small, min_size=1, max_size=30), st.integers(2, 12))
def test_bins_of_any_values(values, bins):
    """Every key once, equal values together, bins in order, none larger than its ties ask for."""
    keys = list(range(len(values)))
    found = rankql.associate(table(user=keys, AP=values), table(user=keys, CTR=keys), on="user")
    got = found.calibration(bins=bins).table
    assert got["n"].sum() == len(values) and len(got) <= bins
    ends = got.select("from", "to").rows()
    assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
    spread = rankql.associate(table(user=keys, AP=keys), table(user=keys, CTR=keys), on="user")
    sizes = spread.calibration(bins=bins).table["n"]
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("bins", [1, 0, 2.0, True, None])
def test_bins_are_refused(bins):
    with pytest.raises(rankql.RankqlError, match="bins must be a whole number from 2, not"):
        simpson().calibration(bins=bins)


# Prediction


@pytest.mark.parametrize("shape", ["linear", "monotone"])
@pytest.mark.parametrize("group", [None, "part"])
def test_prediction_is_what_sklearn_says(shape, group):
    scores, outcomes = many()
    down = scores.with_columns((-pl.col("AP")).alias("RR"))  # and one that falls
    found = rankql.associate(down, outcomes, on="query", outcome="rate", by="part")
    folds, seed = 3, 11
    got = found.best(folds=folds, seed=seed, shape=shape, group=group).table
    units = np.arange(len(scores)) if group is None else scores[group].to_numpy()
    fold = (np.random.default_rng(seed).permutation(units.max() + 1) % folds)[units]
    y, wrong = outcomes["rate"].to_numpy(), {}
    for metric in got["metric"]:  # the best first
        x = down[metric].to_numpy()[:, None]
        errors, mean = np.empty(len(y)), np.empty(len(y))
        for i in range(folds):
            out = fold == i
            up = stats.spearmanr(x[~out, 0], y[~out]).statistic >= 0
            model = LinearRegression() if shape == "linear" else IsotonicRegression(
                increasing=bool(up), out_of_bounds="clip")  # fmt: skip
            fitted = model.fit(x[~out], y[~out]).predict(x[out])
            none = DummyRegressor().fit(x[~out], y[~out]).predict(x[out])
            errors[out], mean[out] = (y[out] - fitted) ** 2, (y[out] - none) ** 2
        said = got.row(by_predicate=pl.col("metric") == metric, named=True)
        assert said["r2"] == pytest.approx(1 - errors.sum() / mean.sum(), abs=1e-9)
        by_fold = [1 - errors[fold == i].sum() / mean[fold == i].sum() for i in range(folds)]
        assert said["lowest_fold"] == pytest.approx(min(by_fold), abs=1e-9)
        assert said["highest_fold"] == pytest.approx(max(by_fold), abs=1e-9)
        assert said["behind"] == pytest.approx(got["r2"][0] - said["r2"], abs=1e-9)
        wrong[metric] = errors
        lost = (errors - wrong[got["metric"][0]]) / mean.mean()
        if lost.any():
            clustered = {"cov_type": "cluster", "cov_kwds": {"groups": units}, "use_t": True}
            line = sm.OLS(lost, np.ones(len(y))).fit(**clustered if group else {})
            ends = (said["behind_lo"], said["behind_hi"])
            assert ends == pytest.approx(tuple(line.conf_int()[0]), abs=1e-9)


def test_which_is_best_and_by_more_than_noise():
    n = 400
    rng = np.random.default_rng(5)
    y, junk = rng.normal(size=n), rng.normal(size=n)
    near = y + rng.normal(size=n) * 0.5
    scores = table(user=np.arange(n))
    columns = {"nDCG@10": near, "nDCG@20": near + 1e-3 * rng.normal(size=n),
               "P@1": y + 2 * rng.normal(size=n), "RR": junk}  # fmt: skip
    scores = scores.with_columns(pl.Series(name, of) for name, of in columns.items())
    outcomes = table(user=np.arange(n), CTR=y)
    found = rankql.associate(scores, outcomes, on="user")
    best = found.best()
    assert {*best.table["metric"][:2]} == {"nDCG@10", "nDCG@20"}
    assert best.table["metric"].to_list()[2:] == ["P@1", "RR"]
    assert best.table["behind"][0] == 0 and best.table["behind_lo"][0] is None
    second = best.table["metric"][1]
    assert best.sentences[1:] == [f"within noise of it: {second}", "no better than the mean: RR"]
    assert best.table["behind_lo"][2] > 0
    few = rankql.associate(scores, outcomes, on="user", metrics=["nDCG@10", "P@1"]).best()
    assert few.sentences[1].startswith("the next, P@1, is behind by 0.")
    # The order of the rows is nothing to it; the seed is.
    mixed = rankql.associate(scores.sample(n, shuffle=True, seed=1), outcomes.reverse(), on="user")
    assert mixed.best().table.equals(best.table)
    assert not found.best(seed=8).table.equals(best.table)
    none = rankql.associate(scores, outcomes, on="user", metrics="RR").best()
    assert none.sentences == ["no metric predicts CTR better than its mean does"]


def test_all_metrics_on_the_same_keys():
    scores, outcomes = many(50)
    holes = scores.with_columns(pl.when(pl.col("query") >= 10).then("P@5"))
    best = rankql.associate(holes, outcomes, on="query", outcome="rate").best()
    assert best.table["n"].to_list() == [40, 40]
    assert best.sentences[-1] == "10 of 50 queries have not all values and are left out"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds must be a whole number from 2, not 1"),
        ({"folds": 7}, "folds=7 needs as many users; there are 6"),
        ({"folds": 3, "group": "segment"}, "folds=3 needs as many segments; there are 2"),
        ({"seed": -1}, "seed must be a whole number from 0, not -1"),
        ({"shape": "cubic"}, "shape must be 'linear' or 'monotone', not cubic"),
        ({"group": "seg"}, "group: there is no column 'seg'; did you mean segment?"),
        ({"outcome": "CRT"}, "outcome: there is no 'CRT'; did you mean CTR?"),
    ],
)
def test_errors_of_best(options, message):
    with pytest.raises(rankql.RankqlError) as caught:
        simpson().best(**options)
    assert message in str(caught.value)


def test_nothing_to_predict():
    keys = list(range(6))
    found = rankql.associate(table(user=keys, AP=keys), table(user=keys, CTR=[1] * 6), on="user")
    with pytest.raises(rankql.RankqlError, match="CTR is constant: there is nothing to predict"):
        found.best()


def test_one_of_several_must_be_named():
    scores, outcomes = many(20)
    found = rankql.associate(scores, outcomes, on="query")
    with pytest.raises(rankql.RankqlError, match="name the metric: metric= one of AP, P@5"):
        found.calibration()
    with pytest.raises(rankql.RankqlError, match="name the outcome: outcome= one of rate, sold"):
        found.best()
    with pytest.raises(rankql.RankqlError, match="metric: there is no 'AX'"):
        found.calibration("AX", "rate")


# Across launches

OFFLINE = [1, 2, -1, 1, 3, 1, -2, 1]
ONLINE = [2, 1, -1, 1, 2, -1, 1, 3]


def test_launches_by_hand():
    found = rankql.sign_agreement(table(offline=OFFLINE, online=ONLINE))
    said = found.table.row(0, named=True)
    counts = [said[name] for name in ("launches", "agree", "disagree", "unmoved", "rows")]
    assert counts == [8, 6, 2, 0, 8]
    assert (said["share"], round(said["lo"], 2), round(said["hi"], 2)) == (0.75, 0.41, 0.93)
    wilson = proportion_confint(6, 8, method="wilson")
    assert (said["lo"], said["hi"]) == pytest.approx(wilson)
    line = sm.OLS(ONLINE, sm.add_constant(np.array(OFFLINE, float))).fit()
    assert said["slope"] == pytest.approx(line.params[1])
    assert (said["slope_lo"], said["slope_hi"]) == pytest.approx(tuple(line.conf_int()[1]))
    assert found.sentences[0].endswith("no evidence that they do more than by chance")


def test_launches_with_slices():
    """Signs are of the launch's means; the slope's interval is by leaving each launch out once."""
    rng = np.random.default_rng(4)
    launch = np.repeat(np.arange(10), 3)
    x = rng.normal(size=30) + rng.normal(size=10)[launch]
    y = 0.5 * x + rng.normal(size=10)[launch]
    names = pl.Series("id", launch).cast(pl.String)
    past = table(id=names, dNDCG=x, dCTR=y)
    found = rankql.sign_agreement(past, "dNDCG", "dCTR", "id", confidence=0.9)
    said = found.table.row(0, named=True)
    beta = sm.OLS(y, sm.add_constant(x)).fit().params[1]
    without = [
        sm.OLS(y[launch != i], sm.add_constant(x[launch != i])).fit().params[1] for i in range(10)
    ]
    width = stats.t.ppf(0.95, 9) * math.sqrt(9 / 10 * np.square(without - beta).sum())
    wanted = (beta, beta - width, beta + width)
    assert tuple(said[f"slope{end}"] for end in ("", "_lo", "_hi")) == pytest.approx(wanted)
    means = past.group_by("id").agg(pl.col("dNDCG", "dCTR").mean())
    agree = int((means["dNDCG"] * means["dCTR"] > 0).sum())
    assert (said["launches"], said["rows"], said["agree"]) == (10, 30, agree)
    wilson = proportion_confint(agree, 10, alpha=0.1, method="wilson")
    assert (said["lo"], said["hi"]) == pytest.approx(wilson)
    assert "clustered by launch" in found.sentences[-1]
    mixed = rankql.sign_agreement(past.reverse(), "dNDCG", "dCTR", "id", confidence=0.9)
    assert mixed.table.equals(found.table)


@pytest.mark.parametrize("launches", [6, 12])
def test_few_launches_with_slices_hold(launches):
    """Nine in ten, where the more common CR1 holds but seven or eight."""
    rng, n, held = np.random.default_rng(launches), 500, 0
    for _ in range(n):
        units = np.repeat(np.arange(launches), rng.integers(1, 6, launches))
        shared, (x, y) = rng.normal(size=(2, launches)), rng.normal(0, 0.5, (2, len(units)))
        x = x + shared[0][units]
        found = slope(x, 0.5 * x + y + shared[1][units], units, 0.9)
        held += found.lo <= 0.5 <= found.hi
    assert 0.87 < held / n < 0.93


@pytest.mark.parametrize(("n", "rho"), [(20, 0.0), (40, 0.5), (40, 0.8)])
def test_intervals_of_correlations_hold(n, rho):
    """Nine in ten: pooled, and within slices whose means would turn the sign."""
    rng, times, held = np.random.default_rng(n), 500, np.zeros(4)
    part = np.arange(n) % 2
    of_ranks = 6 / math.pi * math.asin(rho / 2)
    for _ in range(times):
        x, other = rng.normal(size=(2, n))
        y = rho * x + math.sqrt(1 - rho**2) * other
        torn = x + 5 * part, y - 5 * part
        for i, (found, truth) in enumerate([
            (pearson(x, y, 0.9), rho),
            (spearman(ranks(x), ranks(y), 0.9), of_ranks),
            (pearson(*torn, 0.9, part), rho),
            (spearman(*(ranks(each, part) for each in torn), 0.9, part), of_ranks),
        ]):  # fmt: skip
            held[i] += found.lo <= truth <= found.hi
    assert (abs(held / times - 0.9) < 0.04).all()


def test_a_slope_that_hangs_on_one_launch():
    """Leave it out, and there is none: no interval, in place of one too narrow."""
    past = table(id=list("aab"), offline=[1.0, 1, 2], online=[1.0, 3, 4])
    found = rankql.sign_agreement(past, experiment="id")
    assert found.table.select("slope", "slope_lo").row(0) == (pytest.approx(2), None)
    assert found.sentences[-1].endswith(
        "(no interval: too few launches that differ, or all on one line)"
    )


def test_differences_near_the_end_of_all_numbers():
    """Sums and squares of them are beyond it; signs and slope are not."""
    offline, online = [1.0, 2, -1, 1, 3, 1], [1.0, -1] * 3
    small = rankql.sign_agreement(table(offline=offline, online=online)).table
    large = rankql.sign_agreement(table(offline=offline, online=[1e308 * y for y in online])).table
    ends = ["slope", "slope_lo", "slope_hi"]
    assert large.drop(ends).equals(small.drop(ends))
    for name in ends:
        assert large[name].item() == pytest.approx(1e308 * small[name].item())
    past = table(
        id=list("aaaabb"), offline=[1.0] * 6, online=[1e308] * 2 + [-1e308] * 2 + [1.0] * 2
    )
    assert rankql.sign_agreement(past, experiment="id").table["unmoved"].item() == 1


def test_confidence_as_numpy_has_it():
    found = simpson()
    for confidence in (np.float32(0.95), np.float64(0.95)):
        again = rankql.associate(
            found.pairs.select("user", "AP"), found.pairs.select("user", "CTR"), on="user",
            confidence=confidence,
        )  # fmt: skip
        assert again.table["pearson_lo"].item() == pytest.approx(row(found)["pearson_lo"], abs=1e-6)


def test_the_note_on_p():
    (note,) = [note for note in simpson().notes if note.startswith("p is")]
    assert note == (
        "p is not adjusted for the 4 rows: where nothing is related, 1 in 20 is still below 0.05"
    )


def test_few_launches_are_no_evidence():
    found = rankql.sign_agreement(table(offline=[1, 2, 3, 4, 5], online=[1, 1, 2, 1, 1]))
    assert found.sentences[0] == (
        "5 of 5 launches agree in sign: 1.00 (0.57 to 1.00); "
        "so few launches are no evidence, were all of one sign"
    )
    enough = rankql.sign_agreement(table(offline=[1] * 5 + [2], online=[1, 1, 2, 1, 1, 1]))
    assert enough.sentences[0].endswith("more often than by chance")
    against = rankql.sign_agreement(table(offline=[1] * 5 + [2], online=[-1, -1, -2, -1, -1, -1]))
    assert against.sentences[0].endswith("less often than by chance")
    for each in (found, enough, against):
        assert "significant" not in " ".join(each.sentences)


def test_launches_that_did_not_move():
    past = table(
        id=list("aabbcde"),
        offline=[0.1, -0.1, 0.3, 0.1, 1.0, 0.0, None],
        online=[1.0, 1.0, 1.0, 0.0, -1.0, 2.0, 1.0],
    )
    found = rankql.sign_agreement(past, experiment="id")
    said = found.table.row(0, named=True)
    counts = [said[x] for x in ("launches", "agree", "disagree", "unmoved", "rows")]
    assert counts == [4, 1, 1, 2, 6]
    assert "2 of 4 launches did not move one or both" in found.sentences
    assert found.sentences[-1] == "1 of 7 rows have a NULL and are left out"
    none = rankql.sign_agreement(table(offline=[0, 0], online=[1, 2]))
    assert none.table.row(0, named=True)["share"] is None
    assert none.sentences[0] == "no launch moved both: there are no signs to compare"
    assert none.sentences[-1] == "there is no slope: the offline differences are all the same"


@pytest.mark.parametrize(
    ("past", "options", "message"),
    [
        (table(a=[1]), {}, "offline: experiments has no column 'offline'"),
        (table(offline=[1]), {}, "online: experiments has no column 'online'"),
        (table(offline=[1], online=[1]), {"experiment": "x"}, "experiment: experiments has no col"),
        (table(offline=[1], online=["x"]), {}, "online must be a number, not text"),
        (table(offline=[NAN], online=[1]), {}, "offline must be a finite number, not nan"),
        (table(offline=[1.0], online=[INF]), {}, "online must be a finite number, not inf"),
        (table(offline=[1], online=[None]), {}, "experiments has no row with both differences"),
        (table(offline=[1], online=[1]), {"confidence": 2}, "confidence must lie between 0 and 1"),
        (
            table(offline=[1e-300, -1e-300] * 3, online=[1e308, -1e308] * 3),
            {},
            "the slope of online on offline is beyond all numbers; scale one of them",
        ),
    ],
)
def test_errors_of_launches(past, options, message):
    with pytest.raises(rankql.RankqlError) as caught:
        rankql.sign_agreement(past, **options)
    assert message in str(caught.value)


# Shown


def test_shown():
    found = simpson()
    assert repr(found).splitlines()[1].startswith("AP")
    assert "<table>" in found._repr_html_() and "| metric |" in found.to_markdown()
    said = json.loads(found.to_json())
    assert said["on"] == ["user"] and len(said["table"]) == 4
    assert found.to_polars().equals(found.table) and len(found.to_pandas()) == 4
    for each in (found.calibration(), found.best(folds=2), two().quadrants()):
        assert each.sentences[0] in repr(each) and "<table>" in each._repr_html_()
        assert json.loads(each.to_json())["sentences"] == each.sentences
        assert each.to_markdown().startswith("| ") and each.to_polars().equals(each.table)


def test_command(tmp_path):
    file, other = tmp_path / "scores.parquet", tmp_path / "counts.csv"
    SCORES.write_parquet(file)
    COUNTS.rename({"query": "search"}).write_csv(other)
    base = ["associate", str(file), str(other), "--on", "query=search"]
    ratio = ["--outcome", "CTR=clicks/shown", "--outcome", "clicks"]
    done = CliRunner().invoke(main, [*base, *ratio, "--by", "part", "--format", "csv"])
    assert done.exit_code == 0, done.output
    wanted = rankql.associate(
        SCORES, COUNTS, on="query", outcome={"CTR": ("clicks", "shown"), "clicks": "clicks"},
        by="part",
    )  # fmt: skip
    assert done.stdout.splitlines()[0] == ",".join(wanted.table.columns)
    assert len(done.stdout.splitlines()) == 1 + len(wanted.table)
    assert "CTR" in CliRunner().invoke(main, [*base, *ratio[:2]]).stdout
    wrong = CliRunner().invoke(main, [*base, "-m", "RR"])
    assert wrong.exit_code == 2 and "per_query has no column 'RR'" in wrong.stderr


def drawn(chart):
    """The rows of a chart."""
    return max(chart.to_dict()["datasets"].values(), key=len)


def test_charts():
    pytest.importorskip("altair")
    sizes = [len(drawn(simpson().plot(kind))) for kind in ("scatter", "slices", "calibration")]
    assert sizes == [6, 4, 6]
    assert sum(value["n"] for value in drawn(two().plot("quadrants"))) == 6
    with pytest.raises(rankql.RankqlError, match="kind: there is no plot 'pie'"):
        simpson().plot("pie")
    keys, (x, y) = np.arange(3000), np.random.default_rng(0).random((2, 3000))
    large = rankql.associate(table(user=keys, AP=x), table(user=keys, CTR=y), on="user")
    assert len(drawn(large.plot())) == 2000

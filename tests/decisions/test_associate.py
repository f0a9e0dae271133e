"""Metrics and outcomes: joined, correlated, and the launches of the past."""

import functools
import json
import math
from datetime import date

import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import rankql
from rankql.cli.main import main
from rankql.decisions.association import count_cases
from rankql.decisions.correlations import pearson, spearman
from support.simulation import REPEATS

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
        # p belongs to the interval: it is that of Fisher's z.
        p = 2 * stats.norm.sf(math.atanh(r.statistic) * math.sqrt(len(x) - 3))
        assert p == pytest.approx(r.pvalue, rel=0.1)
        wanted = [r.statistic, bounds.low, bounds.high, p]
        assert [said[f"pearson{e}"] for e in ("", "_lo", "_hi", "_p")] == pytest.approx(wanted)
        rho = stats.spearmanr(x, y)
        width = stats.norm.ppf((1 + confidence) / 2) * math.sqrt(
            (1 + rho.statistic**2 / 2) / (len(x) - 3)
        )
        ends = [math.tanh(math.atanh(rho.statistic) + sign * width) for sign in (-1, 1)]
        error = width / stats.norm.ppf((1 + confidence) / 2)
        wanted = [rho.statistic, *ends, 2 * stats.norm.sf(math.atanh(rho.statistic) / error)]
        assert [said[f"spearman{e}"] for e in ("", "_lo", "_hi", "_p")] == pytest.approx(wanted)
        assert said["n"] == len(x)


@pytest.mark.statsmodels
def test_within_is_the_partial_correlation():
    """Pearson: residuals after the slices are taken out; p is that of the regression with them."""
    scores, outcomes = many()
    found = rankql.associate(scores, outcomes, on="query", outcome="rate", by="part")
    said = row(found, "AP", part="within part")
    dummies = np.eye(3)[scores["part"].to_numpy()]
    x, y = scores["AP"].to_numpy(), outcomes["rate"].to_numpy()
    rests = [v - dummies @ np.linalg.lstsq(dummies, v, rcond=None)[0] for v in (x, y)]
    r = np.corrcoef(*rests)[0, 1]
    width = stats.norm.ppf(0.975) / math.sqrt(len(x) - 3 - 2)
    wanted = [r, math.tanh(math.atanh(r) - width), math.tanh(math.atanh(r) + width)]
    assert [said[f"pearson{e}"] for e in ("", "_lo", "_hi")] == pytest.approx(wanted)
    assert said["pearson_p"] == pytest.approx(
        2 * stats.norm.sf(abs(math.atanh(r)) * math.sqrt(len(x) - 3 - 2))
    )


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


def drawn_values(kind, rng, n):
    values = {
        "normal": rng.normal(size=n),
        "skewed": rng.lognormal(0, 2, n),
        "tied": rng.integers(0, 3, n),
        "binary": rng.random(n) < 0.5,
        "mostly 0": np.where(rng.random(n) < 0.7, 0, rng.lognormal(0, 1, n)),
    }
    return values[kind].astype(float)


UNRELATED = [
    ("normal", "skewed"), ("skewed", "skewed"), ("tied", "tied"), ("binary", "binary"),
    ("binary", "normal"), ("mostly 0", "mostly 0"), ("mostly 0", "tied"),
]  # fmt: skip


def called_related(kinds, n, slices, times):
    """The share of unrelated columns that Spearman, which chooses the word, calls related."""
    rng = np.random.default_rng(n)
    codes = None if slices == 1 else np.sort(np.arange(n) % slices)
    wrong = 0
    for _ in range(times):
        x, y = (drawn_values(kind, rng, n) for kind in kinds)
        found = spearman(x, y, 0.95, codes)
        assert found.enough or found.r is None
        wrong += found.sign != 0
    return wrong / times


@pytest.mark.parametrize("kinds", [("binary", "binary"), ("mostly 0", "tied")])
def test_unrelated_columns_are_rarely_called_related(kinds):
    assert called_related(kinds, 10, 1, 1000) <= 0.05


@pytest.mark.simulation
@pytest.mark.parametrize("n", [10, 11, 12, 15, 30])
@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("kinds", UNRELATED)
def test_unrelated_columns_are_called_related_in_1_of_20_at_most(kinds, slices, n):
    times = REPEATS
    share = called_related(kinds, n + slices - 1, slices, times)
    assert share <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / times)


def autocorrelated(rng, n, phi):
    """Days with this autocorrelation, a weekly pattern and a trend."""
    x = rng.normal(size=n + 50)
    for day in range(1, n + 50):
        x[day] += phi * x[day - 1]
    return x[50:] + np.sin(np.arange(n) * 2 * np.pi / 7) + np.arange(n) / n


def days_called_related(n, phi, times):
    """The share of unrelated series of days that Spearman calls related."""
    rng = np.random.default_rng([n, round(10 * phi)])
    draw = functools.partial(autocorrelated, rng, n, phi)
    days = np.arange(n)
    return sum(spearman(draw(), draw(), 0.95, None, days).sign != 0 for _ in range(times)) / times


def test_unrelated_days_are_rarely_called_related():
    assert days_called_related(50, 0.7, 300) <= 0.06


@pytest.mark.simulation
@pytest.mark.parametrize("n", [20, 50, 300])
@pytest.mark.parametrize("phi", [0.0, 0.4, 0.7])
def test_unrelated_days_are_called_related_in_1_of_20_at_most(phi, n):
    share = days_called_related(n, phi, REPEATS)
    assert share <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / REPEATS)


@pytest.mark.parametrize("as_text", [False, True])
def test_days_lose_weekday_and_trend(as_text):
    days = pl.date_range(date(2026, 1, 1), date(2026, 3, 1), eager=True)
    days = days.cast(pl.String) if as_text else days
    trend, (x, y) = np.arange(60), np.random.default_rng(3).normal(size=(2, 60))
    found = rankql.associate(
        table(day=days, AP=trend + x), table(day=days, CTR=trend + y), on="day"
    )
    assert abs(row(found)["spearman"]) < 0.3 and row(found)["spearman_lo"] < 0
    twice = table(day=[*days, *days], user=[1] * 60 + [2] * 60, AP=[*x, *y], CTR=[*y, *x])
    found = rankql.associate(twice.drop("CTR"), twice.drop("AP"), on=["day", "user"])
    assert row(found)["pearson"] is not None and row(found)["pearson_lo"] is None


@pytest.mark.parametrize("n", range(3, 10))
def test_below_10_keys_no_sentence_says_related(n):
    """Not even a perfect correlation: of 3 keys, 1 in 3 has that by chance."""
    keys = list(range(n))
    found = rankql.associate(table(user=keys, AP=keys), table(user=keys, CTR=keys), on="user")
    (sentence,) = found.sentences
    assert sentence == (
        f"too few users to say whether CTR goes with AP: Pearson 1.00, Spearman 1.00, {n} users"
    )
    keys = list(range(10))
    found = rankql.associate(table(user=keys, AP=keys), table(user=keys, CTR=keys), on="user")
    assert found.sentences[0].startswith("CTR is higher where AP is higher")


def test_within_slices_asks_for_more_keys():
    """As many degrees of freedom: 9 and the number of slices."""
    for n, word in [(10, "too few users"), (11, "CTR is higher")]:
        keys = list(range(n))
        scores = table(user=keys, AP=keys, part=[i % 2 for i in keys])
        rates = [i + (i % 3) / 2 for i in keys]
        found = rankql.associate(scores, table(user=keys, CTR=rates), on="user", by="part")
        assert found.sentences[0].startswith("CTR is higher")
        assert found.sentences[1].startswith(f"within part: {word}")


def test_p_goes_with_the_interval():
    """It is at most 5% exactly where the interval excludes 0, of either coefficient."""
    rng, close = np.random.default_rng(1), 0
    for _ in range(2000):
        x, noise = rng.normal(size=(2, 12))
        y = 0.6 * x + noise
        for found in (pearson(x, y, 0.95), spearman(x, y, 0.95)):
            assert (found.p <= 0.05) == (not found.lo <= 0 <= found.hi)
            close += 0.045 < found.p < 0.055
    assert close > 5


def test_pearson_alone_is_no_evidence():
    """One extreme key makes Pearson's interval exclude 0; ranks are not moved by it."""
    rng = np.random.default_rng(3)
    keys, (x, y) = np.arange(30), rng.random((2, 30))
    x[0] = y[0] = 100
    found = rankql.associate(table(user=keys, AP=x), table(user=keys, CTR=y), on="user")
    assert row(found)["pearson_lo"] > 0.9
    assert found.sentences[0].startswith("no significant association between AP and CTR: ")
    said = "(only Pearson's interval excludes 0, and it depends on extreme values), 30 users"
    assert found.sentences[0].endswith(said)


@pytest.mark.parametrize(
    ("key", "said"),
    [("launch", "4 launches"), ("k", "4 keys"), ("id", "4 keys"), ("user_id", "4 users"),
     ("query", "4 queries"), ("day", "4 days"), ("box", "4 boxes"), ("class", "4 classes"),
     ("clicks", "4 clicks"), ("Country", "4 Countries"), ("用户", "4 用户"), ("x1", "4 keys")],
)  # fmt: skip
def test_keys_are_counted_in_plain_english(key, said):
    scores, counts = table(**{key: [1, 2, 3, 4]}, AP=[1, 2, 4, 3]), [1, 2, 3, 5]
    found = rankql.associate(scores, table(**{key: [1, 2, 3, 4]}, CTR=counts), on=key)
    assert found.sentences[0].endswith(f", {said}")


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
    # f = 6 - 1 - 2 = 3, so that the error of z is 1 / sqrt(2).
    assert within["pearson_p"] == pytest.approx(2 * stats.norm.sf(math.atanh(0.5) * math.sqrt(2)))
    assert within["pearson_hi"] == pytest.approx(
        math.tanh(math.atanh(-0.5) + stats.norm.ppf(0.975) / math.sqrt(2))
    )
    assert row(found, part="segment=a")["pearson"] == pytest.approx(-1 / 2)
    (note,) = [note for note in found.notes if "overall" in note]
    assert note.startswith("AP and CTR: Pearson is 0.96 (0.68 to 1.00) overall, but -0.50 (")
    assert note.endswith("within segment. At least one of them is not significant")


def test_simpson_beyond_noise():
    n = 40
    noise = np.random.default_rng(0).normal(0, 0.1, (2, n))
    part = np.arange(n) % 2
    x = np.linspace(0, 1, n) + 3 * part
    scores = table(user=np.arange(n), AP=x + noise[0], segment=part)
    outcomes = table(user=np.arange(n), CTR=-x + 8 * part + noise[1])
    found = rankql.associate(scores, outcomes, on="user", by="segment")
    (note,) = [note for note in found.notes if "overall" in note]
    assert note.endswith("Simpson's paradox: trust the value within slices")
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
        ([1, 2, 3], [1, 3, 2], "too few for an interval", ("",)),
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
        assert found.sentences[0].startswith(f"no correlation of AP and CTR: {remark} (")


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
    assert "RR is NULL for 4 of 4 users: dropped from its correlations" in found.notes


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
    assert "per_query has several rows per day: metrics are averaged" in found.notes
    assert (
        "outcomes has several rows per day: rates are averaged, ratios are taken of the sums"
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
        "Dropped 2 of 6 users of per_query not found in outcomes ('a', NULL)",
        "Dropped 5 of 9 users of outcomes not found in per_query ('f', 'g', 'h', ...)",
        "AP is NULL for 1 of 4 users: dropped from its correlations",
        "CTR is NULL for 2 of 4 users: dropped from its correlations",
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
    result.save_values(file)
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


SCORES = table(query=[1, 2, 3, 4], AP=[0.1, 0.2, 0.3, 0.5], part=[1, 1, 2, 2])
COUNTS = table(query=[1, 2, 3, 4], clicks=[1, 2, 4, 3], shown=[9, 9, 9, 9], who=list("abcd"))
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"on": "user"},
            "on='user': no column of that name in per_query. Did you mean 'query'?",
        ),
        ({"on": {"query": "search"}}, "on='search': no column of that name in outcomes"),
        ({"on": []}, "on= must name the columns of the key, not []"),
        ({"on": 3}, "on= must name the columns of the key, not 3"),
        ({"on": ["query", "system"]}, "on= cannot contain 'system'"),
        ({"metrics": "nDCG@10"}, "metrics='nDCG@10': no column of that name in per_query"),
        ({"metrics": "who"}, "metrics='who': no column of that name in per_query"),
        ({"metrics": []}, "metrics= must name columns of per_query, not []"),
        ({"metrics": 1}, "metrics= must name columns of per_query, not 1"),
        ({"outcome": "CTR"}, "outcome='CTR': no column of that name in outcomes"),
        (
            {"outcome": {"CTR": ("clicks", "views")}},
            "outcome='views': no column of that name in outcomes",
        ),
        ({"outcome": {"CTR": ("clicks",) * 3}}, "outcome= must name columns, or be a dict"),
        ({"outcome": {}}, "outcome= must name columns, or be a dict of ratios"),
        ({"outcome": 7}, "outcome= must name columns, or be a dict"),
        ({"outcome": {"CTR": 7}}, "outcome= must name columns, or be a dict"),
        ({"outcome": [["clicks"]]}, "outcome= must name columns, or be a dict"),
        ({"on": {"query": ("query", "user")}}, "on= must name the columns of the key"),
        ({"outcome": "who"}, "outcomes: who must be a number, not text. Cast it first"),
        (
            {"outcome": {"AP": "clicks"}},
            "Two columns of the result would be named 'AP'. Choose other metrics=",
        ),
        (
            {"by": "segment"},
            "by='segment': no column of that name in per_query and outcomes. Available: query, AP",
        ),
        (
            {"per_query": SCORES.with_columns(system=pl.lit("new")), "by": "system"},
            "by= cannot contain 'system'. Leave it out",
        ),
        ({"by": 1}, "by must be names of columns, or lists of them, not 1"),
        ({"confidence": 95}, "confidence must lie between 0 and 1, not 95"),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1, not 1.0"),
        ({"baseline": "old"}, "baseline= needs two systems, but per_query has one"),
        (
            {"per_query": SCORES.select("query", who=pl.lit("x"))},
            "per_query has no numeric column. Pass metrics=",
        ),
        (
            {"per_query": {"old": SCORES, "new": SCORES}},
            "per_query must be one table, not a dict. Put systems in one table with a column",
        ),
        ({"per_query": 5}, "per_query must be a path, a table, a relation or a frame, not int"),
        ({"outcomes": "none.csv"}, "outcomes: file 'none.csv' does not exist"),
        (
            {"outcomes": COUNTS.select("query", "who")},
            "outcomes has no numeric column except the key",
        ),
        (
            {"outcomes": COUNTS.with_columns(query=pl.col("query") + 10)},
            "no query is in both tables: per_query has 1, 2, 3, ..., outcomes has 11, 12, 13, ...",
        ),
        ({"outcomes": COUNTS.head(0)}, "outcomes has no rows"),
        ({"per_query": SCORES.head(0)}, "per_query has no rows"),
        (
            {"per_query": SCORES.with_columns(query=pl.lit(None, pl.Int64))},
            "No query is in both tables: per_query has NULL, outcomes has 1, 2, 3, ...",
        ),
        (
            {"outcomes": COUNTS.rename({"clicks": "^x$"})},
            "'^x$' stands for several columns in polars. Rename the column",
        ),
        (
            {"per_query": SCORES.rename({"AP": "*"}), "metrics": "*"},
            "'*' stands for several columns in polars. Rename the column",
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
            "outcomes: shown must not be negative, as it divides clicks, not -1",
        ),
        (
            {
                "per_query": pl.concat([SCORES, SCORES.with_columns(part=pl.col("part") * 0 + 3)]),
                "by": "part",
            },
            "by: part must have one value per query, but 1 has 1 and 3. Add it to the key: on=",
        ),
        (
            {"outcomes": COUNTS.with_columns(system=pl.lit("new"))},
            "outcomes has a column 'system', but per_query does not. Add it",
        ),
        (
            {"per_query": SCORES.with_columns(system=pl.Series([*"abab"]))},
            "per_query has a column 'system', but outcomes does not. Add it",
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


def systems(old, new):
    """Both below one another, with the column system."""
    return pl.concat([x.with_columns(system=pl.lit(n)) for n, x in (("old", old), ("new", new))])


def two(**options):
    options = {"on": "query", "baseline": "old"} | options
    return rankql.associate(systems(OLD, NEW), systems(WAS, NOW), **options)


def test_differences():
    found = two()
    assert found.systems == ("old", "new")
    assert found.pairs["query"].to_list() == list("abcdef")
    wanted = [0.2, 0.1, -0.1, -0.4, 0, 0.4]
    assert found.pairs["AP"].to_list() == pytest.approx(wanted)
    assert found.pairs["AP"][4] == 0  # 0.1 + 0.2 is not 0.3 exactly
    assert found.pairs["CTR"].to_list() == pytest.approx([0.1, -0.1, 0.1, -0.1, 0.1, 0])
    assert found.notes[0] == "Each value is the change per query: new - old"
    assert "Dropped 1 of 7 queries that only one system has" in found.notes
    assert found.table["sentence"][0].startswith(
        "too few queries to say whether the change of CTR goes with the change of AP: Pearson "
    )


def test_systems_are_told_apart_by_a_column():
    one, scores, counts = two(), systems(OLD, NEW), systems(WAS, NOW)
    reverse = rankql.associate(scores.reverse(), counts.reverse(), on="query", baseline="old")
    assert reverse.table.equals(one.table)
    turned = rankql.associate(scores, counts, on="query", baseline="new")
    assert turned.pairs["AP"].to_list() == pytest.approx([-x for x in one.pairs["AP"]])
    with pytest.raises(
        rankql.RankqlError, match=r"baseline= is missing\. Pass .* from: 'new' or 'old'"
    ):
        rankql.associate(scores, counts, on="query")
    with pytest.raises(rankql.RankqlError, match="baseline= has no system 'x'"):
        two(baseline="x")
    alone = scores.filter(pl.col("system") == "new")
    for single in (counts, counts.filter(pl.col("system") == "new")):
        found = rankql.associate(alone, single, on="query")
        assert found.systems is None and row(found)["n"] == 6
        assert found.pairs["CTR"].to_list() == NOW["CTR"].to_list()[:6]
        # The outcomes of the other system are no part of it.
        assert any(
            note.startswith("Dropped 1 of 7 queries of outcomes not") for note in found.notes
        )
    third = pl.concat([scores, OLD.select("query", "AP", system=pl.lit("third"))])
    with pytest.raises(rankql.RankqlError, match=r"has 3 systems .* Keep one or two"):
        rankql.associate(third, counts, on="query")
    with pytest.raises(rankql.RankqlError, match="per_query has a column 'system', but"):
        rankql.associate(scores, NOW, on="query")


def test_systems_that_share_nothing():
    other = NEW.with_columns(query=pl.col("query") + "2")
    now = NOW.with_columns(query=pl.col("query") + "2")
    with pytest.raises(
        rankql.RankqlError, match=r"No query is in both 'old' and 'new'\. Choose a key"
    ):
        rankql.associate(systems(OLD, other), systems(WAS, now), on="query", baseline="old")
    torn = systems(OLD.with_columns(part=1), NEW.with_columns(part=2))
    with pytest.raises(rankql.RankqlError, match="part must have one value per query"):
        rankql.associate(torn, systems(WAS, NOW), on="query", by="part", baseline="old")


def test_quadrants_by_hand():
    """a up up, b up down, c down up, d down down, e same up, f up same."""
    found = two().quadrants()
    assert found.table.rows() == [
        ("up", "up", 1, 1 / 6, "better, and noticed"),
        ("up", "down", 1, 1 / 6, "relevant but not attractive"),
        ("down", "up", 1, 1 / 6, "attractive but not relevant (clickbait?)"),
        ("down", "down", 1, 1 / 6, "worse"),
        ("up", "same", 1, 1 / 6, "better by the labels, but not noticed"),
        ("down", "same", 0, 0, "worse by the labels, but not noticed"),
        ("same", "up", 1, 1 / 6, "better for users, which the labels miss"),
        ("same", "down", 0, 0, "worse for users, which the labels miss"),
        ("same", "same", 0, 0, "unchanged"),
    ]
    assert found.sentences[1] == (
        "from old to new, AP up and CTR down: 1 query (16.7%), relevant but not attractive"
    )
    assert found.notes[0].startswith("same: a change of AP within ±")
    everything = two().quadrants(band={"AP": 9, "CTR": 9})
    assert everything.table["n"].to_list() == [0] * 8 + [6]
    assert everything.notes == [
        "same: a change of AP within ±9 and CTR within ±9",
        "Higher CTR is assumed to be better. If not, set higher_is_better=",
    ]
    for band, message in [(-1, "from 0 for AP, not -1"), ({"RR": 1}, "band= names 'RR'")]:
        with pytest.raises(rankql.RankqlError, match=message):
            two().quadrants(band=band)
    with pytest.raises(rankql.RankqlError, match="quadrants needs two systems"):
        simpson().quadrants()


@pytest.mark.report
def test_of_two_systems_all_is_of_changes():
    chart = two().plot("scatter").to_dict()["layer"][0]["encoding"]
    assert [chart[axis]["title"] for axis in "xy"] == ["change of AP", "change of CTR"]


def test_one_of_several_must_be_named():
    scores, outcomes = many(20)
    found = rankql.associate(scores, outcomes, on="query")
    for options, message in [
        ({}, "Several metrics: AP, P@5. Pass metric= one of them"),
        ({"metric": "AP"}, "Several outcomes: rate, sold, shown. Pass outcome= one of them"),
        ({"metric": "AX", "outcome": "rate"}, "Unknown metric 'AX'"),
    ]:
        with pytest.raises(rankql.RankqlError, match=message):
            found.quadrants(**options)
    with pytest.raises(rankql.RankqlError, match=r"Unknown outcome 'CRT'. Did you mean 'CTR'\?"):
        simpson().quadrants(outcome="CRT")


def test_small_changes_count_as_none():
    """Moves of a twentieth of the standard deviation are noise."""
    scores = systems(OLD, OLD.with_columns(pl.col("AP") + pl.Series([1e-4, -1e-4, 1, -1, 0, 2, 2])))
    cases = rankql.associate(scores, systems(WAS, NOW), on="query", baseline="old").quadrants()
    assert cases.table.filter(metric="same")["n"].sum() == 3


@pytest.mark.parametrize(
    ("outcome", "reading"),
    [
        ("CTR", "attractive but not relevant (clickbait?)"),
        ("revenue", "convincing but not relevant"),
        ("dwell_time", "engaging but not relevant"),
        ("satisfaction", "satisfying but not relevant"),
    ],
)
def test_readings_by_outcome(outcome, reading):
    changes = pl.DataFrame({"AP": [-1.0, 1.0], outcome: [1.0, -1.0]})
    table = count_cases(changes, ("AP", outcome), {"AP": 0, outcome: 0}, (1, 1))
    assert table.filter(metric="down", outcome="up")["reading"].item() == reading


def test_quadrants_where_less_is_better():
    names = {"AP": "TauDistance"}
    scores = systems(OLD, NEW).rename(names)
    found = rankql.associate(scores, systems(WAS, NOW), on="query", baseline="old")
    readings = found.quadrants().table["reading"].to_list()
    assert readings[:2] == ["attractive but not relevant (clickbait?)", "worse"]
    assert "Lower is better: TauDistance" in found.notes


# Across launches

OFFLINE = [1, 2, -1, 1, 3, 1, -2, 1]
ONLINE = [2, 1, -1, 1, 2, -1, 1, 3]


def test_launches_by_hand():
    found = rankql.sign_agreement(table(offline=OFFLINE, online=ONLINE))
    said = found.table.row(0, named=True)
    assert [said[name] for name in ("launches", "agree", "disagree", "unmoved")] == [8, 6, 2, 0]
    assert (said["share"], round(said["lo"], 2), round(said["hi"], 2)) == (0.75, 0.35, 0.97)
    exact = stats.binomtest(6, 8).proportion_ci(0.95, "exact")
    assert (said["lo"], said["hi"]) == pytest.approx(tuple(exact))
    renamed = table(dNDCG=OFFLINE, dCTR=ONLINE)
    at_90 = rankql.sign_agreement(renamed, "dNDCG", "dCTR", confidence=0.9).table
    exact = stats.binomtest(6, 8).proportion_ci(0.9, "exact")
    assert at_90.select("lo", "hi").row(0) == pytest.approx(tuple(exact))


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
            (spearman(x, y, 0.9), of_ranks),
            (pearson(*torn, 0.9, part), rho),
            (spearman(*torn, 0.9, part), of_ranks),
        ]):  # fmt: skip
            held[i] += found.lo <= truth <= found.hi
    assert (abs(held / times - 0.9) < 0.04).all()


def test_confidence_as_numpy_has_it():
    found = simpson()
    for confidence in (np.float32(0.95), np.float64(0.95)):
        again = rankql.associate(
            found.pairs.select("user", "AP"), found.pairs.select("user", "CTR"), on="user",
            confidence=confidence,
        )  # fmt: skip
        assert again.table["pearson_lo"].item() == pytest.approx(row(found)["pearson_lo"], abs=1e-6)


def test_the_note_on_p():
    (note,) = [note for note in simpson().notes if note.startswith("p-values")]
    assert note == (
        "p-values are not adjusted for the 4 rows of the table. Of unrelated columns, about 1 in "
        "20 is below 0.05"
    )


def test_few_launches_are_no_evidence():
    found = rankql.sign_agreement(table(offline=[1, 2, 3, 4, 5], online=[1, 1, 2, 1, 1]))
    assert found.sentences[0] == (
        "5 of 5 launches agree in sign: 1.00 (95% CI 0.48 to 1.00), "
        "not significantly different from chance"
    )
    enough = rankql.sign_agreement(table(offline=[1] * 5 + [2], online=[1, 1, 2, 1, 1, 1]))
    assert enough.sentences[0].endswith("more often than by chance")
    against = rankql.sign_agreement(table(offline=[1] * 5 + [2], online=[-1, -1, -2, -1, -1, -1]))
    assert against.sentences[0].endswith("less often than by chance")


def test_launches_are_called_more_often_than_chance_in_1_of_20_at_most():
    """By the exact distribution of the number that agrees."""
    for n in (6, 8, 9, 12):
        said = 0.0
        for agree in range(n + 1):
            online = [1.0] * agree + [-1.0] * (n - agree)
            found = rankql.sign_agreement(table(offline=[1.0] * n, online=online))
            said += stats.binom.pmf(agree, n, 0.5) * ("often than by" in found.sentences[0])
        assert said <= 0.05


def test_launches_that_did_not_move():
    past = table(offline=[0.1, 0.3, 1.0, 0.0, None], online=[1e308, 0.0, -1.0, 2.0, 1.0])
    found = rankql.sign_agreement(past)
    said = found.table.row(0, named=True)
    assert [said[x] for x in ("launches", "agree", "disagree", "unmoved")] == [4, 1, 1, 2]
    assert found.sentences[1:] == [
        "2 of 4 launches did not change one or both metrics",
        "1 of 5 rows dropped because of a NULL",
    ]  # fmt: skip
    none = rankql.sign_agreement(table(offline=[0, 0], online=[1, 2]))
    assert none.table.row(0, named=True)["share"] is None
    assert none.sentences[0] == "No launch changed both metrics, so there are no signs to compare"


@pytest.mark.parametrize(
    ("past", "options", "message"),
    [
        (table(a=[1]), {}, "offline='offline': no column of that name in experiments"),
        (table(offline=[1]), {}, "online='online': no column of that name in experiments"),
        (table(offline=[1], online=["x"]), {}, "online must be a number, not text"),
        (table(offline=[NAN], online=[1]), {}, "offline must be a finite number, not nan"),
        (table(offline=[1.0], online=[INF]), {}, "online must be a finite number, not inf"),
        (table(offline=[1], online=[None]), {}, "experiments has no row with both differences"),
        (table(offline=[1], online=[1]), {"confidence": 2}, "confidence must lie between 0 and 1"),
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
    assert len(found.to_pandas()) == 4
    for each in (two().quadrants(), rankql.sign_agreement(table(offline=[1], online=[1]))):
        assert each.sentences[0] in repr(each) and "<table>" in each._repr_html_()
        assert json.loads(each.to_json())["sentences"] == each.sentences
        assert f"- {each.sentences[0]}" in each.to_markdown()


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
    assert (
        wrong.exit_code == 2 and "--metric RR: no column of that name in per_query" in wrong.stderr
    )


def drawn(chart):
    """The rows of a chart."""
    return max(chart.to_dict()["datasets"].values(), key=len)


@pytest.mark.report
def test_charts():
    sizes = [len(drawn(simpson().plot(kind))) for kind in ("scatter", "slices")]
    assert sizes == [6, 4]
    assert sum(value["n"] for value in drawn(two().plot("quadrants"))) == 6
    with pytest.raises(rankql.RankqlError, match="Unknown kind of plot 'pie'"):
        simpson().plot("pie")
    keys, (x, y) = np.arange(3000), np.random.default_rng(0).random((2, 3000))
    large = rankql.associate(table(user=keys, AP=x), table(user=keys, CTR=y), on="user")
    assert len(drawn(large.plot())) == 2000


@pytest.mark.parametrize("saved", [False, True])
def test_results_of_different_judgments_are_noted(saved, tmp_path):
    run = table(query=[*"aabbcc"], item=[*"xyxyxy"], score=[2, 1, 2, 1, 1, 2])
    first = table(query=[*"abc"], item=[*"xxx"], rel=[1, 1, 1])
    other = first.with_columns(item=pl.Series(["y", "x", "y"]))

    def judgment_notes(qrels):
        inputs = [rankql.evaluate(run, first, "AP"), rankql.evaluate(run, qrels, "RR")]
        if saved:
            for number, result in enumerate(inputs):
                result.save_values(tmp_path / f"{number}.parquet")
            inputs = [tmp_path / f"{number}.parquet" for number in range(2)]
        found = rankql.associate(*inputs, on="query", outcome="RR")
        return [note for note in found.notes if "judgments" in note]

    assert len(judgment_notes(other)) == 1
    assert judgment_notes(first) == []

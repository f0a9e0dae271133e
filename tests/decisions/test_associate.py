"""Metrics and outcomes: joined, correlated, and the launches of the past."""

import functools
import itertools
import math
from datetime import date

import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import stats

import rankql
from rankql.cli.main import main
from rankql.core.stats import correlation
from rankql.core.stats.correlation import correlate_values
from research.simulation import REPEATS
from support.parameters import few, slow
from support.refusals import refuses

ENDS = ("", "_lo", "_hi", "_p")
NAN, INF = math.nan, math.inf


def table(**columns):
    return pl.DataFrame(columns, strict=False)


def associate_values(x, y):
    """The association of AP and CTR of users with these values."""
    keys = list(range(len(x)))
    return rankql.associate(table(user=keys, AP=x), table(user=keys, CTR=y), on="user")


def row(result, metric="AP"):
    return result.table.filter(metric=metric).row(0, named=True)


def numbers(result, name, **options):
    """A coefficient, its interval and p."""
    return [row(result, **options)[f"{name}{end}"] for end in ENDS]


# Correlations


def interval_of(r, error, confidence=0.95):
    """The coefficient, its interval and p, from the standard error of atanh(r)."""
    z, width = math.atanh(r), stats.norm.ppf((1 + confidence) / 2) * error
    return [r, math.tanh(z - width), math.tanh(z + width), 2 * stats.norm.sf(abs(z) / error)]


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_overall_coefficients_equal_scipy(confidence):
    keys, (good, noise) = np.arange(200), np.random.default_rng(3).random((2, 200))
    scores = table(query=keys, AP=good, **{"P@5": good.round(1)})
    outcomes = table(query=keys, rate=0.2 * good + 0.1 * noise, sold=(good * 3).round())
    result = rankql.associate(scores, outcomes, on="query", outcome="rate", confidence=confidence)
    for metric in ("AP", "P@5"):
        x, y = scores[metric].to_numpy(), outcomes["rate"].to_numpy()
        r, rho = stats.pearsonr(x, y), stats.spearmanr(x, y).statistic
        bounds = r.confidence_interval(confidence)
        expected = interval_of(r.statistic, 1 / math.sqrt(len(x) - 3), confidence)
        assert expected[1:3] == pytest.approx([bounds.low, bounds.high])
        assert numbers(result, "pearson", metric=metric) == pytest.approx(expected)
        error = math.sqrt((1 + rho**2 / 2) / (len(x) - 3))
        expected = interval_of(rho, error, confidence)
        assert numbers(result, "spearman", metric=metric) == pytest.approx(expected)
        assert row(result, metric)["n"] == len(x)


def test_values_that_differ_by_rounding_are_tied():
    y = [3.0, 1.0, 2.0, 5.0, 4.0]
    tied = stats.spearmanr([0.3, 0.3, 0.5, 0.7, 0.1], y).statistic
    result = associate_values([0.1 + 0.2, 0.3, 0.5, 0.7, 0.1], y)
    assert row(result)["spearman"] == pytest.approx(tied)


DRAWN = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: rng.lognormal(0, 2, n),
    "tied": lambda rng, n: rng.integers(0, 3, n) * 1.0,
    "binary": lambda rng, n: (rng.random(n) < 0.5) * 1.0,
    "mostly 0": lambda rng, n: np.where(rng.random(n) < 0.7, 0, rng.lognormal(0, 1, n)),
}
UNRELATED = [
    ("normal", "skewed"), ("skewed", "skewed"), ("tied", "tied"), ("binary", "binary"),
    ("binary", "normal"), ("mostly 0", "mostly 0"), ("mostly 0", "tied"),
]  # fmt: skip


def is_related(x, y, days=None):
    """Whether Spearman calls two columns related at a level of 5%."""
    p = correlate_values(x, y, 0.95, days, ranks=True).p
    return p is not None and p <= 0.05


# One in 20, and what chance adds.
MOST = 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / REPEATS)


@pytest.mark.parametrize(
    ("kinds", "n", "repeats", "most"),
    [
        *(slow(kinds, 10, 1000, 0.05) for kinds in (("binary", "binary"), ("mostly 0", "tied"))),
        *(pytest.param(kinds, n, REPEATS, MOST, marks=pytest.mark.simulation)
          for kinds in UNRELATED for n in (10, 11, 12, 15, 30)),
    ],
)  # fmt: skip
def test_unrelated_columns_are_rarely_called_related(kinds, n, repeats, most):
    rng = np.random.default_rng(n)
    columns = ([DRAWN[x](rng, n) for x in kinds] for _ in range(repeats))
    assert sum(is_related(*pair) for pair in columns) / repeats <= most


# Autoregressive series, by the weights of the days before: alike or opposite neighbours.
SERIES = [(0.0,), (0.4,), (0.7,), (0.8,), (-0.5,), (0.4, 0.4)]


def autocorrelated(rng, n, phi):
    """Days of this series, with a weekly pattern and a trend."""
    x = rng.normal(size=n + 50)
    for day in range(2, n + 50):
        x[day] += sum(weight * x[day - i] for i, weight in enumerate(phi, 1))
    return x[50:] + np.sin(np.arange(n) * 2 * np.pi / 7) + np.arange(n) / n


@pytest.mark.parametrize(
    ("phi", "n", "repeats", "most"),
    [
        *(slow(phi, 60, 300, 0.06) for phi in ((0.7,), (-0.5,), (0.4, 0.4))),
        *(pytest.param(phi, n, REPEATS, MOST, marks=pytest.mark.simulation)
          for phi in SERIES for n in (20, 50, 300)),
    ],
)  # fmt: skip
def test_unrelated_days_are_rarely_called_related(phi, n, repeats, most):
    """By the correlation with the day before alone, 10% to 13% of (-0.5,) and (0.4, 0.4)."""
    rng = np.random.default_rng([n, *(round(10 * abs(x)) for x in phi)])
    draw, days = functools.partial(autocorrelated, rng, n, phi), np.arange(n)
    assert sum(is_related(draw(), draw(), days) for _ in range(repeats)) / repeats <= most


def test_missing_days_keep_their_lag():
    rng = np.random.default_rng(3)
    x, y = (autocorrelated(rng, 120, (0.9,)) for _ in range(2))
    share = correlation._independent_share
    days, every_other = np.arange(120), np.arange(0, 120, 2)
    gaps = share(x[::2], y[::2], every_other)
    assert share(x, y, days) < gaps
    assert share(x[::2], y[::2], np.arange(60)) == pytest.approx(gaps, rel=0.2)
    shuffled = rng.permutation(120)
    assert share(x[shuffled], y[shuffled], days[shuffled]) == pytest.approx(share(x, y, days))


DAYS = pl.date_range(date(2026, 1, 1), date(2026, 3, 1), eager=True)


@pytest.mark.parametrize("form", [None, "%Y-%m-%d", "%Y%m%d"])
def test_days_lose_weekday_and_trend(form):
    days = DAYS if form is None else DAYS.dt.strftime(form)
    trend, (x, y) = np.arange(60), np.random.default_rng(3).normal(size=(2, 60))
    result = rankql.associate(
        table(day=days, AP=trend + x), table(day=days, CTR=trend + y), on="day"
    )
    assert abs(row(result)["spearman"]) < 0.3 and row(result)["spearman_lo"] < 0
    twice = table(day=[*days, *days], user=[1] * 60 + [2] * 60, AP=[*x, *y], CTR=[*y, *x])
    result = rankql.associate(twice.drop("CTR"), twice.drop("AP"), on=["day", "user"])
    assert row(result)["pearson"] is not None and row(result)["pearson_lo"] is None
    assert row(result)["remark"] == correlation.REPEATED_DAYS


@pytest.mark.parametrize("values", [np.arange(60), np.arange(60) % 7, 2.0 ** np.arange(60)])
def test_days_of_trend_or_weekday_alone_say_why_they_have_no_correlation(values):
    noise = np.random.default_rng(3).normal(size=60)
    result = rankql.associate(table(day=DAYS, AP=values), table(day=DAYS, CTR=noise), on="day")
    assert row(result)["remark"] == correlation.CONSTANT


def test_fewer_than_ten_keys_have_no_interval():
    """Of 3 unrelated keys, 1 in 3 is correlated perfectly."""
    noise = [0.8, -0.8] * 5
    for n in range(1, 11):
        values = row(associate_values(range(n), [i + noise[i] for i in range(n)]))
        assert (values["pearson_p"] is not None) == (values["spearman_p"] is not None) == (n == 10)
        assert (values["remark"] == correlation.TOO_FEW) == (n < 10)
        assert (values["pearson"] is not None) == (n > 2)


def test_a_note_says_where_pearson_and_spearman_disagree():
    """One extreme key makes Pearson's interval exclude 0; ranks are not moved by it."""
    x, y = np.random.default_rng(3).random((2, 30))
    assert not [note for note in associate_values(x, y).notes if "disagree" in note]
    x[0] = y[0] = 100
    result = associate_values(x, y)
    assert row(result)["pearson_lo"] > 0.9 and row(result)["spearman_lo"] < 0
    (note,) = [note for note in result.notes if "disagree" in note]
    assert note.startswith("Pearson and Spearman disagree for AP and CTR: their intervals are no")
    growing = associate_values(LONG, [x**2 for x in LONG])  # Spearman is 1, without an interval
    assert row(growing)["pearson_lo"] > 0 and row(growing)["spearman"] == 1
    assert not [note for note in growing.notes if "disagree" in note]


LONG = [*range(9), 20]


X, Y = [1, 2, 3, 5], [1, 2, 3, 5]


@pytest.mark.parametrize(
    ("x", "y", "remark", "known"),
    [
        ([1, 1, 1, 1], Y, correlation.CONSTANT, ()),
        ([0.1 + 0.2, 0.3, 0.3, 0.3], Y, correlation.CONSTANT, ()),
        (X, [0, 0, 0, 0], correlation.CONSTANT, ()),
        ([1, 2, None], [1, 2, 3], correlation.TOO_FEW, ()),
        (LONG, [2 * x for x in LONG], correlation.PERFECT, ("",)),
        ([1e200 * x for x in LONG], [1e-200 * x for x in [1, 0, *LONG[2:]]], None, ENDS),
    ],
)
def test_missing_coefficients_and_intervals_have_a_remark(x, y, remark, known):
    result = associate_values(x, y)
    assert row(result)["remark"] == remark
    for end, value in zip(ENDS, numbers(result, "pearson"), strict=True):
        assert (value is not None) == (end in known)
        assert value is None or math.isfinite(value)


# What is joined


def test_several_rows_of_a_key_are_averaged_and_ratios_are_of_sums():
    scores = table(query=[*"qrst"], day=[1, 1, 2, 2], AP=[0.2, 0.4, 0.5, None], RR=[1, 0, 1, 1])
    outcomes = table(
        day=[1, 1, 1, 2, 2, 2], clicks=[1, 5, 9, 2, None, 4], shown=[10, 10, None, 4, 100, 0],
        dwell=[3.0, 5.0, None, 1.0, None, 2.0],
    )  # fmt: skip
    options = {"on": "day", "outcome": {"CTR": ("clicks", "shown"), "time": "dwell"}}
    for log in (outcomes, outcomes.sample(fraction=1, shuffle=True, seed=2)):
        result = rankql.associate(scores.reverse(), log, **options)
        assert result.pairs.columns == ["day", "AP", "RR", "CTR", "time"]
        assert result.pairs.rows() == [
            (1, pytest.approx(0.3), 0.5, pytest.approx(6 / 20), 4.0),
            (2, 0.5, 1.0, pytest.approx(6 / 4), 1.5),
        ]
    assert result.notes[:2] == [
        "per_query has several rows per key: metrics are averaged",
        "outcomes has several rows per key: rates are averaged, ratios are taken of the sums",
    ]


def test_keys_of_one_table_are_dropped_and_counted():
    scores = table(user_id=["a", "b", "c", "d", None, "e"], AP=[1.0, 2, 3, None, 9, 4])
    outcomes = table(
        user_id=[*"bcdefghi", None], clicks=[1, 2, 3, None, *[1] * 4, 7],
        shown=[2, 0, 4, 4, *[1] * 4, 7],
    )  # fmt: skip
    result = rankql.associate(scores, outcomes, on="user_id", outcome={"CTR": ("clicks", "shown")})
    assert result.notes == [
        "Dropped 2 of 6 keys that only per_query has",
        "Dropped 5 of 9 keys that only outcomes has",
        "AP is NULL for 1 of 4 keys: dropped from its correlations",
        "CTR is NULL for 2 of 4 keys: dropped from its correlations",
    ]
    values = [("b", 2.0, 0.5), ("c", 3.0, None), ("d", None, 0.75), ("e", 4.0, None)]
    assert result.pairs.rows() == values and row(result)["n"] == 1


@few(2)("kind", [pl.String, pl.Int32, pl.Float64, pl.Categorical])
def test_keys_of_other_types_match(kind):
    keys = pl.Series("user", [1, 2, 3, 4])
    keys = keys.cast(pl.String) if kind == pl.Categorical else keys
    outcomes = table(user=keys.cast(kind), CTR=[1.0, 3, 2, 4])
    result = rankql.associate(table(user=[1, 2, 3, 4], AP=[1.0, 2, 3, 5]), outcomes, on="user")
    assert row(result)["n"] == 4


@few(1)("kind", [pl.Datetime("ms"), pl.Datetime("ns"), pl.String])
def test_midnight_is_its_day(kind):
    """pandas has times for days."""
    days = pl.Series("day", [date(2026, 1, x) for x in range(1, 20)])
    values = [float(x * x % 11) for x in range(19)]
    left, right = table(day=days, AP=values), table(day=days.cast(kind), CTR=values[::-1])
    expected = rankql.associate(left, right.with_columns(day=days), on="day").table
    for each in (right, right.to_pandas()):
        assert rankql.associate(left, each, on="day").table.equals(expected)
        assert rankql.associate(each, left, on="day").table["n"].item() == 19


def test_keys_have_several_columns_and_other_names():
    scores = table(q=["x", "x", "y", "y"], day=[1, 2, 1, 2], AP=[0.1, 0.2, 0.3, 0.5])
    outcomes = table(search=["y", "x", "x", "y"], day=[1, 2, 1, 2], CTR=[3, 2, 1, 4])
    result = rankql.associate(scores, outcomes, on={"q": "search", "day": "day"})
    pairs = [("x", 1, 0.1, 1), ("x", 2, 0.2, 2), ("y", 1, 0.3, 3), ("y", 2, 0.5, 4)]
    assert result.pairs.rows() == pairs


def test_collation_does_not_merge_keys_or_systems():
    con = duckdb.connect()
    con.execute("SET default_collation = 'NOCASE'")
    con.execute("CREATE TABLE s AS FROM (VALUES ('a', 1.0), ('A', 2.0)) t(user, ap)")
    con.execute("CREATE TABLE o AS FROM (VALUES ('a', 3.0), ('A', 4.0)) t(user, ctr)")
    result = rankql.associate("s", "o", on="user", con=con)
    assert result.pairs.rows() == [("A", 2.0, 4.0), ("a", 1.0, 3.0)]
    assert [name for (name,) in con.execute("SHOW TABLES").fetchall()] == ["o", "s"]
    for name, value in (("s", "ap"), ("o", "ctr")):
        con.execute(f"CREATE TABLE {name}2 AS SELECT 1 AS q, user AS system, {value} FROM {name}")
    result = rankql.associate("s2", "o2", on="q", con=con, baseline="a")
    assert result.systems == ("a", "A") and result.pairs.rows() == [(1, 1.0, 1.0)]


def test_results_files_and_frames_are_read(tmp_path):
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
    for each in (file, str(file), result.per_query):
        assert rankql.associate(each, other, on="query").table.equals(one.table)
    left = rankql.evaluate(run, qrels, ["RR", "P@1"], missing="skip")
    assert rankql.associate(left, counts, on="query").pairs["P@1"].to_list()[-1] is None


def test_metrics_may_have_another_spelling():
    scores = table(user=[1, 2, 3, 4], own=[1, 3, 2, 4], **{"nDCG@10": [1.0, 2, 3, 5]})
    outcomes = table(user=[1, 2, 3, 4], CTR=[1, 2, 4, 3])
    for metrics, columns in (
        ("ndcg_cut_10", ["nDCG@10"]), (["own", "ndcg@10"], ["own", "nDCG@10"]), (None, ["nDCG@10"])
    ):  # fmt: skip
        assert rankql.associate(scores, outcomes, on="user", metrics=metrics).metrics == columns


SCORES = table(query=[1, 2, 3, 4], AP=[0.1, 0.2, 0.3, 0.5], part=[1, 1, 2, 2])
COUNTS = table(query=[1, 2, 3, 4], clicks=[1, 2, 4, 3], shown=[9, 9, 9, 9], who=list("abcd"))
SYSTEM = pl.lit("new").alias("system")
WEIGHTED = rankql.evaluate(
    pl.DataFrame({"query": [1, 2], "item": "x", "score": 1.0, "w": [1, 2]}),
    pl.DataFrame({"query": [1, 2], "item": "x", "rel": 1}),
    "AP", weight="w",
)  # fmt: skip
THREE = pl.concat([SCORES.with_columns(system=pl.lit(name)) for name in "abc"])
TWO, LOGGED = THREE.filter(pl.col("system") != "c"), COUNTS.with_columns(SYSTEM)


def scores(**columns):
    return {"per_query": SCORES.with_columns(**columns)}


def counts(**columns):
    return {"outcomes": COUNTS.with_columns(**columns)}


READ = {"per_query": SCORES, "outcomes": COUNTS, "on": "query"}
test_messages = refuses("associate", globals(), "rankql.associate(**READ | dict(%s))", light=8)


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


def test_two_systems_are_compared_by_their_changes():
    result = two()
    assert result.systems == ("old", "new")
    assert result.pairs["query"].to_list() == list("abcdefg")
    changes = [0.2, 0.1, -0.1, -0.4, 0, 0.4, None]
    assert result.pairs["AP"].to_list() == pytest.approx(changes)
    assert result.pairs["AP"][4] == 0  # 0.1 + 0.2 is not 0.3 exactly
    assert result.pairs["CTR"].to_list() == pytest.approx([0.1, -0.1, 0.1, -0.1, 0.1, 0, 0])
    assert result.notes[0] == "Each value is the change per key: new - old"
    assert "several rows" not in "".join(result.notes)
    for names in itertools.product(("system", "System"), repeat=2):  # in any case, as in evaluate
        frames = (systems(OLD, NEW), systems(WAS, NOW))
        tables = [x.rename({"system": name}) for x, name in zip(frames, names, strict=True)]
        assert rankql.associate(*tables, on="query", baseline="old").table.equals(result.table)
    turned = two(baseline="new").pairs["AP"].to_list()
    assert turned == pytest.approx([None if x is None else -x for x in changes])


def test_ratios_of_two_systems_are_taken_of_the_sums_of_each():
    log = table(query=[1, 1, 1], system=["old", "new", "new"], clicks=[1, 1, 5], shown=[4, 2, 6])
    scores = table(query=[1, 1], system=["old", "new"], AP=[0.5, 1])
    options = {"on": "query", "baseline": "old", "outcome": {"CTR": ("clicks", "shown")}}
    result = rankql.associate(scores, log, **options)
    assert result.pairs.rows() == [(1, 0.5, 6 / 8 - 1 / 4)]
    assert any(note.startswith("outcomes has several rows per key") for note in result.notes)


def test_one_system_is_correlated_with_its_own_outcomes():
    alone, counts = systems(OLD, NEW).filter(system="new"), systems(WAS, NOW)
    for outcomes in (counts, counts.filter(system="new")):
        result = rankql.associate(alone, outcomes, on="query")
        assert result.systems is None and row(result)["n"] == 6
        assert result.pairs["CTR"].to_list() == NOW["CTR"].to_list()[:6]
        assert "Dropped 1 of 7 keys that only outcomes has" in result.notes


# Displayed


def test_command(tmp_path):
    file, other = tmp_path / "scores.parquet", tmp_path / "counts.csv"
    SCORES.write_parquet(file)
    COUNTS.rename({"query": "search"}).write_csv(other)
    base = ["associate", str(file), str(other), "--on", "query=search"]
    ratio = ["--outcome", "CTR=clicks/shown", "--outcome", "clicks"]
    result = CliRunner().invoke(main, [*base, *ratio, "--format", "csv"])
    outcome = {"CTR": ("clicks", "shown"), "clicks": "clicks"}
    expected = rankql.associate(SCORES, COUNTS, on="query", outcome=outcome)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == ",".join(expected.table.columns)
    assert len(result.stdout.splitlines()) == 1 + len(expected.table)
    wrong = CliRunner().invoke(main, [*base, "-m", "RR"])
    assert wrong.exit_code == 2 and "--metric RR: no column" in wrong.stderr

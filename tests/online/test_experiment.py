"""Arms of an experiment: scipy, published values, definitions, and data that cannot be right."""

import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import stats

import rankql
from rankql.cli.main import main
from rankql.errors import RankqlError
from rankql.online.bounded_sequence import compare_bounded
from support import metric_engines

NAMES = ["difference", "lo", "hi", "p"]


def users(n=600, seed=3, effect=0.1):
    """Users with skewed revenue, clicks of impressions, and revenue from before."""
    rng = np.random.default_rng(seed)
    arm = np.arange(n) % 2
    before = rng.lognormal(0, 1, n)
    impressions = rng.poisson(4, n) + 1
    return pl.DataFrame(
        {
            "user": [f"u{i}" for i in range(n)],
            "arm": np.where(arm == 0, "A", "B"),
            "country": rng.choice(["NL", "DE"], n),
            "before": before,
            "revenue": before * rng.lognormal(effect * arm, 0.5, n),
            "impressions": impressions,
            "clicks": rng.binomial(impressions, 0.3),
            "bought": rng.binomial(1, 0.1, n),
        }
    )


USERS = users()


def arms(frame, *columns):
    """The values of the treatment, then of the control."""
    return [[part[name].to_numpy() for name in columns]
            for part in (frame.filter(arm="B"), frame.filter(arm="A"))]  # fmt: skip


def only(result, *names):
    return result.table.select(*(names or NAMES)).row(0)


def test_equals_scipy():
    (b,), (a,) = arms(USERS, "revenue")
    expected = stats.ttest_ind(b, a, equal_var=False)
    ends = expected.confidence_interval(0.9)
    found = only(rankql.experiment(USERS, metrics="revenue", confidence=0.9))
    wanted = (b.mean() - a.mean(), ends.low, ends.high, expected.pvalue)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_student_1908():
    """The hours of sleep gained with two drugs, as R prints t.test(extra ~ group, sleep)."""
    hours = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    hours += [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    frame = pl.DataFrame({"user": range(20), "arm": ["1"] * 10 + ["2"] * 10, "hours": hours})
    result = rankql.experiment(frame, metrics="hours", control="2")
    assert only(result) == pytest.approx((-1.58, -3.3654832, 0.2054832, 0.07939414), abs=1e-7)
    assert only(result, "mean_a", "mean_b") == pytest.approx((2.33, 0.75))


def test_ratio_by_the_delta_method():
    """The difference of ratios of totals; its variance is that of the linearised values."""
    result = rankql.experiment(USERS, metrics="clicks/impressions")
    ratios, errors = [], []
    for clicks, impressions in arms(USERS, "clicks", "impressions"):
        ratio = clicks.sum() / impressions.sum()
        z = (clicks - ratio * impressions) / impressions.mean()
        ratios.append(ratio)
        errors.append(z.var(ddof=1) / len(z))
    assert only(result, "mean_b", "mean_a") == pytest.approx(ratios)
    width = (result.table["hi"] - result.table["lo"]).item() / 2
    assert width == pytest.approx(stats.t.ppf(0.975, 598) * np.sqrt(sum(errors)), rel=1e-5)


def test_rows_are_aggregated_by_unit():
    """Two rows per user, one without impressions: as one row with the sums."""
    halves = [
        USERS.with_columns(pl.col("revenue", "clicks", "impressions") / 2).with_columns(x=pl.lit(x))
        for x in (0.2, 0.6)
    ]
    rows = pl.concat([*halves, halves[0].with_columns(clicks=pl.lit(9.0), impressions=None,
                                                      revenue=0.0)])  # fmt: skip
    rows = rows.with_columns(x=pl.col("x") + pl.col("bought"))
    metrics = ["revenue", "clicks/impressions", "mean(x)", "max(x)"]
    result = rankql.experiment(rows, metrics=metrics)
    one = USERS.with_columns(
        **{"mean(x)": 1 / 3 + pl.col("bought"), "max(x)": 0.6 + pl.col("bought")}
    )
    expected = rankql.experiment(one, metrics=metrics)
    np.testing.assert_allclose(result.table.select(NAMES), expected.table.select(NAMES), rtol=1e-9)
    assert "averaged for mean(x)" in " ".join(result.notes)
    assert result.conventions["metrics"]["clicks/impressions"] == "ratio"
    ranked = pl.concat([USERS, USERS]).rename({"revenue": "nDCG@10"})
    assert rankql.experiment(ranked, metrics="nDCG@10").conventions["metrics"] == {
        "nDCG@10": "mean"
    }


def test_lift():
    """Fieller's interval: the ratios that a test does not reject; the delta method's if large."""
    (b,), (a,) = arms(USERS, "revenue")
    result = rankql.experiment(USERS, metrics="revenue")
    lift, lo, hi = only(result, "lift", "lift_lo", "lift_hi")
    assert lift == pytest.approx(b.mean() / a.mean() - 1)
    df = stats.ttest_ind(b, a, equal_var=False).df
    for end in (lo, hi):
        gap = b.mean() - (1 + end) * a.mean()
        error = np.sqrt(b.var(ddof=1) / len(b) + (1 + end) ** 2 * a.var(ddof=1) / len(a))
        assert abs(gap) / error == pytest.approx(stats.t.ppf(0.975, df), rel=1e-9)
    shifted = rankql.experiment(USERS.with_columns(pl.col("revenue") + 100), metrics="revenue")
    lift, lo, hi = only(shifted, "lift", "lift_lo", "lift_hi")
    ratio, base = 1 + lift, a.mean() + 100
    error = np.sqrt(b.var(ddof=1) / len(b) + ratio**2 * a.var(ddof=1) / len(a)) / base
    assert (hi - lo) / 2 == pytest.approx(stats.t.ppf(0.975, df) * error, rel=1e-3)


def test_no_lift_without_a_clear_mean():
    low = USERS.with_columns(pl.col("revenue") - USERS["revenue"].mean())
    result = rankql.experiment(low, metrics="revenue")
    assert only(result, "lift", "lift_lo") == (None, None) and "p" in result.table.columns
    assert any("not clearly above 0" in note for note in result.notes)


def test_cuped():
    """The slope makes the error smallest; users without a value get the mean."""
    missing = USERS.with_columns(
        before=pl.when(pl.int_range(pl.len()) % 7 > 0).then(pl.col("before"))
    )
    filled = missing["before"].fill_null(missing["before"].mean())
    (b, xb), (a, xa) = arms(USERS.with_columns(before=filled), "revenue", "before")
    own, both = [], 0
    for y, x in ((b, xb), (a, xa)):
        cov, n = np.cov(y, x), len(y)
        own.append((y, x, n, cov[0, 1] / n, cov[1, 1] / n))
        both += cov[1, 1] / n
    theta = sum(each[3] for each in own) / both
    apart = (xb.mean() - xa.mean()) ** 2 / both
    errors, freedom = [], []
    for y, x, n, _, squared_error in own:
        share, rest = squared_error / both, y - theta * x
        freedom.append(n - 1 - share)
        variance = ((rest - rest.mean()) ** 2).sum() / freedom[-1]
        errors.append(variance / n * (1 + share * apart / (n - 1)))
    df = sum(errors) ** 2 / sum(v**2 / f for v, f in zip(errors, freedom, strict=True))
    difference, error = b.mean() - a.mean() - theta * (xb.mean() - xa.mean()), sum(errors) ** 0.5
    half = stats.t.ppf(0.975, df) * error
    result = rankql.experiment(missing, metrics="revenue", before="before")
    p = 2 * stats.t.sf(abs(difference) / error, df)
    expected = (difference, difference - half, difference + half, p)
    np.testing.assert_allclose(only(result), expected, rtol=1e-9)
    (note,) = (note for note in result.notes if "CUPED" in note)
    assert "86 of 600 users have no value" in note and "% of the variance" in note


def test_cuped_is_an_analysis_of_covariance():
    """It is exactly that if both arms have the same size, slope and residual variance."""
    rng = np.random.default_rng(7)
    x, rest = rng.normal(size=(2, 12))
    rest -= rest.mean()
    before = np.r_[x, x + 0.7]
    value = np.r_[3 + 0.8 * x + rest, 4 + 0.8 * x - rest]
    treated = np.repeat([0.0, 1.0], 12)
    design = np.c_[np.ones(24), treated, before]
    fitted, (squares,), *_ = np.linalg.lstsq(design, value)
    error = (squares / 21 * np.linalg.inv(design.T @ design)[1, 1]) ** 0.5
    arms_ = ["A" if t == 0 else "B" for t in treated]
    columns = {"user": range(24), "arm": arms_, "v": value, "before": before}
    result = rankql.experiment(pl.DataFrame(columns), metrics="v", before="before")
    half = stats.t.ppf(0.975, 21) * error
    expected = (fitted[1], fitted[1] - half, fitted[1] + half,
                2 * stats.t.sf(abs(fitted[1]) / error, 21))  # fmt: skip
    np.testing.assert_allclose(only(result), expected, rtol=1e-9)


def test_cuped_of_unequal_arms_with_different_slopes():
    """The slope of the large arm, if pooled, would widen the interval."""
    rng = np.random.default_rng(1)
    before = rng.normal(10, 2, 1000)
    value = np.r_[before[:900], 10 + 0.2 * (before[900:] - 10)] + rng.normal(0, 1, 1000)
    columns = {"user": range(1000), "arm": ["A"] * 900 + ["B"] * 100, "v": value, "b": before}
    frame = pl.DataFrame(columns)
    plan = {"metrics": "v", "ratio": {"A": 9, "B": 1}}
    adjusted = rankql.experiment(frame, before="b", **plan)
    plain = rankql.experiment(frame, **plan)
    width = pl.col("hi") - pl.col("lo")
    assert adjusted.table.select(width).item() < plain.table.select(width).item()


def test_cuped_that_does_not_help():
    columns = {"user": range(12), "arm": ["A", "B", "C"] * 4, "b": [1, 1, 1, 2, 2, 2] * 2}
    frame = pl.DataFrame(columns).with_columns(v=pl.Series([1, 2, 3, 1, 2, 4, 2, 1, 5, 2, 1, 3]))
    (note,) = (x for x in rankql.experiment(frame, metrics="v", before="b").notes if "CUPED" in x)
    assert "which does not reduce the variance of B against A. The control is adjusted" in note
    exact = frame.filter(pl.col("arm") != "C").with_columns(
        v=pl.col("b") + (pl.col("arm") == "B").cast(pl.Int64)
    )
    result = rankql.experiment(exact, metrics="v", before="b")
    assert result.sentences[0].endswith(
        "(4 and 4 users): the column of before= explains every value"
    )
    two = frame.filter(pl.col("arm") != "C").head(4)
    plain = rankql.experiment(two, metrics="v").table
    assert rankql.experiment(two, metrics="v", before="b").table.equals(plain)
    constant = rankql.experiment(frame.with_columns(b=1), metrics="v", before="b")
    assert any("not adjusted for b (CUPED), which is constant, or" in x for x in constant.notes)


@pytest.mark.parametrize("scale", [1e-120, 1e-90, 1e80])
def test_the_unit_of_a_metric_does_not_matter(scale):
    one = rankql.experiment(USERS, metrics="revenue").table
    other = rankql.experiment(
        USERS.with_columns(pl.col("revenue") * scale), metrics="revenue"
    ).table
    same = ["p", "lift", "lift_lo", "lift_hi"]
    np.testing.assert_allclose(one.select(same).row(0), other.select(same).row(0), rtol=1e-9)
    np.testing.assert_allclose(one["detectable"] * scale, other["detectable"], rtol=1e-9)


def test_a_slice_whose_size_depends_on_the_arm():
    after = USERS.with_columns(active=(pl.col("arm") == "B") & (pl.int_range(pl.len()) % 4 < 2))
    with pytest.raises(RankqlError, match=r"^by: the slice active=false has 300 of 300 users in A"):
        rankql.experiment(after, metrics="revenue", by="active")


def test_no_variance_has_no_p():
    """In SQL, with a burn-in: least(1, NULL) is 1."""
    con = metric_engines.connect()
    ((p,),) = con.sql("""
        WITH s AS (SELECT i % 2 AS a, experiment_moments(i % 2) AS m FROM range(40) t(i) GROUP BY 1)
        SELECT experiment_difference(t.m, c.m, burn_in := 10).p FROM s AS t, s AS c
        WHERE t.a = 1 AND c.a = 0""").fetchall()
    assert p is None
    sure = pl.DataFrame({"user": range(40), "arm": ["A", "B"] * 20, "c": [0, 1] * 20})
    bets = {"sequential": True, "bounds": {"c": (0, 1)}}
    table = rankql.experiment(sure, metrics="c", **bets).table
    assert table["verdict"].item() == "higher" and table["p"].item() < 0.001


def test_few_users_in_bounds():
    few = pl.DataFrame({"user": range(10), "arm": ["A", "B"] * 5, "c": [0, 0, 1, 1] * 2 + [0, 0]})
    result = rankql.experiment(few, metrics="c", sequential=True, bounds={"c": (0, 1)})
    assert "No difference within the bounds would have been detected" in result.sentences[0]
    assert result.table["detectable"].item() is None
    assert (
        result.notes[-1] == "c has no lift below 1,000 users per arm, the burn_in= (CLI: --burn-in)"
    )


def test_an_unusual_split():
    users_ = {"user": range(20_000), "arm": ["A"] * 10_210 + ["B"] * 9_790}
    frame = pl.DataFrame(users_).with_columns(v=pl.col("user") % 7)
    note = rankql.experiment(frame, metrics="v").notes[0]
    assert "is unusual for the planned ratio 1:1 (chi-square p = 0.0030)" in note


def test_several_arms_and_slices_are_adjusted_together():
    three = USERS.with_columns(arm=pl.Series(["A", "B", "C"] * 200)).with_columns(
        pl.col("revenue") + (pl.col("arm") == "C")
    )
    result = rankql.experiment(three, metrics=["revenue", "bought"], by="country")
    assert len(result.table) == 2 * 2 * 3
    whole = result.table.filter(slice="all", metric="revenue")
    assert whole["verdict"].to_list() == ["not significant", "higher"]
    excluded = (pl.col("lo") > 0) | (pl.col("hi") < 0)
    assert result.table.select((excluded == (pl.col("p_adjusted") <= 0.05)).all()).item()
    p = np.sort(result.table["p"].to_numpy())
    holm = np.minimum(1, np.maximum.accumulate(p * np.arange(12, 0, -1)))
    np.testing.assert_allclose(np.sort(result.table["p_adjusted"].to_numpy()), holm)
    alone = rankql.experiment(three.filter(pl.col("country") == "NL"), metrics="revenue")
    np.testing.assert_allclose(
        result.table.filter(slice="country=NL", metric="revenue")["difference"],
        alone.table["difference"],
    )


def test_states_merge():
    """In SQL: states of shards merged are the state of all, also of values far from 0."""
    con = metric_engines.connect()
    con.register("users", USERS.with_columns(pl.col("revenue") + 1e6))
    moments = "experiment_moments(revenue, impressions, before)"
    (merged,), (whole,) = con.sql(f"""
        SELECT experiment_merge(state) FROM (
            SELECT {moments} AS state FROM users GROUP BY hash("user") % 5
            UNION ALL SELECT {moments} FROM users WHERE false UNION ALL SELECT NULL)
        UNION ALL SELECT {moments} FROM users""").fetchall()
    assert merged == pytest.approx(whole, rel=1e-9) and merged["n"] == 600


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "experiment_moments(v, before := nullif(v, 1))",
            "before is NULL for a unit. Use coalesce",
        ),
        (
            "experiment_difference(experiment_moments(v), experiment_moments(v), burn_in := 1)",
            "burn_in must be a number of units from 2, not 1",
        ),
        (
            "experiment_difference(experiment_moments(v), experiment_moments(v), burn_in := 'nan')",
            "burn_in must be a number of units from 2, not nan",
        ),
    ],
)
def test_errors_in_sql(call, message):
    con = metric_engines.connect()
    with pytest.raises(duckdb.ConversionException, match=f"rankql: {message}"):
        con.sql(f"SELECT {call} FROM (VALUES (1), (2)) AS t (v)").fetchall()


@pytest.mark.parametrize("df", [0.7, 1, 2.5, 17, 400, 1e7])
def test_p_of_student(df):
    con = metric_engines.connect()
    t = pl.DataFrame({"t": [0.0, 1e-9, 0.3, 1.99, 2.01, 7.0, 30.0]})
    p = con.sql(f"SELECT rankql_t_p(-t, {df}::DOUBLE) AS p FROM t ORDER BY t").pl()["p"]
    np.testing.assert_allclose(p, 2 * stats.t.sf(t["t"].to_numpy(), df), rtol=1e-9)


def test_asymptotic_sequence():
    """The boundary of Waudby-Smith et al., and nothing before the burn-in."""
    result = rankql.experiment(USERS, metrics="revenue", sequential=True, burn_in=100)
    (b,), (a,) = arms(USERS, "revenue")
    error = np.sqrt(b.var(ddof=1) / len(b) + a.var(ddof=1) / len(a))
    rho2 = 8.783 / (200 * np.log(200))
    n = 600 * rho2
    reach = np.sqrt(2 * (n + 1) / n * np.log(np.sqrt(n + 1) / 0.05))
    difference, lo, hi, p = only(result)
    assert (hi - lo) / 2 == pytest.approx(reach * error)
    at_p = np.sqrt(2 * (n + 1) / n * np.log(np.sqrt(n + 1) / p)) * error
    assert p == 1 or abs(difference) == pytest.approx(at_p)
    early = rankql.experiment(USERS, metrics="revenue", sequential=True, burn_in=301)
    assert only(early, "p", "verdict") == (None, "before the burn-in")
    assert early.sentences[0].endswith("fewer than 301, the burn_in= (CLI: --burn-in)")


@pytest.mark.slow
def test_bounded_sequence():
    """It excludes 0 exactly if p is small; it is narrower with more users; a swap mirrors it."""
    rng = np.random.default_rng(5)
    widths = []
    for n in (50, 2000):
        a, b = rng.binomial(1, 0.3, n).astype(float), rng.binomial(1, 0.5, n + 7).astype(float)
        p, lo, hi = compare_bounded(b, a, (0, 1), 0.05)
        assert (lo > 0) == (p < 0.05) and lo <= b.mean() - a.mean() <= hi
        mirrored = compare_bounded(a, b, (0, 1), 0.05)
        assert mirrored == pytest.approx((p, -hi, -lo), abs=1e-5)
        widths.append(hi - lo)
        _, lo_p, _ = compare_bounded(b, a, (0, 1), min(0.99, p * 1.01))
        assert p == 1 or lo_p == pytest.approx(0, abs=0.01) or p < 1e-9
    assert widths[1] < 0.2 < widths[0]
    t = rng.beta(2, 3, 3000)
    exact = compare_bounded(t[:1000], t[1000:2000], (0, 1), 0.05)
    rounded = compare_bounded(t[:1500], t[1500:], (0, 1), 0.05)
    assert exact[2] - exact[1] > rounded[2] - rounded[1] > 0
    result = rankql.experiment(USERS, metrics="bought", sequential=True, bounds={"bought": (0, 1)})
    (b,), (a,) = arms(USERS.cast({"bought": pl.Float64}), "bought")
    assert only(result, "p", "lo", "hi") == compare_bounded(b, a, (0, 1), 0.05)


def test_plan():
    """Twice the number needed, split evenly, detects the lift; n as in textbooks."""
    plan = rankql.plan_experiment(USERS.drop("arm"), metrics=["revenue", "clicks/impressions"],
                                  lift=0.1)  # fmt: skip
    row = plan.table.row(0, named=True)
    revenue = USERS["revenue"]
    assert row["sd"] == pytest.approx(revenue.std()) and row["mean"] == pytest.approx(
        revenue.mean()
    )

    def detect(n):
        """The difference that n users per arm detect."""
        return stats.t.ppf([0.975, 0.8], 2 * n - 2).sum() * revenue.std() * np.sqrt(2 / n)

    needed = row["units_needed"]
    assert detect(needed) <= 0.1 * revenue.mean() < detect(needed - 1)
    assert row["detectable"] == pytest.approx(detect(300))
    adjusted = rankql.plan_experiment(USERS, metrics="revenue", before="before").table
    assert adjusted["sd"].item() < 0.7 * revenue.std()


def test_plans_that_cannot_be():
    def planned(lift=0.05, frame=USERS, **columns):
        return rankql.plan_experiment(frame.with_columns(**columns), metrics="revenue", lift=lift)

    for lift in (float("inf"), float("nan"), 0, 11, "5%"):
        with pytest.raises(
            RankqlError,
            match=r"lift= \(CLI: --plan\) must be a number above 0 and at most 10, such",
        ):
            planned(lift)
    with pytest.raises(RankqlError, match=r"needs about \de.1[89] units per arm\. Pass a larger"):
        planned(1e-9)
    with pytest.raises(RankqlError, match=r"has a value for 9 users\. A plan needs at least 10"):
        planned(frame=USERS.head(9))
    with pytest.raises(RankqlError, match=r"has a value for 1 user\. A plan"):
        planned(frame=USERS.head(1))
    alike = USERS.with_columns(clicks=2 * pl.col("impressions"))
    with pytest.raises(RankqlError, match=r"^clicks/impressions does not vary over users\. Remove"):
        rankql.plan_experiment(alike, metrics="clicks/impressions")
    assert planned(10).table["units_needed"].item() >= 2
    negative = planned(revenue=-pl.col("revenue"))
    assert negative.table["units_needed"].item() is None
    assert negative.sentences[0].endswith(
        "with 80% power. It has no lift, because its mean is not clearly above 0"
    )


def change(**columns):
    return lambda: USERS.with_columns(**columns)


def edge(value, other):
    """The first row has this, all others that."""
    return pl.when(pl.int_range(pl.len()) == 0).then(value).otherwise(other)


REFUSED = {
    "two arms": (
        lambda: pl.concat([USERS, USERS.head(3).with_columns(arm=pl.lit("B"))]), {},
        "2 users of 600 are in more than one arm, such as 'u0'",
    ),
    "control": (lambda: USERS, {"control": "C"}, "arm in control=.*'C'.* Available: A, B"),
    "no control": (change(arm=pl.col("arm") + "x"), {}, "Pass control=, one of 'Ax', 'Bx'"),
    "one arm": (change(arm=pl.lit("A")), {}, "only one arm, 'A'"),
    "sizes": (lambda: USERS, {"ratio": {"A": 9, "B": 1}}, "300 in B .users., but 9:1 was"),
    "equal sizes": (lambda: USERS.filter((pl.col("arm") == "A") | (pl.col("country") == "NL")), {},
                    "wrong sizes"),
    "ratio": (lambda: USERS, {"ratio": {"A": 1}}, "a share above 0 for each arm: 'A', 'B'"),
    "ratio of text": (lambda: USERS, {"ratio": {"A": "x", "B": 1}}, "a share above 0 for each"),
    "ratio as a list": (lambda: USERS, {"ratio": [1, 1]}, r"a share above 0 .* not \[1, 1\]"),
    "bounds of one": (lambda: USERS, {"bounds": {"revenue": 1}, "sequential": True},
                      "bounds= of revenue must be its lowest and highest value, not 1"),
    "equal bounds": (lambda: USERS, {"bounds": {"revenue": (1, 1)}, "sequential": True},
                     "bounds= of revenue must be its lowest and highest value"),
    "no metrics": (lambda: USERS, {"metrics": None}, "metrics= must name columns"),
    "by the arm": (lambda: USERS, {"by": "arm"}, "by= cannot contain arm"),
    "a column before two metrics": (
        lambda: USERS, {"metrics": ["revenue", "clicks"], "before": "before"},
        "before= must be a dict of metric: column for several metrics"),
    "the metric before": (lambda: USERS, {"before": "revenue"}, "is the metric itself"),
    "huge": (change(revenue=pl.col("revenue") * 1e200), {}, "too large for some user"),
    "constant": (change(revenue=pl.lit(2)), {}, "revenue is 2 for every user"),
    "NULL": (change(revenue=pl.lit(None, pl.Float64)), {}, "revenue is NULL for every user"),
    "infinite": (change(revenue=edge(float("inf"), 1.0)), {}, "revenue must be a finite number"),
    "text": (change(revenue=pl.lit("1")), {}, "revenue must be a number, not text"),
    "divisor": (change(impressions=edge(-1, 2)), {"metrics": "clicks/impressions"},
                "impressions must not be negative, because it divides"),
    "metric": (lambda: USERS, {"metrics": "revenu"}, "'revenu'. Did you mean 'revenue'"),
    "function": (lambda: USERS, {"metrics": "min(revenue)"},
                 r"metrics=: 'min\(revenue\)' must be a column, sum\(column\), mean"),
    "half a ratio": (lambda: USERS, {"metrics": "revenue/"}, "'revenue/' must be a column"),
    "ratio of unknown": (lambda: USERS, {"metrics": "clicks/views"}, "'views'"),
    "column": (lambda: USERS, {"unit": "visitor"}, "unit=.*'visitor'"),
    "many arms": (lambda: USERS, {"arm": "user", "control": "u0"}, "'user' has 600 values"),
    "by": (lambda: pl.concat([USERS, USERS.with_columns(country=pl.lit("BE"))]),
           {"by": "country"}, "country must have one value per user, but 'u0' has several"),
    "before varies": (lambda: pl.concat([USERS, USERS.with_columns(before=pl.lit(1.5))]),
                      {"before": "before"}, "before must have one value per user"),
    "before NULL": (change(before=pl.lit(None, pl.Float64)), {"before": "before"},
                    "before is NULL for every user"),
    "before metric": (lambda: USERS, {"before": {"x": "before"}}, "metric in before=.*'x'"),
    "bounds": (lambda: USERS, {"bounds": {"revenue": (0, 1)}, "sequential": True},
               "bounds= of revenue are 0 to 1, but a user has"),
    "bounds order": (lambda: USERS, {"bounds": {"revenue": (1, 0)}, "sequential": True},
                     "bounds= of revenue must be its lowest and highest value"),
    "bounds alone": (lambda: USERS, {"bounds": {"revenue": (0, 1)}}, "needs sequential=True"),
    "bounds of a ratio": (
        lambda: USERS, {"metrics": "clicks/impressions", "sequential": True,
                        "bounds": {"clicks/impressions": (0, 1)}}, "have no bounds"),
    "burn-in": (lambda: USERS, {"burn_in": 1}, "burn_in must be a whole number from 2"),
    "correction": (lambda: USERS, {"correction": "tukey"}, "'tukey'"),
    "NULL in one arm": (
        change(revenue=pl.when(pl.col("revenue").gt(1) | pl.col("arm").eq("A")).then("revenue")),
        {}, "revenue is NULL for 0 of 300 users in A and 1[0-9]{2} of 300 users in B. This depends",
    ),
    "NULL in one of three": (
        change(arm=pl.Series([*"ABC"] * 200), revenue=pl.when(pl.int_range(pl.len()) % 12 > 0)
               .then("revenue")),
        {}, "50 of 200 users in A, 0 of 200 users in B and 0 of 200 users in C",
    ),
    "empty": (lambda: USERS.clear(), {}, "no row with an arm and a unit"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    frame, options, message = REFUSED[name]
    with pytest.raises(RankqlError, match=message):
        rankql.experiment(frame(), **{"metrics": "revenue"} | options)


def test_what_is_left_out_is_noted():
    frame = USERS.with_columns(
        arm=edge(None, pl.col("arm")),
        user=pl.when(pl.int_range(pl.len()) == 1).then(None).otherwise(pl.col("user")),
        revenue=pl.when(pl.int_range(pl.len()) < 5).then(None).otherwise(pl.col("revenue")),
        clicks=pl.col("clicks") - 1,
    )
    result = rankql.experiment(frame, metrics=["revenue", "clicks"])
    notes = " ".join(result.notes)
    for words in ("Dropped 1 of 600 rows without an arm", "Dropped 1 of 600 rows without a unit",
                  "revenue is NULL for 2 of 299 users in A and 1 of 299 users in B, which",
                  "clicks has negative values, down to -1",
                  "299 in A and 299 in B. This agrees with the planned ratio 1:1"):  # fmt: skip
        assert words in notes, words
    assert only(result, "n_a", "n_b") == (297, 298)


def test_null_in_the_smaller_half_of_one_arm():
    """8 of 20 users against 20 of 20 is no chance (Fisher); 17 of 20 may be."""
    frame = pl.DataFrame({"user": range(40), "arm": [*"AB"] * 20}).with_columns(
        rev=pl.col("user") % 7 + 1
    )

    def without(least):
        return frame.with_columns(
            rev=pl.when(pl.col("rev").ge(least) | pl.col("arm").eq("A")).then("rev")
        )

    message = r"12 of 20 users in B\. This depends on the arm .*fill it with 0.* from metrics="
    with pytest.raises(RankqlError, match=message):
        rankql.experiment(without(5), metrics="rev")
    result = rankql.experiment(without(2), metrics="rev")
    assert any("rev is NULL for 0 of 20 users in A and 3 of" in note for note in result.notes)
    spaces = frame.with_columns(pl.col("arm").replace("B", "B "))
    assert "20 in A and 20 in 'B '" in rankql.experiment(spaces, metrics="rev").notes[0]


def test_few_users_and_arms_of_floats():
    """One user per arm has no interval, and so no note on it; 0.0 is a control, as 0 is."""
    frame = USERS.head(2).with_columns(arm=pl.Series([0.0, 1.0]))
    result = rankql.experiment(frame, metrics="revenue")
    assert result.conventions["control"] == "0.0"
    assert result.table["verdict"].to_list() == ["not testable"]
    assert not any("lo, hi" in note for note in result.notes)
    with pytest.raises(RankqlError, match="There is only one arm"):
        rankql.experiment(frame.head(1), metrics="revenue")


def test_slices_that_cannot_be_tested():
    place = ["one"] * 2 + ["same"] * 20 + ["apart"] * 20 + ["only B"] + ["rest"] * 557
    frame = USERS.with_columns(place=pl.Series(place)).with_columns(
        revenue=pl.when(pl.col("place") == "same").then(1.0)
        .when(pl.col("place") == "apart").then(pl.col("arm").eq("B").cast(pl.Float64))
        .otherwise(pl.col("revenue")),
        place=pl.when(pl.col("place") == "only B").then(
            pl.when(pl.col("arm") == "B").then(pl.lit("only B")).otherwise(pl.lit("rest"))
        ).otherwise(pl.col("place")),
    )  # fmt: skip
    frame = frame.with_columns(place=edge(pl.col("place"), pl.col("place")))
    result = rankql.experiment(frame.with_columns(
        place=pl.when(pl.col("user") == "u43").then(pl.lit("only B")).otherwise(pl.col("place"))
    ), metrics="revenue", by="place")  # fmt: skip
    verdicts = dict(result.table.select("slice", "verdict").rows())
    assert {part: verdicts[f"place={part}"] for part in ("one", "same", "apart", "only B")} == {
        "one": "not testable", "same": "no difference", "apart": "zero variance",
        "only B": "no control",
    }  # fmt: skip
    assert "are not tested" in " ".join(result.sentences)


def test_command_line(tmp_path):
    """It prints the sentences of the result, and names options in errors."""
    path = tmp_path / "users.parquet"
    USERS.write_parquet(path)
    sentence = rankql.experiment(USERS, metrics=["revenue", "bought"]).sentences[1]
    done = CliRunner().invoke(main, ["experiment", str(path), "-m", "revenue", "-m", "bought"])
    assert done.exit_code == 0 and sentence in done.output and "pass --sequential" in done.output
    done = CliRunner().invoke(main, ["experiment", str(path), "-m", "bought", "--ratio", "A=x"])
    assert done.exit_code == 2 and "Expected ARM=SHARE" in done.output
    call = ["experiment", str(path), "--before", "before", "-m", "revenue"]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0 and "adjusted for before (CUPED)" in done.output
    done = CliRunner().invoke(main, [*call, "-m", "bought"])
    assert done.exit_code == 2 and "Expected [METRIC=]COLUMN" in done.output


@pytest.mark.slow
def test_sources_and_options(tmp_path):
    """A file, a table and any order of rows: the same."""
    path, csv = tmp_path / "users.parquet", tmp_path / "users.csv"
    USERS.sample(fraction=1, shuffle=True, seed=1).write_parquet(path)
    USERS.write_csv(csv)
    expected = rankql.experiment(USERS, metrics=["revenue", "clicks/impressions"])
    for source in (path, csv, USERS.to_pandas(), USERS.lazy()):
        found = rankql.experiment(source, metrics=["revenue", "clicks/impressions"])
        assert found.sentences == expected.sentences
    for options, words in (
        ("-m revenue --before revenue=before --by country", "CUPED"),
        ("-m bought --sequential --bounds bought:0:1 --ratio A=1 --ratio B=1", "betting"),
        ("-m revenue --plan 0.02", "users per arm"),
    ):
        done = CliRunner().invoke(main, ["experiment", str(path), *options.split()])
        assert done.exit_code == 0 and words in done.output, done.output


def test_the_note_says_how_much_variance_a_column_before_removes():
    """The share that a regression on it explains, in both arms together."""
    rng = np.random.default_rng(5)
    before, arm = rng.exponential(1, 400), np.repeat(["A", "B"], 200)
    revenue = before + rng.exponential(1, 400)
    table = pl.DataFrame({"user": range(400), "arm": arm, "revenue": revenue, "before": before})
    result = rankql.experiment(table, metrics="revenue", before="before", control="A")
    within = [values - values.mean() for x in (revenue, before) for values in (x[:200], x[200:])]
    y, x = np.concatenate(within[:2]), np.concatenate(within[2:])
    share = (x @ y) ** 2 / (x @ x) / (y @ y)
    assert f"removes {share:.0%} of the variance" in result.notes[-1]

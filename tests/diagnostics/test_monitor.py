"""Metrics by day: the rule, causes, and days that cannot be right."""

import itertools
import math
import re
import shlex
from datetime import date, timedelta

import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql.cli.command import write_options
from rankql.cli.main import main
from rankql.core.base.errors import Question
from rankql.features.values import _may_be_lower
from support import metric_engines
from support.parameters import few

FIRST, TENTH = date(2026, 9, 1), date(2026, 1, 14)


def log(days=45, queries=30, broken=None, unjudged=None, seed=5):
    """Rankings of 6 items by day; from some day on, broken ones or ever more items unjudged."""
    rng = np.random.default_rng(seed)
    places = np.indices((days, queries, 6)).reshape(3, -1)
    day, query, pos = places[0], places[1], places[2] + 1
    grade = rng.integers(0, 3, len(day)) + (pos < 3) * rng.integers(0, 2, len(day)) * 2.0
    if broken is not None:
        grade[(day >= broken) & (pos < 3)] = 0
    rel = pl.Series(grade)
    if unjudged is not None:
        rel = rel.set(pl.Series(rng.random(len(day)) < 0.01 * (day - unjudged)), None)
    return pl.DataFrame(
        {"day": [FIRST + timedelta(int(d)) for d in day], "query": query, "item": pos, "pos": pos,
         "rel": rel, "part": np.where(query % 2, "b", "a")}
    )  # fmt: skip


LOG = log()
ON = FIRST + timedelta(44)


def without(frame, *days):
    """The log with rankings upside down on some days, counted from the first."""
    bad = pl.col("day").is_in([FIRST + timedelta(day) for day in days])
    return frame.with_columns(rel=pl.when(bad).then(pl.col("pos") // 6).otherwise("rel"))


def rows_of(daily, sql):
    """What SQL makes of a table `daily`, in the connection of all tests."""
    con = metric_engines.connection()
    con.register("daily", daily)
    return con.sql(sql).pl()


def numbered_days(values, first=date(2026, 1, 5), **columns):
    days = [first + timedelta(i) for i in range(len(values))]
    return pl.DataFrame({"day": days, "value": values, **columns})


def days_of(values, sql="", last=date(2026, 2, 1), **columns):
    """The rows of monitor_days for daily values."""
    daily = numbered_days(values, **columns)
    return rows_of(daily, f"FROM monitor_days('daily', DATE '{last}'{sql})")


def waves(days=120):
    """Values that vary, with a loss of 2 points from day 35 on."""
    i = np.arange(days)
    return 0.9 + 0.005 * np.sin(7.3 * i * i) - 0.02 * (i >= 35)


def alarmed(rows):
    return rows.filter("alarm")["day"].to_list()


# Baselines, what is lost from day 40 on, and whether nothing else is outlying. Seed 7 is any seed.
NORMAL = np.random.default_rng(7).normal(0.8, 0.004, 60)
ALMOST_CONSTANT = np.full(60, 1.0)
ALMOST_CONSTANT[[2, 16, 24]] = 0.995, 0.996, 0.995
BASELINES = {
    "normal": (NORMAL, 0.3, False),
    "rounded": ((NORMAL / 0.004).round() * 0.004, 0.3, False),
    "constant": (np.full(60, 0.8), 0.01, True),
    "almost constant": (ALMOST_CONSTANT, 0.1, True),
}


@few(2)(
    ("name", "days"),
    [*itertools.product(("normal", "rounded", "constant"), (1, 5, 7)), ("almost constant", 5)],
)
def test_an_outage_in_the_baseline_hides_no_loss(name, days):
    """Of a week, half of the gaps between equal weekdays are those of the outage."""
    values, loss, exact = BASELINES[name]
    values = values.copy()
    values[7 : 7 + days], values[40:] = 0.2, values[40:] - loss
    rows = days_of(values)
    outlying, outage = rows.filter("outlying")["day"].to_list(), date(2026, 1, 12)
    expected = [outage + timedelta(day) for day in range(days)]
    assert outlying == expected if exact else {*outlying} >= {*expected}
    alarms = alarmed(rows)
    assert date(2026, 2, 14) in (alarms[:1] if exact else alarms)


@pytest.mark.slow
def test_a_baseline_with_a_longer_outage_is_not_watched():
    values = waves(60)
    values[7:14], values[40:] = 0.2, 0.1
    assert days_of(values)["alarm"].any()
    values[2] = 0.2
    rows = days_of(values)
    assert rows["outlying"].sum() > 7
    assert rows["alarm"].null_count() == 60
    fine = log(days=32, queries=150)
    broken = without(fine, *range(9))
    others = broken.with_columns(part=pl.lit("b"), query=pl.col("query") + 150)
    frame = pl.concat([fine.with_columns(part=pl.lit("a")), others])
    result = rankql.monitor(frame, metrics="nDCG@3", by="part")
    (note,) = [note for note in result.notes if note.startswith("Not watched")]
    assert "nDCG@3 [part=b]. Pass another" in note
    assert result.table.filter(slice="part=b", metric="nDCG@3")["alarm"].null_count() == 32
    result = rankql.monitor(broken.filter(pl.col("rel").is_not_null()), metrics="nDCG@3")
    assert result.exit_code == 3 and "1 not watched: nDCG@3" in result.title


def test_weekends_have_a_spread_of_their_own():
    i = np.arange(70)
    noise = np.sin(7.3 * i * i)
    rows = days_of(0.9 + np.where(i % 7 >= 5, 0.03, 0.003) * noise - 0.015 * (i >= 56))
    spread = dict(rows.group_by(rows["day"].dt.weekday()).agg(pl.first("spread")).rows())
    assert spread[6] == spread[7] > 5 * spread[1] > 0 and spread[1] == spread[5]
    assert alarmed(rows)[0] == date(2026, 3, 3)  # its second day


def by_the_rule(rows):
    """Which days are in alarm, each by its deviation and that of its week; and the four reasons.

    Each mean has its limit, and in that of 28 and of 91 days, a day counts at most 3.
    """
    wide = (rows["band"] / 3.6 / rows["spread"]).to_numpy()
    z, week = (rows[x].fill_null(np.nan).to_numpy() for x in ("z_day", "z_week"))
    first = int(np.flatnonzero(~np.isnan(z))[0])

    def beyond(days, least, limit):
        kept = [
            np.clip(z[max(first, i - days + 1) : i + 1] / wide[i], -3, 3) for i in range(len(z))
        ]
        means = np.array([x.mean() if len(x) >= least else np.nan for x in kept])
        return (means >= limit) & (week >= limit / 2 * wide)

    both = z >= 3.6 * wide
    both[1:] &= both[:-1].copy()
    both[0] = False
    return {
        "one day": z >= 10 * wide, "two days": both, "week": week >= 2.2 * wide,
        "month": beyond(28, 20, 1.2), "quarter": beyond(91, 65, 0.85),
    }  # fmt: skip


LOSSES = {
    "one day": {61: 0.2},
    "two days": {61: 0.06, 62: 0.06},
    "week": dict.fromkeys(range(61, 70), 0.026),
    "month": dict.fromkeys(range(60, 240), 0.014),
    "quarter": dict.fromkeys(range(60, 240), 0.0113),
    "no loss": {61: 0.06, 80: -0.2},
}


@pytest.mark.parametrize("name", LOSSES)
def test_days_are_in_alarm_for_one_of_five_reasons(name):
    """Small losses that last are found by the means of 28 and 91 days alone."""
    noise = 0.01 * np.random.default_rng(3).uniform(-1, 1, 240)
    lost = np.array([LOSSES[name].get(day, 0) for day in range(240)])
    rows = days_of(0.9 + noise - lost)
    reasons = by_the_rule(rows)
    alarms = rows["alarm"].fill_null(False).to_numpy()
    assert (alarms == np.logical_or.reduce([*reasons.values()])).all()
    others = [days for other, days in reasons.items() if other != name]
    assert (alarms & ~np.logical_or.reduce(others)).any() == (name != "no loss")


def test_an_alarm_is_held_until_the_mean_of_a_week_is_below_half_its_limit():
    """After it recovers, days that are below the limit do not end it at once."""
    values = np.tile(0.9 + 0.01 * np.random.default_rng(3).uniform(-1, 1, 7), 10)
    values[:28] += 0.01 * np.random.default_rng(4).uniform(-1, 1, 28)
    values[40:50] -= 0.05
    rows = days_of(values).with_row_index("i")
    limit = 2.2 * rows["band"] / 3.6 / rows["spread"]
    alarms, held = (rows.filter(name)["i"].to_list() for name in ("alarm", "held"))
    assert held == [*range(alarms[0], held[-1] + 1)] and held[-1] >= alarms[-1] >= 49
    means = (rows["z_week"] / limit).to_list()
    # Of the mean of 28 days, which is still beyond its limit of 1.2.
    assert means[held[-1]] >= 0.6 / 2.2 > means[held[-1] + 1]
    assert rows["held"].null_count() == rows["alarm"].null_count() == 28


def baseline_weeks(values):
    """The weeks of the baseline that grows."""
    ((series, first, last),) = rows_of(
        numbered_days(values), "FROM monitor_baseline('daily')"
    ).rows()
    assert series is None and first == date(2026, 1, 5)
    return ((last - first).days + 1) / 7


@few(2)(("days", "weeks"), [(40, 4), (62, 4), (63, 5), (111, 11), (300, 12)])
def test_the_baseline_grows_by_the_week_while_28_days_follow(days, weeks):
    assert baseline_weeks(np.resize(NORMAL, days)) == weeks


@pytest.mark.parametrize("lost", [0.01, -0.03])
def test_the_baseline_does_not_grow_over_a_drop_or_a_rise(lost):
    """Of a small drop, the first week is no alarm yet: it would make the limits wider."""
    values = np.random.default_rng(7).normal(0.8, 0.004, 120)
    values[44:] -= lost
    assert baseline_weeks(values) == 6
    assert (days_of(values, last=date(2026, 2, 15))["held"][-1]) == (lost > 0)


def test_a_baseline_of_your_own_does_not_grow():
    for baseline, last in ((56, 56), (None, 84), ("2026-09-01:2026-09-30", 30)):
        result = rankql.monitor(daily(0, days=150), baseline=baseline)
        assert result.conventions["baseline"][1] == str(FIRST + timedelta(last - 1))


def test_a_series_with_a_trend_shortens_its_own_baseline_alone():
    """A loss is found on the day on which it is found without that series, and a note says it."""
    values = np.random.default_rng(1).normal(0.8, 0.004, 130)
    values[100:] -= 0.008
    frame = numbered_days(values).rename({"value": "ndcg"})
    frame = frame.with_columns(visits=1000.0 + 3 * pl.int_range(130) + pl.Series(values) * 1000)
    alone, both = (rankql.monitor(data) for data in (frame.drop("visits"), frame))
    assert both.alarms["first"].to_list() == alone.alarms["first"].to_list()
    assert both.conventions["baseline"] == alone.conventions["baseline"]
    ends = dict(both.table.select("metric", "baseline").unique().rows())
    assert ends["ndcg"] == date(2026, 3, 29) and ends["visits"] < date(2026, 2, 28)
    (note,) = (x for x in both.notes if "another day" in x)
    assert f"before a change: visits on {ends['visits']}. Pass baseline= to set" in note
    fixed = rankql.monitor(frame, baseline=28)
    assert fixed.table["baseline"].unique().to_list() == [date(2026, 2, 1)]
    assert not any("another day" in x for x in fixed.notes)


def test_a_baseline_without_noise():
    """Rounding is no loss, and one day sets off an alarm."""
    values = [0.3] * 40
    values[5], values[30], values[35] = 0.1 + 0.2, 0.3 - 1.1e-16, 0.2
    rows = days_of(values)
    assert alarmed(rows) == [date(2026, 2, 9)]
    assert rows["z_day"].drop_nulls().to_list() == [*[0.0] * 7, np.inf, *[0.0] * 4]


def test_the_error_of_a_day_widens_its_limit():
    """The spread is at least the usual error, and grows with that of a day."""
    errors = [0.02] * 100
    errors[50] = 0.05
    rows = days_of(waves(100), ", error := 'error'", error=errors)
    assert rows["spread"][49:51].to_list() == pytest.approx([0.02, 0.05])


def test_several_series():
    """More than three share the false alarms, and one with too few days has no alarm."""
    one = days_of(waves())
    many = pl.concat(one.select("day", "value", s=pl.lit(s)) for s in range(30))
    few = many.filter((pl.col("s") == 0) | ((pl.col("s") == 1) & (pl.col("day") > TENTH)))
    sql = "FROM monitor_days('daily', DATE '2026-02-01', series := 's')"
    ratio = (rows_of(many, sql).filter(series=3)["band"] / one["band"]).to_numpy()
    np.testing.assert_allclose(ratio, 10**0.125)
    rows = rows_of(few, sql)
    assert rows.filter(series=1)["alarm"].drop_nulls().is_empty()
    assert alarmed(rows.filter(series=0)) == alarmed(one)


def test_means_and_intervals_are_those_of_evaluate():
    result = rankql.monitor(LOG, metrics=["nDCG@3", "AP"], by="part")
    day = FIRST + timedelta(40)
    one = rankql.evaluate(LOG.filter(day=day), metrics=["nDCG@3", "AP"], by="part").summary
    columns = ["slice", "metric", "mean", "lo", "hi"]
    table = result.table.filter(day=day, kind="metric").select(columns).sort("slice", "metric")
    assert_frame_equal(table, one.select(columns).sort("slice", "metric"), abs_tol=1e-12, rel_tol=0)
    assert result.passed and bool(result) and result.title == "No alarm on 2026-10-15"


def test_a_drop_and_its_slices():
    """In the table, the sentences and the page."""
    result = rankql.monitor(log(queries=60, broken=40), metrics="nDCG@3", by="part")
    assert not result and result.active["cause"].to_list() == ["drop"] * 3
    assert set(result.active["since"]) == {FIRST + timedelta(40)}
    assert result.title.startswith("3 alarms since 2026-10-11: nDCG@3 (sudden drop), nDCG@3 [part=")
    alarm = result.active.row(0, named=True)
    assert alarm["loss"] == pytest.approx(alarm["expected"] - alarm["mean"])
    assert alarm["first"] > alarm["since"] and alarm["last"] == ON
    assert "part=b" in repr(result) and "part=b" in result.to_markdown()
    header, body = result._repr_html_().split("</thead>", 1)
    assert ">alarm<" in header and ">! alarm<" not in header and "! alarm" in body


def drop_on_phones(seed, size=0.12):
    """120 days of 60 queries, a third of them on phones, which lose for the last 21 days."""
    rng = np.random.default_rng(seed)
    day, query = np.indices((120, 60)).reshape(2, -1)
    phone, weekend = query % 3 == 0, (day + FIRST.weekday()) % 7 > 4
    value = rng.normal(0.7 - 0.03 * weekend - size * (phone & (day >= 99)), 0.15).clip(0, 1)
    return pl.DataFrame({"day": [FIRST + timedelta(int(x)) for x in day], "query": query,
                         "device": np.where(phone, "phone", "desktop"), "ndcg": value})  # fmt: skip


@few(1)("seed", range(2))
def test_a_drop_that_lasts_is_an_alarm_on_its_last_day(seed):
    """With 28 days of baseline it was seen in one of eight, and the title forgot it."""
    result = rankql.monitor(drop_on_phones(seed), by="device")
    assert result.exit_code == 1
    alarm = result.active.filter(slice="device=phone").row(0, named=True)
    assert abs((alarm["since"] - FIRST).days - 99) < 4 and alarm["last"] == FIRST + timedelta(119)
    assert result.title.startswith(f"Alarm since {alarm['since']}: ndcg [device=phone] (sudden dr")
    assert re.match(r"a loss of 0\.0\d+ of ndcg, 0\.\d+ of ndcg \[device=desktop\] and ",
                    result.method)  # fmt: skip
    assert rankql.monitor(drop_on_phones(seed, 0), by="device").passed


def test_the_method_says_what_loss_is_an_alarm():
    """A loss as large as it says is one after seven days, and one of nine tenths is not."""
    frame = daily(0, days=100).with_columns(i=pl.int_range(pl.len()))
    result = rankql.monitor(frame.select("day", "ndcg"), baseline=84)
    loss = float(re.search(r"a loss of ([0-9.]+) of ndcg in the mean of 7 days", result.method)[1])
    expected = result.table["expected"]
    for factor, alarms in ((1.001, 1), (0.99, 0)):
        late = pl.when(pl.col("i") >= 93).then(expected - factor * loss).otherwise(expected)
        frame = frame.with_columns(ndcg=pl.when(pl.col("i") < 84).then("ndcg").otherwise(late))
        again = rankql.monitor(frame.select("day", "ndcg"), baseline=84)
        assert again.exit_code == alarms, factor


def test_alarms_that_began_at_different_times_each_say_when():
    early, late = (daily(0).with_columns(part=pl.lit(x)) for x in "ab")
    lost = [x.with_columns(ndcg=pl.col("ndcg") - 0.2 * (pl.col("day") >= FIRST + timedelta(i)))
            for x, i in ((early, 40), (late, 55))]  # fmt: skip
    assert rankql.monitor(pl.concat(lost), by="part").title == (
        "2 alarms: ndcg [part=a] (sudden drop since 2026-10-11) and ndcg [part=b] "
        "(sudden drop since 2026-10-26)")  # fmt: skip


@few(2)(("weeks", "cause"), [(3, "drop"), (6, "drop"), (14, "drop"), (14, "drift")])
def test_a_drop_within_a_week_is_no_drift(weeks, cause):
    """Its first week has a part of it."""
    days, rng = 7 * (20 + weeks), np.random.default_rng(weeks)
    late = np.arange(days) - (days - 7 * weeks + 2)
    lost = {"drop": 0.02 * (late >= 0), "drift": 0.0005 * late.clip(0)}[cause]
    frame = numbered_days(rng.normal(0.7, 0.01, days) - lost)
    alarms = rankql.monitor(frame, period="week", higher_is_better=True).alarms
    assert alarms["cause"].to_list() == [cause]
    if cause == "drop":
        assert alarms["since"][0] == date(2026, 1, 5) + timedelta(7 * 20)


@pytest.mark.slow
def test_lower_is_better():
    """An error that grows is a loss, and one that shrinks is none."""
    frame = LOG.with_columns(score=pl.col("rel") + (pl.col("query") % 7) / 7).drop("pos")
    worse = pl.when(pl.col("day") >= FIRST + timedelta(40)).then(2.0).otherwise(0.0)
    result = rankql.monitor(frame.with_columns(pl.col("score") + worse), metrics="RMSE")
    assert result.active["cause"].to_list() == ["drop"] and "(sudden rise)" in result.title
    limit, expected = result.table.filter(kind="metric").select("limit", "expected").row(-1)
    assert limit > expected
    start = 2 - worse
    assert rankql.monitor(frame.with_columns(pl.col("score") + start), metrics="RMSE").passed


def test_outages():
    """One after the baseline raises no alarm, and one in it is named and left out."""
    result = rankql.monitor(without(LOG, 5, 35), metrics="nDCG@3")
    assert result.passed and result.alarms.is_empty()
    assert result.table.filter("outlying", kind="metric")["day"].to_list() == [date(2026, 9, 6)]
    assert any("left out of the baseline: nDCG@3 on 2026-09-06" in note for note in result.notes)


def test_the_first_alarm_of_a_week_says_when_the_loss_began():
    """No day is bad enough alone, but their mean is."""
    bad = (pl.col("day") >= FIRST + timedelta(39)) & (pl.col("query") < 30) & (pl.col("pos") < 3)
    frame = log(queries=100).with_columns(rel=pl.when(bad).then(0).otherwise("rel"))
    result = rankql.monitor(frame.filter(pl.col("day") < ON), metrics="nDCG@3")
    alarm = result.alarms.row(0, named=True)
    assert alarm["first"] == alarm["last"] == FIRST + timedelta(43)
    assert (alarm["since"], alarm["cause"]) == (FIRST + timedelta(39), "drop")
    week = result.table.filter(pl.col("day") >= alarm["since"], kind="metric")
    assert alarm["mean"] == pytest.approx(week["mean"].mean())


@pytest.mark.slow
def test_labels_that_age():
    result = rankql.monitor(log(days=70, queries=100, unjudged=32), metrics="CG@3")
    assert dict(result.active.select("metric", "cause").rows()) == {
        "CG@3": "labels", "Judged@3": "labels"}  # fmt: skip
    alarm = result.active.row(0, named=True)
    assert alarm["loss_judged"] < alarm["loss"] / 2
    assert "On judged items alone, it lost" in result.sentences[0]


def test_days_of_few_queries_without_a_hit_are_no_alarm():
    """Equal values have a standard error of 0, which would make any loss an alarm."""
    days = pl.DataFrame({"day": [FIRST + timedelta(day) for day in range(65)], "item": 1, "pos": 1})
    frame = days.join(pl.DataFrame({"query": range(200)}), how="cross")
    frame = frame.with_columns(rel=(pl.col("query") % 10 == 9).cast(int))
    few = (pl.col("query") < 13) & (pl.col("rel") == 0)
    frame = frame.filter((pl.col("day") <= FIRST + timedelta(62)) | few)
    assert rankql.monitor(frame, metrics="P@1", baseline=56).passed


@few(1)("undefined", ["skip", "zero"])
def test_a_day_on_which_half_of_the_sessions_have_no_click(undefined):
    """Their metric is undefined, so the mean does not show it."""
    frame = log(queries=300).with_columns(rel=pl.col("rel") > 1)
    half = (pl.col("day") == ON) & (pl.col("query") < 150)
    frame = frame.with_columns(rel=pl.when(half).then(0).otherwise(pl.col("rel").cast(int)))
    result = rankql.monitor(frame, metrics="RR@3", undefined=undefined)
    assert "undefined share" in [*result.active["kind"]]
    assert result.table.filter(kind="undefined share")["mean"][-1] >= 0.5


def test_another_number_of_queries_is_a_note():
    few = (pl.col("day") < ON) | (pl.col("query") < 12)
    result = rankql.monitor(log(queries=60).filter(few), metrics="nDCG@3")
    (note,) = (note for note in result.notes if note.startswith("The number of queries"))
    assert result.passed and "12 on 2026-10-15, about 60 on this weekday" in note


def test_slices_that_are_not_compared():
    """Too few queries on most days, or on the last."""
    frame = log(queries=40).with_columns(
        part=pl.when(pl.col("query") < 5).then(pl.lit("few")).otherwise("part"))  # fmt: skip
    frame = frame.filter((pl.col("part") != "b") | (pl.col("day") < ON))
    result = rankql.monitor(frame, metrics="nDCG@3", by="part")
    (note,) = (note for note in result.notes if note.startswith("Not compared on 2026-10-15"))
    assert "[part=few]" in note and "[part=b]" in note and "[part=a]" not in note
    assert result.table.filter(slice="part=few")["alarm"].null_count() == 2 * 45
    assert result.title == "No alarm on 2026-10-15; 1 not watched: nDCG@3 [part=few]"
    shown = result.displayed()[0].filter(slice="part=few", metric="nDCG@3")
    assert shown["alarm"].to_list() == ["not watched"] and result.exit_code == 0


def watch_outage(queries, last, more=(), **options):
    """14 queries a day, broken from day 63 to 84, but with other numbers from day 84 on."""
    frame = log(days=84 + len(last), queries=queries, broken=63)
    late = [frame.filter(pl.col("day") == FIRST + timedelta(84 + i), pl.col("query") < n)
            for i, n in enumerate(last)]  # fmt: skip
    frame = pl.concat([frame.filter(pl.col("day") < FIRST + timedelta(84)), *late, *more])
    return rankql.monitor(frame, metrics="nDCG@3", baseline=56, **options)


@few(2)("last", [[9], [1, 9], [5] * 28, [9] * 29])
def test_an_outage_goes_on_if_the_last_days_have_few_queries(last):
    """After 28 days without a comparison it is inconclusive, and no all-clear."""
    result, newest = watch_outage(14, last), FIRST + timedelta(83 + len(last))
    ended = len(last) > 28
    assert result.exit_code == (3 if ended else 1) and not result
    assert result.title == (
        f"Nothing was compared in the 7 days to {newest}; 1 not watched: nDCG@3" if ended
        else f"Alarm since 2026-11-03: nDCG@3 (sudden drop, not compared on {newest})"
    )  # fmt: skip
    assert ended or "last on 2026-11-23, when it was last compared" in result.sentences[0]
    state = "ended" if ended else "alarm"
    assert result.states.filter(kind="metric")["state"].to_list() == [state]
    assert result.displayed()[0].filter(metric="nDCG@3")["alarm"][-1] == state


@few(1)(("closed", "state"), [(28, "alarm"), (29, "ended")])
def test_a_closed_slice(closed, state):
    """It keeps its alarm for 28 days, and then has ended."""
    slice = pl.col("query") + 1000, pl.lit("closed")
    frame = log(days=60, queries=40, broken=50).with_columns(query=slice[0], part=slice[1])
    others = log(days=60 + closed, queries=40, seed=6).with_columns(part=pl.lit("open"))
    result = rankql.monitor(pl.concat([frame, others]), metrics="nDCG@3", by="part")
    rows = result.states.filter(slice="part=closed", kind="metric")
    assert rows["state"].to_list() == [state]
    active = result.active.filter(slice="part=closed")["metric"].to_list()
    assert active == (["nDCG@3"] if state == "alarm" else [])
    shown = result.displayed()[0].filter(slice="part=closed", metric="nDCG@3")
    assert shown["alarm"][-1] == ("alarm" if state == "alarm" else "ended")
    assert "not watched" not in result.title


@pytest.mark.parametrize("closed", [28, 29])
def test_a_closed_slice_that_was_never_watched(closed):
    """It is named for 28 days."""
    few = log(days=40, queries=3).with_columns(part=pl.lit("closed"))
    few = few.with_columns(query=pl.col("query") + 1000)
    others = log(days=40 + closed, queries=25, seed=6).with_columns(part=pl.lit("open"))
    title = rankql.monitor(pl.concat([few, others]), metrics="nDCG@3", by="part").title
    assert ("not watched: nDCG@3 [part=closed]" in title) == (closed == 28)


NOTHING = "Nothing was compared in the 7 days to 2026-10-15"


@few(2)(
    ("few", "code", "title"),
    [
        (6, 0, f"No alarm on {ON - timedelta(6)}; nothing was compared since"),
        (7, 3, NOTHING),
        (45, 3, f"{NOTHING}; 1 not watched: nDCG@3"),
    ],
)
def test_days_with_too_few_queries_are_no_all_clear(few, code, title):
    """At the end of the log, or all of them, of which nothing is expected."""
    kept = (pl.col("query") < 5) | (pl.col("day") <= ON - timedelta(few))
    result = rankql.monitor(LOG.filter(kept), metrics="nDCG@3")
    assert (result.exit_code, bool(result), result.title) == (code, code == 0, title)
    assert (result.table["expected"].null_count() == len(result.table)) == (few == 45)


@pytest.mark.slow
def test_two_hundred_slices():
    frame = log(days=40, queries=600, broken=33)
    frame = frame.with_columns(
        part=pl.format("s{}", (pl.col("query") % 200).cast(str).str.zfill(3))
    )
    result = rankql.monitor(frame, metrics="nDCG@3", by="part")
    assert result.title.startswith(
        "Alarm since 2026-10-04: nDCG@3 (sudden drop); 200 not watched: "
    )
    assert result.title.endswith(" and 197 more") and result.title.count("part=") == 3


@pytest.mark.report
def test_the_days_and_the_chart_of_an_alarm_are_first(tmp_path):
    bad = (pl.col("day") >= FIRST + timedelta(36)) & (pl.col("part") == "b") & (pl.col("pos") < 3)
    frame = log(queries=60).with_columns(rel=pl.when(bad).then(0).otherwise("rel"))
    result = rankql.monitor(frame.filter((pl.col("part") == "a") | (pl.col("day") < ON)),
                            metrics="nDCG@3", by="part")  # fmt: skip
    first = result.displayed()[0].head(7)
    assert first["slice"].to_list() == ["part=b"] * 7 and set(first["alarm"]) == {"alarm"}
    result.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    charts = [
        page.index(f"{name} by day")
        for name in ("nDCG@3, part=b", "nDCG@3", "nDCG@3, part=a", "undefined share, part=a")
    ]
    assert charts[0] == min(charts)


def weekly(weeks=30, queries=14, broken=None, weekday=0, seed=5):
    """Queries of a week, on days of it."""
    frame = log(days=weeks, queries=queries, broken=broken, seed=seed)
    week = (pl.col("day") - pl.lit(FIRST)).dt.total_days() * 7
    monday = pl.lit(date(2026, 1, 5) + timedelta(weekday))
    return frame.with_columns(day=monday + pl.duration(days=week), seen=pl.col("query") % 7)


@few(1)(
    ("weekday", "day"),
    [(0, "day"), (6, "day"), (0, "date_trunc('week', day)"), (0, "date_trunc('week', stamp)")],
)
def test_weeks_are_recognised(weekday, day):
    frame = weekly(broken=24, weekday=weekday).with_columns(
        stamp=pl.col("day").cast(pl.Datetime) + pl.duration(days="seen", hours=7))  # fmt: skip
    result = rankql.monitor(frame, metrics="nDCG@3", day=day)
    first = frame["day"].min()
    assert result.title == f"Alarm since {first + timedelta(7 * 24)}: nDCG@3 (sudden drop)"
    assert result.conventions["period"] == "week"
    assert result.conventions["baseline"] == [str(first), str(first + timedelta(7 * 12 - 1))]
    assert result.alarms["since"][0] == first + timedelta(7 * 24)
    assert len(result.displayed()[0].filter(metric="nDCG@3")) == 7
    assert "in the baseline" in result.sentences[0] and "weekday" not in result.sentences[0]
    assert any("there are 30 weeks to" in note for note in result.notes)
    assert not any(
        "day" in note and "days" not in day for note in result.notes if "weekday" in note
    )


@few(1)(("weeks", "exit_code"), [(8, 1), (7, None)])
def test_a_baseline_of_weeks_has_eight(weeks, exit_code):
    frame = weekly(weeks=20, broken=15)
    if exit_code:
        assert rankql.monitor(frame, metrics="nDCG@3", baseline=weeks).exit_code == exit_code
    else:
        with pytest.raises(rankql.RankqlError, match="and in it 8 complete weeks"):
            rankql.monitor(frame, metrics="nDCG@3", baseline=weeks)


def test_a_week_keeps_its_alarm_for_four_weeks():
    frame, newest = weekly(weeks=34, broken=24), date(2026, 1, 5) + timedelta(7 * 33)
    for weeks, exit_code in ((4, 1), (5, 0)):
        few = (pl.col("query") < 9) | (pl.col("day") <= newest - timedelta(7 * weeks))
        result = rankql.monitor(frame.filter(few), metrics="nDCG@3")
        assert result.exit_code == exit_code
        assert ("not compared on" if exit_code == 1 else "1 not watched") in result.title


@pytest.mark.slow
def test_weeks_of_days_pool_the_queries_of_small_slices():
    """A week's mean is that of its queries, and the same query on two days is two."""
    frame = log(days=26 * 7, queries=8, broken=26 * 7 - 21)
    lost = pl.col("query") >= 1 + (pl.col("day").dt.weekday() % 7)  # 1 to 7 queries a day
    frame = frame.filter(~lost | (pl.col("query") == 0))
    assert rankql.monitor(frame, metrics="nDCG@3").exit_code == 3
    frame = frame.with_columns(seen=pl.col("day").cast(pl.Datetime) + pl.duration(hours=9))
    truncated = frame.drop("day")
    result = rankql.monitor(truncated, metrics="nDCG@3", day="date_trunc('week', seen)")
    other = rankql.monitor(frame, metrics="nDCG@3", period="week")
    assert_frame_equal(result.table, other.table, rel_tol=1e-12, abs_tol=1e-12)
    assert result.title == other.title
    assert result.exit_code == 1 and result.conventions["period"] == "week"
    values = rankql.evaluate(frame, metrics="nDCG@3", query=["day", "query"], by="day").per_query
    week = values.with_columns(pl.col("day").cast(pl.Date).dt.truncate("1w"))
    week = week.filter(pl.col("day") >= FIRST)  # from the first complete week on
    expected = week.group_by("day").agg(pl.mean("nDCG@3")).sort("day")
    found = result.table.filter(kind="metric")
    assert found["day"].to_list() == expected["day"].to_list()
    assert found["mean"].to_list() == pytest.approx(expected["nDCG@3"].to_list(), abs=1e-12)
    assert found["queries"].max() == 28


def test_options_that_change_the_means_are_refused():
    for name in ("interval", "confidence", "output", "judge", "system"):
        with pytest.raises(rankql.RankqlError, match=f"^monitor does not take {name}="):
            rankql.monitor(LOG, metrics="nDCG@3", **{name: None})


@few(1)(
    ("weekdays", "unit", "period"),
    [([1], "week", None), ([4], "week", "day"), (range(1, 6), "day", None),
     (range(2, 8), "day", "day"), ([1, 3, 5], None, None)],
)  # fmt: skip
def test_logs_without_some_weekdays(weekdays, unit, period):
    """Days of one weekday are weeks, and five or more weekdays are compared with their own."""
    frame = log(days=112, broken=103).filter(pl.col("day").dt.weekday().is_in([*weekdays]))
    if unit is None:
        with pytest.raises(rankql.RankqlError, match="in it five weekdays three times each"):
            rankql.monitor(frame, metrics="nDCG@3", period=period)
        return
    result = rankql.monitor(frame, metrics="nDCG@3", period=period)
    assert result.conventions["period"] == unit
    assert result.exit_code == 1 and result.alarms["since"].min() >= FIRST + timedelta(103)


def test_a_weekday_that_the_baseline_lacks_is_not_compared():
    """A stray Sunday after the baseline has nothing to be compared with, and hides no alarm."""
    frame = log(broken=40)
    sundays = frame.filter(pl.col("day").dt.weekday() == 7)["day"].unique().sort()
    frame = frame.filter(~pl.col("day").is_in(sundays[:4].implode()))
    result = rankql.monitor(frame, metrics="nDCG@3")
    days = result.table.filter(pl.col("day") >= sundays[4], kind="metric")
    compared = days.filter(pl.col("alarm").is_not_null())["day"].to_list()
    assert sundays[4] not in compared and len(compared) == len(days) - days["day"].is_in(
        sundays.implode()).sum()  # fmt: skip
    assert result.exit_code == 1


def test_a_metric_without_a_direction_is_not_watched():
    """It cannot get worse: less popular items are not a drop."""
    days = [FIRST + timedelta(day) for day in range(45)]
    items = [["top", "rare"][day >= days[40] and query > 2] for day in days for query in range(30)]
    frame = pl.DataFrame({"day": [day for day in days for _ in range(30)], "rel": 1,
                          "user": [*range(30)] * 45, "item": items, "pos": 1})  # fmt: skip
    train = pl.DataFrame({"user": range(40, 60), "item": ["top"] * 15 + ["rare"] * 5})
    metrics = ["Popularity@1", "P@1"]
    result = rankql.monitor(frame, metrics=metrics, train=train)
    assert result.exit_code == 0 and result.title.endswith("1 not watched: Popularity@1")
    assert any("Popularity@1. A day needs" in note for note in result.notes)
    means = result.table.filter(metric="Popularity@1")["mean"]
    assert means[-1] < means[0]


@pytest.mark.slow
def test_judgments_and_attributes_in_other_tables(tmp_path):
    """For all days, or by day; from a folder per day."""
    run, qrels = LOG.drop("rel", "part"), LOG.select("day", "query", "item", "rel")
    parts = LOG.select("query", "part").unique()
    apart = rankql.monitor(run, qrels, "nDCG@3", attributes=parts, by="part")
    own = rankql.monitor(LOG, metrics="nDCG@3", by="part")
    means = [
        result.table.filter(kind="metric").sort("day", "slice")["mean"].to_list()
        for result in (own, apart)
    ]
    assert means[0] == pytest.approx(means[1], abs=1e-12)
    for (day,), rows in run.group_by("day"):
        (tmp_path / f"day={day}").mkdir()
        rows.drop("day").write_parquet(tmp_path / f"day={day}" / "part.parquet")
    first = qrels.filter(day=FIRST).select(pl.col("query").alias("qid"), "item", "rel")
    more = first.with_columns(qid=pl.lit(99, pl.Int64))
    result = rankql.monitor(f"{tmp_path}/*/*.parquet", pl.concat([first, more]), "nDCG@3")
    assert result.table["queries"].max() == 30


@pytest.mark.slow
def test_own_metrics():
    """Higher values are better."""
    frame = log(broken=40)
    own = {"mine@3": "ndcg(rel, pos, 3)", "lost gain": "1 - ndcg(rel, pos, 3)"}
    result = rankql.monitor(frame, metrics=own)
    assert result.active["metric"].to_list() == ["mine@3"]


def test_the_command_fails_with_an_alarm(tmp_path):
    path, page = (str(tmp_path / name) for name in ("log.parquet", "page.md"))
    log(broken=40).write_parquet(path)
    done = CliRunner().invoke(main, ["monitor", path, "-m", "nDCG@3", "--output", page])
    assert done.exit_code == 1
    assert done.stdout.startswith("Alarm since 2026-10-11: nDCG@3 (sudden")
    assert "sudden drop since about 2026-10-11" in (tmp_path / "page.md").read_text()


def test_words_of_columns_that_may_be_lower():
    lower = ["latency_p95", "error rate", "meanLoss", "zero_result_rate", "zeroResults", "bounce",
             "no-results", "timeouts", "crashes", "dist.cost"]  # fmt: skip
    others = ["terror", "gloss", "mirror_rate", "ndcg", "revenue", "zero", "results", "closs"]
    assert [*map(_may_be_lower, lower)] == [True] * len(lower)
    assert [*map(_may_be_lower, others)] == [False] * len(others)


RATES = ("zero_result_rate", [0.08 + 0.001 * (7 * i % 5) + 0.03 * (i > 75) for i in range(90)])


@pytest.mark.slow
def test_a_rate_that_rises_is_asked_about(tmp_path):
    """Both calls of the question work, in Python and on the command line."""
    frame = pl.DataFrame({"day": [FIRST + timedelta(i) for i in range(90)], RATES[0]: RATES[1]})
    with pytest.raises(rankql.RankqlError) as error:
        rankql.monitor(frame)
    calls = [(x["higher_is_better"], write_options(x)) for x in error.value.calls]
    frame.write_csv(tmp_path / "rate.csv")
    outcomes = []
    for python, command in calls:
        result = rankql.monitor(frame, higher_is_better=python)
        done = CliRunner().invoke(main, ["monitor", f"{tmp_path}/rate.csv", *shlex.split(command)])
        assert done.exit_code == result.exit_code and done.stdout.startswith(result.title)
        assert "assumed" not in done.stdout
        outcomes.append(result.title)
    assert outcomes[0].startswith("Alarm since 2026-11-") and "(sudden rise)" in outcomes[0]
    assert outcomes[1] == f"No alarm on {FIRST + timedelta(89)}"
    done = CliRunner().invoke(main, ["monitor", f"{tmp_path}/rate.csv"])
    assert done.exit_code == 2 and "    --lower-is-better zero_result_rate\n" in done.output


def test_a_negated_expression_is_not_asked_about():
    frame = log(days=40, queries=10)
    for metrics in (["loss = -avg(rel)"], {"loss": "(-avg(rel))"}):
        assert "Higher loss is assumed" in repr(rankql.monitor(frame, metrics=metrics))
    with pytest.raises(rankql.RankqlError, match=r"^loss: is lower or higher better\?"):
        rankql.monitor(frame, metrics={"loss": "avg(rel)"})


@few(1)("metrics", [None, "nDCG@3"])
def test_a_date_is_the_day_and_a_timestamp_is_cut_to_it(metrics, tmp_path):
    """Of values and of rankings, and in a file of text."""
    frame = log(broken=40, queries=10) if metrics else daily()
    plain = rankql.monitor(frame, metrics=metrics)
    seen = pl.col("day").cast(pl.Datetime) + pl.duration(hours=23)
    times = frame.select(pl.exclude("day"), seen=seen)
    zoned = times.with_columns(pl.col("seen").dt.replace_time_zone("UTC"))
    if not metrics:
        text = pl.col("seen").dt.to_string("%Y-%m-%d %H:%M:%S+00:00")
        zoned.with_columns(text).write_csv(tmp_path / "zoned.csv")
        zoned = tmp_path / "zoned.csv"
        result = rankql.monitor(frame.rename({"day": "date"}))
        assert_frame_equal(result.table, plain.table)
        assert "Columns: day = date\n" in repr(result) and "Columns:" not in repr(plain)
    result = rankql.monitor(times, metrics=metrics, day="seen")
    assert_frame_equal(result.table, plain.table)
    assert "Columns: day = CAST(seen AS DATE)\n" in repr(result)
    with pytest.raises(rankql.RankqlError, match="seen has times with a zone") as error:
        rankql.monitor(zoned, metrics=metrics, day="seen")
    cast = re.search('day="(.*)"', str(error.value))[1]
    late = rankql.monitor(zoned, metrics=metrics, day=cast).table  # 23:00 UTC is the next day
    assert late["day"][0] == plain.table["day"][0] + timedelta(1)


@pytest.mark.slow
def test_judgments_of_another_table_by_timestamp_are_cut_too():
    """Where items may be unjudged, the judged share is watched."""
    stamped = LOG.with_columns(pl.col("day").cast(pl.Datetime) + pl.duration(hours=3))
    own = rankql.monitor(LOG, metrics="nDCG@3").table
    qrels = stamped.select("day", "query", "item", "rel")
    both = rankql.monitor(stamped.drop("rel"), qrels, "nDCG@3").table
    means = [x.filter(kind="metric")["mean"].to_list() for x in (own, both)]
    assert means[0] == pytest.approx(means[1], abs=1e-12)
    assert {*own["kind"]} == {"metric", "undefined share"}
    assert {*both["kind"]} == {"metric", "undefined share", "judged share"}


# Values of your own by day


def daily(lost=0.1, weekends=0.0, days=60):
    """A value per day, with a loss from day 50 on."""
    noise = np.random.default_rng(3).normal(0.7, 0.01, days)
    frame = pl.DataFrame({"day": [FIRST + timedelta(i) for i in range(days)], "ndcg": noise})
    weekend, late = pl.col("day").dt.weekday() > 5, pl.col("day") >= FIRST + timedelta(50)
    return frame.with_columns(pl.col("ndcg") - late * lost - weekend * weekends)


@pytest.fixture(scope="module")
def watched():
    return rankql.monitor(daily())


def test_the_only_column_of_times_is_the_day(watched, tmp_path):
    frame = daily().rename({"day": "when"}).with_columns(pl.col("when").cast(pl.Datetime))
    frame.write_csv(tmp_path / "days.csv")
    for source in (frame, tmp_path / "days.csv"):
        result = rankql.monitor(source)
        assert result.table.equals(watched.table)
        assert "Columns: day = CAST(when AS DATE)" in repr(result)
    fill_in = r"days has no column 'day'\.\n\nFill in:\n    day='\.\.\.'\n"
    with pytest.raises(rankql.RankqlError, match=fill_in):
        rankql.monitor(frame.with_columns(until="when"))


def test_a_row_without_a_query_is_a_day(watched):
    """The alarms are those of the macro, without standard errors."""
    frame, result = daily(), watched
    days = "FROM monitor_days('daily', NULL, grow := true)"
    rows = rows_of(frame.rename({"ndcg": "value"}), days)
    for name in ("expected", "z_day", "z_week", "alarm", "held"):
        assert result.table[name].to_list() == pytest.approx(rows[name].to_list(), abs=1e-9)
    assert result.title == "Alarm since 2026-10-21: ndcg (sudden drop)" and result.exit_code == 1
    assert result.table["queries"].null_count() == len(frame)
    assert rankql.monitor(daily(lost=0)).exit_code == 0
    named = frame.with_columns(item_count=pl.lit(3.0) + frame["ndcg"]).rename({"ndcg": "score"})
    assert rankql.monitor(named, metrics="score").title == result.title.replace("ndcg", "score")


def test_a_week_without_all_its_days_is_not_compared():
    """The last and one with a gap; the baseline begins after the first, which is short too."""
    frame = daily(days=200, lost=0).filter(pl.col("day") != FIRST + timedelta(104))
    result = rankql.monitor(frame, period="week")
    weekly = result.table.with_columns(week=pl.col("day"))
    week = pl.col("day").dt.truncate("1w")
    truncated = frame.group_by(week).agg(pl.mean("ndcg"), pl.len()).sort("day")
    parts = truncated.filter(pl.col("len") < 7)["day"].to_list()
    truncated = truncated[1:]
    assert len(parts) == 3 and parts[0] == FIRST - timedelta(1) and parts[2] == truncated["day"][-1]
    assert weekly["mean"].to_list() == pytest.approx(truncated["ndcg"].to_list(), abs=1e-12)
    assert weekly.filter(pl.col("alarm").is_null() & pl.col("day").is_in(parts)).height == 2
    weeks = f"{parts[1]} and {parts[2]}"
    assert f"Not compared, because days are missing: the weeks of {weeks}" in result.notes
    assert result.title == f"No alarm on {parts[2] - timedelta(7)}; nothing was compared since"
    assert result.displayed()[0]["alarm"].to_list()[-1] == "not compared"
    assert not [x for x in result.notes if x.startswith("Not compared on")]
    workdays = frame.filter(pl.col("day").dt.weekday() < 6, pl.col("day") > FIRST + timedelta(5))
    closed = rankql.monitor(workdays.head(150), period="week")  # complete weeks have five days
    assert not [x for x in closed.notes if "days are missing" in x and str(parts[0]) in x]
    assert not [x for x in rankql.monitor(frame).notes if "days are missing" in x]


@few(1)("extra", [0, 17])
def test_a_week_has_as_many_days_as_most_weeks(extra):
    """Weeks of five days, and one with a Saturday."""
    monday = date(2026, 5, 4)
    days = [
        monday + timedelta(i) for i in range(7 * 18) if i % 7 < 5 or (i // 7 == extra and i % 7 < 6)
    ]
    noise = np.random.default_rng(2).normal(0.7, 0.01, len(days))
    frame = pl.DataFrame({"day": days, "ndcg": noise})
    result = rankql.monitor(frame, period="week")
    assert result.title == f"No alarm on {monday + timedelta(7 * 17)}" and len(result.notes) == 2
    if extra:
        return
    other = frame.with_columns(part=pl.lit("b")).filter(~pl.col("day").is_in(days[-2:]))
    both = pl.concat([frame.with_columns(part=pl.lit("a")), other])
    states = rankql.monitor(both, period="week", by="part").states
    assert dict(states["slice", "state"].rows()) == {"part=a": "fine", "part=b": "not compared"}


@few(1)("shape", ["queries", "rankings", "judged days"])
def test_a_week_of_one_bad_day_is_no_alarm(shape):
    """Mondays are low, and the last week has only one; the others have no row, or no value."""
    monday = date(2026, 5, 4)
    days = [monday + timedelta(i) for i in range(7 * 15 + (1 if shape == "rankings" else 3))]
    frame = pl.DataFrame([(d, q, 1 + (q + i) % 2 + 2 * (d.weekday() == 0), q % 3)
                          for i, d in enumerate(days) for q in range(12)],
                         schema=["day", "query", "pos", "part"], orient="row")  # fmt: skip
    end, qrels, metric = monday + timedelta(7 * 15), None, "RR"
    if shape == "queries":
        value, metric = pl.when(pl.col("day") <= end).then(1 / pl.col("pos")), "rr"
        frame = frame.select("day", "query", "part", rr=value)
    else:
        frame = frame.with_columns(item=pl.lit("x"), rel=1)
    if shape == "judged days":
        qrels = frame.filter(pl.col("day") <= end).select("day", "query", "item", "rel")
        frame = frame.drop("rel")
    result = rankql.monitor(frame, qrels, metric, period="week", by="part")
    assert result.title == f"No alarm on {end - timedelta(7)}; nothing was compared since"
    assert f"Not compared, because days are missing: the weeks of {end}" in result.notes
    assert not [x for x in result.notes if x.startswith("Not compared on")]


@few(1)("ranked", [False, True])
def test_rows_without_a_day_are_left_out(ranked):
    frame = log() if ranked else daily(weekends=0.1)
    lacking = frame.head(3).with_columns(day=pl.lit(None, pl.Date))
    result, known = (rankql.monitor(x, metrics="nDCG@3" if ranked else None)
                     for x in (pl.concat([lacking, frame]), frame))  # fmt: skip
    assert_frame_equal(result.table, known.table, rel_tol=1e-12)
    assert {*result.notes} - {*known.notes} == {"day is NULL in 3 rows: left out"}


def test_the_note_on_weekends_names_slices_of_days():
    parts = [daily(weekends=x).with_columns(part=pl.lit(f"{x}")) for x in (0.1, 0.2, 0)]
    notes = rankql.monitor(pl.concat(parts), by="part").notes
    noted = [x.split(" in the baseline: ")[0] for x in notes if "weekends are" in x]
    assert noted == ["ndcg [part=0.1]", "ndcg [part=0.2]"]


@few(1)("columns", [[], ["query"]])
def test_slices_of_own_values_are_spelled_in_any_case(columns):
    frame = daily().with_columns(Country=pl.lit("de"), query=pl.lit("a"))
    frame = frame.select("day", "Country", "ndcg", *columns)
    titles = {rankql.monitor(frame, by=name).title for name in ("country", "Country")}
    assert len(titles) == 1 and "ndcg [Country=de]" in titles.pop()


def test_own_values_may_be_decimals_next_to_an_enum(watched):
    con = duckdb.connect()
    con.register("frame", daily().with_columns(pl.col("ndcg").round(4)))
    columns = "day, ndcg::DECIMAL(8, 4) AS ndcg, CAST('eu' AS ENUM ('eu', 'us')) AS region"
    assert rankql.monitor(con.sql(f"SELECT {columns} FROM frame"), con=con).title == watched.title


def test_numbers_as_text_are_refused_by_name():
    frame = daily().with_columns(pl.col("ndcg").cast(pl.String), query=pl.lit("a"))
    for columns in ([], ["query"]):
        with pytest.raises(rankql.RankqlError, match=r"ndcg is VARCHAR\. Cast the metric to DOU"):
            rankql.monitor(frame.select("day", *columns, "ndcg"))


@pytest.mark.slow
def test_values_by_day_and_query_are_watched_as_those_of_evaluate():
    frame = log(broken=40, queries=20)
    frame = frame.filter((pl.col("day") != FIRST + timedelta(42)) | (pl.col("query") < 9))
    values = rankql.evaluate(frame, None, "nDCG@3", query=["day", "query"],
                             by=["day", "part"]).per_query  # fmt: skip
    values = values.rename({"nDCG@3": "ndcg", "day, query": "query"}).with_columns(
        pl.col("day").cast(pl.Date)
    )
    own = rankql.monitor(values.select("day", "query", "part", "ndcg"), by="part")
    other = rankql.monitor(frame, metrics="nDCG@3", by="part")
    shared = ["slice", "kind", "day", "mean", "lo", "hi", "queries", "expected", "limit", "alarm"]
    first, second = (x.table.select(shared).sort("kind", "slice", "day") for x in (own, other))
    assert_frame_equal(first, second, rel_tol=1e-9, abs_tol=1e-9)
    assert own.title == other.title.replace("nDCG@3", "ndcg") and own.exit_code == 1
    shown = own.displayed()[0].filter(metric="ndcg", slice="all", day=FIRST + timedelta(42))
    assert shown["alarm"].to_list() == ["not compared"]


@pytest.mark.slow
def test_slices_of_values_by_day():
    both = [
        daily(lost).with_columns(device=pl.lit(x), os=pl.lit("a"))
        for lost, x in ((0.1, "tv"), (0, "phone"))
    ]
    frame = pl.concat(both)
    result = rankql.monitor(frame, by="device")
    assert {*result.table["slice"]} == {"device=tv", "device=phone"}
    assert result.title == "Alarm since 2026-10-21: ndcg [device=tv] (sudden drop)"
    for options, message in (
        ({}, "several rows for day 2026-09-01. .*\n\nPass:\n    by='device'"),
        ({"query": "user"}, "days has no column 'user'"),
        ({"lower_is_better": True}, "Unknown option 'lower_is_better'. Did you mean 'higher_is_b"),
        ({"ties": "best"}, "ties= is for rankings: days has values, ndcg. Leave it out"),
        ({"by": [["device"], ["os"]]}, "days has no query, so by= must be one slicing"),
        ({"metrics": "nDGC"}, "nDGC"),
    ):
        with pytest.raises(rankql.RankqlError, match=message):
            rankql.monitor(frame, **options)
    with pytest.raises(rankql.RankqlError, match="query"):  # a ranking
        rankql.monitor(frame.with_columns(item=pl.lit("x"), pos=1))


@pytest.mark.slow
def test_the_command_reads_values_by_day(tmp_path):
    path, page = tmp_path / "daily.jsonl", tmp_path / "page.md"
    daily(weekends=0.1).rename({"ndcg": "revenue"}).write_ndjson(path)
    done = CliRunner().invoke(main, ["monitor", str(path), "-o", str(page)])
    assert done.exit_code == 1 and done.stdout.startswith("Alarm since 2026-10-21: revenue (sudden")
    for text in (done.stdout, page.read_text()):
        assert "pass this period as --baseline" in text and "baseline=" not in text
        assert "revenue in the baseline: weekends are 0.599, other days 0.698" in text
        assert "Higher revenue is assumed to be better. If not, set --lower-is-better" in text
    assert done.stdout.index("Higher revenue") < done.stdout.index("metric   day")
    assert not any("weekends" in note for note in rankql.monitor(daily()).notes)


@pytest.mark.report
def test_what_chance_explains_is_drawn_to_both_sides():
    spec = rankql.monitor(daily()).plot().to_dict()
    band, rows = spec["vconcat"][0]["layer"][0], spec["datasets"][spec["data"]["name"]]
    assert band["encoding"]["y"]["field"] == "better" and band["mark"]["type"] == "area"
    last = rows[-1]
    assert last["better"] - last["expected"] == pytest.approx(last["expected"] - last["limit"])


@pytest.mark.report
def test_the_chart_begins_with_the_alarm_and_its_band_stays_within_the_range():
    days = [date(2026, 1, 1) + timedelta(d) for d in range(120)]
    rows = [
        {"day": day, "query": q, "item": "x", "pos": 1, "part": part,
         "rel": int((q + i) % 9 > 0 if part == "a" or i < 100 else q % 3 == 0)}
        for i, day in enumerate(days) for part in "ab" for q in range(20 * (part == "b"), 40)
    ]  # fmt: skip
    log = pl.DataFrame(rows).unique(["day", "query"], keep="last", maintain_order=True)
    result = rankql.monitor(log, metrics="P@1", by="part")
    spec = result.plot().to_dict()
    titles = [
        f"{' '.join(panel['title']['text'])} {panel['title'].get('subtitle', '')}"
        for panel in spec["vconcat"]
    ]
    first = result.active.row(0, named=True)
    assert titles[0].startswith(first["metric"]) and titles[0].endswith(", orange: alarm")
    assert sum("orange" in title for title in titles) < len(titles)
    bands = [panel["data"]["values"] for panel in spec["vconcat"]]
    for row in (row for rows in bands for row in rows):
        assert all(0 <= row[end] <= 1 for end in ("better", "worse") if row[end] is not None)
    assert any(row["better"] == 1 for row in bands[0])


@few(2)(
    ("call", "name"),
    [
        (", value := 'x'", "day"), (", day := 'at'", "value"),
        (", day := 'at', value := 'x', series := 'y'", "y"),
        (", day := 'at', value := 'x', error := 'z'", "z"),
    ],
)  # fmt: skip
def test_monitor_days_says_what_it_needs(call, name):
    frame = numbered_days([1.0] * 40).rename({"day": "at", "value": "x"})
    with pytest.raises(duckdb.Error, match=f"monitor_days needs .*no column '{name}'"):
        rows_of(frame, f"FROM monitor_days('daily', DATE '2026-02-01'{call})")


# A last day that has hardly begun, and half of the usual traffic


def daily_queries(days=60, last=70, name="good", drop=0.0, seed=5):
    """Values in 0 to 1 of 70 queries a day, of which the last day has fewer."""
    rng = np.random.default_rng(seed)
    counts = [70] * (days - 1) + [last]
    rows = [
        (date(2026, 1, 5) + timedelta(i), f"q{q}", float(np.clip(rng.normal(0.7, 0.2), 0, 1)))
        for i, count in enumerate(counts)
        for q in range(count)
    ]
    frame = pl.DataFrame(rows, ["day", "query", name], orient="row")
    late = pl.col("day") == frame["day"].max()
    return frame.with_columns(pl.when(late).then(pl.col(name) - drop).otherwise(name).clip(0, 1))


def test_an_incomplete_last_day_is_named_and_left_out():
    result = rankql.monitor(daily_queries(last=2, drop=0.7))
    assert result.exit_code == 0 and result.title == "No alarm on 2026-03-04"
    assert result.table["day"].max() == date(2026, 3, 4)
    note = "2026-03-05 is incomplete and left out: it has 2 queries, a usual day has 70"
    assert note in result.notes


@pytest.mark.report
def test_an_incomplete_last_day_is_not_drawn():
    chart = str(rankql.monitor(daily_queries(last=2, drop=0.7)).plot().to_dict())
    assert "2026-03-04" in chart and "2026-03-05" not in chart


def test_a_last_day_of_half_the_traffic_is_compared():
    fine, broken = (rankql.monitor(daily_queries(last=35, drop=x)) for x in (0.0, 0.6))
    assert fine.title == "No alarm on 2026-03-05"
    assert broken.title.startswith("Alarm since 2026-03-05") and broken.exit_code == 1
    assert not any("incomplete" in note for note in [*fine.notes, *broken.notes])


def test_intervals_of_own_values_stay_in_their_range():
    """The mean of few values near the end had one from 0.03 to 1.79."""
    frame = daily_queries(last=24)
    ends = pl.when(pl.int_range(pl.len()).over("day") < 1).then(0.2).otherwise(1.0)
    sparse = frame.with_columns(
        pl.when(pl.col("day") == date(2026, 3, 5)).then(ends).otherwise("good").alias("good")
    )
    for own, top in (("good", 1), ("seconds", 100)):
        scaled = sparse.with_columns(pl.col("good") * top).rename(
            {"good": own} if own != "good" else {}
        )
        table = rankql.monitor(scaled).table.filter(kind="metric")
        assert (table["hi"].max() > 1) == (own == "seconds")
        assert table["lo"].min() >= 0 or own == "seconds"


@pytest.mark.slow
@few(1)(("seeds", "most"), [(2, 1), (20, 5)])
def test_the_loss_that_is_seen_within_a_week_is_named(seeds, most):
    alone = rankql.monitor(daily_queries())
    (line,) = (x for x in alone.notes if x.startswith("A loss that lasts is seen within 7 days"))
    loss = float(re.search(r"from ([\d.]+) of good on$", line)[1])
    missed = 0
    for seed in range(seeds):
        frame = daily_queries(days=67, seed=seed)
        late = pl.col("day") >= date(2026, 3, 6)
        broken = frame.with_columns(
            pl.when(late).then(pl.col("good") - loss * 1.1).otherwise("good").alias("good")
        )
        missed += not rankql.monitor(broken, baseline=28).alarms.height
    assert missed <= most
    sliced = daily_queries().with_columns(part=pl.col("query").str.tail(1))
    (line,) = (x for x in rankql.monitor(sliced, by="part").notes if x.startswith("A loss that"))
    assert re.search(r"22 series share the promise: up to 3 would need 22% less$", line)


def test_query_is_offered_for_several_rows_of_a_day():
    frame = daily_queries().rename({"query": "besuch"})
    with pytest.raises(rankql.RankqlError, match="    query='besuch'\n    by='besuch'"):
        rankql.monitor(frame)
    assert rankql.monitor(frame, query="besuch").exit_code == 0
    with pytest.raises(
        rankql.RankqlError, match="Pass the column of the query or of the slices, by query= or by="
    ):
        rankql.monitor(frame.drop("besuch"))


# Series as people have them

SERIES = pl.DataFrame({
    "day": [date(2026, 1, 1) + timedelta(i) for i in range(63)],
    "ctr": [0.3 + 0.01 * math.sin(7 * i) for i in range(63)],
})  # fmt: skip


def test_percents_as_text_have_a_line_that_reads_them():
    days = SERIES.with_columns(ctr=(100 * pl.col("ctr")).round(2).cast(pl.String) + " %")
    for metrics in ("ctr", None):
        with pytest.raises(rankql.RankqlError, match="ctr is VARCHAR") as refused:
            rankql.monitor(days, metrics=metrics)
    line = str(refused.value).partition("Read percents: ")[2]
    watched = rankql.monitor(eval(line, {"days": days, "pl": pl}))
    expected = rankql.monitor(SERIES.with_columns(ctr=(100 * pl.col("ctr")).round(2)))
    assert_frame_equal(watched.table, expected.table)


@few(2)("name", ["when", "date", "day"])
@few(2)("form", ["%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y"])
def test_written_dates_are_read_off_a_day_above_12_or_asked_about(form, name):
    """Also where the name says that they are days: polars would read each as %d/%m."""
    written = SERIES.select(pl.col("day").dt.strftime(form).alias(name), "ctr")
    assert rankql.monitor(written).table.equals(rankql.monitor(SERIES).table)
    mark = form[2]
    if mark == ".":  # the day is first
        return
    with pytest.raises(Question) as asked:
        rankql.monitor(written.filter(SERIES["day"].dt.day() <= 12))
    assert [call["day"] for call in asked.value.calls] == [
        f"CAST(strptime(\"{name}\", '{x.replace('/', mark)}') AS DATE)"
        for x in ("%m/%d/%Y", "%d/%m/%Y")
    ]


def test_few_rows_a_day_are_slices_and_no_queries():
    rows = SERIES.join(pl.DataFrame({"locale": ["de", "en", "fr", "zh"]}), how="cross")
    with pytest.raises(Question) as asked:
        rankql.monitor(rows)
    assert asked.value.calls == [{"by": "locale"}]
    rankql.monitor(rows, by="locale")


@few(1)("name", ["no_answer_pct", "unanswered", "refusal_rate", "timeouts"])
def test_names_of_what_went_wrong_are_asked_about(name):
    with pytest.raises(Question, match=f"^{name}: is lower or higher better"):
        rankql.monitor(SERIES.rename({"ctr": name}))


@few(1)("recurs", [False, True])
def test_a_metric_of_rankings_is_no_column_of_their_table(recurs):
    """Columns of unusual names are asked about as evaluate does, also if queries recur."""
    days = [(day, f"{ask}" if recurs else f"{ask} {day}") for day in SERIES["day"] for ask in "ab"]
    rows = [(*day, f"d{i}{day[1]}", i, i % 2) for day in days for i in (1, 2)]
    log = pl.DataFrame(rows, ["day", "ask", "art", "slot", "won"], orient="row")
    with pytest.raises(Question, match="No query column in run") as asked:
        rankql.monitor(log, metrics="RR")
    (call,) = asked.value.calls
    assert call == {"query": "ask", "item": "art", "rel": "won"}
    assert rankql.monitor(log, metrics="RR", **call).table["metric"][0] == "RR"

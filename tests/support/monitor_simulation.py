"""How often monitor is wrong, and how fast: `python tests/run_simulation.py --monitor`.

Daily means of simulated years, which the macro and the search for causes see as those of real days.
"""

from datetime import date, timedelta

import duckdb
import numpy as np
import polars as pl

import rankql
from rankql.online.alarms import DRIFT, DROP, LABELS, find_alarms, score_days
from rankql.online.day_states import JUDGED, METRIC, SHARE
from rankql.sources.session import open_session
from support.simulation import ALPHA, percent, rows

FIRST = date(2025, 1, 1)
YEAR = 365
# The sd of a day besides that of its queries.
DAY_SD = 0.005
# What Monday to Sunday add.
SEASON = np.array([0.004, 0.006, 0.006, 0.004, 0, -0.008, -0.02])


def like_ndcg(rng, shape):
    """Values with many zeros and ones, of mean 0.5."""
    return np.clip(1.6 * rng.beta(0.8, 0.8, shape) - 0.3, 0, 1)


def success(rng, shape):
    """Nearly always 1: the mean of a day is skewed to the left."""
    return (rng.random(shape) < 0.97) * 1.0


def reciprocal(rng, shape):
    """Reciprocal ranks of a bad search: mostly small."""
    return 1 / (1 + rng.geometric(0.08, shape))


def gain(rng, shape):
    """Gains without a bound, such as DCG: skewed to the right."""
    return rng.lognormal(-1.5, 1, shape)


SHAPES = {"nDCG": like_ndcg, "success": success, "RR": reciprocal, "DCG": gain}


def daily(name, series, days, queries, rng, similar=0.0):
    """Means and standard errors of so many days of several series, without a change.

    `similar` is the correlation of the effect of a day with that of the day before.
    """
    values = np.empty((series, days, 2))
    for i in range(series):  # not all at once, for the memory
        if name not in SHAPES:  # so many queries that only days vary
            values[i] = 0
            continue
        drawn = SHAPES[name](rng, (days, queries))
        values[i] = np.stack([drawn.mean(1), drawn.std(1, ddof=1) / np.sqrt(queries)], 1)
    effects = rng.normal(0, DAY_SD, (series, days))
    for t in range(1, days if similar else 0):
        effects[:, t] = similar * effects[:, t - 1] + np.sqrt(1 - similar**2) * effects[:, t]
    values[:, :, 0] += effects + SEASON[np.arange(days) % 7]
    return values


def watch(values, baseline, family):
    """The alarms of many series by day, as if each were one of a family of so many."""
    series, days = values.shape[:2]
    frame = pl.DataFrame({
        "series": np.repeat(np.arange(series), days),
        "day": [FIRST + timedelta(i) for i in range(days)] * series,
        "value": values[:, :, 0].ravel(), "error": values[:, :, 1].ravel(),
    })  # fmt: skip
    con = duckdb.connect()
    rankql.register(con)
    con.register("daily", frame)
    last = FIRST + timedelta(baseline - 1)
    alarms = con.sql(f"""SELECT coalesce(alarm, false) AS alarm FROM monitor_days('daily',
        DATE '{last}', family := {family}, series := 'series', error := 'error')
        ORDER BY series, day""").pl()["alarm"]
    return alarms.to_numpy().reshape(series, days)[:, baseline:]


def false_alarms(name, baseline, queries, repeats, family=1, similar=0.0):
    """The share of years with a false alarm, of families of so many independent series."""
    rng = np.random.default_rng([len(name), baseline, queries, family])
    wrong, part = [], max(1, 2_000 // family)  # not all at once, for the memory
    for start in range(0, repeats, part):
        years = min(part, repeats - start)
        values = daily(name, years * family, baseline + YEAR, queries, rng, similar)
        wrong.append(watch(values, baseline, family).any(1).reshape(years, family).any(1))
    return np.concatenate(wrong).mean()


def below(values, baseline, loss):
    """The alarms of a fixed threshold: a day is so much below the mean of the baseline."""
    means = values[:, :, 0]
    return means[:, baseline:] < means[:, :baseline].mean(1, keepdims=True) - loss


def losses(days, kind):
    """What each day loses: 2 points at once, or 1 point every 30 days."""
    return np.full(days, 0.02) if kind == DROP else 0.01 / 30 * np.arange(1, days + 1)


def delays(kind, baseline, queries, repeats, family=10, after=60, days=150):
    """Days from the start of a loss to the first alarm: of monitor, and of two fixed thresholds.

    The second threshold is the one that raises as few false alarms, which only a simulation knows.
    """
    rng = np.random.default_rng([baseline, queries, 7])
    error = 0.3 / np.sqrt(queries)

    def draw(days):
        """Days of an nDCG whose queries have sd 0.3: so many make a normal mean."""
        means = rng.normal(0, np.hypot(DAY_SD, error), (repeats, days))
        means += SEASON[np.arange(days) % 7]
        return np.stack([means, np.full_like(means, error)], 2)

    quiet = draw(baseline + YEAR)
    means = quiet[:, :, 0]
    worst = means[:, :baseline].mean(1) - means[:, baseline:].min(1)
    tuned = np.quantile(worst, 1 - ALPHA / family)
    values = draw(baseline + after + days)
    values[:, baseline + after :, 0] -= losses(days, kind)
    alarms = {"monitor": watch(values, baseline, family)} | {
        loss: below(values, baseline, loss) for loss in (0.02, tuned)}  # fmt: skip
    found = []
    for alarm in alarms.values():
        late = alarm[:, after:]
        first = np.where(late.any(1), late.argmax(1) + 1, np.inf)
        found.append(np.median(first))
    wrong = [watch(quiet, baseline, family).any(1).mean(),
             *(below(quiet, baseline, loss).any(1).mean() for loss in (0.02, tuned))]  # fmt: skip
    return found, wrong, tuned


def searched(rng, days, queries, unjudged=0.0, noise=0.8):
    """States of days: nDCG@10 of 15 items, the share of judged ones, and nDCG@10 of those alone.

    `unjudged` is the share of items without a label and `noise` the sd of the ranker, by day.
    """
    grades = rng.choice([0.0, 1.0, 2.0], (days, queries, 15), p=[0.6, 0.3, 0.1])
    season = 0.3 * (np.arange(days) % 7 == 6) + rng.normal(0, 0.03, days)
    spread = (np.broadcast_to(noise, days) + season)[:, None, None]
    order = np.argsort(-(grades + spread * rng.normal(0, 1, grades.shape)), axis=2)
    grades = np.take_along_axis(grades, order, 2)
    judged = rng.random(grades.shape) >= np.broadcast_to(unjudged, days)[:, None, None]
    gains = grades * judged
    discounts = 1 / np.log2(np.arange(2, 12))
    ideal = (-np.sort(-gains, axis=2)[:, :, :10] * discounts).sum(2)
    order = np.argsort(~judged, axis=2, kind="stable")
    frames = []
    for kind, metric, of in (
        (METRIC, "nDCG@10", gains),
        (JUDGED, "nDCG@10", np.take_along_axis(gains, order, 2)),
        (SHARE, "Judged@10", None),
    ):
        if of is None:
            values = judged[:, :, :10].mean(2)
        else:
            values = (of[:, :, :10] * discounts).sum(2) / np.where(ideal > 0, ideal, np.nan)
        n = np.isfinite(values).sum(1)
        means = np.stack([np.nanmean(values, 1), np.nanstd(values, 1, ddof=1) / np.sqrt(n)], 1)
        frames.append(pl.DataFrame({
            "day": [FIRST + timedelta(i) for i in range(days)], "slice": "all", "metric": metric,
            "kind": kind, "mean": means[:, 0], "error": means[:, 1], "queries": n,
        }))  # fmt: skip
    return pl.concat(frames)


def causes(kind, repeats, queries=500, baseline=28, after=30, days=90):
    """The causes of the metric's alarms that are on when a change is so many days old.

    Of the labels, 1% more are missing every 5 days; the ranker loses about as much at once, or as
    slowly.
    """
    start, total = baseline + after, baseline + after + days
    grown = np.concatenate([np.zeros(start), np.arange(1, days + 1)])
    unjudged = 0.002 * grown if kind == LABELS else 0.0
    noise = 0.8 + {DROP: 0.2 * (grown > 0), DRIFT: 0.2 * grown / 60, LABELS: 0.0}[kind]
    found = []
    for seed in range(repeats):
        rng = np.random.default_rng([seed, len(kind)])
        states = searched(rng, total, queries, unjudged, noise)
        with open_session(None) as session:
            last = FIRST + timedelta(baseline - 1)
            scored, _ = score_days(session, states, (FIRST, last), ALPHA)
        alarms = find_alarms(scored).filter(pl.col("active"), metric="nDCG@10")
        found += alarms["cause"].to_list() or ["none"]
    return {cause: found.count(cause) / repeats for cause in (DROP, DRIFT, LABELS, "none")}


def monitor_tables(repeats):
    """The tables of the page on monitoring."""
    cases = ((1, 30), (1, 300), (20, 30))
    body = [
        [name, *(percent(false_alarms(name, 28, queries, repeats, family))
                 for family, queries in cases)]
        for name in SHAPES
    ]  # fmt: skip
    head = [f"{family} series, {queries} queries per day" for family, queries in cases]
    print(rows(["metric", *head], *body), end="\n\n", flush=True)
    body = [
        [f"{similar:g}", *(percent(false_alarms("days", baseline, 0, repeats, 20, similar))
                           for baseline in (28, 56))]
        for similar in (0, 0.2, 0.4)
    ]  # fmt: skip
    head = [f"baseline {baseline} days" for baseline in (28, 56)]
    print(rows(["correlation with the day before", *head], *body), end="\n\n", flush=True)
    body = []
    for queries in (1_000, 10_000):
        for baseline in (28, 56, 91):
            lines = {kind: delays(kind, baseline, queries, repeats) for kind in (DROP, DRIFT)}
            tuned = f"fixed, {100 * lines[DROP][2]:.1f} points"
            for i, rule in enumerate(("monitor", "fixed, 2 points", tuned)):
                body.append([f"{queries:,}", str(baseline), rule, percent(lines[DROP][1][i]),
                             *(f"{lines[kind][0][i]:.0f}" for kind in lines)])  # fmt: skip
    head = ["queries per day", "baseline days", "rule", "false alarm in a year",
            "days to see 2 points at once", "days to see 1 point a month"]  # fmt: skip
    print(rows(head, *body), end="\n\n", flush=True)
    body = [[kind, *map(percent, causes(kind, repeats // 4).values())]
            for kind in (DROP, DRIFT, LABELS)]  # fmt: skip
    print(rows(["what changed", "drop", "drift", "labels", "no alarm"], *body))

"""How often monitor is wrong, and how fast: `python tests/run_simulation.py --monitor`.

The rule of sql/monitor.sql is written a second time, in numpy: it takes thousands of years at once.
A test compares both.
"""

import warnings
from datetime import date, timedelta

import numpy as np

from research.simulation import percent, print_table, rows

FIRST = date(2026, 1, 5)  # a Monday
YEAR = 365
DAY_SD, LOSS = 0.004, 0.02
WATCHED = 3  # the metric, Judged@k and the undefined share
SHAPES = {
    "normal": "normal",
    "t5": "Student's t, df 5",
    "laplace": "Laplace",
    "weekends 2": "normal, weekends vary 2 times as much",
    "weekends 3": "normal, weekends vary 3 times as much",
    "ar 0.4": "normal, correlation 0.4 with the day before",
    "outage": "normal, one day of the baseline lower by 0.1",
    "outages": "normal, seven days of the baseline lower by 0.1",
    "rounded": "normal, rounded to one standard deviation",
}
# Days with more false alarms than 5%, however long the baseline is.
OTHERS = {
    "ar 0.6": "normal, correlation 0.6 with the day before",
    "ar 0.8": "normal, correlation 0.8 with the day before",
    "t5 ar 0.4": "Student's t, df 5, correlation 0.4 with the day before",
    "t3": "Student's t, df 3",
    "dips": "lognormal losses (sigma 0.5)",
}
WEEKEND = np.arange(7) >= 5


def draw(shape, series, days, rng):
    """Days of several series, without a change."""
    size = (series, days)
    if shape[:2] in ("t3", "t5"):
        freedom = int(shape[1])
        values = rng.standard_t(freedom, size) / np.sqrt(freedom / (freedom - 2))
    elif shape == "dips":
        values = -rng.lognormal(0, 0.5, size)
    elif shape == "almost constant":
        values = np.where(rng.random(size) < 0.1, -1.0, 0.0)
    elif shape == "laplace":
        values = rng.laplace(0, np.sqrt(0.5), size)
    else:
        values = rng.normal(0, 1, size)
    if shape.startswith("weekends"):
        values[:, WEEKEND[np.arange(days) % 7]] *= float(shape[-1])
    like = float(shape[-3:]) if "ar " in shape else 0.0
    for day in range(1, days if like else 0):
        values[:, day] = like * values[:, day - 1] + np.sqrt(1 - like**2) * values[:, day]
    if shape == "rounded":
        values = values.round()
    values = 0.9 + DAY_SD * values
    if shape.startswith("outage"):
        values[:, slice(7, 14) if shape == "outages" else 12] -= 0.1
    elif shape == "almost constant":
        values[:, 7:12] -= 0.1
    return values


def watch(values, weeks, family=WATCHED):
    """The alarms after the baseline, and the days of the baseline that lie outside."""
    old = values[:, : 7 * weeks].reshape(-1, weeks, 7)
    i, j = np.triu_indices(weeks, 1)

    def by_weekday(weekdays, weekends):
        return np.where(WEEKEND, np.maximum(weekdays, weekends)[:, None], weekdays[:, None])

    gaps = np.abs(old[:, i] - old[:, j])
    gaps[gaps < 1e-12] = 0
    far = np.abs(old - np.median(old, axis=1)[:, None])
    odd = far.reshape(len(old), -1) > 1e-12
    outage = odd.shape[1] - odd.argmax(axis=1) - odd[:, ::-1].argmax(axis=1)
    constant = ~odd.any(axis=1) | (outage <= odd.shape[1] // 4)
    nearest = np.sort(far.reshape(len(old), -1), axis=1)
    jumps = (nearest[:, 1:] > 10 * nearest[:, :-1]) & (nearest[:, :-1] > 1e-12)
    jumps[:, : int(0.75 * odd.shape[1]) - 1] = False
    far_out = np.where(jumps, nearest[:, 1:], np.inf).min(axis=1)[:, None, None]
    inside = np.where(np.maximum(far[:, i], far[:, j]) < far_out, gaps, 0)
    rough = by_weekday(*(
        np.where(constant, 0, first_quartile(
            *(x[:, :, days].reshape(len(old), -1) for x in (gaps, inside))))
        for days in (~WEEKEND, WEEKEND)
    ))  # fmt: skip
    outlying = far > 6 * rough[:, None] + 1e-12
    kept = np.where(outlying, np.nan, old)
    with warnings.catch_warnings(action="ignore"):  # a weekday may have no day left
        expected = np.nanmedian(kept, axis=1)
    gaps = np.abs(kept[:, i] - kept[:, j])
    spread = by_weekday(*(
        np.nanmean(gaps[:, :, days].reshape(len(old), -1), axis=1) * np.sqrt(np.pi) / 2
        for days in (~WEEKEND, WEEKEND)
    ))  # fmt: skip
    weekday = np.arange(7 * weeks, values.shape[1]) % 7
    loss = expected[:, weekday] - values[:, 7 * weeks :]
    loss[np.abs(loss) < 1e-12] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(loss == 0, 0, loss / spread[:, weekday])
    z /= weeks / (weeks - 1.25) * (max(family, 3) / 3) ** 0.125
    alarms = z >= 10
    alarms[:, 1:] |= np.minimum(z[:, 1:], z[:, :-1]) >= 3.6
    clipped = np.clip(z, -6, 6)
    for day in range(4, z.shape[1]):
        alarms[:, day] |= clipped[:, max(0, day - 6) : day + 1].mean(axis=1) >= 2.2
    outlying = outlying.reshape(len(old), -1)
    alarms[outlying.mean(axis=1) > 0.25] = False
    return alarms, outlying


def first_quartile(gaps, inside):
    """The rough spread of each row: of the gaps above 0, or 0 if most are 0."""
    with warnings.catch_warnings(action="ignore"):  # a row may have no gap above 0
        quarter, inner = (
            np.nanquantile(np.where(x > 0, x, np.nan), 0.25, axis=1) for x in (gaps, inside)
        )
    quarter = np.where(10 * inner < quarter, inner, quarter)
    constant = np.quantile(gaps, 0.7, axis=1, method="inverted_cdf") == 0
    return np.where(constant, 0, quarter) / 0.4506


def false_alarms(shape, weeks, years, family=WATCHED):
    """The share of years with a false alarm in any series of a family."""
    rng, wrong = np.random.default_rng([weeks, family, *map(ord, shape)]), 0
    for start in range(0, years, step := max(1, 3000 // family)):
        some = min(step, years - start)
        values = draw(shape, some * family, 7 * weeks + YEAR, rng)
        wrong += watch(values, weeks, family)[0].reshape(some, -1).any(axis=1).sum()
    return wrong / years


def delays(shape, weeks, repeats, before=60, after=40):
    """Days until a loss of 2 points is found, from any weekday on."""
    rng = np.random.default_rng([weeks, *map(ord, shape)])
    values = draw(shape, repeats, 7 * weeks + before + after, rng)
    start = before + np.arange(repeats) % 7
    days = np.arange(values.shape[1]) - 7 * weeks - start[:, None]
    alarms = watch(values - LOSS * (days >= 0), weeks)[0] & (days[:, 7 * weeks :] >= 0)
    return np.where(alarms.any(axis=1), alarms.argmax(axis=1) - start + 1, np.inf)


def monitor_table(years):
    """The table of the page on monitoring."""
    body = []
    for shape, words in SHAPES.items():
        late = {weeks: delays(shape, weeks, years) for weeks in (4, 8)}
        body.append([
            words, *(percent(false_alarms(shape, weeks, years)) for weeks in (4, 8)),
            *(percent(false_alarms(shape, weeks, years // 10, 30)) for weeks in (4, 8)),
            *(f"{np.median(late[weeks]):.0f}" for weeks in (4, 8)), percent((late[8] <= 8).mean()),
        ])  # fmt: skip
    head = ["days", "3 series, 4 weeks", "3 series, 8 weeks", "30 series, 4 weeks",
            "30 series, 8 weeks", "days to find 2 points, 4 weeks", "8 weeks",
            "found within 8 days, 8 weeks"]  # fmt: skip
    print(rows(head, *body), end="\n\n")
    print_table(["days", "4 weeks", "8 weeks", "16 weeks"], {
        words: [false_alarms(shape, weeks, years // 4) for weeks in (4, 8, 16)]
        for shape, words in OTHERS.items()
    })  # fmt: skip


def dates(days):
    """So many days, from a Monday on."""
    return [FIRST + timedelta(day) for day in range(days)]

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
    "exponential": "exponential losses",
    "season": "normal, with a season of a year of one standard deviation up and down",
}
# Lasting losses, in standard deviations.
LASTING = (1, 1.5, 2, 3)
WEEKEND = np.arange(7) >= 5
# Weeks without a change: an outage of the baseline is one or two of them.
WEEK_SHAPES = {
    "normal": "normal",
    "t5": "Student's t, df 5",
    "laplace": "Laplace",
    "ar 0.4": "normal, correlation 0.4 with the week before",
    "outage": "normal, one week of the baseline lower by 0.1",
    "outages": "normal, two weeks of the baseline lower by 0.1",
    "rounded": "normal, rounded to one standard deviation",
    "ar 0.6": "normal, correlation 0.6 with the week before",
    "t3": "Student's t, df 3",
}
# More than 5% of years of these have a false alarm, with 8 weeks or with many series.
OTHER_WEEKS = ("rounded", "ar 0.6", "t3")


def draw(shape, series, days, rng, outages=slice(7, 14)):
    """Days or weeks of several series, without a change."""
    size = (series, days)
    if shape[:2] in ("t3", "t5"):
        freedom = int(shape[1])
        values = rng.standard_t(freedom, size) / np.sqrt(freedom / (freedom - 2))
    elif shape == "dips":
        values = -rng.lognormal(0, 0.5, size)
    elif shape == "exponential":
        values = -rng.exponential(1, size)
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
    if shape == "season":
        values += np.sin(2 * np.pi * (np.arange(days) / YEAR + rng.random((series, 1))))
    if shape == "rounded":
        values = values.round()
    values = 0.9 + DAY_SD * values
    if shape.startswith("outage"):
        values[:, outages if shape == "outages" else outages.stop - 2] -= 0.1
    elif shape == "almost constant":
        values[:, 7:12] -= 0.1
    return values


def watch(values, weeks, family=WATCHED, cycle=7):
    """The alarms after the baseline, its days that lie outside, and the losses of 7 days.

    cycle: values of a week, 7 days, 5 from Monday to Friday, or 1.
    """
    old = values[:, : cycle * weeks].reshape(-1, weeks, cycle)
    i, j = np.triu_indices(weeks, 1)
    weekend = WEEKEND[:cycle]
    kinds = (~weekend, weekend if cycle == 7 else ~weekend)

    def by_weekday(weekdays, weekends):
        return np.where(weekend, np.maximum(weekdays, weekends)[:, None], weekdays[:, None])

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
        for days in kinds
    ))  # fmt: skip
    outlying = far > 6 * rough[:, None] + 1e-12
    kept = np.where(outlying, np.nan, old)
    with warnings.catch_warnings(action="ignore"):  # a weekday may have no day left
        expected = np.nanmedian(kept, axis=1)
    gaps = np.abs(kept[:, i] - kept[:, j])
    with warnings.catch_warnings(action="ignore"):  # all days may be outlying
        spread = by_weekday(*(
            np.nanmean(gaps[:, :, days].reshape(len(old), -1), axis=1) * np.sqrt(np.pi) / 2
            for days in kinds
        ))  # fmt: skip
    weekday = np.arange(cycle * weeks, values.shape[1]) % cycle
    loss = expected[:, weekday] - values[:, cycle * weeks :]
    loss[np.abs(loss) < 1e-12] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(loss == 0, 0, loss / spread[:, weekday])
    z /= weeks / (weeks - (3.75 if cycle == 1 else 8.75 / cycle)) * (max(family, 3) / 3) ** 0.125
    z /= 1.05
    alarms = z >= 10
    both = np.minimum(z[:, 1:], z[:, :-1]) >= 3.6
    alarms[:, 1:] |= both & ((cycle != 5) | (weekday[1:] > 0))  # not Friday and Monday
    days, window = z.shape[1], 5 if cycle == 5 else 7
    padded = np.pad(np.clip(z, -6, 6), ((0, 0), (window - 1, 0)))
    means = sum(padded[:, i : i + days] for i in range(window))
    means /= np.minimum(np.arange(1, days + 1), window)
    means[:, :4] = np.nan
    alarms |= means >= 2.2
    for period, limit in ((28, 1.2), (91, 0.85)) if cycle > 1 else ():
        size, total = period * cycle // 7, np.cumsum(np.pad(np.clip(z, -3, 3), ((0, 0), (1, 0))), 1)
        size, least = min(size, days), period * 5 // 7
        sums = total[:, 1:].copy()
        sums[:, size:] = total[:, size + 1 :] - total[:, 1:-size]
        long = sums / np.minimum(np.arange(1, days + 1), size)
        lasts = (long >= limit) & (means >= limit / 2)
        alarms[:, least - 1 :] |= lasts[:, least - 1 :]
    outlying = outlying.reshape(len(old), -1)
    alarms[outlying.mean(axis=1) > 0.25] = False
    return alarms, outlying, means


def hold(alarms, means):
    """An alarm holds until the mean of 7 days is below half its limit."""
    held, on = np.zeros_like(alarms), np.zeros(len(alarms), bool)
    for day in range(alarms.shape[1]):
        on = alarms[:, day] | (on & ~(means[:, day] < 1.1))
        held[:, day] = on
    return held


def call_daily(values, family=WATCHED):
    """Alarms, held ones and weeks of the baseline of a call on each day, as it grows till then."""
    size, days = values.shape
    alarms, held, weeks = np.zeros((3, *values.shape), int)
    growing = np.arange(size)

    def fill(part, start, until, n):
        """Watch these series with n weeks, on the days on which the baseline has them."""
        found, _, means = watch(values[part, :until], n, family)
        for kind, state in ((alarms, found), (held, hold(found, means))):
            kind[part, start:until] = state[:, start - 7 * n :]
        weeks[part, start:until] = n
        return found[:, :7] | (np.abs(means[:, :7]) >= 1.1)

    for n in range(4, 13):
        start, end = 7 * n + (27 if n > 4 else 0), days if n == 12 else min(days, 7 * n + 34)
        if len(growing) and start < days:
            odd = fill(growing, start, end, n)
            stopped = growing[odd.any(axis=1)]
            growing = np.setdiff1d(growing, stopped)
            if len(stopped):
                fill(stopped, start, days, n)
    return alarms.astype(bool), held.astype(bool), weeks


def first_quartile(gaps, inside):
    """The rough spread of each row: of the gaps above 0, or 0 if most are 0."""
    with warnings.catch_warnings(action="ignore"):  # a row may have no gap above 0
        quarter, inner = (
            np.nanquantile(np.where(x > 0, x, np.nan), 0.25, axis=1) for x in (gaps, inside)
        )
    quarter = np.where(10 * inner < quarter, inner, quarter)
    constant = np.quantile(gaps, 0.7, axis=1, method="inverted_cdf") == 0
    return np.where(constant, 0, quarter) / 0.4506


def false_alarms(shape, weeks, years, family=WATCHED, cycle=7):
    """The share of years with a false alarm in any series of a family, of days or of weeks.

    weeks: those of the baseline; None if it grows.
    """
    rng, wrong = np.random.default_rng([weeks or 0, family, *map(ord, shape)]), 0
    for start in range(0, years, step := max(1, 3000 // family)):
        some = min(step, years - start)
        size = cycle * (weeks or 4) + YEAR * cycle // 7
        outages = slice(2, 4) if cycle == 1 else slice(cycle, 2 * cycle)
        values = draw(shape, some * family, size, rng, outages)
        alarms, *_ = (watch(values, weeks, family, cycle) if weeks
                      else call_daily(values, family))  # fmt: skip
        wrong += alarms.reshape(some, -1).any(axis=1).sum()
    return wrong / years


def delays(shape, weeks, repeats, before=60, after=40, cycle=7):
    """Days or weeks until a loss of 2 points is found, from any weekday on."""
    rng = np.random.default_rng([weeks or 0, *map(ord, shape)])
    outages = slice(7, 14) if cycle == 7 else slice(2, 4)
    old = cycle * (weeks or 4)
    values = draw(shape, repeats, old + before + after, rng, outages)
    start = old + before + np.arange(repeats) % 7
    is_late = np.arange(values.shape[1]) >= start[:, None]
    losses = values - LOSS * is_late
    if weeks:
        alarms = watch(losses, weeks, cycle=cycle)[0] & is_late[:, old:]
        start = start - old
    else:
        alarms = call_daily(losses)[0] & is_late
    return np.where(alarms.any(axis=1), alarms.argmax(axis=1) - start + 1, np.inf)


def lasting(shape, repeats, start=99, days=120, spreads=3.6):
    """How often a call on the last day says that values have dropped since a day."""
    rng = np.random.default_rng([start, days, *map(ord, shape)])
    values = draw(shape, repeats, days, rng)
    values[:, start:] -= spreads * DAY_SD
    return call_daily(values, family=6)[1][:, -1].mean()


def found(size, repeats, start=99, days=280):
    """How often normal days that are lower by so many spreads from a day on have any alarm."""
    values = draw("normal", repeats, days, np.random.default_rng([start, days]))
    values[:, start:] -= size * DAY_SD
    alarms = call_daily(values, family=6)[0]
    return alarms[:, start:].any(axis=1).mean()


def monitor_table(years):
    """The table of the page on monitoring."""
    body = []
    for shape, words in SHAPES.items():
        late = delays(shape, None, years)
        body.append([
            words, percent(false_alarms(shape, None, years)),
            percent(false_alarms(shape, None, years // 10, 30)), f"{np.median(late):.0f}",
            percent((late <= 8).mean()), percent(lasting(shape, years // 10)),
            percent(lasting(shape, years // 10, 39, 220)),
        ])  # fmt: skip
    head = ["days", "3 series", "30 series", "days to find 2 points", "found within 8 days",
            "alarm on the last of 21 days", "alarm on day 220, lower from day 40 on"]  # fmt: skip
    print(rows(head, *body), end="\n\n")
    print_table(["days", "that grows", "4 weeks", "16 weeks"], {
        words: [false_alarms(shape, weeks, years // 4) for weeks in (None, 4, 16)]
        for shape, words in OTHERS.items()
    })  # fmt: skip
    spans = {"within 21 days": (99, 120), "within 181 days": (99, 280), "from day 40 on": (39, 220)}
    print_table(["a loss that lasts", *spans], {
        f"{size} standard deviations": [found(size, years // 10, *x) for x in spans.values()]
        for size in LASTING
    })  # fmt: skip
    head = ["weeks", *(f"{n} series, {k} weeks" for n in (WATCHED, 30) for k in (8, 12, 26)),
            "weeks to find 2 points, 12 weeks"]  # fmt: skip
    print(rows(head, *(
        [words, *(percent(false_alarms(shape, weeks, years * 3 // n, n, cycle=1))
                  for n in (WATCHED, 30) for weeks in (8, 12, 26)),
         f"{np.median(delays(shape, 12, years, cycle=1)):.0f}"]
        for shape, words in WEEK_SHAPES.items()
    )))  # fmt: skip


def dates(days):
    """So many days, from a Monday on."""
    return [FIRST + timedelta(day) for day in range(days)]

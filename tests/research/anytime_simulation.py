"""How often an interval that is looked at after every query ever leaves the true mean.

`python tests/run_simulation.py --anytime` prints the tables of the documentation.
"""

import math

import numpy as np

from rankql.core.base.errors import RankqlError
from rankql.core.stats.anytime import MOST_BET, bet, choose_bets
from rankql.core.stats.means import mean_interval
from rankql.core.stats.sample import Sample
from research.simulation import ALPHA, percent, print_table, rows

LAST = 2000
# What a fixed interval is looked at: after every ten queries.
LOOKS = range(30, LAST + 1, 10)
RECIPROCAL = 0.2 * sum(1 / i for i in range(1, 11)) / 10
# Streams in random order: how they are drawn, the true mean, and both ends.
STREAMS = {
    "0 or 1, mean .95": (lambda rng, n: (rng.random(n) < 0.95).astype(float), 0.95, 0, 1),
    "RR, found at 1 to 10 for 20% of queries": (
        lambda rng, n: np.where(rng.random(n) < 0.2, 1 / rng.integers(1, 11, n), 0.0),
        RECIPROCAL, 0, 1),
    "Beta(6, .3), most near 1": (lambda rng, n: rng.beta(6, 0.3, n), 6 / 6.3, 0, 1),
    "differences: one in fifty loses .98, the others gain .02": (
        lambda rng, n: np.where(rng.random(n) < 0.02, -0.98, 0.02), 0.0, -1, 1),
    "differences with a standard deviation of .2": (
        lambda rng, n: rng.normal(0, 0.2, n).clip(-1, 1), 0.0, -1, 1),
}  # fmt: skip


def shares(rng, means):
    """0 or 1, with the mean of each query."""
    return (rng.random(len(means)) < means).astype(float)


# Streams whose order is not random, and their true mean.
DRIFTS = {
    "one segment after the other: .9, then .6": (
        lambda rng: shares(rng, np.repeat([0.9, 0.6], LAST // 2)), 0.75),
    "a swing by .1 each week of 200 queries": (
        lambda rng: shares(rng, 0.8 + 0.1 * np.sin(np.arange(LAST) * 2 * math.pi / 200)), 0.8),
    "200 users with 10 equal queries in a row": (
        lambda rng: shares(rng, np.full(LAST // 10, 0.8)).repeat(10), 0.8),
}  # fmt: skip


def log_capitals(x, mean):
    """ln of the larger capital after each value of 0 to 1, against this mean."""
    bets, below = choose_bets(x, ALPHA), 1 - mean
    up = np.log1p(np.minimum(bets, MOST_BET / mean) * (x - mean)).cumsum()
    return np.maximum(up, np.log1p(np.minimum(bets, MOST_BET / below) * (mean - x)).cumsum())


def leaves(values, mean, low=0, high=1):
    """Whether the interval leaves the mean after any query."""
    capitals = log_capitals((values - low) / (high - low), (mean - low) / (high - low))
    return capitals.max() >= math.log(2 / ALPHA)


def fixed_leaves(values, mean, low=0, high=1):
    """The same of the interval of `evaluate`, after every ten queries from 30 on."""
    for n in LOOKS:
        ends = mean_interval(Sample(values[:n], None, None, low, high).moments, 1 - ALPHA)
        if ends is not None and not ends.lo <= mean <= ends.hi:
            return True
    return False


def ever(name, repeats, fixed=False, seed=71):
    """The share of streams whose interval ever leaves the true mean."""
    draw, mean, low, high = STREAMS[name]
    rng = np.random.default_rng([seed, [*STREAMS].index(name)])
    test = fixed_leaves if fixed else leaves
    return sum(test(draw(rng, LAST), mean, low, high) for _ in range(repeats)) / repeats


def drifting(name, repeats):
    """The share of streams in another order that ever leave, and of those refused at the end."""
    draw, mean = DRIFTS[name]
    rng = np.random.default_rng([72, [*DRIFTS].index(name)])
    left = refused = 0
    for _ in range(repeats):
        values = draw(rng)
        left += leaves(values, mean)
        refused += is_refused(values)
    return left / repeats, refused / repeats


def is_refused(values, low=0, high=1):
    """Whether the values are said not to have come at random."""
    try:
        bet(values, low, high, ALPHA)
    except RankqlError:
        return True
    return False


def hashed(name, repeats, looks=200):
    """The share that leaves if new queries land among the old ones, as by a hash."""
    draw, mean, low, high = STREAMS[name]
    rng = np.random.default_rng([73, [*STREAMS].index(name)])
    left = 0
    for _ in range(repeats):
        values, places = draw(rng, LAST), rng.random(LAST)
        for n in np.linspace(LAST / looks, LAST, looks).astype(int):
            x = values[:n][places[:n].argsort()]
            capital = log_capitals((x - low) / (high - low), (mean - low) / (high - low))[-1]
            if capital >= math.log(2 / ALPHA):
                left += 1
                break
    return left / repeats


def widths(name, n, repeats):
    """The median width of intervals of n values, divided by that of a fixed one."""
    draw, _, low, high = STREAMS[name]
    rng = np.random.default_rng([74, n])
    ratios = []
    for _ in range(repeats):
        values = draw(rng, n)
        fixed = mean_interval(Sample(values, None, None, low, high).moments, 1 - ALPHA)
        ends = bet(values, low, high, ALPHA)[1]
        ratios.append((ends.hi - ends.lo) / (fixed.hi - fixed.lo))
    return float(np.median(ratios))


def anytime_tables(repeats):
    """How often intervals ever leave the true mean, how wide they are, and other orders."""
    few = max(100, repeats // 6)
    streams = (
        [name, *(percent(ever(name, repeats, fixed)) for fixed in (True, False)),
         *(f"{widths(name, n, few):.1f}" for n in (20, 200, LAST))]
        for name in STREAMS
    )  # fmt: skip
    sizes = [f"width, n = {n:,}" for n in (20, 200, LAST)]
    print(rows(["values", "auto", "anytime", *sizes], *streams), end="\n\n")
    orders = {name: drifting(name, repeats) for name in DRIFTS}
    print_table(["order", "ever leaves", "refused after all"], orders)
    by_hash = {name: (hashed(name, repeats),) for name in [*STREAMS][:2]}
    print_table(["time=False while queries are added", "ever leaves"], by_hash)

"""What a published mean says, without the values of its queries.

A mean stands for all numbers that round to it. If it is a share of queries, its interval is that of
Clopper and Pearson. Other means between two bounds have the quantiles of the same Beta
distributions, at a number of successes that need not be whole: for values within the bounds, 0 and
1 vary most. A normal interval by the largest variance, mean (1 - mean), is [1, 1] at 10 of 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import integrate, special, stats

from rankql.core.stats.means import Interval


@dataclass(frozen=True)
class PublishedMean:
    """A mean of n queries that was rounded to a multiple of `unit`; values have this range."""

    value: float
    unit: float
    n: int
    lowest: float = 0.0
    highest: float = 1.0

    @property
    def ends(self) -> Interval:
        """The least and the largest mean that rounds to it."""
        half = self.unit / 2
        return Interval(self.value - half, self.value + half).within(self.lowest, self.highest)

    @property
    def shares(self) -> Interval:
        """These means as shares of the way from the lowest value to the highest."""
        size = self.highest - self.lowest
        return Interval(*((end - self.lowest) / size for end in self.ends))

    @property
    def counts(self) -> range:
        """The numbers of queries with the value 1 whose share rounds to it, if others have 0."""
        low, high = (end * self.n for end in self.ends)
        return range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)

    def interval(self, alpha: float, of_shares: bool, sd: float | None = None) -> Interval:
        """The interval of the mean of all queries, for every mean that rounds to it.

        That of Student's t if the standard deviation of the values is known.
        """
        if sd is not None:
            width = float(special.stdtrit(max(self.n - 1, 1), 1 - alpha / 2)) * sd
            low, high = (x * width / math.sqrt(self.n) for x in (-1, 1))
            low, high = self.ends.lo + low, self.ends.hi + high
            return Interval(low, high).within(self.lowest, self.highest)
        lowest, size, n = self.lowest, self.highest - self.lowest, self.n
        low, high = (n * (end - lowest) / size for end in self.ends)
        if of_shares and (counts := self.counts):
            low, high = float(counts[0]), float(counts[-1])
        least = special.betaincinv(low, n - low + 1, alpha / 2) if low > 0 else 0.0
        most = special.betaincinv(high + 1, n - high, 1 - alpha / 2) if high < n else 1.0
        return Interval(lowest + size * float(least), lowest + size * float(most))


def mcnemar_p(wins: int, losses: int) -> float:
    """The p of the exact McNemar test: that of signs, of the queries that differ."""
    few = min(wins, losses)
    return min(1.0, 2 * float(stats.binom.cdf(few, wins + losses, 0.5)))


def range_of_mcnemar(ours: range, theirs: range, n: int) -> tuple[int, Interval]:
    """The least number of n queries that must differ, and p over every overlap of the successes.

    p is smallest if no query is lost, and largest if as many as possible are won and lost.
    """
    least = max(0, ours[0] - theirs[-1], theirs[0] - ours[-1])
    most = max(ours[-1] - theirs[0], theirs[-1] - ours[0])
    largest = 1.0
    if least:
        low, high = (theirs[-1], ours[0]) if ours[0] > theirs[-1] else (ours[-1], theirs[0])
        wins = min(high, n - low)
        largest = mcnemar_p(wins, wins - least)
    return least, Interval(mcnemar_p(most, 0), largest)


def range_of_fisher(ours: range, n: int, theirs: range, m: int) -> Interval:
    """p of Fisher's exact test of shares of different queries, over all that round to both."""

    def p(one: int, other: int) -> float:
        return float(stats.fisher_exact([[one, n - one], [other, m - other]])[1])

    far = p(ours[0], theirs[-1]), p(ours[-1], theirs[0])
    apart = ours[0] / n > theirs[-1] / m or theirs[0] / m > ours[-1] / n
    return Interval(min(far), max(far) if apart else 1.0)


def range_of_randomisation(ours: PublishedMean, theirs: PublishedMean, unpaired: bool) -> Interval:
    """p of the exact randomisation test, over all values whose means round to both.

    No values are less likely to differ than 0 and 1 with as many losses as possible: McNemar's p,
    or Fisher's of other queries. p is smallest if every other assignment of signs, or of queries,
    gives a smaller difference.
    """
    n, m = ours.n, theirs.n
    if unpaired:
        least = (1 + (n == m)) / math.comb(n + m, n)
        high, low = _nearest(ours, theirs)
        other = m if ours.value >= theirs.value else n
        one = n + m - other
        high, low = math.floor(one * high + 1e-9), math.ceil(other * low - 1e-9)
        if high * other <= low * one:
            return Interval(min(1.0, least), 1.0)
        return Interval(
            least, float(stats.fisher_exact([[high, one - high], [low, other - low]])[1])
        )
    return Interval(2.0 ** (1 - n), float(_largest_p(*_nearest(ours, theirs), np.array(n))))


def queries_of_means(ours: PublishedMean, theirs: PublishedMean, level: float) -> int | None:
    """The least number of queries from which these means are significant, whatever the values.

    None if they round to numbers that may be equal.
    """
    high, low = _nearest(ours, theirs)
    if high <= low:
        return None
    # The differences that have a sign are at most this share of the queries.
    d, signs = high - low, min(high + low, 2 - high - low)

    def enough(margin: float) -> int:
        """n with n * d - 3 = z * sqrt(n * signs + 3): rounding and continuity take at most 3."""
        z = float(special.ndtri(1 - level / 2)) + margin
        root = (z * math.sqrt(signs) + math.sqrt(z * z * signs + 4 * d * (3 + 2 * z))) / (2 * d)
        return math.ceil(root * root) + 3

    end = enough(0.1)
    if end > 20_000:  # where the normal distribution is close
        end = enough(0.005)
    while end > 0:
        n = np.arange(max(1, end - 2000), end)
        above = n[_largest_p(high, low, n) > level]
        if above.size or n[0] == 1:
            return int(above[-1]) + 1 if above.size else 1
        end = int(n[0])
    return 1


def _nearest(ours: PublishedMean, theirs: PublishedMean) -> tuple[float, float]:
    """The least mean that rounds to the larger one, and the greatest that rounds to the smaller."""
    more, less = (ours, theirs) if ours.value >= theirs.value else (theirs, ours)
    return more.shares.lo, less.shares.hi


def _largest_p(high: float, low: float, n: np.ndarray) -> np.ndarray:
    """The largest p of two means, for each number of queries."""
    wins, less = np.floor(n * high + 1e-9), np.ceil(n * low - 1e-9)
    most = np.minimum(wins, n - less)
    p = np.minimum(1, 2 * stats.binom.cdf(most - (wins - less), 2 * most - (wins - less), 0.5))
    return np.where(wins > less, p, 1.0)


def range_of_student(
    ours: PublishedMean, theirs: PublishedMean, spreads: tuple[float, float], unpaired: bool
) -> Interval:
    """p of Student's t at a low and a high standard deviation, for all means that round to both.

    Of the differences; or of the values, if the queries are others.
    """
    (a, b), (c, d), n, m = ours.ends, theirs.ends, ours.n, theirs.n
    freedom = n + m - 2 if unpaired else n - 1
    if freedom < 1:
        return Interval(1.0, 1.0)
    factor, floor = math.sqrt(1 / n + unpaired / m), 0.0 if unpaired else 2.0 ** (1 - n)
    sizes = max(b - c, d - a), max(0.0, a - d, c - b)
    p = (
        max(floor, 2 * float(special.stdtr(freedom, -size / (sd * factor))))
        for size, sd in zip(sizes, spreads, strict=True)
    )
    return Interval(*p)


def best_of(systems: int, agreement: float = 0.0) -> float:
    """How many standard errors the best of equal systems lies above their mean, on average.

    `agreement` is the correlation of the means of two systems, as they have the same queries.
    """

    def density(x: float) -> float:
        return x * systems * math.exp(-x * x / 2) * float(special.ndtr(x)) ** (systems - 1)

    top = integrate.quad(density, -10, 10)[0] / math.sqrt(2 * math.pi)
    return float(np.sqrt(1 - agreement) * top)

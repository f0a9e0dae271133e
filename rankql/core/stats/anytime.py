"""The interval of a mean that holds at every number of queries at once, by betting.

Hedged capital with predictable plug-in bets (Waudby-Smith and Ramdas 2024, theorem 3). Values lie
in [0, 1] and come one by one. A gambler who says that the mean is above m, and bets on each value
before it is seen, has the capital

    K+(m) = prod(1 + min(bet_i, MOST_BET / m) (x_i - m))

and another one, K-(m), bets on 1 - x_i against 1 - m. If the mean is m, neither wins on average, so
the chance that one of them ever has 2 / alpha is at most alpha (Ville's inequality). K+ falls with
m and K- rises, so the means that both leave alone are an interval whose ends are two roots. It
needs no assumption on the shape of the values, but that they come at random.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from rankql.core.base.errors import RankqlError, require
from rankql.core.stats.means import ROUNDING, Interval
from rankql.core.stats.sample import Array

# The share of the capital that a bet may lose. With 1/2, intervals of 20 differences are 1.3 times
# as wide, and those of 2,000 values 0.9 to 1 times.
MOST_BET = 0.75
# Factors are multiplied in so many rows, because a logarithm takes as long as ten products. Each
# factor is between 1/4 and 8, so a product of a column neither overflows nor vanishes.
ROWS = 32
# A smaller step is the last one: what is left is far smaller.
TOLERANCE = 1e-7


def bet(values: Array, lowest: float, highest: float, alpha: float) -> tuple[float, Interval]:
    """p of a mean of 0, and the interval at this level; values in the order in which they came.

    p is 1 / capital, so it is at most alpha exactly if the interval excludes 0. Values of which the
    interval does not contain the mean, or of which it is empty, are refused: they cannot have come
    at random.
    """
    size, n = highest - lowest, len(values)
    known = "interval='anytime' needs values between the lowest and the highest value of the metric"
    require(math.isfinite(size), f"{known}. Use interval='auto'")
    x = ((values - lowest) / size).clip(0, 1)
    bets, goal = choose_bets(x, alpha), math.log(2 / alpha)
    lo = lowest + size * _lower_end(x, bets, goal)
    hi = highest - size * _lower_end(1 - x, bets, goal)
    dust = ROUNDING * max(abs(lowest), abs(highest))
    if not lo - dust <= values.mean() <= hi + dust:
        first, last = (float(part.mean()) for part in np.split(values, [n // 2]))
        raise RankqlError(
            "interval='anytime' needs queries that come at random, but the mean of the first half "
            f"of {n:,} is {first:.3g}, and that of the others {last:.3g}. Use interval='auto'"
        )
    zero = -lowest / size
    if not 0 <= zero <= 1:
        return 0.0, Interval(lo, hi)
    above, below = log_capital(x, bets, zero), log_capital(1 - x, bets, 1 - zero)
    p = min(1.0, 2 * math.exp(-max(above, below)))
    if p > alpha:  # the roots are rounded
        return p, Interval(min(lo, 0.0), max(hi, 0.0))
    least = math.nextafter(0, 1)
    return p, Interval(max(lo, least), hi) if above > below else Interval(lo, min(hi, -least))


def choose_bets(x: Array, alpha: float) -> Array:
    """The bet on each value, from those before it: sqrt(2 ln(2 / alpha) / (v t ln(1 + t))).

    v is their variance, with one more value that is 1/2 and one square of 1/4.
    """
    t, logarithms = _count(len(x))
    squares = np.square(x - (0.5 + np.cumsum(x)) / (t + 1))
    sums = 0.25 + np.cumsum(squares) - squares  # v t
    bets: Array = np.sqrt(2 * math.log(2 / alpha) / (sums * logarithms))
    return bets


@lru_cache(4)
def _count(n: int) -> tuple[Array, Array]:
    """t from 1 to n, and ln(1 + t), which takes as long as all else of a bet."""
    t = np.arange(1.0, n + 1)
    return t, np.log1p(t)


def log_capital(x: Array, bets: Array, mean: float) -> float:
    """ln K+ of a mean."""
    factors = 1 + np.minimum(bets, MOST_BET / mean if mean else math.inf) * (x - mean)
    rest = len(x) % ROWS
    blocks = np.multiply.reduce(factors[rest:].reshape(ROWS, -1), axis=0)
    return float(np.log(blocks).sum() + np.log(np.multiply.reduce(factors[:rest])))


def _lower_end(x: Array, bets: Array, goal: float) -> float:
    """The mean at which ln K+ falls to the goal, 0 if it is never above it.

    Secant steps, which start at the root of a series of ln K+ up to squares, or else bisection.
    """
    near = np.minimum(bets, MOST_BET)
    total = float(near.sum())
    centre = float(near @ x) / total
    guess = centre - (goal + float(np.square(near) @ np.square(x - centre)) / 2) / total
    low, high, slope = -1.0, 1.0, -total
    last = value = math.nan
    while True:
        if guess <= max(low, 0) or guess >= high:
            guess = (low + high) / 2 if low >= 0 else 0.0
        excess = log_capital(x, bets, guess) - goal
        if guess == 0 and excess <= 0:
            return 0.0
        low, high = (guess, high) if excess > 0 else (low, guess)
        if excess != value and not math.isnan(value):
            slope = (excess - value) / (guess - last)
        last, value = guess, excess
        guess -= excess / slope
        if abs(guess - last) < TOLERANCE or high - low < TOLERANCE:
            return min(max(guess, low, 0.0), high)

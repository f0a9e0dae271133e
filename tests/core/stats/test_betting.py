"""Intervals that hold at every number of values: by hand, as products, and their symmetries."""

import math

import numpy as np
import pytest

from rankql.core.base.errors import RankqlError
from rankql.core.stats.anytime import MOST_BET, ROWS, bet, choose_bets, log_capital
from support.parameters import few

ALPHA = 0.05
GRID = np.linspace(0, 1, 20_001)
DRAWS = {
    "0 or 1": lambda rng, n: (rng.random(n) < 0.9).astype(float),
    "beta": lambda rng, n: rng.beta(6, 0.3, n),
    "found at 1 to 5": lambda rng, n: np.where(rng.random(n) < 0.3, 1 / rng.integers(1, 6, n), 0.0),
    "uniform": lambda rng, n: rng.random(n),
}


def capital(values, mean, alpha=ALPHA):
    """Both products, as the definition has them."""
    up = down = 1.0
    total, squares = 0.5, 0.25
    for t, x in enumerate(values, 1):
        size = math.sqrt(2 * math.log(2 / alpha) / (squares / t * t * math.log(1 + t)))
        up *= 1 + min(size, MOST_BET / mean if mean else math.inf) * (x - mean)
        down *= 1 - min(size, MOST_BET / (1 - mean) if mean < 1 else math.inf) * (x - mean)
        total += x
        squares += (x - total / (t + 1)) ** 2
    return up, down


def test_by_hand():
    """Of one value 1 and a mean of 1/2: 1 + 3/2 * 1/2 wins, 1 - 3/2 * 1/2 loses."""
    first = math.sqrt(2 * math.log(40) / (0.25 * math.log(2)))
    assert choose_bets(np.array([1.0]), ALPHA) == pytest.approx([first]) and first > 6
    assert capital([1.0], 0.5) == pytest.approx((1.75, 0.25))
    p, ends = bet(np.array([1.0]), -1, 1, ALPHA)  # 1 of the range is 3/4 of it to 0
    assert p == pytest.approx(1) and ends == (-1, 1)
    # The second bet: the first value 1 and the prior 1/2 have the mean 3/4, the variance
    # (1/4 + 1/16) / 2.
    second = math.sqrt(2 * math.log(40) / (0.3125 * math.log(3)))
    assert choose_bets(np.array([1.0, 0.0]), ALPHA) == pytest.approx([first, second])
    assert bet(np.ones(3), 0, 1, ALPHA)[1].lo == pytest.approx(
        brute_ends(np.ones(3), ALPHA)[0], abs=1e-4
    )


def brute_ends(values, alpha):
    inside = [m for m in GRID if max(capital(values, m, alpha)) / 2 < 1 / alpha]
    return inside[0], inside[-1]


@few(6)("alpha", [0.05, 0.4])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_values_against_a_grid(n, draw, alpha):
    values = draw(np.random.default_rng(n), n)
    p, ends = bet(values, 0, 1, alpha)
    assert ends == pytest.approx(brute_ends(values, alpha), abs=1.5 / len(GRID))
    assert p == pytest.approx(min(1, 2 / max(capital(values, 0.0, alpha))))


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("n", [ROWS - 1, ROWS, 500, 5000])
def test_the_ends_are_roots(n, draw):
    """At both ends the capital is 2 / alpha, or the end is that of the range."""
    values = draw(np.random.default_rng(n), n)
    _, ends = bet(values, 0, 1, ALPHA)
    up, down = capital(values, ends.lo)[0], capital(values, ends.hi)[1]
    assert ends.lo == 0 or math.log(up) == pytest.approx(math.log(2 / ALPHA), abs=1e-4)
    assert ends.hi == 1 or math.log(down) == pytest.approx(math.log(2 / ALPHA), abs=1e-4)
    assert ends.lo < values.mean() < ends.hi


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_capital_falls_with_the_mean(draw):
    values = draw(np.random.default_rng(5), 10 * ROWS)
    bets = choose_bets(values, ALPHA)
    capitals = [log_capital(values, bets, m) for m in np.linspace(0, 1, 300)]
    assert (np.diff(capitals) <= 1e-12).all()
    assert capitals[150] == pytest.approx(math.log(capital(values, 150 / 299)[0]))


def test_p_and_interval_agree():
    """p is at most alpha exactly if the interval excludes 0, wherever 0 is."""
    rng = np.random.default_rng(8)
    excluded = 0
    for n in [*range(1, 40), 150, 600] * 6:
        values = rng.normal(rng.choice([-0.2, 0, 0.2]), 0.2, n).clip(-1, 1)
        alpha = rng.choice([0.01, 0.05, 0.3])
        p, ends = bet(values, -1, 1, alpha)
        assert (p <= alpha) == (not ends.lo <= 0 <= ends.hi)
        assert p == pytest.approx(min(1, 2 / max(capital((values + 1) / 2, 0.5, alpha))))
        excluded += p <= alpha
    assert 30 < excluded < 150


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", range(6))
def test_they_agree_where_an_end_is_almost_0(seed, sign):
    """The level at which p is the level, to the last bit: the root is less exact."""
    values = sign * np.random.default_rng(seed).normal(0.1, 0.2, 100).clip(-1, 1)
    low, high = 1e-12, 0.999
    while low < (middle := (low + high) / 2) < high:
        p, ends = bet(values, -1, 1, middle)
        assert (p <= middle) == (not ends.lo <= 0 <= ends.hi)
        low, high = (low, middle) if p <= middle else (middle, high)
    assert min(abs(ends.lo), abs(ends.hi)) < 1e-6


def test_scale_and_direction():
    """Values in other units have the ends in these; turned around, they have them turned."""
    values = np.random.default_rng(9).random(300)
    p, ends = bet(values, 0, 1, ALPHA)
    _, others = bet(40 * values - 10, -10, 30, ALPHA)
    assert others == pytest.approx([40 * x - 10 for x in ends])
    _, turned = bet(-values, -1, 0, ALPHA)
    assert turned == pytest.approx((-ends.hi, -ends.lo))
    assert p < 1e-9 and bet(values, 0.0, 1, 0.01)[1].lo < ends.lo


@pytest.mark.parametrize("n", [1, 2, 40, 3000])
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_equal_values(value, n):
    ends = bet(np.full(n, value), 0, 1, ALPHA)[1]
    assert 0 <= ends.lo <= value <= ends.hi <= 1 and ends.lo < ends.hi


def test_values_that_came_in_order_are_refused():
    """First .9, then .6: the mean .75 of both is outside, which never happens by chance."""
    rng = np.random.default_rng(10)
    values = np.concatenate([rng.random(1000) < 0.9, rng.random(1000) < 0.6]).astype(float)
    with pytest.raises(RankqlError, match=r"half of 2,000 is 0\.892, and .* others 0\.603"):
        bet(values, 0, 1, ALPHA)
    rng.shuffle(values)
    ends = bet(values, 0, 1, ALPHA)[1]
    assert ends.lo <= values.mean() <= ends.hi

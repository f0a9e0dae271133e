"""Inference that stays valid if you look repeatedly: a confidence sequence by betting."""

from __future__ import annotations

import math

import numpy as np

from rankql.stats.means import Interval
from rankql.stats.sample import Array, Sample

# The bets, as shares of the largest bet that cannot lose everything. A factor of sqrt(2) between
# them costs at most 9% of the best bet's growth. The smallest one suits 10^7 queries.
_BETS = 0.95 * 2.0 ** (-np.arange(24) / 2)
# More values than this are rounded to this number of steps of their range, without bias.
_STEPS = 4096


def betting_p(sample: Sample) -> float:
    """The p-value of a mean of 0, valid at every look, for values with a known range."""
    above, below = _gamblers(sample)
    return min(1.0, 2 * min(_ruin(0.0, *above), _ruin(0.0, *below)))


def betting_interval(sample: Sample, alpha: float) -> Interval:
    """The interval of the mean that holds at all looks together.

    For each mean m, a gambler bets a fixed share of the capital on every value x being above m. If
    m is the true mean, the capital, averaged over the shares in `_BETS`, exceeds 1 / alpha at any
    time with a probability of at most alpha (Ville's inequality). This needs no normality and no
    minimum n. Another gambler bets on below. Because the shares are fixed, the order in which the
    values arrived does not matter.
    """
    above, below = _gamblers(sample)
    lo = _lower_end(*above, sample.mean, alpha / 2)
    return Interval(float(lo), -float(_lower_end(*below, -sample.mean, alpha / 2)))


def _gamblers(sample: Sample) -> tuple[tuple[Array, Array, float], tuple[Array, Array, float]]:
    """What those who bet on above and below see: heights above an end, their weights, the end."""
    low, high = sample.lowest, sample.highest
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError("A confidence sequence needs a sample with lowest and highest")
    points, weights = _round_to_steps(np.sort(sample.values), low, high)
    return (points - low, weights, low), (np.flip(high - points).copy(),
                                          np.flip(weights).copy(), -high)  # fmt: skip


def _round_to_steps(values: Array, low: float, high: float) -> tuple[Array, Array]:
    """Sorted values and their weights; more than `_STEPS` values are rounded to a grid.

    A value between two grid points is split between both so that the mean is kept. The logarithm
    of the capital is concave in the value, so this never increases the capital.
    """
    if len(values) <= _STEPS:
        return values, np.ones(len(values))
    place = np.clip((values - low) / (high - low), 0, 1) * _STEPS
    below = np.minimum(place.astype(np.intp), _STEPS - 1)
    upper = np.bincount(below, place - below, minlength=_STEPS)
    lower = np.bincount(below, minlength=_STEPS) - upper
    weights = np.append(lower, 0.0) + np.append(0.0, upper)
    return np.linspace(low, high, _STEPS + 1), weights


def _ruin(mean: float, heights: Array, weights: Array, low: float) -> float:
    """1 / capital of a gambler who bets that values (`heights` above `low`) exceed the mean.

    Its logarithm is a concave and rising function of the mean.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 where a mean is the end
        growth = np.log1p(_BETS[:, None] * (heights / (mean - low) - 1))
    # Losing everything (-inf) counts only if there is such a value.
    logs = np.where(weights > 0, growth, 0.0) @ weights
    most = float(logs.max())
    capital = most + math.log(np.exp(logs - most).mean()) if most > -math.inf else -math.inf
    return math.exp(min(700.0, -capital))


def _lower_end(heights: Array, weights: Array, low: float, mean: float, alpha: float) -> float:
    """The smallest mean that is not rejected, by bisection: capital falls as the mean rises."""

    def rejected(at: float) -> bool:
        return at <= low or _ruin(at, heights, weights, low) <= alpha

    # Start at 0, so that the interval excludes it exactly if p <= alpha.
    left, right = (0.0, max(mean, 0.0)) if rejected(0.0) else (low, min(mean, 0.0))
    for _ in range(50):
        middle = (left + right) / 2
        left, right = (middle, right) if rejected(middle) else (left, middle)
    return right

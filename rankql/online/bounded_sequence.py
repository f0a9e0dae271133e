"""The confidence sequence of the difference of two arms, for values with known bounds."""

from __future__ import annotations

import math

import numpy as np

from rankql.decisions.anytime import log_capital, round_to_steps
from rankql.decisions.sample import Array

# More values than this are rounded to this number of steps, without bias.
_STEPS = 1024


def compare_bounded(
    treatment: Array, control: Array, bounds: tuple[float, float], alpha: float
) -> tuple[float, float, float]:
    """p and the interval of the difference of means: valid at every look, for any n.

    Two gamblers bet (see `anytime`): one that the treatment's mean exceeds m + d, one that the
    control's mean is below m. If m and m + d are the means, the product of their capitals exceeds
    2 / alpha at any time with a probability of at most alpha / 2 (Ville's inequality). A
    difference d is rejected if the product does so for every m. Two more bet the other way round.
    """
    t, c = (_bets(values, *bounds) for values in (treatment, control))
    lo = _lower_end(t, c, bounds, math.log(2 / alpha))
    hi = -_lower_end(c, t, bounds, math.log(2 / alpha))
    return _p_value(t, c, bounds), lo, hi


def bounded_p(treatment: Array, control: Array, bounds: tuple[float, float]) -> float:
    """The p-value of `compare_bounded`."""
    return _p_value(_bets(treatment, *bounds), _bets(control, *bounds), bounds)


def _p_value(t: Bets, c: Bets, bounds: tuple[float, float]) -> float:
    evidence = max(_evidence(0.0, t, c, bounds), _evidence(0.0, c, t, bounds))
    return min(1.0, 2 * math.exp(-max(0.0, evidence)))


Bets = tuple[tuple[Array, Array, float], tuple[Array, Array, float]]


def _bets(values: Array, low: float, high: float) -> Bets:
    """The arguments of `log_capital` for bets on a mean above m, and on one below it (at -m)."""
    points, weights = round_to_steps(np.sort(values), low, high, _STEPS)
    points, places = np.unique(points, return_inverse=True)
    weights = np.bincount(places, weights).astype(float)
    return (points - low, weights, low), (high - points, weights, -high)


def _evidence(shift: float, upper: Bets, lower: Bets, bounds: tuple[float, float]) -> float:
    """The log of the smallest product of capitals against mean(upper) - mean(lower) = shift."""
    from scipy.optimize import minimize_scalar

    low, high = bounds[0] + max(0.0, -shift), bounds[1] - max(0.0, shift)
    if low >= high:
        return math.inf
    found = minimize_scalar(  # convex
        lambda m: log_capital(m + shift, *upper[0]) + log_capital(-m, *lower[1]),
        bounds=(low, high), method="bounded", options={"xatol": (high - low) * 1e-9},
    )  # fmt: skip
    return float(found.fun)


def _lower_end(upper: Bets, lower: Bets, bounds: tuple[float, float], least: float) -> float:
    """The smallest difference whose evidence is below `least`, by bisection."""
    width = bounds[1] - bounds[0]
    left, right = -width, width
    if _evidence(0.0, upper, lower, bounds) >= least:  # so that it excludes 0 exactly if p <= alpha
        left = 0.0
    else:
        right = 0.0
    while right - left > 1e-7 * width:
        middle = (left + right) / 2
        rejected = _evidence(middle, upper, lower, bounds) >= least
        left, right = (middle, right) if rejected else (left, middle)
    return left

"""Corrected means: the published formula, and how often the intervals hold."""

import numpy as np
import pytest
from scipy import special

from rankql.stats.prediction_powered import correct_mean
from support.judge_simulation import JUDGES, SIZES, corrected
from support.paths import DL19
from support.simulation import REPEATS, at_most

Y = np.array([0.2, 0.5, 0.9, 1, 0, 0.7, 0.3, 0.8])
F = np.array([0.3, 0.4, 0.8, 0.9, 0.2, 0.6, 0.5, 0.9])
U = np.linspace(0, 1, 41)
N, M = len(Y), len(U)


# Printed by ppi-python 0.2.3: ppi_mean_pointestimate and ppi_mean_ci.
@pytest.mark.parametrize(
    ("lam", "expected"),
    [
        (None, (0.7760730526, 0.4917945211, 0.3578132408, 0.6257758013)),
        (1.0, (1.0, 0.475, 0.3473234067, 0.6026765933)),
    ],
)
def test_large_samples_as_in_ppi_python(lam, expected):
    found = correct_mean(Y, F, U, lam=lam, large_sample=True)
    width = found.width(0.05)
    values = (found.lam, found.mean, found.mean - width, found.mean + width)
    assert values == pytest.approx(expected, abs=1e-9)


def test_small_samples_by_definition():
    found = correct_mean(Y, 2 * F, U)
    cov, var, var_u = np.cov(Y, 2 * F)[0, 1], (2 * F).var(ddof=1), U.var(ddof=1)
    lam = cov / N / (var / N + var_u / M)
    assert found.lam == pytest.approx(lam)
    shift = U.mean() - 2 * F.mean()
    variance = (Y - lam * 2 * F).var(ddof=1) / N + lam**2 * var_u / M
    variance *= (N - 1) / (N - 2)
    variance *= 1 + shift**2 / ((N - 1) * (var / N + var_u / M))
    assert found.mean == pytest.approx(Y.mean() + lam * shift)
    assert found.error == pytest.approx(variance**0.5)
    assert found.freedom == N - 2
    assert found.width(0.05) == pytest.approx(special.stdtrit(N - 2, 0.975) * found.error)


@pytest.mark.parametrize("judge", [1 - F, np.full(N, 0.5), np.full(N, np.nan)])
def test_judges_without_information_change_nothing(judge):
    found = correct_mean(Y, judge, np.full(M, 0.5))
    assert (found.lam, found.mean) == (0, Y.mean())
    assert found.error == found.human_error == pytest.approx(Y.std(ddof=1) / N**0.5)
    assert found.freedom == N - 1
    assert found.worth(0.05) == N


def test_worth_gives_the_same_width():
    found = correct_mean(Y, F, U)
    worth = found.worth(0.05)
    assert worth > 2 * N
    error = found.human_error * (N / worth) ** 0.5
    width = special.stdtrit(worth - 1, 0.975) * error
    assert width == pytest.approx(found.width(0.05), rel=1 / worth)


def test_equal_weights_and_clusters_of_one_change_nothing():
    plain = correct_mean(Y, F, U)
    codes = np.random.default_rng(1).permutation(N + M)
    other = correct_mean(Y, F, U, (np.full(N, 3.0), np.full(M, 3.0)), (codes[:N], codes[N:]))
    for name in ("mean", "error", "freedom", "lam", "human_error"):
        assert getattr(other, name) == pytest.approx(getattr(plain, name))


def test_a_weight_counts_like_repeated_queries():
    """Of a cluster, whose weight is that of its queries."""
    weights = np.array([1.0, 2, 1, 3, 1, 1, 2, 1]), np.ones(M)
    times = weights[0].astype(int)
    weighted = correct_mean(Y, F, U, weights)
    codes = np.repeat(np.arange(N), times)
    repeated = correct_mean(
        np.repeat(Y, times), np.repeat(F, times), U, clusters=(codes, N + np.arange(M))
    )
    for name in ("mean", "error", "freedom", "lam", "human_error"):
        assert getattr(repeated, name) == pytest.approx(getattr(weighted, name))


def test_clusters_that_have_both_kinds_of_queries():
    """The error is the jackknife's at a fixed lambda: leave out one cluster at a time."""
    codes = np.arange(N) % 5, np.arange(M) % 5
    found = correct_mean(Y, F, U, clusters=codes, lam=0.5)

    def mean(kept, other):
        return Y[kept].mean() + 0.5 * (U[other].mean() - F[kept].mean())

    left_out = [mean(codes[0] != i, codes[1] != i) for i in range(5)]
    squares = np.square(np.array(left_out) - found.mean).sum()
    assert found.error == pytest.approx((4 / 5 * squares) ** 0.5)


def test_undefined_values():
    """The mean is over the defined values; an undefined one of the judge counts as its mean."""
    y, f = np.append(Y, np.nan), np.append(F, np.nan)
    judged = np.concatenate([F, U])
    found = correct_mean(y, f, U, lam=0.5)
    filled = np.append(F, judged.mean())
    assert found.mean == pytest.approx(Y.mean() + 0.5 * (U.mean() - filled.mean()))
    assert found.queries == N
    assert found.human_error == pytest.approx(Y.std(ddof=1) / N**0.5)


TARGET_WIDTHS = {20: (1.03, 0.80), 50: (1.015, 0.78), 200: (1.005, 0.78)}


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.skipif(not DL19.exists(), reason="dl19 is not here")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("judge", JUDGES)
def test_intervals_hold(judge, n):
    human, held, own, width, _ = corrected(judge, n, REPEATS)
    error = (0.05 / REPEATS) ** 0.5
    assert held >= human - 0.005 - 2 * error
    assert n == 20 or at_most(1 - held, 0.06)
    assert own < 0.5 or judge != "biased by grade" or n == 20
    useless, good = TARGET_WIDTHS[n]
    assert width < (good if judge == "correlation 0.7" else useless)

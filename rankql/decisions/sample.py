"""The input and output of a significance test: a sample of differences, options, a result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankql.decisions.alignment import ROUNDING

Array: TypeAlias = NDArray[np.float64]

# Reasons for no p-value, or no interval.
NO_DIFFERENCE = "no difference"
ZERO_VARIANCE = "zero variance"
NOT_TESTABLE = "not testable"
DOMINATED = "one query has almost all the weight"
UNBOUNDED = "too few queries for an interval"

# The share of all weights that all queries but one must have for a test.
LEAST_OTHERS = 1e-9

# The statistical power of detectable differences, margins and numbers of queries.
POWER = 0.8


@dataclass(frozen=True)
class SignificanceOptions:
    """How to test: the level of the test and interval, resampling, and the range of differences."""

    alpha: float = 0.05
    resamples: int = 9_999
    seed: int = 7
    # The smallest and largest possible difference, for `anytime`.
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class SignificanceResult:
    """A p-value (with its Monte Carlo error if resampled) and an interval, or why not."""

    p: float | None = None
    lo: float | None = None
    hi: float | None = None
    reason: str = ""
    p_error: float | None = None

    @classmethod
    def of(cls, p: float, lo: float, hi: float, resamples: int | None = None) -> SignificanceResult:
        """A result without an interval if a bound is infinite."""
        bounded = math.isfinite(lo) and math.isfinite(hi)
        error = None if resamples is None else math.sqrt(p * (1 - p) / (resamples + 1))
        if not bounded:
            return cls(float(p), reason=UNBOUNDED, p_error=error)
        return cls(float(p), lo, hi, p_error=error)


@dataclass(frozen=True)
class Sample:
    """The differences of two systems by query, with the clusters and weights of the queries.

    Weights are above 0. A cluster counts as the sum of its weights, like that many queries.
    """

    differences: Array
    clusters: NDArray[np.intp] | None = None
    weights: Array | None = None

    @cached_property
    def sums(self) -> Array:
        """The sum of the differences of each cluster. Without clusters, each query is one."""
        return self._by_cluster(self.differences * self._weights)

    @cached_property
    def sizes(self) -> Array:
        """The number of queries of each cluster, or the sum of their weights, 1 on average."""
        return self._by_cluster(self._weights)

    @cached_property
    def _weights(self) -> Array:
        """The weights, divided by their mean."""
        if self.weights is None or not len(self.weights):
            return np.ones(len(self.differences))
        normalised: Array = self.weights / self.weights.mean()
        return normalised

    def _by_cluster(self, values: Array) -> Array:
        if self.clusters is None:
            return values
        return np.bincount(self.clusters, values).astype(float)

    @property
    def units(self) -> int:
        """The number of clusters."""
        return len(self.sums)

    @cached_property
    def mean(self) -> float:
        """The mean difference, over queries."""
        return float(np.average(self.differences, weights=self.weights))

    @cached_property
    def residuals(self) -> Array:
        """The sums of the clusters minus the mean times their size."""
        return self.sums - self.sizes * self.mean

    @cached_property
    def odds(self) -> Array:
        """The size of each cluster over that of all others."""
        odds: Array = self.sizes / (self.sizes.sum() - self.sizes)
        return odds

    @property
    def is_dominated(self) -> bool:
        """Whether the others weigh so little that there is no difference between queries."""
        others = self.sizes.sum() - self.sizes.max(initial=0)
        return self.units > 1 and bool(others < LEAST_OTHERS * self.sizes.sum())

    @cached_property
    def error(self) -> float:
        """The standard error of the mean: s / sqrt(n); with clusters or weights, the jackknife's.

        The jackknife (CR3) leaves out one cluster at a time: linearisation, with each residual
        divided by the share of all other clusters. With few or unequal clusters it stays large
        enough, while CR1, the usual one, is too small.
        """
        squares = np.square(self.residuals / self.sizes * self.odds).sum()
        return float(math.sqrt((self.units - 1) / self.units * squares))

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom: n - 1; for unequal clusters or weights, Satterthwaite's.

        2 E(V)^2 / Var(V) of the squared jackknife error V, for independent normal sums with a
        variance in proportion to their size (Bell and McCaffrey 2002), written without the matrix
        of all pairs of clusters. It is about 1 less than the effective number of clusters.
        """
        if np.ptp(self.sizes) == 0:
            return self.units - 1.0
        squares = np.square(self.odds)
        product = squares.sum() + squares.sum() ** 2 - np.square(squares).sum()
        return float(np.clip(self.odds.sum() ** 2 / product, 1, self.units - 1))

    @cached_property
    def rounding(self) -> float:
        """The rounding error of a difference."""
        return float(ROUNDING * max(1.0, np.abs(self.differences).max(initial=0)))

    @cached_property
    def constant(self) -> bool:
        """Whether all differences are the same."""
        return bool(np.abs(self.residuals / self.sizes).max() <= self.rounding)

    @property
    def effect(self) -> float | None:
        """Cohen's d_z: the mean difference over the standard deviation of the differences."""
        if len(self.differences) < 2 or np.ptp(self.differences) <= self.rounding:
            return None
        weights = self._weights
        squares = (weights * np.square(self.differences - self.mean)).sum()
        return self.mean / math.sqrt(squares / (weights.sum() - np.square(weights).mean()))

    def detectable(self, alpha: float) -> float | None:
        """About the difference that a t test at this level detects with a power of 80%."""
        if self.units < 2 or self.constant or self.is_dominated:
            return None
        quantiles = special.stdtrit(self.freedom, [1 - alpha / 2, POWER]).sum()
        return float(quantiles * self.error)

    @property
    def signs(self) -> tuple[int, int, int]:
        """The number of positive, zero and negative differences."""
        up = int((self.differences > self.rounding).sum())
        down = int((self.differences < -self.rounding).sum())
        return up, len(self.differences) - up - down, down

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
UNBOUNDED = "too few queries for an interval"

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
    """The differences of two systems by query, and the clusters of the queries."""

    differences: Array
    clusters: NDArray[np.intp] | None = None

    @cached_property
    def sums(self) -> Array:
        """The sum of the differences of each cluster. Without clusters, each query is one."""
        if self.clusters is None:
            return self.differences
        return np.bincount(self.clusters, self.differences).astype(float)

    @cached_property
    def sizes(self) -> Array:
        """The number of queries of each cluster."""
        if self.clusters is None:
            return np.ones(len(self.differences))
        return np.bincount(self.clusters).astype(float)

    @property
    def units(self) -> int:
        """The number of clusters."""
        return len(self.sums)

    @cached_property
    def mean(self) -> float:
        """The mean difference, over queries."""
        return float(self.differences.mean())

    @cached_property
    def residuals(self) -> Array:
        """The sums of the clusters minus the mean times their size."""
        return self.sums - self.sizes * self.mean

    @cached_property
    def error(self) -> float:
        """The standard error of the mean: s / sqrt(n); with clusters, the jackknife's (CR3).

        The jackknife leaves out one cluster at a time. With few or unequal clusters it stays large
        enough, while CR1, the usual one, is too small.
        """
        total = self.sizes.sum()
        squares = np.square(self.residuals / (1 - self.sizes / total)).sum()
        return float(math.sqrt((self.units - 1) / self.units * squares) / total)

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom: n - 1; for clusters of unequal sizes, Satterthwaite's.

        2 E(V)^2 / Var(V) of the squared jackknife error V, for independent normal differences
        (Bell and McCaffrey 2002), written without the matrix of all pairs of clusters.
        """
        if np.ptp(self.sizes) == 0:
            return self.units - 1.0
        total = self.sizes.sum()
        weights = np.square(1 / (1 - self.sizes / total))
        own, shared = weights * self.sizes, weights * np.square(self.sizes)
        trace = own.sum() - shared.sum() / total
        product = np.square(own).sum() - 2 / total * (own * shared).sum()
        return float(trace**2 / (product + (shared.sum() / total) ** 2))

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
        return self.mean / float(self.differences.std(ddof=1))

    def detectable(self, alpha: float, power: float = POWER) -> float | None:
        """About the difference that a t test at this level detects with this power."""
        if self.units < 2 or self.constant:
            return None
        quantiles = special.stdtrit(self.freedom, [1 - alpha / 2, power]).sum()
        return float(quantiles * self.error)

    @property
    def signs(self) -> tuple[int, int, int]:
        """The number of positive, zero and negative differences."""
        up = int((self.differences > self.rounding).sum())
        down = int((self.differences < -self.rounding).sum())
        return up, len(self.differences) - up - down, down

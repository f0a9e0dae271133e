"""Values of queries, with their clusters and weights, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankql.core.stats.means import ROUNDING, Interval, Moments, adjusted_skewness, mean_interval

Array: TypeAlias = NDArray[np.float64]
# A mean and the ends of its interval.
Estimate: TypeAlias = tuple[float | None, float | None, float | None]

# The share of all weights that all queries but one must have for a test.
LEAST_OTHERS = 1e-9
# So many values vary as those of all slices. Of shares in slices of 4, 12 and 30 queries, intervals
# contain the true mean in 94% of samples instead of 89%.
BORROWED = 3
# Every slice needs so many queries, and a small one must not decide almost alone: of its mean, the
# squared error may be at most this share if all slices vary alike. Otherwise a mean of slices that
# did not change is found to differ in up to 39% of samples (slice_tables of tests/research).
LEAST_IN_SLICE, SMALL_SLICE, MOST_OF_ERROR = 10, 40, 0.7


@dataclass(frozen=True)
class Sample:
    """A value per query, such as the difference of two systems.

    Queries may have clusters, numbered from 0, and weights above 0. A cluster counts as the sum of
    its weights, like that many queries. All values lie between `lowest` and `highest`.
    """

    values: Array
    clusters: NDArray[np.intp] | None = None
    weights: Array | None = None
    lowest: float = -math.inf
    highest: float = math.inf

    def minus(self, value: float) -> Sample:
        """The sample with this number subtracted from all values."""
        lowest, highest = self.lowest - value, self.highest - value
        return replace(self, values=self.values - value, lowest=lowest, highest=highest)

    @cached_property
    def sums(self) -> Array:
        """The sum of the values of each cluster. Without clusters, each query is one."""
        return self._by_cluster(self.values * self._weights)

    @cached_property
    def sizes(self) -> Array:
        """The number of queries of each cluster, or the sum of their weights, 1 on average."""
        return self._by_cluster(self._weights)

    @cached_property
    def _weights(self) -> Array:
        """The weights, divided by their mean."""
        if self.weights is None or not len(self.weights):
            return np.ones(len(self.values))
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

    @property
    def effective(self) -> float:
        """The effective number of queries or clusters: fewer if their sizes or weights differ."""
        return float(self.sizes.sum() ** 2 / np.square(self.sizes).sum())

    @cached_property
    def mean(self) -> float:
        """The mean over queries."""
        return float(np.average(self.values, weights=self.weights))

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
    def skewness(self) -> float:
        """The skewness of the sums of clusters, inflated for small samples."""
        spread = float(np.square(self.residuals).mean())
        if spread <= self.rounding**2:
            return 0.0
        return adjusted_skewness(float((self.residuals**3).mean() / spread**1.5), self.units)

    @property
    def slope(self) -> float:
        """The skewness of the mean."""
        return self.skewness / math.sqrt(self.units)

    @cached_property
    def rounding(self) -> float:
        """The rounding error of a value."""
        return float(ROUNDING * max(1.0, np.abs(self.values).max(initial=0)))

    @cached_property
    def constant(self) -> bool:
        """Whether all values are the same."""
        return bool(np.abs(self.residuals / self.sizes).max() <= self.rounding)

    @property
    def is_zero(self) -> bool:
        """Whether all values are 0."""
        return bool(np.abs(self.values).max(initial=0) <= self.rounding)

    @property
    def effect(self) -> float | None:
        """Cohen's d_z: the mean over the standard deviation of the values."""
        if len(self.values) < 2 or np.ptp(self.values) <= self.rounding:
            return None
        weights = self._weights
        centre = np.average(self.values, weights=weights)
        squares = (weights * np.square(self.values - centre)).sum()
        return self.mean / math.sqrt(squares / (weights.sum() - np.square(weights).mean()))

    @property
    def signs(self) -> tuple[int, int, int]:
        """The number of positive, zero and negative values."""
        up = int((self.values > self.rounding).sum())
        down = int((self.values < -self.rounding).sum())
        return up, len(self.values) - up - down, down

    @cached_property
    def differing(self) -> int:
        """The number of queries, or of clusters, whose values do not add up to 0."""
        return int(np.count_nonzero(np.abs(self.sums) > self.rounding))

    @property
    def p_floor(self) -> float:
        """The smallest p of any exact paired test: of two of all patterns of signs."""
        return min(1.0, 2.0 ** (1 - self.differing))

    @property
    def exact_p(self) -> float:
        """McNemar's exact p of gains and losses of 1, such as those of hits; 1 of other samples.

        Two-sided: twice the share of patterns of signs with as few losses, or as few gains. Of
        clusters, weights, or a known range in which larger losses are possible, it is 1.
        """
        largest, sizes = max(-self.lowest, self.highest), np.abs(self.values)
        plain = self.clusters is None and self.weights is None
        if not plain or 1 < largest < math.inf or not len(sizes):
            return 1.0
        if np.minimum(sizes, np.abs(sizes - 1)).max() > self.rounding:
            return 1.0
        from scipy import special

        up, _, down = self.signs
        return min(1.0, 2 * float(special.bdtr(min(up, down), up + down, 0.5)))

    @property
    def moments(self) -> Moments:
        """What the interval of the mean needs."""
        least, most = float(self.values.min()), float(self.values.max())
        if self.constant:
            least = most = self.mean
        return Moments(
            self.effective, self.mean,
            0.0 if self.constant else self.error, self.freedom, self.slope, least, most,
            self.lowest, self.highest,
        )  # fmt: skip

    def estimate(self, confidence: float) -> Estimate:
        """The mean with its interval, None if there is none."""
        ends = mean_interval(self.moments, confidence) if self.units > 1 else None
        return self.mean if len(self.values) else None, *(ends or (None, None))


@dataclass(frozen=True)
class SlicedSample(Sample):
    """The values of slices of which each counts once: the mean is that of the slices' means.

    The slices are fixed, not a sample, so the squared errors of their means add up.
    """

    slices: Mapping[str, Sample] = field(kw_only=True)

    @classmethod
    def of(cls, slices: Mapping[str, Sample]) -> SlicedSample:
        """The sample of these slices, each with at least one value."""
        parts = [*slices.values()]
        values = np.concatenate([part.values for part in parts])
        weights = np.concatenate([part.sizes / part.sizes.sum() for part in parts])
        return cls(values, None, weights, parts[0].lowest, parts[0].highest, slices=slices)

    @property
    def parts(self) -> list[Sample]:
        """The samples of the slices."""
        return [*self.slices.values()]

    @property
    def too_small(self) -> list[str]:
        """The slices that are too small for a test of a difference, the smallest first.

        A loss that they do not contain looks as steady as everything else, so their size decides.
        """
        most = MOST_OF_ERROR * sum(1 / n for n in self.counts.values())
        several = len(self.counts) > 1
        return [
            label
            for label, n in self.counts.items()
            if n < LEAST_IN_SLICE or (several and n < SMALL_SLICE and 1 / n > most)
        ]

    @cached_property
    def counts(self) -> dict[str, float]:
        """The effective number of queries of each slice, the smallest first."""
        sizes = {label: round(part.effective, 9) for label, part in self.slices.items()}
        return dict(sorted(sizes.items(), key=lambda item: item[1]))

    @property
    def units(self) -> int:
        """The number of queries; 1 if a slice has a single one, and therefore no error."""
        return len(self.values) if all(part.units > 1 for part in self.parts) else 1

    @cached_property
    def residuals(self) -> Array:
        """The values minus the means of their slices, times their size."""
        residuals: Array = np.concatenate([part.values - part.mean for part in self.parts])
        return self.sizes * residuals

    @cached_property
    def error(self) -> float:
        """The standard error of the mean, of slices that vary at least nearly as all of them do.

        The variance of few values is often far too small by chance: that of a slice is at least
        what it is with `BORROWED` more values that vary as those of all slices.
        """
        squares = np.array([part.error**2 for part in self.parts])
        sizes = np.array([part.effective for part in self.parts])
        freedom, variances = sizes - 1, squares * sizes
        pooled = BORROWED * (variances @ freedom) / (freedom.sum() or 1.0)
        shrunk = (variances * freedom + pooled) / (freedom + BORROWED) / sizes
        return math.sqrt(np.maximum(squares, shrunk).sum()) / len(self.parts)

    def interval(self, confidence: float, interval: str | None = "auto") -> Interval | None:
        """The interval of the mean, at each end the wider of that of the moments and of MOVER.

        MOVER (Zou and Donner 2008) squares and adds the distances of each slice's mean to its own
        end. It knows how skewed a slice is, and the moments how little its few values say.
        """
        ends = mean_interval(self.moments, confidence, interval)
        each = [mean_interval(part.moments, confidence, interval) for part in self.parts]
        if ends is None or interval != "auto":
            return ends
        sides = [(part.mean, x) for part, x in zip(self.parts, each, strict=True) if x]
        below = math.hypot(*(mean - x.lo for mean, x in sides)) / len(self.parts)
        above = math.hypot(*(x.hi - mean for mean, x in sides)) / len(self.parts)
        return Interval(min(ends.lo, self.mean - below), max(ends.hi, self.mean + above))

    @cached_property
    def freedom(self) -> float:
        """Satterthwaite's degrees of freedom."""
        squares = [(part.error**2, part.freedom) for part in self.parts]
        bottom = math.fsum(square**2 / freedom for square, freedom in squares)
        return math.fsum(square for square, _ in squares) ** 2 / bottom if bottom else 1.0

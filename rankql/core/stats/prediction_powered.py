"""Means of human labels, corrected by a judge that labelled all queries (PPI++).

Angelopoulos, Duchi and Zrnic (2023): mean(y) + lam (mean of f without human labels - mean of f with
them), where y is the value of a query under human labels, and f under those of the judge. At a
fixed lam the mean is unbiased whatever the judge does. A good judge makes its interval narrower.

Few queries may show no disagreement of people and judge, although there is some. So the variance is
that with one more unit, on which the judge is wrong by the largest deviation of a unit from the
mean. Without it, intervals of P@1 contain the true mean in 77% to 97% of samples of 20 queries.

The interval may still be far wider than that of people alone: near the end of the range, or where
the correction makes differences skewed. The mean of people then stays. The interval that is shown
decides: in `evaluate` that of 95%, in `compare` and `gate` that of their test, at 95% and at the
first level of the family, so that a row has one mean. (The narrowest of several `lam` would lose up
to 2.5 points of coverage.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankql.core.stats.means import adjusted_skewness, mean_interval
from rankql.core.stats.sample import Array, Sample

# Fewer human queries have no reliable interval, whatever the judge.
LEAST_QUERIES = 20
# A corrected interval is at most so many times as wide as that of people alone.
WIDEST = 1.02
# The width of the interval that is shown of a sample, infinite if there is none.
Width: TypeAlias = Callable[[Sample], float]


@dataclass(frozen=True)
class CorrectedSample(Sample):
    """Values under human labels whose mean a judge corrects.

    `lam` from 0 to 1 is how much the judge counts, who labelled `judged` queries. Error, degrees of
    freedom and skewness are those of the corrected mean.
    """

    lam: float = field(kw_only=True)
    judged: int = field(kw_only=True)
    correction: float = field(kw_only=True)
    error: float = field(kw_only=True)
    freedom: float = field(kw_only=True)
    skewness: float = field(kw_only=True)

    @property
    def mean(self) -> float:
        """The corrected mean."""
        return super().mean + self.correction

    @property
    def p_floor(self) -> float:
        """None: what the judge knows of other queries counts too."""
        return 0.0

    @property
    def exact_p(self) -> float:
        """None, for the same reason."""
        return 1.0

    @property
    def constant(self) -> bool:
        """Whether the corrected mean has no error."""
        return self.error <= self.rounding

    def worth(self, width: Width) -> int:
        """The number of human queries that would give an interval as narrow without the judge.

        At most that of the judged ones, and not more than those of people if it is wider.
        """
        human, queries = Sample(self.values, self.clusters, self.weights), len(self.values)
        if not self.lam:
            return queries

        def is_wider(count: float) -> bool:
            """Whether so many queries like these, alone, have a wider interval."""
            more = count / queries
            error, skewness = human.error / math.sqrt(more), human.skewness / math.sqrt(more)
            return width(replace(
                self, correction=0.0, error=error, skewness=skewness,
                freedom=max(human.freedom * more, 1.0),
            )) > own  # fmt: skip

        own = width(self)
        low, high = float(queries), float(self.judged)
        if not is_wider(queries):
            low, high = LEAST_QUERIES / 2, low
        while high - low > 0.1:
            middle = (low + high) / 2
            low, high = (middle, high) if is_wider(middle) else (low, middle)
        return round(high)


def mean_width(confidence: float, interval: str | None = "auto") -> Width:
    """The width of the interval of a mean."""

    def width(sample: Sample) -> float:
        ends = mean_interval(sample.moments, confidence, interval)
        return math.inf if ends is None else ends.hi - ends.lo

    return width


def correct_sample(
    y: Array,
    f: Array,
    labelled: NDArray[np.bool_],
    clusters: NDArray[np.intp] | None = None,
    weights: Array | None = None,
    lowest: float = -math.inf,
    highest: float = math.inf,
    lam: float | None = None,
    widths: Sequence[Width] = (mean_width(0.95),),
) -> Sample:
    """The values y of the queries that people labelled, their mean corrected by the judge's f.

    NaN is an undefined value: the mean is over the defined y, and an undefined f counts as the mean
    of the defined ones. The sample is not corrected if it is too small, or if there is no other
    query. `lam` is 0, and the mean that of people alone, if there are fewer other units than those
    with human labels, or if the corrected interval would be wider, by any of `widths`.

    `lam` minimises the estimated variance: that of the jackknife, which leaves out one query (or
    cluster) at a time, and that of an unseen disagreement. Because `lam` is estimated from n units,
    the variance is multiplied by (n - 1) / (n - 2) and grows by that of `lam` times the correction,
    and t loses a degree of freedom.
    """
    counted = np.ones(len(y)) if weights is None else weights
    codes = np.arange(len(y)) if clusters is None else clusters
    others, labelled = ~labelled & (counted > 0), labelled & (counted > 0)
    defined = labelled & ~np.isnan(y)

    def average(values: Array, rows: NDArray[np.bool_]) -> tuple[float, Array]:
        """The mean of these rows, and what each unit adds to its error."""
        sizes = np.bincount(codes[rows], counted[rows], codes.max() + 1)
        mean = float(np.average(values[rows], weights=counted[rows]))
        sums = np.bincount(codes[rows], counted[rows] * (values[rows] - mean), len(sizes))
        units = np.count_nonzero(sizes)
        return mean, sums / (sizes.sum() - sizes) * math.sqrt((units - 1) / units)

    groups = None if clusters is None else np.unique(clusters[defined], return_inverse=True)[1]
    weighted = None if weights is None else weights[defined]
    human = Sample(y[defined], groups, weighted, lowest, highest)
    n = human.units
    if n < LEAST_QUERIES or not others.any():
        return human
    known = f[(labelled | others) & ~np.isnan(f)]
    f = np.where(np.isnan(f), known.mean() if len(known) else 0.0, f)
    own = average(y, defined)[1]
    (with_human, same), (without, rest) = average(f, labelled), average(f, others)
    shift = same - rest
    squares, unseen = float(shift @ shift), float(np.square(own).max())
    estimated, freedom = lam is None, human.freedom
    if lam is None:
        enough = squares > 0 and len(np.unique(codes[others])) >= len(np.unique(codes[labelled]))
        lam = float(np.clip(own @ shift / (squares + unseen), 0, 1)) if enough else 0.0
    parts = own - lam * shift
    variance = float(parts @ parts)
    slope = float((parts**3).sum()) / variance**1.5 if variance > 0 else 0.0
    if estimated and lam > 0:
        variance += lam**2 * unseen
        variance *= (n - 1) / (n - 2)
        variance += (without - with_human) ** 2 * variance / ((n - 1) * squares)
        freedom = max(freedom - 1, 1.0)
    # The mean stays in the range of the values.
    mean = float(np.clip(human.mean + lam * (without - with_human), lowest, highest))
    corrected = CorrectedSample(
        human.values, human.clusters, human.weights, lowest, highest,
        lam=lam, judged=int((labelled | others).sum()), correction=mean - human.mean,
        error=math.sqrt(variance), freedom=freedom,
        skewness=adjusted_skewness(slope * math.sqrt(n), n),
    )  # fmt: skip
    wider = (width(corrected) > WIDEST * width(human) for width in widths)
    if estimated and lam > 0 and any(wider):
        return correct_sample(y, f, labelled, clusters, weights, lowest, highest, lam=0.0)
    return corrected

"""Means of human labels, corrected by a judge that labelled all queries (PPI++).

Angelopoulos, Duchi and Zrnic (2023): mean(y) + lam (mean of f without human labels - mean of f with
them), where y is the value of a query under human labels, and f under those of the judge. At a
fixed lam the mean is unbiased whatever the judge does. A good judge makes its interval narrower.

Few queries may show no disagreement of people and judge, although there is some. So the variance is
that with one more unit, on which the judge is wrong by the largest deviation of a unit from the
mean. Without it, intervals of P@1 contain the true mean in 77% to 97% of samples of 20 queries.

A mean near the end of its range may have a far wider interval than that of people alone, so their
mean stays unless the judge makes its interval narrower. Levels and kinds of intervals that users
ask for do not matter for this choice, so means do not depend on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rankql.stats.means import adjusted_skewness, mean_interval, t_quantile
from rankql.stats.sample import Array, Sample

# Fewer human queries have no reliable interval, whatever the judge.
LEAST_QUERIES = 20
# A corrected interval of 95% is at most so many times as wide as that of people alone.
WIDEST = 1.02


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
    def constant(self) -> bool:
        """Whether the corrected mean has no error."""
        return self.error <= self.rounding

    def worth(self, alpha: float) -> int:
        """The number of human queries that would give an interval as narrow without the judge.

        At most that of the judged ones.
        """
        human = Sample(self.values, self.clusters, self.weights)
        width = t_quantile(1 - alpha / 2, self.freedom) * self.error
        queries = len(self.values)
        if not (width > 0 and self.lam > 0):
            return queries
        count = float(queries)
        for _ in range(30):  # each step shrinks the error
            freedom = max(human.freedom * count / queries, 1.0)
            count = queries * (t_quantile(1 - alpha / 2, freedom) * human.error / width) ** 2
        return min(round(count), self.judged)


def correct_sample(
    y: Array,
    f: Array,
    labelled: NDArray[np.bool_],
    clusters: NDArray[np.intp] | None = None,
    weights: Array | None = None,
    lowest: float = -math.inf,
    highest: float = math.inf,
    lam: float | None = None,
) -> Sample:
    """The values y of the queries that people labelled, their mean corrected by the judge's f.

    NaN is an undefined value: the mean is over the defined y, and an undefined f counts as the mean
    of the defined ones. The sample is not corrected if it is too small, or if there is no other
    query. `lam` is 0, and the mean that of people alone, if there are fewer other units than those
    with human labels, or if the corrected interval would be wider.

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
    ends = [mean_interval(sample.moments, 0.95) for sample in (corrected, human)]
    widths = [x.hi - x.lo for x in ends if x is not None]
    if estimated and lam > 0 and widths[0] > WIDEST * widths[-1]:
        return correct_sample(y, f, labelled, clusters, weights, lowest, highest, lam=0.0)
    return corrected

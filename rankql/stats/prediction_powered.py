"""Means of human labels, corrected by a judge that labelled all queries (PPI++).

Angelopoulos, Duchi and Zrnic (2023): mean(y) + lam (mean of f without human labels - mean of f with
them), where y is the value of a query under human labels, and f under those of the judge. The mean
is unbiased whatever the judge does. A good judge makes its interval narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankql.stats.sample import Array, Sample

Codes: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class CorrectedMean:
    """A corrected mean with its standard error, and that of the human labels alone.

    `lam` from 0 to 1 is how much the judge counts; `queries` is the number of human values.
    """

    mean: float
    error: float
    freedom: float
    lam: float
    human_error: float
    human_freedom: float
    queries: int
    # The skewness of the mean.
    slope: float = 0.0

    def width(self, alpha: float) -> float:
        """Half the width of the confidence interval."""
        return float(special.stdtrit(self.freedom, 1 - alpha / 2)) * self.error

    def worth(self, alpha: float) -> int:
        """The number of human queries that would give an interval as narrow without the judge."""
        width, count = self.width(alpha), float(self.queries)
        if not (width > 0 and self.lam > 0):
            return self.queries
        for _ in range(30):  # each step shrinks the error
            freedom = max(self.human_freedom * count / self.queries, 1.0)
            quantile = float(special.stdtrit(freedom, 1 - alpha / 2))
            count = self.queries * (quantile * self.human_error / width) ** 2
        return round(count)


def correct_mean(
    y: Array,
    f: Array,
    unlabelled: Array,
    weights: tuple[Array, Array] | None = None,
    clusters: tuple[Codes, Codes] | None = None,
    *,
    lam: float | None = None,
    large_sample: bool = False,
) -> CorrectedMean:
    """The mean of y, corrected by f of the same queries and of those without human labels.

    NaN is an undefined value: the mean is over the defined y, and an undefined f counts as the mean
    of the defined ones. Weights, above 0, and codes of clusters are pairs: of the queries with and
    without human labels.

    `lam` minimises the estimated variance, that of the jackknife, which leaves out one query (or
    cluster) at a time. Because `lam` is estimated from n units, the variance is multiplied by
    (n - 1) / (n - 2) and grows by that of `lam` times the correction, and t loses a degree of
    freedom. `large_sample` is the published form without them, with z.
    """
    n, m = len(y), len(unlabelled)
    defined = ~np.isnan(y)
    own, others = weights or (np.ones(n), np.ones(m))
    codes, other_codes = clusters or (np.arange(n), np.arange(n, n + m))
    size = int(max(codes.max(), other_codes.max())) + 1
    judged = np.concatenate([f, unlabelled])
    judged[np.isnan(judged)] = np.nanmean(judged) if not np.isnan(judged).all() else 0.0
    f, unlabelled = judged[:n], judged[n:]
    mean, a, sizes = _mean(y[defined], own[defined], codes[defined], size, large_sample)
    mean_f, b, _ = _mean(f, own, codes, size, large_sample)
    mean_u, c, _ = _mean(unlabelled, others, other_codes, size, large_sample)
    shift, units = b - c, len(sizes)
    squares = float(shift @ shift)
    estimated = lam is None
    if lam is None and large_sample:
        squares = (1 / n + 1 / m) * float(judged.var(ddof=1))
    if lam is None:
        lam = float(np.clip(a @ b / squares, 0, 1)) if squares > 0 else 0.0
    parts = a - lam * shift
    variance = float(np.square(parts).sum())
    slope = float((parts**3).sum()) / variance**1.5 if variance > 0 else 0.0
    freedom = human_freedom = math.inf if large_sample else Sample(sizes, None, sizes).freedom
    if estimated and lam > 0 and not large_sample:
        variance *= (units - 1) / (units - 2)
        variance += (mean_u - mean_f) ** 2 * variance / ((units - 1) * squares)
        freedom = max(freedom - 1, 1.0)
    return CorrectedMean(
        mean + lam * (mean_u - mean_f), math.sqrt(variance), freedom, lam,
        math.sqrt(float(a @ a)), human_freedom, int(defined.sum()), slope,
    )  # fmt: skip


def _mean(
    values: Array, weights: Array, codes: Codes, size: int, large_sample: bool
) -> tuple[float, Array, Array]:
    """The mean, what each unit adds to its error, and the weights of the units that it has."""
    sizes: Array = np.bincount(codes, weights, size).astype(float)
    total = sizes.sum()
    mean = float(values @ weights / total)
    sums = np.bincount(codes, weights * (values - mean), size)
    if large_sample:
        return mean, sums / total, sizes[sizes > 0]
    units = np.count_nonzero(sizes)
    return mean, sums / (total - sizes) * math.sqrt((units - 1) / units), sizes[sizes > 0]

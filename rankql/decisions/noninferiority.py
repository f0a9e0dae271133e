"""Is a mean loss within its margin? Non-inferiority, decided by one confidence interval.

A loss has one value per query, positive where a run is worse. The interval that decides is the one
that is shown: a limit passes when the interval lies within the margin, and fails when the interval
lies beyond it. Student's t interval is too narrow where losses are skewed (a few queries lose a
lot): on exponential losses of 20 queries it lies below the true mean in 8% of samples instead of
2.5%. Hall's transformation corrects the t statistic for skewness; on each side, the wider of the
two intervals counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from rankql.decisions.margin import Judgement, Margin
from rankql.decisions.pairwise_tests import t
from rankql.decisions.sample import POWER, Array, Sample, SignificanceOptions
from rankql.decisions.significance import explain_untestable
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED, TOO_FEW

# A sample skewness is too small on average. This factor, 1 + 6 / n, keeps the bound below 5% on
# lognormal losses of 20 queries (tests/simulation.py). Fewer queries get no larger one: it would
# widen the interval past any use.
SKEWNESS_INFLATION = 6.0
INFLATED_FROM = 20


def judge_slices(
    samples: Mapping[str, Sample], margin: Margin, alpha: float, min_queries: int
) -> dict[str, Judgement]:
    """Hold the mean of every slice to the margin.

    All queries together are one test, unadjusted; slices are adjusted among themselves; those with
    fewer than `min_queries` queries are too, so that they weaken no other.
    """
    parts = [part for part in samples if part != "all"]
    large = [x for x in parts if len(samples[x].differences) >= min_queries]
    small = [x for x in parts if x not in large]
    judgements: dict[str, Judgement] = {}
    for family in (["all"] if "all" in samples else [], large, small):
        found = judge_samples([samples[part] for part in family], margin, alpha)
        judgements |= dict(zip(family, found, strict=True))
    for part in small:
        # A small slice fails if all its losses could not share a sign by chance; or has no say.
        possible = 2.0 ** (1 - samples[part].units) <= alpha / len(small)
        if judgements[part].decision != FAILED or not possible:
            undecided = replace(judgements[part], decision=TOO_FEW, queries_needed=None)
            judgements[part] = undecided
    return judgements


def judge_samples(samples: Sequence[Sample], margin: Margin, alpha: float) -> list[Judgement]:
    """Hold the mean of every sample to the margin, adjusted for their number (Holm).

    Each stage takes the intervals of all undecided samples at level alpha / (their number); those
    that exclude the margin are decided. What is left undecided keeps the level of the last stage.
    """
    judgements = {i: _judge_without_interval(sample, margin) for i, sample in enumerate(samples)}
    undecided = [i for i, judgement in judgements.items() if judgement is None]
    while undecided:
        level = alpha / len(undecided)
        decided = []
        for i in undecided:
            interval = mean_interval(samples[i], level)
            judgements[i] = _judge_interval(samples[i], margin, interval, level)
            if interval and margin.excluded(*interval):
                decided.append(i)
        if not decided:
            break
        undecided = [i for i in undecided if i not in decided]
    return [judgement for judgement in judgements.values() if judgement is not None]


def _judge_without_interval(sample: Sample, margin: Margin) -> Judgement | None:
    """The decision where no interval is needed or possible."""
    if sample.units < 2:
        unknown = margin.required or not margin.holds(sample.mean)
        return Judgement(INCONCLUSIVE if unknown else PASSED)
    if sample.constant:
        return Judgement(margin.decide(sample.mean, sample.mean), constant=True)
    return None


def _judge_interval(
    sample: Sample, margin: Margin, interval: tuple[float, float] | None, level: float
) -> Judgement:
    confidence = 1.0 - level
    if interval is None:
        return Judgement(INCONCLUSIVE, confidence=confidence)
    decision = margin.decide(*interval)
    needed = None
    if decision == INCONCLUSIVE:
        needed = queries_to_decide(sample, margin.size, interval, level)
    return Judgement(decision, *interval, confidence, needed)


def mean_interval(sample: Sample, alpha: float) -> tuple[float, float] | None:
    """Student's confidence interval of the mean, widened for skewness; None where it has none."""
    if explain_untestable("t", sample):
        return None
    result = t(sample, SignificanceOptions(alpha))
    if result.lo is None or result.hi is None:
        return None
    low, high = _skewness_factors(sample, alpha)
    mean = sample.mean
    return mean - low * (mean - result.lo), mean + high * (result.hi - mean)


def _skewness_factors(sample: Sample, alpha: float) -> tuple[float, float]:
    """How many times as far as the t interval the corrected one reaches, down and up.

    Hall (1992): with skewness g, T + g T^2 / 3 sqrt(n) + g^2 T^3 / 27 n + g / 6 sqrt(n) is closer
    to Student's t than T is. It grows with T, so that its bounds are those of T, transformed back.
    A strong skewness makes them narrower again, so the widest for any skewness up to g counts.
    """
    n = sample.units
    skewness = _skewness(sample)
    if abs(skewness) < 1e-6:
        return 1.0, 1.0
    quantile = float(special.stdtrit(n - 1, 1 - alpha / 2))
    slopes = skewness / math.sqrt(n) * np.linspace(0.05, 1, 20)

    def reach(x: float) -> float:
        return float(np.abs(3 / slopes * (np.cbrt(1 + slopes * (x - slopes / 6)) - 1)).max())

    return max(1.0, reach(quantile) / quantile), max(1.0, reach(-quantile) / quantile)


def _skewness(sample: Sample) -> float:
    """The skewness of the queries' (or clusters') share in the mean, inflated for few of them."""
    n = sample.units
    off: Array = sample.differences - sample.mean
    if sample.clusters is not None:
        off = np.bincount(sample.clusters, off).astype(float)
    spread = float(np.square(off).mean())
    if n < 3 or spread <= sample.rounding**2:
        return 0.0
    skewness = float((off**3).mean() / spread**1.5)
    return (
        float(skewness)
        * math.sqrt(n * (n - 1))
        / (n - 2)
        * (1 + SKEWNESS_INFLATION / max(n, INFLATED_FROM))
    )


def queries_to_decide(
    sample: Sample, margin: float, interval: tuple[float, float], level: float
) -> int | None:
    """About how many queries would decide, were the true mean and spread those of the sample.

    With a statistical power of 0.8, rounded up to two digits; None where the mean is so close to
    the margin that a billion would not.
    """
    lo, hi = interval
    gap = abs(margin - sample.mean)
    width = hi - sample.mean if sample.mean < margin else sample.mean - lo
    count = len(sample.differences) * (_with_power(sample, width, level) / max(gap, 1e-300)) ** 2
    return None if count > 1e9 else int(_rounded_up(count))


def testable_margin(sample: Sample, interval: tuple[float, float], level: float) -> float | None:
    """The margin that a run without any loss passes with a statistical power of 0.8."""
    width = interval[1] - sample.mean
    return _rounded_up(_with_power(sample, width, level)) if width > sample.rounding else None


def _with_power(sample: Sample, width: float, level: float) -> float:
    """How far the true mean must be from the margin, by the width of the interval on that side."""
    quantile = float(special.stdtrit(sample.units - 1, 1 - level / 2))
    return width * (1 + float(special.ndtri(POWER)) / quantile)


def _rounded_up(value: float) -> float:
    """The value, rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(round(value / unit, 9)) * unit:.6g}")

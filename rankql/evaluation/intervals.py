"""Confidence intervals of means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import polars as pl

from rankql.errors import RankqlError
from rankql.registry.argument_checks import require_probability
from rankql.registry.parse import value_range
from rankql.retired import refuse_retired

Ends: TypeAlias = tuple[float | None, float | None]
# Otherwise (1 + confidence) / 2 is rounded to 1.
HIGHEST_CONFIDENCE = 1 - 2**-52


def require_interval(interval: str | None, confidence: float) -> None:
    """Refuse an unknown interval or a confidence out of range."""
    refuse_retired(f"interval={interval!r}")
    if interval not in ("auto", "t", None):
        raise RankqlError(f"interval must be 'auto', 't' or None, not {interval!r}")
    require_probability("confidence", confidence)


def mean_intervals(
    means: pl.DataFrame, metrics: Sequence[str], interval: str | None, confidence: float
) -> list[Ends]:
    """The confidence interval of every mean, or (None, None). metrics: the metric of each row."""
    if interval is None:
        return [(None, None)] * means.height
    widths = means["width"] if "width" in means.columns else _half_widths(means, confidence)
    columns = (means[name] for name in ("mean", "least", "most", "df"))
    ends: list[Ends] = []
    for metric, width, mean, least, most, df in zip(metrics, widths, *columns, strict=True):
        if mean is None or width is None:
            ends.append((None, None))
            continue
        lowest, highest = value_range(metric)
        # Options may give values outside the metric's range, which then does not apply.
        if lowest is not None and least < lowest - 1e-9:
            lowest = None
        if highest is not None and most > highest + 1e-9:
            highest = None
        if least == most and interval != "t":
            ends.append(constant_interval(mean, df + 1, lowest, highest, confidence))
        else:
            ends.append(interval_within_range(mean, width, lowest, highest, interval != "t"))
    return ends


def _half_widths(means: pl.DataFrame, confidence: float) -> Iterator[float | None]:
    """Half the widths of Student's t intervals, None without a standard error."""
    level = (1 + min(confidence, HIGHEST_CONFIDENCE)) / 2
    for error, df in zip(means["error"], means["df"], strict=True):
        yield None if error is None else error * t_quantile(level, int(df))


def interval_within_range(
    mean: float, width: float, lowest: float | None, highest: float | None, logistic: bool
) -> tuple[float, float]:
    """The interval of a mean, which stays between `lowest` and `highest`.

    If `logistic`, and if both ends of the range are known, the t interval is computed for the logit
    of the mean, with a standard error by the delta method: it is shorter towards the nearer end.
    Otherwise it is mean - width to mean + width, cut at the known ends.
    """
    if logistic and lowest is not None and highest is not None:
        size = highest - lowest
        share = (mean - lowest) / size
        if 0 < share < 1:  # at an end of the range, all values are the same
            factor = math.exp(min(width / size / (share * (1 - share)), 700))
            low = lowest + size * share / (share + (1 - share) * factor)
            return low, lowest + size * share / (share + (1 - share) / factor)
    return _clip(mean - width, lowest, highest), _clip(mean + width, lowest, highest)


def constant_interval(
    value: float, n: float, lowest: float | None, highest: float | None, confidence: float
) -> Ends:
    """The interval of a mean if all n values are the same, none without both ends of the range.

    If less than a share of (alpha / 2)^(1 / n) of all queries had this value, that would happen
    with a probability below alpha / 2. The other queries may have any value in the range. If the
    value is 0 or 1, these are the bounds of Clopper and Pearson for a share.
    """
    if n < 2 or lowest is None or highest is None:
        return None, None
    share = ((1 - confidence) / 2) ** (1 / n)
    return lowest + share * (value - lowest), highest - share * (highest - value)


def _clip(value: float, lowest: float | None, highest: float | None) -> float:
    """The value, or the known end of the range that it exceeds."""
    value = value if lowest is None else max(value, lowest)
    return value if highest is None else min(value, highest)


@lru_cache(10_000)
def t_quantile(p: float, df: int) -> float:
    """The p-quantile of Student's t distribution, for p from 0.5 and at least 1 degree of freedom.

    The macro rankql_t_quantile takes any p and df, but planning it takes longer than a small
    evaluation. Formulas of Abramowitz and Stegun: 26.7.3 and 26.7.4 by Newton's method, which
    starts at the normal quantile; for many degrees of freedom the series 26.7.5.
    """
    z = NormalDist().inv_cdf(p)
    if df > 1000:
        t = z
        for power, (divisor, factors) in enumerate(_SERIES, 1):
            terms = (factor * math.pow(z, 2 * i + 1) for i, factor in enumerate(factors))
            t += sum(terms) / divisor / math.pow(df, power)
        return t
    density = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) * 2 / math.sqrt(math.pi)
    angle, odd = math.atan(z / math.sqrt(df)), df % 2
    for _ in range(30):
        sine, cosine = math.sin(angle), math.cos(angle)
        term = total = 0.0 if df == 1 else cosine if odd else 1.0
        for n in range(2 + odd, df, 2):
            term *= cosine**2 * (n - 1) / n
            total += term
        central = (angle + sine * total) * 2 / math.pi if odd else sine * total
        step = (2 * p - 1 - central) / (density * cosine ** (df - 1))
        angle = min(angle + step, math.pi / 2)
        if step <= 1e-14 * angle:
            break
    return math.sqrt(df) * math.tan(angle)


# For each power of 1 / df: a divisor, and the factors of z, z^3, z^5, ...
_SERIES = (
    (4, (1, 1)),
    (96, (3, 16, 5)),
    (384, (-15, 17, 19, 3)),
    (92160, (-945, -1920, 1482, 776, 79)),
)

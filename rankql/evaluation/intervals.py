"""Confidence intervals of means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from rankql.errors import RankqlError, require_package
from rankql.registry.argument_checks import require_probability
from rankql.registry.parse import value_range

RESAMPLES = 2000
SEED = 7


def require_interval(interval: str | None, confidence: float) -> None:
    """Refuse an unknown interval or a confidence out of range."""
    if interval not in ("auto", "t", "bootstrap", None):
        raise RankqlError(f"interval must be 'auto', 't', 'bootstrap' or None, not {interval!r}")
    require_probability("confidence", confidence)
    if interval == "bootstrap":
        require_package("scipy", "stats", f"interval={interval!r}")


def interval_columns(
    means: pl.DataFrame, metrics: Sequence[str], interval: str | None, confidence: float
) -> list[pl.Series]:
    """The confidence interval of every mean, NULL if there is none."""
    if interval is None:
        return [means["width"].alias(name) for name in ("lo", "hi")]  # no width, no interval
    if interval == "bootstrap":
        bounds = [_bootstrap_interval(sample, confidence) for sample in means["sample"].to_list()]
        return [
            pl.Series(name, [pair[side] for pair in bounds], dtype=pl.Float64)
            for side, name in enumerate(("lo", "hi"))
        ]
    ranges = [value_range(name) for name in metrics]
    lowest, highest = (
        pl.col("i").replace_strict(
            {i: pair[side] for i, pair in enumerate(ranges)}, return_dtype=pl.Float64
        )
        for side in (0, 1)
    )
    # Options may give values outside the metric's range, which then does not apply.
    framed = means.with_columns(
        lowest=pl.when(pl.col("least") >= lowest - 1e-9).then(lowest),
        highest=pl.when(pl.col("most") <= highest + 1e-9).then(highest),
    )
    low, high = interval_within_range(interval != "t")
    return framed.select(lo=low, hi=high).get_columns()


def interval_within_range(logistic: bool) -> tuple[pl.Expr, pl.Expr]:
    """The bounds of the interval of a mean, which stays between `lowest` and `highest`.

    If `logistic`, and if both ends of the range are known, the t interval is computed for the logit
    of the mean, with a standard error by the delta method: it is shorter towards the nearer end.
    Otherwise it is mean - width to mean + width, cut at the known ends.
    """
    mean, width, lowest, highest = map(pl.col, ("mean", "width", "lowest", "highest"))
    plain = (pl.max_horizontal(mean - width, lowest), pl.min_horizontal(mean + width, highest))
    if not logistic:
        known = width.is_not_null()
        return pl.when(known).then(plain[0]), pl.when(known).then(plain[1])
    share = (mean - lowest) / (highest - lowest)
    reach = width / (highest - lowest) / (share * (1 - share))
    ends = []
    for end, cut in ((reach, plain[0]), (-reach, plain[1])):
        inside = lowest + (highest - lowest) * share / (share + (1 - share) * end.exp())
        # At an end of the range, all values are the same.
        value = pl.when((share > 0) & (share < 1)).then(inside).otherwise(cut)
        ends.append(pl.when(width.is_not_null()).then(value))
    return ends[0], ends[1]


def _bootstrap_interval(
    sample: list[dict[str, float | None]], confidence: float
) -> tuple[Any, Any]:
    """The percentile interval of a mean, weighted or not, over resampled queries."""
    import numpy as np
    from scipy.stats import bootstrap

    kept = [row for row in sample or () if row["weight"]]
    values = np.array([row["value"] or 0.0 for row in kept])
    weights = np.array([row["weight"] for row in kept])
    if len(values) < 2 or not weights.sum():
        return None, None

    def mean(value: Any, weight: Any, axis: int) -> Any:
        return (value * weight).sum(axis) / weight.sum(axis)

    ends = bootstrap(
        (values, weights),
        mean,
        paired=True,
        n_resamples=RESAMPLES,
        batch=max(1, 2_000_000 // len(values)),
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(ends.low), float(ends.high)

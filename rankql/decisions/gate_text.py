"""The words and numbers in the messages of a gate."""

from __future__ import annotations

import math

from rankql import text as show
from rankql.decisions.margin_decisions import Judgement


def describe_mean(mean: float, n: int, queries: int, interval: str = "") -> str:
    """A mean, its interval and the number of queries it is of."""
    of = "" if n == queries else f"{n:,} of "
    return f"{show.format_number(mean, 6)}{interval} on {of}{show.format_queries(queries)}"


def describe_inconclusive(judgement: Judgement, n: int, unclear: str) -> str:
    """Why a limit is inconclusive, and how many queries would decide it."""
    if judgement.lo is None:
        return f"Inconclusive: {show.format_queries(n)} gave no confidence interval"
    needed = judgement.queries_needed
    many = f"About {needed:,} queries" if needed else "More than a billion queries"
    return f"Inconclusive: {unclear}. {many} would decide"


def format_drop_interval(
    lo: float | None, hi: float | None, judgement: Judgement, limit: float
) -> str:
    """The interval in words, or nothing."""
    if lo is None or hi is None or judgement.confidence is None:
        return ""
    digits = show.count_decimals_apart(lo, hi, limit)
    level = format_level(judgement.confidence)
    return f" ({level} CI {show.format_decimal(lo, digits)} to {show.format_decimal(hi, digits)})"


def format_level(confidence: float) -> str:
    """A confidence level with as many digits as it takes: 95%, 98.3%, 99.75%."""
    digits = 1 + max(0, -math.floor(math.log10(100 * (1 - confidence))))
    return f"{100 * confidence:.{digits}f}".rstrip("0").rstrip(".") + "%"


def format_limit(value: float) -> str:
    """A limit as text: 0.02, 1,000,000."""
    return f"{value:,.15g}" if 1e3 <= abs(value) < 1e15 else f"{value:g}"

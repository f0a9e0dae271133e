"""The rows of a gate's table that hold the drop below a baseline to a limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rankql import text as show
from rankql.decisions.alignment import ROUNDING
from rankql.decisions.gate_limits import GateLimit, format_limit, undefined_row
from rankql.decisions.noninferiority import (
    Judgement,
    Margin,
    judge_slices,
    mean_interval,
    testable_margin,
)
from rankql.decisions.system_values import PairedRuns
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED, TOO_FEW


def drop_rows(
    limit: GateLimit, pairs: PairedRuns, alpha: float | None, min_queries: int
) -> Iterator[dict[str, Any]]:
    """The rows of a limit on drops: by interval, or without `alpha` by the means alone."""
    name = limit.name(pairs.result)
    summary = pairs.result.summary.filter(pl.col("metric") == name)
    losses = pairs.losses(name)
    lower = name in pairs.values.lower
    identical = [x for x in losses if np.abs(losses[x].differences).max() <= losses[x].rounding]
    judgements: Mapping[str, Judgement] = {}
    if alpha is not None:
        samples = {part: sample for part, sample in losses.items() if part not in identical}
        margin = Margin(limit.bound, required=limit.bound > 0)
        judgements = judge_slices(samples, margin, alpha, min_queries)
    for row in summary.filter(pl.col("system") == "run").iter_rows(named=True):
        part = row["slice"]
        values = pairs.values.pair(name, "baseline", "run", part)[:2]
        if name in pairs.result.meta["weights"]:
            baseline, mean = summary.filter(pl.col("slice") == part).sort("system")["mean"]
        else:
            baseline, mean = (pl.Series(each).mean() for each in values)
        if baseline is None or mean is None:
            yield undefined_row(limit, pairs.result, row, min_queries, " in both")
            continue
        n, loss = len(values[0]), (mean - baseline) * (1 if lower else -1)
        judgement = judgements.get(part)
        if judgement is None:
            small = part != "all" and n < min_queries
            decision = PASSED if loss <= limit.bound + ROUNDING else FAILED
            judgement = Judgement(TOO_FEW if small else decision)
        change = _Change(limit.bound, lower, loss, n, judgement, part in identical, min_queries)
        lo, hi = judgement.interval(1 if lower else -1)
        yield limit.row(
            pairs.result, slice=part, mean=mean, baseline=baseline, difference=mean - baseline,
            lo=lo, hi=hi, n=n, status=judgement.decision, message=change.message(),
            confidence=None if lo is None else judgement.confidence,
            queries_needed=judgement.queries_needed,
        )  # fmt: skip


def recommend_limit(limit: GateLimit, pairs: PairedRuns, alpha: float) -> list[str]:
    """A note on the smallest limit that so many queries can be held to."""
    name = limit.name(pairs.result)
    sample = pairs.losses(name).get("all")
    if sample is None or sample.units < 2 or sample.constant:
        return []
    interval = mean_interval(sample, alpha)
    margin = interval and testable_margin(sample, interval, alpha)
    if not margin:
        return []
    option = f"{name}:{margin:g}"
    return [
        f"{name} has no limit, so that only a significant drop fails. These "
        f"{show.format_queries(len(sample.differences))} can test a limit of about {margin:g}: "
        f"max_drop='{option}' (CLI: --max-drop '{option}')"
    ]


def describe_rule(alpha: float, sliced: bool, no_limit: bool) -> list[str]:
    """How the limits are tested, in sentences."""
    notes = [
        f"a limit passes if the {_format_level(1 - alpha)} confidence interval (CI) lies within "
        "it, fails if it lies beyond, and is inconclusive otherwise; CI: paired t test, widened "
        "for skewed values"
    ]
    if no_limit:
        notes.append("a limit of 0 on a drop fails only if the CI lies beyond it")
    if sliced:
        notes.append(
            "CIs of slices are adjusted for the number of slices (Holm), those of all queries are "
            "not"
        )
    return notes


@dataclass(frozen=True)
class _Change:
    """How a mean changed from the baseline to the run, and what was decided about it."""

    limit: float
    lower_is_better: bool
    # How much worse the run is.
    loss: float
    n: int
    judgement: Judgement
    identical: bool
    min_queries: int

    def message(self) -> str:
        """What was found, in a sentence."""
        decision, change, limit = (
            self.judgement.decision,
            self._describe(),
            format_limit(self.limit),
        )
        word = "rise" if self.lower_is_better else "drop"
        beyond = self.loss > self.limit + ROUNDING
        if decision == TOO_FEW:
            note = f" (beyond the limit of {limit})" if beyond else ""
            queries = f"{show.format_queries(self.n)}, fewer than {self.min_queries}"
            return f"{change}{note} on {queries}: not checked"
        if decision == INCONCLUSIVE:
            side = "within" if beyond else "beyond"
            unclear = f"a {word} {side} the limit of {limit} cannot be ruled out"
            return f"{change}. {describe_inconclusive(self.judgement, self.n, unclear)}"
        if self.judgement.confidence is not None and not self.limit:
            if decision == FAILED:
                return f"{change}: a significant {word}"
            return f"{change}: not significant" if self.loss > ROUNDING else change
        if decision == FAILED:
            return f"{change}, beyond the limit of {limit}"
        return f"{change}, within the limit of {limit}" if self.loss > ROUNDING else change

    def _describe(self) -> str:
        """The change in words, with its interval."""
        if self.identical:
            return "no difference"
        if abs(self.loss) <= ROUNDING:
            words, sign = "no change on average", 1
        else:
            verb = ("rose" if self.lower_is_better else "dropped") if self.loss > 0 else "improved"
            words, sign = f"{verb} by {{}}", 1 if self.loss > 0 else -1
        lo, hi = self.judgement.interval(sign)
        if lo is None or hi is None:
            everywhere = " in every query" if self.judgement.constant else ""
            return words.format(show.format_number(abs(self.loss))) + everywhere
        digits = show.count_decimals_apart(lo, hi, sign * self.limit)
        decimals = max(digits, -math.floor(math.log10(abs(self.loss) or 1)))
        size = show.format_decimal(abs(self.loss), decimals)
        interval = format_gate_interval(lo, hi, self.judgement, sign * self.limit)
        return f"{words.format(size)}{interval}"


def describe_inconclusive(judgement: Judgement, n: int, unclear: str) -> str:
    """Why a limit is inconclusive, and how many queries would decide it."""
    if judgement.lo is None:
        return f"Inconclusive: {show.format_queries(n)} gave no confidence interval"
    needed = judgement.queries_needed
    many = f"About {needed:,} queries" if needed else "More than a billion queries"
    return f"Inconclusive: {unclear}. {many} would decide"


def format_gate_interval(
    lo: float | None, hi: float | None, judgement: Judgement, limit: float
) -> str:
    """The interval in brackets, with the digits that tell it from the limit; or nothing."""
    if lo is None or hi is None or judgement.confidence is None:
        return ""
    digits = show.count_decimals_apart(lo, hi, limit)
    level = _format_level(judgement.confidence)
    return f" ({level} CI {show.format_decimal(lo, digits)} to {show.format_decimal(hi, digits)})"


def _format_level(confidence: float) -> str:
    """A confidence level with as many digits as it takes: 95%, 98.3%, 99.75%."""
    digits = 1 + max(0, -math.floor(math.log10(100 * (1 - confidence))))
    return f"{100 * confidence:.{digits}f}".rstrip("0").rstrip(".") + "%"

"""The rows of a gate's table that hold the drop below a baseline to a limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text as show
from rankql.decisions.gate_limits import GateLimit
from rankql.decisions.gate_means import undefined_row
from rankql.decisions.gate_text import describe_inconclusive, format_drop_interval, format_limit
from rankql.decisions.margin_decisions import Judgement, Margin
from rankql.decisions.paired_runs import BASELINE, RUN, PairedRuns
from rankql.decisions.rounding import ROUNDING
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED, TOO_FEW

if TYPE_CHECKING:
    from rankql.decisions.noninferiority import NoninferiorityTest
    from rankql.decisions.sample import Sample


def drop_rows(
    limit: GateLimit, pairs: PairedRuns, test: NoninferiorityTest | None, min_queries: int
) -> Iterator[dict[str, Any]]:
    """The rows of a limit on drops: by interval, or without `test` by the means alone."""
    name, summary = limit.name(pairs.result), pairs.result.summary
    summary = summary.filter(pl.col("metric") == name)
    slices, losses = pairs.slices(name), pairs.losses(name)
    lower = pairs.result.lower_is_better(name)
    identical = [part for part, sample in losses.items() if _is_identical(sample)]
    judgements: Mapping[str, Judgement] = {}
    if test:
        samples = {part: sample for part, sample in losses.items() if part not in identical}
        margin = Margin(limit.bound, required=limit.bound > 0)
        judgements = test.judge_slices(samples, margin)
    for row in summary.filter(pl.col("system") == "run").iter_rows(named=True):
        part, frame = row["slice"], slices[row["slice"]]
        if name in pairs.result.meta["weights"]:
            means = summary.filter(pl.col("slice") == part).sort("system")
            baseline, mean = means["mean"].to_list()
        else:
            baseline, mean = frame.select(pl.col(BASELINE, RUN).mean()).row(0)
        if baseline is None or mean is None:
            yield undefined_row(limit, pairs.result, row, min_queries, " in both")
            continue
        loss = (mean - baseline) * (1 if lower else -1)
        small = part != "all" and len(frame) < min_queries
        judgement = judgements.get(part) or _judge_means(loss, limit.bound, small)
        change = MeanChange(
            limit.bound, lower, baseline, mean, len(frame), judgement, part in identical,
            min_queries,
        )  # fmt: skip
        yield limit.row(pairs.result, slice=part, **change.columns())


def recommend_limit(limit: GateLimit, pairs: PairedRuns, test: NoninferiorityTest) -> list[str]:
    """A note on the smallest limit that so many queries can be held to."""
    from rankql.decisions.noninferiority import mean_interval, testable_margin

    name = limit.name(pairs.result)
    sample = pairs.losses(name).get("all")
    if sample is None or sample.units < 2 or sample.constant:
        return []
    interval = mean_interval(sample, test.test, test.options)
    margin = interval and testable_margin(sample, interval, test.options.alpha)
    if not margin:
        return []
    option = f"{name}:{margin:g}"
    return [
        f"{name} has no limit, so that only a significant drop fails. These "
        f"{show.format_queries(len(sample.differences))} can test a limit of about {margin:g}: "
        f"max_drop='{option}' (CLI: --max-drop '{option}')"
    ]


def _is_identical(sample: Sample) -> bool:
    return bool(abs(sample.differences).max() <= sample.rounding)


def _judge_means(loss: float, bound: float, small: bool) -> Judgement:
    """The decision by the means alone."""
    if small:
        return Judgement(TOO_FEW)
    return Judgement(PASSED if loss <= bound + ROUNDING else FAILED)


@dataclass(frozen=True)
class MeanChange:
    """How a mean changed from the baseline to the run, and what was decided about it."""

    limit: float
    lower_is_better: bool
    baseline: float
    mean: float
    n: int
    judgement: Judgement
    identical: bool
    min_queries: int

    @property
    def loss(self) -> float:
        """How much worse the run is."""
        return (self.mean - self.baseline) * (1 if self.lower_is_better else -1)

    def columns(self) -> dict[str, Any]:
        """The columns of the row."""
        lo, hi = self.judgement.interval(0.0, 1 if self.lower_is_better else -1)
        return {
            "mean": self.mean, "baseline": self.baseline, "difference": self.mean - self.baseline,
            "lo": lo, "hi": hi, "n": self.n, "status": self.judgement.decision,
            "message": self.message(), **self.judgement.columns(),
        }  # fmt: skip

    def message(self) -> str:
        """What was found, in a sentence."""
        decision, change, limit = (
            self.judgement.decision,
            self._describe(),
            format_limit(self.limit),
        )
        limit, word = format_limit(self.limit), "rise" if self.lower_is_better else "drop"
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
        lo, hi = self.judgement.interval(0.0, sign)
        if lo is None or hi is None:
            everywhere = " in every query" if self.judgement.constant else ""
            return words.format(show.format_number(abs(self.loss))) + everywhere
        digits = show.count_decimals_apart(lo, hi, sign * self.limit)
        size = show.format_decimal(
            abs(self.loss), max(digits, -math.floor(math.log10(abs(self.loss) or 1)))
        )
        return words.format(size) + format_drop_interval(lo, hi, self.judgement, sign * self.limit)

"""The tests of a gate: each limit as a test of non-inferiority, by slice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import polars as pl
from scipy import special

from rankql import text
from rankql.decisions.gate_limits import GateLimit
from rankql.decisions.gate_rows import format_level
from rankql.decisions.margin import Judgement, Margin
from rankql.decisions.system_values import PairedRuns, SystemValues
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED, TOO_FEW
from rankql.errors import RankqlError
from rankql.evaluation.result import Result
from rankql.stats.means import constant_interval
from rankql.stats.power import POWER
from rankql.stats.sample import Sample
from rankql.stats.tests import SkewedStudent


def judge_means(
    limits: Sequence[GateLimit], run: Result, cluster: str | None, alpha: float, min_queries: int
) -> list[dict[str, Judgement]]:
    """Hold the interval of each mean to its limit."""
    require_intervals(limits, run)
    rows = run.frame().with_columns(pl.lit("run").alias("system"))
    values = SystemValues.of(replace(run, values=rows), ["run"], cluster)
    judgements = []
    for limit in limits:
        samples = {}
        for part in values.slices:
            defined, _, clusters, weights = values.pair(limit.name(run), "run", "run", part)
            if len(defined):
                samples[part] = Sample(limit.sign * (defined - limit.bound), clusters, weights)
        low, high = sorted(limit.sign * (x - limit.bound) for x in values.range(limit.name(run)))
        decided = judge_slices(samples, limit.margin, alpha, min_queries, (low, high))
        judgements.append({part: x.within(low, high) for part, x in decided.items()})
    return judgements


def judge_drops(
    limit: GateLimit, pairs: PairedRuns, alpha: float, min_queries: int
) -> dict[str, Judgement]:
    """Hold the interval of each drop to its limit; slices without any difference are left out."""
    losses = pairs.losses(limit.name(pairs.result))
    changed = {
        part: sample for part, sample in losses.items()
        if not sample.is_zero
    }  # fmt: skip
    largest = pairs.values.largest_difference(limit.name(pairs.result))
    decided = judge_slices(changed, limit.margin, alpha, min_queries)
    return {part: judgement.within(-largest, largest) for part, judgement in decided.items()}


def require_intervals(limits: Sequence[GateLimit], run: Result) -> None:
    """Refuse to test a metric that is one value for all queries."""
    for limit in limits:
        if (name := limit.name(run)) in run.overall_metrics:
            raise RankqlError(
                f"{name} is one value for all queries, so it has no confidence interval. Set a "
                "limit on its value with minimum= (CLI: --min) alone, or on its drop with "
                "max_drop= (CLI: --max-drop)"
            )


def recommend_limit(limit: GateLimit, pairs: PairedRuns, alpha: float) -> list[str]:
    """A note on the smallest limit that this number of queries can test."""
    name = limit.name(pairs.result)
    sample = pairs.losses(name).get("all")
    if sample is None or sample.units < 2 or sample.constant:
        return []
    interval = loss_interval(sample, alpha)
    margin = interval and testable_margin(sample, interval, alpha)
    if not margin:
        return []
    queries = text.format_queries(len(sample.values))
    if margin >= pairs.values.largest_difference(name):
        advice = "are too few to test any other limit"
    else:
        option = f"'{name}:{margin:g}'"
        advice = (
            f"can test a limit of about {margin:g}: max_drop={option} (CLI: --max-drop {option})"
        )
    return [f"{name} has no limit, so only a significant drop fails. These {queries} {advice}"]


def describe_rule(limits: str, alpha: float, sliced: bool, no_limit: bool) -> list[str]:
    """Notes on how these limits are tested."""
    notes = [
        f"{limits} passes if the {format_level(1 - alpha)} confidence interval (CI) is within it, "
        "fails if the CI is beyond it, and is inconclusive otherwise. CIs are Student's t, widened "
        "for skewed values"
    ]
    if no_limit:
        notes.append("A limit of 0 on a drop fails only if the CI is beyond it")
    if sliced:
        notes.append("CIs of slices are adjusted for the number of slices (Holm)")
    return notes


# The lower and the higher end of an interval or a range.
Ends: TypeAlias = tuple[float, float]


def judge_slices(
    samples: Mapping[str, Sample],
    margin: Margin,
    alpha: float,
    min_queries: int,
    ends: Ends | None = None,
) -> dict[str, Judgement]:
    """Test the mean of every slice against the margin.

    The overall test is not adjusted. Slices are adjusted among themselves, and so are slices with
    fewer than `min_queries` queries, so that they do not weaken the others. ends: the range of the
    losses, so that equal losses have an interval too; without it they need none.
    """
    parts = [part for part in samples if part != "all"]
    large = [x for x in parts if len(samples[x].values) >= min_queries]
    small = [x for x in parts if x not in large]
    judgements: dict[str, Judgement] = {}
    for family in (["all"] if "all" in samples else [], large, small):
        decided = judge_samples([samples[part] for part in family], margin, alpha, ends)
        judgements |= dict(zip(family, decided, strict=True))
    for part in small:
        # A small slice fails only if its losses cannot all have the same sign by chance.
        possible = 2.0 ** (1 - samples[part].units) <= alpha / len(small)
        if judgements[part].decision != FAILED or not possible:
            undecided = replace(judgements[part], decision=TOO_FEW, queries_needed=None)
            judgements[part] = undecided
    return judgements


def judge_samples(
    samples: Sequence[Sample], margin: Margin, alpha: float, ends: Ends | None = None
) -> list[Judgement]:
    """Test the mean of every sample against the margin, adjusted for their number (Holm).

    Each stage computes the intervals of all undecided samples at level alpha / (their number). A
    sample whose interval excludes the margin is decided. The others keep their last level.
    """
    judgements = {
        i: _judge_without_interval(sample, margin, ends) for i, sample in enumerate(samples)
    }
    undecided = [i for i, judgement in judgements.items() if judgement is None]
    while undecided:
        level = alpha / len(undecided)
        decided = []
        for i in undecided:
            interval = loss_interval(samples[i], level, ends)
            judgements[i] = _judge_interval(samples[i], margin, interval, level, ends)
            if interval and margin.excluded(*interval):
                decided.append(i)
        if not decided:
            break
        undecided = [i for i in undecided if i not in decided]
    return [judgement for judgement in judgements.values() if judgement is not None]


def _judge_without_interval(sample: Sample, margin: Margin, ends: Ends | None) -> Judgement | None:
    """The decision if no interval is needed or possible; None otherwise."""
    if sample.units < 2:
        unknown = margin.required or not margin.holds(sample.mean)
        return Judgement(INCONCLUSIVE if unknown else PASSED)
    if sample.constant and ends is None:
        return Judgement(margin.decide(sample.mean, sample.mean), constant=True)
    return None


def _judge_interval(
    sample: Sample, margin: Margin, interval: Ends | None, level: float, ends: Ends | None
) -> Judgement:
    confidence = 1.0 - level
    if interval is None:
        return Judgement(INCONCLUSIVE, confidence=confidence)
    decision, needed = margin.decide(*interval), None
    if decision == INCONCLUSIVE:
        if sample.constant and ends is not None:
            needed = _equal_losses_to_decide(sample.mean, margin.size, level, ends)
        else:
            needed = queries_to_decide(sample, margin.size, interval, level)
    return Judgement(decision, *interval, confidence, needed)


def loss_interval(sample: Sample, alpha: float, ends: Ends | None = None) -> Ends | None:
    """Student's confidence interval of the mean, widened for skewness; None if there is none.

    ends: the range of the losses, from which the interval of equal losses follows.
    """
    if sample.constant:
        return ends and constant_interval(sample.mean, sample.units, *ends, 1 - alpha)
    result = SkewedStudent().apply(sample, alpha)
    return None if result.lo is None or result.hi is None else (result.lo, result.hi)


def queries_to_decide(
    sample: Sample, margin: float, interval: tuple[float, float], level: float
) -> int | None:
    """About how many queries would decide, if the true mean and spread are those of the sample.

    With a power of 80%, rounded up to two digits. None if the mean is so close to the margin that
    it would take more than a billion.
    """
    lo, hi = interval
    gap = abs(margin - sample.mean)
    width = hi - sample.mean if sample.mean < margin else sample.mean - lo
    needed = _with_power(sample, width, level)
    if needed > 1e5 * gap:  # its square, for two queries, is beyond a billion
        return None
    count = len(sample.values) * (needed / gap) ** 2
    return None if count > 1e9 else int(_rounded_up(count))


def _equal_losses_to_decide(loss: float, margin: float, level: float, ends: Ends) -> int | None:
    """How many equal losses decide, by `constant_interval`; None as in `queries_to_decide`."""
    end = ends[1] if loss < margin else ends[0]
    share = (end - margin) / (end - loss) if end != loss else 1.0
    count = math.log(level / 2) / math.log(share) if 0 < share < 1 else math.inf
    return None if count > 1e9 else int(_rounded_up(count))


def testable_margin(sample: Sample, interval: tuple[float, float], level: float) -> float | None:
    """The margin that a run without a loss passes with a power of 80%."""
    width = interval[1] - sample.mean
    return _rounded_up(_with_power(sample, width, level)) if width > sample.rounding else None


def _with_power(sample: Sample, width: float, level: float) -> float:
    """How far the true mean must be from the margin, given the interval's width on that side."""
    quantile = float(special.stdtrit(sample.freedom, 1 - level / 2))
    return width * (1 + float(special.ndtri(POWER)) / quantile)


def _rounded_up(value: float) -> float:
    """The value, rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(round(value / unit, 9)) * unit:.6g}")

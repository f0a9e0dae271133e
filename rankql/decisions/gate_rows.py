"""The rows of a gate's table: each limit held to the intervals of its slices, and a message."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankql import text
from rankql.decisions.gate_limits import GateLimit
from rankql.decisions.system_values import SystemValues
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED, SCHEMA, TOO_FEW
from rankql.errors import RankqlError
from rankql.evaluation.result import Result
from rankql.stats.family import Family
from rankql.stats.means import ROUNDING, Interval
from rankql.stats.power import queries_to_decide, testable_margin
from rankql.stats.sample import Sample
from rankql.stats.tests import MeanTest, SkewedStudent, TestResult

_BEYOND = {">=": "below", "<=": "above", ">": "not above", "<": "not below", "": "beyond"}


@dataclass(frozen=True)
class LimitRule:
    """How a limit is decided: by intervals at this level, or by the values alone if None."""

    alpha: float | None
    min_queries: int
    # Are the rankings of both systems the same, so that nothing can have dropped?
    identical: bool = False


@dataclass(frozen=True)
class Decision:
    """A status, and the interval that led to it with its level."""

    status: str
    interval: Interval | None = None
    confidence: float | None = None
    queries_needed: int | None = None


def limit_rows(
    limit: GateLimit, result: Result, values: SystemValues, rule: LimitRule
) -> Iterator[dict[str, Any]]:
    """The rows of a limit on a mean, or on the drop of a run below its baseline, by slice."""
    name = limit.name(result)
    target, sign = limit.target(name in values.lower)
    systems = [system for system in ("baseline", "run") if system in values.systems]
    samples = {part: values.sample(name, systems, part) for part in values.slices}
    rows = result.summary.filter(metric=name).rows(named=True)
    summary = {(row.get("system", "run"), row["slice"]): row for row in rows}
    per_query = name not in result.overall_metrics
    if limit.operator and rule.alpha is not None:
        _require_interval(name, result)
    means = {}
    for part in samples:
        means[part] = [summary[system, part]["mean"] for system in systems]
        if per_query and len(systems) > 1:  # over the queries of both
            means[part] = values.means(name, systems, part)
    defined = {part: x for part, x in samples.items() if None not in means[part]}
    gains = {part: sign * (_change(means[part]) - target) for part in defined}
    decisions = {part: _decide_by_value(limit, gains[part], part, x, rule)
                 for part, x in defined.items()}  # fmt: skip
    if rule.alpha is not None and per_query and not rule.identical:
        decisions |= _decide_by_interval(limit, target, sign, defined, rule)
    for part in samples:
        row, decision = summary["run", part], decisions.get(part)
        if decision is None:
            decision, message = _describe_undefined(row, values, part, rule, len(systems) > 1)
        else:
            message = _describe(limit, decision, means[part], name in values.lower,
                                len(samples[part].values), row, rule)  # fmt: skip
            if not per_query:
                message += " (one value for all queries: no confidence interval)"
        change = "rise" if name in values.lower else "drop"
        lo, hi = decision.interval or (None, None)
        yield dict.fromkeys(SCHEMA) | {
            "check": f"{name} {limit.operator or f'{change} <='} {limit.text}",
            "metric": name,
            "slice": part,
            "mean": means[part][-1],
            "baseline": means[part][0] if len(systems) > 1 else None,
            "limit": limit.bound,
            "difference": _change(means[part]) if len(systems) > 1 and part in defined else None,
            "lo": lo,
            "hi": hi,
            "confidence": decision.confidence if decision.interval else None,
            "n": len(samples[part].values) if per_query else row["queries"] - row["undefined"],
            "queries_needed": decision.queries_needed,
            "status": decision.status,
            "message": message,
        }


def _change(means: Sequence[float]) -> float:
    """The mean of the run, or its difference from the baseline."""
    return means[-1] - (means[0] if len(means) > 1 else 0.0)


def _decide_by_value(
    limit: GateLimit, gain: float, part: str, sample: Sample, rule: LimitRule
) -> Decision:
    if rule.identical:
        return Decision(PASSED)
    if part != "all" and len(sample.values) < rule.min_queries:
        return Decision(TOO_FEW)
    return Decision(PASSED if limit.holds(gain) else FAILED)


def _decide_by_interval(
    limit: GateLimit, target: float, sign: int, samples: Mapping[str, Sample], rule: LimitRule
) -> dict[str, Decision]:
    """Test every slice against the limit, without a decision where there is no interval.

    The overall test is not adjusted. Slices are adjusted among themselves (Holm), and so are small
    slices, so that they do not weaken the others. A small one never passes, and fails only if its
    queries cannot all have lost by chance.
    """
    assert rule.alpha is not None
    slices = [part for part in samples if part != "all"]
    small = [part for part in slices if len(samples[part].values) < rule.min_queries]
    families = [["all"], [part for part in slices if part not in small], small]
    test = MeanTest() if limit.operator else SkewedStudent()
    decisions = {}
    for family in families:
        shifted = {part: samples[part].minus(target) for part in family if part in samples}
        found = Family([*shifted.values()], test, "holm", rule.alpha).results()
        for (part, sample), result in zip(shifted.items(), found, strict=True):
            decision = _decide(limit, target, sign, sample, result)
            few = len(sample.values) < rule.min_queries
            lucky = 2.0 ** (1 - sample.units) > rule.alpha / len(shifted)
            if few and (decision.status != FAILED or lucky):
                status = INCONCLUSIVE if part == "all" else TOO_FEW
                decision = replace(decision, status=status, queries_needed=None)
            decisions[part] = decision
    return decisions


def _decide(
    limit: GateLimit, target: float, sign: int, sample: Sample, result: TestResult
) -> Decision:
    """The decision for a sample from which the limit is subtracted."""
    if result.lo is None or result.hi is None or result.level is None:
        return Decision(INCONCLUSIVE)
    worst, best = sorted((sign * result.lo, sign * result.hi))
    status, needed = INCONCLUSIVE, None
    if not limit.holds(best):
        status = FAILED
    elif limit.holds(worst) or not (limit.operator or limit.bound):
        status = PASSED
    else:
        needed = queries_to_decide(sample, Interval(result.lo, result.hi), result.level)
    interval = Interval(result.lo + target, result.hi + target)
    return Decision(status, interval, 1.0 - result.level, needed)


def _describe_undefined(
    row: Mapping[str, Any], values: SystemValues, part: str, rule: LimitRule, both: bool
) -> tuple[Decision, str]:
    """The decision and message where no query has a value, or none has a weight."""
    places, queries = values.slices[part], text.format_queries(row["queries"])
    weighed = len(places) if values.weights is None else np.count_nonzero(values.weights[places])
    if not weighed:
        return Decision(TOO_FEW), f"all {queries} have weight 0: not checked"
    message = f"undefined: none of {queries} has a value{' in both' if both else ''}"
    if part != "all" and weighed < rule.min_queries:
        return Decision(TOO_FEW), f"{message}, fewer than {rule.min_queries}: not checked"
    return Decision(FAILED), message


def _describe(
    limit: GateLimit, decision: Decision, means: Sequence[float], lower_is_better: bool,
    n: int, row: Mapping[str, Any], rule: LimitRule,
) -> str:  # fmt: skip
    """What was found, and why it passes or fails."""
    (target, sign), queries = limit.target(lower_is_better), text.format_queries(row["queries"])
    if limit.operator:
        words = _format(means[-1], decision, 1, limit.bound)
        words += f" over {queries}" if n == row["queries"] else f" over {n:,} of {queries}"
        worse = False
    else:
        change = _change(means)
        worse = sign * change < -ROUNDING
        shown = -sign if worse or abs(change) <= ROUNDING else sign
        verb = ("rose" if sign < 0 else "dropped") if worse else "improved"
        size = _format(abs(change), decision, shown, shown * target)
        words = f"{verb} by {size}"
        if abs(change) <= ROUNDING:
            words = "identical rankings" if rule.identical else f"no change on average: {size}"
    status = decision.status
    if n < rule.min_queries and status in (TOO_FEW, INCONCLUSIVE):
        few = f", fewer than {rule.min_queries} queries" if limit.operator else (
            f" over {text.format_queries(n)}, fewer than {rule.min_queries}")  # fmt: skip
        return f"{words}{few}: {'not checked' if status == TOO_FEW else 'inconclusive'}"
    if status == FAILED:
        return f"{words}, {_BEYOND[limit.operator]} the limit of {limit.text}"
    if status == INCONCLUSIVE and decision.interval is None:
        return f"{words}. Inconclusive: there is no confidence interval of {queries}"
    if status == INCONCLUSIVE:
        needed = decision.queries_needed
        many = f"About {needed:,}" if needed else "More than a billion"
        return (
            f"{words}. Inconclusive: the interval contains the limit of {limit.text}. {many} "
            "queries would decide"
        )
    if worse and not limit.bound and decision.interval:
        return f"{words}: not significant"
    return f"{words}, within the limit of {limit.text}" if worse else words


def _format(value: float, decision: Decision, sign: int, limit: float) -> str:
    """A number with its interval, with the digits that show on which side of the limit they are."""
    if decision.interval is None or decision.confidence is None:
        number = text.format_decimal(value, text.count_decimals_apart(value, value, limit))
        return number.rstrip("0").rstrip(".") if "." in number else number
    lo, hi = sorted(sign * x for x in decision.interval)
    digits = text.count_decimals_apart(lo, hi, limit)
    size = text.format_decimal(value, max(digits, -math.floor(math.log10(abs(value) or 1))))
    ends = " to ".join(text.format_decimal(x, digits) for x in (lo, hi))
    return f"{size} ({format_level(decision.confidence)} CI {ends})"


def _require_interval(name: str, result: Result) -> None:
    if name in result.overall_metrics:
        raise RankqlError(
            f"{name} is one value for all queries, so it has no confidence interval. Set a limit "
            "on its value with minimum= (CLI: --min) alone, or on its drop with max_drop= (CLI: "
            "--max-drop)"
        )


def describe_rule(
    minima: Sequence[GateLimit], drops: Sequence[GateLimit], rules: Mapping[str, LimitRule],
    sliced: bool,
) -> list[str]:  # fmt: skip
    """Notes on how limits are tested by intervals."""
    tested = [(minima, rules["mean"], "a mean"), (drops, rules[""], "a drop")]
    by_interval = [word for limits, rule, word in tested if limits and rule.alpha is not None]
    alpha = rules["mean"].alpha or rules[""].alpha
    if not by_interval or alpha is None:
        return []
    every = len(by_interval) == sum(bool(limits) for limits, *_ in tested)
    which = "A limit" if every else f"A limit on {by_interval[0]}"
    notes = [
        f"{which} passes if the {format_level(1 - alpha)} confidence interval (CI) is within it, "
        "fails if the CI is beyond it, and is inconclusive otherwise"
    ]
    if rules[""].alpha is not None and any(not limit.bound for limit in drops):
        notes.append("A limit of 0 on a drop fails only if the CI is beyond it")
    return notes + ["CIs of slices are adjusted for the number of slices (Holm)"] * sliced


def recommend_limit(
    limit: GateLimit, pair: Result, values: SystemValues, alpha: float
) -> list[str]:
    """A note on the smallest limit on a drop that this number of queries can test."""
    name = limit.name(pair)
    _require_interval(name, pair)
    sample = values.sample(name, values.systems, "all")
    result = SkewedStudent().apply(sample, alpha)
    if result.lo is None or result.hi is None or sample.constant:
        return []
    margin = testable_margin(sample, Interval(result.lo, result.hi), alpha)
    queries = text.format_queries(len(sample.values))
    advice = "are too few to test any other limit"
    if margin < sample.highest:
        option = f"'{name}:{margin:g}'"
        advice = (
            f"can test a limit of about {margin:g}: max_drop={option} (CLI: --max-drop {option})"
        )
    return [f"{name} has no limit, so only a significant drop fails. These {queries} {advice}"]


def format_level(confidence: float) -> str:
    """A confidence level with as many digits as it needs: 95%, 98.3%, 99.75%."""
    digits = 1 + max(0, -math.floor(math.log10(100 * (1 - confidence))))
    return f"{100 * confidence:.{digits}f}".rstrip("0").rstrip(".") + "%"

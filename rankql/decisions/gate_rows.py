"""The rows of a gate's table: a limit, the values held to it, the decision and a message."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text
from rankql.decisions.gate_limits import GateLimit
from rankql.decisions.margin import Judgement
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED, SCHEMA, TOO_FEW
from rankql.evaluation.result import Result
from rankql.macros import MISSING
from rankql.stats.means import ROUNDING

if TYPE_CHECKING:
    from rankql.decisions.system_values import PairedRuns

_TOO_FEW = ", fewer than {}: not checked"
_BEYOND = {">=": "below", "<=": "above", ">": "not above", "<": "not below"}


def mean_rows(
    limit: GateLimit, run: Result, judgements: Mapping[str, Judgement], min_queries: int
) -> Iterator[dict[str, Any]]:
    """The rows of a limit on a mean, decided by the judgements of slices, or by the mean itself."""
    name, counts, idle = limit.name(run), _count_queries(run), _idle_slices(run)
    for row in run.summary.filter(pl.col("metric") == name).iter_rows(named=True):
        mean, part, queries = row["mean"], row["slice"], row["queries"]
        n = counts.get((part, name), 0)
        if mean is None:
            yield _undefined_row(limit, run, row, min_queries, part in idle)
            continue
        judgement = judgements.get(part)
        if judgement is None:
            within = limit.margin.holds(limit.sign * (mean - limit.bound))
            judgement = Judgement(_decide(within, part, n, min_queries))
        interval = judgement.interval(limit.sign, limit.bound)
        size = _format_value(mean, interval, limit.bound)
        message = f"{size}{_format_interval(interval, judgement, limit.bound)} over "
        message += f"{'' if n == queries else f'{n:,} of '}{text.format_queries(queries)}"
        if judgement.decision == FAILED:
            message += f", {_BEYOND[limit.operator]} the limit of {limit.text}"
        elif judgement.decision == TOO_FEW:
            message += _TOO_FEW.format(min_queries)
        elif judgement.decision == INCONCLUSIVE:
            unclear = f"the mean may be on either side of {limit.text}"
            message += f". {_describe_inconclusive(judgement, n, unclear)}"
        yield _row(limit, run, part, n, judgement, interval, mean=mean, message=message)


def _count_queries(run: Result) -> dict[tuple[str, str], int]:
    """The number of queries of each mean, by slice and metric."""
    rows = run.frame()
    if run.conventions["missing"] == "skip":
        rows = rows.filter(~pl.col(MISSING))
    if weight := run.meta.weight:
        rows = rows.filter(pl.col(weight) > 0)
    counts = replace(run, values=rows, _summary=None).summary.select("slice", "metric", run.counted)
    return {(part, name): queries for part, name, queries in counts.iter_rows()}


def _idle_slices(result: Result) -> set[str]:
    """The slices in which every query has weight 0."""
    if (weight := result.meta.weight) is None:
        return set()
    weighed = replace(result, values=result.frame().filter(pl.col(weight) > 0), _summary=None)
    return {*result.summary["slice"]} - {*weighed.summary["slice"]}


def drop_rows(
    limit: GateLimit,
    pairs: PairedRuns,
    judgements: Mapping[str, Judgement] | None,
    min_queries: int,
) -> Iterator[dict[str, Any]]:
    """The rows of a limit on drops, decided by the judgements of slices, or by the means if None.

    Slices that lack a judgement have no difference at all.
    """
    name = limit.name(pairs.result)
    lower, idle = name in pairs.values.lower, _idle_slices(pairs.result)
    summary = pairs.result.summary.filter(pl.col("metric") == name)
    means = {(row["system"], row["slice"]): row["mean"] for row in summary.iter_rows(named=True)}
    for row in summary.filter(pl.col("system") == "run").iter_rows(named=True):
        part = row["slice"]
        n = len(pairs.values.pair(name, "baseline", "run", part)[0])
        if name in pairs.result.catalogue_metrics:
            n = row["queries"]
        if name in pairs.result.overall_metrics:
            base, mean = means["baseline", part], means["run", part]
        else:
            base, mean = pairs.means(name, part)
        if base is None or mean is None:
            yield _undefined_row(limit, pairs.result, row, min_queries, part in idle, " in both")
            continue
        difference = mean - base
        loss = difference if lower else -difference
        judgement = (judgements or {}).get(part)
        identical = judgements is not None and judgement is None
        if judgement is None:
            within = identical or limit.margin.holds(loss)
            judgement = Judgement(_decide(within, part, n, min_queries))
        change = "no difference" if identical else _describe_change(limit, lower, loss, judgement)
        if name in pairs.result.overall_metrics:
            change += " (one value for all queries: no confidence interval)"
        message = _describe_drop(change, limit, lower, loss, n, judgement, min_queries)
        interval = judgement.interval(1 if lower else -1)
        yield _row(
            limit, pairs.result, part, n, judgement, interval, mean=mean, baseline=base,
            difference=difference, message=message,
        )  # fmt: skip


def _describe_drop(
    change: str, limit: GateLimit, lower: bool, loss: float, n: int,
    judgement: Judgement, min_queries: int,
) -> str:  # fmt: skip
    """The message of a limit on drops."""
    word = "rise" if lower else "drop"
    beyond = loss > limit.bound + ROUNDING
    decision = judgement.decision
    if decision == TOO_FEW:
        note = f" (beyond the limit of {limit.text})" if beyond else ""
        queries = f"{text.format_queries(n)}, fewer than {min_queries}"
        return f"{change}{note} over {queries}: not checked"
    if decision == INCONCLUSIVE:
        side = "within" if beyond else "beyond"
        unclear = f"a {word} {side} the limit of {limit.text} cannot be ruled out"
        return f"{change}. {_describe_inconclusive(judgement, n, unclear)}"
    if judgement.confidence is not None and not limit.bound:
        if decision == FAILED:
            return f"{change}: a significant {word}"
        return f"{change}: not significant" if loss > ROUNDING else change
    if decision == FAILED:
        return f"{change}, beyond the limit of {limit.text}"
    return f"{change}, within the limit of {limit.text}" if loss > ROUNDING else change


def _describe_change(limit: GateLimit, lower: bool, loss: float, judgement: Judgement) -> str:
    """The change of the mean in words, with its interval."""
    sign = 1 if loss > 0 or abs(loss) <= ROUNDING else -1
    interval, bound = judgement.interval(sign), sign * limit.bound
    words = "no change on average"
    if abs(loss) > ROUNDING:
        verb = ("rose" if lower else "dropped") if loss > 0 else "improved"
        words = f"{verb} by {_format_value(abs(loss), interval, bound)}"
    everywhere = " in every query" if judgement.constant else ""
    return f"{words}{_format_interval(interval, judgement, bound)}{everywhere}"


def _format_value(value: float, interval: tuple[float, float] | None, limit: float) -> str:
    """A number with as many digits as its interval supports, or as show its side of the limit."""
    if interval is not None:
        digits = text.count_decimals_apart(*interval, limit)
        return text.format_decimal(value, max(digits, -math.floor(math.log10(abs(value) or 1))))
    number = text.format_decimal(value, text.count_decimals_apart(value, value, limit))
    return number.rstrip("0").rstrip(".") if "." in number else number


def _format_interval(
    interval: tuple[float, float] | None, judgement: Judgement, limit: float
) -> str:
    """The interval in brackets, with the digits that show its side of the limit; '' if None."""
    if interval is None or judgement.confidence is None:
        return ""
    digits = text.count_decimals_apart(*interval, limit)
    lo, hi = (text.format_decimal(x, digits) for x in interval)
    return f" ({format_level(judgement.confidence)} CI {lo} to {hi})"


def _describe_inconclusive(judgement: Judgement, n: int, unclear: str) -> str:
    """Why a limit is inconclusive, and how many queries would decide it."""
    if judgement.lo is None:
        return f"Inconclusive: there is no confidence interval of {text.format_queries(n)}"
    needed = judgement.queries_needed
    many = f"About {needed:,} queries" if needed else "More than a billion queries"
    return f"Inconclusive: {unclear}. {many} would decide"


def format_level(confidence: float) -> str:
    """A confidence level with as many digits as it needs: 95%, 98.3%, 99.75%."""
    digits = 1 + max(0, -math.floor(math.log10(100 * (1 - confidence))))
    return f"{100 * confidence:.{digits}f}".rstrip("0").rstrip(".") + "%"


def _decide(within: bool, part: str, n: int, min_queries: int) -> str:
    """The decision where no interval is needed."""
    if part != "all" and n < min_queries:
        return TOO_FEW
    return PASSED if within else FAILED


def _undefined_row(
    limit: GateLimit,
    run: Result,
    row: Mapping[str, Any],
    min_queries: int,
    idle: bool,
    where: str = "",
) -> dict[str, Any]:
    """The row of a mean for which no query has a value, or none has a weight."""
    if idle:
        message = f"all {text.format_queries(row['queries'])} have weight 0: not checked"
        return _row(limit, run, row["slice"], 0, Judgement(TOO_FEW), None, message=message)
    message = f"undefined: none of {text.format_queries(row['queries'])} has a value{where}"
    judgement = Judgement(_decide(False, row["slice"], row["queries"], min_queries))
    if judgement.decision == TOO_FEW:
        message += _TOO_FEW.format(min_queries)
    return _row(limit, run, row["slice"], 0, judgement, None, message=message)


def _row(
    limit: GateLimit, run: Result, part: str, n: int, judgement: Judgement,
    interval: tuple[float, float] | None, **values: Any,
) -> dict[str, Any]:  # fmt: skip
    """A row of the table."""
    name = limit.name(run)
    loss = "rise" if run.lower_is_better(name) else "drop"
    lo, hi = interval or (None, None)
    return dict.fromkeys(SCHEMA) | values | {
        "check": f"{name} {limit.operator or f'{loss} <='} {limit.text}",
        "metric": name,
        "slice": part,
        "limit": limit.bound,
        "lo": lo,
        "hi": hi,
        "confidence": None if interval is None else judgement.confidence,
        "n": n,
        "queries_needed": judgement.queries_needed,
        "status": judgement.decision,
    }  # fmt: skip

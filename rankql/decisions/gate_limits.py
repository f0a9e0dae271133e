"""The limits of a gate, such as 'nDCG@10>=0.45' and 'nDCG@10:0.01', and the rows of each."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from rankql.core.base import text
from rankql.core.base.errors import RankqlError, describe_unknown, parse_number
from rankql.core.evaluation.checks.record import UNREAD_GRADES
from rankql.core.evaluation.plan.meta import MEAN_OF_SLICES
from rankql.core.evaluation.result.result import Result
from rankql.core.metrics import parse
from rankql.core.metrics.metric_record import Metric
from rankql.core.stats.means import ROUNDING, Interval
from rankql.core.stats.tests import Betting, MeanTest, SkewedStudent, queries_to_decide, run_family
from rankql.core.tables.request import DEFAULT_METRICS
from rankql.decisions.pairs import PairComparison, describe_few
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, NOT_SIGNIFICANT, PASSED, SCHEMA, TOO_FEW

Limits: TypeAlias = str | Sequence[str] | Mapping[str, float]

# A limit on one slice starts with it: 'mean of slices:', 'all:', 'country=DE:' or 'day="12:30":'.
_SIDE = r"""(?:"[^"]*"|'[^']*'|[^"'=:,()<>]+)"""
_SLICE = re.compile(rf"\s*(?:all|{MEAN_OF_SLICES}|{_SIDE}={_SIDE}(?:,{_SIDE}={_SIDE})*)\s*")
_PART = re.compile(rf"(?P<part>{_SLICE.pattern}):(?P<rest>[^:].*)", re.DOTALL)
_NUMBER_AT_END = re.compile(r"(?:[<>]=?|:)\s*[-+.\de]+\s*$")
_DROP = re.compile(r"(?P<metric>.+):(?P<number>[^:]*)", re.DOTALL)
# By argument: how a limit is written, in general and for people.
_FORMS = {
    "minimum": (
        re.compile(r"(?P<metric>.+?)\s*(?P<operator>>=|<=|>|<)(?P<number>[^<>=]*)", re.DOTALL),
        "METRIC>=NUMBER, e.g. 'nDCG@10>=0.45' (or <=, >, <)",
    ),
    "max_drop": (_DROP, "METRIC:NUMBER with a number of at least 0, e.g. 'nDCG@10:0.01'"),
    "equivalence": (_DROP, "METRIC:NUMBER with a number above 0, e.g. 'nDCG@10:0.01'"),
}


@dataclass(frozen=True)
class GateLimit:
    """A limit on a mean (with an operator), or on its change from the baseline (without)."""

    spelling: str
    metric: Metric
    bound: float
    operator: str = ""
    # Of a limit on equivalence, which has two: 'drop' or 'gain'.
    side: str = ""
    # The only slice that it is on, if it names one: `attribute=value`, "all" or "mean of slices".
    part: str = ""
    # Did nobody set it?
    is_default: bool = False

    def name(self, result: Result) -> str:
        """The name of the metric in a result."""
        return parse.resolve_names(self.metric.name, result.metrics, result.conventions)[0]

    @property
    def text(self) -> str:
        """The number as text: 0.02, 1,000,000."""
        size = abs(self.bound)
        return f"{self.bound:,.15g}" if 1e3 <= size < 1e15 else f"{self.bound:g}"

    def target(self, lower_is_better: bool) -> tuple[float, int]:
        """The limit of the mean or the difference; 1 if it must be at least that, -1 at most."""
        if self.operator:
            return self.bound, 1 if self.operator.startswith(">") else -1
        return (self.bound, -1) if lower_is_better != (self.side == "gain") else (-self.bound, 1)

    @property
    def attributes(self) -> list[str]:
        """The attributes of the slice that it names."""
        return re.findall("(?:^|, )([^=,]+)=", self.part)

    def takes(self, part: str) -> bool:
        """Is it on this slice? Without a name, it is on all but the mean of slices."""
        if not self.part:
            return part != MEAN_OF_SLICES
        return sorted(self.part.split(", ")) == sorted(part.split(", "))

    def holds(self, margin: float) -> bool:
        """Whether a known value that is this far on the right side of the limit is within it."""
        return margin > ROUNDING if self.operator in (">", "<") else margin >= -ROUNDING


def parse_limits(argument: str, value: Limits, known: Sequence[Sequence[str]]) -> list[GateLimit]:
    """The limits of an argument. `known` has the metrics of each input that is a result."""
    (form, expected), limits = _FORMS[argument], list[GateLimit]()
    if isinstance(value, Mapping):
        least_of = {True: "<=", False: ">="} if argument == "minimum" else {True: ":", False: ":"}
        names = {x: _split_slice(x, known)[1].strip() for x in value}
        value = [f"{x}{least_of[parse.lower_is_better(names[x])]}{y}" for x, y in value.items()]
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(x, str) for x in texts):
        raise RankqlError(f"{argument}= must be a string or a list of strings, not {value!r}")
    for written in dict.fromkeys(limit for several in texts for limit in _split_text(several)):
        part, rest = _split_slice(written, known)
        match = form.fullmatch(rest.strip())
        if match is None and part:  # an expression, such as 'a = b:0.1'
            part, match = "", form.fullmatch(written)
        bound = parse_number(match["number"]) if match else None
        least = {"minimum": -math.inf, "max_drop": 0.0, "equivalence": math.ulp(0.0)}[argument]
        if match is None or bound is None or not math.isfinite(bound) or bound < least:
            raise RankqlError(
                f"Cannot parse the limit {written!r} of {argument}=. Expected {expected}"
            )
        for spelling, metric in _parse_metrics(match["metric"], known):
            _require_possible(f"{argument}={written!r}", metric, bound, argument == "minimum")
            sides = ("drop", "gain") if argument == "equivalence" else ("",)
            operator = match["operator"] if argument == "minimum" else ""
            number = bound + 0.0  # 0 for -0.0
            limits += [GateLimit(spelling, metric, number, operator, side, part) for side in sides]
    return limits


def _split_slice(text: str, known: Sequence[Sequence[str]]) -> tuple[str, str]:
    """The name of the slice that a limit starts with, '' without one, and the rest.

    The name has no quotes and no blanks around its attributes and values. Without quotes, a value
    such as that of 'time=12:30: RR>=0.1' ends at the last colon before a metric.
    """
    named = _PART.fullmatch(text)  # of a limit on an expression
    part, rest = (named["part"], named["rest"]) if named else ("", text)
    for colon in re.finditer(":", text):
        metric = re.split("[<>:]", text[colon.end() :])[0].strip()
        if any(metric in names for names in known) or parse.is_metric(metric):
            part, rest = text[: colon.start()], text[colon.end() :]
    if _SLICE.fullmatch(part):
        texts = [x[1:-1] if x[0] in "\"'" else x for x in map(str.strip, re.findall(_SIDE, part))]
        pairs = zip(texts[::2], texts[1::2], strict=False)
        return ", ".join(map("=".join, pairs)) or texts[0], rest
    attribute, equals, value = map(str.strip, part.partition("="))
    return (f"{attribute}={value}", rest) if equals else ("", text)


def _require_possible(text: str, metric: Metric, bound: float, on_mean: bool) -> None:
    """Refuse a limit that every value of the metric meets, or none."""
    lowest, highest = parse.value_range(metric.name)
    if metric.record is None or lowest is None or highest is None:
        return
    if not on_mean:
        if bound >= highest - lowest:
            raise RankqlError(
                f"{text} can never fail: {metric.name} is between {lowest:g} and {highest:g}. "
                "Choose a smaller margin"
            )
    elif bound > highest or (bound < lowest and not metric.record.sums_gains):
        between = "at most" if metric.record.sums_gains else f"between {lowest:g} and"
        raise RankqlError(
            f"{text}: {metric.name} is {between} {highest:g}. Choose a limit in this range"
        )


def default_drops(minima: Sequence[GateLimit], known: Sequence[Sequence[str]]) -> list[GateLimit]:
    """Limits of 0 if there is a baseline and no limit on a drop."""
    names: Sequence[str] = [limit.spelling for limit in minima]
    if not names:
        shared = [name for name in known[0] if name in known[-1]] if known else DEFAULT_METRICS
        names = [name for name in shared if not parse.lacks_direction(name)]
    parsed = (x for name in dict.fromkeys(names) for x in _parse_metrics(name, known))
    return [GateLimit(spelling, metric, 0.0, is_default=True) for spelling, metric in parsed]


def _split_text(text: str) -> list[str]:
    """The limits in a text: after a number, outside brackets and quotes, a comma starts another."""
    limits = [""]
    for piece in text.split(","):
        limits[-1] += piece
        ended = _NUMBER_AT_END.search(piece) and limits[-1].count("(") == limits[-1].count(")")
        ended = ended and limits[-1].count('"') % 2 == 0
        limits += [""] if ended else []
        limits[-1] += "" if ended else ","
    return [limit.strip() for limit in [*limits[:-1], limits[-1].rstrip(",")] if limit.strip()]


def _parse_metrics(text: str, known: Sequence[Sequence[str]]) -> Iterator[tuple[str, Metric]]:
    """The metrics of a name, each with the spelling for `evaluate`."""
    try:
        for metric in parse.parse_any(text):
            yield (metric.name if metric.record else text), metric
    except RankqlError:
        names = dict.fromkeys(itertools.chain(*known))
        if text in names:
            yield text, Metric(None, label=text)  # a column of the user
        elif all(map(parse.is_metric, names)):
            raise
        else:
            raise RankqlError(describe_unknown("metric", text, [*names])) from None


_BEYOND = {">=": "below", "<=": "above", ">": "not above", "<": "not below", "": "beyond"}


@dataclass(frozen=True)
class Decision:
    """A status, and the interval that led to it with its level."""

    status: str
    interval: Interval | None = None
    confidence: float | None = None
    queries_needed: int | None = None
    # Why no drop below a limit of 0 could have been significant.
    undecidable: str = ""


def limit_rows(
    limits: Sequence[GateLimit],
    pairs: Sequence[PairComparison],
    result: Result,
    alpha: float | None,
    min_queries: int = 10,
    anytime: bool = False,
) -> Iterator[dict[str, Any]]:
    """The rows of limits, by slice: decided by intervals at this level, or by the means if None.

    The pairs are those of the run with its baseline, or of the run alone for limits on means. Each
    side of an equivalence is a test of its own at twice the level. Anytime intervals bet.
    """
    for limit in limits:
        metric = limit.name(result)
        of_metric = [pair for pair in pairs if pair.metric == metric]
        of_metric = [x for x in of_metric if limit.takes(x.slice)]
        if not of_metric:
            known = [x.slice for x in pairs if x.metric == metric]
            unknown = describe_unknown("slice", limit.part, known)
            raise RankqlError(f"A limit on {limit.spelling}: {unknown[:-1]}")
        by_interval = limit.operator or limit.is_default
        if alpha is not None and by_interval and of_metric[0].overall is not None:
            raise RankqlError(
                f"{metric} is one value for all queries, so it has no confidence interval. Set a "
                "limit on its value with minimum= alone, or on its drop with max_drop="
            )
        level = 2 * alpha if alpha is not None and limit.side else alpha
        decisions = _decide(limit, of_metric, level, min_queries, anytime)
        for pair in of_metric:
            decision, several = decisions[pair.slice], not limit.operator
            way = "drop" if limit.target(pair.lower_is_better)[1] > 0 else "rise"
            lo, hi = decision.interval or (None, None)
            yield dict.fromkeys(SCHEMA) | {
                "check": f"{metric} {limit.operator or f'{way} <='} {limit.text}",
                "metric": metric,
                "slice": pair.slice,
                "mean": pair.means[-1],
                "baseline": pair.means[0] if several else None,
                "limit": limit.bound,
                "difference": pair.change if several else None,
                "lo": lo,
                "hi": hi,
                "confidence": decision.confidence,
                "n": pair.n,
                "queries_needed": decision.queries_needed,
                "status": decision.status,
                "message": _describe(limit, pair, decision, min_queries),
            }


def withhold(
    rows: Iterable[dict[str, Any]], result: Result, notes: Iterable[str]
) -> Iterator[dict[str, Any]]:
    """The rows, of which those that pass without having measured anything are inconclusive.

    If every judged item counts alike and a column that may have the grades is not read, a metric
    that is 1 for every query of all systems does not depend on the order."""
    every = {x.kind: x.level for x in map(text.Note.of, notes)}
    is_doubtful = every.get(UNREAD_GRADES) == "warning"
    values = result.frame() if is_doubtful else None
    for row in rows:
        named = parse.parse_any(row["metric"])[0] if parse.is_metric(row["metric"]) else None
        record = named and named.record
        if values is not None and row["status"] == PASSED:
            only_judged = record and record.reads_judged
            known = values[row["metric"]].drop_nulls()
            if not only_judged and len(known) and (known == 1).all():
                row |= {"status": INCONCLUSIVE, "message": f"{row['message']}. {_UNMEASURED}"}
        yield row


_UNMEASURED = (
    "Inconclusive: it is 1 for every query, as every judged item counts as equally relevant and a "
    "column that may have the grades is not read"
)


def _decide(
    limit: GateLimit,
    pairs: Sequence[PairComparison],
    alpha: float | None,
    min_queries: int,
    anytime: bool,
) -> dict[str, Decision]:
    """Hold every slice to the limit, by its interval or, if it has none, by its means.

    The overall test is not adjusted. Slices are adjusted among themselves (Holm), and so are small
    slices, so that they do not weaken the others. A small one never passes, and fails only if its
    queries cannot all have lost by chance. Of anytime intervals, all slices share the level, which
    must not depend on the data.
    """
    decisions = {}
    too_few = INCONCLUSIVE if "=" in limit.part else TOO_FEW  # who names a slice asks for it
    families: dict[Any, list[PairComparison]] = {}
    for pair in pairs:
        few = (pair.weighed if pair.change is None else pair.n) < min_queries
        target, sign = limit.target(pair.lower_is_better)
        if pair.identical and pair.change is not None:
            decisions[pair.slice] = Decision(PASSED)
        elif pair.change is not None and alpha is not None and pair.overall is None:
            family = "all" if pair.slice == "all" else few and not anytime
            families.setdefault(family, []).append(pair)
        elif not pair.weighed or (few and pair.slice != "all"):
            decisions[pair.slice] = Decision(too_few)
        else:
            holds = pair.change is not None and limit.holds(sign * (pair.change - target))
            decisions[pair.slice] = Decision(PASSED if holds else FAILED)
    test = Betting() if anytime else MeanTest() if limit.operator else SkewedStudent()
    correction = "bonferroni" if anytime else "holm"
    for members in families.values():
        target, sign = limit.target(members[0].lower_is_better)
        samples = [pair.sample.minus(target) for pair in members]
        assert alpha is not None
        floors = not (limit.operator or target or anytime)
        results = run_family(samples, test, correction, alpha, floors)
        for pair, sample, result in zip(members, samples, results, strict=True):
            p = result.p_adjusted if floors else None
            worse = p is not None and p <= alpha and sign * sample.mean < 0
            status, interval, level, needed = FAILED if worse else INCONCLUSIVE, None, None, None
            if result.lo is not None and result.hi is not None and result.level is not None:
                level = result.level
                worst, best = sorted((sign * result.lo, sign * result.hi))
                if worse or not limit.holds(best):
                    status = FAILED
                elif limit.holds(worst) or not (limit.operator or limit.bound):
                    status = PASSED
                else:
                    ends = Interval(result.lo, result.hi)
                    needed = queries_to_decide(sample, ends, level, anytime)
                interval = Interval(result.lo + target, result.hi + target)
            lucky = 2.0 ** (1 - sample.units) > alpha / len(members)
            if pair.queries < min_queries and (status != FAILED or lucky):
                status, needed = (INCONCLUSIVE if pair.slice == "all" else too_few), None
            confidence = None if level is None else 1.0 - level
            why = ""
            if result.needed is not None and pair.sample.differing:
                why = describe_few(pair.sample, result.needed)
            decisions[pair.slice] = Decision(status, interval, confidence, needed, why)
    return decisions


def _describe(limit: GateLimit, pair: PairComparison, decision: Decision, least: int) -> str:
    """What was found, and why it passes or fails."""
    queries, status, change = text.format_queries(pair.total), decision.status, pair.change
    if not pair.weighed:
        return f"all {queries} have weight 0: not checked"
    if change is None:
        both = "" if limit.operator else " in both"
        few = f", fewer than {least}: not checked" if status == TOO_FEW else ""
        return f"undefined: none of {queries} has a value{both}{few}"
    target, sign = limit.target(pair.lower_is_better)
    worse = not limit.operator and sign * change < -ROUNDING
    if limit.operator:
        words = _format(change, decision, 1, limit.bound)
        words += f" over {queries}" if pair.n == pair.total else f" over {pair.n:,} of {queries}"
    else:
        same, better = abs(change) <= ROUNDING, (change > 0) != pair.lower_is_better
        side = -sign if same else 1 if change > 0 else -1
        verb = "improved" if better else "rose" if change > 0 else "dropped"
        size = _format(abs(change), decision, side, side * target)
        words = f"no change on average: {size}" if same else f"{verb} by {size}"
        words = "identical rankings" if same and pair.identical else words
    if pair.n < least and status in (TOO_FEW, INCONCLUSIVE):
        few = f", fewer than {least} queries" if limit.operator else (
            f" over {text.format_queries(pair.n)}, fewer than {least}")  # fmt: skip
        words += f"{few}: {'not checked' if status == TOO_FEW else 'inconclusive'}"
    elif status == FAILED:
        words += f", {_BEYOND[limit.operator]} the limit of {limit.text}"
    elif status == INCONCLUSIVE and decision.interval is None:
        words += f". Inconclusive: there is no confidence interval of {queries}"
    elif status == INCONCLUSIVE:
        needed = decision.queries_needed
        many = f"About {needed:,}" if needed else "More than a billion"
        words += (
            f". Inconclusive: the interval contains the limit of {limit.text}. {many} queries "
            "would decide"
        )
    elif decision.undecidable:
        words += f": cannot be decided, {decision.undecidable}"
    elif worse:
        significant = limit.bound or not decision.interval
        words += f", within the limit of {limit.text}" if significant else f": {NOT_SIGNIFICANT}"
    ending = " (one value for all queries: no confidence interval)"
    return words if pair.overall is None else words + ending


def _format(value: float, decision: Decision, sign: int, limit: float) -> str:
    """A number with its interval, with the digits that show on which side of the limit they are.

    The number has one digit more than the limit at least.
    """
    if decision.interval is None or decision.confidence is None:
        number = text.format_decimal(value, text.count_decimals_apart(value, value, limit))
        return number.rstrip("0").rstrip(".") if "." in number else number
    lo, hi = sorted(sign * x for x in decision.interval)
    digits = text.count_decimals_apart(lo, hi, limit)
    of_limit = -int(Decimal(repr(float(limit))).normalize().as_tuple().exponent)
    first = -math.floor(math.log10(abs(value) or 1))  # the first digit that is not 0
    size = text.format_decimal(value, max(digits, of_limit + 1, first))
    ends = " to ".join(text.format_decimal(x, digits) for x in (lo, hi))
    percent = 100 * decision.confidence  # as many digits as it needs: 95%, 98.3%, 99.75%
    level = f"{percent:.{1 + max(0, -math.floor(math.log10(100 - percent)))}f}"
    return f"{size} ({level.rstrip('0').rstrip('.')}% CI {ends})"

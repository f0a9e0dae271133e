"""The limits of a gate, such as 'nDCG@10>=0.45' and 'nDCG@10:0.01'."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.request import DEFAULT_METRICS
from rankql.evaluation.result import Result
from rankql.registry.argument_checks import parse_number
from rankql.registry.parse import is_metric, lower_is_better, parse, resolve_names, value_range
from rankql.registry.requested_metric import Metric
from rankql.stats.means import ROUNDING

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

    def name(self, result: Result) -> str:
        """The name of the metric in a result."""
        return resolve_names(self.metric.name, result.metrics, result.conventions)[0]

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

    def holds(self, margin: float) -> bool:
        """Whether a known value that is this far on the right side of the limit is within it."""
        return margin > ROUNDING if self.operator in (">", "<") else margin >= -ROUNDING


def parse_limits(
    argument: str,
    value: str | Sequence[str] | Mapping[str, float],
    known: Sequence[Sequence[str]],
) -> list[GateLimit]:
    """The limits of an argument. `known` has the metrics of each input that is a result."""
    form, expected = _FORMS[argument]
    limits = []
    for text in split_limits(argument, value):
        match = form.fullmatch(text)
        bound = parse_number(match["number"]) if match else None
        least = {"minimum": -math.inf, "max_drop": 0.0, "equivalence": math.ulp(0.0)}[argument]
        if match is None or bound is None or not math.isfinite(bound) or bound < least:
            raise RankqlError(
                f"Cannot parse the limit {text!r} of {argument}=. Expected {expected}"
            )
        for spelling, metric in _parse_metrics(match["metric"], known):
            _require_possible(f"{argument}={text!r}", metric, bound, argument == "minimum")
            sides = ("drop", "gain") if argument == "equivalence" else ("",)
            operator = match["operator"] if argument == "minimum" else ""
            number = bound + 0.0  # 0 for -0.0
            limits += [GateLimit(spelling, metric, number, operator, side) for side in sides]
    return limits


def _require_possible(text: str, metric: Metric, bound: float, on_mean: bool) -> None:
    """Refuse a limit that every value of the metric meets, or none."""
    lowest, highest = value_range(metric.name)
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
    names = [limit.spelling for limit in minima]
    if not names and known:
        names = [name for name in known[0] if name in known[-1]]
    return [
        GateLimit(spelling, metric, 0.0)
        for name in dict.fromkeys(names or DEFAULT_METRICS)
        for spelling, metric in _parse_metrics(name, known)
    ]


def split_limits(argument: str, value: str | Sequence[str] | Mapping[str, float]) -> Iterable[str]:
    """The limits of an argument as texts."""
    if isinstance(value, Mapping):
        least = {True: "<=", False: ">="} if argument == "minimum" else {True: ":", False: ":"}
        value = [f"{name}{least[lower_is_better(name)]}{x}" for name, x in value.items()]
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise RankqlError(f"{argument}= must be a string or a list of strings, not {value!r}")
    return dict.fromkeys(text.strip() for text in texts)


def _parse_metrics(text: str, known: Sequence[Sequence[str]]) -> Iterator[tuple[str, Metric]]:
    """The metrics of a name, each with the spelling for `evaluate`."""
    try:
        for metric in parse(text):
            yield (metric.name if metric.record else text), metric
    except RankqlError:
        names = dict.fromkeys(itertools.chain(*known))
        if text in names:
            yield text, Metric(None, label=text)  # a column of the user
        elif all(map(is_metric, names)):
            raise
        else:
            raise RankqlError(describe_unknown("metric", text, [*names])) from None

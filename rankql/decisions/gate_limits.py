"""The limits of a gate, such as 'nDCG@10>=0.45' and 'nDCG@10:0.01'."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.arguments import DEFAULT_METRICS
from rankql.evaluation.result import Result
from rankql.registry.parse import is_metric, parse, value_range
from rankql.registry.requested_metric import Metric
from rankql.stats.means import ROUNDING


@dataclass(frozen=True)
class GateLimit:
    """A limit on a mean (with an operator), or on its drop below the baseline (without)."""

    spelling: str
    metric: Metric
    bound: float
    operator: str = ""

    def name(self, result: Result) -> str:
        """The name of the metric in a result."""
        return self.metric.under(result.conventions).name

    @property
    def text(self) -> str:
        """The number as text: 0.02, 1,000,000."""
        size = abs(self.bound)
        return f"{self.bound:,.15g}" if 1e3 <= size < 1e15 else f"{self.bound:g}"

    def target(self, lower_is_better: bool) -> tuple[float, int]:
        """The limit of the mean or the difference; 1 if it must be at least that, -1 at most."""
        if self.operator:
            return self.bound, 1 if self.operator.startswith(">") else -1
        return (self.bound, -1) if lower_is_better else (-self.bound, 1)

    def holds(self, margin: float) -> bool:
        """Whether a known value that is this far on the right side of the limit is within it."""
        return margin > ROUNDING if self.operator in (">", "<") else margin >= -ROUNDING


_MINIMUM = re.compile(r"(?P<metric>.+?)\s*(?P<operator>>=|<=|>|<)(?P<limit>[^<>=]*)", re.DOTALL)


def parse_minima(minimum: str | Sequence[str], known: Sequence[Sequence[str]]) -> list[GateLimit]:
    """The limits on means. `known` has the metrics of each input that is a result."""
    limits = []
    for text in split_limits("minimum", minimum):
        match = _MINIMUM.fullmatch(text)
        bound = _parse_number(match["limit"]) if match else None
        if match is None or bound is None:
            raise RankqlError(
                f"Cannot parse the limit {text!r} of minimum=. Expected METRIC>=NUMBER, e.g. "
                "'nDCG@10>=0.45' (or <=, >, <)"
            )
        for spelling, metric in _parse_metrics(match["metric"], known):
            lowest, highest = _range(metric)
            if metric.record and metric.record.sums_gains:  # with negative='keep'
                lowest = -math.inf
            if not lowest <= bound <= highest:
                between = "at most" if lowest == -math.inf else f"between {lowest:g} and"
                raise RankqlError(
                    f"minimum={text!r}: {metric.name} is {between} {highest:g}. Choose a limit in "
                    "this range"
                )
            limits.append(GateLimit(spelling, metric, bound, match["operator"]))
    return limits


def parse_drops(
    max_drop: str | Sequence[str] | Mapping[str, float], known: Sequence[Sequence[str]]
) -> list[GateLimit]:
    """The limits on drops below a baseline."""
    limits = []
    for text in split_limits("max_drop", max_drop):
        name, _, number = text.rpartition(":")
        bound = _parse_number(number)
        if not name or bound is None or bound < 0:
            raise RankqlError(
                f"Cannot parse the limit {text!r} of max_drop=. Expected METRIC:NUMBER with a "
                "number of at least 0, e.g. 'nDCG@10:0.01'"
            )
        for spelling, metric in _parse_metrics(name, known):
            lowest, highest = _range(metric)
            if bound >= highest - lowest:
                raise RankqlError(
                    f"max_drop={text!r} can never fail: {metric.name} is between {lowest:g} and "
                    f"{highest:g}. Choose a smaller margin"
                )
            limits.append(GateLimit(spelling, metric, abs(bound)))
    return limits


def list_default_drops(
    minima: Sequence[GateLimit], known: Sequence[Sequence[str]]
) -> list[GateLimit]:
    """Limits of 0 if there is a baseline and no max_drop=."""
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
    if argument == "max_drop" and isinstance(value, Mapping):
        value = [f"{metric}:{limit}" for metric, limit in value.items()]
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
        if not any(text in metrics for metrics in known):
            if any(not is_metric(name) for metrics in known for name in metrics):
                names = dict.fromkeys(itertools.chain(*known))
                raise RankqlError(describe_unknown("metric", text, [*names])) from None
            raise
        yield text, Metric(None, label=text)  # a column of the user


def _range(metric: Metric) -> tuple[float, float]:
    """The range of a metric; all numbers unless both bounds are known."""
    lowest, highest = value_range(metric.name)
    if metric.record is None or lowest is None or highest is None:
        return -math.inf, math.inf
    return lowest, highest


def _parse_number(text: str) -> float | None:
    try:
        number = float(text.replace("_", "?"))  # Python reads 1_0 as 10
    except ValueError:
        return None
    return number if math.isfinite(number) else None

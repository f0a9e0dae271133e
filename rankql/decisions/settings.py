"""The settings of a comparison: which of them go together, and the ranges that anytime needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankql.decisions.alignment import ROUNDING
from rankql.decisions.corrections import CORRECTIONS
from rankql.decisions.significance import TESTS
from rankql.decisions.system_values import SystemValues
from rankql.errors import RankqlError, did_you_mean
from rankql.registry.argument_checks import require_whole_number
from rankql.registry.parse import parse

_SMALLEST = {"resamples": 100, "seed": 0, "min_queries": 0}


@dataclass(frozen=True)
class Settings:
    """How systems are compared."""

    test: str
    correction: str
    confidence: float
    cluster: str | None
    baseline: str | None
    resamples: int
    seed: int
    min_queries: int
    bounds: Mapping[str, Sequence[float]] | None = None

    def check(self) -> None:
        """Raise an error for an unknown choice or for options that do not go together."""
        choices_by_name: dict[str, Iterable[str]]
        choices_by_name = {"test": TESTS, "correction": CORRECTIONS}
        for name, choices in choices_by_name.items():
            value = getattr(self, name)
            if value not in [*choices]:
                raise RankqlError(
                    f"{name}: there is no {value!r}{did_you_mean(str(value), [*choices])}"
                )
        if not isinstance(self.confidence, float) or not 0 < self.alpha < 1:
            raise RankqlError(f"confidence must lie between 0 and 1, not {self.confidence!r}")
        for name, smallest in _SMALLEST.items():
            require_whole_number(name, getattr(self, name), smallest)
        if self.cluster is not None and not TESTS[self.test].clusters:
            supported = ", ".join(repr(name) for name, test in TESTS.items() if test.clusters)
            raise RankqlError(
                f"test={self.test!r} does not support cluster={self.cluster!r}. Use one of: "
                f"{supported}"
            )
        if self.bounds is not None and self.test != "anytime":
            raise RankqlError(f"bounds= has no effect on test={self.test!r}. Pass test='anytime'")

    @property
    def alpha(self) -> float:
        """The significance level, 1 - confidence."""
        return round(1 - self.confidence, 12)

    @property
    def percent(self) -> str:
        """The confidence in percent."""
        return f"{100 * self.confidence:.12g}%"


def difference_ranges(
    values: SystemValues, metrics: Sequence[str], rules: Mapping[str, Any], settings: Settings
) -> dict[str, tuple[float, float]]:
    """The range of the difference of two values, by metric, for the test that needs it."""
    if settings.test != "anytime":
        return {}
    bounds = settings.bounds or {}
    if not isinstance(bounds, Mapping) or not all(map(_is_range, bounds.values())):
        raise RankqlError(
            f"bounds must be a dict of metric: (lowest, highest), such as {{'DCG@10': (0, 20)}}, "
            f"not {settings.bounds!r}"
        )
    for name in bounds:
        if name not in metrics:
            raise RankqlError(f"bounds: {name!r} is not compared{did_you_mean(name, metrics)}")
    ranges = {}
    for name in metrics:
        low, high = bounds[name] if name in bounds else _known_range(name, rules)
        if low is None or high is None:
            raise RankqlError(
                f"test='anytime' needs the range of {name}, which has no upper or lower limit. "
                f"Pass bounds={{{name!r}: (lowest, highest)}} (CLI: --bounds {name}:LOWEST:HIGHEST)"
                ", limits that hold for every query, known in advance"
            )
        defined = values.values[name][~np.isnan(values.values[name])]
        outside = defined[(defined < low - ROUNDING) | (defined > high + ROUNDING)]
        if len(outside):
            raise RankqlError(
                f"{name} is {outside[0]:.6g} for a query, outside its range of {low:g} to "
                f"{high:g}. Pass bounds={{{name!r}: (lowest, highest)}} with the true limits"
            )
        ranges[name] = (float(low - high), float(high - low))
    return ranges


def _is_range(value: Any) -> bool:
    """Is this a pair of finite numbers, the first below the second?"""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    numbers = all(isinstance(x, int | float) and math.isfinite(x) for x in value)
    return numbers and value[0] < value[1]


def _known_range(name: str, rules: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The lowest and highest value of a metric, as far as they are known."""
    try:
        (metric,) = parse(name)
    except (RankqlError, ValueError):  # the user's own
        return None, None
    if metric.record is None or {**rules, **metric.options}.get("negative") == "keep":
        return None, None
    return metric.record.lowest, metric.record.highest

"""The parameters of metrics: their defaults and allowed values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from rankql import macros
from rankql.registry.argument_checks import (
    as_number,
    describe,
    require,
    require_choice,
    require_flag,
)


@dataclass(frozen=True)
class Parameter:
    """An option of a metric: its default and allowed values."""

    name: str
    default: Any = None
    # A list and a column cannot be written in a name such as `P(rel=2)@5`.
    kind: Literal["number", "count", "choice", "flag", "list", "column"] = "number"
    choices: tuple[str, ...] = ()
    # Its range: `above` and `below` are exclusive, `lowest` and `highest` inclusive.
    above: float | None = None
    below: float | None = None
    lowest: float | None = None
    highest: float | None = None
    # It has no default and must be given: what it is, for the error.
    required: str = ""
    # The convention of `evaluate` that is its default.
    convention: str = ""
    # It only applies if another option has this value.
    only_with: tuple[str, str] | None = None
    # Choices that are the same without a cutoff.
    same_without_k: tuple[str, ...] = ()

    @property
    def sql_default(self) -> str:
        """The default as SQL."""
        is_flag = isinstance(self.default, bool)
        return str(self.default).lower() if is_flag else macros.literal(self.default)

    @property
    def range(self) -> str:
        """The range in words; empty without bounds."""
        low = self.lowest if self.above is None else self.above
        high = self.highest if self.below is None else self.below
        if low is None:
            return ""
        return f"above {low:g}" if high is None else f"between {low:g} and {high:g}"

    def check(self, value: object, prefix: str = "") -> Any:
        """Return the value, a number as a float; refuse one that is missing or not allowed."""
        name = f"{prefix}{self.name}"
        if self.kind == "choice":
            require_choice(name, value, *self.choices)
        elif self.kind == "flag":
            require_flag(name, value)
        elif self.kind == "number" and (value is not None or self.default is not None):
            return self._check_number(name, value)
        require(value is not None or not self.required, f"{name} must be given: {self.required}")
        return value

    def _check_number(self, name: str, value: object) -> float:
        number = as_number(value)
        ok = math.isfinite(number) and not (
            (self.above is not None and not number > self.above)
            or (self.below is not None and not number < self.below)
            or (self.lowest is not None and not number >= self.lowest)
            or (self.highest is not None and not number <= self.highest)
        )
        between = self.range.startswith("between")
        rule = f"lie {self.range}" if between else f"be a finite number {self.range}".rstrip()
        require(ok, f"{name} must {rule}, not {describe(value)}")
        return number

    def applies(self, arguments: Mapping[str, Any], prefix: str = "") -> bool:
        """Does the option apply, given the others? Refuse a value if it does not."""
        if self.only_with is None:
            return True
        other, needed = self.only_with
        setting = arguments.get(other, needed)
        message = f"{prefix}{self.name} is for {other} {needed!r}, not for {setting!r}"
        require(setting == needed or arguments.get(self.name) is None, message)
        return bool(setting == needed)

    def default_under(self, conventions: Mapping[str, Any]) -> Any:
        """Its default under the conventions."""
        if not self.convention:
            return None
        value = conventions.get(self.convention)
        return self.default if self.choices and value not in self.choices else value


_choice = partial(Parameter, kind="choice")

# For `evaluate` only: in SQL and polars, pass an expression instead of the grade.
GAIN = _choice("gain", "linear", choices=("linear", "exp2", "binary"), convention="gain")
K = Parameter("k", kind="count")
THRESHOLD = Parameter("threshold", 1, convention="threshold")
RECALL = Parameter("recall", lowest=0, highest=1)
DISCOUNTS = Parameter("discounts", kind="list", convention="discounts")
BASE = Parameter("base", 2, above=1)
IDEAL = _choice("ideal", "judged", choices=("judged", "retrieved"), convention="ideal")
NEGATIVE = _choice("negative", "zero", choices=("zero", "keep"), convention="negative")
PRECISION_DENOMINATOR = _choice(
    "denominator",
    "k",
    choices=("k", "retrieved", "min"),
    convention="precision_denominator",
    same_without_k=("k", "retrieved"),
)
AP_DENOMINATOR = _choice(
    "denominator",
    "min",
    choices=("min", "R", "found", "k"),
    convention="ap_denominator",
    same_without_k=("min", "R"),
)
QUERY = Parameter(
    "query", kind="column", required="the column that distinguishes the rankings, needed with k"
)
P = Parameter(
    "p",
    above=0,
    below=1,
    required="the probability of looking at the next item, between 0 and 1",
)
STOP = _choice("stop", "exp2", choices=("exp2", "rel"))
CONTINUATION = Parameter("p", 1, above=0, highest=1)
SCALE = Parameter(
    "max_rel",
    above=0,
    required="the highest grade of the scale",
    convention="max_rel",
    only_with=("stop", "exp2"),
)
GRADED = Parameter("max_rel", above=0)
BOUND = _choice("bound", "ext", choices=("ext", "min", "max", "residual"))
NORMALIZED = Parameter("normalized", False, kind="flag")
CATALOGUE = Parameter("catalogue", kind="count")
USERS = Parameter("users", kind="count", required="the number of users in the training data")
NORM = _choice("norm", "n", choices=("n", "n-1"))
ATTENTION = Parameter("attention", kind="list")
MISSING = _choice("missing", "drop", choices=("drop", "different", "same"))
SIMILARITY = Parameter(
    "similarity",
    lowest=-1,
    highest=1,
    required="the cosine from which two items are duplicates, such as 0.95",
)
ALPHA = Parameter("alpha", 0.5, lowest=0, highest=1)
UNSEEN = _choice("unseen", "zero", choices=("zero", "drop"))
UNSEEN_NOVELTY = _choice("unseen", "one_user", choices=("one_user", "drop", "max"))

# By name. AP_DENOMINATOR, CONTINUATION, GRADED and UNSEEN_NOVELTY mean something else.
PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        *(K, THRESHOLD, RECALL, DISCOUNTS, BASE, IDEAL, NEGATIVE, PRECISION_DENOMINATOR, QUERY, P),
        *(STOP, SCALE, BOUND, NORMALIZED, CATALOGUE, USERS, NORM, ATTENTION, MISSING, SIMILARITY),
        *(ALPHA, UNSEEN),
    )
}

"""The parameters of metrics: their defaults, allowed values and help texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
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
    """An option of a metric: its default, allowed values and help text."""

    name: str
    default: Any
    help: str
    # A list and a column cannot be written in a name such as `P(rel=2)@5`.
    kind: Literal["number", "count", "choice", "flag", "list", "column"] = "number"
    choices: tuple[str, ...] = ()
    # Its range: `above` and `below` are exclusive, `lowest` and `highest` inclusive.
    above: float | None = None
    below: float | None = None
    lowest: float | None = None
    highest: float | None = None
    # It has no default and must be given.
    required: bool = False
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
        require(value is not None or not self.required, f"{name} must be given: {self.help}")
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


# For `evaluate` only: in SQL and polars, pass an expression instead of the grade.
GAIN = Parameter(
    "gain",
    "linear",
    "the gain of a grade: the grade itself, 2^rel - 1, or 1 if relevant",
    kind="choice",
    choices=("linear", "exp2", "binary"),
    convention="gain",
)
K = Parameter(
    "k", None, "the number of positions that count, from the top; by default all", kind="count"
)
THRESHOLD = Parameter(
    "threshold", 1, "the lowest grade that counts as relevant", convention="threshold"
)
RECALL = Parameter(
    "recall",
    None,
    "the recall from which precision counts; by default the mean over 0, 0.1, ..., 1",
    lowest=0,
    highest=1,
)
DISCOUNTS = Parameter(
    "discounts", None, "a divisor for each position", kind="list", convention="discounts"
)
BASE = Parameter("base", 2, "the base of the logarithm of the discount", above=1)
IDEAL = Parameter(
    "ideal",
    "judged",
    "the items of the ideal ranking: all judged items, or only the retrieved ones",
    kind="choice",
    choices=("judged", "retrieved"),
    convention="ideal",
)
NEGATIVE = Parameter(
    "negative",
    "zero",
    "negative grades count as 0, or keep their sign",
    kind="choice",
    choices=("zero", "keep"),
    convention="negative",
)
PRECISION_DENOMINATOR = Parameter(
    "denominator",
    "k",
    "the divisor of precision: k, the number of items retrieved, or min(k, R)",
    kind="choice",
    choices=("k", "retrieved", "min"),
    convention="precision_denominator",
    same_without_k=("k", "retrieved"),
)
AP_DENOMINATOR = Parameter(
    "denominator",
    "min",
    "the divisor of the sum of precisions: min(k, R), R, the number of hits, or k",
    kind="choice",
    choices=("min", "R", "found", "k"),
    convention="ap_denominator",
    same_without_k=("min", "R"),
)
QUERY = Parameter(
    "query",
    None,
    "the column that distinguishes the rankings, needed with k",
    kind="column",
    required=True,
)
_PATIENCE = "the probability of looking at the next item, between 0 and 1"
P = Parameter("p", None, _PATIENCE, above=0, below=1, required=True)
STOP = Parameter(
    "stop",
    "exp2",
    "the probability that a user stops at an item: (2^rel - 1) / 2^max_rel, or the grade itself",
    kind="choice",
    choices=("exp2", "rel"),
)
CONTINUATION = Parameter("p", 1, _PATIENCE, above=0, highest=1)
SCALE = Parameter(
    "max_rel", None, "the highest grade of the scale", above=0, required=True,
    convention="max_rel", only_with=("stop", "exp2"),
)  # fmt: skip
GRADED = Parameter(
    "max_rel", None, "the highest grade of the scale; a grade then counts as rel / max_rel", above=0
)
BOUND = Parameter(
    "bound",
    "ext",
    "the estimate: extrapolated, lower bound, upper bound, or the difference of the bounds",
    kind="choice",
    choices=("ext", "min", "max", "residual"),
)
NORMALIZED = Parameter("normalized", False, "divide by the maximum", kind="flag")
CATALOGUE = Parameter(
    "catalogue",
    None,
    "the number of items that could be shown (or 'shown', to count the items that were)",
    kind="count",
)
USERS = Parameter(
    "users", None, "the number of users in the training data", kind="count", required=True
)
NORM = Parameter(
    "norm", "n", "the maximum of the index: 1 - 1/n, or 1", kind="choice", choices=("n", "n-1")
)
ATTENTION = Parameter("attention", None, "the attention that each position gets", kind="list")
MISSING = Parameter(
    "missing",
    "drop",
    "items without the attribute: left out, different from all others, or equal to all others",
    kind="choice",
    choices=("drop", "different", "same"),
)
SIMILARITY = Parameter(
    "similarity",
    None,
    "the cosine from which two items are duplicates, such as 0.95",
    lowest=-1,
    highest=1,
    required=True,
)
ALPHA = Parameter(
    "alpha",
    0.5,
    "the share of the gain that is lost each time a subtopic is shown again",
    lowest=0,
    highest=1,
)
UNSEEN = Parameter(
    "unseen",
    "zero",
    "items not seen in training: popularity 0, or left out",
    kind="choice",
    choices=("zero", "drop"),
)
UNSEEN_NOVELTY = Parameter(
    "unseen",
    "one_user",
    "items not seen in training: known to one user, left out, or as novel as the rarest item",
    kind="choice",
    choices=("one_user", "drop", "max"),
)

# By name. AP_DENOMINATOR, CONTINUATION, GRADED and UNSEEN_NOVELTY mean something else.
PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        *(K, THRESHOLD, RECALL, DISCOUNTS, BASE, IDEAL, NEGATIVE, PRECISION_DENOMINATOR, QUERY, P),
        *(STOP, SCALE, BOUND, NORMALIZED, CATALOGUE, USERS, NORM, ATTENTION, MISSING, SIMILARITY),
        *(ALPHA, UNSEEN),
    )
}

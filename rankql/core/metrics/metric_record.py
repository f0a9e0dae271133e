"""Metrics: the record of each as plain data, and a metric with its options: `P(rel=2)@5`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import ge, gt, le, lt
from typing import Any, Literal

from rankql.core.base.errors import as_number, describe, require, require_choice, require_flag
from rankql.core.metrics import macros
from rankql.core.metrics.macros import literal

# SQL that every database takes. The first is the only place where relevant is defined in SQL.
IS_RELEVANT = "rel >= {threshold}"
RELEVANT = f"count(CASE WHEN {IS_RELEVANT} THEN 1 END)"
RETRIEVED = "coalesce({k}, count({pos}))"


@dataclass(frozen=True)
class Parameter:
    """An option of a metric: its default and allowed values."""

    name: str
    default: Any = None
    # A list and a column cannot be written in a name such as `P(rel=2)@5`.
    kind: Literal["number", "count", "choice", "flag", "list", "column", "none"] = "number"
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

    @cached_property
    def sql_default(self) -> str:
        """The default as SQL."""
        is_flag = isinstance(self.default, bool)
        return str(self.default).lower() if is_flag else macros.literal(self.default)

    @cached_property
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
        bounds = ((gt, self.above), (lt, self.below), (ge, self.lowest), (le, self.highest))
        within = all(bound is None or compare(number, bound) for compare, bound in bounds)
        between = self.range.startswith("between")
        rule = f"lie {self.range}" if between else f"be a finite number {self.range}".rstrip()
        ok = math.isfinite(number) and within
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
# Of a metric without a cutoff: the place that others have for it, which is refused.
NO_CUTOFF = Parameter("k", kind="none")
THRESHOLD = Parameter("threshold", 1, convention="threshold")
RECALL = Parameter("recall", lowest=0, highest=1)
ROUNDING = _choice("rounding", "up", choices=("up", "nearest"), convention="recall_rounding")
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
    "p", above=0, below=1, required="the probability of looking at the next item, between 0 and 1"
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
# The share of a span that must be covered; by default one character.
COVER = Parameter("cover", above=0, highest=1)
UNSEEN_NOVELTY = _choice("unseen", "one_user", choices=("one_user", "drop", "max"))

# By name. AP_DENOMINATOR, CONTINUATION, GRADED and UNSEEN_NOVELTY mean something else.
PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        *(K, THRESHOLD, RECALL, DISCOUNTS, BASE, IDEAL, NEGATIVE, PRECISION_DENOMINATOR, QUERY, P),
        *(STOP, SCALE, BOUND, NORMALIZED, CATALOGUE, USERS, NORM, ATTENTION, MISSING, SIMILARITY),
        *(ALPHA, UNSEEN, ROUNDING),
    )
}

# A value is for a judged ranking, a list with or without judgments, all rankings together, or a
# catalogue. Do not average values of the last two: compute them from the rows of a slice.
Level = Literal["ranking", "list", "rankings", "catalogue"]
Better = Literal["higher", "lower", "neither"]
# The rows that a value depends on: those with gain, all judged ones, or unjudged ones too.
Rows = Literal["gain", "judged", "all"]
Unshown = Literal["grades", "presence", "nothing"]


@dataclass(frozen=True)
class ExplanationSql:
    """A metric as a sum over positions: gain times weight, as SQL with placeholders.

    {place} is the position, {hits} the number of hits down to it, {left} the probability that a
    user gets there, {over} the denominator of a share, {discount} the divisor of the position.
    {gain} is the gain of the grade; {threshold}, {negative}, {max_rel} and {stop} are options.
    """

    weight: str
    formula: str
    gain: str = "rankql_hit(rel, {threshold})"
    # The number of positions that count, if it is not the cutoff.
    cut: str = ""
    # The sum is divided by the sum over the ideal ranking.
    normalised: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class MetricRecord:
    """Metadata of a metric: names, parameters, level, direction, range, when undefined."""

    # The function of SQL and polars.
    function: str
    # Its name in `evaluate`, if it knows it, and other names.
    name: str = ""
    aliases: tuple[str, ...] = ()
    # Its names in trec_eval, and other names, as of the set measures of ir_measures, with the
    # options of the same meaning. A cutoff follows a name that ends with _ or @, and no other.
    trec_eval: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ir_measures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Parameters that mean something else than others of their name.
    own: tuple[Parameter, ...] = ()
    level: Level = "ranking"
    better: Better = "higher"
    lowest: float | None = 0
    highest: float | None = 1
    # When it is NULL.
    undefined: str = "never"
    rows: Rows = "gain"
    # Without a cutoff it counts all retrieved items, unjudged ones too.
    counts_retrieved: bool = False
    # With scores, a tied pair counts half by definition, whatever the convention.
    halves_ties: bool = False
    # It reads only whether items are judged.
    reads_judged: bool = False
    # What it reads of judged items that are not shown: their grades; or whether one is relevant,
    # without which it is undefined; or nothing.
    unshown: Unshown = "grades"
    # A grade below 0 means that the item is in the sample, but not judged.
    reads_sample: bool = False
    # A grade below 0 means that the item must not be shown, whatever other metrics make of it.
    reads_forbidden: bool = False
    # Its mean is the share of queries with a hit.
    is_share: bool = False
    # It is divided by the number of relevant items, retrieved or not.
    per_relevant: bool = False
    # Its value if nothing is shown: that of a missing query, whatever missing= is.
    if_silent: float | None = None
    # It is a sum of gains, which `evaluate` computes from the grades by the option `gain`.
    sums_gains: bool = False
    # For a weighted mean over rankings: the macro of one ranking, and its weight as SQL.
    macro_of_one: str = ""
    weight: str = ""
    # That mean, or the root of the mean of squares, or the geometric mean of values of at least
    # 0.00001, or the sum.
    overall: Literal["mean", "root", "geometric", "sum"] = "mean"
    # The options with which its macro cannot average over the orders of tied items; none: always.
    no_expected_ties: Mapping[str, str] | None = None
    explanation: ExplanationSql | None = None
    # Why databases other than DuckDB have no function of it. Empty: all of them have one.
    not_native: str = ""
    # Its description, if it has no macro.
    text: str = ""
    # Of a metric of shown items: its SQL over ranked rows, with the columns {users_of} (how many
    # have the item in train), {place} by it, {seen} (1 if this user has it) and {known} (is it in
    # the catalogue?).
    of_shown: str = ""

    @property
    def compares_pairs(self) -> bool:
        """Does it compare the grades of pairs of items, without a threshold?"""
        by_gain = self.sums_gains or self.reads_judged or "threshold" in self.options
        by_gain = by_gain or self.reads_forbidden
        return self.rows == "judged" and not by_gain

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the macro but its columns."""
        if self.text:
            return self.own
        known = PARAMETERS | {parameter.name: parameter for parameter in self.own}
        names = macros.read_parameters()[self.function]
        return tuple(known[name] for name in names if name in known)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the macro reads."""
        if self.text:
            return ("document", "start", "end")
        return tuple(x for x in macros.read_parameters()[self.function] if x not in PARAMETERS)

    def native_options(self, engine: str) -> list[str]:
        """The options of its function in another database. Most have fixed arguments."""
        fixed = (p.kind == "count" or p.required or p is RECALL for p in self.parameters)
        some = zip(self.parameters, fixed, strict=True)
        return [p.name for p, needed in some if needed or engine == "postgres"]

    @cached_property
    def worst(self) -> float | None:
        """What a missing query counts; None if no value is the worst, so that it is left out."""
        if self.if_silent is not None:
            return self.if_silent
        if self.better == "lower":
            return self.highest
        return 0 if self.lowest == 0 or self.sums_gains else None

    @cached_property
    def macro(self) -> str:
        """The macro of one ranking."""
        return self.macro_of_one or self.function

    @cached_property
    def options(self) -> dict[str, Parameter]:
        """The parameters of the macro but the columns, by name."""
        return {p.name: p for p in self.parameters if p.kind not in ("column", "none")}

    @property
    def example(self) -> str:
        """A call with its required options, as an expression in `evaluate`."""
        columns = ["query" if name == "user" else name for name in self.columns]
        counts = [p.name for p in self.parameters if p.required and p.kind == "count"]
        return f"{self.function}({', '.join([*columns, *(f'{x} := 500' for x in counts)])})"

    @property
    def definition(self) -> str:
        """Its description in one line."""
        return self.text or macros.read_comments()[self.function]

    @cached_property
    def compares_scores(self) -> bool:
        """Does it compare grades with scores, whatever the positions?"""
        return "score" in self.columns

    @property
    def has_cutoff(self) -> bool:
        """Does it take a cutoff?"""
        return "k" in self.options

    def check_options(self, arguments: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """Return the arguments, numbers as floats; refuse a wrong option."""
        k = arguments.get("k")
        remedy = f"write {prefix}threshold={k}"
        message = f"{self.function} has no cutoff: {remedy}"
        require(k is None or NO_CUTOFF not in self.parameters, message)
        options = [option for name, option in self.options.items() if name in arguments]
        checked = dict(arguments)
        # Which numbers apply depends on the choices.
        for option in sorted(options, key=lambda option: option.kind == "number"):
            if option.applies(arguments, prefix):
                checked[option.name] = option.check(arguments[option.name], prefix)
        return checked

    def default(self, option: str, conventions: Mapping[str, Any]) -> Any:
        """The default of an option under the conventions."""
        if option == "gain":
            return conventions["gain"] if self.sums_gains else None
        parameter = self.options.get(option)
        return parameter and parameter.default_under(conventions)


@dataclass(frozen=True)
class Metric:
    """A metric with its cutoff and options, or an SQL expression of the user."""

    record: MetricRecord | None
    k: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    # The name that it was asked for by; of an expression, its name.
    label: str = ""
    expression: str = ""
    # Does an expression read only the rows that a run shows, and no others that are judged?
    of_run: bool = False
    # Of a metric of shown items, which has no record: that of its function.
    shown: MetricRecord | None = None
    # Of a metric of spans, which is an expression too.
    spans: MetricRecord | None = None
    # Its cutoff, if it is the length of the context.
    characters: int | None = None

    @property
    def known(self) -> MetricRecord | None:
        """The record of a metric that is not an expression of the user."""
        return self.record or self.shown or self.spans

    @cached_property
    def name(self) -> str:
        """The name that it was asked for by."""
        return self.label or self.canonical

    @cached_property
    def canonical(self) -> str:
        """The one name that all its names stand for."""
        if self.known is None:
            return self.label
        options = ", ".join(
            f"{'rel' if name == 'threshold' else name}={_as_text(value)}"
            for name, value in self.options.items()
            if name != "recall"
        )
        k = self.options.get("recall", f"{self.characters}c" if self.characters else self.k)
        cutoff = "" if k is None else f"@{k}"
        return self.known.name + (f"({options})" if options else "") + cutoff

    def at(self, k: int | None) -> Metric:
        """The metric with another cutoff, or without one."""
        stem = re.sub(r"(@|(?<=_))[\d.]+$", "", self.label)
        if stem and k is not None:
            stem += str(k) if stem.endswith("_") else f"@{k}"
        return replace(self, k=k, label=stem)

    @property
    def scaled(self) -> bool:
        """Does its value depend on the highest grade of the scale?"""
        if self.record is None or "max_rel" in self.options:
            return self.record is not None
        scale = self.record.options.get("max_rel")
        return scale is not None and bool(scale.convention) and scale.applies(self.options)

    def under(self, conventions: Mapping[str, Any]) -> Metric:
        """The metric without options that repeat a convention."""
        if self.known is None:
            return self
        kept = {}
        for name, value in self.options.items():
            default = self.known.default(name, conventions)
            default = tuple(default) if isinstance(default, list) else default  # of a result
            option = self.known.options.get(name)
            same = option.same_without_k if option and self.k is None else ()
            if value != default and not (value in same and default in same):
                kept[name] = value
        return replace(self, options=kept)

    def arguments(self, conventions: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of the macro but the columns."""
        assert self.known
        arguments: dict[str, Any] = {}
        for name, option in self.known.options.items():
            value = self.options.get(name, option.default_under(conventions))
            if (
                value is not None
                and literal(value) != option.sql_default
                and option.applies(self.options)
            ):
                arguments[name] = value
        if self.k is not None:
            arguments["k"] = self.k
        return arguments

    def gain(self, conventions: Mapping[str, Any]) -> Any:
        """The gain of a grade: a kind or a mapping."""
        assert self.record
        return self.options.get("gain", self.record.default("gain", conventions)) or "linear"

    def value(self, name: str, conventions: Mapping[str, Any]) -> Any:
        """The value of an option: as asked for, else by the conventions, else its own default."""
        option = self.known.options.get(name) if self.known else None
        if option is None or name in self.options:
            return self.options.get(name)
        return option.default_under(conventions) if option.convention else option.default

    def keeps_sign(self, conventions: Mapping[str, Any]) -> bool:
        """Does a negative grade make its value lower?"""
        assert self.known
        keeps = self.value("negative", conventions) == "keep"
        return self.known.sums_gains and (self.known.lowest is None or keeps)

    def threshold(self, conventions: Mapping[str, Any]) -> float:
        """The grade from which an item is relevant."""
        value = self.value("threshold", conventions)
        return float(conventions["threshold"] if value is None else value)

    def weight(self, conventions: Mapping[str, Any]) -> str:
        """The weight of a ranking in a mean over all rankings, as SQL."""
        assert self.record and self.record.weight
        k = literal(self.k)
        if conventions["ties"] == "expected":
            place = "score"
            retrieved = "CASE WHEN count({pos}) > {k} THEN {k} ELSE count({pos}) END"
        else:
            place, retrieved = "pos", "count(CASE WHEN {pos} <= {k} THEN 1 END)"
        size = {
            "k": RETRIEVED,
            "min": f"CASE WHEN {RELEVANT} > {RETRIEVED} THEN {RETRIEVED} ELSE {RELEVANT} END",
            "retrieved": "count({pos})" if self.k is None else retrieved,
        }.get(self.value("denominator", conventions), "")
        weight = self.record.weight.replace("{size}", size)
        return weight.format(k=k, threshold=self.threshold(conventions), pos=place)

    def unshown(self, conventions: Mapping[str, Any]) -> Unshown:
        """What the value depends on of judged items that are not shown."""
        if self.record is None or self.value("ideal", conventions) == "retrieved":
            return "nothing"
        denominator = self.value("denominator", conventions)
        if denominator == "min":
            return "grades"
        counts_shown = denominator in ("k", "found") and self.record.unshown == "grades"
        return "presence" if counts_shown else self.record.unshown

    def rows(self, conventions: Mapping[str, Any]) -> Rows:
        """The rows that the value depends on."""
        if self.record is None:
            return "all"
        denominator = self.value("denominator", conventions)
        by_retrieved = self.record.counts_retrieved or denominator == "k"
        if denominator == "retrieved" or (by_retrieved and self.k is None):
            return "all"
        threshold = self.value("threshold", conventions)
        if threshold is not None and threshold <= 0:
            return "judged"
        return "judged" if self.value("negative", conventions) == "keep" else self.record.rows


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def reads_grades(metrics: Sequence[Metric]) -> bool:
    """Does one of them read the grades of items, or are there none?"""
    return not metrics or any(m.shown is None or "rel" in m.shown.of_shown for m in metrics)

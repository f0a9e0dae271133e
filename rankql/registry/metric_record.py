"""The record of a metric: its metadata as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from rankql import macros
from rankql.registry.parameters import PARAMETERS, Parameter

# A value is for a judged ranking, a list with or without judgments, all rankings together, or a
# catalogue. Do not average values of the last two: compute them from the rows of a slice.
Level = Literal["ranking", "list", "rankings", "catalogue"]
Better = Literal["higher", "lower", "neither"]
# The rows that a value depends on: those with gain, all judged ones, or unjudged ones too.
Rows = Literal["gain", "judged", "all"]


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
    # Its name in `evaluate` and `correlate`, if they know it, and other names.
    name: str = ""
    asked_by: tuple[Literal["evaluate", "correlate"], ...] = ("evaluate",)
    aliases: tuple[str, ...] = ()
    # Its names in trec_eval, and other names, as of the set measures of ir_measures, with the
    # options of the same meaning. In trec_eval, a cutoff follows a name that ends with _.
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
    # It reads only whether items are judged.
    reads_judged: bool = False
    # A grade below 0 means that the item is in the sample, but not judged.
    reads_sample: bool = False
    # Its mean is the share of queries with a hit.
    is_share: bool = False
    # It is a sum of gains, which `evaluate` computes from the grades by the option `gain`.
    sums_gains: bool = False
    # It reads only the items that are in both rankings.
    shared_items: bool = False
    # For a weighted mean over rankings: the macro of one ranking, and its weight as SQL.
    macro_of_one: str = ""
    weight: str = ""
    # That mean, or the root of the mean of squares, or the geometric mean of values of at least
    # 0.00001, or the sum.
    overall: Literal["mean", "root", "geometric", "sum"] = "mean"
    # The options with which its macro cannot average over the orders of tied items; none: always.
    no_expected_ties: Mapping[str, str] | None = None
    explanation: ExplanationSql | None = None
    # Its value from the packed top of a ranking, as SQL with the quantities of
    # rankql.evaluation.packed_metrics as placeholders. Empty: it cannot be computed from them.
    packed: str = ""

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the macro but its columns."""
        known = PARAMETERS | {parameter.name: parameter for parameter in self.own}
        names = macros.read_parameters()[self.function]
        return tuple(known[name] for name in names if name in known)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the macro reads."""
        return tuple(x for x in macros.read_parameters()[self.function] if x not in PARAMETERS)

    @property
    def macro(self) -> str:
        """The macro of one ranking."""
        return self.macro_of_one or self.function

    @property
    def options(self) -> dict[str, Parameter]:
        """The parameters of the macro but the columns, by name."""
        return {p.name: p for p in self.parameters if p.kind != "column"}

    @property
    def example(self) -> str:
        """A call with its required options, as an expression in `evaluate`."""
        columns = ["query" if name == "user" else name for name in self.columns]
        counts = [p.name for p in self.parameters if p.required and p.kind == "count"]
        return f"{self.function}({', '.join([*columns, *(f'{x} := 500' for x in counts)])})"

    @property
    def definition(self) -> str:
        """Its description in one line."""
        return macros.read_comments()[self.function]

    @property
    def compares_scores(self) -> bool:
        """Does it compare grades with scores, whatever the positions?"""
        return "score" in self.columns

    @property
    def has_cutoff(self) -> bool:
        """Does it take a cutoff?"""
        return "k" in self.options

    def check_options(self, arguments: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """Return the arguments, numbers as floats; refuse a wrong option."""
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

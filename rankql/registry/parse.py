"""Metrics by name: `nDCG@10`, `P(rel=2)@5`, aliases, and the names of trec_eval."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from rankql import macros
from rankql.errors import RankqlError, did_you_mean, find_closest
from rankql.macros import literal
from rankql.registry.metrics import FACTS, Facts

if TYPE_CHECKING:
    import polars as pl

Rows = Literal["gain", "judged", "all"]


@dataclass(frozen=True)
class Measure:
    """A metric as it is asked for: its name, the macro that defines it, and its other names."""

    name: str
    macro: str
    aliases: tuple[str, ...] = ()
    # The rows that its value depends on: those with gain, all judged ones, or those unjudged too.
    rows: Rows = "gain"
    # For a mean over all rankings at once: how much a ranking weighs in it, as SQL.
    weight: str | None = None

    @property
    def function(self) -> str:
        """The function of SQL and polars that gives it."""
        micro = f"micro_{self.macro}"
        return micro if self.weight and micro in FACTS else self.macro

    @property
    def facts(self) -> Facts:
        """Its level, direction and range."""
        facts = FACTS[self.function]
        return facts._replace(level="rankings") if self.weight else facts

    @property
    def defaults(self) -> dict[str, str]:
        """The options of the macro, with their defaults as SQL."""
        return {k: v for k, v in macros.read_parameters()[self.macro].items() if v is not None}

    @property
    def columns(self) -> list[str]:
        """What the function is computed from."""
        return [
            k for k, default in macros.read_parameters()[self.function].items() if default is None
        ]

    @property
    def definition(self) -> str:
        """One line of what it is."""
        return macros.read_comments()[self.function]


# SQL that every database takes.
RELEVANT = "count(CASE WHEN rel >= {threshold} THEN 1 END)"
_SHOWN = "coalesce({k}, count({pos}))"
# What precision is divided by, by its denominator; "retrieved" is in `Metric.weight`.
_SIZES = {"k": _SHOWN, "min": f"CASE WHEN {RELEVANT} > {{k}} THEN {{k}} ELSE {RELEVANT} END"}
_RATED = "count(rel + score)"

# What compares grades with scores, wherever the items stand.
RATINGS = ("rmse", "mse", "mae")

MEASURES = (
    Measure("nDCG", "ndcg"),
    Measure("DCG", "dcg", rows="judged"),
    Measure("IDCG", "idcg"),
    Measure("CG", "cg", rows="judged"),
    Measure("AP", "ap", ("MAP", "average_precision")),
    Measure("RR", "rr", ("MRR", "reciprocal_rank")),
    Measure("P", "precision_at", ("Precision",)),
    Measure("R", "recall_at", ("Recall",)),
    Measure("F1", "f1_at"),
    Measure("Success", "hit_at", ("Hit", "HR", "HitRate", "hit_rate")),
    Measure("Rprec", "r_precision"),
    Measure("Bpref", "bpref", rows="judged"),
    Measure("Judged", "judged_at", rows="judged"),
    Measure("ERR", "err"),
    Measure("RBP", "rbp"),
    Measure("RBPres", "rbp_residual", rows="judged"),
    Measure("ARHR", "arhr"),
    Measure("TauB", "kendall_tau_b", rows="judged"),
    Measure("TauDistance", "kendall_tau_distance", rows="judged"),
    Measure("RMSE", "rmse", rows="judged"),
    Measure("MSE", "mse", rows="judged"),
    Measure("MAE", "mae", rows="judged"),
    Measure("microP", "precision_at", weight="{size}"),
    Measure("microR", "recall_at", weight=RELEVANT),
    Measure("microF1", "f1_at", weight=f"{_SHOWN} + {RELEVANT}"),
    Measure("microMSE", "mse", rows="judged", weight=_RATED),
    Measure("microMAE", "mae", rows="judged", weight=_RATED),
)

# How alike two rankings are: what `correlate` knows.
CORRELATIONS = (
    Measure("RBO", "rbo"),
    Measure("TauB", "kendall_tau_b", rows="judged"),
    Measure("TauAP", "tau_ap"),
    Measure("TauDistance", "kendall_tau_distance", rows="judged"),
)
EVERY = tuple(dict.fromkeys((*MEASURES, *CORRELATIONS)))

# trec_eval's names, where they are not one of the above already, with trec_eval's meaning.
_TREC: dict[str, tuple[str, dict[str, Any]]] = {
    "map": ("AP", {"denominator": "R"}),
    "map_cut_": ("AP", {"denominator": "R"}),
    "ndcg_cut_": ("nDCG", {"gain": "linear", "ideal": "judged", "negative": "zero"}),
    "p_": ("P", {"denominator": "k"}),
    "recall_": ("R", {}),
    "recip_rank": ("RR", {}),
    "success_": ("Success", {}),
    "set_p": ("P", {"denominator": "retrieved"}),
    "set_recall": ("R", {}),
    "set_f": ("F1", {}),
}
# The set metrics of ir_measures, which are those of trec_eval.
_SETS = {"setp": "set_p", "setr": "set_recall", "setf": "set_f"}
_OPTION_ALIASES = {"rel": "threshold", "cutoff": "k", "dcg": "gain"}
_VALUE_ALIASES = {"log2": "linear", "exp-log2": "exp2"}
_GAINS = ("cg", "dcg", "idcg", "ndcg")
GAINS = ("linear", "exp2", "binary")


@dataclass(frozen=True)
class Metric:
    """A metric with its cutoff and the options given with it; or an SQL expression of the user."""

    measure: Measure | None
    k: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    expression: str = ""

    @property
    def name(self) -> str:
        """The canonical name."""
        if self.measure is None:
            return self.label
        shown = {"rel" if key == "threshold" else key: v for key, v in self.options.items()}
        options = ", ".join(f"{key}={_shown(value)}" for key, value in shown.items())
        cutoff = "" if self.k is None else f"@{self.k}"
        return self.measure.name + (f"({options})" if options else "") + cutoff

    @property
    def scaled(self) -> bool:
        """Does its value depend on where the scale of the grades ends?"""
        err = self.measure is not None and self.measure.macro == "err"
        return (err and self.options.get("stop") != "rel") or "max_rel" in self.options

    def under(self, conventions: Mapping[str, Any]) -> Metric:
        """The metric without the options that say what is the convention anyway."""
        if self.measure is None:
            return self
        differing = {
            option: value
            for option, value in self.options.items()
            if value != convention(self.measure.macro, option, conventions)
            and not (self.measure.macro == "ap" and self.k is None and option == "denominator"
                     and {value, conventions["ap_denominator"]} <= {"min", "R"})
        }  # fmt: skip
        return replace(self, options=differing)

    def arguments(self, conventions: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of the macro but the columns."""
        assert self.measure
        macro = self.measure.macro
        given: dict[str, Any] = {}
        for option, default in self.measure.defaults.items():
            value = self.options.get(option, convention(macro, option, conventions))
            if option == "max_rel" and self.options.get("stop") == "rel":
                continue  # probabilities are on no scale
            if value is not None and literal(value) != default:
                given[option] = value
        if self.k is not None:
            given["k"] = self.k
        return given

    def gain(self, conventions: Mapping[str, Any]) -> Any:
        """How the grade becomes a gain."""
        assert self.measure
        macro = self.measure.macro
        return self.options.get("gain", convention(macro, "gain", conventions)) or "linear"

    def threshold(self, conventions: Mapping[str, Any]) -> float:
        """The grade from which an item is relevant."""
        return float(self.options.get("threshold", conventions["threshold"]))

    def weight(self, conventions: Mapping[str, Any]) -> str:
        """How much a ranking weighs in a mean over all rankings at once, as SQL."""
        assert self.measure and self.measure.weight
        k, denominator = literal(self.k), self.arguments(conventions).get("denominator", "k")
        if conventions["ties"] == "expected":
            place, retrieved = (
                "score",
                "CASE WHEN count({pos}) > {k} THEN {k} ELSE count({pos}) END",
            )
        else:
            place, retrieved = "pos", "count(CASE WHEN {pos} <= {k} THEN 1 END)"
        sizes = _SIZES | {"retrieved": "count({pos})" if self.k is None else retrieved}
        text = self.measure.weight.replace("{size}", sizes[denominator])
        return text.format(k=k, threshold=self.threshold(conventions), pos=place)

    def rows(self, conventions: Mapping[str, Any]) -> Rows:
        """The rows that the value depends on."""
        if self.measure is None:
            return "all"
        given = self.arguments(conventions)
        by_shown = self.measure.macro in ("precision_at", "f1_at", "judged_at") or (
            given.get("denominator") == "k"
        )
        if given.get("denominator") == "retrieved" or (by_shown and self.k is None):
            return "all"
        if given.get("threshold", 1) <= 0 or given.get("negative") == "keep":
            return "judged"
        return self.measure.rows


def convention(macro: str, option: str, conventions: Mapping[str, Any]) -> Any:
    """The value of an option of a macro where the metric itself does not give it."""
    if option == "denominator":
        return conventions["ap_denominator" if macro == "ap" else "precision_denominator"]
    if option == "gain":
        return conventions["gain"] if macro in _GAINS else None
    if option == "negative":
        return "keep" if conventions["negative"] == "keep" else "zero"
    if option == "max_rel" and macro == "rbp":
        return None  # it would make rbp graded
    return conventions.get(option)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _index(measures: tuple[Measure, ...] = MEASURES) -> dict[str, Measure]:
    functions = {m: f"micro_{m.macro}" if m.weight else m.macro for m in measures}
    return {name.lower(): m for m in measures for name in (m.name, *m.aliases, functions[m])}


_NAME = re.compile(
    r"\s*(?P<name>[A-Za-z]\w*)\s*(?:\((?P<options>[^()]*)\))?\s*(?:@\s*(?P<k>[^@]*))?\s*"
)
_EXPRESSION = re.compile(r"\s*(?P<label>[^=()@]*[^=()@\s<>!])\s*=(?!=)\s*(?P<sql>\S.*)", re.DOTALL)


def parse(names: str | Sequence[str], measures: tuple[Measure, ...] = MEASURES) -> list[Metric]:
    """The metrics of a list of names, each once. `nDCG@5,10` is two; `name = SQL` one's own."""
    if not isinstance(names, str | list | tuple):
        raise RankqlError(f"metrics must be named by text, such as 'nDCG@10', not {names!r}")
    given = [names] if isinstance(names, str) else list(names)
    if not given:
        raise RankqlError("metrics must name at least one, such as 'nDCG@10'")
    found = [metric for text in given for metric in _one(text, measures)]
    by_name: dict[str, Metric] = {}
    for metric in found:
        other = by_name.setdefault(metric.name, metric)
        if other.expression != metric.expression:
            raise RankqlError(
                f"{metric.name!r} would be the name of two columns; call one otherwise"
            )
    return list(by_name.values())


def metrics() -> pl.DataFrame:
    """All metrics: their names, columns, level, direction, range, when they are undefined.

    name: what `evaluate` and `correlate` call it, or else the function. function: that of SQL and
    polars. columns: what it is computed from. level: what a value is of, a 'ranking', a 'list'
    whatever its judgments, all 'rankings' at once, or a 'catalogue'; values of the last two are
    never averaged. better: 'higher', 'lower' or 'neither'. lowest, highest: the range with default
    options, NULL where there is no end.

    >>> metrics().filter(name="Bpref").select("columns", "better", "highest", "undefined").row(0)
    ('rel, pos', 'higher', 1.0, 'no judged item is relevant')
    """
    import polars as pl

    named = {measure.function for measure in EVERY}
    others = [Measure(function, function) for function in FACTS if function not in named]
    rows = [
        {
            "name": measure.name,
            "function": measure.function,
            "columns": ", ".join(measure.columns),
            **measure.facts._asdict(),
            "definition": measure.definition,
            "aliases": ", ".join(measure.aliases),
            "options": ", ".join(
                name if default == "NULL" else f"{name}={default}"
                for name, default in measure.defaults.items()
            ),
        }
        for measure in (*EVERY, *others)
    ]
    return pl.DataFrame(rows, schema_overrides={"lowest": pl.Float64, "highest": pl.Float64})


def is_metric(name: str, measures: tuple[Measure, ...] = MEASURES) -> bool:
    """Is this the name of a metric?"""
    try:
        return bool(parse(name, measures))
    except RankqlError:
        return False


def lower_is_better(name: str) -> bool:
    """Is less of the metric better? Of an expression of one's own, more."""
    try:
        (metric,) = parse(name)
    except (RankqlError, ValueError):
        return False
    return metric.measure is not None and metric.measure.facts.better == "lower"


def has_direction(name: str) -> bool:
    """Is a higher, or a lower, value of this metric better? False for an expression of the user."""
    try:
        (metric,) = parse(name)
    except (RankqlError, ValueError):
        return False
    return metric.measure is not None and metric.measure.facts.better != "neither"


def value_range(name: str) -> tuple[float | None, float | None]:
    """The lowest and the highest value of a metric, None where it is not bounded or not known."""
    try:
        (metric,) = parse(re.sub(" (low|high)$", "", name), EVERY)
    except (RankqlError, ValueError):
        return None, None
    if metric.measure is None:
        return None, None
    facts = metric.measure.facts
    # Only negative grades take a sum of gains below 0.
    return 0 if metric.measure.macro in _GAINS else facts.lowest, facts.highest


def _one(text: str, measures: tuple[Measure, ...]) -> Iterator[Metric]:
    if not isinstance(text, str):
        raise RankqlError(f"a metric must be named by text, such as 'nDCG@10', not {text!r}")
    index = _index(measures)
    if measures is not CORRELATIONS and (metric := _trec(text.strip()) or _set_metric(text)):
        yield metric
    elif match := _NAME.fullmatch(text):
        measure = index.get(match["name"].lower())
        if measure is None:
            likely = find_closest(match["name"], index)  # of all names, aliases too
            hint = did_you_mean(
                match["name"],
                [measure.name for measure in measures],
                index[likely].name if likely else None,
            )
            if measures is not CORRELATIONS and (function := match["name"].lower()) in FACTS:
                hint = f": {function}() is a function of SQL and polars, not of evaluate"
            raise RankqlError(f"there is no metric {match['name']!r}{hint}")
        options = dict(_options(text, measure, match["options"] or ""))
        cutoffs = [match["k"]] if match["k"] is None else match["k"].split(",")
        k = options.pop("k", None)
        if k is not None and match["k"] is not None:
            raise RankqlError(f"{text!r}: the cutoff is given twice")
        if cutoffs != [None]:
            yield from (_metric(text, measure, options, cutoff) for cutoff in cutoffs)
        else:
            yield _metric(text, measure, options, k)
    elif match := _EXPRESSION.fullmatch(text):
        yield Metric(None, label=match["label"].strip(), expression=match["sql"].strip())
    elif re.fullmatch(r"[^=()@]+=\s*", text):
        raise RankqlError(
            f"{text!r} has no expression after '='. Write label = SQL expression, "
            "such as 'hits = count(rel)'"
        )
    else:
        raise RankqlError(
            f"{text!r} is no metric; write name@k, name(option=value)@k, or label = SQL expression"
        )


def _trec(text: str) -> Metric | None:
    """The metric of a name of trec_eval, as trec_eval defines it, whatever the conventions."""
    match = re.fullmatch(r"([a-z_]+)(\d+)?", text.lower())
    if not match or match[1] not in _TREC or (match[2] is not None) != match[1].endswith("_"):
        return None
    name, options = _TREC[match[1]]
    return _metric(text, _index()[name.lower()], options, match[2])


def _set_metric(text: str) -> Metric | None:
    """The metric of a name of ir_measures that takes in all that is retrieved: `SetP(rel=2)`."""
    match = _NAME.fullmatch(text)
    if not match or match["name"].lower() not in _SETS:
        return None
    name, options = _TREC[_SETS[match["name"].lower()]]
    measure = _index()[name.lower()]
    if match["k"] is not None:
        raise RankqlError(f"{text!r}: {match['name']} has no cutoff; use {name}@{match['k']}")
    given = dict(_options(text, measure, match["options"] or ""))
    if clash := sorted({"k", "denominator"} & given.keys()):
        raise RankqlError(f"{text!r}: {match['name']} has no option {clash[0]!r}; use {name}")
    return _metric(text, measure, options | given, None)


# The highest position: beyond it, not every whole number is a DOUBLE.
_HIGHEST = 2**53


def _metric(text: str, measure: Measure, options: dict[str, Any], cutoff: object) -> Metric:
    if cutoff is None:
        return _valid(text, Metric(measure, None, options))
    digits = str(cutoff).strip()
    if "k" not in measure.defaults:
        raise RankqlError(f"{text!r}: {measure.name} has no cutoff; leave @{digits} out")
    if not re.fullmatch(r"[1-9]\d*", digits, re.ASCII):
        raise RankqlError(f"{text!r}: k must be a whole number from 1, not {digits or 'nothing'}")
    if len(digits) > 16 or int(digits) > _HIGHEST:
        raise RankqlError(
            f"{text!r}: k must be at most {_HIGHEST}, not {digits}. "
            f"Leave @{digits} out for the whole ranking"
        )
    return _valid(text, Metric(measure, int(digits), options))


# What an option that is a number must be, and in words.
_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "p": (lambda p: 0 < p < 1, "between 0 and 1"),
    "base": (lambda base: base > 1, "above 1"),
    "max_rel": (lambda grade: grade > 0, "above 0"),
}


def _valid(text: str, metric: Metric) -> Metric:
    assert metric.measure
    macro, options = metric.measure.macro, metric.options
    if "p" in metric.measure.defaults and macro != "err" and "p" not in options:
        name = metric.measure.name
        raise RankqlError(f"{text!r}: p must be given, between 0 and 1, such as {name}(p=0.8)")
    for option, (holds, words) in _RANGES.items():
        value = options.get(option)
        if value is not None and not holds(value) and not (macro == "err" and value == 1):
            raise RankqlError(f"{text!r}: {option} must lie {words}, not {value}")
    if options.get("stop") == "rel" and "max_rel" in options:
        raise RankqlError(f"{text!r}: max_rel is for stop 'exp2', not for 'rel'")
    denominator = options.get("denominator")
    if denominator is not None and denominator not in DENOMINATORS[macro]:
        choices = ", ".join(DENOMINATORS[macro])
        raise RankqlError(f"{text!r}: denominator must be one of {choices}, not {denominator}")
    return metric


def _options(text: str, measure: Measure, options: str) -> Iterator[tuple[str, Any]]:
    known = [o for o in measure.defaults if o != "discounts"]
    seen = set()
    if measure.macro in _GAINS:
        known.append("gain")
    for part in filter(None, map(str.strip, options.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = _OPTION_ALIASES.get(name, name)
        if name not in known:
            shown = ["rel" if o == "threshold" else o for o in known]
            raise RankqlError(
                f"{text!r}: {measure.name} has no option {name!r}{did_you_mean(name, shown)}"
            )
        if name in seen:
            raise RankqlError(f"{text!r}: {name} is given twice")
        seen.add(name)
        if not equals or not value:
            raise RankqlError(f"{text!r}: {name} must have a value: {name}=...")
        yield name, _value(text, name, value)


DENOMINATORS = {"ap": ("min", "R", "found", "k"), "precision_at": ("k", "retrieved", "min")}

# What an option of a metric may be; where nothing stands here, a number.
CHOICES: dict[str, tuple[str, ...]] = {
    "gain": GAINS,
    "ideal": ("judged", "retrieved"),
    "negative": ("zero", "keep"),
    "denominator": ("min", "R", "found", "k", "retrieved"),
    "normalized": ("true", "false"),
    "bound": ("ext", "min", "max", "residual"),
    "stop": ("exp2", "rel"),
}


def _value(text: str, name: str, value: str) -> Any:
    value = value.strip("'\"")
    value = _VALUE_ALIASES.get(value, value)
    if name in CHOICES:
        for choice in CHOICES[name]:
            if choice.lower() == value.lower():
                return choice == "true" if name == "normalized" else choice
        raise RankqlError(
            f"{text!r}: {name} must be one of {', '.join(CHOICES[name])}, not {value}"
        )
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RankqlError(f"{text!r}: {name} must be a finite number, not {value}")
    return int(number) if number.is_integer() else number

"""The conventions of an evaluation: defaults, profiles of other tools, and single options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypedDict, get_args, get_type_hints

from rankql.core.base import errors
from rankql.core.base.column_names import ROLES, is_called
from rankql.core.metrics.metric_record import GAIN, PARAMETERS
from rankql.core.metrics.profiles import TOOLS


class ConventionOptions(TypedDict, total=False):
    """A profile, and the changes to it: see `Conventions`."""

    conventions: str | None
    gain: str | Mapping[float, float] | None
    discounts: Sequence[float] | None
    ideal: Literal["judged", "retrieved"] | None
    negative: Literal["zero", "keep", "unjudged", "error"] | None
    threshold: float | None
    precision_denominator: Literal["k", "retrieved", "min"] | None
    ap_denominator: Literal["min", "R", "found", "k"] | None
    recall_rounding: Literal["up", "nearest"] | None
    max_rel: float | None
    ties: Literal["item", "order", "expected", "best", "worst"] | None
    float32: bool | None
    unjudged: Literal["zero", "remove"] | None
    undefined: Literal["skip", "zero", "one", "drop", "error", 0, 1] | None
    missing: Literal["zero", "skip", "error"] | None


@dataclass(frozen=True)
class Conventions:
    """What tools disagree on: the options of `evaluate`, with the defaults of rankql.

    Parameters
    ----------
    gain : str or dict
        The grade as a gain, for CG, DCG, IDCG and nDCG: 'linear', 'exp2' (2^rel - 1) or 'binary'.

        Or a dict of grade: gain.
    discounts : list of float
        One divisor per position, such as 1,1.6,2, instead of log2(pos + 1).
    ideal : str
        The ideal ranking has all 'judged' items, or only the 'retrieved' ones.
    negative : str
        A negative grade gains nothing ('zero'), keeps its sign ('keep'), counts as 'unjudged', or
        is an 'error'.
    threshold : float
        Items are relevant from this grade.
    precision_denominator : str
        P@k, also in F1@k and over all rankings, is divided by 'k', the number of items 'retrieved',
        or 'min', the smaller of k and R, the number of relevant items.
    ap_denominator : str
        AP@k is divided by 'min' (the smaller of k and R), 'R', the number of relevant items
        'found', or 'k'.
    recall_rounding : str
        For IPrec, recall * R is rounded 'up' (but a fraction below 0.1 down), or to the 'nearest'
        whole number.
    max_rel : float
        The highest grade of the scale, for ERR; by default the highest of all judgments.
    ties : str
        Equal scores are ordered by 'item' (descending, as text bytes) or keep the 'order' of the
        rows; or the value is the 'expected', 'best' or 'worst' over all their orders.
    float32 : bool
        Scores are rounded to 32 bits before they are compared.
    unjudged : str
        An unjudged item keeps its position and gains nothing ('zero'), or is removed from the
        ranking ('remove').
    undefined : str
        A mean skips an undefined value ('skip'), counts it as 'zero' or as 'one' (as LightGBM and
        XGBoost do, and CatBoost for NDCG and RecallAt), or raises an 'error'. With 'drop', queries
        without relevant items have no value, not even a precision of 0.
    missing : str
        A mean counts a judged query that the run lacks as 'zero' (RBPres too, as trec_eval -c
        does), skips it ('skip', but not in FalseAnswer, FalseAbstention and Forbidden), or raises
        an 'error'.
    """

    profile: str = "rankql"
    gain: str | Mapping[float, float] = "linear"
    discounts: tuple[float, ...] | None = None
    ideal: str = "judged"
    negative: str = "zero"
    threshold: float = 1
    precision_denominator: str = "k"
    ap_denominator: str = "min"
    recall_rounding: str = "up"
    max_rel: float | None = None
    ties: str = "item"
    float32: bool = False
    unjudged: str = "zero"
    # By metric, if a profile counts them differently.
    undefined: str | Mapping[str, str] = "skip"
    missing: str | Mapping[str, str] = "zero"

    def __str__(self) -> str:
        defaults = Conventions(self.profile).as_dict()
        values = self.as_dict().items()
        changes = [f"{k}={_format(v)}" for k, v in values if v is not None and v != defaults[k]]
        return f"{self.profile} ({', '.join(changes) or 'defaults'})"

    def as_dict(self) -> dict[str, Any]:
        """The conventions as plain values."""
        plain = asdict(self)
        if isinstance(self.gain, Mapping):
            plain["gain"] = {str(grade): gain for grade, gain in self.gain.items()}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}


def _format(value: Any) -> str:
    """Format a value of a convention: 2, not 2.0."""
    if isinstance(value, Mapping) and any(isinstance(x, str) for x in value.values()):
        return ", ".join(f"{x} for {name}" for name, x in value.items())
    whole = isinstance(value, float) and value.is_integer()
    return f"{value:.0f}" if whole else str(value)


# The options that change a convention.
_OPTIONS = [field.name for field in fields(Conventions) if field.name != "profile"]

# The allowed values of each option that has few.
CHOICES = {
    name: choices
    for name, kind in get_type_hints(ConventionOptions).items()
    if (choices := tuple(x for x in get_args(get_args(kind)[0]) if isinstance(x, str)))
}

# What counts instead of an undefined value.
UNDEFINED_VALUES = {"zero": 0, "one": 1}

# What each tool does; tests/core/metrics/test_profiles.py compares them with what tools printed.
PROFILES = {
    name: Conventions(name, **{k: v for k, v in tool.options.items() if k in _OPTIONS})
    for name, tool in TOOLS.items()
    if not tool.call
}


def choose(options: Mapping[str, Any]) -> Conventions:
    """The conventions that the options of a call ask for: a profile, and changes to it."""
    profile = "rankql" if options.get("conventions") is None else options["conventions"]
    if isinstance(profile, str) and profile in TOOLS and profile not in PROFILES:
        tool = TOOLS[profile]
        raise errors.RankqlError(
            f"conventions={profile!r} is not a profile. This gives the number of {tool.version}: "
            f"{tool.call}"
        )
    if not isinstance(profile, str) or profile not in PROFILES:
        known = errors.did_you_mean(profile, list(PROFILES))
        raise errors.RankqlError(f"Unknown conventions={profile!r}{known}.")
    changed = [name for name in _OPTIONS if options.get(name) is not None]
    values = {name: _valid(name, options[name]) for name in changed}
    conventions = replace(PROFILES[profile], **values)
    if profile == "rankql" or conventions == PROFILES[profile]:
        return conventions
    return replace(conventions, profile=f"{profile}, changed")


def describe_option(name: str, known: list[str]) -> str:
    """Return an error about an unknown option."""
    if remedy := option_remedy(name, known):
        return f"Unknown option {name!r}. {remedy}"
    return errors.describe_unknown("option", name, known)


# Options of other tools, such as -c, -l and -M of trec_eval.
_ELSEWHERE = {
    **dict.fromkeys(("k", "cutoff", "top_k", "M"), "Write the cutoff in the metric: nDCG@10"),
    **dict.fromkeys(
        ("group", "group_by", "groupby", "user"), "query= ranks within it, by= gives slices"
    ),
    "c": "missing='zero' counts queries that the run lacks as 0",
    "l": "threshold= is the lowest grade that is relevant",
}


def option_remedy(name: str, known: Sequence[str]) -> str:
    """What to pass instead of an option of another name or tool, '' if that is not known."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    if name in ("m", "metric", "metrics") and "minimum" in known:  # of gate
        return "Its limits name the metrics: minimum='nDCG@10>=0.45' or max_drop='nDCG@10:0.01'"
    if name in ("query_id", "qid") and "worst" in known:  # of explain
        return "The id of the query is the third argument: of='q1'"
    roles = (role for role, names in ROLES.items() if role in known and is_called(name, names))
    return next((f"Pass the column as {role}=" for role in roles), "")


def _valid(name: str, value: Any) -> Any:
    if name == "undefined" and not isinstance(value, bool) and value in (0, 1):
        value = ("zero", "one")[int(value)]
    if name in CHOICES:
        errors.require_choice(name, value, *CHOICES[name])
    elif name == "gain":
        return _gain(value)
    elif name == "discounts":
        message = f"discounts must be a list of finite numbers above 0, not {value!r}"
        errors.require(_are_numbers(value) and all(d > 0 for d in value), message)
        return tuple(value)
    elif name == "float32":
        errors.require_flag(name, value)
    else:
        PARAMETERS[name].check(value)
    return value


def _gain(value: Any) -> Any:
    if not isinstance(value, Mapping):
        choices = ", ".join(map(repr, GAIN.choices))
        message = f"gain must be {choices} or a dict of grade: gain, not {value!r}"
        errors.require(value in GAIN.choices, message)
        return value
    errors.require(
        bool(value), "gain is an empty dict. Map each grade to its gain, such as {0: 0, 1: 1}"
    )
    for grade, gain in value.items():
        message = f"gain must map numbers to numbers, not {grade!r} to {gain!r}"
        errors.require(_are_numbers([grade, gain]), message)
    return dict(value)


def _are_numbers(values: Any) -> bool:
    """Are they a list of finite numbers?"""
    is_list = isinstance(values, list | tuple)
    return is_list and all(math.isfinite(errors.as_number(value)) for value in values)

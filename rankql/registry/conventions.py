"""The conventions of an evaluation: ours, those of a peer by name, or each by option."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rankql.errors import RankqlError, describe_unknown, did_you_mean
from rankql.registry.argument_checks import as_number, require, require_choice, require_flag
from rankql.registry.parameters import (
    AP_DENOMINATOR,
    GAIN,
    IDEAL,
    PRECISION_DENOMINATOR,
    SCALE,
    THRESHOLD,
)


@dataclass(frozen=True)
class Conventions:
    """What peers disagree on, and what each option of `evaluate` may be. The defaults are ours.

    - gain: the grade as a gain, for CG, DCG, IDCG and nDCG: 'linear', 'exp2' (2^rel - 1), 'binary',
      or a dict of grade: gain.
    - discounts: a divisor per position in place of log2(pos + 1).
    - ideal: what the ideal ranking is made of: all 'judged' items, or only those 'retrieved'.
    - negative: a negative grade gains nothing ('zero') or less ('keep'), is as if 'unjudged', or an
      'error'.
    - threshold: relevant from this grade.
    - precision_denominator: what P@k and microP@k are divided by ('k', 'retrieved', 'min'); 'min'
      is the smaller of k and R, the number of relevant items.
    - ap_denominator: what AP@k is divided by ('min', 'R', 'found', 'k').
    - max_rel: the end of the scale of grades, for ERR; by default the highest of all judgments.
    - ties: equal scores stand by 'item' descending (as text bytes) or in the 'order' of the rows;
      the value is the 'expected' one over all orders, or that of the 'best' or the 'worst'.
    - float32: scores are rounded to 32 bits before they are compared.
    - unjudged: a retrieved item that nobody judged gains nothing ('zero'), is taken out of the
      ranking ('remove'), or could be anything ('bounds': the lowest and the highest value too).
    - levels: the grades that it could have then; by default those that occur.
    - undefined: in a mean, an undefined value is left out ('skip'), 'zero', or an 'error'; with
      'drop' a query without relevant items has no value at all, no precision of 0 either.
    - missing: in a mean, a judged query that the run lacks is 'zero' (RBPres too, as in trec_eval
      -c), left out ('skip'), or an 'error'.
    """

    profile: str = "rankql"
    gain: str | Mapping[float, float] = "linear"
    discounts: tuple[float, ...] | None = None
    ideal: str = "judged"
    negative: str = "zero"
    threshold: float = 1
    precision_denominator: str = "k"
    ap_denominator: str = "min"
    max_rel: float | None = None
    ties: str = "item"
    float32: bool = False
    unjudged: str = "zero"
    levels: tuple[float, ...] | None = None
    undefined: str = "skip"
    missing: str = "zero"

    def __str__(self) -> str:
        values = self.as_dict()
        name = values.pop("profile")
        return f"({name}) {', '.join(f'{k}={v}' for k, v in values.items() if v is not None)}"

    def as_dict(self) -> dict[str, Any]:
        """The conventions as plain values."""
        plain = asdict(self)
        if isinstance(self.gain, Mapping):
            plain["gain"] = {str(grade): gain for grade, gain in self.gain.items()}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}


CHOICES = {
    "ideal": IDEAL.choices,
    "negative": ("zero", "keep", "unjudged", "error"),
    "precision_denominator": PRECISION_DENOMINATOR.choices,
    "ap_denominator": AP_DENOMINATOR.choices,
    "ties": ("item", "order", "expected", "best", "worst"),
    "unjudged": ("zero", "remove", "bounds"),
    "undefined": ("skip", "zero", "drop", "error"),
    "missing": ("zero", "skip", "error"),
}

# What each peer does; tests/test_profiles.py holds them against the peers themselves. trec_eval is
# version 9, which pytrec_eval and ir_measures run; version 10 no longer rounds scores to 32 bits.
PROFILES = {
    "rankql": Conventions(),
    "trec_eval": Conventions(
        "trec_eval",
        ap_denominator="R",
        negative="unjudged",
        float32=True,
        undefined="zero",
        missing="skip",
    ),
    "trec_eval_10": Conventions(
        "trec_eval_10", ap_denominator="R", negative="unjudged", undefined="zero", missing="skip"
    ),
    "sklearn": Conventions(
        "sklearn",
        ideal="retrieved",
        negative="error",
        ties="expected",
        undefined="zero",
        missing="skip",
    ),
    "ranx": Conventions("ranx", ap_denominator="R", ties="order", undefined="zero"),
    "recbole": Conventions("recbole", gain="binary", ties="order", undefined="drop"),
    "spark": Conventions("spark", gain="binary", ties="order", undefined="zero"),
}


def choose(profile: str | None, options: Mapping[str, Any]) -> Conventions:
    """The conventions of a profile, changed by the options that are given."""
    profile = "rankql" if profile is None else profile
    if profile not in PROFILES:
        raise RankqlError(
            f"there are no conventions {profile!r}{did_you_mean(str(profile), list(PROFILES))}"
        )
    values = {name: _valid(name, value) for name, value in options.items() if value is not None}
    conventions = replace(PROFILES[profile], **values)
    if profile == "rankql" or conventions == PROFILES[profile]:
        return conventions
    return replace(conventions, profile=f"{profile}, changed")


def option_names() -> list[str]:
    """The options that change a convention."""
    return [field.name for field in fields(Conventions) if field.name != "profile"]


def _valid(name: str, value: Any) -> Any:
    known = option_names()
    if name not in known:
        raise RankqlError(describe_unknown("option", name, known))
    if name == "undefined" and not isinstance(value, bool) and value == 0:
        value = "zero"
    if name in CHOICES:
        require_choice(name, value, *CHOICES[name])
    elif name == "gain":
        return _gain(value)
    elif name == "discounts":
        message = f"discounts must be a list of finite numbers above 0, not {value!r}"
        require(_are_numbers(value) and all(d > 0 for d in value), message)
        return tuple(value)
    elif name == "levels":
        message = f"levels must be a list of grades from 0, not {value!r}"
        require(_are_numbers(value) and all(x >= 0 for x in value), message)
        return tuple(sorted({0.0, *map(float, value)}))
    elif name == "float32":
        require_flag(name, value)
    else:
        {"threshold": THRESHOLD, "max_rel": SCALE}[name].check(value)
    return value


def _gain(value: Any) -> Any:
    if not isinstance(value, Mapping):
        choices = ", ".join(map(repr, GAIN.choices))
        message = f"gain must be {choices} or a dict of grade: gain, not {value!r}"
        require(value in GAIN.choices, message)
        return value
    require(bool(value), "gain must say what each grade is worth; it is an empty dict")
    for grade, gain in value.items():
        message = f"gain must map numbers to numbers, not {grade!r} to {gain!r}"
        require(_are_numbers([grade, gain]), message)
    return dict(value)


def _are_numbers(values: Any) -> bool:
    """Are they a list of finite numbers?"""
    is_list = isinstance(values, list | tuple)
    return is_list and all(math.isfinite(as_number(value)) for value in values)

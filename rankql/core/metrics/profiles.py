"""The tools of `profiles.toml`: their conventions, their names of metrics, and what is refused."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rankql.core.base.errors import RankqlError, parse_number


@dataclass(frozen=True)
class Tool:
    """A tool that prints metrics of rankings; the file explains the fields."""

    version: str
    options: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    call: str = ""


TOOLS = {
    name: Tool(**values)
    for name, values in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}


def tool_of(profile: str) -> Tool:
    """The tool of a profile such as 'beir' or 'beir, changed'."""
    return TOOLS.get(profile.partition(",")[0], TOOLS["rankql"])


@cache
def pattern(name: str) -> re.Pattern[str]:
    """The pattern of a name with {k} for a number."""
    return re.compile(re.escape(name).replace(r"\{k\}", r"(\d+)"))


def entry(values: Mapping[str, Any], name: str, record: str, default: Any = "") -> Any:
    """The value for the metric that was asked for as `name`, else for its record, else for '*'."""
    own = (value for key, value in values.items() if pattern(key).fullmatch(name))
    return next(own, values.get(record, values.get("*", default)))


# A name of CatBoost: a word and its parameters, such as NDCG:top=5;type=Exp.
WITH_PARAMETERS = re.compile(
    r"\s*(?P<name>[A-Za-z]\w*):(?P<options>\w+=[^:;,=<>]+(;\w+=[^:;,=<>]+)*)\s*"
)
# The most positions whose discounts are written in a name.
_MOST_POSITIONS = 1000


def our_name(text: str, profile: str) -> str:
    """A name that means something else under a profile, as ours. '*' is any profile."""
    tools = TOOLS.values() if profile == "*" else [tool_of(profile)]
    for names in (tool.names for tool in tools):
        for theirs, ours in names.items():
            if "=" in theirs.partition(":")[0]:
                continue  # a parameter
            if match := pattern(theirs).fullmatch(text):
                return ours.format(k=match[1] if match.groups() else "")
        if (match := WITH_PARAMETERS.fullmatch(text)) and match["name"] in names:
            return _with_parameters(text, match, names)
    return text


def describe_name(text: str, profile: str = "") -> str:
    """Say which tool has a name that is read under its profile alone, or nothing."""
    match = WITH_PARAMETERS.fullmatch(text)
    theirs = (x for x, tool in TOOLS.items() if any(pattern(n).fullmatch(text) for n in tool.names))
    tool = "catboost" if match else next(theirs, "")
    if not tool:
        return ""
    if match and profile.partition(",")[0] == tool:
        return f"{text!r} is not supported. Expected a metric such as NDCG:top=5;type=Exp"
    package = TOOLS[tool].version.split()[0]
    return f"{text!r} is a name of {package}. Set conventions={tool!r} to read it as {package} does"


def _with_parameters(text: str, match: re.Match[str], names: Mapping[str, str]) -> str:
    """The metric with the parameters of CatBoost."""
    parts = [part.partition("=")[::2] for part in match["options"].split(";")]
    top = dict(parts).get("top", "")
    cutoff, options = f"@{top}" if top else "", []
    for key, value in parts:
        if key == "border":
            # Only grades above it are relevant.
            number = parse_number(value)
            options.append(
                f"rel={math.nextafter(number, math.inf)!r}" if number is not None else "rel="
            )
        elif key not in ("top", "hints"):
            option = names.get(f"{key}={value}")
            if option is None:
                expected = "Expected top, border, type or denominator of CatBoost"
                raise RankqlError(f"{text!r}: {key}={value} is not supported. {expected}")
            if "{positions}" in option:
                if not top.isdecimal() or int(top) > _MOST_POSITIONS:
                    raise RankqlError(f"{text!r} needs a top of at most {_MOST_POSITIONS}")
                option = option.format(positions=", ".join(map(str, range(1, int(top) + 1))))
            options.append(option)
    stem, _, fixed = names[match["name"]].rstrip(")").partition("(")
    listed = ", ".join(filter(None, [fixed, *options]))
    return f"{stem}({listed}){cutoff}" if listed else stem + cutoff

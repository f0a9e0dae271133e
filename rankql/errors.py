"""The errors of rankql."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class RankqlError(ValueError):
    """Wrong use of rankql: what is wrong, and what to do about it."""

    def __init__(self, message: object = "") -> None:
        # polars raises an error inside an expression again, with the expression below the message.
        super().__init__(str(message).partition("\n\nThis error occurred")[0])


# What DuckDB makes of an error that the macro rankql_fail raises.
MACRO_ERROR = "Could not convert string 'rankql: {}' to INT64"
_MACRO_ERROR = re.compile(MACRO_ERROR.format("(.*)"), re.DOTALL)

# The lines in which DuckDB suggests names.
_SUGGESTION = re.compile(r"\s*(Candidate (bindings|tables|functions|macros)\b.*:.|Did you mean )")


def database_message(error: Exception) -> str:
    """Return the message of a DuckDB error on one line.

    It is the message of the macro that failed, or else DuckDB's first line and the names that it
    suggests, without the SQL.
    """
    if match := _MACRO_ERROR.search(str(error)):
        return " ".join(match[1].splitlines())
    first, *further = str(error).splitlines() or [""]
    names = [line.strip() for line in further if _SUGGESTION.match(line)]
    return " ".join([re.sub(r"^[\w ]+ Error: ", "", first), *names])


def name_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Let the TypeError of a call with other arguments name those that there are."""
    parameters = inspect.signature(function)
    names = ", ".join(f"{name}=" for name in [*parameters.parameters][1:])

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        try:
            parameters.bind(*args, **options)
        except TypeError as error:
            takes = f"takes {names}" if names else "takes no arguments. Filter the frame"
            raise TypeError(f"{function.__name__} {takes}: {error}") from None
        return function(*args, **options)

    return call


def find_closest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is most similar to a name, or None."""
    lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return lower[close[0]] if close else None


def did_you_mean(name: object, choices: Sequence[str], likely: str | None = None) -> str:
    """Return the end of an error about an unknown name: the most similar one, then all."""
    likely = likely or find_closest(str(name), choices)
    hint = f" Did you mean {likely!r}?" if likely else ""
    return f".{hint} Available: {', '.join(choices)}" if choices else ". There are none"


def describe_unknown(
    kind: str, name: object, choices: Sequence[str], likely: str | None = None
) -> str:
    """Return an error about an unknown name: the most similar one, then all."""
    return f"Unknown {kind} {name!r}{did_you_mean(name, choices, likely)}."


def require_package(package: str, extra: str, what: str) -> None:
    """Raise an error if a package of an extra is not installed."""
    if not find_spec(package):
        raise RankqlError(f"{what} needs {package}: pip install 'rankql[{extra}]'")

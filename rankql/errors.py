"""The errors of rankql."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec


class RankqlError(ValueError):
    """What is wrong, with which argument or column, and what to do about it."""

    def __init__(self, message: object = "") -> None:
        # polars makes errors raised inside an expression again, with the whole expression below.
        super().__init__(str(message).partition("\n\nThis error occurred")[0])


# How DuckDB words what the macro rankql_fail raises.
_RAISED_BY_MACRO = re.compile(r"Could not convert string 'rankql: (.*)' to INT64", re.DOTALL)

# The lines in which DuckDB suggests names.
_SUGGESTED = re.compile(r"\s*(Candidate (bindings|tables|functions|macros)\b.*:.|Did you mean )")


def database_message(error: Exception) -> str:
    """The message of an error that DuckDB raises: that of our macros, or its own on one line.

    Its own is the first line, with the names that DuckDB suggests, without the SQL.
    """
    ours = _RAISED_BY_MACRO.search(str(error))
    if ours:
        return " ".join(ours[1].splitlines())
    first, *further = str(error).splitlines() or [""]
    names = [line.strip() for line in further if _SUGGESTED.match(line)]
    return " ".join([re.sub(r"^[\w ]+ Error: ", "", first), *names])


def closest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that is most like a name, if one is."""
    lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return lower[close[0]] if close else None


def did_you_mean(name: object, choices: Sequence[str], likely: str | None = None) -> str:
    """The end of an error about an unknown name: the likely one, then all."""
    likely = likely or closest(str(name), choices)
    hint = f"; did you mean {likely}?" if likely else ";"
    return f"{hint} There are: {', '.join(choices)}"


def unknown(kind: str, name: object, choices: Sequence[str]) -> str:
    """An error about an unknown name: the likely one, then all."""
    likely = closest(str(name), choices)
    hint = f" Did you mean {likely!r}?" if likely else ""
    return f"Unknown {kind} {name!r}.{hint} Available: {', '.join(choices)}."


def needs(package: str, extra: str, what: str) -> None:
    """Refuse what a package is needed for that is not installed."""
    if not find_spec(package):
        raise RankqlError(f"{what} needs {package}: pip install 'rankql[{extra}]'")

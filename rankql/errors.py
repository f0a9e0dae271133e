"""The errors of rankql."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from importlib.util import find_spec


class RankqlError(ValueError):
    """What is wrong, with which argument or column, and what to do about it."""


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


def needs(package: str, extra: str, what: str) -> None:
    """Refuse what a package is needed for that is not installed."""
    if not find_spec(package):
        raise RankqlError(f"{what} needs {package}: pip install 'rankql[{extra}]'")

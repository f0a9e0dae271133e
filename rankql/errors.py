"""The errors of rankql."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class RankqlError(ValueError):
    """What is wrong, with which argument or column, and what to do about it."""


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """The end of an error about an unknown name: the likely one, then all."""
    lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    hint = f"; did you mean {lower[close[0]]}?" if close else ";"
    return f"{hint} There are: {', '.join(choices)}"

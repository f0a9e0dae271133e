"""Doors: what opens what core does not know. `rankql.__doors__` names the file that lists them.

A door is a cheap test and a function, as text. Its module is imported when the test holds, so a
tidy evaluation imports none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import rankql


class Door(NamedTuple):
    """A test of what core has at hand, and what is behind it: module:name within rankql."""

    applies: Callable[..., Any]
    place: str

    def load(self) -> Any:
        """What is behind the door, whose module is imported."""
        module, _, name = self.place.partition(":")
        return getattr(import_module(f"rankql.{module}"), name)

    def open(self, *arguments: Any, **options: Any) -> Any:
        """Call the function behind the door."""
        return self.load()(*arguments, **options)


_LISTED = import_module(rankql.__doors__)
# The doors with a test, in order, by what they are for; and the places of functions that core calls
# where it has decided itself.
DOORS = {name: tuple(Door(*each) for each in doors) for name, doors in _LISTED.DOORS.items()}
FUNCTIONS: Mapping[str, str] = _LISTED.FUNCTIONS


def find_door(name: str, *arguments: Any) -> Door | None:
    """The first door for this whose test holds."""
    return next((door for door in DOORS[name] if door.applies(*arguments)), None)


def call_extra(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function that core has decided to call."""
    return Door(bool, FUNCTIONS[name]).open(*arguments, **options)

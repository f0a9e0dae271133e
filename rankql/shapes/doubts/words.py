"""Grades that are words: which calls map them to numbers."""

from __future__ import annotations

from collections.abc import Sequence

from rankql.core.base.column_names import words_of
from rankql.core.base.errors import Call

# Words of scales with two values, and those that say that an item is not relevant.
_YES = {"yes", "y", "true", "t", "relevant", "rel", "good", "correct", "accepted", "accept", "pass"}
_YES |= {"positive", "pos", "hired", "clicked", "supported", "helpful", "match"}
_NO = {"no", "n", "false", "f", "irrelevant", "bad", "incorrect", "rejected", "reject", "fail"}
_NO |= {"negative", "neg", "none", "wrong", "poor", "unrelated", "unsupported", "off", "against"}
_NOT = {"not", "non", "no", "never", "un"}


def says_no(word: str) -> bool:
    """Does a word say that an item is not relevant?"""
    return word.strip().lower() in _NO or not words_of(word).isdisjoint(_NOT)


def map_words(name: str, words: Sequence[str]) -> tuple[list[Call], list[Call]]:
    """Calls that map the words of a column to grades: of a known scale, or with blanks to fill in.

    The first are calls, the second lack the grades.
    """
    yes = [x for x in words if x.strip().lower() in _YES]
    if len(words) == 2 and len(yes) == 1 and any(map(says_no, words)):
        return [{"rel": (name, {x: int(x in yes) for x in words})}], []
    return [], [{"rel": (name, dict.fromkeys(words, ...))}]


def are_graded(words: Sequence[str]) -> bool:
    """Are words more than a mark on what is relevant: a scale, or with one that says no?"""
    return len(words) > 2 or any(map(says_no, words))

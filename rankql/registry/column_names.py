"""The names of columns that identify a ranking, and how names are compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from rankql.errors import RankqlError

# Ids of queries, their texts, topics, sessions and users: the first that a table has is its key.
KEYS = (
    ("query_id", "qid", "q_id", "question_id"),
    ("query", "question", "user_input", "query_text"),
    ("topic",),
    ("session", "session_id"),
    (*("user", "user_id", "uid"), *("customer", "customer_id", "visitor", "visitor_id")),
)


@cache
def squash(name: str) -> str:
    """A name without case, '-', '_' and blanks, in which recognised names are compared."""
    return re.sub(r"[-_\s]", "", name.lower())


def find_key(columns: Sequence[str]) -> str:
    """The column that identifies the ranking. Ask for it if two have the same rank, or none."""
    for names in KEYS:
        known = [column for column in columns if squash(column) in map(squash, names)]
        if len(known) > 1:
            raise RankqlError(
                f"{' and '.join(known)} may both identify the ranking. Pass by={known[0]!r}, the "
                "other one, or a list of both"
            )
        if known:
            return known[0]
    expected = ", ".join(name for names in KEYS for name in names)
    raise RankqlError(
        f"No column identifies the ranking: expected one of {expected}. Found: "
        f"{', '.join(columns)}. Pass by='...', or by=None if the table is one ranking"
    )

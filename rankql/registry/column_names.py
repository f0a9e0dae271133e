"""The names of columns that are recognised, and how names are compared."""

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
# The roles of columns, each with the names that are recognised, the likeliest first.
ROLES = {
    # Next to an id, `query` is its text. In PyTerrier, `docid` is an internal number.
    "query": tuple(name for names in KEYS for name in names),
    "item": (
        *("item", "item_id", "doc", "doc_id", "docno", "docid", "document", "document_id"),
        *("product", "product_id", "iid", "corpus_id", "passage_id", "pid", "chunk_id"),
        *("movie_id", "book_id", "track_id", "sku", "asin"),
        *("passage", "chunk", "movie", "book", "track"),
    ),
    "rel": ("rel", "relevance", "grade", "label", "judgment", "judgement", "rating"),
    "pos": ("pos", "position", "rank", "doc_position"),
    "score": ("score", "similarity", "sim", "prediction", "pred", "distance", "dist"),
}
_IDS = ("_ids", "_doc_ids", "_document_ids", "_context_ids", "_chunk_ids", "_node_ids", "_item_ids")
_ENDS = (*_IDS, "", "_docs", "_documents", "_chunks", "_nodes", "_items")
# The names of lists that are recognised, the likeliest first.
RETRIEVED = [name + end for name in ("retrieved", "recommended", "ranked") for end in _ENDS]
RELEVANT = [
    name + end for name in ("relevant", "expected", "reference", "ground_truth", "gold")
    for end in _ENDS
]  # fmt: skip
# The names of a question or its id; next to them, `topic` or `user` is an attribute.
QUESTIONS = ("query_id", "qid", "q_id", "question_id", "query", "question", "user_input")
# Names of scores of which the lowest is best, unless the caller says otherwise.
DISTANCES = ("distance", "dist")


@cache
def squash(name: str) -> str:
    """A name without case, '-', '_' and blanks, in which recognised names are compared."""
    return re.sub(r"[-_\s]", "", name.lower())


# All recognised names.
COLUMN_NAMES = {squash(name) for names in ROLES.values() for name in names}


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

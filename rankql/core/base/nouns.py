"""The nouns of queries, items and systems, from which columns get their roles.

The name of a column is a noun and an optional word of identity: hotel, hotel_id, hotelUuid.
docs/reference/columns.md has the same table.
"""

from __future__ import annotations

# Words after a noun that make it an id; of a noun of one letter only the first: q_id.
IDENTITY = ("id", "key", "uuid", "code", "ref")
# Words that may make it one: the number of a session is an attribute of a user.
NUMBERING = ("no", "nr", "num", "number")
# What stands for queries. Names in one line have equal rank; ids of questions stand before texts.
QUESTIONS = ("query", "question", "prompt")
USERS = (
    *("user", "customer", "visitor", "member", "client", "listener", "viewer", "account"),
    *("subscriber", "buyer", "shopper", "reader", "household"),
)
# They may be of a row, and are sought only if nothing else is. An impression may be a count.
REQUESTS = ("search", "request", "visit", "srch", "impression")
# What stands for items, the likeliest first.
ITEMS = (
    *("item", "doc", "document", "product", "corpus", "passage", "chunk"),
    *("movie", "book", "track", "article"),
)
# These are items with a word of identity, or if nothing else can be: pages, ads and news are
# attributes too.
OTHER_ITEMS = (
    *("prod", "song", "hotel", "prop", "listing", "offer", "recipe", "game", "business", "venue"),
    *("ad", "post", "video", "news", "paper", "page", "url", "candidate"),
)
# What stands for systems: never a query, and an item only with a word of identity if nothing else
# can be.
SYSTEMS = (
    *("system", "run", "ranker", "algorithm", "model", "variant", "tag", "method", "config"),
    *("retriever", "engine", "pipeline", "strategy", "arm", "adapter"),
)
_NOUNS = {
    *(*QUESTIONS, *USERS, *REQUESTS, "topic", "session", "group"),
    *(*ITEMS, *OTHER_ITEMS, *SYSTEMS),
}


def ids_of(nouns: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of some nouns."""
    return tuple(f"{noun}_id" for noun in nouns)


def with_ids(nouns: tuple[str, ...]) -> tuple[str, ...]:
    """The nouns, each with its id."""
    return tuple(name for noun in nouns for name in (noun, f"{noun}_id"))


def as_id(name: str) -> str:
    """A squashed name with id for another word of identity: docuuid is docid."""
    noun = next((name.removesuffix(x) for x in IDENTITY[1:] if name.endswith(x)), "")
    return f"{noun}id" if noun in _NOUNS else name

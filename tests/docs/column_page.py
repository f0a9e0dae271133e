"""docs/reference/columns.md, whose table has the names that are recognised."""

import doc_tables
from rankql.core.base import column_names, nouns
from support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "columns.md"


def rows():
    """What a column may be, and its names, the likeliest first."""
    yield "a query: its id before its text", nouns.QUESTIONS
    yield "else, in this order", ("topic", "session", *nouns.USERS, "group")
    yield "a query, if nothing better is there", nouns.REQUESTS
    yield "an item", nouns.ITEMS
    yield "an item under exactly this name", ("docno", "iid", "pid", "sku", "asin")
    yield "an item with a word of identity, or if nothing else can be", nouns.OTHER_ITEMS
    yield "a system, never a query", nouns.SYSTEMS
    yield "a word of identity, after a noun", nouns.IDENTITY
    for role, title in (("rel", "a grade"), ("pos", "a position"), ("score", "a score")):
        yield title, column_names.ROLES[role]
    for role, names in column_names.WEAKER.items():
        title = {"query": "a query", "rel": "a grade", "pos": "a position", "score": "a score"}
        yield f"{title[role]}, if no column has one of the above", names
    yield (
        "a list of retrieved ids, also with _ids, _docs, _items",
        ("retrieved", "recommended", "ranked"),
    )
    yield (
        "a list of relevant ids, also with _ids, _docs, _items",
        (*("relevant", "expected", "reference", "ground_truth", "gold", "retrieval_gt"),),
    )
    for side, title in (("run", "retrieved"), ("qrels", "relevant")):
        names = column_names.WEAKER_LISTS[side]
        yield f"a list of {title} ids, if no column has one of the above", names
    yield "a list of grades next to relevant ids", column_names.LIST_GRADES
    yield "a list of scores next to retrieved ids", column_names.LIST_SCORES
    yield "text that rel= maps to grades", column_names.EVENTS
    yield "who gave a label", column_names.ANNOTATORS
    yield "the part of a split log", column_names.SPLITS


def with_table():
    """The page with its table as it is now."""
    lines = ["| what it may be | names |", "|---|---|"]
    lines += [f"| {title} | {', '.join(names)} |" for title, names in rows()]
    return doc_tables.with_table(PAGE, "columns", "\n".join(lines))

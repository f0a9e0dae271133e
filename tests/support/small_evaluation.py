"""A small evaluation that other engines repeat, and what makes its result the same."""

from dataclasses import replace

import polars as pl
from polars.testing import assert_frame_equal

RUN = pl.DataFrame(
    {
        "query": ["a", "a", "b", "c", "c", "z"],
        "item": ["x", "y", "x", "x", "y", "q"],
        "score": [2.0, 1.0, 1.0, 3.0, 3.0, 1.0],
        "hour": [1, 1, 2, 1, 1, 3],
    }
)
QRELS = pl.DataFrame(
    {"query": ["a", "a", "b", "c", "d"], "item": ["y", "w", "x", "y", "x"], "rel": [1, 3, 0, 2, 1]}
)


def assert_alike(ours, theirs):
    """The same result: values to 1e-12, types, conventions, columns, notes."""
    values = theirs.collect() if hasattr(theirs, "collect") else theirs
    for one, other in ((ours.per_query, values.per_query), (ours.summary, theirs.summary)):
        assert_frame_equal(one, other, check_exact=False, abs_tol=1e-12, rel_tol=0)
    # Rows have no order in Spark, so systems have none. Tables are not hashed there.
    here, there = (replace(x.meta, systems=[], tables={}, call={}) for x in (ours, theirs))
    assert here == there
    assert ours.columns == theirs.columns
    # Spark does not look for users with several queries, nor at values in judgments.
    unseen = ("are not independent", "has no worst value", "nothing relevant: ")
    # Nor does it look at the rows of rankings.
    unseen += ("of different relevance", "in reverse order", "at position 1", "spelled differently")
    here, there = (
        [x for x in each.notes if not any(y in x for y in unseen)] for each in (ours, theirs)
    )
    assert here == there

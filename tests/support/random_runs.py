"""A random run with judgments, its values and attributes of its queries."""

import polars as pl
from polars.testing import assert_frame_equal

import rankql
from support import other_tools

METRICS = ["nDCG@10", "AP", "RR", "P@5", "R@10", "ERR(max_rel=3)@10", "RBP(p=0.8)"]


def data(seed=1, **kinds):
    """A run and judgments as frames."""
    return other_tools.frames(*other_tools.random_data(seed, **kinds))


RUN, QRELS = data()
EXPECTED = rankql.evaluate(RUN, QRELS, METRICS).per_query


def same(left, right):
    """Equal to 1e-12: threads may add up in any order."""
    assert_frame_equal(left, right, abs_tol=1e-12, rel_tol=0)


def joined():
    """One ranked table of the judged queries, as the plain macros take it."""
    both = RUN.join(QRELS, on=["query", "item"], how="full", coalesce=True)
    return both.filter(pl.col("query").is_in(QRELS["query"].unique().to_list()))


def with_segments():
    """Attributes of the queries: segment, NULL for some, and device."""
    queries = QRELS.select("query").unique(maintain_order=True).with_row_index("i")
    return queries.select(
        "query",
        segment=pl.when(pl.col("i") % 5 > 0).then(pl.format("s{}", pl.col("i") % 3)),
        device=pl.when(pl.col("i") % 2 == 0).then(pl.lit("phone")).otherwise(pl.lit("desk")),
    )

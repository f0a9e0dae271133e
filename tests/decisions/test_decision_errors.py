"""What compare, gate, judges and queries_needed refuse, by cases/refusals.toml."""

import polars as pl

import rankql
from support.judged_runs import simulated
from support.refusals import refuses

RUN = pl.DataFrame({"query": [*"aabb"], "item": [*"xyxy"], "score": [2.0, 1, 2, 1]})
QRELS = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "rel": [1, 1]})
RUNS = {"old": RUN, "new": RUN}
RESULT = rankql.evaluate(RUN, QRELS, "AP")
JUDGED, HUMAN, JUDGE, _ = simulated()
CORRECTED = rankql.evaluate(JUDGED, HUMAN, "AP", judge=JUDGE)


def values(queries="abc", name="AP", numbers=(0.1, 0.3, 0.4), **columns):
    """One row per query, as a result in a table."""
    frame = {"query": [*queries], name: [*numbers][: len(queries)], **columns}
    return rankql.read_values(pl.DataFrame(frame, strict=False))


GOOD = values(segment=["x", "x", "y"])
FLAT = RUN.select("query", "item", pos=pl.lit([1, 2, 1, 2]).explode(), rel=1)

test_compare = refuses("compare", globals(), "rankql.%s", light=9)
test_gate = refuses("gate", globals(), "rankql.%s", light=10)
test_queries_needed = refuses("queries_needed", globals(), "rankql.%s", light=4)
test_judges = refuses("judges", globals(), "rankql.%s")

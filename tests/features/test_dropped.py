"""Items that do not count as shown: the query itself, and those below a score."""

import random

import polars as pl
import pytest
import pytrec_eval

import rankql
from rankql import RankqlError
from support.parameters import few
from support.refusals import refuses

METRICS = ["ndcg_cut_10", "map", "recip_rank", "P_5", "recall_10"]


def duplicates(seed=3, queries=60):
    """As of ArguAna: each query is an item too, which most rankings have at the top."""
    rng = random.Random(seed)
    run, qrels = {}, {}
    for query in range(queries):
        items = rng.sample(range(queries), 25)
        scores = {f"d{item}": rng.choice([0.2, 0.4, 0.5, rng.random()]) for item in items}
        if rng.random() < 0.9:
            scores[f"d{query}"] = 1.0
        run[f"d{query}"] = scores
        qrels[f"d{query}"] = {f"d{rng.randrange(queries)}": 1, f"d{(query + 1) % queries}": 1}
    return run, qrels


def frame(data, value):
    rows = [(query, item, x) for query, items in data.items() for item, x in items.items()]
    return pl.DataFrame(rows, ["query", "item", value], orient="row")


@few(1)("form", ["scores", "positions", "one table"])
def test_identical_ids_are_ignored_as_by_pytrec_eval_without_them(form):
    run, qrels = duplicates()
    without = {q: {item: x for item, x in items.items() if item != q} for q, items in run.items()}
    expected = pytrec_eval.RelevanceEvaluator(qrels, {*METRICS}).evaluate(without)
    data, judged = frame(run, "score"), frame(qrels, "rel")
    if form != "scores":
        data = data.pipe(rankql.ranked).drop("score")
    if form == "one table":
        data, judged = data.join(judged, on=["query", "item"], how="full", coalesce=True), None
    result = rankql.evaluate(data, judged, METRICS, ignore_identical_ids=True)
    assert len(expected) == len(run)
    for row in result.per_query.iter_rows(named=True):
        for metric in METRICS:
            assert row[metric] == pytest.approx(expected[row["query"]][metric], abs=1e-12)
    (note,) = [note for note in result.notes if note.startswith("ignore_identical_ids")]
    dropped = sum(query in items for query, items in run.items())
    assert note.startswith(f"ignore_identical_ids: {dropped} of {len(frame(run, 'score')):,} items")
    with_them = rankql.evaluate(data, judged, METRICS)
    assert with_them["recip_rank"] != result["recip_rank"]


@pytest.mark.slow
def test_the_option_is_one_of_all_functions():
    run, qrels = (
        frame(data, name) for data, name in zip(duplicates(), ("score", "rel"), strict=True)
    )
    option = {"ignore_identical_ids": True}
    result = rankql.evaluate(run, qrels, "RR", **option)
    comparison = rankql.compare({"a": run, "b": run}, qrels, "RR", **option)
    assert comparison.summary["mean"].to_list() == [result["RR"]] * 2
    gate = rankql.gate(run, qrels, minimum="RR>=0.1", **option)
    assert gate.table["mean"].to_list() == [result["RR"]]
    explained = rankql.explain(run, qrels, "d1", "RR", **option).value
    assert explained == pytest.approx(result.per_query.filter(query="d1")["RR"][0])
    assert rankql.check(run, qrels, **option).ok
    parts = [data.with_columns(part=1) for data in (run, qrels)]
    with pytest.raises(RankqlError, match="needs one column of each"):
        rankql.evaluate(*parts, "RR", query=["query", "part"], **option)
    with pytest.raises(RankqlError, match="ignore_identical_ids must be true or false, not 1"):
        rankql.evaluate(run, qrels, "RR", ignore_identical_ids=1)


RUN = pl.DataFrame({
    "query": [*"aabbc"], "item": [*"xyxzx"], "score": [0.9, 0.2, 0.3, 0.1, 0.8],
})  # fmt: skip
# b has nothing relevant, d is missing.
QRELS = pl.DataFrame({"query": [*"abcd"], "item": [*"yzxx"], "rel": [1, 0, 1, 1]})
NAMES = ["RR", "FalseAnswer", "FalseAbstention"]


@few(2)("form", ["scores", "distances", "positions", "system"])
@pytest.mark.parametrize(
    ("least", "expected"),
    [
        (0.25, {"a": (0, None, 0), "b": (None, 1, None), "c": (1, None, 0), "d": (0, None, 1)}),
        (0.85, {"a": (0, None, 0), "b": (None, 0, None), "c": (0, None, 1), "d": (0, None, 1)}),
        (5, {"a": (0, None, 1), "b": (None, 0, None), "c": (0, None, 1), "d": (0, None, 1)}),
    ],
)
def test_items_below_a_score_are_not_shown(least, expected, form):
    """A query without any stays in the run, and positions of the rest stay."""
    data, options = RUN, {}
    if form == "distances":
        data, least = RUN.select("query", "item", distance=-pl.col("score")), -least
    elif form == "positions":
        data, options = RUN.pipe(rankql.ranked), {"pos": "pos"}
    elif form == "system":
        data = pl.concat([RUN.with_columns(system=pl.lit(name)) for name in ("m", "n")])
        options, least = {"system": "system"}, {"m": least}
    result = rankql.evaluate(data, QRELS, NAMES, min_score=least, interval=None, **options)
    values = result.per_query
    if form == "system":
        rest = values.filter(system="n").drop("system")
        assert {row[0]: row[1:] for row in rest.rows()}["a"] == (0.5, None, 0)
        values = values.filter(system="m").drop("system")
    assert {row[0]: row[1:] for row in values.rows()} == expected
    assert result.summary["missing"].unique().to_list() == [1]


test_a_wrong_score_is_refused = refuses("min_score", globals(), "rankql.%s")

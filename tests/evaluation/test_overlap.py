"""Queries and items that only one table has."""

import polars as pl
import pytest

import rankql
from support.random_runs import QRELS, RUN


def test_examples_of_queries_that_are_not_judged_differ():
    with pytest.raises(rankql.RankqlError, match="qrels has 'q0'"):
        rankql.evaluate(RUN, QRELS.with_columns(query=pl.lit("q0")))


@pytest.mark.slow
def test_runs_of_one_of_many_judged_queries():
    """Also if the sample of queries, in which items in common are counted, does not have it."""
    qrels = pl.DataFrame({"query": range(3000), "item": ["a"] * 3000, "rel": [1] * 3000})
    for query in range(8):
        run = pl.DataFrame({"query": [query], "item": ["a"], "score": [1.0]})
        assert rankql.evaluate(run, qrels, "RR", missing="skip", interval=None)["RR"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "every"), [(3000, 25), (30, 1), (999, 25)])
def test_few_items_in_common_are_noted(queries, every, tmp_path):
    """One item in `every` is judged, one query is not. Of many queries, only some are compared."""
    ids = pl.DataFrame({"query": [f"{{it's}} {i}" for i in range(5000)]})
    items = ids.join(pl.DataFrame({"item": range(25)}), how="cross")
    shift = pl.when(pl.col("item") % every > 0).then(25).otherwise(0)
    qrels = items.with_columns(pl.col("item") + shift, rel=1)
    unjudged = items.head(1).with_columns(query=pl.lit("other"))
    run = pl.concat([items.head(queries * 25), unjudged]).with_columns(score=1.0)
    run.write_parquet(tmp_path / "run.parquet")
    systems = pl.concat([run.with_columns(system=pl.lit(name)) for name in "AB"])
    for data, options in ((run, {}), (systems, {"system": "system"}), (tmp_path, {})):
        result = rankql.evaluate(data, qrels, "RR", interval=None, **options)
        notes = [note for note in result.notes if "Only" in note]
        assert len(notes) == (1 + len(options) if every == 25 else 0)


@pytest.mark.parametrize(("sampled", "noted"), [(9, True), (1, False)])
def test_a_sample_of_which_few_items_are_judged_is_noted(sampled, noted):
    grades = {"x": 1, "y": 0} | {f"d{i}": -1 for i in range(sampled)}
    run = {"a": [*grades]}
    for profile in ("rankql", "trec_eval"):
        result = rankql.evaluate(run, {"a": grades}, "infAP", interval=None, conventions=profile)
        assert any("sampled items are judged" in note for note in result.notes) == noted

"""Queries and items that only one table has."""

import polars as pl
import pytest

import rankql
from rankql.evaluation import overlap
from rankql.evaluation.overlap import item_overlap
from support.random_runs import QRELS, RUN


def test_examples_of_queries_that_are_not_judged_differ():
    others = QRELS.with_columns(query=pl.lit("q0"))
    with pytest.raises(rankql.RankqlError, match=r"qrels has 'q0'\. Write"):
        rankql.evaluate(RUN, others.unique("query"))
    with pytest.raises(rankql.RankqlError, match=r"qrels has 'q0'\. Write"):
        rankql.evaluate(RUN, others)


def test_runs_of_one_of_many_judged_queries():
    """Also if the sample of queries, in which items in common are counted, does not have it."""
    qrels = pl.DataFrame({"query": range(3000), "item": ["a"] * 3000, "rel": [1] * 3000})
    for query in range(8):
        run = pl.DataFrame({"query": [query], "item": ["a"], "score": [1.0]})
        assert rankql.evaluate(run, qrels, "RR", missing="skip", interval=None)["RR"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queries", "every", "samples"),
    [
        (30, 1, [""]),
        (999, 50, [""]),
        (3000, 1, ["= ANY"]),
        (2500, 3, ["= ANY", "% 3 = 0"]),
        (3000, 10, ["= ANY", "% 4 = 0"]),
        (3000, 50, ["= ANY", "% 4 = 0", ""]),
    ],
)
def test_items_are_compared_in_some_of_many_queries_first(
    monkeypatch, tmp_path, queries, every, samples
):
    """The run lacks some judged queries, and has one that is not. One item in `every` is judged."""
    compared = []

    def counted(run_sql, inputs, part=""):
        counts = item_overlap(run_sql, inputs, part)
        compared.append(part.partition("{query}")[2].strip(" )").partition("(")[0])
        if "ANY" in part:  # each is counted
            assert all(items == 100 * 5 for _, items, *_ in counts)
        return counts

    monkeypatch.setattr(overlap, "item_overlap", counted)
    ids = pl.DataFrame({"query": [f"{{it's}} {i}" for i in range(5000)]})
    items = ids.join(pl.DataFrame({"item": range(100)}), how="cross")
    shift = pl.when(pl.col("item") % every > 0).then(100).otherwise(0)
    qrels = items.with_columns(pl.col("item") + shift, rel=1)
    unjudged = items.head(1).with_columns(query=pl.lit("other"))
    run = pl.concat([items.head(queries * 100), unjudged]).with_columns(score=1.0)
    systems = pl.concat([run.with_columns(system=pl.lit(name)) for name in "AB"])
    files = {"run": run, "systems": systems, "qrels": qrels}
    for name, frame in files.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
    for name, options in (("run", {}), ("systems", {"system": "system"})):
        sources = [tmp_path / f"{file}.parquet" for file in (name, "qrels")]
        for tables, read in (
            (sources, samples),
            ((files[name], qrels), samples[samples[0] == "= ANY" :]),
        ):
            compared.clear()
            result = rankql.evaluate(*tables, "RR", interval=None, **options)
            assert compared == (read or ["% 4 = 0"])
            assert any("Only" in note for note in result.notes) == (every == 50)

"""Queries that a run lacks are a slice of their own, not that of a real NULL."""

import polars as pl
import pytest

import rankql

RUN = pl.DataFrame(
    [(f"q{q}", f"d{i}", 9.0 - i, None if q == 1 else ["us", "de"][q % 2])
     for q in range(6) for i in range(3)],
    ["query", "item", "score", "market"], orient="row",
)  # fmt: skip
QRELS = pl.DataFrame({"query": [f"q{q}" for q in range(8)], "item": "d1", "rel": 1})


@pytest.mark.parametrize("runs", [RUN, {"a": RUN, "b": RUN}])
def test_missing_queries_are_a_slice_of_their_own(runs, tmp_path):
    result = rankql.evaluate(runs, QRELS, "nDCG@3", by="market", missing="zero")
    queries = dict(result.means.select("slice", "queries").rows())
    assert queries == {
        "all": 8, "market=(missing)": 2, "market=de": 2, "market=us": 3, "market=NULL": 1
    }  # fmt: skip
    assert set(result.wide().table.to_series().to_list()) >= {"market=(missing)"} or runs is not RUN
    assert "(missing)" in repr(result.wide())
    result.save(tmp_path / "means.json")
    assert "market=(missing)" in (tmp_path / "means.json").read_text()


def test_a_gate_names_the_slice():
    verdict = rankql.gate(RUN, QRELS, minimum="nDCG@3>=0.1", by="market")
    assert "market=(missing)" in repr(verdict)


def test_other_attributes_are_left_as_they_are():
    """Numbers stay numbers, and a table of attributes says what a missing query has."""
    run = RUN.with_columns(week=pl.lit(3)).drop("market")
    assert rankql.evaluate(run, QRELS, "RR", by="week").per_query["week"].null_count() == 2
    about = QRELS.select("query", market=pl.lit("us"))
    result = rankql.evaluate(RUN.drop("market"), QRELS, "RR", by="market", attributes=about)
    assert result.means["slice"].to_list() == ["all", "market=us"]

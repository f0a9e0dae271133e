"""Values per query as evaluators and their clients return them are read with the right query."""

import pandas as pd
import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import few

VALUES = {"q1": {"map": 0.5, "ndcg": 0.25}, "q2": {"map": 1.0, "ndcg": 0.75}}


class Measure:
    """A measure of ir_measures 0.4.3, which prints its name."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


class Metric:
    """A value of ir_measures.iter_calc 0.4.3."""

    def __init__(self, query_id, measure, value):
        self.query_id, self.measure, self.value = query_id, Measure(measure), value


def test_an_unnamed_index_has_the_queries():
    """pd.DataFrame(results).T of pytrec_eval 0.5.11."""
    result = rankql.read_values(pd.DataFrame(VALUES).T)
    assert (result["map"], result["ndcg"]) == (0.75, 0.5)
    assert result.per_query["query"].to_list() == ["q1", "q2"]
    with pytest.raises(RankqlError, match="No query column in values"):
        rankql.read_values(pd.DataFrame([*VALUES.values()]))


def test_values_of_iter_calc():
    rows = [Metric(q, name, value) for q, of in VALUES.items() for name, value in of.items()]
    for data in (rows, iter(rows)):
        result = rankql.read_values(data)
        assert (result["map"], result["ndcg"]) == (0.75, 0.5)


@few(1)("frame", [list, pl.DataFrame, pd.DataFrame])
def test_fields_of_objects(frame):
    """As promptfoo 0.119 writes them."""
    rows = [
        {"vars": {"q": q}, "metric_dict": {"mrr": {"score": of["map"]}}, "note.x": 1}
        for q, of in VALUES.items()
    ]
    named = {"query": "vars.q", "metrics": ["metric_dict.mrr.score"]}
    assert rankql.read_values(frame(rows), **named)["metric_dict.mrr.score"] == 0.75


APPS = pd.DataFrame(
    {
        "app_name": ["a", "a", "b", "b"],
        "record_id": ["r1", "r2", "r3", "r4"],
        "input": ["x", "y", "x", "y"],
        "ts": pd.to_datetime(["2026-01-01"] * 4),
        "relevance": [0.1, 0.3, 0.6, 0.8],
    }
)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["app_name", "app_id", "model", "experiment"])
def test_apps_are_systems(name):
    """Records of TruLens 2.16: two apps were one mean."""
    table = APPS.rename(columns={"app_name": name})
    result = rankql.read_values(table, metrics="relevance")
    assert result.summary["mean"].to_list() == pytest.approx([0.2, 0.7])
    assert rankql.compare(result).pairs["difference"].to_list() == pytest.approx([0.5])
    with pytest.raises(
        RankqlError, match=f"{name} may name systems.\n\nPass:\n    system='{name}'"
    ):
        rankql.read_values(table.drop(columns="input"), metrics="relevance")
    alone = table[:2].drop(columns="input")
    assert rankql.read_values(alone, metrics="relevance")["relevance"] == pytest.approx(0.2)
